//! Metrics of single keys and of prefixes: the hottest, the biggest, and those that take most.
//!
//! Invariant: so many of each are told at most, whatever the keys are called; a name that is no
//! plain text is told as redis-cli quotes it, so no two names are one label.

use base::quote::quote;
use engine::observe::hot_key_sketch::HotKeyMetric;
use keyspace::BigKeyMetric;

use super::catalogue::MetricFamily;
use super::exposition::{Exposition, MetricKind};
use crate::http::state::HttpState;

/// How many keys are told by each measure.
const KEYS_TOLD: usize = 10;

/// How many prefixes are told.
const PREFIXES_TOLD: usize = 50;

/// The metrics of hot keys: what they are hot by, the metric, its unit, and what it is.
const HOT: [(HotKeyMetric, &str, f64, &str); 3] = [
    (HotKeyMetric::Requests, "hot_key_requests_per_second", 1.0, "Requests for one of the hottest keys."),
    (
        HotKeyMetric::Bytes,
        "hot_key_bytes_per_second",
        1.0,
        "Bytes of requests and replies of one of the hottest keys.",
    ),
    (
        HotKeyMetric::Time,
        "hot_key_busy_ratio",
        1e-6,
        "Seconds that commands for one of the hottest keys took, of each second.",
    ),
];

/// The metrics of big keys: what they are big by, the metric, and what it is.
const BIG: [(BigKeyMetric, &str, &str); 2] = [
    (BigKeyMetric::Memory, "big_key_bytes", "Bytes that one of the biggest keys takes."),
    (BigKeyMetric::Elements, "big_key_elements", "Elements of one of the biggest keys."),
];

/// The metrics of prefixes, with what they are.
const PREFIX_KEYS: (&str, &str) = ("prefix_keys", "Keys of a prefix.");
const PREFIX_BYTES: (&str, &str) = ("prefix_bytes", "Bytes that the keys of a prefix take.");
const PREFIX_REQUESTS: (&str, &str) = (
    "prefix_requests_per_second",
    "Requests for keys of a prefix, of those prefixes that are used most.",
);

pub(super) fn families() -> Vec<MetricFamily> {
    let of = |name, help| MetricFamily::of(name, MetricKind::Gauge, help);
    let of_key = |name, help| of(name, help).with_label("db").with_label("key");
    let mut families: Vec<_> = HOT.iter().map(|(_, name, _, help)| of_key(name, *help)).collect();
    families.extend(BIG.iter().map(|(_, name, help)| of_key(name, *help).with_label("type")));
    let prefixes = [PREFIX_KEYS, PREFIX_BYTES, PREFIX_REQUESTS];
    families.extend(prefixes.map(|(name, help)| of(name, help).with_label("prefix")));
    families
}

pub(super) fn write(server: &HttpState, exposition: &mut Exposition) {
    let now_us = server.keyspace.clock().monotonic_us();
    let statistics = &server.observed.key_statistics;
    for (by, name, unit, help) in HOT {
        let keys = statistics.hot.report(by, KEYS_TOLD, now_us);
        exposition.family_if(!keys.is_empty(), name, MetricKind::Gauge, help);
        for hot in keys {
            let labels = [("db", &*hot.database.to_string()), ("key", &*label(&hot.key))];
            exposition.sample(&labels, hot.per_second * unit);
        }
    }
    for (by, name, help) in BIG {
        let keys = statistics.big.latest(by);
        exposition.family_if(!keys.is_empty(), name, MetricKind::Gauge, help);
        for big in keys.iter().take(KEYS_TOLD) {
            let size = if by == BigKeyMetric::Memory { Some(big.bytes) } else { big.elements };
            let labels = [
                ("db", &*big.database.to_string()),
                ("key", &*label(&big.key)),
                ("type", big.kind),
            ];
            exposition.sample(&labels, size.unwrap_or(0));
        }
    }
    write_prefixes(server, exposition, now_us);
}

fn write_prefixes(server: &HttpState, exposition: &mut Exposition, now_us: i64) {
    let survey = server.observed.key_statistics.latest_prefix_stats();
    let told = || survey.prefixes.iter().take(PREFIXES_TOLD);
    let is_any = !survey.prefixes.is_empty();
    exposition.family_if(is_any, PREFIX_KEYS.0, MetricKind::Gauge, PREFIX_KEYS.1);
    for (prefix, totals) in told() {
        exposition.sample(&[("prefix", &*label(prefix))], totals.keys);
    }
    exposition.family_if(is_any, PREFIX_BYTES.0, MetricKind::Gauge, PREFIX_BYTES.1);
    for (prefix, totals) in told() {
        exposition.sample(&[("prefix", &*label(prefix))], totals.bytes);
    }
    let mut requests: Vec<_> =
        server.observed.key_statistics.hot.requests_by_prefix(now_us).into_iter().collect();
    requests.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    let (name, help) = PREFIX_REQUESTS;
    exposition.family_if(!requests.is_empty(), name, MetricKind::Gauge, help);
    for (prefix, per_second) in requests.iter().take(PREFIXES_TOLD) {
        exposition.sample(&[("prefix", &*label(prefix))], *per_second);
    }
}

/// A name as the value of a label.
pub(super) fn label(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if !text.starts_with('"') && !text.contains(char::is_control) => text.to_owned(),
        _ => quote(name),
    }
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn no_two_names_are_one_label() {
        let names: [&[u8]; 6] =
            [b"plain", b"\xff", b"\"\\xff\"", "\u{e9}".as_bytes(), b"a\nb", b""];
        let labels = names.map(label);
        for (place, one) in labels.iter().enumerate() {
            assert!(!labels[place + 1..].contains(one), "{one}");
        }
        assert_eq!(labels[0], "plain");
        assert_eq!(labels[1], "\"\\xff\"");
    }
}
