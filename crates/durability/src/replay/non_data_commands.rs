//! Commands that a primary's stream holds beside those that change its data.
//!
//! Invariant: none of them needs a lock, or leaves anything behind in the data.

use engine::observe::pubsub::{Publication, Space};
use proto::Args;

/// What such a command does.
pub(super) enum NonDataCommand<'a> {
    /// The command counts, and that is all: such a command asks for a sign of life or how far this
    /// is, or brings scripts, which the stream has the effects of.
    Nothing,
    /// The command tells subscribers.
    Message(Space, &'a [u8], &'a [u8]),
}

impl<'a> NonDataCommand<'a> {
    /// What a command does, if it is one of these.
    #[inline]
    pub(super) fn of(args: Args<'a>) -> Option<Self> {
        let name = args.get(0)?;
        let first = name.first()? | 0x20;
        // Nearly all that comes has another first letter, or another length.
        if !matches!((name.len(), first), (4 | 7, b'p') | (6 | 8, b's') | (8, b'r')) {
            return None;
        }
        let is = |word: &[u8]| name.eq_ignore_ascii_case(word);
        if is(b"PING") || is(b"REPLCONF") || is(b"SCRIPT") {
            return Some(Self::Nothing);
        }
        let (channel, message) = (args.get(1)?, args.get(2)?);
        match args.len() {
            3 if is(b"PUBLISH") => Some(Self::Message(Space::Global, channel, message)),
            3 if is(b"SPUBLISH") => Some(Self::Message(Space::Shard, channel, message)),
            _ => None,
        }
    }
}

/// A message as a unit publishes it.
pub(super) fn publication(space: Space, channel: &[u8], message: &[u8]) -> Publication {
    Publication { space, channel: channel.into(), message: message.into() }
}
