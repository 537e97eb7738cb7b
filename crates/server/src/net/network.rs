//! What serves connections: the workers, and the way to the listeners.
//!
//! Invariant: a client's books are ended once, when its session is over.

use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use engine::clients::client_id::ClientId;
use engine::runtime::log::{log_notice, log_warning};
use engine::session::Session;
use proto::ProtocolError;

use crate::memcached::MemcachedServer;
use crate::net::connection::{MovingSession, RawStream};
use crate::net::listeners::ListenerHandle;
use crate::net::tls::Tls;
use crate::net::worker_pool::WorkerPool;

/// The listeners and connections: the network is its [`MemcachedServer`] and more.
pub(crate) struct Network {
    memcached_server: MemcachedServer,
    pub(crate) worker_pool: WorkerPool,
    /// The way to the listeners; set before the first client comes.
    pub(crate) listeners: OnceLock<ListenerHandle>,
    pub(crate) tls: Tls,
    /// What takes over the connections of clients that become replicas; set likewise.
    links: OnceLock<LinksHandover>,
    /// What answers requests of HTTP that came in by the port of Redis; set where there may be any.
    http: OnceLock<HttpHandover>,
}

/// Takes over the connection of a client that has asked for a sync.
type LinksHandover = Box<dyn Fn(Box<MovingSession>) + Send + Sync>;

/// Takes over the connection of a client that speaks HTTP, with what it has sent.
type HttpHandover = Box<dyn Fn(RawStream, Vec<u8>) + Send + Sync>;

impl Deref for Network {
    type Target = MemcachedServer;

    #[inline]
    fn deref(&self) -> &MemcachedServer {
        &self.memcached_server
    }
}

impl Network {
    pub(crate) fn new(memcached_server: MemcachedServer) -> Self {
        Self {
            memcached_server,
            worker_pool: WorkerPool::new(),
            listeners: OnceLock::new(),
            tls: Tls::default(),
            links: OnceLock::new(),
            http: OnceLock::new(),
        }
    }

    /// Says where the connections of clients go that become replicas; once.
    pub(crate) fn set_links_handover(&self, enter: impl Fn(Box<MovingSession>) + Send + Sync + 'static) {
        let _ = self.links.set(Box::new(enter));
    }

    /// Gives up the connection of a client that becomes a replica.
    pub(crate) fn hand_over_to_links(&self, moving: Box<MovingSession>) {
        match self.links.get() {
            Some(enter) => enter(moving),
            None => self.session_ended(moving.session.client.id),
        }
    }

    /// Says where the connections of clients go that speak HTTP; once.
    pub(crate) fn set_http_handover(&self, enter: impl Fn(RawStream, Vec<u8>) + Send + Sync + 'static) {
        let _ = self.http.set(Box::new(enter));
    }

    /// Gives up the connection of a client that speaks HTTP, which is no client of Redis any more.
    pub(crate) fn give_to_http(&self, mut moving: MovingSession) {
        self.session_ended(moving.session.client.id);
        if let Some(enter) = self.http.get() {
            let input = moving.take_input();
            enter(moving.stream, input);
        }
    }

    /// Ends the books of a client whose session is over.
    pub(crate) fn session_ended(&self, id: ClientId) {
        if let Some(client) = self.clients.find(id) {
            self.memcached.watchers.remove(&client);
            self.pushes.monitors.remove(&client);
        }
        self.clients.remove(id);
    }

    /// A handler panicked: a bug. The client is closed, the others go on.
    pub(crate) fn note_panic(&self, id: ClientId) {
        log_warning!(self.log, "Panic while serving client id={id}; the client is closed");
    }

    pub(crate) fn note_protocol_error(&self, session: &Session, error: &ProtocolError) {
        self.observed.stats.error(b"ERR");
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
        self.observed.stats.query_buffer_overruns.fetch_add(1, Ordering::Relaxed);
        let (id, peer) = (session.client.id, session.client.peer);
        log_notice!(
            self.log,
            "Closing client that reached max query buffer length: id={id} addr={peer}"
        );
    }
}
