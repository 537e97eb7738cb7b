//! What a reader must know before believing the figures of a run.
//! Invariant: a run in which the generator was the limit, or which lost requests, says so.

use crate::options::Options;
use crate::outcome::Outcome;

/// Above this share of its time a generator thread is the limit, not the server.
const BUSY_LIMIT: f64 = 0.9;

/// One sentence for each thing that went wrong in the run.
pub(super) fn of_run(options: &Options, outcome: &Outcome) -> Vec<String> {
    let mut warnings = Vec::new();
    let busy = outcome.generator.busiest_thread;
    if busy > BUSY_LIMIT {
        warnings.push(format!(
            "the generator was the limit: its busiest thread had work for {:.0}% of the time \
             (more threads, or a machine of its own, would tell what the server can do)",
            busy * 100.0,
        ));
    }
    if options.open_loop.is_some() && outcome.late > 0 {
        warnings.push(format!(
            "{} sent late: no connection was free at their time (their latency counts from then)",
            plural(outcome.late, "request was", "requests were"),
        ));
    }
    let errors: u64 = outcome.commands.iter().map(|command| command.errors).sum();
    let counts = [
        (errors, "error reply came", "error replies came"),
        (outcome.connection_errors, "connection was lost", "connections were lost"),
        (outcome.verify_errors, "value was not what was written", "values were not as written"),
    ];
    let failed = counts.into_iter().filter(|(count, ..)| *count > 0);
    warnings.extend(failed.map(|(count, one, many)| plural(count, one, many)));
    warnings
}

/// The warnings of all runs, each naming its run where there are several.
pub(crate) fn of_runs(options: &Options, outcomes: &[Outcome]) -> Vec<String> {
    let runs = outcomes.iter().enumerate();
    runs.flat_map(|(index, outcome)| {
        let prefix =
            if outcomes.len() > 1 { format!("run {}: ", index + 1) } else { String::new() };
        let warnings = of_run(options, outcome);
        warnings.into_iter().map(move |warning| format!("{prefix}{warning}"))
    })
    .collect()
}

fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
