//! Background threads, for what would keep a worker from its other clients.
//!
//! A transaction moves here with its locks; other work is any closure. Threads are made when work
//! finds none idle, up to a limit; beyond it work queues. Each pool has a thread from the start, so
//! that whatever comes is done once, however many threads the system refuses.
//!
//! Invariant: what waits for others never takes the last thread of what it waits for.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use keyspace::{HEAVY_TRANSACTIONS, Keyspace};

use crate::runtime::cores::Cores;
use crate::runtime::lanes::{FIRST_HEAVY_LANE, MAX_JOBS, MAX_TRANSACTIONS, MAX_VISITS};

mod pool;
mod sole_visit;
mod tx;

pub use pool::BetweenJobs;
use pool::Pool;
pub use sole_visit::SoleVisit;
pub use tx::{
    BETWEEN_LOOKS, BackgroundAccess, visiting, wait_for, wait_for_client, wait_for_client_while,
    wait_while,
};

/// The threads, in pools: what waits for others never takes the last thread of what they wait for.
#[derive(Clone)]
pub struct Background {
    keyspace: &'static Keyspace,
    /// Those that come with their locks: a thread for each is there or can be made.
    transactions: Arc<Pool>,
    /// Those that wait for locks, for the world or for a file.
    visits: Arc<Pool>,
    /// All others.
    jobs: Arc<Pool>,
    programs: Arc<ProgramCount>,
}

/// Programs that have left their workers: the end of the process waits for them.
#[derive(Default)]
struct ProgramCount(AtomicUsize);

impl ProgramCount {
    fn are_over(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

/// Counts an offloaded program while it lasts.
pub(crate) struct CountedProgram(Arc<ProgramCount>);

impl Drop for CountedProgram {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

impl Background {
    pub(crate) fn new(
        keyspace: &'static Keyspace,
        cores: &Arc<Cores>,
        between_jobs: BetweenJobs,
    ) -> Self {
        let mut first = FIRST_HEAVY_LANE;
        let mut pool = |name, most| {
            let pool = Pool::new(name, Arc::clone(cores), between_jobs, first..first + most);
            first += most;
            Arc::new(pool)
        };
        Self {
            keyspace,
            transactions: pool("heavy", MAX_TRANSACTIONS),
            visits: pool("visit", MAX_VISITS),
            jobs: pool("job", MAX_JOBS),
            programs: Arc::default(),
        }
    }

    /// Starts a thread of each kind; what comes before is done by threads that are made for it.
    pub fn begin(&self) -> io::Result<()> {
        self.pools().into_iter().try_for_each(Pool::grow)
    }

    fn pools(&self) -> [&Arc<Pool>; 3] {
        [&self.transactions, &self.visits, &self.jobs]
    }

    /// Looks whether the system gives threads again that it refused. Called by the slow clock.
    pub fn tick(&self) {
        // A thread that is refused again leaves the limit as it is.
        if self.transactions.is_refused() && self.transactions.grow().is_ok() {
            self.limit_transactions();
        }
    }

    /// Gives leave to as many transactions as there are threads for, if the system refuses more.
    fn limit_transactions(&self) {
        let pool = &self.transactions;
        let most = if pool.is_refused() { pool.threads() } else { HEAVY_TRANSACTIONS };
        self.keyspace.limit_heavy_transactions(most.clamp(1, HEAVY_TRANSACTIONS));
    }

    /// Runs any closure here that nobody waits for.
    pub fn spawn(&self, work: impl FnOnce(usize) + Send + 'static) {
        let _ = self.jobs.submit(Box::new(work));
    }

    /// As `spawn`, for what waits for locks or for the world.
    pub fn spawn_visit(&self, work: impl FnOnce(usize) + Send + 'static) {
        let _ = self.visits.submit(Box::new(work));
    }

    /// Has each thread give back what its allocator holds and nobody uses, once it has no work.
    pub(crate) fn purge(&self) {
        self.pools().into_iter().for_each(|pool| pool.purge());
    }

    /// Waits at most this long until all programs that have left their workers are over.
    pub fn await_programs(&self, patience: Duration) {
        let clock = self.keyspace.clock();
        let until_us = clock.monotonic_us() + patience.as_micros() as i64;
        while !self.programs.are_over() && clock.monotonic_us() < until_us {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Counts an offloaded program that begins.
    pub(crate) fn count_program(&self) -> CountedProgram {
        self.programs.0.fetch_add(1, Ordering::Relaxed);
        CountedProgram(Arc::clone(&self.programs))
    }

    /// Has the system refuse threads to transactions.
    #[cfg(test)]
    pub(crate) fn refuse_threads(&self, refuses: bool) {
        self.transactions.refuse_threads(refuses);
    }

    /// Ends the threads, waiting at most this long for what is under way.
    pub fn shut_down(&self, patience: Duration) {
        let clock = self.keyspace.clock();
        let until_us = clock.monotonic_us() + patience.as_micros() as i64;
        self.pools().into_iter().for_each(|pool| pool.end());
        for pool in self.pools() {
            let left_us = until_us - clock.monotonic_us();
            pool.await_end(Duration::from_micros(u64::try_from(left_us).unwrap_or(0)));
        }
    }

    /// Runs what has leave for heavy work.
    pub(crate) fn transact(&self, job: impl FnOnce(usize) + Send + 'static) {
        // One that found no thread waits for the next that is free, locks and all; no more come.
        if self.transactions.submit(Box::new(job)).is_err() {
            self.limit_transactions();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::task::Waker;

    use keyspace::{HEAVY_TRANSACTIONS, HeavyPass};

    use super::Background;
    use crate::testing;

    #[test]
    fn as_many_transactions_have_leave_as_there_are_threads_for() {
        let server = testing::engine();
        let (background, keyspace) = (&server.threads.background, server.keyspace);
        let admitted = || {
            let passes: Vec<_> = (0..40).map(|_| HeavyPass::for_offload(keyspace)).collect();
            passes.iter().filter(|pass| pass.is_admitted()).count()
        };
        background.begin().unwrap();
        assert_eq!(admitted(), HEAVY_TRANSACTIONS);
        background.transactions.refuse_threads(true);
        let two = |background: &Background| {
            let (sender, done) = channel();
            for _ in 0..2 {
                let sender = sender.clone();
                background.transact(move |_| sender.send(()).unwrap());
            }
            drop(sender);
            assert_eq!(done.iter().count(), 2);
        };
        while !background.transactions.is_refused() {
            two(background);
        }
        assert_eq!(admitted(), 1);
        background.tick();
        assert_eq!(admitted(), 1);
        // Heavy work that waits for leave gets it as soon as there are threads again.
        let (first, mut second) =
            (HeavyPass::for_offload(keyspace), HeavyPass::for_offload(keyspace));
        assert!(first.is_admitted() && second.poll(Waker::noop()).is_pending());
        background.transactions.refuse_threads(false);
        background.tick();
        assert!(second.is_admitted());
        drop((first, second));
        assert_eq!(admitted(), HEAVY_TRANSACTIONS);
    }
}
