//! Sorted sets: a listpack, or member by member.
//!
//! ```text
//!  SortedSet        count | member, score in 8 bytes | ..              the last comes first
//!  SortedSetTimed   count | member, score in 8 bytes, deadline or -1 in 8 bytes | ..
//!  SortedSetText    count | member, length or 253..=255, score as text | ..
//! ```
//!
//! Invariant: members are different, and there is at least one; no score is NaN. A listpack is in
//! order.

use std::cmp::Ordering;

use base::UnixMillis;
use base::number::parse_f64;
use structs::listpack::{Element, Listpack};
use structs::packing::{PACKED_MAX, Packed, Packing};
use structs::sorted_set::{ItemRef, SortedSet, SortedSetLimits, SortedSetRef};

use super::length::{read_length, write_length};
use super::string::{Decoded, read_string, write_bytes, write_member};
use super::ziplist::Ziplist;
use super::{Malformed, Reader, ValueType, Writer, packed, read_deadline, write_deadline};

/// Instead of the length of a score's text: what has none.
const TEXT_NAN: u8 = 253;
const TEXT_INFINITY: u8 = 254;
const TEXT_MINUS_INFINITY: u8 = 255;

/// How a sorted set is written.
#[must_use]
pub fn value_type(set: SortedSetRef<'_>) -> ValueType {
    match set {
        SortedSetRef::Packed(_) => ValueType::SortedSetListpack,
        _ if set.earliest_deadline().is_some() => ValueType::SortedSetTimed,
        SortedSetRef::Large(_) => ValueType::SortedSet,
    }
}

/// Appends a sorted set.
pub fn write(out: &mut Writer, set: SortedSetRef<'_>) {
    if let SortedSetRef::Packed(packed) = set {
        write_bytes(out, packed.bytes);
        return;
    }
    match value_type(set) {
        ValueType::SortedSetTimed => write_each(out, set, true),
        _ => write_members(out, set),
    }
}

/// Appends a sorted set member by member; none of them has a deadline.
pub fn write_members(out: &mut Writer, set: SortedSetRef<'_>) {
    write_each(out, set, false);
}

fn write_each(out: &mut Writer, set: SortedSetRef<'_>, is_timed: bool) {
    write_length(out, set.len());
    for item in set.items_back(0..set.len()) {
        write_member(out, item.member);
        out.extend(&item.score.to_le_bytes());
        if is_timed {
            write_deadline(out, item.deadline);
        }
        out.flush_if_large();
    }
}

/// Reads a sorted set that was written in this way.
pub fn read(
    value_type: ValueType,
    reader: &mut Reader<'_>,
    limits: &SortedSetLimits,
) -> Result<SortedSet, Malformed> {
    match value_type {
        ValueType::SortedSetListpack => read_listpack(reader, limits),
        ValueType::SortedSetZiplist => {
            let bytes = read_string(reader)?.into_bytes();
            let mut items = Vec::new();
            for [member, score] in Ziplist::validate(&bytes)?.pairs()? {
                items.push(ScoredMember::of(member, score)?);
            }
            build(items, limits)
        }
        _ => {
            let count = read_length(reader)?;
            let mut items = Vec::new();
            for _ in 0..count {
                items.push(read_item(value_type, reader)?);
            }
            build(items, limits)
        }
    }
}

/// A member as it was read.
struct ScoredMember<'a> {
    member: Decoded<'a>,
    score: f64,
    deadline: Option<UnixMillis>,
}

impl<'a> ScoredMember<'a> {
    /// A member and the element that is its score.
    fn of(member: Element<'a>, score: Element<'_>) -> Result<Self, Malformed> {
        let score = score_of(score).ok_or(Malformed)?;
        Ok(Self { member: member.into(), score, deadline: None })
    }
}

fn score_of(element: Element<'_>) -> Option<f64> {
    match element {
        Element::Integer(number) => Some(number as f64),
        Element::Bytes(text) => parse_f64(text),
    }
}

