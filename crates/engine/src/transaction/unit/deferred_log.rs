//! What the logs of the server are told of a unit, once all of it is final.
//!
//! Invariant: a remark is made by value, so it is made once.

use config::LogLevel;

use crate::session::AclLogRecord;
use crate::shared::Shared;

/// What a log of the server is told.
pub(crate) enum DeferredLog {
    /// Of the log file.
    Line(LogLevel, String),
    /// Of ACL LOG.
    Denied(AclLogRecord),
}

impl DeferredLog {
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Line(_, text) => text.len(),
                Self::Denied(noted) => noted.memory(),
            }
    }

    pub(super) fn make(self, server: &Shared) {
        match self {
            Self::Line(level, text) => server.log.write(level, format_args!("{text}")),
            Self::Denied(noted) => noted.record(server),
        }
    }
}
