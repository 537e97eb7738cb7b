//! What stands below all: threads, cores, lanes, the log, counters, write gates, drills.
//!
//! Invariant: nothing here knows a command or a client.

pub mod allocator;
pub mod background;
pub mod cores;
pub mod counters;
#[cfg(any(test, feature = "testing"))]
pub mod counting_waker;
pub mod drill;
pub mod ending;
pub mod lanes;
pub mod last_words;
pub mod limits;
pub mod log;
pub mod looks;
pub mod loops;
pub mod main_thread;
pub mod memory;
pub mod oom_score;
pub mod panics;
pub mod record_batch;
pub mod replace_file;
pub mod schedstat;
pub mod steal;
pub mod stopwatch;
pub mod syslog;
pub mod title;
pub mod version;
pub mod write_gate;
