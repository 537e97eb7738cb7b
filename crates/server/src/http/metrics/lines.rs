//! Metrics of those fields of INFO that there are many of: one for each command, error, database,
//! worker, replica.
//!
//! Invariant: the part of a field's name behind its prefix is the label.

use super::catalogue::MetricFamily;
use super::exposition::{Exposition, MetricKind};
use MetricKind::{Counter, Gauge};

/// Fields of one prefix: each is a list of parts, `name=value`.
pub(super) struct Line {
    prefix: &'static str,
    label: &'static str,
    parts: &'static [Part],
}

/// A part of such a field that is a metric: its name there, the metric's, its kind, what one of
/// its units is, and what it is.
type Part = (&'static str, &'static str, MetricKind, f64, &'static str);

const LINES: &[Line] = &[
    Line {
        prefix: "cmdstat_",
        label: "command",
        parts: &[
            ("calls", "commands", Counter, 1.0, "Calls of a command that ran."),
            ("usec", "commands_duration_seconds", Counter, 1e-6, "How long all of them took."),
            (
                "rejected_calls",
                "commands_rejected",
                Counter,
                1.0,
                "Calls that were refused before they ran.",
            ),
            ("failed_calls", "commands_failed", Counter, 1.0, "Calls that replied an error."),
        ],
    },
    Line {
        prefix: "errorstat_",
        label: "error",
        parts: &[("count", "errors", Counter, 1.0, "Error replies by their first word.")],
    },
    Line {
        prefix: "db",
        label: "db",
        parts: &[
            ("keys", "db_keys", Gauge, 1.0, "Keys of a database."),
            ("expires", "db_keys_expiring", Gauge, 1.0, "Keys that have a time to live."),
            (
                "subexpiry",
                "db_keys_with_expiring_members",
                Gauge,
                1.0,
                "Keys of which a member has a time to live.",
            ),
        ],
    },
    Line {
        prefix: "worker_",
        label: "worker",
        parts: &[
            ("sessions", "worker_sessions", Gauge, 1.0, "Clients that a worker serves."),
            ("commands", "worker_commands", Counter, 1.0, "Commands that a worker ran."),
            ("busy_us", "worker_busy_seconds", Counter, 1e-6, "How long a worker was at work."),
            ("net_in_bytes", "worker_received_bytes", Counter, 1.0, "Bytes that a worker read."),
            ("net_out_bytes", "worker_sent_bytes", Counter, 1.0, "Bytes that a worker wrote."),
            (
                "elsewhere",
                "worker_commands_offloaded",
                Counter,
                1.0,
                "Commands that ran on another thread, as they take long.",
            ),
            ("waits", "worker_lock_waits", Counter, 1.0, "Waits for locks that others had."),
            (
                "core_wait_us",
                "worker_core_wait_seconds",
                Counter,
                1e-6,
                "How long a worker was ready to run and had no core.",
            ),
            ("letters", "worker_messages", Counter, 1.0, "Messages for clients of a worker."),
        ],
    },
    Line {
        prefix: "io_thread_",
        label: "worker",
        parts: &[
            ("reads", "worker_reads", Counter, 1.0, "Reads of sockets by a worker."),
            ("writes", "worker_writes", Counter, 1.0, "Writes of sockets by a worker."),
        ],
    },
    Line {
        prefix: "slave",
        label: "replica",
        parts: &[
            ("offset", "replica_offset_bytes", Gauge, 1.0, "The offset that a replica told last."),
            ("lag", "replica_ack_age_seconds", Gauge, 1.0, "How long ago a replica told it."),
        ],
    },
];

impl Line {
    /// The label of a field, if it is one of these.
    fn label_of<'n>(&self, name: &'n str, value: &str) -> Option<&'n str> {
        let rest = name.strip_prefix(self.prefix)?;
        // `db0` and not `db0_distrib_...`, nor anything else that begins so.
        let is_numbered = !self.prefix.ends_with('_');
        let fits = !is_numbered || rest.bytes().all(|byte| byte.is_ascii_digit());
        (fits && !rest.is_empty() && value.contains('=')).then_some(rest)
    }
}

