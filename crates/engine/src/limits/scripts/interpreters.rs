//! What the interpreters of all threads take, and which of them are to be dropped.
//!
//! Invariant: an interpreter is its thread's; here are the figures that others read of it, and the
//! mark that it is stale.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// What an interpreter takes in bytes, as of its last run.
#[derive(Default)]
pub(crate) struct InterpreterMemory {
    pub(crate) all: AtomicUsize,
    /// What libraries took of it when they were loaded.
    pub(crate) libraries: AtomicUsize,
    /// Whether the interpreter holds what is there no more.
    pub(crate) is_stale: AtomicBool,
}

/// What the interpreters of all threads take.
#[derive(Default)]
pub struct Interpreters(Mutex<InterpreterList>);

#[derive(Default)]
struct InterpreterList {
    all: Vec<Weak<InterpreterMemory>>,
    /// How often scripts and libraries had gone at the last look.
    seen: (u64, u64),
}

impl Interpreters {
    /// Enters the interpreter of a thread.
    pub(crate) fn add(&self) -> Arc<InterpreterMemory> {
        let memory = Arc::default();
        let mut roster = self.lock();
        // Those of threads that are over.
        roster.all.retain(|one| one.strong_count() > 0);
        roster.all.push(Arc::downgrade(&memory));
        memory
    }

    /// Marks all as stale if anything went since the last look; whether it did. One that runs
    /// before it is dropped forgets what is gone, and stays.
    pub(crate) fn note_losses(&self, present: (u64, u64)) -> bool {
        let mut roster = self.lock();
        let is_new = std::mem::replace(&mut roster.seen, present) != present;
        if is_new {
            let all = roster.all.iter().filter_map(Weak::upgrade);
            all.for_each(|one| one.is_stale.store(true, Ordering::Relaxed));
        }
        is_new
    }

    /// Their memory in bytes, and what libraries take of it.
    pub fn memory(&self) -> (usize, usize) {
        let roster = self.lock();
        let each =
            roster.all.iter().filter_map(Weak::upgrade).map(|one| {
                (one.all.load(Ordering::Relaxed), one.libraries.load(Ordering::Relaxed))
            });
        each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    fn lock(&self) -> MutexGuard<'_, InterpreterList> {
        self.0.lock().expect("no critical section here panics")
    }
}
