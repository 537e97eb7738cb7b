//! The edge to mimalloc, beyond what Rust asks of an allocator, and to what the standard library
//! does before `main`.
//!
//! Invariant: nothing here takes or gives a pointer.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};

/// The number of `mi_option_purge_delay`, and what it is unless it is set, in milliseconds.
const PURGE_DELAY: c_int = 15;
const USUAL_DELAY: c_long = 10;

unsafe extern "C" {
    fn mi_collect(force: bool);
    fn mi_option_get(option: c_int) -> c_long;
    fn mi_option_set(option: c_int, value: c_long);
    #[cfg(test)]
    fn mi_good_size(size: usize) -> usize;
}

/// The signals by which a thread learns that its stack is used up, and what becomes of them: the
/// numbers are those of all machines that Linux runs on.
const FAULTS: [c_int; 2] = [11, 7];
const DEFAULT: usize = 0;
const IGNORED: usize = 1;

unsafe extern "C" {
    fn signal(number: c_int, handler: usize) -> usize;
}

/// Runs before the standard library looks, which gives each thread a second stack, to say on it
/// that the first one is used up; and has a thread that gets none end the process. The library
/// gives none where somebody else heeds these signals. So a thread that begins needs no memory but
/// its stack, which the starting thread is told of; one that uses up its stack still ends the
/// process, by the signal.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn keep_second_stacks_away() {
        set_faults(IGNORED);
    }
    keep_second_stacks_away
};

/// What the signals do from `main` on.
pub(crate) fn restore_fault_signals() {
    set_faults(DEFAULT);
}

fn set_faults(action: usize) {
    for number in FAULTS {
        // SAFETY: both actions are the kernel's own, and no code of ours runs by them.
        unsafe { signal(number, action) };
    }
}

/// Has mimalloc give back what the calling thread holds and nobody uses.
pub(crate) fn purge() {
    // SAFETY: mimalloc is linked, as the allocator of the process, and these may be called at any
    // time: a collection looks at the thread's own pages and at those of threads that are gone, and
    // the option is a word.
    unsafe {
        mi_collect(true);
        // What was put off to be given back, also by the collection before, is given back by the
        // next one, and only if things may be put off at all.
        let delay = mi_option_get(PURGE_DELAY);
        if delay == 0 {
            mi_option_set(PURGE_DELAY, USUAL_DELAY);
        }
        mi_collect(true);
        if delay == 0 {
            mi_option_set(PURGE_DELAY, delay);
        }
    }
}

/// Whether mimalloc gives back at once what becomes free, or keeps it for some milliseconds.
pub(crate) fn purge_at_once(yes: bool) {
    let delay = if yes { 0 } else { USUAL_DELAY };
    // SAFETY: the option is one of mimalloc's, and may be set at any time: an option is a word that
    // is read wherever something becomes free.
    unsafe { mi_option_set(PURGE_DELAY, delay) };
}

#[cfg(test)]
mod tests {
    use server::taken;

    use super::mi_good_size;

    #[test]
    fn what_is_counted_is_what_mimalloc_takes() {
        for size in 1..300_000 {
            // SAFETY: the function only computes.
            assert_eq!(taken(size), unsafe { mi_good_size(size) }, "{size}");
        }
    }
}
