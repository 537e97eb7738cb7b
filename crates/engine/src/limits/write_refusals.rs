//! Why commands that write are refused, for every client: a disk on which data cannot be kept, too
//! few replicas, or a primary that alone may write here.
//!
//! A new reason is one constant and one line in `refusal_for_reasons`; the code that knows of it sets it and
//! takes it back. The gates, EXEC under its locks, what scripts call, what begins a second time and
//! memcached's requests all ask here.
//!
//! Invariant: while there is no reason, a command pays one load for that.

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

/// There are fewer replicas near than `min-replicas-to-write` asks for.
pub const FEW_REPLICAS: u32 = 4;

/// This is a replica, which only its primary writes to.
pub const READ_ONLY: u32 = 8;

/// The reasons that there are at present.
#[derive(Default)]
pub struct WriteRefusals(AtomicU32);

const NOREPLICAS: Refusal = Refusal::error("NOREPLICAS Not enough good replicas to write.");

const READONLY: Refusal = Refusal::error("READONLY You can't write against a read only replica.");

const MISCONF: Refusal = Refusal::error(
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to \
     disk. Commands that may modify the data set are disabled, because this instance is configured \
     to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error \
     option). Please check the Redis logs for details about the RDB error.",
);

impl WriteRefusals {
    /// A reason applies from now on, or no longer does.
    pub fn set(&self, reason: u32, applies: bool) {
        if applies {
            self.0.fetch_or(reason, Ordering::Relaxed);
        } else {
            self.0.fetch_and(!reason, Ordering::Relaxed);
        }
    }

    /// Whether a disk on which data cannot be kept is a reason.
    pub fn is_disk_failing(&self, config: &Config) -> bool {
        let reasons = self.0.load(Ordering::Relaxed);
        reasons != 0 && stopping_reasons(reasons, config) & (SNAPSHOT_FAILED | LOG_FAILED) != 0
    }

    /// READONLY: whether a command with these flags is refused as only the primary may write here.
    pub(crate) fn refuses_as_replica(&self, flags: Flags) -> bool {
        is_primarys_alone(self.0.load(Ordering::Relaxed), flags)
    }

    /// Whether there is any.
    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Why a command may not run, if it may not. As in Redis, PING tells too.
    #[inline]
    pub fn refuse(
        &self,
        config: &Config,
        journal: &Journal,
        flags: Flags,
        role: Role,
    ) -> Option<Refusal> {
        self.active(config).refuse(journal, flags, role)
    }

    /// The refusals that hold at this moment.
    #[inline]
    pub(crate) fn active(&self, config: &Config) -> ActiveRefusals {
        match self.0.load(Ordering::Relaxed) {
            0 => ActiveRefusals(0),
            reasons => ActiveRefusals(stopping_reasons(reasons, config)),
        }
    }
}

/// The refusals that held at one moment, whatever is configured afterwards.
#[derive(Clone, Copy)]
pub(crate) struct ActiveRefusals(u32);

impl ActiveRefusals {
    /// None held.
    pub(crate) const NONE: Self = Self(0);

    /// The same in the role of now.
    pub(crate) fn in_role(self, now: &WriteRefusals) -> Self {
        Self(self.0 & !READ_ONLY | now.0.load(Ordering::Relaxed) & READ_ONLY)
    }

    /// Whether there was any.
    #[inline]
    pub(crate) fn is_any(self) -> bool {
        self.0 != 0
    }

    /// Why a command may not run, if it may not.
    #[inline]
    pub(crate) fn refuse(self, journal: &Journal, flags: Flags, role: Role) -> Option<Refusal> {
        match self.0 {
            0 => None,
            reasons => refusal_for_reasons(reasons, journal, flags, role),
        }
    }
}

#[cold]
fn refusal_for_reasons(
    reasons: u32,
    journal: &Journal,
    flags: Flags,
    role: Role,
) -> Option<Refusal> {
    if !flags.has(Flags::WRITE) && role != Role::Ping {
        return None;
    }
    if reasons & LOG_FAILED != 0 {
        return Some(journal.refusal());
    }
    if reasons & SNAPSHOT_FAILED != 0 {
        return Some(MISCONF);
    }
    if reasons & FEW_REPLICAS != 0 && flags.has(Flags::WRITE) {
        return Some(NOREPLICAS);
    }
    is_primarys_alone(reasons, flags).then_some(READONLY)
}

fn is_primarys_alone(reasons: u32, flags: Flags) -> bool {
    reasons & READ_ONLY != 0 && flags.has(Flags::WRITE)
}

/// A snapshot that failed stops writes where that is configured.
#[cold]
fn stopping_reasons(reasons: u32, config: &Config) -> u32 {
    let is_strict = config.get(STOP_WRITES_ON_BGSAVE_ERROR) && !config.get(SAVE).is_empty();
    if is_strict { reasons } else { reasons & !SNAPSHOT_FAILED }
}
