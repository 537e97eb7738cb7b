//! All families of metrics, for the page that lists them.
//!
//! Invariant: a family is made of the very block by which it is written, so the page says what
//! `/metrics` says.

use super::exposition::{MetricKind, PREFIX, suffix_of};
use super::{durations, fields, keys, lines, quotas};

/// A family of metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricFamily {
    /// The name of its samples, but for the suffixes of a histogram.
    pub name: String,
    /// `counter`, `gauge`, `histogram` or `info`.
    pub kind: &'static str,
    /// What tells its samples apart.
    pub labels: Vec<&'static str>,
    /// The field of INFO that it is read from; empty where that is none.
    pub field: String,
    /// What the family's figures are.
    pub help: &'static str,
}

impl MetricFamily {
    pub(super) fn of(name: &str, kind: MetricKind, help: &'static str) -> MetricFamily {
        let word = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
            MetricKind::Info => "info",
        };
        let name = format!("{PREFIX}{name}{}", suffix_of(kind));
        MetricFamily { name, kind: word, labels: Vec::new(), field: String::new(), help }
    }

    pub(super) fn read_from(self, field: &str) -> MetricFamily {
        MetricFamily { field: field.to_owned(), ..self }
    }

    pub(super) fn with_label(mut self, label: &'static str) -> MetricFamily {
        self.labels.push(label);
        self
    }

    /// What a value is counted in, as the name says.
    pub fn unit(&self) -> &'static str {
        let name = self.name.trim_end_matches("_total");
        let units = [
            ("_timestamp_seconds", "seconds since 1970"),
            ("_bytes_per_second", "bytes per second"),
            ("_seconds", "seconds"),
            ("_bytes", "bytes"),
            ("_percent", "percent"),
            ("_ratio", "ratio"),
            ("_per_second", "per second"),
        ];
        units.iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit)
    }
}

/// All families, in the order of `/metrics`.
pub fn metric_families() -> Vec<MetricFamily> {
    let mut families = fields::families();
    families.extend(lines::families());
    families.extend(durations::families());
    families.extend(keys::families());
    families.extend(quotas::families());
    families
}
