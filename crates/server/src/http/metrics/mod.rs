//! What `/metrics` tells, and what is exported: every figure of INFO under a name and in a unit
//! that Prometheus expects, and the durations of commands as histograms.
//!
//! Invariant: a figure is INFO's own, read from its text; so both say the same.

mod catalogue;
mod durations;
mod exposition;
mod fields;
mod keys;
mod lines;
mod quotas;

#[cfg(test)]
mod tests;

pub use catalogue::{MetricFamily, metric_families};
pub(super) use exposition::Format;

use exposition::Exposition;
use otlp::metrics::Metric;

use crate::http::json::quoted;
use crate::http::state::HttpState;

/// Which names metrics may tell.
#[derive(Clone, Copy)]
pub(crate) struct NamePermissions {
    /// Those of keys.
    pub(crate) keys: bool,
    /// Those of users.
    pub(crate) users: bool,
}

/// All metrics, with the names that the caller may read.
pub(super) fn text(server: &HttpState, format: Format, named: NamePermissions) -> String {
    let mut exposition = Exposition::new(format);
    write(server, &mut exposition, named);
    exposition.finish()
}

/// The same as values that are exported.
pub(crate) fn values(server: &HttpState, named: NamePermissions) -> Vec<Metric> {
    let mut exposition = Exposition::of_values();
    write(server, &mut exposition, named);
    exposition.into_values()
}

fn write(server: &HttpState, exposition: &mut Exposition, named: NamePermissions) {
    let report = (server.info)();
    let found: Vec<(&str, &str)> = entries(&report).collect();
    fields::write(&found, exposition);
    lines::write(&found, exposition);
    durations::write(server, exposition);
    if named.keys {
        keys::write(server, exposition);
    }
    quotas::write(server, exposition, named.users);
}

/// INFO as a JSON object: its sections, each an object of its fields, which are texts.
pub(super) fn json(report: &str) -> String {
    let mut text = String::from("{");
    let mut is_first_section = true;
    for section in report.split("# ").filter(|section| !section.is_empty()) {
        let (title, body) = section.split_once("\r\n").unwrap_or((section, ""));
        let comma = if is_first_section { "" } else { "}," };
        is_first_section = false;
        text += &format!("{comma}{}:{{", quoted(title));
        let members: Vec<String> = entries(body)
            .map(|(name, value)| format!("{}:{}", quoted(name), quoted(value)))
            .collect();
        text += &members.join(",");
    }
    text + if is_first_section { "}" } else { "}}" }
}

/// The fields of a text of INFO.
fn entries(report: &str) -> impl Iterator<Item = (&str, &str)> {
    report.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(':'))
}
