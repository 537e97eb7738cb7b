//! Removing members: SREM.
//!
//! Invariant: the last member takes the key with it.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::members::Text;
use structs::set::Set;

use super::{CHANGED_NS, notify_changed};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::keys::{Access, first};

pub(super) const SREM: DataCommand = Command {
    spec: Spec {
        name: "SREM",
        since: "1.0.0",
        group: Group::Set,
        syntax: "key member [member ...]",
        summary: "Removes one or more members from a set. Deletes the set if the last member was \
                  removed.",
        complexity: "O(N) where N is the number of members to be removed.",
        arity: at_least(3),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::DELETE))],
        history: &[("2.4.0", "Accepts multiple `member` arguments.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: srem,
};

fn srem(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, members) = (&args[1], args.skip(2));
    tx.charge(members.len() as u64 * CHANGED_NS)?;
    let (removed, outcome) = tx.edit(key, |set: &mut Set| {
        members.iter().filter(|member| set.remove(Text::Bytes(member))).count()
    })?;
    if removed > 0 {
        notify_changed(tx, key, "srem", removed as u64, outcome);
    }
    reply.integer(removed as i64);
    Ok(())
}
