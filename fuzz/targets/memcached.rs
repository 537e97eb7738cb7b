//! Memcached streams in all three protocols, hostile or not: whole and in pieces they give the same
//! requests and the same end, and whatever was parsed can be answered.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proto::Output;
use proto::memcached::{
    Dialect, Failure, Item, ItemLimits, ItemValue, Number, Operation, ParseStatus, Parser, Refusal,
    Request, Response, answer,
};

#[derive(Debug, PartialEq)]
struct Outcome {
    requests: Vec<String>,
    answers: Vec<u8>,
    end: End,
}

#[derive(Debug, PartialEq)]
enum End {
    Bytes(usize),
    Closed,
    Broken,
}

fuzz_target!(|data: &[u8]| {
    let [choice, stream @ ..] = data else { return };
    // A longer line is closed upon where its end has not come yet: that depends on the pieces.
    let stream = &stream[..stream.len().min(2048)];
    let dialect = [Dialect::Any, Dialect::Text, Dialect::Binary][usize::from(choice % 3)];
    let whole = parse(dialect, std::iter::once(stream));
    let piece = usize::from(choice / 3) + 1;
    assert_eq!(whole, parse(dialect, stream.chunks(piece)));
});

fn parse<'a>(dialect: Dialect, pieces: impl Iterator<Item = &'a [u8]>) -> Outcome {
    let limits = ItemLimits { value: 64, is_strict: false };
    let mut parser = Parser::new(dialect);
    let (mut buffer, mut skipped) = (Vec::new(), 0);
    let (mut requests, mut answers) = (Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        let mut start = 0;
        loop {
            let before = parser;
            match parser.advance(&buffer[start..], &limits) {
                ParseStatus::Incomplete { wanted } => {
                    assert!(wanted > 0);
                    break;
                }
                ParseStatus::Skipped { consumed } => {
                    assert!(consumed > 0);
                    skipped += consumed;
                    start += consumed;
                }
                ParseStatus::Complete { request, consumed } => {
                    let again = { before }.advance(&buffer[start..], &limits);
                    assert_eq!(again, ParseStatus::Complete { request, consumed });
                    assert!(consumed > 0);
                    skipped = 0;
                    start += consumed;
                    requests.push(format!("{request:?}"));
                    tell(&request, &mut answers);
                    if let Operation::Refuse(Refusal { closes: true, .. }) = request.operation {
                        return Outcome { requests, answers, end: End::Closed };
                    }
                }
                ParseStatus::Broken => return Outcome { requests, answers, end: End::Broken },
            }
        }
        buffer.drain(..start);
    }
    Outcome { requests, answers, end: End::Bytes(buffer.len() + skipped) }
}

/// Answers with whatever an execution can bring about.
fn tell(request: &Request<'_>, answers: &mut Vec<u8>) {
    let mut room = [0; 250];
    let key = request.operation.key().map_or(&b""[..], |key| key.bytes(&mut room));
    assert!(key.len() <= 250);
    let item = Item {
        key,
        value: ItemValue::Plain(b"value"),
        flags: 1,
        cas: 2,
        ttl_s: None,
        idle_s: 3,
        was_read: true,
        stale: true,
        won: true,
        taken: true,
    };
    let number = Number { value: u64::MAX, cas: 1, ttl_s: Some(1), is_new: false };
    let mut out = Output::new();
    for response in [
        Response::Hit(item),
        Response::Miss,
        Response::End,
        Response::Stored { cas: 1, size: 1 },
        Response::NotStored,
        Response::Exists,
        Response::NotFound,
        Response::Deleted,
        Response::Number(number),
        Response::Ok,
        Response::Failed(Failure::OutOfMemory),
    ] {
        answer(&mut out, request, response);
    }
    while !out.is_empty() {
        answers.extend_from_slice(out.front());
        out.consume(out.front().len());
    }
}
