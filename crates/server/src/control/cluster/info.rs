//! CLUSTER INFO.
//!
//! Invariants: the order of the lines is that of Redis; what was never sent or received has none.
//! A cluster is not said to be up before the gates go by that.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use cluster::{Cluster, MessageType};
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::server::Server;

pub(super) fn info(server: &Server, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let is_up_at_gates = server.gates.routing.table().is_up;
    let state = |cluster: &mut Cluster| state(cluster, is_up_at_gates);
    let mut text = server.cluster.with_engine(state).unwrap_or_default();
    let counts = &server.cluster.counts;
    put_counts(&mut text, "sent", &counts.sent);
    put_counts(&mut text, "received", &counts.received);
    let lost = counts.lost_messages.load(Ordering::Relaxed);
    if lost > 0 {
        put(&mut text, format_args!("cluster_stats_messages_lost:{lost}"));
    }
    let buffer_limit_exceeded = counts.buffer_limit_exceeded.load(Ordering::Relaxed);
    put(
        &mut text,
        format_args!("total_cluster_links_buffer_limit_exceeded:{buffer_limit_exceeded}"),
    );
    put_migrations(&mut text, server);
    reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn state(cluster: &mut Cluster, is_up_at_gates: bool) -> String {
    let records = cluster.records();
    let assigned: usize = records.iter().map(|record| record.slots.len()).sum();
    let (suspected, failed) = cluster.failing_slots();
    let my_primary = cluster.my_primary().unwrap_or(cluster.my_id());
    let represented = records.iter().find(|record| record.id == my_primary);
    let lines = [
        ("slots_assigned", assigned as u64),
        ("slots_ok", (assigned - suspected - failed) as u64),
        ("slots_pfail", suspected as u64),
        ("slots_fail", failed as u64),
        ("known_nodes", cluster.known_nodes() as u64),
        ("size", cluster.size() as u64),
        ("current_epoch", cluster.current_epoch()),
        ("my_epoch", represented.map_or(0, |record| record.config_epoch)),
    ];
    let mut text = String::new();
    let word = if cluster.is_ok() && is_up_at_gates { "ok" } else { "fail" };
    put(&mut text, format_args!("cluster_state:{word}"));
    lines.iter().for_each(|(name, value)| put(&mut text, format_args!("cluster_{name}:{value}")));
    text
}

/// In the words of Redis 8.4, where a trim has keys deleted of slots that have gone.
fn put_migrations(text: &mut String, server: &Server) {
    let (moves, trims) = (&server.cluster.moves, &server.cluster.trims);
    let (keys, trimmed) = trims.progress(server);
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    for (name, value) in [
        ("active_tasks", moves.running().len() as u64),
        ("active_trim_running", count(&trims.running)),
        ("active_trim_current_job_keys", keys),
        ("active_trim_current_job_trimmed", trimmed),
        ("stats_active_trim_started", count(&trims.started)),
        ("stats_active_trim_completed", count(&trims.completed)),
        ("stats_active_trim_cancelled", count(&trims.cancelled)),
    ] {
        put(text, format_args!("cluster_slot_migration_{name}:{value}"));
    }
}

fn put_counts(text: &mut String, way: &str, counters: &[AtomicU64]) {
    let mut total = 0;
    for kind in MessageType::ALL {
        let name = kind.name();
        let count = counters.get(kind as usize).map_or(0, |it| it.load(Ordering::Relaxed));
        total += count;
        if count > 0 {
            put(text, format_args!("cluster_stats_messages_{name}_{way}:{count}"));
        }
    }
    put(text, format_args!("cluster_stats_messages_{way}:{total}"));
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    text.write_fmt(format_args!("{line}\r\n")).expect("a String takes everything");
}
