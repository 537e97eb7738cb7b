//! Why a command did not do what it was asked.
//!
//! Invariant: a refusal leaves the handler before its first effect, or the transaction undoes what
//! was done (`Widen`).

use std::borrow::Cow;

use base::time::UnixMillis;

use crate::blocking_keys::BlockingKeys;

/// What is waited for has been held by others for longer than a client is kept waiting.
pub const BUSY: Refusal = Refusal::error("BUSY Redis is busy running a long command.");

/// What a handler returns instead of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An error line for the client, without the leading `-`. The line may show bytes of a client's
    /// word, so it is bytes itself.
    Error(Cow<'static, [u8]>),
    /// The key holds another type.
    WrongType,
    /// The transaction needs partitions it was not granted, and has noted which.
    Widen,
    /// The work is more than a worker may do between two sessions.
    Heavy,
    /// There is nothing to give yet: the client waits for its keys.
    Wait(Box<Wait>),
}

/// What a blocking command waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The keys, each of which may end the wait.
    pub awaited: BlockingKeys,
    /// When the waiter gives up; never if `None`.
    pub deadline: Option<UnixMillis>,
    /// When asking again may find something that only time brought about, if at all.
    pub again: Option<UnixMillis>,
    /// Whether the waiter wants to know when a key goes away, too.
    pub wakes_on_deletion: bool,
    /// What the command replies where nobody may wait, as within a transaction. A wait in vain ends
    /// in a null array.
    pub at_once: EmptyReply,
}

/// The reply that says "nothing".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyReply {
    /// A null in the place of one value.
    Null,
    /// A null in the place of an array.
    NullArray,
}

impl Refusal {
    /// An error with a fixed text.
    #[must_use]
    pub const fn error(text: &'static str) -> Self {
        Self::Error(Cow::Borrowed(text.as_bytes()))
    }

    /// An error with a text made for this occasion.
    #[must_use]
    pub fn owned(text: impl Into<Vec<u8>>) -> Self {
        Self::Error(Cow::Owned(text.into()))
    }

    /// The line that the client gets, if the refusal is meant for it.
    #[must_use]
    pub fn line(&self) -> Option<&[u8]> {
        match self {
            Self::Error(text) => Some(text),
            Self::WrongType => {
                Some(b"WRONGTYPE Operation against a key holding the wrong kind of value")
            }
            Self::Widen | Self::Heavy | Self::Wait(_) => None,
        }
    }
}
