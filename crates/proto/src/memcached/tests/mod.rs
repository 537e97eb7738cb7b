//! What the three codecs have in common: streams, their cuts, and what is refused.

mod binary;
mod meta;
mod text;

use proptest::prelude::{Strategy, any, prop, prop_oneof};
use proptest::sample::Index;
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::{
    Dialect, Failure, Item, ItemLimits, ItemValue, KEY_LENGTH_MAX, Operation, ParseStatus, Parser,
    Refusal, Request, Response, answer,
};
use crate::output::Output;

const LIMITS: ItemLimits = ItemLimits { value: 1024, is_strict: false };

/// What a stream holds, as text so that it outlives the buffer.
#[derive(Debug, PartialEq)]
struct Outcome {
    requests: Vec<String>,
    end: End,
}

#[derive(Debug, PartialEq)]
enum End {
    /// So many bytes are part of a request, or were skipped as part of one.
    Bytes(usize),
    Closed,
    Broken,
}

/// Parses a stream that arrives in pieces, as a session does.
fn parse_pieces<'p>(pieces: impl Iterator<Item = &'p [u8]>) -> Outcome {
    let mut parser = Parser::default();
    let mut buffer: Vec<u8> = Vec::new();
    let mut requests = Vec::new();
    let mut skipped = 0;
    for piece in pieces {
        buffer.extend_from_slice(piece);
        let mut start = 0;
        loop {
            let before = parser;
            let rest = &buffer[start..];
            match parser.advance(rest, &LIMITS) {
                ParseStatus::Incomplete { wanted } => {
                    assert!(wanted > 0);
                    break;
                }
                ParseStatus::Skipped { consumed } => {
                    skipped += consumed;
                    start += consumed;
                }
                ParseStatus::Complete { request, consumed } => {
                    skipped = 0;
                    let mut again = before;
                    let expected = ParseStatus::Complete { request, consumed };
                    assert_eq!(again.advance(rest, &LIMITS), expected, "a copy parses the same");
                    assert_eq!(again, parser);
                    requests.push(format!("{request:?}"));
                    start += consumed;
                    if let Operation::Refuse(Refusal { closes: true, .. }) = request.operation {
                        return Outcome { requests, end: End::Closed };
                    }
                }
                ParseStatus::Broken => return Outcome { requests, end: End::Broken },
            }
        }
        buffer.drain(..start);
    }
    Outcome { requests, end: End::Bytes(buffer.len() + skipped) }
}

/// The one request that a stream is, and its form as the server would answer it.
fn only(stream: &[u8]) -> Request<'_> {
    match Parser::default().advance(stream, &LIMITS) {
        ParseStatus::Complete { request, consumed } if consumed == stream.len() => request,
        other => panic!("{:?} is {other:?}", String::from_utf8_lossy(stream)),
    }
}

fn failure(stream: &[u8]) -> Failure<'_> {
    let mut parser = Parser::default();
    let ParseStatus::Complete { request, .. } = parser.advance(stream, &LIMITS) else {
        panic!("{:?} is no request", String::from_utf8_lossy(stream));
    };
    match request.operation {
        Operation::Refuse(refusal) => refusal.failure,
        other => panic!("{:?} is {other:?}", String::from_utf8_lossy(stream)),
    }
}

/// What a client gets for these outcomes of its request.
fn answers(stream: &[u8], responses: impl IntoIterator<Item = Response<'static>>) -> Vec<u8> {
    let request = only(stream);
    let mut out = Output::new();
    for response in responses {
        answer(&mut out, &request, response);
    }
    let mut bytes = Vec::new();
    while !out.is_empty() {
        bytes.extend_from_slice(out.front());
        out.consume(out.front().len());
    }
    bytes
}

fn item() -> Item<'static> {
    Item {
        key: b"key",
        value: ItemValue::Plain(b"value"),
        flags: 5,
        cas: 12,
        ttl_s: Some(90),
        idle_s: 3,
        was_read: true,
        stale: false,
        won: false,
        taken: false,
    }
}

/// H122: a line that never ends closes the connection, and takes no memory beyond what came.
#[test]
fn endless_lines_are_refused() {
    const UNENDED: usize = 2048;
    const MOST: usize = 64 << 10;
    let end = |stream: &[u8]| parse_pieces(stream.chunks(4096)).end;
    let mut stream = vec![b'a'; UNENDED];
    assert_eq!(end(&stream), End::Bytes(UNENDED));
    stream.push(b'a');
    assert_eq!(end(&stream), End::Broken, "no command is so long before its line ends");
    stream.resize(MOST + 1, b'a');
    assert_eq!(end(&stream), End::Broken);
    stream.extend_from_slice(b"\r\n");
    assert_eq!(parse_pieces([&stream[..]].into_iter()).end, End::Closed, "it came at once");
    let keys = [&b"get "[..], &b"key ".repeat(100_000)].concat();
    assert_eq!(end(&keys), End::Bytes(keys.len()));
    let keys = [&b"get "[..], &b"key ".repeat(300_000)].concat();
    assert_eq!(end(&keys), End::Closed);
}

