//! Memory for small blocks, tightly packed: a slab arena up to 3.5 KB, the global allocator above.
//!
//! General allocators round 24 bytes up to 32 and 640 to 768; here the classes are words up to 128
//! bytes, eight a doubling up to a kilobyte, and sixteen above. A page of 32 KB holds blocks of one
//! class and begins with its head, found from a block by masking its address. Pages belong to
//! shards; a thread takes blocks from its own shard and gives a block back to whichever shard the
//! block's page belongs to, so threads seldom meet at a shard's mutex. An empty page goes back to
//! the kernel unless it is the only one of its class and shard with room.
//!
//! Invariants: `free` is told a size of the same class that `allocate` was; a page is in its
//! shard's list of its class exactly while it has room; all of a head but `shard` and `class` is
//! touched only under the mutex of the page's shard.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use self::pages::PAGE_SIZE;
use crate::heap;

mod pages;
#[cfg(test)]
mod tests;

/// What every block is aligned to; blocks of whole cache lines are aligned to cache lines.
const WORD: usize = 8;

/// Up to this size the classes are words; above it there are eight classes a doubling,
const FINE_LIMIT: usize = 128;

/// and from here on sixteen: a kilobyte with its key must not cost an eighth more.
const FINER_FROM: usize = 1024;

/// Larger blocks come from the global allocator: a page would hold too few of them.
const SLAB_LIMIT: usize = 3584;

/// Classes up to [`SLAB_LIMIT`].
const CLASSES: usize = class_index(SLAB_LIMIT) + 1;

const CACHE_LINE: usize = 64;

/// Where the first block of a page begins: behind the head.
const FIRST_BLOCK: usize = CACHE_LINE;

const SHARDS: usize = 16;

const _: () = assert!(size_of::<Page>() <= FIRST_BLOCK);

/// Memory of the arena, for statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaStatistics {
    /// Bytes taken from the system, free blocks included.
    pub allocated: usize,
    /// Bytes in blocks that are in use.
    pub used: usize,
}

/// The head of a page.
#[repr(C)]
struct Page {
    /// Never changes.
    shard: u16,
    /// Never changes.
    class: u16,
    /// Blocks in use.
    used: u32,
    /// Offset of the first block that was given back; each holds the offset of the next; 0 ends.
    free: u32,
    /// Offset from which on no block was ever handed out.
    fresh: u32,
    /// The neighbours in the list of pages with room.
    previous: *mut Page,
    next: *mut Page,
}

/// A share of the arena, with a cache line of its own.
#[repr(align(128))]
struct Shard {
    slabs: Mutex<Slabs>,
    /// Bytes in blocks from the global allocator; modulo 2^64, as others may free them.
    large: AtomicUsize,
}

struct Slabs {
    /// For each class the pages with room, the one that changed last first.
    with_room: [*mut Page; CLASSES],
    pages: usize,
    used: usize,
    /// How far `used` is from what the sum of the process was told.
    unpublished: isize,
}

// SAFETY: the pages that the lists lead to belong to the shard and are touched under its mutex.
unsafe impl Send for Slabs {}

static ARENA: [Shard; SHARDS] = [const {
    Shard {
        slabs: Mutex::new(Slabs {
            with_room: [null_mut(); CLASSES],
            pages: 0,
            used: 0,
            unpublished: 0,
        }),
        large: AtomicUsize::new(0),
    }
}; SHARDS];

/// The size of the smallest class that holds `size` bytes: what a block of that size really takes.
#[inline]
#[must_use]
pub fn class_size(size: usize) -> usize {
    let step = if size <= FINE_LIMIT { WORD } else { step((size - 1).ilog2()) };
    size.next_multiple_of(step)
}

