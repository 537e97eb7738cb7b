//! Statistics of commands: calls, time, failures, and how long each took.
//!
//! Counted per worker by its own thread, as by each that applies a primary's stream, and summed by
//! the reader. Durations go to a histogram with four buckets to a doubling, made when a command is
//! first called by a worker.
//!
//! Invariant: one thread writes a worker's figures; heavy-work threads do not write here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use super::call_size::CallSize;
use crate::runtime::counters::add;
use crate::runtime::lanes::{APPLIER_LANE, MAX_HELPERS, MAX_WORKERS};

/// Buckets of a histogram: four to a doubling of microseconds, up to two hours.
const BUCKETS: usize = 4 * 34;

/// Distinct error prefixes that are counted. A script can make up any number, so beyond these none
/// is counted any more until the statistics are reset, as in Redis.
const ERROR_KINDS: usize = 128;

/// What stands for all of them then.
const DISABLED: &str = "ERRORSTATS_DISABLED";

/// All statistics of commands and errors.
pub struct Stats {
    workers: Box<[OnceLock<Box<[CommandStats]>>]>,
    commands: usize,
    errors: Mutex<ErrorCounts>,
    /// Errors that clients were replied: `total_error_replies`.
    pub error_replies: AtomicU64,
    /// Connections that were accepted: `total_connections_received`.
    pub connections: AtomicU64,
    /// Connections beyond `maxclients`: `rejected_connections`.
    pub rejected_connections: AtomicU64,
    /// Clients that were closed as they did not log in in time.
    pub unauthenticated_disconnections: AtomicU64,
    /// Attempts to log in that were answered late.
    pub delayed_logins: AtomicU64,
    /// Clients that were closed for too long a request.
    pub query_buffer_overruns: AtomicU64,
    /// Clients that were closed for too many unsent replies.
    pub output_limit_disconnections: AtomicU64,
    /// Clients that were closed because all of them took too much memory.
    pub evicted_clients: AtomicU64,
    /// Panics that were contained.
    pub panics: AtomicU64,
    /// Commands of a primary that failed here: `unexpected_error_replies`.
    pub unexpected_errors: AtomicU64,
}

/// As which worker a thread counts that applies a primary's stream, by its lane.
pub(crate) const fn row_of_applier(lane: usize) -> usize {
    MAX_WORKERS + (lane - APPLIER_LANE)
}

/// Error replies by their codes.
#[derive(Default)]
struct ErrorCounts {
    by_code: BTreeMap<String, u64>,
    is_disabled: bool,
    /// The codes that were counted when there were too many, until the log has them.
    too_many: Option<Vec<String>>,
}

#[derive(Default)]
struct CommandStats {
    calls: AtomicU64,
    micros: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
    /// By the size of calls.
    histograms: [OnceLock<Box<[AtomicU64; BUCKETS]>>; CallSize::ALL.len()],
}

/// The figures of one command, over all workers.
#[derive(Clone, Debug)]
pub struct CallStats {
    /// How often the command ran.
    pub calls: u64,
    /// How long all its runs took, in microseconds.
    pub micros: u64,
    /// Calls that were refused before they ran.
    pub rejected: u64,
    /// Calls that replied an error.
    pub failed: u64,
    /// How many calls fell into each bucket; see `bucket_limit`.
    pub histogram: Vec<u64>,
    /// The same for the calls of each size, in the order of [`CallSize::ALL`].
    pub by_size: [Vec<u64>; CallSize::ALL.len()],
}

impl Stats {
    pub(crate) fn new(commands: usize) -> Self {
        Self {
            workers: (0..=MAX_WORKERS + MAX_HELPERS).map(|_| OnceLock::new()).collect(),
            commands,
            errors: Mutex::default(),
            error_replies: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            rejected_connections: AtomicU64::new(0),
            unauthenticated_disconnections: AtomicU64::new(0),
            delayed_logins: AtomicU64::new(0),
            query_buffer_overruns: AtomicU64::new(0),
            output_limit_disconnections: AtomicU64::new(0),
            evicted_clients: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            unexpected_errors: AtomicU64::new(0),
        }
    }

    /// Books a call.
    #[inline]
    pub(crate) fn called(&self, worker: usize, command: usize, size: CallSize, micros: u64) {
        self.called_often(worker, (command, size), 1, micros);
    }

    /// Books several calls of a size, at least one, by the time that all of them took; each counts
    /// as having taken the mean.
    #[inline]
    pub(crate) fn called_often(
        &self,
        worker: usize,
        (command, size): (usize, CallSize),
        calls: u64,
        micros: u64,
    ) {
        let stats = self.of(worker, command);
        add(&stats.calls, calls);
        add(&stats.micros, micros);
        let histogram = stats.histograms[size as usize]
            .get_or_init(|| Box::new([const { AtomicU64::new(0) }; BUCKETS]));
        // To divide takes as long as all the rest, and most are alone.
        let mean = if calls == 1 { micros } else { micros / calls };
        add(&histogram[bucket(mean)], calls);
    }

    /// Books a call that was not admitted.
    pub fn rejected(&self, worker: usize, command: usize) {
        self.rejected_often(worker, command, 1);
    }

    /// Books several calls that were not admitted.
    pub(crate) fn rejected_often(&self, worker: usize, command: usize, calls: u64) {
        add(&self.of(worker, command).rejected, calls);
    }

    /// Books a call that ended in an error.
    pub fn failed(&self, worker: usize, command: usize) {
        self.failed_often(worker, command, 1);
    }

    /// Books several calls that ended in errors.
    pub(crate) fn failed_often(&self, worker: usize, command: usize, calls: u64) {
        add(&self.of(worker, command).failed, calls);
    }

    /// Books an error reply by its code.
    pub fn error(&self, line: &[u8]) {
        self.errors_of(code(line), 1);
    }

