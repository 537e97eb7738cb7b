//! The latency monitor: events that took long, second by second.
//!
//! Invariant: an event keeps at most `SAMPLES` samples, one for each second that had any, and the
//! events are a few fixed names, so its memory is bounded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use base::time::Clock;
use commands::Flags;

/// Samples that are kept of an event.
const SAMPLES: usize = 160;

/// What was slow lately.
pub struct LatencyMonitor {
    threshold_us: AtomicU64,
    events: Mutex<LatencyEvents>,
}

/// Events by their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatencyEvents(BTreeMap<&'static str, LatencyEvent>);

/// The latest samples of one event.
#[derive(Clone, Debug, Default)]
pub struct LatencyEvent {
    /// Oldest first.
    pub samples: VecDeque<Sample>,
    /// The longest since the last reset, in milliseconds.
    pub longest: u64,
}

/// The longest occurrence within a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Unix time in seconds.
    pub time: i64,
    /// Milliseconds.
    pub latency: u64,
}

impl LatencyMonitor {
    pub(crate) fn new() -> Self {
        Self { threshold_us: AtomicU64::new(u64::MAX), events: Mutex::default() }
    }

    /// Follows `latency-monitor-threshold`: milliseconds, 0 for off.
    pub fn configure(&self, threshold_ms: u64) {
        let threshold =
            if threshold_ms == 0 { u64::MAX } else { threshold_ms.saturating_mul(1000) };
        self.threshold_us.store(threshold, Ordering::Relaxed);
    }

    /// What takes at least so long is to be noted; `u64::MAX` for nothing.
    #[inline]
    pub(crate) fn threshold_us(&self) -> u64 {
        self.threshold_us.load(Ordering::Relaxed)
    }

    /// Notes a command that took too long.
    #[cold]
    pub(crate) fn note_command(&self, clock: &Clock, flags: Flags, micros: u64) {
        self.events().note_command(clock, flags, micros);
    }

    /// Enters events that were kept until they were final.
    #[cold]
    pub(crate) fn enter(&self, kept: &LatencyEvents) {
        let mut events = self.events();
        for (name, event) in &kept.0 {
            event.samples.iter().for_each(|sample| events.add(name, *sample));
        }
    }

    /// Notes an event, if it took as long as is to be noted.
    #[inline]
    pub fn note(&self, clock: &Clock, event: &'static str, micros: u64) {
        if micros >= self.threshold_us() {
            self.record(clock, event, micros);
        }
    }

    /// Notes an event that is none by its length, while any are noted.
    pub fn note_always(&self, clock: &Clock, event: &'static str, micros: u64) {
        if self.threshold_us() != u64::MAX {
            self.record(clock, event, micros);
        }
    }

    #[cold]
    fn record(&self, clock: &Clock, event: &'static str, micros: u64) {
        self.events().add(event, Sample::now(clock, micros));
    }

    /// The events that were noted, by name.
    pub fn all(&self) -> Vec<(&'static str, LatencyEvent)> {
        self.events().0.iter().map(|(name, event)| (*name, event.clone())).collect()
    }

    /// One event.
    pub fn event(&self, name: &[u8]) -> Option<LatencyEvent> {
        self.events().0.iter().find(|(own, _)| is(own, name)).map(|(_, event)| event.clone())
    }

    /// Forgets all events; how many there were.
    pub fn reset_all(&self) -> usize {
        std::mem::take(&mut self.events().0).len()
    }

    /// Forgets an event; whether there was one.
    pub fn reset(&self, name: &[u8]) -> bool {
        let mut events = self.events();
        let before = events.0.len();
        events.0.retain(|own, _| !is(own, name));
        events.0.len() < before
    }

    fn events(&self) -> MutexGuard<'_, LatencyEvents> {
        self.events.lock().expect("no critical section here panics")
    }
}

fn is(own: &str, name: &[u8]) -> bool {
    own.as_bytes().eq_ignore_ascii_case(name)
}

impl LatencyEvents {
    /// Notes a command that took too long.
    pub(crate) fn note_command(&mut self, clock: &Clock, flags: Flags, micros: u64) {
        let name = if flags.has(Flags::FAST) { "fast-command" } else { "command" };
        self.add(name, Sample::now(clock, micros));
    }

    /// Whether there are none.
    pub(crate) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, name: &'static str, sample: Sample) {
        self.0.entry(name).or_default().add(sample);
    }
}

impl Sample {
    fn now(clock: &Clock, micros: u64) -> Self {
        Self { time: clock.now_ms().div_euclid(1000), latency: micros / 1000 }
    }
}

impl LatencyEvent {
    /// Adds a sample, which others may have come before that are of a later second.
    fn add(&mut self, sample: Sample) {
        self.longest = self.longest.max(sample.latency);
        let before = self.samples.iter().rposition(|other| other.time <= sample.time);
        match before {
            Some(place) if self.samples[place].time == sample.time => {
                let latency = &mut self.samples[place].latency;
                *latency = sample.latency.max(*latency);
            }
            _ => self.samples.insert(before.map_or(0, |place| place + 1), sample),
        }
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use base::time::Clock;

    use super::{Flags, LatencyEvents, LatencyMonitor, SAMPLES, Sample};

    #[test]
    fn a_second_keeps_its_longest() {
        let (monitor, clock) = (LatencyMonitor::new(), Clock::manual(5_000));
        for micros in [20_000, 30_999, 10_000] {
            monitor.record(&clock, "command", micros);
        }
        clock.advance(1000);
        monitor.record(&clock, "command", 7_000);
        let event = monitor.event(b"COMMAND").unwrap();
        let samples = [Sample { time: 5, latency: 30 }, Sample { time: 6, latency: 7 }];
        assert_eq!(Vec::from(event.samples), samples);
        assert_eq!(event.longest, 30);
        assert!(monitor.reset(b"command") && !monitor.reset(b"command"));
    }

    #[test]
    fn what_is_entered_late_stands_in_its_second() {
        let (monitor, clock) = (LatencyMonitor::new(), Clock::manual(5_000));
        let mut kept = LatencyEvents::default();
        kept.note_command(&clock, Flags::WRITE, 9_000);
        kept.note_command(&clock, Flags::FAST, 3_000);
        clock.advance(1000);
        kept.note_command(&clock, Flags::WRITE, 4_000);
        clock.advance(1000);
        for micros in [8_000, 2_000] {
            monitor.record(&clock, "command", micros);
            monitor.enter(&kept);
        }
        let samples = |name: &[u8]| {
            let event = monitor.event(name).unwrap();
            event.samples.iter().map(|it| (it.time, it.latency)).collect::<Vec<_>>()
        };
        assert_eq!(samples(b"command"), [(5, 9), (6, 4), (7, 8)]);
        assert_eq!(samples(b"fast-command"), [(5, 3)]);
    }

    #[test]
    fn old_samples_give_way() {
        let (monitor, clock) = (LatencyMonitor::new(), Clock::manual(0));
        for _ in 0..SAMPLES + 5 {
            monitor.record(&clock, "command", 1_000_000);
            clock.advance(1000);
        }
        let event = monitor.event(b"command").unwrap();
        assert_eq!((event.samples.len(), event.samples[0].time), (SAMPLES, 5));
        assert_eq!(monitor.reset_all(), 1);
    }
}
