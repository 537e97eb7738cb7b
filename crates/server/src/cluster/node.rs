//! The engine of this node under its lock, and the ways to it.
//!
//! Invariants: what an action promises is in `nodes.conf` before the lock is given back, and
//! actions leave for the driver in the order in which the engine gave them. Under the lock nothing
//! is waited for but the disk; the world comes before it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::sleep;
use std::time::Duration;

use base::Random;
use base::io_error_text::strerror;
use cluster::{
    Action, AdminCommand, AdminError, Cluster, Event, LinkId, MessageType, Moment, NodeId,
    NodeRecord, NodesFile, PublishedMessage, Slot, SlotSet,
};
use config::SaveBehavior;
use config::settings::{CLUSTER_CONFIG_SAVE_BEHAVIOR, TLS_REPLICATION};
use engine::clients::mailbox::PendingWakes;
use engine::clients::registry::{Signal, client_flags};
use engine::limits::slot_map::SlotMap;
use engine::observe::pubsub::{MessageBus, PubSubType};
use engine::reclaim::slots::{forget_copied, has_copies, note_lost};
use engine::runtime::background::wait_for;
use engine::runtime::failpoint::{ClaimPlace, point_in_claim};
use engine::runtime::log::log_warning;
use engine::session::lost_channels::notify_lost_channels;
use keyspace::{Acquisition, PartitionIndex};
use replication::replica::{PrimaryAddress, ReplicaofTarget};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::config_file::NodesConfFile;
use super::message_queue::MessageQueue;
use super::moves::SlotMoves;
use super::proxy::RequestProxy;
use super::rebalance::Rebalancer;
use super::trims::Trims;
use super::{settings, slot_map};
use crate::net::network::Network;

/// A log that does not say within this time that it has a record is waited for no longer.
const LOOKS_AT_LOG: usize = 1000;
const BETWEEN_LOOKS_AT_LOG: Duration = Duration::from_millis(1);

/// What an order leaves of the node's data. What a replica has is its primary's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataBehindOrder {
    Kept,
    /// Nothing is to be left.
    Void,
}

impl DataBehindOrder {
    /// Behind an order that was carried out, by what the node was as it was.
    fn of(order: &AdminCommand, was_replica: bool) -> Self {
        match order {
            AdminCommand::Reset { .. } => Self::Void,
            AdminCommand::ReplicateNoOne if was_replica => Self::Void,
            _ => Self::Kept,
        }
    }
}

/// What the driver is given to do.
pub(super) enum DriverRequest {
    /// What the engine wants to have done.
    Actions(Vec<Action>),
    /// Keys of these slots are not wanted here.
    DeleteSlotKeys(Vec<PartitionIndex>),
    /// The primary ends, and has this node take over.
    TakeOver,
}

/// This server as a node of a cluster, if it is one.
#[derive(Default)]
pub(crate) struct ClusterNode {
    core: OnceLock<Mutex<NodeCore>>,
    /// The way to the driver without the lock.
    mail: OnceLock<UnboundedSender<DriverRequest>>,
    /// What clients here publish.
    pub(super) messages: OnceLock<MessageQueue>,
    /// One table at a time is published.
    publishing: Mutex<()>,
    pub(crate) counts: BusStats,
    /// Slots on their way from here and to here.
    pub(crate) moves: SlotMoves,
    /// Keys of lost slots on their way out.
    pub(crate) trims: Trims,
    /// Requests that are sent on to other nodes.
    pub(crate) proxy: RequestProxy,
    /// What this node has rebalanced, and does.
    pub(crate) rebalancer: Rebalancer,
    pub(crate) links: Mutex<BTreeMap<LinkId, Arc<LinkFigures>>>,
}

struct NodeCore {
    cluster: Cluster,
    file: NodesConfFile,
    sender: UnboundedSender<DriverRequest>,
    /// What the engine had changed when a table was last made of it.
    published: u64,
    /// A text that could not be written to the file, and is to be tried again.
    unsaved: Option<String>,
}

/// Packets by their type, and what became of links.
#[derive(Default)]
pub(crate) struct BusStats {
    pub(crate) sent: [AtomicU64; MessageType::ALL.len()],
    pub(crate) received: [AtomicU64; MessageType::ALL.len()],
    /// Links that were given up as too much waited in them.
    pub(crate) buffer_limit_exceeded: AtomicU64,
    /// Messages that went to no other node, as too many waited.
    pub(crate) lost_messages: AtomicU64,
}

/// What is told of a link.
#[derive(Debug, Default)]
pub(crate) struct LinkFigures {
    /// When the link was opened, in Unix milliseconds.
    pub(crate) created: u64,
    /// What waits to be sent.
    pub(crate) queued: AtomicUsize,
    /// How many bytes were sent.
    pub(super) written: AtomicU64,
}

