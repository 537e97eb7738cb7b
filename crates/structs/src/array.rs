//! The array (Redis 8.8): elements by index, of which most may be missing; small as a listpack,
//! large as a tree of pages.
//!
//! ```text
//!  Tree<Page>     by index; summaries count elements and pages
//!    page         [ indexes, if some are missing ]  [ one listpack ]  [ long values beside it ]
//! ```
//!
//! Indexes go from 0 to [`INDEX_MAX`]. Beside its elements an array has a cursor: where the next
//! one is appended; and, once it was used as a ring, the ring's size. An array without elements has
//! neither: the key is gone.
//!
//! Above [`SMALL_MAX`] bytes it becomes large, and never small again. Clients see one form: they
//! are told [`ENCODING`].
//!
//! Costs: an element of 16 bytes takes about 19 bytes where no index is missing on its page, and 4
//! or 8 more where one is. What is done at an index is a descent of two or three levels and a walk
//! over half a page; a range is counted and cut out in O(log n), however far apart its ends are. A
//! clone of a large array takes O(1) and shares all that is not changed later.

mod indexes;
mod packed;
mod page;
#[cfg(test)]
mod tests;

use std::iter::FlatMap;
use std::ops::{Range, RangeInclusive};

use self::page::IndexedItems;
pub use self::page::{ArrayPage, ArrayPageSummary};
use crate::members::Text;
use crate::packing::{Packed, PackedRef};
use crate::tree::{Leaves, Tree};

/// The greatest index: one less than what an array's length can tell.
pub const INDEX_MAX: u64 = u64::MAX - 1;

/// What `OBJECT ENCODING` replies of either form.
pub const ENCODING: &str = "sliced-array";

/// Bytes that the small form may take, which is rewritten at each change.
const SMALL_MAX: usize = 1024;

/// An array, to be changed.
#[derive(Clone)]
pub enum Array {
    /// A listpack.
    Packed(Packed),
    /// Many elements or long ones.
    Large(LargeArray),
}

/// An array where it lies.
#[derive(Clone, Copy)]
pub enum ArrayRef<'a> {
    /// A listpack.
    Packed(PackedRef<'a>),
    /// Many elements or long ones.
    Large(&'a LargeArray),
}

/// The large form; a clone shares everything with it.
#[derive(Clone, Default)]
pub struct LargeArray {
    tree: Tree<ArrayPage>,
    next: u64,
    ring: u64,
}

/// How the pages of an array are filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    /// Pages on which no index is missing.
    pub runs: u64,
    /// Elements on them.
    pub in_runs: u64,
    /// Pages on which some are.
    pub gapped: u64,
    /// Elements on them.
    pub in_gapped: u64,
}

