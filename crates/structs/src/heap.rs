//! How much memory the process has in use: every allocation, counted where it is made and where it
//! is freed, with what the allocator's class adds to it.
//!
//! A thread counts in a slot with a cache line of its own, and what has come together there goes
//! into one sum now and then, so that the sum is one load for its reader. The first threads of the
//! process are the only ones that write to their slots: to count is an addition, not a locked
//! instruction that waits for all stores before it. Later threads share slots.
//!
//! Invariant: the sum and what the slots and the arena hold back are together the bytes in use; a
//! slot holds back less than `STEP`, whatever was allocated.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

/// What may be missing from the sum, or be too much in it, for each thread: 4 KB.
pub const STEP: usize = 4096;

/// So many threads have slots of their own, for good: workers are among the first.
const OWN: usize = 128;
/// The others share so many.
const SHARED: usize = 64;

/// Alone in its cache lines.
#[repr(align(128))]
struct ShardCount(AtomicIsize);

static SUM: ShardCount = ShardCount(AtomicIsize::new(0));

static SLOT: [ShardCount; OWN + SHARED] = [const { ShardCount(AtomicIsize::new(0)) }; OWN + SHARED];

/// Allocations up to here are of a class; longer ones are whole pages of the system.
const CLASS_MAX: usize = 64 * 1024;
const SYSTEM_PAGE: usize = 4096;

/// What the general allocator of the process, mimalloc, takes for an allocation of this size: up to
/// 64 bytes classes are 16 bytes apart, beyond there are four to a doubling.
#[inline]
#[must_use]
pub const fn taken(size: usize) -> usize {
    const WORD: usize = 8;
    if size <= WORD {
        return WORD;
    }
    if size <= 8 * WORD {
        return size.next_multiple_of(2 * WORD);
    }
    if size > CLASS_MAX {
        return size.next_multiple_of(SYSTEM_PAGE);
    }
    let step = 1 << ((size.div_ceil(WORD) - 1).ilog2() - 2);
    size.next_multiple_of(step * WORD)
}

/// An allocator that counts what another one gives.
pub struct Counted<A>(pub A);

/// What is called with each size that the system refuses. The hook must not allocate.
static REFUSAL_HOOK: OnceLock<fn(usize)> = OnceLock::new();

/// Has this told of each allocation that fails. The first hook counts.
pub fn set_refusal_hook(hook: fn(usize)) {
    let _ = REFUSAL_HOOK.set(hook);
}

/// Passes on what was given; where that is nothing somebody is told.
#[inline]
fn checked(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() {
        report_refusal(size);
    }
    memory
}

#[cold]
pub(crate) fn report_refusal(size: usize) {
    if let Some(hook) = REFUSAL_HOOK.get() {
        hook(size);
    }
}

/// Bytes in use, as far as threads have published them: to within 4 KB for each of them.
#[inline]
#[must_use]
pub fn used() -> usize {
    usize::try_from(SUM.0.load(Ordering::Relaxed)).unwrap_or(0)
}

/// Bytes in use, to the byte while nobody allocates.
#[must_use]
pub fn used_exactly() -> usize {
    let held_back: isize = SLOT.iter().map(|slot| slot.0.load(Ordering::Relaxed)).sum();
    let sum = SUM.0.load(Ordering::Relaxed) + held_back + crate::arena::unpublished();
    usize::try_from(sum).unwrap_or(0)
}

/// Adds to the sum what was counted elsewhere.
#[inline]
pub(crate) fn publish(by: isize) {
    SUM.0.fetch_add(by, Ordering::Relaxed);
}

#[inline]
fn count(by: isize) {
    count_in(slot_of_thread(), by);
}

#[inline]
fn count_in(index: usize, by: isize) {
    let slot = &SLOT[index].0;
    if index >= OWN {
        return count_shared(slot, by);
    }
    let held_back = slot.load(Ordering::Relaxed) + by;
    if held_back.unsigned_abs() < STEP {
        slot.store(held_back, Ordering::Relaxed);
    } else {
        slot.store(0, Ordering::Relaxed);
        publish(held_back);
    }
}

