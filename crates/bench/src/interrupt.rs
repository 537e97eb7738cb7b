//! SIGINT and SIGTERM: the first ends the run and has it reported, the second ends the process.
//! Invariant: a run that a signal ended says so in every form of its report.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From here on a signal ends the run rather than the process.
pub(crate) fn listen() {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        // In this order: the second signal finds the flag set and ends the process.
        let ends = flag::register_conditional_default(signal, Arc::clone(asked));
        // A process that cannot listen ends at the first.
        let _ = ends.and_then(|_| flag::register(signal, Arc::clone(asked)));
    }
}

/// Whether a signal has asked for the end.
pub(crate) fn is_asked() -> bool {
    ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed))
}
