//! The thread that takes data in.
//!
//! Invariants: from the moment in which what was there is emptied until all is loaded commands that
//! need data are refused; they are served again whatever came of it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::io_text::plain;
use config::settings::{APPENDONLY, RDB_DEL_SYNC_FILES, SAVE};
use engine::runtime::background::wait_for;
use engine::runtime::lanes::LOADER_LANE;
use engine::runtime::log::{log_notice, log_warning};
use engine::runtime::panics::{contain, text_of};
use keyspace::{Acquisition, Tx, TxOptions};
use persist::storage::{File, OpenMode, write_all};

use super::pipe::{Pipe, PipeFile};
use super::{ReceiveMode, ReceiveReport, SnapshotOrigin};
use crate::aof;
use crate::claims::snapshot_file;
use crate::durability::Durability;
use crate::loading::snapshot;
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
            ReceiveMode::Flush => self.replace(&mut PipeFile::new(Arc::clone(&self.pipe))),
            ReceiveMode::Swap { serves } => self.swap(serves),
        });
        if received.is_err() && self.server.loading.is_on() {
            // A part of the data must not be served.
            self.empty();
            self.server.loading.end();
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
        let kept = self.download(&temporary).and_then(|()| self.install(&temporary, &path));
        if kept.is_err() {
            // What cannot be removed says by its name what it is.
            let _ = server.storage.remove(&temporary);
        }
        kept?;
        let failed = |error: &io::Error| Failure::Refused(format!("can't read it: {error}"));
        let mut file = server.storage.open(&path, OpenMode::Read).map_err(|it| failed(&it))?;
        let result = self.replace(&mut *file);
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
            let (path, why) = (path.display(), plain(error));
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

    /// Puts a file in the place of the snapshot, if it is one as far as its head tells.
    fn install(&self, temporary: &Path, path: &Path) -> Result<(), Failure> {
        let storage = &self.server.storage;
        let failed = |error: &io::Error| {
            Failure::Refused(format!(
                "Failed trying to rename the temp DB into {} in MASTER <-> REPLICA \
                 synchronization: {}",
                path.display(),
                plain(error)
            ))
        };
        let opened = storage.open(temporary, OpenMode::Read);
        let mut file = opened.map_err(|error| failed(&error))?;
        let head = snapshot::check_head(self.server, &mut *file);
        head.map_err(|error| Failure::Refused(format!("{error}; the old data stay")))?;
        // A save that goes on would put its file there later.
        self.server.saves.cancel();
        let renamed = storage.rename(temporary, path);
        let synced = renamed.and_then(|()| storage.sync_directory(directory_of(path)));
        synced.map_err(|error| failed(&error))
    }

    /// Loads from a file, in the place of what is there.
    fn replace(&self, file: &mut dyn File) -> Result<SnapshotOrigin, Failure> {
        let server = self.server;
        server.saves.cancel();
        // What is on disk stays; what comes next has a base of its own.
        aof::suspend(server);
        log_notice!(server.log, "MASTER <-> REPLICA sync: Flushing old data");
        let (clock, length) = (server.keyspace.clock(), self.length.unwrap_or(0));
        let mut is_wanted = false;
        with_world(server, |tx| {
            is_wanted = self.pipe.begin_replacing();
            if is_wanted {
                server.loading.begin_start(clock, length);
                loading::empty(server, tx).expect("it has the world, and no client asks");
            }
        });
        if !is_wanted {
            return Err(self.call_off());
        }
        log_notice!(server.log, "MASTER <-> REPLICA sync: Loading DB in memory");
        match snapshot::load_to(server, file, OnDuplicate::Refused, LoadPlace::Here) {
            Ok(loaded) => {
                self.go_on(&loaded.origin);
                Ok(loaded.origin)
            }
            Err(error) => {
                self.empty();
                server.loading.end();
                Err(Failure::Lost(error.to_string()))
            }
        }
    }

    /// Loads beside what is there, and exchanges the two.
    fn swap(&self, serves: bool) -> Result<SnapshotOrigin, Failure> {
        let (server, mut file) = (self.server, PipeFile::new(Arc::clone(&self.pipe)));
        match serves {
            true => server.loading.set_beside(true),
            false => {
                let (clock, length) = (server.keyspace.clock(), self.length.unwrap_or(0));
                with_world(server, |_| server.loading.begin_start(clock, length));
            }
        }
        log_notice!(server.log, "MASTER <-> REPLICA sync: Loading DB in memory");
        let loaded = contain(|| {
            snapshot::load_to(server, &mut file, OnDuplicate::Refused, LoadPlace::Beside)
        });
        server.loading.set_beside(false);
        let why = match loaded {
            Ok(Ok(loaded)) => {
                server.saves.cancel();
                aof::suspend(server);
                log_notice!(
                    server.log,
                    "MASTER <-> REPLICA sync: Swapping active DB with loaded DB"
                );
                let mut is_wanted = false;
                with_world(server, |tx| {
                    is_wanted = self.pipe.begin_replacing();
                    match is_wanted {
                        true => self.exchange(tx, &loaded.libraries),
                        false => tx.forget_beside().expect("it has the world"),
                    }
                });
                if !is_wanted {
                    server.loading.end();
                    return Err(self.call_off());
                }
                self.go_on(&loaded.origin);
                return Ok(loaded.origin);
            }
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("a bug: {}", text_of(&*panic)),
        };
        with_world(server, |tx| tx.forget_beside().expect("it has the world"));
        server.loading.end();
        Err(Failure::Refused(why))
    }

    /// Puts what was loaded in the place of what is there.
    fn exchange(&self, tx: &mut Tx, libraries: &[Vec<u8>]) {
        let server = self.server;
        tx.exchange_all().expect("it has the world");
        loading::forget_beside_keys(server, tx).expect("no client asks");
        for code in libraries {
            if let Err(why) = snapshot::take_library(server, code, OnDuplicate::Replaced) {
                log_warning!(server.log, "{why}");
            }
        }
    }

    /// All is there: it is served, and a log begins with it.
    fn go_on(&self, origin: &SnapshotOrigin) {
        let server = self.server;
        server.saves.note_loaded(server);
        server.journal.select(origin.database.map_or(0, |database| database as usize));
        if let Err(why) = aof::restart(server) {
            log_warning!(server.log, "{why}");
        }
        server.loading.end();
        if server.aof.phase() == aof::Phase::Starting {
            aof::begin_rewrite(server);
        }
    }

    /// Nobody wants the data any more, and all is as it was: the log goes on.
    fn call_off(&self) -> Failure {
        if let Err(why) = aof::restart(self.server) {
            log_warning!(self.server.log, "{why}");
        }
        if self.server.aof.phase() == aof::Phase::Starting {
            aof::begin_rewrite(self.server);
        }
        Failure::Refused("the synchronization was called off".to_owned())
    }

    /// Empties all, with the world stopped.
    fn empty(&self) {
        with_world(self.server, |tx| {
            loading::empty(self.server, tx).expect("it has the world, and no client asks");
        });
    }
}

/// Does something that no client asks for with the world stopped.
fn with_world(server: &'static Durability, work: impl FnOnce(&mut Tx)) {
    let mut world = Acquisition::of_world(server.keyspace);
    wait_for(&mut world);
    let now = server.keyspace.clock().now_ms();
    let options = TxOptions { heavy: true, ..TxOptions::internal(LOADER_LANE, now) };
    let mut tx = Tx::begin(world, options);
    work(&mut tx);
    drop(tx.into_world());
}

/// Where data are written before they are whole.
fn temporary_path(server: &Durability, path: &Path) -> PathBuf {
    let (seconds, process) = (server.keyspace.clock().now_ms() / 1000, std::process::id());
    path.with_file_name(format!("temp-{seconds}.{process}.rdb"))
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
