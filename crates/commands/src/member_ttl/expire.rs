//! Giving members a time to live: EXPIREMEMBER, EXPIREMEMBERAT, PEXPIREMEMBERAT (KeyDB) and
//! FIELDEXPIRE (Dragonfly).
//!
//! Invariant: a member whose new deadline has passed is removed at once.

use base::number::format_i64;
use base::time::UnixMillis;
use keyspace::{ContainerOutcome, EntryRef, EventClass, Refusal, Tx};
use proto::{Args, Reply};
use structs::hash::Hash;
use structs::object::Kind;
use structs::set::Set;
use structs::sorted_set::SortedSet;

use super::Timed;
use crate::DataCommand;
use crate::arguments::{integer, is};
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::errors::{invalid_expire, wrong_arity};
use crate::keys::{Access, first};

const INVALID_UNIT: Refusal = Refusal::error("ERR Invalid unit arg");

/// Finding a member and changing its deadline, in nanoseconds.
const MEMBER_COST_NS: u64 = 300;

pub(super) const EXPIREMEMBER: DataCommand = Command {
    spec: Spec {
        name: "EXPIREMEMBER",
        syntax: "key member time [S | MS]",
        summary: "Sets the expiration time of a member of a container in seconds or \
                  milliseconds.",
        arity: at_least(4),
        ..KEYDB
    },
    subcommands: &[],
    run: |tx, args, reply| {
        let unit = match args.get(4) {
            _ if args.len() > 5 => return Err(wrong_arity("expiremember")),
            None => 1000,
            Some(unit) if is(unit, "s") => 1000,
            Some(unit) if is(unit, "ms") => 1,
            Some(_) => return Err(INVALID_UNIT),
        };
        let deadline = deadline(args, 3, unit, tx.now(), "expiremember")?;
        expire_member(tx, args, reply, deadline)
    },
};

pub(super) const EXPIREMEMBERAT: DataCommand = Command {
    spec: Spec {
        name: "EXPIREMEMBERAT",
        syntax: "key member unix-time-seconds",
        summary: "Sets the expiration time of a member of a container to a Unix timestamp.",
        ..KEYDB
    },
    subcommands: &[],
    run: |tx, args, reply| {
        let deadline = deadline(args, 3, 1000, 0, "expirememberat")?;
        expire_member(tx, args, reply, deadline)
    },
};

pub(super) const PEXPIREMEMBERAT: DataCommand = Command {
    spec: Spec {
        name: "PEXPIREMEMBERAT",
        syntax: "key member unix-time-milliseconds",
        summary: "Sets the expiration time of a member of a container to a Unix milliseconds \
                  timestamp.",
        ..KEYDB
    },
    subcommands: &[],
    run: |tx, args, reply| {
        let deadline = deadline(args, 3, 1, 0, "pexpirememberat")?;
        expire_member(tx, args, reply, deadline)
    },
};

/// What KeyDB's three have in common.
const KEYDB: Spec = Spec {
    since: "5.1.0",
    group: Group::Generic,
    complexity: "O(1)",
    arity: exactly(4),
    flags: Flags::WRITE.and(Flags::FAST),
    keys: &[first(Access::RW.and(Access::UPDATE).and(Access::DELETE))],
    origin: "keydb",
    ..Spec::BASE
};

pub(super) const FIELDEXPIRE: DataCommand = Command {
    spec: Spec {
        name: "FIELDEXPIRE",
        since: "1.25.0",
        group: Group::Generic,
        syntax: "key seconds field [field ...]",
        summary: "Sets the expiration time of fields of a hash or members of a set in seconds.",
        complexity: "O(N) where N is the number of arguments to the command.",
        arity: at_least(4),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::UPDATE).and(Access::DELETE))],
        categories: &["@set", "@hash"],
        origin: "dragonfly",
        ..Spec::BASE
    },
    subcommands: &[],
    run: field_expire,
};

