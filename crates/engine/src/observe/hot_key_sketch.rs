//! Which keys are hot, at any time: estimates from a sample of the requests.
//!
//! Each worker looks at one of so many of its requests, at gaps that are random, so that no rhythm
//! of a client hides a key or makes it hotter than it is. What was noted counts half after each
//! half-life, so what was hot an hour ago is not told of now.
//!
//! Invariants: each worker notes in a row of its own, so none waits for another but for a reader;
//! the memory of a row is bounded, whatever clients send; a request of very many keys costs no more
//! than one of some.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, RwLock};

use base::Random;
use smallvec::SmallVec;
use structs::heavy_hitters::HeavyHitters;

use super::execution::Execution;
use super::hot_keys::request_bytes;
use super::key_prefixes::PrefixRule;
use crate::runtime::lanes::MAX_WORKERS;
use crate::table::request_keys;

/// After so many microseconds what was noted counts half.
const HALF_LIFE_US: i64 = 60_000_000;

/// After so many half-lives nothing is left of a weight.
const HALVINGS_MOST: i64 = 63;

/// So many keys are held by each worker for each of the weights.
const CAPACITY: usize = 128;

/// Longer names are not noted.
const KEY_MAX: usize = 1024;

/// Of a request with more keys so many are noted, for all of them.
const KEYS_MOST: usize = 16;

/// Requests from one look at the directive to the next while no sample is taken.
const GAP_WHILE_OFF: u32 = 256;

/// What keys are hot by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HotKeyMetric {
    /// How often a key is asked for.
    Requests,
    /// The bytes of requests and replies.
    Bytes,
    /// The time that commands take.
    Time,
}

impl HotKeyMetric {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Requests, Self::Bytes, Self::Time];
}

/// Where the weights of prefixes lie, by requests, behind those of keys.
const PREFIXES: usize = HotKeyMetric::ALL.len();

/// A key that is hot.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// The database that the key is in.
    pub database: usize,
    /// Its name.
    pub key: Vec<u8>,
    /// What the key takes each second: requests, bytes or microseconds.
    pub per_second: f64,
    /// Which part that is of what all keys take.
    pub share: f64,
}

/// A request that is looked at.
pub(crate) struct SampledRequest<'a> {
    pub(crate) execution: Execution<'a>,
    pub(crate) database: usize,
    pub(crate) now_us: i64,
}

/// What all workers have noted.
pub struct HotKeySketch {
    /// One of so many requests is looked at; 0 for none.
    ratio: AtomicU32,
    /// When that began, on the monotonic clock.
    began_us: AtomicI64,
    prefixes: RwLock<PrefixRule>,
    rows: Box<[Mutex<Option<Box<WorkerSketch>>>]>,
}

/// What one worker has noted.
struct WorkerSketch {
    random: Random,
    /// How many half-lives had passed when the weights were last halved.
    halvings: i64,
    weights: [MetricSketch; PREFIXES + 1],
}

/// The keys by one of the weights, and what all keys weigh.
struct MetricSketch {
    heaviest: HeavyHitters,
    total: u64,
}

impl Default for HotKeySketch {
    fn default() -> Self {
        Self {
            ratio: AtomicU32::new(0),
            began_us: AtomicI64::new(0),
            prefixes: RwLock::default(),
            rows: (0..MAX_WORKERS).map(|_| Mutex::default()).collect(),
        }
    }
}

impl HotKeySketch {
    /// Begins anew where one of these is not as it was: one of so many requests is looked at, none
    /// for 0, and prefixes are those of a rule.
    pub fn configure(&self, ratio: u32, prefixes: PrefixRule, now_us: i64) {
        let mut own = self.prefixes.write().expect("no critical section here panics");
        let is_same = *own == prefixes;
        *own = prefixes;
        drop(own);
        if self.ratio.swap(ratio, Ordering::Relaxed) != ratio || !is_same {
            self.reset(now_us);
        }
    }

    /// Forgets what was noted.
    pub fn reset(&self, now_us: i64) {
        self.began_us.store(now_us, Ordering::Relaxed);
        self.rows.iter().for_each(|row| *lock(row) = None);
    }

