//! Taking pending entries over: XCLAIM, XAUTOCLAIM.
//!
//! Invariant: the journal has every claim as an XCLAIM with its time and its count, by whichever
//! command and options.

use base::quote::shown;
use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::stream::{ConsumerGroup, Counter, EntryId, PendingEntry, Stream};

use super::ids::{self, reply_id};
use super::{
    Claimed, ENTRY_NS, PENDING_NS, edit_group, edit_group_quietly, idle, journal_position,
    meet_consumer, no_group, reply_entry,
};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::{SYNTAX, showing};
use crate::keys::{Access, first};

const WRONG_COUNT: Refusal = Refusal::error("ERR COUNT must be > 0");

/// How many pending entries XAUTOCLAIM looks at for each that it is to claim.
const LOOKS_PER_CLAIM: i64 = 10;
/// Redis keeps that many IDs of 16 bytes in its memory.
const CLAIMS_MAX: i64 = i64::MAX / 16;
const DEFAULT_CLAIMS: i64 = 100;

pub(super) const XCLAIM: DataCommand = Command {
    spec: Spec {
        name: "XCLAIM",
        since: "5.0.0",
        group: Group::Stream,
        syntax: "key group consumer min-idle-time id [id ...] [IDLE ms] \
                 [TIME unix-time-milliseconds] [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]",
        summary: "Changes, or acquires, ownership of a message in a consumer group, as if the \
                  message was delivered a consumer group member.",
        complexity: "O(log N) with N being the number of messages in the PEL of the consumer \
                     group.",
        arity: at_least(6),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::UPDATE))],
        tips: &["nondeterministic_output"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: xclaim,
};

/// What XCLAIM was asked for.
struct Claim {
    ids: Vec<EntryId>,
    idle_min: i64,
    delivered_at: i64,
    deliveries: Option<Counter>,
    force: bool,
    ids_only: bool,
    last_id: Option<EntryId>,
}

fn xclaim(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, group, consumer) = (&args[1], &args[2], &args[3]);
    let stream = tx.view::<Stream>(key)?;
    let known = stream.and_then(|stream| stream.group(group));
    let mut last_id = known.ok_or_else(|| no_group(key, group, ""))?.last_id;
    let claim = Claim::read(tx, args)?;
    tx.charge(claim.ids.len() as u64 * (ENTRY_NS + PENDING_NS))?;
    let mut moved = false;
    if let Some(id) = claim.last_id.filter(|id| *id > last_id) {
        edit_group(tx, key, group, |group| group.last_id = id)?;
        (last_id, moved) = (id, true);
    }
    meet_consumer(tx, key, group, consumer)?;
    let claimed = Claimed { key, group, consumer, last_id };
    let mark = reply.defer();
    let mut found = 0;
    for id in &claim.ids {
        match claim.take(tx, &claimed, *id)? {
            Taken::No => continue,
            Taken::Gone => {}
            Taken::Yes => {
                reply_claimed(tx, key, *id, claim.ids_only, reply)?;
                found += 1;
            }
        }
        moved = false;
    }
    reply.finish_array(mark, found);
    if moved {
        let group_now = tx.peek_view::<Stream>(key)?.and_then(|stream| stream.group(group));
        let read = group_now.and_then(|group| group.entries_read);
        tx.effects_mut().add_changes(1);
        journal_position(tx, key, group, last_id, read);
    }
    Ok(())
}

/// What became of an attempt.
enum Taken {
    /// The entry is not pending, or not idle for long enough.
    No,
    /// The entry was pending and is no entry any more.
    Gone,
    Yes,
}

