//! Request streams, hostile or not: whole and in pieces they give the same requests and the same
//! end, and the parser never holds much more than what has arrived.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proto::{Limits, Progress, ProtocolError, RequestParser};

#[derive(Debug, PartialEq)]
struct Outcome {
    requests: Vec<Vec<Vec<u8>>>,
    end: Result<usize, ProtocolError>,
}

fuzz_target!(|data: &[u8]| {
    let [piece, stream @ ..] = data else { return };
    // Odd: before authentication.
    let limits = if piece & 1 == 1 { Limits::UNAUTHENTICATED } else { Limits::default() };
    let whole = parse(std::iter::once(stream), &limits);
    let piece = usize::from(piece / 2) + 1;
    assert_eq!(whole, parse(stream.chunks(piece), &limits));
});

fn parse<'a>(pieces: impl Iterator<Item = &'a [u8]>, limits: &Limits) -> Outcome {
    let mut parser = RequestParser::new();
    let mut buffer = Vec::new();
    let mut requests = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let progress = parser.advance(&buffer, limits);
            assert!(parser.memory() <= (64 << 10) + 4 * buffer.len());
            let consumed = match progress {
                Err(error) => return Outcome { requests, end: Err(error) },
                Ok(Progress::Incomplete { wanted }) => {
                    assert!(wanted > 0);
                    break;
                }
                Ok(Progress::Empty { consumed }) => consumed,
                Ok(Progress::Complete { consumed }) => {
                    requests.push(parser.args(&buffer).iter().map(<[u8]>::to_vec).collect());
                    consumed
                }
            };
            buffer.drain(..consumed);
            parser.reset();
        }
    }
    Outcome { requests, end: Ok(buffer.len()) }
}
