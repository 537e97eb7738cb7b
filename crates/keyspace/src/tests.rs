//! Locks, queues and the world under thousands of schedules (shuttle).
//!
//! A lost wake-up or a deadlock ends a schedule with all tasks blocked, which shuttle reports;
//! exclusion and patience are asserted here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Poll, Wake, Waker};

use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;

use crate::keyspace::{Keyspace, PARTITIONS};
use crate::lock::acquisition::{Acquisition, PartitionSet};
use crate::lock::partition::PartitionIndex;
use crate::options::Options;
use crate::tx::{Tx, TxOptions};
use crate::world::HeavyPass;

const SCHEDULES: usize = 8000;

/// How far apart PCT's forced preemptions may be.
const DEPTH: usize = 4;

/// Runs a scenario under random and under priority-driven schedules.
fn explore(scenario: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(scenario.clone(), SCHEDULES);
    shuttle::check_pct(scenario, SCHEDULES, DEPTH);
}

/// A keyspace and which task is where in it. Kept outside of shuttle, so that looking is no step.
#[derive(Clone)]
struct Stage {
    keyspace: &'static Keyspace,
    owners: Arc<[AtomicU32; PARTITIONS]>,
}

/// A task's bell, which wakers ring.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

impl Bell {
    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
        *rung = false;
    }
}

impl Stage {
    fn new() -> Self {
        let keyspace = Keyspace::leak(Options { databases: 1, hash_key: (1, 2), ..Options::new() });
        Self { keyspace, owners: Arc::new([const { AtomicU32::new(0) }; PARTITIONS]) }
    }

    fn plan(&self, partitions: &[PartitionIndex]) -> Acquisition {
        Acquisition::of_partitions(self.keyspace, PartitionSet::from_slice(partitions))
    }

    /// Comes in at a lane's turnstile, waiting for the world if need be.
    fn come_in(&self, lane: usize, bell: &Arc<Bell>) {
        let waker = Waker::from(Arc::clone(bell));
        while !self.keyspace.enter(lane) {
            if self.keyspace.wait_for_world(&waker) {
                bell.wait();
            }
        }
    }

    /// Takes partitions as a session does where nobody holds any for long.
    fn acquire(&self, lane: usize, partitions: &[PartitionIndex]) -> Acquisition {
        let acquisition = self.await_locks(lane, self.plan(partitions));
        let limit = usize::from(Acquisition::PATIENCE) + partitions.len();
        assert!(usize::from(acquisition.times_queued()) <= limit, "nobody is beaten for ever");
        acquisition
    }

    /// Waits for locks as a session does, parked outside the turnstile.
    fn await_locks(&self, lane: usize, mut acquisition: Acquisition) -> Acquisition {
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(Arc::clone(&bell));
        loop {
            self.come_in(lane, &bell);
            if acquisition.poll(&waker).is_ready() {
                return acquisition;
            }
            self.keyspace.leave(lane);
            bell.wait();
        }
    }

    /// Asserts that nobody else is in these partitions for a while.
    fn use_alone(&self, partitions: impl Iterator<Item = PartitionIndex> + Clone) {
        for index in partitions.clone() {
            assert_eq!(self.owners[usize::from(index)].swap(1, Ordering::Relaxed), 0);
        }
        thread::yield_now();
        for index in partitions {
            assert_eq!(self.owners[usize::from(index)].swap(0, Ordering::Relaxed), 1);
        }
    }

    fn transact(&self, lane: usize, partitions: &[PartitionIndex]) {
        let acquisition = self.acquire(lane, partitions);
        self.use_alone(partitions.iter().copied());
        drop(acquisition);
        self.keyspace.leave(lane);
    }

    fn take_world(&self) {
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(Arc::clone(&bell));
        let mut acquisition = Acquisition::of_world(self.keyspace);
        while acquisition.poll(&waker).is_pending() {
            bell.wait();
        }
        self.use_alone(0..PARTITIONS as PartitionIndex);
    }

    /// Polls once, then gives up, whatever came of it.
    fn give_up(&self, lane: usize, partitions: &[PartitionIndex], polls: usize) {
        let waker = Waker::from(Arc::new(Bell::default()));
        let mut acquisition = self.plan(partitions);
        for _ in 0..polls {
            if !self.keyspace.enter(lane) {
                return;
            }
            if acquisition.poll(&waker).is_ready() {
                self.use_alone(partitions.iter().copied());
            }
            self.keyspace.leave(lane);
            thread::yield_now();
        }
    }
}

