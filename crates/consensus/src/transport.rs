//! What carries messages between nodes: the bus of the cluster, or a network of tests.
//!
//! Invariant: a message may be lost, late, doubled, and overtaken; an answer is that of the node
//! that was asked.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use cluster::NodeId;

/// An answer to come.
pub type Answering = Pin<Box<dyn Future<Output = Result<Vec<u8>, TransportError>> + Send>>;

/// Carries a node's requests to others.
pub trait Transport: Send + Sync + 'static {
    /// Brings a request to a node and its answer back. The caller gives up by dropping this.
    fn ask(&self, node: NodeId, request: Vec<u8>) -> Answering;
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransportError(pub String);

impl fmt::Display for TransportError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for TransportError {}
