//! What stands below all: threads, cores, lanes, the log, counters, backpressure, failpoints.
//!
//! Invariant: nothing here knows a command or a client.

pub mod allocator;
pub mod background;
pub mod backpressure;
pub mod cores;
pub mod counters;
#[cfg(any(test, feature = "testing"))]
pub mod counting_waker;
pub mod event_loops;
pub mod failpoint;
pub mod lanes;
pub mod log;
pub mod machine_cpu_time;
pub mod main_thread;
pub mod oom_score;
pub mod panics;
pub mod process_title;
pub mod record_batch;
pub mod replace_file;
pub mod schedstat;
pub mod shutdown_request;
pub mod signal_safe_log;
pub mod stopwatch;
pub mod syslog;
pub mod system_limits;
pub mod system_memory;
pub mod threads;
pub mod version;
pub mod yielding;
