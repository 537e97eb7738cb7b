//! Loading: what is on disk becomes the data set, before anyone may ask for it.
//!
//! While it goes on, commands that need data are refused, and all others answered; INFO and the log
//! tell how far it has come.
//!
//! Invariant: a data set that could not be loaded whole is never served, nor written over what it
//! was loaded from: the process ends.

mod insert;
pub mod snapshot;

use std::ffi::OsStr;
use std::future::poll_fn;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::task::Poll;

use base::io_error_text::strerror;
use config::settings::{APPENDONLY, DBFILENAME, PRELOAD_FILE};
use persist::storage::{File, OpenMode};
use tokio::sync::oneshot;

pub(crate) use insert::LoadPlace;
pub use insert::{OnDuplicate, TurnstileGuard};

use crate::aof;
use crate::durability::Durability;
use engine::commit::publish::announce;
use engine::runtime::lanes::{MAX_HELPERS, STACK_BYTES};
use engine::runtime::log::log_notice;
use engine::scripting::LibrariesState;
use keyspace::{Refusal, Tx};
use replication::history::SavedHistory;

/// How many threads load side by side, beside the one that reads.
pub(crate) fn threads(server: &Durability) -> usize {
    server.threads.cores.count().clamp(1, MAX_HELPERS)
}

/// What is there to be loaded.
pub enum DataFiles {
    /// A snapshot, with its name.
    Snapshot(Box<dyn File>, String),
    /// An append-only file.
    Log(aof::AofFiles),
    /// One that is not our own.
    ForeignLog(aof::AofFiles),
}

