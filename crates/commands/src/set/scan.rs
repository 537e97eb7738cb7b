//! Members in steps: SSCAN.
//!
//! Invariant: a scan that goes on until the cursor 0 tells every member that was there all the
//! time.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::set::Set;

use super::PASSED_NS;
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::generic::scan::parse_cursor;
use crate::keys::{Access, first};
use crate::member_scan::MemberFilter;
use crate::text::reply_member;

pub(super) const SSCAN: DataCommand = Command {
    spec: Spec {
        name: "SSCAN",
        since: "2.8.0",
        group: Group::Set,
        syntax: "key cursor [MATCH pattern] [COUNT count]",
        summary: "Iterates over members of a set.",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command \
                     calls for the cursor to return back to 0. N is the number of elements inside \
                     the collection.",
        arity: at_least(3),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        tips: &["nondeterministic_output"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: sscan,
};

fn sscan(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let cursor = parse_cursor(&args[2])?;
    let (mark, mut count) = (reply.defer(), 0);
    // Without a set the options are not looked at.
    let Some(set) = tx.view::<Set>(&args[1])? else {
        reply.finish_scan(mark, 0, 0);
        return Ok(());
    };
    let filter = MemberFilter::parse(args, None)?;
    filter.charge(tx)?;
    tx.charge((filter.count as u64).min(set.len()) * PASSED_NS)?;
    let (now, mut buffer) = (tx.expired_until(), Vec::new());
    let next = filter.go_over(cursor, |cursor, most| {
        let (next, members) = set.scan(cursor, most);
        for member in &members {
            if member.is_alive(now) && filter.admits(member.member.as_bytes(&mut buffer)) {
                reply_member(member.member, reply);
                count += 1;
            }
        }
        (next, members.len())
    });
    reply.finish_scan(mark, next, count);
    Ok(())
}
