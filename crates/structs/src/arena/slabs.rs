//! The pages of one shard: which have room, how full they are, and which are being emptied.
//!
//! Pages with room lie in lists by class and by sixteenths of fullness. Blocks are taken from the
//! fullest page, so the emptiest tend to become empty, and go back to the kernel then; one that is
//! the only one of its class with room stays.
//!
//! What random removals leave half empty is emptied on purpose: `choose` takes the emptiest pages
//! out of the lists, as many as the free blocks of the others can take the content of, or whose
//! content would touch much less of a new page, and from then on no block is taken from them.
//! The owners of blocks there move them.
//!
//! Invariants: a page is in the list of its class and fullness exactly while it has room, or in
//! `leaving` while it is being emptied; `spare` are the free blocks, once touched, of pages in the
//! lists, and `leaving_blocks` those in use in pages that are being emptied. All of a head but
//! `shard`, `class` and `is_leaving` is touched only under the mutex of the page's shard.

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

use super::classes::{CLASSES, FIRST_BLOCK, blocks_of, page_kind, page_size, size_of_class};
use super::pages;
use crate::heap;

const _: () = assert!(size_of::<PageHeader>() <= FIRST_BLOCK);

/// Pages with room are told apart by so many degrees of fullness.
const DEGREES: usize = 16;

/// Pages that are fuller stay: moving fifteen blocks to gain one is dear enough.
const DEGREES_CHOSEN: usize = DEGREES - 1;

/// A page that no others have room for is emptied into a new one if this part of it lies idle.
const IDLE_PART: u32 = 4;

/// Bytes of free blocks in pages, as far as shards have published them.
pub(super) static SLACK: AtomicIsize = AtomicIsize::new(0);

/// The head of a page.
#[repr(C)]
pub(super) struct PageHeader {
    /// Never changes.
    pub(super) shard: u16,
    /// Never changes.
    pub(super) class: u16,
    /// Whether the page is being emptied; for others a hint.
    pub(super) is_leaving: AtomicBool,
    degree: u8,
    /// Blocks in use.
    used: u32,
    /// Blocks in use from which on the page is of another degree: below the first, at the second.
    bounds: [u32; 2],
    /// Offset of the first block that was given back; each holds the offset of the next; 0 ends.
    free: u32,
    /// Offset from which on no block was ever handed out.
    fresh: u32,
    /// The neighbours in the page's list.
    previous: *mut PageHeader,
    next: *mut PageHeader,
}

/// The pages of a shard.
pub(super) struct Slabs {
    /// For each class and degree of fullness the pages with room, the one that changed last first.
    with_room: [[*mut PageHeader; DEGREES]; CLASSES],
    /// For each class a bit for each degree of which there are pages.
    degrees: [u16; CLASSES],
    /// Pages that are being emptied, of all classes.
    leaving: *mut PageHeader,
    spare: [u32; CLASSES],
    leaving_blocks: [u32; CLASSES],
    /// Bytes in blocks that are in use.
    pub(super) used: usize,
    /// Bytes that were touched beyond those.
    pub(super) slack: usize,
    /// How far the two are from what the sums of the process were told.
    pub(super) unpublished: isize,
    unpublished_slack: isize,
}

// SAFETY: the pages that the lists lead to belong to the shard and are touched under its mutex.
unsafe impl Send for Slabs {}

impl Slabs {
    pub(super) const fn new() -> Slabs {
        Slabs {
            with_room: [[null_mut(); DEGREES]; CLASSES],
            degrees: [0; CLASSES],
            leaving: null_mut(),
            spare: [0; CLASSES],
            leaving_blocks: [0; CLASSES],
            used: 0,
            slack: 0,
            unpublished: 0,
            unpublished_slack: 0,
        }
    }

    /// Takes a block of a class whose blocks have this size, for the shard of this number.
    #[inline]
    pub(super) fn allocate(&mut self, shard: usize, class: usize, size: usize) -> NonNull<u8> {
        let page = match self.fullest(class) {
            Some(page) => page,
            None => self.add_page(shard, class),
        };
        // SAFETY: the page is in a list, or just made.
        unsafe { self.take_block(page, class, size) }
    }

