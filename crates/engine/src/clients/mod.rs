//! The clients: their registry, the mailboxes by which threads tell each other of them, sets of
//! subscribers.
//!
//! Invariant: a client is named by its id; nothing here holds its socket.

pub mod client_id;
pub mod client_margin;
pub mod invalidation;
pub mod mailbox;
pub mod multicast;
pub mod peer;
pub mod registry;
pub mod unregistration;
