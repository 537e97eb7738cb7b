//! When requests may be sent. Invariant of the open loop: request `k` of the run is due at `k`
//! divided by the rate, whatever the server does, and is timed from then.

use std::collections::VecDeque;

use crate::options::Options;

/// How far a connection under `--rate-limiting` may catch up after it could not send, in
/// nanoseconds: as in memtier, what was missed beyond is not sent later.
pub(super) const CATCH_UP: u64 = 10_000_000;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The three ways to send.
#[derive(Debug)]
pub(super) enum Pace {
    /// As soon as there is room.
    Closed,
    /// Closed, but on each connection no two requests within so many nanoseconds.
    Limited(u64),
    /// By the clock.
    Open(Schedule),
}

impl Pace {
    /// What the options ask of this thread.
    pub(super) fn of(options: &Options, thread: u32) -> Self {
        match (options.open_loop, options.rate_limit) {
            (Some(rate), _) => Self::Open(Schedule::new(rate, thread, options.threads)),
            (None, Some(rate)) => Self::Limited(NANOS_PER_SECOND / rate.max(1)),
            (None, None) => Self::Closed,
        }
    }
}

/// One thread's part of an open loop: as many of the run's requests as the other threads have.
#[derive(Debug)]
pub(super) struct Schedule {
    /// Nanoseconds between two requests of the run.
    gap: f64,
    thread: u64,
    threads: u64,
    /// How many requests of this thread were sent.
    next: u64,
    /// How many of this thread were looked at for being late.
    judged: u64,
    /// How many were.
    late: u64,
    /// Clients with a free slot, the one that has waited longest first.
    pub(super) ready: VecDeque<usize>,
    /// Whether there was none when the thread last went to sleep.
    pub(super) was_full: bool,
}

impl Schedule {
    fn new(rate: f64, thread: u32, threads: u32) -> Self {
        Self {
            gap: NANOS_PER_SECOND as f64 / rate,
            thread: u64::from(thread),
            threads: u64::from(threads),
            next: 0,
            judged: 0,
            late: 0,
            ready: VecDeque::new(),
            was_full: false,
        }
    }

    /// When the next request is due.
    pub(super) fn due(&self) -> u64 {
        ((self.thread + self.next * self.threads) as f64 * self.gap) as u64
    }

    /// The next request was sent.
    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    /// Counts the requests that became due until `now` while there was no free slot; `total` is
    /// how many there will ever be.
    pub(super) fn count_missed(&mut self, now: u64, total: u64) {
        let of_run = now as f64 / self.gap - self.thread as f64;
        let due = if of_run < 0.0 { 0 } else { of_run as u64 / self.threads + 1 };
        let (due, judged) = (due.min(total), self.judged.max(self.next));
        if due > judged {
            self.late += due - judged;
            self.judged = due;
        }
    }

    /// How many were late so far.
    pub(super) fn late(&self) -> u64 {
        self.late
    }

    /// One was late for another reason.
    pub(super) fn add_late(&mut self) {
        self.late += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::Schedule;

    #[test]
    fn threads_share_one_even_schedule() {
        let mut due = Vec::new();
        for thread in 0..3 {
            let mut schedule = Schedule::new(1000.0, thread, 3);
            for _ in 0..4 {
                due.push(schedule.due());
                schedule.advance();
            }
        }
        due.sort_unstable();
        let even: Vec<u64> = (0..12).map(|number| number * 1_000_000).collect();
        assert_eq!(due, even);
    }

    #[test]
    fn a_late_request_counts_once() {
        let mut schedule = Schedule::new(1000.0, 0, 1);
        schedule.advance();
        schedule.count_missed(5_500_000, u64::MAX);
        assert_eq!(schedule.late(), 5, "those due at 1 to 5 ms");
        schedule.count_missed(5_600_000, u64::MAX);
        schedule.advance();
        schedule.count_missed(6_000_000, u64::MAX);
        assert_eq!(schedule.late(), 6);
        schedule.count_missed(1_000_000_000, 10);
        assert_eq!(schedule.late(), 9, "no more than there are");
    }
}
