//! Whether data are loaded now, and how far that is.
//!
//! Invariant: while a load is on, no command sees or changes data but the loader's own.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use base::Clock;
use commands::Flags;
use keyspace::Refusal;

use crate::runtime::log::{Log, log_notice};
use crate::table::flag_set::FlagSet;

/// What a client gets that comes too early.
pub const LOADING: Refusal = Refusal::error("LOADING Redis is loading the dataset in memory");

/// Between two lines in the log, in microseconds.
const REPORT_US: i64 = 5_000_000;

/// Whether data are loaded, and how far that is.
#[derive(Default)]
pub struct Loading {
    is_on: AtomicBool,
    /// Whether that is the start's: then it goes on beside commands, without the world.
    is_of_start: AtomicBool,
    /// Whether data are loaded beside those that are served.
    is_beside: AtomicBool,
    /// In Unix milliseconds.
    started: AtomicI64,
    total_bytes: AtomicU64,
    loaded_bytes: AtomicU64,
    /// Memory that the data took where the file was written.
    pub used_memory: AtomicU64,
    /// Keys of the last snapshot that were loaded, and that were over by then.
    pub keys: AtomicU64,
    /// Keys of the last snapshot that were left out, as their time was over.
    pub expired: AtomicU64,
    /// When the log was told last, on the monotonic clock.
    reported_us: AtomicI64,
}

/// How far loading is.
pub struct Progress {
    /// When loading began, in Unix seconds.
    pub started: i64,
    /// The size of the files that are loaded.
    pub total_bytes: u64,
    /// Memory that the data took where the file was written, in bytes.
    pub used_memory: u64,
    /// How many bytes of the files were read.
    pub loaded_bytes: u64,
    /// `loaded_bytes` of `total_bytes`, in percent.
    pub percent: f64,
    /// How long the rest takes at the rate so far.
    pub seconds_left: u64,
}

impl Loading {
    /// Whether data are loaded now.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Whether the server is still loading what it starts with. No command may put other data in
    /// their place, nor write what is there over a file: the data are a part.
    pub fn is_of_start(&self) -> bool {
        self.is_of_start.load(Ordering::Acquire)
    }

    /// Whether data are loaded beside those that are served (`async_loading`).
    pub fn is_beside(&self) -> bool {
        self.is_beside.load(Ordering::Relaxed)
    }

    /// LOADING: whether commands with these flags are refused, all of them.
    #[inline]
    pub(crate) fn refuses(&self, flags: impl FnOnce() -> FlagSet) -> bool {
        (self.is_on() || self.is_beside()) && self.is_in_the_way_of(flags())
    }

    #[cold]
    fn is_in_the_way_of(&self, flags: FlagSet) -> bool {
        self.is_on() && !flags.all.has(Flags::LOADING)
            || self.is_beside() && flags.any.has(Flags::NO_ASYNC_LOADING)
    }

    /// Data are loaded beside those that are served, or no more.
    pub fn set_beside(&self, is_beside: bool) {
        self.is_beside.store(is_beside, Ordering::Relaxed);
    }

    /// Keys of the last snapshot that were loaded, and how many were not as their time was over.
    pub fn last(&self) -> (u64, u64) {
        (self.keys.load(Ordering::Relaxed), self.expired.load(Ordering::Relaxed))
    }

    /// How far it is, while it goes on.
    pub fn progress(&self, clock: &Clock) -> Option<Progress> {
        if !self.is_on() {
            return None;
        }
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let (total_bytes, loaded_bytes) = (load(&self.total_bytes), load(&self.loaded_bytes));
        let started = self.started.load(Ordering::Relaxed);
        let elapsed = clock.now_ms().abs_diff(started);
        let left = total_bytes.saturating_sub(loaded_bytes);
        let millis_left = u128::from(elapsed) * u128::from(left) / u128::from(loaded_bytes.max(1));
        Some(Progress {
            started: started / 1000,
            total_bytes,
            used_memory: load(&self.used_memory),
            loaded_bytes,
            percent: loaded_bytes as f64 * 100.0 / total_bytes.max(1) as f64,
            seconds_left: u64::try_from(millis_left / 1000).unwrap_or(u64::MAX),
        })
    }

    /// Loading begins at the start of the server, when no client is served before its end.
    pub fn begin_start(&self, clock: &Clock, total_bytes: u64) {
        self.is_of_start.store(true, Ordering::Release);
        self.begin(clock, total_bytes);
    }

    /// Commands that need data are refused from now on.
    pub fn begin(&self, clock: &Clock, total_bytes: u64) {
        self.started.store(clock.now_ms(), Ordering::Relaxed);
        self.reported_us.store(clock.monotonic_us(), Ordering::Relaxed);
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        self.loaded_bytes.store(0, Ordering::Relaxed);
        self.is_on.store(true, Ordering::Release);
    }

    /// So many bytes are loaded; now and then the log is told.
    pub fn advance_to(&self, offset: u64, clock: &Clock, log: &Log) {
        self.loaded_bytes.store(offset, Ordering::Relaxed);
        let now_us = clock.monotonic_us();
        if now_us - self.reported_us.load(Ordering::Relaxed) < REPORT_US {
            return;
        }
        self.reported_us.store(now_us, Ordering::Relaxed);
        if let Some(Progress { percent, seconds_left, .. }) = self.progress(clock) {
            log_notice!(log, "Loading: {percent:.1}%, about {seconds_left} seconds left");
        }
    }

    /// All commands are served from now on.
    pub fn end(&self) {
        self.is_of_start.store(false, Ordering::Release);
        self.is_on.store(false, Ordering::Release);
    }
}
