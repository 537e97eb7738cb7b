//! What metrics are written to: a text in the form of Prometheus 0.0.4 or OpenMetrics 1.0, or
//! values that are exported.
//!
//! Invariant: a family is written once, its head before its samples, and whoever writes it does not
//! know what to.

use std::fmt::{Display, Write};

use otlp::attributes::Attribute;
use otlp::metrics::{HistogramPoint, Metric, NumberPoint, Points};

use super::catalogue;

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

/// A value of a sample.
pub(super) trait Figure: Copy + Display {
    /// The value as all values are exported.
    fn number(self) -> f64;
}

impl Figure for f64 {
    fn number(self) -> f64 {
        self
    }
}

impl Figure for u64 {
    fn number(self) -> f64 {
        self as f64
    }
}

impl Figure for i64 {
    fn number(self) -> f64 {
        self as f64
    }
}

impl Figure for usize {
    fn number(self) -> f64 {
        self as f64
    }
}

/// Where samples go.
enum Sink {
    Text(Format, String),
    Values(Vec<Metric>),
}

/// The metrics as they grow.
pub(super) struct Exposition {
    sink: Sink,
    /// The family that is being written: its name and kind.
    family: (&'static str, MetricKind),
}

impl Exposition {
    pub(super) fn new(format: Format) -> Self {
        Self { sink: Sink::Text(format, String::new()), family: ("", MetricKind::Gauge) }
    }

    /// One of values.
    pub(super) fn of_values() -> Self {
        Self { sink: Sink::Values(Vec::new()), family: ("", MetricKind::Gauge) }
    }

    /// Begins a family; the name has neither prefix nor the suffix that its kind asks for.
    pub(super) fn family(&mut self, name: &'static str, kind: MetricKind, help: &str) {
        self.family = (name, kind);
        match &mut self.sink {
            Sink::Text(format, text) => push_head(text, *format, (name, kind), help),
            Sink::Values(metrics) => metrics.push(empty_metric(name, kind, help)),
        }
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

    /// A sample of the family, which is no histogram.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Figure) {
        let (name, kind) = self.family;
        match &mut self.sink {
            Sink::Text(_, text) => push_sample(text, (name, suffix_of(kind)), labels, value),
            Sink::Values(metrics) => {
                if let Some(Points::Gauge(points) | Points::Sum(points)) = last_points(metrics) {
                    points.push(NumberPoint {
                        attributes: attributes(labels),
                        value: value.number(),
                    });
                }
            }
        }
    }

    /// A sample of the family, which is a histogram: how many there are up to each of some limits,
    /// how many at all, and their sum.
    pub(super) fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        within: &[(f64, u64)],
        count: u64,
        sum: f64,
    ) {
        let name = self.family.0;
        match &mut self.sink {
            Sink::Text(_, text) => {
                let limits = within.iter().map(|(limit, within)| (limit.to_string(), *within));
                for (limit, within) in limits.chain([("+Inf".to_owned(), count)]) {
                    let labels = [labels, &[("le", &*limit)]].concat();
                    push_sample(text, (name, "_bucket"), &labels, within);
                }
                push_sample(text, (name, "_sum"), labels, sum);
                push_sample(text, (name, "_count"), labels, count);
            }
            Sink::Values(metrics) => {
                if let Some(Points::Histogram(points)) = last_points(metrics) {
                    let attributes = attributes(labels);
                    let bounds = within.iter().map(|(limit, _)| *limit).collect();
                    let up_to = within.iter().map(|(_, within)| *within).chain([count]);
                    let counts = up_to.scan(0, |below, within| {
                        let counted = within - std::mem::replace(below, within);
                        Some(counted)
                    });
                    let counts = counts.collect();
                    points.push(HistogramPoint { attributes, bounds, counts, sum });
                }
            }
        }
    }

    /// The text.
    pub(super) fn finish(self) -> String {
        match self.sink {
            Sink::Text(Format::OpenMetrics, text) => text + "# EOF\n",
            Sink::Text(Format::Prometheus, text) => text,
            Sink::Values(_) => String::new(),
        }
    }

    /// The values; none of a text.
    pub(super) fn into_values(self) -> Vec<Metric> {
        match self.sink {
            Sink::Text(..) => Vec::new(),
            Sink::Values(metrics) => metrics,
        }
    }
}

/// A metric without values. What reads it as Prometheus does adds the suffix of a counter.
fn empty_metric(name: &str, kind: MetricKind, help: &str) -> Metric {
    let points = match kind {
        MetricKind::Counter => Points::Sum(Vec::new()),
        MetricKind::Gauge | MetricKind::Info => Points::Gauge(Vec::new()),
        MetricKind::Histogram => Points::Histogram(Vec::new()),
    };
    let suffix = if kind == MetricKind::Info { suffix_of(kind) } else { "" };
    Metric {
        name: format!("{PREFIX}{name}{suffix}"),
        description: help.to_owned(),
        unit: catalogue::ucum_of(name),
        points,
    }
}

fn last_points(metrics: &mut [Metric]) -> Option<&mut Points> {
    metrics.last_mut().map(|metric| &mut metric.points)
}

fn attributes(labels: &[(&str, &str)]) -> Vec<Attribute> {
    labels.iter().map(|(name, value)| Attribute::text((*name).to_owned(), *value)).collect()
}

fn push_head(text: &mut String, format: Format, (name, kind): (&str, MetricKind), help: &str) {
    let word = match (kind, format) {
        (MetricKind::Counter, _) => "counter",
        (MetricKind::Gauge, _) => "gauge",
        (MetricKind::Histogram, _) => "histogram",
        (MetricKind::Info, Format::OpenMetrics) => "info",
        (MetricKind::Info, Format::Prometheus) => "gauge",
    };
    // OpenMetrics names the family without the suffix of its samples.
    let suffix = match format {
        Format::OpenMetrics => "",
        Format::Prometheus => suffix_of(kind),
    };
    let full = format!("{PREFIX}{name}{suffix}");
    push(text, format_args!("# HELP {full} {help}\n# TYPE {full} {word}\n"));
}

fn push_sample(
    text: &mut String,
    (name, suffix): (&str, &str),
    labels: &[(&str, &str)],
    value: impl Display,
) {
    push(text, format_args!("{PREFIX}{name}{suffix}"));
    for (index, (label, value)) in labels.iter().enumerate() {
        let before = if index == 0 { '{' } else { ',' };
        push(text, format_args!("{before}{label}=\"{}\"", escaped(value)));
    }
    let end = if labels.is_empty() { "" } else { "}" };
    push(text, format_args!("{end} {value}\n"));
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more).expect("a string takes everything");
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
