//! The leaf of a large array: a page of elements in order of their indexes.
//!
//! ```text
//!  indexes  a run: nothing is stored; else a distance of 4 bytes, or an index of 8, for each
//!  values   [ one listpack ]  [ long values beside it ]      as in a page of a list
//! ```
//!
//! Invariants: there are as many indexes as values. However the indexes are stored, a page is
//! split and joined as if each took [`INDEX_BYTES`]: so none outgrows its bound when a gap appears
//! in a run.

use std::ops::Range;

use base::step_count;

use super::indexes::Indexes;
use crate::list::{self, PageItems};
use crate::members::Text;
use crate::tree::{Growth, Leaf, Summary};

/// What an index counts for in the size of a page.
const INDEX_BYTES: usize = size_of::<u64>();

/// Elements of an array, packed.
#[derive(Clone, Default)]
pub struct ArrayPage {
    indexes: Indexes,
    values: list::ListPage,
}

/// How many elements, on how many pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayPageSummary {
    count: u64,
    pages: u64,
}

/// Elements of a page with their indexes, from either end.
pub(super) struct IndexedItems<'a> {
    indexes: &'a Indexes,
    places: Range<usize>,
    values: PageItems<'a>,
}

impl ArrayPage {
    /// The number of elements.
    pub(super) fn len(&self) -> usize {
        self.indexes.len()
    }

    /// The element with an index.
    #[inline]
    pub(super) fn get(&self, index: u64) -> Option<Text<'_>> {
        self.values.get(self.indexes.find(index).ok()?)
    }

    /// The place of an index, or the one at which it would stand.
    pub(super) fn find(&self, index: u64) -> Result<usize, usize> {
        self.indexes.find(index)
    }

    /// The index of the element at a place.
    pub(super) fn index(&self, place: usize) -> u64 {
        self.indexes.get(place)
    }

    /// The elements of a range of places.
    #[inline]
    pub(super) fn items(&self, places: Range<usize>) -> IndexedItems<'_> {
        let values = self.values.items(places.clone());
        IndexedItems { indexes: &self.indexes, places, values }
    }

    /// Puts an element under an index; tells whether there was none.
    pub(super) fn set(&mut self, index: u64, text: Text<'_>) -> bool {
        step_count::step();
        match self.indexes.find(index) {
            Ok(place) => {
                self.values.replace(place, text);
                false
            }
            Err(place) => {
                self.values.insert(place, text);
                self.indexes.insert(place, index);
                true
            }
        }
    }

    /// Takes the element with an index out, if there is one.
    pub(super) fn remove(&mut self, index: u64) {
        step_count::step();
        if let Ok(place) = self.indexes.find(index) {
            self.values.remove(place, 1);
            self.indexes.remove(place);
        }
    }

    /// Moves the elements from a place on into a new page.
    pub(super) fn cut_at(&mut self, place: usize) -> ArrayPage {
        step_count::step();
        ArrayPage { indexes: self.indexes.split_off(place), values: self.values.split_off(place) }
    }
}

impl Leaf for ArrayPage {
    type Bound = u64;
    type Summary = ArrayPageSummary;

    fn summary(&self) -> ArrayPageSummary {
        ArrayPageSummary { count: self.len() as u64, pages: 1 }
    }

    fn size(&self) -> usize {
        self.values.size() + self.len() * INDEX_BYTES
    }

    fn memory(&self) -> usize {
        self.values.memory() + self.indexes.memory()
    }

    fn bound(&self) -> u64 {
        self.indexes.get(0)
    }

    fn split(&mut self, growth: Growth) -> Option<(u64, ArrayPage)> {
        let place = self.values.split_place(growth, INDEX_BYTES)?;
        let upper = self.cut_at(place);
        Some((upper.bound(), upper))
    }

    fn absorb(&mut self, next: ArrayPage) {
        self.indexes.append(&next.indexes);
        self.values.absorb(next.values);
    }
}

impl ArrayPageSummary {
    /// How many pages.
    pub(super) fn pages(self) -> u64 {
        self.pages
    }
}

impl Summary for ArrayPageSummary {
    fn plus(self, other: ArrayPageSummary) -> ArrayPageSummary {
        ArrayPageSummary { count: self.count + other.count, pages: self.pages + other.pages }
    }

    fn minus(self, part: ArrayPageSummary) -> Option<ArrayPageSummary> {
        Some(ArrayPageSummary { count: self.count - part.count, pages: self.pages - part.pages })
    }

    fn count(self) -> u64 {
        self.count
    }
}

impl<'a> Iterator for IndexedItems<'a> {
    type Item = (u64, Text<'a>);

    #[inline]
    fn next(&mut self) -> Option<(u64, Text<'a>)> {
        let place = self.places.next()?;
        Some((self.indexes.get(place), self.values.next()?))
    }
}

impl DoubleEndedIterator for IndexedItems<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let place = self.places.next_back()?;
        Some((self.indexes.get(place), self.values.next_back()?))
    }
}
