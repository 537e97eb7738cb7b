//! The log in another directory: after CONFIG SET dir its next base begins it anew there, as in
//! Redis.
//!
//! Invariants: what lies in the old directory stays as it is; once the new one may name a log, no
//! write is acknowledged that is not in it.

use std::io;

use engine::runtime::failpoint;
use engine::runtime::log::log_notice;
use persist::storage::{File, OpenMode, read_full, write_all};

use super::NewBase;
use super::files::{AofDirectory, Beginning, naming};
use super::increment::Increment;
use super::writer::LogWriter;

/// Bytes that are copied at once.
const STEP: usize = 256 << 10;

impl LogWriter {
    /// Puts a base in its place, which lies in another directory, and goes on behind it there.
    pub(super) fn relocate(&mut self, base: &NewBase, beginning: Beginning) -> io::Result<()> {
        let directory = base.path.parent().ok_or(io::ErrorKind::NotFound)?.to_owned();
        let storage = &*self.server.storage;
        let mut files =
            AofDirectory::within(self.server, directory.clone()).map_err(io::Error::other)?;
        let increment = self.files.written(beginning).ok_or(io::ErrorKind::NotFound)?;
        let mut from = storage.open(&increment, OpenMode::Read).map_err(naming(&increment))?;
        let length = self.length();
        let copied = copy(&mut *from, &mut *files.begin(Beginning::Apart)?, length);
        copied.map_err(naming(&directory))?;
        let installed = files.install(&base.path, base.form, Beginning::Apart);
        let opened = installed.and_then(|()| {
            let last = files.written(Beginning::Joined).ok_or(io::ErrorKind::NotFound)?;
            storage.open(&last, OpenMode::Append).map_err(naming(&last))
        });
        // After an error nobody knows whether the file is named there: then only the next base
        // helps.
        let file = opened.inspect_err(|error| self.need_base(error))?;
        failpoint::point_in_log();
        (self.file, self.files) = (Some(Increment::new(file, length)), files);
        log_notice!(self.server.log, "The AOF goes on in {}", directory.display());
        if beginning == Beginning::Apart {
            // The increment had no name that would be looked for.
            let _ = storage.remove(&increment);
        }
        Ok(())
    }
}

/// Copies so many bytes, and has them on disk.
fn copy(from: &mut dyn File, to: &mut dyn File, length: u64) -> io::Result<()> {
    let (mut buffer, mut left) = (vec![0; STEP], length);
    while left > 0 {
        let most = usize::try_from(left).map_or(STEP, |left| left.min(STEP));
        let count = read_full(from, &mut buffer[..most])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        write_all(to, &buffer[..count])?;
        left -= count as u64;
    }
    to.sync()
}
