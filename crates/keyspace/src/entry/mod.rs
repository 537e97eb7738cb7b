//! One key with its value: a single heap block behind one table word.
//!
//! ```text
//! offset 0   header   u64    see `header.rs`: kind, encoding, flags, access clock, marks, lengths
//!        8   deadline i64    only with the flag DEADLINE: Unix time in milliseconds
//!        +8  lengths  2xu32  only with the flag WIDE: key and value lengths beyond 12 bits
//!        +   object   16..32 only with an object encoding: the container's handle, moved in place
//!        +   item     0..13  what memcached clients keep, in one of the forms of `item.rs`
//!        +   key bytes, then the value's bytes (inline encodings)
//! ```
//!
//! A string of at most 64 KB lies in the block itself, as does a small container; an integer takes
//! 1, 2, 4 or 8 bytes; what is larger is an `Object` handle. Invariant: every `Address` made here
//! points to a live block whose header describes it fully, and exactly one owner (a table word or
//! an `EntryBox`) frees it.

mod block;
mod header;
mod item;
mod table;
mod text;

use std::fmt;
use std::marker::PhantomData;

use base::time::UnixMillis;
use structs::object::{NewStored, Object, Stored};
use structs::packing::{PACKED_MAX, Packed, PackedRef};
use structs::table::Address;

pub use header::Encoding;
pub use item::ItemNotes;
pub use structs::object::Kind;
pub(crate) use table::EntryTable;
pub use text::{INLINE_MAX, NewText, Text};

use block::{Block, allocated_size};
use header::Header;
use text::write_value;

/// The table word's tag of an entry that carries a deadline, its own or one of its members', so
/// that expiry walks skip the others without touching them. Blocks are 8-byte aligned, which keeps
/// the bit free.
const VOLATILE_TAG: u64 = 1;

/// A borrowed entry; lives as long as the transaction that found it.
#[derive(Clone, Copy)]
pub struct EntryRef<'a> {
    block: Block,
    lifetime: PhantomData<&'a [u8]>,
}

/// Which entry it is, of all that are alive at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64);

/// An entry that no table holds: just made, just taken out, or a pre-image.
pub struct EntryBox {
    block: Block,
}

impl<'a> EntryRef<'a> {
    /// # Safety
    /// `address` must come from a live entry that stays alive, and is changed by no one else,
    /// for `'a`.
    pub(crate) unsafe fn from_address(address: Address) -> Self {
        // SAFETY: the caller vouches for the address; the tag bit is not part of it.
        let block = unsafe { Block::from_raw(address.get() & !VOLATILE_TAG) };
        Self { block, lifetime: PhantomData }
    }

