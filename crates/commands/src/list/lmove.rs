//! Elements from one list to another, or to the other end: LMOVE, RPOPLPUSH, LMOVEM.
//!
//! Invariant: what is taken from one list is in the other before anybody sees either; if it cannot
//! be put there, it is not taken.

use base::UnixMillis;
use base::number::format_i64;
use keyspace::{EntryRef, Refusal, Tx};
use proto::{Args, Reply};
use structs::list::{List, Side};

use super::pop::{journal_pop, positive};
use super::{
    HANDLED_NS, Owned, limits, notify_popped, notify_pushed, outermost, peek_len, push_into, side,
};
use crate::DataCommand;
use crate::arguments::is;
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::errors::{NOTHING_TO_TAKE, SYNTAX};
use crate::keys::{Access, KeySpec, at, first};
use crate::text::reply_member;

pub(super) const SOURCE_AND_DESTINATION: &[KeySpec] = &[
    first(Access::RW.and(Access::ACCESS).and(Access::DELETE)),
    at(2, Access::RW.and(Access::INSERT)),
];

const EXACTLY: Refusal = Refusal::error("ERR exactly should be greater than 0");

pub(super) const LMOVE: DataCommand = Command {
    spec: Spec {
        name: "LMOVE",
        since: "6.2.0",
        group: Group::List,
        syntax: "source destination <LEFT | RIGHT> <LEFT | RIGHT>",
        summary: "Returns an element after popping it from one list and pushing it to another. \
                  Deletes the list if the last element was moved.",
        complexity: "O(1)",
        arity: exactly(5),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: SOURCE_AND_DESTINATION,
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| {
        let request = LmoveRequest::one(args, side(&args[3])?, side(&args[4])?);
        move_one(tx, &request, reply)
    },
};

pub(super) const RPOPLPUSH: DataCommand = Command {
    spec: Spec {
        name: "RPOPLPUSH",
        since: "1.2.0",
        group: Group::List,
        syntax: "source destination",
        summary: "Returns the last element of a list after removing and pushing it to another \
                  list. Deletes the list if the last element was popped.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: SOURCE_AND_DESTINATION,
        deprecated: Some(("6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments")),
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| move_one(tx, &LmoveRequest::one(args, Side::Right, Side::Left), reply),
};

fn move_one(tx: &mut Tx, request: &LmoveRequest<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    if !request.reply_one(tx, reply)? {
        reply.null();
    }
    Ok(())
}

pub(super) const LMOVEM: DataCommand = Command {
    spec: Spec {
        name: "LMOVEM",
        since: "8.10.0",
        group: Group::List,
        syntax: "source destination <LEFT | RIGHT> <LEFT | RIGHT> [<COUNT count | EXACTLY \
                 exactly> <OBO | BULK>]",
        summary: "Moves up to (or exactly) a number of elements from one list to another and \
                  returns them. Deletes the source list if it becomes empty.",
        complexity: "O(N) where N is the number of elements moved.",
        arity: at_least(5),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: SOURCE_AND_DESTINATION,
        ..Spec::BASE
    },
    subcommands: &[],
    run: lmovem,
};

/// That nothing is there, or not enough, is told by a null, as redis-py and go-redis expect it.
fn lmovem(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let request = LmoveRequest::many(args, 5)?;
    if !request.reply_many(tx, reply)? {
        reply.null();
    }
    Ok(())
}

/// What the commands of this file and their blocking forms ask for.
pub(super) struct LmoveRequest<'a> {
    pub(super) source: &'a [u8],
    destination: &'a [u8],
    from: Side,
    to: Side,
    count: u64,
    /// Fewer are not to be moved.
    is_exact: bool,
    /// All at once, so that they keep their order.
    in_bulk: bool,
}

impl<'a> LmoveRequest<'a> {
    /// One element.
    pub(super) fn one(args: Args<'a>, from: Side, to: Side) -> Self {
        let key = |index| args.get(index).expect("the arity demands both keys");
        let (source, destination) = (key(1), key(2));
        Self { source, destination, from, to, count: 1, is_exact: false, in_bulk: false }
    }

    /// As many as the block from an index on says; one if there is none.
    pub(super) fn many(args: Args<'a>, block: usize) -> Result<Self, Refusal> {
        let mut request = Self::one(args, side(&args[3])?, side(&args[4])?);
        let block = args.skip(block);
        if block.is_empty() {
            return Ok(request);
        }
        if block.len() != 3 {
            return Err(SYNTAX);
        }
        request.is_exact = is(&block[0], "EXACTLY");
        if !request.is_exact && !is(&block[0], "COUNT") {
            return Err(SYNTAX);
        }
        request.in_bulk = is(&block[2], "BULK");
        if !request.in_bulk && !is(&block[2], "OBO") {
            return Err(SYNTAX);
        }
        let error = if request.is_exact { EXACTLY } else { NOTHING_TO_TAKE };
        request.count = positive(&block[1]).ok_or(error)?;
        Ok(request)
    }

    /// Moves one element and replies it; `false`, and no reply, if there is none.
    pub(super) fn reply_one(&self, tx: &mut Tx, reply: &mut Reply<'_>) -> Result<bool, Refusal> {
        let moved = self.run(tx)?;
        moved.iter().flatten().for_each(|element| reply_member(element.text(), reply));
        Ok(moved.is_some())
    }

    /// Moves elements and replies them as they lie at the destination; `false`, and no reply, if
    /// there are not enough.
    pub(super) fn reply_many(&self, tx: &mut Tx, reply: &mut Reply<'_>) -> Result<bool, Refusal> {
        let is_circular = self.source == self.destination;
        let entry = if is_circular { tx.lookup_write(self.source)? } else { None };
        let deadline = entry.and_then(EntryRef::deadline);
        let Some(mut moved) = self.run(tx)? else { return Ok(false) };
        self.journal(tx, &moved, deadline);
        if self.to == Side::Left {
            moved.reverse();
        }
        reply.array(moved.len());
        moved.iter().for_each(|element| reply_member(element.text(), reply));
        Ok(true)
    }

    /// Has the journal say what was moved in words that every replica knows. A list that goes round
    /// may be gone for a moment at a replica, and its deadline with it.
    fn journal(&self, tx: &mut Tx, moved: &[Owned], deadline: Option<UnixMillis>) {
        let word = |side, left, right| if side == Side::Left { left } else { right };
        if moved.len() == 1 {
            let end = |side| word(side, &b"LEFT"[..], &b"RIGHT"[..]);
            let ends = [end(self.from), end(self.to)];
            return tx.effects_mut().instead(&[
                b"LMOVE",
                self.source,
                self.destination,
                ends[0],
                ends[1],
            ]);
        }
        journal_pop(tx, self.source, self.from, Some(moved.len() as u64));
        let elements: Vec<Vec<u8>> = moved.iter().map(|element| element.text().to_vec()).collect();
        let head = [word(self.to, &b"LPUSH"[..], &b"RPUSH"[..]), self.destination];
        let words = head.into_iter().chain(elements.iter().map(Vec::as_slice));
        tx.effects_mut().instead(&words.collect::<Vec<_>>());
        if let Some(at) = deadline {
            tx.effects_mut().instead(&[b"PEXPIREAT", self.source, format_i64(at, &mut [0; 20])]);
        }
    }

    /// Moves elements, and returns them in the order they were pushed in.
    fn run(&self, tx: &mut Tx) -> Result<Option<Vec<Owned>>, Refusal> {
        let Some(len) = peek_len(tx, self.source)? else { return Ok(None) };
        peek_len(tx, self.destination)?;
        if self.is_exact && len < self.count {
            return Ok(None);
        }
        let count = self.count.min(len);
        tx.charge(2 * count * HANDLED_NS)?;
        let limits = limits(tx);
        let is_circular = self.source == self.destination;
        let (moved, outcome) = tx.edit::<List, _>(self.source, |list| {
            let moved = self.take(list, count);
            if is_circular {
                push_into(list, self.to, moved.iter().map(Owned::text), &limits);
            }
            list.shrink(&limits);
            moved
        })?;
        if !is_circular {
            tx.edit::<List, _>(self.destination, |list| {
                push_into(list, self.to, moved.iter().map(Owned::text), &limits);
            })?;
        }
        notify_pushed(tx, self.destination, self.to);
        notify_popped(tx, self.source, self.from, count, outcome);
        Ok(Some(moved))
    }

    /// Takes elements out of their list, in the order in which they are to be pushed.
    fn take(&self, list: &mut List, count: u64) -> Vec<Owned> {
        let indexes = outermost(list.borrow().len(), count, self.from);
        let mut moved: Vec<_> = list.borrow().range(indexes.clone()).map(Owned::new).collect();
        list.remove(indexes);
        // One by one, the outermost goes first; in bulk, the one that is to lie innermost.
        let last_first =
            if self.in_bulk { self.to == Side::Left } else { self.from == Side::Right };
        if last_first {
            moved.reverse();
        }
        moved
    }
}
