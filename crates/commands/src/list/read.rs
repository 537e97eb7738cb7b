//! Reading a list: LLEN, LINDEX, LRANGE, LPOS.
//!
//! Invariant: a range is replied as it lies, long elements by reference.

use base::number::parse_u64;
use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::list::{List, ListRef, Side};

use super::push::index_within;
use super::{HANDLED_NS, clip, outermost, search_cost_ns, symmetric};
use crate::DataCommand;
use crate::arguments::{Options, integer, is};
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::errors::SYNTAX;
use crate::keys::{Access, first};
use crate::long_reply::{is_long, reply_in_pieces};
use crate::text::reply_member;

const RANK_ZERO: Refusal = Refusal::error(
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
     negative to start from the end of the list",
);
const NEGATIVE_COUNT: Refusal = Refusal::error("ERR COUNT can't be negative");
const NEGATIVE_MAXLEN: Refusal = Refusal::error("ERR MAXLEN can't be negative");

pub(super) const LLEN: DataCommand = Command {
    spec: Spec {
        name: "LLEN",
        since: "1.0.0",
        group: Group::List,
        syntax: "key",
        summary: "Returns the length of a list.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO)],
        ..Spec::BASE
    },
    subcommands: &[],
    run: llen,
};

fn llen(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let len = tx.view::<List>(&args[1])?.map_or(0, ListRef::len);
    reply.integer(len as i64);
    Ok(())
}

pub(super) const LINDEX: DataCommand = Command {
    spec: Spec {
        name: "LINDEX",
        since: "1.0.0",
        group: Group::List,
        syntax: "key index",
        summary: "Returns an element from a list by its index.",
        complexity: "O(N) where N is the number of elements to traverse to get to the element at \
                     index. This makes asking for the first or the last element of the list O(1).",
        arity: exactly(3),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: lindex,
};

fn lindex(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let element = match tx.view::<List>(&args[1])? {
        Some(list) => index_within(integer(args, 2)?, list.len()).and_then(|index| list.get(index)),
        None => None,
    };
    match element {
        Some(text) => reply_member(text, reply),
        None => reply.null(),
    }
    Ok(())
}

pub(super) const LRANGE: DataCommand = Command {
    spec: Spec {
        name: "LRANGE",
        since: "1.0.0",
        group: Group::List,
        syntax: "key start stop",
        summary: "Returns a range of elements from a list.",
        complexity: "O(S+N) where S is the distance of start offset from HEAD for small lists, \
                     from nearest end (HEAD or TAIL) for large lists; and N is the number of \
                     elements in the specified range.",
        arity: exactly(4),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: lrange,
};

fn lrange(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (start, stop) = (integer(args, 2)?, integer(args, 3)?);
    let Some(list) = tx.view::<List>(&args[1])? else {
        reply.array(0);
        return Ok(());
    };
    let indexes = clip(start, stop, list.len());
    let count = indexes.end - indexes.start;
    reply.array(count as usize);
    if is_long(count * HANDLED_NS) {
        let (list, first) = (list.to_owned(), indexes.start);
        reply_in_pieces(tx, reply, count, move |places, reply| {
            let indexes = first + places.start..first + places.end;
            list.borrow().range(indexes).for_each(|text| reply_member(text, reply));
        });
        return Ok(());
    }
    list.range(indexes).for_each(|text| reply_member(text, reply));
    Ok(())
}

pub(super) const LPOS: DataCommand = Command {
    spec: Spec {
        name: "LPOS",
        since: "6.0.6",
        group: Group::List,
        syntax: "key element [RANK rank] [COUNT num-matches:integer] [MAXLEN len]",
        summary: "Returns the index of matching elements in a list.",
        complexity: "O(N) where N is the number of elements in the list, for the average case. \
                     When searching for elements near the head or the tail of the list, or when \
                     the MAXLEN option is provided, the command may run in constant time.",
        arity: at_least(3),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: lpos,
};

/// The options of LPOS.
struct PositionSearch {
    /// From which end.
    side: Side,
    /// Matches to pass over.
    passed: usize,
    /// Matches to reply in an array; without it one is replied by itself.
    count: Option<usize>,
    /// Elements to look at.
    looked_at: usize,
}

impl PositionSearch {
    fn read(args: Args<'_>) -> Result<Self, Refusal> {
        let mut search = Self { side: Side::Left, passed: 0, count: None, looked_at: usize::MAX };
        let mut options = Options::from(args, 3);
        while let Some(word) = options.word() {
            // Redis looks for the value first, whatever the word.
            let value = options.value()?;
            if is(word, "RANK") {
                let rank = symmetric(value)?;
                search.side = if rank < 0 { Side::Right } else { Side::Left };
                search.passed = rank.unsigned_abs().checked_sub(1).ok_or(RANK_ZERO)? as usize;
            } else if is(word, "COUNT") {
                search.count = Some(zero_is_all(value).ok_or(NEGATIVE_COUNT)?);
            } else if is(word, "MAXLEN") {
                search.looked_at = zero_is_all(value).ok_or(NEGATIVE_MAXLEN)?;
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(search)
    }
}

fn zero_is_all(argument: &[u8]) -> Option<usize> {
    let number = parse_u64(argument).filter(|&number| number <= i64::MAX as u64)? as usize;
    Some(if number == 0 { usize::MAX } else { number })
}

fn lpos(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let search = PositionSearch::read(args)?;
    let list = tx.view::<List>(&args[1])?;
    let len = list.map_or(0, ListRef::len);
    let count = len.min(search.looked_at as u64);
    tx.charge(list.map_or(0, |list| search_cost_ns(list, count, args[2].len())))?;
    let looked_at = outermost(len, count, search.side);
    let found =
        list.into_iter().flat_map(|it| it.indexes_of(&args[2], looked_at.clone(), search.side));
    let mut matches = found.skip(search.passed).map(|index| index as i64);
    match search.count {
        Some(count) => {
            let (mark, mut found) = (reply.defer(), 0);
            for place in matches.take(count) {
                reply.integer(place);
                found += 1;
            }
            reply.finish_array(mark, found);
        }
        None => match matches.next() {
            Some(place) => reply.integer(place),
            None => reply.null(),
        },
    }
    Ok(())
}
