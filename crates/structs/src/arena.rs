//! Memory for the blocks of entries, tightly packed: a slab arena up to 68 KB, the global allocator
//! above.
//!
//! General allocators round 24 bytes up to 32 and 1,048 to 1,280; the classes here are finer
//! (`classes.rs`). A page holds blocks of one class and begins with its head, found from a block by
//! masking its address. Pages belong to shards; a thread takes small blocks from its own shard and
//! gives a block back to whichever shard the block's page belongs to, so threads seldom meet at a
//! shard's mutex. Blocks that take long to fill anyway all come from one shard, which wastes less.
//!
//! **Compaction.** Pages that many removals left half empty can be emptied: `Marking` chooses them,
//! then the owner of blocks offers each to `relocate`, and `unmark` lets go of what is still in use
//! there. An emptied page goes back to the kernel.
//!
//! Invariant: `free` and `relocate` are told a size of the same class that `allocate` was.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

pub use self::classes::class_size;
use self::classes::{CACHE_LINE, SLAB_LIMIT, SMALL_LIMIT, WORD, class_index, page_size};
use self::slabs::{PageHeader, SLACK, Slabs};
use crate::prefetch;

mod classes;
mod pages;
mod slabs;
#[cfg(test)]
mod tests;

const SHARDS: usize = 16;

/// Pages marked, or let go of, in one hold of a shard's mutex.
const PAGES_PER_HOLD: usize = 64;

/// Memory of the arena, for statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaStatistics {
    /// Bytes taken from the system, free blocks included.
    pub allocated: usize,
    /// Bytes in blocks that are in use.
    pub used: usize,
}

/// A share of the arena, with a cache line of its own.
#[repr(align(128))]
struct Shard {
    slabs: Mutex<Slabs>,
    /// Bytes in blocks from the global allocator; modulo 2^64, as others may free them.
    large: AtomicUsize,
}

static ARENA: [Shard; SHARDS] =
    [const { Shard { slabs: Mutex::new(Slabs::new()), large: AtomicUsize::new(0) } }; SHARDS];

/// Room for `size` bytes, uninitialised: aligned to 8 bytes, and to 64 if `size` is a multiple of
/// that and a class of its own.
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
    let number = if size <= SMALL_LIMIT { number } else { 0 };
    ARENA[number].lock().allocate(number, class_index(size), size)
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
    let page = page_of(memory, size);
    // SAFETY: a block of this size lies in a page that lives as long as a block of it, and these
    // two fields never change.
    let (number, class) = unsafe { place_of(page) };
    debug_assert_eq!(class, class_index(size), "a block is freed with its size");
    // SAFETY: the shard is the page's, and the block is the caller's to give.
    unsafe { ARENA[number].lock().free_block(page, memory, size) };
}

/// Asks the processor for the head of the page that a block of this size lies in, which `free` will
/// read and change.
#[inline]
pub fn prefetch_page(memory: NonNull<u8>, size: usize) {
    let size = class_size(size.max(WORD));
    if size <= SLAB_LIMIT {
        prefetch::line(page_of(memory, size).as_ptr().cast());
    }
}

/// Moves a block if it lies in a page that is being emptied: where it is then. Its content goes
/// with it.
///
/// # Safety
/// `memory` must come from [`allocate`] with a size of the same class, nobody else may use the
/// block meanwhile, and where another block comes back, this one is used no more.
#[inline]
#[must_use]
pub unsafe fn relocate(memory: NonNull<u8>, size: usize) -> Option<NonNull<u8>> {
    let size = class_size(size.max(WORD));
    if size > SLAB_LIMIT {
        return None;
    }
    let page = page_of(memory, size);
    // SAFETY: as in `free`; this field may be read at any time.
    let is_leaving = unsafe { (*page.as_ptr()).is_leaving.load(Ordering::Relaxed) };
    // SAFETY: as the caller promises.
    is_leaving.then(|| unsafe { evacuate(page, memory, size) })
}

/// # Safety
/// As for [`relocate`], with the block's page and the size of its class.
#[cold]
unsafe fn evacuate(page: NonNull<PageHeader>, memory: NonNull<u8>, size: usize) -> NonNull<u8> {
    // SAFETY: as in `free`.
    let (number, class) = unsafe { place_of(page) };
    let new = ARENA[number].lock().allocate(number, class, size);
    // SAFETY: both blocks have this size, the new one is ours, and the old one the caller's.
    unsafe {
        new.copy_from_nonoverlapping(memory, size);
        ARENA[number].lock().free_block(page, memory, size);
    }
    new
}

/// Chooses pages to be emptied, some at a time.
#[derive(Debug, Default)]
pub struct Marking {
    shard: usize,
    class: usize,
    bytes: usize,
}

impl Marking {
    /// Marks some pages whose blocks others have room for; whether there may be more.
    pub fn step(&mut self) -> bool {
        let Some(shard) = ARENA.get(self.shard) else { return false };
        let (bytes, next) = shard.lock().choose(self.class, PAGES_PER_HOLD);
        self.bytes += bytes;
        self.class = next.unwrap_or(0);
        self.shard += usize::from(next.is_none());
        true
    }

    /// How many bytes go back to the system once all marked pages are empty.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Leaves marked pages that are not empty as they are.
pub fn unmark() {
    for shard in &ARENA {
        while shard.lock().keep_leaving(PAGES_PER_HOLD) {}
    }
}

/// Bytes that were given back to the arena and not to the system, to within some kilobytes for each
/// thread.
#[inline]
#[must_use]
pub fn slack() -> usize {
    usize::try_from(SLACK.load(Ordering::Relaxed)).unwrap_or(0)
}

/// How much memory all blocks of the process take.
#[must_use]
pub fn statistics() -> ArenaStatistics {
    let mut sum = ArenaStatistics::default();
    let mut large = 0_usize;
    for shard in &ARENA {
        let slabs = shard.lock();
        sum.used += slabs.used;
        sum.allocated += slabs.used + slabs.slack;
        large = large.wrapping_add(shard.large.load(Ordering::Relaxed));
    }
    // Shards are read one after another: what went from one to another meanwhile may be missing.
    let large = usize::try_from(large.cast_signed()).unwrap_or(0);
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

/// The page that a block of a class of this size lies in.
#[inline]
fn page_of(memory: NonNull<u8>, size: usize) -> NonNull<PageHeader> {
    let mask = !(page_size(size) - 1);
    let start = memory.as_ptr().map_addr(|address| address & mask);
    NonNull::new(start).expect("no page lies at address zero").cast()
}

/// A page's shard and class.
///
/// # Safety
/// The page must be live.
#[inline]
unsafe fn place_of(page: NonNull<PageHeader>) -> (usize, usize) {
    // SAFETY: as promised; these fields never change.
    unsafe { (usize::from((*page.as_ptr()).shard), usize::from((*page.as_ptr()).class)) }
}

/// The shard of this thread; threads are dealt out in turn.
#[inline]
fn own_shard() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        /// The thread's shard, once one was dealt out.
        static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    OWN.with(|own| {
        if own.get() == usize::MAX {
            own.set(THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        own.get()
    })
}

/// What the global allocator is asked for.
fn layout(size: usize) -> Layout {
    let align = if size.is_multiple_of(CACHE_LINE) { CACHE_LINE } else { WORD };
    Layout::from_size_align(size, align)
        .expect("client limits keep blocks far below isize::MAX, and alignments are powers of two")
}