/// Whether the caller has the world stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum World {
    Stopped,
    Going,
}

impl ClusterNode {
    /// Begins the node where its file ends; what it wants to have done comes by the receiver.
    pub(super) fn open(
        &self,
        server: &'static Network,
        file: NodesConfFile,
        read: Option<NodesFile>,
    ) -> UnboundedReceiver<DriverRequest> {
        let (sender, receiver) = unbounded_channel();
        let settings = settings::of_engine(server);
        let random = Random::from_entropy();
        let (cluster, actions) = Cluster::start(settings, read, moment(server), random);
        let mut core = NodeCore { cluster, file, sender, published: 0, unsaved: None };
        core.queue(server, actions);
        assert!(self.mail.set(core.sender.clone()).is_ok(), "there is one node in a process");
        let messages = MessageQueue::new(&server.gates.message_backpressure);
        assert!(self.messages.set(messages).is_ok(), "there is one node in a process");
        assert!(self.core.set(Mutex::new(core)).is_ok(), "there is one node in a process");
        receiver
    }

    /// Whether this server is a node of a cluster.
    pub(crate) fn is_on(&self) -> bool {
        self.core.get().is_some()
    }

    /// Looks at the engine; nothing where this is no node.
    pub(crate) fn with_engine<T>(&self, read: impl FnOnce(&mut Cluster) -> T) -> Option<T> {
        Some(read(&mut self.lock()?.cluster))
    }

    /// Feeds an event; whether clients may be told something else now.
    pub(super) fn handle(&self, server: &Network, event: Event) -> bool {
        let Some(mut core) = self.lock() else { return false };
        let actions = core.cluster.handle(moment(server), event);
        core.queue(server, actions);
        core.cluster.generation() != core.published
    }

    /// Carries out an order, and has its result count at once.
    pub(crate) fn order(
        &self,
        server: &Network,
        order: &AdminCommand,
        world: World,
    ) -> Result<DataBehindOrder, AdminError> {
        let mut data = DataBehindOrder::Kept;
        if let Some(mut core) = self.lock() {
            let is_replica = !core.cluster.is_primary();
            let mut actions = core.cluster.order(moment(server), order)?;
            data = DataBehindOrder::of(order, is_replica);
            core.write_down(server, &mut actions);
            if matches!(order, AdminCommand::Claim { .. }) {
                point_in_claim(ClaimPlace::Telling);
            }
            core.queue(server, actions);
            if let AdminCommand::Grant { slots, .. } = order
                && core.unsaved.is_some()
            {
                // A promise that is not on disk may be forgotten.
                let revoke = AdminCommand::Revoke(slots.clone());
                let actions = core.cluster.order(moment(server), &revoke)?;
                core.queue(server, actions);
                return Err(AdminError::NotSaved);
            }
        }
        self.publish_slot_map(server, world);
        Ok(data)
    }

    /// The directives have changed.
    pub(crate) fn configure(&self, server: &Network) {
        let Some(mut core) = self.lock() else { return };
        let actions = core.cluster.set(moment(server), settings::of_engine(server));
        core.queue(server, actions);
        drop(core);
        // A table by which something is lost is left to the thread that may wait.
        self.publish_if(server, World::Going);
    }

    /// Has the keys of slots deleted that are copies of what another node has.
    pub(crate) fn drop_slots(&self, slots: Vec<PartitionIndex>) {
        if let Some(mail) = self.mail.get() {
            // The driver ends with the process.
            let _ = mail.send(DriverRequest::DeleteSlotKeys(slots));
        }
    }

    /// Has this node take the place of its primary, which ends.
    pub(super) fn take_over(&self) {
        if let Some(mail) = self.mail.get() {
            // The driver ends with the process.
            let _ = mail.send(DriverRequest::TakeOver);
        }
    }

    /// Slots that are not this node's and of which there are keys here: those whose keys are
    /// copies, left by a move that did not come to its end, or of a slot that was lost, and those
    /// of other nodes whose keys may be nowhere else. Only a primary has any.
    pub(super) fn stray_slots(&self, server: &Network) -> (Vec<PartitionIndex>, SlotSet) {
        let has_keys = |slot: &Slot| server.keyspace.population(slot.get()) > 0;
        let is_copy = |slot: &Slot| has_copies(server, slot.get());
        let found = self.with_engine(|cluster| {
            let is_open = |slot: &Slot| cluster.open_slots().any(|(open, _)| open == *slot);
            let me = cluster.my_id();
            let is_elsewhere = |slot: &Slot| match cluster.owner(*slot) {
                Some(owner) => owner != me,
                None => is_copy(slot),
            };
            let is_stray = |slot: &Slot| has_keys(slot) && is_elsewhere(slot) && !is_open(slot);
            cluster.is_primary().then(|| Slot::all().filter(is_stray).collect::<Vec<_>>())
        });
        let (copied, others): (Vec<Slot>, Vec<Slot>) =
            found.flatten().unwrap_or_default().into_iter().partition(is_copy);
        (copied.into_iter().map(Slot::get).collect(), others.into_iter().collect())
    }

