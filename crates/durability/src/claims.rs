//! What this server writes and no other process may: the log's directory and the snapshot's file.
//!
//! Invariant: whatever is loaded to be written again is claimed before it is read.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use base::io_error_text::strerror;
use config::Config;
use config::settings::{DBFILENAME, SAVE};
use persist::storage::{Claim, Claimed, OpenMode};

use crate::durability::Durability;

/// The claim of the snapshot's file, and which that is.
#[derive(Default)]
pub struct SnapshotClaim(Mutex<Option<(PathBuf, Claim)>>);

impl SnapshotClaim {
    /// Sees to it that no other process writes snapshots where this one does. As each snapshot is
    /// another file, a file beside it is claimed, whose name begins with a dot.
    pub(crate) fn take(&self, server: &Durability, config: &Config) -> Result<(), String> {
        let here = std::env::current_dir().map_err(|error| strerror(&error))?;
        let path = here.join(snapshot_file(config));
        let mut claim = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if claim.as_ref().is_some_and(|(claimed, _)| *claimed == path) {
            return Ok(());
        }
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(".lock");
        let beside = path.with_file_name(name);
        // Where none can be made no snapshot can be, either.
        drop(server.storage.open(&beside, OpenMode::Append));
        let claimed = self::claim(server, &beside, || format!("The snapshot {}", path.display()))?;
        *claim = Some((path, claimed));
        Ok(())
    }

    /// The same, if snapshots are made without being asked for.
    pub fn take_if_due(&self, server: &Durability, config: &Config) -> Result<(), String> {
        if config.get(SAVE).is_empty() { Ok(()) } else { self.take(server, config) }
    }
}

/// The snapshot file, within the working directory.
pub fn snapshot_file(config: &Config) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&config.get(DBFILENAME)))
}

/// Keeps other processes from what lies at a path. The error says what is theirs.
pub(crate) fn claim(
    server: &Durability,
    path: &Path,
    what: impl Fn() -> String,
) -> Result<Claim, String> {
    server.storage.claim(path).map_err(|Claimed { pid }| {
        let owner = pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
        format!("{} is written by {owner}, and by one process only", what())
    })
}
