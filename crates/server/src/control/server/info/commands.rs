//! The sections Commandstats and Latencystats: what each command cost.
//!
//! Invariant: only commands that were called, or refused, are listed.

use std::collections::BTreeMap;

use config::settings::{LATENCY_TRACKING, LATENCY_TRACKING_INFO_PERCENTILES};
use engine::observe::call_size::CallSize;
use engine::observe::latency_baselines::BaselineFigures;
use engine::observe::stats::{CallStats, bucket_limit};
use engine::shared::Shared;
use engine::table::command_table::CommandEntry;

use super::info_text::InfoText;
use crate::server::Server;

pub(super) fn write_calls(server: &Server, report: &mut InfoText) {
    for (entry, entry_stats) in called(server) {
        let CallStats { calls, micros, rejected, failed, .. } = entry_stats;
        let mean = micros as f64 / calls.max(1) as f64;
        report.field(
            &format!("cmdstat_{}", entry.full_name),
            format_args!(
                "calls={calls},usec={micros},usec_per_call={mean:.2},rejected_calls={rejected},\
                 failed_calls={failed}"
            ),
        );
    }
}

pub(super) fn write_latencies(server: &Server, report: &mut InfoText) {
    if !server.config.get(LATENCY_TRACKING) {
        return;
    }
    let percentiles = server.config.get(LATENCY_TRACKING_INFO_PERCENTILES);
    for (entry, entry_stats) in called(server) {
        let counted: u64 = entry_stats.histogram.iter().sum();
        if counted == 0 {
            continue;
        }
        let shown: Vec<String> = percentiles
            .iter()
            .map(|&share| {
                format!("p{share}={:.3}", percentile(&entry_stats.histogram, counted, share))
            })
            .collect();
        report.field(&format!("latency_percentiles_usec_{}", entry.full_name), shown.join(","));
    }
}

/// The commands in use with their statistics.
pub(crate) fn called(server: &Shared) -> impl Iterator<Item = (&CommandEntry, CallStats)> {
    let entries = server.table.entries().iter().flat_map(CommandEntry::family);
    entries.filter_map(|entry| Some((entry, server.observed.stats.calls_of(entry.id)?)))
}

/// The commands and sizes of calls of which enough is known, each with its latency of late and at
/// best.
pub(crate) fn baselines(server: &Shared) -> Vec<(&CommandEntry, CallSize, BaselineFigures)> {
    let entries = server.table.entries().iter().flat_map(CommandEntry::family);
    let entries: BTreeMap<usize, &CommandEntry> = entries.map(|entry| (entry.id, entry)).collect();
    let figures = server.observed.baselines.figures().into_iter();
    let named = |(id, size, figures)| Some((*entries.get(&id)?, size, figures));
    figures.filter_map(named).collect()
}

/// The duration, in microseconds, that so many percent of the calls did not exceed.
fn percentile(histogram: &[u64], counted: u64, share: f64) -> f64 {
    let wanted = (share / 100.0 * counted as f64).ceil().max(1.0) as u64;
    let mut seen = 0;
    let reaches = |count: &u64| {
        seen += count;
        seen >= wanted
    };
    let bucket = histogram.iter().position(reaches).unwrap_or(histogram.len() - 1);
    bucket_limit(bucket) as f64
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentiles_are_the_limits_of_buckets() {
        let histogram = [0, 90, 9, 1];
        let of = |share| percentile(&histogram, 100, share);
        assert_eq!((of(0.0), of(50.0), of(90.0)), (1.0, 1.0, 1.0));
        assert_eq!((of(90.5), of(99.0), of(99.9), of(100.0)), (2.0, 2.0, 3.0, 3.0));
    }
}
