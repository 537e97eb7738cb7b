//! Work of a clock that waits for locks, at most one at a time.
//!
//! Invariant: however long keys are held, such work keeps one thread from others, and no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Background;

/// Whether such work is under way.
#[derive(Clone, Debug, Default)]
pub struct SoleVisit(Arc<AtomicBool>);

impl SoleVisit {
    /// Begins work on the thread of a lane; `false` while what was begun before is under way.
    pub fn begin(
        &self,
        background: &Background,
        work: impl FnOnce(usize) + Send + 'static,
    ) -> bool {
        if self.0.swap(true, Ordering::Acquire) {
            return false;
        }
        let end = EndOfVisit(self.clone());
        background.spawn_visit(move |lane| {
            let _end = end;
            work(lane);
        });
        true
    }
}

/// Says that the work is over, also where it panicked or was never begun.
struct EndOfVisit(SoleVisit);

impl Drop for EndOfVisit {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}
