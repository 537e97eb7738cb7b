//! The memory in use, and how far the work is that keeps it small: eviction, expiry,
//! defragmentation, the renewal of access clocks.
//!
//! Invariant: what frees memory stands in `reclaim`; this is the state between its turns.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use base::time::UnixMillis;
use keyspace::Keyspace;

use crate::clients::client_margin::ClientMemoryMargin;
use crate::limits::budget::Budget;
use crate::limits::clock_renewal_state::ClockRenewal;
use crate::limits::defrag_state::DefragState;
use crate::limits::eviction_observer::EvictionObserver;

/// The memory in use, and the work that keeps it small.
pub struct MemoryState {
    /// The memory in use, against `maxmemory`.
    pub budget: Budget,
    /// The most memory that was seen in use.
    pub peak: PeakMemory,
    /// What is known of the memory of all clients.
    pub(crate) client_margin: ClientMemoryMargin,
    /// The state of active defragmentation.
    pub defrag: DefragState,
    pub(crate) clock_renewal: ClockRenewal,
    /// `DEBUG SET-ACTIVE-EXPIRE`.
    active_expiry: AtomicBool,
    /// Set before the first client comes.
    eviction_observer: OnceLock<&'static dyn EvictionObserver>,
}

/// The most memory that was seen to be used.
pub struct PeakMemory {
    bytes: AtomicUsize,
    /// When that was, in Unix seconds.
    time: AtomicI64,
}

impl MemoryState {
    pub(crate) fn new(keyspace: &Keyspace) -> Self {
        Self {
            budget: Budget::default(),
            peak: PeakMemory::new(keyspace),
            client_margin: ClientMemoryMargin::default(),
            defrag: DefragState::default(),
            clock_renewal: ClockRenewal::default(),
            active_expiry: AtomicBool::new(true),
            eviction_observer: OnceLock::new(),
        }
    }

    /// The observer that books and tells evictions, if there is one.
    pub(crate) fn eviction_observer(&self) -> Option<&'static dyn EvictionObserver> {
        self.eviction_observer.get().copied()
    }

    /// Has evictions booked and told; once.
    pub fn set_eviction_observer(&self, observer: &'static dyn EvictionObserver) {
        let _ = self.eviction_observer.set(observer);
    }

    /// Whether an operator lets expired keys be looked for.
    pub(crate) fn allows_active_expiry(&self) -> bool {
        self.active_expiry.load(Ordering::Relaxed)
    }

    /// `DEBUG SET-ACTIVE-EXPIRE`.
    pub fn set_active_expiry(&self, on: bool) {
        self.active_expiry.store(on, Ordering::Relaxed);
    }
}

impl PeakMemory {
    fn new(keyspace: &Keyspace) -> Self {
        let peak = Self { bytes: AtomicUsize::new(0), time: AtomicI64::new(0) };
        peak.record(keyspace.memory(), keyspace.clock().now_ms());
        peak
    }

    /// Looks whether more memory is used than ever; to be called now and then.
    pub fn record(&self, used: usize, now: UnixMillis) {
        if self.bytes.fetch_max(used, Ordering::Relaxed) < used {
            self.time.store(now / 1000, Ordering::Relaxed);
        }
    }

    /// The peak, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// When the peak was reached, in Unix seconds.
    pub fn time(&self) -> i64 {
        self.time.load(Ordering::Relaxed)
    }
}
