//! OpenTelemetry's protocol, OTLP over HTTP, without sockets: metrics and spans to the bytes of a
//! request, an answer to what it means, and when to try again.
//!
//! Knows nothing of the server, of sockets or of clocks. Invariants: what is encoded is what the
//! published definitions say; an answer of any length or content is at worst a failed export.
#![forbid(unsafe_code)]

pub mod answer;
pub mod attributes;
pub mod endpoint;
pub mod headers;
pub mod metrics;
mod protobuf;
pub mod retry;
pub mod traces;

/// What is exported: each kind has a path of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Figures.
    Metrics,
    /// Spans.
    Traces,
}

impl Signal {
    /// The path below that of the endpoint.
    pub fn path(self) -> &'static str {
        match self {
            Self::Metrics => "v1/metrics",
            Self::Traces => "v1/traces",
        }
    }
}
