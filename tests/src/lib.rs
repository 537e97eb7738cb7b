//! The black-box harness: real servers, a small client, sessions written as text, and duels
//! between two servers. The tests themselves lie in `tests/tests`, one file per command family.
//!
//! Invariants: a server listens on 127.0.0.1 only, in a folder of its own, and ends with its
//! value; a server whose log shows a panic fails the test that owned it.
#![deny(unsafe_code)]

pub mod book;
pub mod calls;
pub mod changes;
pub mod client;
pub mod clients;
pub mod cluster;
pub mod collector;
pub mod contents;
pub mod differential;
pub mod environment;
pub mod faults;
pub mod folder;
pub mod generator;
pub mod http;
pub mod impostor;
pub mod ledger;
pub mod lua_programs;
pub mod memcached;
pub mod network_namespace;
pub mod peer;
mod process;
pub mod proxy;
pub mod render;
pub mod replica_group;
pub mod replication;
pub mod samples;
pub mod script;
pub mod sentinel;
pub mod serializable;
pub mod server;
pub mod shards;
pub mod snapshot_consistency;
pub mod target;
pub mod tls;
pub mod units;
pub mod watching;
pub mod web;
pub mod witnesses;

pub use client::{Arrival, Client};
pub use differential::Duel;
pub use script::{check, play};
pub use server::{Oracle, Server};
