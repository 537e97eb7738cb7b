//! Sockets: listeners, connections, and the workers whose event loops serve them.
//!
//! Invariant: what a client is apart from its socket is its session, and stands in the engine.

pub(crate) mod batch_scheduling;
pub(crate) mod connection;
pub(crate) mod deferred;
pub(crate) mod durability_waiters;
pub(crate) mod group_commit;
pub(crate) mod listeners;
pub(crate) mod network;
pub(crate) mod outgoing;
pub(crate) mod output_limit;
pub(crate) mod socket_io;
pub(crate) mod tls;
pub(crate) mod udp;
pub(crate) mod worker;
pub(crate) mod worker_cron;
pub(crate) mod worker_pool;
