//! The small hash: groups of elements in a listpack, two without deadlines and three with.
//!
//! Invariant: with deadlines, the groups are in their order, and those without (0) come last.

use base::UnixMillis;

use crate::listpack::{self, Element, Entries, Entry, Listpack};
use crate::members::{Lifetime, MemberRef, Text, storable_deadline};
use crate::packing::{Packed, PackedRef, Packing};

/// Bytes that a field may take beside those of field and value: their encodings and lengths, and a
/// deadline.
pub(super) const OVERHEAD_MAX: usize = 2 * 10 + 10;

/// A field and where it lies.
struct PackedField<'a> {
    start: usize,
    /// Where the next one starts.
    end: usize,
    field: Element<'a>,
    value: Entry<'a>,
    /// 0: none.
    deadline: UnixMillis,
}

impl<'a> PackedField<'a> {
    fn read(listpack: Listpack<'a>, stride: usize, start: usize) -> Option<PackedField<'a>> {
        let field = listpack.entry_at(start)?;
        let value = listpack.entry_at(field.end)?;
        let (end, deadline) = if stride == 2 {
            (value.end, 0)
        } else {
            let deadline = listpack.entry_at(value.end)?;
            (deadline.end, deadline.element.to_integer().unwrap_or(0))
        };
        Some(PackedField { start, end, field: field.element, value, deadline })
    }

    fn to_member(&self) -> MemberRef<'a> {
        MemberRef {
            member: self.field.into(),
            value: self.value.element.into(),
            deadline: (self.deadline != 0).then_some(self.deadline),
        }
    }
}

pub(super) fn len(packed: PackedRef<'_>) -> u64 {
    (Listpack::new(packed.bytes).len() / stride(packed.packing)) as u64
}

#[inline]
pub(super) fn get<'a>(packed: PackedRef<'a>, field: &[u8]) -> Option<MemberRef<'a>> {
    find(packed, field).map(|group| group.to_member())
}

pub(super) fn at(packed: PackedRef<'_>, index: u64) -> Option<MemberRef<'_>> {
    group_at(packed, index).map(|group| group.to_member())
}

/// The earliest deadline stands in the first group.
pub(super) fn earliest_deadline(packed: PackedRef<'_>) -> Option<UnixMillis> {
    if packed.packing != Packing::TimedListpack {
        return None;
    }
    fields(packed).next().and_then(|field| field.deadline)
}

/// All fields, in the order of the listpack.
pub(super) fn fields(packed: PackedRef<'_>) -> PackedFields<'_> {
    PackedFields {
        entries: Listpack::new(packed.bytes).entries(),
        timed: packed.packing == Packing::TimedListpack,
    }
}

pub(super) struct PackedFields<'a> {
    entries: Entries<'a>,
    timed: bool,
}

impl<'a> Iterator for PackedFields<'a> {
    type Item = MemberRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<MemberRef<'a>> {
        let member = self.entries.next()?.element.into();
        let value = self.entries.next()?.element.into();
        let deadline = if self.timed {
            self.entries.next()?.element.to_integer().filter(|deadline| *deadline != 0)
        } else {
            None
        };
        Some(MemberRef { member, value, deadline })
    }
}

/// Puts a value. With a deadline, there must be place for deadlines.
pub(super) fn set(
    packed: &mut Packed,
    field: Text<'_>,
    value: Text<'_>,
    lifetime: Lifetime,
) -> bool {
    let mut buffers = [Vec::new(), Vec::new()];
    let [field_buffer, value_buffer] = &mut buffers;
    let field = field.as_bytes(field_buffer);
    let value = Element::Bytes(value.as_bytes(value_buffer));
    let found = find(packed.borrow(), field)
        .map(|group| (group.start, group.value.offset, group.end, group.deadline));
    let old = found.map_or(0, |(.., deadline)| deadline);
    let deadline = match lifetime {
        Lifetime::Keep => old,
        Lifetime::Endless => 0,
        Lifetime::Until(deadline) => storable_deadline(deadline),
    };
    let stays = deadline == old && !matches!(lifetime, Lifetime::Until(_));
    match found {
        Some((_, offset, ..)) if stays => listpack::replace(&mut packed.bytes, offset, value),
        Some((start, _, end, _)) => {
            listpack::replace_range(&mut packed.bytes, start..end, []);
            insert(packed, Element::Bytes(field), value, deadline);
        }
        None => insert(packed, Element::Bytes(field), value, deadline),
    }
    found.is_none()
}

