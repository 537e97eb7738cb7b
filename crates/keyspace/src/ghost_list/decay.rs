//! How fast the policy `allkeys-apus` forgets uses, which it learns.
//!
//! A key that was used often and then not for long keeps its place for its past. That is right in a
//! loop, or where popularity lasts, and wrong where what is popular changes. So it is measured: a
//! place kept like that must bring many times the uses that one more place for a key evicted lately
//! would bring, or half those of any place. If it does, uses fade more slowly, else faster.
//!
//! Invariant: as of `GhostList`, all of it is a guess; a wrong one costs a hit.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use base::time::UnixMillis;

/// How many uses are lost in a turnover, in 256ths: the first, and the bounds.
const FADE_FIRST: u32 = 64;
const FADE_BOUNDS: (f64, f64) = (32.0, 1024.0);

/// A lesson changes it by so much.
const FADE_STEP: f64 = 1.6;

/// A place kept for its past must bring so many times what one for a key evicted lately would, or
/// this part of what any place brings.
const RETURNS_WORTH: f64 = 6.0;
const MEAN_WORTH: f64 = 0.5;

/// Turnovers are measured, and lessons drawn, so many times in one.
const LESSONS: u32 = 8;

/// Of so many uses one is counted.
pub(crate) const USES_PER_COUNT: u64 = 16;

/// What was seen of late: halved twice a turnover or so, and modulo nothing but chance.
#[derive(Debug, Default)]
struct Tally {
    /// Uses, and those of keys kept for their past, both in counts of [`USES_PER_COUNT`].
    uses: AtomicU32,
    late_uses: AtomicU32,
    /// Keys looked at, those of them that are kept for their past, and the bytes of all.
    samples: AtomicU32,
    late_samples: AtomicU32,
    bytes: AtomicU64,
    /// Keys that came back after they were evicted.
    returns: AtomicU32,
}

/// Keys that were looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) keys: u32,
    /// Those that are kept for their past.
    pub(crate) late: u32,
    pub(crate) bytes: u64,
}

/// What is learned of uses, of how long keys stay, and of how large they are.
#[derive(Debug)]
pub(super) struct Decay {
    tally: Tally,
    fade: AtomicU32,
    /// Evictions since `marked`.
    evictions: AtomicU32,
    marked: AtomicI64,
    turnover_ms: AtomicU32,
    use_lasts_ms: AtomicU32,
    mean_bytes: AtomicU64,
}

impl Default for Decay {
    fn default() -> Self {
        Self {
            tally: Tally::default(),
            fade: AtomicU32::new(FADE_FIRST),
            evictions: AtomicU32::new(0),
            marked: AtomicI64::new(0),
            turnover_ms: AtomicU32::new(0),
            use_lasts_ms: AtomicU32::new(0),
            mean_bytes: AtomicU64::new(0),
        }
    }
}

impl Decay {
    /// How long it takes a key to lose a use; 0 while that is not known.
    #[inline]
    pub(super) fn use_lasts_ms(&self) -> u32 {
        self.use_lasts_ms.load(Ordering::Relaxed)
    }

    /// Bytes of a key and its value, on average; 0 while that is not known.
    #[inline]
    pub(super) fn mean_bytes(&self) -> u64 {
        self.mean_bytes.load(Ordering::Relaxed)
    }

    /// Whether a key that was used so often, the last time so long ago, keeps its place for that.
    #[inline]
    pub(super) fn is_late(&self, uses: u32, age_ms: u64) -> bool {
        let turnover_ms = u64::from(self.turnover_ms.load(Ordering::Relaxed));
        uses >= 2 && turnover_ms > 0 && 2 * age_ms > turnover_ms
    }

