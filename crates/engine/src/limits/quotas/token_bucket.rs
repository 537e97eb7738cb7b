//! A token bucket that all workers share: how much of something there may be in a period.
//!
//! The bucket holds what one period brings. A gate looks only; what a request took is taken when
//! the request is over, as its size is not known before. So what is taken may be more than there
//! is: the bucket is in debt then, and gives nothing until time has paid for it.
//!
//! Invariant: over any time the bucket gives no more than that time and one period bring, and what
//! was under way when it became empty.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A bucket; without an amount it is no limit.
#[derive(Default)]
pub(super) struct TokenBucket {
    /// Tokens of a period; 0 is no limit.
    amount: AtomicU64,
    period_ns: AtomicU64,
    /// Tokens that were taken and not brought back yet.
    spent: AtomicI64,
    /// Up to when tokens were brought back, on the monotonic clock.
    refilled_ns: AtomicI64,
}

/// How many tokens a bucket holds, and in how many seconds as many come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens.
    pub amount: u64,
    /// Seconds.
    pub seconds: u64,
}

impl TokenBucket {
    /// Gives the bucket a rate, or none. A bucket whose rate is new is full.
    pub(super) fn set(&self, rate: Option<Rate>, now_us: i64) {
        if self.rate() == rate {
            return;
        }
        let Rate { amount, seconds } = rate.unwrap_or(Rate { amount: 0, seconds: 0 });
        self.amount.store(0, Ordering::Relaxed);
        self.spent.store(0, Ordering::Relaxed);
        self.refilled_ns.store(now_us.saturating_mul(1000), Ordering::Relaxed);
        self.period_ns.store(seconds * 1_000_000_000, Ordering::Relaxed);
        self.amount.store(amount, Ordering::Relaxed);
    }

    /// Its rate, if it has one.
    pub(super) fn rate(&self) -> Option<Rate> {
        let amount = self.amount.load(Ordering::Relaxed);
        let seconds = self.period_ns.load(Ordering::Relaxed) / 1_000_000_000;
        (amount > 0).then_some(Rate { amount, seconds })
    }

    /// Whether the bucket has no token now.
    pub(super) fn is_empty(&self, now_us: i64) -> bool {
        self.remaining(now_us).is_some_and(|tokens| tokens <= 0)
    }

    /// The tokens that the bucket has now, if it is a limit; below zero is a debt.
    pub(super) fn remaining(&self, now_us: i64) -> Option<i64> {
        let amount = self.amount.load(Ordering::Relaxed);
        if amount == 0 {
            return None;
        }
        let (spent, filled) =
            (self.spent.load(Ordering::Relaxed), self.refilled_ns.load(Ordering::Relaxed));
        let owed = spent.saturating_sub(self.refilled(filled, now_us)).max(0);
        Some(tokens(amount).saturating_sub(owed))
    }

    /// Takes tokens that were used, those that it has or not.
    pub(super) fn consume(&self, used: u64, now_us: i64) {
        if self.amount.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.refill(now_us);
        self.spent.fetch_add(tokens(used), Ordering::Relaxed);
    }

    /// Brings back what has come since that was last done. Of several threads one does.
    fn refill(&self, now_us: i64) {
        let filled = self.refilled_ns.load(Ordering::Relaxed);
        let refilled = self.refilled(filled, now_us);
        if refilled == 0 {
            return;
        }
        let (amount, period) =
            (self.amount.load(Ordering::Relaxed), self.period_ns.load(Ordering::Relaxed));
        // What is left of the time counts towards the next token.
        let paid = (u128::from(refilled.unsigned_abs()) * u128::from(period))
            .div_ceil(u128::from(amount.max(1)));
        let until = filled.saturating_add(i64::try_from(paid).unwrap_or(i64::MAX));
        let order = Ordering::Relaxed;
        if self.refilled_ns.compare_exchange(filled, until, order, order).is_ok() {
            let less = |spent: i64| Some(spent.saturating_sub(refilled).max(0));
            self.spent.fetch_update(order, order, less).expect("it is always some");
        }
    }

