//! The list: elements by position, small as a listpack, large as a tree of listpacks.
//!
//! ```text
//!  Tree<Page>     by position; summaries count elements and the bytes of a listpack of them all
//!    page         [ one listpack ] at most 4 KB       [ long elements beside it ]
//! ```
//!
//! Beyond [`ListLimits`] a list is called a quicklist, as Redis turns a listpack into one, and is
//! large; when it has shrunk to half of them it is a listpack again. Beyond [`PACKED_MAX`] bytes it
//! is large, too, of which clients see nothing: [`ListRef::encoding`] goes on to name what the
//! limits ask for.
//!
//! Costs: an element of 16 bytes takes about 18.5; what is done at either end or at an index is a
//! descent of two or three levels and one move within a page; a range is cut out in O(log n). A
//! clone of a large list takes O(1) and shares all that is not changed later.

mod page;
#[cfg(test)]
mod tests;

use std::iter::{FlatMap, Peekable};
use std::ops::Range;

pub(crate) use self::page::PageItems;
pub use self::page::{ListPage, ListPageSummary};
use crate::listpack::{self, Listpack};
use crate::members::Text;
use crate::packing::{PACKED_MAX, Packed, PackedRef, Packing};
use crate::tree::{Leaves, Tree};

/// Bytes of a node that is limited by its number of elements.
const COUNTED_BYTES_MAX: usize = 8192;

/// Bytes that one removal page by page is worth; beyond so many elements the range is cut out.
const REMOVED_SINGLY_MAX: u64 = 512;

/// Beyond what a list is called a quicklist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimits {
    /// Bytes of the listpack.
    bytes: usize,
    /// Elements, if their number counts.
    entries: Option<u64>,
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where the first element is.
    Left,
    /// Where the last element is.
    Right,
}

/// A list, to be changed.
#[derive(Clone)]
pub enum List {
    /// A listpack.
    Packed(Packed),
    /// Many elements or long ones.
    Large(LargeList),
}

