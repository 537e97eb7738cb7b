//! Where entry blocks get their memory: size classes over the global allocator.
//!
//! Invariant: `free` is told the same size (up to its class) that `allocate` was.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

const WORD: usize = 8;

/// Up to this size the classes are words; above it there are eight classes a doubling.
const FINE_LIMIT: usize = 128;

/// The size of the smallest class that holds `size` bytes.
pub(super) fn class_size(size: usize) -> usize {
    let step = if size <= FINE_LIMIT { WORD } else { (1 << (size - 1).ilog2()) / 8 };
    size.next_multiple_of(step)
}

/// Room for `size` bytes, 8-byte aligned, uninitialised.
pub(super) fn allocate(size: usize) -> NonNull<u8> {
    let layout = layout_of(size);
    // SAFETY: the layout's size is not zero, since every block has a header.
    let memory = unsafe { alloc(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

/// # Safety
/// `memory` must come from [`allocate`] with a size of the same class, and be used no more.
pub(super) unsafe fn free(memory: NonNull<u8>, size: usize) {
    // SAFETY: the same class gives the same layout.
    unsafe { dealloc(memory.as_ptr(), layout_of(size)) };
}

fn layout_of(size: usize) -> Layout {
    Layout::from_size_align(class_size(size.max(WORD)), WORD)
        .expect("client limits keep blocks far below isize::MAX")
}

#[cfg(test)]
mod tests {
    use super::class_size;

    #[test]
    fn classes_hold_their_size_and_waste_at_most_an_eighth() {
        for size in 8..100_000 {
            let class = class_size(size);
            assert!(class >= size && class.is_multiple_of(8), "{size} -> {class}");
            assert!(size <= 128 || (class - size) * 8 < size, "{size} -> {class}");
            assert_eq!(class_size(class), class);
        }
    }
}
