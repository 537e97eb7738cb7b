//! A primary and those around it: its replicas, and the other Sentinels that watch it.
//!
//! Invariant: a primary's own part (`PrimaryState`) lies apart from its replicas and peers, so that one of
//! these and the primary can be worked on together.

use std::collections::BTreeMap;

use crate::Millis;
use crate::address::{Address, host_and_port};
use crate::context::Context;
use crate::failover::Failover;
use crate::info::{REPLICAS_MAX, Role};
use crate::instance::{Down, Instance, Node};
use crate::links::Owner;

/// The settings of a primary.
#[derive(Clone, Debug)]
pub(crate) struct PrimarySettings {
    pub(crate) quorum: u32,
    pub(crate) down_after: Millis,
    pub(crate) failover_timeout: Millis,
    pub(crate) parallel_syncs: u32,
    pub(crate) auth_pass: Option<Vec<u8>>,
    pub(crate) auth_user: Option<Vec<u8>>,
    pub(crate) notification_script: Option<String>,
    pub(crate) reconfig_script: Option<String>,
    /// Names of commands, in capitals, and what the instances call them.
    pub(crate) renamed: BTreeMap<String, String>,
    /// 0: a reboot is no reason.
    pub(crate) reboot_down_after: Millis,
}

/// A primary's own part.
#[derive(Debug)]
pub(crate) struct PrimaryState {
    pub(crate) name: String,
    pub(crate) instance: Instance,
    pub(crate) node: Node,
    pub(crate) settings: PrimarySettings,
    pub(crate) config_epoch: u64,
    /// The Sentinel that this one voted for in `leader_epoch`; forgotten in a restart, while the
    /// epoch is not.
    pub(crate) leader: Option<String>,
    pub(crate) leader_epoch: u64,
    /// As enough Sentinels see it.
    pub(crate) objective: Down,
    pub(crate) failover: Failover,
}

impl PrimaryState {
    /// `master <name> <ip> <port>`: what events about a primary begin with.
    pub(crate) fn text(&self, context: &Context) -> String {
        format!("master {}", self.place(context))
    }

    /// `<name> <ip> <port>`.
    pub(crate) fn place(&self, context: &Context) -> String {
        let address = &self.instance.address;
        format!("{} {} {}", self.name, context.shown(address), address.port)
    }

    /// The beginning of events about a replica.
    pub(crate) fn replica_text(&self, replica: &Replica, context: &Context) -> String {
        let address = &replica.instance.address;
        let (host, port) = (context.shown(address), address.port);
        format!("slave {} {host} {port} @ {}", host_and_port(&host, port), self.place(context))
    }

    /// The beginning of events about another Sentinel.
    pub(crate) fn peer_text(&self, peer: &Peer, context: &Context) -> String {
        let address = &peer.instance.address;
        let (host, port) = (context.shown(address), address.port);
        format!("sentinel {} {host} {port} @ {}", peer.id, self.place(context))
    }

    /// An event that the notification script is told.
    pub(crate) fn warn(&self, context: &mut Context, event: &'static str, text: String) {
        context.warn(self.settings.notification_script.as_deref(), event, text);
    }

    /// The name that the primary and its replicas have for a command.
    pub(crate) fn command<'a>(&'a self, name: &'a str) -> &'a [u8] {
        self.settings.renamed.get(name).map_or(name, String::as_str).as_bytes()
    }

    /// Whether the primary is one, as far as anybody can tell, so that its word about replicas
    /// counts.
    pub(crate) fn looks_sane(&self, context: &Context) -> bool {
        self.node.role == Role::Primary
            && !self.instance.is_down()
            && !self.objective.is_down
            && self.node.is_fresh(context, context.periods.info * 2)
    }
}

/// How far a replica is on its way to a new primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reconf {
    None,
    Sent(Millis),
    InProgress,
    Done,
}

/// A replica.
#[derive(Debug)]
pub(crate) struct Replica {
    /// Its name among the replicas of its primary: host and port.
    pub(crate) name: String,
    pub(crate) instance: Instance,
    pub(crate) node: Node,
    pub(crate) link_down: Millis,
    pub(crate) is_link_up: bool,
    pub(crate) primary_host: Option<String>,
    pub(crate) primary_port: u16,
    pub(crate) priority: i64,
    pub(crate) offset: u64,
    pub(crate) is_announced: bool,
    /// Since when it says that it has this primary.
    pub(crate) conf_since: Millis,
    pub(crate) reconf: Reconf,
}

