//! The text form of metrics: that of Prometheus 0.0.4, or OpenMetrics 1.0.
//!
//! Invariant: a family is written once, its head before its samples.

use std::fmt::{Display, Write};

/// Which text is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Format {
    Prometheus,
    OpenMetrics,
}

impl Format {
    /// What a client that sends this header `Accept` gets.
    pub(in super::super) fn of(accepts: &str) -> Self {
        match accepts.contains("application/openmetrics-text") {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    pub(in super::super) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricKind {
    /// The value only grows while the process lives.
    Counter,
    Gauge,
    Histogram,
    /// Its labels are what it says; its value is 1.
    Info,
}

/// Before every name.
pub(super) const PREFIX: &str = "apus_";

/// The text as it grows.
pub(super) struct Exposition {
    format: Format,
    text: String,
    /// The family that is being written: its name and kind.
    family: (&'static str, MetricKind),
}

impl Exposition {
    pub(super) fn new(format: Format) -> Self {
        Self { format, text: String::new(), family: ("", MetricKind::Gauge) }
    }

    /// Begins a family; the name has neither prefix nor the suffix that its kind asks for.
    pub(super) fn family(&mut self, name: &'static str, kind: MetricKind, help: &str) {
        self.family = (name, kind);
        let word = match (kind, self.format) {
            (MetricKind::Counter, _) => "counter",
            (MetricKind::Gauge, _) => "gauge",
            (MetricKind::Histogram, _) => "histogram",
            (MetricKind::Info, Format::OpenMetrics) => "info",
            (MetricKind::Info, Format::Prometheus) => "gauge",
        };
        // OpenMetrics names the family without the suffix of its samples.
        let suffix = match self.format {
            Format::OpenMetrics => "",
            Format::Prometheus => suffix_of(kind),
        };
        let full = format!("{PREFIX}{name}{suffix}");
        self.push(format_args!("# HELP {full} {help}\n# TYPE {full} {word}\n"));
    }

    /// Begins a family of which there are samples only now and then.
    pub(super) fn family_if(
        &mut self,
        is_any: bool,
        name: &'static str,
        kind: MetricKind,
        help: &str,
    ) {
        if is_any {
            self.family(name, kind, help);
        }
    }

    /// A sample of the family.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.sample_of(suffix_of(self.family.1), labels, value);
    }

    /// A sample of the family whose name ends so.
    pub(super) fn sample_of(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let name = self.family.0;
        self.push(format_args!("{PREFIX}{name}{suffix}"));
        for (index, (label, text)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            self.push(format_args!("{before}{label}=\"{}\"", escaped(text)));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        self.push(format_args!("{end} {value}\n"));
    }

    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("a string takes everything");
    }
}

pub(super) fn suffix_of(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Counter => "_total",
        MetricKind::Info => "_info",
        MetricKind::Gauge | MetricKind::Histogram => "",
    }
}

/// A label's value as it stands between quotes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
