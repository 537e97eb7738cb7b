//! The system call that tells what the system counts.
//!
//! Invariant: what it did not tell is never read.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// The figures of the process, its children or the calling thread, by the system's numbers.
pub(super) fn usage(whose: libc::c_int) -> Option<libc::rusage> {
    let mut usage = MaybeUninit::uninit();
    // SAFETY: the kernel writes one structure behind the pointer, and returns 0 once it has.
    let is_told = unsafe { libc::getrusage(whose, usage.as_mut_ptr()) == 0 };
    // SAFETY: the structure was written as a whole.
    is_told.then(|| unsafe { usage.assume_init() })
}
