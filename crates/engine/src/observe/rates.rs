//! How much happens per second, from samples of the totals.
//!
//! Invariant: a rate is a mean over the latest samples; what came before a quiet time does not
//! count, and a total that was reset makes no rate below zero.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use crate::runtime::counters::Totals;
use crate::runtime::event_loops::EventLoopCycles;

/// Rates are means over the latest samples: 1.6 seconds of them under load, as in Redis.
const SAMPLES: usize = 16;

/// How much happens per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Commands per second: `instantaneous_ops_per_sec`.
    pub commands: f64,
    /// Bytes per second that came from clients.
    pub net_in: f64,
    /// Bytes per second that were sent to clients.
    pub net_out: f64,
    /// Bytes per second that came from a primary.
    pub replication_in: f64,
    /// Bytes per second that were sent to replicas.
    pub replication_out: f64,
    /// Turns of the event loops.
    pub cycles: f64,
    /// How long one took on average, in microseconds.
    pub cycle_us: f64,
}

/// The totals at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateSample {
    /// When, on the monotonic clock.
    pub now_us: i64,
    /// What the workers counted.
    pub totals: Totals,
    /// How often the event loops turned.
    pub turns: EventLoopCycles,
    /// The bytes that came from a primary, and those that were sent to replicas.
    pub replication: (u64, u64),
}

/// The latest samples.
#[derive(Default)]
pub struct RateMeter {
    samples: Mutex<VecDeque<RateSample>>,
}

impl RateMeter {
    /// Takes a sample.
    pub fn record(&self, sample: RateSample) {
        let mut samples = self.samples();
        if samples.len() > SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
        // After a quiet time the past says nothing about the present.
        while samples.len() > 2 && sample.now_us - samples[1].now_us >= 1_600_000 {
            samples.pop_front();
        }
    }

    /// The mean rates of the latest time.
    pub fn now(&self) -> Rates {
        let samples = self.samples();
        let (Some(first), Some(last)) = (samples.front(), samples.back()) else {
            return Rates::default();
        };
        let (from, to, began, ended) = (first.totals, last.totals, first.turns, last.turns);
        let seconds = (last.now_us - first.now_us) as f64 / 1e6;
        if seconds <= 0.0 {
            return Rates::default();
        }
        // A reset in between makes a total smaller.
        let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        Rates {
            commands: rate(from.commands, to.commands),
            net_in: rate(from.net_in, to.net_in),
            net_out: rate(from.net_out, to.net_out),
            replication_in: rate(first.replication.0, last.replication.0),
            replication_out: rate(first.replication.1, last.replication.1),
            cycles: rate(began.cycles, ended.cycles),
            cycle_us: ended.micros.saturating_sub(began.micros) as f64
                / ended.cycles.saturating_sub(began.cycles).max(1) as f64,
        }
    }

    fn samples(&self) -> MutexGuard<'_, VecDeque<RateSample>> {
        self.samples.lock().expect("no critical section here panics")
    }
}

#[cfg(test)]
mod tests {
    use super::{RateMeter, RateSample, Rates, Totals};

    fn record(meter: &RateMeter, now_us: i64, commands: u64) {
        let totals = Totals { commands, ..Totals::default() };
        let replication = (3 * commands, 5 * commands);
        meter.record(RateSample { now_us, totals, replication, ..RateSample::default() });
    }

    #[test]
    fn rates_follow_the_load() {
        let meter = RateMeter::default();
        assert_eq!(meter.now(), Rates::default());
        let mut commands = 0;
        for tick in 0..100 {
            commands += 50;
            record(&meter, tick * 100_000, commands);
        }
        assert_eq!(meter.now().commands, 500.0);
        assert_eq!((meter.now().replication_in, meter.now().replication_out), (1500.0, 2500.0));
        // Nothing more comes: two looks later the rate is zero.
        for second in 11..14 {
            record(&meter, second * 1_000_000, commands);
        }
        assert_eq!(meter.now().commands, 0.0);
        // Statistics were reset.
        record(&meter, 14_000_000, 0);
        assert_eq!(meter.now().commands, 0.0);
    }
}
