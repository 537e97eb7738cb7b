//! The report as text: memtier_benchmark's layout, column for column, then lines of our own.
//! Invariant: what a script cuts out of memtier's table by column it cuts out of this one.

use std::fmt::Write;

use super::summary::{Row, Summary, divided, us_per_request};
use crate::options::{Options, Until};
use crate::outcome::{Latencies, Outcome};

/// Steps of the latency distribution between one half of the rest and the next: 5% at first.
const TICKS_PER_HALF: u32 = 10;

/// A column: its heading, its width, and a row's cell; `None` is drawn as dashes.
struct Column {
    heading: String,
    width: usize,
    cell: Cell,
}

type Cell = Box<dyn Fn(&Row) -> Option<String>>;

/// The lines above the tables: how the load was made.
pub(super) fn header(options: &Options) -> String {
    let mut text = String::new();
    let mut line = |value: String, what: &str| {
        let _ = writeln!(text, "{value:<9} {what}");
    };
    line(options.threads.to_string(), "Threads");
    line(options.clients.to_string(), "Connections per thread");
    match options.until {
        Until::Requests(count) => line(count.to_string(), "Requests per client"),
        Until::AllKeys => line("allkeys".into(), "Requests per client"),
        Until::Time(time) => line(time.as_secs().to_string(), "Seconds"),
    }
    text.push_str("\n\n");
    text
}

/// One table under its title, and the latency distribution unless that is hidden.
pub(super) fn results(title: &str, options: &Options, summary: &Summary) -> String {
    let rows: Vec<&Row> = summary.rows.iter().chain([&summary.totals]).collect();
    let name_width = rows.iter().map(|row| row.name.len()).fold(8, usize::max);
    let columns = columns(options);
    let mut heading = format!("{:<name_width$} ", "Type");
    for Column { heading: name, width, .. } in &columns {
        let _ = write!(heading, "{name:>width$} ");
    }
    let rule = |mark: &str| mark.repeat(heading.len());
    let mut text = format!("{title}\n{}\n{heading}\n{}\n", rule("="), rule("-"));
    for row in rows {
        let _ = write!(text, "{:<name_width$} ", row.name);
        for Column { width, cell, .. } in &columns {
            let cell = cell(row).unwrap_or_else(|| "---".into());
            let _ = write!(text, "{cell:>width$} ");
        }
        text.push('\n');
    }
    text.push_str("\n\n");
    if !options.output.hide_histogram {
        text.push_str(&distribution(summary));
    }
    text
}

fn columns(options: &Options) -> Vec<Column> {
    let rate = |heading: &str, width: usize, figure: fn(&Row) -> Option<f64>| Column {
        heading: heading.into(),
        width,
        cell: Box::new(move |row: &Row| figure(row).map(|value| format!("{value:.2}"))),
    };
    let latency = |heading: String, figure: Box<dyn Fn(&Row) -> f64>| Column {
        heading: format!("{heading} Latency"),
        width: 15,
        cell: Box::new(move |row: &Row| (!row.is_empty()).then(|| format!("{:.5}", figure(row)))),
    };
    let mut columns = vec![
        rate("Ops/sec", 11, |row| Some(row.ops)),
        rate("Hits/sec", 12, |row| reads(row).then_some(row.hits)),
        rate("Misses/sec", 12, |row| reads(row).then_some(row.misses)),
    ];
    if options.cluster {
        columns.push(rate("MOVED/sec", 12, |row| Some(row.moved)));
        columns.push(rate("ASK/sec", 12, |row| Some(row.ask)));
    }
    columns.push(latency("Avg.".into(), Box::new(Row::average)));
    for &percentile in &options.output.percentiles {
        let heading = format!("p{}", percentile_text(percentile));
        columns.push(latency(heading, Box::new(move |row| row.percentile(percentile))));
    }
    columns.push(rate("KB/sec", 12, |row| (row.name != "Waits").then(|| row.kb())));
    columns
}

/// Whether hits and misses mean anything for these requests.
fn reads(row: &Row) -> bool {
    matches!(&*row.name, "Gets" | "Totals") || row.hits + row.misses > 0.0
}

/// 50, 99.9, 99.950: memtier's headings.
fn percentile_text(percentile: f64) -> String {
    let decimals = [0, 1].into_iter().find(|&decimals| {
        let scaled = percentile * 10_f64.powi(decimals);
        (scaled - scaled.round()).abs() < 1e-9
    });
    format!("{percentile:.*}", decimals.unwrap_or(3) as usize)
}

fn distribution(summary: &Summary) -> String {
    let mut text = String::from("Request Latency Distribution\nType     <= msec         Percent\n");
    let _ = writeln!(text, "{}", "-".repeat(72));
    for row in summary.rows.iter().filter(|row| !row.is_empty()) {
        for (latency, percent) in cumulative(&row.latencies) {
            let _ = writeln!(text, "{:<6} {latency:>8.3} {percent:>12.3}", command_name(&row.name));
        }
        text.push_str("---\n");
    }
    text.push_str("\n\n");
    text
}

/// Latencies in milliseconds, and the percentage of requests that took no longer.
pub(super) fn cumulative(latencies: &Latencies) -> Vec<(f64, f64)> {
    let steps = latencies.iter_quantiles(TICKS_PER_HALF);
    steps
        .map(|step| (step.value_iterated_to() as f64 / 1000.0, step.quantile_iterated_to() * 100.0))
        .collect()
}

/// `SET` of the heading `Sets`.
pub(crate) fn command_name(heading: &str) -> String {
    heading.strip_suffix('s').unwrap_or(heading).to_uppercase()
}

/// Our own lines: what the server and the generator used.
pub(super) fn usage(outcome: &Outcome, requests: f64) -> String {
    let mut text = String::new();
    if let Some(server) = &outcome.server {
        let modes = divided(server, requests).map_or_else(String::new, |(user, system)| {
            format!("user {user:.3}, system {system:.3}; ")
        });
        let _ = writeln!(
            text,
            "Server CPU      {:.3} us per request ({modes}pid {})",
            us_per_request(server.user + server.system, requests),
            server.pid,
        );
        let _ = writeln!(text, "Server RSS      {}", bytes(server.rss as f64));
    }
    let generator = &outcome.generator;
    let _ = writeln!(
        text,
        "Generator CPU   {:.3} us per request (busiest thread {:.0}% busy)",
        us_per_request(generator.cpu, requests),
        generator.busiest_thread * 100.0,
    );
    text
}

/// A number of bytes with two decimals of the largest unit that fits, as memtier writes it.
pub(crate) fn bytes(count: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1_073_741_824.0, "GB"), (1_048_576.0, "MB"), (1024.0, "KB")];
    match UNITS.iter().find(|(size, _)| count >= *size) {
        Some((size, unit)) => format!("{:.2}{unit}", count / size),
        None => format!("{count:.0}B"),
    }
}
