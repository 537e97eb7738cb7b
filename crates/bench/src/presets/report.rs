//! What a preset has measured: a table, JSON and one page of charts. Invariant: all three are
//! drawn from the same rows.

use std::fmt::Write;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::{Series, StepResult};
use crate::report::chart::{Axis, Bars, Line, Scale, bars, escape, lines};
use crate::report::html::{date, generator, shell};
use crate::report::summary::Row;
use crate::report::table::{bytes, command_name};
use crate::usage::machine;

const HEADS: [&str; 13] = [
    "Step",
    "Type",
    "Ops/s",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "Max ms",
    "Bytes/op",
    "Server us/op",
    "Server CPU %",
    "Server RSS",
    "Client us/op",
    "Client busy %",
];

/// A figure that has a chart: its title, its axis, and where it is found.
struct Figure {
    title: &'static str,
    axis: &'static str,
    of: Take,
}

enum Take {
    /// Of each kind of request.
    Kind(fn(&Row) -> f64),
    /// Of the whole step.
    Step(fn(&StepResult) -> f64),
}

const FIGURES: &[Figure] = &[
    Figure { title: "Throughput", axis: "requests/s", of: Take::Kind(|row| row.ops) },
    Figure { title: "p50", axis: "latency, ms", of: Take::Kind(|row| row.percentile(50.0)) },
    Figure { title: "p99", axis: "latency, ms", of: Take::Kind(|row| row.percentile(99.0)) },
    Figure { title: "p99.9", axis: "latency, ms", of: Take::Kind(|row| row.percentile(99.9)) },
    Figure {
        title: "Server CPU per request",
        axis: "us",
        of: Take::Step(|one| one.server.as_ref().map_or(f64::NAN, |used| used.us_per_request)),
    },
    Figure {
        title: "Server RSS",
        axis: "MB",
        of: Take::Step(|one| {
            one.server.as_ref().map_or(f64::NAN, |used| used.rss as f64 / 1_048_576.0)
        }),
    },
];

/// The table, then notes and warnings.
pub(super) fn text(series: &Series) -> String {
    let table: Vec<Vec<String>> =
        [HEADS.map(str::to_owned).to_vec()].into_iter().chain(cells(series)).collect();
    let width =
        |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    let mut text = format!("{}: {}\n\n", series.preset.name, series.preset.about);
    for row in &table {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 | 1 => write!(text, "{cell:<width$}  "),
                _ => write!(text, "{cell:>width$}  "),
            };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text.push('\n');
    for note in &series.notes {
        let _ = writeln!(text, "{note}");
    }
    let _ = writeln!(text, "{}", facts(series));
    for warning in warnings(series) {
        let _ = writeln!(text, "WARNING: {warning}");
    }
    text
}

/// Everything, for other programs.
pub(super) fn json(series: &Series) -> String {
    let steps: Vec<Value> = series.measured.iter().map(step).collect();
    let document = json!({
        "preset": series.preset.name,
        "about": series.preset.about,
        "words": series.words.rest,
        "scale": series.words.scale,
        "machine": machine(),
        "notes": series.notes,
        "steps": steps,
    });
    format!("{document:#}\n")
}

/// One self-contained page.
pub(super) fn page(series: &Series) -> String {
    let mut body = format!(
        "<p class=\"about\">{}<br>\n{}</p>\n",
        escape(series.preset.about),
        escape(&facts(series)),
    );
    for note in &series.notes {
        let _ = writeln!(body, "<p>{}</p>", escape(note));
    }
    let warned: Vec<String> = warnings(series).map(|warning| escape(&warning)).collect();
    if !warned.is_empty() {
        let _ = writeln!(body, "<p class=\"warning\">{}</p>", warned.join("<br>\n"));
    }
    body.push_str(&charts(series));
    body.push_str("<h2>All steps</h2>\n<div class=\"scroll\"><table>\n");
    body.push_str(&table_row("th", &HEADS.map(str::to_owned)));
    for cells in cells(series) {
        body.push_str(&table_row("td", &cells));
    }
    body.push_str("</table></div>\n");
    shell(&format!("apus bench: {}", series.preset.name), &body)
}

/// Which servers, what made the load, and where.
fn facts(series: &Series) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in series.measured.iter().filter_map(|one| one.server_name.as_deref()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let servers = if names.is_empty() { "an unknown server".into() } else { names.join(", ") };
    format!("{servers}; {}; {}", date(SystemTime::now()), generator())
}

fn table_row(tag: &str, cells: &[String]) -> String {
    let cells: String =
        cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
    format!("<tr>{cells}</tr>\n")
}

fn cells(series: &Series) -> impl Iterator<Item = Vec<String>> {
    series.measured.iter().flat_map(|one| {
        one.rows.iter().enumerate().map(move |(index, row)| {
            let mut cells = vec![
                one.step.name.clone(),
                kind(row),
                format!("{:.0}", row.ops),
                format!("{:.3}", row.percentile(50.0)),
                format!("{:.3}", row.percentile(99.0)),
                format!("{:.3}", row.percentile(99.9)),
                format!("{:.3}", row.percentile(100.0)),
                format!("{:.1}", bytes_per_request(row)),
            ];
            // What is known of all kinds together stands beside the last of them.
            if index + 1 == one.rows.len() {
                cells.extend(match &one.server {
                    Some(server) => [
                        format!("{:.3}", server.us_per_request),
                        format!("{:.1}", server.percent),
                        bytes(server.rss as f64),
                    ],
                    None => ["-", "-", "-"].map(str::to_owned),
                });
                cells.push(format!("{:.3}", one.generator_us));
                cells.push(format!("{:.0}", one.busiest_thread * 100.0));
            }
            cells.resize(HEADS.len(), String::new());
            cells
        })
    })
}