    /// The key.
    #[must_use]
    pub fn key(self) -> &'a [u8] {
        // SAFETY: `from_address` promised that the block lives for 'a.
        unsafe { self.block.key() }
    }

    /// Which type of value this is.
    #[must_use]
    pub fn kind(self) -> Kind {
        self.header().kind()
    }

    /// How the value is stored.
    #[must_use]
    pub fn encoding(self) -> Encoding {
        self.header().encoding()
    }

    /// The name that `OBJECT ENCODING` replies.
    #[must_use]
    pub fn encoding_name(self) -> &'static str {
        match self.stored() {
            Some(Stored::Large(object)) => object.encoding_name(),
            _ => self.encoding().name(),
        }
    }

    /// Asks the processor for the beginning of the entry, without looking at it.
    #[inline]
    pub(crate) fn prefetch_start(self) {
        self.block.prefetch_start();
    }

    /// Whether the entry has more than `prefetch_start` asks for.
    #[inline]
    pub(crate) fn is_long(self) -> bool {
        self.block.is_long()
    }

    /// Asks the processor for the rest of the entry. Waits for the beginning, which tells where it
    /// ends.
    #[inline]
    pub(crate) fn prefetch_rest(self) {
        self.block.prefetch_rest();
    }

    /// Asks the processor for all of the entry, or a good deal. Waits for the beginning.
    pub(crate) fn prefetch_whole(self) {
        self.block.prefetch_start();
        self.block.prefetch_rest();
    }

    /// Asks the processor for what removing the entry will touch beside it.
    pub(crate) fn prefetch_home(self) {
        self.block.prefetch_home();
    }

    /// Which entry it is.
    pub(crate) fn identity(self) -> Identity {
        Identity(self.block.raw())
    }

    /// When the key expires, if it does.
    #[must_use]
    pub fn deadline(self) -> Option<UnixMillis> {
        // SAFETY: as in `key`.
        unsafe { self.block.deadline() }
    }

    /// When the first of its members expires, if any does.
    #[must_use]
    #[inline]
    pub fn member_deadline(self) -> Option<UnixMillis> {
        if !self.header().may_have_member_deadlines() {
            return None;
        }
        self.stored()?.earliest_deadline(self.kind())
    }

    /// Whether the key's time is over at `now`.
    #[must_use]
    pub fn is_expired(self, now: UnixMillis) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// The string value, or `None` if the value is of another type.
    #[must_use]
    #[inline]
    pub fn text(self) -> Option<Text<'a>> {
        // SAFETY: as in `key`; the encoding tells which reading is right.
        unsafe {
            match self.encoding() {
                Encoding::Integer => Some(Text::Integer(header::read_integer(self.block.value()))),
                Encoding::Embedded | Encoding::Raw => Some(Text::Inline(self.block.value())),
                Encoding::Object => match self.block.object() {
                    Object::Text(blob) => Some(Text::Large(blob)),
                    _ => None,
                },
                Encoding::Packed(_) => None,
            }
        }
    }

    /// The container, or `None` if the value is a string.
    #[must_use]
    #[inline]
    pub fn stored(self) -> Option<Stored<'a>> {
        // SAFETY: as in `text`.
        unsafe {
            match self.encoding() {
                Encoding::Packed(packing) => {
                    Some(Stored::Packed(PackedRef { packing, bytes: self.block.value() }))
                }
                Encoding::Object if self.kind() != Kind::String => {
                    Some(Stored::Large(self.block.object()))
                }
                _ => None,
            }
        }
    }

    /// Bytes that a copy takes, which shares what is behind a handle.
    pub(crate) fn bytes_in_block(self) -> usize {
        self.block.size()
    }

    /// Whether the value is for certain that of `other`: a large one if one is a clone of the
    /// other, in O(1).
    pub(crate) fn is_same_value(self, other: EntryRef<'_>) -> bool {
        if self.kind() != other.kind() || self.encoding() != other.encoding() {
            return false;
        }
        // SAFETY: as in `text`.
        unsafe {
            match self.encoding() {
                Encoding::Object => self.block.object().is_same(other.block.object()),
                _ => self.block.value() == other.block.value(),
            }
        }
    }

    /// The large value's object, if it is one.
    fn object(self) -> Option<&'a Object> {
        // SAFETY: as in `text`.
        (self.encoding() == Encoding::Object).then(|| unsafe { self.block.object() })
    }

    /// As [`Object::address`].
    pub(crate) fn root_address(self) -> Option<usize> {
        self.object()?.address()
    }

    /// As [`Object::memory_of_clones`].
    pub(crate) fn memory_of_clones(self, clones: usize) -> usize {
        self.object().map_or(0, |object| object.memory_of_clones(clones))
    }

    /// Bytes of memory the entry takes: its block and what an object holds behind its handle.
    #[must_use]
    pub fn memory(self) -> usize {
        let behind = match self.encoding() {
            // SAFETY: as in `text`.
            Encoding::Object => unsafe { self.block.object() }.memory(),
            _ => 0,
        };
        allocated_size(self.block.size()) + behind
    }

    /// The 24-bit access clock (see `clock.rs` for its two readings).
    #[must_use]
    pub fn access_clock(self) -> u32 {
        self.header().access_clock()
    }

    /// Sets the access clock; allowed through a shared borrow since no reader depends on it.
    pub fn set_access_clock(self, clock: u32) {
        // SAFETY: the block lives for 'a; the header is atomic.
        unsafe { self.block.update_header(|header| header.with_access_clock(clock)) };
    }

    /// Whether the key is never evicted.
    #[must_use]
    pub fn is_sticky(self) -> bool {
        self.header().is_sticky()
    }

    /// Says whether the key is never evicted; no reader of values depends on it.
    pub fn set_sticky(self, is_sticky: bool) {
        // SAFETY: as in `set_access_clock`.
        unsafe { self.block.update_header(|header| header.with_sticky(is_sticky)) };
    }

    /// The three snapshot marks, one bit per walk.
    #[must_use]
    pub fn marks(self) -> u8 {
        self.header().marks()
    }

    pub(crate) fn set_marks(self, marks: u8) {
        // SAFETY: as in `set_access_clock`.
        unsafe { self.block.update_header(|header| header.with_marks(marks)) };
    }

    /// A copy under another key; a large value is shared, not copied.
    #[must_use]
    pub fn duplicate(self, key: &[u8], deadline: Option<UnixMillis>) -> EntryBox {
        let header = Header::new(self.kind(), self.encoding()).as_item(self.header());
        self.copied(header, key, deadline)
    }

    /// A copy in a block that has room for what `header` says.
    fn copied(self, header: Header, key: &[u8], deadline: Option<UnixMillis>) -> EntryBox {
        let mut copy = if self.encoding() == Encoding::Object {
            // SAFETY: as in `text`; the fresh block has room for a handle.
            unsafe {
                let block = Block::allocate(header, key, 0, deadline);
                block.put_object(self.block.object().clone());
                EntryBox { block }
            }
        } else {
            // SAFETY: as in `text`; the fresh block has room for as many bytes.
            unsafe {
                let bytes = self.block.value();
                let block = Block::allocate(header, key, bytes.len(), deadline);
                block.value_mut().copy_from_slice(bytes);
                EntryBox { block }
            }
        };
        copy.set_access_clock(self.access_clock());
        copy.borrow().take_item(self);
        copy
    }

    /// An exact copy, marks and all: what undo and walks keep.
    #[must_use]
    pub fn pre_image(self) -> EntryBox {
        let image = self.duplicate(self.key(), self.deadline());
        image.borrow().set_marks(self.marks());
        image.borrow().set_sticky(self.is_sticky());
        image
    }

    /// Overwrites the value in place where the new one fits the same block; `false` if it
    /// does not and nothing was changed.
    ///
    /// # Safety
    /// No other borrow of this entry's value may be alive.
    pub(crate) unsafe fn overwrite_text(self, value: &NewText<'_>) -> bool {
        let old = self.header();
        if old.kind() != Kind::String
            || old.encoding() == Encoding::Object
            || matches!(value, NewText::Large(_))
        {
            return false;
        }
        let len = value.inline_len();
        // SAFETY: the caller holds the only borrow, and `fits` keeps the write inside.
        unsafe {
            if !self.block.fits(len) {
                return false;
            }
            self.block.set_value_len(len, value.encoding());
            write_value(self.block, value);
        }
        self.set_version(0);
        true
    }

    /// Overwrites a part of a string that lies in the block as bytes; `false` if it does not, or
    /// is shorter, and nothing was changed.
    ///
    /// # Safety
    /// No other borrow of this entry's value may be alive.
    pub(crate) unsafe fn patch_text(self, offset: usize, bytes: &[u8]) -> bool {
        if !matches!(self.encoding(), Encoding::Raw | Encoding::Embedded) {
            return false;
        }
        // SAFETY: the caller holds the only borrow; the new length is the old one.
        unsafe {
            let value = self.block.value_mut();
            let Some(part) = value.get_mut(offset..offset + bytes.len()) else { return false };
            part.copy_from_slice(bytes);
            let len = value.len();
            self.block.set_value_len(len, Encoding::Raw);
        }
        self.set_version(0);
        true
    }

    /// Overwrites a small container in place where the new bytes fit the same block; `false` if
    /// they do not and nothing was changed.
    ///
    /// # Safety
    /// No other borrow of this entry's value may be alive.
    pub(crate) unsafe fn overwrite_packed(self, packed: PackedRef<'_>) -> bool {
        if !matches!(self.encoding(), Encoding::Packed(_)) {
            return false;
        }
        // SAFETY: the caller holds the only borrow, and `fits` keeps the write inside.
        unsafe {
            if !self.block.fits(packed.bytes.len()) {
                return false;
            }
            self.block.set_value_len(packed.bytes.len(), Encoding::Packed(packed.packing));
            self.block.value_mut().copy_from_slice(packed.bytes);
        }
        true
    }

    /// A large value, to be changed in place.
    ///
    /// # Safety
    /// No other borrow of this entry's value may be alive.
    pub(crate) unsafe fn object_mut(self) -> Option<&'a mut Object> {
        self.set_version(0);
        // SAFETY: exclusive by the caller's promise; the encoding says that an object lies there.
        (self.encoding() == Encoding::Object).then(|| unsafe { self.block.object_mut() })
    }

    /// Writes a new deadline over the present one; `false` if there is no room for one.
    pub(crate) fn overwrite_deadline(self, deadline: UnixMillis) -> bool {
        // SAFETY: the block lives for 'a and deadlines are read by value only.
        unsafe { self.block.overwrite_deadline(deadline) }
    }

    /// The table word that stands for the entry, as its deadlines now are.
    pub(crate) fn address(self) -> Address {
        let is_volatile = self.deadline().is_some() || self.member_deadline().is_some();
        word_of(self.block, if is_volatile { VOLATILE_TAG } else { 0 })
    }

    fn header(self) -> Header {
        // SAFETY: as in `key`.
        unsafe { self.block.header() }
    }
}

