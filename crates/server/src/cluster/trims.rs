//! Keys of slots that are another node's, on their way out: Redis calls that a trim.
//!
//! Invariants: a trim that was begun ends as completed, or as cancelled where keys have their place
//! here again; all trims are one thread's, one behind the other, as a pause may hold them for long.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use engine::reclaim::slots::drop_slots;
use keyspace::PartitionIndex;

use super::start::ClusterContext;
use crate::net::network::Network;

/// What there is to be told of them.
#[derive(Default)]
pub(crate) struct Trims {
    /// Those under way, and those that wait for a thread.
    pub(crate) running: AtomicU64,
    pub(crate) started: AtomicU64,
    pub(crate) completed: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    /// The one that was begun last, while any runs.
    latest: Mutex<Option<Arc<Trim>>>,
    waiting: Mutex<WaitingTrims>,
}

/// The slots of trims that are to come.
#[derive(Default)]
struct WaitingTrims {
    slots: VecDeque<Vec<PartitionIndex>>,
    /// Whether a thread looks for the next one.
    has_thread: bool,
}

struct Trim {
    slots: Vec<PartitionIndex>,
    /// How many keys the slots had.
    keys: u64,
}

impl Trims {
    /// Of the one that was begun last how many keys were to go, and have gone.
    pub(crate) fn progress(&self, server: &Network) -> (u64, u64) {
        let latest = self.lock().clone();
        latest.map_or((0, 0), |trim| {
            (trim.keys, trim.keys.saturating_sub(population(server, &trim.slots)))
        })
    }

    /// The slots of the next trim; without any the thread ends.
    fn next(&self) -> Option<Vec<PartitionIndex>> {
        let mut waiting = self.waiting();
        let next = waiting.slots.pop_front();
        waiting.has_thread = next.is_some();
        next
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingTrims> {
        self.waiting.lock().expect("no critical section here panics")
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Trim>>> {
        self.latest.lock().expect("no critical section here panics")
    }
}

/// Deletes keys of slots in the background.
pub(super) fn begin_trim(start: ClusterContext, slots: Vec<PartitionIndex>) {
    let ClusterContext { server, node, .. } = start;
    let trims = &node.trims;
    if slots.is_empty() {
        return;
    }
    trims.running.fetch_add(1, Ordering::Relaxed);
    let mut waiting = trims.waiting();
    waiting.slots.push_back(slots);
    if !std::mem::replace(&mut waiting.has_thread, true) {
        server.threads.background.spawn_visit(move |lane| {
            while let Some(slots) = trims.next() {
                trim(server, trims, slots, lane);
            }
        });
    }
}

fn trim(server: &'static Network, trims: &Trims, slots: Vec<PartitionIndex>, lane: usize) {
    let trim = Arc::new(Trim { keys: population(server, &slots), slots });
    trims.lock().replace(Arc::clone(&trim));
    trims.started.fetch_add(1, Ordering::Relaxed);
    drop_slots(server, &trim.slots, lane);
    let is_done = population(server, &trim.slots) == 0;
    let ended = if is_done { &trims.completed } else { &trims.cancelled };
    ended.fetch_add(1, Ordering::Relaxed);
    if trims.running.fetch_sub(1, Ordering::Relaxed) == 1 {
        trims.lock().take();
    }
}

fn population(server: &Network, slots: &[PartitionIndex]) -> u64 {
    slots.iter().map(|slot| server.keyspace.population(*slot) as u64).sum()
}
