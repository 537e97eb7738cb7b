//! What the logs of the server are told of a unit, once all of it is final.
//!
//! Invariant: a remark is made by value, so it is made once.

use std::sync::Arc;

use config::LogLevel;

use crate::limits::quotas::Account;
use crate::session::AclLogRecord;
use crate::shared::Shared;

/// What a log of the server is told.
pub(crate) enum DeferredLog {
    /// Of the log file.
    Line(LogLevel, String),
    /// Of ACL LOG.
    Denied(AclLogRecord),
    /// Of an account which has had what it may.
    OverQuota(Arc<Account>),
}

impl DeferredLog {
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Line(_, text) => text.len(),
                Self::Denied(noted) => noted.memory(),
                Self::OverQuota(_) => 0,
            }
    }

    pub(super) fn make(self, server: &Shared) {
        match self {
            Self::Line(level, text) => server.log.write(level, format_args!("{text}")),
            Self::Denied(noted) => noted.record(server),
            Self::OverQuota(account) => account.note_refusal(),
        }
    }
}
