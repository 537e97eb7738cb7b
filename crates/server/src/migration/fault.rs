//! What may go wrong with a target.
//!
//! Invariant: the words are those of Redis; what a target says is one line of the reply.

use keyspace::Refusal;

/// Why an exchange with a target ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// There is no connection.
    Unreachable,
    /// The connection takes nothing more.
    Unwritable(Cause),
    /// What the target should answer does not come, or is no answer.
    Unreadable(Cause),
}

/// Why a step was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The target does not listen.
    Refused,
    /// The exchange took too long.
    Timeout,
    /// The connection was closed.
    Closed,
    /// The other side does not speak the protocol.
    Nonsense,
}

impl Fault {
    /// Whether the connection was closed, as one is that was left idle: a new one may do.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self, Self::Unwritable(Cause::Closed) | Self::Unreadable(Cause::Closed))
    }

    /// What the client is told.
    pub(super) fn refusal(&self) -> Refusal {
        Refusal::error(match self {
            Self::Unreachable => "IOERR error or timeout connecting to the client",
            Self::Unwritable(_) => "IOERR error or timeout writing to target instance",
            Self::Unreadable(_) => "IOERR error or timeout reading to target instance",
        })
    }
}

/// What the client is told of an error that the target has answered.
pub(super) fn target_error(line: &[u8]) -> Refusal {
    const SAYS: &[u8] = b"ERR Target instance replied with error: ";
    let shown = line.iter().map(|byte| if byte.is_ascii_control() { b' ' } else { *byte });
    Refusal::owned(SAYS.iter().copied().chain(shown).collect::<Vec<u8>>())
}
