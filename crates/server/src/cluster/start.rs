//! The begin of the node and of its threads.
//!
//! Invariant: what keeps the node from starting is told before a client is served, and peers are
//! let in once the data are loaded.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::mpsc::channel;
use std::thread::Builder;

use base::io_error_text::strerror;
use cluster::{AdminCommand, Event, NodeId, Slot, SlotSet};
use config::Config;
use config::settings::{BIND, CLUSTER_BUS_ALLOW, TLS_CLUSTER};
use durability::cluster_duties::ClusterDuties;
use engine::limits::slot_map::SlotMap;
use engine::reclaim::slots::{forget_copied, has_copies};
use engine::runtime::log::log_notice;
use keyspace::Keyspace;
use replication::replica::{PrimaryAddress, ReplicaofTarget};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;

use super::config_file::NodesConfFile;
use super::driver::BusDriver;
use super::node::{ClusterNode, DriverRequest, World};
use super::role_thread::RoleJob;
use super::{role_thread, settings};
use crate::links::Links;
use crate::net::listeners::bind_for;
use crate::net::network::Network;

/// What the threads of the node work with.
#[derive(Clone, Copy)]
pub(crate) struct ClusterContext {
    pub(crate) server: &'static Network,
    pub(crate) links: &'static Links,
    pub(crate) node: &'static ClusterNode,
}

/// The sockets of the bus, and what the node has to say, until its thread begins.
pub(crate) struct BusSockets {
    sockets: Vec<TcpListener>,
    mail: UnboundedReceiver<DriverRequest>,
}

impl ClusterContext {
    /// Reads the node's file and opens its port; peers wait there.
    pub(crate) fn open(self) -> Result<BusSockets, String> {
        let Self { server, links, node } = self;
        if server.config.primary().is_some() {
            return Err("replicaof directive not allowed in cluster mode".to_owned());
        }
        let has_authorities = || server.tls.contexts().is_some_and(|all| all.bus.is_some());
        if server.config.get(TLS_CLUSTER) && !has_authorities() {
            return Err("tls-cluster: nodes are known by their certificates, so name authorities \
                        by tls-ca-cert-file or tls-ca-cert-dir"
                .to_owned());
        }
        let port = settings::bus_port(server).ok_or_else(|| {
            "Redis port number too high for cluster mode: the cluster bus port, which is the port \
             plus 10000 unless cluster-port is set, must be below 65536."
                .to_owned()
        })?;
        let (file, read) = NodesConfFile::open(&server.config)?;
        let bound = bind_for(server, &server.config.get(BIND), port)?;
        for (address, _) in &bound {
            log_notice!(server.log, "The cluster bus listens on {address}");
        }
        if bound.iter().any(|(address, _)| is_public(*address)) && !is_guarded(&server.config) {
            log_notice!(
                server.log,
                "Whoever reaches the cluster bus can read and change the cluster: name the nodes' \
                 addresses by cluster-bus-allow, or set tls-cluster"
            );
        }
        let mail = node.open(server, file, read);
        server.pushes.set_bus(node);
        let is_first = server.cluster_duties.set(Box::new(self)).is_ok();
        assert!(is_first, "there is one node in a process");
        node.proxy.open(self);
        server.set_cluster_proxy(&node.proxy);
        // Clients that come before the first table is made are told that nothing is served.
        server.gates.routing.publish(SlotMap::default());
        node.publish_slot_map(server, World::Going);
        if self.primary().is_some() {
            links.begin_as_replica(server);
        }
        Ok(BusSockets { sockets: bound.into_iter().map(|(_, socket)| socket).collect(), mail })
    }

    /// The primary to follow from the start on, if this node is a replica: its data are loaded as a
    /// replica's, and go on where they stand.
    pub(crate) fn primary(self) -> Option<PrimaryAddress> {
        match self.node.replication_target(self.server)? {
            ReplicaofTarget::Primary(primary) => Some(primary),
            ReplicaofTarget::NoOne => None,
        }
    }