/// Room for `size` bytes, uninitialised: aligned to 8 bytes, and to 64 if `size` is a multiple of
/// that.
#[inline]
#[must_use]
pub fn allocate(size: usize) -> NonNull<u8> {
    let size = class_size(size.max(WORD));
    let number = own_shard();
    if size > SLAB_LIMIT {
        ARENA[number].large.fetch_add(size, Ordering::Relaxed);
        let memory = layout(size);
        // SAFETY: the layout's size is not zero.
        let block = unsafe { alloc(memory) };
        return NonNull::new(block).unwrap_or_else(|| handle_alloc_error(memory));
    }
    let class = class_index(size);
    let mut slabs = ARENA[number].lock();
    slabs.count(size as isize);
    let page = match NonNull::new(slabs.with_room[class]) {
        Some(page) => page,
        None => slabs.add_page(number, class),
    };
    // SAFETY: pages in the lists are live, and this shard's mutex is held.
    unsafe { slabs.take_block(page, size) }
}

/// Gives a block back.
///
/// # Safety
/// `memory` must come from [`allocate`] with a size of the same class, and be used no more.
#[inline]
pub unsafe fn free(memory: NonNull<u8>, size: usize) {
    let size = class_size(size.max(WORD));
    if size > SLAB_LIMIT {
        ARENA[own_shard()].large.fetch_sub(size, Ordering::Relaxed);
        // SAFETY: the same class gives the same layout.
        unsafe { dealloc(memory.as_ptr(), layout(size)) };
        return;
    }
    let page = memory.as_ptr().map_addr(|address| address & !(PAGE_SIZE - 1)).cast::<Page>();
    // SAFETY: a block of this size lies in a page, which begins at the next lower multiple of its
    // size and lives as long as a block of it; these two fields never change.
    let (number, class) = unsafe { (usize::from((*page).shard), usize::from((*page).class)) };
    debug_assert_eq!(class, class_index(size), "a block is freed with its size");
    let mut slabs = ARENA[number].lock();
    slabs.count(-(size as isize));
    // SAFETY: the mutex of the page's shard is held, and the block is the caller's to give.
    unsafe { slabs.give_block(NonNull::new_unchecked(page), memory, class) };
}

/// How much memory all blocks of the process take.
#[must_use]
pub fn statistics() -> ArenaStatistics {
    let mut sum = ArenaStatistics::default();
    let mut large = 0_usize;
    for shard in &ARENA {
        let slabs = shard.lock();
        sum.allocated += slabs.pages * PAGE_SIZE;
        sum.used += slabs.used;
        large = large.wrapping_add(shard.large.load(Ordering::Relaxed));
    }
    ArenaStatistics { allocated: sum.allocated + large, used: sum.used + large }
}

/// What the sum of the process lacks of blocks in pages.
pub(crate) fn unpublished() -> isize {
    ARENA.iter().map(|shard| shard.lock().unpublished).sum()
}

impl Shard {
    #[inline]
    fn lock(&self) -> MutexGuard<'_, Slabs> {
        self.slabs.lock().expect("no critical section here panics")
    }
}

impl Slabs {
    /// Counts bytes that come into use, or go out of it.
    #[inline]
    fn count(&mut self, by: isize) {
        self.used = self.used.wrapping_add_signed(by);
        self.unpublished += by;
        if self.unpublished.unsigned_abs() >= heap::STEP {
            heap::publish(std::mem::take(&mut self.unpublished));
        }
    }

    /// Takes a block of `size` bytes, the page's class, out of a page with room.
    ///
    /// # Safety
    /// The page must be live, in its list, and its shard's mutex held.
    #[inline]
    unsafe fn take_block(&mut self, page: NonNull<Page>, size: usize) -> NonNull<u8> {
        let head = page.as_ptr();
        // SAFETY: by the caller's promise the head is ours; offsets stay below the page's end.
        unsafe {
            let offset = if (*head).free == 0 {
                let fresh = (*head).fresh;
                (*head).fresh += size as u32;
                fresh
            } else {
                let offset = (*head).free;
                (*head).free = page.byte_add(offset as usize).cast::<u32>().read();
                offset
            };
            (*head).used += 1;
            if !has_room(head, size) {
                self.unlink(head);
            }
            page.byte_add(offset as usize).cast()
        }
    }

