//! Ending the process: by signal or by command, once.
//!
//! Invariants: the main thread alone ends the process, at whatever request, after what must be done
//! first; where the data are to be saved, nothing changes them any more from the cut on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::Waker;
use std::time::Duration;

use config::settings::{SAVE, SHUTDOWN_TIMEOUT};
use config::{Profile, ShutdownFlags};
use engine::limits::pause::Ticket;
use engine::runtime::background::wait_while;
use engine::runtime::log::{log_notice, log_warning};
use engine::scripting::LibraryFreeze;
use keyspace::Acquisition;

use crate::aof;
use crate::durability::Durability;
use crate::save::{SaveFailure, SaveMode};
use crate::snapshot::CutFailure;

const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// So long writers that are at work are waited for where a replica is to take over.
const WRITERS_MAX_US: i64 = 1_000_000;

/// The preparation of the end.
#[derive(Default)]
pub struct Shutdown {
    /// Held by the thread that prepares the end.
    turn: Mutex<()>,
    /// Whether replicas are waited for, and whether that was called off.
    replicas: Mutex<ReplicaWait>,
    /// How often ends were called off: with the one that is being prepared all that wait for their
    /// turn are.
    called_off: AtomicU64,
}

/// Whether an end waits for replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ReplicaWait {
    #[default]
    No,
    /// Until then, on the monotonic clock.
    Until(i64),
    CalledOff,
}

/// What a last save holds: the world is not taken, and no library changed, before it is dropped.
type Saved = (LibraryFreeze, Acquisition);

/// The process goes on: what must be done before its end failed.
#[derive(Debug)]
pub struct ShutdownFailed;

impl Shutdown {
    /// Does what must be done first and has the process end. That may wait for a disk, so it is not
    /// for workers.
    pub fn execute(
        &self,
        server: &'static Durability,
        how: ShutdownFlags,
    ) -> Result<(), ShutdownFailed> {
        let asked_at = self.called_off.load(Ordering::Acquire);
        let _turn = self.take_turn(server, how.nosave);
        if server.gates.shutdown_request.is_asked() {
            return Ok(());
        }
        if self.called_off.load(Ordering::Acquire) != asked_at {
            log_warning!(server.log, "Shutdown manually aborted.");
            return Err(ShutdownFailed);
        }
        log_warning!(server.log, "User requested shutdown...");
        // Nothing is written any more, unless the process goes on.
        let pause = if how.now { None } else { self.await_replicas(server)? };
        let (some, all) = server.journal.replica_acks.in_sync(server.journal.end());
        if all > 0 {
            log_notice!(server.log, "{some} of {all} replicas are in sync when shutting down.");
        }
        check_vote(server, how)?;
        let pause = if how.failover { Some(still_writers(server, pause)) } else { pause };
        // A save that somebody else begins now would keep the process up: none does.
        let end_turn = server.saves.take_end_turn(server);
        let is_wanted = how.save || !how.nosave && !server.config.get(SAVE).is_empty();
        // A Sentinel has nothing that it could save.
        let is_wanted = is_wanted && server.config.profile() == Profile::Server;
        // What is loaded by half must not take the place of the whole.
        let saves = is_wanted && !server.gates.loading.is_on();
        let saved = if saves { save(server, how.force)? } else { None };
        // Connections end before the process does, and a client that sees that takes all for kept.
        if aof::flush(server) {
            // Never given back, as what would change now would be lost.
            std::mem::forget(saved);
        } else {
            // The next base takes the world, and has what changes until then.
            drop(saved);
            await_base(server, how.force)?;
        }
        if how.failover
            && let Some(node) = server.cluster_duties.get()
        {
            node.hand_over(!how.now && server.config.get(SHUTDOWN_TIMEOUT) != 0);
        }
        std::mem::forget(pause);
        // Kept for good: what waits for a file that does not follow is never told.
        std::mem::forget(end_turn);
        server.gates.shutdown_request.ask();
        Ok(())
    }

    /// Writers wait while replicas get what they lack, for as long as `shutdown-timeout` says.
    fn await_replicas(
        &self,
        server: &'static Durability,
    ) -> Result<Option<Ticket>, ShutdownFailed> {
        let clock = server.keyspace.clock();
        let timeout_us = server.config.get(SHUTDOWN_TIMEOUT).saturating_mul(1_000_000);
        let until_us = clock.monotonic_us().saturating_add_unsigned(timeout_us);
        let in_sync = || server.journal.replica_acks.in_sync(server.journal.end());
        let are_all = |(some, all): (usize, usize)| some == all;
        if timeout_us == 0 || are_all(in_sync()) {
            return Ok(None);
        }
        // Asked before writes wait, behind which nothing of our own comes into the stream.
        server.journal.replica_acks.wait(Waker::noop(), true);
        let pause = server.gates.pause.begin_own();
        self.set_wait(ReplicaWait::Until(until_us));
        log_notice!(server.log, "Waiting for replicas before shutting down.");
        while !are_all(in_sync()) && clock.monotonic_us() < until_us && !self.is_called_off() {
            std::thread::sleep(BETWEEN_TRIES);
        }
        if self.set_wait(ReplicaWait::No) == ReplicaWait::CalledOff {
            log_warning!(server.log, "Shutdown manually aborted.");
            return Err(ShutdownFailed);
        }
        Ok(Some(pause))
    }

