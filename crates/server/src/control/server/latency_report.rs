//! The reports of LATENCY: the doctor's, and a graph of an event.
//!
//! Invariant: texts are those of Redis.

use std::fmt::Write;

use config::settings::{LATENCY_MONITOR_THRESHOLD, SLOWLOG_LOG_SLOWER_THAN};
use engine::observe::latency::LatencyEvent;

use crate::server::Server;

const DISABLED: &str = "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this \
Redis instance. You may use \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in order to \
enable it. If we weren't in a deep space mission I'd suggest to take a look at \
https://redis.io/docs/latest/operate/oss_and_stack/management/optimization/latency-monitor.\n";

const CALM: &str = "Dave, no latency spike was observed during the lifetime of this Redis \
instance, not in the slightest bit. I honestly think you ought to sit down calmly, take a stress \
pill, and think things over.\n";

const SPIKES: &str = "Dave, I have observed latency spikes in this Redis instance. You don't mind \
talking about it, do you Dave?\n\n";

const USE_SLOW_LOG: &str = "- Check your Slow Log to understand what are the commands you are \
running which are too slow to execute. Please check https://redis.io/commands/slowlog for more \
information.\n";

const BIG_OBJECTS: &str = "- Deleting, expiring or evicting (because of maxmemory policy) large \
objects is a blocking operation. If you have very large objects that are often deleted, expired, \
or evicted, try to fragment those objects into multiple smaller objects.\n";

/// What LATENCY DOCTOR says.
pub(super) fn doctor_report(server: &Server) -> String {
    let threshold = server.config.get(LATENCY_MONITOR_THRESHOLD);
    if threshold == 0 {
        return DISABLED.to_owned();
    }
    let events = server.observed.latency.all();
    if events.is_empty() {
        return CALM.to_owned();
    }
    let now = server.keyspace.clock().now_ms().div_euclid(1000);
    let mut report = SPIKES.to_owned();
    for (index, (name, event)) in events.iter().enumerate() {
        let line = diagnosis(name, event, now);
        report += &format!("{}. {line}\n", index + 1);
    }
    if events.iter().any(|(name, _)| *name == "command") {
        report += "\nI have a few advices for you:\n\n";
        report += &slow_log_advice(server.config.get(SLOWLOG_LOG_SLOWER_THAN), threshold);
        report += USE_SLOW_LOG;
        report += BIG_OBJECTS;
    }
    report
}

/// One event's figures.
fn diagnosis(name: &str, event: &LatencyEvent, now: i64) -> String {
    let count = event.samples.len() as u64;
    let sum: u64 = event.samples.iter().map(|sample| sample.latency).sum();
    let average = sum / count.max(1);
    let deviations = event.samples.iter().map(|sample| sample.latency.abs_diff(average));
    let deviation = deviations.sum::<u64>() / count.max(1);
    let first = event.samples.front().map_or(now, |sample| sample.time);
    let period = (now - first).max(0) as f64 / count.max(1) as f64;
    format!(
        "{name}: {count} latency spikes (average {average}ms, mean deviation {deviation}ms, \
         period {period:.2} sec). Worst all time event {}ms.",
        event.longest
    )
}

fn slow_log_advice(slower_than_us: i64, threshold_ms: u64) -> String {
    let threshold_us = i64::try_from(threshold_ms.saturating_mul(1000)).unwrap_or(i64::MAX);
    if slower_than_us < 0 {
        format!(
            "- There are latency issues with potentially slow commands you are using. Try to \
             enable the Slow Log Redis feature using the command 'CONFIG SET \
             slowlog-log-slower-than {threshold_us}'. If the Slow log is disabled Redis is not \
             able to log slow commands execution for you.\n"
        )
    } else if slower_than_us > threshold_us {
        format!(
            "- Your current Slow Log configuration only logs events that are slower than your \
             configured latency monitor threshold. Please use 'CONFIG SET \
             slowlog-log-slower-than {threshold_us}'.\n"
        )
    } else {
        String::new()
    }
}

