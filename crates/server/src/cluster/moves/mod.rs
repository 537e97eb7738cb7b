//! Moves of whole hash slots to another primary: the jobs of this node, from here and to here.
//!
//! Invariants: of two jobs under way none has a slot of the other; a job is over once, and then
//! stays in the list for as long as the list has room. No move outlives a change of the role, of
//! the data as a whole, or of the owner of its slots.

mod begin;
mod data_epoch;
mod entry_commands;
mod export;
mod export_queue;
mod figures;
mod grant;
mod import;
mod slot_stream;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use base::Random;
use cluster::{NodeId, SlotSet};
use config::settings::CLUSTER_SLOT_MIGRATION_LOG_MAX_LEN;
use engine::clients::client_id::ClientId;
use engine::clients::mailbox::PendingWakes;
use engine::clients::registry::Signal;
use engine::runtime::log::log_notice;

pub(crate) use self::begin::{RequestedExport, begin_exports};
use self::data_epoch::DataEpoch;
use self::export_queue::ExportQueue;
use self::figures::{DirectionFigures, MoveFigures};
pub(crate) use self::import::SlotImport;
use self::slot_stream::SlotStream;
use crate::cluster::start::ClusterContext;
use crate::net::network::Network;

/// The moves of this node.
#[derive(Default)]
pub(crate) struct SlotMoves {
    /// The newest first.
    jobs: Mutex<VecDeque<Arc<MoveJob>>>,
    /// Whether one takes its snapshot: the others leave the walks to saves and to full syncs.
    is_walking: AtomicBool,
    pub(crate) figures: Arc<MoveFigures>,
    /// Those from here that wait for a thread.
    exports: ExportQueue,
}

/// The turn of a move to take its snapshot, given back when it goes.
struct SnapshotTurn<'a>(&'a AtomicBool);

impl Drop for SnapshotTurn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A move of slots.
pub(crate) struct MoveJob {
    pub(crate) name: String,
    pub(crate) direction: MoveDirection,
    pub(crate) slots: SlotSet,
    pub(crate) source: NodeId,
    pub(crate) target: NodeId,
    /// Times in Unix milliseconds.
    pub(crate) created_ms: i64,
    pub(crate) updated_ms: AtomicI64,
    pub(crate) heard_ms: AtomicI64,
    /// For how long the writers were held.
    pub(crate) paused_ms: AtomicI64,
    /// What waits to be sent, in bytes.
    pub(crate) waiting: AtomicUsize,
    /// What has come, in bytes.
    received: AtomicU64,
    /// What is kept for the target, where slots go from here.
    stream: OnceLock<Weak<SlotStream>>,
    figures: Arc<MoveFigures>,
    progress: Mutex<(MoveState, String)>,
    is_cancelled: AtomicBool,
    /// Why the job is to end, once something says so.
    ending: OnceLock<String>,
    /// What data the node had when it began.
    epoch: DataEpoch,
    /// The client by which the slots come.
    pub(crate) client: Option<ClientId>,
}

/// Whether slots leave or come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MoveDirection {
    Export,
    Import,
}

/// How far a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MoveState {
    Connecting,
    WaitingToSnapshot,
    Snapshotting,
    Replicating,
    WaitingToPause,
    FailoverPaused,
    FailoverGranted,
    ReceivingSnapshot,
    WaitingForPaused,
    FailoverRequested,
    Success,
    Failed,
    Cancelled,
}

impl MoveState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::WaitingToSnapshot => "waiting-to-snapshot",
            Self::Snapshotting => "snapshotting",
            Self::Replicating => "replicating",
            Self::WaitingToPause => "waiting-to-pause",
            Self::FailoverPaused => "failover-paused",
            Self::FailoverGranted => "failover-granted",
            Self::ReceivingSnapshot => "receiving-snapshot",
            Self::WaitingForPaused => "waiting-for-paused",
            Self::FailoverRequested => "failover-requested",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::Success | Self::Failed | Self::Cancelled)
    }
}

/// The parties of a move, and its slots.
#[derive(Clone, Debug)]
pub(crate) struct MoveRequest {
    pub(crate) name: String,
    pub(crate) slots: SlotSet,
    pub(crate) source: NodeId,
    pub(crate) target: NodeId,
}

impl MoveJob {
    /// The state, and what there is to say of it.
    pub(crate) fn progress(&self) -> (MoveState, String) {
        self.lock().clone()
    }

