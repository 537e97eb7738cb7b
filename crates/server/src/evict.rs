//! Eviction: a worker that finds too much memory in use makes room before its next command.
//!
//! Partitions are chosen by how many keys they hold, so each key is as likely to be looked at as
//! any other, wherever it lies. As many keys as it takes go in one round, so that to wait for
//! memory, to lock, and to commit is done once for all of them; of all that a round has looked at
//! those go that are worth least.
//!
//! What waits to be freed in the background is in use until it is freed: who needs memory frees
//! some of it first, or waits until it is, and evicts what is missing beyond it.
//!
//! Invariant: it runs with no lock held, takes only locks that are free, and what it removes leaves
//! by `commit`.

use std::sync::atomic::{Ordering, fence};

use base::random::Random;
use config::MaxmemoryPolicy;
use config::settings::{MAXMEMORY_EVICTION_TENACITY, MAXMEMORY_POLICY, MAXMEMORY_SAMPLES};
use keyspace::{
    Evicted, Keyspace, Look, Need, Order, PARTITIONS, PartitionIndex, PartitionSet, Rule, Tx,
    TxOptions, heap,
};
use proto::Args;
use smallvec::SmallVec;

use crate::commit;
use crate::compaction;
use crate::memcached::events;
use crate::memcached::watch::Class;
use crate::release;
use crate::server::Server;
use crate::worker::Worker;

/// Keys that go in one round at most: to evict them takes no longer than others wait for a lock.
const KEYS: usize = 16;

/// Partitions that are looked at in one round at most, and keys in each of them: neighbours are
/// fetched from memory together, and other partitions have other locks.
const LOOKS: usize = 32;
const KEYS_PER_LOOK: usize = 16;

/// The least of a round is the best of a choice for so many keys.
const CHOICE: usize = 2;

/// Rounds without a key that may be evicted which say that there is none.
const BARREN_ROUNDS: usize = 12;

/// Each of the first such rounds is followed by one that looks at twice as many.
const BARREN_DOUBLINGS: usize = 5;

/// After so long the partitions' weights are taken anew, in microseconds.
const WEIGHTS_US: i64 = 1_000_000;

/// Attempts one after the other that find the keys in use; then writes go on, or are refused.
const MISSES: u32 = 4;

/// Where there are keys, and none of those that were looked at may go, others may: so much later
/// they are looked for again.
const LOOK_AGAIN_US: i64 = 10_000;

/// Who needs memory frees no more than this at a time of what waits to be freed: it takes about as
/// long as others wait for a lock.
const PIECE: usize = 1 << 20;

/// What a worker knows of keys that may go.
pub(crate) struct Evictor {
    rule: Option<Rule>,
    weights: Weights,
    random: Random,
    /// What a key and its value take, by those that went last.
    mean_bytes: usize,
    /// Attempts that found the keys in use, since one was evicted or enough was free.
    misses: u32,
}

/// How many keys that may be evicted lie in the partitions up to each.
#[derive(Default)]
struct Weights {
    sums: Vec<u32>,
    made_us: i64,
}

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
pub(crate) fn prepare(worker: &Worker, room: impl FnOnce() -> usize) {
    let budget = &worker.server.budget;
    if budget.limit() == 0 {
        return;
    }
    let more = room();
    // To refuse, and what needs no memory, must not cost more than to serve.
    if budget.is_exceeded(more) && !budget.is_settled(worker.ticked_us()) {
        make_room(worker, more);
    }
}

