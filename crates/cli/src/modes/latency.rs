//! `--latency`: how long the server takes to answer PING.
//!
//! Invariant: on a terminal the samples go on until a signal; else they end after `-i` seconds, and
//! are told once.

use std::process::ExitCode;
use std::time::Duration;

use crate::client::{Client, print};
use crate::options::Output;

/// What the samples say, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Samples {
    least: i64,
    most: i64,
    sum: i64,
    count: i64,
}

/// Takes samples and tells what they say.
pub(crate) fn latency(client: &mut Client) -> Result<ExitCode, String> {
    let output = client.formatter.output;
    let interval = client.options.interval.unwrap_or(Duration::from_secs(1));
    let started = client.clock.monotonic_us();
    let mut samples = Samples::default();
    client.connect()?;
    loop {
        let begun = client.clock.monotonic_us();
        client.ask(&["PING"])?;
        let now = client.clock.monotonic_us();
        samples.add((now - begun) / 1000);
        let is_over = u128::try_from(now - started).is_ok_and(|it| it > interval.as_micros());
        match output {
            Output::Standard => {
                print(format!("\x1b[0G\x1b[2K{}", samples.tell(output)).as_bytes());
            }
            _ if is_over => {
                print(format!("{}\n", samples.tell(output)).as_bytes());
                return Ok(ExitCode::SUCCESS);
            }
            _ => {}
        }
        std::thread::sleep(PAUSE);
    }
}

/// What lies between samples.
const PAUSE: Duration = Duration::from_millis(10);

impl Samples {
    fn add(&mut self, sample: i64) {
        self.least = if self.count == 0 { sample } else { self.least.min(sample) };
        self.most = self.most.max(sample);
        self.sum += sample;
        self.count += 1;
    }

    fn tell(&self, output: Output) -> String {
        let Samples { least, most, sum, count } = self;
        // Sums and counts of milliseconds are far below what a double holds exactly.
        let average = *sum as f64 / (*count).max(1) as f64;
        match output {
            Output::Standard => {
                format!("min: {least}, max: {most}, avg: {average:.2} ({count} samples)")
            }
            Output::Csv => format!("{least},{most},{average:.2},{count}"),
            Output::Json | Output::QuotedJson => format!(
                "{{\"min\": {least}, \"max\": {most}, \"avg\": {average:.2}, \"count\": {count}}}"
            ),
            Output::Raw => format!("{least} {most} {average:.2} {count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Samples;
    use crate::options::Output;

    #[test]
    fn samples_are_told_as_in_redis_cli() {
        let mut samples = Samples::default();
        [3, 1, 4].into_iter().for_each(|sample| samples.add(sample));
        for (output, expected) in [
            (Output::Standard, "min: 1, max: 4, avg: 2.67 (3 samples)"),
            (Output::Raw, "1 4 2.67 3"),
            (Output::Csv, "1,4,2.67,3"),
            (Output::Json, "{\"min\": 1, \"max\": 4, \"avg\": 2.67, \"count\": 3}"),
        ] {
            assert_eq!(samples.tell(output), expected);
        }
    }
}
