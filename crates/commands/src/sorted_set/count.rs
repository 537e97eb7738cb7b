//! How many members there are: ZCARD, ZCOUNT, ZLEXCOUNT.
//!
//! Invariant: nothing is counted one by one.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::sorted_set::SortedSet;

use super::range_spec::{By, RangeSpec, Spelling};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, exactly};
use crate::keys::{Access, first};

pub(super) const ZCARD: DataCommand = Command {
    spec: Spec {
        name: "ZCARD",
        since: "1.2.0",
        group: Group::SortedSet,
        syntax: "key",
        summary: "Returns the number of members in a sorted set.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO)],
        ..Spec::BASE
    },
    subcommands: &[],
    run: zcard,
};

fn zcard(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let set = tx.view::<SortedSet>(&args[1])?;
    reply.integer(set.map_or(0, |set| set.len() as i64));
    Ok(())
}

pub(super) const ZCOUNT: DataCommand = Command {
    spec: Spec {
        name: "ZCOUNT",
        since: "2.0.0",
        group: Group::SortedSet,
        syntax: "key min:double max:double",
        summary: "Returns the count of members in a sorted set that have scores within a range.",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        arity: exactly(4),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| count(tx, args, reply, By::Score),
};

pub(super) const ZLEXCOUNT: DataCommand = Command {
    spec: Spec {
        name: "ZLEXCOUNT",
        since: "2.8.9",
        group: Group::SortedSet,
        syntax: "key min max",
        summary: "Returns the number of members in a sorted set within a lexicographical range.",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        arity: exactly(4),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| count(tx, args, reply, By::Member),
};

fn count(tx: &Tx, args: Args<'_>, reply: &mut Reply<'_>, by: By) -> Result<(), Refusal> {
    let spec = RangeSpec::parse(by, &args[2], &args[3], Spelling::Present)?;
    let ranks = tx.view::<SortedSet>(&args[1])?.map(|set| spec.ranks(set, false));
    reply.integer(ranks.map_or(0, |ranks| (ranks.end - ranks.start) as i64));
    Ok(())
}
