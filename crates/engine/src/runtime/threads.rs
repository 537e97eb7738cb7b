//! What is known of the process's threads: the cores, the event loops, the heavy-work threads, and
//! what each worker counts.
//!
//! Invariant: a worker's counters are written by that worker alone; all else here is an atomic or
//! behind a lock of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use config::Config;
use keyspace::Keyspace;

use crate::runtime::background::{Background, BetweenJobs};
use crate::runtime::cores::Cores;
use crate::runtime::counters::WorkerCounters;
use crate::runtime::event_loops::EventLoops;
use crate::runtime::lanes::MAX_WORKERS;

/// The process's threads.
pub struct Threads {
    /// The cores that the process may use, and which are taken.
    pub cores: Arc<Cores>,
    /// How often the event loops turned.
    pub loops: EventLoops,
    /// The heavy-work threads.
    pub background: Background,
    /// How many workers are busy (`batch_scheduling.rs`).
    pub busy_workers: AtomicUsize,
    /// What is counted of a primary's stream, by the thread that applies it.
    pub applier: WorkerCounters,
    workers: Box<[WorkerCounters]>,
    worker_count: AtomicUsize,
    /// How many lanes ever had a worker.
    worker_lanes: AtomicUsize,
}

impl Threads {
    pub(crate) fn new(
        config: &Config,
        keyspace: &'static Keyspace,
        between_jobs: BetweenJobs,
    ) -> Self {
        let cores = Arc::new(Cores::configured(config));
        Self {
            background: Background::new(keyspace, &cores, between_jobs),
            cores,
            loops: EventLoops::default(),
            busy_workers: AtomicUsize::new(0),
            applier: WorkerCounters::default(),
            workers: (0..MAX_WORKERS).map(|_| WorkerCounters::default()).collect(),
            worker_count: AtomicUsize::new(0),
            worker_lanes: AtomicUsize::new(0),
        }
    }

    /// How many workers are at work.
    #[inline]
    pub fn worker_count(&self) -> usize {
        self.worker_count.load(Ordering::Relaxed)
    }

    /// CONFIG SET `server-workers` has changed how many workers there are.
    pub fn set_worker_count(&self, count: usize) {
        self.worker_count.store(count, Ordering::Relaxed);
    }

    /// The counters that this thread is to write as a new worker.
    pub(crate) fn counters_of_new_worker(&self, lane: usize) -> &WorkerCounters {
        self.worker_lanes.fetch_max(lane + 1, Ordering::Relaxed);
        let counters = self.worker_counters(lane);
        counters.note_thread();
        counters
    }

    /// The counters of one worker.
    pub fn worker_counters(&self, lane: usize) -> &WorkerCounters {
        &self.workers[lane]
    }

    /// Looks how long each worker was ready to run and had no core. The system
    /// is asked for it, so not for the slow clock, which is on the thread that accepts clients.
    pub fn note_core_waits(&self) {
        self.workers[..self.worker_count()].iter().for_each(WorkerCounters::note_core_waits);
    }

    /// The counters of all lanes that ever had a worker, and of the threads that apply a primary's
    /// stream.
    pub fn all_worker_counters(&self) -> impl Iterator<Item = &WorkerCounters> {
        let lanes = self.worker_lanes.load(Ordering::Relaxed);
        self.workers[..lanes].iter().chain([&self.applier])
    }
}