impl Claim {
    fn read(tx: &Tx, args: Args<'_>) -> Result<Self, Refusal> {
        let wrong = |word: &str| Refusal::owned(format!("ERR Invalid {word} argument for XCLAIM"));
        let idle_min = base::number::parse_i64(&args[4]).ok_or_else(|| wrong("min-idle-time"))?;
        let ids: Vec<_> = args.skip(5).iter().map_while(|word| ids::parse(word, 0)).collect();
        let mut claim = Self {
            idle_min: idle_min.max(0),
            delivered_at: tx.now(),
            deliveries: None,
            force: false,
            ids_only: false,
            last_id: None,
            ids,
        };
        let mut options = Options::from(args, 5 + claim.ids.len());
        while let Some(word) = options.word() {
            let has_value = options.position() < args.len();
            let mut number =
                |name: &str| options.integer().map_err(|_| wrong(&format!("{name} option")));
            if is(word, "FORCE") {
                claim.force = true;
            } else if is(word, "JUSTID") {
                claim.ids_only = true;
            } else if is(word, "IDLE") && has_value {
                claim.delivered_at = tx.now().saturating_sub(number("IDLE")?);
            } else if is(word, "TIME") && has_value {
                claim.delivered_at = number("TIME")?;
            } else if is(word, "RETRYCOUNT") && has_value {
                claim.deliveries = u64::try_from(number("RETRYCOUNT")?).map(Counter::new).ok();
            } else if is(word, "LASTID") && has_value {
                claim.last_id = Some(ids::exact(options.value()?)?);
            } else {
                return Err(showing("ERR Unrecognized XCLAIM option '", shown(word, 128), "'"));
            }
        }
        if !(0..=tx.now()).contains(&claim.delivered_at) {
            claim.delivered_at = tx.now();
        }
        Ok(claim)
    }

    fn take(&self, tx: &mut Tx, claimed: &Claimed<'_>, id: EntryId) -> Result<Taken, Refusal> {
        let Claimed { key, group, .. } = *claimed;
        let stream = tx.peek_view::<Stream>(key)?.expect("it was there");
        let pending = stream.group(group).and_then(|group| group.pending(id));
        if stream.get(id).is_none() {
            return match pending {
                Some(pending) => drop_gone(tx, claimed, &pending).map(|()| Taken::Gone),
                None => Ok(Taken::No),
            };
        }
        let deliveries = match pending {
            Some(pending) => {
                if idle(tx, &pending) < self.idle_min {
                    return Ok(Taken::No);
                }
                pending.deliveries
            }
            None if self.force => Counter::new(1),
            None => return Ok(Taken::No),
        };
        let again = if self.ids_only { deliveries } else { deliveries.next() };
        let deliveries = self.deliveries.unwrap_or(again);
        own(tx, claimed, id, self.delivered_at, deliveries)?;
        Ok(Taken::Yes)
    }
}

/// Makes an entry the consumer's.
fn own(
    tx: &mut Tx,
    claimed: &Claimed<'_>,
    id: EntryId,
    delivered_at: i64,
    deliveries: Counter,
) -> Result<(), Refusal> {
    let now = tx.now();
    edit_group(tx, claimed.key, claimed.group, |group| {
        group.deliver(id, claimed.consumer, delivered_at, deliveries);
        group.activate(claimed.consumer, now);
    })?;
    tx.effects_mut().add_changes(1);
    claimed.journal(tx, id, delivered_at, deliveries);
    Ok(())
}

/// Forgets a pending entry that was deleted. An XCLAIM of it does the same elsewhere.
fn drop_gone(tx: &mut Tx, claimed: &Claimed<'_>, pending: &PendingEntry) -> Result<(), Refusal> {
    let forget = |group: &mut ConsumerGroup| group.acknowledge(pending.id);
    edit_group_quietly(tx, claimed.key, claimed.group, forget)?;
    tx.effects_mut().add_changes(1);
    claimed.journal(tx, pending.id, pending.delivered_at, pending.deliveries);
    Ok(())
}

fn reply_claimed(
    tx: &Tx,
    key: &[u8],
    id: EntryId,
    ids_only: bool,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    if ids_only {
        reply_id(id, reply);
        return Ok(());
    }
    let entry = tx.peek_view::<Stream>(key)?.and_then(|stream| stream.get(id));
    reply_entry(&entry.expect("only entries are claimed"), reply);
    Ok(())
}