#[cold]
fn count_shared(slot: &AtomicIsize, by: isize) {
    let held_back = slot.fetch_add(by, Ordering::Relaxed) + by;
    if held_back.unsigned_abs() >= STEP {
        publish(slot.swap(0, Ordering::Relaxed));
    }
}

/// The slot of this thread, its own if the index is below `OWN`.
#[inline]
fn slot_of_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Without a destructor, so that the allocator may use it at any time.
        static INDEX: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    INDEX.with(|index| {
        if index.get() == usize::MAX {
            index.set(dealt(THREADS.fetch_add(1, Ordering::Relaxed)));
        }
        index.get()
    })
}

/// The slot of one thread after so many others.
fn dealt(threads: usize) -> usize {
    if threads < OWN { threads } else { OWN + threads % SHARED }
}

// SAFETY: every call goes to the allocator within as it came, and what it gives comes back as it
// is; counting allocates nothing.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counted<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those of the allocator within; so below.
        let memory = unsafe { self.0.alloc(layout) };
        if !memory.is_null() {
            count(taken(layout.size()) as isize);
        }
        checked(memory, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let memory = unsafe { self.0.alloc_zeroed(layout) };
        if !memory.is_null() {
            count(taken(layout.size()) as isize);
        }
        checked(memory, layout.size())
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(taken(layout.size()) as isize));
        // SAFETY: as above.
        unsafe { self.0.dealloc(memory, layout) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as above.
        let moved = unsafe { self.0.realloc(memory, layout, new_size) };
        if !moved.is_null() {
            count(taken(new_size) as isize - taken(layout.size()) as isize);
        }
        checked(moved, new_size)
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc, Layout, System};

    use super::{Counted, OWN, SHARED, SLOT, STEP, count_in, dealt, used};
    use std::sync::atomic::Ordering;

    #[test]
    fn a_slot_holds_back_less_than_a_step_and_loses_nothing() {
        // No other test has so many threads as to use the last of either kind.
        for index in [OWN - 1, OWN + SHARED - 1] {
            let held_back = || SLOT[index].0.load(Ordering::Relaxed);
            // Other tests allocate nothing through `Counted`, but their arenas publish to the sum.
            count_in(index, 100);
            assert_eq!(held_back(), 100);
            count_in(index, -100);
            assert_eq!(held_back(), 0);
            for _ in 0..1000 {
                count_in(index, STEP as isize / 3);
                assert!(held_back().unsigned_abs() < STEP);
            }
            for _ in 0..1000 {
                count_in(index, -(STEP as isize / 3));
                assert!(held_back().unsigned_abs() < STEP);
            }
            assert_eq!(held_back().unsigned_abs() % (STEP / 3), 0);
        }
    }

    #[test]
    fn the_first_threads_share_their_slots_with_nobody() {
        let dealt: Vec<usize> = (0..1000).map(dealt).collect();
        assert!(dealt[..OWN].iter().enumerate().all(|(thread, slot)| thread == *slot));
        assert!(dealt[OWN..].iter().all(|slot| (OWN..OWN + SHARED).contains(slot)));
    }

    #[test]
    fn threads_that_share_a_slot_lose_nothing() {
        const TIMES: usize = STEP / 8;
        let index = OWN + SHARED - 2;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..TIMES).for_each(|_| count_in(index, 1)));
            }
        });
        assert_eq!(SLOT[index].0.load(Ordering::Relaxed), 4 * TIMES as isize);
    }

    #[test]
    fn what_is_allocated_is_counted_until_it_is_freed() {
        const BIG: usize = 1 << 30;
        let (heap, layout) = (Counted(System), Layout::from_size_align(BIG, 8).unwrap());
        let before = used();
        // SAFETY: the layouts have a size, and each block is freed with its own.
        unsafe {
            let memory = heap.alloc(layout);
            assert!(
                used() >= before + BIG - (BIG >> 4),
                "a gigabyte shows, whoever else allocates"
            );
            let memory = heap.realloc(memory, layout, BIG / 2);
            assert!(used() < before + BIG / 2 + (BIG >> 4));
            heap.dealloc(memory, Layout::from_size_align(BIG / 2, 8).unwrap());
        }
        assert!(used() < before + (BIG >> 4));
    }
}
