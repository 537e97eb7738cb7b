//! Eviction: a worker that finds too much memory in use makes room before its next command.
//!
//! Partitions are chosen by how many keys they hold, so each key is as likely to be looked at as
//! any other, wherever it lies. As many keys as it takes go in one batch, so that to wait for
//! memory, to lock, and to commit is done once for all of them; of all that a batch has looked at
//! those go that are worth least.
//!
//! What waits to be freed in the background is in use until it is freed: a worker that needs memory
//! frees some of it first, or waits until it is, and evicts what is missing beyond it.
//!
//! Invariant: eviction runs with no lock held, takes only locks that are free, and what it removes
//! leaves by `commit`.

use std::sync::atomic::{Ordering, fence};

use config::MaxmemoryPolicy;
use config::settings::{MAXMEMORY_EVICTION_TENACITY, MAXMEMORY_POLICY, MAXMEMORY_SAMPLES};
use keyspace::{
    Evicted, EvictionNeed, EvictionOrder, EvictionPolicy, EvictionSample, PartitionSet, Tx,
    TxOptions, heap,
};
use proto::Args;

use crate::commit::publish;
use crate::lane::Lane;
use crate::limits::evictor::{Evictor, Weights};
use crate::reclaim::defrag;
use crate::reclaim::purge;
use crate::shared::Shared;

/// Keys that go in one batch at most: to evict them takes no longer than others wait for a lock.
const KEYS: usize = 16;

/// The least of a batch is the best of a choice for so many keys.
const CHOICE: usize = 2;

/// Rounds without a key that may be evicted which say that there is none.
const BARREN_BATCHES: usize = 12;

/// Each of the first such batches is followed by one that looks at twice as many.
const BARREN_DOUBLINGS: usize = 5;

/// Attempts one after the other that find the keys in use; then writes go on, or are refused.
const MISSES: u32 = 4;

/// Where there are keys, and none of those that were looked at may go, others may: so much later
/// they are looked for again.
const LOOK_AGAIN_US: i64 = 10_000;

/// A thread that needs memory frees no more than this at a time of what waits to be freed: that
/// takes about as long as others wait for a lock.
const PIECE: usize = 1 << 20;

/// What came of the attempt to make some room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// Keys were evicted.
    Evicted,
    /// Some of what was to be freed in the background is.
    Freed,
    /// What others free, in the background or by eviction, is enough.
    Underway,
    /// The partitions are busy.
    Missed,
    /// There is none that may be evicted.
    Nothing,
}

/// Makes room if more memory is in use than may be, or is about to be. Nothing is locked yet.
#[inline]
pub fn prepare(lane: &Lane, room: impl FnOnce() -> usize) {
    let budget = &lane.shared.memory.budget;
    if budget.limit() == 0 {
        return;
    }
    let more = room();
    // To refuse, and what needs no memory, must not cost more than to serve.
    if budget.is_exceeded(more) && !budget.is_settled(lane.ticked_us()) {
        make_room(lane, more);
    }
}

/// Makes room for what the next command brings, as far as that can be done in short time.
#[cold]
pub fn make_room(lane: &Lane, more: usize) {
    let server = lane.shared;
    if server.gates.loading.is_on() || server.keyspace.settings().holds_expiry(lane.now_ms()) {
        return;
    }
    let rule = rule_of(server.config.get(MAXMEMORY_POLICY));
    // The slow clock may be late, or asleep beside a server that was idle until now.
    if server.memory.budget.is_near() {
        purge::check(server, server.keyspace.clock().monotonic_us());
    }
    purge::step(lane);
    lane.tick();
    let began = lane.ticked_us();
    let patience = patience_us(server.config.get(MAXMEMORY_EVICTION_TENACITY));
    let deadline = began.saturating_add(patience);
    let mut evictor = lane.evictor.borrow_mut();
    evictor.set_policy(rule);
    let (mut is_any_gone, mut is_over, mut misses) = (false, false, 0);
    while server.memory.budget.is_exceeded(more) {
        // While a snapshot has enough to save, what goes is one more copy for it and makes no room;
        // while the world stands still nobody allocates much.
        if is_over || server.gates.snapshot_backpressure.is_on() || !enter_defragmented(lane) {
            // However short the time was, a write is refused where no key can go and too little
            // waits to be freed.
            let is_any = is_any_gone
                || !evictor.finds_all_in_use(lane, more)
                    && rule.is_some_and(|rule| evictor.sees_any(lane, rule));
            server.memory.budget.note_exhausted(!is_any && !awaits_garbage(server, more));
            break;
        }
        let changes = server.memory.budget.changes();
        match evictor.attempt(lane, rule, more) {
            Attempt::Evicted => {
                (is_any_gone, misses) = (true, 0);
                server.memory.budget.note_exhausted(false);
            }
            Attempt::Freed => {}
            Attempt::Underway => break,
            Attempt::Missed => misses += 1,
            Attempt::Nothing => {
                let until_us = lane.ticked_us() + LOOK_AGAIN_US;
                let is_sure = rule.is_none() || evictor.weights.all() == 0;
                server
                    .memory
                    .budget
                    .note_nothing_evictable(changes, if is_sure { i64::MAX } else { until_us });
                break;
            }
        }
        if misses == MISSES {
            // All that may go is in use: others must not wait for that, nor write without end.
            let is_exhausted = !is_any_gone && evictor.finds_all_in_use(lane, more);
            server.memory.budget.note_exhausted(is_exhausted);
            break;
        }
        lane.tick();
        is_over = lane.ticked_us() >= deadline;
    }
    if !server.memory.budget.is_exceeded(more) {
        evictor.misses = 0;
    }
    // What was freed here may be what others wait for.
    admit_writers(server);
    lane.tick();
    let micros = u64::try_from(lane.ticked_us() - began).unwrap_or(0);
    server.observed.latency.note(server.keyspace.clock(), "eviction-cycle", micros);
    note_excess(lane);
}