/// A connection that began in one protocol goes on in it.
#[test]
fn the_first_byte_says_which_protocol() {
    let mut parser = Parser::default();
    assert_eq!(parser.advance(b"", &LIMITS), ParseStatus::Incomplete { wanted: 1 });
    assert_eq!(parser.dialect(), Dialect::Any);
    assert!(matches!(parser.advance(b"version\r\n", &LIMITS), ParseStatus::Complete { .. }));
    assert_eq!(parser.dialect(), Dialect::Text);
    assert_eq!(parser.advance(b"\x80\n", &LIMITS), {
        let request = only(b"nonsense\n");
        ParseStatus::Complete { request, consumed: 2 }
    });
    let mut parser = Parser::new(Dialect::Binary);
    assert_eq!(parser.advance(b"version\r\n", &LIMITS), ParseStatus::Broken);
    assert_eq!(Parser::new(Dialect::Text).advance(b"\x80", &LIMITS), {
        ParseStatus::Incomplete { wanted: 1 }
    });
}

fn request_bytes() -> impl Strategy<Value = Vec<u8>> {
    let key = "[a-z]{1,4}";
    let value = prop::collection::vec(any::<u8>(), 0..20);
    let store = ("(set|add|replace|append)", key, value.clone()).prop_map(|(name, key, value)| {
        let line = format!("{name} {key} 1 0 {}\r\n", value.len());
        [line.as_bytes(), &value, b"\r\n"].concat()
    });
    let meta = (key, value, "( (c|k|T1|Oab|MA|q)){0,3}").prop_map(|(key, value, flags)| {
        let line = format!("ms {key} {}{flags}\r\n", value.len());
        [line.as_bytes(), &value, b"\r\n"].concat()
    });
    let line = "(get|gets|mg|delete|md|incr|touch|stats|mn)( [a-z]{1,3}){0,3}\r?\n"
        .prop_map(String::into_bytes);
    prop_oneof![store, meta, line]
}

fn packet() -> impl Strategy<Value = Vec<u8>> {
    let part = |most| prop::collection::vec(any::<u8>(), 0..most);
    (0_u8..0x28, part(9), part(5), part(9))
        .prop_map(|(opcode, extras, key, value)| binary::packet(opcode, &extras, &key, &value))
}

/// Cuts a stream at some places.
fn cut<'s>(stream: &'s [u8], cuts: &[Index]) -> Vec<&'s [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    places.sort_unstable();
    places.insert(0, 0);
    places.push(stream.len());
    places.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn cuts_do_not_matter(
        stream in prop::collection::vec(request_bytes(), 0..6),
        cuts in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        let stream = stream.concat();
        let whole = parse_pieces([&stream[..]].into_iter());
        prop_assert_eq!(&whole, &parse_pieces(cut(&stream, &cuts).into_iter()));
        prop_assert!(matches!(whole.end, End::Bytes(_)));
    }

    #[test]
    fn cuts_do_not_matter_to_packets(
        stream in prop::collection::vec(packet(), 1..6),
        cuts in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        let stream = stream.concat();
        let whole = parse_pieces([&stream[..]].into_iter());
        prop_assert_eq!(whole, parse_pieces(cut(&stream, &cuts).into_iter()));
    }

    /// Also streams that are not valid at all.
    #[test]
    fn cuts_of_any_bytes_parse_as_the_whole(
        stream in "(get|set|ms|ma|[ -~\r\n]|\r\n| ){0,40}",
        cuts in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        let whole = parse_pieces([stream.as_bytes()].into_iter());
        prop_assert_eq!(whole, parse_pieces(cut(stream.as_bytes(), &cuts).into_iter()));
    }

    #[test]
    fn binary_noise(
        stream in prop::collection::vec(any::<u8>(), 0..80),
        cuts in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        let stream = [&[0x80][..], &stream].concat();
        let whole = parse_pieces([&stream[..]].into_iter());
        prop_assert_eq!(whole, parse_pieces(cut(&stream, &cuts).into_iter()));
    }
}

/// The longest key that there may be, and one that is too long.
fn long_keys() -> [Vec<u8>; 2] {
    [vec![b'k'; KEY_LENGTH_MAX], vec![b'k'; KEY_LENGTH_MAX + 1]]
}
