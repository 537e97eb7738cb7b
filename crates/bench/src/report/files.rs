//! `--hdr-file-prefix` and `--client-stats`: files of memtier_benchmark's names and forms.
//! Invariant: the rows of a percentile file grow in value, percentile and count.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use super::document::encode;
use super::summary::{Row, Summary, commands, second_count};
use super::table::{command_name, cumulative};
use crate::options::Options;
use crate::outcome::{CommandOutcome, Latencies, Outcome, Second};

/// Steps of a percentile file between one half of the rest and the next: HdrHistogram's default.
const TICKS_PER_HALF: u32 = 5;

/// Writes what the options ask for about one run; runs count from one.
pub(super) fn write_run(
    options: &Options,
    outcome: &Outcome,
    summary: &Summary,
    run: usize,
) -> Result<(), String> {
    if let Some(prefix) = &options.output.hdr_prefix {
        write_histogram(&with_suffix(prefix, &format!("_FULL_RUN_{run}")), &summary.totals)?;
        for row in summary.rows.iter().filter(|row| !row.is_empty()) {
            let suffix = format!("_{}_command_run_{run}", command_name(&row.name));
            write_histogram(&with_suffix(prefix, &suffix), row)?;
        }
    }
    if let Some(prefix) = &options.output.client_stats {
        let per_thread = options.clients.max(1) as usize;
        for (index, client) in outcome.clients.iter().enumerate() {
            let (thread, client_number) = (index / per_thread, index % per_thread);
            let path = with_suffix(prefix, &format!("-{run}-{thread}-{client_number}.csv"));
            write(&path, &client_csv(options, client))?;
        }
    }
    Ok(())
}

/// The text as `NAME.txt`, and the log format, from which histograms are merged, as `NAME.hgrm`.
fn write_histogram(stem: &Path, row: &Row) -> Result<(), String> {
    write(&with_suffix(stem, ".txt"), &percentile_text(&row.latencies))?;
    write(&with_suffix(stem, ".hgrm"), &encode(&row.latencies))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// HdrHistogram's percentile distribution, in milliseconds: what its plotter reads.
fn percentile_text(latencies: &Latencies) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:>12} {:>14} {:>12} {:>16}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)",
    );
    let mut count = 0;
    for step in latencies.iter_quantiles(TICKS_PER_HALF) {
        count += step.count_since_last_iteration();
        let value = step.value_iterated_to() as f64 / 1000.0;
        let quantile = step.quantile_iterated_to();
        let _ = write!(text, "{value:>12.3} {quantile:>14.12} {count:>12} ");
        let _ = match 1.0 - quantile {
            rest if rest > 0.0 => writeln!(text, "{:>16.2}", 1.0 / rest),
            _ => writeln!(text, "{:>16}", "inf"),
        };
    }
    let _ = writeln!(
        text,
        "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]\n\
         #[Max     = {:>12.3}, Total count    = {:>12}]\n\
         #[Buckets = {:>12}, SubBuckets     = {:>12}]",
        latencies.mean() / 1000.0,
        latencies.stdev() / 1000.0,
        latencies.max() as f64 / 1000.0,
        latencies.len(),
        latencies.buckets(),
        2048,
    );
    text
}

/// A connection's seconds, then the latency distribution of each kind of request.
fn client_csv(options: &Options, client: &[CommandOutcome]) -> String {
    let commands = commands(options, client);
    let mut text = String::from("Per-Second Benchmark Data\nSecond");
    for command in &commands {
        text.push_str(&columns(&command_name(&command.name)));
    }
    text.push('\n');
    for index in 0..second_count(&commands) {
        let _ = write!(text, "{index}");
        for command in &commands {
            text.push_str(&cells(&command_name(&command.name), command.seconds.get(index)));
        }
        text.push('\n');
    }
    // Readers of the seconds stop at the first of these headings, which is that of GET.
    let gets_first = commands.iter().filter(|command| command.name == "Gets");
    let others = commands.iter().filter(|command| command.name != "Gets");
    for command in gets_first.chain(others) {
        let name = command_name(&command.name);
        let _ = writeln!(text, "\nFull-Test {name} Latency\nLatency (<= msec),Percent");
        for (latency, percent) in cumulative(&command.latencies) {
            let _ = writeln!(text, "{latency:.3},{percent:.2}");
        }
    }
    text
}

fn columns(name: &str) -> String {
    let mut text = format!(",{name} Requests,{name} Average Latency");
    if name != "WAIT" {
        let _ = write!(text, ",{name} Total Bytes,{name} Total Bytes TX,{name} Total Bytes RX");
    }
    if name == "GET" {
        let _ = write!(text, ",{name} Misses,{name} Hits");
    }
    text
}

/// The figures of one second under `columns`; average latency in seconds, as memtier has it.
fn cells(name: &str, second: Option<&Second>) -> String {
    let figure = |take: fn(&Second) -> u64| second.map_or(0, take);
    let count = figure(|second| second.latencies.len());
    let average = figure(|second| second.latency_sum) as f64 / 1e6 / count.max(1) as f64;
    let mut text = format!(",{count},{average:.6}");
    if name != "WAIT" {
        let (sent, received) =
            (figure(|second| second.bytes_sent), figure(|second| second.bytes_received));
        let _ = write!(text, ",{},{sent},{received}", sent + received);
    }
    if name == "GET" {
        let _ =
            write!(text, ",{},{}", figure(|second| second.misses), figure(|second| second.hits));
    }
    text
}
