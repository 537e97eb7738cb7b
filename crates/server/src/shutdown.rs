//! Ending the process: by signal or by command, once.
//!
//! Invariant: whoever asks, the reception alone ends the process, after what must be done first.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A wish to end, and who waits for one.
#[derive(Default)]
pub(crate) struct Shutdown {
    asked: AtomicBool,
    notify: Notify,
}

impl Shutdown {
    /// Asks the process to end.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Whether somebody has asked.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Waits until somebody asks.
    pub(crate) async fn asked(&self) {
        while !self.is_asked() {
            self.notify.notified().await;
        }
    }
}
