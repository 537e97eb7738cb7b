//! A member from one set to another: SMOVE.
//!
//! Invariant: the member takes its deadline along, unless the other set has the member already.

use keyspace::{ContainerOutcome, Refusal, Tx};
use proto::{Args, Reply};
use structs::members::Text;
use structs::set::Set;

use super::{expect_members, limits, notify_changed};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, exactly};
use crate::keys::{Access, at, first};

pub(super) const SMOVE: DataCommand = Command {
    spec: Spec {
        name: "SMOVE",
        since: "1.0.0",
        group: Group::Set,
        syntax: "source destination member",
        summary: "Moves a member from one set to another.",
        complexity: "O(1)",
        arity: exactly(4),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[
            first(Access::RW.and(Access::ACCESS).and(Access::DELETE)),
            at(2, Access::RW.and(Access::INSERT)),
        ],
        ..Spec::BASE
    },
    subcommands: &[],
    run: smove,
};

fn smove(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (source, destination, member) = (&args[1], &args[2], Text::Bytes(&args[3]));
    let Some(set) = tx.peek_view::<Set>(source)? else {
        reply.integer(0);
        return Ok(());
    };
    let found = set.get(member).filter(|found| found.is_alive(tx.expired_until()));
    let there = tx.peek_view::<Set>(destination)?.and_then(|set| set.get(member));
    let is_there = there.is_some_and(|found| found.is_alive(tx.expired_until()));
    reply.integer(i64::from(found.is_some()));
    let Some(found) = found.filter(|_| source != destination) else { return Ok(()) };
    let (deadline, limits) = (found.deadline, limits(tx));
    let (_, outcome) = tx.edit(source, |set: &mut Set| set.remove(member))?;
    notify_changed(tx, source, "srem", 1, outcome);
    // A member that is there already changes nothing for clients that watch.
    if is_there {
        return Ok(());
    }
    let (added, _) = tx.edit(destination, |set: &mut Set| match deadline {
        _ if set.borrow().contains(member) => false,
        Some(deadline) => set.insert_until(member, deadline),
        None => {
            expect_members(set, &args[3], 1, &limits);
            set.insert(member, &limits)
        }
    })?;
    if added {
        notify_changed(tx, destination, "sadd", 1, ContainerOutcome::Kept);
    }
    Ok(())
}
