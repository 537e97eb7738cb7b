//! The cluster family.
//!
//! Invariant: on a server that is no node of a cluster every command says so.

mod admin;
mod commands;
mod declared_moves;
mod info;
mod moves;
mod nodes;
mod parse;
mod rebalance;
mod shards;
mod slot_keys;
mod slot_stats;
mod sync_slots;

pub(crate) use commands::COMMANDS;
