//! The binary protocol, packet for packet.

use super::{LIMITS, answers, failure, item, long_keys, only, parse_pieces};
use crate::memcached::{
    Arithmetic, Delete, Expiry, Failure, Number, Operation, ParseStatus, Parser, Response, Store,
    StoreMode,
};

/// A request with an opaque of 7 and a CAS value of 9.
pub(super) fn packet(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = extras.len() + key.len() + value.len();
    lying_packet(opcode, extras.len(), key.len(), body, &[extras, key, value].concat())
}

fn lying_packet(opcode: u8, extras: usize, key: usize, body: usize, bytes: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x80, opcode];
    packet.extend_from_slice(&(key as u16).to_be_bytes());
    packet.extend_from_slice(&[extras as u8, 0, 0, 0]);
    packet.extend_from_slice(&(body as u32).to_be_bytes());
    packet.extend_from_slice(&7_u32.to_be_bytes());
    packet.extend_from_slice(&9_u64.to_be_bytes());
    packet.extend_from_slice(bytes);
    packet
}

/// A response with an opaque of 7.
fn reply(opcode: u8, status: u16, cas: u64, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = extras.len() + key.len() + value.len();
    let mut packet = vec![0x81, opcode];
    packet.extend_from_slice(&(key.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[extras.len() as u8, 0]);
    packet.extend_from_slice(&status.to_be_bytes());
    packet.extend_from_slice(&(body as u32).to_be_bytes());
    packet.extend_from_slice(&7_u32.to_be_bytes());
    packet.extend_from_slice(&cas.to_be_bytes());
    packet.extend_from_slice(&[extras, key, value].concat());
    packet
}

#[test]
fn packets_say_what_is_done() {
    let set = packet(0x01, &[0, 0, 0, 5, 0, 0, 0, 60], b"key", b"value");
    let Operation::Store(store) = only(&set).operation else { panic!("a store") };
    let expected = Store {
        mode: StoreMode::Set,
        value: b"value",
        flags: 5,
        expiry: Expiry(60),
        compare: Some(9),
        ..store
    };
    assert_eq!((store, store.key.text()), (expected, &b"key"[..]));
    let add = packet(0x02, &[0; 8], b"key", b"");
    let Operation::Store(add) = only(&add).operation else { panic!("a store") };
    assert_eq!((add.mode, add.compare), (StoreMode::Set, Some(9)), "the CAS value decides");
    let append = packet(0x19, b"", b"key", b"");
    let Operation::Store(store) = only(&append).operation else { panic!("a store") };
    assert_eq!((store.mode, store.value), (StoreMode::Append, &b""[..]));
    let extras = [&5_u64.to_be_bytes()[..], &6_u64.to_be_bytes(), &[0, 0, 0, 9]].concat();
    let decrement = packet(0x06, &extras, b"key", b"");
    let Operation::Arithmetic(arithmetic) = only(&decrement).operation else { panic!("numbers") };
    let expected =
        Arithmetic { decrements: true, delta: 5, initial: Some((6, Expiry(9))), ..arithmetic };
    assert_eq!(arithmetic, expected);
    let extras = [&[0; 16][..], &[0xff; 4]].concat();
    let increment = packet(0x05, &extras, b"key", b"");
    let Operation::Arithmetic(arithmetic) = only(&increment).operation else { panic!("numbers") };
    assert_eq!(arithmetic.initial, None);
    let touch = packet(0x1c, &[0, 0, 0, 9], b"key", b"");
    let Operation::Retrieve(touch) = only(&touch).operation else { panic!("a retrieval") };
    assert_eq!((touch.touch, touch.shows_value), (Some(Expiry(9)), false));
    let delete = packet(0x04, b"", b"key", b"");
    let Operation::Delete(Delete { compare, .. }) = only(&delete).operation else {
        panic!("a deletion")
    };
    assert_eq!(compare, Some(9));
    let plain = packet(0x21, b"", b"PLAIN", b"\0user\0password");
    let expected = Operation::Authenticate {
        mechanism: b"PLAIN",
        data: b"\0user\0password",
        continued: false,
    };
    assert_eq!(only(&plain).operation, expected);
    assert_eq!(only(&packet(0x08, b"", b"", b"")).operation, Operation::Flush(Expiry::NEVER));
    assert_eq!(only(&packet(0x08, &[0, 0, 0, 2], b"", b"")).operation, Operation::Flush(Expiry(2)));
    assert_eq!(only(&packet(0x0a, b"", b"", b"")).operation, Operation::Nothing);
}

/// H120: lengths that contradict each other, or what the command takes.
#[test]
fn packets_that_lie_are_refused_by_their_header() {
    let [_, long] = long_keys();
    let table = [
        (lying_packet(0x00, 0, 10, 3, b"key"), Failure::Unknown, true),
        (lying_packet(0x01, 255, 3, 8, b""), Failure::Unknown, true),
        (lying_packet(0x00, 0, 0xffff, 0x8000_0000, b""), Failure::Invalid, true),
        (lying_packet(0x00, 0, 3, 0x8000_0000, b"key"), Failure::Invalid, true),
        (packet(0x00, b"", &long, b""), Failure::Invalid, true),
        (packet(0x00, b"", b"", b""), Failure::Invalid, true),
        (packet(0x01, b"", b"key", b"value"), Failure::Invalid, true),
        (packet(0x05, &[0; 8], b"key", b""), Failure::Invalid, true),
        (packet(0x21, b"", b"", b"data"), Failure::Invalid, true),
        (packet(0x30, b"", b"key", b""), Failure::Unknown, false),
        (lying_packet(0xff, 0, 0, 0xffff_ffff, b"abc"), Failure::Unknown, false),
        (lying_packet(0x01, 8, 3, 0xffff_ffff, &[0; 11]), Failure::TooLarge, false),
        (lying_packet(0x21, 0, 5, 0xffff_ffff, b"PLAIN"), Failure::TooLarge, false),
    ];
    for (packet, expected, closes) in table {
        let outcome = parse_pieces([&packet[..]].into_iter());
        assert_eq!(outcome.requests.len(), 1);
        assert_eq!(outcome.end == super::End::Closed, closes, "{packet:x?}");
        assert_eq!(failure(&packet), expected, "{packet:x?}");
    }
}

#[test]
fn large_values_are_skipped_behind_their_key() {
    let large = packet(0x11, &[0; 8], b"key", &[b'x'; 2000]);
    let mut parser = Parser::default();
    assert_eq!(parser.advance(&large[..30], &LIMITS), ParseStatus::Incomplete { wanted: 5 });
    let ParseStatus::Complete { request, consumed } = parser.advance(&large, &LIMITS) else {
        panic!("its head is there");
    };
    let Operation::Refuse(refusal) = request.operation else { panic!("refused") };
    assert_eq!(refusal.removes.map(|key| key.text()), Some(&b"key"[..]));
    assert_eq!((refusal.failure, consumed), (Failure::TooLarge, 35));
    assert_eq!(parser.advance(&large[35..], &LIMITS), ParseStatus::Skipped { consumed: 2000 });
    let noop = packet(0x0a, b"", b"", b"");
    assert!(matches!(parser.advance(&noop, &LIMITS), ParseStatus::Complete { .. }));
    assert_eq!(parser.advance(b"get a\r\n", &LIMITS), ParseStatus::Broken);
}

#[test]
fn answers_are_packets() {
    let hit = || Response::Hit(item());
    let flags = &[0, 0, 0, 5];
    let extras = |opcode: u8| -> &'static [u8] {
        match opcode {
            0x00..=0x0d if !matches!(opcode, 0x01..=0x03 | 0x05 | 0x06) => b"",
            0x01..=0x03 | 0x11..=0x13 => &[0; 8],
            0x05 | 0x06 | 0x15 => &[0; 20],
            0x1c..=0x1e | 0x23 | 0x24 => &[0; 4],
            _ => b"",
        }
    };
    let told = |opcode: u8, response: Response<'static>| {
        answers(&packet(opcode, extras(opcode), b"key", b""), [response])
    };
    assert_eq!(told(0x00, hit()), reply(0x00, 0, 12, flags, b"", b"value"));
    assert_eq!(told(0x09, hit()), reply(0x09, 0, 12, flags, b"", b"value"));
    assert_eq!(told(0x0c, hit()), reply(0x0c, 0, 12, flags, b"key", b"value"));
    assert_eq!(told(0x1c, hit()), reply(0x1c, 0, 12, flags, b"", b""));
    assert_eq!(told(0x00, Response::Miss), reply(0x00, 1, 0, b"", b"", b"Not found"));
    assert_eq!(told(0x0c, Response::Miss), reply(0x0c, 1, 0, b"", b"key", b""));
    assert_eq!(told(0x00, Response::End), b"");
    for quiet in [0x09, 0x0d, 0x1e, 0x24] {
        assert_eq!(told(quiet, Response::Miss), b"");
    }
    assert_eq!(told(0x01, Response::Stored { cas: 3, size: 0 }), reply(0x01, 0, 3, b"", b"", b""));
    assert_eq!(told(0x11, Response::Stored { cas: 3, size: 0 }), b"");
    let exists = b"Data exists for key.";
    assert_eq!(told(0x12, Response::NotStored), reply(0x12, 2, 0, b"", b"", exists));
    assert_eq!(told(0x11, Response::Exists), reply(0x11, 2, 0, b"", b"", exists));
    assert_eq!(told(0x03, Response::NotStored), reply(0x03, 1, 0, b"", b"", b"Not found"));
    assert_eq!(told(0x0e, Response::NotStored), reply(0x0e, 5, 0, b"", b"", b"Not stored."));
    assert_eq!(told(0x14, Response::Deleted), b"");
    assert_eq!(told(0x14, Response::NotFound), reply(0x14, 1, 0, b"", b"", b"Not found"));
    let number = Number { value: 258, cas: 4, ttl_s: None, is_new: false };
    let eight = [0, 0, 0, 0, 0, 0, 1, 2];
    assert_eq!(told(0x05, Response::Number(number)), reply(0x05, 0, 4, b"", b"", &eight));
    assert_eq!(told(0x15, Response::Number(number)), b"");
    let figure = Response::Statistic { name: b"pid", value: b"1" };
    assert_eq!(told(0x10, figure), reply(0x10, 0, 0, b"", b"pid", b"1"));
    assert_eq!(told(0x10, Response::End), reply(0x10, 0, 0, b"", b"", b""));
    let failed = Response::Failed(Failure::AuthenticationFailed);
    assert_eq!(told(0x21, failed), reply(0x21, 0x20, 0, b"", b"", b"Auth failure."));
    let failed = Response::Failed(Failure::OutOfMemory);
    assert_eq!(told(0x11, failed), reply(0x11, 0x82, 0, b"", b"", b"Out of memory"));
}
