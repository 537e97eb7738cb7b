//! The leaf of a large sorted set: a page of members in order.
//!
//! ```text
//!  scores  [ f64 | f64 | .. ]
//!  starts  [ u16 | u16 | .. ]      where each item begins
//!  items   [ head | deadline 6 | length 2 | member ]  [ head | member ]  ..
//!  head      bit 7: has a deadline   bit 6: the index holds the member, too (it is not *light*)
//!            bits 0-5: length, or 62: the length follows, or 63: the member lies beside the page
//! ```
//!
//! Invariants: scores never fall, and members of equal scores rise; minus zero equals zero. A
//! member of more than [`WITHIN_MAX`] bytes lies beside the page; those that do are numbered in
//! the order of their items.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use base::{SharedBytes, UnixMillis, step_count};

use super::ItemRef;
use crate::members::{Long, Text, storable_deadline};
use crate::tree::{Growth, Leaf, Summary};

/// Bytes of a member that lies within the page.
const WITHIN_MAX: usize = 1024;

const TIMED: u8 = 0x80;
const IN_INDEX: u8 = 0x40;
const LENGTH: u8 = 0x3f;
const LENGTH_FOLLOWS: u8 = 62;
const BESIDE: u8 = 63;

/// Bytes of a deadline.
const DEADLINE: usize = 6;

/// Bytes of an item's score and start.
const DIRECTORY_ENTRY: usize = 10;

/// What stands for no deadline.
const NEVER: UnixMillis = UnixMillis::MAX;

/// A page of members and scores.
#[derive(Clone)]
pub struct SortedSetPage {
    scores: Vec<f64>,
    starts: Vec<u16>,
    items: Vec<u8>,
    overflow: Option<Box<MemberOverflow>>,
    earliest: UnixMillis,
    /// How many members the index does not hold.
    light: u16,
}

#[derive(Clone, Default)]
struct MemberOverflow {
    longs: Vec<Long>,
    /// Heap bytes of them.
    bytes: usize,
}

/// What a tree keeps of each page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortedSetPageSummary {
    count: u64,
    light: u64,
    earliest: UnixMillis,
}

/// What separates pages: a score, and the beginning of a member, shared by copies of a node.
#[derive(Clone, Debug)]
pub struct Separator {
    score: f64,
    member: Option<Arc<[u8]>>,
}

/// A place between two elements: behind those that compare as less than this score, if given, and
/// member, if given; `after` those that compare as equal, or before them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut<'a> {
    pub(super) score: Option<f64>,
    pub(super) member: Option<&'a [u8]>,
    pub(super) after: bool,
}

/// What is to be put into a page.
#[derive(Clone, Copy)]
pub(super) struct NewItem<'a> {
    pub(super) score: f64,
    pub(super) member: Text<'a>,
    pub(super) deadline: Option<UnixMillis>,
    pub(super) in_index: bool,
}

/// What belonged to an element that was taken out of a page.
pub(super) struct Taken {
    pub(super) in_index: bool,
    pub(super) deadline: Option<UnixMillis>,
    /// The member, if it lay beside the page.
    pub(super) long: Option<Long>,
}

impl Cut<'_> {
    /// How an element compares.
    #[inline]
    fn order(&self, score: f64, member: impl FnOnce(&[u8]) -> Ordering) -> Ordering {
        let by_score = self.score.map_or(Ordering::Equal, |other| compare_scores(score, other));
        by_score.then_with(|| self.member.map_or(Ordering::Equal, member))
    }

    /// How the bound of a page compares, such that the last page that is not greater has the place
    /// in it or at its end.
    #[inline]
    pub(super) fn compare_bound(&self, bound: &Separator) -> Ordering {
        let order = self
            .order(bound.score, |member| bound.member.as_deref().unwrap_or_default().cmp(member));
        match order {
            Ordering::Equal if self.after => Ordering::Less,
            Ordering::Equal if self.member.is_none() => Ordering::Greater,
            order => order,
        }
    }
}

