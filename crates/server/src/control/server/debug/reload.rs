//! DEBUG RELOAD and DEBUG LOADAOF: the data set as it comes back from its files.
//!
//! Invariant: nothing changes between what is on disk and what is loaded, as the world stands
//! still, and so do the libraries; commands that need data and come meanwhile are refused. Within a
//! unit it is the unit's own world, which is back when the next step begins. Neither runs before
//! the server has loaded what it starts with.

use std::sync::MutexGuard;

use base::io_error_text::strerror;
use commands::arguments::is;
use durability::aof::{self, AofFiles};
use durability::claims::snapshot_file;
use durability::loading::{self, OnDuplicate, snapshot};
use durability::save::{SaveFailure, SaveMode};
use engine::limits::loading::LOADING;
use engine::runtime::background;
use engine::runtime::log::{log_notice, log_warning};
use engine::scripting::LibraryFreeze;
use keyspace::{Acquisition, Refusal, Tx, TxOptions};
use persist::storage::OpenMode;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlOutcome};
use crate::control::server::save::refusal_without_cut;
use crate::server::Server;

const UNKNOWN: Refusal =
    Refusal::error("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.");
const NOT_SAVED: Refusal = Refusal::error("ERR");
const NOT_LOADED: Refusal =
    Refusal::error("ERR Error trying to load the RDB dump, check server logs.");

const NO_LOG: Refusal =
    Refusal::error("ERR Error trying to load the AOF files, check server logs.");
const REWRITING: Refusal = Refusal::error("ERR Background append only file rewriting in progress");

pub(super) fn reload(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let mut how = Reloading { saves: true, empties: true, on_duplicate: OnDuplicate::Refused };
    for word in args.iter().skip(2) {
        match word {
            _ if is(word, "NOSAVE") => how.saves = false,
            _ if is(word, "NOFLUSH") => how.empties = false,
            _ if is(word, "MERGE") => how.on_duplicate = OnDuplicate::Replaced,
            _ => return Err(UNKNOWN),
        }
    }
    with_world(context, reply, move |server, world, lane| how.run(server, world, lane))
}

pub(super) fn load_log(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let next = with_world(context, reply, load_log_in)?;
    if let Some(unit) = &mut context.unit {
        unit.forget_changes();
    }
    Ok(next)
}

