//! Eviction: a worker that finds too much memory in use makes room before its next command.
//!
//! Partitions are chosen by how many keys they hold, so each key is as likely to be looked at as
//! any other, wherever it lies. The best candidates of the latest looks are kept in a pool, the
//! best of which goes.
//!
//! Invariant: it runs with no lock held, takes one partition at a time, and what it removes leaves
//! by `commit`.

use base::random::Random;
use keyspace::{
    Acquisition, Candidate, Keyspace, Order, PARTITIONS, PartitionIndex, Rule, Tx, TxOptions,
};
use proto::Args;

use crate::commit;
use crate::compaction;
use crate::config::MaxmemoryPolicy;
use crate::config::settings::{MAXMEMORY_EVICTION_TENACITY, MAXMEMORY_POLICY, MAXMEMORY_SAMPLES};
use crate::memcached::events;
use crate::memcached::watch::Class;
use crate::worker::Worker;

/// Candidates that are kept for the next time.
const POOL: usize = 16;

/// Partitions looked at for one key; and how many without a key that may be evicted say that there
/// is none.
const LOOKS: usize = 16;
const LOOKS_FOR_ANY: usize = 64;

/// Between two looks at the clock.
const KEYS_PER_TICK: usize = 8;

/// After so long the partitions' weights are taken anew, in microseconds.
const WEIGHTS_US: i64 = 1_000_000;

/// What a worker knows of keys that may go.
pub(crate) struct Evictor {
    rule: Option<Rule>,
    /// The best one last.
    pool: Vec<Candidate>,
    weights: Weights,
    random: Random,
}

/// How many keys that may be evicted lie in the partitions up to each.
#[derive(Default)]
struct Weights {
    sums: Vec<u32>,
    made_us: i64,
}

