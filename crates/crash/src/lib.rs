//! Crash reports: what a process says of itself before a signal ends it, and of its threads when
//! somebody asks what they are at.
//!
//! A thread that meets a fault writes what needs neither memory nor a lock: the signal, the
//! registers, the addresses on its stack. All else is told by a thread that is there from the start
//! (`reporter`). The reporter first has all other threads stop, so that nothing is written any more
//! by what is in memory, and then tells names and lines, the other stacks, and what the server
//! adds. The faulting thread waits for it, up to a deadline.
//!
//! Invariants: whatever goes wrong in a report, the process ends by the signal that it met; nothing
//! that runs in a signal handler allocates or waits for a lock.
#![deny(unsafe_code)]

mod ffi;
mod handler;
mod report_source;
mod reporter;
mod tasks;
mod trace;

pub use ffi::{SecondStack, fault, serving};
pub use report_source::{Activity, LineFormat, Part, ReportSource};
pub use reporter::{begin, reset_watchdog};
