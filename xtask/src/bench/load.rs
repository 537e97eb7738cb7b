//! Load by the real `redis-benchmark`. Invariant: one server is loaded at a time, and from round
//! to round another one goes first.

use std::process::Command;
use std::time::Instant;

use super::contender::{Contender, Running};
use super::process::{TICK_SECONDS, ticks};
use super::{Plan, pipe};
use crate::shell;

/// The generator's core.
pub(super) const CORE: &str = "1";

pub(super) const KEYS: u64 = 100_000;
pub(super) const VALUE_BYTES: usize = 256;
pub(super) const CONNECTIONS: u64 = 50;
pub(super) const PIPELINE: u64 = 30;

/// A pipelined request is so cheap that the kernel's clock needs this many times more of them.
pub(super) const PIPELINED_TIMES: u64 = 20;

/// One kind of request.
pub(super) struct Workload {
    pub(super) name: &'static str,
    test: &'static str,
    pipeline: u64,
}

pub(super) const WORKLOADS: &[Workload] = &[
    Workload { name: "GET", test: "get", pipeline: 1 },
    Workload { name: "SET", test: "set", pipeline: 1 },
    Workload { name: "GET, pipelined by 30", test: "get", pipeline: PIPELINE },
    Workload { name: "SET, pipelined by 30", test: "set", pipeline: PIPELINE },
];

impl Workload {
    fn requests(&self, plan: &Plan) -> u64 {
        if self.pipeline == 1 { plan.requests } else { plan.requests * PIPELINED_TIMES }
    }

    /// The generator's arguments, but for the port.
    pub(super) fn arguments(&self, plan: &Plan) -> Vec<String> {
        let numbers = [
            ("-n", self.requests(plan)),
            ("-r", KEYS),
            ("-d", VALUE_BYTES as u64),
            ("-c", CONNECTIONS),
            ("-P", self.pipeline),
        ];
        let mut arguments = ["--csv", "-t", self.test].map(str::to_owned).to_vec();
        for (option, number) in numbers {
            arguments.extend([option.to_owned(), number.to_string()]);
        }
        arguments
    }
}

/// One run of the generator against one server.
pub(super) struct Sample {
    pub(super) round: usize,
    pub(super) contender: &'static str,
    pub(super) workload: &'static str,
    pub(super) requests: u64,
    /// Requests per second, as the generator tells.
    pub(super) rate: f64,
    pub(super) server_ticks: u64,
    pub(super) generator_ticks: u64,
    pub(super) seconds: f64,
}

/// What one reads off a sample.
pub(super) type Reading = fn(&Sample) -> f64;

impl Sample {
    pub(super) fn microseconds_per_request(&self) -> f64 {
        self.server_ticks as f64 * TICK_SECONDS * 1e6 / self.requests as f64
    }

    /// The share of a core that the server took, in percent.
    pub(super) fn server_busy(&self) -> f64 {
        self.server_ticks as f64 * TICK_SECONDS / self.seconds * 100.0
    }

    /// The share of a core that the generator took, in percent.
    pub(super) fn generator_busy(&self) -> f64 {
        self.generator_ticks as f64 * TICK_SECONDS / self.seconds * 100.0
    }

    /// How far the CPU time may be off, as a share of itself: user and system time are each cut
    /// to whole ticks.
    pub(super) fn error(&self) -> f64 {
        2.0 / self.server_ticks as f64
    }
}

/// Starts and fills all servers, then loads each with everything, round by round.
pub(super) fn measure(contenders: &[Contender], plan: &Plan) -> Result<Vec<Sample>, String> {
    let mut servers = Vec::new();
    for contender in contenders {
        let server = contender.start()?;
        // The generator's own keys: each is there, so that no GET misses.
        let value = "x".repeat(VALUE_BYTES);
        pipe::fill(server.port, KEYS, |index| (format!("key:{index:012}"), value.clone()))?;
        servers.push((contender, server));
    }
    let mut samples = Vec::new();
    for round in 0..plan.rounds {
        println!("round {} of {}", round + 1, plan.rounds);
        for workload in WORKLOADS {
            for (contender, server) in &servers {
                samples.push(load(contender, server, workload, plan, round)?);
            }
        }
        servers.rotate_left(1);
    }
    Ok(samples)
}

fn load(
    contender: &Contender,
    server: &Running,
    workload: &Workload,
    plan: &Plan,
    round: usize,
) -> Result<Sample, String> {
    let mut command = Command::new("taskset");
    command.args(["-c", CORE, "redis-benchmark", "-p", &server.port.to_string()]);
    command.args(workload.arguments(plan));
    let here = std::process::id();
    let (server_before, here_before) = (ticks(server.pid())?, ticks(here)?);
    let start = Instant::now();
    let report = shell::output(&mut command)?;
    let seconds = start.elapsed().as_secs_f64();
    let (server_after, here_after) = (ticks(server.pid())?, ticks(here)?);
    Ok(Sample {
        round,
        contender: contender.name,
        workload: workload.name,
        requests: workload.requests(plan),
        rate: rate(&report).ok_or_else(|| format!("redis-benchmark says {report:?}"))?,
        server_ticks: server_after.own - server_before.own,
        generator_ticks: here_after.children - here_before.children,
        seconds,
    })
}

/// The requests per second of the generator's only line of results.
fn rate(report: &str) -> Option<f64> {
    let line =
        report.lines().find(|line| line.starts_with("\"GET\"") || line.starts_with("\"SET\""));
    line?.split(',').nth(1)?.trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn reads_the_rate_below_the_head() {
        let report = "\"test\",\"rps\",\"avg_latency_ms\"\n\"GET\",\"81967.21\",\"0.306\"\n";
        assert_eq!(rate(report), Some(81967.21));
        assert_eq!(rate("\"test\",\"rps\"\n"), None);
    }
}
