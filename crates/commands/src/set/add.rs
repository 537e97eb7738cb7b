//! Adding members: SADD, and SADDEX (Dragonfly) with a time to live.
//!
//! Invariant: a member that is there keeps its deadline when SADD names it; SADDEX journals
//! absolute times.

use base::number::format_i64;
use base::time::UnixMillis;
use keyspace::{ContainerOutcome, Refusal, Tx};
use proto::{Args, Reply};
use structs::members::Text;
use structs::set::Set;

use super::{CHANGED_NS, expect_members, limits, notify_changed};
use crate::DataCommand;
use crate::arguments::{integer, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::{invalid_expire, wrong_arity};
use crate::keys::{Access, first};

pub(super) const SADD: DataCommand = Command {
    spec: Spec {
        name: "SADD",
        since: "1.0.0",
        group: Group::Set,
        syntax: "key member [member ...]",
        summary: "Adds one or more members to a set. Creates the key if it doesn't exist.",
        complexity: "O(1) for each element added, so O(N) to add N elements when the command is \
                     called with multiple arguments.",
        arity: at_least(3),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::INSERT))],
        history: &[("2.4.0", "Accepts multiple `member` arguments.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: sadd,
};

fn sadd(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, members) = (&args[1], args.skip(2));
    tx.charge(members.len() as u64 * CHANGED_NS)?;
    let limits = limits(tx);
    let (added, outcome) = tx.edit(key, |set: &mut Set| {
        expect_members(set, &members[0], members.len(), &limits);
        members.iter().filter(|member| set.insert(Text::Bytes(member), &limits)).count()
    })?;
    if added > 0 {
        notify_changed(tx, key, "sadd", added as u64, outcome);
    }
    reply.integer(added as i64);
    Ok(())
}

pub(super) const SADDEX: DataCommand = Command {
    spec: Spec {
        name: "SADDEX",
        since: "0.9.0",
        group: Group::Set,
        syntax: "key [KEEPTTL] seconds member [member ...]",
        summary: "Adds one or more members that expire after a number of seconds to a set. \
                  Creates the key if it doesn't exist.",
        complexity: "O(1) for each element added, so O(N) to add N elements when the command is \
                     called with multiple arguments.",
        arity: at_least(4),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::INSERT))],
        origin: "dragonfly",
        ..Spec::BASE
    },
    subcommands: &[],
    run: saddex,
};

/// Dragonfly's page on SADDEX: members that are there get the new time to live, but for KEEPTTL.
fn saddex(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    let keeps = is(&args[2], "KEEPTTL");
    let time = 2 + usize::from(keeps);
    if args.len() < time + 2 {
        return Err(wrong_arity("saddex"));
    }
    let seconds = integer(args, time)?;
    let deadline = seconds.checked_mul(1000).and_then(|millis| tx.now().checked_add(millis));
    let deadline = deadline.filter(|_| seconds > 0).ok_or_else(|| invalid_expire("saddex"))?;
    let members = args.skip(time + 1);
    tx.charge(members.len() as u64 * CHANGED_NS)?;
    let ((touched, added), _) = tx.edit(key, |set: &mut Set| {
        let (mut touched, mut added) = (Vec::new(), 0);
        for member in members.iter() {
            if !keeps || !set.borrow().contains(Text::Bytes(member)) {
                added += u64::from(set.insert_until(Text::Bytes(member), deadline));
                touched.push(member);
            }
        }
        (touched, added)
    })?;
    if !touched.is_empty() {
        journal_timed(tx, key, &touched, deadline);
        tx.effects_mut().add_changes(touched.len() as u64 - added);
    }
    if added > 0 {
        notify_changed(tx, key, "sadd", added, ContainerOutcome::Kept);
    }
    reply.integer(added as i64);
    Ok(())
}

/// Journals members that were added, or there before, with a deadline.
fn journal_timed(tx: &mut Tx, key: &[u8], members: &[&[u8]], deadline: UnixMillis) {
    let mut digits = [0; 20];
    let at: &[u8] = format_i64(deadline, &mut digits);
    let effects = tx.effects_mut();
    effects.instead(&[&[b"SADD", key], members].concat());
    for member in members {
        effects.instead(&[b"PEXPIREMEMBERAT", key, member, at]);
    }
}