/// Samples side by side in a graph.
const COLUMNS: usize = 80;

/// Rows of a graph, and what a row can show besides a full column.
const ROWS: usize = 4;
const TIPS: [char; 3] = ['_', 'o', '#'];

/// What LATENCY GRAPH says.
pub(super) fn graph_report(name: &str, event: &LatencyEvent, now: i64) -> String {
    let latencies: Vec<u64> = event.samples.iter().map(|sample| sample.latency).collect();
    let high = latencies.iter().copied().max().unwrap_or(0);
    let low = latencies.iter().copied().min().unwrap_or(0);
    let mut report = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        report,
        "{name} - high {high} ms, low {low} ms (all time high {} ms)\n{}",
        event.longest,
        "-".repeat(COLUMNS)
    );
    let labels: Vec<String> = event.samples.iter().map(|sample| age(now - sample.time)).collect();
    let pieces = latencies.chunks(COLUMNS).zip(labels.chunks(COLUMNS));
    for (index, (latencies, labels)) in pieces.enumerate() {
        if index > 0 {
            report.push('\n');
        }
        add_piece(&mut report, latencies, labels, (low, high));
    }
    report
}

/// One piece of a graph: rows from the top, a margin, and the labels from top to bottom.
fn add_piece(report: &mut String, latencies: &[u64], labels: &[String], range: (u64, u64)) {
    let (low, high) = range;
    let steps = (ROWS * TIPS.len()) as u64;
    let height = |latency: u64| {
        let step = (latency - low) * steps / (high - low).max(1);
        step.min(steps - 1) as usize
    };
    for row in (0..ROWS).rev() {
        let first = row * TIPS.len();
        report.extend(latencies.iter().map(|&latency| match height(latency) {
            step if step < first => ' ',
            step => TIPS.get(step - first).copied().unwrap_or('|'),
        }));
        report.push('\n');
    }
    let depth = labels.iter().map(String::len).max().unwrap_or(0);
    report.extend(std::iter::repeat_n(' ', latencies.len()));
    report.push('\n');
    for line in 0..depth {
        let letter = |label: &String| label.chars().nth(line).unwrap_or(' ');
        report.extend(labels.iter().map(letter));
        report.push('\n');
    }
}

/// How long ago something was, in the largest unit that fits.
fn age(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use engine::observe::latency::{LatencyEvent, Sample};

    use super::{diagnosis, graph_report};

    fn event(samples: &[(i64, u64)]) -> LatencyEvent {
        let longest = samples.iter().map(|sample| sample.1).max().unwrap_or(0);
        let samples = samples.iter().map(|&(time, latency)| Sample { time, latency });
        LatencyEvent { samples: samples.collect(), longest }
    }

    /// As Redis 8.2 drew these five samples.
    #[test]
    fn a_graph_is_drawn_as_redis_draws_it() {
        let event = event(&[(29, 50), (30, 2), (31, 100), (32, 23), (34, 82)]);
        let lines = "command - high 100 ms, low 2 ms (all time high 100 ms)\n".to_owned()
            + &"-".repeat(80)
            + "\n  # _\n  | |\n# | |\n|_|#|\n     \n65431\nsssss\n";
        assert_eq!(graph_report("command", &event, 35), lines);
    }

    #[test]
    fn old_and_new_samples_have_their_labels() {
        let event = event(&[(0, 1), (86_400, 1), (90_000, 1)]);
        let graph = graph_report("command", &event, 90_059);
        assert!(graph.ends_with("\n___\n   \n115\ndh9\n  s\n"), "{graph}");
    }

    #[test]
    fn a_diagnosis_counts_as_redis_does() {
        let event = event(&[(29, 50), (30, 2), (31, 100), (32, 23), (34, 82)]);
        let expected = "command: 5 latency spikes (average 51ms, mean deviation 31ms, period \
                        1.20 sec). Worst all time event 100ms.";
        assert_eq!(diagnosis("command", &event, 35), expected);
    }
}
