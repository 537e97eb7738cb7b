//! The stream family.
//!
//! Invariants: every command declared in these files stands in `COMMANDS`; IDs are chosen and times
//! taken here, so the journal has them as they came out and never as they were asked for.

mod acknowledge;
mod add;
mod claim;
mod delete;
mod effects;
mod groups;
mod ids;
mod info;
mod long_read;
mod pending;
mod range;
mod read;
mod read_group;
mod settings;
#[cfg(test)]
mod tests;
mod trim;

use base::quote::shown;
use keyspace::{EventClass, Refusal, Tx};
use proto::{Args, Reply};
use structs::stream::{
    ConsumerGroup, Counter, EntryFields, EntryId, NodeLimits, PendingEntry, Stream, StreamEntry,
};

use self::ids::{IdText, reply_id};
use crate::DataCommand;
use crate::arguments::is;
use crate::errors::showing;
use crate::text::reply_member;

/// All commands of the family.
pub const COMMANDS: &[&DataCommand] = &[
    &acknowledge::XACK,
    &delete::XACKDEL,
    &add::XADD,
    &claim::XAUTOCLAIM,
    &settings::XCFGSET,
    &claim::XCLAIM,
    &delete::XDEL,
    &delete::XDELEX,
    &groups::XGROUP,
    &settings::XIDMPRECORD,
    &info::XINFO,
    &range::XLEN,
    &acknowledge::XNACK,
    &pending::XPENDING,
    &range::XRANGE,
    &read::XREAD,
    &read_group::XREADGROUP,
    &range::XREVRANGE,
    &settings::XSETID,
    &trim::XTRIM,
];

/// Finding, replying or deleting one entry, in nanoseconds.
const ENTRY_NS: u64 = 150;

/// Changing what one group knows of an entry, in nanoseconds.
const PENDING_NS: u64 = 400;

/// What becomes of groups' references, by its word.
fn references(word: &[u8]) -> Option<structs::stream::References> {
    use structs::stream::References;
    let table = [
        ("KEEPREF", References::Keep),
        ("DELREF", References::Delete),
        ("ACKED", References::Acknowledged),
    ];
    table.into_iter().find(|(name, _)| is(word, name)).map(|(_, references)| references)
}

/// How large nodes may grow.
fn node_limits(tx: &Tx) -> NodeLimits {
    let settings = &tx.keyspace().settings().containers;
    NodeLimits {
        bytes: settings.stream_node_bytes.get(),
        entries: settings.stream_node_entries.get(),
    }
}

/// Changes a stream that exists.
fn edit<R>(tx: &mut Tx, key: &[u8], edit: impl FnOnce(&mut Stream) -> R) -> Result<R, Refusal> {
    tx.edit::<Stream, _>(key, edit).map(|(result, _)| result)
}

/// Changes a group that exists, which is no change of the entries that others watch.
fn edit_group<R>(
    tx: &mut Tx,
    key: &[u8],
    name: &[u8],
    change: impl FnOnce(&mut ConsumerGroup) -> R,
) -> Result<R, Refusal> {
    let result =
        tx.without_modified_keys(|tx| edit(tx, key, |stream| stream.edit_group(name, change)))?;
    Ok(result.expect("the caller saw the group"))
}

/// As `edit`, where the change gives nobody more to read: the clients that wait for the stream are
/// not looked at, however many there are.
fn edit_quietly<R>(
    tx: &mut Tx,
    key: &[u8],
    change: impl FnOnce(&mut Stream) -> R,
) -> Result<R, Refusal> {
    tx.without_ready_keys(|tx| edit(tx, key, change))
}

/// As `edit_group`, where the change gives nobody more to read or to claim.
fn edit_group_quietly<R>(
    tx: &mut Tx,
    key: &[u8],
    name: &[u8],
    change: impl FnOnce(&mut ConsumerGroup) -> R,
) -> Result<R, Refusal> {
    tx.without_ready_keys(|tx| edit_group(tx, key, name, change))
}

