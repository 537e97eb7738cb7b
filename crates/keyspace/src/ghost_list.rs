//! The ghost list of the policy `allkeys-apus`: which keys it evicted lately, and what it learned
//! from those that came back.
//!
//! A key that was never used again since it came is on probation; one that was is proven. Keys on
//! probation age faster. How much faster is learned: when a key comes back that was evicted on
//! probation, probation was too short; when one comes back that was proven, it was too long. What
//! comes back is proven at once. How long a use counts is learned, too (`decay.rs`). Of two keys
//! used alike the smaller one is worth more. `docs/decisions/eviction.md` has the measurements.
//!
//! Invariant: all of it is a guess that any thread may change at any time; a wrong one costs a hit.

mod decay;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU16, AtomicU32, Ordering};

use base::time::UnixMillis;
use structs::prefetch;

use self::decay::Decay;
pub(crate) use self::decay::{Sample, USES_PER_COUNT};
use crate::keyspace::Location;

/// Fingerprints that are remembered, two bytes each: about as many as there are keys when the first
/// is evicted, within these bounds.
const GHOSTS_MIN: usize = 1 << 12;
const GHOSTS_MAX: usize = 1 << 22;

/// In a ghost: the key was proven.
const PROVEN: u16 = 1;

/// How much faster probation ages: 2 to a power from 0 to 6, with 20 binary places.
const LEAN_ONE: i32 = 1 << 20;
const LEAN_MAX: i32 = 6 * LEAN_ONE;
const LEAN_FIRST: i32 = 4 * LEAN_ONE;

/// So many returns of as many keys as there are move the lean by one.
const LESSONS: i32 = 40;

/// Many lessons of one kind in a row say that what is in use has changed: so many make the next
/// ones count twice, and so on up to eight times.
const STREAK: u32 = 16;
const HASTE_MAX: u32 = 8;

/// How a key's age counts by how often it was used; the first is for one that never was.
const WEIGHTS: [u64; 8] = [32, 32, 16, 12, 10, 8, 6, 4];

/// What ages are told by: none is closer to nothing than that.
const RESOLUTION_MS: u64 = 128;

/// How much a key's size counts: the root of what it takes beside the mean, in sixteenths, within
/// these bounds. The root, as small keys that nobody asks for any more would stay too long.
const SIZE_ONE: u64 = 16;
const SIZE_BOUNDS: (u64, u64) = (SIZE_ONE / 4, 4 * SIZE_ONE);

/// Some of the keys that were used at most once age faster than others, by up to a quarter, for no
/// reason: of a loop that does not fit some part stays, where strict order would keep none. In
/// 64ths.
const LUCK_LEAST: u64 = 48;
const LUCK_MEAN: u64 = 64;
const LUCK_MOST: u64 = 80;

/// The last bits of a position, of which tables keep none.
const POSITION_UNKEPT: u32 = 26;

/// An odd number whose bits look random: 2^64 by the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// The highest count of uses.
const USES_MAX: u32 = WEIGHTS.len() as u32 - 1;

/// Fingerprints of keys evicted lately, and what their returns taught.
#[derive(Debug)]
pub(crate) struct GhostList {
    ghosts: OnceLock<Box<[AtomicU16]>>,
    lean: AtomicI32,
    /// Lessons of the latest kind in a row; those that made probation longer count as negative.
    streak: AtomicI32,
    /// Keys evicted lately, on probation and proven.
    evicted: [AtomicU32; 2],
    /// Ghosts that are neither hit nor replaced yet.
    remembered: AtomicU32,
    /// Keys that there are, as of late.
    keys: AtomicU32,
    decay: Decay,
}

/// What the worth of keys is measured by, as of now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RankParameters {
    /// How many times faster probation ages, in sixteenths.
    haste: u64,
    /// Bytes of a key and its value, on average; 0 while that is not known.
    mean_bytes: u64,
}

impl Default for GhostList {
    fn default() -> Self {
        Self {
            ghosts: OnceLock::new(),
            lean: AtomicI32::new(LEAN_FIRST),
            streak: AtomicI32::new(0),
            evicted: Default::default(),
            remembered: AtomicU32::new(0),
            keys: AtomicU32::new(1),
            decay: Decay::default(),
        }
    }
}

