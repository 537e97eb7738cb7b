//! The sizes of blocks, and of the pages they lie in.
//!
//! Classes are words up to 512 bytes. Beyond, what a block costs is its share of a page, so a class
//! is the longest block of which a page holds so many; and arrays of cache lines as tables ask for
//! them, four to a doubling, are classes of their own, as only there blocks lie on cache lines.
//!
//! Invariant: classes are numbered without gaps, by size; a page holds as many blocks of a size's
//! class as of the size itself, and at least seven.

/// What every block is aligned to.
pub(super) const WORD: usize = 8;

/// What blocks of the classes that tables ask for are aligned to.
pub(super) const CACHE_LINE: usize = 64;

/// Where the first block of a page begins: behind the head, on a cache line.
pub(super) const FIRST_BLOCK: usize = CACHE_LINE;

/// Up to this size the classes are words.
const WORDS_LIMIT: usize = 512;

/// Larger blocks lie in larger pages, as a small one would hold too few of them.
pub(super) const SMALL_LIMIT: usize = 3584;

/// The pages are larger still from this size of block on.
const MIDDLE_LIMIT: usize = 16 * 1024;

/// Larger blocks come from the global allocator. The largest string that an entry has in its own
/// block fits, with its key.
pub(super) const SLAB_LIMIT: usize = 68 * 1024;

/// Beyond that sizes are rounded to so many a doubling, so that little growth moves nothing.
const LARGE_PER_DOUBLING: usize = 16;

/// The sizes of pages. What of a page no block has touched yet costs nothing.
pub(super) const PAGE_SIZES: [usize; 3] = [32 * 1024, 128 * 1024, 512 * 1024];

/// Classes up to [`SLAB_LIMIT`].
pub(super) const CLASSES: usize = {
    let (mut classes, mut size) = (0, 0);
    while size < SLAB_LIMIT {
        size += WORD;
        classes += is_class(size) as usize;
    }
    classes
};

/// The sizes of the classes.
static SIZES: [u32; CLASSES] = {
    let mut sizes = [0; CLASSES];
    let (mut class, mut size) = (0, 0);
    while size < SLAB_LIMIT {
        size += WORD;
        if is_class(size) {
            sizes[class] = size as u32;
            class += 1;
        }
    }
    sizes
};

/// The class of each number of words.
static CLASS_OF: [u8; SLAB_LIMIT / WORD + 1] = {
    assert!(CLASSES <= 1 << u8::BITS);
    let mut class_of = [0; SLAB_LIMIT / WORD + 1];
    let (mut class, mut size) = (0, 0);
    while size < SLAB_LIMIT {
        size += WORD;
        class_of[size / WORD] = class as u8;
        class += is_class(size) as usize;
    }
    class_of
};

/// The size of the smallest class that holds `size` bytes: what a block of that size really takes.
#[inline]
#[must_use]
pub fn class_size(size: usize) -> usize {
    if size <= WORDS_LIMIT {
        size.next_multiple_of(WORD)
    } else if size <= SLAB_LIMIT {
        size_of_class(class_index(size))
    } else {
        size.next_multiple_of((1 << (size - 1).ilog2()) / LARGE_PER_DOUBLING)
    }
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

/// How many blocks of this size a page holds.
#[inline]
pub(super) const fn blocks_of(size: usize) -> usize {
    (page_size(size) - FIRST_BLOCK) / size
}

/// The number of the smallest class that holds `size` bytes, at least one.
#[inline]
pub(super) fn class_index(size: usize) -> usize {
    let words = size.div_ceil(WORD);
    if size <= WORDS_LIMIT { words - 1 } else { usize::from(CLASS_OF[words]) }
}

/// The size of a class by its number.
#[inline]
pub(super) fn size_of_class(class: usize) -> usize {
    SIZES[class] as usize
}

/// Whether a number of words is the size of a class.
const fn is_class(size: usize) -> bool {
    let longer = size + WORD;
    size <= WORDS_LIMIT
        || size == SLAB_LIMIT
        || page_kind(size) != page_kind(longer)
        || blocks_of(size) != blocks_of(longer)
        || is_table(size)
}

/// Whether a table may have so many bytes: cache lines, four numbers of them to a doubling.
const fn is_table(size: usize) -> bool {
    let lines = size / CACHE_LINE;
    size.is_multiple_of(CACHE_LINE) && lines.is_multiple_of(1 << (lines.ilog2() - 2))
}
