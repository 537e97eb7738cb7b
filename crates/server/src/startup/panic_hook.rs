//! What is done about a panic, on whatever thread: each panic is counted and told once, with its
//! place.
//!
//! Invariants: the hook neither panics nor waits for anything but the log; a panic that nothing
//! contains, that comes half way in a change of memory, or that found a lock left half way by
//! another, ends the process, which would go on without something that it cannot do without.

use std::panic::PanicHookInfo;
use std::sync::atomic::Ordering;

use engine::runtime::log::log_warning;
use engine::runtime::panics::{is_contained, text_of};
use engine::shared::Shared;
use keyspace::in_critical_section;

/// Makes panics of all threads known to the server.
pub(crate) fn watch(server: &'static Shared) {
    std::panic::set_hook(Box::new(move |panic| log_panic(server, panic)));
}

fn log_panic(server: &Shared, panic: &PanicHookInfo<'_>) {
    server.observed.stats.panics.fetch_add(1, Ordering::Relaxed);
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
    if !is_contained() {
        server.keyspace.abort("a part that it cannot do without has panicked");
    }
}
