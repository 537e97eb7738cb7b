//! What the server has set of the keyspace, as its configuration and its role say.
//!
//! Invariant: each switch is one relaxed load for a transaction; none says more than another.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};

use base::time::UnixMillis;

use crate::clock::AccessPolicy;
use crate::containers::ContainerSettings;

/// Switches that the server sets and transactions read; each is one relaxed load.
pub struct Settings {
    /// Whether anyone reads the journal: without a reader no effect is encoded.
    pub journal_attached: AtomicBool,
    /// Which keyspace events anyone listens to.
    pub events: AtomicU32,
    /// What the access clock holds: an `AccessPolicy`.
    pub access_policy: AtomicU8,
    /// Whether keys whose time is over stay until another says that they go, absent for readers
    /// (`import-mode`, and replicas): only a write to such a key removes it.
    pub expiry_suspended: AtomicBool,
    /// Until when nothing is removed because its time is over, absent though it is (`CLIENT
    /// PAUSE`).
    pub expiry_held_until: AtomicI64,
    /// Whether the same holds as long as nothing could be told of it: the log fails.
    pub expiry_barred: AtomicBool,
    /// Whether what runs was accepted once, so that limits of now do not apply: a log is run again.
    pub replays: AtomicBool,
    /// Whether a primary leads: what it says was accepted there.
    pub follows: AtomicBool,
    /// `lfu-log-factor`.
    pub lfu_log_factor: AtomicU32,
    /// `lfu-decay-time`, minutes.
    pub lfu_decay_time: AtomicU32,
    /// How long a string may become, and what a command may take to compare two
    /// (`proto-max-bulk-len`).
    pub max_string: AtomicU64,
    /// Whether DUMP compresses strings (`rdbcompression`).
    pub compresses_dumps: AtomicBool,
    /// Whether the journal is told in the words of Redis 6.2 (`rdb-write-version`).
    pub tells_redis_6: AtomicBool,
    /// How far containers stay small.
    pub containers: ContainerSettings,
    /// Whether members of any container ever had deadlines.
    pub members_expire: AtomicBool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            journal_attached: AtomicBool::default(),
            events: AtomicU32::default(),
            access_policy: AtomicU8::default(),
            expiry_suspended: AtomicBool::default(),
            expiry_barred: AtomicBool::default(),
            replays: AtomicBool::default(),
            follows: AtomicBool::default(),
            expiry_held_until: AtomicI64::default(),
            lfu_log_factor: AtomicU32::default(),
            lfu_decay_time: AtomicU32::default(),
            max_string: AtomicU64::new(512 << 20),
            compresses_dumps: AtomicBool::new(true),
            tells_redis_6: AtomicBool::default(),
            containers: ContainerSettings::default(),
            members_expire: AtomicBool::default(),
        }
    }
}

impl Settings {
    /// Whether members of any container ever had deadlines.
    #[inline]
    pub fn members_expire(&self) -> bool {
        self.members_expire.load(Ordering::Relaxed)
    }

    /// What the access clocks hold.
    #[inline]
    pub fn access_policy(&self) -> AccessPolicy {
        match self.access_policy.load(Ordering::Relaxed) {
            1 => AccessPolicy::Frequency,
            2 => AccessPolicy::Changes,
            3 => AccessPolicy::Worth,
            _ => AccessPolicy::Accesses,
        }
    }

    /// Whether expired keys that are only read stay for now, as all data stand still or their end
    /// could not be told.
    pub fn holds_expiry(&self, now: UnixMillis) -> bool {
        self.expiry_held_until.load(Ordering::Relaxed) > now
            || self.expiry_barred.load(Ordering::Relaxed)
    }

    /// Whether what is over stays for commands that only read, as all data stand still, its end
    /// could not be told, or another decides. Every reader that would remove something asks here.
    pub fn keeps_expired(&self, now: UnixMillis) -> bool {
        self.suspends_expiry() || self.holds_expiry(now)
    }

    /// Whether a log is run again.
    #[inline]
    pub fn replays(&self) -> bool {
        self.replays.load(Ordering::Relaxed)
    }

    /// Whether expired keys stay until somebody else decides that they go.
    pub fn suspends_expiry(&self) -> bool {
        self.expiry_suspended.load(Ordering::Relaxed)
    }
}
