//! The thread that exports: what is due is read, encoded and sent, and sent again where that may
//! help.
//!
//! Invariants: one request is under way at a time; a batch is given up after a bounded time, as
//! later metrics have all that it said, and spans that wait meanwhile are bounded by their queue;
//! the log tells when exports begin to fail and when they are well again, and not of each.

use std::sync::Arc;
use std::time::Duration;

use base::random::Random;
use engine::runtime::log::{log_notice, log_warning};
use hyper::body::Bytes;
use otlp::answer::Verdict;
use otlp::metrics::Period;
use otlp::retry::{AGE_MAX, Retries};
use otlp::{Signal, metrics, traces};
use tokio::time::timeout;

use super::exchange::post;
use super::handle::{Telemetry, TelemetryCounters};
use super::plan::ExportPlan;
use super::spans::span_of;
use crate::net::network::Network;

/// So many spans go in one request.
const SPANS_MAX: usize = 512;

/// What is done on the thread.
pub(super) struct Exporter {
    server: &'static Network,
    telemetry: &'static Telemetry,
    random: Random,
    /// Nothing is sent before this time of the monotonic clock, as the endpoint asked.
    held_until_us: i64,
    /// Whether the last request failed.
    is_failing: bool,
}

/// What is sent: metrics or spans, encoded, and how many.
struct ExportBatch {
    signal: Signal,
    body: Bytes,
    count: u64,
}

impl Exporter {
    pub(super) fn new(server: &'static Network, telemetry: &'static Telemetry) -> Self {
        let random = Random::from_entropy();
        Self { server, telemetry, random, held_until_us: 0, is_failing: false }
    }

    /// Exports for ever.
    pub(super) async fn run(mut self) {
        loop {
            match self.telemetry.plan() {
                Some(plan) => self.follow(&plan).await,
                None => self.telemetry.changed.notified().await,
            }
        }
    }

    /// Exports by a plan for as long as it holds.
    async fn follow(&mut self, plan: &Arc<ExportPlan>) {
        (self.held_until_us, self.is_failing) = (0, false);
        let mut metrics_us = self.now_us();
        let mut spans_us = self.now_us() + micros(plan.span_interval());
        while self.telemetry.has(plan) {
            let due_us = match plan.traces {
                true => metrics_us.min(spans_us),
                false => metrics_us,
            };
            let due_us = due_us.max(self.held_until_us);
            let now_us = self.now_us();
            if now_us < due_us {
                self.wait(Duration::from_micros((due_us - now_us).unsigned_abs())).await;
                continue;
            }
            if metrics_us <= now_us {
                metrics_us = now_us + micros(plan.interval);
                let batch = self.metrics(plan);
                self.deliver(plan, &batch).await;
            }
            if plan.traces && spans_us <= now_us {
                spans_us = now_us + micros(plan.span_interval());
                self.export_spans(plan).await;
            }
        }
    }

    /// Lets time go by, or less of it where there is another plan.
    async fn wait(&self, pause: Duration) {
        // Which of the two it was is asked of the plan.
        let _ = timeout(pause, self.telemetry.changed.notified()).await;
    }

    fn metrics(&self, plan: &ExportPlan) -> ExportBatch {
        let all = self.telemetry.metrics(plan.arguments);
        let started_ms = u64::try_from(self.server.identity.started).unwrap_or(0);
        let period = Period { started_ns: started_ms * 1_000_000, read_ns: self.unix_us() * 1000 };
        let count = all.iter().map(|metric| metric.points.len() as u64).sum();
        let body = metrics::encode(&plan.sender, period, &all).into();
        ExportBatch { signal: Signal::Metrics, body, count }
    }

    async fn export_spans(&mut self, plan: &Arc<ExportPlan>) {
        let finished = self.server.observed.spans.take();
        for some in finished.chunks(SPANS_MAX) {
            let spans: Vec<_> = some.iter().map(|it| span_of(it, &mut self.random)).collect();
            let body = traces::encode(&plan.sender, &spans).into();
            let batch = ExportBatch { signal: Signal::Traces, body, count: spans.len() as u64 };
            self.deliver(plan, &batch).await;
        }
    }

    /// Sends a batch until it is taken, refused, too old, or no longer to be sent.
    async fn deliver(&mut self, plan: &Arc<ExportPlan>, batch: &ExportBatch) {
        let given_up_us = self.now_us() + micros(AGE_MAX);
        let mut retries = Retries::default();
        while self.telemetry.has(plan) {
            let left_us = self.held_until_us - self.now_us();
            if left_us > 0 {
                if self.held_until_us > given_up_us {
                    break;
                }
                self.wait(Duration::from_micros(left_us.unsigned_abs())).await;
                continue;
            }
            let now_s = self.unix_us() / 1_000_000;
            let (config, body) = (&self.server.config, batch.body.clone());
            let answered = post(config, plan, batch.signal, body, now_s).await;
            let after = match answered {
                Ok((_, Verdict::Accepted { rejected })) => {
                    return self.succeed(plan, batch, rejected);
                }
                Ok((status, Verdict::Refused)) => {
                    self.fail(plan, &format!("the answer is {status}"));
                    break;
                }
                Ok((status, Verdict::TryAgain { after })) => {
                    self.fail(plan, &format!("the answer is {status}"));
                    after
                }
                Err(why) => {
                    self.fail(plan, &why);
                    None
                }
            };
            let chance = self.random.below(1 << 20) as f64 / f64::from(1 << 20);
            self.held_until_us = self.now_us() + micros(retries.pause(after, chance));
        }
        TelemetryCounters::add(self.failed(batch.signal), batch.count);
    }

    fn succeed(&mut self, plan: &ExportPlan, batch: &ExportBatch, rejected: u64) {
        let counters = &self.telemetry.counters;
        let exported = match batch.signal {
            Signal::Metrics => &counters.points_exported,
            Signal::Traces => &counters.spans_exported,
        };
        let rejected = rejected.min(batch.count);
        TelemetryCounters::add(exported, batch.count - rejected);
        TelemetryCounters::add(self.failed(batch.signal), rejected);
        if std::mem::take(&mut self.is_failing) {
            let to = &plan.endpoint.authority;
            log_notice!(self.server.log, "Telemetry is exported again to {to}");
        }
    }

    fn fail(&mut self, plan: &ExportPlan, why: &str) {
        TelemetryCounters::add(&self.telemetry.counters.requests_failed, 1);
        if !std::mem::replace(&mut self.is_failing, true) {
            let to = &plan.endpoint.authority;
            log_warning!(self.server.log, "Cannot export telemetry to {to}: {why}");
        }
    }

    fn failed(&self, signal: Signal) -> &'static std::sync::atomic::AtomicU64 {
        match signal {
            Signal::Metrics => &self.telemetry.counters.points_failed,
            Signal::Traces => &self.telemetry.counters.spans_failed,
        }
    }

    fn now_us(&self) -> i64 {
        self.server.keyspace.clock().monotonic_us()
    }

    fn unix_us(&self) -> u64 {
        u64::try_from(self.server.keyspace.clock().now_us()).unwrap_or(0)
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
