//! The slow clock: what has to be looked at every now and then, on the reception's thread.
//!
//! Invariant: an idle server wakes for it once a second, and no turn waits for anything: what is
//! due and needs the disk is begun on another thread.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use base::time::UnixMillis;
use config::settings::TIMEOUT;

use crate::aof;
use crate::client_memory;
use crate::clients::{Client, Signal, client_flags};
use crate::counters::Totals;
use crate::evict;
use crate::log::log_warning;
use crate::loops::Turns;
use crate::mailbox::Rounds;
use crate::main_thread;
use crate::release;
use crate::server::Server;

/// Between two looks while commands come, and while none does.
const BUSY_PAUSE: Duration = Duration::from_millis(100);
const IDLE_PAUSE: Duration = Duration::from_secs(1);

/// Rates are means over the latest samples: 1.6 seconds of them under load, as in Redis.
const SAMPLES: usize = 16;

/// Runs for ever.
pub(crate) async fn run(server: &'static Server) {
    let (mut commands, mut next_round, mut garbage) = (0, 0, 0);
    loop {
        let now_us = server.keyspace.clock().monotonic_us();
        let totals = Totals::of(server.all_worker_counters());
        let is_busy = totals.commands != commands;
        commands = totals.commands;
        server.rates.note(now_us, totals, server.loops.turns());
        main_thread::note_cpu_time();
        release::look(server, now_us);
        garbage = tend_garbage(server, garbage);
        if now_us >= next_round {
            next_round = now_us + 1_000_000;
            server.note_memory(server.budget.used_exactly());
            close_idle_clients(server);
        }
        let rounds = Rounds::default();
        client_memory::fit(server, &rounds);
        server.mailboxes.ring(&rounds);
        tell_too_many_errors(server);
        server.tracking.fit_table(server);
        aof::tend(server);
        server.memcached.tend(server);
        server.saves.turn(server);
        server.heavy.tend();
        server.backup.turn(server);
        pause(server, is_busy).await;
    }
}

/// Says that errors are counted no more.
fn tell_too_many_errors(server: &Server) {
    let Some(codes) = server.stats.take_too_many_errors() else { return };
    log_warning!(
        server.log,
        "Errorstats stopped adding new errors because the number of errors reached the limit, may \
         be misuse of lua error_reply, please check INFO ERRORSTATS, this can be re-enabled via \
         CONFIG RESETSTAT."
    );
    log_warning!(server.log, "Current errors code list: {}", codes.join(", "));
}

/// Frees some of what is to be freed if nobody did since the last turn, as where the system gives
/// no threads, and lets who waits for that go on; how much is left.
fn tend_garbage(server: &Server, before: usize) -> usize {
    let garbage = server.keyspace.reclaimer().bytes();
    if garbage > 0 && garbage == before {
        server.keyspace.reclaimer().free_next();
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
        let pause = Duration::from_micros(server.budget.look_pause_us().unsigned_abs());
        tokio::time::sleep(pause.min(left)).await;
        left = left.saturating_sub(pause);
        if server.budget.is_near() {
            release::look(server, server.keyspace.clock().monotonic_us());
        }
    }
}

/// Closes clients that said nothing for `timeout` seconds.
fn close_idle_clients(server: &Server) {
    let timeout = i64::from(server.config.get(TIMEOUT)) * 1000;
    if timeout == 0 {
        return;
    }
    let (now, rounds) = (server.keyspace.clock().now_ms(), Rounds::default());
    for client in server.clients.all() {
        if is_idle(&client, now, timeout) {
            server.mailboxes.signal(&client, Signal::Kill, &rounds);
            server.memcached.idle_kicks.fetch_add(1, Ordering::Relaxed);
        }
    }
    server.mailboxes.ring(&rounds);
}

/// Who waits, watches, listens or is held up is not idle, nor is one whose command takes long.
fn is_idle(client: &Client, now: UnixMillis, timeout: i64) -> bool {
    let waits = client_flags::MONITOR
        | client_flags::SUBSCRIBER
        | client_flags::BLOCKED
        | client_flags::PAUSED
        | client_flags::WORKING;
    let last_active = client.live.last_active.load(Ordering::Relaxed);
    client.live.flags.load(Ordering::Relaxed) & waits == 0 && now - last_active > timeout
}

/// How much happens per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) commands: f64,
    pub(crate) net_in: f64,
    pub(crate) net_out: f64,
    /// Turns of the event loops.
    pub(crate) cycles: f64,
    /// How long one took on average, in microseconds.
    pub(crate) cycle_us: f64,
}

/// The latest totals, each with the time when it was taken.
#[derive(Default)]
pub(crate) struct RateMeter {
    samples: Mutex<VecDeque<(i64, Totals, Turns)>>,
}

impl RateMeter {
    fn note(&self, now_us: i64, totals: Totals, turns: Turns) {
        let mut samples = self.samples();
        if samples.len() > SAMPLES {
            samples.pop_front();
        }
        samples.push_back((now_us, totals, turns));
        // After a quiet time the past says nothing about the present.
        while samples.len() > 2 && now_us - samples[1].0 >= 1_600_000 {
            samples.pop_front();
        }
    }

    /// The mean rates of the latest time.
    pub(crate) fn now(&self) -> Rates {
        let samples = self.samples();
        let (Some(first), Some(last)) = (samples.front(), samples.back()) else {
            return Rates::default();
        };
        let ((from_us, from, began), (to_us, to, ended)) = (first, last);
        let seconds = (to_us - from_us) as f64 / 1e6;
        if seconds <= 0.0 {
            return Rates::default();
        }
        // A reset in between makes a total smaller.
        let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        Rates {
            commands: rate(from.commands, to.commands),
            net_in: rate(from.net_in, to.net_in),
            net_out: rate(from.net_out, to.net_out),
            cycles: rate(began.cycles, ended.cycles),
            cycle_us: ended.micros.saturating_sub(began.micros) as f64
                / ended.cycles.saturating_sub(began.cycles).max(1) as f64,
        }
    }

    fn samples(&self) -> MutexGuard<'_, VecDeque<(i64, Totals, Turns)>> {
        self.samples.lock().expect("no critical section here panics")
    }
}

#[cfg(test)]
mod tests {
    use super::{RateMeter, Rates, Totals, Turns};

    const TURNS: Turns = Turns { cycles: 7, micros: 70 };

    #[test]
    fn rates_follow_the_load() {
        let meter = RateMeter::default();
        assert_eq!(meter.now(), Rates::default());
        let mut commands = 0;
        for tick in 0..100 {
            commands += 50;
            meter.note(tick * 100_000, Totals { commands, ..Totals::default() }, TURNS);
        }
        assert_eq!(meter.now().commands, 500.0);
        // Nothing more comes: two looks later the rate is zero.
        for second in 11..14 {
            meter.note(second * 1_000_000, Totals { commands, ..Totals::default() }, TURNS);
        }
        assert_eq!(meter.now().commands, 0.0);
        // Statistics were reset.
        meter.note(14_000_000, Totals::default(), TURNS);
        assert_eq!(meter.now().commands, 0.0);
    }
}