impl EntryBox {
    /// A new string entry.
    #[must_use]
    pub fn text(key: &[u8], value: NewText<'_>, deadline: Option<UnixMillis>) -> Self {
        Self::text_with(Header::new(Kind::String, value.encoding()), key, value, deadline)
    }

    /// A new string entry, in a block that has room for what `header` says.
    fn text_with(
        header: Header,
        key: &[u8],
        value: NewText<'_>,
        deadline: Option<UnixMillis>,
    ) -> Self {
        let block = Block::allocate(header, key, value.inline_len(), deadline);
        // SAFETY: the block was just made with room for this value and belongs to us alone.
        unsafe {
            match value {
                NewText::Large(blob) => block.put_object(Object::Text(blob)),
                other => write_value(block, &other),
            }
        }
        Self { block }
    }

    /// A new entry with a container of type `kind`.
    #[must_use]
    pub fn container(
        key: &[u8],
        kind: Kind,
        value: NewStored,
        deadline: Option<UnixMillis>,
    ) -> Self {
        // SAFETY: the blocks were just made with room for what is put there.
        unsafe {
            match value {
                NewStored::Packed(Packed { packing, bytes }) => {
                    debug_assert!(bytes.len() <= PACKED_MAX, "larger containers are objects");
                    let header = Header::new(kind, Encoding::Packed(packing));
                    let block = Block::allocate(header, key, bytes.len(), deadline);
                    block.value_mut().copy_from_slice(&bytes);
                    Self { block }
                }
                NewStored::Large(object) => {
                    let header = Header::new(kind, Encoding::Object);
                    let block = Block::allocate(header, key, 0, deadline);
                    block.put_object(object);
                    Self { block }
                }
            }
        }
    }