/// Makes room for what the next command brings, as far as that can be done in short time.
#[cold]
pub(crate) fn make_room(worker: &Worker, more: usize) {
    let server = worker.server;
    if server.loading.is_on() || server.keyspace.settings().holds_expiry(worker.now_ms()) {
        return;
    }
    let rule = rule_of(server.config.get(MAXMEMORY_POLICY));
    // The slow clock may be late, or asleep beside a server that was idle until now.
    if server.budget.is_near() {
        release::look(server, server.keyspace.clock().monotonic_us());
    }
    release::turn(worker);
    worker.tick();
    let began = worker.ticked_us();
    let patience = patience_us(server.config.get(MAXMEMORY_EVICTION_TENACITY));
    let deadline = began.saturating_add(patience);
    let mut evictor = worker.evictor.borrow_mut();
    evictor.turn_to(rule);
    let (mut is_any_gone, mut is_over, mut misses) = (false, false, 0);
    while server.budget.is_exceeded(more) {
        // While a snapshot has enough to save, what goes is one more copy for it and makes no room;
        // while the world stands still nobody allocates much.
        if is_over || server.snapshot_valve.is_shut() || !come_in_relieved(worker) {
            // However short the time was, a write is refused where no key can go and too little
            // waits to be freed.
            let is_any = is_any_gone
                || !evictor.finds_all_in_use(worker, more)
                    && rule.is_some_and(|rule| evictor.sees_any(worker, rule));
            server.budget.note_exhausted(!is_any && !awaits_garbage(server, more));
            break;
        }
        let changes = server.budget.changes();
        match evictor.attempt(worker, rule, more) {
            Attempt::Evicted => {
                (is_any_gone, misses) = (true, 0);
                server.budget.note_exhausted(false);
            }
            Attempt::Freed => {}
            Attempt::Underway => break,
            Attempt::Missed => misses += 1,
            Attempt::Nothing => {
                let until_us = worker.ticked_us() + LOOK_AGAIN_US;
                let is_sure = rule.is_none() || evictor.weights.all() == 0;
                server.budget.settle(changes, if is_sure { i64::MAX } else { until_us });
                break;
            }
        }
        if misses == MISSES {
            // All that may go is in use: others must not wait for that, nor write without end.
            let is_exhausted = !is_any_gone && evictor.finds_all_in_use(worker, more);
            server.budget.note_exhausted(is_exhausted);
            break;
        }
        worker.tick();
        is_over = worker.ticked_us() >= deadline;
    }
    if !server.budget.is_exceeded(more) {
        evictor.misses = 0;
    }
    // What was freed here may be what others wait for.
    admit_writers(server);
    worker.tick();
    let micros = u64::try_from(worker.ticked_us() - began).unwrap_or(0);
    if micros >= server.latency.threshold_us() {
        server.latency.note(server.keyspace.clock(), "eviction-cycle", micros);
    }
    note_excess(worker);
}

/// Comes in to evict. Eviction leaves pages half empty, so compaction empties some first; it takes
/// the worker out where the world is wanted. Whether the worker is inside behind that.
fn come_in_relieved(worker: &Worker) -> bool {
    worker.come_in() && {
        compaction::relieve(worker);
        worker.come_in()
    }
}

/// Notes for how long the limit is exceeded.
pub(crate) fn note_excess(worker: &Worker) {
    let budget = &worker.server.budget;
    budget.excess.note(budget.is_exceeded(0), worker.ticked_us());
}

