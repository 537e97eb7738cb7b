//! Ranges: ZRANGE, ZRANGESTORE, and the older commands that ZRANGE has replaced.
//!
//! Invariant: one parser reads the options of all of them; what a command's name says already is
//! no option of it.

use std::ops::Range;

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::sorted_set::{ItemRef, SortedSet, SortedSetRef};

use super::range_spec::{By, Limit, RangeSpec, Spelling};
use super::{SEARCH_COST_NS, STEP_COST_NS, limits, reply_header, reply_item, store};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::SYNTAX;
use crate::keys::{Access, at, first};
use crate::long_reply::{is_long, reply_in_pieces};

pub(super) const ZRANGE: DataCommand = Command {
    spec: Spec {
        name: "ZRANGE",
        since: "1.2.0",
        group: Group::SortedSet,
        syntax: "key start:string stop:string [BYSCORE | BYLEX] [REV] [LIMIT offset count] \
                 [WITHSCORES]",
        summary: "Returns members in a sorted set within a range of indexes.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements returned.",
        arity: at_least(4),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        history: &[("6.2.0", "Added the `REV`, `BYSCORE`, `BYLEX` and `LIMIT` options.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| range(tx, args, reply, None, None),
};

pub(super) const ZREVRANGE: DataCommand = Command {
    spec: Spec {
        name: "ZREVRANGE",
        since: "1.2.0",
        group: Group::SortedSet,
        syntax: "key start stop [WITHSCORES]",
        summary: "Returns members in a sorted set within a range of indexes in reverse order.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements returned.",
        arity: at_least(4),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        deprecated: Some(("6.2.0", "`ZRANGE` with the `REV` argument")),
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| range(tx, args, reply, Some(By::Rank), Some(true)),
};

pub(super) const ZRANGEBYSCORE: DataCommand = Command {
    spec: Spec {
        name: "ZRANGEBYSCORE",
        since: "1.0.5",
        group: Group::SortedSet,
        syntax: "key min:double max:double [WITHSCORES] [LIMIT offset count]",
        summary: "Returns members in a sorted set within a range of scores.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements being returned. If M is constant (e.g. always asking for the first \
            10 elements with LIMIT), you can consider it O(log(N)).",
        arity: at_least(4),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        history: &[("2.0.0", "Added the `WITHSCORES` modifier.")],
        deprecated: Some(("6.2.0", "`ZRANGE` with the `BYSCORE` argument")),
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| range(tx, args, reply, Some(By::Score), Some(false)),
};

pub(super) const ZREVRANGEBYSCORE: DataCommand = Command {
    spec: Spec {
        name: "ZREVRANGEBYSCORE",
        since: "2.2.0",
        group: Group::SortedSet,
        syntax: "key max:double min:double [WITHSCORES] [LIMIT offset count]",
        summary: "Returns members in a sorted set within a range of scores in reverse order.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements being returned. If M is constant (e.g. always asking for the first \
            10 elements with LIMIT), you can consider it O(log(N)).",
        arity: at_least(4),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        history: &[("2.1.6", "`min` and `max` can be exclusive.")],
        deprecated: Some(("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments")),
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| range(tx, args, reply, Some(By::Score), Some(true)),
};

pub(super) const ZRANGEBYLEX: DataCommand = Command {
    spec: Spec {
        name: "ZRANGEBYLEX",
        since: "2.8.9",
        group: Group::SortedSet,
        syntax: "key min max [LIMIT offset count]",
        summary: "Returns members in a sorted set within a lexicographical range.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements being returned. If M is constant (e.g. always asking for the first \
            10 elements with LIMIT), you can consider it O(log(N)).",
        arity: at_least(4),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        deprecated: Some(("6.2.0", "`ZRANGE` with the `BYLEX` argument")),
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| range(tx, args, reply, Some(By::Member), Some(false)),
};

pub(super) const ZREVRANGEBYLEX: DataCommand = Command {
    spec: Spec {
        name: "ZREVRANGEBYLEX",
        since: "2.8.9",
        group: Group::SortedSet,
        syntax: "key max min [LIMIT offset count]",
        summary: "Returns members in a sorted set within a lexicographical range in reverse order.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements being returned. If M is constant (e.g. always asking for the first \
            10 elements with LIMIT), you can consider it O(log(N)).",
        arity: at_least(4),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        deprecated: Some(("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments")),
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| range(tx, args, reply, Some(By::Member), Some(true)),
};

fn range(
    tx: &Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    by: Option<By>,
    falling: Option<bool>,
) -> Result<(), Refusal> {
    let request = RangeRequest::parse(args, 2, by, falling, None)?;
    let Some(set) = tx.view::<SortedSet>(&args[1])? else {
        reply.array(0);
        return Ok(());
    };
    let ranks = request.limit.apply(request.spec.ranks(set, request.falling), request.falling);
    let count = ranks.end - ranks.start;
    reply_header(count, request.with_scores, reply);
    let RangeRequest { falling, with_scores, .. } = request;
    if is_long(count * STEP_COST_NS) {
        let set = set.to_owned();
        reply_in_pieces(tx, reply, count, move |places, reply| {
            let part = if falling {
                ranks.end - places.end..ranks.end - places.start
            } else {
                ranks.start + places.start..ranks.start + places.end
            };
            reply_items(set.borrow(), part, falling, with_scores, reply);
        });
        return Ok(());
    }
    reply_items(set, ranks, falling, with_scores, reply);
    Ok(())
}

fn reply_items(
    set: SortedSetRef<'_>,
    ranks: Range<u64>,
    falling: bool,
    with_scores: bool,
    reply: &mut Reply<'_>,
) {
    if falling {
        set.items_back(ranks).for_each(|item| reply_item(item, with_scores, reply));
    } else {
        set.items(ranks).for_each(|item| reply_item(item, with_scores, reply));
    }
}

pub(super) const ZRANGESTORE: DataCommand = Command {
    spec: Spec {
        name: "ZRANGESTORE",
        since: "6.2.0",
        group: Group::SortedSet,
        syntax: "dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
        summary: "Stores a range of members from sorted set in a key.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the \
            number of elements stored into the destination key.",
        arity: at_least(5),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::OPTIMISTIC),
        keys: &[first(Access::OW.and(Access::UPDATE)), at(2, Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: zrangestore,
};

fn zrangestore(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let request = RangeRequest::parse(args, 3, None, None, Some(Spelling::of(tx)))?;
    let limits = limits(tx);
    let part = tx.compute(|tx| {
        let Some(set) = tx.view::<SortedSet>(&args[2])? else { return Ok(SortedSet::default()) };
        let ranks = request.limit.apply(request.spec.ranks(set, request.falling), request.falling);
        tx.charge((ranks.end - ranks.start) * SEARCH_COST_NS)?;
        let items: Vec<ItemRef<'_>> = set.items(ranks).collect();
        Ok(SortedSet::from_sorted(&items, &limits))
    })?;
    let count = part.borrow().len();
    store(tx, &args[1], part, "zrangestore")?;
    reply.integer(count as i64);
    Ok(())
}

/// What a request asks for.
struct RangeRequest<'a> {
    spec: RangeSpec<'a>,
    limit: Limit,
    falling: bool,
    with_scores: bool,
}

impl<'a> RangeRequest<'a> {
    /// Reads a range at an index and the options behind it. `by` and `falling` are what the
    /// command's name says; one that stores has no use for scores, and says how they may be spelt
    /// in what it journals.
    fn parse(
        args: Args<'a>,
        index: usize,
        by: Option<By>,
        falling: Option<bool>,
        stores: Option<Spelling>,
    ) -> Result<Self, Refusal> {
        let (mut chosen, mut falls) = (by, falling);
        let (mut limit, mut with_scores) = (Limit::NONE, false);
        let mut options = Options::from(args, index + 2);
        while let Some(word) = options.word() {
            if stores.is_none() && is(word, "WITHSCORES") {
                with_scores = true;
            } else if is(word, "LIMIT") && options.position() + 1 < args.len() {
                limit = Limit { offset: options.integer()?, count: options.integer()? };
            } else if falls.is_none() && is(word, "REV") {
                falls = Some(true);
            } else if chosen.is_none() && is(word, "BYLEX") {
                chosen = Some(By::Member);
            } else if chosen.is_none() && is(word, "BYSCORE") {
                chosen = Some(By::Score);
            } else {
                return Err(SYNTAX);
            }
        }
        let (by, falling) = (chosen.unwrap_or(By::Rank), falls.unwrap_or(false));
        if limit.count != Limit::NONE.count && by == By::Rank {
            return Err(Refusal::error(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or \
                 BYLEX",
            ));
        }
        if with_scores && by == By::Member {
            return Err(Refusal::error(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        // Falling scores and members are asked for from the greatest down.
        let (first, second) = (args.get(index).ok_or(SYNTAX)?, args.get(index + 1).ok_or(SYNTAX)?);
        let (least, most) = match (by, falling) {
            (By::Score | By::Member, true) => (second, first),
            _ => (first, second),
        };
        let limit = if by == By::Rank { Limit::NONE } else { limit };
        let spec = RangeSpec::parse(by, least, most, stores.unwrap_or(Spelling::Present))?;
        Ok(Self { spec, limit, falling, with_scores })
    }
}