    /// # Safety
    /// The page must be live with its shard's mutex held, and the block in use until now.
    #[inline]
    unsafe fn give_block(&mut self, page: NonNull<Page>, block: NonNull<u8>, class: usize) {
        let head = page.as_ptr();
        // SAFETY: by the caller's promise.
        unsafe {
            let was_full = !has_room(head, size_of_class(class));
            block.cast::<u32>().write((*head).free);
            (*head).free = (block.as_ptr().addr() - head.addr()) as u32;
            (*head).used -= 1;
            if was_full {
                self.link(head);
            }
            let is_only_one = (*head).previous.is_null() && (*head).next.is_null();
            if (*head).used == 0 && !is_only_one {
                self.unlink(head);
                self.pages -= 1;
                pages::give(page.cast());
            }
        }
    }

    #[cold]
    fn add_page(&mut self, shard: usize, class: usize) -> NonNull<Page> {
        let page = pages::take().cast::<Page>();
        let head = Page {
            shard: shard as u16,
            class: class as u16,
            used: 0,
            free: 0,
            fresh: FIRST_BLOCK as u32,
            previous: null_mut(),
            next: null_mut(),
        };
        // SAFETY: the page is fresh and large enough for its head.
        unsafe {
            page.write(head);
            self.link(page.as_ptr());
        }
        self.pages += 1;
        page
    }

    /// Puts a page first in the list of its class.
    ///
    /// # Safety
    /// The page must be live, in no list, and its shard's mutex held.
    unsafe fn link(&mut self, page: *mut Page) {
        // SAFETY: by the caller's promise; pages in a list are live.
        unsafe {
            let first = &mut self.with_room[usize::from((*page).class)];
            (*page).previous = null_mut();
            (*page).next = *first;
            if let Some(next) = NonNull::new(*first) {
                (*next.as_ptr()).previous = page;
            }
            *first = page;
        }
    }

    /// # Safety
    /// The page must be live, in its list, and its shard's mutex held.
    unsafe fn unlink(&mut self, page: *mut Page) {
        // SAFETY: by the caller's promise; pages in a list are live.
        unsafe {
            let (previous, next) = ((*page).previous, (*page).next);
            match NonNull::new(previous) {
                Some(previous) => (*previous.as_ptr()).next = next,
                None => self.with_room[usize::from((*page).class)] = next,
            }
            if let Some(next) = NonNull::new(next) {
                (*next.as_ptr()).previous = previous;
            }
        }
    }
}

/// # Safety
/// The page must be live and its shard's mutex held.
#[inline]
unsafe fn has_room(page: *mut Page, size: usize) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { (*page).free != 0 || (*page).fresh as usize + size <= PAGE_SIZE }
}

/// The shard of this thread; threads are dealt out in turn.
#[inline]
fn own_shard() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    OWN.with(|own| {
        if own.get() == usize::MAX {
            own.set(THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        own.get()
    })
}

/// The number of a class by its size.
#[inline]
const fn class_index(size: usize) -> usize {
    if size <= FINE_LIMIT {
        return size / WORD - 1;
    }
    let doubling = (size - 1).ilog2();
    let coarse = if doubling < FINER_FROM.ilog2() { doubling } else { FINER_FROM.ilog2() };
    let first = (coarse - FINE_LIMIT.ilog2()) * 8 + (doubling - coarse) * 16;
    FINE_LIMIT / WORD + first as usize + (size - 1 - (1 << doubling)) / step(doubling)
}

/// The size of a class by its number.
#[inline]
const fn size_of_class(class: usize) -> usize {
    let fine = FINE_LIMIT / WORD;
    if class < fine {
        return (class + 1) * WORD;
    }
    let finer = class_index(FINER_FROM) + 1;
    let (start, number) = if class < finer {
        (FINE_LIMIT << ((class - fine) / 8), (class - fine) % 8)
    } else {
        (FINER_FROM << ((class - finer) / 16), (class - finer) % 16)
    };
    start + step(start.ilog2()) * (number + 1)
}

/// How far the classes between two powers of two, the lower one given by its exponent, are apart.
#[inline]
const fn step(doubling: u32) -> usize {
    (1 << doubling) / if doubling < FINER_FROM.ilog2() { 8 } else { 16 }
}

/// What the global allocator is asked for.
fn layout(size: usize) -> Layout {
    let align = if size.is_multiple_of(CACHE_LINE) { CACHE_LINE } else { WORD };
    Layout::from_size_align(size, align)
        .expect("client limits keep blocks far below isize::MAX, and alignments are powers of two")
}
