//! The memory that the kernel laid the arguments and the environment down in.
//!
//! Invariant: an `ArgvMemory` is written within its range only, and ends with a NUL byte.
#![allow(unsafe_code)]

use std::ops::Range;
use std::ptr;

/// The arguments of this process where the kernel laid them down: what `ps` shows.
pub(super) struct ArgvMemory {
    range: Range<usize>,
}

impl ArgvMemory {
    /// The arguments' memory, and the environment's behind it if that was copied.
    pub(super) fn new(range: Range<usize>) -> Self {
        Self { range }
    }

    /// Fills the memory with these bytes, as far as there is room, and zeros.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        let room = self.range.end - self.range.start;
        let shown = &bytes[..bytes.len().min(room - 1)];
        let start = ptr::with_exposed_provenance_mut::<u8>(self.range.start);
        // SAFETY: the kernel says that the arguments of this process lie there, and what lay there
        // was compared with them; they stay mapped, and may be written, as part of the main
        // thread's stack. Rust's copies were made when there was one thread, and a later look at
        // the arguments reads bytes that still end with a NUL.
        unsafe {
            ptr::copy(shown.as_ptr(), start, shown.len());
            ptr::write_bytes(start.add(shown.len()), 0, room - shown.len());
        }
    }
}

/// Sets each variable of the environment to what it is: the C library then keeps a copy.
pub(super) fn copy_environment() {
    for (name, value) in super::variables() {
        // SAFETY: the caller has seen that this thread is the only one.
        unsafe { std::env::set_var(name, value) };
    }
}
