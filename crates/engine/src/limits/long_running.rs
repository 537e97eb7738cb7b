//! The commands that others may have to wait for: those that run on background threads with locks.
//!
//! Invariant: a command stands here from before it has its locks on that thread until after they
//! are gone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use keyspace::{Keyspace, PartitionIndex, PartitionSet};

/// The commands on heavy-work threads that hold locks, or keep the world from stopping.
#[derive(Default)]
pub(crate) struct LongRunning {
    count: AtomicUsize,
    commands: Mutex<Vec<Arc<RunningCommand>>>,
}

/// What one of them holds.
struct RunningCommand {
    /// On the monotonic clock, in microseconds.
    since_us: i64,
    /// In rising order.
    partitions: PartitionSet,
    /// Whether the command has given its locks back and waits.
    is_paused: bool,
}

impl RunningCommand {
    fn holds(&self, partition: PartitionIndex) -> bool {
        self.partitions.binary_search(&partition).is_ok()
    }
}

/// A command under way, which ends when dropped, after its locks.
pub(crate) struct RunningGuard {
    all: &'static LongRunning,
    keyspace: &'static Keyspace,
    command: Arc<RunningCommand>,
    /// Since when it has its present locks, on the monotonic clock in microseconds.
    locked_us: i64,
}

impl RunningGuard {
    /// A command begins that holds these partitions.
    pub(crate) fn begin(
        all: &'static LongRunning,
        keyspace: &'static Keyspace,
        since_us: i64,
        partitions: PartitionSet,
    ) -> Self {
        let mut partitions = partitions;
        partitions.sort_unstable();
        let command = Arc::new(RunningCommand { since_us, partitions, is_paused: false });
        all.commands().push(Arc::clone(&command));
        all.count.fetch_add(1, Ordering::Relaxed);
        Self { all, keyspace, command, locked_us: since_us }
    }

    /// The command has given its locks back and waits for others.
    pub(crate) fn pause(&mut self) {
        self.change(PartitionSet::new(), true);
    }

    /// The command has other locks now.
    pub(crate) fn resume(&mut self, partitions: PartitionSet) {
        self.change(partitions, false);
        self.locked_us = self.keyspace.clock().monotonic_us();
    }

    /// The command may have taken more locks, beside those that it has; whether it did.
    pub(crate) fn extend(&mut self, partitions: &[PartitionIndex]) -> bool {
        let is_more = *self.command.partitions != *partitions;
        if is_more {
            let mut partitions = PartitionSet::from(partitions);
            partitions.sort_unstable();
            self.change(partitions, false);
        }
        is_more
    }

    /// A gate held the command, which had no lock: others have not waited for it so far.
    pub(crate) fn begin_anew(&mut self) {
        let since_us = self.keyspace.clock().monotonic_us();
        self.replace(RunningCommand { since_us, partitions: PartitionSet::new(), is_paused: true });
    }

    fn change(&mut self, partitions: PartitionSet, is_paused: bool) {
        self.record();
        self.replace(RunningCommand { since_us: self.command.since_us, partitions, is_paused });
    }

    fn replace(&mut self, command: RunningCommand) {
        let command = Arc::new(command);
        let before = std::mem::replace(&mut self.command, Arc::clone(&command));
        let mut commands = self.all.commands();
        let place = commands.iter_mut().find(|other| Arc::ptr_eq(other, &before));
        *place.expect("it stands there until it is dropped") = command;
    }

    /// Notes how long it had the locks that it has.
    fn record(&self) {
        if !self.command.partitions.is_empty() {
            let micros = self.keyspace.clock().monotonic_us() - self.locked_us;
            self.keyspace.stall_stats().note_hold(u64::try_from(micros).unwrap_or(0));
        }
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        let Self { all, command, .. } = &*self;
        all.commands().retain(|other| !Arc::ptr_eq(other, command));
        all.count.fetch_sub(1, Ordering::Relaxed);
        self.record();
    }
}

impl LongRunning {
    /// Since when the first of those that `counts` has been under way.
    fn since_of(&self, counts: impl Fn(&RunningCommand) -> bool) -> Option<i64> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let commands = self.commands();
        commands.iter().filter(|command| counts(command)).map(|command| command.since_us).min()
    }

    /// Since when the first has been under way.
    pub(crate) fn since(&self) -> Option<i64> {
        self.since_of(|_| true)
    }

    /// Since when the first has been that holds one of these partitions.
    pub(crate) fn since_with(&self, partitions: &[PartitionIndex]) -> Option<i64> {
        self.since_of(|command| partitions.iter().any(|it| command.holds(*it)))
    }

    /// Whether one that may change something has been under way since before that.
    pub(crate) fn is_any_before(&self, time_us: i64) -> bool {
        self.active_since().is_some_and(|since_us| since_us < time_us)
    }

    /// Since when the first of those has been under way that have their locks.
    pub(crate) fn active_since(&self) -> Option<i64> {
        self.since_of(|command| !command.is_paused)
    }

    fn commands(&self) -> MutexGuard<'_, Vec<Arc<RunningCommand>>> {
        self.commands.lock().expect("no critical section here panics")
    }
}
