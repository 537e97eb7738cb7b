//! Commands that take longer than they can: found at each end of a window, and told with what else
//! went on meanwhile.
//!
//! Invariant: in one window so many lines at most go to the log.

use config::settings::LATENCY_BASELINE_WINDOW;
use engine::observe::call_size::CallSize;
use engine::observe::latency_baselines::{BaselineChange, BaselineFigures};
use engine::runtime::log::log_notice;
use engine::runtime::machine_cpu_time;
use engine::table::command_table::CommandEntry;
use keyspace::Count;

use crate::control::server::info;
use crate::server::Server;

/// The event of LATENCY.
const EVENT: &str = "command-regression";

/// Lines in a window.
const LINES_MOST: usize = 8;

/// What is seen of the machine, or of other programs on it, below this is nothing.
const TOLD_LEAST_PERCENT: u64 = 2;

/// The windows, as the slow clock goes through them.
#[derive(Default)]
pub(crate) struct BaselineWindows {
    next_us: i64,
    began: SystemActivity,
}

/// What may make commands slow, as totals up to one time.
#[derive(Clone, Copy, Debug, Default)]
struct SystemActivity {
    evicted: u64,
    expired: u64,
    moved: u64,
    machine: machine_cpu_time::MachineCpuTime,
    core_waits: CoreWaitTotals,
}

/// How long workers waited for a core, together, up to one time.
#[derive(Clone, Copy, Debug, Default)]
struct CoreWaitTotals {
    /// On the monotonic clock.
    now_us: i64,
    workers: u64,
    waited_us: u64,
}

impl BaselineWindows {
    /// Ends the window if it is over.
    pub(crate) fn tick(&mut self, server: &Server) {
        let now_us = server.keyspace.clock().monotonic_us();
        let window_us = i64::from(server.config.get(LATENCY_BASELINE_WINDOW)) * 1_000_000;
        if window_us == 0 || now_us < self.next_us {
            return;
        }
        self.next_us = now_us + window_us;
        let now = SystemActivity::of(server);
        let before = std::mem::replace(&mut self.began, now);
        let mut lines = 0;
        for (entry, stats) in info::called(server) {
            // What waits on purpose is as slow as clients let it be.
            if entry.spec.flags.has(commands::Flags::BLOCKING) {
                continue;
            }
            for (size, change, figures) in server.observed.baselines.observe(entry.id, &stats) {
                if change == BaselineChange::Regressed {
                    let micros = figures.p99_us as u64;
                    server.observed.latency.note_always(server.keyspace.clock(), EVENT, micros);
                }
                lines += 1;
                if lines <= LINES_MOST {
                    tell(server, entry, (size, change, figures), || now.since(&before, server));
                }
            }
        }
    }
}

/// Tells the log of a command whose calls of a size stray, or do no more.
fn tell(
    server: &Server,
    entry: &CommandEntry,
    (size, change, figures): (CallSize, BaselineChange, BaselineFigures),
    meanwhile: impl FnOnce() -> String,
) {
    let (name, size) = (&entry.full_name, size.word());
    let (latest, best) = (figures.p99_us, figures.best_p99_us);
    match change {
        BaselineChange::Regressed => log_notice!(
            server.log,
            "Command '{name}' strays from its best: 99% of its {size} calls took up to {latest} \
             microseconds, at best {best:.0}{}",
            meanwhile()
        ),
        BaselineChange::Recovered => log_notice!(
            server.log,
            "Command '{name}' is itself again: 99% of its {size} calls took up to {latest} \
             microseconds, at best {best:.0}"
        ),
    }
}

impl SystemActivity {
    fn of(server: &Server) -> Self {
        let counters = server.keyspace.counters();
        Self {
            evicted: counters.total(Count::Evicted),
            expired: counters.total(Count::Expired),
            moved: counters.total(Count::Moved),
            machine: machine_cpu_time::MachineCpuTime::now(),
            core_waits: CoreWaitTotals::of(server),
        }
    }

    /// What went on since an earlier time, as the end of a line.
    fn since(&self, before: &Self, server: &Server) -> String {
        let mut seen = Vec::new();
        if server.saves.status(server).current_seconds.is_some() {
            seen.push("a snapshot is being written".to_owned());
        }
        let now_us = server.keyspace.clock().monotonic_us();
        if server.aof.status(now_us).1.is_underway {
            seen.push("the log is being rewritten".to_owned());
        }
        for (now, then, what) in [
            (self.evicted, before.evicted, "keys were evicted"),
            (self.expired, before.expired, "keys expired"),
            (self.moved, before.moved, "keys were moved by defragmentation"),
        ] {
            let count = now.saturating_sub(then);
            if count > 0 {
                seen.push(format!("{count} {what}"));
            }
        }
        let stolen = self.machine.stolen_percent(&before.machine);
        if stolen >= TOLD_LEAST_PERCENT {
            seen.push(format!("{stolen}% of the machine's time was stolen"));
        }
        // Others of this machine have the cores that workers are ready to run on.
        let waited = self.core_waits.percent_since(&before.core_waits);
        if waited >= TOLD_LEAST_PERCENT {
            seen.push(format!("workers waited for a core {waited}% of the time"));
        }
        match seen.is_empty() {
            true => String::new(),
            false => format!("; {}", seen.join(", ")),
        }
    }
}

impl CoreWaitTotals {
    fn of(server: &Server) -> Self {
        server.threads.note_core_waits();
        let workers = server.threads.worker_count();
        let waits = (0..workers).filter_map(|it| server.threads.worker_counters(it).core_wait_us());
        let now_us = server.keyspace.clock().monotonic_us();
        Self { now_us, workers: workers as u64, waited_us: waits.sum() }
    }

    /// Which part of the workers' time since an earlier one that is; none where workers came or
    /// went meanwhile.
    fn percent_since(&self, before: &Self) -> u64 {
        let passed_us = u64::try_from(self.now_us - before.now_us).unwrap_or(0) * self.workers;
        if before.workers != self.workers {
            return 0;
        }
        self.waited_us.saturating_sub(before.waited_us) * 100 / passed_us.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::CoreWaitTotals;

    #[test]
    fn a_share_is_that_of_all_workers() {
        let before = CoreWaitTotals { now_us: 1_000_000, workers: 2, waited_us: 500 };
        let at = |workers, waited_us| CoreWaitTotals { now_us: 2_000_000, workers, waited_us };
        assert_eq!(at(2, 600_500).percent_since(&before), 30);
        assert_eq!(at(3, 600_500).percent_since(&before), 0, "a worker has come");
        assert_eq!(at(2, 0).percent_since(&before), 0, "another thread counts from zero");
        assert_eq!(CoreWaitTotals::default().percent_since(&CoreWaitTotals::default()), 0);
    }
}
