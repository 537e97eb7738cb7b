//! Panics are bugs: each is counted and told once, with its place.
//!
//! Invariants: the hook neither panics nor waits for anything but the log; a panic that nothing
//! contains, that comes half way in a change of memory, or that found a lock left half way by
//! another, ends the process, which would go on without something that it cannot do without.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::atomic::Ordering;

use keyspace::{Keyspace, in_critical_section};

use crate::log::log_warning;
use crate::server::Server;

thread_local! {
    /// How many on the stack contain a panic.
    static CONTAINED: Cell<u32> = const { Cell::new(0) };
}

/// Runs what may panic at the cost of whom it runs for: the error is the panic.
pub(crate) fn contain<T>(work: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    CONTAINED.set(CONTAINED.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(work));
    CONTAINED.set(CONTAINED.get() - 1);
    result
}

/// A stretch that cannot be half done: a panic in it ends the process, which says why.
pub(crate) struct Unbroken(&'static Keyspace, &'static str);

impl Unbroken {
    pub(crate) fn begin(keyspace: &'static Keyspace, why: &'static str) -> Self {
        Self(keyspace, why)
    }

    pub(crate) fn end(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unbroken {
    fn drop(&mut self) {
        self.0.abort(self.1);
    }
}

/// Makes panics of all threads known to the server.
pub(crate) fn watch(server: &'static Server) {
    std::panic::set_hook(Box::new(move |panic| note(server, panic)));
}

/// What a panic says.
pub(crate) fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message")
}

fn note(server: &Server, panic: &PanicHookInfo<'_>) {
    server.stats.panics.fetch_add(1, Ordering::Relaxed);
    let text = text_of(panic.payload());
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("?");
    match panic.location() {
        Some(place) => log_warning!(server.log, "Thread {thread} panicked at {place}: {text}"),
        None => log_warning!(server.log, "Thread {thread} panicked at an unknown place: {text}"),
    }
    if in_critical_section() {
        server.keyspace.abort("a change of the data failed half way");
    }
    // What `expect` says of a lock whose holder panicked.
    if text.contains("PoisonError") {
        server.keyspace.abort("a panic left a lock half way");
    }
    if CONTAINED.get() == 0 {
        server.keyspace.abort("a part that it cannot do without has panicked");
    }
}