/// Which keys a policy lets go; none where it lets none.
fn rule_of(policy: MaxmemoryPolicy) -> Option<Rule> {
    use MaxmemoryPolicy as Policy;
    let (order, only_volatile) = match policy {
        Policy::Noeviction => return None,
        Policy::AllkeysLru | Policy::AllkeysLrm => (Order::Idle, false),
        Policy::AllkeysLfu => (Order::Frequency, false),
        Policy::AllkeysApus => (Order::Worth, false),
        Policy::AllkeysRandom => (Order::Random, false),
        Policy::VolatileLru | Policy::VolatileLrm => (Order::Idle, true),
        Policy::VolatileLfu => (Order::Frequency, true),
        Policy::VolatileRandom => (Order::Random, true),
        Policy::VolatileTtl => (Order::Deadline, true),
    };
    Some(Rule { order, only_volatile })
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
    pub(crate) fn new() -> Self {
        Self {
            rule: None,
            weights: Weights::default(),
            random: Random::from_entropy(),
            mean_bytes: heap::STEP,
            misses: 0,
        }
    }

    /// What was found by another rule is worth nothing.
    fn turn_to(&mut self, rule: Option<Rule>) {
        if self.rule != rule {
            self.rule = rule;
            self.weights = Weights::default();
        }
    }

    /// Whether attempt after attempt, in one command's time or in that of several, has found all
    /// that may go in use, and more is missing than writes may go on with.
    fn finds_all_in_use(&self, worker: &Worker, more: usize) -> bool {
        self.misses >= MISSES && !worker.server.budget.is_slightly_exceeded(more)
    }

    /// Whether there are keys that may be evicted.
    fn sees_any(&mut self, worker: &Worker, rule: Rule) -> bool {
        self.weights = Weights::default();
        self.weights.refresh(worker.server.keyspace, rule, worker.ticked_us());
        self.weights.all() > 0
    }

    /// Makes some room: what is garbage already goes before anything is evicted.
    fn attempt(&mut self, worker: &Worker, rule: Option<Rule>, more: usize) -> Attempt {
        let (budget, reclaimer) = (&worker.server.budget, worker.server.keyspace.reclaimer());
        let garbage = reclaimer.bytes();
        if garbage > 0 && reclaimer.free_some(PIECE) {
            return Attempt::Freed;
        }
        if awaits_garbage(worker.server, more) {
            budget.note_exhausted(false);
            return Attempt::Underway;
        }
        let Some(rule) = rule else { return Attempt::Nothing };
        match budget.pledge(more, garbage) {
            Some(pledge) => self.evict(worker, rule, pledge.bytes),
            None => Attempt::Underway,
        }
    }

    /// Evicts keys until so many bytes are free, as many as one round may.
    fn evict(&mut self, worker: &Worker, rule: Rule, missing: usize) -> Attempt {
        let mut is_fresh = self.weights.refresh(worker.server.keyspace, rule, worker.ticked_us());
        let samples = samples(rule, worker.server.config.get(MAXMEMORY_SAMPLES));
        // Threads tell of what they freed in steps.
        let bytes = missing + heap::STEP;
        let keys = bytes.div_ceil(self.mean_bytes).min(KEYS);
        let need = Need { bytes, keys: KEYS, samples };
        loop {
            let (evicted, is_any_busy) = self.look_and_evict(worker, rule, need, keys);
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
            is_fresh = self.weights.refresh(worker.server.keyspace, rule, worker.ticked_us());
        }
    }

    /// Looks at ever more keys until some may go; with it, whether it was busy somewhere.
    fn look_and_evict(
        &mut self,
        worker: &Worker,
        rule: Rule,
        need: Need,
        keys: usize,
    ) -> (Evicted, bool) {
        let (mut evicted, mut is_any_busy) = (Evicted::default(), false);
        for round in 0..BARREN_ROUNDS {
            // Where hardly any key may go, more are to be looked at.
            let doublings = round.min(BARREN_DOUBLINGS);
            let looks = self.choose((need.samples * keys.max(CHOICE)) << doublings);
            let is_busy;
            (evicted, is_busy) = evict_round(worker, &looks, rule, need);
            is_any_busy |= is_busy;
            if evicted.seen > 0 || looks.is_empty() {
                break;
            }
        }
        (evicted, is_any_busy)
    }

    /// Where to look at about so many keys; in rising order, each partition once.
    fn choose(&mut self, keys: usize) -> SmallVec<[Look; LOOKS]> {
        let in_each = (self.weights.all() / PARTITIONS).clamp(1, KEYS_PER_LOOK);
        let count = keys.div_ceil(in_each).min(LOOKS);
        let (weights, random) = (&self.weights, &mut self.random);
        let mut looks: SmallVec<[Look; LOOKS]> = (0..count)
            .filter_map(|_| {
                let partition = weights.choose(random)?;
                Some(Look { partition, random: random.next_u64(), count: keys.div_ceil(count) })
            })
            .collect();
        looks.sort_unstable_by_key(|look| look.partition);
        // What was drawn twice is looked at for twice as many.
        looks.dedup_by(|next, look| {
            let is_same = next.partition == look.partition;
            look.count += if is_same { next.count } else { 0 };
            is_same
        });
        looks
    }
}

/// Has writes wait until what is missing is freed, if that much waits to be freed: what is too big
/// to be freed here, or more than one command has time for. Whether they need not be refused.
fn awaits_garbage(server: &Server, more: usize) -> bool {
    let garbage = server.keyspace.reclaimer().bytes();
    if server.budget.missing(more) > garbage {
        return false;
    }
    if garbage > 0 {
        server.budget.valve.shut();
        // If it is freed by now, nobody else opens the valve.
        fence(Ordering::SeqCst);
        admit_writers(server);
    }
    true
}

/// Lets writes go on if what is freed in the background is not what they wait for.
pub(crate) fn admit_writers(server: &Server) {
    if !server.budget.is_exceeded(0) || server.keyspace.reclaimer().bytes() == 0 {
        server.budget.valve.open();
    }
}

/// Frees what is to be freed in the background.
pub(crate) fn free_garbage(server: &Server) {
    while server.keyspace.reclaimer().free_next() {
        admit_writers(server);
    }
}

/// One of how many keys goes. Worth is told from more samples than one reading of the clock is; at
/// random one is as good as another.
fn samples(rule: Rule, configured: u32) -> usize {
    match rule.order {
        Order::Random => 1,
        Order::Worth => 2 * configured as usize,
        Order::Idle | Order::Frequency | Order::Deadline => configured as usize,
    }
}

