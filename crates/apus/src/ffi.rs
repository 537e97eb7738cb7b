//! The edge to mimalloc, beyond what Rust asks of an allocator.
//!
//! Invariant: nothing here takes or gives a pointer.
#![allow(unsafe_code)]

unsafe extern "C" {
    fn mi_collect(force: bool);
}

/// Has mimalloc give back what the calling thread holds and nobody uses.
pub(crate) fn give_back() {
    // SAFETY: mimalloc is linked, as the allocator of the process, and this may be called at any
    // time: it looks at the thread's own pages and at those of threads that are gone.
    unsafe { mi_collect(true) };
}