/// Compares scores, none of which is NaN.
#[inline]
pub(super) fn compare_scores(this: f64, that: f64) -> Ordering {
    this.partial_cmp(&that).expect("no score is NaN")
}

impl SortedSetPage {
    /// The number of members.
    #[inline]
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Whether there are no members. Never true of a page in a tree.
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// The member at an offset, with its score and deadline.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub fn get(&self, index: usize) -> ItemRef<'_> {
        ItemRef {
            member: self.member(index),
            score: self.scores[index],
            deadline: self.deadline(index),
        }
    }

    #[inline]
    pub(super) fn score(&self, index: usize) -> f64 {
        self.scores[index]
    }

    #[inline]
    pub(super) fn in_index(&self, index: usize) -> bool {
        self.head(index) & IN_INDEX != 0
    }

    #[inline]
    pub(super) fn member(&self, index: usize) -> Text<'_> {
        let item = self.item(index);
        let body = &item[if item[0] & TIMED != 0 { 1 + DEADLINE } else { 1 }..];
        match item[0] & LENGTH {
            BESIDE => Text::Long(&self.overflow().longs[self.longs_before(index)]),
            LENGTH_FOLLOWS => Text::Bytes(&body[2..]),
            _ => Text::Bytes(body),
        }
    }

    pub(super) fn deadline(&self, index: usize) -> Option<UnixMillis> {
        let item = self.item(index);
        (item[0] & TIMED != 0).then(|| {
            let mut bytes = [0; 8];
            bytes[..DEADLINE].copy_from_slice(&item[1..=DEADLINE]);
            UnixMillis::from_le_bytes(bytes)
        })
    }

    /// How many elements lie before a place.
    #[inline]
    pub(super) fn count_before(&self, cut: &Cut<'_>) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            let order = cut.order(self.scores[middle], |member| match self.member(middle) {
                Text::Bytes(bytes) => bytes.cmp(member),
                text => compare_text(text, member),
            });
            if order == Ordering::Less || cut.after && order == Ordering::Equal {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Whether the element at an offset is this one.
    #[inline]
    pub(super) fn holds(&self, index: usize, score: f64, member: &[u8]) -> bool {
        index < self.len()
            && self.scores[index] == score
            && self.member(index) == Text::Bytes(member)
    }

    pub(super) fn insert(&mut self, index: usize, new: NewItem<'_>) {
        step_count::step();
        let mut head = [0; 1 + DEADLINE + 2];
        let mut used = 1;
        if new.in_index {
            head[0] |= IN_INDEX;
        } else {
            self.light += 1;
        }
        if let Some(deadline) = new.deadline.map(storable_deadline) {
            head[0] |= TIMED;
            head[1..=DEADLINE].copy_from_slice(&deadline.to_le_bytes()[..DEADLINE]);
            used += DEADLINE;
            self.earliest = self.earliest.min(deadline);
        }
        let mut buffer = Vec::new();
        let len = new.member.len();
        let within: &[u8] = if len > WITHIN_MAX {
            head[0] |= BESIDE;
            self.put_beside(index, new.member);
            &[]
        } else {
            if len < usize::from(LENGTH_FOLLOWS) {
                head[0] |= len as u8;
            } else {
                head[0] |= LENGTH_FOLLOWS;
                head[used..used + 2].copy_from_slice(&(len as u16).to_le_bytes());
                used += 2;
            }
            new.member.as_bytes(&mut buffer)
        };
        let start = self.starts.get(index).map_or(self.items.len(), |start| usize::from(*start));
        let bytes = used + within.len();
        self.open(start, bytes);
        self.items[start..start + used].copy_from_slice(&head[..used]);
        self.items[start + used..start + bytes].copy_from_slice(within);
        reserve(&mut self.scores, 1);
        self.scores.insert(index, new.score);
        reserve(&mut self.starts, 1);
        self.starts.insert(index, start as u16);
        self.move_starts(index + 1, |later| later + bytes as u16);
    }

    /// Whether fewer than so many elements have this score, the place of one more being known;
    /// `None` if the page's neighbours may have some of them.
    pub(super) fn has_few(&self, place: usize, score: f64, most: usize) -> Option<bool> {
        let has_score = |other: &&f64| **other == score;
        let before = self.scores[..place].iter().rev().take(most).take_while(has_score).count();
        let after = self.scores[place..].iter().take(most).take_while(has_score).count();
        if before + after >= most {
            return Some(false);
        }
        (before < place && place + after < self.len()).then_some(true)
    }

    /// Takes an element out, with what belongs to it.
    pub(super) fn take(&mut self, index: usize) -> Taken {
        let long = match self.member(index) {
            Text::Long(long) => Some(long.clone()),
            _ => None,
        };
        let (in_index, deadline) = (self.in_index(index), self.deadline(index));
        self.remove(index);
        Taken { in_index, deadline, long }
    }

    pub(super) fn remove(&mut self, index: usize) {
        step_count::step();
        let range = self.item_range(index);
        let bytes = range.len() as u16;
        let deadline = self.deadline(index);
        if !self.in_index(index) {
            self.light -= 1;
        }
        if self.head(index) & LENGTH == BESIDE {
            self.take_beside(index);
        }
        self.items.drain(range);
        self.scores.remove(index);
        self.starts.remove(index);
        self.move_starts(index, |later| later - bytes);
        if deadline == Some(self.earliest) {
            self.find_earliest();
        }
        self.shrink();
    }

    pub(super) fn set_deadline(&mut self, index: usize, deadline: Option<UnixMillis>) {
        step_count::step();
        let had = self.deadline(index);
        let start = self.item_range(index).start;
        match (had, deadline) {
            (Some(_), None) => {
                self.items[start] &= !TIMED;
                self.items.drain(start + 1..=start + DEADLINE);
                self.move_starts(index + 1, |later| later - DEADLINE as u16);
            }
            (None, Some(_)) => {
                self.items[start] |= TIMED;
                self.open(start + 1, DEADLINE);
                self.move_starts(index + 1, |later| later + DEADLINE as u16);
            }
            _ => {}
        }
        if let Some(deadline) = deadline.map(storable_deadline) {
            let bytes = &deadline.to_le_bytes()[..DEADLINE];
            self.items[start + 1..=start + DEADLINE].copy_from_slice(bytes);
            self.earliest = self.earliest.min(deadline);
        }
        if had == Some(self.earliest) {
            self.find_earliest();
        }
    }

    /// Moves the members from an offset on into a new page.
    pub(super) fn cut_at(&mut self, index: usize) -> SortedSetPage {
        step_count::step();
        let start = self.item_range(index).start;
        let longs = self.longs_before(index);
        let mut upper = SortedSetPage {
            scores: self.scores.split_off(index),
            starts: self.starts.split_off(index),
            items: self.items.split_off(start),
            ..SortedSetPage::default()
        };
        upper.move_starts(0, |later| later - start as u16);
        if let Some(overflow) = &mut self.overflow {
            let longs = overflow.longs.split_off(longs);
            let bytes = longs.iter().map(Long::memory).sum();
            overflow.bytes -= bytes;
            upper.overflow = (!longs.is_empty()).then(|| Box::new(MemberOverflow { longs, bytes }));
        }
        self.overflow.take_if(|overflow| overflow.longs.is_empty());
        upper.earliest = self.earliest;
        for page in [self, &mut upper] {
            page.light = (0..page.len()).filter(|index| !page.in_index(*index)).count() as u16;
            if page.earliest != NEVER {
                page.find_earliest();
            }
            page.shrink();
        }
        upper
    }

    fn item(&self, index: usize) -> &[u8] {
        &self.items[self.item_range(index)]
    }

    #[inline]
    fn item_range(&self, index: usize) -> Range<usize> {
        let end = self.starts.get(index + 1).map_or(self.items.len(), |end| usize::from(*end));
        usize::from(self.starts[index])..end
    }

    fn head(&self, index: usize) -> u8 {
        self.items[usize::from(self.starts[index])]
    }

    /// Makes room for bytes of an item.
    fn open(&mut self, at: usize, bytes: usize) {
        step_count::step();
        let len = self.items.len();
        reserve(&mut self.items, bytes);
        self.items.resize(len + bytes, 0);
        self.items.copy_within(at..len, at + bytes);
    }

    fn move_starts(&mut self, from: usize, moved: impl Fn(u16) -> u16) {
        self.starts[from..].iter_mut().for_each(|start| *start = moved(*start));
    }

    fn find_earliest(&mut self) {
        let deadlines = (0..self.len()).filter_map(|index| self.deadline(index));
        self.earliest = deadlines.min().unwrap_or(NEVER);
    }

    fn overflow(&self) -> &MemberOverflow {
        self.overflow.as_ref().expect("an item says that there is something beside the page")
    }

    /// The number of the first long member at or behind an offset.
    fn longs_before(&self, index: usize) -> usize {
        if self.overflow.is_none() {
            return 0;
        }
        (0..index).filter(|before| self.head(*before) & LENGTH == BESIDE).count()
    }

    fn put_beside(&mut self, index: usize, member: Text<'_>) {
        let long = match member {
            Text::Long(long) => long.clone(),
            member => Long::new(member.as_bytes(&mut Vec::new())),
        };
        let number = self.longs_before(index);
        let overflow = self.overflow.get_or_insert_default();
        overflow.bytes += long.memory();
        overflow.longs.insert(number, long);
    }

    fn take_beside(&mut self, index: usize) {
        let number = self.longs_before(index);
        let overflow = self.overflow.as_mut().expect("an item lies beside the page");
        overflow.bytes -= overflow.longs.remove(number).memory();
        self.overflow.take_if(|overflow| overflow.longs.is_empty());
    }

    fn shrink(&mut self) {
        shrink(&mut self.scores);
        shrink(&mut self.starts);
        shrink(&mut self.items);
    }

    /// The shortest bound between the elements before an offset and those behind.
    fn separator(&self, index: usize) -> Separator {
        let score = self.scores[index];
        if self.scores[index - 1] != score {
            return Separator { score, member: None };
        }
        let (mut lower_buffer, mut upper_buffer) = (Vec::new(), Vec::new());
        let lower = self.member(index - 1).as_bytes(&mut lower_buffer);
        let upper = self.member(index).as_bytes(&mut upper_buffer);
        let same = lower.iter().zip(upper).take_while(|(lower, upper)| lower == upper).count();
        Separator { score, member: Some(Arc::from(&upper[..same + 1])) }
    }
}