    /// The port for replicas of a primary: that of TLS where replication goes by TLS.
    pub(super) fn replication_port(&self, server: &Network, primary: NodeId) -> Option<u16> {
        let record = self.record(primary)?;
        let is_encrypted = server.config.get(TLS_REPLICATION);
        let port = if is_encrypted { record.tls_port } else { record.tcp_port };
        (port != 0).then_some(port)
    }

    /// Whom the data are to follow by what the engine says now; nothing where it knows no address.
    pub(super) fn replication_target(&self, server: &Network) -> Option<ReplicaofTarget> {
        let Some(primary) = self.with_engine(|cluster| cluster.my_primary())? else {
            let leads = self.with_engine(|cluster| cluster.is_primary())?;
            return leads.then_some(ReplicaofTarget::NoOne);
        };
        let host = self.record(primary)?.ip?.to_string();
        let port = self.replication_port(server, primary)?;
        Some(ReplicaofTarget::Primary(PrimaryAddress { host, port }))
    }

    /// Where a node takes clients, of its two ports at this one.
    pub(super) fn client_address(&self, id: NodeId, is_encrypted: bool) -> Option<SocketAddr> {
        let record = self.record(id)?;
        let port = if is_encrypted { record.tls_port } else { record.tcp_port };
        (port != 0).then_some(SocketAddr::new(record.ip?, port))
    }

    /// The same for the links by which requests are sent on, which may lead to this node itself
    /// before it has heard its own address.
    pub(super) fn link_address(&self, id: NodeId, is_encrypted: bool) -> Option<SocketAddr> {
        let record = self.record(id)?;
        let is_me = self.with_engine(|cluster| cluster.my_id() == id)?;
        let port = if is_encrypted { record.tls_port } else { record.tcp_port };
        let ip = record.ip.or(is_me.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST)))?;
        (port != 0).then_some(SocketAddr::new(ip, port))
    }

    /// The node that another names to its client by a host and a port; without a host that is the
    /// other's own.
    pub(super) fn node_at(&self, host: &str, port: u16, said_by: NodeId) -> Option<NodeId> {
        let records = self.with_engine(|cluster| cluster.records())?;
        let own = records.iter().find(|record| record.id == said_by).and_then(|it| it.ip);
        let is_at = |record: &&NodeRecord| match host {
            "" | "?" => record.ip.is_some() && record.ip == own,
            _ => {
                let told = [record.ip, record.client_ip(false), record.client_ip(true)];
                told.into_iter().flatten().any(|ip| ip.to_string() == host)
                    || record.aux.hostname.as_deref() == Some(host)
            }
        };
        let has_port = |record: &&NodeRecord| {
            let (tcp_port, tls_port) = record.client_ports();
            [record.tcp_port, record.tls_port, tcp_port, tls_port].contains(&port)
        };
        records.iter().filter(has_port).find(is_at).map(|record| record.id)
    }

    fn record(&self, id: NodeId) -> Option<NodeRecord> {
        self.with_engine(|cluster| cluster.record_of(id))?
    }

    /// Has the gates go by what the engine says now. Not for workers, unless they have the world:
    /// a table by which something is lost waits for it.
    pub(crate) fn publish_slot_map(&self, server: &Network, world: World) {
        if self.publish_if(server, world) {
            return;
        }
        let mut stopped = Acquisition::of_world(server.keyspace);
        wait_for(&mut stopped);
        self.publish_if(server, World::Stopped);
    }

    /// Publishes a table if that needs no more than there is.
    fn publish_if(&self, server: &Network, world: World) -> bool {
        let _publishing = self.publishing.lock().expect("no critical section here panics");
        let Some((next, generation)) = self.next_table(server) else { return true };
        let present = server.gates.routing.table();
        if !present.is_same_as(&next) || !server.gates.routing.is_on() {
            if world == World::Going && present.loses_to(&next) {
                return false;
            }
            let is_lost = present.loses_to(&next);
            server.keyspace.served_slots().replace(|slot| next.is_served(slot));
            server.keyspace.open_slots().replace(|slot| next.open.contains_key(&slot));
            server.gates.routing.publish(next);
            if is_lost {
                recheck_blocked_clients(server);
            }
            forget_copied(server);
            let now = server.gates.routing.table();
            notify_lost_channels(server, |slot| present.hands_over(&now, slot));
            let changes = |slot| present.hands_over(&now, slot) || now.hands_over(&present, slot);
            server.observed.slot_stats.reset(changes);
        }
        if let Some(mut core) = self.lock() {
            core.published = generation;
        }
        true
    }

    /// The table by which clients are to be sent; none while the node is a primary that cannot
    /// write yet: the thread of roles publishes when that is over.
    fn next_table(&self, server: &Network) -> Option<(SlotMap, u64)> {
        let core = self.lock()?;
        if core.cluster.is_primary() && server.gates.replica_role.is_replica() {
            return None;
        }
        let table = slot_map::of(&core.cluster, &server.config);
        Some((table, core.cluster.generation()))
    }

    fn lock(&self) -> Option<MutexGuard<'_, NodeCore>> {
        Some(self.core.get()?.lock().expect("no critical section here panics"))
    }
}

