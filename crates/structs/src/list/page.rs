//! A page of a large list: one listpack, and beside it the elements that are too long for it.
//!
//! Invariants: a long element has an empty string in its place in the listpack, and lies beside the
//! page under its place, in rising order; the sums kept of what lies there are true.

use std::ops::Range;

use base::step_count;

use super::Side;
use crate::listpack::{self, EMPTY_LEN, Element, Entry, Listpack};
use crate::members::{Long, Text};
use crate::tree::{Growth, LEAF_MAX, Leaf, Summary, reserve_in_leaf};

/// Elements of more bytes lie beside the page.
const INLINE_MAX: usize = 1024;

/// What a long element takes of a page: the handle beside it.
const HANDLE: usize = size_of::<Placed>();

/// What stands in the listpack in the place of a long element.
const STAND_IN: Text<'static> = Text::Bytes(&[]);

/// Elements of a list, packed.
#[derive(Clone)]
pub struct ListPage {
    bytes: Vec<u8>,
    overflow: Option<Box<ElementOverflow>>,
}

/// How many elements, and the bytes that a listpack takes for them.
#[derive(Clone, Copy, Default, PartialEq)]
pub struct ListPageSummary {
    count: u64,
    bytes: usize,
}

/// The long elements of a page.
#[derive(Clone, Default)]
struct ElementOverflow {
    longs: Vec<Placed>,
    /// Heap bytes of the elements.
    memory: usize,
    /// Bytes that a listpack would take for them, less those of the stand-ins.
    packed_bytes: usize,
}

/// A long element and its place among the elements of the page.
pub(super) type Placed = (u16, Long);

impl ListPageSummary {
    /// Bytes that a listpack of the elements takes, without header and end mark.
    pub(super) fn listpack_bytes(self) -> usize {
        self.bytes
    }
}

impl Summary for ListPageSummary {
    fn plus(self, other: ListPageSummary) -> ListPageSummary {
        ListPageSummary { count: self.count + other.count, bytes: self.bytes + other.bytes }
    }

    fn minus(self, part: ListPageSummary) -> Option<ListPageSummary> {
        Some(ListPageSummary { count: self.count - part.count, bytes: self.bytes - part.bytes })
    }

    fn count(self) -> u64 {
        self.count
    }
}

impl Default for ListPage {
    fn default() -> ListPage {
        ListPage { bytes: listpack::new(), overflow: None }
    }
}

