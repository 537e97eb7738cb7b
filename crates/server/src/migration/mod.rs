//! MIGRATE: keys that are sent to another server, from a thread of its own.
//!
//! Invariant: no lock is held, and no worker waits, while the network is waited for; a key goes
//! here only when the target has said that it has it, and as it was then.

mod copied_keys;
mod exchange;
mod fault;
mod handle;
mod link_cache;
mod request;
mod target_link;

pub(crate) use handle::Migrations;
pub(crate) use request::{Credentials, MigrateRequest, MigrateTarget};
