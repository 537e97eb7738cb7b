//! Streams: their nodes as they lie, and what is known of their readers and writers.
//!
//! ```text
//!  stream     count | node ..   | length | last ID | [first ID | greatest deleted ID | added]
//!             count | group ..  | [idempotence]
//!    node     ID as a string of 16 bytes, the highest first | listpack
//!    group    name | last ID | [entries read, all bits set if unknown]
//!             count | pending .. | count | consumer .. | [count | ID given back in 16 bytes ..]
//!    pending  ID in 16 bytes | delivered at, 8 bytes | deliveries
//!    consumer name | seen at, 8 bytes | [active at, 8 bytes] | count | ID it owns in 16 bytes ..
//!    idempotence  duration | size | count | producer .. | added | duplicates
//!    producer     name | count | (ID it gave | entry ID) ..
//! ```
//!
//! An ID without a width is two lengths. What stands in brackets came with Redis 7.0, 7.2 (when a
//! consumer was active), 8.6 (idempotence) and 8.8 (what was given back); an older reader gets what
//! it knows wherever nothing is lost by that.
//!
//! Invariant: nodes and IDs rise; every pending entry is owned by one consumer or given back. A
//! number that is past what commands can say is read as the nearest that they can: files and
//! payloads of other servers have such counters, and are not refused for them.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use structs::stream::{
    ConsumerGroup, Counter, Counters, EntryId, Idempotence, IdempotenceLimits, PendingEntry,
    Stream, StreamNode,
};

use super::length::{read_length, write_length};
use super::string::{read_string, write_bytes};
use super::{Malformed, Reader, ValueType, Writer};

/// A number that is not known.
const UNKNOWN: u64 = u64::MAX;

/// What stands for the time of what never was.
const NEVER: i64 = -1;

/// What Redis takes where nobody says otherwise.
const USUAL: IdempotenceLimits = IdempotenceLimits { duration: 100, size: 100 };

/// How a stream is written.
#[must_use]
pub fn value_type(stream: &Stream) -> ValueType {
    let mut consumers = stream.groups().flat_map(|(_, group)| group.consumers());
    if stream.groups().any(|(_, group)| group.given_back_count() > 0) {
        ValueType::StreamRedis88
    } else if stream.idempotence().is_some() {
        ValueType::StreamRedis86
    } else if consumers.any(|(_, consumer)| consumer.active_at != Some(consumer.seen_at)) {
        ValueType::StreamRedis72
    } else {
        ValueType::StreamRedis70
    }
}

/// What is written of a stream, by the server that first did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StreamFormat {
    Redis5,
    Redis70,
    Redis72,
    Redis86,
    Redis88,
}

impl StreamFormat {
    fn of(value_type: ValueType) -> Self {
        match value_type {
            ValueType::StreamRedis70 => Self::Redis70,
            ValueType::StreamRedis72 => Self::Redis72,
            ValueType::StreamRedis86 => Self::Redis86,
            ValueType::StreamRedis88 => Self::Redis88,
            _ => Self::Redis5,
        }
    }
}

/// Appends a stream.
pub fn write(out: &mut Writer, stream: &Stream) {
    write_as(out, stream, value_type(stream));
}

/// The same in one of the forms of streams: an older one leaves out what it has no word for.
pub fn write_as(out: &mut Writer, stream: &Stream, form: ValueType) {
    let age = StreamFormat::of(form);
    write_length(out, stream.node_count());
    for node in stream.nodes() {
        write_bytes(out, &bytes_of(node.master()));
        write_bytes(out, node.bytes());
        out.flush_if_large();
    }
    write_length(out, stream.len());
    write_id(out, stream.last_id());
    if age >= StreamFormat::Redis70 {
        write_id(out, stream.first_id());
        write_id(out, stream.max_deleted_id());
        write_length(out, stream.entries_added().get());
    }
    write_length(out, stream.groups().len() as u64);
    for (name, group) in stream.groups() {
        write_bytes(out, name);
        write_group(out, group, age);
    }
    if age >= StreamFormat::Redis86 {
        write_idempotence(out, stream);
    }
}

