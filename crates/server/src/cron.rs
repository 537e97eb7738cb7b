//! The slow clock: what has to be looked at every now and then, on the main thread.
//!
//! Invariant: an idle server wakes for it once a second, and no turn waits for anything: what is
//! due and needs the disk is begun on another thread.

use std::sync::atomic::Ordering;
use std::time::Duration;

use base::time::UnixMillis;
use config::settings::{TIMEOUT, UNAUTHENTICATED_TIMEOUT};
use durability::aof;
use engine::clients::mailbox::PendingWakes;
use engine::clients::registry::{Client, Signal, client_flags};
use engine::observe::rates::RateSample;
use engine::reclaim::client_eviction;
use engine::reclaim::evict;
use engine::reclaim::local_expiry;
use engine::reclaim::purge;
use engine::runtime::counters::Totals;
use engine::runtime::log::log_warning;
use engine::runtime::main_thread;
use engine::session::needs_password;

use crate::control::key_statistics::KeyStatsSchedule;
use crate::control::latency_baseline::BaselineWindows;
use crate::control::tls_reload;
use crate::server::Server;

/// Between two looks while commands come, and while none does.
const BUSY_PAUSE: Duration = Duration::from_millis(100);
const IDLE_PAUSE: Duration = Duration::from_secs(1);

/// Runs for ever.
pub(crate) async fn run(server: &'static Server) {
    let (mut commands, mut next_round, mut garbage) = (0, 0, 0);
    let mut login_duty = LoginDuty::default();
    let (mut key_looks, mut windows) = (KeyStatsSchedule::default(), BaselineWindows::default());
    loop {
        let now_us = server.keyspace.clock().monotonic_us();
        let totals = Totals::of(server.threads.all_worker_counters());
        let is_busy = totals.commands != commands;
        commands = totals.commands;
        let (turns, replication) = (server.threads.loops.turns(), server.links.traffic());
        server.observed.rates.record(RateSample { now_us, totals, turns, replication });
        main_thread::note_cpu_time();
        purge::check(server, now_us);
        garbage = tend_garbage(server, garbage);
        if now_us >= next_round {
            next_round = now_us + 1_000_000;
            server
                .memory
                .peak
                .record(server.memory.budget.used_exactly(), server.keyspace.clock().now_ms());
            close_idle_clients(server);
            server.sweep_waiting();
            login_duty.close_unauthenticated(server);
        }
        let wakes = PendingWakes::default();
        client_eviction::fit(server, &wakes);
        server.mailboxes.wake(&wakes);
        report_too_many_errors(server);
        server.pushes.tracking.fit_table(server.tracking_context());
        local_expiry::tick(server);
        aof::tick(server);
        server.memcached.tick(server);
        server.saves.tick(server);
        tls_reload::tick(server);
        server.threads.background.tick();
        if server.observed.hot_keys.is_tracking() {
            server.observed.hot_keys.end_in_time(server.usage());
        }
        key_looks.tick(server);
        windows.tick(server);
        server.backup.tick(server);
        pause(server, is_busy).await;
    }
}

/// Says that errors are counted no more.
fn report_too_many_errors(server: &Server) {
    let Some(codes) = server.observed.stats.take_too_many_errors() else { return };
    log_warning!(
        server.log,
        "Errorstats stopped adding new errors because the number of errors reached the limit, may \
         be misuse of lua error_reply, please check INFO ERRORSTATS, this can be re-enabled via \
         CONFIG RESETSTAT."
    );
    log_warning!(server.log, "Current errors code list: {}", codes.join(", "));
}

/// Frees some of what is to be freed if no thread did since the last turn, as where the system
/// gives none, and lets what waits for that go on; how much is left.
fn tend_garbage(server: &Server, before: usize) -> usize {
    let garbage = server.keyspace.lazy_free_queue().bytes();
    if garbage > 0 && garbage == before {
        server.keyspace.lazy_free_queue().free_next();
    }
    evict::admit_writers(server);
    garbage
}

/// Lets time go by until the next turn; while the limit is near, memory is looked at meanwhile.
async fn pause(server: &Server, is_busy: bool) {
    if !is_busy {
        return tokio::time::sleep(IDLE_PAUSE).await;
    }
    let mut left = BUSY_PAUSE;
    while !left.is_zero() {
        let pause = Duration::from_micros(server.memory.budget.check_pause_us().unsigned_abs());
        tokio::time::sleep(pause.min(left)).await;
        left = left.saturating_sub(pause);
        if server.memory.budget.is_near() {
            purge::check(server, server.keyspace.clock().monotonic_us());
        }
    }
}

/// Closes clients that said nothing for `timeout` seconds.
fn close_idle_clients(server: &Server) {
    let timeout = i64::from(server.config.get(TIMEOUT)) * 1000;
    if timeout == 0 {
        return;
    }
    let (now, wakes) = (server.keyspace.clock().now_ms(), PendingWakes::default());
    for client in server.clients.all() {
        if is_idle(&client, now, timeout) {
            server.mailboxes.signal(&client, Signal::Kill, &wakes);
            server.memcached.idle_kicks.fetch_add(1, Ordering::Relaxed);
        }
    }
    server.mailboxes.wake(&wakes);
}

/// Since when clients have to log in, if they do.
#[derive(Default)]
struct LoginDuty(Option<UnixMillis>);

impl LoginDuty {
    /// Closes clients that have to log in and have not for `unauthenticated-timeout` seconds: from
    /// when they came, RESET took their user from them, or a password was asked for, whichever was
    /// last.
    fn close_unauthenticated(&mut self, server: &Server) {
        let now = server.keyspace.clock().now_ms();
        if !needs_password(server) {
            self.0 = None;
            return;
        }
        let asked = *self.0.get_or_insert(now);
        let timeout = i64::from(server.config.get(UNAUTHENTICATED_TIMEOUT)) * 1000;
        if timeout == 0 {
            return;
        }
        let wakes = PendingWakes::default();
        for client in server.clients.all() {
            if !client.has_flag(client_flags::UNAUTHENTICATED) {
                continue;
            }
            let forgotten = client.names().forgotten_at;
            let is_late = now - client.created.max(forgotten).max(asked) > timeout;
            if is_late && server.mailboxes.signal(&client, Signal::Kill, &wakes) {
                let closed = &server.observed.stats.unauthenticated_disconnections;
                closed.fetch_add(1, Ordering::Relaxed);
            }
        }
        server.mailboxes.wake(&wakes);
    }
}

/// A client that waits, watches, listens or is held up is not idle, nor is one whose command takes
/// long.
fn is_idle(client: &Client, now: UnixMillis, timeout: i64) -> bool {
    let waits = client_flags::MONITOR
        | client_flags::SUBSCRIBER
        | client_flags::BLOCKED
        | client_flags::PAUSED
        | client_flags::WORKING
        | client_flags::REPLICA
        | client_flags::PRIMARY;
    let last_active = client.live.last_active.load(Ordering::Relaxed);
    client.live.flags.load(Ordering::Relaxed) & waits == 0 && now - last_active > timeout
}
