//! The synchronisation primitives of `lock` and `world`, so that shuttle can replace them.
//!
//! Invariant: these two modules take their atomics and mutexes from here and nowhere else.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{Arc, Mutex, MutexGuard, atomic},
};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::{
    hint::spin_loop,
    sync::{Arc, Mutex, MutexGuard, atomic},
};

/// Locks a mutex whose critical sections cannot panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no critical section of this crate panics")
}

/// Gives other threads a moment, where a thread may wait.
pub(crate) fn pause() {
    #[cfg(not(feature = "shuttle"))]
    std::thread::sleep(std::time::Duration::from_micros(50));
    #[cfg(feature = "shuttle")]
    shuttle::thread::yield_now();
}