fn run(tasks: Vec<Box<dyn FnOnce() + Send>>) {
    let handles: Vec<_> = tasks.into_iter().map(thread::spawn).collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

macro_rules! tasks {
    ($stage:ident; $($body:expr),+ $(,)?) => {
        run(vec![$({
            let $stage = $stage.clone();
            Box::new(move || { $body; })
        }),+])
    };
}

#[test]
fn overlapping_transactions_exclude_each_other_and_all_come_through() {
    explore(|| {
        let stage = Stage::new();
        tasks!(stage;
            { stage.transact(0, &[0, 1]); stage.transact(0, &[1]) },
            { stage.transact(1, &[1, 2]); stage.transact(1, &[0, 2]) },
            { stage.transact(2, &[2, 0]); stage.transact(2, &[0, 1, 2]) },
        );
    });
}

#[test]
fn two_that_want_the_same_again_and_again_both_get_it() {
    explore(|| {
        let stage = Stage::new();
        tasks!(stage;
            for _ in 0..4 { stage.transact(0, &[0, 1]) },
            for _ in 0..4 { stage.transact(1, &[1, 0]) },
        );
    });
}

#[test]
fn dropped_tickets_leave_nobody_behind() {
    explore(|| {
        let stage = Stage::new();
        tasks!(stage;
            { stage.transact(0, &[0, 1]); stage.transact(0, &[0]) },
            { stage.give_up(1, &[0, 1], 1); stage.give_up(1, &[0, 1], 3) },
            { stage.transact(2, &[0, 1]); stage.give_up(2, &[1, 2], 2); stage.transact(2, &[1]) },
        );
    });
}

#[test]
fn the_world_stands_alone() {
    explore(|| {
        let stage = Stage::new();
        tasks!(stage;
            { stage.transact(0, &[0]); stage.transact(0, &[0, 1]) },
            { stage.transact(1, &[1]); stage.transact(1, &[1, 0]) },
            { stage.take_world(); stage.take_world() },
        );
    });
}

#[test]
fn worlds_queue_up_and_withdrawn_requests_stop_nobody() {
    explore(|| {
        let stage = Stage::new();
        tasks!(stage;
            { stage.transact(0, &[0, 1]); stage.take_world() },
            {
                let waker = Waker::from(Arc::new(Bell::default()));
                let mut withdrawn = Acquisition::of_world(stage.keyspace);
                if withdrawn.poll(&waker) == Poll::Ready(()) {
                    stage.use_alone(0..PARTITIONS as PartitionIndex);
                }
                drop(withdrawn);
                stage.transact(1, &[0, 1]);
            },
            { stage.take_world(); stage.transact(2, &[1]) },
        );
    });
}

/// A visitor on a heavy-work thread waits for a lock whose owner is parked until the world has
/// passed, which waits for the visitor.
#[test]
fn heavy_visitors_let_the_world_pass() {
    explore(|| {
        let stage = Stage::new();
        tasks!(stage;
            for _ in 0..3 { stage.transact(0, &[0, 1]) },
            visit_heavily(&stage, &[1, 0, 1, 0, 1, 0]),
            { stage.transact(2, &[1]); stage.take_world() },
        );
    });
}

/// A requester counts lanes and work, and what waits for it is admitted when it has passed.
#[test]
fn heavy_work_keeps_the_world_waiting() {
    explore(|| {
        let stage = Stage::new();
        tasks!(stage;
            { visit_heavily(&stage, &[0]); visit_heavily(&stage, &[1]) },
            { stage.transact(2, &[2]); stage.take_world() },
            stage.take_world(),
        );
    });
}

/// A transaction turns out to be heavy while it holds its locks, and goes on elsewhere with them,
/// or gives them back until the world has passed.
#[test]
fn heavy_transactions_and_worlds_take_turns() {
    explore(|| {
        let stage = Stage::new();
        tasks!(stage;
            { transact_heavily(&stage, 0, &[0, 1]); stage.take_world() },
            { transact_heavily(&stage, 1, &[1]); transact_heavily(&stage, 1, &[0]) },
            { stage.take_world(); stage.transact(2, &[1]); stage.take_world() },
        );
    });
}

/// A transaction that has moved turns out to need the world, and keeps its thread while it waits
/// for that, and others wait for the thread.
#[test]
fn heavy_transactions_may_ask_for_the_world() {
    explore(|| {
        let stage = Stage::new();
        tasks!(stage;
            { take_world_heavily(&stage); transact_heavily(&stage, 0, &[0]) },
            { transact_heavily(&stage, 1, &[0]); take_world_heavily(&stage) },
            { stage.take_world(); stage.transact(2, &[0]) },
        );
    });
}

#[test]
fn withdrawn_heavy_work_keeps_nobody_waiting() {
    explore(|| {
        let stage = Stage::new();
        tasks!(stage;
            for _ in 0..3 {
                let mut pass = HeavyPass::for_offload(stage.keyspace);
                let _ = pass.poll(&Waker::from(Arc::new(Bell::default())));
            },
            { transact_heavily(&stage, 1, &[0]); stage.transact(1, &[0]) },
            { stage.take_world(); stage.take_world() },
        );
    });
}

/// Some hold locks for long, one wants all of them: no task waits in vain, and a task that waits
/// for one that is held for long holds no other.
#[test]
fn a_task_that_is_kept_from_its_locks_for_long_is_next() {
    explore(|| {
        let stage = Stage::new();
        tasks!(stage;
            for _ in 0..3 { transact_for_long(&stage, 0, &[0, 1]) },
            for _ in 0..3 { transact_for_long(&stage, 1, &[1]) },
            { transact_for_long(&stage, 2, &[0, 1, 2]); transact_for_long(&stage, 2, &[1, 2]) },
            { transact_briefly(&stage, 3, &[0, 1, 2]); transact_briefly(&stage, 3, &[0, 2]) },
        );
    });
}

/// As a session that turns out to be heavy does, and goes on elsewhere: outside its turnstile.
fn transact_for_long(stage: &Stage, lane: usize, partitions: &[PartitionIndex]) {
    let mut acquisition = stage.await_locks(lane, stage.plan(partitions));
    while !acquisition.prolong() {
        acquisition.defer();
        stage.keyspace.leave(lane);
        acquisition = stage.await_locks(lane, acquisition);
    }
    stage.keyspace.leave(lane);
    stage.use_alone(partitions.iter().copied());
}

fn transact_briefly(stage: &Stage, lane: usize, partitions: &[PartitionIndex]) {
    let acquisition = stage.await_locks(lane, stage.plan(partitions));
    stage.use_alone(partitions.iter().copied());
    drop(acquisition);
    stage.keyspace.leave(lane);
}

fn transact_heavily(stage: &Stage, lane: usize, partitions: &[PartitionIndex]) {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let mut acquisition = stage.acquire(lane, partitions);
    let mut pass = HeavyPass::for_offload(stage.keyspace);
    if !pass.is_admitted() {
        drop(acquisition);
        stage.keyspace.leave(lane);
        while pass.poll(&waker).is_pending() {
            bell.wait();
        }
        acquisition = stage.acquire(lane, partitions);
    }
    stage.keyspace.leave(lane);
    stage.use_alone(partitions.iter().copied());
    drop(acquisition);
    drop(pass);
}

fn take_world_heavily(stage: &Stage) {
    let bell = Arc::new(Bell::default());
    let mut pass = HeavyPass::for_offload(stage.keyspace);
    while pass.poll(&Waker::from(Arc::clone(&bell))).is_pending() {
        bell.wait();
    }
    pass.suspend();
    stage.take_world();
    drop(pass);
}

fn visit_heavily(stage: &Stage, partitions: &[PartitionIndex]) {
    let mut pass = HeavyPass::for_visit(stage.keyspace);
    assert!(pass.wait_while(|| true));
    let options = TxOptions { touches: true, heavy: true, ..TxOptions::internal(1, 0) };
    let mut tx = Tx::begin(stage.plan(&[]), options);
    for &partition in partitions {
        tx.visit(partition).unwrap();
        stage.use_alone(std::iter::once(partition));
    }
    drop(tx);
    drop(pass);
}
