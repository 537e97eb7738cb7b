//! The end of a process that must not go on with what is in memory.
//!
//! Invariant: the reason is told before the process ends. A panic while tables, values in place,
//! queues or locks are half changed ends it before anything unwinds: what unwinding drops would be
//! half changed, too.

use std::cell::Cell;

use crate::keyspace::Keyspace;

/// Says why the process ends.
pub(crate) type LastWords = Box<dyn Fn(&str) + Send + Sync>;

thread_local! {
    /// How many stretches this thread is in.
    static HALFWAY: Cell<u32> = const { Cell::new(0) };
}

/// A stretch in which memory is half changed, from `begin` to `end`.
#[must_use]
pub(crate) struct Halfway(());

impl Halfway {
    #[inline]
    pub(crate) fn begin() -> Self {
        HALFWAY.set(HALFWAY.get() + 1);
        Self(())
    }

    #[inline]
    pub(crate) fn end(self) {
        HALFWAY.set(HALFWAY.get() - 1);
        std::mem::forget(self);
    }
}

/// Where nobody has looked at `is_halfway` when the panic began.
impl Drop for Halfway {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Whether this thread is changing something that a panic would leave half changed: for the hook
/// that is told of panics, which then ends the process.
#[must_use]
pub fn is_halfway() -> bool {
    HALFWAY.get() > 0
}

impl Keyspace {
    /// Names who says why the process ends; called once.
    pub fn set_last_words(&self, say: impl Fn(&str) + Send + Sync + 'static) {
        let first = self.last_words.set(Box::new(say)).is_ok();
        assert!(first, "one process ends once");
    }

    /// Ends the process, which must not go on with what is in memory.
    #[cold]
    pub fn ruin(&self, why: &str) -> ! {
        if let Some(say) = self.last_words.get() {
            say(why);
        }
        std::process::abort();
    }
}
