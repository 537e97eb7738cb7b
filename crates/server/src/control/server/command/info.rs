//! COMMAND INFO: the ten things that a declaration says to clients and proxies.
//!
//! Invariant: an entry has ten elements, whatever the command.

use commands::categories;
use commands::declare::{Flags, Spec};
use commands::keys::{BeginSearch, FindKeys, KeySpec};
use engine::table::command_table::CommandEntry;
use proto::Reply;

/// Writes what is to be known of a command.
pub(super) fn write(entry: &CommandEntry, reply: &mut Reply<'_>) {
    let spec = entry.spec;
    reply.array(10);
    reply.bulk(entry.full_name.as_bytes());
    reply.integer(spec.arity.as_integer());
    write_names(flags(spec).names(), reply);
    let range = KeyRange::of(spec.keys);
    reply.integer(range.first);
    reply.integer(range.last);
    reply.integer(range.step);
    let is_container = !entry.subcommands.is_empty();
    write_names(categories::of(spec, is_container), reply);
    reply.set(spec.tips.len());
    spec.tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    reply.set(spec.keys.len());
    spec.keys.iter().for_each(|keys| write_keys(keys, reply));
    // Redis says "none" with a set and "some" with an array.
    match entry.subcommands.len() {
        0 => reply.set(0),
        count => reply.array(count),
    }
    entry.subcommands.iter().for_each(|subcommand| write(subcommand, reply));
}

/// Writes the names of what may happen to a key.
pub(super) fn write_access(access: commands::Access, reply: &mut Reply<'_>) {
    write_names(access.names(), reply);
}

/// The declared flags, and those that follow from the keys.
fn flags(spec: &Spec) -> Flags {
    let moves = |keys: &KeySpec| {
        !matches!(keys.begin, BeginSearch::Index(_)) || !matches!(keys.find, FindKeys::Range { .. })
    };
    if spec.keys.iter().any(moves) { spec.flags.and(Flags::MOVABLEKEYS) } else { spec.flags }
}

fn write_names<'a>(names: impl Iterator<Item = &'a str>, reply: &mut Reply<'_>) {
    let set = reply.defer();
    let count = names.map(|name| reply.simple(name)).count();
    reply.finish_set(set, count);
}

/// The keys as clients older than key specifications know them: first, last, step.
#[derive(Default)]
struct KeyRange {
    first: i64,
    last: i64,
    step: i64,
}

impl KeyRange {
    /// The range of the first group of keys at a fixed place, with those that follow it directly.
    fn of(keys: &[KeySpec]) -> Self {
        let mut range = Self::default();
        for spec in keys {
            let (BeginSearch::Index(index), FindKeys::Range { last, step, .. }) =
                (spec.begin.reported(), spec.find)
            else {
                continue;
            };
            let (index, step) = (index as i64, step as i64);
            let last = if last < 0 { last } else { index + last };
            if range.first == 0 {
                range = Self { first: index, last, step };
            } else if index == range.last + 1 {
                range.last = last;
            }
        }
        range
    }
}

fn write_keys(keys: &KeySpec, reply: &mut Reply<'_>) {
    let has_notes = !keys.notes.is_empty();
    reply.map(3 + usize::from(has_notes));
    if has_notes {
        reply.bulk(b"notes");
        reply.bulk(keys.notes.as_bytes());
    }
    reply.bulk(b"flags");
    write_access(keys.access, reply);
    reply.bulk(b"begin_search");
    match keys.begin.reported() {
        BeginSearch::Index(index) => {
            write_search(reply, "index", &[("index", index as i64)]);
        }
        BeginSearch::Keyword(word, from) => {
            begin_search(reply, "keyword", 2);
            reply.bulk(b"keyword");
            reply.bulk(word.as_bytes());
            reply.integer_field("startfrom", from);
        }
        _ => {
            write_search(reply, "unknown", &[]);
            reply.bulk(b"find_keys");
            write_search(reply, "unknown", &[]);
            return;
        }
    }
    reply.bulk(b"find_keys");
    match keys.find {
        FindKeys::Range { last, step, limit } => {
            let numbers = [("lastkey", last), ("keystep", step as i64), ("limit", limit as i64)];
            write_search(reply, "range", &numbers);
        }
        FindKeys::Count { count, first, step } => {
            let numbers =
                [("keynumidx", count as i64), ("firstkey", first as i64), ("keystep", step as i64)];
            write_search(reply, "keynum", &numbers);
        }
    }
}

fn write_search(reply: &mut Reply<'_>, kind: &str, numbers: &[(&str, i64)]) {
    begin_search(reply, kind, numbers.len());
    numbers.iter().for_each(|(name, number)| reply.integer_field(name, *number));
}

fn begin_search(reply: &mut Reply<'_>, kind: &str, fields: usize) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(fields);
}
