//! The small form: a listpack of member, score, member, score, in order, in Redis' own bytes.
//!
//! A score that is an integer of at most half the range of 64 bits is written as one, which makes
//! minus zero zero; others as the text that clients get.

use std::cmp::Ordering;
use std::ops::{Bound, Range};

use base::number::{ShortText, format_f64, parse_f64};

use super::ItemRef;
use super::page::{Cut, compare_scores};
use crate::listpack::{self, Element, Entry, Listpack};
use crate::members::Text;
use crate::packing::{Packed, PackedRef, Packing};

/// The greatest integer that Redis writes as one.
const INTEGER_MAX: f64 = (i64::MAX / 2) as f64;

pub(super) fn new() -> Packed {
    Packed { packing: Packing::Listpack, bytes: listpack::new() }
}

pub(super) fn len(packed: PackedRef<'_>) -> u64 {
    (Listpack::new(packed.bytes).len() / 2) as u64
}

/// All members in order, from both ends.
pub(super) fn items(packed: PackedRef<'_>) -> impl DoubleEndedIterator<Item = ItemRef<'_>> {
    Listpack::new(packed.bytes).chunks::<2>().map(item_of)
}

fn item_of<'a>([member, score]: [Entry<'a>; 2]) -> ItemRef<'a> {
    let member = Text::from(member.element);
    ItemRef { member, score: score_of(score.element), deadline: None }
}

/// The rank of a member, and what it is.
pub(super) fn find<'a>(packed: PackedRef<'a>, member: &[u8]) -> Option<(u64, ItemRef<'a>)> {
    let listpack = Listpack::new(packed.bytes);
    let (rank, entry) = listpack.search(member, 2).next()?;
    let score = listpack.entry_at(entry.end)?;
    Some((rank as u64, item_of([entry, score])))
}

/// How many members lie before a place.
pub(super) fn count_before(packed: PackedRef<'_>, cut: &Cut<'_>) -> u64 {
    let before = |[member, score]: &[Entry<'_>; 2]| is_before(cut, member.element, score.element);
    Listpack::new(packed.bytes).chunks::<2>().take_while(before).count() as u64
}

/// The ranks of the members in a range of bytes. Where scores differ the members are in no order:
/// as in Redis the range then begins at the first member from one end that is not beyond its near
/// bound and goes on while members keep its far one, and there is none if the set's first or last
/// member is beyond a bound.
pub(super) fn ranks_by_member(
    packed: PackedRef<'_>,
    least: Bound<&[u8]>,
    most: Bound<&[u8]>,
    falling: bool,
) -> Range<u64> {
    let members = || Listpack::new(packed.bytes).chunks::<2>().map(|[member, _]| member.element);
    let is_above = |member: &Element<'_>| match least {
        Bound::Unbounded => true,
        Bound::Included(least) => member.compare(least).is_ge(),
        Bound::Excluded(least) => member.compare(least).is_gt(),
    };
    let is_below = |member: &Element<'_>| match most {
        Bound::Unbounded => true,
        Bound::Included(most) => member.compare(most).is_le(),
        Bound::Excluded(most) => member.compare(most).is_lt(),
    };
    let meets = members().next().is_some_and(|first| is_below(&first))
        && members().next_back().is_some_and(|last| is_above(&last));
    if !meets {
        return 0..0;
    }
    if falling {
        let beyond = members().rev().take_while(|member| !is_below(member)).count();
        let within = members().rev().skip(beyond).take_while(is_above).count();
        let end = len(packed) - beyond as u64;
        end - within as u64..end
    } else {
        let beyond = members().take_while(|member| !is_above(member)).count();
        let within = members().skip(beyond).take_while(is_below).count();
        beyond as u64..(beyond + within) as u64
    }
}

/// Puts a member into its place that is not there.
pub(super) fn insert(packed: &mut Packed, member: Text<'_>, score: f64) {
    let mut buffer = Vec::new();
    let bytes = member.as_bytes(&mut buffer);
    let cut = Cut { score: Some(score), member: Some(bytes), after: false };
    let listpack = Listpack::new(&packed.bytes);
    let behind = listpack
        .chunks::<2>()
        .find(|[member, score]| !is_before(&cut, member.element, score.element));
    let offset = behind.map_or(listpack.end_offset(), |[member, _]| member.offset);
    let text = format_f64(score);
    let elements = [Element::Bytes(bytes), element_of(score, &text)];
    listpack::insert(&mut packed.bytes, offset, elements);
}

/// Takes the members of a range of ranks out.
pub(super) fn remove_ranks(packed: &mut Packed, ranks: Range<u64>) {
    let end = ranks.end.min(len(packed.borrow()));
    let first = i64::try_from(ranks.start * 2).ok();
    let first = first.and_then(|first| Listpack::new(&packed.bytes).get(first));
    if let Some(offset) = first.map(|first| first.offset) {
        let count = 2 * end.saturating_sub(ranks.start) as usize;
        listpack::remove(&mut packed.bytes, offset, count);
    }
}

/// Bytes that a member and a score take.
pub(super) fn len_of(member: Text<'_>, score: f64) -> usize {
    let mut buffer = Vec::new();
    let member = Element::Bytes(member.as_bytes(&mut buffer)).encoded_len();
    member + element_of(score, &format_f64(score)).encoded_len()
}

fn is_before(cut: &Cut<'_>, member: Element<'_>, score: Element<'_>) -> bool {
    let by_score =
        cut.score.map_or(Ordering::Equal, |other| compare_scores(score_of(score), other));
    let order =
        by_score.then_with(|| cut.member.map_or(Ordering::Equal, |other| member.compare(other)));
    order == Ordering::Less || cut.after && order == Ordering::Equal
}

/// The score that an element tells; 0 if none, as with bytes that were never written here.
fn score_of(element: Element<'_>) -> f64 {
    match element {
        Element::Integer(number) => number as f64,
        Element::Bytes(text) => parse_f64(text).unwrap_or(0.0),
    }
}

/// A score as it is written; `text` is what clients get.
fn element_of(score: f64, text: &ShortText) -> Element<'_> {
    if score.abs() <= INTEGER_MAX && score.trunc() == score {
        Element::Integer(score as i64)
    } else {
        Element::Bytes(text.as_str().as_bytes())
    }
}