impl Array {
    /// The array, to be read.
    #[must_use]
    pub fn borrow(&self) -> ArrayRef<'_> {
        match self {
            Array::Packed(packed) => ArrayRef::Packed(packed.borrow()),
            Array::Large(large) => ArrayRef::Large(large),
        }
    }

    /// Puts an element under an index, at most [`INDEX_MAX`]; tells whether there was none.
    pub fn set(&mut self, index: u64, text: Text<'_>) -> bool {
        debug_assert!(index <= INDEX_MAX, "an array's length is a number of 64 bits");
        if let Array::Packed(packed) = self
            && packed::len_with(packed, text) > SMALL_MAX
        {
            self.enlarge();
        }
        match self {
            Array::Packed(packed) => packed::set(packed, index, text),
            Array::Large(large) => large.set(index, text),
        }
    }

    /// Takes the element with an index out; tells whether there was one.
    pub fn remove(&mut self, index: u64) -> bool {
        match self {
            Array::Packed(packed) => packed::remove_range(packed, index..=index) > 0,
            Array::Large(large) => large.remove(index),
        }
    }

    /// Takes the elements whose indexes lie in a range out; tells how many.
    pub fn remove_range(&mut self, range: RangeInclusive<u64>) -> u64 {
        match self {
            Array::Packed(packed) => packed::remove_range(packed, range),
            Array::Large(large) => large.remove_range(range),
        }
    }

    /// Sets where the next element is appended: one more than [`INDEX_MAX`] where none can be.
    pub fn seek(&mut self, next: u64) {
        let (_, ring) = self.borrow().state();
        self.set_state(next, ring);
    }

    /// Makes the array a ring of so many slots, at least one, into which the next element can be
    /// put.
    ///
    /// If it is longer, the newest elements that fit are moved to its beginning, back to the first
    /// slot that is empty; the others are gone. If it was a smaller ring that has begun to
    /// overwrite its beginning, it is turned so that the oldest slot is the first.
    pub fn make_ring(&mut self, size: u64) {
        let (next, ring) = self.borrow().state();
        let len = self.borrow().len();
        // One more than the newest slot.
        let newest = if next == 0 { len } else { next.min(len) };
        if len > size {
            let whole = self.clone();
            *self = Array::default();
            let back = whole.borrow().newest_back(newest);
            let count = usize::try_from(size).unwrap_or(usize::MAX);
            let kept: Vec<Text<'_>> = back.take(count).collect();
            (0..).zip(kept.iter().rev()).for_each(|(index, text)| {
                self.set(index, *text);
            });
            self.set_state(kept.len() as u64, size);
        } else if ring > 0 && size > ring && newest < len {
            let whole = self.clone();
            *self = Array::default();
            for (index, text) in whole.borrow().items(newest..=INDEX_MAX) {
                self.set(index - newest, text);
            }
            for (index, text) in whole.borrow().items(0..=newest - 1) {
                self.set(index + (len - newest), text);
            }
            self.set_state(len, size);
        } else if ring != size {
            self.set_state(next, size);
        }
    }

    /// Sets where the next element is appended, and the size of the ring, 0 for none.
    pub fn set_state(&mut self, next: u64, ring: u64) {
        if let Array::Packed(packed) = self
            && packed::len_with_state(packed) > SMALL_MAX
        {
            self.enlarge();
        }
        match self {
            Array::Packed(packed) => packed::set_state(packed, next, ring),
            Array::Large(large) => (large.next, large.ring) = (next, ring),
        }
    }

    fn enlarge(&mut self) {
        let Array::Packed(packed) = self else { return };
        let (next, ring) = packed::state(packed.borrow());
        let mut large = LargeArray { tree: Tree::new(), next, ring };
        for (index, text) in packed::items(packed.borrow(), 0..=INDEX_MAX) {
            large.set(index, text);
        }
        *self = Array::Large(large);
    }
}

impl Default for Array {
    fn default() -> Array {
        Array::Packed(packed::new())
    }
}

impl<'a> ArrayRef<'a> {
    /// The number of elements.
    #[must_use]
    pub fn count(self) -> u64 {
        match self {
            ArrayRef::Packed(packed) => packed::count(packed),
            ArrayRef::Large(large) => large.tree.len(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.count() == 0
    }

    /// One more than the greatest index.
    #[must_use]
    pub fn len(self) -> u64 {
        self.items(0..=INDEX_MAX).next_back().map_or(0, |(index, _)| index + 1)
    }

    /// Where the next element is appended: one more than [`INDEX_MAX`] where none can be.
    #[must_use]
    pub fn next(self) -> u64 {
        self.state().0
    }

    /// The size of the ring; 0 of what never was one.
    #[must_use]
    pub fn ring(self) -> u64 {
        self.state().1
    }

    /// The element with an index.
    #[inline]
    #[must_use]
    pub fn get(self, index: u64) -> Option<Text<'a>> {
        match self {
            ArrayRef::Packed(packed) => packed::get(packed, index),
            ArrayRef::Large(large) => {
                large.tree.get(|bound| bound.cmp(&index)).and_then(|page| page.get(index))
            }
        }
    }

    /// The number of elements whose indexes lie in a range.
    #[must_use]
    pub fn count_in(self, range: RangeInclusive<u64>) -> u64 {
        match self {
            ArrayRef::Packed(packed) => packed::items(packed, range).count() as u64,
            ArrayRef::Large(large) => {
                let ranks = large.ranks(&range);
                ranks.end - ranks.start
            }
        }
    }

    /// The elements whose indexes lie in a range, from either end.
    #[must_use]
    pub fn items(self, range: RangeInclusive<u64>) -> ArrayIter<'a> {
        ArrayIter(match self {
            ArrayRef::Packed(packed) => ArrayIterRepr::Packed(packed::items(packed, range)),
            ArrayRef::Large(large) => {
                let leaves = large.tree.leaves(large.ranks(&range));
                ArrayIterRepr::Large(Box::new(leaves.flat_map(items_of)))
            }
        })
    }

