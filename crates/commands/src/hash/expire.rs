//! Giving fields a time to live: HEXPIRE, HPEXPIRE, HEXPIREAT, HPEXPIREAT.
//!
//! Invariant: the journal gets an absolute time in milliseconds and the fields that took it, or
//! HDEL where it is over already, so that whoever replays it later does the same.

use base::number::format_i64;
use base::time::UnixMillis;
use keyspace::{EventClass, Outcome, Refusal, Tx};
use proto::{Args, Reply};
use structs::hash::Hash;

use super::charge;
use super::fields::{Unit, deadline_of, journal, note_overdue, parse};
use crate::DataCommand;
use crate::arguments::is;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::keys::{Access, first};

pub(super) const HEXPIRE: DataCommand = Command {
    spec: Spec {
        name: "HEXPIRE",
        syntax: "key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        summary: "Set expiry for hash field using relative time to expire (seconds).",
        ..FAMILY
    },
    subcommands: &[],
    run: |tx, args, reply| expire(tx, args, reply, Unit::Seconds, "hexpire"),
};

pub(super) const HPEXPIRE: DataCommand = Command {
    spec: Spec {
        name: "HPEXPIRE",
        syntax: "key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        summary: "Set expiry for hash field using relative time to expire (milliseconds).",
        ..FAMILY
    },
    subcommands: &[],
    run: |tx, args, reply| expire(tx, args, reply, Unit::Millis, "hpexpire"),
};

pub(super) const HEXPIREAT: DataCommand = Command {
    spec: Spec {
        name: "HEXPIREAT",
        syntax: "key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        summary: "Set expiry for hash field using an absolute Unix timestamp (seconds).",
        ..FAMILY
    },
    subcommands: &[],
    run: |tx, args, reply| expire(tx, args, reply, Unit::UnixSeconds, "hexpireat"),
};

pub(super) const HPEXPIREAT: DataCommand = Command {
    spec: Spec {
        name: "HPEXPIREAT",
        syntax: "key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        summary: "Set expiry for hash field using an absolute Unix timestamp (milliseconds).",
        ..FAMILY
    },
    subcommands: &[],
    run: |tx, args, reply| expire(tx, args, reply, Unit::UnixMillis, "hpexpireat"),
};

/// What the four have in common.
const FAMILY: Spec = Spec {
    since: "7.4.0",
    group: Group::Hash,
    complexity: "O(N) where N is the number of specified fields",
    arity: at_least(6),
    flags: Flags::WRITE.and(Flags::FAST),
    keys: &[first(Access::RW.and(Access::UPDATE))],
    ..Spec::BASE
};

/// What must hold of a field's present deadline.
#[derive(Clone, Copy)]
enum Condition {
    Always,
    None,
    Some,
    Later,
    Earlier,
}

impl Condition {
    fn of(word: &[u8]) -> Self {
        match word {
            _ if is(word, "NX") => Self::None,
            _ if is(word, "XX") => Self::Some,
            _ if is(word, "GT") => Self::Later,
            _ if is(word, "LT") => Self::Earlier,
            _ => Self::Always,
        }
    }

    /// Whether it holds; without a deadline a field lives for ever, which is later than any.
    fn admits(self, present: Option<UnixMillis>, new: UnixMillis) -> bool {
        match self {
            Self::Always => true,
            Self::None => present.is_none(),
            Self::Some => present.is_some(),
            Self::Later => present.is_some_and(|present| new > present),
            Self::Earlier => present.is_none_or(|present| new < present),
        }
    }
}

/// What the reply says of a field.
const ABSENT: i64 = -2;
const UNMET: i64 = 0;
const GIVEN: i64 = 1;
const REMOVED: i64 = 2;

fn expire(
    tx: &mut Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    unit: Unit,
    command: &str,
) -> Result<(), Refusal> {
    const BAD_COUNT: Refusal = Refusal::error("ERR Parameter `numFields` should be greater than 0");
    let key = &args[1];
    tx.peek_view::<Hash>(key)?;
    let deadline = unit.deadline(args.get(2), tx.now(), command)?;
    let condition = Condition::of(&args[3]);
    let is_conditional = !matches!(condition, Condition::Always);
    let fields = parse(args, if is_conditional { 4 } else { 3 }, BAD_COUNT)?;
    charge(tx, fields.len())?;
    let given = give(tx, key, fields, deadline, condition)?;
    if !given.fields.is_empty() && deadline <= tx.now() {
        note_overdue(tx, key, &given.fields, given.outcome);
    } else if !given.fields.is_empty() {
        tx.effects_mut().add_changes(given.fields.len() as u64);
        tx.event(EventClass::Hash, "hexpire", key);
        let mut number = [0; 20];
        let mut head = vec![b"HPEXPIREAT".as_slice(), key, format_i64(deadline, &mut number)];
        head.extend(is_conditional.then_some(&args[3]));
        journal(tx, &head, &given.fields);
    }
    reply.array(given.answers.len());
    given.answers.into_iter().for_each(|answer| reply.integer(answer));
    Ok(())
}

/// What became of fields that were to get a deadline.
struct Given<'a> {
    /// What to reply of each field.
    answers: Vec<i64>,
    /// The fields that the condition held for.
    fields: Vec<&'a [u8]>,
    outcome: Outcome,
}

/// Gives fields a deadline where the condition holds, or takes them out if it is over.
fn give<'a>(
    tx: &mut Tx,
    key: &[u8],
    fields: Args<'a>,
    deadline: UnixMillis,
    condition: Condition,
) -> Result<Given<'a>, Refusal> {
    let now = tx.now();
    let mut given: Vec<&[u8]> = Vec::new();
    let (answers, outcome) = tx.edit(key, |hash: &mut Hash| {
        let mut judge = |field| match deadline_of(hash.borrow(), field, now) {
            None => ABSENT,
            Some(present) if !condition.admits(present, deadline) => UNMET,
            Some(_) => {
                given.push(field);
                if deadline <= now {
                    hash.remove(field);
                    return REMOVED;
                }
                hash.set_deadline(field, Some(deadline));
                GIVEN
            }
        };
        fields.iter().map(&mut judge).collect()
    })?;
    Ok(Given { answers, fields: given, outcome })
}