    pub(crate) fn state(&self) -> MoveState {
        self.lock().0
    }

    /// Goes on to another state, unless it is over.
    pub(crate) fn set(&self, server: &Network, state: MoveState, message: &str) {
        let mut progress = self.lock();
        if !progress.0.is_over() {
            *progress = (state, message.to_owned());
            self.own_figures().note_state(state);
            self.updated_ms.store(server.keyspace.clock().now_ms(), Ordering::Relaxed);
        }
    }

    /// Goes on from one state to the next; `false` where it is in another one.
    pub(crate) fn advance(&self, server: &Network, from: MoveState, to: MoveState) -> bool {
        let is_next = self.state() == from;
        if is_next {
            self.set(server, to, "");
        }
        is_next
    }

    /// The move from here is over, so or so.
    fn finish(&self, server: &Network, ended: Result<(), String>) {
        let (state, message) = match ended {
            Ok(()) => (MoveState::Success, String::new()),
            Err(_) if self.is_cancelled() => (MoveState::Cancelled, String::new()),
            Err(why) => (MoveState::Failed, why),
        };
        self.set(server, state, &message);
        let (name, target) = (&self.name, self.target);
        log_notice!(server.log, "Slot migration {name} to {target}: {} {message}", state.name());
    }

    /// Has the move end, for this reason if none is known yet.
    pub(crate) fn end(&self, why: String) {
        // The first reason counts.
        let _ = self.ending.set(why);
    }

    /// Why the move is to end, if it is.
    pub(crate) fn ending(&self) -> Option<&str> {
        self.ending.get().map(String::as_str)
    }

    /// Whether the move may go on; an error says why it may not.
    pub(crate) fn check(&self, server: &Network) -> Result<(), String> {
        match self.ending() {
            Some(why) => Err(why.to_owned()),
            None => self.epoch.check(server).map_err(str::to_owned),
        }
    }

    /// As `check`, with a look at the cluster. The answer lasts as long as the world is stopped.
    pub(crate) fn check_owner(&self, start: ClusterContext) -> Result<(), String> {
        self.check(start.server)?;
        let is_source =
            |cluster: &mut cluster::Cluster, slot| cluster.owner(slot) == Some(self.source);
        let may_go_on = start.node.with_engine(|cluster| {
            cluster.is_primary() && self.slots.iter().all(|slot| is_source(cluster, slot))
        });
        match may_go_on {
            Some(true) => Ok(()),
            _ => Err("Slots are not owned by the source any more".to_owned()),
        }
    }

    /// Closes the client by which slots come, where they do.
    fn close_client(&self, server: &Network) {
        let wakes = PendingWakes::default();
        if let Some(client) = self.client.and_then(|id| server.clients.find(id)) {
            server.mailboxes.signal(&client, Signal::Kill, &wakes);
        }
        server.mailboxes.wake(&wakes);
    }

    /// The other end has said something.
    pub(crate) fn note_heard(&self, server: &Network) {
        self.heard_ms.store(server.keyspace.clock().now_ms(), Ordering::Relaxed);
    }

    /// So much has come in all by the connection of the move.
    pub(crate) fn note_received(&self, bytes: u64) {
        let before = self.received.swap(bytes, Ordering::Relaxed);
        self.own_figures().add_bytes(bytes.saturating_sub(before));
    }

    /// How many keys the slots have here.
    fn key_count(&self, server: &Network) -> u64 {
        self.slots.iter().map(|slot| server.keyspace.population(slot.get()) as u64).sum()
    }

    /// The slots have changed hands, with so many keys.
    fn note_keys(&self, count: u64) {
        self.own_figures().add_keys(count);
    }

    /// How much memory what is kept for the target takes.
    fn kept_bytes(&self) -> usize {
        let stream = self.stream.get().and_then(Weak::upgrade);
        stream.map_or(0, |stream| stream.kept_bytes())
    }

    fn own_figures(&self) -> &DirectionFigures {
        self.figures.of(self.direction)
    }

    /// Ends the move by order: its thread looks at the mark, and a session that brings slots is
    /// closed.
    fn cancel(&self, server: &Network) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.close_client(server);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, (MoveState, String)> {
        self.progress.lock().expect("no critical section here panics")
    }
}

