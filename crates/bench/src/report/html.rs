//! `--html-out-file`: runs as one page with plots, to be read anywhere and passed on as one file.
//! Invariant: the page loads nothing, and every text from outside is escaped.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

use base::time::civil_date;

use super::chart::{self, Axis, Bars, Line, Scale, bars, escape, lines, short_number};
use super::configuration;
use super::json::Json;
use super::summary::{
    Row, Summary, commands, divided, milliseconds, per_second, second_count, total_second,
    us_per_request,
};
use super::table::bytes;
use super::warnings;
use crate::options::Options;
use crate::outcome::{CommandOutcome, Outcome, ServerUsage};
use crate::usage;

const STYLE: &str = include_str!("html.css");

/// A last second shorter than this tells nothing about rates.
const SHORTEST_SECOND: f64 = 0.1;

/// The page about these runs; its plots show the best of them.
#[must_use]
pub fn page(options: &Options, outcomes: &[Outcome]) -> String {
    let summaries: Vec<Summary> =
        outcomes.iter().map(|outcome| Summary::new(options, outcome)).collect();
    let best = (0..summaries.len())
        .max_by(|left, right| summaries[*left].totals.ops.total_cmp(&summaries[*right].totals.ops));
    let mut body = String::new();
    match best {
        None => body.push_str("<p>There was no run.</p>\n"),
        Some(best) => {
            let (outcome, summary) = (&outcomes[best], &summaries[best]);
            body.push_str(&about(options, outcome));
            body.push_str(&cards(outcome, summary));
            for warning in warnings::of_runs(options, outcomes) {
                let _ =
                    writeln!(body, "<p class=\"warning\"><b>Warning:</b> {}</p>", escape(&warning));
            }
            if outcomes.len() > 1 {
                let _ = writeln!(body, "<h2>Run {}, the best of {}</h2>", best + 1, outcomes.len());
            } else {
                body.push_str("<h2>Over the run</h2>\n");
            }
            body.push_str(&plots(options, outcome, summary));
            body.push_str(&tables(options, &summaries));
            body.push_str(&costs(outcomes, &summaries));
        }
    }
    body.push_str(&settings(options));
    shell("apus bench", &body)
}

/// A whole page around a body: the frame, the style sheets, nothing from elsewhere.
#[must_use]
pub fn shell(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{}{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n{body}</body>\n</html>\n",
        chart::STYLE
    )
}

fn about(options: &Options, outcome: &Outcome) -> String {
    let server = match &options.unix_socket {
        Some(path) => path.display().to_string(),
        None => format!("{}:{}", options.server, options.port),
    };
    let name = outcome.server_name.as_deref().unwrap_or("an unknown server");
    let mut text = format!(
        "{} at {} &middot; {} &middot; {:.1} s &middot; {} of {} &middot; pipeline {}",
        escape(name),
        escape(&server),
        date(outcome.started),
        outcome.elapsed.as_secs_f64(),
        counted(options.threads, "thread"),
        counted(options.clients, "connection"),
        options.pipeline,
    );
    if let Some(rate) = options.open_loop {
        let _ = write!(text, " &middot; open loop at {} requests/s", short_number(rate));
    }
    format!("<p class=\"about\">{text}<br>\n{}</p>\n", escape(&generator()))
}

/// What made the load, and where.
pub(crate) fn generator() -> String {
    format!("apus bench {} on {}", env!("CARGO_PKG_VERSION"), usage::machine())
}

fn counted(count: u32, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Date and time of day in UTC, to the minute.
pub(crate) fn date(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = civil_date((since / 86_400) as i64);
    let minute = since % 86_400 / 60;
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minute / 60, minute % 60)
}

fn cards(outcome: &Outcome, summary: &Summary) -> String {
    let totals = &summary.totals;
    let latency = |percentile: f64| format!("{} ms", short_number(totals.percentile(percentile)));
    let mut cards = vec![
        (short_number(totals.ops), "requests per second"),
        (latency(50.0), "p50 latency"),
        (latency(99.0), "p99 latency"),
        (latency(99.9), "p99.9 latency"),
    ];
    if let Some(server) = &outcome.server {
        let cpu = us_per_request(server.user + server.system, totals.count);
        cards.push((format!("{cpu:.2} us"), "server CPU per request"));
        if let Some((_, system)) = divided(server, totals.count) {
            cards.push((format!("{system:.2} us"), "of it in the kernel"));
        }
        cards.push((bytes(server.rss as f64), "server RSS at the end"));
    }
    let cpu = us_per_request(outcome.generator.cpu, totals.count);
    cards.push((format!("{cpu:.2} us"), "generator CPU per request"));
    let cards: String = cards
        .iter()
        .map(|(value, name)| format!("<div class=\"card\"><b>{value}</b><span>{name}</span></div>"))
        .collect();
    format!("<div class=\"cards\">{cards}</div>\n")
}

