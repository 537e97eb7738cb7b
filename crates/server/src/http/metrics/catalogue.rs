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
        unit_of(self.name.trim_end_matches("_total")).0
    }
}

/// Units by the ends of names: in words, and as UCUM writes them.
const UNITS: [(&str, &str, &str); 7] = [
    ("_timestamp_seconds", "seconds since 1970", "s"),
    ("_bytes_per_second", "bytes per second", "By/s"),
    ("_seconds", "seconds", "s"),
    ("_bytes", "bytes", "By"),
    ("_percent", "percent", "%"),
    ("_ratio", "ratio", "1"),
    ("_per_second", "per second", "1/s"),
];

/// What a metric of this name is counted in, as UCUM writes it.
pub(super) fn ucum_of(name: &str) -> &'static str {
    unit_of(name).1
}

fn unit_of(name: &str) -> (&'static str, &'static str) {
    let found = UNITS.into_iter().find(|(end, ..)| name.ends_with(end));
    found.map_or(("", ""), |(_, words, ucum)| (words, ucum))
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