/// Comes in to evict. Eviction leaves pages half empty, so compaction empties some first, which
/// takes the worker out where the world is wanted. Whether the worker is inside behind that, and
/// nothing keeps the data as they are.
fn enter_defragmented(lane: &Lane) -> bool {
    lane.enter() && {
        defrag::step_under_pressure(lane);
        lane.enter_to_reclaim()
    }
}

/// Notes for how long the limit is exceeded.
pub fn note_excess(lane: &Lane) {
    let budget = &lane.shared.memory.budget;
    budget.excess.record(budget.is_exceeded(0), lane.ticked_us());
}

/// Which keys a policy lets go; none where it lets none.
fn rule_of(policy: MaxmemoryPolicy) -> Option<EvictionPolicy> {
    use MaxmemoryPolicy as Policy;
    let (order, only_volatile) = match policy {
        Policy::Noeviction => return None,
        Policy::AllkeysLru | Policy::AllkeysLrm => (EvictionOrder::Idle, false),
        Policy::AllkeysLfu => (EvictionOrder::Frequency, false),
        Policy::AllkeysApus => (EvictionOrder::Worth, false),
        Policy::AllkeysRandom => (EvictionOrder::Random, false),
        Policy::VolatileLru | Policy::VolatileLrm => (EvictionOrder::Idle, true),
        Policy::VolatileLfu => (EvictionOrder::Frequency, true),
        Policy::VolatileRandom => (EvictionOrder::Random, true),
        Policy::VolatileTtl => (EvictionOrder::Deadline, true),
    };
    Some(EvictionPolicy { order, only_volatile })
}

/// How long a client may have to wait for room, as Redis documents it: up to half a millisecond
/// at 10, then a seventh more each, and without end at 100.
fn patience_us(tenacity: u32) -> i64 {
    match tenacity {
        0..=10 => 50 * i64::from(tenacity),
        11..=99 => (500.0 * 1.15_f64.powi(tenacity as i32 - 10)) as i64,
        _ => i64::MAX,
    }
}

impl Evictor {
    /// Whether attempt after attempt, in one command's time or in that of several, has found all
    /// that may go in use, and more is missing than writes may go on with.
    fn finds_all_in_use(&self, lane: &Lane, more: usize) -> bool {
        self.misses >= MISSES && !lane.shared.memory.budget.is_slightly_exceeded(more)
    }

    /// Whether there are keys that may be evicted.
    fn sees_any(&mut self, lane: &Lane, rule: EvictionPolicy) -> bool {
        self.weights = Weights::default();
        self.weights.refresh(lane.shared.keyspace, rule, lane.ticked_us());
        self.weights.all() > 0
    }

    /// Makes some room: what is garbage already goes before anything is evicted.
    fn attempt(&mut self, lane: &Lane, rule: Option<EvictionPolicy>, more: usize) -> Attempt {
        let (budget, lazy_free_queue) =
            (&lane.shared.memory.budget, lane.shared.keyspace.lazy_free_queue());
        let garbage = lazy_free_queue.bytes();
        if garbage > 0 && lazy_free_queue.free_some(PIECE) {
            return Attempt::Freed;
        }
        if awaits_garbage(lane.shared, more) {
            budget.note_exhausted(false);
            return Attempt::Underway;
        }
        let Some(rule) = rule else { return Attempt::Nothing };
        match budget.reserve(more, garbage) {
            Some(reservation) => self.evict(lane, rule, reservation.bytes),
            None => Attempt::Underway,
        }
    }

