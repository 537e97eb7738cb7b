//! Whether the log's thread, which a disk wakes while a worker is in the midst of what the next
//! sync is for, interrupts the thread that has its core.
//!
//! All clients that write wait for that thread; so it is no longer courteous, for a while, where
//! another thread has the core for which it may wait for long. `docs/decisions/courtesy.md` has
//! what was measured.
//!
//! Invariant: where `server-batch-scheduling` says no, the thread interrupts others soon.

use std::mem;
use std::sync::atomic::Ordering;

use config::AppendFsync;
use config::settings::{APPENDFSYNC, SERVER_BATCH_SCHEDULING};
use engine::runtime::schedstat::{RunDelay, waits};
use engine::shared::Shared;

/// Time between two looks of the log's thread at least, in microseconds.
const BETWEEN_LOG_LOOKS_US: i64 = 20_000;

/// A thread waits long that waits so many nanoseconds each time in the mean.
const LONG_NS: u64 = 500_000;

/// The log's thread is not courteous for so many microseconds once it has waited long.
const REST_US: i64 = 60_000_000;

/// What the log's thread knows of its own.
#[derive(Default)]
pub(crate) struct LogScheduling {
    looked_us: i64,
    waits: RunDelay,
    rests_until_us: i64,
    is_shown: bool,
}

impl LogScheduling {
    /// Looks how long it waited since the last one, and changes its manners.
    pub(crate) fn tick(&mut self, server: &Shared, now_us: i64) {
        if now_us - self.looked_us < BETWEEN_LOG_LOOKS_US {
            return;
        }
        self.looked_us = now_us;
        let is_wanted = server.threads.busy_workers.load(Ordering::Relaxed) > 0
            && server.config.get(APPENDFSYNC) == AppendFsync::Always
            && server.config.get(SERVER_BATCH_SCHEDULING);
        let is_due = is_wanted && self.is_due(now_us, waits());
        if is_due != self.is_shown && server.threads.cores.interrupt_others(!is_due) {
            self.is_shown = is_due;
        }
    }

    /// Whether nobody keeps it waiting long. A thread that cannot know that is not courteous.
    fn is_due(&mut self, now_us: i64, waits: Option<RunDelay>) -> bool {
        let Some(now) = waits else { return false };
        let last = mem::replace(&mut self.waits, now);
        let waited_ns = now.waited_ns - last.waited_ns;
        if self.is_shown && waited_ns > LONG_NS * (now.turns - last.turns) {
            self.rests_until_us = now_us + REST_US;
        }
        now_us >= self.rests_until_us
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{LogScheduling, REST_US, RunDelay, waits};
    use crate::testing::durability;

    #[test]
    fn a_log_thread_that_waits_long_in_the_mean_rests_from_courtesy() {
        let mut own = LogScheduling::default();
        let mut waits = RunDelay { waited_ns: 9_000_000, turns: 3 };
        let mut look = |is_shown, now_us, waited_ns, turns| {
            waits.waited_ns += waited_ns;
            waits.turns += turns;
            own.is_shown = is_shown;
            own.is_due(now_us, Some(waits))
        };
        assert!(look(false, 20_000, 0, 0), "what it waited before it was courteous does not count");
        assert!(look(true, 40_000, 5_000_000, 10));
        assert!(!look(true, 60_000, 5_000_001, 10));
        assert!(!look(false, 60_000 + REST_US - 1, 0, 0));
        assert!(look(false, 60_000 + REST_US, 50_000_000, 10));
        assert!(look(true, 80_000 + REST_US, 0, 0));
        assert!(!own.is_due(90_000 + REST_US, None), "a system that keeps no accounts");
    }

    #[test]
    fn the_log_is_courteous_while_a_worker_is_busy_and_all_wait_for_it() {
        // A thread that cannot know how long it waits is not courteous.
        let is_possible = waits().is_some();
        let server = durability();
        let (mut log, mut now_us) = (LogScheduling::default(), 0);
        let mut look = |is_busy, setting: (&str, &str), expected| {
            let change = usize::from(is_busy)
                .wrapping_sub(server.threads.busy_workers.load(Ordering::Relaxed));
            server.threads.busy_workers.fetch_add(change, Ordering::Relaxed);
            let pair = [setting.0.as_bytes(), setting.1.as_bytes()];
            server.config.set_many(&pair, true).unwrap();
            now_us += 20_000;
            log.tick(server, now_us);
            assert_eq!(log.is_shown, expected && is_possible, "{is_busy} {setting:?}");
            log.rests_until_us = 0;
        };
        look(true, ("appendfsync", "everysec"), false);
        look(true, ("appendfsync", "always"), true);
        look(true, ("server-batch-scheduling", "no"), false);
        look(true, ("server-batch-scheduling", "yes"), true);
        look(false, ("appendfsync", "always"), false);
        assert_eq!(server.threads.busy_workers.load(Ordering::Relaxed), 0);
    }
}
