//! `--json-out-file`: memtier_benchmark's document, name for name, and our own section `apus`.
//! Invariant: two percentiles never share a name, so none overwrites the other.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use base::base64;

use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

use super::configuration;
use super::json::Json;
use super::summary::{
    Row, Summary, commands, milliseconds, second_count, total_second, us_per_request,
};
use super::table::{command_name, cumulative};
use super::warnings;
use crate::options::{Options, Until};
use crate::outcome::{CommandOutcome, Latencies, Outcome, Second};
use crate::usage;

/// What a section of results shows; an average of runs has no time series.
pub(super) struct Section<'a> {
    pub(super) title: String,
    pub(super) summary: &'a Summary,
    pub(super) outcome: Option<&'a Outcome>,
    /// Of the run, or of all that the average is of.
    pub(super) connection_errors: u64,
}

/// The whole document.
pub(super) fn document(
    options: &Options,
    outcomes: &[Outcome],
    sections: &[Section<'_>],
    summaries: &[Summary],
) -> Json {
    let mut members = vec![
        ("configuration".to_owned(), Json::object(configuration::values(options))),
        ("run information".to_owned(), run_information(options)),
    ];
    let results = sections.iter().map(|section| (section.title.clone(), results(options, section)));
    members.extend(results);
    let runs = outcomes
        .iter()
        .zip(summaries)
        .map(|(outcome, summary)| Json::object(ours(options, outcome, summary.totals.count)));
    members.push(("apus".to_owned(), Json::object([("Runs", Json::Array(runs.collect()))])));
    Json::Object(members)
}

fn run_information(options: &Options) -> Json {
    let amount = match options.until {
        Until::Requests(count) => ("Requests per client", Json::whole(count)),
        Until::AllKeys => ("Requests per client", Json::whole(0_u64)),
        Until::Time(time) => ("Seconds", Json::whole(time.as_secs())),
    };
    Json::object([
        ("Threads", Json::whole(options.threads)),
        ("Connections per thread", Json::whole(options.clients)),
        amount,
        ("Format version", Json::whole(2_u64)),
    ])
}

fn results(options: &Options, section: &Section<'_>) -> Json {
    let mut members = Vec::new();
    let commands = match section.outcome {
        Some(outcome) => {
            members.push(("Runtime".to_owned(), runtime(outcome)));
            commands(options, &outcome.commands)
        }
        None => Vec::new(),
    };
    for row in &section.summary.rows {
        let command = commands.iter().find(|command| command.name == row.name);
        let seconds = command.map_or(&[][..], |command| &command.seconds);
        let seconds = Json::object(
            seconds
                .iter()
                .enumerate()
                .map(|(index, second)| (index.to_string(), one_second(options, second))),
        );
        members.push((row.name.clone(), figures(options, row, seconds)));
    }
    let totals = &section.summary.totals;
    let mut all = figures(options, totals, total_seconds(options, &commands));
    if let Json::Object(members) = &mut all {
        members.push(("Connection Errors".to_owned(), Json::whole(section.connection_errors)));
    }
    members.push(("Totals".to_owned(), all));
    if !options.output.hide_histogram {
        // memtier's readers find its three kinds always.
        let is_memtiers = |row: &&Row| matches!(&*row.name, "Sets" | "Gets" | "Waits");
        let rows = section.summary.rows.iter();
        let filled = rows.filter(|row| !row.is_empty() || is_memtiers(row));
        members.extend(filled.map(|row| (command_name(&row.name), distribution(&row.latencies))));
    }
    Json::Object(members)
}

fn runtime(outcome: &Outcome) -> Json {
    Json::object([
        ("Start time", unix_ms(outcome.started)),
        ("Finish time", unix_ms(outcome.finished)),
        ("Total duration", Json::whole(outcome.elapsed.as_millis() as u64)),
        ("Time unit", Json::text("MILLISECONDS")),
        ("Interrupted", Json::flag(outcome.interrupted)),
    ])
}

fn unix_ms(time: SystemTime) -> Json {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Json::whole(since.as_millis() as u64)
}

fn figures(options: &Options, row: &Row, seconds: Json) -> Json {
    let latency = |value: f64| Json::decimal(value, 3);
    let rate = |value: f64| Json::decimal(value, 2);
    let mut members = vec![
        ("Count", Json::decimal(row.count, 0)),
        ("Ops/sec", rate(row.ops)),
        ("Hits/sec", rate(row.hits)),
        ("Misses/sec", rate(row.misses)),
    ];
    if options.cluster {
        members.push(("MOVED/sec", rate(row.moved)));
        members.push(("ASK/sec", rate(row.ask)));
    }
    let (minimum, maximum) = extremes(&row.latencies);
    members.extend([
        ("Latency", latency(row.average())),
        ("Average Latency", latency(row.average())),
        ("Accumulated Latency", Json::decimal(row.accumulated, 0)),
        ("Min Latency", latency(minimum)),
        ("Max Latency", latency(maximum)),
        ("KB/sec", rate(row.kb())),
        ("KB/sec RX/TX", rate(row.kb())),
        ("KB/sec RX", rate(row.kb_received)),
        ("KB/sec TX", rate(row.kb_sent)),
        ("Time-Serie", seconds),
        ("Percentile Latencies", percentiles(options, &row.latencies)),
    ]);
    Json::object(members)
}

fn percentiles(options: &Options, latencies: &Latencies) -> Json {
    let mut members = percentile_members(options, latencies, 3);
    let log = Json::object([("Compressed Histogram", Json::text(encode(latencies)))]);
    members.push(("Histogram log format".to_owned(), log));
    Json::Object(members)
}

fn percentile_members(
    options: &Options,
    latencies: &Latencies,
    decimals: usize,
) -> Vec<(String, Json)> {
    let wanted = &options.output.percentiles;
    let values = wanted.iter().map(|&wanted| Json::decimal(milliseconds(latencies, wanted), 3));
    percentile_names(wanted, decimals).into_iter().zip(values).collect()
}

/// memtier's names are six characters long (`p50.00`, `p99.90`, `p100.0`); only those that would
/// be equal are written in full.
fn percentile_names(percentiles: &[f64], decimals: usize) -> Vec<String> {
    let short = |percentile: f64| {
        let mut name = format!("p{percentile:.decimals$}");
        name.truncate(6);
        name
    };
    let names: Vec<String> = percentiles.iter().map(|&percentile| short(percentile)).collect();
    let unique = |name: &str| names.iter().filter(|other| **other == name).count() == 1;
    let pairs = names.iter().zip(percentiles);
    pairs.map(|(name, full)| if unique(name) { name.clone() } else { format!("p{full}") }).collect()
}

fn total_seconds(options: &Options, commands: &[Cow<'_, CommandOutcome>]) -> Json {
    Json::object(
        (0..second_count(commands))
            .map(|index| (index.to_string(), one_second(options, &total_second(commands, index)))),
    )
}

fn one_second(options: &Options, second: &Second) -> Json {
    let count = second.latencies.len();
    let mut members = vec![
        ("Bytes RX".to_owned(), Json::whole(second.bytes_received)),
        ("Bytes TX".to_owned(), Json::whole(second.bytes_sent)),
        ("Count".to_owned(), Json::whole(count)),
    ];
    if count > 0 {
        let (minimum, maximum) = extremes(&second.latencies);
        let sum = second.latency_sum as f64 / 1000.0;
        let latencies = [
            ("Average Latency", Json::decimal(sum / count as f64, 3)),
            ("Min Latency", Json::decimal(minimum, 3)),
            ("Max Latency", Json::decimal(maximum, 3)),
            ("Accumulated Latency", Json::decimal(sum, 3)),
        ];
        members.extend(latencies.map(|(name, value)| (name.to_owned(), value)));
        members.extend(percentile_members(options, &second.latencies, 2));
    }
    Json::Object(members)
}

fn extremes(latencies: &Latencies) -> (f64, f64) {
    if latencies.is_empty() {
        return (0.0, 0.0);
    }
    (latencies.min() as f64 / 1000.0, latencies.max() as f64 / 1000.0)
}

fn distribution(latencies: &Latencies) -> Json {
    let step = |(latency, percent): (f64, f64)| {
        Json::object([
            ("<=msec", Json::decimal(latency, 3)),
            ("percent", Json::decimal(percent, 3)),
        ])
    };
    Json::Array(cumulative(latencies).into_iter().map(step).collect())
}

fn ours(options: &Options, outcome: &Outcome, requests: f64) -> Vec<(&'static str, Json)> {
    let generator = &outcome.generator;
    let server = outcome.server.as_ref().map_or(Json::Null, |server| {
        let cpu = server.user + server.system;
        Json::object([
            ("Process id", Json::whole(server.pid)),
            ("User CPU seconds", Json::decimal(server.user.as_secs_f64(), 6)),
            ("System CPU seconds", Json::decimal(server.system.as_secs_f64(), 6)),
            ("CPU us per request", Json::decimal(us_per_request(cpu, requests), 4)),
            ("RSS bytes", Json::whole(server.rss)),
        ])
    });
    let warnings = warnings::of_run(options, outcome).into_iter().map(Json::text);
    vec![
        ("Server", server),
        ("Server name", outcome.server_name.as_ref().map_or(Json::Null, Json::text)),
        ("Machine", Json::text(usage::machine())),
        (
            "Generator",
            Json::object([
                ("CPU seconds", Json::decimal(generator.cpu.as_secs_f64(), 6)),
                ("CPU us per request", Json::decimal(us_per_request(generator.cpu, requests), 4)),
                ("Busiest thread", Json::decimal(generator.busiest_thread, 4)),
                ("Starved thread", Json::decimal(generator.starved_thread, 4)),
            ]),
        ),
        ("Late requests", Json::whole(outcome.late)),
        ("Error replies", Json::whole(outcome.errors())),
        ("Requests without reply", Json::whole(outcome.unanswered())),
        ("Requests never sent", Json::whole(outcome.unsent)),
        ("Refused connections", Json::whole(outcome.refused)),
        ("Connection errors", Json::whole(outcome.connection_errors)),
        ("Verify errors", Json::whole(outcome.verify_errors)),
        ("Warnings", Json::Array(warnings.collect())),
    ]
}

/// A histogram as its log format has it: compressed, in base 64.
pub(super) fn encode(latencies: &Latencies) -> String {
    let mut bytes = Vec::new();
    let written = V2DeflateSerializer::new().serialize(latencies, &mut bytes);
    written.expect("a histogram of a minute in microseconds fits, and memory takes all");
    base64::encode(&bytes)
}

#[cfg(test)]
mod tests {
    use super::percentile_names;

    #[test]
    fn percentiles_have_memtiers_names_and_never_share_one() {
        let names = percentile_names(&[0.0, 50.0, 99.0, 99.9, 100.0], 2);
        assert_eq!(names, ["p0.00", "p50.00", "p99.00", "p99.90", "p100.0"]);
        let names = percentile_names(&[99.99, 99.991, 99.999_999, 50.0], 3);
        assert_eq!(names, ["p99.99", "p99.991", "p100.0", "p50.00"]);
    }
}
