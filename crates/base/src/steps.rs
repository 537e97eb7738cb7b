//! Steps, counted for tests: how much of a structure an operation looks at, on any machine.
//!
//! Invariant: where debug assertions are off nothing is counted, and to take a step costs nothing.

#[cfg(debug_assertions)]
use std::cell::Cell;

#[cfg(debug_assertions)]
thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// Takes a step: a node of a tree, an element of a listpack, a partition is looked at.
#[inline]
pub fn step() {
    #[cfg(debug_assertions)]
    TAKEN.with(|taken| taken.set(taken.get() + 1));
}

/// The steps that this thread has taken; `None` where they are not counted.
#[must_use]
pub fn taken() -> Option<u64> {
    #[cfg(debug_assertions)]
    return Some(TAKEN.with(Cell::get));
    #[cfg(not(debug_assertions))]
    None
}
