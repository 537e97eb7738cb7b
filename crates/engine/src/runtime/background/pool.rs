//! A pool of threads that do one kind of work.
//!
//! Invariant: whatever is submitted is done once by a thread of the pool, or nobody waits for it
//! any more; a thread that the system refuses uses up no lane.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crash::SecondStack;

use crate::runtime::allocator::purge;
use crate::runtime::cores::{Cores, ThreadRole};
use crate::runtime::lanes::STACK_BYTES;
use crate::runtime::panics::contain;

/// A closure that runs on a heavy-work thread with that thread's lane.
pub(super) type BackgroundJob = Box<dyn FnOnce(usize) + Send>;

/// What a thread does between two jobs for its own sake.
#[derive(Clone, Copy)]
pub struct BetweenJobs {
    /// Behind each job.
    pub tidy_up: fn(),
    /// Before its allocator gives back what nobody uses.
    pub drop_stale: fn(),
}

/// Threads that do one kind of work.
pub(super) struct Pool {
    name: &'static str,
    cores: Arc<Cores>,
    between_jobs: BetweenJobs,
    lanes: Range<usize>,
    queue: Mutex<JobQueue>,
    arrived: Condvar,
    /// A thread has ended.
    left: Condvar,
}

struct JobQueue {
    waiting: VecDeque<BackgroundJob>,
    idle: usize,
    /// How many there are, or are about to be; each has the lane behind those before it.
    threads: usize,
    /// Whether the system refused the last thread that was asked for.
    is_refused: bool,
    /// The stack of each thread that is made.
    stack_bytes: usize,
    /// How often the threads were asked to give back what their allocator holds.
    purges: u32,
    /// Whether the process ends: then no work is begun.
    ending: bool,
}

impl Pool {
    pub(super) fn new(
        name: &'static str,
        cores: Arc<Cores>,
        between_jobs: BetweenJobs,
        lanes: Range<usize>,
    ) -> Self {
        let queue = Mutex::new(JobQueue {
            waiting: VecDeque::new(),
            idle: 0,
            threads: 0,
            is_refused: false,
            stack_bytes: STACK_BYTES,
            purges: 0,
            ending: false,
        });
        let (arrived, left) = (Condvar::new(), Condvar::new());
        Self { name, cores, between_jobs, lanes, queue, arrived, left }
    }

    /// Has a job done. An error says that a thread was refused: the others do it, and where there
    /// are none nobody does, so that its waiters are let go.
    pub(super) fn submit(self: &Arc<Self>, job: BackgroundJob) -> io::Result<()> {
        let mut queue = self.lock();
        if queue.ending {
            return Ok(());
        }
        queue.waiting.push_back(job);
        if queue.idle >= queue.waiting.len() || queue.threads == self.lanes.len() {
            self.arrived.notify_one();
            return Ok(());
        }
        let result = self.start_thread(queue);
        if result.is_err() {
            let mut queue = self.lock();
            let given_up = match queue.threads {
                0 => std::mem::take(&mut queue.waiting),
                _ => VecDeque::new(),
            };
            self.arrived.notify_one();
            drop(queue);
            drop(given_up);
        }
        result
    }

    /// Starts one more thread, unless there are all.
    pub(super) fn grow(self: &Arc<Self>) -> io::Result<()> {
        self.start_thread(self.lock())
    }

    /// Whether the system refused the last thread that was asked for.
    pub(super) fn is_refused(&self) -> bool {
        self.lock().is_refused
    }

    /// How many threads there are.
    pub(super) fn threads(&self) -> usize {
        self.lock().threads
    }

    /// Has each thread give back what its allocator holds and nobody uses, once it has no work.
    pub(super) fn purge(&self) {
        let mut queue = self.lock();
        queue.purges = queue.purges.wrapping_add(1);
        self.arrived.notify_all();
    }

    /// Has the threads end; what has not begun does not begin any more.
    pub(super) fn end(&self) {
        let mut queue = self.lock();
        queue.ending = true;
        self.arrived.notify_all();
        let given_up = std::mem::take(&mut queue.waiting);
        drop(queue);
        // What is undone with them, or waits for them, may submit more.
        drop(given_up);
    }

