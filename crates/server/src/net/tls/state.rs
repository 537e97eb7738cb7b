//! What new encrypted connections begin with, for as long as the directives say so, and figures of
//! those that were begun.
//!
//! Invariant: a handshake that has begun by one context ends by it; a new one is for clients that
//! come after.

use std::io;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use tls::Contexts;
use tls::contexts::FileState;

use super::handshakes::{Arrival, HandshakeThreads};

/// The encrypted connections of a server.
#[derive(Default)]
pub(crate) struct Tls {
    contexts: RwLock<Option<Arc<Contexts>>>,
    changed_us: AtomicI64,
    threads: OnceLock<HandshakeThreads>,
    /// What the clock looks at.
    pub(crate) watch: Mutex<FileWatch>,
    pub(crate) counters: TlsCounters,
}

/// When the files of certificates were looked at, and what they were like then.
#[derive(Default)]
pub(crate) struct FileWatch {
    pub(crate) looked_us: i64,
    pub(crate) seen: Option<FileState>,
}

/// Figures of handshakes.
#[derive(Default)]
pub(crate) struct TlsCounters {
    pub(crate) full: AtomicU64,
    pub(crate) resumed: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// Those that took too long.
    pub(crate) timed_out: AtomicU64,
    /// Those that went for younger ones.
    pub(crate) displaced: AtomicU64,
}

impl Tls {
    /// Has new connections begin with something else, from this time of the monotonic clock on.
    pub(crate) fn change(&self, contexts: Option<Arc<Contexts>>, now_us: i64) {
        self.changed_us.store(now_us, Ordering::Relaxed);
        *self.contexts.write().unwrap_or_else(PoisonError::into_inner) = contexts;
    }

    /// Since when new connections begin with what they begin with.
    pub(crate) fn changed_us(&self) -> i64 {
        self.changed_us.load(Ordering::Relaxed)
    }

    /// What new connections begin with, if any are to be encrypted.
    pub(crate) fn contexts(&self) -> Option<Arc<Contexts>> {
        self.contexts.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts the threads of handshakes where they do not run yet.
    pub(crate) fn begin(&'static self, workers: usize) -> io::Result<()> {
        if self.threads.get().is_none() {
            // One at a time changes the configuration, and before nobody does.
            let _ = self.threads.set(HandshakeThreads::begin(&self.counters, workers)?);
        }
        Ok(())
    }

    /// Has a handshake begin, unless nothing is encrypted here or too many wait: whether it will.
    pub(crate) fn begin_handshake(&self, arrival: Arrival) -> bool {
        self.threads.get().is_some_and(|threads| threads.take(arrival))
    }

    /// How many connections have a handshake under way, or are about to begin or to be closed.
    pub(crate) fn half_open(&self) -> usize {
        self.threads.get().map_or(0, HandshakeThreads::half_open)
    }
}

impl TlsCounters {
    /// Handshakes that came to nothing.
    pub(crate) fn errors(&self) -> u64 {
        let Self { failed, timed_out, displaced, .. } = self;
        [failed, timed_out, displaced].iter().map(|it| it.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
