//! What is known of single members: ZSCORE, ZMSCORE, ZRANK, ZREVRANK.
//!
//! Invariant: nothing here changes anything.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::sorted_set::SortedSet;

use super::SEARCH_COST_NS;
use crate::DataCommand;
use crate::arguments::is;
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::errors::{SYNTAX, wrong_arity};
use crate::keys::{Access, first};

pub(super) const ZSCORE: DataCommand = Command {
    spec: Spec {
        name: "ZSCORE",
        since: "1.2.0",
        group: Group::SortedSet,
        syntax: "key member",
        summary: "Returns the score of a member in a sorted set.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: zscore,
};

fn zscore(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let set = tx.view::<SortedSet>(&args[1])?;
    reply_score(set.and_then(|set| set.score(&args[2])), reply);
    Ok(())
}

pub(super) const ZMSCORE: DataCommand = Command {
    spec: Spec {
        name: "ZMSCORE",
        since: "6.2.0",
        group: Group::SortedSet,
        syntax: "key member [member ...]",
        summary: "Returns the score of one or more members in a sorted set.",
        complexity: "O(N) where N is the number of members being requested.",
        arity: at_least(3),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: zmscore,
};

fn zmscore(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let members = args.skip(2);
    tx.charge(members.len() as u64 * SEARCH_COST_NS)?;
    let set = tx.view::<SortedSet>(&args[1])?;
    reply.array(members.len());
    for member in members.iter() {
        reply_score(set.and_then(|set| set.score(member)), reply);
    }
    Ok(())
}

fn reply_score(score: Option<f64>, reply: &mut Reply<'_>) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

pub(super) const ZRANK: DataCommand = Command {
    spec: Spec {
        name: "ZRANK",
        since: "2.0.0",
        group: Group::SortedSet,
        syntax: "key member [WITHSCORE]",
        summary: "Returns the index of a member in a sorted set ordered by ascending scores.",
        complexity: "O(log(N))",
        arity: at_least(3),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO.and(Access::ACCESS))],
        history: &[("7.2.0", "Added the optional `WITHSCORE` argument.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| rank(tx, args, reply, false),
};

pub(super) const ZREVRANK: DataCommand = Command {
    spec: Spec {
        name: "ZREVRANK",
        since: "2.0.0",
        group: Group::SortedSet,
        syntax: "key member [WITHSCORE]",
        summary: "Returns the index of a member in a sorted set ordered by descending scores.",
        complexity: "O(log(N))",
        arity: at_least(3),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO.and(Access::ACCESS))],
        history: &[("7.2.0", "Added the optional `WITHSCORE` argument.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| rank(tx, args, reply, true),
};

fn rank(tx: &Tx, args: Args<'_>, reply: &mut Reply<'_>, falling: bool) -> Result<(), Refusal> {
    let with_score = match args.get(3) {
        Some(_) if args.len() > 4 => {
            return Err(wrong_arity(if falling { "zrevrank" } else { "zrank" }));
        }
        Some(word) if is(word, "WITHSCORE") => true,
        Some(_) => return Err(SYNTAX),
        None => false,
    };
    let set = tx.view::<SortedSet>(&args[1])?;
    let found = set.and_then(|set| set.rank(&args[2]).map(|found| (set, found)));
    let Some((set, (rank, score))) = found else {
        if with_score {
            reply.null_array();
        } else {
            reply.null();
        }
        return Ok(());
    };
    if with_score {
        reply.array(2);
    }
    let rank = if falling { set.len() - 1 - rank } else { rank };
    reply.integer(rank as i64);
    if with_score {
        reply.double(score);
    }
    Ok(())
}
