//! Panics are bugs: each is counted and told once, with its place.
//!
//! Invariant: the hook neither panics nor waits for anything but the log.

use std::panic::PanicHookInfo;
use std::sync::atomic::Ordering;

use crate::log::log_warning;
use crate::server::Server;

/// Makes panics of all threads known to the server.
pub(crate) fn watch(server: &'static Server) {
    std::panic::set_hook(Box::new(move |panic| note(server, panic)));
}

fn note(server: &Server, panic: &PanicHookInfo<'_>) {
    server.stats.panics.fetch_add(1, Ordering::Relaxed);
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no message");
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("?");
    match panic.location() {
        Some(place) => log_warning!(server.log, "Thread {thread} panicked at {place}: {text}"),
        None => log_warning!(server.log, "Thread {thread} panicked at an unknown place: {text}"),
    }
}
