//! The thread that takes data in.
//!
//! Invariants: from the moment in which what was there is emptied until all is loaded commands that
//! need data are refused; they are served again whatever came of it. No log and no backup that was
//! begun before that goes on behind it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::io_error_text::strerror;
use config::settings::{APPENDONLY, RDB_DEL_SYNC_FILES, SAVE};
use engine::clients::mailbox::PendingWakes;
use engine::commit::publish::commit;
use engine::runtime::background::wait_for;
use engine::runtime::lanes::LOADER_LANE;
use engine::runtime::log::{log_notice, log_warning};
use engine::runtime::panics::{contain, text_of};
use keyspace::{Acquisition, Tx, TxOptions};
use persist::storage::{File, OpenMode, write_all};
use proto::Args;

use super::pipe::{Pipe, PipeFile};
use super::{ReceiveMode, ReceiveReport, SnapshotOrigin};
use crate::aof;
use crate::claims::snapshot_file;
use crate::durability::Durability;
use crate::loading::snapshot::{self, LoadedSnapshot};
use crate::loading::{self, LoadPlace, OnDuplicate};
use crate::stream_turns::StreamTurn;

/// The file is synced after so many bytes, so that its end does not wait for all of it.
const SYNC_EACH: usize = 8 << 20;

/// What the thread has.
pub(super) struct Receiver {
    server: &'static Durability,
    pipe: Arc<Pipe>,
    length: Option<u64>,
}

/// Why there are no data.
enum Failure {
    Refused(String),
    Lost(String),
}

impl Receiver {
    pub(super) fn new(server: &'static Durability, pipe: Arc<Pipe>, length: Option<u64>) -> Self {
        Self { server, pipe, length }
    }

    /// Takes the data in; nothing is reported where the rest did not come.
    pub(super) fn run(self, mode: ReceiveMode, turn: StreamTurn) -> Option<ReceiveReport> {
        turn.wait();
        if self.pipe.is_cut() {
            return None;
        }
        let received = contain(|| match mode {
            ReceiveMode::File => self.by_file(),
            ReceiveMode::Flush => self.replace(&mut PipeFile::new(Arc::clone(&self.pipe)), None),
            ReceiveMode::Swap { serves } => self.swap(serves),
        });
        if received.is_err() && self.server.gates.loading.is_on() {
            // A part of the data must not be served.
            self.empty();
            self.server.gates.loading.end();
        }
        drop(turn);
        if self.pipe.is_cut() {
            return None;
        }
        self.pipe.cut();
        Some(match received {
            Ok(Ok(origin)) => ReceiveReport::Loaded(origin),
            Ok(Err(Failure::Refused(why))) => ReceiveReport::Refused(why),
            Ok(Err(Failure::Lost(why))) => ReceiveReport::Lost(why),
            Err(panic) => ReceiveReport::Lost(format!("a bug: {}", text_of(&*panic))),
        })
    }

    /// By way of the snapshot file.
    fn by_file(&self) -> Result<SnapshotOrigin, Failure> {
        let (server, path) = (self.server, snapshot_file(&self.server.config));
        server.snapshot_claim.take(server, &server.config).map_err(Failure::Refused)?;
        let temporary = temporary_path(server, &path);
        let result = self.download(&temporary).and_then(|()| {
            // A save may put another file in its place before it is loaded.
            let mut file = self.open_checked(&temporary)?;
            self.replace(&mut *file, Some((&temporary, &path)))
        });
        if result.is_err() {
            // The file may have its name by now. What cannot be removed tells by its name what
            // it is.
            let _ = server.storage.remove(&temporary);
        }
        if matches!(result, Err(Failure::Refused(_))) {
            return result;
        }
        let persists = server.config.get(APPENDONLY) || !server.config.get(SAVE).is_empty();
        if server.config.get(RDB_DEL_SYNC_FILES) && !persists {
            log_notice!(
                server.log,
                "Removing the RDB file obtained from the master. This replica has persistence \
                 disabled"
            );
            let _ = server.storage.remove(&path);
        }
        result
    }

