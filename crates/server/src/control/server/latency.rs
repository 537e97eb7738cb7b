//! LATENCY: what was slow, and how long each command takes.
//!
//! Invariant: the command reads the monitor and the statistics; only RESET changes anything.

use base::quote::shown;
use commands::declare::{Command, Flags, Group, Spec, at_least, exactly};
use commands::errors::showing;
use config::settings::LATENCY_TRACKING;
use engine::observe::stats::{CallStats, bucket_limit};
use engine::table::command_table::CommandEntry;
use keyspace::Refusal;
use proto::{Args, Reply};

use super::latency_report::{doctor_report, graph_report};
use crate::control::context::{Context, ControlCommand, ControlOutcome, by_size};
use crate::control::help::{self, container};
use crate::server::Server;

pub(super) const LATENCY: ControlCommand = Command {
    spec: Spec {
        name: "LATENCY",
        since: "2.8.13",
        group: Group::Server,
        summary: "A container for latency diagnostics commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        ..Spec::BASE
    },
    subcommands: &[RESET, DOCTOR, GRAPH, HELP, HISTORY, HISTOGRAM, LATEST],
    run: container,
};

const ADMIN: Spec = Spec {
    since: "2.8.13",
    group: Group::Server,
    complexity: "O(1)",
    flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::LOADING).and(Flags::STALE),
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    ..Spec::BASE
};

const DOCTOR: ControlCommand = Command {
    spec: Spec {
        name: "DOCTOR",
        summary: "Returns a human-readable latency analysis report.",
        arity: exactly(2),
        flags: ADMIN.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..ADMIN
    },
    subcommands: &[],
    run: doctor,
};

fn doctor(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    reply.verbatim(b"txt", doctor_report(context.server).as_bytes());
    Ok(ControlOutcome::Done)
}

const GRAPH: ControlCommand = Command {
    spec: Spec {
        name: "GRAPH",
        syntax: "event",
        summary: "Returns a latency graph for an event.",
        arity: exactly(3),
        flags: ADMIN.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..ADMIN
    },
    subcommands: &[],
    run: graph,
};

fn graph(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let name = &args[2];
    let Some(event) = context.server.observed.latency.event(name) else {
        let name = shown(name, usize::MAX);
        return Err(showing("ERR No samples available for event '", name, "'"));
    };
    let now = context.server.keyspace.clock().now_ms().div_euclid(1000);
    let name = String::from_utf8_lossy(name);
    reply.verbatim(b"txt", graph_report(&name, &event, now).as_bytes());
    Ok(ControlOutcome::Done)
}

const HISTORY: ControlCommand = Command {
    spec: Spec {
        name: "HISTORY",
        syntax: "event",
        summary: "Returns timestamp-latency samples for an event.",
        arity: exactly(3),
        flags: ADMIN.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..ADMIN
    },
    subcommands: &[],
    run: history,
};

fn history(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let event = context.server.observed.latency.event(&args[2]).unwrap_or_default();
    reply.array(event.samples.len());
    for sample in event.samples {
        reply.array(2);
        reply.integer(sample.time);
        reply.integer(clamp(sample.latency));
    }
    Ok(ControlOutcome::Done)
}

const LATEST: ControlCommand = Command {
    spec: Spec {
        name: "LATEST",
        summary: "Returns the latest latency samples for all events.",
        arity: exactly(2),
        flags: ADMIN.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..ADMIN
    },
    subcommands: &[],
    run: latest,
};

fn latest(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let events = context.server.observed.latency.all();
    reply.array(events.len());
    for (name, event) in events {
        let last = event.samples.back().expect("an event is noted with a sample");
        reply.array(4);
        reply.bulk(name.as_bytes());
        reply.integer(last.time);
        reply.integer(clamp(last.latency));
        reply.integer(clamp(event.longest));
    }
    Ok(ControlOutcome::Done)
}

const RESET: ControlCommand = Command {
    spec: Spec {
        name: "RESET",
        syntax: "[event [event ...]]",
        summary: "Resets the latency data for one or more events.",
        arity: at_least(2),
        tips: &["request_policy:all_nodes", "response_policy:agg_sum"],
        ..ADMIN
    },
    subcommands: &[],
    run: reset,
};

fn reset(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let monitor = &context.server.observed.latency;
    let count = match args.len() {
        2 => monitor.reset_all(),
        _ => args.skip(2).iter().filter(|name| monitor.reset(name)).count(),
    };
    reply.integer(count as i64);
    Ok(ControlOutcome::Done)
}

