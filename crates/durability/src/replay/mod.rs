//! Records are run again, as a log has them at a start and a primary's stream all the time.
//!
//! Those of a stream are committed as those of clients are, each as one transaction (`stream`).
//!
//! Whole units are fed to the `partitioner`, which says what of them may run side by side; the
//! `pipeline` runs what it made, alone (`replayer`) or by several threads (`parallel`), and says up
//! to which position all is applied. Where a source is long, another thread reads, checks and
//! partitions ahead of the one that runs (`read_ahead`).
//!
//! Invariant: nothing in here knows a file: a source has units and positions.

mod non_data_commands;
pub(crate) mod parallel;
pub mod partitioner;
pub mod pipeline;
pub mod read_ahead;
pub mod replayer;
pub(crate) mod stream;
mod stream_errors;
