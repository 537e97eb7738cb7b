//! Going over members in steps: ZSCAN.
//!
//! Invariant: a member that is there from the first call of a scan to the last is told at least
//! once, whatever scores change meanwhile.

use base::number::{format_f64, format_f64_long};
use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::sorted_set::{ItemRef, SortedSet};

use super::SEARCH_COST_NS;
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::generic::scan::parse_cursor;
use crate::keys::{Access, first};
use crate::member_scan::MemberFilter;
use crate::text::reply_member;

pub(super) const ZSCAN: DataCommand = Command {
    spec: Spec {
        name: "ZSCAN",
        since: "2.8.0",
        group: Group::SortedSet,
        syntax: "key cursor [MATCH pattern] [COUNT count] [NOSCORES]",
        summary: "Iterates over members and scores of a sorted set.",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command \
            calls for the cursor to return back to 0. N is the number of elements inside the \
            collection.",
        arity: at_least(3),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        tips: &["nondeterministic_output"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: zscan,
};

fn zscan(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let cursor = parse_cursor(&args[2])?;
    let Some(set) = tx.view::<SortedSet>(&args[1])? else {
        reply.array(2);
        reply.bulk_integer(0);
        reply.array(0);
        return Ok(());
    };
    let filter = MemberFilter::parse(args, Some("NOSCORES"))?;
    filter.charge(tx)?;
    tx.charge((filter.count as u64).min(set.len()) * SEARCH_COST_NS)?;
    // Redis writes the scores of a table with all their digits.
    let write = if set.encoding() == "skiplist" { format_f64_long } else { format_f64 };
    let (mark, mut count, mut buffer) = (reply.defer(), 0, Vec::new());
    let mut tell = |item: ItemRef<'_>| {
        if !filter.admits(item.member.as_bytes(&mut buffer)) {
            return;
        }
        reply_member(item.member, reply);
        if !filter.is_bare {
            reply.bulk(&write(item.score));
        }
        count += if filter.is_bare { 1 } else { 2 };
    };
    let next = if cursor == 0 && filter.count as u64 >= set.len() {
        // No client is to go on: the order of the scores is as good, and costs no search for each.
        set.items(0..set.len()).for_each(tell);
        0
    } else {
        filter.go_over(cursor, |cursor, most| {
            let (next, items) = set.scan(cursor, most);
            let met = items.len();
            items.into_iter().for_each(&mut tell);
            (next, met)
        })
    };
    reply.finish_scan(mark, next, count);
    Ok(())
}
