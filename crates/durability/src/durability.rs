//! What keeps the data when the process ends: the log, snapshots, backups, and the files' place.
//!
//! Invariant: nothing here knows a session or a socket; whatever changes is an atomic or behind a
//! lock of its own.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use engine::transaction::engine::Engine;
use persist::storage::Storage;

use crate::aof::Aof;
use crate::backup::Backup;
use crate::claims::SnapshotClaim;
use crate::cluster_duties::ClusterDuties;
use crate::save::Saves;
use crate::shutdown::Shutdown;
use crate::snapshot::Snapshots;
use crate::stream_turns::StreamTurns;

/// What runs commands, with what keeps their data: the whole is its [`Engine`] and more.
pub struct Durability {
    engine: Engine,
    /// The append-only file.
    pub aof: Aof,
    /// The backup that is made or kept.
    pub backup: Backup,
    /// The snapshots in progress.
    pub snapshots: Snapshots,
    /// BGSAVE, SAVE and the points of `save`.
    pub saves: Saves,
    /// Held by the one operation that may walk the whole keyspace now.
    pub snapshot_claim: SnapshotClaim,
    /// Where files lie.
    pub storage: Box<dyn Storage>,
    /// This server as a node of a cluster, if it is one; set before the first client comes.
    pub cluster_duties: OnceLock<Box<dyn ClusterDuties>>,
    /// What SHUTDOWN was asked to do, and how far it is.
    pub shutdown: Shutdown,
    /// The turns of what applies a primary's stream, or takes its data in.
    pub(crate) stream_turns: StreamTurns,
    /// Held while the configuration is changed or its file written, or a backup begun or removed.
    config_turn: Mutex<()>,
}

impl Deref for Durability {
    type Target = Engine;

    #[inline]
    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Durability {
    /// Adds the files of `storage` to an engine that has no clients yet.
    pub fn new(engine: Engine, storage: Box<dyn Storage>) -> Self {
        Self {
            aof: Aof::default(),
            backup: Backup::default(),
            snapshots: Snapshots::default(),
            saves: Saves::new(engine.keyspace.clock()),
            snapshot_claim: SnapshotClaim::default(),
            storage,
            cluster_duties: OnceLock::new(),
            shutdown: Shutdown::default(),
            stream_turns: StreamTurns::default(),
            config_turn: Mutex::default(),
            engine,
        }
    }

    /// Has the keyspace ask and tell the engine, and tell of FLUSHALL; once.
    pub fn set_hooks(&'static self) {
        self.engine.set_hooks();
        self.keyspace.set_flush_hook(move || self.saves.on_flushall(self));
    }

    /// The turn of a change of the configuration, or of what writes down a part of it.
    /// What a panic left behind was either published as a whole or not at all.
    pub fn take_config_turn(&self) -> MutexGuard<'_, ()> {
        self.config_turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
