//! The server: workers, sessions, configuration and administration.
//!
//! It drives everything below it and is driven by nobody: `run` is the whole process.
#![forbid(unsafe_code)]

pub mod config;

mod aging;
mod ailments;
mod allocator;
mod aof;
mod audience;
mod backup;
mod blocking;
mod budget;
mod busy;
mod claims;
mod client_memory;
mod clients;
mod command_log;
mod commit;
mod compaction;
mod control;
mod cores;
mod counters;
#[cfg(test)]
mod counting_waker;
mod courtesy;
mod crew;
mod cron;
mod data;
mod effects;
mod evict;
mod execute;
mod expiry;
mod families;
mod gates;
mod gathering;
mod guard;
mod heavy;
mod held_line;
mod journal;
mod lanes;
mod latency;
mod loading;
mod log;
mod looks;
mod loops;
mod mailbox;
mod memcached;
mod monitor;
mod notifications;
mod output_limit;
mod pause;
mod process_times;
mod pubsub;
mod reception;
mod release;
mod request_keys;
mod saves;
mod schedule;
mod scripts;
mod second_turn;
mod secrets;
mod server;
mod session;
mod shutdown;
mod snapshot;
mod spell;
mod start;
mod startup;
mod stats;
mod syslog;
mod table;
mod tracking;
mod unit;
mod unregistration;
mod users;
mod valve;
mod version;
mod whole_file;
mod worker;

pub use allocator::{Allocator, allocate_by};
pub use keyspace::heap::{Counted, taken};
pub use scripts::check_library;
pub use start::{run, run_as_memcached};
pub use version::{APUS_VERSION, Commit, built_from};
