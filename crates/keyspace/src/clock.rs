//! The access clock of an entry: 24 bits with three readings.
//!
//! By time (LRU, idle time, and LRM, where only a change is an access): the seconds of the last
//! access, modulo 2^24. By frequency (LFU):
//! the minutes of the last decrement in the upper 16 bits, a logarithmic counter in the lower 8.
//! By worth (`allkeys-apus`): the time of the last access in units of 128 ms in the upper 20 bits,
//! or, after some hours, of 131 seconds, which the next bit says; how often the key was used since
//! it came, up to 7, in the lower 3.
//! Source: the Redis documentation's page on key eviction.
//!
//! Each reading wraps some day: every stamp is looked at before (`renewed`) and replaced by
//! one that lasts longer.
//!
//! Invariant: which reading holds is a setting of the whole keyspace; a wrong reading gives a wrong
//! guess, never a wrong value. A stamp grows older until the greatest age that its reading has, and
//! never looks new again.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use base::time::UnixMillis;

use crate::ghost_list::{GhostList, USES_PER_COUNT, used_once_more, uses_left};
use crate::keyspace::Keyspace;
use crate::settings::Settings;

/// What a new key's frequency counter starts with, so that it is not evicted at once.
const INITIAL_FREQUENCY: u32 = 5;

const SECONDS: StampFormat = StampFormat { mask: 0xff_ffff, ahead: 86_400 };
const MINUTES: StampFormat = StampFormat { mask: 0xffff, ahead: 0x4000 };

/// How worth is stored: units of 128 ms, or coarse ones of 1,024 of them, above; uses below.
const UNITS: StampFormat = StampFormat { mask: 0xf_ffff, ahead: 0x4_0000 };
const UNIT_SHIFT: u32 = 7;
const COARSE_SHIFT: u32 = 17;
const UNITS_SHIFT: u32 = 4;
const COARSE: u32 = 1 << 3;
const USES_MASK: u32 = 0x7;

/// From this age on a key's worth goes by coarse units.
const COARSE_FROM_MS: u64 = 6 * 3_600_000;

/// The greatest ages: two years, 192 days. What is older stays so.
const AGE_MAX_MS: u64 = 1 << 36;
const IDLE_MAX_S: u64 = 0xff_ffff - 2 * 86_400;

/// After so many minutes a frequency is stored as it is by then.
const DECAYED_AFTER: u32 = 24 * 60;

/// Stamps of one width.
#[derive(Clone, Copy)]
struct StampFormat {
    mask: u32,
    /// Stamps by so much ahead of the clock are of now: the clock was set back.
    ahead: u32,
}

/// A jump of the wall clock: between these moments no key was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockJump {
    /// The last moment before.
    pub before: UnixMillis,
    /// The first one after.
    pub after: UnixMillis,
}

impl StampFormat {
    /// The stamp of a time.
    #[inline]
    fn stamp(self, time: i64) -> u32 {
        time as u32 & self.mask
    }

    /// How old a stamp is.
    #[inline]
    fn age(self, now: i64, stamp: u32) -> u32 {
        let age = self.stamp(now).wrapping_sub(stamp) & self.mask;
        if age > self.mask - self.ahead { 0 } else { age }
    }

    /// As `age`, where the clock jumped and may have wrapped: what came before the jump is at
    /// least as old as that. `unit` is a stamp's, in milliseconds.
    fn age_over(self, now: UnixMillis, stamp: u32, unit: i64, clock_jump: ClockJump) -> u64 {
        let (wrap, age) = (u64::from(self.mask) + 1, self.stamp(now / unit).wrapping_sub(stamp));
        let age = u64::from(age & self.mask);
        let units = |since: UnixMillis| (now.saturating_sub(since).max(0) / unit) as u64;
        let (since_jump, at_least) = (units(clock_jump.after) + 1, units(clock_jump.before));
        if age <= since_jump || age >= at_least {
            return age;
        }
        age + (at_least - age).div_ceil(wrap) * wrap
    }
}

/// What the access clocks hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum AccessPolicy {
    /// When the key was last read or changed.
    #[default]
    Accesses,
    /// How often it is.
    Frequency,
    /// When the entry was last changed.
    Changes,
    /// When the entry was last used, and how often.
    Worth,
}

/// How accesses are noted, and read, at one time.
#[derive(Clone, Debug)]
pub struct AccessClock {
    policy: AccessPolicy,
    log_factor: u32,
    decay_minutes: u32,
    /// The ghost list, which learns from uses and says how long they count, under its policy.
    ghost_list: Option<&'static GhostList>,
    use_lasts_ms: u32,
    now: UnixMillis,
    /// A cheap random sequence for the probabilistic counter.
    random: Cell<u64>,
}

impl AccessClock {
    /// As the settings are, at this time.
    #[inline]
    #[must_use]
    pub fn new(settings: &Settings, now: UnixMillis) -> Self {
        Self {
            policy: settings.access_policy(),
            ghost_list: None,
            use_lasts_ms: 0,
            log_factor: settings.lfu_log_factor.load(Ordering::Relaxed),
            decay_minutes: settings.lfu_decay_time.load(Ordering::Relaxed),
            now,
            random: Cell::new(now as u64 | 1),
        }
    }

