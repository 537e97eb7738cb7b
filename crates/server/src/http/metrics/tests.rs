//! The metrics against INFO and against the rules of their text.

use std::collections::BTreeSet;

use otlp::metrics::Points;

use super::exposition::{Exposition, Format, MetricKind};
use super::{NamePermissions, entries, fields, json, lines, metric_families, text, values};
use crate::control::server::info;
use crate::http::HttpState;
use crate::start::{http_state, test_server};

/// Fields that are no metric: texts, and what another field tells in another unit.
fn is_left_out(name: &str) -> bool {
    const TEXTS: &[&str] = &[
        "server_name",
        "redis_git_dirty",
        "redis_build_id",
        "monotonic_clock",
        "multiplexing_api",
        "atomicvar_api",
        "gcc_version",
        "process_supervised",
        "server_time_usec",
        "uptime_in_days",
        "hz",
        "configured_hz",
        "lru_clock",
        "executable",
        "config_file",
        "used_memory_peak_perc",
        "used_memory_dataset_perc",
        "used_memory_lua",
        "used_memory_vm_eval",
        "allocator_frag_bytes",
        "allocator_rss_bytes",
        "rss_overhead_bytes",
        "mem_fragmentation_bytes",
        "mem_cluster_slot_migration_output_buffer",
        "mem_cluster_slot_migration_input_buffer",
        "mem_cluster_slot_migration_input_buffer_peak",
        "master_replid2",
    ];
    TEXTS.contains(&name)
        || name.ends_with("_human")
        || name.starts_with("listener")
        || name.starts_with("latency_percentiles_usec_")
        || name.contains("_distrib_")
}

/// What a user is told that may do everything.
const ALL: NamePermissions = NamePermissions { keys: true, users: true };

fn state() -> HttpState {
    http_state(test_server())
}