impl ListPage {
    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        self.listpack().len()
    }

    /// All elements as one listpack, if none of them lies beside it.
    #[must_use]
    pub fn as_listpack(&self) -> Option<Listpack<'_>> {
        self.overflow.is_none().then(|| self.listpack())
    }

    /// All elements.
    pub fn iter(&self) -> impl Iterator<Item = Text<'_>> {
        self.items(0..self.len())
    }

    /// The element at a place.
    #[inline]
    pub(crate) fn get(&self, place: usize) -> Option<Text<'_>> {
        let entry = self.listpack().get(i64::try_from(place).ok()?)?;
        Some(text_at(&entry, place, self.longs()))
    }

    /// The elements of a range of places.
    #[inline]
    pub(crate) fn items(&self, places: Range<usize>) -> PageItems<'_> {
        PageItems::new(self.listpack(), self.longs(), places)
    }

    /// Which of a range of places hold these bytes.
    pub(super) fn places_of(&self, text: &[u8], places: Range<usize>) -> Vec<usize> {
        places_of(self.listpack(), self.longs(), text, places)
    }

    /// Whether there is room for an element. An empty page has room for any.
    pub(super) fn fits(&self, text: Text<'_>) -> bool {
        let len = text.len();
        let more = match is_long(text) {
            true => HANDLE + listpack::string_entry_len(0),
            false => listpack::string_entry_len(len),
        };
        self.listpack().is_empty() || self.size() + more <= LEAF_MAX
    }

    /// Puts an element before the one at a place, or behind the last.
    pub(crate) fn insert(&mut self, place: usize, text: Text<'_>) {
        step_count::step();
        let offset = self.offset_of(place);
        self.shift(place, |at| at + 1);
        if is_long(text) {
            self.add_long(place, text.to_long());
        }
        let text = if is_long(text) { STAND_IN } else { text };
        reserve_in_leaf(&mut self.bytes, listpack::string_entry_len(text.len()));
        insert_at(&mut self.bytes, offset, text);
    }

    /// Puts an element in the place of another.
    pub(crate) fn replace(&mut self, place: usize, text: Text<'_>) {
        step_count::step();
        self.drop_longs(place..place + 1);
        let offset = self.offset_of(place);
        if is_long(text) {
            self.add_long(place, text.to_long());
        }
        let text = if is_long(text) { STAND_IN } else { text };
        reserve_in_leaf(&mut self.bytes, listpack::string_entry_len(text.len()));
        replace_at(&mut self.bytes, offset, text);
    }

    /// Removes elements from a place on.
    pub(crate) fn remove(&mut self, place: usize, count: usize) {
        step_count::step();
        let offset = self.offset_of(place);
        listpack::remove(&mut self.bytes, offset, count);
        self.drop_longs(place..place + count);
        self.shift(place + count, |at| at - count);
        self.release();
    }

    /// Removes elements that equal this one from a range of places.
    pub(super) fn remove_equal(
        &mut self,
        places: Range<usize>,
        text: Text<'_>,
        most: u64,
        from: Side,
    ) -> u64 {
        let mut longs = self.take_longs();
        let removed = remove_equal(&mut self.bytes, &mut longs, places, text, most, from);
        self.put_longs(longs);
        self.release();
        removed
    }

    /// Moves the elements from a place on into a new page.
    pub(crate) fn split_off(&mut self, place: usize) -> ListPage {
        step_count::step();
        let offset = self.offset_of(place);
        let bytes = listpack::split_off(&mut self.bytes, offset);
        let mut upper = ListPage { bytes, overflow: None };
        let mut lower_longs = self.take_longs();
        let first = lower_longs.partition_point(|(at, _)| usize::from(*at) < place);
        upper.put_longs(lower_longs.split_off(first));
        upper.shift(place, |at| at - place);
        self.put_longs(lower_longs);
        self.finish();
        upper.finish();
        upper
    }

    /// Gives back the room for what will hardly come.
    pub(crate) fn finish(&mut self) {
        self.bytes.shrink_to_fit();
        if let Some(overflow) = &mut self.overflow {
            overflow.longs.shrink_to_fit();
        }
    }

    fn listpack(&self) -> Listpack<'_> {
        Listpack::new(&self.bytes)
    }

    fn longs(&self) -> &[Placed] {
        self.overflow.as_ref().map_or(&[], |overflow| &overflow.longs)
    }

    #[inline]
    fn offset_of(&self, place: usize) -> usize {
        super::offset_of(&self.bytes, place as u64)
    }

    /// Gives back the room of what was removed, if it is most of it.
    fn release(&mut self) {
        if self.bytes.capacity() > 4 * self.bytes.len() {
            self.bytes.shrink_to(2 * self.bytes.len());
        }
    }

    /// Gives the long elements from a place on other places.
    fn shift(&mut self, from: usize, place: impl Fn(usize) -> usize) {
        step_count::step();
        for (at, _) in self.overflow.iter_mut().flat_map(|overflow| &mut overflow.longs) {
            if usize::from(*at) >= from {
                *at = narrow(place(usize::from(*at)));
            }
        }
    }

    /// Adds a long element at a place where none is.
    fn add_long(&mut self, place: usize, long: Long) {
        let overflow = self.overflow.get_or_insert_default();
        overflow.count_in(&long);
        let index = overflow.longs.partition_point(|(at, _)| usize::from(*at) < place);
        if overflow.longs.len() == overflow.longs.capacity() {
            overflow.longs.reserve_exact(1 + overflow.longs.len() / 4);
        }
        overflow.longs.insert(index, (narrow(place), long));
    }

    fn drop_longs(&mut self, places: Range<usize>) {
        if self.longs().iter().any(|(at, _)| places.contains(&usize::from(*at))) {
            let mut longs = self.take_longs();
            longs.retain(|(at, _)| !places.contains(&usize::from(*at)));
            self.put_longs(longs);
        }
    }

    fn take_longs(&mut self) -> Vec<Placed> {
        self.overflow.take().map_or_else(Vec::new, |overflow| overflow.longs)
    }

    fn put_longs(&mut self, longs: Vec<Placed>) {
        if longs.is_empty() {
            return;
        }
        let mut overflow = Box::new(ElementOverflow::default());
        longs.iter().for_each(|(_, long)| overflow.count_in(long));
        overflow.longs = longs;
        self.overflow = Some(overflow);
    }

    /// Where the page is best split, if something else takes `apart` bytes for each element.
    pub(crate) fn split_place(&self, growth: Growth, apart: usize) -> Option<usize> {
        let whole = self.size() - EMPTY_LEN + apart * self.len();
        let full = LEAF_MAX - EMPTY_LEN;
        // How much the lower part is to hold: as much as it may, or just enough.
        let (target, at_most) = match growth {
            Growth::AtEnd => (full, true),
            Growth::AtStart => (whole.saturating_sub(full), false),
            Growth::Within => (whole / 2, false),
        };
        let mut place = 0;
        for (index, entry) in self.listpack().entries().enumerate().skip(1) {
            let weight = self.weight_before(index, entry.offset) + apart * index;
            if at_most && place > 0 && weight > target {
                break;
            }
            place = index;
            if !at_most && weight >= target {
                break;
            }
        }
        (place > 0).then_some(place)
    }

    /// Bytes of the page up to a place, given the place's offset.
    fn weight_before(&self, place: usize, offset: usize) -> usize {
        let longs = self.longs().partition_point(|(at, _)| usize::from(*at) < place);
        offset - self.listpack().start_offset() + longs * HANDLE
    }
}

