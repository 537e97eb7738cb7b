//! XREADGROUP: entries for one consumer of a group, new ones or those it has pending.
//!
//! Invariant: what is delivered is pending before the reply leaves, and the journal has it as
//! claims and as the group's position.

use base::time::UnixMillis;
use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::stream::{Consumer, ConsumerGroup, Counter, EntryId, PendingEntry, Stream};

use super::ids::{self, reply_id};
use super::read::{Budget, ReadRequest, begin_stream, finish_streams, streams};
use super::{
    Claimed, ENTRY_NS, PENDING_NS, edit_group, edit_group_quietly, idle, journal_position,
    meet_consumer, no_group, reply_entry, reply_fields,
};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::keys::Access;

/// The number of deliveries of what nobody had before.
const ONCE: Counter = Counter::new(1);

/// So many pending entries that are deleted are passed by at a worker.
const DELETED_PASSED: usize = 1000;

const WHERE: &str = " in XREADGROUP with GROUP option";

pub(super) const XREADGROUP: DataCommand = Command {
    spec: Spec {
        name: "XREADGROUP",
        since: "5.0.0",
        group: Group::Stream,
        syntax: "GROUP group consumer [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] \
                 [BLOCK milliseconds] [CLAIM min-idle-time] [NOACK] STREAMS key [key ...] id \
                 [id ...]",
        summary: "Returns new or historical messages from a stream for a consumer in a group. \
                  Blocks until a message is available otherwise.",
        complexity: "For each stream mentioned: O(M) with M being the number of elements \
                     returned. If M is constant (e.g. always asking for the first 10 elements \
                     with COUNT), you can consider it O(1). On the other side when XREADGROUP \
                     blocks, XADD will pay the O(N) time in order to serve the N clients blocked \
                     on the stream getting new data.",
        arity: at_least(7),
        flags: Flags::WRITE.and(Flags::BLOCKING).and(Flags::MOVABLEKEYS),
        keys: &[streams(4, Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: xreadgroup,
};

/// What is asked of one stream.
#[derive(Clone, Copy)]
enum From {
    /// What nobody has got yet.
    New,
    /// What the consumer has pending behind an ID.
    Pending(EntryId),
}

/// One stream, read by one consumer.
#[derive(Clone, Copy)]
struct Reader<'a> {
    key: &'a [u8],
    group: &'a [u8],
    consumer: &'a [u8],
    request: &'a ReadRequest<'a>,
}

fn xreadgroup(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let request = ReadRequest::read(args, true)?;
    let deadline = request.deadline(tx.now())?;
    let (group, consumer) = request.reader.expect("the request has a group");
    let mut sources = Vec::with_capacity(request.keys.len());
    let mut cost = 0;
    for (key, id) in request.keys.iter().zip(request.ids.iter()) {
        let stream = tx.view::<Stream>(key)?;
        let found = stream.and_then(|stream| Some((stream, stream.group(group)?)));
        let (stream, known) = found.ok_or_else(|| no_group(key, group, WHERE))?;
        let source = From::read(id)?;
        let there = match source {
            From::New => stream.about_between(known.last_id, EntryId::MAX),
            From::Pending(_) => known.consumer(consumer).map_or(0, Consumer::pending_count),
        };
        let claimed = request.claim.filter(|_| matches!(source, From::New)).map_or(0, |least| {
            looked_at(stream, known, tx.now().saturating_sub(least), request.count)
        });
        let there = there.min(request.count as u64) + claimed;
        cost += there.saturating_mul(ENTRY_NS + PENDING_NS);
        sources.push((Reader { key, group, consumer, request: &request }, source));
    }
    tx.charge(cost)?;
    let mark = reply.defer();
    let (mut served, mut budget) = (0, request.budget());
    for (reader, source) in &sources {
        // A second time, as in Redis, for the counts of lookups.
        tx.read(reader.key)?;
        meet_consumer(tx, reader.key, group, consumer)?;
        served += usize::from(match source {
            From::New => reader.read_new(tx, &mut budget, reply)?,
            From::Pending(after) => reader.read_pending(tx, *after, &mut budget, reply)?,
        });
    }
    if served == 0 {
        let again = match deadline {
            Some(_) => next_claim(tx, &sources)?,
            None => None,
        };
        return request.wait_behind(deadline, again, request.ids.iter(), reply);
    }
    finish_streams(mark, served, reply);
    Ok(())
}

/// When the first pending entry will have been idle for long enough to be claimed. What has been
/// is deleted, or it would have been claimed now.
fn next_claim(tx: &Tx, sources: &[(Reader<'_>, From)]) -> Result<Option<UnixMillis>, Refusal> {
    let mut next = None;
    for (reader, _) in sources {
        let Some(least) = reader.request.claim else { continue };
        let stream = tx.peek_view::<Stream>(reader.key)?.expect("it was there");
        let group = stream.group(reader.group).expect("it was there");
        let idle_from = tx.now().saturating_sub(least);
        let fresh = group.pending_by_time().skip_while(|it| it.delivered_at <= idle_from);
        // Behind so many that are deleted another look at the time of the last is as good.
        let first = last_or(fresh.take(DELETED_PASSED), |it| stream.get(it.id).is_some());
        let first = first.map(|pending| pending.delivered_at.saturating_add(least));
        next = [next, first].into_iter().flatten().min();
    }
    Ok(next)
}

/// The first that is wanted, or else the last.
fn last_or<T>(items: impl Iterator<Item = T>, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
    let mut last = None;
    for item in items {
        let found = is_wanted(&item);
        last = Some(item);
        if found {
            break;
        }
    }
    last
}

/// How many pending entries are looked at for so many that may be claimed: those that are deleted
/// are passed. Behind very many of them the look is no work for a worker, and counts as one at all.
fn looked_at(stream: &Stream, group: &ConsumerGroup, idle_from: i64, wanted: usize) -> u64 {
    if wanted > DELETED_PASSED {
        return group.pending_count().min(wanted as u64);
    }
    let mut left = wanted;
    let idle = group.pending_by_time().take_while(|it| it.delivered_at <= idle_from);
    for (deleted, pending) in idle.enumerate() {
        left -= usize::from(stream.get(pending.id).is_some());
        let deleted = deleted + 1 - (wanted - left);
        if left == 0 || deleted > DELETED_PASSED {
            return if left == 0 { (wanted + deleted) as u64 } else { group.pending_count() };
        }
    }
    group.pending_count().min(wanted as u64)
}

impl From {
    fn read(id: &[u8]) -> Result<Self, Refusal> {
        let meaningless = |id: &str| {
            Refusal::owned(format!(
                "ERR The {id} ID is meaningless in the context of XREADGROUP: you want to read \
                 the history of this consumer by specifying a proper ID, or use the > ID to get \
                 new messages. The {id} ID would just return an empty result set."
            ))
        };
        match id {
            b">" => Ok(Self::New),
            b"$" => Err(meaningless("$")),
            b"+" => Err(meaningless("+")),
            // Redis keeps the mark for `>` in the greatest ID.
            _ => Ok(match ids::exact(id)? {
                EntryId::MAX => Self::New,
                id => Self::Pending(id),
            }),
        }
    }
}

impl Reader<'_> {
    fn claimed(&self, last_id: EntryId) -> Claimed<'_> {
        Claimed { key: self.key, group: self.group, consumer: self.consumer, last_id }
    }

    /// Replies what the consumer has pending; an entry that was deleted has no fields.
    fn read_pending(
        &self,
        tx: &mut Tx,
        after: EntryId,
        budget: &mut Budget,
        reply: &mut Reply<'_>,
    ) -> Result<bool, Refusal> {
        let stream = tx.peek_view::<Stream>(self.key)?.expect("it was there");
        let group = stream.group(self.group).expect("it was there");
        let consumer = group.consumer(self.consumer).expect("it was made");
        begin_stream(self.key, reply);
        let mark = reply.defer();
        let (mut again, mut found) = (Vec::new(), 0);
        let next = after.next().unwrap_or(EntryId::MAX);
        for id in consumer.owned_from(next).take(self.request.count) {
            match stream.get(id) {
                Some(item) if !budget.take(&item) => break,
                Some(item) => {
                    reply_entry(&item, reply);
                    again.extend(group.pending(id));
                }
                None => {
                    reply.array(2);
                    reply_id(id, reply);
                    reply.null_array();
                }
            }
            found += 1;
        }
        reply.finish_array(mark, found);
        let now = tx.now();
        if !again.is_empty() {
            edit_group_quietly(tx, self.key, self.group, |group| {
                for PendingEntry { id, deliveries, .. } in again {
                    group.deliver(id, self.consumer, now, deliveries.next());
                }
            })?;
        }
        Ok(true)
    }

    /// Replies what nobody has got yet, and before that what has been idle for too long.
    fn read_new(
        &self,
        tx: &mut Tx,
        budget: &mut Budget,
        reply: &mut Reply<'_>,
    ) -> Result<bool, Refusal> {
        let idle = self.idle(tx)?;
        let start = reply.mark();
        begin_stream(self.key, reply);
        let mark = reply.defer();
        let claimed = self.reply_idle(tx, &idle, budget, reply)?;
        let left = self.request.count - claimed.len();
        let delivered = self.reply_new(tx, left, budget, reply)?;
        let found = claimed.len() + delivered.len();
        if found == 0 {
            reply.rollback(start);
            return Ok(false);
        }
        reply.finish_array(mark, found);
        self.claim(tx, &claimed)?;
        if !delivered.is_empty() {
            self.deliver(tx, &delivered)?;
        }
        tx.effects_mut().add_changes(1);
        Ok(true)
    }

    /// The pending entries to be claimed, those first that were delivered longest ago.
    fn idle(&self, tx: &Tx) -> Result<Vec<PendingEntry>, Refusal> {
        let Some(least) = self.request.claim else { return Ok(Vec::new()) };
        let stream = tx.peek_view::<Stream>(self.key)?.expect("it was there");
        let group = stream.group(self.group).expect("it was there");
        let idle_from = tx.now().saturating_sub(least);
        let idle = group.pending_by_time().take_while(|it| it.delivered_at <= idle_from);
        let known = idle.filter(|it| stream.get(it.id).is_some());
        Ok(known.take(self.request.count).collect())
    }

    fn reply_idle(
        &self,
        tx: &Tx,
        pending: &[PendingEntry],
        budget: &mut Budget,
        reply: &mut Reply<'_>,
    ) -> Result<Vec<PendingEntry>, Refusal> {
        let stream = tx.peek_view::<Stream>(self.key)?.expect("it was there");
        let mut taken = Vec::new();
        for pending in pending {
            let item = stream.get(pending.id).expect("only entries are claimed");
            if !budget.take(&item) {
                break;
            }
            reply.array(4);
            reply_id(item.id, reply);
            reply_fields(&item.fields, reply);
            reply.integer(idle(tx, pending));
            reply.integer(pending.deliveries.get() as i64);
            taken.push(*pending);
        }
        Ok(taken)
    }

    fn reply_new(
        &self,
        tx: &Tx,
        most: usize,
        budget: &mut Budget,
        reply: &mut Reply<'_>,
    ) -> Result<Vec<EntryId>, Refusal> {
        let stream = tx.peek_view::<Stream>(self.key)?.expect("it was there");
        let last = stream.group(self.group).expect("it was there").last_id;
        let mut delivered = Vec::new();
        let Some(next) = last.next() else { return Ok(delivered) };
        for item in stream.range(next, EntryId::MAX).take(most) {
            if !budget.take(&item) {
                break;
            }
            if self.request.claim.is_some() {
                // As long as those that are claimed, though nobody has had it.
                reply.array(4);
                reply_id(item.id, reply);
                reply_fields(&item.fields, reply);
                reply.integer(0);
                reply.integer(0);
            } else {
                reply_entry(&item, reply);
            }
            delivered.push(item.id);
        }
        Ok(delivered)
    }

    /// Makes idle entries the consumer's.
    fn claim(&self, tx: &mut Tx, claimed: &[PendingEntry]) -> Result<(), Refusal> {
        if claimed.is_empty() {
            return Ok(());
        }
        let now = tx.now();
        let last_id = edit_group(tx, self.key, self.group, |group| {
            for pending in claimed {
                let deliveries = pending.deliveries.next();
                group.deliver(pending.id, self.consumer, now, deliveries);
            }
            group.activate(self.consumer, now);
            group.last_id
        })?;
        for pending in claimed {
            let deliveries = pending.deliveries.next();
            self.claimed(last_id).journal(tx, pending.id, now, deliveries);
        }
        Ok(())
    }

    /// Moves the group on, and makes what it passes pending.
    fn deliver(&self, tx: &mut Tx, delivered: &[EntryId]) -> Result<(), Refusal> {
        let (now, acknowledges) = (tx.now(), self.request.acknowledges);
        let stream = tx.peek_view::<Stream>(self.key)?.expect("it was there");
        let group = stream.group(self.group).expect("it was there");
        let (mut last, mut read) = (group.last_id, group.entries_read);
        for id in delivered {
            read = stream.entries_read_by((last, read), *id);
            last = *id;
        }
        edit_group(tx, self.key, self.group, |group| {
            (group.last_id, group.entries_read) = (last, read);
            if !acknowledges {
                let deliver = |id: &EntryId| group.deliver(*id, self.consumer, now, ONCE);
                delivered.iter().for_each(deliver);
                group.activate(self.consumer, now);
            }
        })?;
        if !acknowledges {
            delivered.iter().for_each(|id| self.claimed(*id).journal(tx, *id, now, ONCE));
        }
        journal_position(tx, self.key, self.group, last, read);
        Ok(())
    }
}
