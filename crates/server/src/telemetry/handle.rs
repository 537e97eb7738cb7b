//! The exports as other rooms see them: what is to be exported where, and figures of that.
//!
//! Invariant: the thread begins with the first endpoint, and there is one; without an endpoint it
//! sleeps.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use base::io_error_text::strerror;
use config::Config;
use engine::runtime::lanes::STACK_BYTES;
use otlp::metrics::Metric;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::Notify;

use super::exporter::Exporter;
use super::plan::ExportPlan;
use crate::net::network::Network;

/// So many names are looked up at once.
const LOOKUPS: usize = 4;

/// What tells all metrics, with names of keys or without.
type MetricSource = Box<dyn Fn(bool) -> Vec<Metric> + Send + Sync>;

/// All exports.
#[derive(Default)]
pub(crate) struct Telemetry {
    source: OnceLock<MetricSource>,
    plan: Mutex<Option<Arc<ExportPlan>>>,
    has_thread: Mutex<bool>,
    /// There is another plan, or none any more.
    pub(super) changed: Notify,
    pub(crate) counters: TelemetryCounters,
}

/// Figures of exports.
#[derive(Default)]
pub(crate) struct TelemetryCounters {
    pub(crate) points_exported: AtomicU64,
    /// Those that were refused, or given up.
    pub(crate) points_failed: AtomicU64,
    pub(crate) spans_exported: AtomicU64,
    pub(crate) spans_failed: AtomicU64,
    /// Requests that were not answered, or not by taking them.
    pub(crate) requests_failed: AtomicU64,
}

impl Telemetry {
    /// Says where metrics come from; once, before there is a plan.
    pub(crate) fn set_source(&self, source: impl Fn(bool) -> Vec<Metric> + Send + Sync + 'static) {
        let _ = self.source.set(Box::new(source));
    }

    /// Makes ready what a configuration asks for; the error says what is wrong with it.
    pub(crate) fn prepare(
        &'static self,
        server: &'static Network,
        config: &Config,
    ) -> Result<Option<Arc<ExportPlan>>, String> {
        let run_id = &server.identity.run_id;
        let plan = ExportPlan::of(config, run_id, server.keyspace.clock())?;
        if plan.is_some() {
            self.begin(server).map_err(|error| {
                format!("the thread of exports cannot start: {}", strerror(&error))
            })?;
        }
        Ok(plan.map(Arc::new))
    }

    /// Exports by another plan from now on, or not at all.
    pub(crate) fn change(&self, server: &Network, plan: Option<Arc<ExportPlan>>) {
        let traced = plan.as_ref().filter(|plan| plan.traces);
        let keeps_arguments = traced.is_some_and(|plan| plan.arguments);
        server.observed.spans.configure(traced.is_some(), keeps_arguments);
        *self.held_plan() = plan;
        self.changed.notify_one();
    }

    /// The plan that holds now.
    pub(super) fn plan(&self) -> Option<Arc<ExportPlan>> {
        self.held_plan().clone()
    }

    /// Whether a plan still holds.
    pub(super) fn has(&self, plan: &Arc<ExportPlan>) -> bool {
        self.held_plan().as_ref().is_some_and(|held| Arc::ptr_eq(held, plan))
    }

    /// All metrics, with names of keys or without.
    pub(super) fn metrics(&self, with_keys: bool) -> Vec<Metric> {
        self.source.get().map(|source| source(with_keys)).unwrap_or_default()
    }

    fn begin(&'static self, server: &'static Network) -> io::Result<()> {
        let mut has_thread = self.has_thread.lock().expect("no critical section here panics");
        if *has_thread {
            return Ok(());
        }
        // A runtime is of the thread that makes it, so that one says whether it has one.
        let (sender, receiver) = std::sync::mpsc::channel();
        let run = move || {
            let runtime = runtime();
            let (runtime, told) = match runtime {
                Ok(runtime) => (Some(runtime), Ok(())),
                Err(error) => (None, Err(error)),
            };
            // The thread that asked waits for this.
            let _ = sender.send(told);
            if let Some(runtime) = runtime {
                runtime.block_on(Exporter::new(server, self).run());
            }
        };
        let thread = std::thread::Builder::new().name("otlp".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(run)?;
        receiver.recv().unwrap_or_else(|_| Err(io::Error::other("the thread has ended")))?;
        *has_thread = true;
        Ok(())
    }

    fn held_plan(&self) -> MutexGuard<'_, Option<Arc<ExportPlan>>> {
        self.plan.lock().expect("no critical section here panics")
    }
}

fn runtime() -> io::Result<LocalRuntime> {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().max_blocking_threads(LOOKUPS).build_local(LocalOptions::default())
}

impl TelemetryCounters {
    pub(super) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}
