//! The blocking forms: BLPOP, BRPOP, BLMPOP, BLMOVE, BRPOPLPUSH, BLMOVEM.
//!
//! Invariant: where there is something to give, they are what their namesakes are, to the client
//! and to the journal; where there is not, they wait, each key with the same command about it
//! alone.

use keyspace::{BlockingKeys, Refusal, Tx};
use proto::{Args, Reply};
use structs::list::Side;

use super::lmove::{LmoveRequest, SOURCE_AND_DESTINATION};
use super::pop::{MultiPop, journal_pop};
use super::{peek_len, pop_into_reply, side};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::keys::{Access, counted, range};
use crate::waiting::{ENDLESS, deadline, wait, wait_for_element};

/// What the two that pop have in common.
const BLOCKING_POP: Spec = Spec {
    since: "2.0.0",
    group: Group::List,
    syntax: "key [key ...] timeout:double",
    complexity: "O(N) where N is the number of provided keys.",
    arity: at_least(3),
    flags: Flags::WRITE.and(Flags::BLOCKING),
    keys: &[range(1, -2, 1, Access::RW.and(Access::ACCESS).and(Access::DELETE))],
    history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
    ..Spec::BASE
};

pub(super) const BLPOP: DataCommand = Command {
    spec: Spec {
        name: "BLPOP",
        summary: "Removes and returns the first element in a list. Blocks until an element is \
                  available otherwise. Deletes the list if the last element was popped.",
        ..BLOCKING_POP
    },
    subcommands: &[],
    run: |tx, args, reply| pop(tx, args, Side::Left, reply),
};

pub(super) const BRPOP: DataCommand = Command {
    spec: Spec {
        name: "BRPOP",
        summary: "Removes and returns the last element in a list. Blocks until an element is \
                  available otherwise. Deletes the list if the last element was popped.",
        ..BLOCKING_POP
    },
    subcommands: &[],
    run: |tx, args, reply| pop(tx, args, Side::Right, reply),
};

fn pop(tx: &mut Tx, args: Args<'_>, side: Side, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (keys, timeout) = (args.slice(1..args.len() - 1), &args[args.len() - 1]);
    let deadline = deadline(timeout, tx.now())?;
    for key in keys.iter() {
        if peek_len(tx, key)?.is_some() {
            reply.array(2);
            reply.bulk(key);
            pop_into_reply(tx, key, side, 1, reply)?;
            journal_pop(tx, key, side, None);
            return Ok(());
        }
    }
    let own = keys.iter().map(|key| [key]);
    Err(wait(BlockingKeys::new([&args[0]], own, [ENDLESS]), deadline))
}

pub(super) const BLMPOP: DataCommand = Command {
    spec: Spec {
        name: "BLMPOP",
        since: "7.0.0",
        group: Group::List,
        syntax: "timeout:double numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
        summary: "Pops the first element from one of multiple lists. Blocks until an element is \
                  available otherwise. Deletes the list if the last element was popped.",
        complexity: "O(N+M) where N is the number of provided keys and M is the number of elements \
                     returned.",
        arity: at_least(5),
        flags: Flags::WRITE.and(Flags::BLOCKING).and(Flags::MOVABLEKEYS),
        keys: &[counted(2, 1, Access::RW.and(Access::ACCESS).and(Access::DELETE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: blmpop,
};

fn blmpop(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let request = MultiPop::read(args, 2)?;
    let deadline = deadline(&args[1], tx.now())?;
    if request.run(tx, reply)? {
        return Ok(());
    }
    let options = args.skip(3 + request.keys.len());
    let own = request.keys.iter().map(|key| [key]);
    let awaited = BlockingKeys::new([&args[0], ENDLESS, b"1"], own, options.iter());
    Err(wait(awaited, deadline))
}

/// What the three that move have in common.
const BLOCKING_MOVE: Spec = Spec {
    group: Group::List,
    complexity: "O(1)",
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::BLOCKING),
    keys: SOURCE_AND_DESTINATION,
    ..Spec::BASE
};

pub(super) const BLMOVE: DataCommand = Command {
    spec: Spec {
        name: "BLMOVE",
        since: "6.2.0",
        syntax: "source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout:double",
        summary: "Pops an element from a list, pushes it to another list and returns it. Blocks \
                  until an element is available otherwise. Deletes the list if the last element \
                  was moved.",
        arity: exactly(6),
        ..BLOCKING_MOVE
    },
    subcommands: &[],
    run: |tx, args, reply| {
        let request = LmoveRequest::one(args, side(&args[3])?, side(&args[4])?);
        let deadline = deadline(&args[5], tx.now())?;
        if request.reply_one(tx, reply)? {
            tx.effects_mut().instead(&[b"LMOVE", &args[1], &args[2], &args[3], &args[4]]);
            return Ok(());
        }
        let behind = args.slice(2..5).iter().chain([ENDLESS]);
        Err(wait_for_element(BlockingKeys::one([&args[0]], request.source, behind), deadline))
    },
};

pub(super) const BRPOPLPUSH: DataCommand = Command {
    spec: Spec {
        name: "BRPOPLPUSH",
        since: "2.2.0",
        syntax: "source destination timeout:double",
        summary: "Pops an element from a list, pushes it to another list and returns it. Block \
                  until an element is available otherwise. Deletes the list if the last element \
                  was popped.",
        arity: exactly(4),
        history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
        deprecated: Some(("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments")),
        ..BLOCKING_MOVE
    },
    subcommands: &[],
    run: |tx, args, reply| {
        let deadline = deadline(&args[3], tx.now())?;
        let request = LmoveRequest::one(args, Side::Right, Side::Left);
        if request.reply_one(tx, reply)? {
            tx.effects_mut().instead(&[b"RPOPLPUSH", &args[1], &args[2]]);
            return Ok(());
        }
        let behind = [&args[2], ENDLESS];
        Err(wait_for_element(BlockingKeys::one([&args[0]], request.source, behind), deadline))
    },
};

pub(super) const BLMOVEM: DataCommand = Command {
    spec: Spec {
        name: "BLMOVEM",
        since: "8.10.0",
        syntax: "source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout [<COUNT count | EXACTLY \
                 exactly> <OBO | BULK>]",
        summary: "Moves up to (or exactly) a number of elements from one list to another and \
                  returns them. Blocks until the elements are available otherwise. Deletes the \
                  source list if it becomes empty.",
        complexity: "O(N) where N is the number of elements moved.",
        arity: at_least(6),
        ..BLOCKING_MOVE
    },
    subcommands: &[],
    run: blmovem,
};

fn blmovem(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let request = LmoveRequest::many(args, 6)?;
    let deadline = deadline(&args[5], tx.now())?;
    let block = args.skip(6);
    if request.reply_many(tx, reply)? {
        return Ok(());
    }
    let behind = args.slice(2..5).iter().chain([ENDLESS]).chain(block.iter());
    Err(wait(BlockingKeys::one([&args[0]], request.source, behind), deadline))
}