/// Looks for what is to be loaded at the start; if there is anything, commands are refused until
/// [`run`] is done with it.
pub fn find(server: &'static Durability) -> Result<Option<DataFiles>, String> {
    let preload = server.config.get(PRELOAD_FILE);
    if let Some((kind, path)) = preload.split_at_checked(PRELOAD_KIND_LEN) {
        return preloaded(server, kind, Path::new(OsStr::from_bytes(path))).map(Some);
    }
    if server.config.get(APPENDONLY) {
        let stock = aof::find(server)?;
        server.gates.loading.begin_start(server.keyspace.clock(), stock.total_bytes());
        return Ok(Some(DataFiles::Log(stock)));
    }
    let path = PathBuf::from(OsStr::from_bytes(&server.config.get(DBFILENAME)));
    let name = path.display().to_string();
    let failed = |error: io::Error| format!("Can't read {name}: {}. Exiting.", strerror(&error));
    match server.storage.open(&path, OpenMode::Read) {
        Ok(file) => {
            server
                .gates
                .loading
                .begin_start(server.keyspace.clock(), file.length().map_err(failed)?);
            Ok(Some(DataFiles::Snapshot(file, name)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// The length of `rdb:` and `aof:`.
const PRELOAD_KIND_LEN: usize = 4;

/// What `preload-file` names, which must be there.
fn preloaded(server: &'static Durability, kind: &[u8], path: &Path) -> Result<DataFiles, String> {
    if kind == b"aof:" {
        let stock = aof::find_foreign(server, path)?;
        server.gates.loading.begin_start(server.keyspace.clock(), stock.total_bytes());
        return Ok(DataFiles::ForeignLog(stock));
    }
    let name = path.display().to_string();
    let opened =
        server.storage.open(path, OpenMode::Read).and_then(|file| Ok((file.length()?, file)));
    let failed = |error: io::Error| format!("Can't read {name}: {}. Exiting.", strerror(&error));
    let (length, file) = opened.map_err(failed)?;
    server.gates.loading.begin_start(server.keyspace.clock(), length);
    Ok(DataFiles::Snapshot(file, name))
}

/// Forgets all data, for which the world is there, and tells clients that watch them or keep
/// copies.
pub fn empty(server: &'static Durability, tx: &mut Tx) -> Result<(), Refusal> {
    tx.flush_all()?;
    forget_beside_keys(server, tx)
}

/// Forgets what there is beside keys, and tells clients that watch them or keep copies that all of
/// them are others.
pub(crate) fn forget_beside_keys(server: &'static Durability, tx: &mut Tx) -> Result<(), Refusal> {
    let local = server.keyspace.local_deadlines();
    local.restart(server.gates.replica_role.is_replica());
    if let Some(post) = announce(server, tx, &[]) {
        post.post_to_origin(server.directory());
    }
    let forget = |state: &mut LibrariesState| {
        *state = LibrariesState::default();
        Ok(())
    };
    // The journal has them still, as the file that is loaded next has them.
    server.scripts.libraries.change_once(forget, || 0)
}

/// Loads what was found, on a thread of its own; the error is for the operator. Ends early when the
/// server is to end, and then goes on refusing commands. `behind` is called before the first
/// client sees the data, with where they stand in a history of replication, if that is known.
pub async fn run(
    server: &'static Durability,
    found: DataFiles,
    behind: impl FnOnce(Option<SavedHistory>) + Send + 'static,
) -> Result<(), String> {
    let (sender, mut receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("loader".into()).stack_size(STACK_BYTES);
    let thread = thread.spawn(move || {
        // The thread that waited may have given up.
        let _ = sender.send(load(server, found, behind));
    });
    let begun = thread.map_err(|error| format!("Cannot start the loader: {}", strerror(&error)));
    begun.inspect_err(|line| server.log.write_last(line))?;
    let mut asked = pin!(server.gates.shutdown_request.asked());
    let loaded = poll_fn(|context| match Pin::new(&mut receiver).poll(context) {
        Poll::Ready(loaded) => Poll::Ready(Some(loaded)),
        Poll::Pending => asked.as_mut().poll(context).map(|()| None),
    });
    if let Some(loaded) = loaded.await {
        loaded.unwrap_or_else(|_| Err("The loader panicked. Exiting.".to_owned()))?;
    }
    Ok(())
}

fn load(
    server: &'static Durability,
    found: DataFiles,
    behind: impl FnOnce(Option<SavedHistory>),
) -> Result<(), String> {
    let loaded = match found {
        DataFiles::Snapshot(mut file, name) => load_snapshot(server, &mut *file, &name),
        DataFiles::Log(stock) => stock.load(server),
        DataFiles::ForeignLog(stock) => stock.read(server).map(|()| None),
    };
    let history = loaded.inspect_err(|line| server.log.write_last(line))?;
    if server.gates.shutdown_request.is_asked() {
        return Ok(());
    }
    // The log is not turned on or off between the end and the look.
    let _turn = server.take_config_turn();
    // Where something else was loaded than our log, it begins with that; and the configuration may
    // have changed meanwhile. A client that sees that loading is over sees that, too.
    aof::apply_config(server).inspect_err(|line| server.log.write_last(line))?;
    behind(history);
    server.gates.loading.end();
    if server.aof.phase() == aof::AofState::Starting {
        aof::begin_rewrite(server);
    }
    Ok(())
}

fn load_snapshot(
    server: &'static Durability,
    file: &mut dyn File,
    name: &str,
) -> Result<Option<SavedHistory>, String> {
    let started = server.keyspace.clock().monotonic_us();
    let loaded = snapshot::load_to(server, file, OnDuplicate::Refused, LoadPlace::Here);
    let loaded = loaded
        .map_err(|error| format!("Fatal error loading the DB from {name}, {error}. Exiting."))?;
    let seconds = (server.keyspace.clock().monotonic_us() - started) as f64 / 1e6;
    log_notice!(server.log, "DB loaded from disk: {seconds:.3} seconds");
    server.saves.note_loaded(server);
    // Without what was passed over the data stand in no history.
    Ok(loaded.origin.history().filter(|_| loaded.end.skipped == 0))
}
