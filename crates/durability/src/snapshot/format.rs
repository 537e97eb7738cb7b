//! How a snapshot is written, from beginning to end: as the configuration says, and as replicas
//! ask.
//!
//! Invariant: what is pinned by the configuration holds for replicas, too.

use config::settings::{MAXMEMORY_POLICY, RDB_WRITE_VERSION, RDBCHECKSUM, RDBCOMPRESSION};
use config::{Config, MaxmemoryPolicy};
use persist::aof::manifest::BaseForm;

/// What a snapshot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotPurpose {
    /// To be loaded at a start.
    Save,
    /// To begin an append-only file, in this form.
    Base(BaseForm),
    /// To be loaded by replicas.
    Sync(SyncFormat),
}

/// What replicas want of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncFormat {
    /// With keys.
    pub keys: bool,
    /// With functions.
    pub functions: bool,
    /// With strings compressed where the configuration says so.
    pub compresses: bool,
    /// With a checksum where the configuration says so.
    pub sums: bool,
    /// The version; 0 is the lowest that holds the data, or our own.
    pub version: u16,
}

/// How all of it is written, from beginning to end.
pub(super) struct SnapshotFormat {
    pub(super) compresses: bool,
    pub(super) sums: bool,
    /// Where a policy goes by it, as in Redis: when each key was last used, or how often.
    pub(super) tells_access: bool,
    pub(super) version: u16,
    pub(super) syncs: bool,
}

impl SnapshotFormat {
    /// What the configuration says, and what is wanted beyond.
    pub(super) fn of(config: &Config, purpose: SnapshotPurpose, syncs: bool) -> Self {
        let policy = config.get(MAXMEMORY_POLICY);
        let format = Self {
            compresses: config.get(RDBCOMPRESSION),
            sums: config.get(RDBCHECKSUM),
            tells_access: matches!(
                policy,
                MaxmemoryPolicy::AllkeysLru
                    | MaxmemoryPolicy::VolatileLru
                    | MaxmemoryPolicy::AllkeysLfu
                    | MaxmemoryPolicy::VolatileLfu
                    | MaxmemoryPolicy::AllkeysLrm
                    | MaxmemoryPolicy::VolatileLrm
                    | MaxmemoryPolicy::AllkeysApus
            ),
            version: config.get(RDB_WRITE_VERSION),
            syncs,
        };
        match purpose {
            SnapshotPurpose::Sync(form) => format.for_sync(form),
            SnapshotPurpose::Save | SnapshotPurpose::Base(_) => format,
        }
    }

    fn for_sync(self, form: SyncFormat) -> Self {
        Self {
            compresses: self.compresses && form.compresses,
            sums: self.sums && form.sums,
            version: form.version,
            ..self
        }
    }
}
