//! The folder in which the log and the snapshot lie.
//!
//! Invariant: a file that is replaced is the old one or the new one after a crash, and nothing in
//! between.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::io_error_text::strerror;
use persist::storage::{File, OpenMode, Storage, read_whole, write_all};

/// A folder that is this node's alone.
#[derive(Clone)]
pub(crate) struct Folder {
    storage: Arc<dyn Storage>,
    path: PathBuf,
}

impl Folder {
    /// The folder at `path`, which is made where there is none.
    pub(crate) fn open(storage: Arc<dyn Storage>, path: &Path) -> io::Result<Folder> {
        let folder = Folder { storage, path: path.to_owned() };
        folder.storage.make_directory(path).map_err(|error| folder.naming("", &error))?;
        Ok(folder)
    }

    /// All that a file holds; none where there is no such file.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match read_whole(&*self.storage, &self.path.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.naming(name, &error)),
        }
    }

    /// A file that is there, to be written on.
    pub(crate) fn append(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = self.storage.open(&self.path.join(name), OpenMode::Append);
        file.map_err(|error| self.naming(name, &error))
    }

    /// Puts a file with these bytes in the place of whatever has the name.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put(name, bytes).map_err(|error| self.naming(name, &error))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (path, temporary) = (self.path.join(name), self.path.join(format!("temp-{name}")));
        let mut file = self.storage.open(&temporary, OpenMode::Create)?;
        write_all(&mut *file, bytes)?;
        file.sync()?;
        self.storage.rename(&temporary, &path)?;
        self.storage.sync_directory(&self.path)
    }

    /// An error with a file, by the file's name.
    pub(crate) fn naming(&self, name: &str, error: &io::Error) -> io::Error {
        let path = self.path.join(name);
        io::Error::new(error.kind(), format!("{}: {}", path.display(), strerror(error)))
    }

    /// What a file holds is not what was written there.
    pub(crate) fn damaged(&self, name: &str, what: &str) -> io::Error {
        let path = self.path.join(name);
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()))
    }
}
