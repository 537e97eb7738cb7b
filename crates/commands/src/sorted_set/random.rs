//! Members by chance: ZRANDMEMBER.
//!
//! Invariant: without repetition every set of members of one size is equally likely.

use base::random::Random;
use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::members::sample;
use structs::sorted_set::{ItemRef, SortedSet, SortedSetRef};

use super::{SEARCH_COST_NS, reply_header, reply_item};
use crate::DataCommand;
use crate::arguments::{is, symmetric};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::{SYNTAX, VALUE_OUT_OF_RANGE};
use crate::keys::{Access, first};
use crate::repeated::ReplyAllowance;

/// The most members that one request may ask for with repetition: what comes of more would be
/// gigabytes out of a set of any size.
const REPEATED_MAX: u64 = 1 << 26;

pub(super) const ZRANDMEMBER: DataCommand = Command {
    spec: Spec {
        name: "ZRANDMEMBER",
        since: "6.2.0",
        group: Group::SortedSet,
        syntax: "key [count [WITHSCORES]]",
        summary: "Returns one or more random members from a sorted set.",
        complexity: "O(N) where N is the number of members returned",
        arity: at_least(2),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        tips: &["nondeterministic_output"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: zrandmember,
};

fn zrandmember(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    if args.len() == 2 {
        let set = tx.view::<SortedSet>(key)?;
        match set.and_then(|set| set.random(&mut Random::from_entropy())) {
            Some(item) => reply_item(item, false, reply),
            None => reply.null(),
        }
        return Ok(());
    }
    let count = symmetric(&args[2])?;
    let magnitude = count.unsigned_abs();
    let with_scores = match args.get(3) {
        None => false,
        Some(word) if args.len() == 4 && is(word, "WITHSCORES") => true,
        Some(_) => return Err(SYNTAX),
    };
    // As in Redis, pairs may be half as many.
    if with_scores && magnitude > i64::MAX as u64 / 2 {
        return Err(VALUE_OUT_OF_RANGE);
    }
    let Some(set) = tx.view::<SortedSet>(key)? else {
        reply.array(0);
        return Ok(());
    };
    if count < 0 && magnitude > REPEATED_MAX {
        return Err(VALUE_OUT_OF_RANGE);
    }
    let drawn = if count < 0 { magnitude } else { magnitude.min(set.len()) };
    tx.charge(drawn * SEARCH_COST_NS)?;
    reply_header(drawn, with_scores, reply);
    // In a small set, finding one passes over others.
    let listed: Vec<ItemRef<'_>> = match set {
        SortedSetRef::Packed(_) if drawn > 1 => set.items(0..set.len()).collect(),
        _ => Vec::new(),
    };
    let item = |rank: u64| {
        let found = listed.get(rank as usize).copied().or_else(|| set.at(rank));
        found.expect("only ranks of members are drawn")
    };
    let mut random = Random::from_entropy();
    if count > 0 {
        let ranks = sample(set.len(), drawn, &mut random);
        ranks.into_iter().for_each(|rank| reply_item(item(rank), with_scores, reply));
        return Ok(());
    }
    let mut allowance = ReplyAllowance::of(drawn)?;
    (0..drawn).try_for_each(|_| {
        let item = item(random.below(set.len()));
        allowance.take(item.member)?;
        reply_item(item, with_scores, reply);
        Ok(())
    })
}