/// Another Sentinel, as far as one primary goes.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: String,
    pub(crate) instance: Instance,
    pub(crate) last_hello_at: Millis,
    /// Whether the peer says that the primary is down.
    pub(crate) says_down: bool,
    /// When the peer last said anything about that.
    pub(crate) said_at: Option<Millis>,
    /// Its vote.
    pub(crate) leader: Option<String>,
    pub(crate) leader_epoch: u64,
}

/// A primary and those around it.
#[derive(Debug)]
pub(crate) struct Primary {
    pub(crate) head: PrimaryState,
    pub(crate) replicas: BTreeMap<String, Replica>,
    /// By id.
    pub(crate) peers: BTreeMap<String, Peer>,
}

/// So many other Sentinels of a primary are known.
pub(crate) const PEERS_MAX: usize = 256;

impl Primary {
    pub(crate) fn new(context: &mut Context, name: &str, address: Address, quorum: u32) -> Primary {
        let down_after = context.periods.down_after;
        let settings = PrimarySettings {
            quorum,
            down_after,
            failover_timeout: context.periods.failover_timeout,
            parallel_syncs: 1,
            auth_pass: None,
            auth_user: None,
            notification_script: None,
            reconfig_script: None,
            renamed: BTreeMap::new(),
            reboot_down_after: 0,
        };
        let owner = Owner::Primary(name.to_owned());
        let head = PrimaryState {
            name: name.to_owned(),
            instance: Instance::new(context, address, owner, down_after),
            node: Node::new(Role::Primary, context.now),
            settings,
            config_epoch: 0,
            leader: None,
            leader_epoch: 0,
            objective: Down::default(),
            failover: Failover::none(),
        };
        Primary { head, replicas: BTreeMap::new(), peers: BTreeMap::new() }
    }

    /// Adds a replica; `false` if there is one at this address, or there are too many.
    pub(crate) fn add_replica(&mut self, context: &mut Context, address: Address) -> bool {
        let is_known = self.replicas.values().any(|known| known.instance.address.is_same(&address));
        if is_known || self.replicas.len() >= REPLICAS_MAX {
            return false;
        }
        let name = host_and_port(&address.host, address.port);
        let owner = Owner::Replica(self.head.name.clone(), name.clone());
        let replica = Replica {
            name: name.clone(),
            instance: Instance::new(context, address, owner, self.head.settings.down_after),
            node: Node::new(Role::Replica, context.now),
            link_down: 0,
            is_link_up: false,
            primary_host: None,
            primary_port: 0,
            priority: 100,
            offset: 0,
            is_announced: true,
            conf_since: context.now,
            reconf: Reconf::None,
        };
        self.replicas.insert(name, replica);
        true
    }

    /// Adds another Sentinel; `false` if there is one of this id, or there are too many.
    pub(crate) fn add_peer(&mut self, context: &mut Context, id: &str, address: Address) -> bool {
        if self.peers.contains_key(id) || self.peers.len() >= PEERS_MAX {
            return false;
        }
        let owner = Owner::Peer(id.to_owned());
        let down_after = self.head.settings.down_after;
        let peer = Peer {
            id: id.to_owned(),
            instance: Instance::new(context, address, owner, down_after),
            last_hello_at: context.now,
            says_down: false,
            said_at: None,
            leader: None,
            leader_epoch: 0,
        };
        self.peers.insert(id.to_owned(), peer);
        true
    }

    /// More than half of all Sentinels that are known here, this one and those down included.
    pub(crate) fn majority(&self) -> usize {
        let voters = self.peers.len() + 1;
        voters / 2 + 1
    }

    /// The address that clients are told: that of the promoted replica as soon as there is one.
    pub(crate) fn current_address(&self) -> &Address {
        let promoted = self.head.failover.stage.promoted();
        let promoted = promoted.and_then(|name| self.replicas.get(name));
        promoted.map_or(&self.head.instance.address, |replica| &replica.instance.address)
    }

    /// Takes one setting over to all instances.
    pub(crate) fn spread_down_after(&mut self) {
        let down_after = self.head.settings.down_after;
        self.head.instance.down_after = down_after;
        self.replicas.values_mut().for_each(|replica| replica.instance.down_after = down_after);
        self.peers.values_mut().for_each(|peer| peer.instance.down_after = down_after);
    }

    /// Closes all connections to servers, to begin again with other credentials.
    pub(crate) fn close_nodes(&self, context: &mut Context) {
        context.close_all(self.head.instance.link);
        for replica in self.replicas.values() {
            context.close_all(replica.instance.link);
        }
    }

    /// Lets all links go.
    pub(crate) fn release(self, context: &mut Context) {
        context.release(self.head.instance.link);
        for replica in self.replicas.into_values() {
            context.release(replica.instance.link);
        }
        for peer in self.peers.into_values() {
            context.release(peer.instance.link);
        }
    }
}
