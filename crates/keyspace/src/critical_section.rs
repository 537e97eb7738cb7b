//! Critical sections: stretches in which memory is half changed, and the end of a process that must
//! not go on with what is in memory.
//!
//! Invariant: the reason is logged before the process ends. A panic in a critical section, where
//! tables, values in place, queues or locks are half changed, ends the process before anything
//! unwinds: what unwinding drops would be half changed, too.

use std::cell::Cell;

use crate::keyspace::Keyspace;

/// Logs why the process ends.
pub(crate) type AbortHook = Box<dyn Fn(&str) + Send + Sync>;

thread_local! {
    /// How many critical sections this thread is in.
    static CRITICAL_SECTIONS: Cell<u32> = const { Cell::new(0) };
}

/// From `begin` to `end` memory is half changed; a panic between them ends the process.
#[must_use]
pub(crate) struct CriticalSection(());

impl CriticalSection {
    #[inline]
    pub(crate) fn begin() -> Self {
        CRITICAL_SECTIONS.set(CRITICAL_SECTIONS.get() + 1);
        Self(())
    }

    #[inline]
    pub(crate) fn end(self) {
        CRITICAL_SECTIONS.set(CRITICAL_SECTIONS.get() - 1);
        std::mem::forget(self);
    }
}

/// For a panic whose hook has not looked at `in_critical_section`.
impl Drop for CriticalSection {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Whether this thread is changing something that a panic would leave half changed: for the hook
/// that is told of panics, which then ends the process.
#[must_use]
pub fn in_critical_section() -> bool {
    CRITICAL_SECTIONS.get() > 0
}

impl Keyspace {
    /// Sets what logs why the process ends; called once.
    pub fn set_abort_hook(&self, say: impl Fn(&str) + Send + Sync + 'static) {
        let first = self.abort_hook.set(Box::new(say)).is_ok();
        assert!(first, "one process ends once");
    }

    /// Ends the process, which must not go on with what is in memory.
    #[cold]
    pub fn abort(&self, why: &str) -> ! {
        if let Some(say) = self.abort_hook.get() {
            say(why);
        }
        std::process::abort();
    }
}
