//! How long commands take, as histograms.
//!
//! Invariant: a bucket's limit is one of the limits by which durations are counted, so its count is
//! exact.

use engine::observe::stats::bucket_limit;

use super::exposition::{Exposition, MetricKind};
use crate::control::server::info;
use crate::http::state::HttpState;

/// Every how many of the counted buckets is shown: four are a doubling.
const STEP: usize = 8;

/// The first and the last that are shown: 2 microseconds, and a minute.
const SHOWN: std::ops::Range<usize> = 3..100;

/// The family: its name and what it is.
pub(super) const FAMILY: (&str, &str) =
    ("command_duration_seconds", "How long calls of a command took, in seconds.");

pub(super) fn write(server: &HttpState, exposition: &mut Exposition) {
    exposition.family(FAMILY.0, MetricKind::Histogram, FAMILY.1);
    for (entry, stats) in info::called(server.network) {
        let name = &*entry.full_name;
        let counted: u64 = stats.histogram.iter().sum();
        if counted == 0 {
            continue;
        }
        for bucket in SHOWN.step_by(STEP) {
            // A duration is cut to whole microseconds, so it is below the next one.
            let limit = (bucket_limit(bucket) + 1) as f64 / 1e6;
            let within: u64 = stats.histogram.iter().take(bucket + 1).sum();
            let labels = [("command", name), ("le", &*limit.to_string())];
            exposition.sample_of("_bucket", &labels, within);
        }
        exposition.sample_of("_bucket", &[("command", name), ("le", "+Inf")], counted);
        let seconds = stats.micros as f64 / 1e6;
        exposition.sample_of("_sum", &[("command", name)], seconds);
        exposition.sample_of("_count", &[("command", name)], counted);
    }
}
