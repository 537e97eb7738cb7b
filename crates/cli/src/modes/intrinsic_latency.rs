//! `--intrinsic-latency`: how long this machine keeps a process from running, with no server in
//! between.
//!
//! Invariant: the process never waits by itself, so each pause is the machine's.

use std::process::ExitCode;
use std::time::Duration;

use crate::client::{Client, print};
use crate::interrupt;

/// Runs for so long, or until a signal, and tells the longest pauses.
pub(crate) fn intrinsic_latency(client: &Client, time: Duration) -> ExitCode {
    interrupt::listen();
    let time_us = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let started = client.clock.monotonic_us();
    let (mut before, mut worst_us, mut runs) = (started, 0, 0_u64);
    loop {
        work();
        let now = client.clock.monotonic_us();
        runs += 1;
        if now - before > worst_us {
            worst_us = now - before;
            print(format!("Max latency so far: {worst_us} microseconds.\n").as_bytes());
        }
        before = now;
        if now - started > time_us || interrupt::was_asked() {
            print(summary(runs, now - started, worst_us).as_bytes());
            return ExitCode::SUCCESS;
        }
    }
}

/// A few instructions, so that the clock is not all that runs.
fn work() {
    let mut state = 88_172_645_463_325_252_u64;
    for _ in 0..32 {
        state ^= state << 13;
        state ^= state >> 7;
        state = std::hint::black_box(state ^ (state << 17));
    }
}

fn summary(runs: u64, passed_us: i64, worst_us: i64) -> String {
    // Doubles hold these numbers to more digits than are told.
    let average = passed_us as f64 / runs as f64;
    let times = worst_us as f64 / average.max(f64::MIN_POSITIVE);
    format!(
        "\n{runs} total runs (avg latency: {average:.4} microseconds / {:.2} nanoseconds per \
         run).\n\
         Worst run took {times:.0}x longer than the average latency.\n",
        average * 1000.0
    )
}

#[cfg(test)]
mod tests {
    use super::summary;

    #[test]
    fn the_summary_is_that_of_redis_cli() {
        let expected = "\n8000000 total runs (avg latency: 0.1250 microseconds / 125.00 \
                        nanoseconds per run).\nWorst run took 800x longer than the average \
                        latency.\n";
        assert_eq!(summary(8_000_000, 1_000_000, 100), expected);
    }
}