#[test]
fn every_field_of_info_is_a_metric_or_is_left_out_for_a_reason() {
    let report = info::everything(test_server());
    let missing: Vec<&str> = entries(&report)
        .filter(|(name, value)| !(fields::has(name) || lines::has(name, value)))
        .map(|(name, _)| name)
        .filter(|name| !is_left_out(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_family_is_in_the_catalogue() {
    let known: BTreeSet<String> = metric_families().into_iter().map(|family| family.name).collect();
    assert_eq!(known.len(), metric_families().len(), "each is there once");
    let text = text(&state(), Format::Prometheus, ALL);
    let told = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let missing: Vec<&str> = told.filter(|name| !known.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Both are written by the same calls, in the same order.
#[test]
fn what_is_exported_has_the_names_and_units_of_the_text() {
    let state = state();
    let text = text(&state, Format::Prometheus, ALL);
    let told = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let told: Vec<&str> = told.map(|name| name.strip_suffix("_total").unwrap_or(name)).collect();
    let exported = values(&state, ALL);
    assert_eq!(exported.iter().map(|it| &*it.name).collect::<Vec<_>>(), told);
    for metric in &exported {
        let units = [
            ("_bytes_per_second", "By/s"),
            ("_per_second", "1/s"),
            ("_seconds", "s"),
            ("_bytes", "By"),
            ("_percent", "%"),
            ("_ratio", "1"),
        ];
        let unit = units.iter().find(|(end, _)| metric.name.ends_with(end));
        assert_eq!(metric.unit, unit.map_or("", |(_, unit)| unit), "{}", metric.name);
    }
}

#[test]
fn a_histogram_is_told_up_to_each_limit_and_exported_by_bucket() {
    let fill = |exposition: &mut Exposition| {
        exposition.family("x_seconds", MetricKind::Histogram, "Times.");
        exposition.histogram(&[("a", "b")], &[(0.5, 2), (1.0, 2), (2.0, 5)], 6, 7.5);
    };
    let mut exposition = Exposition::new(Format::Prometheus);
    fill(&mut exposition);
    let expected = "# HELP apus_x_seconds Times.\n# TYPE apus_x_seconds histogram\n\
                    apus_x_seconds_bucket{a=\"b\",le=\"0.5\"} 2\n\
                    apus_x_seconds_bucket{a=\"b\",le=\"1\"} 2\n\
                    apus_x_seconds_bucket{a=\"b\",le=\"2\"} 5\n\
                    apus_x_seconds_bucket{a=\"b\",le=\"+Inf\"} 6\n\
                    apus_x_seconds_sum{a=\"b\"} 7.5\napus_x_seconds_count{a=\"b\"} 6\n";
    assert_eq!(exposition.finish(), expected);
    let mut exposition = Exposition::of_values();
    fill(&mut exposition);
    let metrics = exposition.into_values();
    let Points::Histogram(points) = &metrics[0].points else { panic!("{metrics:?}") };
    assert_eq!((&*points[0].counts, points[0].sum), (&[2, 0, 3, 1][..], 7.5));
    assert_eq!(points[0].bounds, [0.5, 1.0, 2.0]);
}

#[test]
fn names_are_well_formed_and_each_is_there_once() {
    let mut seen = BTreeSet::new();
    for format in [Format::Prometheus, Format::OpenMetrics] {
        let text = text(&state(), format, ALL);
        let mut families = BTreeSet::new();
        for line in text.lines().filter(|line| line.starts_with("# TYPE ")) {
            let words: Vec<&str> = line.split(' ').collect();
            let [_, _, name, kind] = words[..] else { panic!("{line}") };
            assert!(families.insert(name.to_owned()), "{name} is there twice");
            assert!(
                name.bytes()
                    .all(|byte| byte.is_ascii_lowercase() || b"_0123456789".contains(&byte))
            );
            let is_counter = kind == "counter" && format == Format::Prometheus;
            assert_eq!(name.ends_with("_total"), is_counter, "{line}");
        }
        assert_eq!(text.ends_with("# EOF\n"), format == Format::OpenMetrics);
        seen.insert(families.len());
    }
    assert_eq!(seen.len(), 1, "both formats have the same families");
}

/// What `promtool check metrics` warns of: a unit that is not a base unit, or is cut short.
#[test]
fn units_are_base_units_in_full() {
    const STRANGE: &[&str] = &[
        "nanoseconds",
        "microseconds",
        "milliseconds",
        "minutes",
        "hours",
        "days",
        "weeks",
        "bits",
        "kilobytes",
        "megabytes",
        "gigabytes",
        "kibibytes",
        "mebibytes",
        "gibibytes",
        "s",
        "ms",
        "us",
        "ns",
        "sec",
        "usec",
        "b",
        "kb",
        "mb",
        "gb",
    ];
    let text = text(&state(), Format::Prometheus, ALL);
    let strange: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .filter(|name| name.split('_').any(|word| STRANGE.contains(&word)))
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
}

/// How long locks were held is a label in seconds.
#[test]
fn holds_of_locks_are_one_family() {
    let mut exposition = Exposition::new(Format::Prometheus);
    let found = [("lock_holds_from_1_ms", "7"), ("lock_holds_from_1000_ms", "2")];
    lines::write(&found, &mut exposition);
    let text = exposition.finish();
    assert_eq!(text.matches("# TYPE apus_lock_holds_total counter\n").count(), 1);
    assert!(text.contains("\napus_lock_holds_total{at_least=\"0.001\"} 7\n"), "{text}");
    assert!(text.contains("\napus_lock_holds_total{at_least=\"1\"} 2\n"), "{text}");
}

#[test]
fn labels_are_escaped() {
    let mut exposition = Exposition::new(Format::Prometheus);
    exposition.family("x", MetricKind::Counter, "A thing.");
    exposition.sample(&[("a", "q\"b\\c\nd"), ("b", "")], 2.5);
    let expected = "# HELP apus_x_total A thing.\n# TYPE apus_x_total counter\n\
                    apus_x_total{a=\"q\\\"b\\\\c\\nd\",b=\"\"} 2.5\n";
    assert_eq!(exposition.finish(), expected);
}

#[test]
fn info_is_json() {
    let report = "# Server\r\na:1\r\nb:x\"y\r\n\r\n# Modules\r\n\r\n# CPU\r\nc:d:e\r\n";
    assert_eq!(json(report), r#"{"Server":{"a":"1","b":"x\"y"},"Modules":{},"CPU":{"c":"d:e"}}"#);
    assert_eq!(json(""), "{}");
}
