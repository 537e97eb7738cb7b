//! A base as commands, to be read by people and programs: those that Redis writes where
//! `aof-use-rdb-preamble` is off.
//!
//! Invariants: run where the key is not, the commands give the entry again, as far as commands can
//! tell it; between two of them what was told may leave the writer.

use std::collections::BTreeSet;

use base::number::format_f64;
use keyspace::EntryRef;
use proto::args::encode_command;
use proto::framing::encode_select;
use proto::{Args, ArgsBuffer};
use structs::array::{ArrayRef, INDEX_MAX};
use structs::hash::HashRef;
use structs::members::Text;
use structs::set::SetRef;
use structs::sorted_set::SortedSetRef;
use structs::stream::{ConsumerGroup, Counter, EntryId, Stream};

use crate::entry_notes::EntryNote;
use crate::rdb::Writer;
use crate::rdb::value::ValueRef;

/// The most items in one command, as in Redis.
const ITEMS: usize = 64;

/// Bytes of items that are not gone beyond by more than one.
const ITEM_BYTES: usize = 1 << 20;

/// The words of the command that loads a library.
const FUNCTION: &[u8] = b"FUNCTION";
const LOAD: &[u8] = b"LOAD";

/// Tells the database of what follows.
pub(crate) fn write_select(out: &mut Writer, database: usize) {
    encode_select(database, out.buffer());
    out.flush_if_large();
}

/// Tells the slots whose keys are copies.
pub(crate) fn write_copied_slots(out: &mut Writer, slots: &str) {
    let note = EntryNote::CopiedSlots(slots.as_bytes());
    write_command(out, &[EntryNote::COMMAND, &note.word()]);
}

/// Tells a library of functions.
pub(crate) fn write_library(out: &mut Writer, code: &[u8]) {
    write_command(out, &[FUNCTION, LOAD, code]);
}

/// The code of the library that a command of a log loads, if it is such a command. The crate knows
/// no commands: these are words that a log is written in, as above.
pub(crate) fn loaded_library(args: Args<'_>) -> Option<&[u8]> {
    let is = |index: usize, word: &[u8]| {
        args.get(index).is_some_and(|argument| argument.eq_ignore_ascii_case(word))
    };
    (is(0, FUNCTION) && is(1, LOAD)).then(|| args.get(args.len() - 1)).flatten()
}

/// Tells an entry.
pub(crate) fn write_entry(out: &mut Writer, entry: EntryRef<'_>) {
    let key = entry.key();
    match ValueRef::of(entry) {
        ValueRef::String(text) => {
            let flags = entry.notes().flags;
            if flags != 0 {
                write_command(out, &[EntryNote::COMMAND, &EntryNote::Flags(flags).word()]);
            }
            write_command(out, &[b"SET", key, text.contiguous(&mut Vec::new())]);
        }
        ValueRef::List(list) => {
            let mut command = Items::of(out, b"RPUSH", key);
            list.iter().for_each(|text| command.add([text]));
            command.finish();
        }
        ValueRef::Set(set) => write_set(out, key, set),
        ValueRef::SortedSet(set) => write_sorted_set(out, key, set),
        ValueRef::Hash(hash) => write_hash(out, key, hash),
        ValueRef::Stream(stream) => write_stream(out, key, stream),
        ValueRef::Array(array) => write_array(out, key, array),
    }
    if let Some(deadline) = entry.deadline() {
        write_command(out, &[b"PEXPIREAT", key, deadline.to_string().as_bytes()]);
    }
    if entry.is_sticky() {
        write_command(out, &[EntryNote::COMMAND, &EntryNote::Sticks(key, true).word()]);
    }
}

fn write_set(out: &mut Writer, key: &[u8], set: SetRef<'_>) {
    let mut command = Items::of(out, b"SADD", key);
    set.into_iter().for_each(|item| command.add([item.member]));
    command.finish();
    if set.earliest_deadline().is_some() {
        let timed = set.into_iter().filter_map(|item| Some((item.member, item.deadline?)));
        timed.for_each(|(member, deadline)| write_member_deadline(out, key, member, deadline));
    }
}

