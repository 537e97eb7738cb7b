//! Replies in whichever protocol a run speaks. Invariant: all requests of a connection are
//! answered in the protocol that its options name.

use proto::value::ReplyError;

use super::memcached::{PacketScanner, TextScanner};
use super::reply::{Reply, Scanner};
use crate::options::Protocol;

/// Reads replies from pieces of a stream.
#[derive(Debug)]
pub(super) enum Replies {
    /// RESP, of either version.
    Redis(Scanner),
    /// Memcached's lines.
    Text(TextScanner),
    /// Memcached's packets.
    Binary(PacketScanner),
}

impl Replies {
    /// Before the first reply. With `keeps_values` values are copied, so that
    /// [`text`](Self::text) gives them.
    pub(super) fn new(protocol: Protocol, keeps_values: bool) -> Self {
        match protocol {
            Protocol::Redis | Protocol::Resp2 | Protocol::Resp3 => {
                Self::Redis(Scanner::new(keeps_values))
            }
            Protocol::MemcacheText => Self::Text(TextScanner::new(keeps_values)),
            Protocol::MemcacheBinary => Self::Binary(PacketScanner::new(keeps_values)),
        }
    }

    /// Forgets what was begun: the stream is another one.
    pub(super) fn reset(&mut self) {
        match self {
            Self::Redis(scanner) => scanner.reset(),
            Self::Text(scanner) => scanner.reset(),
            Self::Binary(scanner) => scanner.reset(),
        }
    }

    /// The value or error that the last reply was.
    pub(super) fn text(&self) -> &[u8] {
        match self {
            Self::Redis(scanner) => scanner.text(),
            Self::Text(scanner) => scanner.text(),
            Self::Binary(scanner) => scanner.text(),
        }
    }

    /// Takes one reply off the front of `input`; takes all of it and gives `None` while the reply
    /// is incomplete. After an error the stream cannot be understood.
    #[inline]
    pub(super) fn scan(&mut self, input: &mut &[u8]) -> Result<Option<Reply>, ReplyError> {
        match self {
            Self::Redis(scanner) => scanner.scan(input),
            Self::Text(scanner) => scanner.scan(input),
            Self::Binary(scanner) => scanner.scan(input),
        }
    }
}
