//! What can be seen of a command that was run, effect by effect, in the same words on all servers.
//!
//! Invariant: an effect that left nothing is an empty text.

use std::collections::BTreeMap;

use proto::value::Value;
use tests::render::{render, text};

use super::acts::{Act, Form};
use super::scene::expand;
use super::ways::Way;

/// What a command leaves, beside its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Effect {
    /// What the client is told that has it run.
    Reply,
    /// Notifications of keys, those of keys and fields that are over among them, in their order.
    Events,
    /// What a client that tracks the key is told.
    Told,
    /// What one is told that tracks all keys.
    ToldByPrefix,
    /// What the client that has it run is told by tracking, of which it leaves out its own changes:
    /// while it runs, and when another changes the key behind it, of which it has a copy if it read
    /// it.
    Remembered,
    /// Whether the transaction of one that watches the key is refused.
    Watch,
    /// What one has that waited.
    Waiter,
    /// Hits, misses, and what was found to be over.
    Lookups,
    /// Calls, those that failed and those that were rejected, by command; whose time was taken.
    Calls,
    /// How many commands there were.
    Total,
    /// Errors by their kind.
    Errors,
    /// The slow log, of all commands.
    Slow,
    /// What MONITOR shows.
    Monitored,
    /// What ACL LOG has.
    Denials,
    /// Changes since the last save.
    Changes,
    /// Sizes of keys, by type.
    Sizes,
    /// Whether the key counts as used.
    Touch,
    /// The data.
    Data,
}

impl Effect {
    pub(super) const ALL: [Self; 18] = [
        Self::Reply,
        Self::Events,
        Self::Told,
        Self::ToldByPrefix,
        Self::Remembered,
        Self::Watch,
        Self::Waiter,
        Self::Lookups,
        Self::Calls,
        Self::Total,
        Self::Errors,
        Self::Slow,
        Self::Monitored,
        Self::Denials,
        Self::Changes,
        Self::Sizes,
        Self::Touch,
        Self::Data,
    ];
}

/// What was seen.
#[derive(Default, PartialEq)]
pub(super) struct Seen(BTreeMap<Effect, String>);

impl Seen {
    pub(super) fn add(&mut self, effect: Effect, told: String) {
        self.0.insert(effect, told);
    }