/// Has clients that wait for keys look whether these are served here still.
fn recheck_blocked_clients(server: &Network) {
    let wakes = PendingWakes::default();
    for client in server.clients.all() {
        // Not only those that are shown to wait: a wait may have begun and not be shown yet.
        if !client.has_flag(client_flags::REPLICA) {
            server.mailboxes.signal(&client, Signal::Review, &wakes);
        }
    }
    server.mailboxes.wake(&wakes);
}

impl NodeCore {
    /// Writes what is not in the file yet.
    fn save(&mut self, server: &Network) {
        let Some(text) = &self.unsaved else { return };
        let Err(error) = self.file.write(text) else {
            self.unsaved = None;
            return;
        };
        log_warning!(
            server.log,
            "Could not save the cluster configuration file: {}",
            strerror(&error)
        );
        if server.config.get(CLUSTER_CONFIG_SAVE_BEHAVIOR) == SaveBehavior::Sync {
            server.log.write_last("Fatal: can't update cluster config file.");
            std::process::exit(1);
        }
    }

    /// Writes down what is promised.
    fn write_down(&mut self, server: &Network, actions: &mut Vec<Action>) {
        if let Some(Action::SaveConfig { text, .. }) = actions.first() {
            self.unsaved = Some(text.clone());
            actions.remove(0);
        }
        for action in actions.iter() {
            if let Action::DeleteSlotKeys { slots } = action {
                // The log is to know by what is in the file that they may go.
                note_lost(server, &slots.iter().map(Slot::get).collect::<Vec<_>>());
                await_log(server);
            }
        }
        self.save(server);
    }

    /// Writes down what is promised, and leaves the rest to the driver.
    fn queue(&mut self, server: &Network, mut actions: Vec<Action>) {
        self.write_down(server, &mut actions);
        if self.unsaved.is_some() {
            // What is not on disk may be forgotten, and a vote given twice.
            actions.retain(|action| !is_vote(action));
        }
        if !actions.is_empty() {
            // The driver ends with the process.
            let _ = self.sender.send(DriverRequest::Actions(actions));
        }
    }
}

/// Waits until a kill of the process leaves in the log what was appended, for as long as a disk
/// that works may take.
fn await_log(server: &Network) {
    let (journal, end) = (&server.journal, server.journal.end());
    journal.flush();
    for _ in 0..LOOKS_AT_LOG {
        if journal.is_written(end) {
            return;
        }
        sleep(BETWEEN_LOOKS_AT_LOG);
    }
}

/// Whether an action gives a vote.
fn is_vote(action: &Action) -> bool {
    let Action::Send { bytes, .. } = action else { return false };
    bytes.get(12..14) == Some(&(MessageType::AuthAck as u16).to_be_bytes()[..])
}

/// The time, as the engine is told it.
pub(super) fn moment(server: &Network) -> Moment {
    let clock = server.keyspace.clock();
    let (now, wall) = (clock.monotonic_us() / 1000, clock.now_ms());
    Moment { now: now.unsigned_abs(), wall: wall.unsigned_abs() }
}

impl BusStats {
    /// A packet of this type was sent, or has come.
    pub(super) fn count(counters: &[AtomicU64; MessageType::ALL.len()], kind: MessageType) {
        if let Some(counter) = counters.get(kind as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl MessageBus for ClusterNode {
    fn publish(&self, space: PubSubType, channel: &[u8], message: &[u8]) {
        let (channel, message) = (channel.to_vec(), message.to_vec());
        let published =
            PublishedMessage { channel, message, is_sharded: space == PubSubType::Shard };
        if let Some(messages) = self.messages.get()
            && !messages.push(published)
        {
            self.counts.lost_messages.fetch_add(1, Ordering::Relaxed);
        }
    }
}
