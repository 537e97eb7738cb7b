//! BACKUP: a base, what came behind it, and a manifest of both, in a directory of their own, from
//! which a server starts.
//!
//! START has the log begin anew; where the server keeps none, one is kept for the backup and lies
//! in its directory. The base is given a second name there (`aof::hard_link`); SEAL does the same
//! for the increment behind it, and the log goes on in another file.
//!
//! Invariants: a file that is told of never changes; one backup is there at most, under way or
//! sealed; while one is under way no other base is begun, so that one increment follows its base;
//! files are removed only by the thread that has the turn of the configuration, as START has.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use base::io_error_text::strerror;
use config::settings::{APPENDDIRNAME, APPENDFILENAME, BACKUP_SEALED_TTL, BACKUPDIRNAME};
use engine::runtime::log::{log_notice, log_warning};

use crate::aof::{self, AofState};
use crate::durability::Durability;

/// The backup of a server.
#[derive(Default)]
pub struct Backup(Mutex<BackupState>);

#[derive(Default)]
struct BackupState {
    status: BackupStatus,
    /// Where its files lie.
    directory: PathBuf,
    /// When the backup was sealed, on the monotonic clock in microseconds.
    sealed_us: i64,
    /// Whether somebody is on the way to remove it.
    is_expiring: bool,
}

/// What there is to tell.
#[derive(Clone, Debug, Default)]
pub struct BackupStatus {
    /// How far the backup is.
    pub stage: BackupStage,
    /// Why the backup failed.
    pub error: String,
    /// When the backup was begun and sealed, in Unix seconds; 0 if it was not.
    pub began: i64,
    /// When the backup was sealed, in Unix seconds; 0 before.
    pub sealed: i64,
    /// The files that do not change any more.
    pub files: Vec<PathBuf>,
}

/// How far a backup is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackupStage {
    /// No backup was made since the start.
    #[default]
    Idle,
    /// A snapshot or a rewrite is in its way.
    Pending,
    /// Its base is made.
    Snapshotting,
    /// Its base is there.
    Incrementing,
    /// All files are complete and stay as they are until the backup is removed.
    Sealed,
    /// The backup ended early; `error` says why.
    Failed,
}

impl BackupStage {
    /// The word of BACKUP STATUS.
    pub fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Pending => "pending",
            Self::Snapshotting => "snapshotting",
            Self::Incrementing => "incrementing",
            Self::Sealed => "sealed",
            Self::Failed => "failed",
        }
    }

    fn is_underway(self) -> bool {
        matches!(self, Self::Pending | Self::Snapshotting | Self::Incrementing)
    }
}

/// What the caller of BACKUP may wait for; the error is for the client.
type BackupResult = Result<(), String>;

impl Backup {
    /// How far the latest backup is, as INFO and BACKUP STATUS show it.
    pub fn status(&self) -> BackupStatus {
        self.state().status.clone()
    }

    /// Whether a backup is being made, sealed ones left out.
    pub fn is_underway(&self) -> bool {
        self.state().status.stage.is_underway()
    }

    /// BACKUP START.
    pub fn start(&self, server: &'static Durability) -> BackupResult {
        // The log is not turned on or off meanwhile.
        let _turn = take_turn(server);
        let (stage, old) = self.place();
        match stage {
            BackupStage::Idle => {}
            BackupStage::Failed => self.clear(server, &old)?,
            BackupStage::Sealed => {
                return Err("A sealed backup is there, use BACKUP CLEANUP".into());
            }
            _ => return Err("A backup is already in progress".into()),
        }
        let directory = directory(server)?;
        let told = |error: io::Error| format!("{}: {}", directory.display(), strerror(&error));
        server.storage.make_directory(&directory).map_err(told)?;
        let parent = directory.parent().unwrap_or(Path::new("/"));
        server.storage.sync_directory(parent).map_err(told)?;
        if !server.storage.list(&directory).map_err(told)?.is_empty() {
            return Err(format!("The backup directory {} is not empty", directory.display()));
        }
        if server.aof.phase() == AofState::Off {
            aof::start_for_backup(server, &directory)?;
        }
        log_notice!(server.log, "Backup started in {}", directory.display());
        let status = BackupStatus { began: now(server), ..BackupStatus::default() };
        let mut state = self.state();
        *state = BackupState { status, directory, ..BackupState::default() };
        state.ask_for_base(server);
        Ok(())
    }