/// The seconds that locks were held at least, if a field counts how often they were held so long.
fn hold_seconds(name: &str) -> Option<f64> {
    let millis = name.strip_prefix("lock_holds_from_")?.strip_suffix("_ms")?;
    Some(millis.parse::<f64>().ok()? / 1e3)
}

/// Whether a field is one of these.
#[cfg(test)]
pub(super) fn has(name: &str, value: &str) -> bool {
    hold_seconds(name).is_some() || LINES.iter().any(|line| line.label_of(name, value).is_some())
}

pub(super) fn write(found: &[(&str, &str)], exposition: &mut Exposition) {
    for line in LINES {
        let of_line =
            || found.iter().filter_map(|(name, value)| Some((line.label_of(name, value)?, *value)));
        if of_line().next().is_none() {
            continue;
        }
        for (part, metric, kind, unit, help) in line.parts {
            exposition.family(metric, *kind, help);
            for (label, value) in of_line() {
                let pairs = value.split(',').filter_map(|pair| pair.split_once('='));
                let wanted = pairs.filter(|(name, _)| name == part);
                for number in wanted.filter_map(|(_, text)| text.parse::<f64>().ok()) {
                    exposition.sample(&[(line.label, label)], number * unit);
                }
            }
        }
    }
    write_replica_distance(found, exposition);
    write_lock_holds(found, exposition);
}

/// The metric that is derived of two fields: its name and what it is.
const REPLICA_LAG: (&str, &str) =
    ("replica_lag_bytes", "Bytes of the stream that a replica has not told to have.");

/// The metric whose label is a part of the field's name: its name and what it is.
const LOCK_HOLDS: (&str, &str) =
    ("lock_holds", "Times that locks were held for at_least so many seconds.");

/// The families of all lines.
pub(super) fn families() -> Vec<MetricFamily> {
    let of_line = |line: &'static Line| {
        let source = move |part: &str| format!("{}*: {part}", line.prefix);
        line.parts.iter().map(move |(part, name, kind, _, help)| {
            MetricFamily::of(name, *kind, help).read_from(&source(part)).with_label(line.label)
        })
    };
    let mut families: Vec<MetricFamily> = LINES.iter().flat_map(of_line).collect();
    let lag = MetricFamily::of(REPLICA_LAG.0, Gauge, REPLICA_LAG.1);
    families.push(lag.read_from("slave*: offset, and master_repl_offset").with_label("replica"));
    let holds = MetricFamily::of(LOCK_HOLDS.0, Counter, LOCK_HOLDS.1);
    families.push(holds.read_from("lock_holds_from_*_ms").with_label("at_least"));
    families
}

/// How often locks were held for long. How long is a label: a name would need a unit other than
/// seconds.
fn write_lock_holds(found: &[(&str, &str)], exposition: &mut Exposition) {
    exposition.family(LOCK_HOLDS.0, Counter, LOCK_HOLDS.1);
    for (name, value) in found {
        if let (Some(seconds), Ok(count)) = (hold_seconds(name), value.parse::<u64>()) {
            exposition.sample(&[("at_least", &*seconds.to_string())], count);
        }
    }
}

/// How many bytes each replica is behind.
fn write_replica_distance(found: &[(&str, &str)], exposition: &mut Exposition) {
    let line = LINES.iter().find(|line| line.label == "replica").expect("it is there");
    let end = found.iter().find(|(name, _)| *name == "master_repl_offset");
    let end = end.and_then(|(_, text)| text.parse::<f64>().ok()).unwrap_or(0.0);
    let mut is_first = true;
    for (name, value) in found {
        let Some(label) = line.label_of(name, value) else { continue };
        if std::mem::take(&mut is_first) {
            exposition.family(REPLICA_LAG.0, Gauge, REPLICA_LAG.1);
        }
        let offset = value.split(',').find_map(|pair| pair.strip_prefix("offset="));
        let offset = offset.and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        exposition.sample(&[("replica", label)], (end - offset).max(0.0));
    }
}