fn plots(options: &Options, outcome: &Outcome, summary: &Summary) -> String {
    let commands = commands(options, &outcome.commands);
    let used: Vec<_> =
        commands.into_iter().filter(|command| !command.latencies.is_empty()).collect();
    let seconds = Axis { label: "time, seconds", scale: Scale::Linear };
    let latency = Axis { label: "latency, ms", scale: Scale::Logarithmic };
    let rate = Axis { label: "requests/s", scale: Scale::Linear };
    let share = Axis { label: "share of requests that took no longer", scale: Scale::Nines };
    let spectrum: Vec<Line> =
        summary.rows.iter().filter(|row| !row.is_empty()).map(spectrum).collect();
    format!(
        "<div class=\"charts\">\n{}{}{}{}</div>\n",
        lines("Throughput over time", seconds, rate, &throughput(outcome, &used)),
        lines("Latency over time", seconds, latency, &latency_over_time(outcome, &used)),
        lines("Latency by percentile", share, latency, &spectrum),
        percentile_bars(options, summary),
    )
}

/// The seconds of a run: index, middle and length of each that is long enough to show.
fn seconds(outcome: &Outcome, count: usize) -> impl Iterator<Item = (usize, f64, f64)> {
    let elapsed = outcome.elapsed.as_secs_f64();
    (0..count).filter_map(move |index| {
        let length = (elapsed - index as f64).min(1.0);
        (length >= SHORTEST_SECOND).then_some((index, index as f64 + length / 2.0, length))
    })
}

