//! `apus bench`: a load generator that takes memtier_benchmark's command lines.
//!
//! A run is a pipe of four parts, each ignorant of the next:
//! `options` (words to [`options::Options`]) -> `workload` (what to send, as bytes) -> `engine`
//! (connections, time, latencies: an [`outcome::Outcome`]) -> `report` (tables, JSON, HTML).
//! Nothing here knows the server: it measures Apus and its peers by the same bytes.
#![forbid(unsafe_code)]

pub mod engine;
pub mod options;
pub mod outcome;
pub mod report;
pub mod usage;
pub mod workload;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs `apus bench` with the words that follow it.
#[must_use]
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let _ = arguments;
    ExitCode::SUCCESS
}
