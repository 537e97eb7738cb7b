//! The server: workers, sessions, configuration and administration.
//!
//! The server drives everything below it and is driven by nobody: `run` is the whole process.
#![forbid(unsafe_code)]

mod cluster;
mod control;
mod cron;
mod families;
mod http;
mod links;
mod memcached;
mod migration;
mod net;
mod sentinel;
mod server;
mod start;
mod startup;
mod telemetry;

pub use engine::runtime::allocator::{Allocator, allocate_by};
pub use engine::runtime::version::{APUS_VERSION, BuildCommit, built_from};
pub use engine::scripting::check_library;
pub use families::declarations;
pub use http::{MetricFamily, metric_families};
pub use keyspace::heap::{Counted, taken};
pub use start::{run, run_as_memcached, run_as_sentinel};
