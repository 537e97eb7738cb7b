//! The raw memory of an entry: all pointer arithmetic of `entry` is here.
//!
//! Invariant: a `Block` points to `allocated_size(size())` bytes, 8-byte aligned, whose header is
//! always valid; a `Blob` handle, where the encoding says so, lies initialised at `object_offset`.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use base::time::UnixMillis;
use structs::arena;
use structs::object::Object;
use structs::prefetch;

use super::header::{Encoding, Header, NARROW_LIMIT};

const WORD: usize = 8;
const OBJECT_SIZE: usize = size_of::<Object>();
const _: () = assert!(align_of::<Object>() <= WORD && OBJECT_SIZE.is_multiple_of(WORD));

/// Bytes at the start of a block that are fetched ahead before its size is known: lengths, and the
/// key if it is not long.
const BEGINNING: usize = 128;

/// Bytes of a block that are fetched ahead at most; of what is longer the processor sees by itself
/// that it is read in order.
const PREFETCHED_MAX: usize = 2048;

#[derive(Clone, Copy)]
pub(super) struct Block(NonNull<u8>);

/// Where the parts of a block lie, in bytes from its start.
struct Shape {
    key_offset: usize,
    key_len: usize,
    value_len: usize,
}

impl Shape {
    fn size(&self) -> usize {
        self.key_offset + self.key_len + self.value_len
    }
}

/// The bytes that a block of `size` really takes: what in-place writes may use, and what counts.
#[must_use]
pub(super) fn allocated_size(size: usize) -> usize {
    arena::class_size(size)
}

impl Block {
    /// A block with header, deadline, lengths and key written; the value is left to the caller.
    pub(super) fn allocate(
        header: Header,
        key: &[u8],
        value_len: usize,
        deadline: Option<UnixMillis>,
    ) -> Self {
        let mut header = header;
        if deadline.is_some() {
            header = header.with_deadline();
        }
        header = if key.len() < NARROW_LIMIT && value_len < NARROW_LIMIT {
            header.with_narrow_lens(key.len(), value_len)
        } else {
            header.with_wide()
        };
        let key_offset = key_offset(header);
        let block = Self(arena::allocate(key_offset + key.len() + value_len));
        #[cfg(test)]
        super::live_blocks::add(1);
        // SAFETY: the fresh allocation covers every offset below; no other code knows it.
        unsafe {
            block.at(0).cast::<u64>().write(header.bits());
            if let Some(deadline) = deadline {
                block.at(WORD).cast::<i64>().write(deadline);
            }
            if header.is_wide() {
                block.write_wide_lens(header, key.len(), value_len);
            }
            let item = block.at(item_offset(header)).as_ptr();
            std::ptr::write_bytes(item, 0, header.item_room().len());
            let to = block.at(key_offset).as_ptr();
            std::ptr::copy_nonoverlapping(key.as_ptr(), to, key.len());
            std::ptr::write_bytes(to.add(key.len()), 0, value_len);
        }
        block
    }

    /// # Safety
    /// The block must be live, and this its last use.
    pub(super) unsafe fn free(self) {
        #[cfg(test)]
        super::live_blocks::add(-1);
        // SAFETY: live by the caller's promise, so header and lengths are readable, an object is
        // initialised where the encoding says so, and the size is the one it was made with.
        unsafe {
            if self.header().encoding() == Encoding::Object {
                self.object_pointer().drop_in_place();
            }
            arena::free(self.0, self.size());
        }
    }

    /// Asks the processor for the beginning of the block.
    #[inline]
    pub(super) fn prefetch_start(self) {
        prefetch::span(self.0.as_ptr(), 0..BEGINNING);
    }

    /// Whether the block goes on behind its beginning.
    #[inline]
    pub(super) fn is_long(self) -> bool {
        self.size() > BEGINNING
    }

    /// Asks the processor for what lies behind the beginning of the block.
    #[inline]
    pub(super) fn prefetch_rest(self) {
        prefetch::span(self.0.as_ptr(), BEGINNING..self.size().min(PREFETCHED_MAX));
    }

    /// Asks the processor for what freeing the block will touch beside it.
    pub(super) fn prefetch_home(self) {
        arena::prefetch_page(self.0, self.size());
    }

    /// Moves the block to other memory if it lies where a page of the arena is being emptied: where
    /// it is from then on.
    ///
    /// # Safety
    /// The block must be live and used by nobody else; where another comes back, this is its last
    /// use.
    pub(super) unsafe fn relocate(self) -> Option<Self> {
        // SAFETY: by the caller's promise; the size is the one it was made with, and all that is in
        // a block may be moved.
        unsafe { arena::relocate(self.0, self.size()).map(Self) }
    }