/// What came of the attempt to evict a key.
enum Attempt {
    Evicted,
    /// Its partition is busy, or the key was used meanwhile.
    Missed,
    /// There is none that may be.
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
    if budget.is_exceeded(more) {
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
    worker.tick();
    let began = worker.ticked_us();
    let patience = patience_us(server.config.get(MAXMEMORY_EVICTION_TENACITY));
    let deadline = began.saturating_add(patience);
    let mut evictor = worker.evictor.borrow_mut();
    evictor.turn_to(rule);
    let (mut keys, mut is_any_gone, mut is_over) = (0, false, false);
    while server.budget.is_exceeded(more) {
        // While the world stands still nobody allocates much.
        if is_over || !worker.come_in() {
            // However short the time was, a write is refused where no key can go.
            let is_any = is_any_gone || rule.is_some_and(|rule| evictor.sees_any(worker, rule));
            server.budget.note_exhausted(!is_any);
            break;
        }
        // What is evicted leaves pages half empty: where much lies idle that would be in vain.
        let is_relieved = compaction::relieve(worker);
        let attempt = match rule {
            _ if is_relieved => Attempt::Missed,
            Some(rule) => evictor.evict_one(worker, rule),
            None => Attempt::Nothing,
        };
        match attempt {
            Attempt::Evicted => {
                is_any_gone = true;
                server.budget.note_exhausted(false);
            }
            Attempt::Missed => {}
            Attempt::Nothing => {
                server.budget.note_exhausted(true);
                break;
            }
        }
        keys += 1;
        if is_relieved || keys % KEYS_PER_TICK == 0 {
            worker.tick();
            is_over = worker.ticked_us() >= deadline;
        }
    }
    worker.tick();
    let micros = u64::try_from(worker.ticked_us() - began).unwrap_or(0);
    if micros >= server.latency.threshold_us() {
        server.latency.note(server.keyspace.clock(), "eviction-cycle", micros);
    }
    server.budget.excess.note(server.budget.is_exceeded(0), worker.ticked_us());
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
            pool: Vec::new(),
            weights: Weights::default(),
            random: Random::from_entropy(),
        }
    }

    /// What was found by another rule is worth nothing.
    fn turn_to(&mut self, rule: Option<Rule>) {
        if self.rule != rule {
            self.rule = rule;
            self.pool.clear();
            self.weights = Weights::default();
        }
    }

    /// Whether there are keys that may be evicted.
    fn sees_any(&mut self, worker: &Worker, rule: Rule) -> bool {
        self.weights = Weights::default();
        self.weights.refresh(worker.server.keyspace, rule, worker.ticked_us());
        self.weights.sums.last().is_some_and(|keys| *keys != 0)
    }

    /// Looks at some keys, and evicts the best candidate there is.
    fn evict_one(&mut self, worker: &Worker, rule: Rule) -> Attempt {
        let keyspace = worker.server.keyspace;
        let is_fresh = self.weights.refresh(keyspace, rule, worker.ticked_us());
        let last = self.look_around(worker, rule);
        let Some(best) = self.pool.pop() else {
            // Keys may have come since the weights were taken.
            self.weights = Weights::default();
            return if is_fresh { Attempt::Nothing } else { Attempt::Missed };
        };
        let last = last.filter(|(partition, _)| *partition == best.partition);
        let Some(mut tx) = last.map(|(_, tx)| tx).or_else(|| begin(worker, best.partition)) else {
            return Attempt::Missed;
        };
        let (server, mut told) = (worker.server, None);
        let is_gone = tx.evict(&best, rule, |entry, now, idle_s| {
            told = events::note_evicted(worker, entry, now, idle_s);
        });
        commit::commit(server, &worker.rounds, &mut tx, Args::default())
            .expect("who heeds departures is told of them by the key's own partition");
        drop(tx);
        if let Some(what) = told {
            server.memcached.lookout.tell(server, &worker.rounds, Class::Evictions, what);
        }
        if is_gone { Attempt::Evicted } else { Attempt::Missed }
    }

    /// Looks at so many keys as the configuration says, in as many partitions as that takes; the
    /// last of them is still held.
    fn look_around(&mut self, worker: &Worker, rule: Rule) -> Option<(PartitionIndex, Tx)> {
        // Worth is told from more samples than one reading of the clock is.
        let samples = worker.server.config.get(MAXMEMORY_SAMPLES) as usize;
        let wanted = if rule.order == Order::Worth { 2 * samples } else { samples };
        let (mut seen, mut last) = (0, None);
        for look in 0..LOOKS_FOR_ANY {
            let has_some = seen > 0 || !self.pool.is_empty();
            if seen >= wanted || has_some && look >= LOOKS {
                break;
            }
            last = None;
            let Some(partition) = self.weights.choose(&mut self.random) else { break };
            let Some(tx) = begin(worker, partition) else { continue };
            seen += self.look(&tx, partition, rule, wanted - seen);
            last = Some((partition, tx));
        }
        last
    }

    /// Has the pool get to know keys of a partition; how many it looked at.
    fn look(&mut self, tx: &Tx, partition: PartitionIndex, rule: Rule, count: usize) -> usize {
        let (pool, random) = (&mut self.pool, self.random.next_u64());
        tx.look_for_victims(partition, rule, random, count, |rank, candidate| {
            let is_full = pool.len() >= POOL;
            if is_full && pool[0].rank >= rank {
                return;
            }
            let candidate = candidate();
            if pool.iter().any(|known| known.is_same(&candidate)) {
                return;
            }
            if is_full {
                pool.remove(0);
            }
            let place = pool.partition_point(|known| known.rank <= rank);
            pool.insert(place, candidate);
        })
    }
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

    /// A partition, by the share of all keys that lies there.
    fn choose(&self, random: &mut Random) -> Option<PartitionIndex> {
        let all = *self.sums.last()?;
        if all == 0 {
            return None;
        }
        let key = random.below(u64::from(all)) as u32;
        Some(self.sums.partition_point(|sum| *sum <= key) as PartitionIndex)
    }
}

fn begin(worker: &Worker, partition: PartitionIndex) -> Option<Tx> {
    let acquisition: Acquisition = worker.server.keyspace.try_acquire(partition)?;
    Some(Tx::begin(acquisition, TxOptions::internal(worker.lane, worker.now_ms())))
}

#[cfg(test)]
mod tests {
    use base::random::Random;

    use super::{PARTITIONS, Weights, patience_us};

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
    fn patience_grows_with_tenacity() {
        assert_eq!((patience_us(0), patience_us(10), patience_us(100)), (0, 500, i64::MAX));
        assert!((1..100).all(|tenacity| patience_us(tenacity) > patience_us(tenacity - 1)));
    }
}
