//! What runs have measured, for people and for scripts: memtier_benchmark's text, JSON and files,
//! and a page of plots. Invariant: every form shows the same figures (`summary`), and the
//! warnings with them.

pub mod chart;
mod configuration;
mod document;
pub(crate) mod files;
pub mod html;
mod json;
pub mod progress;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod warnings;

use std::io::Write;

use crate::options::Options;
use crate::outcome::Outcome;
use document::Section;
use summary::Summary;

/// Publishes runs as the options ask: the text to `-o` or the standard output, and each file.
///
/// # Errors
/// What could not be written, in a line for the operator.
pub fn publish(options: &Options, outcomes: &[Outcome]) -> Result<(), String> {
    let summaries: Vec<Summary> =
        outcomes.iter().map(|outcome| Summary::new(options, outcome)).collect();
    let average = Summary::average(&summaries);
    let sections = sections(options, outcomes, &summaries, average.as_ref());
    let text = text(options, outcomes, &summaries, &sections);
    match &options.output.file {
        Some(path) => files::write(path, &text)?,
        None => std::io::stdout()
            .write_all(text.as_bytes())
            .map_err(|error| format!("cannot write the report: {error}"))?,
    }
    for (index, (outcome, summary)) in outcomes.iter().zip(&summaries).enumerate() {
        files::write_run(options, outcome, summary, index + 1)?;
    }
    if let Some(path) = &options.output.json {
        let document = document::document(options, outcomes, &sections, &summaries);
        files::write(path, &format!("{document}\n"))?;
    }
    if let Some(path) = &options.output.html {
        files::write(path, &html::page(options, outcomes))?;
    }
    Ok(())
}

/// The results that are shown, in memtier's order: one run, or the best, the worst and the mean.
fn sections<'a>(
    options: &Options,
    outcomes: &'a [Outcome],
    summaries: &'a [Summary],
    average: Option<&'a Summary>,
) -> Vec<Section<'a>> {
    let section = |title: String, index: usize| Section {
        title,
        summary: &summaries[index],
        outcome: Some(&outcomes[index]),
        connection_errors: outcomes[index].connection_errors,
    };
    let by_rate = |left: &usize, right: &usize| {
        summaries[*left].totals.ops.total_cmp(&summaries[*right].totals.ops)
    };
    let (Some(worst), Some(best), Some(average)) =
        ((0..summaries.len()).min_by(by_rate), (0..summaries.len()).max_by(by_rate), average)
    else {
        return Vec::new();
    };
    if summaries.len() == 1 {
        return vec![section("ALL STATS".into(), 0)];
    }
    let mut sections = Vec::new();
    if options.output.all_runs {
        let runs = 0..summaries.len();
        sections.extend(runs.map(|run| section(format!("RUN #{} RESULTS", run + 1), run)));
    }
    sections.push(section("BEST RUN RESULTS".into(), best));
    sections.push(section("WORST RUN RESULTS".into(), worst));
    sections.push(Section {
        title: format!("AGGREGATED AVERAGE RESULTS ({} runs)", summaries.len()),
        summary: average,
        outcome: None,
        connection_errors: outcomes.iter().map(|outcome| outcome.connection_errors).sum(),
    });
    sections
}

fn text(
    options: &Options,
    outcomes: &[Outcome],
    summaries: &[Summary],
    sections: &[Section<'_>],
) -> String {
    let mut text = String::new();
    if options.output.show_config {
        text.push_str("============== Configuration values: ==============\n");
        for (name, value) in configuration::values(options) {
            text.push_str(&format!("{name} = {value}\n"));
        }
        text.push_str("===================================================\n");
    }
    text.push_str(&table::header(options));
    for section in sections {
        text.push_str(&table::results(&section.title, options, section.summary));
    }
    for (index, (outcome, summary)) in outcomes.iter().zip(summaries).enumerate() {
        if outcomes.len() > 1 {
            text.push_str(&format!("RUN #{}\n", index + 1));
        }
        text.push_str(&table::usage(outcome, summary.totals.count));
    }
    for warning in warnings::of_runs(options, outcomes) {
        text.push_str(&format!("WARNING: {warning}\n"));
    }
    text
}

#[cfg(test)]
pub(crate) mod tests;
