//! What a value holds, element by element, whatever form it has.
//!
//! Invariant: two values of one type are the same to clients exactly if they give the same
//! elements: in the same order where there is one.

use base::UnixMillis;

use crate::rdb::value::ValueRef;

/// Whether the order of the elements is part of the value.
#[must_use]
pub fn is_ordered(value: &ValueRef<'_>) -> bool {
    match value {
        ValueRef::String(_) | ValueRef::List(_) | ValueRef::SortedSet(_) => true,
        ValueRef::Set(_) | ValueRef::Hash(_) => false,
    }
}

/// Shows each element: the member, and what belongs to it (value, score, deadline).
pub fn for_each(value: &ValueRef<'_>, mut show: impl FnMut(&[&[u8]])) {
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
    }
}

fn deadline(deadline: Option<UnixMillis>) -> [u8; 8] {
    deadline.unwrap_or(-1).to_le_bytes()
}