impl Default for SortedSetPage {
    fn default() -> SortedSetPage {
        SortedSetPage {
            scores: Vec::new(),
            starts: Vec::new(),
            items: Vec::new(),
            overflow: None,
            earliest: NEVER,
            light: 0,
        }
    }
}

impl Leaf for SortedSetPage {
    type Bound = Separator;
    type Summary = SortedSetPageSummary;

    fn summary(&self) -> SortedSetPageSummary {
        let (count, light) = (self.len() as u64, u64::from(self.light));
        SortedSetPageSummary { count, light, earliest: self.earliest }
    }

    fn size(&self) -> usize {
        self.len() * DIRECTORY_ENTRY + self.items.len()
    }

    fn memory(&self) -> usize {
        let overflow = self.overflow.as_ref().map_or(0, |own| {
            size_of::<MemberOverflow>() + own.longs.capacity() * size_of::<Long>() + own.bytes
        });
        self.scores.capacity() * 8 + self.starts.capacity() * 2 + self.items.capacity() + overflow
    }

    fn bound(&self) -> Separator {
        let member = self.member(0);
        let member = (!member.is_empty()).then(|| Arc::from(member.to_vec()));
        Separator { score: self.scores[0], member }
    }

    fn bound_memory(bound: &Separator) -> usize {
        bound.member.as_ref().map_or(0, |member| 2 * size_of::<usize>() + member.len())
    }

