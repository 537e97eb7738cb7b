//! A table that owns its entries: the safe face of `structs::table` for this crate.
//!
//! Invariant: every address in the inner table came from `EntryBox::into_address` and has not been
//! given back, so it points to a live entry; borrows of the table keep the borrow rules for all
//! entries in it.

use base::time::UnixMillis;
use structs::object::Object;
use structs::packing::PackedRef;
use structs::prefetch;
use structs::table::{Address, Place, Shape, Table};

use super::{EntryBox, EntryRef, Identity, NewText, block_start, is_volatile};

/// Entries by their place in hash space.
#[derive(Default)]
pub(crate) struct EntryTable(Table);

/// An entry and where its word lies until the table changes.
#[derive(Clone, Copy)]
pub(crate) struct Found<'a> {
    pub(crate) place: Place,
    pub(crate) entry: EntryRef<'a>,
}

impl EntryTable {
    pub(crate) const fn new() -> Self {
        Self(Table::new())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Heap bytes of the table itself, entries not counted.
    pub(crate) fn memory(&self) -> usize {
        self.0.memory()
    }

    #[inline]
    pub(crate) fn find(&self, position: u64, key: &[u8]) -> Option<Found<'_>> {
        let place = self.0.find(position, |address| view(address).key() == key)?;
        Some(Found { place, entry: view(self.0.at(place)) })
    }

    /// Shows the entries at a position, and now and then one that is near.
    pub(crate) fn visit_at(&self, position: u64, mut visit: impl FnMut(EntryRef<'_>)) {
        let passed = self.0.find(position, |address| {
            visit(view(address));
            false
        });
        debug_assert!(passed.is_none(), "none was accepted");
    }

    /// Where the entry at a position is, if it is still there. Touches no entry.
    pub(crate) fn find_same(&self, position: u64, entry: Identity) -> Option<Place> {
        self.0.find(position, |address| view(address).identity() == entry)
    }

    /// The entry at a place.
    #[inline]
    pub(crate) fn entry(&self, place: Place) -> EntryRef<'_> {
        view(self.0.at(place))
    }

    /// Adds an entry whose key is not in the table yet.
    pub(crate) fn insert(&mut self, position: u64, entry: EntryBox, rehash: impl Fn(&[u8]) -> u64) {
        let rehash = |address| rehash(view(address).key());
        self.0.insert(position, entry.into_address(), rehash);
    }

    /// Puts another entry with the same key in an entry's place.
    pub(crate) fn replace(&mut self, place: Place, entry: EntryBox) -> EntryBox {
        let old = self.0.replace(place, entry.into_address());
        // SAFETY: the address just left the table, which was its owner.
        unsafe { EntryBox::from_address(old) }
    }

    pub(crate) fn remove(&mut self, place: Place) -> EntryBox {
        let old = self.0.remove(place);
        // SAFETY: as above.
        unsafe { EntryBox::from_address(old) }
    }

    /// Overwrites a string in its block if the new value fits: the entry as it is then; `None` if
    /// nothing was changed.
    #[inline]
    pub(crate) fn overwrite_text(
        &mut self,
        place: Place,
        value: &NewText<'_>,
    ) -> Option<EntryRef<'_>> {
        let entry = view(self.0.at(place));
        // SAFETY: the table is borrowed exclusively, so no other borrow of the value is alive.
        unsafe { entry.overwrite_text(value) }.then_some(entry)
    }

    /// Overwrites a part of a string in its block; `false` if nothing was changed.
    pub(crate) fn patch_text(&mut self, place: Place, offset: usize, bytes: &[u8]) -> bool {
        // SAFETY: as above.
        unsafe { view(self.0.at(place)).patch_text(offset, bytes) }
    }

    /// Overwrites a small container in its block if the new bytes fit; `false` if nothing was
    /// changed.
    pub(crate) fn overwrite_packed(&mut self, place: Place, packed: PackedRef<'_>) -> bool {
        // SAFETY: as above.
        unsafe { view(self.0.at(place)).overwrite_packed(packed) }
    }

    /// A large value, to be changed in place.
    pub(crate) fn object_mut(&mut self, place: Place) -> Option<&mut Object> {
        // SAFETY: as above.
        unsafe { view(self.0.at(place)).object_mut() }
    }

    /// Makes an entry's word tell whether members have deadlines, after they changed in place.
    pub(crate) fn retag(&mut self, place: Place) {
        let (present, right) = (self.0.at(place), self.entry(place).address());
        if present != right {
            self.0.replace(place, right);
        }
    }

    /// Overwrites a deadline that is there already; `false` if there is none.
    pub(crate) fn overwrite_deadline(&mut self, place: Place, deadline: UnixMillis) -> bool {
        view(self.0.at(place)).overwrite_deadline(deadline)
    }

    /// As `Table::walk`, over entries.
    pub(crate) fn walk(
        &self,
        from: u64,
        at_least: usize,
        mut visit: impl FnMut(EntryRef<'_>),
    ) -> Option<u64> {
        self.0.walk(from, at_least, |address| visit(view(address)))
    }

    /// As `walk`, over entries with a deadline, their own or a member's, only; the others are not
    /// touched.
    pub(crate) fn walk_volatile(
        &self,
        from: u64,
        at_least: usize,
        mut visit: impl FnMut(EntryRef<'_>),
    ) -> Option<u64> {
        self.0.walk(from, at_least, |address| {
            if is_volatile(address) {
                visit(view(address));
            }
        })
    }

    /// As `walk` or, if only those count, as `walk_volatile`: entries are asked for and not touched
    /// yet. With each comes as much of its position as the table keeps.
    #[inline]
    pub(crate) fn walk_ahead<'a>(
        &'a self,
        from: u64,
        at_least: usize,
        only_volatile: bool,
        mut visit: impl FnMut(u64, EntryRef<'a>),
    ) -> Option<u64> {
        self.0.walk_positions(from, at_least, |position, address| {
            if !only_volatile || is_volatile(address) {
                prefetch::line(block_start(address));
                visit(position, view(address));
            }
        })
    }

    /// Asks the processor for what a walk reads of the table itself.
    pub(crate) fn prefetch_walk(&self, from: u64, at_least: usize) {
        self.0.prefetch_walk(from, at_least);
    }

    /// Moves entries and segments out of pages of the arena that are being emptied, from a position
    /// on; `count` is told of each entry whether it was moved. Returns where to go on.
    pub(crate) fn relocate(
        &mut self,
        from: u64,
        at_least: usize,
        mut count: impl FnMut(bool),
    ) -> Option<u64> {
        let fetch = |address| prefetch::line(block_start(address));
        self.0.relocate(from, at_least, fetch, |address| {
            // SAFETY: the table owns its entries and is borrowed exclusively; the address that
            // comes back takes the place of this one.
            let moved = unsafe { super::relocate(address) };
            count(moved.is_some());
            moved
        })
    }

    pub(crate) fn sample(&self, random: u64) -> Option<EntryRef<'_>> {
        self.0.sample(random).map(view)
    }

    pub(crate) fn shape(&self) -> Shape {
        self.0.shape()
    }

    /// Asks the processor for the bucket of a position.
    #[inline]
    pub(crate) fn prefetch(&self, position: u64) {
        self.0.prefetch(position);
    }

    /// The entry that a position most likely leads to, as far as the bucket alone tells.
    #[inline]
    pub(crate) fn likely(&self, position: u64) -> Option<EntryRef<'_>> {
        self.0.first_candidate(position).map(view)
    }
}

