//! The section OTLP: what was exported to `otlp-endpoint`, and what was not.

use std::sync::atomic::Ordering;

use super::report::InfoText;
use crate::server::Server;

pub(super) fn write(server: &Server, report: &mut InfoText) {
    let counters = &server.telemetry.counters;
    for (name, counter) in [
        ("otlp_points_exported", &counters.points_exported),
        ("otlp_points_failed", &counters.points_failed),
        ("otlp_spans_exported", &counters.spans_exported),
        ("otlp_spans_failed", &counters.spans_failed),
    ] {
        report.field(name, counter.load(Ordering::Relaxed));
    }
    report.field("otlp_spans_dropped", server.observed.spans.dropped());
    report.field("otlp_requests_failed", counters.requests_failed.load(Ordering::Relaxed));
}
