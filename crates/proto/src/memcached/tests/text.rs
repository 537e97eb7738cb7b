//! The text protocol, line for line.

use super::{LIMITS, answers, failure, item, long_keys, only, parse_pieces};
use crate::memcached::{
    Administration, Arithmetic, Delete, Expiry, Failure, Form, Item, ItemValue, Operation,
    ParseStatus, Parser, Response, Store, StoreMode,
};

fn operation(stream: &[u8]) -> Operation<'_> {
    only(stream).operation
}

fn store(stream: &[u8]) -> Store<'_> {
    match operation(stream) {
        Operation::Store(store) => store,
        other => panic!("{other:?} stores nothing"),
    }
}

#[test]
fn values_are_stored_under_conditions() {
    let modes = [
        ("set", StoreMode::Set),
        ("add", StoreMode::Add),
        ("replace", StoreMode::Replace),
        ("append", StoreMode::Append),
        ("prepend", StoreMode::Prepend),
    ];
    for (name, mode) in modes {
        let stream = format!("{name} key 4294967295 -1 4\r\n\r\n\r\n\r\n");
        let store = store(stream.as_bytes());
        assert_eq!((store.mode, store.key.text()), (mode, &b"key"[..]));
        assert_eq!((store.flags, store.expiry), (u32::MAX, Expiry(-1)));
        assert_eq!((store.value, store.compare), (&b"\r\n\r\n"[..], None));
    }
    let store = store(b"cas key 0 0 0 18446744073709551615 noreply\r\n\r\n");
    assert_eq!((store.compare, store.value), (Some(u64::MAX), &b""[..]));
    let form = only(b"cas key 0 0 0 1 noreply\r\n\r\n").form;
    assert_eq!(form, Form::Text { with_cas: false, quiet: true });
}