    fn split(&mut self, growth: Growth) -> Option<(Separator, SortedSetPage)> {
        let len = self.len();
        if len < 2 {
            return None;
        }
        let few = 1 + len / 32;
        let at = match growth {
            Growth::AtStart => few,
            Growth::AtEnd => len - few,
            Growth::Within => {
                let half = self.size() / 2;
                let size_before = |at: usize| self.item_range(at).start + at * DIRECTORY_ENTRY;
                (1..len - 1).find(|at| size_before(*at) >= half).unwrap_or(len - 1)
            }
        };
        let bound = self.separator(at);
        Some((bound, self.cut_at(at)))
    }

    fn absorb(&mut self, mut next: SortedSetPage) {
        let start = self.items.len() as u16;
        next.move_starts(0, |later| later + start);
        reserve(&mut self.scores, next.len());
        self.scores.append(&mut next.scores);
        reserve(&mut self.starts, next.starts.len());
        self.starts.append(&mut next.starts);
        reserve(&mut self.items, next.items.len());
        self.items.append(&mut next.items);
        if let Some(mut moved) = next.overflow {
            let overflow = self.overflow.get_or_insert_default();
            overflow.bytes += moved.bytes;
            overflow.longs.append(&mut moved.longs);
        }
        self.earliest = self.earliest.min(next.earliest);
        self.light += next.light;
    }
}

