//! XPENDING: what a group has delivered and not seen acknowledged.
//!
//! Invariant: looking changes nothing, not even times.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::stream::{self, Consumer, EntryId, PendingEntry, Stream};

use super::ids::{self, reply_id};
use super::{ENTRY_NS, idle, no_group};
use crate::DataCommand;
use crate::arguments::{integer, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::SYNTAX;
use crate::keys::{Access, first};

pub(super) const XPENDING: DataCommand = Command {
    spec: Spec {
        name: "XPENDING",
        since: "5.0.0",
        group: Group::Stream,
        syntax: "key group [[IDLE min-idle-time] start end count [consumer]]",
        summary: "Returns the information and entries from a stream consumer group's pending \
                  entries list.",
        complexity: "O(N) with N being the number of elements returned, so asking for a small \
                     fixed number of entries per call is O(1). O(M), where M is the total number \
                     of entries scanned when used with the IDLE filter. When the command returns \
                     just the summary and the list of consumers is small, it runs in O(1) time; \
                     otherwise, an additional O(N) time for iterating every consumer.",
        arity: at_least(3),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        tips: &["nondeterministic_output"],
        history: &[("6.2.0", "Added the `IDLE` option and exclusive range intervals.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: xpending,
};

/// Which pending entries are asked for.
struct PendingFilter<'a> {
    idle_min: i64,
    from: EntryId,
    to: EntryId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

fn xpending(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, name) = (&args[1], &args[2]);
    let filter = if args.len() == 3 { None } else { Some(PendingFilter::read(args)?) };
    let group = tx.view::<Stream>(key)?.and_then(|stream| stream.group(name));
    let group = group.ok_or_else(|| no_group(key, name, ""))?;
    match filter {
        Some(filter) => filter.reply(tx, group, reply),
        None => {
            tx.charge(group.consumers().len() as u64 * ENTRY_NS)?;
            reply_summary(group, reply);
            Ok(())
        }
    }
}

fn reply_summary(group: &stream::ConsumerGroup, reply: &mut Reply<'_>) {
    reply.array(4);
    reply.integer(group.pending_count() as i64);
    let Some((least, greatest)) = group.pending_bounds() else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    reply_id(least, reply);
    reply_id(greatest, reply);
    let mark = reply.defer();
    let mut found = 0;
    for (name, consumer) in group.consumers().filter(|(_, it)| it.pending_count() > 0) {
        reply.array(2);
        reply.bulk(name);
        reply.bulk_integer(consumer.pending_count() as i64);
        found += 1;
    }
    reply.finish_array(mark, found);
}

impl<'a> PendingFilter<'a> {
    fn read(args: Args<'a>) -> Result<Self, Refusal> {
        if !(6..=9).contains(&args.len()) {
            return Err(SYNTAX);
        }
        let (mut first, mut idle_min) = (3, 0);
        if is(&args[3], "IDLE") {
            idle_min = integer(args, 4)?;
            first = 5;
            if args.len() < 8 {
                return Err(SYNTAX);
            }
        }
        let count = usize::try_from(integer(args, first + 2)?).unwrap_or(0);
        let (from, to) = (ids::start(&args[first])?, ids::end(&args[first + 1])?);
        Ok(Self { idle_min, from, to, count, consumer: args.get(first + 3) })
    }

    fn reply(
        &self,
        tx: &Tx,
        group: &stream::ConsumerGroup,
        reply: &mut Reply<'_>,
    ) -> Result<(), Refusal> {
        let seen = match self.consumer {
            Some(name) => group.consumer(name).map_or(0, Consumer::pending_count),
            None => group.pending_count(),
        };
        let looked_at = if self.idle_min > 0 { seen } else { seen.min(self.count as u64) };
        tx.charge(looked_at.saturating_mul(ENTRY_NS))?;
        let mark = reply.defer();
        let mut found = 0;
        let mut take = |pending: PendingEntry| {
            reply.array(4);
            reply_id(pending.id, reply);
            reply.bulk(group.owner_of(&pending));
            // The published page on XNACK shows -1 for what was given back.
            reply.integer(if pending.is_given_back() { -1 } else { idle(tx, &pending) });
            reply.integer(pending.deliveries.get() as i64);
            found += 1;
        };
        match self.consumer {
            Some(name) => {
                let owned = group.consumer(name).into_iter();
                let ids = owned.flat_map(|consumer| consumer.owned_from(self.from));
                let known = ids.take_while(|id| *id <= self.to).filter_map(|id| group.pending(id));
                self.take_most(tx, known).for_each(&mut take);
            }
            None => {
                let known = group.pending_from(self.from).take_while(|it| it.id <= self.to);
                self.take_most(tx, known).for_each(&mut take);
            }
        }
        reply.finish_array(mark, found);
        Ok(())
    }

    /// As many as are asked for of those that have been idle for long enough.
    fn take_most(
        &self,
        tx: &Tx,
        known: impl Iterator<Item = PendingEntry>,
    ) -> impl Iterator<Item = PendingEntry> {
        let (least, count) = (self.idle_min, self.count);
        known.filter(move |pending| least <= 0 || idle(tx, pending) >= least).take(count)
    }
}
