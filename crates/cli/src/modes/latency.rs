//! `--latency` and `--latency-history`: how long the server takes to answer PING.
//!
//! Invariant: on a terminal, and for a history, the samples go on until a signal; else they end
//! after `-i` seconds, and are told once.

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

/// How long samples are taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// For the whole run.
    Once,
    /// For a while, again and again.
    Repeated,
}

/// Takes samples and tells what they say.
pub(crate) fn latency(client: &mut Client, span: Span) -> Result<ExitCode, String> {
    let output = client.formatter.output;
    let usual = if span == Span::Once { 1 } else { 15 };
    let interval = client.options.interval.unwrap_or(Duration::from_secs(usual));
    let mut started = client.clock.monotonic_us();
    let mut samples = Samples::default();
    client.connect()?;
    loop {
        let (sample, now) = sample(client)?;
        samples.add(sample / 1000);
        let passed_us = now - started;
        let is_over = u128::try_from(passed_us).is_ok_and(|it| it > interval.as_micros());
        match (output, span) {
            (Output::Standard, _) => {
                print(format!("\x1b[0G\x1b[2K{}", samples.text(output)).as_bytes());
            }
            (_, Span::Repeated) => print(format!("{}\n", samples.text(output)).as_bytes()),
            (_, Span::Once) if is_over => {
                print(format!("{}\n", samples.text(output)).as_bytes());
                return Ok(ExitCode::SUCCESS);
            }
            (_, Span::Once) => {}
        }
        if is_over && span == Span::Repeated {
            // Hundredths of a second are told.
            let seconds = passed_us as f64 / 1e6;
            print(format!(" -- {seconds:.2} seconds range\n").as_bytes());
            started = now;
            samples = Samples::default();
        }
        std::thread::sleep(PAUSE);
    }
}

/// How many microseconds the server takes to answer, and when it has.
pub(super) fn sample(client: &mut Client) -> Result<(i64, i64), String> {
    let begun = client.clock.monotonic_us();
    client.ask(&["PING"])?;
    let now = client.clock.monotonic_us();
    Ok((now - begun, now))
}

/// What lies between samples.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

impl Samples {
    fn add(&mut self, sample: i64) {
        self.least = if self.count == 0 { sample } else { self.least.min(sample) };
        self.most = self.most.max(sample);
        self.sum += sample;
        self.count += 1;
    }

    fn text(&self, output: Output) -> String {
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
            assert_eq!(samples.text(output), expected);
        }
    }
}
