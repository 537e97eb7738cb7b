//! What is asked of the processor ahead of time, so that waits for memory overlap.
//!
//! Invariant: a prefetch is a hint. A hint reads nothing, changes nothing, and any address will do.

use std::ops::Range;

/// Asks the processor to fetch a cache line, where the target has an instruction for it.
#[inline]
pub fn line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of every x86-64, and a prefetch of any address is harmless.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for a cache line that is to be written: other processors give it up.
#[inline]
pub fn line_to_write(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction changes neither memory nor registers nor flags, any address is
    // harmless, and processors that do not know it pass over it.
    unsafe {
        std::arch::asm!(
            "prefetchw [{}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for all lines that some bytes lie in.
#[inline]
pub fn bytes(bytes: &[u8]) {
    span(bytes.as_ptr(), 0..bytes.len());
}

/// Asks for all lines that bytes between two distances from a place lie in.
#[inline]
pub fn span(place: *const u8, range: Range<usize>) {
    lines(place, range).for_each(line);
}

/// As `span`, for bytes that are to be written.
#[inline]
pub fn span_to_write(place: *const u8, range: Range<usize>) {
    lines(place, range).for_each(line_to_write);
}

/// An address in each line that bytes between two distances from a place lie in.
#[inline]
fn lines(place: *const u8, Range { start, end }: Range<usize>) -> impl Iterator<Item = *const u8> {
    let first = place.wrapping_add(start);
    let within = first.addr() % LINE;
    let behind = if start < end { end + within } else { start };
    let address = move |offset| place.wrapping_add(offset).wrapping_sub(within);
    (start..behind).step_by(LINE).map(address)
}

/// Asks for all lines that a value lies in.
#[inline]
pub fn value<T>(value: &T) {
    let first = std::ptr::from_ref(value).cast::<u8>();
    line(first);
    line(first.wrapping_add(size_of::<T>().saturating_sub(1)));
}

const LINE: usize = 64;

/// A lookup of a member on its way to the member's item, for when there are several of them.
pub struct Seek<'a> {
    page: &'a dyn PrefetchTarget,
    hash: u64,
    /// What a step leaves for the next.
    place: usize,
}

/// A page that a lookup ends in.
pub(crate) trait PrefetchTarget {
    /// Asks for what a lookup reads next: at each step for that which can be told once what the
    /// steps before asked for has come.
    fn approach(&self, hash: u64, step: usize, place: &mut usize);
}

/// How many waits for memory stand behind each other in a page.
const STEPS: usize = 4;

impl<'a> Seek<'a> {
    pub(crate) fn new(page: &'a dyn PrefetchTarget, hash: u64) -> Seek<'a> {
        Seek { page, hash, place: 0 }
    }
}

/// Asks for all that some lookups will read, so that they wait together.
pub fn seek_together(seeks: &mut [Seek<'_>]) {
    for step in 0..STEPS {
        for Seek { page, hash, place } in &mut *seeks {
            page.approach(*hash, step, place);
        }
    }
}
