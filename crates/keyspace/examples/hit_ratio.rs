//! Hit ratios of eviction policies on made-up traces: ours as it is, others as models.
//!
//! `cargo run --release -p keyspace --example hit_ratio`. A request a millisecond; a miss stores
//! the key; caches are measured in keys, and the first fifth of a trace does not count.
//!
//! Invariant: nothing depends on time or chance but on the seeds below, so two runs agree.
#![allow(clippy::expect_used, reason = "an example stops where something is wrong")]

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;

use base::random::Random;
use keyspace::{
    AccessPolicy, Acquisition, EvictionNeed, EvictionOrder, EvictionPolicy, EvictionSample,
    Keyspace, Lifetime, NewText, Options, PARTITIONS, PartitionIndex, PartitionSet, Tx, TxOptions,
};

const REQUESTS: usize = 400_000;
const SAMPLES: usize = 5;

/// Candidates that the model of Redis keeps.
const POOL: usize = 16;

/// What goes in one round, and in how many partitions it is looked for, as in the server.
const KEYS: usize = 12;
const LOOKS: usize = 32;

/// A cache of so many keys.
trait Cache {
    /// Asks for a key, which is stored if it is not there; whether it was.
    fn ask(&mut self, key: u64, now: i64) -> bool;
}

/// The keyspace with one of its policies, driven as the server drives it.
struct Ours {
    keyspace: &'static Keyspace,
    rule: EvictionPolicy,
    size: usize,
    len: usize,
    random: Random,
}

impl Ours {
    fn new(size: usize, policy: AccessPolicy, order: EvictionOrder) -> Self {
        let keyspace = Keyspace::leak(Options { databases: 1, hash_key: (3, 5), ..Options::new() });
        keyspace.settings().access_policy.store(policy as u8, Ordering::Relaxed);
        keyspace.settings().lfu_log_factor.store(10, Ordering::Relaxed);
        keyspace.settings().lfu_decay_time.store(1, Ordering::Relaxed);
        keyspace.note_keys(size as u32);
        let rule = EvictionPolicy { order, only_volatile: false };
        Self { keyspace, rule, size, len: 0, random: Random::from_seed(7) }
    }

    fn begin(&self, partitions: PartitionSet, now: i64) -> Tx {
        let mut acquisition = Acquisition::of_partitions(self.keyspace, partitions);
        assert!(acquisition.attempt(), "nobody else is here");
        Tx::begin(acquisition, TxOptions { touches: true, ..TxOptions::internal(0, now) })
    }

    fn evict(&mut self, now: i64) {
        let samples = if self.rule.order == EvictionOrder::Worth { 2 * SAMPLES } else { SAMPLES };
        let count = (samples * KEYS).div_ceil((self.size / PARTITIONS).max(1)).min(LOOKS);
        let mut looks = Vec::new();
        while looks.len() < count {
            let partition = self.random.below(PARTITIONS as u64) as PartitionIndex;
            // As likely as it has keys: at most eight here.
            let keys = self.keyspace.population(partition) as u64;
            if self.random.below(8) < keys {
                let random = self.random.next_u64();
                looks.push(EvictionSample {
                    partition,
                    random,
                    count: (samples * KEYS).div_ceil(count),
                });
            }
        }
        looks.sort_unstable_by_key(|look| look.partition);
        looks.dedup_by_key(|look| look.partition);
        let partitions = looks.iter().map(|look| look.partition).collect();
        let mut tx = self.begin(partitions, now);
        let need = EvictionNeed { bytes: usize::MAX, keys: KEYS, samples };
        self.len -= tx.evict(&looks, self.rule, need, |_, _, _| ()).keys;
        tx.finish();
    }
}

impl Cache for Ours {
    fn ask(&mut self, key: u64, now: i64) -> bool {
        let key = key.to_be_bytes();
        let partition = PartitionSet::from_slice(&[self.keyspace.locate(&key).partition()]);
        let found = self.begin(partition.clone(), now).read(&key).expect("it is granted").is_some();
        if found {
            return true;
        }
        if self.len == self.size {
            self.evict(now);
        }
        let mut tx = self.begin(partition, now);
        tx.put_text(&key, NewText::Integer(1), Lifetime::Forever).expect("it is granted");
        tx.finish();
        self.len += 1;
        false
    }
}

