//! Removing elements without a reply of them: LREM, LTRIM.
//!
//! Invariant: a change is an element that went.

use keyspace::{EventClass, Refusal, Tx};
use proto::{Args, Reply};
use structs::list::{List, Side};

use super::{charge_search, clip, limits, needle, notify_gone, peek_len, symmetric};
use crate::DataCommand;
use crate::arguments::integer;
use crate::declare::{Command, Flags, Group, Spec, exactly};
use crate::keys::{Access, first};

/// Elements that are freed in a nanosecond, as pages.
const FREED_PER_NS: u64 = 2;

pub(super) const LREM: DataCommand = Command {
    spec: Spec {
        name: "LREM",
        since: "1.0.0",
        group: Group::List,
        syntax: "key count element",
        summary: "Removes elements from a list. Deletes the list if the last element was removed.",
        complexity: "O(N+M) where N is the length of the list and M is the number of elements \
                     removed.",
        arity: exactly(4),
        flags: Flags::WRITE,
        keys: &[first(Access::RW.and(Access::DELETE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: lrem,
};

fn lrem(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, count, element) = (&args[1], symmetric(&args[2])?, needle(&args[3]));
    let side = if count < 0 { Side::Right } else { Side::Left };
    let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    charge_search(tx, key, args[3].len())?;
    let limits = limits(tx);
    let (removed, outcome) = tx.edit::<List, _>(key, |list| {
        let removed = list.remove_equal(element, most, side);
        if removed > 0 {
            list.shrink(&limits);
        }
        removed
    })?;
    if removed > 0 {
        tx.event(EventClass::List, "lrem", key);
        notify_gone(tx, key, outcome);
        tx.effects_mut().add_changes(removed);
    }
    reply.integer(removed as i64);
    Ok(())
}

pub(super) const LTRIM: DataCommand = Command {
    spec: Spec {
        name: "LTRIM",
        since: "1.0.0",
        group: Group::List,
        syntax: "key start stop",
        summary: "Removes elements from both ends a list. Deletes the list if all elements were \
                  trimmed.",
        complexity: "O(N) where N is the number of elements to be removed by the operation.",
        arity: exactly(4),
        flags: Flags::WRITE,
        keys: &[first(Access::RW.and(Access::DELETE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: ltrim,
};

fn ltrim(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, start, stop) = (&args[1], integer(args, 2)?, integer(args, 3)?);
    if let Some(len) = peek_len(tx, key)? {
        let kept = clip(start, stop, len);
        let removed = len - (kept.end - kept.start);
        tx.charge(removed / FREED_PER_NS)?;
        let limits = limits(tx);
        let ((), outcome) = tx.edit::<List, _>(key, |list| {
            list.remove(kept.end..len);
            list.remove(0..kept.start);
            list.shrink(&limits);
        })?;
        // Redis tells of it even where nothing went, and breaks watches; Valkey 9 does not.
        tx.keep_modified();
        tx.event(EventClass::List, "ltrim", key);
        notify_gone(tx, key, outcome);
        tx.effects_mut().add_changes(removed);
    }
    reply.ok();
    Ok(())
}
