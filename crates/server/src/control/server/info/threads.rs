//! The sections Threads and Workers: how the load spreads over the threads that serve, and how long
//! they kept each other from data.
//!
//! Invariant: a worker is listed while it serves; what former workers did stays in the totals.

use std::sync::atomic::{AtomicU64, Ordering};

use ::keyspace::{HOLD_LIMITS_US, StallSnapshot};

use super::info_text::InfoText;
use crate::server::Server;

/// Redis' own lines: our workers are what it calls I/O threads.
pub(super) fn write_threads(server: &Server, report: &mut InfoText) {
    for lane in 0..server.threads.worker_count() {
        let counters = server.threads.worker_counters(lane);
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (sessions, reads) = (get(&counters.sessions), get(&counters.reads));
        let line = format!("clients={sessions},reads={reads},writes={}", get(&counters.writes));
        report.field(&format!("io_thread_{lane}"), line);
    }
}

pub(super) fn write_workers(server: &Server, report: &mut InfoText) {
    report.field("workers", server.threads.worker_count());
    server.threads.note_core_waits();
    for lane in 0..server.threads.worker_count() {
        let counters = server.threads.worker_counters(lane);
        let mut line = String::new();
        for (name, counter) in [
            ("sessions", &counters.sessions),
            ("commands", &counters.commands),
            ("busy_us", &counters.busy_us),
            ("net_in_bytes", &counters.net_in),
            ("net_out_bytes", &counters.net_out),
            ("looks", &counters.looks),
            ("elsewhere", &counters.elsewhere),
            ("waits", &counters.waits),
        ] {
            let comma = if line.is_empty() { "" } else { "," };
            line += &format!("{comma}{name}={}", counter.load(Ordering::Relaxed));
        }
        let mail = server.mailboxes.stats(lane);
        line += &format!(",letters={},letter_wakes={}", mail.letters, mail.wakes);
        if let Some(micros) = counters.core_wait_us() {
            line += &format!(",core_wait_us={micros}");
        }
        report.field(&format!("worker_{lane}"), line);
    }
    write_stalls(&server.keyspace.stall_stats().snapshot(), report);
}

fn write_stalls(stalls: &StallSnapshot, report: &mut InfoText) {
    report.field("longest_lock_hold_us", stalls.longest_hold_us);
    for (limit, count) in HOLD_LIMITS_US.iter().zip(stalls.long_holds) {
        report.field(&format!("lock_holds_from_{}_ms", limit / 1000), count);
    }
    report.field("world_stops", stalls.stops);
    report.field("last_world_stop_us", stalls.last_stop_us);
    report.field("longest_world_stop_us", stalls.longest_stop_us);
}
