//! What a value holds, element by element, whatever form it has.
//!
//! Invariant: two values of one type are the same to clients exactly if they give the same
//! elements: in the same order where there is one.

use base::UnixMillis;

use structs::array::INDEX_MAX;
use structs::listpack::Element;
use structs::stream::{ConsumerGroup, Counter, EntryId, Stream};

use crate::rdb::value::ValueRef;

/// Whether the order of the elements is part of the value.
#[must_use]
pub fn is_ordered(value: &ValueRef<'_>) -> bool {
    match value {
        ValueRef::String(_)
        | ValueRef::List(_)
        | ValueRef::SortedSet(_)
        | ValueRef::Stream(_)
        | ValueRef::Array(_) => true,
        ValueRef::Set(_) | ValueRef::Hash(_) => false,
    }
}

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All that there is to know.
    All,
    /// What a replica has as its primary has it: when a consumer was seen it notes by its own
    /// clock, and it never hears of what is refused as sent twice.
    Replicated,
}

/// Shows each element: the member, and what belongs to it (value, score, deadline).
pub fn for_each(value: &ValueRef<'_>, extent: Extent, mut show: impl FnMut(&[&[u8]])) {
    let mut buffers = [Vec::new(), Vec::new()];
    let [buffer, value_buffer] = &mut buffers;
    match value {
        ValueRef::String(text) => show(&[text.contiguous(buffer)]),
        ValueRef::List(list) => list.iter().for_each(|text| show(&[text.as_bytes(buffer)])),
        ValueRef::Set(set) => {
            for item in *set {
                show(&[item.member.as_bytes(buffer), &deadline(item.deadline)]);
            }
        }
        ValueRef::SortedSet(set) => {
            for item in set.items(0..set.len()) {
                // Minus zero is zero.
                let score = (item.score + 0.0).to_le_bytes();
                show(&[item.member.as_bytes(buffer), &score, &deadline(item.deadline)]);
            }
        }
        ValueRef::Hash(hash) => {
            for field in *hash {
                let value = field.value.as_bytes(value_buffer);
                show(&[field.member.as_bytes(buffer), value, &deadline(field.deadline)]);
            }
        }
        ValueRef::Array(array) => {
            show(&[&array.next().to_le_bytes(), &array.ring().to_le_bytes()]);
            for (index, text) in array.items(0..=INDEX_MAX) {
                show(&[&index.to_le_bytes(), text.as_bytes(buffer)]);
            }
        }
        ValueRef::Stream(stream) => show_stream(stream, extent, &mut show),
    }
}

fn show_stream(stream: &Stream, extent: Extent, show: &mut impl FnMut(&[&[u8]])) {
    for item in stream.range(EntryId::MIN, EntryId::MAX) {
        let mut texts = vec![item.id.to_string().into_bytes()];
        let pairs = item.fields.flat_map(|(field, value)| [field, value]);
        texts.extend(pairs.map(Element::to_vec));
        show(&texts.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    let (last, deleted) = (stream.last_id(), stream.max_deleted_id());
    show(&[format!("{last} {deleted} {}", stream.entries_added()).as_bytes()]);
    for (name, group) in stream.groups() {
        let read = group.entries_read.map(Counter::get);
        show(&[name, format!("{} {read:?}", group.last_id).as_bytes()]);
        show_group(group, extent, show);
    }
    if let Some(known) = stream.idempotence() {
        let duplicates = Some(known.duplicate_count()).filter(|_| extent == Extent::All);
        let (added, duplicates) = (known.added_count(), duplicates.unwrap_or_default());
        show(&[format!("{:?} {added} {duplicates}", known.limits()).as_bytes()]);
        for (name, sent) in known.producers() {
            sent.for_each(|(id, entry)| show(&[name, id, entry.to_string().as_bytes()]));
        }
    }
}

fn show_group(group: &ConsumerGroup, extent: Extent, show: &mut impl FnMut(&[&[u8]])) {
    for pending in group.pending_from(EntryId::MIN) {
        let known = format!("{} {} {}", pending.id, pending.delivered_at, pending.deliveries);
        show(&[group.owner_of(&pending), known.as_bytes()]);
    }
    for (name, consumer) in group.consumers() {
        let times = match extent {
            Extent::All => format!("{} {:?}", consumer.seen_at, consumer.active_at),
            Extent::Replicated => String::new(),
        };
        show(&[name, times.as_bytes()]);
    }
}

fn deadline(deadline: Option<UnixMillis>) -> [u8; 8] {
    deadline.unwrap_or(-1).to_le_bytes()
}