    /// Writes what comes into a file, all of it on disk.
    fn download(&self, path: &Path) -> Result<(), Failure> {
        let failed = |error: &io::Error| {
            let (path, why) = (path.display(), strerror(error));
            Failure::Refused(format!(
                "Write error or short write writing to the DB dump file {path} needed for \
                 MASTER <-> REPLICA synchronization: {why}"
            ))
        };
        let opened = self.server.storage.open(path, OpenMode::Create);
        let mut file = opened.map_err(|error| failed(&error))?;
        let mut unsynced = 0;
        loop {
            let chunk = self.pipe.take().map_err(|error| failed(&error))?;
            if chunk.is_empty() {
                return file.sync().map_err(|error| failed(&error));
            }
            write_all(&mut *file, &chunk).map_err(|error| failed(&error))?;
            unsynced += chunk.len();
            if unsynced >= SYNC_EACH {
                file.sync().map_err(|error| failed(&error))?;
                unsynced = 0;
            }
        }
    }

    /// Opens a file that is a snapshot as far as its head tells.
    fn open_checked(&self, path: &Path) -> Result<Box<dyn File>, Failure> {
        let open = || {
            let opened = self.server.storage.open(path, OpenMode::Read);
            opened.map_err(|error| Failure::Refused(format!("can't read it: {}", strerror(&error))))
        };
        let head = snapshot::check_head(self.server, &mut *open()?);
        head.map_err(|error| Failure::Refused(format!("{error}; the old data stay")))?;
        open()
    }

    /// Puts a file in the place of the snapshot.
    fn install(&self, temporary: &Path, path: &Path) -> Result<(), Failure> {
        self.server.storage.rename(temporary, path).map_err(|error| {
            Failure::Refused(format!(
                "Failed trying to rename the temp DB into {} in MASTER <-> REPLICA \
                 synchronization: {}",
                path.display(),
                strerror(&error)
            ))
        })
    }

    /// Loads from a file, in the place of what is there, in memory and, where that is said, on
    /// disk: both in one moment, as the role may change until then.
    fn replace(
        &self,
        file: &mut dyn File,
        renamed: Option<(&Path, &Path)>,
    ) -> Result<SnapshotOrigin, Failure> {
        let server = self.server;
        self.end_logs();
        log_notice!(server.log, "MASTER <-> REPLICA sync: Loading DB in memory");
        log_notice!(server.log, "MASTER <-> REPLICA sync: Flushing old data");
        let (clock, length) = (server.keyspace.clock(), self.length.unwrap_or(0));
        let mut begun = Ok(());
        with_world(server, |tx| {
            self.end_logs();
            begun = match self.pipe.begin_replacing() {
                true => renamed.map_or(Ok(()), |(from, to)| self.install(from, to)),
                false => Err(called_off()),
            };
            if begun.is_ok() {
                self.end_saves(tx);
                server.gates.loading.begin_start(clock, length);
                loading::empty(server, tx).expect("it has the world, and no client asks");
            }
        });
        if begun.is_err() {
            self.restart_log();
        }
        begun?;
        if let Some((_, path)) = renamed
            && let Err(error) = server.storage.sync_directory(directory_of(path))
        {
            log_warning!(
                server.log,
                "{} may have its old name: {}",
                path.display(),
                strerror(&error)
            );
        }
        match snapshot::load_to(server, file, OnDuplicate::Refused, LoadPlace::Here) {
            Ok(loaded) => {
                if renamed.is_some() {
                    server.saves.note_loaded(server);
                }
                self.select(&loaded.origin);
                self.serve_data();
                Ok(loaded.origin)
            }
            Err(error) => {
                self.empty();
                server.gates.loading.end();
                Err(Failure::Lost(error.to_string()))
            }
        }
    }

