//! The sizes of blocks, and of the pages they lie in.
//!
//! Classes are words up to 128 bytes, eight a doubling up to a kilobyte, and sixteen above: a
//! kilobyte with its key must not cost an eighth more. Invariant: classes are numbered without
//! gaps, by size, and a page holds at least seven blocks of its class.

/// What every block is aligned to; blocks of whole cache lines are aligned to cache lines.
pub(super) const WORD: usize = 8;

/// Up to this size the classes are words; above it there are eight classes a doubling,
const FINE_LIMIT: usize = 128;

/// and from here on sixteen.
const FINER_FROM: usize = 1024;

/// Larger blocks lie in larger pages, as a small one would hold too few of them,
pub(super) const SMALL_LIMIT: usize = 3584;

/// and still larger ones from here on.
const MIDDLE_LIMIT: usize = 16 * 1024;

/// Larger blocks come from the global allocator. The largest string that an entry has in its own
/// block fits, with its key.
pub(super) const SLAB_LIMIT: usize = 68 * 1024;

/// Classes up to [`SLAB_LIMIT`].
pub(super) const CLASSES: usize = class_index(SLAB_LIMIT) + 1;

/// The sizes of pages. What of a page no block has touched yet costs nothing.
pub(super) const PAGE_SIZES: [usize; 3] = [32 * 1024, 128 * 1024, 512 * 1024];

/// The size of the smallest class that holds `size` bytes: what a block of that size really takes.
#[inline]
#[must_use]
pub fn class_size(size: usize) -> usize {
    let step = if size <= FINE_LIMIT { WORD } else { step((size - 1).ilog2()) };
    size.next_multiple_of(step)
}

/// Which pages blocks of a class of this size lie in, by number.
#[inline]
pub(super) const fn page_kind(size: usize) -> usize {
    (size > SMALL_LIMIT) as usize + (size > MIDDLE_LIMIT) as usize
}

/// The size of the pages for blocks of a class of this size.
#[inline]
pub(super) const fn page_size(size: usize) -> usize {
    PAGE_SIZES[page_kind(size)]
}

/// The number of a class by its size.
#[inline]
pub(super) const fn class_index(size: usize) -> usize {
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
pub(super) const fn size_of_class(class: usize) -> usize {
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