    /// Waits at most this long until they have ended.
    pub(super) fn await_end(&self, patience: Duration) {
        let works = |queue: &mut JobQueue| queue.threads > 0;
        let waited = self.left.wait_timeout_while(self.lock(), patience, works);
        drop(waited.expect("no critical section here panics"));
    }

    /// Has the system refuse threads: no address space has room for their stacks.
    #[cfg(test)]
    pub(super) fn refuse_threads(&self, refuses: bool) {
        self.lock().stack_bytes = if refuses { 1 << 47 } else { STACK_BYTES };
    }

    fn start_thread(self: &Arc<Self>, mut queue: MutexGuard<'_, JobQueue>) -> io::Result<()> {
        if queue.threads == self.lanes.len() {
            queue.is_refused = false;
            return Ok(());
        }
        // No other thread starts one meanwhile, so a lane that was not used is the next one's.
        let (pool, lane) = (Arc::clone(self), self.lanes.start + queue.threads);
        let thread = std::thread::Builder::new().name(format!("{}-{lane}", self.name));
        let started = thread.stack_size(queue.stack_bytes).spawn(move || pool.work(lane));
        queue.is_refused = started.is_err();
        queue.threads += usize::from(started.is_ok());
        started.map(drop)
    }

    fn work(&self, lane: usize) {
        let _second_stack = SecondStack::take();
        // A worker that is bound to a core would bind its threads, too.
        self.cores.apply_affinity(ThreadRole::Background);
        let mut queue = self.lock();
        let mut purged = queue.purges;
        while !queue.ending {
            if let Some(job) = queue.waiting.pop_front() {
                drop(queue);
                // A panic is counted by the hook; the session that waits sees its sender dropped.
                let _ = contain(move || job(lane));
                (self.between_jobs.tidy_up)();
                queue = self.lock();
                continue;
            }
            if purged != queue.purges {
                purged = queue.purges;
                drop(queue);
                (self.between_jobs.drop_stale)();
                purge();
                queue = self.lock();
                continue;
            }
            queue.idle += 1;
            queue = self.arrived.wait(queue).expect("no critical section here panics");
            queue.idle -= 1;
        }
        queue.threads -= 1;
        self.left.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, JobQueue> {
        self.queue.lock().expect("no critical section here panics")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::{BetweenJobs, Pool};
    use crate::runtime::cores::Cores;

    const NOTHING: BetweenJobs = BetweenJobs { tidy_up: || (), drop_stale: || () };

    /// Has the pool run so many jobs at once; their lanes, if all are run.
    fn lanes_of(pool: &Arc<Pool>, jobs: usize) -> Receiver<usize> {
        let (sender, lanes) = channel();
        for _ in 0..jobs {
            let sender = sender.clone();
            let _ = pool.submit(Box::new(move |lane| {
                std::thread::sleep(Duration::from_millis(1));
                sender.send(lane).unwrap();
            }));
        }
        lanes
    }

    #[test]
    fn every_number_of_threads_does_all_that_comes() {
        let cores = Arc::new(Cores::of_process());
        for threads in 1..=4 {
            let pool = Arc::new(Pool::new("test", Arc::clone(&cores), NOTHING, 10..14));
            (0..threads).for_each(|_| pool.grow().unwrap());
            pool.refuse_threads(true);
            let lanes: BTreeSet<usize> = lanes_of(&pool, 50).iter().collect();
            assert!(lanes.iter().all(|lane| (10..10 + threads).contains(lane)), "{lanes:?}");
            // When the system gives threads again, no lane was used up.
            pool.refuse_threads(false);
            while pool.threads() < 4 {
                assert_eq!(lanes_of(&pool, 50).iter().count(), 50);
            }
            assert_eq!(
                lanes_of(&pool, 50).iter().filter(|lane| !(10..14).contains(lane)).count(),
                0
            );
        }
    }

    #[test]
    fn a_pool_that_can_have_no_thread_lets_its_callers_go() {
        let pool = Arc::new(Pool::new("test", Arc::new(Cores::of_process()), NOTHING, 10..14));
        pool.refuse_threads(true);
        assert_eq!(lanes_of(&pool, 3).iter().count(), 0, "whoever waits is let go");
        pool.refuse_threads(false);
        assert_eq!(lanes_of(&pool, 3).iter().count(), 3);
    }
}
