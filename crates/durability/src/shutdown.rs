//! Ending the process: by signal or by command, once.
//!
//! Invariants: whoever asks, the main thread alone ends the process, after what must be done first;
//! where the data are to be saved, nothing changes them any more from the cut on.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use config::settings::SAVE;
use config::{Profile, ShutdownFlags};
use engine::runtime::log::{log_notice, log_warning};
use engine::scripting::Still;
use keyspace::Acquisition;

use crate::aof;
use crate::durability::Durability;
use crate::save::SaveMode;

const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// The preparation of the end.
#[derive(Default)]
pub struct Shutdown {
    /// Held by who prepares the end.
    turn: Mutex<()>,
}

/// What a last save holds: nobody takes the world, or changes a library, before it is dropped.
type Saved = (Still, Acquisition);

/// The process goes on: what must be done before its end failed.
#[derive(Debug)]
pub struct GoesOn;

impl Shutdown {
    /// Does what must be done first and has the process end. It may wait for a disk, so it is not
    /// for workers.
    pub fn carry_out(&self, server: &'static Durability, how: ShutdownFlags) -> Result<(), GoesOn> {
        let _turn = self.take_turn(server, how.nosave);
        if server.ending.is_asked() {
            return Ok(());
        }
        log_warning!(server.log, "User requested shutdown...");
        // A save that somebody else begins now would keep the process up: none does.
        let end_turn = server.saves.take_end_turn(server);
        let is_wanted = how.save || !how.nosave && !server.config.get(SAVE).is_empty();
        // A Sentinel has nothing that it could save.
        let is_wanted = is_wanted && server.config.profile() == Profile::Server;
        // What is loaded by half must not take the place of the whole.
        let saves = is_wanted && !server.loading.is_on();
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
        // Kept for good: what waits for a file that does not follow is never told.
        std::mem::forget(end_turn);
        server.ending.ask();
        Ok(())
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
                // It may have been too early to give it up.
                Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN_TRIES),
            }
        }
    }

    /// Calls off an end that is being prepared; `false` if none is, or it is too late.
    pub fn call_off(&self, server: &Durability) -> bool {
        !server.ending.is_asked() && self.is_begun(server) && server.saves.cancel_last()
    }

    /// Whether an end is being prepared, or has come.
    pub fn is_begun(&self, server: &Durability) -> bool {
        server.ending.is_asked() || matches!(self.turn.try_lock(), Err(TryLockError::WouldBlock))
    }
}

/// Saves the data for good: nobody can change them while what is returned is kept.
fn save(server: &'static Durability, force: bool) -> Result<Option<Saved>, GoesOn> {
    log_notice!(server.log, "Saving the final RDB snapshot before exiting.");
    let mut world = Acquisition::of_world(server.keyspace);
    match server.saves.hold_world(server, SaveMode::Final, &mut world) {
        Ok(still) => Ok(Some((still, world))),
        Err(_) if !force => {
            log_warning!(server.log, "Error trying to save the DB, can't exit.");
            Err(go_on(server))
        }
        Err(_) => {
            log_warning!(server.log, "Error trying to save the DB. Exit anyway.");
            Ok(None)
        }
    }
}

/// Waits until a log whose writer met a bug is whole again: what it lacks is in memory alone.
fn await_base(server: &'static Durability, force: bool) -> Result<(), GoesOn> {
    if aof::flush_once_whole(server) {
        return Ok(());
    }
    if force {
        log_warning!(server.log, "Writing initial AOF. Exit anyway.");
        return Ok(());
    }
    log_warning!(server.log, "Writing initial AOF, can't exit.");
    Err(go_on(server))
}

fn go_on(server: &Durability) -> GoesOn {
    log_warning!(
        server.log,
        "Errors trying to shut down the server. Check the logs for more information."
    );
    GoesOn
}
