//! Going over fields in steps: HSCAN.
//!
//! Invariant: a field that is there from the first call of a scan to the last is told at least
//! once, whatever comes and goes meanwhile.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::hash::Hash;

use super::{charge, is_live};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::SYNTAX;
use crate::generic::scan::parse_cursor;
use crate::keys::{Access, first};
use crate::text::reply_member;

const DEFAULT_COUNT: usize = 10;

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
    let filter = Filter::parse(args)?;
    charge(tx, filter.count.min(hash.len() as usize))?;
    let (next, mut fields) = hash.scan(cursor, filter.count);
    let (now, mut buffer) = (tx.now(), Vec::new());
    fields.retain(|field| is_live(field, now) && filter.admits(field.member.as_bytes(&mut buffer)));
    reply.array(2);
    reply.bulk_integer(next as i64);
    reply.array(fields.len() * if filter.with_values { 2 } else { 1 });
    for field in fields {
        reply_member(field.member, reply);
        if filter.with_values {
            reply_member(field.value, reply);
        }
    }
    Ok(())
}

/// What a scan looks for.
struct Filter<'a> {
    pattern: Option<&'a [u8]>,
    count: usize,
    with_values: bool,
}

impl<'a> Filter<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Refusal> {
        let mut filter = Self { pattern: None, count: DEFAULT_COUNT, with_values: true };
        let mut options = Options::from(args, 3);
        while let Some(word) = options.word() {
            if is(word, "MATCH") {
                filter.pattern = Some(options.value()?).filter(|pattern| *pattern != b"*");
            } else if is(word, "COUNT") {
                let count = usize::try_from(options.integer()?).ok();
                filter.count = count.filter(|count| *count > 0).ok_or(SYNTAX)?;
            } else if is(word, "NOVALUES") {
                filter.with_values = false;
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(filter)
    }

    fn admits(&self, field: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| base::glob::matches(pattern, field, false))
    }
}
