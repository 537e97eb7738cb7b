//! What is known of the memory of all clients between two looks at them.
//!
//! Invariant: clients that are large grow by no more than was left at the last look, or by as much
//! as one large client has, before somebody is told to look again.

use std::sync::atomic::{AtomicI64, Ordering};

/// A session with this much in its buffers says by how much they grow and shrink; all of them may
/// grow by as much before all clients are looked at again, however little is left.
pub(crate) const LARGE: u64 = 64 * 1024;

/// What is known between two looks at all clients.
#[derive(Default)]
pub(crate) struct ClientMemoryMargin {
    /// By how much large clients have grown since the last look.
    grown: AtomicI64,
    /// What was left then.
    left: AtomicI64,
}

impl ClientMemoryMargin {
    /// Large clients have grown, or have shrunk; whether that may be too much.
    pub(crate) fn record(&self, change: i64) -> bool {
        let grown = self.grown.fetch_add(change, Ordering::Relaxed) + change;
        change > 0 && grown > self.left.load(Ordering::Relaxed)
    }

    /// A look begins.
    pub(crate) fn begin(&self) {
        self.grown.store(0, Ordering::Relaxed);
    }

    /// So much is left of the limit.
    pub(crate) fn end(&self, left: usize) {
        let left = i64::try_from(left).unwrap_or(i64::MAX).max(LARGE.cast_signed());
        self.left.store(left, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientMemoryMargin, LARGE};

    #[test]
    fn clients_are_looked_at_once_they_outgrow_the_margin() {
        let margin = ClientMemoryMargin::default();
        let large = LARGE.cast_signed();
        assert!(margin.record(large), "nothing is known");
        margin.begin();
        margin.end(10 * LARGE as usize);
        assert!((0..10).all(|_| !margin.record(large)));
        assert!(!margin.record(-large) && !margin.record(large), "one shrinks, another one grows");
        assert!(margin.record(1));
        assert!(!margin.record(-1), "what shrinks is no reason");
        margin.begin();
        margin.end(0);
        assert!(
            (0..LARGE).all(|_| !margin.record(1)),
            "who may stay beyond the limit grows slowly"
        );
        assert!(margin.record(1));
    }
}
