//! The pace at which a snapshot is written, and what the log says about it.
//!
//! Invariant: over any longer while no more bytes are written than the configuration allows.

use std::time::Duration;

use config::settings::RDB_SAVE_MAX_BYTES_PER_SECOND;
use engine::runtime::log::log_notice;

use crate::durability::Durability;

/// The longest sleep before looking whether anybody still wants the snapshot.
const NAP_US: i64 = 50_000;

/// Between two lines in the log.
const REPORT_US: i64 = 5_000_000;

/// The pace of one snapshot.
pub(super) struct Throttle {
    server: &'static Durability,
    /// When the next byte may be written, on the monotonic clock in microseconds.
    due: i64,
    report_at: i64,
}

impl Throttle {
    pub(super) fn new(server: &'static Durability) -> Self {
        let now = server.keyspace.clock().monotonic_us();
        Self { server, due: now, report_at: now + REPORT_US }
    }

    /// Waits until so many more bytes may be written, or nobody wants them.
    pub(super) fn wait(&mut self, bytes: usize, is_unwanted: impl Fn() -> bool) {
        let clock = self.server.keyspace.clock();
        let now = clock.monotonic_us();
        let limit = self.server.config.get(RDB_SAVE_MAX_BYTES_PER_SECOND);
        if limit == 0 {
            self.due = now;
            return;
        }
        let start = self.due.max(now);
        self.due =
            start + i64::try_from(bytes as u128 * 1_000_000 / u128::from(limit)).unwrap_or(0);
        while !is_unwanted() {
            let left = start - clock.monotonic_us();
            let Ok(left @ 1..) = u64::try_from(left.min(NAP_US)) else { return };
            std::thread::sleep(Duration::from_micros(left));
        }
    }

    /// Says how far it is, every now and then.
    pub(super) fn report(&mut self, (done, total): (u64, u64), bytes: u64) {
        let now = self.server.keyspace.clock().monotonic_us();
        if now < self.report_at {
            return;
        }
        self.report_at = now + REPORT_US;
        let percent = done as f64 * 100.0 / total.max(1) as f64;
        log_notice!(
            self.server.log,
            "Saving: {percent:.0}% of {total} keys, {} MB written",
            bytes >> 20
        );
    }
}
