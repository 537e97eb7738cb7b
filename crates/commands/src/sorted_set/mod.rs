//! Sorted sets: members with scores, ordered by score and then by bytes.
//!
//! Invariant: a command looks at its whole request, and at what the key holds, before it changes
//! anything.

pub(crate) mod add;
mod aggregate;
mod combine;
mod count;
mod expire;
mod pop;
mod random;
mod range;
mod range_spec;
mod remove;
mod scan;
mod score;
#[cfg(test)]
mod tests;

use base::UnixMillis;
use base::number::format_f64_long;
use keyspace::{ContainerOutcome, EventClass, Refusal, Tx};
use proto::{Reply, Resp};
use structs::sorted_set::{ItemRef, SortedSet, SortedSetLimits, SortedSetRef};

use crate::DataCommand;
use crate::change::store_result;
use crate::member_ttl::Timed;
use crate::text::reply_member;

/// All commands of the family.
pub const COMMANDS: &[&DataCommand] = &[
    &add::ZADD,
    &add::ZINCRBY,
    &combine::ZDIFF,
    &combine::ZDIFFSTORE,
    &combine::ZINTER,
    &combine::ZINTERCARD,
    &combine::ZINTERSTORE,
    &combine::ZUNION,
    &combine::ZUNIONSTORE,
    &count::ZCARD,
    &count::ZCOUNT,
    &count::ZLEXCOUNT,
    &expire::ZCOLLECT,
    &expire::ZEXPIRE,
    &expire::ZEXPIREAT,
    &expire::ZEXPIRETIME,
    &expire::ZPERSIST,
    &expire::ZPEXPIRE,
    &expire::ZPEXPIREAT,
    &expire::ZPEXPIRETIME,
    &expire::ZPTTL,
    &expire::ZTTL,
    &pop::BZMPOP,
    &pop::BZPOPMAX,
    &pop::BZPOPMIN,
    &pop::ZMPOP,
    &pop::ZPOPMAX,
    &pop::ZPOPMIN,
    &random::ZRANDMEMBER,
    &range::ZRANGE,
    &range::ZRANGEBYLEX,
    &range::ZRANGEBYSCORE,
    &range::ZRANGESTORE,
    &range::ZREVRANGE,
    &range::ZREVRANGEBYLEX,
    &range::ZREVRANGEBYSCORE,
    &remove::ZREM,
    &remove::ZREMRANGEBYLEX,
    &remove::ZREMRANGEBYRANK,
    &remove::ZREMRANGEBYSCORE,
    &scan::ZSCAN,
    &score::ZMSCORE,
    &score::ZRANK,
    &score::ZREVRANK,
    &score::ZSCORE,
];

/// About what it takes to tell or to remove the next member, in nanoseconds.
pub(crate) const STEP_COST_NS: u64 = 50;

/// About what it takes to find one member among many, in nanoseconds.
pub(crate) const SEARCH_COST_NS: u64 = 150;

impl Timed for SortedSet {
    const CLASS: EventClass = EventClass::SortedSet;
    const GIVEN: Option<&'static str> = Some("zexpire");
    const REMOVED: &'static str = "zrem";

    fn deadline(set: SortedSetRef<'_>, member: &[u8]) -> Option<Option<UnixMillis>> {
        set.get(member).map(|item| item.deadline)
    }

    fn borrow(&self) -> SortedSetRef<'_> {
        self.borrow()
    }

    fn set_deadline(&mut self, member: &[u8], deadline: Option<UnixMillis>) {
        self.set_deadline(member, deadline);
    }

    fn remove(&mut self, member: &[u8]) {
        self.remove(member);
    }
}

/// The configured thresholds.
pub(crate) fn limits(tx: &Tx) -> SortedSetLimits {
    let containers = &tx.keyspace().settings().containers;
    SortedSetLimits {
        entries: containers.sorted_set_entries.get() as u64,
        value_bytes: containers.sorted_set_value.get(),
    }
}

/// Puts a sorted set in the place of whatever the destination held, as one change; an empty one
/// removes the key.
pub(crate) fn store(
    tx: &mut Tx,
    destination: &[u8],
    set: SortedSet,
    event: &'static str,
) -> Result<(), Refusal> {
    store_result(tx, destination, set, EventClass::SortedSet, event)
}

/// So many members stand in one command of the journal.
const JOURNALLED_AT_ONCE: u64 = 1024;

/// Has the journal get what is stored, where an older server would refuse the command.
#[cold]
pub(crate) fn journal_result(tx: &mut Tx, destination: &[u8], set: SortedSetRef<'_>) {
    if !tx.effects().is_recorded() {
        return;
    }
    tx.effects_mut().instead(&[b"DEL", destination]);
    let mut from = 0;
    while from < set.len() {
        let to = set.len().min(from + JOURNALLED_AT_ONCE);
        let pair = |item: ItemRef<'_>| [format_f64_long(item.score).to_vec(), item.member.to_vec()];
        let pairs: Vec<[Vec<u8>; 2]> = set.items(from..to).map(pair).collect();
        let words = pairs.iter().flatten().map(Vec::as_slice);
        let words = [&b"ZADD"[..], destination].into_iter().chain(words);
        tx.effects_mut().instead(&words.collect::<Vec<_>>());
        from = to;
    }
}

/// Reports that members were taken out of a sorted set, and what became of it.
fn report_removal(
    tx: &mut Tx,
    key: &[u8],
    count: u64,
    event: &'static str,
    outcome: ContainerOutcome,
) {
    if count == 0 {
        return;
    }
    tx.effects_mut().add_changes(count);
    tx.event(EventClass::SortedSet, event, key);
    if outcome == ContainerOutcome::Removed {
        tx.event(EventClass::Generic, "del", key);
    }
}

/// Begins the reply of members: a flat array, but with scores in RESP3 one of pairs.
fn reply_header(count: u64, with_scores: bool, reply: &mut Reply<'_>) {
    let flat = with_scores && reply.resp() == Resp::Two;
    reply.array(count as usize * if flat { 2 } else { 1 });
}

/// Replies one of the members that [`reply_header`] announced.
fn reply_item(item: ItemRef<'_>, with_scores: bool, reply: &mut Reply<'_>) {
    if with_scores && reply.resp() == Resp::Three {
        reply.array(2);
    }
    reply_member(item.member, reply);
    if with_scores {
        reply.double(item.score);
    }
}