fn read_item<'a>(
    value_type: ValueType,
    reader: &mut Reader<'a>,
) -> Result<ScoredMember<'a>, Malformed> {
    let member = read_string(reader)?;
    let score = match value_type {
        ValueType::SortedSetText => read_text_score(reader)?,
        _ => f64::from_le_bytes(reader.array()?),
    };
    let deadline = match value_type {
        ValueType::SortedSetTimed => read_deadline(reader)?,
        _ => None,
    };
    if score.is_nan() { Err(Malformed) } else { Ok(ScoredMember { member, score, deadline }) }
}

fn read_text_score(reader: &mut Reader<'_>) -> Result<f64, Malformed> {
    match reader.byte()? {
        TEXT_NAN => Err(Malformed),
        TEXT_INFINITY => Ok(f64::INFINITY),
        TEXT_MINUS_INFINITY => Ok(f64::NEG_INFINITY),
        length => parse_f64(reader.take(length.into())?).ok_or(Malformed),
    }
}

/// Reads the next item into a sorted set that is large from the start.
pub(super) fn read_into(
    value_type: ValueType,
    reader: &mut Reader<'_>,
    set: &mut SortedSet,
    limits: &SortedSetLimits,
) -> Result<(), Malformed> {
    let item = read_item(value_type, reader)?;
    let member = item.member.as_member();
    if set.insert(member, item.score, limits).is_some() {
        return Err(Malformed);
    }
    if item.deadline.is_some() {
        set.set_deadline(&member.to_vec(), item.deadline);
    }
    Ok(())
}

fn build(
    mut items: Vec<ScoredMember<'_>>,
    limits: &SortedSetLimits,
) -> Result<SortedSet, Malformed> {
    let members = items.iter().map(|item| item.member.as_element());
    if items.is_empty() || !packed::all_different(&members) {
        return Err(Malformed);
    }
    items.sort_unstable_by(|this, that| {
        let (these, those) = (this.member.as_element(), that.member.as_element());
        compare((this.score, these), (that.score, those))
    });
    let items: Vec<_> = items
        .iter()
        .map(|ScoredMember { member, score, deadline }| ItemRef {
            member: member.as_member(),
            score: *score,
            deadline: *deadline,
        })
        .collect();
    Ok(SortedSet::from_sorted(&items, limits))
}

/// The order of a sorted set.
fn compare(this: (f64, Element<'_>), that: (f64, Element<'_>)) -> Ordering {
    let by_score = this.0.partial_cmp(&that.0).expect("no score is NaN");
    by_score.then_with(|| this.1.compare(that.1.to_text(&mut [0; 20])))
}

/// Reads a listpack of members and scores, which is carried unchanged where it may be small.
fn read_listpack(
    reader: &mut Reader<'_>,
    limits: &SortedSetLimits,
) -> Result<SortedSet, Malformed> {
    let bytes = packed::read_listpack(reader)?;
    let listpack = Listpack::new(&bytes);
    let count = listpack.len() as u64 / 2;
    if !listpack.len().is_multiple_of(2) || !is_in_order(listpack) {
        return Err(Malformed);
    }
    if count > limits.entries || bytes.len() > PACKED_MAX {
        let items: Result<Vec<_>, _> = listpack
            .chunks::<2>()
            .map(|[member, score]| ScoredMember::of(member.element, score.element))
            .collect();
        return build(items?, limits);
    }
    if !packed::all_different(&listpack.iter().step_by(2)) {
        return Err(Malformed);
    }
    Ok(SortedSet::Packed(Packed { packing: Packing::Listpack, bytes }))
}

fn is_in_order(listpack: Listpack<'_>) -> bool {
    let mut last = None;
    listpack.chunks::<2>().all(|[member, score]| {
        let Some(score) = score_of(score.element) else { return false };
        let item = (score, member.element);
        let before = last.replace(item);
        before.is_none_or(|before| compare(before, item) == Ordering::Less)
    })
}