/// Gives a field the deadline, or none, that `judge` makes of its present one. For a deadline there
/// must be place.
pub(super) fn judge_deadline(
    packed: &mut Packed,
    field: &[u8],
    judge: impl FnOnce(Option<UnixMillis>) -> Option<Option<UnixMillis>>,
) -> bool {
    let Some(group) = find(packed.borrow(), field) else {
        return false;
    };
    let Some(deadline) = judge((group.deadline != 0).then_some(group.deadline)) else {
        return true;
    };
    if group.deadline != 0 || deadline.is_some() {
        let (range, value) = (group.start..group.end, group.value.element.to_vec());
        listpack::replace_range(&mut packed.bytes, range, []);
        let (field, value) = (Element::Bytes(field), Element::Bytes(&value));
        insert(packed, field, value, deadline.map_or(0, storable_deadline));
    }
    true
}

pub(super) fn remove(packed: &mut Packed, field: &[u8]) -> bool {
    let found = find(packed.borrow(), field).map(|group| group.start..group.end);
    if let Some(range) = found.clone() {
        listpack::replace_range(&mut packed.bytes, range, []);
    }
    found.is_some()
}

pub(super) fn take_at(packed: &mut Packed, index: u64) -> Option<Vec<u8>> {
    let group = group_at(packed.borrow(), index)?;
    let (range, field) = (group.start..group.end, group.field.to_vec());
    listpack::replace_range(&mut packed.bytes, range, []);
    Some(field)
}

pub(super) fn take_expired(packed: &mut Packed, now: UnixMillis, limit: usize) -> Vec<Vec<u8>> {
    let passed = |field: &MemberRef<'_>| field.deadline.is_some_and(|deadline| deadline <= now);
    let taken: Vec<_> = fields(packed.borrow())
        .take(limit)
        .take_while(passed)
        .map(|field| field.member.to_vec())
        .collect();
    let start = Listpack::new(&packed.bytes).start_offset();
    listpack::remove(&mut packed.bytes, start, taken.len() * stride(packed.packing));
    taken
}

/// Makes place for deadlines.
pub(super) fn make_timed(packed: &mut Packed) {
    if packed.packing == Packing::TimedListpack {
        return;
    }
    let mut timed = Packed { packing: Packing::TimedListpack, bytes: listpack::new() };
    for [field, value] in Listpack::new(&packed.bytes).chunks() {
        let end = Listpack::new(&timed.bytes).end_offset();
        let group = [field.element, value.element, Element::Integer(0)];
        listpack::insert(&mut timed.bytes, end, group);
    }
    *packed = timed;
}

/// Inserts a field where its deadline wants it: before the first that does not come earlier.
fn insert(packed: &mut Packed, field: Element<'_>, value: Element<'_>, deadline: UnixMillis) {
    let listpack = Listpack::new(&packed.bytes);
    let end = listpack.end_offset();
    if packed.packing != Packing::TimedListpack {
        listpack::insert(&mut packed.bytes, end, [field, value]);
        return;
    }
    let mut offset = if deadline == 0 { end } else { listpack.start_offset() };
    while let Some(group) = PackedField::read(listpack, 3, offset) {
        if group.deadline == 0 || group.deadline >= deadline {
            break;
        }
        offset = group.end;
    }
    listpack::insert(&mut packed.bytes, offset, [field, value, Element::Integer(deadline)]);
}

#[inline]
fn find<'a>(packed: PackedRef<'a>, field: &[u8]) -> Option<PackedField<'a>> {
    let listpack = Listpack::new(packed.bytes);
    let stride = stride(packed.packing);
    PackedField::read(listpack, stride, listpack.find(field, stride)?.offset)
}

fn group_at(packed: PackedRef<'_>, index: u64) -> Option<PackedField<'_>> {
    let listpack = Listpack::new(packed.bytes);
    let stride = stride(packed.packing);
    let element = i64::try_from(index.checked_mul(stride as u64)?).ok()?;
    PackedField::read(listpack, stride, listpack.get(element)?.offset)
}

fn stride(packing: Packing) -> usize {
    if packing == Packing::TimedListpack { 3 } else { 2 }
}
