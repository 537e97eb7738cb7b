//! A node of a cluster: events in, actions out.
//!
//! `Cluster::start` takes what `nodes.conf` said. From then on `Cluster::handle` takes one event at
//! a time, and `Cluster::order` one order of an operator; both give back what is to be done, one
//! after the other. `Persist` comes first, if at all, and nothing behind it is done before it is:
//! votes and epochs are told by what stands behind. A driver that cannot write ends the process, or
//! drops the rest of the list.
//!
//! Invariants: a node votes once in an epoch; a slot has one owner in a table; whatever is told of
//! an epoch is on disk before; memory is bounded by what the peers that were let in may name.

mod admin_commands;
mod admin_error;
mod confirmation;
mod election;
mod event;
mod failure_detection;
mod forget;
mod handshake;
mod links;
mod manual_failover;
mod node;
mod nodes_table;
mod publish;
mod receive;
mod replica_migration;
mod replication_offset;
mod send;
mod setslot;
mod settings;
mod slot_handover;
mod slot_ownership;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use base::Random;

pub use self::admin_error::AdminError;
use self::confirmation::Confirmation;
use self::election::Election;
pub use self::event::{
    Action, AdminCommand, ClaimEpochs, Event, FailoverMode, LinkId, Millis, Moment,
    PublishedMessage, SetSlotAction, StreamPosition,
};
use self::handshake::Handshake;
use self::links::Links;
use self::manual_failover::ManualFailover;
use self::node::Node;
pub use self::settings::Settings;
use self::slot_handover::Handovers;
use self::state::ClusterState;
use crate::id::{NodeId, ShardId};
use crate::message::Header;
use crate::nodes_file::{NodeRecord, NodesFile, OpenSlot};
use crate::slots::{Slot, SlotSet};

/// A node of a cluster.
#[derive(Debug)]
pub struct Cluster {
    settings: Settings,
    random: Random,
    moment: Moment,
    me: NodeId,
    /// All nodes that are known, this one among them.
    nodes: BTreeMap<NodeId, Node>,
    /// Nodes that were not met yet, by the names drawn for them.
    handshakes: BTreeMap<NodeId, Handshake>,
    links: Links,
    /// Slots on the move, from this node or to it.
    open: BTreeMap<Slot, OpenSlot>,
    handovers: Handovers,
    confirmation: Confirmation,
    /// Nodes that were forgotten, and until when they stay so.
    blacklist: BTreeMap<NodeId, Millis>,
    current_epoch: u64,
    last_vote_epoch: u64,
    state: ClusterState,
    election: Option<Election>,
    /// When the next election may be scheduled at the earliest.
    election_after: Millis,
    manual: Option<ManualFailover>,
    /// Where the data here stand in the stream of the present primary, as the driver last said.
    position: StreamPosition,
    /// Whether what is here is of another shard: of its present one the node has nothing yet.
    has_foreign_data: bool,
    /// How long ago this replica heard from its primary, as the driver last said.
    silence: Option<Millis>,
    ticks: u64,
    save: Save,
    /// Counts what has changed in what clients are told.
    generation: u64,
    actions: Vec<Action>,
}

/// Whether the table is to be saved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Save {
    No,
    Written,
    Synced,
}

impl Cluster {
    /// A node that goes on where `file` ends; without one, a new node.
    pub fn start(
        settings: Settings,
        file: Option<NodesFile>,
        moment: Moment,
        mut random: Random,
    ) -> (Cluster, Vec<Action>) {
        let me = file.as_ref().and_then(NodesFile::own).map(|own| own.id);
        let is_new = me.is_none();
        let me = me.unwrap_or_else(|| NodeId::random(&mut random));
        let mut cluster = Cluster {
            settings: settings.bounded(),
            random,
            moment,
            me,
            nodes: BTreeMap::new(),
            handshakes: BTreeMap::new(),
            links: Links::default(),
            open: BTreeMap::new(),
            handovers: Handovers::default(),
            confirmation: Confirmation::new(moment.now),
            blacklist: BTreeMap::new(),
            current_epoch: 0,
            last_vote_epoch: 0,
            state: ClusterState::new(moment.now),
            election: None,
            election_after: 0,
            manual: None,
            position: StreamPosition::Nowhere,
            has_foreign_data: false,
            silence: None,
            ticks: 0,
            save: if is_new { Save::Synced } else { Save::No },
            generation: 1,
            actions: Vec::new(),
        };
        cluster.load(file.unwrap_or_default());
        if is_new {
            cluster.log(format!("No cluster configuration found, I'm {me}"));
        } else {
            cluster.log(format!("Node configuration loaded, I'm {me}"));
            cluster.follow_role();
        }
        let actions = cluster.finish();
        (cluster, actions)
    }

    /// Takes one event.
    pub fn handle(&mut self, moment: Moment, event: Event) -> Vec<Action> {
        self.moment = moment;
        match event {
            Event::Begun => self.begin(),
            Event::Tick => self.tick(),
            Event::Accepted { link, peer, local } => {
                let now = self.now();
                self.links.accept(link, peer, local, now);
            }
            Event::Connected { link } => self.connected(link),
            Event::Closed { link } => self.closed(link),
            Event::Received { link, packet } => self.received(link, *packet),
            Event::ReplicationOffset { primary, position, silence } => {
                self.record_position(primary, position, silence);
            }
            Event::WritesPaused { offset } => self.writes_paused(offset),
            Event::PrimaryEnds => self.inherit(),
        }
        self.finish()
    }