#[test]
fn lines_that_are_no_requests() {
    let long = &long_keys()[1];
    let long_get = [b"get a ", &long[..], b"\r\n"].concat();
    let long_set = [b"set ", &long[..], b" 0 0 1\r\n"].concat();
    let usage = Failure::Client("bad command line format.  Usage: delete <key> [noreply]");
    let table: &[(&[u8], Failure<'_>)] = &[
        (b"\r\n", Failure::Unknown),
        (b"   \n", Failure::Unknown),
        (b"GET a\r\n", Failure::Unknown),
        (b"get\r\n", Failure::Unknown),
        (b"get  \r\n", Failure::Unknown),
        (&long_get, Failure::BadFormat),
        (&long_set, Failure::BadFormat),
        (b"set a 0 0\r\n", Failure::Unknown),
        (b"set a 0 0 1 noreply x\r\n", Failure::Unknown),
        (b"set a x 0 1\r\n", Failure::BadFormat),
        (b"set a -1 0 1\r\n", Failure::BadFormat),
        (b"set a 0 0 99999999999\r\n", Failure::BadFormat),
        (b"set a 0 0 -1\r\n", Failure::BadFormat),
        (b"cas a 0 0 1\r\n", Failure::Unknown),
        (b"cas a 0 0 1 x\r\n", Failure::BadFormat),
        (b"incr a\r\n", Failure::Unknown),
        (b"incr a x\r\n", Failure::Client("invalid numeric delta argument")),
        (b"touch a x\r\n", Failure::Client("invalid exptime argument")),
        (b"gat x a\r\n", Failure::Client("invalid exptime argument")),
        (b"gat\r\n", Failure::Unknown),
        (b"incr a 1 2 3\r\n", Failure::Unknown),
        (b"touch a 1 2 3\r\n", Failure::Unknown),
        (b"flush_all 1 2 3\r\n", Failure::Unknown),
        (b"flush_all noreply 1\r\n", Failure::Client("invalid exptime argument")),
        (b"verbosity x\r\n", Failure::BadFormat),
        (b"delete\r\n", Failure::Unknown),
        (b"delete a 1\r\n", usage),
        (b"delete a 0 noreply x\r\n", Failure::Unknown),
        (b"flush_all x\r\n", Failure::Client("invalid exptime argument")),
        (b"lru_crawlers\r\n", Failure::Unknown),
        (b"mx a\r\n", Failure::Unknown),
        (b"verbosity\r\n", Failure::Unknown),
    ];
    for (stream, expected) in table {
        assert_eq!(failure(stream), *expected, "{:?}", String::from_utf8_lossy(stream));
    }
}

/// H123: blanks in plenty, lone line feeds, arguments that are not there.
#[test]
fn odd_lines_are_read_as_they_are() {
    for line in [&b"get    a    b  \r\n"[..], b"  get a b\n", b"get a b\r\n"] {
        let Operation::Retrieve(retrieve) = operation(line) else { panic!("a retrieval") };
        let keys: Vec<&[u8]> = retrieve.keys.map(|key| key.text()).collect();
        assert_eq!(keys, [b"a", b"b"]);
    }
    // A key may hold any byte but a blank and line ends.
    let Operation::Retrieve(mut retrieve) = operation(b"get \x00\t\xff\r\n") else {
        panic!("a retrieval")
    };
    assert_eq!(retrieve.keys.next().map(|key| key.text()), Some(&b"\x00\t\xff"[..]));
    let Operation::Administer(Administration::Lru, words) = operation(b"lru\r\n") else {
        panic!("administration")
    };
    assert!(words.is_empty());
}

#[test]
fn the_rest_of_the_commands() {
    let quiet = |stream: &[u8]| only(stream).form == Form::Text { with_cas: false, quiet: true };
    for line in [&b"delete a\r\n"[..], b"delete a 0\r\n"] {
        assert!(matches!(operation(line), Operation::Delete(Delete { empties: false, .. })));
        assert!(!quiet(line));
    }
    for line in [&b"delete a noreply\r\n"[..], b"delete a 0 noreply\r\n", b"incr a 1 noreply\r\n"] {
        assert!(quiet(line));
    }
    let expected = (true, u64::MAX);
    let Operation::Arithmetic(Arithmetic { decrements, delta, initial: None, .. }) =
        operation(b"decr a 18446744073709551615\r\n")
    else {
        panic!("arithmetic")
    };
    assert_eq!((decrements, delta), expected);
    assert_eq!(operation(b"flush_all\r\n"), Operation::Flush(Expiry::NEVER));
    assert_eq!(operation(b"flush_all noreply\r\n"), Operation::Flush(Expiry::NEVER));
    assert_eq!(operation(b"flush_all 10 noreply\r\n"), Operation::Flush(Expiry(10)));
    assert_eq!(operation(b"version\r\n"), Operation::Version);
    assert_eq!(operation(b"verbosity 1\r\n"), Operation::Verbosity);
    assert!(matches!(operation(b"touch a 5\r\n"), Operation::Touch { expiry: Expiry(5), .. }));
    let Operation::Retrieve(retrieve) = operation(b"gats 7 a b\r\n") else { panic!("retrieval") };
    assert_eq!((retrieve.touch, retrieve.keys.count()), (Some(Expiry(7)), 2));
    let Operation::Statistics(mut words) = operation(b"stats items\r\n") else { panic!("stats") };
    assert_eq!(words.next(), Some(&b"items"[..]));
}

/// A value that is too large is not looked at, however long it takes to come.
#[test]
fn large_values_are_skipped() {
    let stream = [b"set a 0 0 5000 noreply\r\n", &[b'x'; 5000][..], b"\r\nget a\r\n"].concat();
    let mut parser = Parser::default();
    let ParseStatus::Complete { request, consumed } = parser.advance(&stream[..30], &LIMITS) else {
        panic!("the line is enough");
    };
    let Operation::Refuse(refusal) = request.operation else { panic!("refused") };
    assert_eq!(refusal.failure, Failure::TooLarge);
    assert_eq!(refusal.removes.map(|key| key.text()), Some(&b"a"[..]));
    let rest = &stream[consumed..];
    assert_eq!(parser.advance(&rest[..6], &LIMITS), ParseStatus::Skipped { consumed: 6 });
    assert_eq!(parser.advance(&[], &LIMITS), ParseStatus::Incomplete { wanted: 4996 });
    assert_eq!(parser.advance(&rest[6..], &LIMITS), ParseStatus::Skipped { consumed: 4996 });
    let ParseStatus::Complete { request, .. } = parser.advance(&rest[5002..], &LIMITS) else {
        panic!("the stream goes on");
    };
    assert!(matches!(request.operation, Operation::Retrieve(_)));
    assert_eq!(parse_pieces(stream.chunks(7)).requests.len(), 2);
}

#[test]
fn values_must_end_where_they_say() {
    let mut parser = Parser::default();
    let stream = b"set a 0 0 3\r\nabcdef\r\nversion\r\n";
    let ParseStatus::Complete { request, consumed } = parser.advance(stream, &LIMITS) else {
        panic!("all of it is there");
    };
    let Operation::Refuse(refusal) = request.operation else { panic!("refused") };
    assert_eq!(refusal.failure, Failure::Client("bad data chunk"));
    assert!(matches!(parser.advance(&stream[consumed..], &LIMITS), ParseStatus::Complete { .. }));
}

#[test]
fn answers_are_lines() {
    let table: Vec<(&[u8], Response<'static>, &[u8])> = vec![
        (b"set a 0 0 0\r\n\r\n", Response::Stored { cas: 3, size: 0 }, b"STORED\r\n"),
        (b"set a 0 0 0\r\n\r\n", Response::NotStored, b"NOT_STORED\r\n"),
        (b"cas a 0 0 0 1\r\n\r\n", Response::Exists, b"EXISTS\r\n"),
        (b"cas a 0 0 0 1\r\n\r\n", Response::NotFound, b"NOT_FOUND\r\n"),
        (b"set a 0 0 0 noreply\r\n\r\n", Response::Stored { cas: 3, size: 0 }, b""),
        (b"delete a\r\n", Response::Deleted, b"DELETED\r\n"),
        (b"touch a 0\r\n", Response::Touched, b"TOUCHED\r\n"),
        (b"version\r\n", Response::Version(b"1.6.18"), b"VERSION 1.6.18\r\n"),
        (b"flush_all\r\n", Response::Ok, b"OK\r\n"),
        (b"quit\r\n", Response::Ok, b""),
        (b"stats\r\n", Response::Statistic { name: b"pid", value: b"1" }, b"STAT pid 1\r\n"),
        (b"stats\r\n", Response::End, b"END\r\n"),
        (b"stats reset\r\n", Response::Line(b"RESET"), b"RESET\r\n"),
        (
            b"set a 0 0 0\r\n\r\n",
            Response::Failed(Failure::OutOfMemory),
            b"SERVER_ERROR out of memory storing object\r\n",
        ),
        (b"set a 0 0 0 noreply\r\n\r\n", Response::Failed(Failure::OutOfMemory), b""),
        (b"gat 1\r\n", Response::End, b"END\r\n"),
        (b"x noreply\r\n", Response::Failed(Failure::Unknown), b"ERROR\r\n"),
    ];
    for (stream, response, expected) in table {
        let told = answers(stream, [response]);
        assert_eq!(told, expected, "{:?}", String::from_utf8_lossy(stream));
    }
    let big = Item { value: ItemValue::Shared(Box::new(vec![b'v'; 10_000])), ..item() };
    let told = answers(
        b"gets key a key\r\n",
        [Response::Hit(item()), Response::Miss, Response::Hit(big), Response::End],
    );
    let value = "v".repeat(10_000);
    let expected =
        format!("VALUE key 5 5 12\r\nvalue\r\nVALUE key 5 10000 12\r\n{value}\r\nEND\r\n");
    assert_eq!(told, expected.as_bytes());
    let told = answers(b"get key\r\n", [Response::Hit(item()), Response::End]);
    assert_eq!(told, b"VALUE key 5 5\r\nvalue\r\nEND\r\n");
}
