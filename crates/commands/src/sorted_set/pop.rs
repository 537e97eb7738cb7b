//! Taking out the members of least or greatest score: ZPOPMIN, ZPOPMAX, ZMPOP, and BZPOPMIN,
//! BZPOPMAX, BZMPOP, which wait for them.
//!
//! Invariant: the journal gets a command that names one key and never waits.

use std::ops::Range;

use base::number::{format_i64, parse_i64};
use keyspace::{BlockingKeys, Refusal, Tx};
use proto::{Args, Reply};
use structs::sorted_set::{ItemRef, SortedSet};

use super::{STEP_COST_NS, reply_header, reply_item, report_removal};
use crate::DataCommand;
use crate::arguments::is;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::{NO_KEYS, NOT_POSITIVE, NOTHING_TO_TAKE, SYNTAX};
use crate::keys::{Access, counted, first, range};
use crate::text::reply_member;
use crate::waiting::{ENDLESS, deadline, wait};

pub(super) const ZPOPMIN: DataCommand = Command {
    spec: Spec {
        name: "ZPOPMIN",
        since: "5.0.0",
        group: Group::SortedSet,
        syntax: "key [count]",
        summary: "Returns the lowest-scoring members from a sorted set after removing them. \
            Deletes the sorted set if the last member was popped.",
        complexity: "O(log(N)*M) with N being the number of elements in the sorted set, and M \
            being the number of elements popped.",
        arity: at_least(2),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::ACCESS).and(Access::DELETE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| pop(tx, args, reply, End::Least),
};

pub(super) const ZPOPMAX: DataCommand = Command {
    spec: Spec {
        name: "ZPOPMAX",
        since: "5.0.0",
        group: Group::SortedSet,
        syntax: "key [count]",
        summary: "Returns the highest-scoring members from a sorted set after removing them. \
            Deletes the sorted set if the last member was popped.",
        complexity: "O(log(N)*M) with N being the number of elements in the sorted set, and M \
            being the number of elements popped.",
        arity: at_least(2),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::ACCESS).and(Access::DELETE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| pop(tx, args, reply, End::Greatest),
};

fn pop(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>, end: End) -> Result<(), Refusal> {
    if args.len() > 3 {
        return Err(SYNTAX);
    }
    let key = &args[1];
    let Some(count) = args.get(2) else { return pop_one(tx, key, reply, end) };
    let count = parse_i64(count).and_then(|count| u64::try_from(count).ok());
    let taken = end.ranks(tx, key, count.ok_or(NOT_POSITIVE)?)?.unwrap_or(0..0);
    reply_header(taken.end - taken.start, true, reply);
    for_each(tx, key, taken.clone(), end, |item| reply_item(item, true, reply))?;
    end.take(tx, key, taken)
}

/// Takes one member with one look at the set.
fn pop_one(tx: &mut Tx, key: &[u8], reply: &mut Reply<'_>, end: End) -> Result<(), Refusal> {
    let (found, outcome) = tx.edit(key, |set: &mut SortedSet| {
        let rank = end.ranks_of(set.borrow().len(), 1).start;
        let Some(item) = set.borrow().at(rank) else { return false };
        reply.array(2);
        reply_member(item.member, reply);
        reply.double(item.score);
        set.remove_ranks(rank..rank + 1);
        true
    })?;
    if found {
        report_removal(tx, key, 1, end.event(), outcome);
    } else {
        reply.array(0);
    }
    Ok(())
}

pub(super) const BZPOPMIN: DataCommand = Command {
    spec: Spec {
        name: "BZPOPMIN",
        since: "5.0.0",
        group: Group::SortedSet,
        syntax: "key [key ...] timeout:double",
        summary: "Removes and returns the member with the lowest score from one or more sorted \
            sets. Blocks until a member is available otherwise. Deletes the sorted set if the \
            last element was popped.",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        arity: at_least(3),
        flags: Flags::WRITE.and(Flags::BLOCKING).and(Flags::FAST),
        keys: &[range(1, -2, 1, Access::RW.and(Access::ACCESS).and(Access::DELETE))],
        history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| pop_or_wait(tx, args, reply, End::Least),
};

pub(super) const BZPOPMAX: DataCommand = Command {
    spec: Spec {
        name: "BZPOPMAX",
        since: "5.0.0",
        group: Group::SortedSet,
        syntax: "key [key ...] timeout:double",
        summary: "Removes and returns the member with the highest score from one or more sorted \
            sets. Blocks until a member available otherwise. Deletes the sorted set if the last \
            element was popped.",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        arity: at_least(3),
        flags: Flags::WRITE.and(Flags::BLOCKING).and(Flags::FAST),
        keys: &[range(1, -2, 1, Access::RW.and(Access::ACCESS).and(Access::DELETE))],
        history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| pop_or_wait(tx, args, reply, End::Greatest),
};

fn pop_or_wait(
    tx: &mut Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    end: End,
) -> Result<(), Refusal> {
    let keys = args.slice(1..args.len() - 1);
    let deadline = deadline(&args[args.len() - 1], tx.now())?;
    for key in keys.iter() {
        let Some(taken) = end.ranks(tx, key, 1)? else { continue };
        reply.array(3);
        reply.bulk(key);
        for_each(tx, key, taken.clone(), end, |item| {
            reply_member(item.member, reply);
            reply.double(item.score);
        })?;
        end.take(tx, key, taken)?;
        tx.effects_mut().instead(&[end.command(), key]);
        return Ok(());
    }
    let own = keys.iter().map(|key| [key]);
    Err(wait(BlockingKeys::new([&args[0]], own, [ENDLESS]), deadline))
}

pub(super) const ZMPOP: DataCommand = Command {
    spec: Spec {
        name: "ZMPOP",
        since: "7.0.0",
        group: Group::SortedSet,
        syntax: "numkeys key [key ...] <MIN | MAX> [COUNT count]",
        summary: "Returns the highest- or lowest-scoring members from one or more sorted sets \
            after removing them. Deletes the sorted set if the last member was popped.",
        complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the \
            number of elements in the sorted set, and M being the number of elements popped.",
        arity: at_least(4),
        flags: Flags::WRITE.and(Flags::MOVABLEKEYS),
        keys: &[counted(1, 1, Access::RW.and(Access::ACCESS).and(Access::DELETE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: zmpop,
};

fn zmpop(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let request = PopRequest::parse(args, 1)?;
    if !request.pop_first(tx, reply)? {
        reply.null_array();
    }
    Ok(())
}

pub(super) const BZMPOP: DataCommand = Command {
    spec: Spec {
        name: "BZMPOP",
        since: "7.0.0",
        group: Group::SortedSet,
        syntax: "timeout:double numkeys key [key ...] <MIN | MAX> [COUNT count]",
        summary: "Removes and returns a member by score from one or more sorted sets. Blocks \
            until a member is available otherwise. Deletes the sorted set if the last element was \
            popped.",
        complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the \
            number of elements in the sorted set, and M being the number of elements popped.",
        arity: at_least(5),
        flags: Flags::WRITE.and(Flags::BLOCKING).and(Flags::MOVABLEKEYS),
        keys: &[counted(2, 1, Access::RW.and(Access::ACCESS).and(Access::DELETE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: bzmpop,
};

fn bzmpop(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let request = PopRequest::parse(args, 2)?;
    let deadline = deadline(&args[1], tx.now())?;
    if request.pop_first(tx, reply)? {
        return Ok(());
    }
    let own = request.keys.iter().map(|key| [key]);
    let awaited = BlockingKeys::new([&args[0], ENDLESS, b"1"], own, request.tail.iter());
    Err(wait(awaited, deadline))
}

/// What ZMPOP and BZMPOP ask for.
struct PopRequest<'a> {
    keys: Args<'a>,
    end: End,
    count: u64,
    /// What follows the keys.
    tail: Args<'a>,
}

impl<'a> PopRequest<'a> {
    /// Reads the request from its number of keys on, which stands at an index.
    fn parse(args: Args<'a>, index: usize) -> Result<Self, Refusal> {
        let keys_end = positive(&args[index], NO_KEYS)?.saturating_add(index as u64 + 1);
        let keys_end = usize::try_from(keys_end).ok().filter(|end| *end < args.len());
        let keys_end = keys_end.ok_or(SYNTAX)?;
        let end = match &args[keys_end] {
            word if is(word, "MIN") => End::Least,
            word if is(word, "MAX") => End::Greatest,
            _ => return Err(SYNTAX),
        };
        let tail = args.skip(keys_end);
        let count = match tail.len() {
            1 => 1,
            3.. if is(&tail[1], "COUNT") => positive(&tail[2], NOTHING_TO_TAKE)?,
            _ => return Err(SYNTAX),
        };
        if tail.len() > 3 {
            return Err(SYNTAX);
        }
        Ok(Self { keys: args.slice(index + 1..keys_end), end, count, tail })
    }

    /// Pops from the first key that has something; whether one had.
    fn pop_first(&self, tx: &mut Tx, reply: &mut Reply<'_>) -> Result<bool, Refusal> {
        for key in self.keys.iter() {
            let Some(taken) = self.end.ranks(tx, key, self.count)? else { continue };
            let count = taken.end - taken.start;
            reply.array(2);
            reply.bulk(key);
            reply.array(count as usize);
            for_each(tx, key, taken.clone(), self.end, |item| {
                reply.array(2);
                reply_member(item.member, reply);
                reply.double(item.score);
            })?;
            self.end.take(tx, key, taken)?;
            let mut digits = [0; 20];
            let count = format_i64(count as i64, &mut digits);
            tx.effects_mut().instead(&[self.end.command(), key, count]);
            return Ok(true);
        }
        Ok(false)
    }
}

fn positive(word: &[u8], refusal: Refusal) -> Result<u64, Refusal> {
    let number = parse_i64(word).and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or(refusal)
}

/// Tells members from the end that they are to be taken from.
fn for_each(
    tx: &Tx,
    key: &[u8],
    ranks: Range<u64>,
    end: End,
    take: impl FnMut(ItemRef<'_>),
) -> Result<(), Refusal> {
    let Some(set) = tx.peek_view::<SortedSet>(key)? else { return Ok(()) };
    match end {
        End::Least => set.items(ranks).for_each(take),
        End::Greatest => set.items_back(ranks).for_each(take),
    }
    Ok(())
}

/// Where members are taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Least,
    Greatest,
}

impl End {
    /// The command that takes them out of one key.
    fn command(self) -> &'static [u8] {
        match self {
            Self::Least => b"ZPOPMIN",
            Self::Greatest => b"ZPOPMAX",
        }
    }

    /// The ranks of so many members at this end, as far as there are; `None` without a set.
    fn ranks(self, tx: &Tx, key: &[u8], count: u64) -> Result<Option<Range<u64>>, Refusal> {
        let Some(set) = tx.peek_view::<SortedSet>(key)? else { return Ok(None) };
        let len = set.len();
        let ranks = self.ranks_of(len, count);
        tx.charge((ranks.end - ranks.start) * 2 * STEP_COST_NS)?;
        Ok(Some(ranks))
    }

    /// The ranks of so many of `len` members at this end, as far as there are.
    fn ranks_of(self, len: u64, count: u64) -> Range<u64> {
        let count = count.min(len);
        match self {
            Self::Least => 0..count,
            Self::Greatest => len - count..len,
        }
    }

    /// What is said of members that are taken out.
    fn event(self) -> &'static str {
        match self {
            Self::Least => "zpopmin",
            Self::Greatest => "zpopmax",
        }
    }

    /// Takes members out.
    fn take(self, tx: &mut Tx, key: &[u8], ranks: Range<u64>) -> Result<(), Refusal> {
        let count = ranks.end - ranks.start;
        if count == 0 {
            return Ok(());
        }
        let ((), outcome) = tx.edit(key, |set: &mut SortedSet| set.remove_ranks(ranks))?;
        report_removal(tx, key, count, self.event(), outcome);
        Ok(())
    }
}
