//! How far the replicas are, as they say, and the tasks that wait for that: WAIT and WAITAOF.
//!
//! Invariant: a task is in line before it counts, so no acknowledgement comes too late.

use std::sync::{Mutex, MutexGuard};
use std::task::Waker;

use base::Wakers;
use keyspace::Lsn;

/// How far a replica says to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaAck {
    /// All up to here is applied.
    pub applied: Lsn,
    /// All up to here is on its disk.
    pub synced: Lsn,
}

/// How far all replicas are.
#[derive(Default)]
pub struct ReplicaAcks(Mutex<AckState>);

#[derive(Default)]
struct AckState {
    acks: Vec<ReplicaAck>,
    waiting: Wakers,
    /// Whether a client waits that came since replicas were asked.
    is_wanted: bool,
    /// The task that asks replicas for what they have.
    asker: Option<Waker>,
}

impl ReplicaAcks {
    /// The online replicas are so far.
    pub fn set(&self, acks: Vec<ReplicaAck>) {
        let mut state = self.state();
        if state.acks == acks {
            return;
        }
        state.acks = acks;
        let waiting = state.waiting.take();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// How many replicas have applied all up to here.
    pub fn applied(&self, lsn: Lsn) -> usize {
        self.state().acks.iter().filter(|ack| ack.applied >= lsn).count()
    }

    /// How many replicas have all up to here on their disks.
    pub fn synced(&self, lsn: Lsn) -> usize {
        self.state().acks.iter().filter(|ack| ack.synced >= lsn).count()
    }

    /// How many replicas have applied all up to here, of how many.
    pub fn in_sync(&self, lsn: Lsn) -> (usize, usize) {
        let state = self.state();
        (state.acks.iter().filter(|ack| ack.applied >= lsn).count(), state.acks.len())
    }

    /// Queues a task until a replica says something new; the first time replicas are asked to.
    pub fn wait(&self, waker: &Waker, is_first: bool) {
        let mut state = self.state();
        state.waiting.add(waker);
        let asker = if is_first && !state.is_wanted { state.asker.clone() } else { None };
        state.is_wanted |= is_first;
        drop(state);
        if let Some(asker) = asker {
            asker.wake();
        }
    }

    /// Has all look again where many may be over: to be called now and then.
    pub(crate) fn sweep(&self) {
        let grown = self.state().waiting.take_grown();
        grown.into_iter().for_each(Waker::wake);
    }

    /// Whether somebody waits for what replicas were not asked for yet. The waker is woken when
    /// that is so again.
    pub fn take_wanted(&self, asker: &Waker) -> bool {
        let mut state = self.state();
        if !state.asker.as_ref().is_some_and(|known| known.will_wake(asker)) {
            state.asker = Some(asker.clone());
        }
        std::mem::take(&mut state.is_wanted)
    }

    fn state(&self) -> MutexGuard<'_, AckState> {
        self.0.lock().expect("no critical section here panics")
    }
}