    /// The same, where uses are learned from and count less the longer ago they were.
    #[inline]
    pub(crate) fn with_history(mut self, keyspace: &'static Keyspace) -> Self {
        if self.policy == AccessPolicy::Worth {
            self.ghost_list = Some(keyspace.ghost_list());
            self.use_lasts_ms = keyspace.ghost_list().use_lasts_ms();
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
            AccessPolicy::Worth => self.units() << UNITS_SHIFT,
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
                let ((uses, age_ms), random) = (self.uses_and_age(clock), self.next_random());
                if let Some(ghost_list) = self.ghost_list
                    && random.is_multiple_of(USES_PER_COUNT)
                {
                    ghost_list.note_use(clock & USES_MASK, age_ms);
                }
                self.units() << UNITS_SHIFT | used_once_more(uses, random / USES_PER_COUNT)
            }
        }
    }

    /// Seconds since the last access.
    #[must_use]
    pub fn idle_seconds(&self, clock: u32) -> u32 {
        if self.policy == AccessPolicy::Worth {
            return (self.uses_and_age(clock).1 / 1000) as u32;
        }
        SECONDS.age(self.now / 1000, clock)
    }

    /// The access counter, decayed to now.
    #[must_use]
    pub fn frequency(&self, clock: u32) -> u32 {
        self.decayed(clock, MINUTES.age(self.now / 60_000, clock >> 8))
    }

    fn decayed(&self, clock: u32, elapsed: u32) -> u32 {
        let periods = elapsed.checked_div(self.decay_minutes).unwrap_or(0);
        (clock & 0xff).saturating_sub(periods)
    }

    /// How often a key was used, as of now, and milliseconds since it last was.
    #[inline]
    pub(crate) fn uses_and_age(&self, clock: u32) -> (u32, u64) {
        let shift = if clock & COARSE == 0 { UNIT_SHIFT } else { COARSE_SHIFT };
        let units = UNITS.age(self.now >> shift, clock >> UNITS_SHIFT);
        let age_ms = (u64::from(units) << shift).min(AGE_MAX_MS);
        (uses_left(clock & USES_MASK, age_ms, self.use_lasts_ms), age_ms)
    }

    /// What a stamp is to be replaced by, so that it does not wrap before it is looked at
    /// again, a day from now at most: `None` if it lasts. The clock may have jumped since it was
    /// looked at before.
    pub(crate) fn renewed(&self, clock: u32, clock_jump: Option<ClockJump>) -> Option<u32> {
        let age = |dial: StampFormat, stamp: u32, unit: i64| match clock_jump {
            Some(clock_jump) => dial.age_over(self.now, stamp, unit, clock_jump),
            None => u64::from(dial.age(self.now / unit, stamp)),
        };
        match self.policy {
            AccessPolicy::Accesses | AccessPolicy::Changes => {
                let idle = age(SECONDS, clock, 1000);
                (idle > IDLE_MAX_S).then(|| self.with_idle_seconds(IDLE_MAX_S))
            }
            AccessPolicy::Frequency => {
                let elapsed = age(MINUTES, clock >> 8, 60_000).min(u64::from(u32::MAX)) as u32;
                let counter = || self.decayed(clock, elapsed);
                (elapsed >= DECAYED_AFTER).then(|| self.minutes() << 8 | counter())
            }
            AccessPolicy::Worth => {
                let is_coarse = clock & COARSE != 0;
                let shift = if is_coarse { COARSE_SHIFT } else { UNIT_SHIFT };
                let age_ms = age(UNITS, clock >> UNITS_SHIFT, 1 << shift) << shift;
                let is_due = age_ms > if is_coarse { AGE_MAX_MS } else { COARSE_FROM_MS };
                is_due.then(|| self.coarse(age_ms) | clock & USES_MASK)
            }
        }
    }

    /// The clock of a key that was last used so long ago, without uses.
    fn coarse(&self, age_ms: u64) -> u32 {
        let then = self.now.saturating_sub(age_ms.min(AGE_MAX_MS) as i64);
        UNITS.stamp(then >> COARSE_SHIFT) << UNITS_SHIFT | COARSE
    }

    /// Whether a key keeps its place for uses long ago.
    pub(crate) fn is_late(&self, clock: u32) -> bool {
        let (_, age_ms) = self.uses_and_age(clock);
        self.ghost_list.is_some_and(|ghost_list| ghost_list.is_late(clock & USES_MASK, age_ms))
    }

    /// The clock of a key restored with a known idle time.
    #[must_use]
    pub fn with_idle_seconds(&self, idle: u64) -> u32 {
        if self.policy == AccessPolicy::Worth {
            let age_ms = idle.saturating_mul(1000);
            if age_ms > COARSE_FROM_MS {
                return self.coarse(age_ms);
            }
            return UNITS.stamp((self.now - age_ms as i64) >> UNIT_SHIFT) << UNITS_SHIFT;
        }
        SECONDS.stamp(self.now / 1000 - idle.min(IDLE_MAX_S) as i64)
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
        counter + u32::from(self.next_random().is_multiple_of(odds))
    }

    /// A xorshift step: enough for a counter that is a guess anyway.
    fn next_random(&self) -> u64 {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        random >> 11
    }

    fn seconds(&self) -> u32 {
        SECONDS.stamp(self.now / 1000)
    }

    fn units(&self) -> u32 {
        UNITS.stamp(self.now >> UNIT_SHIFT)
    }

    fn minutes(&self) -> u32 {
        MINUTES.stamp(self.now / 60_000)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{AccessClock, AccessPolicy, ClockJump};
    use crate::settings::Settings;

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

    const HOUR: i64 = 3_600_000;

    /// A clock is looked at every six hours, and its age told.
    fn ages(policy: AccessPolicy, hours: i64) -> Vec<u32> {
        let settings = Settings::default();
        settings.access_policy.store(policy as u8, Ordering::Relaxed);
        let mut clock = AccessClock::new(&settings, 0).fresh();
        let mut ages = Vec::new();
        for hour in (0..hours).step_by(6) {
            let now = AccessClock::new(&settings, hour * HOUR);
            clock = now.renewed(clock, None).unwrap_or(clock);
            ages.push(now.idle_seconds(clock));
        }
        ages
    }

    #[test]
    fn a_key_grows_older_until_the_greatest_age() {
        for (policy, most) in
            [(AccessPolicy::Worth, 68_719_476), (AccessPolicy::Accesses, 16_604_415)]
        {
            let ages = ages(policy, 50_000);
            assert!(ages.is_sorted(), "{policy:?}");
            for (number, age) in ages.iter().enumerate() {
                let right = (number as u32 * 6 * 3600).min(most);
                assert!(age.abs_diff(right) < right / 50 + 300, "{policy:?}: {age} for {right}");
            }
        }
    }

    #[test]
    fn a_frequency_decays_once_and_stays_so() {
        let settings = Settings::default();
        settings.access_policy.store(AccessPolicy::Frequency as u8, Ordering::Relaxed);
        settings.lfu_decay_time.store(6000, Ordering::Relaxed);
        let mut clock = AccessClock::new(&settings, 0).with_frequency(200);
        let mut frequencies = Vec::new();
        for day in 0..200 {
            let now = AccessClock::new(&settings, day * 24 * HOUR);
            clock = now.renewed(clock, None).unwrap_or(clock);
            frequencies.push(now.frequency(clock));
        }
        frequencies.reverse();
        assert!(frequencies.is_sorted(), "{frequencies:?}");
    }

    #[test]
    fn a_jump_of_the_clock_makes_no_key_young() {
        let settings = Settings::default();
        for policy in [AccessPolicy::Worth, AccessPolicy::Accesses] {
            settings.access_policy.store(policy as u8, Ordering::Relaxed);
            let before = 1_000_000 * HOUR;
            for jump in [HOUR, 20 * HOUR, (1 << 27) + 5000, (1 << 34) + 5000, (1 << 35) - 5000] {
                let clock_jump = ClockJump { before, after: before + jump };
                let now = AccessClock::new(&settings, clock_jump.after + 2000);
                for age in [0, 1000, HOUR, 7 * HOUR] {
                    let clock = AccessClock::new(&settings, before - age).fresh();
                    let clock = now.renewed(clock, Some(clock_jump)).unwrap_or(clock);
                    let right = (age + jump + 2000) / 1000;
                    let found = i64::from(now.idle_seconds(clock));
                    let right =
                        if policy == AccessPolicy::Worth { right } else { right.min(16_604_415) };
                    assert!((right - found).abs() < 300, "{policy:?}, {jump}, {age}: {found}");
                }
                let new = AccessClock::new(&settings, clock_jump.after + 1000).fresh();
                let new = now.renewed(new, Some(clock_jump)).unwrap_or(new);
                assert!(now.idle_seconds(new) <= 1, "it came after the jump");
            }
        }
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_key_old() {
        let settings = Settings::default();
        for policy in [AccessPolicy::Worth, AccessPolicy::Accesses] {
            settings.access_policy.store(policy as u8, Ordering::Relaxed);
            let clock = AccessClock::new(&settings, 1_000_000 * HOUR).fresh();
            let back = AccessClock::new(&settings, 1_000_000 * HOUR - HOUR);
            assert_eq!((back.idle_seconds(clock), back.renewed(clock, None)), (0, None));
        }
    }

    #[test]
    fn an_idle_time_that_is_told_is_kept() {
        let settings = Settings::default();
        for policy in [AccessPolicy::Worth, AccessPolicy::Accesses] {
            settings.access_policy.store(policy as u8, Ordering::Relaxed);
            let clock = AccessClock::new(&settings, 500_000 * HOUR);
            for idle in [0, 60, 86_400, 134_222, 10_000_000, u64::MAX] {
                let found = u64::from(clock.idle_seconds(clock.with_idle_seconds(idle)));
                let right =
                    idle.min(if policy == AccessPolicy::Worth { 68_719_476 } else { 16_604_415 });
                assert!(found.abs_diff(right) < right / 50 + 200, "{policy:?}: {found} for {idle}");
            }
        }
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