impl ElementOverflow {
    fn count_in(&mut self, long: &Long) {
        let len = Text::Long(long).len();
        self.memory += long.memory();
        self.packed_bytes += listpack::string_entry_len(len) - listpack::string_entry_len(0);
    }
}

impl Leaf for ListPage {
    type Bound = ();
    type Summary = ListPageSummary;

    fn summary(&self) -> ListPageSummary {
        let overflow = self.overflow.as_ref().map_or(0, |overflow| overflow.packed_bytes);
        ListPageSummary { count: self.len() as u64, bytes: self.bytes.len() - EMPTY_LEN + overflow }
    }

    fn size(&self) -> usize {
        self.bytes.len() + self.longs().len() * HANDLE
    }

    fn memory(&self) -> usize {
        let overflow = self.overflow.as_ref().map_or(0, |overflow| {
            size_of::<ElementOverflow>() + overflow.longs.capacity() * HANDLE + overflow.memory
        });
        self.bytes.capacity() + overflow
    }

    fn bound(&self) {}

    fn split(&mut self, growth: Growth) -> Option<((), ListPage)> {
        let place = self.split_place(growth, 0)?;
        Some(((), self.split_off(place)))
    }

    fn absorb(&mut self, mut next: ListPage) {
        let before = self.len();
        let source = Listpack::new(&next.bytes);
        let (end, all) = (self.listpack().end_offset(), source.start_offset()..source.end_offset());
        self.bytes.reserve_exact(all.len());
        listpack::insert_from(&mut self.bytes, end, source, all);
        next.shift(0, |at| at + before);
        let mut longs = self.take_longs();
        longs.append(&mut next.take_longs());
        self.put_longs(longs);
    }
}

/// Elements of a page, or of a small list, from either end.
pub(crate) struct PageItems<'a> {
    listpack: Listpack<'a>,
    longs: &'a [Placed],
    places: Range<usize>,
    /// Where the elements at both ends of `places` begin and end, once somebody asked.
    start: Option<usize>,
    end: Option<usize>,
}

impl<'a> PageItems<'a> {
    #[inline]
    pub(super) fn new(
        listpack: Listpack<'a>,
        longs: &'a [Placed],
        places: Range<usize>,
    ) -> PageItems<'a> {
        PageItems { listpack, longs, places, start: None, end: None }
    }

    #[inline]
    fn next_entry(&mut self) -> Option<(usize, Entry<'a>)> {
        let place = self.places.next()?;
        let entry = match self.start {
            Some(offset) => self.listpack.entry_at(offset),
            None => self.listpack.get(place as i64),
        }?;
        self.start = Some(entry.end);
        Some((place, entry))
    }

    #[inline]
    fn next_entry_back(&mut self) -> Option<(usize, Entry<'a>)> {
        let place = self.places.next_back()?;
        let entry = match self.end {
            Some(offset) => self.listpack.entry_before(offset),
            None => self.listpack.get(place as i64),
        }?;
        self.end = Some(entry.offset);
        Some((place, entry))
    }
}

impl<'a> Iterator for PageItems<'a> {
    type Item = Text<'a>;

    #[inline]
    fn next(&mut self) -> Option<Text<'a>> {
        self.next_entry().map(|(place, entry)| text_at(&entry, place, self.longs))
    }
}

