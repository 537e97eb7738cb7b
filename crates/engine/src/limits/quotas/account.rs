//! An account: what a user, or a database, took; and what it may take.
//!
//! Invariant: a row has one writer, the worker of its number; the sums are those of all rows.

use std::array;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use config::{QuotaLimit, QuotaRule};

use super::token_bucket::{Rate, TokenBucket};
use crate::runtime::counters::add;
use crate::runtime::lanes::MAX_WORKERS;

/// The limits that are rates, in the order of their buckets.
pub const RATES: [QuotaLimit; 4] =
    [QuotaLimit::Requests, QuotaLimit::BytesIn, QuotaLimit::BytesOut, QuotaLimit::CpuMicroseconds];

/// What was taken, in the order of [`RATES`].
pub type Usage = [u64; RATES.len()];

/// What one worker booked.
#[derive(Default)]
#[repr(align(64))]
struct WorkerUsage([AtomicU64; RATES.len()]);

/// An account of a user or a database.
pub struct Account {
    /// Whether there is any limit.
    is_limited: AtomicBool,
    /// Bytes that its keys may take; 0 is no limit.
    memory_max: AtomicU64,
    rows: [OnceLock<Box<WorkerUsage>>; MAX_WORKERS],
    buckets: [TokenBucket; RATES.len()],
    rejected: AtomicU64,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            is_limited: AtomicBool::default(),
            memory_max: AtomicU64::default(),
            rows: array::from_fn(|_| OnceLock::new()),
            buckets: array::from_fn(|_| TokenBucket::default()),
            rejected: AtomicU64::default(),
        }
    }
}

impl Account {
    /// Gives the account these limits and no others.
    pub(super) fn limit<'a>(&self, rules: impl Iterator<Item = &'a QuotaRule>, now_us: i64) {
        let rules: Vec<&QuotaRule> = rules.collect();
        let of = |limit| rules.iter().find(|rule| rule.limit == limit);
        for (token_bucket, limit) in self.buckets.iter().zip(RATES) {
            let rate = of(limit).map(|rule| Rate { amount: rule.amount, seconds: rule.seconds });
            token_bucket.set(rate, now_us);
        }
        let memory_max = of(QuotaLimit::Memory).map_or(0, |rule| rule.amount);
        self.memory_max.store(memory_max, Ordering::Relaxed);
        self.is_limited.store(!rules.is_empty(), Ordering::Relaxed);
    }

    /// Whether there is any limit.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.is_limited.load(Ordering::Relaxed)
    }

    /// Bytes that its keys may take; 0 is no limit.
    pub fn memory_max(&self) -> u64 {
        self.memory_max.load(Ordering::Relaxed)
    }

    /// The rates that it may have, each with what is left of it now; below zero is what was taken
    /// too much.
    pub fn limited_rates(&self, now_us: i64) -> Vec<(QuotaLimit, Rate, i64)> {
        let buckets = RATES.into_iter().zip(&self.buckets);
        let limited = buckets
            .filter_map(|(limit, bucket)| Some((limit, bucket.rate()?, bucket.remaining(now_us)?)));
        limited.collect()
    }

    /// The first rate that is used up, if one is.
    pub fn exhausted(&self, now_us: i64) -> Option<(QuotaLimit, Rate)> {
        let buckets = self.buckets.iter().zip(RATES);
        let (token_bucket, limit) =
            buckets.into_iter().find(|(token_bucket, _)| token_bucket.is_empty(now_us))?;
        Some((limit, token_bucket.rate()?))
    }

    /// Books at a worker what a request took.
    pub(crate) fn charge(&self, worker: usize, usage: &Usage, now_us: i64) {
        let row = self.rows[worker].get_or_init(Box::default);
        for (counter, used) in row.0.iter().zip(usage) {
            add(counter, *used);
        }
        if self.is_limited() {
            for (token_bucket, used) in self.buckets.iter().zip(usage) {
                token_bucket.consume(*used, now_us);
            }
        }
    }

    /// A request was refused.
    pub(crate) fn note_refusal(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests were refused.
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// What was taken.
    pub fn usage(&self) -> Usage {
        let mut sums = Usage::default();
        for row in self.rows.iter().filter_map(OnceLock::get) {
            for (sum, counter) in sums.iter_mut().zip(&row.0) {
                *sum += counter.load(Ordering::Relaxed);
            }
        }
        sums
    }

    /// Counts from zero again; what is booked meanwhile may survive.
    pub(super) fn reset(&self) {
        for counter in self.rows.iter().filter_map(OnceLock::get).flat_map(|row| &row.0) {
            counter.store(0, Ordering::Relaxed);
        }
        self.rejected.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use config::{QuotaLimit, QuotaRule};

    use super::{Account, Rate};

    #[test]
    fn workers_are_summed_and_limits_are_of_all_of_them() {
        let account = Account::default();
        account.charge(0, &[1, 10, 100, 5], 0);
        assert!(!account.is_limited());
        let rule = QuotaRule {
            subject: Box::default(),
            limit: QuotaLimit::BytesOut,
            amount: 200,
            seconds: 60,
        };
        account.limit([&rule].into_iter(), 0);
        assert!(account.is_limited() && account.exhausted(0).is_none());
        account.charge(0, &[1, 10, 100, 5], 0);
        account.charge(7, &[1, 10, 100, 5], 0);
        let rate = Rate { amount: 200, seconds: 60 };
        assert_eq!(account.exhausted(0), Some((QuotaLimit::BytesOut, rate)));
        assert_eq!(account.limited_rates(0), [(QuotaLimit::BytesOut, rate, 0)]);
        assert_eq!(account.usage(), [3, 30, 300, 15]);
        account.reset();
        assert_eq!(account.usage(), [0; 4]);
        account.limit([].into_iter(), 0);
        assert!(account.exhausted(0).is_none() && !account.is_limited());
    }
}
