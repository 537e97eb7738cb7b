//! Commands that take longer than they can: found at each end of a window, and told with what else
//! went on meanwhile.
//!
//! Invariant: in one window so many lines at most go to the log.

use config::settings::LATENCY_BASELINE_WINDOW;
use engine::observe::latency_baselines::BaselineChange;
use engine::runtime::log::log_notice;
use engine::runtime::steal;
use keyspace::Count;

use crate::control::server::info;
use crate::server::Server;

/// The event of LATENCY.
const EVENT: &str = "command-regression";

/// Lines in a window.
const LINES_MOST: usize = 8;

/// What is seen of the machine below this is nothing.
const STEAL_LEAST_PERCENT: u64 = 2;

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
    machine: steal::MachineCpuTime,
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
            let Some(turning) = server.observed.baselines.observe(entry.id, &stats) else {
                continue;
            };
            let figures = server.observed.baselines.figures_of(entry.id).unwrap_or_default();
            if turning == BaselineChange::Regressed {
                let micros = figures.p99_us as u64;
                server.observed.latency.note_always(server.keyspace.clock(), EVENT, micros);
            }
            lines += 1;
            if lines > LINES_MOST {
                continue;
            }
            let (name, latest, best) = (&entry.full_name, figures.p99_us, figures.best_p99_us);
            match turning {
                BaselineChange::Regressed => log_notice!(
                    server.log,
                    "Command '{name}' strays from its best: 99% of its calls took up to {latest} \
                     microseconds, at best {best:.0}{}",
                    now.since(&before, server)
                ),
                BaselineChange::Recovered => log_notice!(
                    server.log,
                    "Command '{name}' is itself again: 99% of its calls took up to {latest} \
                     microseconds, at best {best:.0}"
                ),
            }
        }
    }
}

impl SystemActivity {
    fn of(server: &Server) -> Self {
        let counters = server.keyspace.counters();
        Self {
            evicted: counters.total(Count::Evicted),
            expired: counters.total(Count::Expired),
            moved: counters.total(Count::Moved),
            machine: steal::MachineCpuTime::now(),
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
        if stolen >= STEAL_LEAST_PERCENT {
            seen.push(format!("{stolen}% of the machine's time was stolen"));
        }
        match seen.is_empty() {
            true => String::new(),
            false => format!("; {}", seen.join(", ")),
        }
    }
}
