//! The access clock of an entry: 24 bits with three readings.
//!
//! By time (LRU, idle time, and LRM, where only a change is an access): the seconds of the last
//! access, modulo 2^24. By frequency (LFU):
//! the minutes of the last decrement in the upper 16 bits, a logarithmic counter in the lower 8.
//! By worth (`allkeys-apus`): the time of the last access in units of 128 ms in the upper 20 bits,
//! how often the key was used since it came, up to 7, in the lower 4.
//! Source: the Redis documentation's page on key eviction.
//!
//! Invariant: which reading holds is a setting of the whole keyspace; a wrong reading gives a wrong
//! guess, never a wrong value.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use base::time::UnixMillis;

use crate::history::{History, USES_PER_COUNT, used_once_more, uses_left};
use crate::keyspace::{Keyspace, Settings};

/// What a new key's frequency counter starts with, so that it is not evicted at once.
const INITIAL_FREQUENCY: u32 = 5;

const SECONDS_MASK: i64 = 0xff_ffff;
const MINUTES_MASK: i64 = 0xffff;

/// How worth is stored: units of 128 ms above, uses below.
const UNIT_SHIFT: u32 = 7;
const UNITS_MASK: i64 = 0xf_ffff;
const USES_BITS: u32 = 4;
const USES_MASK: u32 = 0xf;

/// What the access clocks hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum AccessPolicy {
    /// When the key was last read or changed.
    #[default]
    Accesses,
    /// How often it is.
    Frequency,
    /// When it was last changed.
    Changes,
    /// When it was last used, and how often.
    Worth,
}

/// How accesses are noted, and read, at one time.
#[derive(Clone, Debug)]
pub struct AccessClock {
    policy: AccessPolicy,
    log_factor: u32,
    decay_minutes: u32,
    /// Who is told of uses, and says how long they count; none if nobody learns from them.
    history: Option<&'static History>,
    use_lasts_ms: u32,
    now: UnixMillis,
    /// A cheap random sequence for the probabilistic counter.
    dice: Cell<u64>,
}

impl AccessClock {
    /// As the settings are, at this time.
    #[inline]
    #[must_use]
    pub fn new(settings: &Settings, now: UnixMillis) -> Self {
        Self {
            policy: settings.access_policy(),
            history: None,
            use_lasts_ms: 0,
            log_factor: settings.lfu_log_factor.load(Ordering::Relaxed),
            decay_minutes: settings.lfu_decay_time.load(Ordering::Relaxed),
            now,
            dice: Cell::new(now as u64 | 1),
        }
    }

    /// The same, where uses are learned from and count less the longer ago they were.
    #[inline]
    pub(crate) fn with_history(mut self, keyspace: &'static Keyspace) -> Self {
        if self.policy == AccessPolicy::Worth {
            self.history = Some(keyspace.history());
            self.use_lasts_ms = keyspace.history().use_lasts_ms();
        }
        self
    }

    /// Whether accesses are counted, and their time is not known.
    #[must_use]
    pub fn by_frequency(&self) -> bool {
        self.policy == AccessPolicy::Frequency
    }

    /// Whether a key that comes may be one that was evicted lately.
    #[inline]
    pub(crate) fn by_worth(&self) -> bool {
        self.policy == AccessPolicy::Worth
    }

    /// Whether reading a key is an access.
    #[inline]
    pub(crate) fn notes_reads(&self) -> bool {
        self.policy != AccessPolicy::Changes
    }

    /// The clock of a key that is made now.
    #[inline]
    #[must_use]
    pub fn fresh(&self) -> u32 {
        match self.policy {
            AccessPolicy::Accesses | AccessPolicy::Changes => self.seconds(),
            AccessPolicy::Frequency => self.minutes() << 8 | INITIAL_FREQUENCY,
            AccessPolicy::Worth => self.units() << USES_BITS,
        }
    }

    /// The clock after an access.
    #[inline]
    pub(crate) fn accessed(&self, clock: u32) -> u32 {
        match self.policy {
            AccessPolicy::Accesses | AccessPolicy::Changes => self.seconds(),
            AccessPolicy::Frequency => {
                self.minutes() << 8 | self.incremented(self.frequency(clock))
            }
            AccessPolicy::Worth => {
                let ((uses, age_ms), dice) = (self.uses_and_age(clock), self.throw());
                if let Some(history) = self.history
                    && dice.is_multiple_of(USES_PER_COUNT)
                {
                    history.note_use(clock & USES_MASK, age_ms);
                }
                self.units() << USES_BITS | used_once_more(uses, dice / USES_PER_COUNT)
            }
        }
    }

    /// Seconds since the last access.
    #[must_use]
    pub fn idle_seconds(&self, clock: u32) -> u32 {
        if self.policy == AccessPolicy::Worth {
            return (self.uses_and_age(clock).1 / 1000) as u32;
        }
        self.seconds().wrapping_sub(clock) & SECONDS_MASK as u32
    }