/// A list where it lies.
#[derive(Clone, Copy)]
pub enum ListRef<'a> {
    /// A listpack.
    Packed(PackedRef<'a>),
    /// Many elements or long ones.
    Large(&'a LargeList),
}

/// The large form; a clone shares everything with it.
#[derive(Clone, Default)]
pub struct LargeList {
    tree: Tree<ListPage>,
    /// Whether the limits ask for the small form.
    within_limits: bool,
}

impl ListLimits {
    /// What `list-max-listpack-size` means: so many elements, or with a minus sign a class of
    /// bytes, from 4 KB for -1 to 64 KB for -5.
    #[must_use]
    pub fn new(size: i64) -> ListLimits {
        match u64::try_from(size) {
            Ok(entries) => ListLimits { bytes: COUNTED_BYTES_MAX, entries: Some(entries.max(1)) },
            Err(_) => ListLimits { bytes: 2048 << size.unsigned_abs().min(5), entries: None },
        }
    }

    fn admit(&self, bytes: usize, entries: u64) -> bool {
        bytes <= self.bytes && self.entries.is_none_or(|most| entries <= most)
    }

    /// Whether a list that was beyond the limits is small enough not to cross them soon again.
    fn admit_again(&self, bytes: usize, entries: u64) -> bool {
        match self.entries {
            Some(most) => bytes <= self.bytes && entries <= most / 2,
            None => bytes <= self.bytes / 2,
        }
    }
}

impl List {
    /// A list of these elements, small if it may be.
    pub fn from_texts<'a>(texts: impl IntoIterator<Item = Text<'a>>, limits: &ListLimits) -> List {
        let mut large = LargeList::from_texts(texts);
        large.within_limits = limits.admit(large.listpack_bytes(), large.tree.len());
        match large.within_limits && large.listpack_bytes() <= PACKED_MAX {
            true => List::Packed(large.to_packed()),
            false => List::Large(large),
        }
    }

    /// The list, to be read.
    #[must_use]
    pub fn borrow(&self) -> ListRef<'_> {
        match self {
            List::Packed(packed) => ListRef::Packed(packed.borrow()),
            List::Large(large) => ListRef::Large(large),
        }
    }

    /// Makes ready for elements that a command brings, of so many bytes together: Redis goes by
    /// these numbers, not by what comes of it.
    pub fn expect(&mut self, count: u64, bytes: usize, limits: &ListLimits) {
        let list = self.borrow();
        if !limits.admit(list.listpack_bytes().saturating_add(bytes), list.len() + count) {
            self.enlarge().within_limits = false;
        }
    }

    /// Adds elements at an end, one after another, so that the last is outermost.
    pub fn push<'a>(&mut self, side: Side, texts: impl IntoIterator<Item = Text<'a>>) {
        let mut texts = texts.into_iter().peekable();
        if let List::Packed(packed) = self {
            push_packed(packed, side, &mut texts);
        }
        if texts.peek().is_some() {
            self.enlarge().push(side, &mut texts);
        }
    }

    /// Puts an element before the one at an index, or behind the last.
    pub fn insert(&mut self, index: u64, text: Text<'_>) {
        match self.make_room(text) {
            List::Packed(packed) => {
                let offset = offset_of(&packed.bytes, index);
                page::insert_at(&mut packed.bytes, offset, text);
            }
            List::Large(large) => large.insert(index, text),
        }
    }

    /// Puts an element in the place of the one at an index; `false` where there is none.
    pub fn set(&mut self, index: u64, text: Text<'_>) -> bool {
        if index >= self.borrow().len() {
            return false;
        }
        match self.make_room(text) {
            List::Packed(packed) => {
                let offset = offset_of(&packed.bytes, index);
                page::replace_at(&mut packed.bytes, offset, text);
            }
            List::Large(large) => {
                large.tree.edit_at(index, |page, at| page.replace(at as usize, text));
            }
        }
        true
    }

    /// Removes the elements of a range of indexes that exist.
    pub fn remove(&mut self, indexes: Range<u64>) {
        if indexes.is_empty() {
            return;
        }
        match self {
            List::Packed(packed) => {
                let offset = offset_of(&packed.bytes, indexes.start);
                let count = (indexes.end - indexes.start) as usize;
                listpack::remove(&mut packed.bytes, offset, count);
            }
            List::Large(large) => large.remove(indexes),
        }
    }

    /// Removes elements that equal this one, at most so many, beginning at an end; tells how many.
    pub fn remove_equal(&mut self, text: Text<'_>, most: u64, from: Side) -> u64 {
        match self {
            List::Packed(packed) => {
                let count = Listpack::new(&packed.bytes).len();
                page::remove_equal(&mut packed.bytes, &mut Vec::new(), 0..count, text, most, from)
            }
            List::Large(large) => large.remove_equal(text, most, from),
        }
    }

    /// After elements were removed or replaced: makes the list a listpack again if it is far enough
    /// within the limits.
    pub fn shrink(&mut self, limits: &ListLimits) {
        let List::Large(large) = self else { return };
        let (bytes, entries) = (large.listpack_bytes(), large.tree.len());
        let packs = match large.within_limits {
            true => bytes <= PACKED_MAX / 2,
            false => limits.admit_again(bytes, entries),
        };
        if packs {
            *self = List::Packed(large.to_packed());
        }
    }

    /// Changes into the large form if with this element the small one would be too long.
    fn make_room(&mut self, text: Text<'_>) -> &mut List {
        if let List::Packed(packed) = self
            && packed.bytes.len() + listpack::string_entry_len(text.len()) > PACKED_MAX
        {
            self.enlarge();
        }
        self
    }

    /// The large form; one that was small is as the limits ask for.
    fn enlarge(&mut self) -> &mut LargeList {
        if let List::Packed(packed) = self {
            let texts = Listpack::new(&packed.bytes).iter().map(Text::from);
            let large = LargeList { within_limits: true, ..LargeList::from_texts(texts) };
            *self = List::Large(large);
        }
        match self {
            List::Large(large) => large,
            List::Packed(_) => unreachable!("it was made large"),
        }
    }
}

impl Default for List {
    fn default() -> List {
        List::Packed(Packed { packing: Packing::Listpack, bytes: listpack::new() })
    }
}

impl<'a> ListRef<'a> {
    /// The number of elements.
    #[inline]
    pub fn len(self) -> u64 {
        match self {
            ListRef::Packed(packed) => Listpack::new(packed.bytes).len() as u64,
            ListRef::Large(large) => large.tree.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The element at an index.
    #[inline]
    pub fn get(self, index: u64) -> Option<Text<'a>> {
        match self {
            ListRef::Packed(packed) => {
                let entry = Listpack::new(packed.bytes).get(i64::try_from(index).ok()?)?;
                Some(entry.element.into())
            }
            ListRef::Large(large) => {
                let (page, at) = large.tree.at(index)?;
                page.get(at as usize)
            }
        }
    }

    /// All elements, from either end.
    pub fn iter(self) -> ListIter<'a> {
        self.range(0..self.len())
    }

