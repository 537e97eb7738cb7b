//! Steps, for tests: how much of a structure an operation looks at, counted alike on any machine;
//! and the step at which it panics, where a failpoint asks for that.
//!
//! Invariant: where debug assertions are off nothing is counted, nothing panics, and to take a step
//! costs nothing.

#[cfg(debug_assertions)]
use std::cell::Cell;
#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(debug_assertions)]
thread_local! {
    /// The steps that this thread has taken.
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// How many steps from now the failpoint strikes; 0 if none is armed.
#[cfg(debug_assertions)]
static FAILPOINT: AtomicU64 = AtomicU64::new(0);

/// Takes a step: a node of a tree, an element of a listpack, a partition is looked at; or something
/// is about to change.
#[inline]
pub fn step() {
    #[cfg(debug_assertions)]
    {
        TAKEN.with(|taken| taken.set(taken.get() + 1));
        if FAILPOINT.load(Ordering::Relaxed) > 0 {
            approach();
        }
    }
}

/// The steps that this thread has taken; `None` where they are not counted.
#[must_use]
pub fn taken() -> Option<u64> {
    #[cfg(debug_assertions)]
    return Some(TAKEN.with(Cell::get));
    #[cfg(not(debug_assertions))]
    None
}

/// Arms a failpoint: the step of this number from now on panics, of whichever thread; 0 for none.
/// Whether a failpoint was armed before that has not struck.
#[cfg(debug_assertions)]
pub fn arm(number: u64) -> bool {
    FAILPOINT.swap(number, Ordering::Relaxed) > 0
}

#[cfg(debug_assertions)]
#[cold]
fn approach() {
    let count = |left: u64| left.checked_sub(1);
    let before = FAILPOINT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
    assert!(before != Ok(1), "failpoint: a step");
}
