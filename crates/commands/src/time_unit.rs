//! How the time in a command is written: in seconds or milliseconds, from now or of the Unix epoch.
//!
//! Invariant: the words are those of SET, GETEX and their kin, and mean the same in all of them.

use crate::arguments::is;

/// How a time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    /// `EX`: seconds from now.
    Seconds,
    /// `PX`: milliseconds from now.
    Millis,
    /// `EXAT`: a Unix time in seconds.
    UnixSeconds,
    /// `PXAT`: a Unix time in milliseconds.
    UnixMillis,
}

impl TimeUnit {
    /// The unit that an option word stands for.
    pub(crate) fn of(word: &[u8]) -> Option<Self> {
        Some(match word {
            _ if is(word, "EX") => Self::Seconds,
            _ if is(word, "PX") => Self::Millis,
            _ if is(word, "EXAT") => Self::UnixSeconds,
            _ if is(word, "PXAT") => Self::UnixMillis,
            _ => return None,
        })
    }
}