    /// Evicts keys until so many bytes are free, as many as one batch may.
    fn evict(&mut self, lane: &Lane, rule: EvictionPolicy, missing: usize) -> Attempt {
        let mut is_fresh = self.weights.refresh(lane.shared.keyspace, rule, lane.ticked_us());
        let samples = samples(rule, lane.shared.config.get(MAXMEMORY_SAMPLES));
        // Threads tell of what they freed in steps.
        let bytes = missing + heap::STEP;
        let keys = bytes.div_ceil(self.mean_bytes).min(KEYS);
        let need = EvictionNeed { bytes, keys: KEYS, samples };
        loop {
            let (evicted, is_any_busy) = self.sample_and_evict(lane, rule, need, keys);
            if let Some(mean) = evicted.bytes.checked_div(evicted.keys) {
                (self.mean_bytes, self.misses) = (mean.max(1), 0);
                return Attempt::Evicted;
            }
            if is_fresh && is_any_busy {
                self.misses = self.misses.saturating_add(1);
                return Attempt::Missed;
            }
            if is_fresh {
                return Attempt::Nothing;
            }
            // Keys may have come since the weights were taken.
            self.weights = Weights::default();
            is_fresh = self.weights.refresh(lane.shared.keyspace, rule, lane.ticked_us());
        }
    }

    /// Looks at ever more keys until some may go; with it, whether it was busy somewhere.
    fn sample_and_evict(
        &mut self,
        lane: &Lane,
        rule: EvictionPolicy,
        need: EvictionNeed,
        keys: usize,
    ) -> (Evicted, bool) {
        let (mut evicted, mut is_any_busy) = (Evicted::default(), false);
        for barren in 0..BARREN_BATCHES {
            // Where hardly any key may go, more are to be looked at.
            let doublings = barren.min(BARREN_DOUBLINGS);
            let looks = self.choose((need.samples * keys.max(CHOICE)) << doublings);
            let is_busy;
            (evicted, is_busy) = evict_batch(lane, &looks, rule, need);
            is_any_busy |= is_busy;
            if evicted.seen > 0 || looks.is_empty() {
                break;
            }
        }
        (evicted, is_any_busy)
    }
}

/// Has writes wait until what is missing is freed, if that much waits to be freed: what is too big
/// to be freed here, or more than one command has time for. Whether they need not be refused.
fn awaits_garbage(server: &Shared, more: usize) -> bool {
    let garbage = server.keyspace.lazy_free_queue().bytes();
    if server.memory.budget.missing(more) > garbage {
        return false;
    }
    if garbage > 0 {
        server.memory.budget.backpressure.begin();
        // If the garbage is freed by now, no other thread ends the backpressure.
        fence(Ordering::SeqCst);
        admit_writers(server);
    }
    true
}

/// Lets writes go on if what is freed in the background is not what they wait for.
pub fn admit_writers(server: &Shared) {
    if !server.memory.budget.is_exceeded(0) || server.keyspace.lazy_free_queue().bytes() == 0 {
        server.memory.budget.backpressure.end();
    }
}

/// Frees what is to be freed in the background.
pub fn free_garbage(server: &Shared) {
    while server.keyspace.lazy_free_queue().free_next() {
        admit_writers(server);
    }
}

/// One of how many keys goes. Worth is told from more samples than one reading of the clock is; at
/// random one is as good as another.
fn samples(rule: EvictionPolicy, configured: u32) -> usize {
    match rule.order {
        EvictionOrder::Random => 1,
        EvictionOrder::Worth => 2 * configured as usize,
        EvictionOrder::Idle | EvictionOrder::Frequency | EvictionOrder::Deadline => {
            configured as usize
        }
    }
}

/// Looks, and evicts what is worth least there; with it, whether it was busy somewhere.
fn evict_batch(
    lane: &Lane,
    looks: &[EvictionSample],
    rule: EvictionPolicy,
    need: EvictionNeed,
) -> (Evicted, bool) {
    debug_assert!(lane.is_inside(), "nobody evicts beside the world");
    let server = lane.shared;
    let partitions: PartitionSet = looks.iter().map(|look| look.partition).collect();
    let acquisition = server.keyspace.acquire_free(partitions);
    let is_any_busy = acquisition.partition_count() < looks.len();
    let mut tx = Tx::begin(acquisition, TxOptions::internal(lane.number, lane.now_ms()));
    let (mut told, observer) = (Vec::new(), server.memory.eviction_observer());
    let evicted = tx.evict(looks, rule, need, |entry, now, idle_s| {
        told.extend(observer.and_then(|it| it.record(lane.number, entry, now, idle_s)));
    });
    publish::commit(server, &lane.wakes, &mut tx, Args::default())
        .expect("who heeds departures is told of them by the key's own partition");
    drop(tx);
    for (noted, observer) in told.into_iter().zip(observer.iter().cycle()) {
        observer.notify(server.outbox(&lane.wakes), lane.now_us(), noted);
    }
    (evicted, is_any_busy)
}

#[cfg(test)]
mod tests {
    use super::patience_us;

    #[test]
    fn patience_grows_with_tenacity() {
        assert_eq!((patience_us(0), patience_us(10), patience_us(100)), (0, 500, i64::MAX));
        assert!((1..100).all(|tenacity| patience_us(tenacity) > patience_us(tenacity - 1)));
    }
}