    /// The slots of a range, the empty ones too.
    pub fn slots(self, range: RangeInclusive<u64>) -> impl Iterator<Item = Option<Text<'a>>> {
        let mut items = self.items(range.clone()).peekable();
        range.map(move |index| items.next_if(|(at, _)| *at == index).map(|(_, text)| text))
    }

    /// As [`ArrayRef::slots`], from the last to the first.
    pub fn slots_back(self, range: RangeInclusive<u64>) -> impl Iterator<Item = Option<Text<'a>>> {
        let mut items = self.items(range.clone()).rev().peekable();
        range.rev().map(move |index| items.next_if(|(at, _)| *at == index).map(|(_, text)| text))
    }

    /// The newest slots, at most so many: as many ranges as it takes, the older one first. The
    /// slot appended to last is the newest, or the last one of an array to which nothing was
    /// appended; the older ones lie before it, and then, as in a ring, from the end backwards.
    /// There are never more than there are elements.
    #[must_use]
    pub fn newest(self, most: u64) -> [Option<RangeInclusive<u64>>; 2] {
        let (next, len) = (self.next(), self.len());
        let newest = if next == 0 { len } else { next };
        let most = most.min(self.count());
        let before = most.min(newest);
        let wrapped = most - before;
        let range = |end: u64, count: u64| (count > 0).then(|| end - count..=end - 1);
        [range(len, wrapped), range(newest, before)]
    }

    /// How the pages are filled, by a walk over them; a small array is one page.
    #[must_use]
    pub fn page_counts(self) -> PageCounts {
        let mut counts = PageCounts::default();
        match self {
            ArrayRef::Packed(packed) => {
                let indexes = |(index, _)| index;
                let first = packed::items(packed, 0..=INDEX_MAX).next().map_or(0, indexes);
                counts.add(packed::count(packed), self.len() - first);
            }
            ArrayRef::Large(large) => {
                for (page, _) in large.tree.leaves(0..large.tree.len()) {
                    let span = page.index(page.len() - 1) - page.index(0) + 1;
                    counts.add(page.len() as u64, span);
                }
            }
        }
        counts
    }

    /// How many pages.
    #[must_use]
    pub fn pages(self) -> u64 {
        match self {
            ArrayRef::Packed(_) => 1,
            ArrayRef::Large(large) => large.tree.summary().pages(),
        }
    }

    /// Bytes of all elements and what is kept about them, about.
    #[must_use]
    pub fn memory(self) -> usize {
        match self {
            ArrayRef::Packed(packed) => packed.bytes.len(),
            ArrayRef::Large(large) => large.memory(),
        }
    }

    /// A copy to be changed; of a large array it shares everything.
    #[must_use]
    pub fn to_owned(self) -> Array {
        match self {
            ArrayRef::Packed(packed) => Array::Packed(packed.to_owned()),
            ArrayRef::Large(large) => Array::Large(large.clone()),
        }
    }

    fn state(self) -> (u64, u64) {
        match self {
            ArrayRef::Packed(packed) => packed::state(packed),
            ArrayRef::Large(large) => (large.next, large.ring),
        }
    }

    /// The elements from the slot before `end` backwards, and then from the end, as far as no slot
    /// is empty.
    fn newest_back(self, end: u64) -> impl Iterator<Item = Text<'a>> {
        let rest = end..=INDEX_MAX;
        let before = end.checked_sub(1).map(|last| self.items(0..=last).rev());
        let mut expected = end;
        let before = before.into_iter().flatten().take_while(move |(index, _)| {
            let follows = index + 1 == expected;
            expected = *index;
            follows
        });
        let whole = end > 0 && self.count_in(0..=end - 1) == end;
        let mut expected = self.len();
        let wrapped = self.items(rest).rev().take_while(move |(index, _)| {
            let follows = whole && index + 1 == expected;
            expected = *index;
            follows
        });
        before.chain(wrapped).map(|(_, text)| text)
    }
}

