//! Values in and out in one piece: DUMP, RESTORE.
//!
//! Invariant: a payload is read, and refused if it is none, before anything changes; the journal
//! gets an absolute time to live.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use base::number::format_i64;
use base::time::UnixMillis;
use commands::DataCommand;
use commands::arguments::{Options, integer, is};
use commands::change::{place_over, remove};
use commands::declare::{Command, Flags, Group, Spec, at_least, exactly};
use commands::errors::SYNTAX;
use commands::keys::{Access, first};
use keyspace::{EntryBox, EntryRef, EventClass, Keyspace, Refusal, Tx, WORKER_BUDGET_NS};
use persist::dump::RestoreError;
use persist::rdb::value::{Limits, ValueRef};
use persist::rdb::{REDIS_6_2, REDIS_7_0, ValueType};
use proto::{Args, Reply, Source};

/// About what it takes to pack a byte, or to unpack one of a string, in nanoseconds.
const BYTE_COST_NS: u64 = 3;

/// About what it takes to put a packed byte into a container, in nanoseconds.
const CONTAINED_BYTE_COST_NS: u64 = 12;

pub(super) const DUMP: DataCommand = Command {
    spec: Spec {
        name: "DUMP",
        since: "2.6.0",
        group: Group::Generic,
        syntax: "key",
        summary: "Returns a serialized representation of the value stored at a key.",
        complexity: "O(1) to access the key and additional O(N*M) to serialize it, where N is the \
            number of Redis objects composing the value and M their average size. For small \
            string values the time complexity is thus O(1)+O(1*M) where M is small, so simply \
            O(1).",
        arity: exactly(2),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        tips: &["nondeterministic_output"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: dump,
};

fn dump(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    match tx.read(&args[1])? {
        Some(entry) => {
            // What was never written takes no memory, and is packed all the same.
            let length = entry.text().map_or(0, |text| text.len());
            let cost = entry.memory().max(length) as u64 * BYTE_COST_NS;
            tx.charge(cost)?;
            if cost <= WORKER_BUDGET_NS {
                reply.bulk(&pack(tx.keyspace(), entry));
                return Ok(());
            }
            let (copy, keyspace) = (Some(entry.duplicate(&args[1], None)), tx.keyspace());
            reply.stream(Box::new(Packing { copy, keyspace }));
        }
        None => reply.null(),
    }
    Ok(())
}

fn pack(keyspace: &Keyspace, entry: EntryRef<'_>) -> Vec<u8> {
    let compresses = keyspace.settings().compresses_dumps.load(Ordering::Relaxed);
    persist::dump::dump(entry, compresses)
}

/// A big value that is packed after its lock is free: a copy, which shares its pages.
struct Packing {
    copy: Option<EntryBox>,
    keyspace: &'static Keyspace,
}

impl Source for Packing {
    fn write(&mut self, reply: &mut Reply<'_>, _: usize) -> bool {
        if let Some(copy) = self.copy.take() {
            reply.bulk(&pack(self.keyspace, copy.borrow()));
            self.keyspace.lazy_free(copy);
        }
        false
    }

    fn bytes_left(&self) -> u64 {
        self.copy.as_ref().map_or(0, |copy| copy.borrow().memory() as u64)
    }
}

pub(super) const RESTORE: DataCommand = Command {
    spec: Spec {
        name: "RESTORE",
        since: "2.6.0",
        group: Group::Generic,
        syntax: "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
        summary: "Creates a key from the serialized representation of a value.",
        ..RESTORE_BASE
    },
    subcommands: &[],
    run: restore,
};

pub(super) const RESTORE_ASKING: DataCommand = Command {
    spec: Spec {
        name: "RESTORE-ASKING",
        since: "3.0.0",
        group: Group::Server,
        syntax: "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
        summary: "An internal command for migrating keys in a cluster.",
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::ASKING).and(Flags::OPTIMISTIC),
        categories: &["@keyspace", "@dangerous"],
        ..RESTORE_BASE
    },
    subcommands: &[],
    run: restore,
};

/// What both have in common.
const RESTORE_BASE: Spec = Spec {
    complexity: "O(1) to create the new key and additional O(N*M) to reconstruct the serialized \
        value, where N is the number of Redis objects composing the value and M their average \
        size. For small string values the time complexity is thus O(1)+O(1*M) where M is small, \
        so simply O(1). However for sorted set values the complexity is O(N*M*log(N)) because \
        inserting values into sorted sets is O(log(N)).",
    arity: at_least(4),
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::OPTIMISTIC),
    keys: &[first(Access::OW.and(Access::UPDATE))],
    categories: &["@dangerous"],
    history: &[
        ("3.0.0", "Added the `REPLACE` modifier."),
        ("5.0.0", "Added the `ABSTTL` modifier."),
        ("5.0.0", "Added the `IDLETIME` and `FREQ` options."),
    ],
    ..Spec::BASE
};

