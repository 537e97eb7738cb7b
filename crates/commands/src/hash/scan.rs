//! Going over fields in steps: HSCAN.
//!
//! Invariant: a field that is there from the first call of a scan to the last is told at least
//! once, whatever comes and goes meanwhile.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::hash::Hash;

use super::{charge, is_live};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::generic::scan::parse_cursor;
use crate::keys::{Access, first};
use crate::member_scan::MemberFilter;
use crate::text::reply_member;

pub(super) const HSCAN: DataCommand = Command {
    spec: Spec {
        name: "HSCAN",
        since: "2.8.0",
        group: Group::Hash,
        syntax: "key cursor [MATCH pattern] [COUNT count] [NOVALUES]",
        summary: "Iterates over fields and values of a hash.",
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
    run: hscan,
};

fn hscan(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let cursor = parse_cursor(&args[2])?;
    let Some(hash) = tx.view::<Hash>(&args[1])? else {
        reply.array(2);
        reply.bulk_integer(0);
        reply.array(0);
        return Ok(());
    };
    let filter = MemberFilter::parse(args, Some("NOVALUES"))?;
    filter.charge(tx)?;
    charge(tx, filter.count.min(hash.len() as usize))?;
    let (now, mut buffer) = (tx.expired_until(), Vec::new());
    let (mark, mut count) = (reply.defer(), 0);
    let next = filter.go_over(cursor, |cursor, most| {
        let (next, fields) = hash.scan(cursor, most);
        let met = fields.len();
        for field in fields {
            if !is_live(&field, now) || !filter.admits(field.member.as_bytes(&mut buffer)) {
                continue;
            }
            reply_member(field.member, reply);
            if !filter.is_bare {
                reply_member(field.value, reply);
            }
            count += if filter.is_bare { 1 } else { 2 };
        }
        (next, met)
    });
    reply.finish_scan(mark, next, count);
    Ok(())
}