/// Dragonfly's page on FIELDEXPIRE.
fn field_expire(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let deadline = deadline(args, 2, 1000, tx.now(), "fieldexpire")?;
    if deadline < tx.now() {
        return Err(invalid_expire("fieldexpire"));
    }
    let given = set_deadlines(tx, &args[1], args.skip(3), deadline)?;
    reply.array(given.len());
    for given in given {
        reply.integer(match given {
            DeadlineEffect::NoSuchMember => -2,
            DeadlineEffect::Deadline => 1,
            DeadlineEffect::Removal => 2,
        });
    }
    Ok(())
}

fn expire_member(
    tx: &mut Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    deadline: UnixMillis,
) -> Result<(), Refusal> {
    let given = set_deadlines(tx, &args[1], args.slice(2..3), deadline)?;
    reply.integer(i64::from(given[0] != DeadlineEffect::NoSuchMember));
    Ok(())
}

/// The moment that the number at an index stands for, in units of so many milliseconds.
fn deadline(
    args: Args<'_>,
    index: usize,
    unit: i64,
    from: UnixMillis,
    command: &str,
) -> Result<UnixMillis, Refusal> {
    let millis = integer(args, index)?.checked_mul(unit);
    let moment = millis.and_then(|millis| from.checked_add(millis));
    moment.ok_or_else(|| invalid_expire(command))
}

/// What a member got.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeadlineEffect {
    NoSuchMember,
    Deadline,
    Removal,
}

fn set_deadlines(
    tx: &mut Tx,
    key: &[u8],
    members: Args<'_>,
    deadline: UnixMillis,
) -> Result<Vec<DeadlineEffect>, Refusal> {
    tx.charge(members.len() as u64 * MEMBER_COST_NS)?;
    match tx.peek(key)?.map(EntryRef::kind) {
        None => Ok(vec![DeadlineEffect::NoSuchMember; members.len()]),
        Some(Kind::Hash) => set_deadlines_in::<Hash>(tx, key, members, deadline),
        Some(Kind::Set) => set_deadlines_in::<Set>(tx, key, members, deadline),
        Some(Kind::SortedSet) => set_deadlines_in::<SortedSet>(tx, key, members, deadline),
        Some(_) => Err(Refusal::WrongType),
    }
}

fn set_deadlines_in<C: Timed>(
    tx: &mut Tx,
    key: &[u8],
    members: Args<'_>,
    deadline: UnixMillis,
) -> Result<Vec<DeadlineEffect>, Refusal> {
    let has_passed = tx.is_over_at(deadline);
    let (given, outcome) = tx.edit(key, |container: &mut C| {
        let give = |member| {
            if C::deadline(container.borrow(), member).is_none() {
                return DeadlineEffect::NoSuchMember;
            }
            if has_passed {
                container.remove(member);
                return DeadlineEffect::Removal;
            }
            container.set_deadline(member, Some(deadline));
            DeadlineEffect::Deadline
        };
        members.iter().map(give).collect::<Vec<_>>()
    })?;
    let mut digits = [0; 20];
    let at: &[u8] = format_i64(deadline, &mut digits);
    let effects = tx.effects_mut();
    for (member, given) in members.iter().zip(&given) {
        match given {
            DeadlineEffect::NoSuchMember => continue,
            DeadlineEffect::Deadline => effects.instead(&C::deadline_words(key, member, at)),
            DeadlineEffect::Removal => effects.instead(&[C::REMOVE.as_bytes(), key, member]),
        }
        effects.add_changes(1);
    }
    let those = |what| {
        let found = members.iter().zip(&given).filter(move |(_, given)| **given == what);
        found.map(|(member, _)| member)
    };
    if let Some(event) = C::GIVEN.filter(|_| given.contains(&DeadlineEffect::Deadline)) {
        tx.member_event(C::CLASS, event, key, those(DeadlineEffect::Deadline));
    }
    if given.contains(&DeadlineEffect::Removal) {
        tx.member_event(C::CLASS, C::REMOVED, key, those(DeadlineEffect::Removal));
    }
    if outcome == ContainerOutcome::Removed {
        tx.event(EventClass::Generic, "del", key);
    }
    Ok(given)
}
