//! The types with which openraft is run.

use std::fmt;

use cluster::NodeId;
use openraft::impls::OneshotResponder;
use openraft::{EmptyNode, RaftTypeConfig, TokioRuntime};
use quorum::{MapEntry, MapRefusal};

use crate::state_machine::MapState;

/// The types of the map's Raft.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct MapRaft;

impl RaftTypeConfig for MapRaft {
    type D = MapEntry;
    type R = Result<(), MapRefusal>;
    type NodeId = PeerId;
    type Node = EmptyNode;
    type Entry = openraft::Entry<MapRaft>;
    type SnapshotData = MapState;
    type AsyncRuntime = TokioRuntime;
    type Responder = OneshotResponder<MapRaft>;
}

/// The name of a node, for openraft, which wants a default.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub NodeId);

impl Default for PeerId {
    /// The name of nobody: who votes for nobody yet has this one in the vote.
    fn default() -> PeerId {
        PeerId(NodeId::parse(&[b'0'; 40]).expect("forty digits are a name"))
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A place in the log.
pub(crate) type LogId = openraft::LogId<PeerId>;
/// A vote.
pub(crate) type Vote = openraft::Vote<PeerId>;
/// An entry of the log.
pub(crate) type Entry = openraft::Entry<MapRaft>;
/// Voters and learners.
pub(crate) type Membership = openraft::Membership<PeerId, EmptyNode>;
/// Voters and learners, and where the log says so.
pub(crate) type StoredMembership = openraft::StoredMembership<PeerId, EmptyNode>;
/// Of what a snapshot is.
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<PeerId, EmptyNode>;
/// Why files failed.
pub(crate) type StorageError = openraft::StorageError<PeerId>;
