//! SIGINT: ends what runs, and where commands are typed not the client.
//!
//! Invariant: a signal is seen once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From here on a signal ends what runs rather than the process.
pub(crate) fn listen() {
    let asked = ASKED.get_or_init(Arc::default);
    // A process that cannot listen ends at the signal.
    let _ = flag::register(SIGINT, Arc::clone(asked));
}

/// Whether a signal has come since this was asked last.
pub(crate) fn was_asked() -> bool {
    ASKED.get().is_some_and(|asked| asked.swap(false, Ordering::Relaxed))
}