/// How often a key was used, as of now: uses long ago count less, the first one always.
#[inline]
pub(crate) fn uses_left(uses: u32, age_ms: u64, use_lasts_ms: u32) -> u32 {
    let lost = age_ms.checked_div(u64::from(use_lasts_ms)).unwrap_or(0);
    if uses < 2 { uses } else { u64::from(uses).saturating_sub(lost).max(1) as u32 }
}

/// The count after one more use: certain at first, ever less likely later.
#[inline]
pub(crate) fn used_once_more(uses: u32, random: u64) -> u32 {
    let is_counted = uses < 3 || random.is_multiple_of(4 << (uses - 3));
    if is_counted { (uses + 1).min(USES_MAX) } else { uses }
}

impl RankParameters {
    /// How little a key is worth that was used so often, the last time so long ago, takes so many
    /// bytes, and lies at this position.
    #[inline]
    pub(crate) fn rank(self, uses: u32, age_ms: u64, bytes: usize, position: u64) -> u64 {
        let haste = if uses == 0 { self.haste } else { 16 };
        let luck = if uses < 2 { luck_of(position) } else { LUCK_MEAN };
        let (age, weight) = (age_ms + RESOLUTION_MS, WEIGHTS[uses as usize]);
        age * weight * haste * self.size_of(bytes) * luck
    }

    /// How much a key's size counts.
    #[inline]
    fn size_of(self, bytes: usize) -> u64 {
        if self.mean_bytes == 0 {
            return SIZE_ONE;
        }
        // In floating point, which divides and finds roots in a few nanoseconds.
        let root = (bytes as f64 / self.mean_bytes as f64).sqrt();
        ((SIZE_ONE as f64 * root) as u64).clamp(SIZE_BOUNDS.0, SIZE_BOUNDS.1)
    }
}

impl GhostList {
    /// How long it takes a key to lose a use; 0 while that is not known.
    #[inline]
    pub(crate) fn use_lasts_ms(&self) -> u32 {
        self.decay.use_lasts_ms()
    }

    /// What worth is measured by now.
    pub(crate) fn rank_parameters(&self) -> RankParameters {
        let lean = f64::from(self.lean.load(Ordering::Relaxed)) / f64::from(LEAN_ONE);
        let haste = (16.0 * lean.exp2()) as u64;
        RankParameters { haste, mean_bytes: self.decay.mean_bytes() }
    }

    /// Whether a key that was used so often, the last time so long ago, keeps its place for that.
    #[inline]
    pub(crate) fn is_late(&self, uses: u32, age_ms: u64) -> bool {
        self.decay.is_late(uses, age_ms)
    }

    /// Notes one of [`USES_PER_COUNT`] uses, before which the key had these.
    pub(crate) fn note_use(&self, uses: u32, age_ms: u64) {
        self.decay.note_use(uses, age_ms);
    }

    /// Notes what keys looked like, one as likely as any other.
    pub(crate) fn note_sample(&self, sample: Sample) {
        self.decay.note_sample(sample);
    }

    /// Notes how many keys there are.
    pub(crate) fn note_keys(&self, keys: u32) {
        self.keys.store(keys.max(1), Ordering::Relaxed);
    }

    /// Has a key's ghost on its way from memory.
    #[inline]
    pub(crate) fn prefetch(&self, location: Location) {
        if let Some(ghosts) = self.ghosts.get() {
            let (place, _) = ghost_of(location, ghosts.len());
            prefetch::value(&ghosts[place]);
        }
    }