    /// Loads beside what is there, and exchanges the two.
    fn swap(&self, serves: bool) -> Result<SnapshotOrigin, Failure> {
        let (server, mut file) = (self.server, PipeFile::new(Arc::clone(&self.pipe)));
        match serves {
            true => server.gates.loading.set_beside(true),
            false => {
                let (clock, length) = (server.keyspace.clock(), self.length.unwrap_or(0));
                with_world(server, |_| {
                    if !self.pipe.is_cut() {
                        server.gates.loading.begin_start(clock, length);
                    }
                });
            }
        }
        log_notice!(server.log, "MASTER <-> REPLICA sync: Loading DB in memory");
        let loaded = contain(|| {
            snapshot::load_to(server, &mut file, OnDuplicate::Refused, LoadPlace::Shadow)
        });
        server.gates.loading.set_beside(false);
        let why = match loaded {
            Ok(Ok(loaded)) => {
                self.end_logs();
                log_notice!(
                    server.log,
                    "MASTER <-> REPLICA sync: Swapping active DB with loaded DB"
                );
                let (mut is_wanted, wakes) = (false, PendingWakes::default());
                with_world(server, |tx| {
                    self.end_logs();
                    is_wanted = self.pipe.begin_replacing();
                    match is_wanted {
                        true => {
                            self.end_saves(tx);
                            self.exchange(tx, &loaded, &wakes);
                        }
                        false => tx.forget_beside().expect("it has the world"),
                    }
                });
                server.mailboxes.wake(&wakes);
                if !is_wanted {
                    server.gates.loading.end();
                    self.restart_log();
                    return Err(called_off());
                }
                self.serve_data();
                return Ok(loaded.origin);
            }
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("a bug: {}", text_of(&*panic)),
        };
        with_world(server, |tx| tx.forget_beside().expect("it has the world"));
        server.gates.loading.end();
        self.restart_log();
        Err(Failure::Refused(why))
    }

    /// Puts what was loaded in the place of what is there. Clients that wait for what it has are
    /// served.
    fn exchange(&self, tx: &mut Tx, loaded: &LoadedSnapshot, wakes: &PendingWakes) {
        let server = self.server;
        tx.exchange_all().expect("it has the world");
        // Before anybody may lead.
        self.select(&loaded.origin);
        server.gates.copied_slots.replace(&loaded.origin.copied_slots);
        loading::forget_beside_keys(server, tx).expect("no client asks");
        for code in &loaded.libraries {
            if let Err(why) = snapshot::take_library(server, code, OnDuplicate::Replaced) {
                log_warning!(server.log, "{why}");
            }
        }
        commit(server, wakes, tx, Args::default()).expect("it has the world");
    }

    /// The stream goes on behind the data in the database that they name.
    fn select(&self, origin: &SnapshotOrigin) {
        self.server.journal.select(origin.database.map_or(0, |database| database as usize));
    }

    /// All data are there: they are served, and a log begins with them.
    fn serve_data(&self) {
        let server = self.server;
        if let Err(why) = aof::restart(server) {
            log_warning!(server.log, "{why}");
        }
        server.gates.loading.end();
        self.restart_log();
    }

    /// What `appendonly` says by now holds for the log, which was not touched during the load.
    fn restart_log(&self) {
        if let Err(why) = aof::restart(self.server) {
            log_warning!(self.server.log, "{why}");
        }
        if self.server.aof.phase() == aof::AofState::Starting {
            aof::begin_rewrite(self.server);
        }
    }

    /// What is on disk stays; what comes next has a base of its own. Done before the world is
    /// waited for, as that takes a disk's time, and again once it is there: a client may have begun
    /// a log or a backup meanwhile, whose base would be of what was there before. The turn of the
    /// configuration may be taken with the world: its holder waits for no locks.
    fn end_logs(&self) {
        aof::suspend(self.server);
    }

    /// Other data come: a save that goes on, or waits for its cut, is not of them, and no file has
    /// them yet.
    fn end_saves(&self, tx: &mut Tx) {
        self.server.saves.cancel();
        tx.count_final_changes(1);
    }

    /// Empties all, with the world stopped.
    fn empty(&self) {
        with_world(self.server, |tx| {
            loading::empty(self.server, tx).expect("it has the world, and no client asks");
        });
    }
}

/// The data are not wanted any more.
fn called_off() -> Failure {
    Failure::Refused("the synchronization was called off".to_owned())
}

/// Does something that no client asks for with the world stopped.
fn with_world(server: &'static Durability, work: impl FnOnce(&mut Tx)) {
    let mut world = Acquisition::of_world(server.keyspace);
    wait_for(&mut world);
    let now = server.keyspace.clock().now_ms();
    let options = TxOptions { heavy: true, ..TxOptions::internal(LOADER_LANE, now) };
    let mut tx = Tx::begin(world, options);
    work(&mut tx);
    drop(tx.into_grant());
}

/// Where data are written before they are whole.
fn temporary_path(server: &Durability, path: &Path) -> PathBuf {
    let (seconds, process) = (server.keyspace.clock().now_ms() / 1000, std::process::id());
    path.with_file_name(format!("temp-{seconds}.{process}.rdb"))
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