    /// A view of the entry.
    #[must_use]
    pub fn borrow(&self) -> EntryRef<'_> {
        EntryRef { block: self.block, lifetime: PhantomData }
    }

    /// Gives the entry to a table: the address is now the owner.
    #[must_use]
    pub(crate) fn into_address(self) -> Address {
        let address = self.borrow().address();
        std::mem::forget(self);
        address
    }

    /// # Safety
    /// `address` must come from [`EntryBox::into_address`], and nothing may use it any more.
    pub(crate) unsafe fn from_address(address: Address) -> Self {
        // SAFETY: by the caller's promise.
        Self { block: unsafe { Block::from_raw(address.get() & !VOLATILE_TAG) } }
    }

    /// Sets the access clock.
    pub fn set_access_clock(&mut self, clock: u32) {
        self.borrow().set_access_clock(clock);
    }

    /// The same value under the same key with another deadline (or none).
    #[must_use]
    pub fn with_deadline(self, deadline: Option<UnixMillis>) -> Self {
        let (key, clock) = (self.borrow().key().to_vec(), self.borrow().access_clock());
        self.moved(&key, deadline, clock)
    }

    /// The same value under another key.
    #[must_use]
    pub fn renamed(self, key: &[u8]) -> Self {
        let (deadline, clock) = (self.borrow().deadline(), self.borrow().access_clock());
        self.moved(key, deadline, clock)
    }

    fn moved(self, key: &[u8], deadline: Option<UnixMillis>, clock: u32) -> Self {
        let mut moved = self.borrow().duplicate(key, deadline);
        moved.set_access_clock(clock);
        moved.borrow().set_marks(self.borrow().marks());
        moved.borrow().set_sticky(self.borrow().is_sticky());
        moved
    }
}

impl Drop for EntryBox {
    fn drop(&mut self) {
        // SAFETY: an EntryBox is the one owner of its block.
        unsafe { self.block.free() };
    }
}

// SAFETY: an EntryBox owns its block; its parts (bytes, an `Object`) may move between threads.
unsafe impl Send for EntryBox {}

impl fmt::Debug for EntryRef<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EntryRef")
            .field("key", &base::quote::quote(self.key()))
            .field("encoding", &self.encoding())
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}

/// Whether the entry behind a table word or a member of it carries a deadline, told without
/// touching it.
#[must_use]
pub(crate) fn is_volatile(address: Address) -> bool {
    address.get() & VOLATILE_TAG != 0
}

