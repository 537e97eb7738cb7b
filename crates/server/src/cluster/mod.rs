//! The node of a cluster that the server is: the bus, `nodes.conf`, and what others ask of it.
//!
//! What is decided is decided by the engine of crate `cluster`; this room has its sockets, its file
//! and its clock, and tells the links of replication which primary to follow.
//!
//! Invariant: no worker and no transaction waits for a peer.

mod bus_link;
mod config_file;
mod driver;
mod message_queue;
mod moves;
mod node;
mod peer_client;
mod peer_socket;
mod proxy;
mod rebalance;
mod role_thread;
mod settings;
mod slot_map;
mod start;
mod trims;

pub(crate) use moves::{
    MoveDirection, MoveJob, MoveRequest, MoveState, RequestedExport, SlotImport, SlotMoves,
    begin_exports,
};
pub(crate) use node::{ClusterNode, DataBehindOrder, World};
pub(crate) use peer_client::PeerClient;
pub(crate) use proxy::ProxyStats;
pub(crate) use rebalance::{RebalanceBy, RebalanceOrder, RebalanceRun, Rebalancer, StepState};
pub(crate) use start::{BusSockets, ClusterContext};