    /// BACKUP SEAL.
    pub fn seal(&self, server: &'static Durability) -> BackupResult {
        if self.state().status.stage != BackupStage::Incrementing {
            return Err("No backup is in the incrementing state".into());
        }
        let sealed = aof::seal(server);
        let state = self.state();
        if state.status.stage == BackupStage::Sealed {
            aof::stop_for_backup(server);
        }
        sealed.map_err(|why| format!("The backup has failed: {why}"))
    }

    /// BACKUP ABORT.
    pub fn abort(&self, server: &'static Durability) -> BackupResult {
        let _turn = take_turn(server);
        match self.abandon(server, "aborted by user") {
            true => Ok(()),
            false if self.state().status.stage == BackupStage::Sealed => {
                Err("The backup is sealed, use BACKUP CLEANUP".into())
            }
            false => Err("No backup is in progress".into()),
        }
    }

    /// BACKUP CLEANUP; without a backup, it removes what an earlier process left.
    pub fn clean_up(&self, server: &'static Durability) -> BackupResult {
        let _turn = take_turn(server);
        let (stage, old) = self.place();
        match stage {
            BackupStage::Idle => remove_files(server, &directory(server)?),
            BackupStage::Failed | BackupStage::Sealed => self.clear(server, &old),
            _ => Err("A backup is in progress, use BACKUP ABORT".into()),
        }
    }

    /// Gives up the backup that is under way; whether one was. For a caller that may wait and has
    /// the turn of the configuration, or is the last one to act.
    pub(crate) fn abandon(&self, server: &'static Durability, why: &str) -> bool {
        let directory = {
            let mut state = self.state();
            if !state.status.stage.is_underway() {
                return false;
            }
            state.fail(server, why);
            state.directory.clone()
        };
        if let Some(closed) = aof::stop_for_backup(server) {
            // A writer that panicked will not answer.
            let _ = closed.recv();
        }
        // What cannot be removed is in the way of the next one, which says so.
        let _ = remove_files(server, &directory);
        true
    }

    /// Forgets a backup that is over, and its files.
    fn clear(&self, server: &'static Durability, directory: &Path) -> BackupResult {
        if let Some(closed) = aof::stop_for_backup(server) {
            // As above.
            let _ = closed.recv();
        }
        remove_files(server, directory)?;
        *self.state() = BackupState::default();
        Ok(())
    }

    /// Looks what is to be done; called by the slow clock.
    pub fn tick(&self, server: &'static Durability) {
        let mut state = self.state();
        match state.status.stage {
            _ if server.gates.loading.is_on() => {}
            BackupStage::Pending => state.ask_for_base(server),
            // The rewrite that it had joined was over too early.
            BackupStage::Snapshotting if !server.aof.rewrite.is_underway() => {
                state.ask_for_base(server);
            }
            BackupStage::Failed => drop(aof::stop_for_backup(server)),
            BackupStage::Sealed if !state.is_expiring && state.has_expired(server) => {
                state.is_expiring = true;
                server.threads.background.spawn(move |_| server.backup.expire(server));
            }
            _ => {}
        }
    }

    fn expire(&self, server: &'static Durability) {
        let _turn = take_turn(server);
        let mut state = self.state();
        state.is_expiring = false;
        if state.status.stage != BackupStage::Sealed || !state.has_expired(server) {
            return;
        }
        let directory = state.directory.clone();
        drop(state);
        log_notice!(server.log, "Backup removed after backup-sealed-ttl");
        if let Err(why) = self.clear(server, &directory) {
            log_warning!(server.log, "Can't remove the backup: {why}");
        }
    }

    /// Where a backup wants its base, if it waits for one.
    pub(crate) fn awaits_base(&self) -> Option<PathBuf> {
        let state = self.state();
        (state.status.stage == BackupStage::Snapshotting).then(|| state.directory.clone())
    }

    /// Its base is there; `false` if it does not want it any more.
    pub(crate) fn has_base(&self, server: &Durability, base: PathBuf) -> bool {
        let mut state = self.state();
        let is_wanted = state.status.stage == BackupStage::Snapshotting;
        if is_wanted {
            log_notice!(server.log, "Backup has its base {}", base.display());
            state.status.stage = BackupStage::Incrementing;
            state.status.files.push(base);
        }
        is_wanted
    }

    /// Where a backup wants what comes behind its base, if it waits for that.
    pub(crate) fn awaits_end(&self) -> Option<PathBuf> {
        let state = self.state();
        (state.status.stage == BackupStage::Incrementing).then(|| state.directory.clone())
    }