    /// Notes a request of a worker, if samples are taken; how many requests later it looks again.
    #[cold]
    pub(crate) fn note(&self, lane: usize, sampled: &SampledRequest<'_>) -> u32 {
        let ratio = self.ratio.load(Ordering::Relaxed);
        let Some(row) = self.rows.get(lane).filter(|_| ratio > 0) else { return GAP_WHILE_OFF };
        let mut row = lock(row);
        let row = row.get_or_insert_with(|| Box::new(WorkerSketch::new(lane)));
        row.age(self.halvings(sampled.now_us));
        let prefixes = self.prefixes.read().expect("no critical section here panics");
        row.note(u64::from(ratio), &prefixes, sampled);
        // From 1 to twice the ratio less one, which is the ratio in the mean.
        1 + row.random.below(2 * u64::from(ratio) - 1) as u32
    }

    /// How many half-lives have passed.
    fn halvings(&self, now_us: i64) -> i64 {
        (now_us - self.began_us.load(Ordering::Relaxed)).max(0) / HALF_LIFE_US
    }

    /// The hottest keys by a weight, hottest first.
    pub fn report(&self, by: HotKeyMetric, count: usize, now_us: i64) -> Vec<HotKey> {
        let (sums, total) = self.sums(by as usize, now_us);
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_unstable_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        sums.truncate(count);
        let seconds = self.window_us(now_us) / 1e6;
        let hot_key = |(name, weight): (Vec<u8>, u64)| {
            let (database, key) = parts_of(&name);
            let share = weight as f64 / total.max(1) as f64;
            HotKey { database, key: key.to_vec(), per_second: weight as f64 / seconds, share }
        };
        sums.into_iter().map(hot_key).collect()
    }

    /// How often keys of a prefix are asked for each second, of all databases.
    pub fn requests_by_prefix(&self, now_us: i64) -> HashMap<Vec<u8>, f64> {
        let (sums, _) = self.sums(PREFIXES, now_us);
        let seconds = self.window_us(now_us) / 1e6;
        sums.into_iter().map(|(prefix, weight)| (prefix, weight as f64 / seconds)).collect()
    }

    /// What names weigh at all workers together, and all of them.
    fn sums(&self, place: usize, now_us: i64) -> (HashMap<Vec<u8>, u64>, u64) {
        let halvings = self.halvings(now_us);
        let (mut sums, mut total) = (HashMap::new(), 0);
        for row in &self.rows {
            let mut row = lock(row);
            let Some(row) = row.as_mut() else { continue };
            row.age(halvings);
            let weights = &row.weights[place];
            total += weights.total;
            for (name, weight) in weights.heaviest.iter().filter(|(_, weight)| *weight > 0) {
                *sums.entry(name.to_vec()).or_default() += weight;
            }
        }
        (sums, total)
    }

    /// The time that the weights stand for: what is older than a half-life counts half.
    fn window_us(&self, now_us: i64) -> f64 {
        let halvings = self.halvings(now_us);
        let since = now_us - self.began_us.load(Ordering::Relaxed) - halvings * HALF_LIFE_US;
        let before = (1.0 - 0.5_f64.powi(halvings.min(HALVINGS_MOST) as i32)) * HALF_LIFE_US as f64;
        // A second at least, so that the first requests are no storm.
        (before + since as f64).max(1e6)
    }
}

impl WorkerSketch {
    fn new(lane: usize) -> Self {
        let weights = || MetricSketch { heaviest: HeavyHitters::new(CAPACITY), total: 0 };
        Self {
            random: Random::from_seed(lane as u64),
            halvings: 0,
            weights: std::array::from_fn(|_| weights()),
        }
    }

    /// Has what was noted count as so many half-lives ask.
    fn age(&mut self, halvings: i64) {
        for _ in 0..(halvings - self.halvings).clamp(0, HALVINGS_MOST) {
            for weights in &mut self.weights {
                weights.total /= 2;
                weights.heaviest.halve();
            }
        }
        self.halvings = self.halvings.max(halvings);
    }