/// Makes a consumer where there is none, and notes that it asked for something.
fn meet_consumer(tx: &mut Tx, key: &[u8], group: &[u8], name: &[u8]) -> Result<bool, Refusal> {
    let now = tx.now();
    let is_new = edit_group_quietly(tx, key, group, |group| {
        let is_new = group.create_consumer(name, now);
        group.note_seen(name, now);
        is_new
    })?;
    if is_new {
        tx.event(EventClass::Stream, "xgroup-createconsumer", key);
        tx.effects_mut().add_changes(1);
        tx.effects_mut().instead(&[b"XGROUP", b"CREATECONSUMER", key, group, name]);
    }
    Ok(is_new)
}

/// A group and what one of its consumers did to an entry, for the journal.
struct Claimed<'a> {
    key: &'a [u8],
    group: &'a [u8],
    consumer: &'a [u8],
    last_id: EntryId,
}

impl Claimed<'_> {
    /// Says that an entry is pending now, as XCLAIM would make it.
    fn journal(&self, tx: &mut Tx, id: EntryId, delivered_at: i64, deliveries: Counter) {
        if !tx.effects().is_recorded() {
            return;
        }
        let (id, last) = (IdText::new(id), IdText::new(self.last_id));
        let (time, count) = (delivered_at.to_string(), deliveries.to_string());
        tx.effects_mut().instead(&[
            b"XCLAIM",
            self.key,
            self.group,
            self.consumer,
            b"0",
            id.as_bytes(),
            b"TIME",
            time.as_bytes(),
            b"RETRYCOUNT",
            count.as_bytes(),
            b"FORCE",
            b"JUSTID",
            b"LASTID",
            last.as_bytes(),
        ]);
    }
}

/// Says how far a group has read.
fn journal_position(tx: &mut Tx, key: &[u8], group: &[u8], last: EntryId, read: Option<Counter>) {
    if !tx.effects().is_recorded() {
        return;
    }
    let (id, read) = (IdText::new(last), read.map_or("-1".to_owned(), |read| read.to_string()));
    let words: [&[u8]; 7] =
        [b"XGROUP", b"SETID", key, group, id.as_bytes(), b"ENTRIESREAD", read.as_bytes()];
    let known = if tx.tells_redis_7() { &words[..] } else { &words[..5] };
    tx.effects_mut().instead(known);
}

/// Replies an entry: its ID, its fields and values.
fn reply_entry(item: &StreamEntry<'_>, reply: &mut Reply<'_>) {
    reply.array(2);
    reply_id(item.id, reply);
    reply_fields(&item.fields, reply);
}

fn reply_fields(fields: &EntryFields<'_>, reply: &mut Reply<'_>) {
    reply.array(fields.len() * 2);
    for (field, value) in fields.clone() {
        reply_member(field.into(), reply);
        reply_member(value.into(), reply);
    }
}

/// The IDs in these arguments.
fn all_ids(args: Args<'_>) -> Result<Vec<EntryId>, Refusal> {
    args.iter().map(ids::exact).collect()
}

/// How long ago a pending entry was delivered, in milliseconds.
fn idle(tx: &Tx, pending: &PendingEntry) -> i64 {
    tx.now().saturating_sub(pending.delivered_at).max(0)
}

/// A group that is not there, as commands say that look for key and group together.
fn no_group(key: &[u8], group: &[u8], place: &str) -> Refusal {
    let key = [b"NOGROUP No such key '".as_slice(), shown(key, usize::MAX)].concat();
    let group = [&key, b"' or consumer group '".as_slice(), shown(group, usize::MAX)].concat();
    Refusal::owned([&group, b"'".as_slice(), place.as_bytes()].concat())
}

/// A group that is not there, as subcommands say that know the key.
fn no_group_of(key: &[u8], group: &[u8]) -> Refusal {
    let name = [shown(group, usize::MAX), b"' for key name '", shown(key, usize::MAX)].concat();
    showing("NOGROUP No such consumer group '", &name, "'")
}

/// Words that a subcommand does not know.
fn wrong_subcommand(container: &str, word: &[u8]) -> Refusal {
    let before = "ERR unknown subcommand or wrong number of arguments for '";
    showing(before, shown(word, 128), &format!("'. Try {container} HELP."))
}