pub(super) const XAUTOCLAIM: DataCommand = Command {
    spec: Spec {
        name: "XAUTOCLAIM",
        since: "6.2.0",
        group: Group::Stream,
        syntax: "key group consumer min-idle-time start [COUNT count] [JUSTID]",
        summary: "Changes, or acquires, ownership of messages in a consumer group, as if the \
                  messages were delivered to as consumer group member.",
        complexity: "O(1) if COUNT is small.",
        arity: at_least(6),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::DELETE))],
        tips: &["nondeterministic_output"],
        history: &[(
            "7.0.0",
            "Added an element to the reply array, containing deleted entries the command cleared \
             from the PEL",
        )],
        ..Spec::BASE
    },
    subcommands: &[],
    run: xautoclaim,
};

fn xautoclaim(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, group, consumer) = (&args[1], &args[2], &args[3]);
    let wrong = || Refusal::error("ERR Invalid min-idle-time argument for XAUTOCLAIM");
    let idle_min = base::number::parse_i64(&args[4]).ok_or_else(wrong)?;
    let start = ids::start(&args[5])?;
    let (mut count, mut ids_only) = (DEFAULT_CLAIMS, false);
    let mut options = Options::from(args, 6);
    while let Some(word) = options.word() {
        if is(word, "COUNT") && options.position() < args.len() {
            let number = options.integer().ok();
            let number = number.filter(|number| (1..=CLAIMS_MAX).contains(number));
            count = number.ok_or(WRONG_COUNT)?;
        } else if is(word, "JUSTID") {
            ids_only = true;
        } else {
            return Err(SYNTAX);
        }
    }
    let stream = tx.view::<Stream>(key)?;
    let known = stream.and_then(|stream| stream.group(group));
    let known = known.ok_or_else(|| no_group(key, group, ""))?;
    let looks = count.saturating_mul(LOOKS_PER_CLAIM).unsigned_abs().min(known.pending_count());
    tx.charge(looks.saturating_mul(ENTRY_NS + PENDING_NS))?;
    let claimed = Claimed { key, group, consumer, last_id: known.last_id };
    meet_consumer(tx, key, group, consumer)?;
    let found = find_idle(tx, &claimed, start, (looks, count), idle_min)?;
    reply.array(3);
    reply_id(found.next, reply);
    reply.array(found.idle.len());
    for pending in &found.idle {
        let deliveries = pending.deliveries;
        let deliveries = if ids_only { deliveries } else { deliveries.next() };
        own(tx, &claimed, pending.id, tx.now(), deliveries)?;
        reply_claimed(tx, key, pending.id, ids_only, reply)?;
    }
    reply.array(found.gone.len());
    for pending in &found.gone {
        drop_gone(tx, &claimed, pending)?;
        reply_id(pending.id, reply);
    }
    Ok(())
}

/// What XAUTOCLAIM came across.
struct ClaimScan {
    idle: Vec<PendingEntry>,
    gone: Vec<PendingEntry>,
    /// Where the next call goes on.
    next: EntryId,
}

fn find_idle(
    tx: &Tx,
    claimed: &Claimed<'_>,
    start: EntryId,
    (looks, most): (u64, i64),
    idle_min: i64,
) -> Result<ClaimScan, Refusal> {
    let stream = tx.peek_view::<Stream>(claimed.key)?.expect("it was there");
    let group = stream.group(claimed.group).expect("it was there");
    let mut found = ClaimScan { idle: Vec::new(), gone: Vec::new(), next: EntryId::MIN };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    for (looked, pending) in group.pending_from(start).enumerate() {
        if looked as u64 == looks || found.idle.len() + found.gone.len() == most {
            found.next = pending.id;
            break;
        }
        if stream.get(pending.id).is_none() {
            found.gone.push(pending);
        } else if idle(tx, &pending) >= idle_min {
            found.idle.push(pending);
        }
    }
    Ok(found)
}
