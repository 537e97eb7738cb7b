//! How much happens per second, from samples of the totals.
//!
//! Invariant: a rate is a mean over the latest samples; what came before a quiet time does not
//! count, and a total that was reset makes no rate below zero.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use crate::runtime::counters::Totals;
use crate::runtime::loops::Turns;

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
    /// Turns of the event loops.
    pub cycles: f64,
    /// How long one took on average, in microseconds.
    pub cycle_us: f64,
}

/// The latest totals, each with the time when it was taken.
#[derive(Default)]
pub struct RateMeter {
    samples: Mutex<VecDeque<(i64, Totals, Turns)>>,
}

impl RateMeter {
    /// Takes a sample.
    pub fn record(&self, now_us: i64, totals: Totals, turns: Turns) {
        let mut samples = self.samples();
        if samples.len() > SAMPLES {
            samples.pop_front();
        }
        samples.push_back((now_us, totals, turns));
        // After a quiet time the past says nothing about the present.
        while samples.len() > 2 && now_us - samples[1].0 >= 1_600_000 {
            samples.pop_front();
        }
    }

    /// The mean rates of the latest time.
    pub fn now(&self) -> Rates {
        let samples = self.samples();
        let (Some(first), Some(last)) = (samples.front(), samples.back()) else {
            return Rates::default();
        };
        let ((from_us, from, began), (to_us, to, ended)) = (first, last);
        let seconds = (to_us - from_us) as f64 / 1e6;
        if seconds <= 0.0 {
            return Rates::default();
        }
        // A reset in between makes a total smaller.
        let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        Rates {
            commands: rate(from.commands, to.commands),
            net_in: rate(from.net_in, to.net_in),
            net_out: rate(from.net_out, to.net_out),
            cycles: rate(began.cycles, ended.cycles),
            cycle_us: ended.micros.saturating_sub(began.micros) as f64
                / ended.cycles.saturating_sub(began.cycles).max(1) as f64,
        }
    }

    fn samples(&self) -> MutexGuard<'_, VecDeque<(i64, Totals, Turns)>> {
        self.samples.lock().expect("no critical section here panics")
    }
}

#[cfg(test)]
mod tests {
    use super::{RateMeter, Rates, Totals, Turns};

    const TURNS: Turns = Turns { cycles: 7, micros: 70, steps: 0 };

    #[test]
    fn rates_follow_the_load() {
        let meter = RateMeter::default();
        assert_eq!(meter.now(), Rates::default());
        let mut commands = 0;
        for tick in 0..100 {
            commands += 50;
            meter.record(tick * 100_000, Totals { commands, ..Totals::default() }, TURNS);
        }
        assert_eq!(meter.now().commands, 500.0);
        // Nothing more comes: two looks later the rate is zero.
        for second in 11..14 {
            meter.record(second * 1_000_000, Totals { commands, ..Totals::default() }, TURNS);
        }
        assert_eq!(meter.now().commands, 0.0);
        // Statistics were reset.
        meter.record(14_000_000, Totals::default(), TURNS);
        assert_eq!(meter.now().commands, 0.0);
    }
}