/// Runs what changes the data with the world, for which it waits if it is not there yet: a unit's
/// own, or on a heavy-work thread.
fn with_world(
    context: &mut Context<'_>,
    reply: &mut Reply<'_>,
    work: impl FnOnce(&'static Server, Acquisition, usize) -> Loaded + Send + 'static,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    refuse_at_start(server)?;
    let Some(unit) = &mut context.unit else {
        return Ok(ControlOutcome::offload_with_locks(move |lane, _, reply| {
            let (world, loaded) = work(server, Acquisition::of_world(server.keyspace), lane);
            drop(world);
            loaded?;
            reply.ok();
            Ok(())
        }));
    };
    unit.tx.require_world()?;
    let lane = unit.tx.options().lane;
    unit.tx.lend_world(|world| work(server, world, lane))?;
    reply.ok();
    Ok(ControlOutcome::Done)
}

/// What the server starts with is a part until it is loaded: a part must neither be saved nor be
/// given up for a file, and commands that need data are to be refused until all of it is there. A
/// full sync counts as a start: asked again once the world is there, which one may have had first.
fn refuse_at_start(server: &Server) -> Result<(), Refusal> {
    if server.gates.loading.is_of_start() { Err(LOADING) } else { Ok(()) }
}

/// The world comes back however it ends.
type Loaded = (Acquisition, Result<(), Refusal>);

/// How the data come back from the snapshot.
struct Reloading {
    saves: bool,
    empties: bool,
    on_duplicate: OnDuplicate,
}

impl Reloading {
    fn run(self, server: &'static Server, mut world: Acquisition, lane: usize) -> Loaded {
        let _still = match self.prepare(server, &mut world) {
            Ok(still) => still,
            Err(refusal) => return (world, Err(refusal)),
        };
        let _turn = take_turn(server);
        // A client that comes from here on is refused. Clients that came before wait for the world
        // to go on.
        server.gates.loading.begin(server.keyspace.clock(), 0);
        let mut tx = Tx::begin(world, options(server, lane));
        let emptied = if self.empties { loading::empty(server, &mut tx) } else { Ok(()) };
        let result = emptied.and_then(|()| load(server, self.on_duplicate, &mut tx));
        server.gates.loading.end();
        if result.is_ok() {
            log_notice!(server.log, "DB reloaded by DEBUG RELOAD");
        }
        (tx.into_grant(), result)
    }

    /// Has the world, and the file if that is to be made.
    fn prepare(
        &self,
        server: &'static Server,
        world: &mut Acquisition,
    ) -> Result<LibraryFreeze, Refusal> {
        if self.saves {
            let held = server.saves.hold_world(server, SaveMode::Reloading, world);
            return held.map_err(|why| match why {
                SaveFailure::CutFailure(why) => refusal_without_cut(why),
                SaveFailure::Failed => NOT_SAVED,
            });
        }
        background::wait_for_client(server.keyspace, world)?;
        refuse_at_start(server)?;
        Ok(freeze_libraries(server))
    }
}

fn load_log_in(server: &'static Server, mut world: Acquisition, lane: usize) -> Loaded {
    let granted = background::wait_for_client(server.keyspace, &mut world);
    if let Err(refusal) = granted.and_then(|()| refuse_at_start(server)) {
        return (world, Err(refusal));
    }
    let _turn = take_turn(server);
    let _still = freeze_libraries(server);
    // No rewrite begins from here on.
    server.gates.loading.begin(server.keyspace.clock(), 0);
    let (world, loaded) = load_log_into(server, world, lane);
    server.gates.loading.end();
    if loaded.is_ok() {
        server.saves.note_loaded(server);
        log_notice!(server.log, "Append Only File loaded by DEBUG LOADAOF");
    }
    (world, loaded)
}

/// Puts what the log holds in the place of all data.
fn load_log_into(server: &'static Server, world: Acquisition, lane: usize) -> Loaded {
    let stock = match find_log(server) {
        Ok(stock) => stock,
        Err(refusal) => return (world, Err(refusal)),
    };
    let mut tx = Tx::begin(world, aof::options_within(server, lane));
    if let Err(refusal) = loading::empty(server, &mut tx) {
        return (tx.into_grant(), Err(refusal));
    }
    match stock.read_within(server, tx) {
        Ok(tx) => (tx.into_grant(), Ok(())),
        Err(line) => {
            // As at a start: a part of the data must neither be served nor written.
            log_warning!(server.log, "{line}");
            std::process::exit(1);
        }
    }
}

/// What the log holds, all of it written.
fn find_log(server: &'static Server) -> Result<AofFiles, Refusal> {
    if server.aof.rewrite.is_underway() {
        return Err(REWRITING);
    }
    if !aof::flush(server) {
        log_warning!(server.log, "The AOF lacks what was written: its writer met a bug");
        return Err(NO_LOG);
    }
    let stock = aof::find_own(server).and_then(|stock| match stock.is_empty() {
        true => Err("There is no append-only file".to_owned()),
        false => Ok(stock),
    });
    stock.map_err(|why| {
        log_warning!(server.log, "{why}");
        NO_LOG
    })
}

/// The log is not turned on or off meanwhile, nor does a backup begin. The turn is taken with the
/// world held: its holder waits for no locks, and EXEC waits for the turn with its own.
fn take_turn(server: &Server) -> MutexGuard<'_, ()> {
    server.take_config_turn()
}

fn freeze_libraries(server: &'static Server) -> LibraryFreeze {
    let libraries = &server.scripts.libraries;
    libraries.hold(|_| libraries.freeze_libraries())
}

fn options(server: &Server, lane: usize) -> TxOptions {
    let now = server.keyspace.clock().now_ms();
    TxOptions { heavy: true, ..TxOptions::internal(lane, now) }
}

fn load(server: &'static Server, on_duplicate: OnDuplicate, tx: &mut Tx) -> Result<(), Refusal> {
    let path = snapshot_file(&server.config);
    let mut file = server.storage.open(&path, OpenMode::Read).map_err(|error| {
        log_warning!(server.log, "Can't read {}: {}", path.display(), strerror(&error));
        NOT_LOADED
    })?;
    match snapshot::load_within(server, &mut *file, on_duplicate, tx) {
        Ok(_) => {
            server.saves.note_loaded(server);
            Ok(())
        }
        Err(error) => {
            log_warning!(server.log, "Fatal error loading the DB, {error}");
            Err(NOT_LOADED)
        }
    }
}