/// Looks, and evicts what is worth least there; with it, whether it was busy somewhere.
fn evict_round(worker: &Worker, looks: &[Look], rule: Rule, need: Need) -> (Evicted, bool) {
    debug_assert!(worker.is_inside(), "nobody evicts beside the world");
    let server = worker.server;
    let partitions: PartitionSet = looks.iter().map(|look| look.partition).collect();
    let acquisition = server.keyspace.acquire_free(partitions);
    let is_any_busy = acquisition.partition_count() < looks.len();
    let mut tx = Tx::begin(acquisition, TxOptions::internal(worker.lane, worker.now_ms()));
    let mut told = Vec::new();
    let evicted = tx.evict(looks, rule, need, |entry, now, idle_s| {
        told.extend(events::note_evicted(worker, entry, now, idle_s));
    });
    commit::commit(server, &worker.rounds, &mut tx, Args::default())
        .expect("who heeds departures is told of them by the key's own partition");
    drop(tx);
    for what in told {
        server.memcached.lookout.tell(server, &worker.rounds, Class::Evictions, what);
    }
    (evicted, is_any_busy)
}

impl Weights {
    /// Takes the weights anew if they are not of late; whether it did.
    fn refresh(&mut self, keyspace: &Keyspace, rule: Rule, now_us: i64) -> bool {
        if !self.sums.is_empty() && now_us - self.made_us < WEIGHTS_US {
            return false;
        }
        let mut sum = 0_u32;
        self.sums.clear();
        self.sums.extend((0..PARTITIONS).map(|partition| {
            let partition = partition as PartitionIndex;
            let keys = match rule.only_volatile {
                true => keyspace.volatile_population(partition),
                false => keyspace.population(partition),
            };
            sum = sum.saturating_add(u32::try_from(keys).unwrap_or(u32::MAX));
            sum
        }));
        self.made_us = now_us;
        keyspace.note_keys(sum);
        true
    }

    /// All keys.
    fn all(&self) -> usize {
        self.sums.last().map_or(0, |sum| *sum as usize)
    }

    /// A partition, by the share of all keys that lies there.
    fn choose(&self, random: &mut Random) -> Option<PartitionIndex> {
        let all = self.all();
        if all == 0 {
            return None;
        }
        let key = random.below(all as u64) as u32;
        Some(self.sums.partition_point(|sum| *sum <= key) as PartitionIndex)
    }
}

#[cfg(test)]
mod tests {
    use base::random::Random;

    use super::{Evictor, PARTITIONS, Weights, patience_us};

    fn weights(keys_of: impl Fn(usize) -> u32) -> Weights {
        let mut sum = 0;
        let sums = (0..PARTITIONS).map(|partition| {
            sum += keys_of(partition);
            sum
        });
        Weights { sums: sums.collect(), made_us: 0 }
    }

    #[test]
    fn a_partition_is_chosen_as_often_as_it_has_keys() {
        const DRAWS: u32 = 100_000;
        let mut random = Random::from_seed(1);
        // A third of all keys in one partition, a third in another, the rest all over.
        let each = 10;
        let rest = each * (PARTITIONS as u32 - 2);
        let giants = [5, PARTITIONS - 1];
        let weights = weights(|index| if giants.contains(&index) { rest } else { each });
        let mut drawn = [0_u32; 2];
        for _ in 0..DRAWS {
            let partition = usize::from(weights.choose(&mut random).unwrap());
            giants.iter().zip(&mut drawn).for_each(|(giant, count)| {
                *count += u32::from(*giant == partition);
            });
        }
        for count in drawn {
            assert!(count.abs_diff(DRAWS / 3) < DRAWS / 50, "{count} of {DRAWS}");
        }
    }

    #[test]
    fn a_partition_without_keys_is_never_chosen() {
        let mut random = Random::from_seed(2);
        let only = weights(|index| u32::from(index == 77));
        assert!((0..1000).all(|_| only.choose(&mut random) == Some(77)));
        assert_eq!(weights(|_| 0).choose(&mut random), None);
        assert_eq!(Weights::default().choose(&mut random), None);
    }

    #[test]
    fn what_is_drawn_twice_is_looked_at_for_twice_as_many() {
        let mut evictor = Evictor::new();
        evictor.weights = weights(|index| if index == 9 { 1_000_000 } else { 0 });
        let looks = evictor.choose(80);
        assert_eq!(looks.len(), 1);
        assert_eq!((looks[0].partition, looks[0].count), (9, 80));
        evictor.weights = weights(|_| 20);
        let looks = evictor.choose(80);
        assert_eq!(looks.iter().map(|look| look.count).sum::<usize>(), 80);
        assert!(looks.is_sorted_by(|look, next| look.partition < next.partition));
        evictor.weights = weights(|_| 0);
        assert!(evictor.choose(80).is_empty());
    }

    #[test]
    fn patience_grows_with_tenacity() {
        assert_eq!((patience_us(0), patience_us(10), patience_us(100)), (0, 500, i64::MAX));
        assert!((1..100).all(|tenacity| patience_us(tenacity) > patience_us(tenacity - 1)));
    }
}
