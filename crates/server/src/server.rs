//! The server as the rooms see it that stand above the data: what all threads share, and those who
//! run, keep and serve it.
//!
//! Invariant: it lives as long as the process and is only ever shared; whatever changes in it is an
//! atomic or behind a lock of its own.

use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use config::Config;
use keyspace::Keyspace;
use persist::storage::Storage;
use proto::ProtocolError;

use crate::background::BetweenJobs;
use crate::client_id::ClientId;
use crate::control::context::ControlHandler;
use crate::crew::Crew;
use crate::durability::Durability;
use crate::engine::Engine;
use crate::log::{Log, log_notice, log_warning};
use crate::memcached::Memcached;
use crate::reception::ReceptionDesk;
use crate::scripts;
use crate::session::Session;
use crate::shared::Shared;
use crate::table::{Built, Handlers};
use crate::unit::Prepare;

/// What keeps the data, with those who serve it. It is its [`Durability`] and more.
pub(crate) struct Server {
    durability: Durability,
    pub(crate) control_handlers: Handlers<ControlHandler>,
    pub(crate) memcached: Memcached,
    pub(crate) crew: Crew,
    /// The way to the reception; set before the first client comes.
    pub(crate) reception: OnceLock<ReceptionDesk>,
}

impl Deref for Server {
    type Target = Durability;

    #[inline]
    fn deref(&self) -> &Durability {
        &self.durability
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
        let Built { table, control, programs } = built;
        let between_jobs =
            BetweenJobs { tidy_up: scripts::collect_garbage, drop_stale: scripts::drop_stale };
        let shared = Shared::new(config, table, log, keyspace, between_jobs);
        Self {
            durability: Durability::new(Engine::new(shared, programs), storage),
            control_handlers: control,
            memcached: Memcached::default(),
            crew: Crew::new(),
            reception: OnceLock::new(),
        }
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