    fn note(&mut self, ratio: u64, prefixes: &PrefixRule, sampled: &SampledRequest<'_>) {
        let Execution { entry, args, micros, reply_bytes } = sampled.execution;
        let Ok(keys) = request_keys::find(entry, args) else { return };
        if keys.is_empty() {
            return;
        }
        // Each of those that are noted stands for so many.
        let step = keys.len().div_ceil(KEYS_MOST);
        let first = self.random.below(step as u64) as usize;
        let all = keys.len() as u64;
        let bytes = request_bytes(args) + reply_bytes;
        let of_all = [all, bytes, micros, all].map(|weight| weight * ratio);
        for (weights, of_all) in self.weights.iter_mut().zip(of_all) {
            weights.total = weights.total.saturating_add(of_all);
        }
        for &(index, _) in keys.iter().skip(first).step_by(step) {
            let key = &args[index];
            if key.len() > KEY_MAX {
                continue;
            }
            let name = name_of(sampled.database, key);
            let share = |of_all: u64| of_all * step as u64 / all;
            for (weights, of_all) in self.weights.iter_mut().zip(of_all).take(PREFIXES) {
                weights.heaviest.add(&name, share(of_all));
            }
            if let Some(prefix) = prefixes.prefix_of(key) {
                self.weights[PREFIXES].heaviest.add(prefix, share(of_all[PREFIXES]));
            }
        }
    }
}

/// A key as it is noted: keys of one name in several databases are several.
fn name_of(database: usize, key: &[u8]) -> SmallVec<[u8; 64]> {
    let mut name = SmallVec::from_slice(&(database as u32).to_le_bytes());
    name.extend_from_slice(key);
    name
}

fn parts_of(name: &[u8]) -> (usize, &[u8]) {
    let (database, key) = name.split_first_chunk().expect("each name begins with a database");
    (u32::from_le_bytes(*database) as usize, key)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no critical section here panics")
}

#[cfg(test)]
mod tests {
    use proto::OwnedArgs;

    use super::{
        Execution, GAP_WHILE_OFF, HALF_LIFE_US, HotKeyMetric, HotKeySketch, PrefixRule,
        SampledRequest,
    };
    use crate::testing;

    const SECOND: i64 = 1_000_000;

    fn note(sketch: &HotKeySketch, lane: usize, words: &[&str], now_us: i64) -> u32 {
        let owned: OwnedArgs = words.iter().map(|word| word.as_bytes()).collect();
        let entry = testing::entry(words[0]);
        let args = owned.as_args();
        let execution = Execution { entry, args, micros: 10, reply_bytes: 100 };
        sketch.note(lane, &SampledRequest { execution, database: 3, now_us })
    }

    fn begun(ratio: u32) -> HotKeySketch {
        let sketch = HotKeySketch::default();
        sketch.configure(ratio, PrefixRule::default(), 0);
        sketch
    }

    #[test]
    fn keys_of_all_workers_are_told_by_what_they_take() {
        let sketch = begun(4);
        for lane in 0..3 {
            note(&sketch, lane, &["GET", "often"], SECOND);
            note(&sketch, lane, &["GET", "often"], SECOND);
            note(&sketch, lane, &["SET", "large", &"v".repeat(10_000)], SECOND);
        }
        let by_requests = sketch.report(HotKeyMetric::Requests, 10, 10 * SECOND);
        let told: Vec<_> = by_requests.iter().map(|hot| (&*hot.key, hot.database)).collect();
        assert_eq!(told, [(&b"often"[..], 3), (&b"large"[..], 3)]);
        // Six samples of four requests each, in ten seconds.
        assert!((by_requests[0].per_second - 2.4).abs() < 1e-9, "{by_requests:?}");
        assert!((by_requests[0].share - 2.0 / 3.0).abs() < 1e-9, "{by_requests:?}");
        assert_eq!(sketch.report(HotKeyMetric::Bytes, 1, 10 * SECOND)[0].key, b"large");
        let by_time = sketch.report(HotKeyMetric::Time, 1, 10 * SECOND);
        assert!((by_time[0].per_second - 24.0).abs() < 1e-9, "{by_time:?}");
    }