impl SlotMoves {
    /// A name for a new move.
    pub(crate) fn new_name() -> String {
        NodeId::random(&mut Random::from_entropy()).to_string()
    }

    /// A move that is about to begin.
    pub(crate) fn new_job(
        &self,
        server: &Network,
        request: MoveRequest,
        direction: MoveDirection,
        client: Option<ClientId>,
    ) -> Arc<MoveJob> {
        let now = server.keyspace.clock().now_ms();
        let state = match direction {
            MoveDirection::Export => MoveState::Connecting,
            MoveDirection::Import => MoveState::ReceivingSnapshot,
        };
        let MoveRequest { name, slots, source, target } = request;
        Arc::new(MoveJob {
            name,
            direction,
            slots,
            source,
            target,
            created_ms: now,
            updated_ms: AtomicI64::new(now),
            heard_ms: AtomicI64::new(now),
            paused_ms: AtomicI64::new(0),
            waiting: AtomicUsize::new(0),
            received: AtomicU64::new(0),
            stream: OnceLock::new(),
            figures: Arc::clone(&self.figures),
            progress: Mutex::new((state, String::new())),
            is_cancelled: AtomicBool::new(false),
            ending: OnceLock::new(),
            epoch: DataEpoch::now(server),
            client,
        })
    }

    /// All that are under way or remembered, the newest first.
    pub(crate) fn all(&self) -> Vec<Arc<MoveJob>> {
        self.lock().iter().cloned().collect()
    }

    /// Those under way.
    pub(crate) fn running(&self) -> Vec<Arc<MoveJob>> {
        self.lock().iter().filter(|job| !job.state().is_over()).cloned().collect()
    }

    /// Whether one takes its snapshot.
    pub(crate) fn takes_snapshot(&self) -> bool {
        self.is_walking.load(Ordering::Relaxed)
    }

    /// How much memory what is kept for targets takes.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.running().iter().map(|job| job.kept_bytes()).sum()
    }

    /// How many go in a direction now.
    pub(crate) fn active(&self, direction: MoveDirection) -> usize {
        self.running().iter().filter(|job| job.direction == direction).count()
    }

    /// Ends the moves that cannot go on: those whose data, role or owner are others by now, and
    /// those whose source has been silent for so long.
    pub(crate) fn end_hopeless(&self, start: ClusterContext, silence_max_ms: i64) {
        let server = start.server;
        let now = server.keyspace.clock().now_ms();
        for job in self.running() {
            // Slots that are granted change their owner.
            let is_granted = job.state() == MoveState::FailoverGranted;
            if !is_granted && let Err(why) = job.check_owner(start) {
                job.end(why);
            }
            let is_silent = now - job.heard_ms.load(Ordering::Relaxed) > silence_max_ms;
            if job.ending().is_some() || is_silent {
                job.close_client(server);
            }
        }
        self.exports.drop_ended(server);
    }

    /// Ends moves by order.
    pub(crate) fn cancel(&self, server: &Network, jobs: &[Arc<MoveJob>]) {
        jobs.iter().for_each(|job| job.cancel(server));
        self.exports.drop_ended(server);
    }

    /// The turn to take a snapshot, unless another move has it.
    fn take_turn(&self) -> Option<SnapshotTurn<'_>> {
        let is_taken = self.is_walking.swap(true, Ordering::Acquire);
        // Not made where it is taken: a turn that goes gives itself back.
        (!is_taken).then(|| SnapshotTurn(&self.is_walking))
    }

    /// Takes jobs in, unless a slot of theirs is on the move already.
    pub(crate) fn add(&self, server: &Network, jobs: &[Arc<MoveJob>]) -> Result<(), cluster::Slot> {
        let mut all = self.lock();
        let running = || all.iter().filter(|job| !job.state().is_over());
        for job in jobs {
            if let Some(slot) =
                running().find_map(|other| other.slots.and(&job.slots).iter().next())
            {
                return Err(slot);
            }
        }
        jobs.iter().for_each(|job| all.push_front(Arc::clone(job)));
        let most = server.config.get(CLUSTER_SLOT_MIGRATION_LOG_MAX_LEN);
        let mut over = 0;
        all.retain(|job| {
            over += usize::from(job.state().is_over());
            !job.state().is_over() || over <= most
        });
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<MoveJob>>> {
        self.jobs.lock().expect("no critical section here panics")
    }
}
