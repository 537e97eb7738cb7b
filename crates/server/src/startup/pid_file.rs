//! The file that says our process id.
//!
//! Invariant: only the process that made the file removes it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use base::io_error_text::strerror;
use config::Config;
use config::settings::PIDFILE;
use engine::runtime::log::{Log, log_notice, log_warning};

/// Where a daemon that was told no other place leaves its id, as Redis' does.
const DEFAULT: &str = "/var/run/redis.pid";

/// A file with our process id; gone when dropped.
pub(crate) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Makes the file if one is wanted. A place where it cannot be made is told and forgiven.
    pub(crate) fn create(config: &Config, log: &Log, is_daemon: bool) -> Option<Self> {
        let path = config.get(PIDFILE);
        if path.is_empty() && !is_daemon {
            return None;
        }
        let path =
            if path.is_empty() { Path::new(DEFAULT) } else { Path::new(OsStr::from_bytes(&path)) };
        if let Err(error) = fs::write(path, format!("{}\n", std::process::id())) {
            let (path, error) = (path.display(), strerror(&error));
            log_warning!(log, "Failed to write PID file {path}: {error}");
            return None;
        }
        // The working directory may change.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Some(Self { path })
    }

    /// Removes the file, and says so.
    pub(crate) fn remove(self, log: &Log) {
        log_notice!(log, "Removing the pid file.");
        drop(self);
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // The file may have been removed before.
        let _ = fs::remove_file(&self.path);
    }
}