    pub(super) fn raw(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    /// # Safety
    /// `raw` must come from [`Block::raw`] of a live block.
    pub(super) unsafe fn from_raw(raw: u64) -> Self {
        let pointer = std::ptr::with_exposed_provenance_mut(raw as usize);
        // SAFETY: a live block's address is not null.
        Self(unsafe { NonNull::new_unchecked(pointer) })
    }

    /// # Safety
    /// The block must be live; so for every method below.
    pub(super) unsafe fn header(self) -> Header {
        // SAFETY: the first word of a live block is its header, only ever accessed atomically.
        Header::from_bits(unsafe { self.header_word() }.load(Ordering::Relaxed))
    }

    /// Replaces the header by a function of itself; the caller holds the lock of the entry's
    /// partition, so plain load and store suffice.
    ///
    /// # Safety
    /// The block must be live.
    pub(super) unsafe fn update_header(self, change: impl FnOnce(Header) -> Header) {
        // SAFETY: as in `header`.
        unsafe {
            let changed = change(self.header());
            self.header_word().store(changed.bits(), Ordering::Relaxed);
        }
    }

    /// # Safety
    /// The block must be live for `'a`.
    pub(super) unsafe fn key<'a>(self) -> &'a [u8] {
        // SAFETY: `shape` describes initialised bytes of the block.
        unsafe {
            let shape = self.shape();
            std::slice::from_raw_parts(self.at(shape.key_offset).as_ptr(), shape.key_len)
        }
    }

    /// # Safety
    /// The block must be live and its value unchanged for `'a`.
    pub(super) unsafe fn value<'a>(self) -> &'a [u8] {
        // SAFETY: as in `key`.
        unsafe {
            let shape = self.shape();
            let start = self.at(shape.key_offset + shape.key_len).as_ptr();
            std::slice::from_raw_parts(start, shape.value_len)
        }
    }

    /// # Safety
    /// The block must be live and its value borrowed by no one else for `'a`.
    pub(super) unsafe fn value_mut<'a>(self) -> &'a mut [u8] {
        // SAFETY: as in `key`, exclusively.
        unsafe {
            let shape = self.shape();
            let start = self.at(shape.key_offset + shape.key_len).as_ptr();
            std::slice::from_raw_parts_mut(start, shape.value_len)
        }
    }

    /// # Safety
    /// The block must be live with the encoding `Object`.
    pub(super) unsafe fn object<'a>(self) -> &'a Object {
        // SAFETY: the encoding says that an object lies there.
        unsafe { self.object_pointer().as_ref() }
    }

    /// # Safety
    /// As `object`, and no other borrow of the value may be alive for `'a`.
    pub(super) unsafe fn object_mut<'a>(self) -> &'a mut Object {
        // SAFETY: as above, exclusively.
        unsafe { self.object_pointer().as_mut() }
    }

    /// # Safety
    /// The block must be fresh, with the encoding `Object` and none written yet.
    pub(super) unsafe fn put_object(self, object: Object) {
        // SAFETY: `allocate` left room for the handle.
        unsafe { self.object_pointer().write(object) };
    }

    /// # Safety
    /// The block must be live.
    pub(super) unsafe fn deadline(self) -> Option<UnixMillis> {
        // SAFETY: the flag says that the second word is a deadline.
        unsafe { self.header().has_deadline().then(|| self.at(WORD).cast::<i64>().read()) }
    }

    /// # Safety
    /// The block must be live.
    pub(super) unsafe fn overwrite_deadline(self, deadline: UnixMillis) -> bool {
        // SAFETY: as in `deadline`.
        unsafe {
            let present = self.header().has_deadline();
            if present {
                self.at(WORD).cast::<i64>().write(deadline);
            }
            present
        }
    }

    /// What memcached's clients keep; as long as the header says.
    ///
    /// # Safety
    /// The block must be live and this part of it unchanged for `'a`.
    pub(super) unsafe fn item<'a>(self) -> &'a [u8] {
        // SAFETY: the header says that so many initialised bytes lie there.
        unsafe {
            let header = self.header();
            let start = self.at(item_offset(header)).as_ptr();
            std::slice::from_raw_parts(start, header.item_room().len())
        }
    }

    /// # Safety
    /// The block must be live and this part of it borrowed by no one else for `'a`.
    pub(super) unsafe fn item_mut<'a>(self) -> &'a mut [u8] {
        // SAFETY: as in `item`, exclusively.
        unsafe {
            let header = self.header();
            let start = self.at(item_offset(header)).as_ptr();
            std::slice::from_raw_parts_mut(start, header.item_room().len())
        }
    }

    /// Bytes from the start to the end of the value.
    ///
    /// # Safety
    /// The block must be live.
    pub(super) unsafe fn size_unchecked(self) -> usize {
        // SAFETY: passed on.
        unsafe { self.shape() }.size()
    }

    /// Bytes from the start to the end of the value.
    pub(super) fn size(self) -> usize {
        // SAFETY: every Block in the hands of `entry` is live; only `free` ends it.
        unsafe { self.size_unchecked() }
    }

    /// Whether a value of `value_len` bytes fits the allocation and the present form of lengths.
    ///
    /// # Safety
    /// The block must be live.
    pub(super) unsafe fn fits(self, value_len: usize) -> bool {
        // SAFETY: passed on.
        let (shape, header) = unsafe { (self.shape(), self.header()) };
        if value_len == shape.value_len {
            return true;
        }
        let size = shape.size() - shape.value_len + value_len;
        allocated_size(size) == allocated_size(shape.size())
            && (header.is_wide() || value_len < NARROW_LIMIT)
    }

    /// Sets the value's length and encoding after `fits` said yes.
    ///
    /// # Safety
    /// As `fits`; no borrow of the value may be alive, and the new bytes must be written next.
    pub(super) unsafe fn set_value_len(self, value_len: usize, encoding: Encoding) {
        // SAFETY: passed on; zeroes keep every byte below the new length initialised.
        unsafe {
            let shape = self.shape();
            if value_len == shape.value_len {
                return self.update_header(|header| header.with_encoding(encoding));
            }
            if value_len > shape.value_len {
                let end = self.at(shape.size()).as_ptr();
                std::ptr::write_bytes(end, 0, value_len - shape.value_len);
            }
            let header = self.header();
            if header.is_wide() {
                self.write_wide_lens(header, shape.key_len, value_len);
                self.update_header(|header| header.with_encoding(encoding));
            } else {
                self.update_header(|header| {
                    header.with_encoding(encoding).with_narrow_lens(shape.key_len, value_len)
                });
            }
        }
    }

    unsafe fn header_word<'a>(self) -> &'a AtomicU64 {
        // SAFETY: the first word of a live block, aligned, only ever accessed through this.
        unsafe { AtomicU64::from_ptr(self.0.cast().as_ptr()) }
    }

    unsafe fn shape(self) -> Shape {
        // SAFETY: a live block has its lengths where the header says.
        unsafe {
            let header = self.header();
            let key_offset = key_offset(header);
            if header.is_wide() {
                let lens = self.at(wide_offset(header)).cast::<[u32; 2]>().read();
                Shape { key_offset, key_len: lens[0] as usize, value_len: lens[1] as usize }
            } else {
                let (key_len, value_len) = (header.narrow_key_len(), header.narrow_value_len());
                Shape { key_offset, key_len, value_len }
            }
        }
    }

    unsafe fn write_wide_lens(self, header: Header, key_len: usize, value_len: usize) {
        let lens = [key_len, value_len]
            .map(|len| u32::try_from(len).expect("keys and inline values are below 4 GB"));
        // SAFETY: the WIDE flag made room for the two lengths.
        unsafe { self.at(wide_offset(header)).cast::<[u32; 2]>().write(lens) };
    }

    unsafe fn object_pointer(self) -> NonNull<Object> {
        // SAFETY: the caller knows that the encoding is Object, so the room exists.
        unsafe { self.at(object_offset(self.header())).cast() }
    }

    unsafe fn at(self, offset: usize) -> NonNull<u8> {
        // SAFETY: callers stay inside the block.
        unsafe { self.0.add(offset) }
    }
}

fn wide_offset(header: Header) -> usize {
    WORD + if header.has_deadline() { WORD } else { 0 }
}

fn object_offset(header: Header) -> usize {
    wide_offset(header) + if header.is_wide() { WORD } else { 0 }
}

fn item_offset(header: Header) -> usize {
    object_offset(header) + if header.encoding() == Encoding::Object { OBJECT_SIZE } else { 0 }
}

#[inline]
fn key_offset(header: Header) -> usize {
    let object = if header.encoding() == Encoding::Object { OBJECT_SIZE } else { 0 };
    usize::from(BEFORE_KEY[usize::from(header.second_byte())]) + object
}

/// How many bytes before the key the parts take that the header's second byte tells of, the header
/// with them.
static BEFORE_KEY: [u8; 256] = {
    let mut sizes = [0; 256];
    let mut byte = 0;
    while byte < sizes.len() {
        let header = Header::of_second_byte(byte as u8);
        let words = 1 + header.has_deadline() as usize + header.is_wide() as usize;
        sizes[byte] = (words * WORD + header.item_room().len()) as u8;
        byte += 1;
    }
    sizes
};