impl SortedSetPageSummary {
    pub(super) fn has_light(&self) -> bool {
        self.light > 0
    }

    pub(super) fn earliest(&self) -> Option<UnixMillis> {
        (self.earliest != NEVER).then_some(self.earliest)
    }

    /// Whether there is a deadline at or before `now`.
    pub(super) fn has_expired(&self, now: UnixMillis) -> bool {
        self.earliest <= now && self.earliest != NEVER
    }
}

impl Default for SortedSetPageSummary {
    fn default() -> SortedSetPageSummary {
        SortedSetPageSummary { count: 0, light: 0, earliest: NEVER }
    }
}

impl Summary for SortedSetPageSummary {
    #[inline]
    fn plus(self, other: SortedSetPageSummary) -> SortedSetPageSummary {
        SortedSetPageSummary {
            count: self.count + other.count,
            light: self.light + other.light,
            earliest: self.earliest.min(other.earliest),
        }
    }

    #[inline]
    fn minus(self, part: SortedSetPageSummary) -> Option<SortedSetPageSummary> {
        let (count, light) = (self.count - part.count, self.light - part.light);
        let is_known = part.earliest > self.earliest || part.earliest == NEVER;
        is_known.then_some(SortedSetPageSummary { count, light, earliest: self.earliest })
    }

    #[inline]
    fn count(self) -> u64 {
        self.count
    }
}

/// Compares byte by byte a text that may lie in pieces.
fn compare_text(text: Text<'_>, other: &[u8]) -> Ordering {
    let Text::Long(long) = text else {
        return text.as_bytes(&mut Vec::new()).cmp(other);
    };
    let mut offset = 0;
    loop {
        let chunk = long.chunk_at(offset);
        let rest = &other[offset.min(other.len())..];
        let order = chunk.cmp(&rest[..rest.len().min(chunk.len())]);
        if chunk.is_empty() || order != Ordering::Equal {
            return order.then(long.len().cmp(&other.len()));
        }
        offset += chunk.len();
    }
}

/// Makes room for more, up to an allocator's size class: four to a doubling.
pub(super) fn reserve<T>(elements: &mut Vec<T>, more: usize) {
    let len = elements.len() + more;
    if len > elements.capacity() {
        elements.reserve_exact(class_len::<T>(len) - elements.len());
    }
}

/// Gives room back that is more than two size classes.
pub(super) fn shrink<T>(elements: &mut Vec<T>) {
    let wanted = class_len::<T>(elements.len());
    if elements.capacity() > wanted + wanted / 2 {
        elements.shrink_to(wanted);
    }
}

fn class_len<T>(len: usize) -> usize {
    let bytes = len * size_of::<T>();
    bytes.next_multiple_of((bytes.next_power_of_two() / 8).max(16)) / size_of::<T>()
}