    /// How much longer an end waits for replicas, in milliseconds, if one does.
    pub fn waits_for_ms(&self, server: &Durability) -> Option<i64> {
        let ReplicaWait::Until(until_us) = *self.replica_wait() else { return None };
        Some((until_us - server.keyspace.clock().monotonic_us()).max(0) / 1000)
    }

    fn is_called_off(&self) -> bool {
        *self.replica_wait() == ReplicaWait::CalledOff
    }

    /// Returns what was so before.
    fn set_wait(&self, wait: ReplicaWait) -> ReplicaWait {
        std::mem::replace(&mut *self.replica_wait(), wait)
    }

    fn replica_wait(&self) -> MutexGuard<'_, ReplicaWait> {
        self.replicas.lock().expect("no critical section here panics")
    }

    /// Waits for its turn; what is saved for an end meanwhile is given up where nobody wants it.
    fn take_turn(&self, server: &'static Durability, gives_up: bool) -> MutexGuard<'_, ()> {
        if !gives_up {
            return self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        }
        loop {
            server.saves.cancel_last();
            match self.turn.try_lock() {
                Ok(turn) => return turn,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                // The attempt to give it up may have come too early.
                Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN_TRIES),
            }
        }
    }

    /// Calls off an end that is being prepared; `false` if none is, or it is too late.
    pub fn call_off(&self, server: &Durability) -> bool {
        let mut wait = self.replica_wait();
        if *wait != ReplicaWait::No {
            self.called_off.fetch_add(1, Ordering::Release);
            *wait = ReplicaWait::CalledOff;
            return true;
        }
        drop(wait);
        if server.gates.shutdown_request.is_asked() || !self.is_begun(server) {
            return false;
        }
        self.called_off.fetch_add(1, Ordering::Release);
        server.saves.cancel_last()
    }

    /// Whether an end is being prepared, or has come.
    pub fn is_begun(&self, server: &Durability) -> bool {
        server.gates.shutdown_request.is_asked()
            || matches!(self.turn.try_lock(), Err(TryLockError::WouldBlock))
    }
}

/// A node that votes stays where only a safe end is wanted.
fn check_vote(server: &Durability, how: ShutdownFlags) -> Result<(), ShutdownFailed> {
    let votes = || server.cluster_duties.get().is_some_and(|node| node.is_voting_primary());
    if !how.safe || !votes() {
        return Ok(());
    }
    let what = "This is a voting primary. Shutting down may cause the cluster to go down.";
    if how.force {
        log_warning!(server.log, "{what} Exit anyway.");
        return Ok(());
    }
    log_warning!(server.log, "{what} Can't exit.");
    Err(report_failure(server))
}

/// No write begins while the ticket is kept, and none is under way any more: all that was written
/// is in the stream. What keeps its locks for long is not waited for to its end.
fn still_writers(server: &'static Durability, pause: Option<Ticket>) -> Ticket {
    let pause = pause.unwrap_or_else(|| server.gates.pause.begin_own());
    let clock = server.keyspace.clock();
    let until_us = clock.monotonic_us().saturating_add(WRITERS_MAX_US);
    let mut world = Acquisition::of_world(server.keyspace);
    wait_while(&mut world, || clock.monotonic_us() < until_us);
    pause
}

/// Saves the data for good: no change is possible while what is returned is kept.
fn save(server: &'static Durability, force: bool) -> Result<Option<Saved>, ShutdownFailed> {
    log_notice!(server.log, "Saving the final RDB snapshot before exiting.");
    let mut world = Acquisition::of_world(server.keyspace);
    match server.saves.hold_world(server, SaveMode::Final, &mut world) {
        Ok(still) => Ok(Some((still, world))),
        // A full sync had the world first.
        Err(SaveFailure::CutFailure(CutFailure::Loading)) => Ok(None),
        Err(_) if !force => {
            log_warning!(server.log, "Error trying to save the DB, can't exit.");
            Err(report_failure(server))
        }
        Err(_) => {
            log_warning!(server.log, "Error trying to save the DB. Exit anyway.");
            Ok(None)
        }
    }
}

/// Waits until a log whose writer met a bug is whole again: what it lacks is in memory alone.
fn await_base(server: &'static Durability, force: bool) -> Result<(), ShutdownFailed> {
    if aof::flush_once_whole(server) {
        return Ok(());
    }
    if force {
        log_warning!(server.log, "Writing initial AOF. Exit anyway.");
        return Ok(());
    }
    log_warning!(server.log, "Writing initial AOF, can't exit.");
    Err(report_failure(server))
}

fn report_failure(server: &Durability) -> ShutdownFailed {
    log_warning!(
        server.log,
        "Errors trying to shut down the server. Check the logs for more information."
    );
    ShutdownFailed
}
