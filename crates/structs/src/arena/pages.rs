//! Where the arena's pages come from: the kernel, without an allocator between.
//!
//! An allocator would round and align a page at the cost of another. Invariant: a page is in
//! `free`, behind `fresh`, or in one shard's hands; the memory behind a free page is the kernel's.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use super::classes::PAGE_SIZES;
use crate::heap;

/// Address space taken at a time; untouched, it costs nothing.
const REGION: usize = 4 << 20;

struct Source {
    free: Vec<NonNull<u8>>,
    /// Pages from here on, `left` of them, were never used.
    fresh: *mut u8,
    left: usize,
}

// SAFETY: the pages it leads to belong to nobody else.
unsafe impl Send for Source {}

/// Where pages of each kind come from.
static SOURCES: [Mutex<Source>; PAGE_SIZES.len()] =
    [const { Mutex::new(Source { free: Vec::new(), fresh: null_mut(), left: 0 }) };
        PAGE_SIZES.len()];

fn source(kind: usize) -> MutexGuard<'static, Source> {
    SOURCES[kind].lock().expect("no critical section here panics")
}

/// A page of this kind, aligned to its size, of any content.
pub(super) fn acquire(kind: usize) -> NonNull<u8> {
    let (mut source, size) = (source(kind), PAGE_SIZES[kind]);
    if let Some(page) = source.free.pop() {
        return page;
    }
    if source.left == 0 {
        source.fresh = map(REGION);
        source.left = (REGION - source.fresh.align_offset(size)) / size;
        // SAFETY: the region is larger than a page, so its first page boundary lies inside.
        source.fresh = unsafe { source.fresh.add(source.fresh.align_offset(size)) };
    }
    let page = NonNull::new(source.fresh).expect("the kernel maps nothing at zero");
    source.left -= 1;
    // SAFETY: `left` said that the page lies in the region, so its end is at most the region's.
    source.fresh = unsafe { source.fresh.add(size) };
    page
}

/// # Safety
/// The page must come from [`acquire`], with this kind, and be used no more.
pub(super) unsafe fn release(page: NonNull<u8>, kind: usize) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        let size = PAGE_SIZES[kind];
        // SAFETY: the page is mapped, and its content is of no use to anybody.
        let advised = unsafe { madvise(page.as_ptr().cast(), size, Advice::LinuxDontNeed) };
        debug_assert!(advised.is_ok(), "the range is mapped and aligned");
    }
    source(kind).free.push(page);
}

fn map(size: usize) -> *mut u8 {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping, anywhere, touches nothing that exists.
    let mapped = unsafe { mmap_anonymous(null_mut(), size, access, MapFlags::PRIVATE) };
    let layout = Layout::from_size_align(size, PAGE_SIZES[0]).expect("a region has a sane size");
    let refuse = |_| {
        heap::report_refusal(layout.size());
        handle_alloc_error(layout)
    };
    mapped.unwrap_or_else(refuse).cast()
}