    /// How many tokens have come since a moment.
    fn refilled(&self, refilled_ns: i64, now_us: i64) -> i64 {
        let passed = u64::try_from(now_us.saturating_mul(1000) - refilled_ns).unwrap_or(0);
        let (amount, period) =
            (self.amount.load(Ordering::Relaxed), self.period_ns.load(Ordering::Relaxed));
        let refilled = u128::from(passed) * u128::from(amount) / u128::from(period.max(1));
        i64::try_from(refilled).unwrap_or(i64::MAX)
    }
}

fn tokens(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Rate, TokenBucket};

    fn token_bucket(amount: u64, seconds: u64) -> TokenBucket {
        let token_bucket = TokenBucket::default();
        token_bucket.set(Some(Rate { amount, seconds }), 0);
        token_bucket
    }

    /// Takes one token at a time while there is any; how many there were.
    fn drain(token_bucket: &TokenBucket, now_us: i64) -> usize {
        let there_is_one = || !token_bucket.is_empty(now_us);
        std::iter::from_fn(|| there_is_one().then(|| token_bucket.consume(1, now_us))).count()
    }

    #[test]
    fn a_bucket_without_a_rate_is_never_empty() {
        let token_bucket = TokenBucket::default();
        token_bucket.consume(1 << 40, 5);
        assert!(!token_bucket.is_empty(5) && token_bucket.rate().is_none());
        assert_eq!(token_bucket.remaining(5), None);
    }

    #[test]
    fn a_bucket_holds_what_a_period_brings_and_no_more() {
        for (amount, seconds) in [(1, 1), (5, 86_400), (1000, 1), (7, 3)] {
            let token_bucket = token_bucket(amount, seconds);
            let period = seconds as i64 * 1_000_000;
            assert_eq!(drain(&token_bucket, 0), amount as usize);
            assert_eq!(drain(&token_bucket, 0), 0);
            assert_eq!(drain(&token_bucket, period / amount as i64 - 1), 0, "not before its time");
            assert_eq!(drain(&token_bucket, period / amount as i64 + 1), 1);
            assert_eq!(
                drain(&token_bucket, 10 * period),
                amount as usize,
                "idle time is not saved up"
            );
        }
    }

    #[test]
    fn a_debt_is_paid_before_anything_is_given() {
        let token_bucket = token_bucket(10, 1);
        token_bucket.consume(35, 0);
        assert_eq!(
            [0, 1_000_000, 60_000_000].map(|at| token_bucket.remaining(at)),
            [Some(-25), Some(-15), Some(10)]
        );
        assert!(token_bucket.is_empty(2_500_000));
        assert!(!token_bucket.is_empty(2_600_000));
        assert_eq!(drain(&token_bucket, 2_600_000), 1);
    }

    /// Tokens that come in parts of one are lost by no sequence of takes.
    #[test]
    fn what_is_left_of_a_time_counts_later() {
        let token_bucket = token_bucket(1_500_000, 1);
        let mut given = drain(&token_bucket, 0);
        for now in 1..=100_000 {
            given += drain(&token_bucket, now);
        }
        assert!((1_649_900..=1_650_000).contains(&given), "{given}");
    }

    #[test]
    fn a_rate_that_stays_leaves_what_was_spent() {
        let token_bucket = token_bucket(5, 86_400);
        assert_eq!(drain(&token_bucket, 0), 5);
        token_bucket.set(Some(Rate { amount: 5, seconds: 86_400 }), 1);
        assert_eq!(drain(&token_bucket, 1), 0);
        token_bucket.set(Some(Rate { amount: 6, seconds: 86_400 }), 1);
        assert_eq!(drain(&token_bucket, 1), 6);
        token_bucket.set(None, 1);
        assert!(!token_bucket.is_empty(1));
    }

    /// Threads that take at the same time lose nothing that another took.
    #[test]
    fn threads_take_together() {
        let token_bucket = token_bucket(1 << 20, 86_400);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1 << 16).for_each(|_| token_bucket.consume(4, 0)));
            }
        });
        assert!(token_bucket.is_empty(0));
        assert_eq!(token_bucket.spent.load(super::Ordering::Relaxed), 1 << 20);
    }
}
