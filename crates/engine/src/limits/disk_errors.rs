//! Why writes are refused as long as data cannot be kept on disk.
//!
//! Invariant: while nothing ails, a command pays one load for that.

use std::sync::atomic::{AtomicU32, Ordering};

use commands::{Flags, Role};
use config::Config;
use config::settings::{SAVE, STOP_WRITES_ON_BGSAVE_ERROR};
use keyspace::Refusal;

use crate::journal::Journal;

/// The latest snapshot failed.
pub const SNAPSHOT_FAILED: u32 = 1;

/// The append-only file cannot be written.
pub const LOG_FAILED: u32 = 2;

/// What ails at present.
#[derive(Default)]
pub struct DiskErrors(AtomicU32);

const MISCONF: Refusal = Refusal::error(
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to \
     disk. Commands that may modify the data set are disabled, because this instance is configured \
     to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error \
     option). Please check the Redis logs for details about the RDB error.",
);

impl DiskErrors {
    /// Something ails from now on, or no longer does.
    pub fn set(&self, ailment: u32, is_there: bool) {
        if is_there {
            self.0.fetch_or(ailment, Ordering::Relaxed);
        } else {
            self.0.fetch_and(!ailment, Ordering::Relaxed);
        }
    }

    /// Whether anything ails.
    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Why a command may not run, if it may not. As in Redis, PING tells too.
    #[inline]
    pub(crate) fn refuse(
        &self,
        config: &Config,
        journal: &Journal,
        flags: Flags,
        role: Role,
    ) -> Option<Refusal> {
        self.present(config).refuse(journal, flags, role)
    }

    /// What ails at this moment and stops writes.
    #[inline]
    pub(crate) fn present(&self, config: &Config) -> Present {
        match self.0.load(Ordering::Relaxed) {
            0 => Present(0),
            ailments => Present(those_that_stop(ailments, config)),
        }
    }
}

/// What ailed at one moment and stopped writes then, whatever is configured afterwards.
#[derive(Clone, Copy)]
pub(crate) struct Present(u32);

impl Present {
    /// Whether anything did.
    #[inline]
    pub(crate) fn is_any(self) -> bool {
        self.0 != 0
    }

    /// Why a command may not run, if it may not.
    #[inline]
    pub(crate) fn refuse(self, journal: &Journal, flags: Flags, role: Role) -> Option<Refusal> {
        match self.0 {
            0 => None,
            ailments => judge(ailments, journal, flags, role),
        }
    }
}

#[cold]
fn judge(ailments: u32, journal: &Journal, flags: Flags, role: Role) -> Option<Refusal> {
    if !flags.has(Flags::WRITE) && role != Role::Ping {
        return None;
    }
    if ailments & LOG_FAILED != 0 {
        return Some(journal.refusal());
    }
    (ailments & SNAPSHOT_FAILED != 0).then_some(MISCONF)
}

/// A snapshot that failed stops writes where that is configured.
#[cold]
fn those_that_stop(ailments: u32, config: &Config) -> u32 {
    let is_strict = config.get(STOP_WRITES_ON_BGSAVE_ERROR) && !config.get(SAVE).is_empty();
    if is_strict { ailments } else { ailments & !SNAPSHOT_FAILED }
}