fn write_group(out: &mut Writer, group: &ConsumerGroup, age: StreamFormat) {
    write_id(out, group.last_id);
    if age >= StreamFormat::Redis70 {
        write_length(out, group.entries_read.map_or(UNKNOWN, Counter::get));
    }
    write_length(out, group.pending_count());
    for pending in group.pending_from(EntryId::MIN) {
        out.extend(&bytes_of(pending.id));
        out.extend(&pending.delivered_at.to_le_bytes());
        write_length(out, pending.deliveries.get());
        out.flush_if_large();
    }
    write_length(out, group.consumers().len() as u64);
    for (name, consumer) in group.consumers() {
        write_bytes(out, name);
        out.extend(&consumer.seen_at.to_le_bytes());
        if age >= StreamFormat::Redis72 {
            out.extend(&consumer.active_at.unwrap_or(NEVER).to_le_bytes());
        }
        write_length(out, consumer.pending_count());
        consumer.owned_from(EntryId::MIN).for_each(|id| out.extend(&bytes_of(id)));
    }
    if age >= StreamFormat::Redis88 {
        write_length(out, group.given_back_count());
        let pending = group.pending_from(EntryId::MIN);
        pending
            .filter(PendingEntry::is_given_back)
            .for_each(|pending| out.extend(&bytes_of(pending.id)));
    }
}

fn write_idempotence(out: &mut Writer, stream: &Stream) {
    let known = stream.idempotence();
    let limits = known.map_or(USUAL, Idempotence::limits);
    write_length(out, limits.duration);
    write_length(out, limits.size as u64);
    write_length(out, known.map_or(0, Idempotence::producer_count));
    for (name, sent) in known.iter().flat_map(|known| known.producers()) {
        write_bytes(out, name);
        write_length(out, sent.len() as u64);
        for (id, entry) in sent {
            write_bytes(out, id);
            write_id(out, entry);
        }
    }
    write_length(out, known.map_or(0, |known| known.added_count().get()));
    write_length(out, known.map_or(0, |known| known.duplicate_count().get()));
}

/// Reads a stream that was written in this way.
pub fn read(value_type: ValueType, reader: &mut Reader<'_>) -> Result<Stream, Malformed> {
    let mut nodes = Nodes::default();
    for _ in 0..read_length(reader)? {
        nodes.read_next(reader)?;
    }
    read_rest(value_type, reader, nodes)
}

/// Nodes that were read, in their order.
#[derive(Default)]
pub(super) struct Nodes {
    nodes: Vec<StreamNode>,
    live: u64,
    last: EntryId,
}

impl Nodes {
    /// Reads a node.
    pub(super) fn read_next(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let master = read_string(reader)?.into_bytes();
        let master = id_of(master.as_ref().try_into().map_err(|_| Malformed)?);
        let bytes = read_string(reader)?.into_bytes().into_owned();
        let node = StreamNode::checked(master, bytes).map_err(|_| Malformed)?;
        if node.first_id() <= self.last {
            return Err(Malformed);
        }
        self.live += node.live() as u64;
        self.last = node.last_id();
        self.nodes.push(node);
        Ok(())
    }
}

/// Reads what follows the nodes of a stream.
pub(super) fn read_rest(
    value_type: ValueType,
    reader: &mut Reader<'_>,
    nodes: Nodes,
) -> Result<Stream, Malformed> {
    let age = StreamFormat::of(value_type);
    let mut stream = read_counters(reader, nodes, age)?;
    for _ in 0..read_length(reader)? {
        let name = read_string(reader)?.into_bytes();
        let group = read_group(reader, &stream, age)?;
        if !stream.create_group(&name, group) {
            return Err(Malformed);
        }
    }
    if age >= StreamFormat::Redis86 {
        read_idempotence(reader, &mut stream)?;
    }
    Ok(stream)
}

fn read_counters(
    reader: &mut Reader<'_>,
    nodes: Nodes,
    age: StreamFormat,
) -> Result<Stream, Malformed> {
    let Nodes { nodes, live, last } = nodes;
    let len = read_length(reader)?;
    let last_id = read_id(reader)?;
    let entries_added = Counter::new(len);
    let mut counters = Counters { last_id, max_deleted_id: EntryId::MIN, entries_added };
    if age >= StreamFormat::Redis70 {
        // The first ID is that of the first entry.
        read_id(reader)?;
        // Redis 7.0 sets the last ID below what was deleted; as far as the last ID nothing differs.
        counters.max_deleted_id = read_id(reader)?.min(last_id);
        counters.entries_added = read_counter(reader)?;
    }
    let is_sound = len == live && last <= last_id && counters.entries_added.get() >= len;
    if is_sound { Ok(Stream::from_nodes(nodes, counters)) } else { Err(Malformed) }
}

