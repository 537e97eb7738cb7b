//! The server as the commands that steer see it: the network, and what runs these commands.
//!
//! Invariant: the server lives as long as the process and is only ever shared; whatever changes in
//! it is an atomic or behind a lock of its own.

use std::ops::Deref;

use config::Config;
use durability::durability::Durability;
use engine::runtime::log::Log;
use engine::scripting;
use engine::shared::Shared;
use engine::table::command_table::{Built, Handlers};
use engine::transaction::engine::Engine;
use engine::transaction::unit::Prepare;
use keyspace::Keyspace;
use persist::storage::Storage;

use crate::cluster::{ClusterContext, ClusterNode};
use crate::control::context::ControlHandler;
use crate::links::Links;
use crate::memcached::MemcachedServer;
use crate::migration::Migrations;
use crate::net::network::Network;
use crate::sentinel::requests::RequestQueue;
use crate::telemetry::Telemetry;

/// What serves connections, with what runs the commands beside the data: the server is its
/// [`Network`] and more.
pub(crate) struct Server {
    network: Network,
    /// The links to replicas.
    pub(crate) links: Links,
    /// What MIGRATE sends.
    pub(crate) migrations: Migrations,
    /// Metrics and spans for OpenTelemetry.
    pub(crate) telemetry: Telemetry,
    /// This server as a node of a cluster.
    pub(crate) cluster: ClusterNode,
    pub(crate) control_handlers: Handlers<ControlHandler>,
    /// What sessions leave for the Sentinel, if this is one.
    pub(crate) sentinel: RequestQueue,
}

impl Deref for Server {
    type Target = Network;

    #[inline]
    fn deref(&self) -> &Network {
        &self.network
    }
}

impl Server {
    /// What the node of the cluster works with.
    pub(crate) fn cluster_start(&'static self) -> ClusterContext {
        ClusterContext { server: self, links: &self.links, node: &self.cluster }
    }

    pub(crate) fn new(
        config: Config,
        built: Built<ControlHandler, Prepare>,
        log: Log,
        keyspace: &'static Keyspace,
        storage: Box<dyn Storage>,
    ) -> Self {
        let Built { table, control, programs } = built;
        let shared = Shared::new(config, table, log, keyspace, scripting::BETWEEN_JOBS);
        let durability = Durability::new(Engine::new(shared, programs), storage);
        Self {
            network: Network::new(MemcachedServer::new(durability)),
            links: Links::new(),
            migrations: Migrations::new(),
            telemetry: Telemetry::default(),
            cluster: ClusterNode::default(),
            control_handlers: control,
            sentinel: RequestQueue::default(),
        }
    }
}
