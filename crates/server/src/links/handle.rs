//! Replication as other rooms see it: where a client goes that becomes a replica, and what there is
//! to tell.
//!
//! Invariant: the thread begins when the first message comes, and there is one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use base::io_error_text::strerror;
use engine::runtime::log::log_warning;
use replication::primary::{IsNode, ReplconfReply, ReplconfState};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::failover::Failover;
use super::replication_state::ReplicationState;
use super::report::ReplicationReport;
use super::thread::{self, LinksMessage};
use crate::net::connection::MovingSession;
use crate::net::network::Network;

/// The links to replicas.
pub(crate) struct Links {
    core: OnceLock<Mutex<ReplicationState>>,
    sender: UnboundedSender<LinksMessage>,
    /// Bytes that came from our primary.
    pub(super) heard: AtomicU64,
    /// Bytes that were sent to replicas.
    pub(super) sent: AtomicU64,
    /// The thread that changes our role has this.
    pub(super) role_turn: Mutex<()>,
    pub(super) failover: Failover,
    /// How often we were asked to become the primary by an old one.
    pub(super) handovers_asked: AtomicU64,
    /// What the thread receives, before it begins.
    receiver: Mutex<Option<UnboundedReceiver<LinksMessage>>>,
}

impl Links {
    /// None yet, and no thread.
    pub(crate) fn new() -> Self {
        let (sender, receiver) = unbounded_channel();
        Self {
            core: OnceLock::new(),
            sender,
            heard: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            role_turn: Mutex::default(),
            failover: Failover::default(),
            handovers_asked: AtomicU64::new(0),
            receiver: Mutex::new(Some(receiver)),
        }
    }

    /// Takes over the connection of a client that has asked for a sync.
    pub(crate) fn adopt(&'static self, server: &'static Network, moving: Box<MovingSession>) {
        self.send(server, LinksMessage::Adopt(moving));
    }

    /// A client's REPLCONF, whose name is not among `args`.
    pub(crate) fn announce(
        &self,
        server: &Network,
        announced: &mut ReplconfState,
        args: &[&[u8]],
    ) -> ReplconfReply {
        let duties = server.cluster_duties.get();
        let is_node = |name: &[u8]| duties.is_some_and(|node| node.is_node(name));
        let nodes: Option<IsNode<'_>> = duties.is_some().then_some(&is_node);
        self.core(server).primary.announce(announced, args, nodes)
    }

    /// The directives have changed.
    pub(crate) fn configure(&'static self, server: &'static Network) {
        self.core(server).configure(server);
        if self.is_begun() {
            self.send(server, LinksMessage::RunActions);
        }
    }

    /// A replica that asks to go on from now on is of another history.
    pub(crate) fn change_id(&self, server: &Network) {
        self.core(server).change_id(server);
    }

    /// What there is to tell.
    pub(crate) fn report(&self, server: &Network) -> ReplicationReport {
        ReplicationReport::of(self, server)
    }

    /// The bytes that came from our primary, and those that were sent to replicas.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        (self.heard.load(Ordering::Relaxed), self.sent.load(Ordering::Relaxed))
    }

    /// Counts syncs anew.
    pub(crate) fn reset_counts(&self, server: &Network) {
        self.core(server).primary.reset_counts();
    }

    pub(super) fn core(&self, server: &Network) -> MutexGuard<'_, ReplicationState> {
        let core = self.core.get_or_init(|| Mutex::new(ReplicationState::new(server)));
        core.lock().expect("no critical section here panics")
    }

    /// Tells the thread, which begins if it has not.
    pub(super) fn send(&'static self, server: &'static Network, message: LinksMessage) {
        // The receiver lives as long as the thread, and the thread as long as the process.
        let _ = self.sender.send(message);
        let receiver = self.receiver().take();
        if let Some(receiver) = receiver
            && let Err(error) = thread::spawn(server, self, receiver)
        {
            log_warning!(server.log, "Cannot serve replicas: {}", strerror(&error));
        }
    }

    fn is_begun(&self) -> bool {
        self.receiver().is_none()
    }

    fn receiver(&self) -> MutexGuard<'_, Option<UnboundedReceiver<LinksMessage>>> {
        self.receiver.lock().expect("no critical section here panics")
    }
}
