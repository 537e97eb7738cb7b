//! Metrics and spans for OpenTelemetry: the collector that `otlp-endpoint` names is sent the
//! figures of `/metrics` and what was slow, from a thread of its own.
//!
//! What is sent and what an answer means is crate `otlp`; this room has the thread, the sockets and
//! the clock. Invariants: no worker waits for an export; where no endpoint was named there is no
//! thread, and nothing is noted for it; one request at most is under way.

mod exchange;
mod exporter;
mod handle;
mod plan;
mod spans;

pub(crate) use handle::Telemetry;
pub(crate) use plan::ExportPlan;