/// Redis' lru and lfu: samples, a pool, and the finest clock.
struct Sampled {
    by_frequency: bool,
    size: usize,
    places: HashMap<u64, usize>,
    /// Key, time and count of uses.
    entries: Vec<(u64, i64, u32)>,
    pool: Vec<(i64, u64)>,
    random: Random,
}

impl Sampled {
    fn new(size: usize, by_frequency: bool) -> Self {
        let (places, entries, pool) = (HashMap::new(), Vec::new(), Vec::new());
        Self { by_frequency, size, places, entries, pool, random: Random::from_seed(11) }
    }

    fn count(&self, place: usize, now: i64) -> u32 {
        let (_, then, count) = self.entries[place];
        count.saturating_sub(((now / 60_000) - (then / 60_000)).max(0) as u32)
    }

    fn rank(&self, place: usize, now: i64) -> i64 {
        if self.by_frequency {
            return 255 - i64::from(self.count(place, now));
        }
        now - self.entries[place].1
    }

    fn evict(&mut self, now: i64) {
        loop {
            for _ in 0..SAMPLES {
                let place = self.random.below(self.entries.len() as u64) as usize;
                let (rank, key) = (self.rank(place, now), self.entries[place].0);
                if self.pool.iter().any(|(_, known)| *known == key) {
                    continue;
                }
                let at = self.pool.partition_point(|(known, _)| *known <= rank);
                self.pool.insert(at, (rank, key));
                if self.pool.len() > POOL {
                    self.pool.remove(0);
                }
            }
            let Some((_, key)) = self.pool.pop() else { continue };
            let Some(place) = self.places.remove(&key) else { continue };
            self.entries.swap_remove(place);
            if let Some((moved, ..)) = self.entries.get(place) {
                self.places.insert(*moved, place);
            }
            return;
        }
    }
}

impl Cache for Sampled {
    fn ask(&mut self, key: u64, now: i64) -> bool {
        if let Some(&place) = self.places.get(&key) {
            let count = self.count(place, now);
            let odds = u64::from(count.saturating_sub(5)) * 10 + 1;
            let more = u32::from(count < 255 && self.random.below(odds) == 0);
            self.entries[place] = (key, now, count + more);
            return true;
        }
        if self.entries.len() == self.size {
            self.evict(now);
        }
        self.places.insert(key, self.entries.len());
        self.entries.push((key, now, 5));
        false
    }
}

/// memcached's segments: new keys, keys in use, and the others, from whose end keys go.
struct Segmented {
    size: usize,
    /// Segment, whether it was used there, and which of its entries in the queue is the valid one.
    keys: HashMap<u64, (usize, bool, u64)>,
    queues: [VecDeque<(u64, u64)>; 3],
    lens: [usize; 3],
    ticket: u64,
}

const HOT: usize = 0;
const WARM: usize = 1;
const COLD: usize = 2;

impl Segmented {
    fn new(size: usize) -> Self {
        Self { size, keys: HashMap::new(), queues: Default::default(), lens: [0; 3], ticket: 0 }
    }

    fn push(&mut self, key: u64, segment: usize) {
        self.ticket += 1;
        self.keys.insert(key, (segment, false, self.ticket));
        self.queues[segment].push_back((key, self.ticket));
        self.lens[segment] += 1;
    }

    /// The oldest of a segment, and whether it was used there.
    fn pop(&mut self, segment: usize) -> Option<(u64, bool)> {
        while let Some((key, ticket)) = self.queues[segment].pop_front() {
            if let Some(&(of, used, valid)) = self.keys.get(&key)
                && (of, valid) == (segment, ticket)
            {
                self.lens[segment] -= 1;
                self.keys.remove(&key);
                return Some((key, used));
            }
        }
        None
    }
}

impl Cache for Segmented {
    fn ask(&mut self, key: u64, _: i64) -> bool {
        if let Some(known) = self.keys.get_mut(&key) {
            known.1 = true;
            if known.0 == COLD {
                self.lens[COLD] -= 1;
                self.push(key, WARM);
            }
            return true;
        }
        self.push(key, HOT);
        for (segment, share) in [(HOT, 5), (WARM, 2)] {
            let limit = if segment == HOT { self.size / share } else { self.size * share / 5 };
            while self.lens[segment] > limit {
                let Some((key, used)) = self.pop(segment) else { break };
                self.push(key, if used { WARM } else { COLD });
            }
        }
        while self.keys.len() > self.size {
            let _ = self.pop(COLD).or_else(|| self.pop(HOT)).or_else(|| self.pop(WARM));
        }
        false
    }
}

