//! What is seen while a run goes on: memtier_benchmark's progress line, and gauges for statsd.
//! Invariant: watchers only read; a terminal or a statsd server that is gone never stops a run.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::net::{ToSocketAddrs, UdpSocket};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::table::bytes;
use crate::engine::live::Live;
use crate::options::{Options, Statsd, Until};

/// How often the line is drawn.
const PERIOD: Duration = Duration::from_secs(1);
/// How soon the end of a run is noticed.
const NAP: Duration = Duration::from_millis(20);

/// How often a line is written where it cannot be drawn over.
const PERIOD_ON_PIPE: Duration = Duration::from_secs(10);

/// Watches a run from a thread of its own until `live.finished`: draws the line on the standard
/// error and feeds statsd once per second, each where the options ask for it. Runs count from one.
pub fn draw(live: &Live, options: &Options, run: u32) {
    let statsd = options.output.statsd.as_ref().and_then(Sink::open);
    if !options.output.progress && statsd.is_none() {
        return;
    }
    let is_terminal = std::io::stderr().is_terminal();
    let period = if is_terminal || statsd.is_some() { PERIOD } else { PERIOD_ON_PIPE };
    let started = Instant::now();
    let mut before = Sample::default();
    let mut due = started + period;
    let mut written = started;
    loop {
        let is_over = live.finished.load(Acquire);
        let now = Instant::now();
        if !is_over && now < due {
            thread::sleep(NAP.min(due - now));
            continue;
        }
        let sample = Sample::take(live, now - started);
        let rates = Rates { before, sample };
        if options.output.progress {
            let text = line(options, run, &rates, is_over);
            if is_terminal {
                let end = if is_over { "\n\n" } else { "" };
                let _ = write!(std::io::stderr(), "\r{text}{end}");
            } else if now - written >= PERIOD_ON_PIPE {
                written = now;
                let _ = writeln!(std::io::stderr(), "{text}");
            }
        }
        if let Some(sink) = &statsd {
            sink.send(&gauges(options, &rates, live.connections.load(Relaxed)));
        }
        if is_over {
            break;
        }
        before = sample;
        due = now + period;
    }
    if let Some(sink) = &statsd {
        sink.send(&resting());
    }
}

/// A reading of the totals.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    elapsed: Duration,
    requests: u64,
    bytes: u64,
    latency_us: u64,
}

impl Sample {
    fn take(live: &Live, elapsed: Duration) -> Sample {
        Sample {
            elapsed,
            requests: live.requests.load(Relaxed),
            bytes: live.bytes.load(Relaxed),
            latency_us: live.latency_us.load(Relaxed),
        }
    }
}

/// Two readings, and what happened between them.
#[derive(Clone, Copy, Debug)]
struct Rates {
    before: Sample,
    sample: Sample,
}

impl Rates {
    /// Per second since the reading before, and since the start.
    fn per_second(&self, take: fn(&Sample) -> u64) -> (f64, f64) {
        let (now, before) = (take(&self.sample), take(&self.before));
        let period = (self.sample.elapsed - self.before.elapsed).as_secs_f64();
        let rate = |count: u64, seconds: f64| count as f64 / seconds.max(1e-3);
        let total = self.sample.elapsed.as_secs_f64();
        (rate(now.saturating_sub(before), period), rate(now, total))
    }

    /// Mean latency in milliseconds since the reading before, and since the start.
    fn latency_ms(&self) -> (f64, f64) {
        let mean =
            |latency_us: u64, requests: u64| latency_us as f64 / 1e3 / requests.max(1) as f64;
        let (now, before) = (self.sample, self.before);
        let recent = mean(
            now.latency_us.saturating_sub(before.latency_us),
            now.requests.saturating_sub(before.requests),
        );
        (recent, mean(now.latency_us, now.requests))
    }
}

/// How much of the run is done, from 0 to 1.
fn share_done(options: &Options, sample: &Sample) -> f64 {
    let connections = u64::from(options.threads) * u64::from(options.clients);
    let share = match options.until {
        Until::Time(time) => sample.elapsed.as_secs_f64() / time.as_secs_f64().max(1e-3),
        Until::Requests(each) => {
            sample.requests as f64 / each.saturating_mul(connections).max(1) as f64
        }
        Until::AllKeys => {
            let keys = &options.load.keys;
            let range = keys.maximum.saturating_sub(keys.minimum).saturating_add(1);
            sample.requests as f64 / range as f64
        }
    };
    share.min(1.0)
}

fn line(options: &Options, run: u32, rates: &Rates, is_over: bool) -> String {
    let (ops, ops_mean) = rates.per_second(|sample| sample.requests);
    let (traffic, traffic_mean) = rates.per_second(|sample| sample.bytes);
    let (latency, latency_mean) = rates.latency_ms();
    let percent = if is_over { 1.0 } else { share_done(options, &rates.sample) } * 100.0;
    format!(
        "[RUN #{run} {percent:.0}%, {:>3} secs] {:>2} threads: {:>11} ops, {ops:>7.0} (avg: \
         {ops_mean:>7.0}) ops/sec, {}/sec (avg: {}/sec), {latency:>5.2} (avg: \
         {latency_mean:>5.2}) msec latency",
        rates.sample.elapsed.as_secs(),
        if is_over { 0 } else { options.threads },
        rates.sample.requests,
        bytes(traffic),
        bytes(traffic_mean),
    )
}

/// Where gauges go.
struct Sink {
    socket: UdpSocket,
    prefix: String,
}

impl Sink {
    /// `None` where the host has no address: the run goes on without.
    fn open(statsd: &Statsd) -> Option<Sink> {
        let address = (&*statsd.host, statsd.port).to_socket_addrs().ok()?.next()?;
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).ok()?;
        socket.connect(address).ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(Sink { socket, prefix: format!("{}.{}", statsd.prefix, statsd.label) })
    }

    /// One datagram of one metric per line: what is lost is lost.
    fn send(&self, metrics: &[(&str, f64, &str)]) {
        let mut text = String::new();
        for (name, value, kind) in metrics {
            let line_end = if text.is_empty() { "" } else { "\n" };
            let _ = write!(text, "{line_end}{}.{name}:{value:.3}|{kind}", self.prefix);
        }
        let _ = self.socket.send(text.as_bytes());
    }
}

/// The metrics of memtier's real-time documentation that the totals tell: gauges, and timings in
/// milliseconds.
fn gauges(
    options: &Options,
    rates: &Rates,
    connections: u64,
) -> Vec<(&'static str, f64, &'static str)> {
    let (ops, ops_mean) = rates.per_second(|sample| sample.requests);
    let (traffic, traffic_mean) = rates.per_second(|sample| sample.bytes);
    let (latency, latency_mean) = rates.latency_ms();
    vec![
        ("ops_sec", ops, "g"),
        ("ops_sec_avg", ops_mean, "g"),
        ("bytes_sec", traffic, "g"),
        ("bytes_sec_avg", traffic_mean, "g"),
        ("latency_ms", latency, "ms"),
        ("latency_avg_ms", latency_mean, "ms"),
        ("connections", connections as f64, "g"),
        ("progress_pct", share_done(options, &rates.sample) * 100.0, "g"),
    ]
}

/// Graphs go back to zero after a run.
fn resting() -> [(&'static str, f64, &'static str); 5] {
    ["ops_sec", "ops_sec_avg", "bytes_sec", "bytes_sec_avg", "progress_pct"]
        .map(|name| (name, 0.0, "g"))
}

#[cfg(test)]
mod tests;
