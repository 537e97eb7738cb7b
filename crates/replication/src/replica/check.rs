//! What must hold for any bytes at all, as functions for fuzzers.
//!
//! Invariant: a function returns if all is well, and panics if not.

use super::action::{ReplicaAction, Wire};
use super::link::{LoadOutcome, ReplicaLink};
use super::settings::{PrimaryAddress, ReplicaSettings};
use super::stream::StreamParser;

/// How long a unit may be here.
const UNIT_MAX: usize = 1 << 12;

/// Any bytes are a stream or a fault, the same whole as byte by byte.
pub fn check_stream(bytes: &[u8]) {
    let units = |step: usize| {
        let mut parser = StreamParser::new(0, 16, UNIT_MAX);
        let (mut units, mut begin, mut end) = (Vec::new(), 0, 0);
        loop {
            match parser.advance(&bytes[begin..end]) {
                Ok(Some(unit)) => {
                    begin += unit.len;
                    units.push((unit, parser.database()));
                }
                Ok(None) if end == bytes.len() => return (units, begin, false),
                Ok(None) => end = bytes.len().min(end + step),
                Err(_) => return (units, begin, true),
            }
            assert!(end - begin <= UNIT_MAX + step, "half a unit is bounded");
        }
    };
    assert_eq!(units(1), units(bytes.len().max(1)));
}

/// Any bytes of a primary, cut by their own first byte, leave a bounded rest, ranges that lie in
/// what was shown, and offsets without a gap.
pub fn check_link(bytes: &[u8]) {
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let settings = ReplicaSettings { unit_len_max: UNIT_MAX, ..ReplicaSettings::default() };
    let mut link = ReplicaLink::new(settings);
    let primary = PrimaryAddress { host: "primary".to_owned(), port: 1 };
    link.replicaof(primary, None, None, 0);
    link.connected(Wire::Main, 0);
    let (mut rest, mut offset) = (Vec::new(), 0);
    for piece in bytes.chunks(usize::from(*cut) + 1) {
        rest.extend_from_slice(piece);
        loop {
            let done = link.received(Wire::Main, &rest, 0);
            let mut is_whole = false;
            for action in link.take_actions() {
                match action {
                    ReplicaAction::Rdb(range) => assert!(range.end <= done),
                    ReplicaAction::EndOfRdb => is_whole = true,
                    ReplicaAction::Stream { range, end, .. } => {
                        assert!(range.end <= done);
                        assert_eq!(end - range.len() as u64, offset);
                        offset = end;
                    }
                    _ => {}
                }
            }
            rest.drain(..done);
            if !is_whole {
                break;
            }
            link.loaded(LoadOutcome::Loaded { database: 0 }, 0);
            offset = link.position().map_or(0, |position| position.offset);
        }
        assert!(rest.len() <= UNIT_MAX + piece.len(), "what stays is bounded");
    }
}
