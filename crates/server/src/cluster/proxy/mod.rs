//! Requests of clients that know no cluster, on their way to the nodes that serve them.
//!
//! One thread has links to other nodes' ports for clients. Requests that are sent together go by
//! one link, and their replies come back byte for byte.
//!
//! Invariant: nothing of which a byte was sent is sent a second time, unless the node has said that
//! it did nothing.

mod client_identity;
mod exchange;
mod greeting;
mod handle;
mod held_memory;
mod link;
mod node_wait;
mod outgoing;
mod pool;
mod redirection;

pub(crate) use handle::{ProxyStats, RequestProxy};
