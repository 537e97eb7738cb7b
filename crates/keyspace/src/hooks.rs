//! What the keyspace asks of its server: what is told of a flush, how far the journal is, how long
//! a thread waits.
//!
//! Invariant: each is named once, before anybody runs a transaction; one that nobody names asks for
//! nothing.

use std::sync::OnceLock;

use crate::keyspace::Keyspace;
use crate::local_deadlines::LocalDeadlines;
use crate::lock::partition::Lsn;
use crate::patience::{WaitReason, WaitsOn};

/// The answers' sources, each named once.
#[derive(Default)]
pub(crate) struct Hooks {
    flush_hook: OnceLock<Box<dyn Fn() + Send + Sync>>,
    local_deadlines: LocalDeadlines,
    journal_end: OnceLock<Box<dyn Fn() -> Lsn + Send + Sync>>,
    waits_on: OnceLock<Box<WaitsOn>>,
}

impl Keyspace {
    /// Sets what is called when a client has had everything removed; once.
    pub fn set_flush_hook(&self, hook: impl Fn() + Send + Sync + 'static) {
        let first = self.hooks().flush_hook.set(Box::new(hook)).is_ok();
        assert!(first, "one process has one hook");
    }

    /// A client has everything removed, while the world is stopped.
    pub(crate) fn note_flush(&self) {
        if let Some(hook) = self.hooks().flush_hook.get() {
            hook();
        }
    }

    /// Deadlines that its own clients set where a primary says when keys go.
    pub fn local_deadlines(&self) -> &LocalDeadlines {
        &self.hooks().local_deadlines
    }

    /// Takes the function that knows how far the journal has been written, or that it has no reader
    /// (0); called once.
    pub fn set_journal_end(&self, end: impl Fn() -> Lsn + Send + Sync + 'static) {
        let first = self.hooks().journal_end.set(Box::new(end)).is_ok();
        assert!(first, "one process has one journal");
    }

    /// The LSN behind all that is in the journal now; 0 where nobody reads it.
    pub(crate) fn journal_end(&self) -> Lsn {
        self.hooks().journal_end.get().map_or(0, |end| end())
    }

    /// Says how long threads wait for what others hold while a client waits for them; called once.
    pub fn set_patience(
        &self,
        waits_on: impl Fn(WaitReason<'_>, i64) -> bool + Send + Sync + 'static,
    ) {
        let first = self.hooks().waits_on.set(Box::new(waits_on)).is_ok();
        assert!(first, "one process has one kind of patience");
    }

    pub(crate) fn waits_on(&self) -> Option<&WaitsOn> {
        self.hooks().waits_on.get().map(|waits_on| &**waits_on)
    }
}