/// What RESTORE is asked beside key and payload.
#[derive(Default)]
struct Modifiers {
    replaces: bool,
    is_absolute: bool,
    idle_seconds: Option<u64>,
    frequency: Option<u8>,
}

impl Modifiers {
    fn parse(args: Args<'_>) -> Result<Self, Refusal> {
        let mut modifiers = Self::default();
        let mut options = Options::from(args, 4);
        while let Some(word) = options.word() {
            if is(word, "REPLACE") {
                modifiers.replaces = true;
            } else if is(word, "ABSTTL") {
                modifiers.is_absolute = true;
            } else if is(word, "IDLETIME") && modifiers.frequency.is_none() {
                let seconds = u64::try_from(options.integer()?);
                modifiers.idle_seconds = Some(seconds.map_err(|_| INVALID_IDLE_TIME)?);
            } else if is(word, "FREQ") && modifiers.idle_seconds.is_none() {
                let frequency = u8::try_from(options.integer()?);
                modifiers.frequency = Some(frequency.map_err(|_| INVALID_FREQUENCY)?);
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(modifiers)
    }

    /// When the key shall expire, by the argument that says so.
    fn deadline(&self, ttl: i64, now: UnixMillis) -> Result<Option<UnixMillis>, Refusal> {
        match (ttl, self.is_absolute) {
            (0, _) => Ok(None),
            (..0, _) => Err(INVALID_TTL),
            (_, true) => Ok(Some(ttl)),
            (_, false) => now.checked_add(ttl).map(Some).ok_or(INVALID_TTL),
        }
    }

    /// The access clock that the key shall have.
    fn clock(&self, tx: &Tx) -> u32 {
        match (self.frequency, self.idle_seconds) {
            (Some(frequency), _) if tx.tracks_frequency() => tx.clock_of_frequency(frequency),
            (_, Some(seconds)) if !tx.tracks_frequency() => tx.clock_of_idle(seconds),
            _ => tx.fresh_clock(),
        }
    }
}

const INVALID_TTL: Refusal = Refusal::error("ERR Invalid TTL value, must be >= 0");
const INVALID_IDLE_TIME: Refusal = Refusal::error("ERR Invalid IDLETIME value, must be >= 0");
const INVALID_FREQUENCY: Refusal =
    Refusal::error("ERR Invalid FREQ value, must be >= 0 and <= 255");
const BUSY_KEY: Refusal = Refusal::error("BUSYKEY Target key name already exists.");

fn restore(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, payload) = (&args[1], &args[3]);
    let modifiers = Modifiers::parse(args)?;
    let exists = tx.exists(key)?;
    if exists && !modifiers.replaces {
        return Err(BUSY_KEY);
    }
    let deadline = modifiers.deadline(integer(args, 2)?, tx.now())?;
    let mut entry = tx.compute(|tx| {
        tx.charge(payload.len() as u64 * byte_cost_ns(payload))?;
        let limits = Limits::from(&tx.keyspace().settings().containers);
        persist::dump::restore(payload, key, deadline, &limits).map_err(refusal_of)
    })?;
    // A while ago it may have been another one, where the time is relative.
    let deadline = entry.borrow().deadline();
    if deadline.is_some_and(|deadline| tx.is_over_at(deadline)) {
        if exists {
            remove(tx, key)?;
        }
        reply.ok();
        return Ok(());
    }
    entry.set_access_clock(modifiers.clock(tx));
    place_over(tx, key, entry, |tx| tx.event(EventClass::Generic, "restore", key))?;
    journal_restored(tx, key, payload, deadline, modifiers.is_absolute)?;
    reply.ok();
    Ok(())
}

/// Says what was restored: until when it lives, where a time was told that goes by; and in a form
/// that other servers read, where the payload is of a newer one.
fn journal_restored(
    tx: &mut Tx,
    key: &[u8],
    payload: &[u8],
    deadline: Option<UnixMillis>,
    is_absolute: bool,
) -> Result<(), Refusal> {
    let version = persist::dump::version_of(payload).unwrap_or(REDIS_6_2);
    let newest = if version > REDIS_6_2 && !tx.tells_redis_7() { REDIS_6_2 } else { REDIS_7_0 };
    let is_newer = version > newest;
    let is_relative = deadline.is_some() && !is_absolute;
    if !(is_newer || is_relative) || !tx.effects().is_recorded() {
        return Ok(());
    }
    if let Some(commands) = tx.peek(key)?.and_then(timed_hash_commands) {
        let tell = |words: &Vec<Vec<u8>>| {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            tx.effects_mut().instead(&words);
        };
        commands.iter().for_each(tell);
        return Ok(());
    }
    let compresses = tx.keyspace().settings().compresses_dumps.load(Ordering::Relaxed);
    let repacked = match tx.peek(key)? {
        Some(entry) if is_newer => {
            Cow::Owned(persist::dump::dump_within(entry, compresses, newest))
        }
        _ => Cow::Borrowed(payload),
    };
    let millis = &mut [0; 20];
    let millis = format_i64(deadline.unwrap_or(0), millis);
    tx.effects_mut().instead(&[b"RESTORE", key, millis, &repacked, b"REPLACE", b"ABSTTL"]);
    Ok(())
}

/// The commands that make a hash whose fields expire: payloads of one have a form in Redis that
/// Valkey does not read, and another one there. `None` for all else.
fn timed_hash_commands(entry: EntryRef<'_>) -> Option<Vec<Vec<Vec<u8>>>> {
    let ValueRef::Hash(hash) = ValueRef::of(entry) else { return None };
    hash.earliest_deadline()?;
    let key = entry.key();
    let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
    let mut fields = words(&[b"HSET", key]);
    let mut timed = BTreeMap::<UnixMillis, Vec<Vec<u8>>>::new();
    for field in hash {
        fields.extend([field.member.to_vec(), field.value.to_vec()]);
        if let Some(deadline) = field.deadline {
            timed.entry(deadline).or_default().push(field.member.to_vec());
        }
    }
    let mut commands = vec![words(&[b"DEL", key]), fields];
    for (deadline, fields) in timed {
        let (deadline, count) = (deadline.to_string(), fields.len().to_string());
        let head: [&[u8]; 5] =
            [b"HPEXPIREAT", key, deadline.as_bytes(), b"FIELDS", count.as_bytes()];
        commands.push(words(&head).into_iter().chain(fields).collect());
    }
    if let Some(deadline) = entry.deadline() {
        commands.push(words(&[b"PEXPIREAT", key, deadline.to_string().as_bytes()]));
    }
    Some(commands)
}

fn byte_cost_ns(payload: &[u8]) -> u64 {
    let is_string = payload.first() == Some(&ValueType::String.byte());
    if is_string { BYTE_COST_NS } else { CONTAINED_BYTE_COST_NS }
}

fn refusal_of(error: RestoreError) -> Refusal {
    Refusal::error(match error {
        RestoreError::Seal => "ERR DUMP payload version or checksum are wrong",
        RestoreError::Content => "ERR Bad data format",
    })
}
