//! The meta protocol, flag for flag.

use super::{LIMITS, answers, failure, item, only, parse_pieces};
use crate::memcached::{
    Arithmetic, Delete, Expiry, Failure, Item, KEY_LENGTH_MAX, Number, Operation, ParseStatus,
    Parser, Response, Retrieve, Store, StoreMode,
};

fn operation(stream: &[u8]) -> Operation<'_> {
    only(stream).operation
}

#[test]
fn flags_say_what_is_done() {
    let Operation::Retrieve(get) = operation(b"mg key v h T-1 N30 R20 E9 P1 L2\r\n") else {
        panic!("a retrieval")
    };
    let expected = Retrieve {
        can_win: true,
        touch: Some(Expiry(-1)),
        vivify: Some(Expiry(30)),
        recache: Some(20),
        new_cas: Some(9),
        shows_access: true,
        shows_value: true,
        ..get
    };
    assert_eq!(get, expected);
    let Operation::Store(store) = operation(b"ms key 2 F7 T9 C11 E12 I N5 MA\r\nab\r\n") else {
        panic!("a store")
    };
    let expected = Store {
        mode: StoreMode::Append,
        value: b"ab",
        flags: 7,
        expiry: Expiry(9),
        compare: Some(11),
        new_cas: Some(12),
        invalidates: true,
        vivify: Some(Expiry(5)),
        ..store
    };
    assert_eq!(store, expected);
    let Operation::Delete(delete) = operation(b"md key I T30 C4 E5 x\r\n") else {
        panic!("a deletion")
    };
    let expected = Delete {
        compare: Some(4),
        new_cas: Some(5),
        invalidates: true,
        expiry: Some(Expiry(30)),
        empties: true,
        ..delete
    };
    assert_eq!(delete, expected);
    let Operation::Arithmetic(arithmetic) = operation(b"ma key MD D5 J7 T30 N60 C4\r\n") else {
        panic!("arithmetic")
    };
    let expected = Arithmetic {
        decrements: true,
        delta: 5,
        initial: Some((7, Expiry(60))),
        touch: Some(Expiry(30)),
        compare: Some(4),
        ..arithmetic
    };
    assert_eq!(arithmetic, expected);
    let Operation::Arithmetic(plain) = operation(b"ma key J7\r\n") else { panic!("arithmetic") };
    assert_eq!((plain.delta, plain.decrements, plain.initial), (1, false, None));
    let Operation::Retrieve(get) = operation(b"mg key N30 T40\r\n") else { panic!("a retrieval") };
    assert_eq!((get.touch, get.vivify), (Some(Expiry(40)), Some(Expiry(40))), "the later holds");
    assert!(matches!(operation(b"me key\r\n"), Operation::Inspect(_)));
    assert_eq!(operation(b"mn\r\n"), Operation::Nothing);
}

#[test]
fn keys_in_base64_are_decoded() {
    let key = operation(b"mg AAEC b v\r\n").key().expect("a key");
    assert_eq!(key.bytes(&mut [0; KEY_LENGTH_MAX]), [0, 1, 2]);
    assert_eq!(failure(b"mg AAE b v\r\n"), Failure::Client("error decoding key"));
    assert_eq!(failure(b"me AAE b\r\n"), Failure::BadFormat);
    for stream in [&b"mg AAEC b k\r\n"[..], b"mg AAEC k b\r\n"] {
        assert_eq!(answers(stream, [Response::Hit(item())]), b"HD kAAEC b\r\n");
    }
    assert_eq!(answers(b"mg AAEC b\r\n", [Response::Hit(item())]), b"HD\r\n");
}

