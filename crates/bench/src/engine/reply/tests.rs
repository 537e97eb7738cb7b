//! The scanner against a table, against `proto`'s parser, and against noise.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::{prop_assert, prop_assert_eq};
use proto::value::{ReplyError, ReplyLimits, ReplyParser, Value};

use super::{Nature, Reply, Scanner};
use crate::workload::ReplyKind;

/// Everything in `stream`, given in pieces that end at `cuts`, with the text of each reply.
fn scan_all(stream: &[u8], cuts: &[usize]) -> Result<Vec<(Reply, Vec<u8>)>, ReplyError> {
    let mut scanner = Scanner::new(true);
    let mut found = Vec::new();
    let mut start = 0;
    for end in cuts.iter().copied().chain([stream.len()]) {
        let mut piece = &stream[start..end];
        start = end;
        while let Some(reply) = scanner.scan(&mut piece)? {
            found.push((reply, scanner.text().to_vec()));
        }
        assert!(piece.is_empty(), "what is incomplete is taken whole");
    }
    Ok(found)
}

fn reply(nature: Nature, hits: u32, misses: u32, bytes: usize) -> Reply {
    Reply { nature, hits, misses, bytes: bytes as u64 }
}

#[test]
fn an_empty_part_of_a_string_is_none() {
    for (stream, kind, nature) in [
        ("$0\r\n\r\n", ReplyKind::ReadPart, Nature::Null),
        ("$0\r\n\r\n", ReplyKind::Read, Nature::Value),
        ("$1\r\na\r\n", ReplyKind::ReadPart, Nature::Value),
        ("$-1\r\n", ReplyKind::ReadPart, Nature::Null),
        ("-ERR\r\n", ReplyKind::ReadPart, Nature::Error),
    ] {
        let replies = scan_all(stream.as_bytes(), &[]).expect("well-formed");
        assert_eq!(replies[0].0.as_answer_to(kind).nature, nature, "{stream:?} {kind:?}");
    }
}

#[test]
fn every_type_is_told_apart() {
    for (stream, nature, hits, misses, text) in [
        ("+OK\r\n", Nature::Value, 0, 0, ""),
        ("-ERR no\r\n", Nature::Error, 0, 0, "ERR no"),
        ("!9\r\nERR\r\nblob\r\n", Nature::Error, 0, 0, "ERR\r\nblob"),
        (":-12\r\n", Nature::Value, 0, 0, ""),
        ("$4\r\na\r\nb\r\n", Nature::Value, 0, 0, "a\r\nb"),
        ("$0\r\n\r\n", Nature::Value, 0, 0, ""),
        ("$-1\r\n", Nature::Null, 0, 0, ""),
        ("*-1\r\n", Nature::Null, 0, 0, ""),
        ("_\r\n", Nature::Null, 0, 0, ""),
        ("#f\r\n", Nature::Value, 0, 0, ""),
        (",-inf\r\n", Nature::Value, 0, 0, ""),
        ("(-123\r\n", Nature::Value, 0, 0, ""),
        ("=7\r\ntxt:abc\r\n", Nature::Value, 0, 0, "txt:abc"),
        ("*0\r\n", Nature::Value, 0, 0, ""),
        ("*3\r\n$1\r\na\r\n$-1\r\n_\r\n", Nature::Value, 1, 2, ""),
        ("*2\r\n*2\r\n_\r\n_\r\n-ERR\r\n", Nature::Value, 2, 0, "ERR"),
        ("%1\r\n+a\r\n*2\r\n_\r\n:1\r\n", Nature::Value, 2, 0, ""),
        ("~1\r\n:1\r\n", Nature::Value, 1, 0, ""),
        (">2\r\n+invalidate\r\n_\r\n>0\r\n$-1\r\n", Nature::Null, 0, 0, ""),
        ("|1\r\n+a\r\n_\r\n:3\r\n", Nature::Value, 0, 0, ""),
        ("*1\r\n|1\r\n+a\r\n_\r\n_\r\n", Nature::Value, 0, 1, ""),
        ("|0\r\n$1\r\nx\r\n", Nature::Value, 0, 0, "x"),
    ] {
        let found = scan_all(stream.as_bytes(), &[]);
        let (first, kept) = found.expect(stream).pop().expect(stream);
        assert_eq!(first, reply(nature, hits, misses, stream.len()), "{stream:?}");
        if nature == Nature::Error || hits + misses == 0 {
            assert_eq!(kept, text.as_bytes(), "{stream:?}");
        }
    }
}

#[test]
fn a_hostile_stream_is_an_error() {
    let deep = "*1\r\n".repeat(100);
    let long = format!("+{}", "x".repeat(100_000));
    for (stream, error) in [
        ("?\r\n", ReplyError::UnknownType(b'?')),
        ("\r\n", ReplyError::LineEnd),
        ("+OK\n", ReplyError::LineEnd),
        ("+O\rK\r\n", ReplyError::LineEnd),
        (":\r\n", ReplyError::Malformed),
        (":x\r\n", ReplyError::Malformed),
        ("$-2\r\n", ReplyError::Malformed),
        ("$18446744073709551615\r\n", ReplyError::Malformed),
        ("$1\r\nab\r\n", ReplyError::LineEnd),
        ("$1\r\na\rx", ReplyError::LineEnd),
        ("*18446744073709551616\r\n", ReplyError::Malformed),
        ("%18446744073709551615\r\n", ReplyError::TooMany),
        ("*1\r\n>1\r\n", ReplyError::Malformed),
        ("_x\r\n", ReplyError::Malformed),
        ("#y\r\n", ReplyError::Malformed),
        (",1.2.3\r\n", ReplyError::Malformed),
        ("(-\r\n", ReplyError::Malformed),
        (&deep, ReplyError::TooDeep),
        (&long, ReplyError::LineTooLong),
    ] {
        assert_eq!(scan_all(stream.as_bytes(), &[]), Err(error), "{stream:.20?}");
        let every: Vec<usize> = (1..stream.len()).collect();
        assert_eq!(scan_all(stream.as_bytes(), &every), Err(error), "{stream:.20?} by bytes");
    }
}