fn throughput(outcome: &Outcome, used: &[Cow<'_, CommandOutcome>]) -> Vec<Line> {
    let count = second_count(used);
    let line = |name: &str, counts: &dyn Fn(usize) -> u64| Line {
        name: name.to_owned(),
        points: seconds(outcome, count)
            .map(|(index, middle, length)| (middle, per_second(counts(index) as f64, length)))
            .collect(),
    };
    let of = |command: &CommandOutcome, index: usize| {
        command.seconds.get(index).map_or(0, |second| second.latencies.len())
    };
    let mut shown: Vec<Line> =
        used.iter().map(|command| line(&command.name, &|index| of(command, index))).collect();
    if used.len() > 1 {
        let all = |index| used.iter().map(|command| of(command, index)).sum();
        shown.push(line("Totals", &all));
    }
    shown
}

fn latency_over_time(outcome: &Outcome, used: &[Cow<'_, CommandOutcome>]) -> Vec<Line> {
    let wanted = [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9), ("max", 100.0)];
    let mut shown = wanted.map(|(name, _)| Line { name: name.into(), points: Vec::new() });
    for (index, middle, _) in seconds(outcome, second_count(used)) {
        let second = total_second(used, index);
        for (line, (_, percentile)) in shown.iter_mut().zip(wanted) {
            // A second without a reply has no latency: a gap.
            let value = match second.latencies.is_empty() {
                true => f64::NAN,
                false => milliseconds(&second.latencies, percentile),
            };
            line.points.push((middle, value));
        }
    }
    shown.into()
}

fn spectrum(row: &Row) -> Line {
    // The largest of n values lies at n/(n+1): at 1 it would be infinitely far to the right.
    let last = 1.0 - 1.0 / (row.latencies.len() as f64 + 1.0);
    let points = row.latencies.iter_quantiles(20).map(|step| {
        (step.quantile_iterated_to().min(last), step.value_iterated_to() as f64 / 1000.0)
    });
    Line { name: row.name.clone(), points: points.collect() }
}

fn percentile_bars(options: &Options, summary: &Summary) -> String {
    let wanted = &options.output.percentiles;
    let groups: Vec<String> = wanted.iter().map(|percentile| format!("p{percentile}")).collect();
    let series: Vec<Bars> = summary
        .rows
        .iter()
        .filter(|row| !row.is_empty())
        .map(|row| Bars {
            name: row.name.clone(),
            values: wanted.iter().map(|percentile| row.percentile(*percentile)).collect(),
        })
        .collect();
    let latency = Axis { label: "latency, ms", scale: Scale::Linear };
    bars("Latency at the percentiles", latency, &groups, &series)
}

fn tables(options: &Options, summaries: &[Summary]) -> String {
    let mut text = String::new();
    for (index, summary) in summaries.iter().enumerate() {
        let title =
            if summaries.len() > 1 { format!("Run {}", index + 1) } else { "Summary".into() };
        let _ = writeln!(text, "<h2>{title}</h2>\n{}", table(options, summary));
    }
    if let (true, Some(average)) = (summaries.len() > 1, Summary::average(summaries)) {
        let _ = writeln!(text, "<h2>Average</h2>\n{}", table(options, &average));
    }
    text
}

/// The runs side by side; of a single one the cards tell it.
fn costs(outcomes: &[Outcome], summaries: &[Summary]) -> String {
    if outcomes.len() < 2 {
        return String::new();
    }
    let titles: Vec<String> = (1..=outcomes.len()).map(|run| format!("run {run}")).collect();
    let axis = |label| Axis { label, scale: Scale::Linear };
    let rates = [Bars {
        name: String::new(),
        values: summaries.iter().map(|summary| summary.totals.ops).collect(),
    }];
    let resident = [Bars {
        name: String::new(),
        values: outcomes
            .iter()
            .map(|outcome| {
                outcome.server.as_ref().map_or(f64::NAN, |server| server.rss as f64 / 1_048_576.0)
            })
            .collect(),
    }];
    format!(
        "<h2>The runs side by side</h2>\n<div class=\"charts\">\n{}{}{}</div>\n",
        bars("Throughput", axis("requests/s"), &titles, &rates),
        bars(
            "CPU time per request",
            axis("us per request"),
            &titles,
            &cpu_bars(outcomes, summaries)
        ),
        bars("Server RSS at the end", axis("MB"), &titles, &resident),
    )
}

fn cpu_bars(outcomes: &[Outcome], summaries: &[Summary]) -> Vec<Bars> {
    let runs = || outcomes.iter().zip(summaries);
    let server = |name: &str, take: fn(&ServerUsage) -> Duration| Bars {
        name: name.into(),
        values: runs()
            .map(|(outcome, summary)| {
                let server = outcome.server.as_ref();
                server.map_or(f64::NAN, |used| us_per_request(take(used), summary.totals.count))
            })
            .collect(),
    };
    let generator = Bars {
        name: "generator".into(),
        values: runs()
            .map(|(outcome, summary)| us_per_request(outcome.generator.cpu, summary.totals.count))
            .collect(),
    };
    let known =
        || runs().filter_map(|(outcome, summary)| outcome.server.as_ref().zip(Some(summary)));
    if known().next().is_none() {
        return vec![generator];
    }
    if known().all(|(used, summary)| divided(used, summary.totals.count).is_some()) {
        let user = server("server, user", |used| used.user);
        return vec![user, server("server, system", |used| used.system), generator];
    }
    vec![server("server", |used| used.user + used.system), generator]
}

fn table(options: &Options, summary: &Summary) -> String {
    let wanted = &options.output.percentiles;
    let mut heads: Vec<String> =
        ["", "Requests", "Ops/s", "Hits/s", "Misses/s"].map(str::to_owned).into();
    if options.cluster {
        heads.extend(["MOVED/s", "ASK/s"].map(str::to_owned));
    }
    heads.push("Mean, ms".into());
    heads.extend(wanted.iter().map(|percentile| format!("p{percentile}, ms")));
    heads.extend(["Max, ms", "KB/s"].map(str::to_owned));
    let cells = |row: &Row| {
        let mut cells = vec![escape(&row.name), format!("{:.0}", row.count)];
        cells.push(format!("{:.1}", row.ops));
        let reads = row.hits + row.misses > 0.0;
        let hit_rate = |rate: f64| if reads { format!("{rate:.1}") } else { "-".into() };
        cells.extend([row.hits, row.misses].map(hit_rate));
        if options.cluster {
            cells.extend([row.moved, row.ask].map(|rate| format!("{rate:.1}")));
        }
        cells.push(format!("{:.3}", row.average()));
        cells.extend(wanted.iter().map(|wanted| format!("{:.3}", row.percentile(*wanted))));
        cells.push(format!("{:.3}", row.percentile(100.0)));
        cells.push(format!("{:.1}", row.kb()));
        cells.iter().map(|cell| format!("<td>{cell}</td>")).collect::<String>()
    };
    let heads: String = heads.iter().map(|head| format!("<th>{head}</th>")).collect();
    let rows: String = summary
        .rows
        .iter()
        .filter(|row| !row.is_empty())
        .map(|row| format!("<tr>{}</tr>\n", cells(row)))
        .collect();
    format!(
        "<div class=\"scroll\"><table>\n<tr>{heads}</tr>\n{rows}<tr class=\"totals\">{}</tr>\n\
         </table></div>",
        cells(&summary.totals)
    )
}

fn settings(options: &Options) -> String {
    let pairs: String = configuration::values(options)
        .iter()
        .filter(|(_, value)| !matches!(value, Json::Null))
        .map(|(name, value)| {
            let value = match value {
                Json::Text(text) => text.clone(),
                other => other.to_string(),
            };
            format!("<div><span>{}</span><span>{}</span></div>\n", escape(name), escape(&value))
        })
        .collect();
    format!("<h2>Configuration</h2>\n<div class=\"pairs\">\n{pairs}</div>\n")
}