fn read_group(
    reader: &mut Reader<'_>,
    stream: &Stream,
    age: StreamFormat,
) -> Result<ConsumerGroup, Malformed> {
    let last_id = read_id(reader)?;
    let entries_read = match age {
        StreamFormat::Redis5 => stream.entries_up_to(last_id),
        _ => match read_length(reader)? {
            UNKNOWN => None,
            read => Some(Counter::new(read)),
        },
    };
    let mut group = ConsumerGroup::new(last_id, entries_read);
    let pending = read_pending(reader)?;
    let find = |id: EntryId| {
        let place = pending.binary_search_by(|(other, ..)| other.cmp(&id));
        place.map(|place| pending[place]).map_err(|_| Malformed)
    };
    let mut settled = BTreeSet::new();
    for _ in 0..read_length(reader)? {
        let name = read_string(reader)?.into_bytes();
        let seen_at = read_time(reader)?.unwrap_or(0);
        let active_at = match age >= StreamFormat::Redis72 {
            true => read_time(reader)?,
            false => Some(seen_at),
        };
        if !group.create_consumer(&name, seen_at) {
            return Err(Malformed);
        }
        group.set_times(&name, seen_at, active_at);
        for _ in 0..read_length(reader)? {
            let (id, delivered_at, deliveries) = find(id_of(reader.array()?))?;
            if !settled.insert(id) {
                return Err(Malformed);
            }
            group.deliver(id, &name, delivered_at, deliveries);
        }
    }
    if age >= StreamFormat::Redis88 {
        for _ in 0..read_length(reader)? {
            let (id, _, deliveries) = find(id_of(reader.array()?))?;
            if !settled.insert(id) {
                return Err(Malformed);
            }
            group.give_back(id, deliveries);
        }
    }
    if settled.len() == pending.len() { Ok(group) } else { Err(Malformed) }
}

/// Reads what is pending: the ID, when it was delivered and how often.
fn read_pending(reader: &mut Reader<'_>) -> Result<Vec<(EntryId, i64, Counter)>, Malformed> {
    let mut pending: Vec<(EntryId, i64, Counter)> = Vec::new();
    for _ in 0..read_length(reader)? {
        let id = id_of(reader.array()?);
        if pending.last().is_some_and(|(last, ..)| *last >= id) {
            return Err(Malformed);
        }
        let delivered_at = read_time(reader)?.unwrap_or(0);
        pending.push((id, delivered_at, read_counter(reader)?));
    }
    Ok(pending)
}

fn read_idempotence(reader: &mut Reader<'_>, stream: &mut Stream) -> Result<(), Malformed> {
    let limits = IdempotenceLimits::new(read_length(reader)?, read_length(reader)?);
    let producers = read_length(reader)?;
    for _ in 0..producers {
        let name = read_string(reader)?.into_bytes();
        for _ in 0..read_length(reader)? {
            let id = read_string(reader)?.into_bytes();
            let entry = read_id(reader)?;
            if !stream.idempotence_mut(limits).restore(&name, &id, entry) {
                return Err(Malformed);
            }
        }
    }
    let (added, duplicates) = (read_counter(reader)?, read_counter(reader)?);
    // A stream of Redis 8.6 has these numbers whether or not it was ever sent any IDs.
    let is_used = producers > 0 || added.max(duplicates) > Counter::default();
    if is_used || limits != USUAL {
        stream.idempotence_mut(limits).set_counts(added, duplicates);
    }
    Ok(())
}

fn read_counter(reader: &mut Reader<'_>) -> Result<Counter, Malformed> {
    read_length(reader).map(Counter::new)
}

/// Reads a time; there is none before 1970.
fn read_time(reader: &mut Reader<'_>) -> Result<Option<i64>, Malformed> {
    let time = i64::from_le_bytes(reader.array()?);
    Ok((time >= 0).then_some(time))
}

fn read_id(reader: &mut Reader<'_>) -> Result<EntryId, Malformed> {
    Ok(EntryId::new(read_length(reader)?, read_length(reader)?))
}

fn write_id(out: &mut Writer, id: EntryId) {
    write_length(out, id.ms);
    write_length(out, id.seq);
}

fn id_of(bytes: [u8; 16]) -> EntryId {
    let number = u128::from_be_bytes(bytes);
    EntryId::new((number >> 64) as u64, number as u64)
}

fn bytes_of(id: EntryId) -> [u8; 16] {
    (u128::from(id.ms) << 64 | u128::from(id.seq)).to_be_bytes()
}
