//! Whether the process ends.
//!
//! Invariant: what is asked for once is never taken back.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A wish to end, and the threads that wait for one.
#[derive(Default)]
pub struct ShutdownRequest {
    asked: AtomicBool,
    notify: Notify,
}

impl ShutdownRequest {
    /// The end has come: all that had to be done first is done.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Whether the end has come.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Waits until the end has come.
    pub async fn asked(&self) {
        while !self.is_asked() {
            self.notify.notified().await;
        }
    }
}
