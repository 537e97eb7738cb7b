//! Transactions on threads that may wait: for locks, for the world, and for leave to begin.
//!
//! Invariant: a thread waits for a lock outside the world's way: a stop of the world meanwhile is
//! let pass.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use keyspace::{
    Acquisition, BUSY, HeavyPass, Keyspace, PartitionIndex, PartitionSet, Patience, Refusal, Tx,
    TxOptions, WaitReason,
};

/// How long a thread may wait on for what nobody wants any more.
pub const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Waits for locks, or for the world, on a thread that may.
pub fn wait_for(acquisition: &mut Acquisition) {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    while acquisition.poll(&waker).is_pending() {
        std::thread::park();
    }
}

/// As [`wait_for`], for a client, which is told BUSY when others have held them for too long.
pub fn wait_for_client(
    keyspace: &'static Keyspace,
    acquisition: &mut Acquisition,
) -> Result<(), Refusal> {
    wait_for_client_while(keyspace, acquisition, || true).map(drop)
}

/// The same for as long as they are wanted; whether they are there.
pub fn wait_for_client_while(
    keyspace: &'static Keyspace,
    acquisition: &mut Acquisition,
    mut are_wanted: impl FnMut() -> bool,
) -> Result<bool, Refusal> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut patience = Patience::default();
    while acquisition.poll(&waker).is_pending() {
        if !are_wanted() {
            return Ok(false);
        }
        let lasts = match acquisition.awaits() {
            Some(partition) => patience.lasts(keyspace, WaitReason::Partitions(&[partition])),
            None => patience.lasts(keyspace, acquisition.obstacle()),
        };
        if !lasts {
            return Err(BUSY);
        }
        std::thread::park_timeout(BETWEEN_LOOKS);
    }
    Ok(true)
}

/// As [`wait_for`], for as long as they are wanted; whether they are there.
pub fn wait_while(acquisition: &mut Acquisition, mut is_wanted: impl FnMut() -> bool) -> bool {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    while acquisition.poll(&waker).is_pending() {
        if !is_wanted() {
            return false;
        }
        std::thread::park_timeout(BETWEEN_LOOKS);
    }
    true
}

/// Wakes a thread that waits for locks.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The leave of a heavy-work thread for transactions that begin there.
pub struct BackgroundAccess {
    keyspace: &'static Keyspace,
    pass: HeavyPass,
}

/// How long such a thread waits for a lock before it looks again.
const PAUSE: Duration = Duration::from_micros(50);

impl BackgroundAccess {
    /// Waits until no world operation is under way.
    pub fn wait(keyspace: &'static Keyspace) -> Self {
        Self::wait_while(keyspace, || true).expect("it waits as long as that takes")
    }

    /// As [`BackgroundAccess::wait`], for a client, which is told BUSY when that takes too long.
    pub fn for_client(keyspace: &'static Keyspace) -> Result<Self, Refusal> {
        let mut patience = Patience::default();
        Self::wait_while(keyspace, || patience.lasts(keyspace, WaitReason::World)).ok_or(BUSY)
    }

    fn wait_while(keyspace: &'static Keyspace, waits_on: impl FnMut() -> bool) -> Option<Self> {
        let mut pass = HeavyPass::for_visit(keyspace);
        pass.wait_while(waits_on).then_some(Self { keyspace, pass })
    }

    /// As `acquire`, and lets the world wait while the lock is free: for steps that are short, and
    /// few.
    pub fn acquire_next(&mut self, partition: PartitionIndex) -> Acquisition {
        match self.keyspace.try_acquire(partition) {
            Some(mut acquisition) => {
                acquisition.time_hold();
                acquisition
            }
            None => self.acquire(partition),
        }
    }

    /// Waits for a partition's lock. Before that the world may pass, which others in the queue for
    /// the lock may be waiting for.
    pub fn acquire(&mut self, partition: PartitionIndex) -> Acquisition {
        self.acquire_while(partition, |_| true).expect("it waits as long as that takes")
    }

    /// As [`BackgroundAccess::acquire`], for a client, which is told BUSY when that takes too long,
    /// and the work is over.
    pub fn acquire_for_client(
        &mut self,
        partition: PartitionIndex,
    ) -> Result<Acquisition, Refusal> {
        let (keyspace, mut patience) = (self.keyspace, Patience::default());
        self.acquire_while(partition, |obstacle| patience.lasts(keyspace, obstacle)).ok_or(BUSY)
    }

    fn acquire_while(
        &mut self,
        partition: PartitionIndex,
        mut waits_on: impl FnMut(WaitReason<'_>) -> bool,
    ) -> Option<Acquisition> {
        loop {
            if !self.pass.safepoint(|| waits_on(WaitReason::World)) {
                return None;
            }
            if let Some(mut acquisition) = self.keyspace.try_acquire(partition) {
                acquisition.time_hold();
                return Some(acquisition);
            }
            if !waits_on(WaitReason::Partitions(&[partition])) {
                return None;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Runs a transaction that visits partitions for a client and changes nothing, on the thread that
/// `lane` was given to.
pub fn visiting<T>(
    keyspace: &'static Keyspace,
    lane: usize,
    database: usize,
    work: impl FnOnce(&mut Tx) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let _access = BackgroundAccess::for_client(keyspace)?;
    let nothing = Acquisition::of_partitions(keyspace, PartitionSet::new());
    let internal = TxOptions::internal(lane, keyspace.clock().now_ms());
    let options = TxOptions { database, heavy: true, ..internal };
    work(&mut Tx::begin(nothing, options))
}