    /// The access counter, decayed to now.
    #[must_use]
    pub fn frequency(&self, clock: u32) -> u32 {
        let elapsed = self.minutes().wrapping_sub(clock >> 8) & MINUTES_MASK as u32;
        let periods = elapsed.checked_div(self.decay_minutes).unwrap_or(0);
        (clock & 0xff).saturating_sub(periods)
    }

    /// How often a key was used, as of now, and milliseconds since it last was.
    #[inline]
    pub(crate) fn uses_and_age(&self, clock: u32) -> (u32, u64) {
        let units = self.units().wrapping_sub(clock >> USES_BITS) & UNITS_MASK as u32;
        let age_ms = u64::from(units) << UNIT_SHIFT;
        (uses_left(clock & USES_MASK, age_ms, self.use_lasts_ms), age_ms)
    }

    /// Whether a key keeps its place for uses long ago.
    pub(crate) fn is_late(&self, clock: u32) -> bool {
        let (_, age_ms) = self.uses_and_age(clock);
        self.history.is_some_and(|history| history.is_late(clock & USES_MASK, age_ms))
    }

    /// The clock of a key restored with a known idle time.
    #[must_use]
    pub fn with_idle_seconds(&self, idle: u64) -> u32 {
        if self.policy == AccessPolicy::Worth {
            let then = self.now - (idle as i64).saturating_mul(1000);
            return (((then >> UNIT_SHIFT) & UNITS_MASK) as u32) << USES_BITS;
        }
        ((self.now / 1000 - idle as i64) & SECONDS_MASK) as u32
    }

    /// The clock of a key restored with a known frequency.
    #[must_use]
    pub fn with_frequency(&self, frequency: u8) -> u32 {
        self.minutes() << 8 | u32::from(frequency)
    }

    /// One more access: certain for a small counter, ever less likely for a larger.
    fn incremented(&self, counter: u32) -> u32 {
        if counter >= 255 {
            return 255;
        }
        let base = u64::from(counter.saturating_sub(INITIAL_FREQUENCY));
        let odds = base * u64::from(self.log_factor) + 1;
        counter + u32::from(self.throw().is_multiple_of(odds))
    }

    /// A xorshift step: enough for a counter that is a guess anyway.
    fn throw(&self) -> u64 {
        let mut dice = self.dice.get();
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        self.dice.set(dice);
        dice >> 11
    }

    fn seconds(&self) -> u32 {
        ((self.now / 1000) & SECONDS_MASK) as u32
    }

    fn units(&self) -> u32 {
        ((self.now >> UNIT_SHIFT) & UNITS_MASK) as u32
    }

    fn minutes(&self) -> u32 {
        ((self.now / 60_000) & MINUTES_MASK) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{AccessClock, AccessPolicy};
    use crate::keyspace::Settings;

    #[test]
    fn idle_time_survives_the_wrap_of_24_bits() {
        let settings = Settings::default();
        let wrap = (1_i64 << 24) * 1000;
        let before = AccessClock::new(&settings, wrap - 3000).fresh();
        assert_eq!(AccessClock::new(&settings, wrap + 4000).idle_seconds(before), 7);
    }

    #[test]
    fn worth_tells_uses_and_age() {
        let settings = Settings::default();
        settings.access_policy.store(AccessPolicy::Worth as u8, Ordering::Relaxed);
        let at = |now| AccessClock::new(&settings, now);
        let wrap = 1_i64 << (20 + 7);
        let mut clock = at(wrap - 12_800).fresh();
        assert_eq!(at(wrap).uses_and_age(clock), (0, 12_800));
        for _ in 0..3 {
            clock = at(wrap).accessed(clock);
        }
        assert_eq!(at(wrap + 128_000).uses_and_age(clock), (3, 128_000));
        assert_eq!(at(wrap + 128_000).idle_seconds(clock), 128);
        let restored = at(wrap).with_idle_seconds(64);
        assert_eq!(
            (at(wrap).uses_and_age(restored), at(wrap).idle_seconds(restored)),
            ((0, 64_000), 64)
        );
    }

    #[test]
    fn frequency_rises_with_use_and_falls_with_time() {
        let settings = Settings::default();
        settings.access_policy.store(AccessPolicy::Frequency as u8, Ordering::Relaxed);
        settings.lfu_log_factor.store(10, Ordering::Relaxed);
        settings.lfu_decay_time.store(1, Ordering::Relaxed);
        let clock = AccessClock::new(&settings, 1_000_000_000);
        let mut used = clock.fresh();
        assert_eq!(clock.frequency(used), 5);
        for _ in 0..10_000 {
            used = clock.accessed(used);
        }
        let high = clock.frequency(used);
        assert!((15..=60).contains(&high), "10,000 accesses give about 30, not {high}");
        let later = AccessClock::new(&settings, 1_000_000_000 + 10 * 60_000);
        assert_eq!(later.frequency(used), high - 10);
    }
}