/// Moves the entry behind a table word if it lies where a page of the arena is being emptied: the
/// word that stands for it from then on.
///
/// # Safety
/// The entry must be live and used by nobody else; where another word comes back, this one is used
/// no more.
unsafe fn relocate(address: Address) -> Option<Address> {
    let tag = address.get() & VOLATILE_TAG;
    // SAFETY: by the caller's promise.
    let moved = unsafe { Block::from_raw(address.get() & !VOLATILE_TAG).relocate()? };
    Some(word_of(moved, tag))
}

/// The table word that stands for a block.
fn word_of(block: Block, tag: u64) -> Address {
    Address::new(block.raw() | tag).expect("user-space addresses lie below 2^48")
}

/// Where the entry behind a table word begins, for prefetching.
#[must_use]
pub(crate) fn block_start(address: Address) -> *const u8 {
    std::ptr::with_exposed_provenance((address.get() & !VOLATILE_TAG) as usize)
}

/// How many blocks this thread made and did not free, for tests of leaks.
#[cfg(test)]
pub(crate) mod live_blocks {
    use std::cell::Cell;

    thread_local! {
        static LIVE: Cell<isize> = const { Cell::new(0) };
    }

    pub(crate) fn add(by: isize) {
        LIVE.set(LIVE.get() + by);
    }

    #[cfg(not(feature = "shuttle"))]
    pub(crate) fn count() -> isize {
        LIVE.get()
    }
}

#[cfg(test)]
mod tests {
    use super::{EntryBox, EntryRef, INLINE_MAX, NewText, Text, is_volatile};

    fn bytes_of(entry: EntryRef<'_>) -> Vec<u8> {
        entry.text().unwrap().contiguous(&mut Vec::new()).to_vec()
    }

    #[test]
    fn a_string_of_every_size_comes_back() {
        let long_key = vec![b'k'; 5000];
        for key in [b"k".as_slice(), b"", &long_key] {
            for size in [0, 1, 44, 45, 4095, 4096, INLINE_MAX, INLINE_MAX + 1, 1_000_000] {
                let value = vec![b'v'; size];
                for deadline in [None, Some(1234)] {
                    let entry = EntryBox::text(key, NewText::from_client(&value), deadline);
                    assert_eq!(entry.borrow().key(), key);
                    assert_eq!(entry.borrow().deadline(), deadline);
                    assert_eq!(bytes_of(entry.borrow()), value);
                    assert_eq!(entry.borrow().text().unwrap().len(), size);
                    let address = entry.into_address();
                    assert_eq!(is_volatile(address), deadline.is_some());
                    // SAFETY: the address was just made from a box and is used once.
                    drop(unsafe { EntryBox::from_address(address) });
                }
            }
        }
    }

    #[test]
    fn integers_of_every_width_come_back() {
        for number in [0, 1, -1, 127, 128, -129, 32_768, i64::from(i32::MAX) + 1, i64::MIN] {
            let text = number.to_string();
            let entry = EntryBox::text(b"n", NewText::from_client(text.as_bytes()), None);
            assert!(matches!(entry.borrow().text(), Some(Text::Integer(n)) if n == number));
            assert_eq!(bytes_of(entry.borrow()), text.as_bytes());
        }
    }

    #[test]
    fn overwriting_stays_within_the_block() {
        let entry = EntryBox::text(b"key", NewText::from_client(b"hello"), Some(5));
        // SAFETY: no borrow of the value is alive.
        unsafe {
            assert!(entry.borrow().overwrite_text(&NewText::from_client(b"HELLO")));
            assert_eq!(bytes_of(entry.borrow()), b"HELLO");
            assert!(!entry.borrow().overwrite_text(&NewText::from_client(&[b'x'; 200])));
            assert!(entry.borrow().overwrite_text(&NewText::Integer(7)));
        }
        assert_eq!(bytes_of(entry.borrow()), b"7");
        assert_eq!(entry.borrow().deadline(), Some(5));
        assert_eq!(entry.borrow().key(), b"key");
    }

    #[test]
    fn a_copy_shares_the_tree_and_keeps_the_clock() {
        let value = vec![b'x'; 300_000];
        let mut entry = EntryBox::text(b"a", NewText::from_client(&value), None);
        entry.set_access_clock(77);
        let copy = entry.borrow().duplicate(b"b", Some(9));
        assert_eq!(copy.borrow().key(), b"b");
        assert_eq!(copy.borrow().access_clock(), 77);
        assert_eq!(bytes_of(copy.borrow()), value);
        let renamed = copy.renamed(b"c").with_deadline(None);
        assert_eq!(renamed.borrow().key(), b"c");
        assert_eq!(renamed.borrow().deadline(), None);
        assert_eq!(bytes_of(renamed.borrow()), value);
    }
}