impl DoubleEndedIterator for PageItems<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_entry_back().map(|(place, entry)| text_at(&entry, place, self.longs))
    }
}

/// Which of a range of places hold these bytes, of a page or of a small list.
pub(super) fn places_of(
    listpack: Listpack<'_>,
    longs: &[Placed],
    text: &[u8],
    places: Range<usize>,
) -> Vec<usize> {
    let Some(first) = i64::try_from(places.start).ok().and_then(|first| listpack.get(first)) else {
        return Vec::new();
    };
    let long_at = |place: usize| {
        longs.binary_search_by_key(&place, |(at, _)| usize::from(*at)).ok().map(|at| &longs[at].1)
    };
    let found = listpack.search(text, 1).starting_at(first.offset, places.start);
    let mut found: Vec<usize> = found
        .map(|(place, _)| place)
        .take_while(|place| *place < places.end)
        // A long element has an empty string in its place.
        .filter(|place| !text.is_empty() || long_at(*place).is_none())
        .collect();
    if text.len() > INLINE_MAX && !longs.is_empty() {
        let longs = longs.iter().map(|(at, long)| (usize::from(*at), Text::Long(long)));
        let equal = longs.filter(|(at, long)| places.contains(at) && *long == Text::Bytes(text));
        found.extend(equal.map(|(at, _)| at));
        found.sort_unstable();
    }
    found
}

/// What an entry at a place stands for.
#[inline]
fn text_at<'a>(entry: &Entry<'a>, place: usize, longs: &'a [Placed]) -> Text<'a> {
    if !longs.is_empty() && entry.element == Element::Bytes(&[]) {
        let found = longs.binary_search_by(|(at, _)| usize::from(*at).cmp(&place));
        if let Ok(index) = found {
            return Text::Long(&longs[index].1);
        }
    }
    entry.element.into()
}

fn is_long(text: Text<'_>) -> bool {
    text.len() > INLINE_MAX
}

fn narrow(place: usize) -> u16 {
    u16::try_from(place).expect("a page has fewer elements than bytes")
}

/// Inserts an element into a listpack.
pub(super) fn insert_at(bytes: &mut Vec<u8>, offset: usize, text: Text<'_>) {
    with_element(text, |element| listpack::insert(bytes, offset, [element]));
}

/// Replaces an element of a listpack.
pub(super) fn replace_at(bytes: &mut Vec<u8>, offset: usize, text: Text<'_>) {
    with_element(text, |element| listpack::replace(bytes, offset, element));
}

fn with_element(text: Text<'_>, act: impl FnOnce(Element<'_>)) {
    match text {
        Text::Integer(number) => act(Element::Integer(number)),
        text => act(Element::Bytes(text.as_bytes(&mut Vec::new()))),
    }
}

/// Removes elements that equal this one from a range of places of a listpack and what lies beside
/// it, at most so many, beginning at an end; tells how many. Takes time in proportion to the bytes,
/// however many they are.
pub(super) fn remove_equal(
    bytes: &mut Vec<u8>,
    longs: &mut Vec<Placed>,
    places: Range<usize>,
    text: Text<'_>,
    most: u64,
    from: Side,
) -> u64 {
    let source = Listpack::new(bytes);
    let mut items = PageItems::new(source, longs, places);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let found = std::iter::from_fn(|| match from {
        Side::Left => items.next_entry(),
        Side::Right => items.next_entry_back(),
    });
    let equal = found.filter(|(place, entry)| text_at(entry, *place, longs) == text);
    let mut gone: Vec<_> =
        equal.take(most).map(|(place, entry)| (place, entry.offset..entry.end)).collect();
    if gone.is_empty() {
        return 0;
    }
    gone.sort_unstable_by_key(|(place, _)| *place);
    let mut kept = Vec::with_capacity(bytes.len());
    kept.append(&mut listpack::new());
    let mut start = source.start_offset();
    let ends = gone.iter().map(|(_, range)| range.clone());
    for range in ends.chain(std::iter::once(source.end_offset()..source.end_offset())) {
        let end = Listpack::new(&kept).end_offset();
        listpack::insert_from(&mut kept, end, source, start..range.start);
        start = range.end;
    }
    *bytes = kept;
    longs.retain(|(at, _)| {
        gone.binary_search_by_key(&usize::from(*at), |(place, _)| *place).is_err()
    });
    for (at, _) in longs {
        let before = gone.partition_point(|(place, _)| *place < usize::from(*at));
        *at -= narrow(before);
    }
    gone.len() as u64
}
