//! A node of a stream's log: consecutive entries in one listpack, in the layout of Redis.
//!
//! ```text
//!  master   count | deleted | fields | field .. | 0
//!  entry    flags | ms | seq |               value ..        | elements before this
//!  entry    flags | ms | seq | fields | field | value | ..   | elements before this
//! ```
//!
//! The master entry has the fields of the node's first entry; an entry with the same fields leaves
//! them out and says so in its flags (2). Milliseconds and sequence count from the node's own ID,
//! that of its first entry. A deleted entry is marked in its flags (1) and stays where it is.
//!
//! Invariants: the entries' IDs rise; `live` is what the master entry counts; a node in a tree has
//! a live entry.

use base::step_count;

use super::id::EntryId;
use crate::listpack::{self, Element, Entries, Listpack};
use crate::tree::{Growth, LEAF_MAX, Leaf, Summary, reserve_in_leaf};

/// The flag of a deleted entry.
const DELETED: i64 = 1;
/// The flag of an entry whose fields are those of the master entry.
const SAME_FIELDS: i64 = 2;

/// A field and its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// Consecutive entries.
#[derive(Clone, Default)]
pub struct StreamNode {
    master: EntryId,
    bytes: Vec<u8>,
    live: usize,
}

/// How many entries there are, and in how many nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSummary {
    entries: u64,
    pub(super) nodes: u64,
}

/// An entry where it lies.
#[derive(Clone, Debug)]
pub struct StreamEntry<'a> {
    /// Its ID.
    pub id: EntryId,
    /// Its fields and values.
    pub fields: EntryFields<'a>,
    flags: i64,
    start: usize,
    end: usize,
}

/// Fields and values of an entry.
#[derive(Clone, Debug)]
pub struct EntryFields<'a> {
    /// The names, if they lie in the master entry.
    names: Option<Entries<'a>>,
    body: Entries<'a>,
    left: usize,
}

/// Where the parts of a node begin.
struct Layout {
    names: usize,
    fields: usize,
    items: usize,
}

/// What to do with an entry while a node is swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Delete,
    Keep,
    Stop,
}

impl StreamNode {
    /// A node with one entry.
    pub(super) fn with_first(id: EntryId, pairs: &[Pair<'_>]) -> StreamNode {
        let mut bytes = listpack::new();
        let push = |bytes: &mut Vec<u8>, element: Element<'_>| listpack::push_back(bytes, element);
        for number in [0, 0, pairs.len() as i64] {
            push(&mut bytes, Element::Integer(number));
        }
        pairs.iter().for_each(|(field, _)| push(&mut bytes, Element::Bytes(field)));
        push(&mut bytes, Element::Integer(0));
        let mut node = StreamNode { master: id, bytes, live: 0 };
        node.push(id, pairs);
        node
    }

    /// A node of the given ID of bytes of unknown origin: the listpack itself, every entry's
    /// elements, rising IDs and the counts are checked, and that there is a live entry.
    pub fn checked(master: EntryId, bytes: Vec<u8>) -> Result<StreamNode, NotANode> {
        listpack::validate(&bytes).map_err(|_| NotANode)?;
        let mut node = StreamNode { master, bytes, live: 0 };
        node.live = count_checked(&node)?;
        Ok(node)
    }

    /// The ID that all others count from.
    #[must_use]
    pub fn master(&self) -> EntryId {
        self.master
    }

    /// The listpack, in the bytes of Redis.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many entries are not deleted.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live
    }

    /// How many are, but still lie here.
    pub(super) fn deleted(&self) -> usize {
        let element = self.listpack().iter().nth(1);
        element.and_then(Element::to_integer).map_or(0, |count| count as usize)
    }