fn write_sorted_set(out: &mut Writer, key: &[u8], set: SortedSetRef<'_>) {
    let mut command = Items::of(out, b"ZADD", key);
    // Small sets have no sign of a zero: those that do come when the set is as large as it will be.
    let is_signed = |score: f64| score == 0.0 && score.is_sign_negative();
    for signed in [false, true] {
        for item in set.items(0..set.len()).filter(|item| is_signed(item.score) == signed) {
            command.add([Text::Bytes(&format_f64(item.score)), item.member]);
        }
    }
    command.finish();
    if set.earliest_deadline().is_some() {
        let timed = set.items(0..set.len());
        let timed = timed.filter_map(|item| Some((item.member, item.deadline?)));
        timed.for_each(|(member, deadline)| write_member_deadline(out, key, member, deadline));
    }
}

fn write_member_deadline(out: &mut Writer, key: &[u8], member: Text<'_>, deadline: i64) {
    let member = member.to_vec();
    write_command(out, &[b"PEXPIREMEMBERAT", key, &member, deadline.to_string().as_bytes()]);
}

fn write_hash(out: &mut Writer, key: &[u8], hash: HashRef<'_>) {
    let mut command = Items::of(out, b"HMSET", key);
    hash.into_iter().for_each(|field| command.add([field.member, field.value]));
    command.finish();
    if hash.earliest_deadline().is_some() {
        for field in hash {
            let Some(deadline) = field.deadline else { continue };
            let (deadline, field) = (deadline.to_string(), field.member.to_vec());
            write_command(out, &[b"HPEXPIREAT", key, deadline.as_bytes(), b"FIELDS", b"1", &field]);
        }
    }
}

/// A ring is made before its elements, with one that may have to go again.
fn write_array(out: &mut Writer, key: &[u8], array: ArrayRef<'_>) {
    let is_ring = array.ring() > 0;
    let first = array.get(0);
    if is_ring {
        let text = first.map_or_else(Vec::new, Text::to_vec);
        write_command(out, &[b"ARRING", key, array.ring().to_string().as_bytes(), &text]);
    }
    let mut command = Items::of(out, b"ARMSET", key);
    for (index, text) in array.items(u64::from(is_ring)..=INDEX_MAX) {
        command.add([Text::Bytes(index.to_string().as_bytes()), text]);
    }
    command.finish();
    if is_ring && first.is_none() {
        write_command(out, &[b"ARDEL", key, b"0"]);
    }
    if is_ring || array.next() > 0 {
        write_command(out, &[b"ARSEEK", key, array.next().to_string().as_bytes()]);
    }
}

/// The entries, the groups and what is known beside them.
fn write_stream(out: &mut Writer, key: &[u8], stream: &Stream) {
    let pending = stream.groups().flat_map(|(_, group)| group.pending_from(EntryId::MIN));
    let pending: BTreeSet<EntryId> = pending.map(|pending| pending.id).collect();
    let has_gone = pending.iter().any(|id| stream.get(*id).is_none());
    if has_gone {
        write_groups_first(out, key, stream, &pending);
    }
    for item in stream.range(EntryId::MIN, EntryId::MAX) {
        let id = item.id.to_string();
        let texts: Vec<Vec<u8>> =
            item.fields.flat_map(|(field, value)| [field.to_vec(), value.to_vec()]).collect();
        let mut words = vec![&b"XADD"[..], key, id.as_bytes()];
        words.extend(texts.iter().map(Vec::as_slice));
        write_command(out, &words);
    }
    if stream.is_empty() && !has_gone {
        // Nothing else makes a stream without entries.
        write_command(out, &[b"XADD", key, b"MAXLEN", b"0", b"0-1", b"x", b"y"]);
    }
    let place = [stream.last_id(), stream.max_deleted_id()];
    write_place(out, key, place, stream.entries_added());
    if !has_gone {
        stream.groups().for_each(|(name, group)| write_group(out, key, name, group));
    }
    write_idempotence(out, key, stream);
}

/// The groups where some of what is pending is gone: an entry is there as it is claimed, so all
/// that is pending has an entry for a moment, whatever the IDs of the stream are. A trim leaves no
/// trace of these, and an empty stream takes any last ID.
fn write_groups_first(out: &mut Writer, key: &[u8], stream: &Stream, pending: &BTreeSet<EntryId>) {
    for id in pending {
        write_command(out, &[b"XADD", key, id.to_string().as_bytes(), b"x", b"y"]);
    }
    let last = pending.last().copied().unwrap_or(EntryId::MIN);
    // Groups have read no more than was ever added.
    let added = stream.entries_added().max(Counter::new(pending.len() as u64));
    write_place(out, key, [last, EntryId::MIN], added);
    stream.groups().for_each(|(name, group)| write_group(out, key, name, group));
    write_command(out, &[b"XTRIM", key, b"MAXLEN", b"0"]);
    write_command(out, &[b"XSETID", key, EntryId::MIN.to_string().as_bytes()]);
}