/// The kind as commands are written: `SET`.
fn kind(row: &Row) -> String {
    command_name(&row.name)
}

fn bytes_per_request(row: &Row) -> f64 {
    if row.ops > 0.0 { row.kb() * 1024.0 / row.ops } else { 0.0 }
}

fn step(one: &StepResult) -> Value {
    let rows: Vec<Value> = one
        .rows
        .iter()
        .map(|row| {
            json!({
                "type": kind(row),
                "requests": row.count,
                "requests_per_second": row.ops,
                "hits_per_second": row.hits,
                "misses_per_second": row.misses,
                "mean_ms": row.average(),
                "p50_ms": row.percentile(50.0),
                "p99_ms": row.percentile(99.0),
                "p99.9_ms": row.percentile(99.9),
                "max_ms": row.percentile(100.0),
                "bytes_per_request": bytes_per_request(row),
            })
        })
        .collect();
    let server = one.server.as_ref().map(|server| {
        json!({
            "cpu_us_per_request": server.us_per_request,
            "cpu_percent": server.percent,
            "rss_bytes": server.rss,
        })
    });
    json!({
        "step": one.step.name,
        "server_name": one.server_name,
        "is_clean": one.is_clean,
        "seconds": one.seconds,
        "types": rows,
        "server": server,
        "generator": {
            "cpu_us_per_request": one.generator_us,
            "busiest_thread": one.busiest_thread,
        },
        "late_requests": one.late,
        "warnings": one.warnings,
    })
}

fn warnings(series: &Series) -> impl Iterator<Item = String> {
    let all = series.measured.iter();
    all.flat_map(|one| one.warnings.iter().map(|text| format!("{}: {text}", one.step.name)))
}

fn charts(series: &Series) -> String {
    let mut groups: Vec<&str> = Vec::new();
    for one in &series.measured {
        if !groups.contains(&&*one.step.group) {
            groups.push(&one.step.group);
        }
    }
    let mut text = String::new();
    for group in groups {
        if !group.is_empty() {
            let _ = writeln!(text, "<h2>{}</h2>", escape(group));
        }
        let steps = series.measured.iter().filter(|one| one.step.group == *group);
        let steps: Vec<&StepResult> = steps.collect();
        text.push_str("<div class=\"charts\">\n");
        for figure in FIGURES {
            text.push_str(&chart(figure, series.preset.axis, &steps));
        }
        text.push_str("</div>\n");
    }
    text
}

fn chart(figure: &Figure, axis: Option<&str>, steps: &[&StepResult]) -> String {
    let up = Axis { label: figure.axis, scale: Scale::Linear };
    let names: Vec<String> = steps.iter().map(|one| one.step.name.clone()).collect();
    let Some(axis) = axis else {
        let series = drawn(figure, steps).into_iter().map(|line| Bars {
            name: line.name,
            values: (0..steps.len())
                .map(|step| {
                    let point = line.points.iter().find(|point| point.0 == step);
                    point.map_or(f64::NAN, |point| point.1)
                })
                .collect(),
        });
        return bars(figure.title, up, &names, &series.collect::<Vec<_>>());
    };
    let series = drawn(figure, steps).into_iter().map(|line| Line {
        name: line.name,
        points: line.points.iter().map(|point| (steps[point.0].step.place, point.1)).collect(),
    });
    let series: Vec<Line> = series.collect();
    let points = || series.iter().flat_map(|line| &line.points);
    let across = Axis { label: axis, scale: fitting(points().map(|point| point.0)) };
    let up = Axis { scale: fitting(points().map(|point| point.1)), ..up };
    lines(figure.title, across, up, &series)
}

/// What spans decades is laid out by decades.
fn fitting(values: impl Iterator<Item = f64>) -> Scale {
    let (least, most) = values
        .filter(|value| value.is_finite() && *value > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
    if most > 100.0 * least { Scale::Logarithmic } else { Scale::Linear }
}

/// A line before it has an axis: indices of steps and values.
struct Drawn {
    name: String,
    points: Vec<(usize, f64)>,
}

fn drawn(figure: &Figure, steps: &[&StepResult]) -> Vec<Drawn> {
    let mut all: Vec<Drawn> = Vec::new();
    let mut add =
        |name: String, point: (usize, f64)| match all.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => all.push(Drawn { name, points: vec![point] }),
        };
    for (index, one) in steps.iter().enumerate() {
        match figure.of {
            Take::Step(of) => add(one.step.series.clone(), (index, of(one))),
            Take::Kind(of) => {
                for row in &one.rows {
                    // A line of a series says which; one of a kind says what.
                    let name = match one.step.series.is_empty() {
                        true => kind(row),
                        false => one.step.series.clone(),
                    };
                    add(name, (index, of(row)));
                }
            }
        }
    }
    all
}