    /// Adds an entry with a greater ID than any before.
    pub(super) fn push(&mut self, id: EntryId, pairs: &[Pair<'_>]) {
        step_count::step();
        let layout = self.layout();
        let names = self.listpack().entries_from(layout.names).take(layout.fields);
        let same = layout.fields == pairs.len()
            && names.zip(pairs).all(|(name, (field, _))| name.element.equals(field));
        let (ms, seq) = id.distance_from(self.master);
        let text: usize = pairs.iter().map(|(field, value)| field.len() + value.len()).sum();
        reserve_in_leaf(&mut self.bytes, text + pairs.len() * 4 + 32);
        let bytes = &mut self.bytes;
        let end = |bytes: &Vec<u8>| Listpack::new(bytes).end_offset();
        let flags = if same { SAME_FIELDS } else { 0 };
        listpack::insert(bytes, end(bytes), [flags, ms, seq].map(Element::Integer));
        let mut elements = 3 + pairs.len();
        if !same {
            elements += 1 + pairs.len();
            listpack::push_back(bytes, Element::Integer(pairs.len() as i64));
        }
        for (field, value) in pairs {
            if !same {
                listpack::push_back(bytes, Element::Bytes(field));
            }
            listpack::push_back(bytes, Element::Bytes(value));
        }
        listpack::push_back(bytes, Element::Integer(elements as i64));
        self.count(self.live + 1, None);
    }

    /// Gives back the room for entries that will not come.
    pub(super) fn finish(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Which of these rising IDs are those of live entries.
    pub(super) fn find_all(&self, ids: &[EntryId]) -> Vec<EntryId> {
        let mut found = Vec::new();
        self.visit(among(ids, |item| found.push(item.id)));
        found
    }

    /// Marks the entries of these rising IDs as deleted.
    pub(super) fn delete_all(&mut self, ids: &[EntryId]) {
        step_count::step();
        let mut marks = Vec::new();
        self.visit(among(ids, |item| marks.push((item.start, item.flags | DELETED))));
        self.mark(&marks);
    }

    /// Decides on each live entry, from the first on; tells how many were marked as deleted.
    pub(super) fn sweep(&mut self, mut decide: impl FnMut(EntryId) -> Verdict) -> usize {
        step_count::step();
        let mut marks = Vec::new();
        self.visit(|item| {
            let verdict = decide(item.id);
            if verdict == Verdict::Delete {
                marks.push((item.start, item.flags | DELETED));
            }
            verdict != Verdict::Stop
        });
        self.mark(&marks);
        marks.len()
    }

    /// Shows each live entry, from the first on, for as long as more are wanted.
    fn visit(&self, mut wants_more: impl FnMut(&StreamEntry<'_>) -> bool) {
        let mut next = self.items_start();
        while let Some(item) = self.item_at(next) {
            next = item.end;
            if !item.is_deleted() && !wants_more(&item) {
                return;
            }
        }
    }

    /// Gives entries, told by where they begin, the flags of deleted ones.
    fn mark(&mut self, marks: &[(usize, i64)]) {
        // Flags take one byte before and after, so that no offset moves.
        for (offset, flags) in marks {
            listpack::replace(&mut self.bytes, *offset, Element::Integer(*flags));
        }
        let deleted = self.deleted() + marks.len();
        self.count(self.live - marks.len(), Some(deleted));
    }

    /// The ID of the first entry, deleted or not.
    #[must_use]
    pub fn first_id(&self) -> EntryId {
        self.item_at(self.items_start()).map_or(self.master, |item| item.id)
    }

    /// The ID of the last entry, deleted or not.
    #[must_use]
    pub fn last_id(&self) -> EntryId {
        self.item_before(self.listpack().end_offset()).map_or(self.master, |item| item.id)
    }

    /// The entry that begins at an offset.
    pub(super) fn item_at(&self, offset: usize) -> Option<StreamEntry<'_>> {
        let listpack = self.listpack();
        let mut elements = listpack.entries_from(offset);
        let mut integer = || elements.next()?.element.to_integer();
        let (flags, ms, seq) = (integer()?, integer()?, integer()?);
        let (names, left, width) = if flags & SAME_FIELDS != 0 {
            let layout = self.layout();
            (Some(listpack.entries_from(layout.names)), layout.fields, layout.fields)
        } else {
            let left = usize::try_from(integer()?).ok()?;
            (None, left, left.checked_mul(2)?)
        };
        let fields = EntryFields { names, body: elements.clone(), left };
        let end = elements.nth(width)?.end;
        Some(StreamEntry { id: self.master.shifted(ms, seq), fields, flags, start: offset, end })
    }

    /// The entry that ends where the one at an offset, or the listpack's end mark, begins.
    pub(super) fn item_before(&self, offset: usize) -> Option<StreamEntry<'_>> {
        let listpack = self.listpack();
        if offset <= self.layout().items {
            return None;
        }
        let count = listpack.entry_before(offset)?;
        let before = usize::try_from(count.element.to_integer()?).ok()?.checked_sub(1)?;
        let flags = listpack.entries_before(count.offset).nth_back(before)?;
        self.item_at(flags.offset)
    }

    /// Where the first entry begins.
    pub(super) fn items_start(&self) -> usize {
        self.layout().items
    }

    /// Where the last entry ends.
    pub(super) fn items_end(&self) -> usize {
        self.listpack().end_offset()
    }

    fn layout(&self) -> Layout {
        let mut elements = self.listpack().entries();
        let count = elements.nth(2);
        let fields = count.and_then(|entry| entry.element.to_integer());
        let fields = fields.and_then(|fields| usize::try_from(fields).ok()).unwrap_or(0);
        let names = count.map_or(self.listpack().end_offset(), |entry| entry.end);
        let items = elements.nth(fields).map_or(self.listpack().end_offset(), |entry| entry.end);
        Layout { names, fields, items }
    }

    fn listpack(&self) -> Listpack<'_> {
        Listpack::new(&self.bytes)
    }