impl PageCounts {
    fn add(&mut self, elements: u64, span: u64) {
        if elements == span {
            self.runs += 1;
            self.in_runs += elements;
        } else {
            self.gapped += 1;
            self.in_gapped += elements;
        }
    }
}

impl LargeArray {
    /// Heap bytes, in O(1). What clones share is counted in each of them.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.tree.memory()
    }

    fn set(&mut self, index: u64, text: Text<'_>) -> bool {
        self.tree.edit_by(|bound| bound.cmp(&index), |page| page.set(index, text))
    }

    fn remove(&mut self, index: u64) -> bool {
        // Nothing is copied for an element that is not there.
        let found = ArrayRef::Large(self).get(index).is_some();
        if found {
            self.tree.edit_by(|bound| bound.cmp(&index), |page| page.remove(index));
        }
        found
    }

    fn remove_range(&mut self, range: RangeInclusive<u64>) -> u64 {
        let ranks = self.ranks(&range);
        let count = ranks.end - ranks.start;
        self.tree.remove_range(ranks, |page, place| page.cut_at(place as usize));
        count
    }

    /// The ranks of the elements whose indexes lie in a range.
    fn ranks(&self, range: &RangeInclusive<u64>) -> Range<u64> {
        let start = self.count_below(*range.start());
        let end = range.end().checked_add(1).map_or(self.tree.len(), |end| self.count_below(end));
        start..end.max(start)
    }

    /// How many elements have lower indexes.
    fn count_below(&self, index: u64) -> u64 {
        let Some((page, first)) = self.tree.find(|bound| bound.cmp(&index)) else { return 0 };
        first + page.find(index).unwrap_or_else(|place| place) as u64
    }
}

/// Elements of an array with their indexes, from either end.
pub struct ArrayIter<'a>(ArrayIterRepr<'a>);

enum ArrayIterRepr<'a> {
    Packed(packed::PackedArrayIter<'a>),
    Large(Box<FlatMap<Leaves<'a, ArrayPage>, IndexedItems<'a>, ArrayPageIter<'a>>>),
}

type ArrayPageIter<'a> = fn((&'a ArrayPage, Range<usize>)) -> IndexedItems<'a>;

fn items_of<'a>((page, places): (&'a ArrayPage, Range<usize>)) -> IndexedItems<'a> {
    page.items(places)
}

impl<'a> Iterator for ArrayIter<'a> {
    type Item = (u64, Text<'a>);

    #[inline]
    fn next(&mut self) -> Option<(u64, Text<'a>)> {
        match &mut self.0 {
            ArrayIterRepr::Packed(items) => items.next(),
            ArrayIterRepr::Large(items) => items.next(),
        }
    }
}

impl DoubleEndedIterator for ArrayIter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            ArrayIterRepr::Packed(items) => items.next_back(),
            ArrayIterRepr::Large(items) => items.next_back(),
        }
    }
}
