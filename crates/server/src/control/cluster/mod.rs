//! The cluster family.
//!
//! Invariant: on a server that is no node of a cluster every command says so.

mod declared;
mod info;
mod nodes;
mod orders;
mod parse;
mod shards;
mod slot_keys;

pub(crate) use declared::COMMANDS;
