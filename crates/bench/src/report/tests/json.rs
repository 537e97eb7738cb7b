//! The JSON file: memtier's names, which other programs look up.

use base64_of_hdr::decode;
use serde_json::Value;

use super::{options, outcome, publish};
use crate::options::Options;
use crate::outcome::Outcome;

fn written(options: &Options, outcomes: &[Outcome]) -> (Value, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut options = options.clone();
    options.output.file = Some(folder.path().join("text"));
    options.output.json = Some(folder.path().join("json"));
    publish(&options, outcomes).expect("the folder takes files");
    let text = std::fs::read_to_string(folder.path().join("json")).expect("it was written");
    (serde_json::from_str(&text).expect("it is JSON"), text)
}

fn names(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn sections_and_figures_have_memtiers_names() {
    let (document, _) = written(&options(), &[outcome()]);
    assert_eq!(names(&document), ["ALL STATS", "apus", "configuration", "run information"]);
    let all = &document["ALL STATS"];
    assert_eq!(names(all), ["Gets", "Runtime", "Sets", "Totals", "Waits"]);
    let runtime = ["Finish time", "Interrupted", "Start time", "Time unit", "Total duration"];
    assert_eq!(names(&all["Runtime"]), runtime);
    assert_eq!(all["Runtime"]["Start time"], 1_730_996_277_188_u64);
    let figures = [
        "Accumulated Latency",
        "Average Latency",
        "Count",
        "Hits/sec",
        "KB/sec",
        "KB/sec RX",
        "KB/sec RX/TX",
        "KB/sec TX",
        "Latency",
        "Max Latency",
        "Min Latency",
        "Misses/sec",
        "Ops/sec",
        "Percentile Latencies",
        "Time-Serie",
    ];
    for section in ["Sets", "Gets", "Waits"] {
        assert_eq!(names(&all[section]), figures);
    }
    let mut of_totals = figures.to_vec();
    of_totals.insert(2, "Connection Errors");
    assert_eq!(names(&all["Totals"]), of_totals);
    let gets = &all["Gets"];
    assert_eq!((&gets["Count"], &gets["Ops/sec"]), (&2000.into(), &1000.0.into()));
    assert_eq!((&gets["Hits/sec"], &gets["Misses/sec"]), (&750.0.into(), &250.0.into()));
    assert_eq!((&gets["Min Latency"], &gets["Max Latency"]), (&0.002.into(), &2.0.into()));
    assert_eq!((&gets["Latency"], &gets["Accumulated Latency"]), (&1.001.into(), &2002.into()));
    assert_eq!((&gets["KB/sec RX"], &gets["KB/sec TX"]), (&31.25.into(), &62.5.into()));
    let percentiles = ["Histogram log format", "p50.00", "p99.00", "p99.90"];
    assert_eq!(names(&gets["Percentile Latencies"]), percentiles);
    assert_eq!(gets["Percentile Latencies"]["p99.00"], 1.98);
}

#[test]
fn time_series_have_memtiers_names_in_the_order_of_time() {
    let mut options = options();
    options.output.hide_histogram = false;
    let mut outcome = outcome();
    let second = outcome.commands[0].seconds[0].clone();
    outcome.commands[0].seconds.resize(12, second);
    let (document, text) = written(&options, &[outcome]);
    let all = &document["ALL STATS"];
    let expected = [
        "Accumulated Latency",
        "Average Latency",
        "Bytes RX",
        "Bytes TX",
        "Count",
        "Max Latency",
        "Min Latency",
        "p50.00",
        "p99.00",
        "p99.90",
    ];
    assert_eq!(names(&all["Sets"]["Time-Serie"]["0"]), expected);
    assert_eq!(all["Totals"]["Time-Serie"]["0"]["Count"], 1100);
    assert_eq!(all["Totals"]["Time-Serie"]["11"]["Count"], 100);
    assert!(text.find("\"9\": {") < text.find("\"10\": {"), "ten follows nine");
    assert!(["SET", "GET", "WAIT"].iter().all(|kind| all.get(kind).is_some()), "{:?}", names(all));
    assert_eq!(all["SET"][0], serde_json::json!({"<=msec": 0.01, "percent": 0.0}));
}

#[test]
fn histograms_can_be_read_back_from_their_log_format() {
    let (document, _) = written(&options(), &[outcome()]);
    let percentiles = &document["ALL STATS"]["Totals"]["Percentile Latencies"];
    let log = &percentiles["Histogram log format"]["Compressed Histogram"];
    let histogram = decode(log.as_str().expect("a string"));
    assert_eq!(histogram.len(), 2200);
    assert_eq!(histogram.value_at_percentile(100.0), 2000);
}

#[test]
fn several_runs_have_memtiers_sections() {
    let mut options = options();
    options.run_count = 2;
    options.output.all_runs = true;
    let (document, _) = written(&options, &[outcome(), outcome()]);
    let expected = [
        "AGGREGATED AVERAGE RESULTS (2 runs)",
        "BEST RUN RESULTS",
        "RUN #1 RESULTS",
        "RUN #2 RESULTS",
        "WORST RUN RESULTS",
        "apus",
        "configuration",
        "run information",
    ];
    assert_eq!(names(&document), expected);
    let mean = &document["AGGREGATED AVERAGE RESULTS (2 runs)"];
    assert_eq!(mean["Totals"]["Count"], 2200);
    assert_eq!(mean["Totals"]["Percentile Latencies"]["p99.00"], 1.978);
}

#[test]
fn our_section_tells_what_the_run_cost() {
    let mut outcome = outcome();
    outcome.generator.busiest_thread = 0.95;
    let (document, text) = written(&options(), &[outcome]);
    let run = &document["apus"]["Runs"][0];
    let expected = [
        "Connection errors",
        "Error replies",
        "Generator",
        "Late requests",
        "Machine",
        "Refused connections",
        "Requests never sent",
        "Requests without reply",
        "Server",
        "Server name",
        "Verify errors",
        "Warnings",
    ];
    assert_eq!(names(run), expected);
    assert_eq!(run["Server"]["CPU us per request"], 500.0);
    assert_eq!(run["Server"]["RSS bytes"], 9 << 20);
    assert_eq!(run["Generator"]["CPU us per request"], 5.0);
    assert_eq!(run["Warnings"].as_array().map(Vec::len), Some(1));
    assert!(!text.contains("verysecret"), "a password is never written");
}

#[test]
fn the_configuration_has_memtiers_names_and_forms() {
    let (document, _) = written(&options(), &[outcome()]);
    let configuration = &document["configuration"];
    let memtiers = [
        "server",
        "port",
        "unix socket",
        "address family",
        "protocol",
        "out_file",
        "tls",
        "cert",
        "key",
        "cacert",
        "tls_skip_verify",
        "sni",
        "client_stats",
        "run_count",
        "debug",
        "requests",
        "rate_limit",
        "clients",
        "threads",
        "test_time",
        "ratio",
        "pipeline",
        "data_size",
        "data_offset",
        "random_data",
        "data_size_range",
        "data_size_list",
        "data_size_pattern",
        "expiry_range",
        "data_import",
        "data_verify",
        "verify_only",
        "generate_keys",
        "key_prefix",
        "key_minimum",
        "key_maximum",
        "key_pattern",
        "key_stddev",
        "key_median",
        "reconnect_interval",
        "multi_key_get",
        "authenticate",
        "select-db",
        "no-expiry",
        "wait-ratio",
        "num-slaves",
        "wait-timeout",
    ];
    for name in memtiers {
        assert!(configuration.get(name).is_some(), "{name} is missing");
    }
    assert_eq!(configuration["ratio"], "1:10");
    assert_eq!(configuration["random_data"], "false");
    assert_eq!(configuration["data_size"], 32);
    assert_eq!(configuration["unix socket"], Value::Null);
    let information = &document["run information"];
    assert_eq!(information["Requests per client"], 10_000);
    assert_eq!(information["Connections per thread"], 50);
    assert_eq!(information["Threads"], 4);
}

/// A reader of its own for the log format, as other programs have one.
mod base64_of_hdr {
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;

    pub(super) fn decode(text: &str) -> Histogram<u64> {
        let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
        for character in text.trim_end_matches('=').chars() {
            let digit = match character {
                'A'..='Z' => character as u32 - 'A' as u32,
                'a'..='z' => character as u32 - 'a' as u32 + 26,
                '0'..='9' => character as u32 - '0' as u32 + 52,
                '+' => 62,
                _ => 63,
            };
            (bits, held) = (bits << 6 | digit, held + 6);
            if held >= 8 {
                held -= 8;
                bytes.push((bits >> held & 255) as u8);
            }
        }
        Deserializer::new().deserialize(&mut &bytes[..]).expect("a histogram")
    }
}
