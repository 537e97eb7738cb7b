//! Taking elements from an end: LPOP, RPOP, LMPOP.
//!
//! Invariant: what was taken is replied in the order it was taken in, and is journalled with its
//! number, so that a list that was longer or shorter elsewhere loses the same elements.

use base::number::{format_i64, parse_i64, parse_u64};
use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::list::{List, Side};

use super::{HANDLED_NS, limits, notify_popped, outermost, peek_len, pop_into_reply, side};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::{NO_KEYS, NOT_POSITIVE, NOTHING_TO_TAKE, SYNTAX, wrong_arity};
use crate::keys::{Access, counted, first};
use crate::text::reply_member;

/// What both have in common.
const POP: Spec = Spec {
    since: "1.0.0",
    group: Group::List,
    syntax: "key [count]",
    complexity: "O(N) where N is the number of elements returned",
    arity: at_least(2),
    flags: Flags::WRITE.and(Flags::FAST),
    keys: &[first(Access::RW.and(Access::ACCESS).and(Access::DELETE))],
    history: &[("6.2.0", "Added the `count` argument.")],
    ..Spec::BASE
};

pub(super) const LPOP: DataCommand = Command {
    spec: Spec {
        name: "LPOP",
        summary: "Returns the first elements in a list after removing it. Deletes the list if the \
                  last element was popped.",
        ..POP
    },
    subcommands: &[],
    run: |tx, args, reply| pop(tx, args, Side::Left, reply),
};

pub(super) const RPOP: DataCommand = Command {
    spec: Spec {
        name: "RPOP",
        summary: "Returns and removes the last elements of a list. Deletes the list if the last \
                  element was popped.",
        ..POP
    },
    subcommands: &[],
    run: |tx, args, reply| pop(tx, args, Side::Right, reply),
};

fn pop(tx: &mut Tx, args: Args<'_>, side: Side, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    let Some(count) = args.get(2) else { return pop_one(tx, key, side, reply) };
    if args.len() > 3 {
        return Err(wrong_arity(if side == Side::Left { "lpop" } else { "rpop" }));
    }
    let count = parse_u64(count).filter(|count| i64::try_from(*count).is_ok());
    let count = count.ok_or(NOT_POSITIVE)?;
    let Some(len) = peek_len(tx, key)? else {
        reply.null_array();
        return Ok(());
    };
    let count = count.min(len);
    tx.charge(count * HANDLED_NS)?;
    reply.array(count as usize);
    if count > 0 { pop_into_reply(tx, key, side, count, reply) } else { Ok(()) }
}

/// Takes one element with one look at the list.
fn pop_one(tx: &mut Tx, key: &[u8], side: Side, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let limits = limits(tx);
    let (found, outcome) = tx.edit::<List, _>(key, |list| {
        let view = list.borrow();
        let indexes = outermost(view.len(), view.len().min(1), side);
        let Some(text) = view.get(indexes.start) else { return false };
        reply_member(text, reply);
        list.remove(indexes);
        list.shrink(&limits);
        true
    })?;
    if found {
        notify_popped(tx, key, side, 1, outcome);
    } else {
        reply.null();
    }
    Ok(())
}

pub(super) const LMPOP: DataCommand = Command {
    spec: Spec {
        name: "LMPOP",
        since: "7.0.0",
        group: Group::List,
        syntax: "numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
        summary: "Returns multiple elements from a list after removing them. Deletes the list if \
                  the last element was popped.",
        complexity: "O(N+M) where N is the number of provided keys and M is the number of elements \
                     returned.",
        arity: at_least(4),
        flags: Flags::WRITE.and(Flags::MOVABLEKEYS),
        keys: &[counted(1, 1, Access::RW.and(Access::ACCESS).and(Access::DELETE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: lmpop,
};

fn lmpop(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let request = MultiPop::read(args, 1)?;
    if !request.run(tx, reply)? {
        reply.null_array();
    }
    Ok(())
}

/// What LMPOP and BLMPOP ask for.
pub(super) struct MultiPop<'a> {
    pub(super) keys: Args<'a>,
    pub(super) side: Side,
    pub(super) count: u64,
}

impl<'a> MultiPop<'a> {
    /// Reads the arguments from the number of keys on, at an index.
    pub(super) fn read(args: Args<'a>, numkeys: usize) -> Result<Self, Refusal> {
        let number = parse_i64(&args[numkeys]).and_then(|number| usize::try_from(number).ok());
        let number = number.filter(|&number| number > 0).ok_or(NO_KEYS)?;
        let end = (numkeys + 1).checked_add(number).filter(|&end| end < args.len());
        let end = end.ok_or(SYNTAX)?;
        let side = side(&args[end])?;
        let mut count = None;
        let mut options = Options::from(args, end + 1);
        while let Some(word) = options.word() {
            if count.is_some() || !is(word, "COUNT") {
                return Err(SYNTAX);
            }
            count = Some(positive(options.value()?).ok_or(NOTHING_TO_TAKE)?);
        }
        Ok(Self { keys: args.slice(numkeys + 1..end), side, count: count.unwrap_or(1) })
    }

    /// Takes elements from the first list that is there; `false`, and no reply, if none is.
    pub(super) fn run(&self, tx: &mut Tx, reply: &mut Reply<'_>) -> Result<bool, Refusal> {
        for key in self.keys.iter() {
            let Some(len) = peek_len(tx, key)? else { continue };
            let count = self.count.min(len);
            tx.charge(count * HANDLED_NS)?;
            reply.array(2);
            reply.bulk(key);
            reply.array(count as usize);
            pop_into_reply(tx, key, self.side, count, reply)?;
            journal_pop(tx, key, self.side, Some(count));
            return Ok(true);
        }
        Ok(false)
    }
}

/// Journals that elements were taken, with their number if there may be several.
pub(super) fn journal_pop(tx: &mut Tx, key: &[u8], side: Side, count: Option<u64>) {
    let name: &[u8] = if side == Side::Left { b"LPOP" } else { b"RPOP" };
    match count {
        Some(count) => {
            let mut digits = [0; 20];
            tx.effects_mut().instead(&[name, key, format_i64(count as i64, &mut digits)]);
        }
        None => tx.effects_mut().instead(&[name, key]),
    }
}

/// An argument as a number above 0.
pub(super) fn positive(argument: &[u8]) -> Option<u64> {
    parse_i64(argument).and_then(|number| u64::try_from(number).ok()).filter(|&number| number > 0)
}
