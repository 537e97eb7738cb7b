//! Heavy work: threads for what would keep a worker from its other clients.
//!
//! A transaction moves here with its locks; other work is any closure. Threads are made when work
//! finds none idle, up to a limit; beyond it work queues.
//!
//! Invariant: a transaction counts as heavy work in the keyspace from before it leaves its worker's
//! turnstile until its locks are dropped, panic or not.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};

use keyspace::{Keyspace, Tx};
use proto::{Output, OwnedArgs};
use tokio::sync::oneshot;

use crate::crew::MAX_WORKERS;
use crate::execute::{Outcome, Work};
use crate::session::Elsewhere;

/// The most heavy-work threads.
const MAX_THREADS: usize = 32;

/// The first lane of the heavy-work threads.
const FIRST_LANE: usize = MAX_WORKERS;

/// A closure that runs on a heavy-work thread with that thread's lane.
type Job = Box<dyn FnOnce(usize) + Send>;

/// The pool of threads.
#[derive(Clone)]
pub(crate) struct Heavy {
    shared: Arc<Shared>,
}

struct Shared {
    keyspace: &'static Keyspace,
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
}

impl Heavy {
    pub(crate) fn new(keyspace: &'static Keyspace) -> Self {
        let (queue, arrived) = (Mutex::default(), Condvar::new());
        Self { shared: Arc::new(Shared { keyspace, queue, arrived }) }
    }

    /// Runs a transaction's command here. The caller is inside its turnstile and leaves the
    /// transaction to us.
    pub(crate) fn run_transaction(
        &self,
        tx: Tx,
        args: OwnedArgs,
        work: Work,
    ) -> oneshot::Receiver<Elsewhere> {
        let (sender, receiver) = oneshot::channel();
        let presence = Presence::new(self.shared.keyspace);
        self.submit(Box::new(move |lane| {
            let presence = presence;
            let mut tx = tx;
            tx.move_to_heavy(lane);
            let mut output = Output::new();
            match work.run(tx, args.as_args(), &mut output) {
                Outcome::Replied | Outcome::Failed => {}
                Outcome::Heavy(_) | Outcome::Widen(_) => {
                    unreachable!("heavy threads carry any load, and no command that widens is heavy")
                }
            }
            drop(presence);
            // A session that is gone needs no reply.
            let _ = sender.send(Elsewhere { output, close: false });
        }));
        receiver
    }

    /// Runs any closure here; its output is the reply of the session that waits.
    pub(crate) fn run(
        &self,
        work: impl FnOnce(usize) -> Output + Send + 'static,
    ) -> oneshot::Receiver<Elsewhere> {
        let (sender, receiver) = oneshot::channel();
        self.submit(Box::new(move |lane| {
            let output = work(lane);
            let _ = sender.send(Elsewhere { output, close: false });
        }));
        receiver
    }

    /// Runs any closure here that nobody waits for.
    pub(crate) fn spawn(&self, work: impl FnOnce(usize) + Send + 'static) {
        self.submit(Box::new(work));
    }

    fn submit(&self, job: Job) {
        let mut queue = self.shared.queue.lock().expect("no critical section here panics");
        queue.jobs.push_back(job);
        if queue.idle >= queue.jobs.len() || queue.threads == MAX_THREADS {
            self.shared.arrived.notify_one();
            return;
        }
        let lane = FIRST_LANE + queue.threads;
        queue.threads += 1;
        drop(queue);
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(format!("heavy-{lane}"));
        thread.spawn(move || shared.work(lane)).expect("the system lets us have a few threads");
    }
}

impl Shared {
    fn work(&self, lane: usize) {
        let mut queue = self.queue.lock().expect("no critical section here panics");
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                // A panic is counted by the hook; the session that waits sees its sender dropped.
                let job = std::panic::AssertUnwindSafe(move || job(lane));
                let _ = std::panic::catch_unwind(job);
                queue = self.queue.lock().expect("no critical section here panics");
                continue;
            }
            queue.idle += 1;
            queue = self.arrived.wait(queue).expect("no critical section here panics");
            queue.idle -= 1;
        }
    }
}

/// Counts a transaction in as heavy work, and out when dropped.
struct Presence(&'static Keyspace);

impl Presence {
    fn new(keyspace: &'static Keyspace) -> Self {
        keyspace.enter_heavy();
        Self(keyspace)
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.leave_heavy();
    }
}