    /// Books several error replies of one code.
    pub(crate) fn errors_of(&self, code: &str, times: u64) {
        self.error_replies.fetch_add(times, Ordering::Relaxed);
        let mut errors = self.errors.lock().expect("no critical section here panics");
        if errors.is_disabled {
            return;
        }
        if let Some(count) = errors.by_code.get_mut(code) {
            *count += times;
        } else if errors.by_code.len() < ERROR_KINDS {
            errors.by_code.insert(code.to_owned(), times);
        } else {
            let codes = std::mem::take(&mut errors.by_code).into_keys().collect();
            errors.too_many = Some(codes);
            errors.by_code.insert(DISABLED.to_owned(), 1);
            errors.is_disabled = true;
        }
    }

    /// The codes that were counted when there became too many; told once.
    pub fn take_too_many_errors(&self) -> Option<Vec<String>> {
        self.errors.lock().expect("no critical section here panics").too_many.take()
    }

    /// The error prefixes and how often each was sent.
    pub fn errors(&self) -> Vec<(String, u64)> {
        let errors = self.errors.lock().expect("no critical section here panics");
        errors.by_code.iter().map(|(code, count)| (code.clone(), *count)).collect()
    }

    /// The figures of a command; `None` if it was never called or refused.
    pub fn calls_of(&self, command: usize) -> Option<CallStats> {
        let (histogram, by_size) = (vec![0; BUCKETS], CallSize::ALL.map(|_| vec![0; BUCKETS]));
        let mut sum = CallStats { calls: 0, micros: 0, rejected: 0, failed: 0, histogram, by_size };
        for stats in self.workers.iter().filter_map(OnceLock::get).map(|all| &all[command]) {
            sum.calls += stats.calls.load(Ordering::Relaxed);
            sum.micros += stats.micros.load(Ordering::Relaxed);
            sum.rejected += stats.rejected.load(Ordering::Relaxed);
            sum.failed += stats.failed.load(Ordering::Relaxed);
            for (of_size, histogram) in sum.by_size.iter_mut().zip(&stats.histograms) {
                let buckets = histogram.get().into_iter().flat_map(|histogram| histogram.iter());
                for (bucket, count) in buckets.enumerate() {
                    let count = count.load(Ordering::Relaxed);
                    of_size[bucket] += count;
                    sum.histogram[bucket] += count;
                }
            }
        }
        (sum.calls + sum.rejected + sum.failed > 0).then_some(sum)
    }

    /// Starts calls, times and errors again from zero (`CONFIG RESETSTAT`).
    pub fn reset(&self) {
        for stats in self.workers.iter().filter_map(OnceLock::get).flat_map(|all| all.iter()) {
            for counter in [&stats.calls, &stats.micros, &stats.rejected, &stats.failed] {
                counter.store(0, Ordering::Relaxed);
            }
        }
        self.reset_histograms(|_| true);
        *self.errors.lock().expect("no critical section here panics") = ErrorCounts::default();
        for counter in [
            &self.error_replies,
            &self.connections,
            &self.rejected_connections,
            &self.unauthenticated_disconnections,
            &self.delayed_logins,
            &self.query_buffer_overruns,
            &self.output_limit_disconnections,
            &self.evicted_clients,
            &self.unexpected_errors,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// Empties the histograms of some commands (`LATENCY RESET` leaves them, RESETSTAT does not).
    pub(crate) fn reset_histograms(&self, wanted: impl Fn(usize) -> bool) {
        for all in self.workers.iter().filter_map(OnceLock::get) {
            let chosen = all.iter().enumerate().filter(|(command, _)| wanted(*command));
            let histograms = chosen.flat_map(|(_, stats)| &stats.histograms);
            for bucket in histograms.filter_map(OnceLock::get).flat_map(|it| it.iter()) {
                bucket.store(0, Ordering::Relaxed);
            }
        }
    }

    #[inline]
    fn of(&self, worker: usize, command: usize) -> &CommandStats {
        let all = self.workers[worker]
            .get_or_init(|| (0..self.commands).map(|_| CommandStats::default()).collect());
        &all[command]
    }
}

/// The first word of an error line. A line of one word, as a script may return, counts as `ERR`,
/// and so does one whose first word is none, as `DEBUG ERROR` may make.
pub(crate) fn code(line: &[u8]) -> &str {
    let end = line.iter().position(|byte| *byte == b' ');
    let word = end.map_or(&b""[..], |end| &line[..end]);
    let is_code = (1..=30).contains(&word.len()) && word.iter().all(u8::is_ascii_graphic);
    let word = if is_code { str::from_utf8(word).ok() } else { None };
    word.unwrap_or("ERR")
}

/// The bucket of a duration: exact up to 4 microseconds, then four to a doubling.
#[inline]
fn bucket(micros: u64) -> usize {
    if micros < 4 {
        return micros as usize;
    }
    let doubling = micros.ilog2() as usize;
    let quarter = (micros >> (doubling - 2) & 3) as usize;
    (4 * (doubling - 1) + quarter).min(BUCKETS - 1)
}

/// The largest duration that falls into a bucket, in microseconds.
pub fn bucket_limit(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let (doubling, quarter) = (bucket / 4 + 1, (bucket % 4) as u64);
    ((4 + quarter + 1) << (doubling - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::{bucket, bucket_limit};

    #[test]
    fn a_duration_lies_within_its_bucket() {
        for micros in (0..100_000).chain([1 << 20, 1 << 30, (1 << 33) + 5]) {
            let index = bucket(micros);
            assert!(micros <= bucket_limit(index), "{micros} in {index}");
            assert!(index == 0 || micros > bucket_limit(index - 1), "{micros} in {index}");
        }
    }
}
