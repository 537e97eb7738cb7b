//! What a reader must know before believing the figures of a run.
//! Invariant: a run in which the generator was the limit, or which lost requests, says so.

use super::summary::per_second;
use crate::options::Options;
use crate::outcome::{LATENCY_MAX_US, Outcome};

/// Above this share of its time a generator thread is the limit, not the server.
const BUSY_LIMIT: f64 = 0.9;

/// Above this share of its time without a core a thread's latencies are its own.
const STARVED_LIMIT: f64 = 0.1;

/// A run of at least so many seconds is held to its rate, and to so much of it.
const SHORTEST_RATED: f64 = 1.0;
const RATE_TOLERANCE: f64 = 0.95;

/// One sentence for each thing that went wrong in the run.
pub(crate) fn of_run(options: &Options, outcome: &Outcome) -> Vec<String> {
    let mut warnings = Vec::new();
    let busy = outcome.generator.busiest_thread;
    if busy > BUSY_LIMIT {
        warnings.push(format!(
            "the generator was the limit: its busiest thread had work for {:.0}% of the time \
             (more threads, or a machine of its own, would tell what the server can do)",
            busy * 100.0,
        ));
    }
    let starved = outcome.generator.starved_thread;
    if starved > STARVED_LIMIT {
        warnings.push(format!(
            "the generator was starved: one of its threads waited for a core for {:.0}% of the \
             time (latencies hold that wait; leave it a core of its own)",
            starved * 100.0,
        ));
    }
    if let Some(warning) = missed_rate(options, outcome) {
        warnings.push(warning);
    }
    if options.open_loop.is_some() && outcome.late > 0 {
        warnings.push(format!(
            "{} sent late: no connection was free at their time (their latency counts from then)",
            plural(outcome.late, "request was", "requests were"),
        ));
    }
    for command in outcome.commands.iter().filter(|command| command.errors > 0) {
        warnings.push(format!(
            "{} of {}, the first: {}",
            plural(command.errors, "error reply", "error replies"),
            command.name,
            command.first_error.as_deref().unwrap_or("(no text)"),
        ));
    }
    let unanswered = outcome.unanswered();
    let counts = [
        (outcome.unsent, "request was due and never sent", "requests were due and never sent"),
        (unanswered - outcome.unsent, "request got no reply", "requests got no reply"),
        (outcome.connection_errors, "connection was lost", "connections were lost"),
        (outcome.refused, "attempt to connect failed", "attempts to connect failed"),
        (outcome.verify_errors, "value was not what was written", "values were not as written"),
    ];
    let failed = counts.into_iter().filter(|(count, ..)| *count > 0);
    warnings.extend(failed.map(|(count, one, many)| plural(count, one, many)));
    let longest = outcome.commands.iter().flat_map(|it| [&it.latencies, &it.unanswered]);
    let clipped: u64 = longest.map(|latencies| latencies.count_at(LATENCY_MAX_US)).sum();
    if clipped > 0 {
        warnings.push(format!(
            "{} an hour or longer and counted as an hour",
            plural(clipped, "latency was", "latencies were"),
        ));
    }
    if outcome.interrupted {
        warnings.push("the run was interrupted before its end".to_owned());
    }
    warnings
}

/// What `--rate-limiting` asked for, where the run fell short of it.
fn missed_rate(options: &Options, outcome: &Outcome) -> Option<String> {
    let connections = u64::from(options.threads) * u64::from(options.clients);
    let wanted = options.rate_limit?.saturating_mul(connections) as f64;
    let seconds = outcome.elapsed.as_secs_f64();
    let replies: u64 = outcome.commands.iter().map(|command| command.latencies.len()).sum();
    let rate = per_second(replies as f64, seconds);
    (seconds >= SHORTEST_RATED && rate < RATE_TOLERANCE * wanted).then(|| {
        format!("the rate asked for was missed: {rate:.0} of {wanted:.0} requests per second")
    })
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
