//! How long commands take, as histograms.
//!
//! Invariant: a bucket's limit is one of the limits by which durations are counted, so its count is
//! exact.

use engine::observe::latency_baselines::BaselineFigures;
use engine::observe::stats::bucket_limit;

use super::catalogue::MetricFamily;
use super::exposition::{Exposition, MetricKind};
use crate::control::server::info;
use crate::http::state::HttpState;

/// Every how many of the counted buckets is shown: four are a doubling.
const STEP: usize = 8;

/// The first and the last that are shown: 2 microseconds, and a minute.
const SHOWN: std::ops::Range<usize> = 3..100;

/// The family: its name and what it is.
const FAMILY: (&str, &str) =
    ("command_duration_seconds", "How long calls of a command took, in seconds.");

pub(super) fn write(server: &HttpState, exposition: &mut Exposition) {
    write_baselines(server, exposition);
    exposition.family(FAMILY.0, MetricKind::Histogram, FAMILY.1);
    for (entry, stats) in info::called(server.network) {
        let name = &*entry.full_name;
        let counted: u64 = stats.histogram.iter().sum();
        if counted == 0 {
            continue;
        }
        let within = SHOWN.step_by(STEP).map(|bucket| {
            // A duration is cut to whole microseconds, so it is below the next one.
            let limit = (bucket_limit(bucket) + 1) as f64 / 1e6;
            (limit, stats.histogram.iter().take(bucket + 1).sum())
        });
        let within: Vec<(f64, u64)> = within.collect();
        let seconds = stats.micros as f64 / 1e6;
        exposition.histogram(&[("command", name)], &within, counted, seconds);
    }
}

/// What is told of a command beside its best: the family's name and kind, the figure, what it is.
type LatencyBaseline = (&'static str, MetricKind, fn(&BaselineFigures) -> f64, &'static str);

const BASELINES: [LatencyBaseline; 3] = [
    (
        "command_p99_seconds",
        MetricKind::Gauge,
        |it| it.p99_us / 1e6,
        "What 99 of 100 calls of a command and size took at most, of late.",
    ),
    (
        "command_best_p99_seconds",
        MetricKind::Gauge,
        |it| it.best_p99_us / 1e6,
        "The best of what 99 of 100 calls of a command and size took at most.",
    ),
    (
        "command_latency_regressions",
        MetricKind::Counter,
        |it| it.regressions as f64,
        "Times that the calls of a command and size began to stray from their best.",
    ),
];

pub(super) fn families() -> impl Iterator<Item = MetricFamily> {
    let baselines = BASELINES.into_iter().map(|(name, kind, _, help)| {
        MetricFamily::of(name, kind, help).with_label("command").with_label("size")
    });
    let histogram = MetricFamily::of(FAMILY.0, MetricKind::Histogram, FAMILY.1);
    baselines.chain([histogram.with_label("command")])
}

/// What 99 of 100 calls of a size took at most: of late and at best, and how often the one strayed
/// from the other.
fn write_baselines(server: &HttpState, exposition: &mut Exposition) {
    let figures = info::baselines(server.network);
    if figures.is_empty() {
        return;
    }
    for (name, kind, value, help) in BASELINES {
        exposition.family(name, kind, help);
        for (entry, size, figures) in &figures {
            let labels = [("command", &*entry.full_name), ("size", size.word())];
            exposition.sample(&labels, value(figures));
        }
    }
}