    #[test]
    fn what_was_hot_is_forgotten() {
        let sketch = begun(1);
        for _ in 0..1000 {
            note(&sketch, 0, &["GET", "before"], SECOND);
        }
        let later = 5 * HALF_LIFE_US;
        for _ in 0..100 {
            note(&sketch, 0, &["GET", "now"], later);
        }
        let told = sketch.report(HotKeyMetric::Requests, 10, later);
        assert_eq!(told.iter().map(|hot| &*hot.key).collect::<Vec<_>>(), [&b"now"[..], b"before"]);
        assert!(told[1].share < 0.3, "{told:?}");
        assert_eq!(sketch.report(HotKeyMetric::Requests, 10, 30 * HALF_LIFE_US), []);
    }

    #[test]
    fn a_steady_load_is_told_as_steady() {
        let sketch = begun(1);
        for second in 1..1000 {
            for _ in 0..20 {
                note(&sketch, 0, &["GET", "steady"], second * SECOND);
            }
            let told = sketch.report(HotKeyMetric::Requests, 1, second * SECOND);
            assert!((told[0].per_second - 20.0).abs() < 2.0, "{second}: {told:?}");
        }
    }

    #[test]
    fn of_very_many_keys_some_stand_for_all() {
        let sketch = begun(1);
        let names: Vec<String> = (0..1000).map(|number| format!("key{number}")).collect();
        let mut words = vec!["MGET"];
        words.extend(names.iter().map(String::as_str));
        note(&sketch, 0, &words, SECOND);
        let told = sketch.report(HotKeyMetric::Requests, 1000, SECOND);
        assert!((10..=16).contains(&told.len()), "{}", told.len());
        let all: f64 = told.iter().map(|hot| hot.share).sum();
        assert!((0.8..1.2).contains(&all), "{all}");
    }

    #[test]
    fn gaps_are_random_and_the_ratio_in_the_mean() {
        let sketch = begun(64);
        let gaps: Vec<u32> = (0..4000).map(|_| note(&sketch, 0, &["GET", "a"], SECOND)).collect();
        assert!(gaps.iter().all(|gap| (1..128).contains(gap)));
        let mean = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
        assert!((60.0..68.0).contains(&mean), "{mean}");
    }

    #[test]
    fn requests_are_not_noted_while_the_sketch_is_off() {
        let sketch = begun(8);
        note(&sketch, 0, &["GET", "a"], SECOND);
        sketch.configure(0, PrefixRule::default(), 2 * SECOND);
        assert_eq!(note(&sketch, 0, &["GET", "a"], 3 * SECOND), GAP_WHILE_OFF);
        assert!(sketch.report(HotKeyMetric::Requests, 10, 3 * SECOND).is_empty());
        sketch.configure(8, PrefixRule::default(), 4 * SECOND);
        // Neither what has no key nor a name that is too long.
        note(&sketch, 0, &["RANDOMKEY"], 4 * SECOND);
        note(&sketch, 0, &["GET", &"k".repeat(2000)], 4 * SECOND);
        assert!(sketch.report(HotKeyMetric::Requests, 10, 5 * SECOND).is_empty());
    }

    #[test]
    fn requests_are_counted_by_prefix() {
        let sketch = begun(2);
        for number in 0..5 {
            note(&sketch, number, &["GET", &format!("user:{number}")], SECOND);
        }
        note(&sketch, 0, &["MGET", "user:1", "order:1", "plain"], SECOND);
        let told = sketch.requests_by_prefix(4 * SECOND);
        assert_eq!(told.len(), 2);
        assert!((told[&b"user:"[..]] - 3.0).abs() < 1e-9, "{told:?}");
        assert!((told[&b"order:"[..]] - 0.5).abs() < 1e-9, "{told:?}");
        let rule = PrefixRule::of(b"us plain");
        sketch.configure(2, rule, 5 * SECOND);
        assert!(sketch.requests_by_prefix(5 * SECOND).is_empty());
        note(&sketch, 0, &["MGET", "user:1", "order:1", "plain"], 5 * SECOND);
        assert_eq!(sketch.requests_by_prefix(6 * SECOND).len(), 2);
    }
}
