//! What a stream knows besides its entries: XSETID, XCFGSET, XIDMPRECORD.
//!
//! Invariant: a stream's last ID is never below an entry, its count never below its length.

use keyspace::{EventClass, FeatureLevel, Refusal, Tx};
use proto::{Args, Reply};
use structs::stream::{Counter, Counters, EntryId, Idempotence, IdempotenceLimits, Stream};

use super::ids::{self, IdText};
use super::{edit, edit_quietly};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::errors::{NO_SUCH_KEY, SYNTAX};
use crate::keys::{Access, KeySpec, first};

const NEGATIVE: Refusal = Refusal::error("ERR entries_added must be positive");
const BELOW_GIVEN: Refusal = Refusal::error(
    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
);
const BELOW_DELETED: Refusal =
    Refusal::error("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id");
const BELOW_ENTRIES: Refusal =
    Refusal::error("ERR The ID specified in XSETID is smaller than the target stream top item");
const BELOW_LENGTH: Refusal = Refusal::error(
    "ERR The entries_added specified in XSETID is smaller than the target stream length",
);
const WRONG_DURATION: Refusal = Refusal::error("ERR invalid duration");
const WRONG_SIZE: Refusal = Refusal::error("ERR invalid maxsize");
const NOT_SENT: Refusal = Refusal::error("ERR pid and iid must not be empty");
const NO_ENTRY: Refusal = Refusal::error("ERR no such entry in the stream");
const SENT_OTHERWISE: Refusal = Refusal::error("ERR the iid belongs to another entry");

const KEY: &[KeySpec] = &[first(Access::RW.and(Access::UPDATE))];

/// For how long and how many IDs of a producer are kept where the stream does not say.
pub(super) fn default_limits(tx: &Tx) -> IdempotenceLimits {
    let settings = &tx.keyspace().settings().containers;
    IdempotenceLimits {
        duration: settings.stream_idmp_seconds.get() as u64,
        size: settings.stream_idmp_size.get(),
    }
}