    /// Remembers a key that was evicted.
    pub(crate) fn note_evicted(&self, location: Location, uses: u32, now: UnixMillis) {
        let keys = self.keys.load(Ordering::Relaxed);
        let ghosts = self.ghosts.get_or_init(|| {
            let count = (keys as usize).next_power_of_two().clamp(GHOSTS_MIN, GHOSTS_MAX);
            (0..count).map(|_| AtomicU16::new(0)).collect()
        });
        let (place, mark) = ghost_of(location, ghosts.len());
        let proven = uses > 0;
        let ghost = mark | if proven { PROVEN } else { 0 };
        if ghosts[place].swap(ghost, Ordering::Relaxed) == 0 {
            self.remembered.fetch_add(1, Ordering::Relaxed);
        }
        let count = &self.evicted[usize::from(proven)];
        if count.fetch_add(1, Ordering::Relaxed) >= keys {
            self.evicted.iter().for_each(|count| {
                count.store(count.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
            });
        }
        let remembered = self.remembered.load(Ordering::Relaxed);
        self.decay.note_evicted(keys, remembered, now);
    }

    /// Whether a key that comes was evicted lately; what that says of probation is learned.
    pub(crate) fn note_hit(&self, location: Location) -> bool {
        let Some(ghosts) = self.ghosts.get() else { return false };
        let (place, mark) = ghost_of(location, ghosts.len());
        let ghost = ghosts[place].load(Ordering::Relaxed);
        let relaxed = Ordering::Relaxed;
        if ghost & !PROVEN != mark
            || ghosts[place].compare_exchange(ghost, 0, relaxed, relaxed).is_err()
        {
            return false;
        }
        self.remembered.fetch_sub(1, Ordering::Relaxed);
        self.decay.note_return();
        let [probation, proven] = [0, 1].map(|kind| {
            let count: &AtomicU32 = &self.evicted[kind];
            f64::from(count.load(Ordering::Relaxed).max(1))
        });
        let keys = f64::from(self.keys.load(Ordering::Relaxed));
        // Where few of a kind are evicted, one that comes back says more.
        let (kinds, sign) = match ghost & PROVEN {
            0 => (proven / probation, -1),
            _ => (probation / proven, 1),
        };
        let before = self.streak.load(Ordering::Relaxed);
        let streak = if before.signum() == sign { before.saturating_add(sign) } else { sign };
        self.streak.store(streak, Ordering::Relaxed);
        let haste = f64::from((1 + streak.unsigned_abs() / STREAK).min(HASTE_MAX));
        let lesson = f64::from(LESSONS * LEAN_ONE) / keys * kinds.clamp(0.2, 5.0) * haste;
        let lean = f64::from(self.lean.load(Ordering::Relaxed)) + f64::from(sign) * lesson;
        self.lean.store((lean as i32).clamp(0, LEAN_MAX), Ordering::Relaxed);
        true
    }
}

/// A key's share of luck, by the first bits of its position: the table keeps them, so a key whose
/// name lies on another cache line than its clock need not be waited for.
#[inline]
fn luck_of(position: u64) -> u64 {
    // The bits that are kept, moved down so that the lowest of them change the highest below.
    let mixed = (position >> POSITION_UNKEPT).wrapping_mul(MIX) >> 32;
    LUCK_LEAST + ((mixed * (LUCK_MOST - LUCK_LEAST + 1)) >> 32)
}

/// Where a key's ghost is, and what it looks like: never 0, which is none.
fn ghost_of(location: Location, count: usize) -> (usize, u16) {
    let bits = location.position().rotate_left(14) ^ u64::from(location.partition());
    debug_assert!(count.is_power_of_two(), "so no division is needed");
    let place = (bits.wrapping_mul(MIX) >> 32) as usize & (count - 1);
    let mark = (location.position() >> 24) as u16 & !PROVEN;
    (place, if mark == 0 { !PROVEN } else { mark })
}

#[cfg(test)]
mod tests {
    use super::{
        GHOSTS_MIN, GhostList, HASTE_MAX, LEAN_FIRST, LUCK_LEAST, LUCK_MOST, Location,
        RankParameters, STREAK, ghost_of, luck_of, used_once_more, uses_left,
    };
    use std::sync::atomic::Ordering;

    fn location(number: u64) -> Location {
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) ^ number << 40;
        Location::new(number as u16 % 16_384, hash << 14)
    }

    #[test]
    fn a_key_that_comes_back_is_recalled_once() {
        let ghost_list = GhostList::default();
        assert!(!ghost_list.note_hit(location(1)));
        ghost_list.note_evicted(location(1), 0, 1000);
        assert!(!ghost_list.note_hit(location(2)));
        assert!(ghost_list.note_hit(location(1)));
        assert!(!ghost_list.note_hit(location(1)));
        assert!(ghost_of(location(7), GHOSTS_MIN).0 < GHOSTS_MIN);
    }