#[test]
fn what_is_no_request_is_refused_with_its_value() {
    let long = format!("O{}", "o".repeat(32));
    let long_key = "k".repeat(251);
    let table = [
        ("mg", Failure::Unknown),
        ("ms", Failure::Unknown),
        ("me", Failure::BadFormat),
        (&format!("mg {long_key} v"), Failure::BadFormat),
        ("mg key !", Failure::Client("invalid flag")),
        ("mg key v v", Failure::Client("duplicate flag")),
        ("mg key Tx", Failure::Client("bad token in command line format")),
        ("mg key T", Failure::Client("bad token in command line format")),
        ("mg key F", Failure::BadFormat),
        ("mg key D", Failure::Client("invalid numeric delta value")),
        (&format!("mg key {long}"), Failure::Client("opaque token too long")),
        ("ms key", Failure::BadFormat),
        ("ms key x", Failure::BadFormat),
        ("ms key -1", Failure::BadFormat),
        (&format!("ms {long_key} 1"), Failure::BadFormat),
        ("ms key 2 F-1", Failure::BadFormat),
        ("ms key 2 M", Failure::Client("incorrect length for M token")),
        ("ms key 2 Fx M", Failure::Client("incorrect length for M token")),
        ("ms key 2 M?", Failure::Client("invalid mode for ms M token")),
        ("ms key 1025", Failure::TooLarge),
        ("ma key M?", Failure::Client("invalid mode for ma M token")),
        ("ma key Dx", Failure::Client("invalid or duplicate flag")),
        ("md key v v", Failure::Client("invalid or duplicate flag")),
        (&format!("md key {long}"), Failure::Client("opaque token too long")),
    ];
    for (line, expected) in table {
        assert_eq!(failure(format!("{line}\r\n").as_bytes()), expected, "{line}");
    }
    // The value of a refused line is not taken for a request.
    let mut parser = Parser::default();
    let stream = b"ms key 4 !\r\nmn\r\n\r\nmn\r\n";
    let ParseStatus::Complete { consumed, .. } = parser.advance(stream, &LIMITS) else {
        panic!("refused")
    };
    assert_eq!(parser.advance(&stream[consumed..], &LIMITS), ParseStatus::Skipped { consumed: 6 });
    assert_eq!(parse_pieces([&stream[..]].into_iter()).requests.len(), 2);
}

#[test]
fn answers_hold_what_was_asked_for_in_its_order() {
    let hit = |item| vec![Response::Hit(item), Response::End];
    let won = Item { won: true, stale: true, ..item() };
    let taken = Item { taken: true, stale: true, ttl_s: None, ..item() };
    let number = Number { value: 10, cas: 4, ttl_s: None, is_new: false };
    let table: Vec<(&[u8], Vec<Response<'static>>, &[u8])> = vec![
        (b"mg key\r\n", hit(item()), b"HD\r\n"),
        (b"mg key s v\r\n", hit(item()), b"VA 5 s5\r\nvalue\r\n"),
        (
            b"mg key t f c s l h k Oabc v\r\n",
            hit(item()),
            b"VA 5 t90 f5 c12 s5 l3 h1 kkey Oabc\r\nvalue\r\n",
        ),
        (b"mg key c\r\n", hit(won), b"HD c12 X W\r\n"),
        (b"mg key t\r\n", hit(taken), b"HD t-1 Z X\r\n"),
        (b"mg key v\r\n", vec![Response::Miss, Response::End], b"EN\r\n"),
        (b"mg key v k Ox\r\n", vec![Response::Miss, Response::End], b"EN kkey Ox\r\n"),
        (b"mg key v q\r\n", vec![Response::Miss, Response::End], b""),
        (b"mg key q\r\n", hit(item()), b"HD\r\n"),
        (b"ms key 0 c Ox\r\n\r\n", vec![Response::Stored { cas: 7, size: 5 }], b"HD c7 Ox\r\n"),
        (b"ms key 0 s c\r\n\r\n", vec![Response::Stored { cas: 7, size: 5 }], b"HD s5 c7\r\n"),
        (b"ms key 0 s\r\n\r\n", vec![Response::NotStored], b"NS\r\n"),
        (b"ms key 0 q\r\n\r\n", vec![Response::Stored { cas: 7, size: 5 }], b""),
        (b"ms key 0 q\r\n\r\n", vec![Response::NotStored], b"NS\r\n"),
        (b"ms key 0 k c\r\n\r\n", vec![Response::Exists], b"EX kkey c0\r\n"),
        (b"md key\r\n", vec![Response::Deleted], b"HD\r\n"),
        (b"md key q\r\n", vec![Response::NotFound], b"NF\r\n"),
        (b"md key q\r\n", vec![Response::Deleted], b""),
        (b"md key q\r\n", vec![Response::Exists], b"EX\r\n"),
        (b"ma key\r\n", vec![Response::Number(number)], b"HD\r\n"),
        (b"ma key q v\r\n", vec![Response::Number(number)], b""),
        (
            b"ma key q v N0\r\n",
            vec![Response::Number(Number { is_new: true, ..number })],
            b"VA 2\r\n10\r\n",
        ),
        (b"ma key q\r\n", vec![Response::NotFound], b"NF\r\n"),
        (b"ma key t c v\r\n", vec![Response::Number(number)], b"VA 2 t-1 c4\r\n10\r\n"),
        (b"me key\r\n", vec![Response::Inspected(b"exp=-1 la=0")], b"ME key exp=-1 la=0\r\n"),
        (b"me key\r\n", vec![Response::Miss], b"EN\r\n"),
        (b"mn\r\n", vec![Response::Ok], b"MN\r\n"),
    ];
    for (stream, responses, expected) in table {
        let told = answers(stream, responses);
        assert_eq!(told, expected, "{:?}", String::from_utf8_lossy(stream));
    }
}