pub(super) const XSETID: DataCommand = Command {
    spec: Spec {
        name: "XSETID",
        since: "5.0.0",
        group: Group::Stream,
        syntax: "key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]",
        summary: "An internal command for replicating stream values.",
        complexity: "O(1)",
        arity: at_least(3),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
        keys: KEY,
        history: &[("7.0.0", "Added the `entries_added` and `max_deleted_entry_id` arguments.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: xsetid,
};

fn xsetid(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    let id = ids::exact(&args[2])?;
    let (mut added, mut deleted, mut forgets_deleted) = (None, EntryId::MIN, false);
    let mut options = Options::from(args, 3);
    while let Some(word) = options.word() {
        let has_value = options.position() < args.len();
        if is(word, "ENTRIESADDED") && has_value {
            let number = u64::try_from(options.integer()?).map_err(|_| NEGATIVE)?;
            added = Some(Counter::new(number));
        } else if is(word, "MAXDELETEDID") && has_value {
            deleted = ids::exact(options.value()?)?;
            // As our own journal says it; else it asks for nothing.
            forgets_deleted = deleted == EntryId::MIN && tx.replays();
            if id < deleted {
                return Err(BELOW_GIVEN);
            }
        } else {
            return Err(SYNTAX);
        }
    }
    let stream = tx.peek_view::<Stream>(key)?.ok_or(NO_SUCH_KEY)?;
    // Redis 7.0 takes that, and says so to its replicas.
    if id < stream.max_deleted_id() && !tx.replays() {
        return Err(BELOW_DELETED);
    }
    if let Some(last) = stream.range_back(EntryId::MIN, EntryId::MAX).next() {
        if id < last.id {
            return Err(BELOW_ENTRIES);
        }
        if added.is_some_and(|added| added.get() < stream.len()) {
            return Err(BELOW_LENGTH);
        }
    }
    let counters = Counters {
        last_id: id,
        max_deleted_id: match deleted {
            EntryId::MIN if !forgets_deleted => stream.max_deleted_id().min(id),
            deleted => deleted,
        },
        entries_added: added.unwrap_or(stream.entries_added()),
    };
    tx.without_modified_keys(|tx| edit_quietly(tx, key, |stream| stream.set_counters(counters)))?;
    if args.len() > 3 && !tx.tells_redis_7() {
        tx.effects_mut().instead(&[b"XSETID", key, &args[2]]);
    }
    tx.event(EventClass::Stream, "xsetid", key);
    tx.effects_mut().add_changes(1);
    reply.ok();
    Ok(())
}

pub(super) const XCFGSET: DataCommand = Command {
    spec: Spec {
        name: "XCFGSET",
        since: "8.6.0",
        group: Group::Stream,
        syntax: "key [IDMP-DURATION idmp-duration] [IDMP-MAXSIZE idmp-maxsize]",
        summary: "Sets the IDMP configuration parameters for a stream.",
        complexity: "O(1)",
        arity: at_least(2),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: KEY,
        ..Spec::BASE
    },
    subcommands: &[],
    run: xcfgset,
};

fn xcfgset(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    let (mut duration, mut size) = (None, None);
    let mut options = Options::from(args, 2);
    let within = |number: i64, most: i64| (1..=most).contains(&number).then_some(number);
    while let Some(word) = options.word() {
        if is(word, "IDMP-DURATION") {
            let seconds = within(options.integer()?, IdempotenceLimits::DURATION_MAX as i64)
                .ok_or(WRONG_DURATION)?;
            duration = Some(seconds.unsigned_abs());
        } else if is(word, "IDMP-MAXSIZE") {
            let most =
                within(options.integer()?, IdempotenceLimits::SIZE_MAX as i64).ok_or(WRONG_SIZE)?;
            size = Some(most as usize);
        } else {
            return Err(SYNTAX);
        }
    }
    if duration.is_none() && size.is_none() {
        return Err(SYNTAX);
    }
    let stream = tx.peek_view::<Stream>(key)?.ok_or(NO_SUCH_KEY)?;
    let known = stream.idempotence().map_or_else(|| default_limits(tx), Idempotence::limits);
    let limits = IdempotenceLimits {
        duration: duration.unwrap_or(known.duration),
        size: size.unwrap_or(known.size),
    };
    edit(tx, key, |stream| stream.restart_idempotence(limits))?;
    tx.require_feature_level(FeatureLevel::Producers);
    tx.effects_mut().add_changes(1);
    reply.ok();
    Ok(())
}

pub(super) const XIDMPRECORD: DataCommand = Command {
    spec: Spec {
        name: "XIDMPRECORD",
        since: "8.8.0",
        group: Group::Stream,
        syntax: "key pid iid stream-id",
        summary: "An internal command for setting IDMP metadata on an existing stream message.",
        complexity: "O(1)",
        arity: exactly(5),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
        keys: KEY,
        ..Spec::BASE
    },
    subcommands: &[],
    run: xidmprecord,
};

fn xidmprecord(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, producer, iid) = (&args[1], &args[2], &args[3]);
    if producer.is_empty() || iid.is_empty() {
        return Err(NOT_SENT);
    }
    let id = ids::exact(&args[4])?;
    let stream = tx.peek_view::<Stream>(key)?.ok_or(NO_SUCH_KEY)?;
    // The entry may have been trimmed since, which keeps no producer from sending it twice.
    if stream.get(id).is_none() && !tx.replays() {
        return Err(NO_ENTRY);
    }
    let now = tx.now();
    match stream.idempotence().and_then(|known| known.find(producer, iid, now)) {
        Some(other) if other != id => return Err(SENT_OTHERWISE),
        Some(_) => {}
        None => {
            let limits = default_limits(tx);
            edit(tx, key, |stream| {
                stream.idempotence_mut(limits).record(producer, iid, id, now);
            })?;
            tx.require_feature_level(FeatureLevel::Producers);
            tx.effects_mut().add_changes(1);
        }
    }
    reply.ok();
    Ok(())
}

/// Says under which ID a producer sent an entry; stands behind the XADD of it.
pub(super) fn journal_sent(tx: &mut Tx, key: &[u8], producer: &[u8], iid: &[u8], id: EntryId) {
    let id = IdText::new(id);
    tx.effects_mut().instead(&[b"XIDMPRECORD", key, producer, iid, id.as_bytes()]);
}
