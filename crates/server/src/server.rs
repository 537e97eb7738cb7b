//! The server as the rooms see it that stand above the data: what all threads share, and those who
//! run, keep and serve it.
//!
//! Invariant: it lives as long as the process and is only ever shared; whatever changes in it is an
//! atomic or behind a lock of its own.

use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use config::Config;
use keyspace::Keyspace;
use persist::storage::Storage;
use proto::ProtocolError;

use crate::aof::Aof;
use crate::background::BetweenJobs;
use crate::backup::Backup;
use crate::claims::SnapshotClaim;
use crate::client_id::ClientId;
use crate::control::context::ControlHandler;
use crate::crew::Crew;
use crate::engine::Engine;
use crate::log::{Log, log_notice, log_warning};
use crate::memcached::Memcached;
use crate::reception::ReceptionDesk;
use crate::saves::Saves;
use crate::scripts;
use crate::session::Session;
use crate::shared::Shared;
use crate::snapshot::Snapshots;
use crate::table::{Built, Handlers};
use crate::unit::Prepare;

/// What is shared by all threads, with those who serve it. It is its [`Engine`] and more.
pub(crate) struct Server {
    engine: Engine,
    pub(crate) control_handlers: Handlers<ControlHandler>,
    pub(crate) aof: Aof,
    pub(crate) backup: Backup,
    pub(crate) snapshots: Snapshots,
    pub(crate) saves: Saves,
    pub(crate) snapshot_claim: SnapshotClaim,
    /// Where files lie.
    pub(crate) storage: Box<dyn Storage>,
    pub(crate) shutdown: crate::shutdown::Shutdown,
    pub(crate) memcached: Memcached,
    pub(crate) crew: Crew,
    /// The way to the reception; set before the first client comes.
    pub(crate) reception: OnceLock<ReceptionDesk>,
    /// Held by who changes the configuration or writes its file, or begins or removes a backup.
    config_turn: Mutex<()>,
}

impl Deref for Server {
    type Target = Engine;

    #[inline]
    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Server {
    pub(crate) fn new(
        config: Config,
        built: Built<ControlHandler, Prepare>,
        log: Log,
        keyspace: &'static Keyspace,
        storage: Box<dyn Storage>,
    ) -> Self {
        let between_jobs =
            BetweenJobs { tidy_up: scripts::collect_garbage, drop_stale: scripts::drop_stale };
        let Built { table, control, programs } = built;
        let shared = Shared::new(config, table, log, keyspace, between_jobs);
        Self {
            aof: Aof::default(),
            backup: Backup::default(),
            snapshots: Snapshots::default(),
            saves: Saves::new(keyspace.clock()),
            snapshot_claim: SnapshotClaim::default(),
            storage,
            shutdown: crate::shutdown::Shutdown::default(),
            memcached: Memcached::default(),
            crew: Crew::new(),
            reception: OnceLock::new(),
            config_turn: Mutex::default(),
            control_handlers: control,
            engine: Engine::new(shared, programs),
        }
    }

    /// Who changes the configuration, or writes down what is part of it, has a turn of its own.
    /// What a panic left behind was either published as a whole or not at all.
    pub(crate) fn take_config_turn(&self) -> MutexGuard<'_, ()> {
        self.config_turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the books of a client whose session is over.
    pub(crate) fn session_ended(&self, id: ClientId) {
        if let Some(client) = self.clients.find(id) {
            self.memcached.lookout.remove(&client);
            self.watchers.remove(&client);
        }
        self.clients.remove(id);
    }

    /// A handler panicked: a bug. The client is closed, the others go on.
    pub(crate) fn note_panic(&self, id: ClientId) {
        log_warning!(self.log, "Panic while serving client id={id}; the client is closed");
    }

    pub(crate) fn note_protocol_error(&self, session: &Session, error: &ProtocolError) {
        self.stats.error(b"ERR");
        if *error == ProtocolError::SecurityAttack {
            let peer = session.client.peer;
            log_warning!(
                self.log,
                "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or \
                 Host: commands to Redis. This is likely due to an attacker attempting to use \
                 Cross Protocol Scripting to compromise your Redis instance. Connection from \
                 {peer} aborted."
            );
        }
    }

    pub(crate) fn note_query_buffer_overrun(&self, session: &Session) {
        self.stats.query_buffer_overruns.fetch_add(1, Ordering::Relaxed);
        let (id, peer) = (session.client.id, session.client.peer);
        log_notice!(
            self.log,
            "Closing client that reached max query buffer length: id={id} addr={peer}"
        );
    }
}