    /// Begins the threads, once the data are loaded.
    pub(crate) fn begin(self, bus: BusSockets, runtime: Runtime) -> Result<(), String> {
        // Before any order, which has the state found anew.
        self.node.handle(self.server, Event::Begun);
        self.claim_unassigned_slots();
        // The table was made before the data were loaded, and what they say of copies.
        forget_copied(self.server);
        let (copied, others) = self.node.stray_slots(self.server);
        self.open_strays(others);
        let (jobs, received) = channel();
        // The receiver lives in the thread that is begun below.
        let _ = jobs.send(RoleJob::DeleteSlotKeys(copied));
        let fail =
            |why: std::io::Error| format!("Cannot start the cluster's threads: {}", strerror(&why));
        let named = |name: &str| Builder::new().name(name.to_owned());
        named("cluster-roles").spawn(move || role_thread::run(self, &received)).map_err(fail)?;
        let BusSockets { sockets, mail } = bus;
        let work = move || {
            runtime.block_on(async move { BusDriver::new(self, mail, jobs).run(sockets).await });
        };
        named("cluster-bus").spawn(work).map_err(fail)?;
        Ok(())
    }

    /// Slots of other nodes of which there are keys here that may be nowhere else: clients that are
    /// sent here by ASK reach them.
    fn open_strays(self, slots: SlotSet) {
        let Self { server, node, .. } = self;
        if slots.is_empty() {
            return;
        }
        for slot in slots.iter() {
            log_notice!(
                server.log,
                "I have keys for slot {slot}, but the slot is assigned to another node. Setting it \
                 to importing state."
            );
        }
        node.order(server, &AdminCommand::ImportStrays(slots), World::Going)
            .expect("the slots were just seen to have other owners");
    }

    /// A primary takes slots that nobody has and of which there are keys here, but for copies of
    /// what another node took.
    fn claim_unassigned_slots(self) {
        let Self { server, node, .. } = self;
        let found = node.with_engine(|cluster| {
            let is_found = |slot: &Slot| {
                cluster.owner(*slot).is_none()
                    && has_keys(server.keyspace, *slot)
                    && !has_copies(server, slot.get())
            };
            let slots = Slot::all().filter(is_found).collect::<SlotSet>();
            cluster.is_primary().then_some(slots)
        });
        let Some(slots) = found.flatten().filter(|slots| !slots.is_empty()) else { return };
        for slot in slots.iter() {
            log_notice!(
                server.log,
                "I have keys for unassigned slot {slot}. Taking responsibility for it."
            );
        }
        node.order(server, &AdminCommand::AddSlots(slots), World::Going)
            .expect("the slots were just seen to have no owner");
    }
}

/// What the data and the end of the process ask of the node. None of these waits for a peer, or for
/// the world, but for replicas where the caller says so.
impl ClusterDuties for ClusterContext {
    fn is_voting_primary(&self) -> bool {
        let votes = self.node.with_engine(|it| it.is_primary() && !it.my_slots().is_empty());
        votes == Some(true)
    }

    fn hand_over(&self, may_wait: bool) {
        if self.node.with_engine(|cluster| cluster.is_primary()) == Some(true) {
            self.links.name_successor(self.server, may_wait);
        }
    }

    fn take_over(&self, node: &[u8]) {
        if self.own_name().as_bytes() == node {
            self.node.take_over();
        }
    }

    fn own_name(&self) -> String {
        let name = self.node.with_engine(|cluster| cluster.my_id().to_string());
        name.expect("a node that is asked has begun")
    }

    fn is_node(&self, name: &[u8]) -> bool {
        let is_known = |id| self.node.with_engine(|cluster| cluster.record_of(id).is_some());
        NodeId::parse(name).and_then(is_known) == Some(true)
    }
}

/// Whether something keeps strangers from the bus.
fn is_guarded(config: &Config) -> bool {
    config.get(TLS_CLUSTER) || !config.get(CLUSTER_BUS_ALLOW).are_none()
}

/// Whether others than this machine and its private networks may reach an address. One that stands
/// for all addresses of the machine may be reached by anybody.
fn is_public(address: SocketAddr) -> bool {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => !(ip.is_loopback() || ip.is_private() || ip.is_link_local()),
        IpAddr::V6(ip) => !(ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local()),
    }
}

fn has_keys(keyspace: &Keyspace, slot: Slot) -> bool {
    keyspace.population(slot.get()) > 0
}