impl Drop for EntryTable {
    fn drop(&mut self) {
        // SAFETY: each address leaves the table for good, and the table owned it.
        self.0.drain(|address| drop(unsafe { EntryBox::from_address(address) }));
    }
}

/// Views an entry for as long as the caller's borrow of the table says.
fn view<'a>(address: Address) -> EntryRef<'a> {
    // SAFETY: addresses in a table are live; the lifetime is bound by the signatures above.
    unsafe { EntryRef::from_address(address) }
}

#[cfg(test)]
mod tests {
    use super::{EntryBox, EntryTable, Identity, NewText};

    /// A place in hash space for a key: that of its first byte, so that there are others there.
    fn position_of(key: &[u8]) -> u64 {
        u64::from(key[0]).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn entry(key: &str, deadline: Option<i64>) -> EntryBox {
        EntryBox::text(key.as_bytes(), NewText::Integer(7), deadline)
    }

    fn add(table: &mut EntryTable, entry: EntryBox) -> Identity {
        let position = position_of(entry.borrow().key());
        let identity = entry.borrow().identity();
        table.insert(position, entry, position_of);
        identity
    }

    fn key_at(table: &EntryTable, position: u64, identity: Identity) -> Option<Vec<u8>> {
        let place = table.find_same(position, identity)?;
        Some(table.entry(place).key().to_vec())
    }

    #[test]
    fn each_of_many_at_one_place_is_told_from_the_others() {
        let mut table = EntryTable::default();
        let mut added = Vec::new();
        for number in 0..2000 {
            let key = format!("{}{number}", char::from(b'a' + (number % 20) as u8));
            let deadline = (number % 3 == 0).then_some(1_000_000 + number);
            let identity = add(&mut table, entry(&key, deadline));
            added.push((key, identity));
        }
        // The table has grown meanwhile, so none lies where it was put.
        for (key, identity) in &added {
            let position = position_of(key.as_bytes());
            assert_eq!(key_at(&table, position, *identity).as_deref(), Some(key.as_bytes()));
            let elsewhere = position_of(if key.starts_with('a') { b"b" } else { b"a" });
            assert_eq!(key_at(&table, elsewhere, *identity), None, "{key}");
        }
    }

    #[test]
    fn what_is_gone_is_not_found_though_its_key_is_there_again() {
        let mut table = EntryTable::default();
        let [first, other] = ["key", "kind"].map(|key| add(&mut table, entry(key, None)));
        let position = position_of(b"key");
        let place = table.find_same(position, first).expect("it is there");
        let old = table.replace(place, entry("key", Some(5)));
        assert_eq!(old.borrow().identity(), first);
        assert_eq!(key_at(&table, position, first), None, "it is out of the table, but alive");
        let second = table.find(position, b"key").expect("another in its place");
        let second = second.entry.identity();
        assert_eq!(key_at(&table, position, second).as_deref(), Some(&b"key"[..]));
        let place = table.find_same(position, second).expect("it is there");
        let removed = table.remove(place);
        assert_eq!(key_at(&table, position, removed.borrow().identity()), None);
        assert_eq!(key_at(&table, position, other).as_deref(), Some(&b"kind"[..]));
    }
}