    /// All of it is there; `false` if it does not want it any more.
    pub(crate) fn is_whole(&self, server: &Durability, files: Vec<PathBuf>) -> bool {
        let mut state = self.state();
        let is_wanted = state.status.stage == BackupStage::Incrementing;
        if is_wanted {
            log_notice!(server.log, "Backup sealed");
            state.status.stage = BackupStage::Sealed;
            state.status.sealed = now(server);
            state.status.files.extend(files);
            state.sealed_us = server.keyspace.clock().monotonic_us();
        }
        is_wanted
    }

    /// What a backup under way needs is not to be had. Its files stay until the next one.
    pub(crate) fn fail(&self, server: &Durability, why: &str) {
        let mut state = self.state();
        if matches!(state.status.stage, BackupStage::Snapshotting | BackupStage::Incrementing) {
            state.fail(server, why);
        }
    }

    /// The log that is written now is lost, with what a backup would take from it: one that is to
    /// begin fails, too, where the log is written for it alone.
    pub(crate) fn lose_log(&self, server: &Durability, why: &str) {
        let mut state = self.state();
        let waits_for_it = state.status.stage == BackupStage::Pending && server.aof.is_for_backup();
        if waits_for_it
            || matches!(state.status.stage, BackupStage::Snapshotting | BackupStage::Incrementing)
        {
            state.fail(server, why);
        }
    }

    /// How far it is, and where.
    fn place(&self) -> (BackupStage, PathBuf) {
        let state = self.state();
        (state.status.stage, state.directory.clone())
    }

    fn state(&self) -> MutexGuard<'_, BackupState> {
        self.0.lock().expect("no critical section here panics")
    }
}

impl BackupState {
    /// Has its base begun, or joins a rewrite of the log; if neither can be, it waits.
    fn ask_for_base(&mut self, server: &'static Durability) {
        let is_for_backup = server.aof.is_for_backup();
        let for_backup = is_for_backup.then(|| self.directory.clone());
        let begins = !server.saves.is_running() && aof::begin_in_background(server, for_backup);
        let joins = !is_for_backup && server.aof.rewrite.is_underway();
        self.status.stage =
            if begins || joins { BackupStage::Snapshotting } else { BackupStage::Pending };
    }

    fn fail(&mut self, server: &Durability, why: &str) {
        log_warning!(server.log, "Backup failed: {why}");
        self.status.stage = BackupStage::Failed;
        self.status.error = why.to_owned();
        self.status.files.clear();
    }

    fn has_expired(&self, server: &Durability) -> bool {
        let seconds = server.config.get(BACKUP_SEALED_TTL);
        let age_us = server.keyspace.clock().monotonic_us() - self.sealed_us;
        seconds > 0 && age_us.unsigned_abs() / 1_000_000 >= seconds
    }
}

/// A change of the configuration has a turn of its own; so has the begin or the end of a backup.
fn take_turn(server: &Durability) -> MutexGuard<'_, ()> {
    server.take_config_turn()
}

/// Where the next backup lies, whatever working directory the process turns to later.
fn directory(server: &Durability) -> Result<PathBuf, String> {
    let name = server.config.get(BACKUPDIRNAME);
    if name == server.config.get(APPENDDIRNAME) {
        return Err("backupdirname is the directory of the append-only file".into());
    }
    let here = std::env::current_dir().map_err(|error| strerror(&error))?;
    Ok(here.join(OsStr::from_bytes(&name)))
}

/// Removes what backups consist of, whole or not.
fn remove_files(server: &Durability, directory: &Path) -> BackupResult {
    let log = server.config.get(APPENDFILENAME);
    let is_ours = |name: &[u8]| name.starts_with(&log) || name.starts_with(b"temp-");
    let names = match server.storage.list(directory) {
        // Where there is no directory, there is nothing in it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        names => names.map_err(|error| format!("{}: {}", directory.display(), strerror(&error)))?,
    };
    for name in names.iter().filter(|name| is_ours(name.as_bytes())) {
        let path = directory.join(name);
        match server.storage.remove(&path) {
            // The snapshot that made it has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => {
                removed.map_err(|error| format!("{}: {}", path.display(), strerror(&error)))?;
            }
        }
    }
    Ok(())
}

fn now(server: &Durability) -> i64 {
    server.keyspace.clock().now_ms() / 1000
}
