//! The metrics of single fields of INFO, by the sections there.
//!
//! Invariant: every field that is a number or a state is here, or among those that are not told as
//! metrics; a test holds that against INFO.

mod clients;
mod memory;
mod persistence;
mod replication;
mod stats;

use super::catalogue::MetricFamily;
use super::exposition::{Exposition, MetricKind};

/// A field of INFO and its metric.
struct FieldMetric {
    /// The field.
    field: &'static str,
    /// The metric, without prefix and suffix.
    name: &'static str,
    reading: Reading,
    help: &'static str,
}

/// How a field is read.
#[derive(Clone, Copy)]
enum Reading {
    /// The value only grows, by units of so much.
    Counter(f64),
    /// The value is so many times this.
    Gauge(f64),
    /// 1 if it says this, else 0.
    Is(&'static str),
    /// 0 if it says this, else 1.
    IsNot(&'static str),
}

use Reading::{Counter, Gauge, Is, IsNot};

/// All of them.
const FIELDS: &[&[FieldMetric]] =
    &[clients::FIELDS, memory::FIELDS, persistence::FIELDS, stats::FIELDS, replication::FIELDS];

const fn field(
    field: &'static str,
    name: &'static str,
    reading: Reading,
    help: &'static str,
) -> FieldMetric {
    FieldMetric { field, name, reading, help }
}

/// Texts that say which server this is: labels of one metric.
const IDENTITY: &[&str] = &[
    "apus_version",
    "redis_version",
    "redis_git_sha1",
    "redis_mode",
    "os",
    "arch_bits",
    "run_id",
    "process_id",
    "tcp_port",
    "maxmemory_policy",
    "mem_allocator",
    "role",
    "master_replid",
];

/// The metric of those texts: its name and what it is.
const SERVER: (&str, &str) = ("server", "What this server is.");

/// The families of all fields.
pub(super) fn families() -> Vec<MetricFamily> {
    let identity = MetricFamily::of(SERVER.0, MetricKind::Info, SERVER.1);
    let identity = IDENTITY.iter().fold(identity, |family, field| family.with_label(field));
    let fields = FIELDS.iter().copied().flatten();
    let fields = fields.map(|it| MetricFamily::of(it.name, it.kind(), it.help).read_from(it.field));
    std::iter::once(identity).chain(fields).collect()
}

impl FieldMetric {
    fn kind(&self) -> MetricKind {
        match self.reading {
            Counter(_) => MetricKind::Counter,
            Gauge(_) | Is(_) | IsNot(_) => MetricKind::Gauge,
        }
    }

    /// What a field's text is as a metric.
    fn value(&self, text: &str) -> Option<f64> {
        Some(match self.reading {
            Counter(unit) | Gauge(unit) => text.parse::<f64>().ok()? * unit,
            Is(word) => f64::from(u8::from(text == word)),
            IsNot(word) => f64::from(u8::from(text != word)),
        })
    }
}

pub(super) fn write(found: &[(&str, &str)], exposition: &mut Exposition) {
    let value_of = |field: &str| found.iter().find(|(name, _)| *name == field).map(|it| it.1);
    exposition.family(SERVER.0, MetricKind::Info, SERVER.1);
    let labels: Vec<(&str, &str)> =
        IDENTITY.iter().filter_map(|field| Some((*field, value_of(field)?))).collect();
    exposition.sample(&labels, 1_u64);
    for metric in FIELDS.iter().copied().flatten() {
        if let Some(value) = value_of(metric.field).and_then(|text| metric.value(text)) {
            exposition.family(metric.name, metric.kind(), metric.help);
            exposition.sample(&[], value);
        }
    }
}

/// Whether a field is told here.
#[cfg(test)]
pub(super) fn has(name: &str) -> bool {
    IDENTITY.contains(&name) || FIELDS.iter().copied().flatten().any(|metric| metric.field == name)
}