    /// The elements of a range of indexes that exist, from either end.
    pub fn range(self, indexes: Range<u64>) -> ListIter<'a> {
        ListIter(match self {
            ListRef::Packed(packed) => {
                let places = indexes.start as usize..indexes.end as usize;
                ListIterRepr::Packed(PageItems::new(Listpack::new(packed.bytes), &[], places))
            }
            ListRef::Large(large) => {
                ListIterRepr::Large(Box::new(large.tree.leaves(indexes).flat_map(items_of)))
            }
        })
    }

    /// The indexes of a range that exist whose elements are these bytes, the outermost first as
    /// seen from an end.
    pub fn indexes_of(
        self,
        text: &'a [u8],
        indexes: Range<u64>,
        from: Side,
    ) -> impl Iterator<Item = u64> + use<'a> {
        let mut parts = match self {
            ListRef::Packed(_) => None,
            ListRef::Large(large) => Some(large.tree.leaves(indexes.clone())),
        };
        let mut left = indexes;
        let part = move || {
            let (mut found, places) = match (self, &mut parts) {
                (ListRef::Packed(packed), _) => {
                    let places = left.start as usize..left.end as usize;
                    let listpack = Listpack::new(packed.bytes);
                    (page::places_of(listpack, &[], text, places.clone()), places)
                }
                (ListRef::Large(_), parts) => {
                    let parts = parts.as_mut()?;
                    let part = if from == Side::Left { parts.next() } else { parts.next_back() };
                    let (page, places) = part?;
                    (page.places_of(text, places.clone()), places)
                }
            };
            let count = places.len() as u64;
            if count == 0 {
                return None;
            }
            let first = if from == Side::Left { left.start } else { left.end - count };
            left = match from {
                Side::Left => first + count..left.end,
                Side::Right => left.start..first,
            };
            if from == Side::Right {
                found.reverse();
            }
            Some(found.into_iter().map(move |place| first + (place - places.start) as u64))
        };
        std::iter::from_fn(part).flatten()
    }

    /// The form by the name that Redis gives it.
    pub fn encoding(self) -> &'static str {
        match self {
            ListRef::Large(LargeList { within_limits: false, .. }) => "quicklist",
            ListRef::Packed(_) | ListRef::Large(_) => "listpack",
        }
    }

    /// Bytes that one listpack of all elements takes.
    pub fn listpack_bytes(self) -> usize {
        match self {
            ListRef::Packed(packed) => packed.bytes.len(),
            ListRef::Large(large) => large.listpack_bytes(),
        }
    }

    /// A copy to be changed; of a large list it shares everything.
    #[must_use]
    pub fn to_owned(self) -> List {
        match self {
            ListRef::Packed(packed) => List::Packed(packed.to_owned()),
            ListRef::Large(large) => List::Large(large.clone()),
        }
    }
}

impl<'a> IntoIterator for ListRef<'a> {
    type Item = Text<'a>;
    type IntoIter = ListIter<'a>;

    fn into_iter(self) -> ListIter<'a> {
        self.iter()
    }
}

impl LargeList {
    /// As [`Tree::address`].
    pub(crate) fn address(&self) -> Option<usize> {
        self.tree.address()
    }

    /// As [`Tree::memory_of_clones`].
    pub(crate) fn memory_of_clones(&self, clones: usize) -> usize {
        self.tree.memory_of_clones(clones)
    }

    /// As [`Tree::is_same`].
    pub(crate) fn is_same(&self, other: &LargeList) -> bool {
        self.tree.is_same(&other.tree)
    }

