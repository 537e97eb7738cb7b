//! Panics are bugs: where one may be contained, and where it may not.
//!
//! Invariant: a panic in what cannot be half done ends the process, which says why.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use keyspace::Keyspace;

thread_local! {
    /// How many on the stack contain a panic.
    static CONTAINED: Cell<u32> = const { Cell::new(0) };
}

/// Runs what may panic at the cost of the client that it runs for: the error is the panic.
pub fn contain<T>(work: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    CONTAINED.set(CONTAINED.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(work));
    CONTAINED.set(CONTAINED.get() - 1);
    result
}

/// A stretch that cannot be half done: a panic in it ends the process, which says why.
pub struct AbortOnPanic(&'static Keyspace, &'static str);

impl AbortOnPanic {
    /// Begins what no panic may leave half done; `why` goes to the log.
    pub fn begin(keyspace: &'static Keyspace, why: &'static str) -> Self {
        Self(keyspace, why)
    }

    /// Ends the stretch, complete.
    pub fn end(self) {
        std::mem::forget(self);
    }
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        self.0.abort(self.1);
    }
}

/// Whether something on this thread's stack contains a panic.
pub fn is_contained() -> bool {
    CONTAINED.get() > 0
}

/// What a panic says.
pub fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message")
}