#[test]
fn a_declared_length_allocates_nothing() {
    let mut scanner = Scanner::new(true);
    let mut input = &b"*9223372036854775807\r\n$9223372036854775807\r\nabc"[..];
    assert_eq!(scanner.scan(&mut input), Ok(None));
    assert!(scanner.text.capacity() < 1024 && scanner.open.capacity() < 1024);
}

#[test]
fn a_cut_at_any_byte_changes_nothing() {
    let stream =
        b"+OK\r\n$5\r\nab\r\nc\r\n|1\r\n+k\r\n+v\r\n*2\r\n$-1\r\n%1\r\n:1\r\n_\r\n-MOVED 1 a:1\r\n\
        >1\r\n+push\r\n$0\r\n\r\n!3\r\nERR\r\n$-1\r\n";
    let whole = scan_all(stream, &[]).expect("the stream is valid");
    assert_eq!(whole.len(), 7);
    for cut in 0..=stream.len() {
        assert_eq!(scan_all(stream, &[cut]).as_ref(), Ok(&whole), "cut at {cut}");
    }
    let every: Vec<usize> = (1..stream.len()).collect();
    assert_eq!(scan_all(stream, &every), Ok(whole));
}

/// Any reply, as bytes.
fn replies() -> impl Strategy<Value = Vec<u8>> {
    let string = |mark: &'static str| {
        vec(any::<u8>(), 0..20).prop_map(move |body| {
            [format!("{mark}{}\r\n", body.len()).as_bytes(), &body, b"\r\n"].concat()
        })
    };
    let leaf = prop_oneof![
        Just(&b"+OK\r\n"[..]).prop_map(<[u8]>::to_vec),
        Just(&b"-ERR what\r\n"[..]).prop_map(<[u8]>::to_vec),
        Just(&b"$-1\r\n"[..]).prop_map(<[u8]>::to_vec),
        Just(&b"*-1\r\n"[..]).prop_map(<[u8]>::to_vec),
        Just(&b"_\r\n"[..]).prop_map(<[u8]>::to_vec),
        any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
        any::<bool>().prop_map(|yes| format!("#{}\r\n", if yes { 't' } else { 'f' }).into_bytes()),
        string("$"),
        string("!"),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        (prop_oneof![Just(('*', 1)), Just(('~', 1)), Just(('%', 2))], vec(inner, 0..6)).prop_map(
            |((mark, each), mut items)| {
                items.truncate(items.len() / each * each);
                let head = format!("{mark}{}\r\n", items.len() / each).into_bytes();
                [head, items.concat()].concat()
            },
        )
    })
}

/// What the scanner should say of a value that `proto`'s parser built.
fn expected(value: &Value) -> (Nature, u32, u32) {
    let count = |items: &mut dyn Iterator<Item = &Value>| {
        let nulls = |value: &&Value| matches!(value, Value::Null | Value::NullArray);
        let (misses, hits): (Vec<&Value>, Vec<&Value>) = items.partition(nulls);
        (Nature::Value, hits.len() as u32, misses.len() as u32)
    };
    match value {
        Value::Error(_) => (Nature::Error, 0, 0),
        Value::Null | Value::NullArray => (Nature::Null, 0, 0),
        Value::Array(items) | Value::Set(items) => count(&mut items.iter()),
        Value::Map(pairs) => count(&mut pairs.iter().flat_map(|(key, value)| [key, value])),
        _ => (Nature::Value, 0, 0),
    }
}

proptest! {
    #[test]
    fn the_scanner_agrees_with_the_parser_of_values(
        items in vec(replies(), 1..6),
        cuts in vec(any::<proptest::sample::Index>(), 0..8),
    ) {
        let stream = items.concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len())).collect();
        cuts.sort_unstable();
        let found = scan_all(&stream, &cuts).expect("valid replies");
        prop_assert_eq!(found.len(), items.len());
        for (item, (reply, text)) in items.iter().zip(found) {
            let mut parser = ReplyParser::new(ReplyLimits::default());
            parser.feed(item);
            let value = parser.next_reply().expect("valid").expect("complete");
            prop_assert_eq!((reply.nature, reply.hits, reply.misses), expected(&value));
            prop_assert_eq!(reply.bytes, item.len() as u64);
            if let Value::Bulk(body) | Value::Error(body) = value {
                prop_assert_eq!(text, body);
            }
        }
    }

    #[test]
    fn noise_neither_panics_nor_depends_on_the_cuts(
        noise in vec(prop_oneof![Just(b'*'), Just(b'$'), Just(b'1'), Just(b'\r'), Just(b'\n'),
            Just(b'>'), Just(b'|'), Just(b'-'), Just(b'_'), any::<u8>()], 1..60),
        cut in any::<proptest::sample::Index>(),
    ) {
        let whole = scan_all(&noise, &[]);
        let parts = scan_all(&noise, &[cut.index(noise.len())]);
        prop_assert!(whole == parts);
    }
}