    /// Notes one of [`USES_PER_COUNT`] uses, before which the key had these.
    pub(super) fn note_use(&self, uses: u32, age_ms: u64) {
        self.tally.uses.fetch_add(1, Ordering::Relaxed);
        if self.is_late(uses, age_ms) {
            self.tally.late_uses.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn note_sample(&self, sample: Sample) {
        self.tally.samples.fetch_add(sample.keys, Ordering::Relaxed);
        self.tally.late_samples.fetch_add(sample.late, Ordering::Relaxed);
        self.tally.bytes.fetch_add(sample.bytes, Ordering::Relaxed);
    }

    pub(super) fn note_return(&self) {
        self.tally.returns.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that one of so many keys was evicted, and how many of such are remembered.
    pub(super) fn note_evicted(&self, keys: u32, remembered: u32, now: UnixMillis) {
        if self.evictions.fetch_add(1, Ordering::Relaxed) < keys / LESSONS {
            return;
        }
        self.evictions.store(0, Ordering::Relaxed);
        let part_ms = now - self.marked.swap(now, Ordering::Relaxed);
        let turnover = u32::try_from(i64::from(LESSONS) * part_ms.max(0)).unwrap_or(u32::MAX);
        let before = self.turnover_ms.load(Ordering::Relaxed);
        let mean = if before == 0 { turnover } else { before / 2 + turnover / 2 };
        self.turnover_ms.store(mean, Ordering::Relaxed);
        self.learn(f64::from(keys), f64::from(remembered));
        let fade = self.fade.load(Ordering::Relaxed);
        let lasts = u64::from(mean) * 256 / u64::from(fade);
        self.use_lasts_ms.store(u32::try_from(lasts).unwrap_or(u32::MAX), Ordering::Relaxed);
        self.tally.decay();
    }

    /// Draws a lesson from what was seen.
    fn learn(&self, keys: f64, remembered: f64) {
        let count = |counter: &AtomicU32| f64::from(counter.load(Ordering::Relaxed));
        let tally = &self.tally;
        let (samples, late_samples) = (count(&tally.samples), count(&tally.late_samples));
        if samples > 0.0 {
            let mean = tally.bytes.load(Ordering::Relaxed) as f64 / samples;
            self.mean_bytes.store(mean as u64, Ordering::Relaxed);
        }
        if late_samples == 0.0 || remembered == 0.0 {
            return;
        }
        let late_keys = keys * late_samples / samples;
        let late = USES_PER_COUNT as f64 * count(&tally.late_uses) / late_keys;
        let any = USES_PER_COUNT as f64 * count(&tally.uses) / keys;
        let returned = count(&tally.returns) / remembered;
        let pays = late > (RETURNS_WORTH * returned).min(MEAN_WORTH * any);
        let step = if pays { 1.0 / FADE_STEP } else { FADE_STEP };
        let fade = (count(&self.fade) * step).clamp(FADE_BOUNDS.0, FADE_BOUNDS.1);
        self.fade.store(fade as u32, Ordering::Relaxed);
    }
}

impl Tally {
    /// Has what was seen count less.
    fn decay(&self) {
        let Self { uses, late_uses, samples, late_samples, bytes, returns } = self;
        for counter in [uses, late_uses, samples, late_samples, returns] {
            let count = counter.load(Ordering::Relaxed);
            counter.store(count - count / 4, Ordering::Relaxed);
        }
        let sum = bytes.load(Ordering::Relaxed);
        bytes.store(sum - sum / 4, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{Decay, FADE_FIRST, Sample};

    const KEYS: u32 = 800;

    /// A turnover in which a tenth of the places are kept for their past, of 100 bytes each, so
    /// many of those uses that are counted are uses of theirs, and so many keys come back.
    fn after(late_uses: u32, returns: u32) -> Decay {
        let decay = Decay::default();
        for part in 0..8 {
            for use_number in 0..100 {
                let age_ms = if use_number < late_uses && part > 0 { 7000 } else { 0 };
                decay.note_use(2, age_ms);
            }
            (0..returns).for_each(|_| decay.note_return());
            decay.note_sample(Sample { keys: 100, late: 10, bytes: 10_000 });
            for _ in 0..=KEYS / 8 {
                decay.note_evicted(KEYS, KEYS, 1000 * (part + 1));
            }
        }
        decay
    }

    #[test]
    fn uses_last_where_keys_that_rested_are_used_again() {
        let (steady, changing) = (after(50, 10), after(0, 100));
        let fade = |decay: &Decay| decay.fade.load(Ordering::Relaxed);
        assert!(fade(&steady) < FADE_FIRST && fade(&changing) > FADE_FIRST);
        assert!(steady.use_lasts_ms() > 8 * changing.use_lasts_ms());
    }

    #[test]
    fn a_key_is_late_after_half_a_turnover_if_it_was_used_twice() {
        let decay = after(0, 0);
        let turnover = u64::from(decay.turnover_ms.load(Ordering::Relaxed));
        assert!((7900..=8100).contains(&turnover), "{turnover}");
        assert!(decay.is_late(2, 5000) && !decay.is_late(2, 3000) && !decay.is_late(1, 5000));
        assert!(!Decay::default().is_late(7, 1 << 40), "nothing is known of turnovers");
        assert!(decay.mean_bytes().abs_diff(100) <= 1, "older counts are rounded");
    }
}