/// Tells which IDs were the last and the last deleted, and what was added.
fn write_place(out: &mut Writer, key: &[u8], ids: [EntryId; 2], added: Counter) {
    let [last, deleted] = ids.map(|id| id.to_string());
    let (added, last, deleted) = (added.to_string(), last.as_bytes(), deleted.as_bytes());
    let added = added.as_bytes();
    write_command(out, &[b"XSETID", key, last, b"ENTRIESADDED", added, b"MAXDELETEDID", deleted]);
}

fn write_group(out: &mut Writer, key: &[u8], name: &[u8], group: &ConsumerGroup) {
    let (last, read) = (group.last_id.to_string(), group.entries_read);
    let read = read.map_or_else(|| "-1".to_owned(), |read| read.to_string());
    let (last, read) = (last.as_bytes(), read.as_bytes());
    write_command(out, &[b"XGROUP", b"CREATE", key, name, last, b"ENTRIESREAD", read]);
    for (consumer, _) in group.consumers().filter(|(_, known)| known.pending_count() == 0) {
        write_command(out, &[b"XGROUP", b"CREATECONSUMER", key, name, consumer]);
    }
    for pending in group.pending_from(EntryId::MIN) {
        let [id, count] = [pending.id.to_string(), pending.deliveries.to_string()];
        let (id, count) = (id.as_bytes(), count.as_bytes());
        if pending.is_given_back() {
            let head = [b"XNACK", key, name, b"SILENT", b"IDS", b"1", id];
            write_command(out, &[&head[..], &[b"RETRYCOUNT", count, b"FORCE"]].concat());
        } else {
            let (owner, time) = (group.owner_of(&pending), pending.delivered_at.to_string());
            let head = [b"XCLAIM", key, name, owner, b"0", id, b"TIME", time.as_bytes()];
            write_command(out, &[&head[..], &[b"RETRYCOUNT", count, b"JUSTID", b"FORCE"]].concat());
        }
    }
}

fn write_idempotence(out: &mut Writer, key: &[u8], stream: &Stream) {
    let Some(known) = stream.idempotence() else { return };
    let limits = known.limits();
    let [duration, size] = [limits.duration.to_string(), limits.size.to_string()];
    let (duration, size) = (duration.as_bytes(), size.as_bytes());
    write_command(out, &[b"XCFGSET", key, b"IDMP-DURATION", duration, b"IDMP-MAXSIZE", size]);
    for (producer, sent) in known.producers() {
        for (iid, id) in sent {
            write_command(out, &[b"XIDMPRECORD", key, producer, iid, id.to_string().as_bytes()]);
        }
    }
}

/// Tells one command.
fn write_command(out: &mut Writer, words: &[&[u8]]) {
    encode_command(words.iter().copied(), out.buffer());
    out.flush_if_large();
}

/// A command that is told as often as its items need.
struct Items<'w> {
    out: &'w mut Writer,
    name: &'static [u8],
    key: &'w [u8],
    words: ArgsBuffer,
    buffer: Vec<u8>,
    count: usize,
    bytes: usize,
}

impl<'w> Items<'w> {
    fn of(out: &'w mut Writer, name: &'static [u8], key: &'w [u8]) -> Self {
        let (words, buffer) = (ArgsBuffer::default(), Vec::new());
        Self { out, name, key, words, buffer, count: 0, bytes: 0 }
    }

    fn add<const N: usize>(&mut self, item: [Text<'_>; N]) {
        if self.count == 0 {
            push(&mut self.words, self.name);
            push(&mut self.words, self.key);
        }
        for text in item {
            self.bytes += text.len();
            push(&mut self.words, text.as_bytes(&mut self.buffer));
        }
        self.count += 1;
        if self.count == ITEMS || self.bytes >= ITEM_BYTES {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if self.count > 0 {
            self.words.as_args().encode(self.out.buffer());
            self.out.flush_if_large();
            self.words.clear();
            (self.count, self.bytes) = (0, 0);
        }
    }
}

fn push(words: &mut ArgsBuffer, word: &[u8]) {
    let fits = words.push(word);
    assert!(fits, "an item is no longer than a command that brought it");
}
