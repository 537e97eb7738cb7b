//! Taking members out: ZREM, ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX.
//!
//! Invariant: a set that loses its last member is gone.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::sorted_set::SortedSet;

use super::range_spec::{By, RangeSpec, Spelling};
use super::{SEARCH_COST_NS, STEP_COST_NS, report_removal};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::keys::{Access, first};

pub(super) const ZREM: DataCommand = Command {
    spec: Spec {
        name: "ZREM",
        since: "1.2.0",
        group: Group::SortedSet,
        syntax: "key member [member ...]",
        summary: "Removes one or more members from a sorted set. Deletes the sorted set if all \
            members were removed.",
        complexity: "O(M*log(N)) with N being the number of elements in the sorted set and M the \
            number of elements to be removed.",
        arity: at_least(3),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::DELETE))],
        history: &[("2.4.0", "Accepts multiple elements.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: zrem,
};

fn zrem(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, members) = (&args[1], args.skip(2));
    tx.charge(members.len() as u64 * SEARCH_COST_NS)?;
    let (removed, outcome) = tx.edit(key, |set: &mut SortedSet| {
        members.iter().filter(|member| set.remove(member).is_some()).count() as u64
    })?;
    report_removal(tx, key, removed, "zrem", outcome);
    reply.integer(removed as i64);
    Ok(())
}

pub(super) const ZREMRANGEBYRANK: DataCommand = Command {
    spec: Spec {
        name: "ZREMRANGEBYRANK",
        since: "2.0.0",
        group: Group::SortedSet,
        syntax: "key start stop",
        summary: "Removes members in a sorted set within a range of indexes. Deletes the sorted \
            set if all members were removed.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements removed by the operation.",
        arity: exactly(4),
        flags: Flags::WRITE,
        keys: &[first(Access::RW.and(Access::DELETE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| remove(tx, args, reply, By::Rank, "zremrangebyrank"),
};

pub(super) const ZREMRANGEBYSCORE: DataCommand = Command {
    spec: Spec {
        name: "ZREMRANGEBYSCORE",
        since: "1.2.0",
        group: Group::SortedSet,
        syntax: "key min:double max:double",
        summary: "Removes members in a sorted set within a range of scores. Deletes the sorted \
            set if all members were removed.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements removed by the operation.",
        arity: exactly(4),
        flags: Flags::WRITE,
        keys: &[first(Access::RW.and(Access::DELETE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| remove(tx, args, reply, By::Score, "zremrangebyscore"),
};

pub(super) const ZREMRANGEBYLEX: DataCommand = Command {
    spec: Spec {
        name: "ZREMRANGEBYLEX",
        since: "2.8.9",
        group: Group::SortedSet,
        syntax: "key min max",
        summary: "Removes members in a sorted set within a lexicographical range. Deletes the \
            sorted set if all members were removed.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements removed by the operation.",
        arity: exactly(4),
        flags: Flags::WRITE,
        keys: &[first(Access::RW.and(Access::DELETE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| remove(tx, args, reply, By::Member, "zremrangebylex"),
};

fn remove(
    tx: &mut Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    by: By,
    event: &'static str,
) -> Result<(), Refusal> {
    let key = &args[1];
    let spec = RangeSpec::parse(by, &args[2], &args[3], Spelling::of(tx))?;
    let ranks = tx.peek_view::<SortedSet>(key)?.map(|set| spec.ranks(set, false));
    let ranks = ranks.unwrap_or(0..0);
    let count = ranks.end - ranks.start;
    if count > 0 {
        tx.charge(count * STEP_COST_NS)?;
        let ((), outcome) = tx.edit(key, |set: &mut SortedSet| set.remove_ranks(ranks))?;
        report_removal(tx, key, count, event, outcome);
    }
    reply.integer(count as i64);
    Ok(())
}