    #[test]
    fn probation_becomes_longer_by_what_it_lost_and_shorter_by_what_was_proven() {
        let ghost_list = GhostList::default();
        ghost_list.note_keys(1000);
        let lean = || ghost_list.lean.load(Ordering::Relaxed);
        ghost_list.note_evicted(location(1), 0, 1000);
        assert!(ghost_list.note_hit(location(1)));
        let longer = lean();
        assert!(longer < LEAN_FIRST);
        ghost_list.note_evicted(location(2), 3, 1000);
        assert!(ghost_list.note_hit(location(2)));
        assert!(lean() > longer);
        assert!((16..=16 * 64).contains(&ghost_list.rank_parameters().haste));
        assert_eq!(ghost_list.remembered.load(Ordering::Relaxed), 0, "both came back");
    }

    #[test]
    fn lessons_of_one_kind_in_a_row_count_for_more() {
        let ghost_list = GhostList::default();
        ghost_list.note_keys(100_000);
        let lean = || ghost_list.lean.load(Ordering::Relaxed);
        let mut lesson = |number| {
            let before = lean();
            ghost_list.note_evicted(location(number), 0, 1000);
            assert!(ghost_list.note_hit(location(number)));
            before - lean()
        };
        let lessons: Vec<i32> = (0..20 * u64::from(STREAK)).map(&mut lesson).collect();
        // The first ones count for more, as nothing is known of what is evicted.
        let (early, late) = (lessons[10], lessons[lessons.len() - 1]);
        let (least, most) = ((HASTE_MAX as i32 - 1) * early, (HASTE_MAX as i32 + 1) * early);
        assert!((least..=most).contains(&late), "{lessons:?}");
    }

    #[test]
    fn a_key_in_use_is_worth_more_than_one_that_is_not() {
        let rank_parameters = GhostList::default().rank_parameters();
        let rank = |uses, age| rank_parameters.rank(uses, age, 100, 1 << 60);
        assert!(rank(0, 1000) > rank(1, 1000) && rank(2, 1000) > rank(7, 1000));
        assert!(rank(1, 2000) > rank(1, 1000) && rank(1, 1000) > rank(2, 1000));
        assert!(rank(0, 0) > rank(1, 128), "whatever the clock cannot tell");
        assert_eq!((uses_left(7, 0, 50), uses_left(7, 100, 50), uses_left(7, 999, 50)), (7, 5, 1));
        assert_eq!((uses_left(0, 999, 100), uses_left(5, 999, 0)), (0, 5));
        assert_eq!((used_once_more(0, 1), used_once_more(3, 1), used_once_more(7, 0)), (1, 3, 7));
    }
    #[test]
    fn a_large_key_is_worth_less_within_bounds() {
        let rank_parameters = RankParameters { haste: 16, mean_bytes: 1000 };
        let rank = |bytes| rank_parameters.rank(2, 0, bytes, 1 << 60);
        assert_eq!((rank(4000), rank(250)), (2 * rank(1000), rank(1000) / 2));
        assert_eq!((rank(1 << 40), rank(0)), (4 * rank(1000), rank(1000) / 4));
        let nothing_known = RankParameters { mean_bytes: 0, ..rank_parameters };
        assert_eq!(nothing_known.rank(2, 0, 1 << 40, 1 << 60), rank(1000));
        let most = RankParameters { haste: 1024, mean_bytes: 1 };
        assert!(most.rank(0, u64::from(u32::MAX), usize::MAX >> 8, u64::MAX) < u64::MAX);
    }

    #[test]
    fn luck_is_spread_evenly_over_neighbours_whatever_the_table_keeps() {
        for depth in [0, 7, 22] {
            let neighbours = (0..3300).map(|number| number << (48 - depth));
            let lucks: Vec<u64> = neighbours.map(luck_of).collect();
            for luck in LUCK_LEAST..=LUCK_MOST {
                let count = lucks.iter().filter(|found| **found == luck).count();
                assert!((50..200).contains(&count), "{depth}, {luck}: {count}");
            }
        }
    }
}
