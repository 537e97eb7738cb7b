//! Where a snapshot goes.
//!
//! Invariant: what is not finished leaves nothing behind, however it ends; a file has its name only
//! when all of it is on disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use base::io_error_text::strerror;
use persist::rdb::file::ByteSink;
use persist::storage::{File, OpenMode, Storage, write_all};

/// Takes the bytes of a snapshot, in their order. Dropped before it is finished, as after an error,
/// it aborts.
pub trait SnapshotSink: ByteSink {
    /// Called once, before all else, by a thread that may wait.
    fn open(&mut self) -> Result<(), String>;

    /// Waits until there is room for so many bytes more, as long as somebody wants them: what
    /// cannot take them now pushes back here, not in `write`.
    fn wait_for_room(&mut self, bytes: usize, is_wanted: &dyn Fn() -> bool);

    /// All is written and synced: from here on the snapshot is there.
    fn finish(self: Box<Self>) -> Result<(), String>;

    /// What is said in front of an error with the bytes, once it is open.
    fn fault(&self) -> String;
}

/// Sees to something before a file is opened.
type Claiming = Box<dyn FnOnce() -> Result<(), String> + Send>;

/// Makes the names of unfinished files different.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// A file, which replaces what has its name. Until it is finished it has another one beside that.
pub struct FileSink {
    storage: &'static dyn Storage,
    /// Within the working directory, until it is opened.
    path: PathBuf,
    claim: Option<Claiming>,
    temporary: PathBuf,
    file: Option<Box<dyn File>>,
    is_finished: bool,
}

impl FileSink {
    /// One that is to have this path, within the working directory.
    pub fn new(storage: &'static dyn Storage, path: PathBuf) -> Self {
        let temporary = PathBuf::new();
        Self { storage, path, claim: None, temporary, file: None, is_finished: false }
    }

    /// `claim` keeps others from the file before it is opened.
    pub(crate) fn claimed_by(
        mut self,
        claim: impl FnOnce() -> Result<(), String> + Send + 'static,
    ) -> Self {
        self.claim = Some(Box::new(claim));
        self
    }

    fn file(&mut self) -> &mut dyn File {
        &mut **self.file.as_mut().expect("it was opened")
    }
}

impl ByteSink for FileSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_all(self.file(), bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file().sync()
    }

    fn keeps_head(&self) -> bool {
        true
    }

    fn rewrite_head(&mut self, head: &[u8]) -> io::Result<()> {
        self.file().write_at(0, head)
    }
}

impl SnapshotSink for FileSink {
    fn open(&mut self) -> Result<(), String> {
        self.claim.take().map_or(Ok(()), |claim| claim())?;
        let directory = std::env::current_dir()
            .map_err(|error| format!("Failed opening the temp RDB file: {}", strerror(&error)))?;
        self.path = directory.join(&self.path);
        let number = BEGUN.fetch_add(1, Ordering::Relaxed);
        let name = format!("temp-{}-{number}.rdb", std::process::id());
        self.temporary = self.path.with_file_name(name);
        let file = self.storage.open(&self.temporary, OpenMode::Create).map_err(|error| {
            let name = self.temporary.display();
            format!("Failed opening the temp RDB file {name} for saving: {}", strerror(&error))
        })?;
        self.file = Some(file);
        Ok(())
    }

    /// What the disk cannot take now, `write` waits for.
    fn wait_for_room(&mut self, _: usize, _: &dyn Fn() -> bool) {}

    fn finish(mut self: Box<Self>) -> Result<(), String> {
        let (from, to) = (&self.temporary, &self.path);
        self.storage.rename(from, to).map_err(|error| {
            format!(
                "Error moving temp DB file {} on the final destination {}: {}",
                from.display(),
                to.display(),
                strerror(&error)
            )
        })?;
        let directory = to.parent().unwrap_or(Path::new("/"));
        let synced = self.storage.sync_directory(directory);
        synced.map_err(|error| format!("{}: {}", fault_at(directory), strerror(&error)))?;
        self.is_finished = true;
        Ok(())
    }

    fn fault(&self) -> String {
        fault_at(&self.temporary)
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        let was_opened = !self.temporary.as_os_str().is_empty();
        if was_opened && !self.is_finished {
            // A file that was never made need not be removed.
            let _ = self.storage.remove(&self.temporary);
        }
    }
}

fn fault_at(path: &Path) -> String {
    format!("Write error saving DB on disk: {}", path.display())
}