    /// Writes the counts of the master entry.
    fn count(&mut self, live: usize, deleted: Option<usize>) {
        step_count::step();
        self.live = live;
        let mut elements = self.listpack().entries();
        let places = [elements.next(), elements.next()].map(|entry| entry.map(|it| it.offset));
        // From behind: the first may become longer.
        for (place, number) in [(places[1], deleted), (places[0], Some(live))] {
            if let (Some(offset), Some(number)) = (place, number) {
                listpack::replace(&mut self.bytes, offset, Element::Integer(number as i64));
            }
        }
    }
}

/// Visits the entries that have one of these rising IDs, and none behind the last.
fn among(
    ids: &[EntryId],
    mut visit: impl FnMut(&StreamEntry<'_>),
) -> impl FnMut(&StreamEntry<'_>) -> bool {
    let mut rest = ids;
    move |item| {
        rest = &rest[rest.iter().take_while(|id| **id < item.id).count()..];
        if rest.first() == Some(&item.id) {
            visit(item);
        }
        !rest.is_empty()
    }
}

impl StreamEntry<'_> {
    pub(super) fn is_deleted(&self) -> bool {
        self.flags & DELETED != 0
    }

    pub(super) fn start(&self) -> usize {
        self.start
    }

    pub(super) fn end(&self) -> usize {
        self.end
    }
}

impl<'a> Iterator for EntryFields<'a> {
    type Item = (Element<'a>, Element<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let name = match &mut self.names {
            Some(names) => names.next()?,
            None => self.body.next()?,
        };
        Some((name.element, self.body.next()?.element))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for EntryFields<'_> {}

impl Summary for NodeSummary {
    fn plus(self, other: NodeSummary) -> NodeSummary {
        NodeSummary { entries: self.entries + other.entries, nodes: self.nodes + other.nodes }
    }

    fn minus(self, part: NodeSummary) -> Option<NodeSummary> {
        let entries = self.entries - part.entries;
        Some(NodeSummary { entries, nodes: self.nodes - part.nodes })
    }

    fn count(self) -> u64 {
        self.entries
    }
}

/// The limits of Redis decide how large a node is, so the tree sees them all as full: none is
/// split, and none joined.
impl Leaf for StreamNode {
    type Bound = EntryId;
    type Summary = NodeSummary;

    fn summary(&self) -> NodeSummary {
        NodeSummary { entries: self.live as u64, nodes: 1 }
    }

    fn size(&self) -> usize {
        LEAF_MAX
    }

    fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    fn bound(&self) -> EntryId {
        self.master
    }

    fn split(&mut self, _: Growth) -> Option<(EntryId, StreamNode)> {
        None
    }

    fn absorb(&mut self, _: StreamNode) {
        unreachable!("a full node is never joined with another")
    }
}

/// Why bytes are no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotANode;

/// How many live entries a node has whose listpack is sound.
fn count_checked(node: &StreamNode) -> Result<usize, NotANode> {
    let listpack = node.listpack();
    let integer = |index: i64| listpack.get(index).and_then(|entry| entry.element.to_integer());
    let (Some(live), Some(deleted), Some(fields)) = (integer(0), integer(1), integer(2)) else {
        return Err(NotANode);
    };
    let end_of_names = integer(fields.checked_add(3).ok_or(NotANode)?);
    if live < 1 || deleted < 0 || fields < 1 || end_of_names != Some(0) {
        return Err(NotANode);
    }
    let (mut found, mut gone, mut last) = (0, 0, None);
    let mut offset = node.items_start();
    while offset < node.items_end() {
        let item = node.item_at(offset).filter(|item| is_valid_entry(node, item));
        let item = item.filter(|item| last < Some(item.id)).ok_or(NotANode)?;
        (offset, last) = (item.end, Some(item.id));
        *(if item.is_deleted() { &mut gone } else { &mut found }) += 1;
    }
    if found == live && gone == deleted { Ok(found as usize) } else { Err(NotANode) }
}

/// Whether an entry says rightly of how many elements it is.
fn is_valid_entry(node: &StreamNode, item: &StreamEntry<'_>) -> bool {
    let elements = node.listpack().entries_from(item.start).take_while(|it| it.end <= item.end);
    let known = item.flags & !(DELETED | SAME_FIELDS) == 0;
    let last = node.listpack().entry_before(item.end);
    let said = last.and_then(|entry| entry.element.to_integer());
    known && item.id >= node.master && said == Some(elements.count() as i64 - 1)
}