const HISTOGRAM: ControlCommand = Command {
    spec: Spec {
        name: "HISTOGRAM",
        since: "7.0.0",
        syntax: "[command [command ...]]",
        summary: "Returns the cumulative distribution of latencies of a subset or all commands.",
        complexity: "O(N) where N is the number of commands with latency information being \
            retrieved.",
        arity: at_least(2),
        flags: ADMIN.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..ADMIN
    },
    subcommands: &[],
    run: histogram,
};

fn histogram(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    Ok(by_size(context.server, args, reply, write_histogram))
}

fn write_histogram(server: &'static Server, args: Args<'_>, reply: &mut Reply<'_>) {
    let (table, stats) = (&server.table, &server.observed.stats);
    let wanted: Vec<&CommandEntry> = match args.len() {
        _ if !server.config.get(LATENCY_TRACKING) => Vec::new(),
        2 => table.entries().iter().collect(),
        _ => args.skip(2).iter().filter_map(|name| table.find_full(name)).collect(),
    };
    let mark = reply.defer();
    let mut shown = 0;
    for entry in wanted.into_iter().flat_map(CommandEntry::family) {
        let Some(entry_stats) =
            stats.calls_of(entry.id).filter(|entry_stats| entry_stats.calls > 0)
        else {
            continue;
        };
        reply.bulk(entry.full_name.as_bytes());
        reply_distribution(&entry_stats, reply);
        shown += 1;
    }
    reply.finish_map(mark, shown);
}

/// Calls, and how many of them took at most so many microseconds, from doubling to doubling.
fn reply_distribution(entry_stats: &CallStats, reply: &mut Reply<'_>) {
    let steps = cumulated(&entry_stats.histogram);
    reply.map(2);
    reply.bulk(b"calls");
    reply.integer(clamp(entry_stats.calls));
    reply.bulk(b"histogram_usec");
    reply.map(steps.len());
    for (limit, count) in steps {
        reply.integer(clamp(limit));
        reply.integer(clamp(count));
    }
}

/// Microseconds and the calls that took no longer, where that number grows.
fn cumulated(histogram: &[u64]) -> Vec<(u64, u64)> {
    let mut steps = Vec::new();
    let (mut sum, mut limit_index) = (0, 0);
    for (bucket, count) in histogram.iter().enumerate().filter(|(_, count)| **count > 0) {
        while limit_index < LIMITS.len() - 1 && LIMITS[limit_index] < bucket_limit(bucket) {
            limit_index += 1;
        }
        sum += count;
        match steps.last_mut() {
            Some((limit, total)) if *limit == LIMITS[limit_index] => *total = sum,
            _ => steps.push((LIMITS[limit_index], sum)),
        }
    }
    steps
}

/// What Redis prints: powers of two of nanoseconds, rounded up to what its histogram can tell
/// apart, as microseconds; what takes longer than a second counts as the last.
const LIMITS: [u64; 21] = {
    let mut limits = [0; 21];
    let mut index = 0;
    while index < limits.len() {
        let power: u64 = 1 << (index + 10);
        limits[index] = (power + power / 128 - 1) / 1000;
        index += 1;
    }
    limits
};

const HELP: ControlCommand = help::subcommand(Group::Server, "2.8.13", print_help);

fn print_help(
    _: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let lines = [
        "DOCTOR",
        "    Return a human readable latency analysis report.",
        "GRAPH <event>",
        "    Return an ASCII latency graph for the <event> class.",
        "HISTORY <event>",
        "    Return time-latency samples for the <event> class.",
        "LATEST",
        "    Return the latest latency samples for all events.",
        "RESET [<event> ...]",
        "    Reset latency data of one or more <event> classes.",
        "    (default: reset all data for all event classes)",
        "HISTOGRAM [COMMAND ...]",
        "    Return a cumulative distribution of latencies in the format of a histogram for the \
             specified command names.",
        "    If no commands are specified then all histograms are replied.",
    ];
    help::help(reply, "LATENCY", &lines);
    Ok(ControlOutcome::Done)
}

fn clamp(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{LIMITS, cumulated};

    #[test]
    fn limits_are_those_that_redis_prints() {
        assert_eq!(LIMITS[..8], [1, 2, 4, 8, 16, 33, 66, 132]);
    }

    #[test]
    fn counts_are_cumulated_from_doubling_to_doubling() {
        // Buckets 0 to 3 are exact, then come 4, 5, 6, 7, 8-9.
        let mut histogram = vec![0; 136];
        for (bucket, count) in [(0, 1), (1, 2), (4, 5), (6, 7), (135, 1)] {
            histogram[bucket] = count;
        }
        assert_eq!(cumulated(&histogram), [(1, 3), (4, 8), (8, 15), (LIMITS[20], 16)]);
    }
}