    /// # Safety
    /// The page must be in the list of this class, whose blocks have this size.
    #[inline]
    unsafe fn take_block(
        &mut self,
        page: NonNull<PageHeader>,
        class: usize,
        size: usize,
    ) -> NonNull<u8> {
        self.count(size as isize);
        let head = page.as_ptr();
        // SAFETY: pages in the lists are live and ours; offsets stay below the page's end.
        unsafe {
            let offset = if (*head).free == 0 {
                let fresh = (*head).fresh;
                (*head).fresh += size as u32;
                fresh
            } else {
                let offset = (*head).free;
                (*head).free = page.byte_add(offset as usize).cast::<u32>().read();
                self.spare[class] -= 1;
                self.count_slack(-(size as isize));
                offset
            };
            (*head).used += 1;
            if !has_room(head, size) {
                self.unlink(head);
            } else if (*head).used >= (*head).bounds[1] {
                self.unlink(head);
                self.link(head);
            }
            page.byte_add(offset as usize).cast()
        }
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// The page must be live and one of these, and the block of this size in use until now.
    #[inline]
    pub(super) unsafe fn free_block(
        &mut self,
        page: NonNull<PageHeader>,
        block: NonNull<u8>,
        size: usize,
    ) {
        self.count(-(size as isize));
        self.count_slack(size as isize);
        let head = page.as_ptr();
        // SAFETY: by the caller's promise.
        unsafe {
            let had_room = has_room(head, size);
            block.cast::<u32>().write((*head).free);
            (*head).free = (block.as_ptr().addr() - head.addr()) as u32;
            (*head).used -= 1;
            let class = usize::from((*head).class);
            if (*head).is_leaving.load(Ordering::Relaxed) {
                self.leaving_blocks[class] -= 1;
                if (*head).used == 0 {
                    self.unlink(head);
                    self.release(head);
                }
                return;
            }
            self.spare[class] += 1;
            if !had_room {
                self.link(head);
            } else if (*head).used < (*head).bounds[0] {
                self.unlink(head);
                self.link(head);
            }
            if (*head).used == 0 && !self.is_only_one(head) {
                self.spare[class] -= touched_blocks(head, size);
                self.unlink(head);
                self.release(head);
            }
        }
    }

    /// Marks pages to be emptied, `most` of them at most, beginning with the class `from`. Returns
    /// how many bytes will go back, and the class to go on with.
    pub(super) fn choose(&mut self, from: usize, mut most: usize) -> (usize, Option<usize>) {
        let mut bytes = 0;
        for class in from..CLASSES {
            let size = size_of_class(class);
            while let Some(page) = self.emptiest(class).filter(|_| most > 0) {
                // SAFETY: pages in the lists are live and ours.
                match unsafe { self.mark(page.as_ptr(), class, size) } {
                    Some(gain) => bytes += gain,
                    None => break,
                }
                most -= 1;
            }
            if most == 0 {
                return (bytes, Some(class));
            }
        }
        (bytes, None)
    }

    /// Marks a page to be emptied if that is worth it, and gives it back if it is empty already.
    /// Returns how many bytes are gained.
    ///
    /// # Safety
    /// The page must be in the list of this class, whose blocks have this size.
    unsafe fn mark(&mut self, head: *mut PageHeader, class: usize, size: usize) -> Option<usize> {
        // SAFETY: by the caller's promise.
        unsafe {
            let (touched, used) = (touched_blocks(head, size), (*head).used);
            let idle = touched - used;
            let others_have_room = self.spare[class] - idle >= self.leaving_blocks[class] + used;
            // In a new page the same blocks touch less.
            if !others_have_room && idle < touched.div_ceil(IDLE_PART) {
                return None;
            }
            let gain = if others_have_room { (*head).fresh as usize } else { idle as usize * size };
            self.spare[class] -= idle;
            self.unlink(head);
            if used == 0 {
                self.release(head);
            } else {
                self.leaving_blocks[class] += used;
                (*head).is_leaving.store(true, Ordering::Relaxed);
                self.link(head);
            }
            Some(gain)
        }
    }

    /// Makes pages that were to be emptied, and are not yet, ordinary ones again, `most` of them at
    /// most; whether there are more.
    pub(super) fn keep_leaving(&mut self, most: usize) -> bool {
        for _ in 0..most {
            let Some(page) = NonNull::new(self.leaving) else { return false };
            let head = page.as_ptr();
            // SAFETY: pages in the list are live and ours.
            unsafe {
                let class = usize::from((*head).class);
                self.unlink(head);
                (*head).is_leaving.store(false, Ordering::Relaxed);
                self.leaving_blocks[class] -= (*head).used;
                self.spare[class] += touched_blocks(head, size_of_class(class)) - (*head).used;
                self.link(head);
            }
        }
        !self.leaving.is_null()
    }

    /// The page with room that has least of it.
    #[inline]
    fn fullest(&self, class: usize) -> Option<NonNull<PageHeader>> {
        let degree = self.degrees[class].checked_ilog2()?;
        NonNull::new(self.with_room[class][degree as usize])
    }

    /// The page with most room, if that is worth emptying it.
    fn emptiest(&self, class: usize) -> Option<NonNull<PageHeader>> {
        let degree = self.degrees[class].trailing_zeros() as usize;
        NonNull::new(*self.with_room[class][..DEGREES_CHOSEN].get(degree)?)
    }

    /// Counts bytes that come into use, or go out of it.
    #[inline]
    fn count(&mut self, by: isize) {
        self.used = self.used.wrapping_add_signed(by);
        self.unpublished += by;
        if self.unpublished.unsigned_abs() >= heap::STEP {
            heap::publish(std::mem::take(&mut self.unpublished));
        }
    }

    /// Counts bytes that lie free in pages.
    #[inline]
    fn count_slack(&mut self, by: isize) {
        self.slack = self.slack.wrapping_add_signed(by);
        self.unpublished_slack += by;
        if self.unpublished_slack.unsigned_abs() >= heap::STEP {
            SLACK.fetch_add(std::mem::take(&mut self.unpublished_slack), Ordering::Relaxed);
        }
    }

    #[cold]
    fn add_page(&mut self, shard: usize, class: usize) -> NonNull<PageHeader> {
        let page = pages::acquire(page_kind(size_of_class(class))).cast::<PageHeader>();
        let head = PageHeader {
            shard: shard as u16,
            class: class as u16,
            is_leaving: AtomicBool::new(false),
            degree: 0,
            used: 0,
            bounds: [0; 2],
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
        self.count_slack(FIRST_BLOCK as isize);
        page
    }

    /// Gives an empty page back to the kernel.
    ///
    /// # Safety
    /// The page must be one of these, empty, and in no list.
    #[cold]
    unsafe fn release(&mut self, page: *mut PageHeader) {
        // SAFETY: by the caller's promise nobody uses the page any more.
        unsafe {
            self.count_slack(-((*page).fresh as isize));
            let kind = page_kind(size_of_class(usize::from((*page).class)));
            pages::release(NonNull::new_unchecked(page).cast(), kind);
        }
    }

    /// Whether no other page of the class has room.
    ///
    /// # Safety
    /// The page must be one of these, in the list of its class.
    unsafe fn is_only_one(&self, page: *mut PageHeader) -> bool {
        // SAFETY: by the caller's promise.
        unsafe {
            self.degrees[usize::from((*page).class)] == 1 << (*page).degree
                && (*page).previous.is_null()
                && (*page).next.is_null()
        }
    }

    /// Puts a page first in the list where it belongs.
    ///
    /// # Safety
    /// The page must be one of these, live, and in no list.
    unsafe fn link(&mut self, page: *mut PageHeader) {
        // SAFETY: by the caller's promise; pages in a list are live.
        unsafe {
            let class = usize::from((*page).class);
            let first = if (*page).is_leaving.load(Ordering::Relaxed) {
                &mut self.leaving
            } else {
                let degree = classify(page);
                self.degrees[class] |= 1 << degree;
                &mut self.with_room[class][degree]
            };
            (*page).previous = null_mut();
            (*page).next = *first;
            if let Some(next) = NonNull::new(*first) {
                (*next.as_ptr()).previous = page;
            }
            *first = page;
        }
    }

    /// # Safety
    /// The page must be one of these, live, and in its list.
    unsafe fn unlink(&mut self, page: *mut PageHeader) {
        // SAFETY: by the caller's promise; pages in a list are live.
        unsafe {
            let (previous, next) = ((*page).previous, (*page).next);
            if let Some(next) = NonNull::new(next) {
                (*next.as_ptr()).previous = previous;
            }
            if let Some(previous) = NonNull::new(previous) {
                (*previous.as_ptr()).next = next;
            } else if (*page).is_leaving.load(Ordering::Relaxed) {
                self.leaving = next;
            } else {
                let (class, degree) = (usize::from((*page).class), usize::from((*page).degree));
                self.with_room[class][degree] = next;
                if next.is_null() {
                    self.degrees[class] &= !(1 << degree);
                }
            }
        }
    }
}

/// Determines how full a page is, and the bounds within which that holds.
///
/// # Safety
/// The page must be live and its shard's mutex held.
unsafe fn classify(page: *mut PageHeader) -> usize {
    // SAFETY: by the caller's promise.
    unsafe {
        let size = size_of_class(usize::from((*page).class));
        let blocks = blocks_of(size);
        let degree = ((*page).used as usize * DEGREES / blocks).min(DEGREES - 1);
        // The least numbers of blocks that are of this degree, and of the next.
        let least = |degree: usize| (degree * blocks).div_ceil(DEGREES) as u32;
        (*page).bounds = [least(degree), least(degree + 1)];
        (*page).degree = degree as u8;
        degree
    }
}

/// Blocks of a page that were handed out before.
///
/// # Safety
/// The page must be live and its shard's mutex held.
unsafe fn touched_blocks(page: *mut PageHeader, size: usize) -> u32 {
    // SAFETY: by the caller's promise.
    unsafe { (((*page).fresh as usize - FIRST_BLOCK) / size) as u32 }
}

/// # Safety
/// The page must be live and its shard's mutex held.
#[inline]
unsafe fn has_room(page: *mut PageHeader, size: usize) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { (*page).free != 0 || (*page).fresh as usize + size <= page_size(size) }
}
