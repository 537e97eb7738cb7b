//! A process of this machine as /proc shows it (proc(5)). Invariant: readings of two processes
//! that bore one id after the other are never mixed: an id counts only with its start time.

use std::fs;
use std::time::Duration;

use rustix::param::{clock_ticks_per_second, page_size};

use crate::outcome::ServerUsage;

/// A living process, and what it had used when it was found.
#[derive(Debug)]
pub(super) struct Process {
    id: u32,
    first: Reading,
}

/// CPU times up to now.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    /// Clock ticks from boot to its start: with the id, its identity.
    started: u64,
    /// In clock ticks, the threads that have ended with them.
    user: u64,
    system: u64,
    /// On a processor in either mode, to the nanosecond, but only of the threads that live.
    threads: Duration,
}

impl Process {
    pub(super) fn find(id: u32) -> Option<Process> {
        Some(Process { id, first: Reading::take(id)? })
    }

    /// Whether the process has run for about so many seconds.
    pub(super) fn has_run_for(&self, seconds: u64) -> bool {
        // A server counts from some moment of its start, in whole seconds.
        const SLACK: f64 = 10.0;
        let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
        let first = uptime.split(' ').next().and_then(|word| word.parse::<f64>().ok());
        let started = self.first.started as f64 / clock_ticks_per_second() as f64;
        first.is_some_and(|now| (now - started - seconds as f64).abs() <= SLACK)
    }

    /// What the process has used since it was found; `None` if it is gone.
    pub(super) fn used(&self) -> Option<ServerUsage> {
        let now = Reading::take(self.id).filter(|now| now.started == self.first.started)?;
        let (user, system) = now.since(&self.first);
        Some(ServerUsage { pid: self.id, user, system, rss: resident_bytes(self.id)? })
    }
}

impl Reading {
    fn take(id: u32) -> Option<Reading> {
        let line = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        Some(Reading { threads: thread_time(id), ..Reading::parse(&line)? })
    }

    fn parse(line: &str) -> Option<Reading> {
        // The program's name may hold spaces and brackets; its last bracket ends it.
        let (_, fields) = line.rsplit_once(") ")?;
        let field = |number: usize| fields.split(' ').nth(number - 3)?.trim().parse().ok();
        Some(Reading {
            user: field(14)?,
            system: field(15)?,
            started: field(22)?,
            threads: Duration::ZERO,
        })
    }

    /// User and system time from `first` to here. Ticks (of 10 ms, mostly) tell how the time
    /// divides; how much it is, the scheduler's nanoseconds tell, unless they are less because a
    /// thread has ended and taken its own along.
    fn since(&self, first: &Reading) -> (Duration, Duration) {
        let tick = Duration::from_secs(1) / clock_ticks_per_second() as u32;
        let ticks = |count: u64| tick.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        let user = ticks(self.user.saturating_sub(first.user));
        let system = ticks(self.system.saturating_sub(first.system));
        let exact = self.threads.saturating_sub(first.threads);
        if exact + 2 * tick < user + system {
            return (user, system);
        }
        let share = match (user + system).as_secs_f64() {
            0.0 => 1.0,
            both => user.as_secs_f64() / both,
        };
        let user = exact.mul_f64(share);
        (user, exact.saturating_sub(user))
    }
}

/// Time on a processor of all living threads. `/proc/PID/schedstat` would be that of the main
/// thread alone.
fn thread_time(id: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    threads
        .filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
        })
        .sum()
}

/// Resident memory: the exact sum where it may be read, else the kernel's running count, which
/// lags by up to 64 pages per thread.
fn resident_bytes(id: u32) -> Option<u64> {
    let exact = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("Rss:"))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kilobytes * 1024)
    });
    exact.or_else(|| {
        let text = fs::read_to_string(format!("/proc/{id}/statm")).ok()?;
        let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
        Some(pages * page_size() as u64)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Reading;

    fn reading(user: u64, system: u64, threads_ms: u64) -> Reading {
        Reading { started: 7, user, system, threads: Duration::from_millis(threads_ms) }
    }

    #[test]
    fn names_with_brackets_do_not_shift_the_fields() {
        let line = "12 (a b) (c) S 1 12 12 0 -1 4194560 1 2 3 4 150 250 50 0 20 0 4 0 7 1 1";
        assert_eq!(Reading::parse(line), Some(reading(150, 250, 0)));
        assert_eq!(Reading::parse("12 (a) S 1"), None);
    }

    #[test]
    fn nanoseconds_are_divided_as_ticks_are() {
        // 100 ticks a second: three quarters of the second in user mode.
        let (user, system) = reading(75, 25, 1004).since(&reading(0, 0, 0));
        assert_eq!((user.as_millis(), system.as_millis()), (753, 251));
    }

    #[test]
    fn time_of_ended_threads_counts_in_ticks() {
        let (user, system) = reading(75, 25, 40).since(&reading(0, 0, 0));
        assert_eq!((user.as_millis(), system.as_millis()), (750, 250));
    }
}