/// Ranks by Zipf's law.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(count: u32, exponent: f64) -> Self {
        let mut sum = 0.0;
        let mut sums = Vec::new();
        for rank in 1..=count {
            sum += f64::from(rank).powf(-exponent);
            sums.push(sum);
        }
        sums.iter_mut().for_each(|partial| *partial /= sum);
        Self(sums)
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let point = random.below(1 << 53) as f64 / (1_u64 << 53) as f64;
        self.0.partition_point(|sum| *sum < point) as u64
    }
}

/// A name, a size of the cache, and the keys that are asked for.
type Trace = (&'static str, usize, Vec<u64>);

/// Keys that nobody asks for twice.
const ONCE: u64 = 1 << 40;

fn trace(name: &'static str, size: usize, mut key: impl FnMut(usize, &mut Random) -> u64) -> Trace {
    let mut random = Random::from_seed(12_345);
    (name, size, (0..REQUESTS).map(|number| key(number, &mut random)).collect())
}

fn traces() -> Vec<Trace> {
    let (wide, narrow) = (Zipf::new(200_000, 0.99), Zipf::new(40_000, 0.99));
    let (flat, steep) = (Zipf::new(400_000, 0.8), Zipf::new(100_000, 1.0));
    let mut made = 100_000;
    vec![
        trace("Zipf 0.99, a tenth fits", 20_000, |_, random| wide.draw(random)),
        trace("Zipf 0.99, a hundredth fits", 2_000, |_, random| wide.draw(random)),
        trace("Zipf and bursts of scans", 10_000, |number, random| {
            if number % 60_000 < 40_000 { wide.draw(random) } else { ONCE + number as u64 }
        }),
        trace("Zipf and a third scans", 10_000, |number, random| match random.below(3) {
            0 => ONCE + number as u64,
            _ => wide.draw(random),
        }),
        trace("hot set, exchanged at times", 4_000, |number, random| {
            narrow.draw(random) + (number / 60_000) as u64 * ONCE
        }),
        trace("hot set that drifts", 4_000, |number, random| {
            narrow.draw(random) + (number / 30) as u64
        }),
        trace("hot set, exchanged by half", 4_000, |number, random| match narrow.draw(random) {
            even if even % 2 == 0 => even,
            odd => odd + (number / 60_000) as u64 * ONCE,
        }),
        trace("loop of 1.5 times the size", 10_000, |number, _| number as u64 % 15_000),
        trace("loop and Zipf", 10_000, |number, random| match number % 2 {
            0 => ONCE + number as u64 / 2 % 12_000,
            _ => wide.draw(random),
        }),
        trace("as of a CDN: flat, many once", 10_000, |number, random| match random.below(5) {
            0 => ONCE + number as u64,
            _ => flat.draw(random),
        }),
        trace("as of a timeline: the new is hot", 4_000, |_, random| {
            made += u64::from(random.below(20) == 0);
            match random.below(2) {
                0 => made - steep.draw(random),
                _ => ONCE + steep.draw(random),
            }
        }),
    ]
}

fn main() {
    let names = ["redis lru", "redis lfu", "memcached", "lru", "lfu", "apus"];
    println!("{:34}{}", "", names.map(|name| format!("{name:>11}")).concat());
    for (name, size, keys) in traces() {
        let caches: [Box<dyn Cache>; 6] = [
            Box::new(Sampled::new(size, false)),
            Box::new(Sampled::new(size, true)),
            Box::new(Segmented::new(size)),
            Box::new(Ours::new(size, AccessPolicy::Accesses, EvictionOrder::Idle)),
            Box::new(Ours::new(size, AccessPolicy::Frequency, EvictionOrder::Frequency)),
            Box::new(Ours::new(size, AccessPolicy::Worth, EvictionOrder::Worth)),
        ];
        let ratio = |mut cache: Box<dyn Cache>| {
            let (mut hits, warm) = (0_usize, keys.len() / 5);
            for (number, key) in keys.iter().enumerate() {
                let hit = cache.ask(*key, 1_000_000_000 + number as i64);
                hits += usize::from(hit && number >= warm);
            }
            format!("{:11.2}", 100.0 * hits as f64 / (keys.len() - warm) as f64)
        };
        println!("{name:34}{}", caches.map(ratio).concat());
    }
}
