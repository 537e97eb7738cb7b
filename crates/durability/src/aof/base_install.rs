//! What the writer does when a base is begun and when it is done: the increment behind its cut, and
//! the base in the place of what came before.
//!
//! Invariants: what a manifest may name is whole up to the increment that is written; a rewrite is
//! told to be over, and a log to be on, when a crash cannot undo it any more.

use base::io_error_text::strerror;
use engine::runtime::failpoint;
use engine::runtime::log::log_warning;
use keyspace::Lsn;

use super::files::Beginning;
use super::writer::{LogState, LogWriter};
use super::{AofState, BaseResult, NewBase, WriterCommand, rewrite};

impl LogWriter {
    /// Begins the increment that follows a base, whose cut is here.
    pub(super) fn begin_increment(&mut self) {
        if let Some(file) = &mut self.file {
            // Padding that stays says nothing.
            let _ = file.cut_off();
        }
        let is_sound = self.state == LogState::Healthy && self.sync();
        let beginning = if is_sound { Beginning::Joined } else { Beginning::Apart };
        match self.files.begin(beginning) {
            Ok(file) => {
                failpoint::point_in_log();
                self.switch_file(file);
                self.cut = Some(beginning);
                if beginning == Beginning::Apart {
                    self.state = LogState::Rebuilding;
                }
            }
            Err(error) => {
                let why = strerror(&error);
                log_warning!(self.server.log, "Can't open a new AOF increment: {why}");
                self.cut = None;
                if self.state != LogState::Healthy || !self.files.is_sure() {
                    self.need_base(&error);
                }
            }
        }
    }

    /// Puts a base that is done in its place.
    pub(super) fn take_base(&mut self, base: BaseResult) {
        let path = base.as_ref().ok().map(|base| base.path.clone());
        let result = match (base, self.cut.take()) {
            (Ok(base), Some(beginning)) => self.install(&base, beginning).map(|()| base.bytes),
            (Ok(_), None) => Err("the log could not follow it".to_owned()),
            (Err(why), _) => Err(why),
        };
        if let Err(why) = &result {
            rewrite::report_failure(self.server, why);
            self.server.backup.fail(self.server, why);
            rewrite::remove(self.server, path.into_iter().collect());
            if self.state == LogState::Rebuilding {
                self.state = LogState::NeedsBase;
            }
        }
        failpoint::point_in_log();
        if self.securing.is_none() {
            rewrite::done(self.server, result.ok().map(|base| (base, self.length())));
        }
    }

    /// All that was told of before the log was relied on is here: the log is on once that is safe.
    pub(super) fn establish(&mut self, end: Lsn) {
        self.end = end;
        if self.securing.is_none() || !self.sync() {
            // A next base is begun.
            return;
        }
        let Some(base) = self.securing.take() else { return };
        failpoint::point_in_log();
        self.server.aof.change_phase(self.server, AofState::On);
        failpoint::point_in_log();
        rewrite::done(self.server, Some((base, self.length())));
    }

    fn install(&mut self, base: &NewBase, beginning: Beginning) -> Result<(), String> {
        if beginning == Beginning::Apart && !self.sync() {
            return Err("the log that follows it is not safe".to_owned());
        }
        let installed = if base.path.parent() == Some(self.files.directory()) {
            self.files.install(&base.path, base.form, beginning)
        } else {
            self.relocate(base, beginning)
        };
        failpoint::point_in_log();
        installed.map_err(|error| strerror(&error))?;
        if beginning == Beginning::Apart {
            self.state = LogState::Healthy;
            if self.server.aof.is_on() {
                self.recover("The AOF has a new base. The server can write again.");
            } else if !self.is_for_backup {
                // From here on replies wait for the disk; those that have left did not.
                self.securing = Some(base.bytes);
                self.server.aof.change_phase(self.server, AofState::Securing);
                self.queue.order(WriterCommand::Secure);
            }
        }
        self.pin_base();
        failpoint::point_in_log();
        match self.files.take_leftovers() {
            Ok(leftovers) => rewrite::remove(self.server, leftovers),
            // The old files stay in the manifest as what they are.
            Err(error) => {
                log_warning!(self.server.log, "Can't forget old AOF files: {}", strerror(&error));
            }
        }
        Ok(())
    }
}
