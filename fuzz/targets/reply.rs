//! Replies of a hostile server: whole and in pieces they give the same values and the same end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proto::value::{ReplyError, ReplyLimits, ReplyParser, Value};

fuzz_target!(|data: &[u8]| {
    let [piece, stream @ ..] = data else { return };
    let whole = parse(std::iter::once(stream));
    let split = parse(stream.chunks(usize::from(*piece) + 1));
    // As text, because NaN does not equal itself.
    assert_eq!(format!("{whole:?}"), format!("{split:?}"));
});

fn parse<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Value>, Option<ReplyError>) {
    let mut parser = ReplyParser::new(ReplyLimits::default());
    let mut values = Vec::new();
    for piece in pieces {
        parser.feed(piece);
        loop {
            match parser.next_reply() {
                Ok(Some(value)) => values.push(value),
                Ok(None) => break,
                Err(error) => return (values, Some(error)),
            }
        }
    }
    (values, None)
}
