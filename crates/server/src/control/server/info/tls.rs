//! The section TLS: the certificates that are shown, and handshakes.
//!
//! Invariant: fields of Valkey come first and under its names; without certificates there are none.

use std::sync::atomic::Ordering;

use tls::certificate::Certificate;

use super::info_text::InfoText;
use crate::server::Server;

pub(super) fn write(server: &Server, report: &mut InfoText) {
    let now = server.keyspace.clock().now_ms() / 1000;
    let mut certificate = |name: &str, certificate: &Certificate| {
        report.field(&format!("tls_{name}_cert_serial"), &certificate.serial);
        let left = (certificate.not_after - now).max(0);
        report.field(&format!("tls_{name}_cert_expires_in_seconds"), left);
    };
    if let Some(contexts) = server.tls.contexts() {
        certificate("server", &contexts.certificate);
        certificate("client", &contexts.client_certificate);
        contexts.authority.iter().for_each(|authority| certificate("ca", authority));
    }
    let counters = &server.tls.counters;
    for (name, counter) in [
        ("tls_handshakes_full", &counters.full),
        ("tls_handshakes_resumed", &counters.resumed),
        ("tls_handshakes_failed", &counters.failed),
        ("tls_handshakes_timed_out", &counters.timed_out),
        ("tls_handshakes_displaced", &counters.displaced),
    ] {
        report.field(name, counter.load(Ordering::Relaxed));
    }
    report.field("tls_half_open", server.tls.half_open());
}