    pub(super) fn merge(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    pub(super) fn of(&self, effect: Effect) -> &str {
        self.0.get(&effect).map_or("", String::as_str)
    }
}

/// So many words of an entry of the slow log are those of the request.
const SHOWN: usize = 31;

/// Commands of observers.
const LOOKS: &[&str] =
    &["info", "publish", "config", "client", "debug", "replconf", "slowlog", "acl"];
/// Those of one who holds a lock.
const HOLDS: &[&str] = &["eval", "exists"];

/// Whether an observer sent a command.
fn is_look(command: &str, way: Way) -> bool {
    let name = command.split('|').next().expect("a first word").to_lowercase();
    LOOKS.contains(&&*name) || way == Way::Parked && HOLDS.contains(&&*name)
}

/// What INFO tells, with the changes that there were before.
pub(super) fn of_info(info: &str, way: Way, changes: i64, seen: &mut Seen) {
    let mut fields = info.lines().filter_map(|line| line.split_once(':'));
    let (mut calls, mut timed) = (Vec::new(), Vec::new());
    let (mut lookups, mut errors, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut total, mut looks, mut changed) = (0, 0, 0);
    let number = |value: &str| value.trim().parse::<i64>().expect("a number");
    for (name, value) in &mut fields {
        if let Some(command) = name.strip_prefix("cmdstat_") {
            let kept = value.split(',').filter(|figure| !figure.starts_with("usec"));
            let figures: Vec<_> = kept.collect();
            match is_look(command, way) {
                true => looks += number(&figures[0]["calls=".len()..]),
                false => calls.push(format!("{command} {}", figures.join(" "))),
            }
        } else if let Some(command) = name.strip_prefix("latency_percentiles_usec_") {
            if !is_look(command, way) {
                timed.push(command.to_owned());
            }
        } else if name.starts_with("errorstat_") || name == "total_error_replies" {
            errors.push((name, value));
        } else if name.starts_with("db0_distrib") {
            sizes.push(format!("{name} {value}"));
        } else {
            match name {
                "total_commands_processed" => total = number(value),
                "rdb_changes_since_last_save" => changed = number(value),
                "keyspace_hits" | "keyspace_misses" | "expired_keys" | "expired_subkeys" => {
                    lookups.push((name, value));
                }
                _ => {}
            }
        }
    }
    let told = |mut figures: Vec<(&str, &str)>| {
        figures.retain(|(_, value)| *value != "0");
        figures.sort_unstable();
        let figures = figures.iter().map(|(name, value)| format!("{name} {value}"));
        figures.collect::<Vec<_>>().join(", ")
    };
    calls.sort_unstable();
    timed.sort_unstable();
    sizes.sort_unstable();
    let calls = match calls.len() + timed.len() {
        0 => String::new(),
        _ => format!("{}; timed {}", calls.join(", "), timed.join(" ")),
    };
    seen.add(Effect::Calls, calls);
    seen.add(Effect::Total, (total - looks).to_string());
    seen.add(Effect::Lookups, told(lookups));
    seen.add(Effect::Errors, told(errors));
    seen.add(Effect::Sizes, sizes.join(", "));
    let changed = changed - changes;
    seen.add(Effect::Changes, if changed == 0 { String::new() } else { changed.to_string() });
}

/// What the slow log has, the first entry first: words and the name of the client. Those who waited
/// come last: here their own threads note them, beside the thread that served them.
pub(super) fn of_slow_log(log: &Value, way: Way, act: &Act) -> String {
    let Value::Array(entries) = log else { panic!("entries: {log:?}") };
    let (mut told, mut told_of_waits) = (Vec::new(), Vec::new());
    let waited = match act.form {
        Form::Wait(line, _) => line,
        _ => "",
    };
    // Of very many words the log has the first ones.
    let are_of = |words: &[String], line: &str| {
        let of_line = expand(line);
        let mut both = words.iter().take(SHOWN).zip(&of_line);
        words.len() == of_line.len().min(SHOWN + 1)
            && both.all(|(one, other)| one.as_bytes() == other)
    };
    for entry in entries.iter().rev() {
        let Value::Array(parts) = entry else { panic!("an entry: {entry:?}") };
        let Value::Array(words) = &parts[3] else { panic!("words: {entry:?}") };
        let words: Vec<String> = words.iter().map(text).collect();
        let line = words.join(" ");
        let name = match way {
            // These have no name.
            Way::Console | Way::Memcached => String::new(),
            _ => format!(" by {}", render(&parts[5])),
        };
        if are_of(&words, act.waits) || are_of(&words, waited) {
            told_of_waits.push(line + &name);
        } else if !is_look(&words[0], way) {
            told.push(line + &name);
        }
    }
    told_of_waits.sort_unstable();
    without_moments(&[told, told_of_waits].concat().join(", "))
}

/// Lines of MONITOR, without times and ports.
pub(super) fn of_monitor(lines: &[Value], way: Way) -> String {
    let mut told = Vec::new();
    for line in lines {
        let line = text(line);
        let (head, words) = line.split_once("] ").expect("a source and words");
        let command = words.split(' ').next().expect("a word").trim_matches('"');
        if !is_look(command, way) {
            let source = if head.ends_with("lua") { "lua" } else { "client" };
            told.push(format!("{source} {words}"));
        }
    }
    without_moments(&told.join(", "))
}

/// A text whose moments, in milliseconds, are all the same.
fn without_moments(told: &str) -> String {
    let words = told.split_inclusive(|it: char| !it.is_ascii_digit());
    let masked = words.map(|word| {
        let digits = word.trim_end_matches(|it: char| !it.is_ascii_digit());
        match digits.len() {
            13.. => format!("(a moment){}", &word[digits.len()..]),
            _ => word.to_owned(),
        }
    });
    masked.collect()
}

/// What ACL LOG says of each denial.
pub(super) fn told_of_denials(log: &Value) -> String {
    let Value::Array(entries) = log else { panic!("entries: {log:?}") };
    let mut told = Vec::new();
    for entry in entries.iter().rev() {
        let Value::Array(parts) = entry else { panic!("an entry: {entry:?}") };
        let mut kept = Vec::new();
        for pair in parts.chunks(2) {
            let name = text(&pair[0]);
            if ["count", "reason", "context", "object", "username"].contains(&&*name) {
                kept.push(render(&pair[1]).replace("(integer) ", ""));
            }
        }
        told.push(kept.join(" "));
    }
    told.join(", ")
}