    /// Takes an order of an operator: what is wrong with it, or what is to be done.
    pub fn order(
        &mut self,
        moment: Moment,
        order: &AdminCommand,
    ) -> Result<Vec<Action>, AdminError> {
        self.moment = moment;
        self.execute_admin(order)?;
        Ok(self.finish())
    }

    /// Takes what the operator has set now.
    pub fn set(&mut self, moment: Moment, settings: Settings) -> Vec<Action> {
        self.moment = moment;
        self.settings = settings.bounded();
        self.take_settings();
        self.save(Save::Written);
        self.finish()
    }

    /// The name of this node.
    pub fn my_id(&self) -> NodeId {
        self.me
    }

    /// The shard of this node.
    pub fn my_shard(&self) -> ShardId {
        self.own().shard
    }

    /// The greatest epoch that was seen.
    pub fn current_epoch(&self) -> u64 {
        self.current_epoch
    }

    /// The epoch of this node's claims.
    pub fn my_epoch(&self) -> u64 {
        self.own().config_epoch
    }

    /// Whether commands may be served.
    pub fn is_ok(&self) -> bool {
        self.state.is_ok()
    }

    /// The owner of a slot.
    pub fn owner(&self, slot: Slot) -> Option<NodeId> {
        self.nodes.iter().find(|(_, node)| node.slots.contains(slot)).map(|(id, _)| *id)
    }

    /// The slots on the move, from this node or to it.
    pub fn open_slots(&self) -> impl Iterator<Item = (Slot, OpenSlot)> {
        self.open.iter().map(|(slot, open)| (*slot, *open))
    }

    /// How far a node has written, or applied, as it last said.
    pub fn offset(&self, id: NodeId) -> Option<u64> {
        self.nodes.get(&id).map(|node| node.offset)
    }

    /// A number that is greater whenever owners, roles, places or the state may have changed.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// How many nodes are known, those among them that are being met.
    pub fn known_nodes(&self) -> usize {
        self.nodes.len() + self.handshakes.len()
    }

    /// The links to nodes and from nodes, each with its node.
    pub fn links(&self) -> Vec<(LinkId, NodeId)> {
        let links = self.nodes.iter().flat_map(|(id, node)| {
            let outbound = node.outbound.filter(|outbound| outbound.is_connected);
            let both = outbound.map(|outbound| outbound.link).into_iter().chain(node.inbound);
            both.map(|link| (link, *id))
        });
        links.collect()
    }

    /// How many primaries have slots.
    pub fn size(&self) -> usize {
        self.quorum().1
    }

    /// How many slots have an owner that is suspected, and one that is down.
    pub fn failing_slots(&self) -> (usize, usize) {
        let count = |is_meant: fn(&Node) -> bool| {
            self.nodes.values().filter(|node| is_meant(node)).map(|node| node.slots.len()).sum()
        };
        (count(Node::is_suspected), count(Node::has_failed))
    }

    /// The slots of this node.
    pub fn my_slots(&self) -> &SlotSet {
        &self.own().slots
    }

    /// The primary of this node, if this node is a replica.
    pub fn my_primary(&self) -> Option<NodeId> {
        self.own().primary()
    }

    /// Whether this node is a primary.
    pub fn is_primary(&self) -> bool {
        self.own().is_primary()
    }

    /// Whatever is waited for since the start is waited for from now on: nobody was heard before.
    fn begin(&mut self) {
        let now = self.now();
        self.state.begin(now);
        self.confirmation = Confirmation::new(now);
        self.nodes.values_mut().for_each(|node| node.begin(now));
        self.restart_grants();
    }

    fn tick(&mut self) {
        self.ticks += 1;
        self.note_absence();
        self.expire_blacklist();
        self.run_handshakes();
        self.run_links();
        self.close_nameless();
        self.detect_failures();
        self.run_manual_failover();
        self.run_election();
        self.run_replica_migration();
        self.run_grants();
        self.run_confirmation();
        self.update_state();
    }

    /// The list of what is to be done, with the saving of the table before all else.
    fn finish(&mut self) -> Vec<Action> {
        self.update_state_if_changed();
        let mut actions = std::mem::take(&mut self.actions);
        if self.save > Save::No {
            let is_synced = self.save == Save::Synced;
            let text = self.file().to_text(self.settings.is_tls);
            actions.insert(0, Action::SaveConfig { text, is_synced });
            self.save = Save::No;
        }
        actions
    }

    fn own(&self) -> &Node {
        self.nodes.get(&self.me).expect("a node knows itself")
    }

    fn own_mut(&mut self) -> &mut Node {
        self.nodes.get_mut(&self.me).expect("a node knows itself")
    }

    fn now(&self) -> Millis {
        self.moment.now
    }

    fn log(&mut self, text: String) {
        self.actions.push(Action::Log { text });
    }

    fn save(&mut self, how: Save) {
        self.save = self.save.max(how);
        self.generation += 1;
        self.state.touch();
    }

    /// The node whose epoch, slots and offset this one speaks for: its primary, or itself.
    fn represented_node(&self) -> (NodeId, &Node) {
        let primary = self.own().primary().unwrap_or(self.me);
        match self.nodes.get(&primary) {
            Some(node) => (primary, node),
            None => (self.me, self.own()),
        }
    }
}

/// Whether a packet's sender speaks as a primary.
fn is_primary_header(header: &Header) -> bool {
    header.primary.is_none() && header.flags.contains(crate::flags::NodeFlags::PRIMARY)
}

impl NodesFile {
    /// The node whose file this is.
    pub fn own(&self) -> Option<&NodeRecord> {
        self.nodes.iter().find(|node| node.flags.contains(crate::flags::NodeFlags::MYSELF))
    }
}
