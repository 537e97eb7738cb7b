//! What the writer does for a backup: files of the log get second names in its directory.
//!
//! Invariant: nothing is written any more to a file that has one.

use std::path::{Path, PathBuf};

use base::io_error_text::strerror;
use engine::runtime::failpoint;

use super::files::Beginning;
use super::writer::{LogState, LogWriter};

impl LogWriter {
    /// A base is in its place: a backup that waits for one has it now.
    pub(super) fn pin_base(&self) {
        let backup = &self.server.backup;
        let Some(directory) = backup.awaits_base() else { return };
        match self.files.pin_base(&directory) {
            Ok(path) if backup.has_base(self.server, path.clone()) => {}
            Ok(path) => self.unpin(vec![path]),
            Err(error) => backup.fail(self.server, &strerror(&error)),
        }
    }

    /// Ends a backup with all that was written so far. The error says why it has failed.
    pub(super) fn seal(&mut self) -> Result<(), String> {
        let backup = &self.server.backup;
        let directory = backup.awaits_end().ok_or("it was given up")?;
        match self.pin_increment(&directory) {
            Ok(files) if backup.is_whole(self.server, files.clone()) => Ok(()),
            Ok(files) => {
                self.unpin(files);
                Err("it was given up".to_owned())
            }
            Err(why) => {
                backup.fail(self.server, &why);
                Err(why)
            }
        }
    }

    /// Ends the increment and begins the next one, if the log goes on.
    fn pin_increment(&mut self, directory: &Path) -> Result<Vec<PathBuf>, String> {
        if self.state == LogState::WriteFailed {
            self.retry();
        }
        if !self.mark_end() {
            return Err("the disk does not keep the log".to_owned());
        }
        let files = self.files.pin_increment(directory).map_err(|error| strerror(&error))?;
        if self.is_for_backup {
            // Whatever comes is passed over, until the log is taken back.
            self.end_file();
        } else {
            let next = self.files.begin(Beginning::Joined);
            let next = next.map_err(|error| {
                if !self.files.is_sure() {
                    self.need_base(&error);
                }
                strerror(&error)
            })?;
            failpoint::point_in_log();
            self.switch_file(next);
        }
        Ok(files)
    }

    /// Takes names back that a backup does not want any more.
    fn unpin(&self, files: Vec<PathBuf>) {
        for file in files {
            // What cannot be removed is in the way of the next backup, which says so.
            let _ = self.server.storage.remove(&file);
        }
    }
}