    /// A list of these elements, called a quicklist.
    pub fn from_texts<'a>(texts: impl IntoIterator<Item = Text<'a>>) -> LargeList {
        let mut pages = Vec::new();
        let mut page = ListPage::default();
        for text in texts {
            if !page.fits(text) {
                page.finish();
                pages.push(std::mem::take(&mut page));
            }
            page.insert(page.len(), text);
        }
        if page.len() > 0 {
            pages.push(page);
        }
        LargeList { tree: Tree::from_leaves(pages), within_limits: false }
    }

    /// Heap bytes, in O(1). What clones share is counted in each of them.
    pub fn memory(&self) -> usize {
        self.tree.memory()
    }

    /// The pages, in their order.
    pub fn pages(&self) -> impl Iterator<Item = &ListPage> {
        self.tree.leaves(0..ListRef::Large(self).len()).map(|(page, _)| page)
    }

    /// One listpack of all elements.
    fn to_packed(&self) -> Packed {
        let mut bytes = listpack::new();
        bytes.reserve_exact(self.listpack_bytes());
        for text in ListRef::Large(self) {
            let end = Listpack::new(&bytes).end_offset();
            page::insert_at(&mut bytes, end, text);
        }
        Packed { packing: Packing::Listpack, bytes }
    }

    fn listpack_bytes(&self) -> usize {
        listpack::EMPTY_LEN + self.tree.summary().listpack_bytes()
    }

    /// Fills a page after another.
    fn push<'a>(&mut self, side: Side, texts: &mut Peekable<impl Iterator<Item = Text<'a>>>) {
        while texts.peek().is_some() {
            let end = match side {
                Side::Left => 0,
                Side::Right => self.tree.len(),
            };
            self.tree.edit_at(end, |page, _| {
                while let Some(text) = texts.next() {
                    let place = if side == Side::Left { 0 } else { page.len() };
                    page.insert(place, text);
                    if texts.peek().is_some_and(|next| !page.fits(*next)) {
                        break;
                    }
                }
            });
        }
    }

    fn insert(&mut self, index: u64, text: Text<'_>) {
        self.tree.edit_at(index, |page, at| page.insert(at as usize, text));
    }

    fn remove(&mut self, indexes: Range<u64>) {
        let mut left = indexes.end - indexes.start;
        if left > REMOVED_SINGLY_MAX {
            self.tree.remove_range(indexes, |page, at| page.split_off(at as usize));
            return;
        }
        while left > 0 {
            left -= self.tree.edit_at(indexes.start, |page, at| {
                let count = (page.len() - at as usize).min(left as usize);
                page.remove(at as usize, count);
                count as u64
            });
        }
    }

    /// Goes page by page; only pages that hold such an element are touched.
    fn remove_equal(&mut self, text: Text<'_>, most: u64, from: Side) -> u64 {
        let mut removed = 0;
        // What is still to be looked through.
        let mut ranks = 0..self.tree.len();
        while removed < most && !ranks.is_empty() {
            let mut parts = self.tree.leaves(ranks.clone());
            let part = if from == Side::Left { parts.next() } else { parts.next_back() };
            let Some((page, places)) = part else { break };
            let count = places.len() as u64;
            let first = if from == Side::Left { ranks.start } else { ranks.end - count };
            let mut gone = 0;
            if page.items(places.clone()).any(|item| item == text) {
                gone = self.tree.edit_at(first, |page, _| {
                    page.remove_equal(places, text, most - removed, from)
                });
            }
            removed += gone;
            match from {
                Side::Left => ranks = first + count - gone..ranks.end - gone,
                Side::Right => ranks.end = first,
            }
        }
        removed
    }
}

/// Elements of a list, from either end.
pub struct ListIter<'a>(ListIterRepr<'a>);

enum ListIterRepr<'a> {
    Packed(PageItems<'a>),
    Large(Box<FlatMap<Leaves<'a, ListPage>, PageItems<'a>, ListPageIter<'a>>>),
}

type ListPageIter<'a> = fn((&'a ListPage, Range<usize>)) -> PageItems<'a>;

fn items_of<'a>((page, places): (&'a ListPage, Range<usize>)) -> PageItems<'a> {
    page.items(places)
}

impl<'a> Iterator for ListIter<'a> {
    type Item = Text<'a>;

    #[inline]
    fn next(&mut self) -> Option<Text<'a>> {
        match &mut self.0 {
            ListIterRepr::Packed(items) => items.next(),
            ListIterRepr::Large(items) => items.next(),
        }
    }

    /// A whole page at a time: a reader of all elements need not ask for each which page is next.
    #[inline]
    fn fold<B, F: FnMut(B, Text<'a>) -> B>(self, start: B, each: F) -> B {
        match self.0 {
            ListIterRepr::Packed(items) => items.fold(start, each),
            ListIterRepr::Large(items) => (*items).fold(start, each),
        }
    }
}

impl DoubleEndedIterator for ListIter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            ListIterRepr::Packed(items) => items.next_back(),
            ListIterRepr::Large(items) => items.next_back(),
        }
    }
}

/// Adds elements at an end, as far as there is room.
fn push_packed<'a>(
    packed: &mut Packed,
    side: Side,
    texts: &mut Peekable<impl Iterator<Item = Text<'a>>>,
) {
    let bytes = &mut packed.bytes;
    let fits =
        |len: usize, text: &Text<'_>| len + listpack::string_entry_len(text.len()) <= PACKED_MAX;
    while let Some(text) = texts.next_if(|text| fits(bytes.len(), text)) {
        let listpack = Listpack::new(bytes);
        let offset = match side {
            Side::Left => listpack.start_offset(),
            Side::Right => listpack.end_offset(),
        };
        page::insert_at(bytes, offset, text);
    }
}

/// Where the element at an index lies, or the end.
fn offset_of(bytes: &[u8], index: u64) -> usize {
    let listpack = Listpack::new(bytes);
    let entry = i64::try_from(index).ok().and_then(|index| listpack.get(index));
    entry.map_or(listpack.end_offset(), |entry| entry.offset)
}
