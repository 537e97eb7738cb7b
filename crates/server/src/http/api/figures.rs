//! The figures: INFO, the histograms of latency, and the caller's user.
//!
//! Invariant: they are read where INFO reads them, on the thread of HTTP; no worker is asked.

use config::settings::HTTP_COMMANDS;
use engine::observe::stats::bucket_limit;
use hyper::StatusCode;

use super::super::access;
use super::super::command_session::Caller;
use super::super::json::{array, bytes, object, quoted};
use super::super::metrics;
use super::super::response::Failure;
use crate::control::server::info;

/// `/api/info`.
pub(super) fn info(caller: &Caller) -> Result<String, Failure> {
    check(caller)?;
    Ok(metrics::json(&(caller.server.info)()))
}

fn check(caller: &Caller) -> Result<(), Failure> {
    match access::may_read_figures(caller.server, &caller.user) {
        true => Ok(()),
        false => Err(Failure::new(StatusCode::FORBIDDEN, "The user may not run INFO.")),
    }
}

/// `/api/me`.
pub(super) fn me(caller: &Caller) -> String {
    let server = caller.server;
    let databases = server.keyspace.database_count().to_string();
    object([
        ("user", bytes(caller.user.name())),
        ("commands", quoted(server.config.get(HTTP_COMMANDS).word())),
        ("databases", databases),
        ("loading", server.gates.loading.is_on().to_string()),
        ("version", quoted(env!("CARGO_PKG_VERSION"))),
    ])
}

/// `/api/latency`: for each command the counted buckets that are not empty, by their numbers.
pub(super) fn latency(caller: &Caller) -> Result<String, Failure> {
    check(caller)?;
    let mut buckets = 0;
    let mut commands = Vec::new();
    for (entry, stats) in info::called(caller.server) {
        buckets = buckets.max(stats.histogram.len());
        let counted = stats.histogram.iter().enumerate().filter(|(_, count)| **count > 0);
        let counted = counted.map(|(bucket, count)| format!("[{bucket},{count}]"));
        let told = object([
            ("calls", stats.calls.to_string()),
            ("micros", stats.micros.to_string()),
            ("failed", stats.failed.to_string()),
            ("rejected", stats.rejected.to_string()),
            ("buckets", array(counted)),
        ]);
        commands.push((entry.full_name.as_str(), told));
    }
    let limits = array((0..buckets).map(|bucket| bucket_limit(bucket).to_string()));
    let figures = info::baselines(caller.server.network).into_iter();
    let regressed = figures.filter(|(.., figures)| figures.is_regressed);
    let regressed = regressed.map(|(entry, size, figures)| {
        object([
            ("command", quoted(&entry.full_name)),
            ("size", quoted(size.word())),
            ("p99_us", figures.p99_us.to_string()),
            ("best_p99_us", figures.best_p99_us.to_string()),
            ("regressions", figures.regressions.to_string()),
        ])
    });
    Ok(object([
        ("limits_us", limits),
        ("commands", object(commands)),
        ("regressed", array(regressed)),
    ]))
}
