//! The files of the append-only log: a base, increments that follow it, and the manifest that names
//! them, all in a directory of their own.
//!
//! Invariant: whatever the manifest on disk names is there, whole; what it no longer names is
//! removed after it was replaced.

use std::error::Error;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use base::io_error_text::strerror;
use config::settings::{APPENDDIRNAME, APPENDFILENAME};
use persist::aof::manifest::{AofFile, BaseForm, Manifest};
use persist::storage::{Claim, File, OpenMode, Storage, read_whole, write_all};

use crate::claims;
use crate::durability::Durability;

/// The files and where they lie.
pub(super) struct AofDirectory {
    storage: &'static dyn Storage,
    directory: PathBuf,
    /// `appendfilename`, which all names begin with.
    name: Vec<u8>,
    manifest: Manifest,
    /// Whether that is the one on disk for sure.
    is_sure: bool,
    _claim: Claim,
}

/// How an increment begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// The file follows the last one.
    Joined,
    /// The file follows a base that is not there yet, and is not named before that is.
    Apart,
    /// There is none: nothing is written behind the base.
    Absent,
}

/// What is said of a directory that cannot be found or opened.
fn unopened(error: &io::Error) -> String {
    format!("cannot open its directory: {}", strerror(error))
}

impl AofDirectory {
    /// What the manifest names that is there, or nothing; no other process may write it.
    pub(super) fn find(server: &'static Durability) -> Result<Self, String> {
        Self::within(server, directory(server).map_err(|error| unopened(&error))?)
    }

    /// The same, only to be read.
    pub(super) fn peek(server: &'static Durability) -> Result<Self, String> {
        let directory = directory(server).map_err(|error| unopened(&error))?;
        Self::named(server, directory, server.config.get(APPENDFILENAME).to_vec(), Claim::none())
    }

    /// What a manifest names, wherever it lies.
    pub(super) fn of_manifest(server: &'static Durability, path: &Path) -> Result<Self, String> {
        let name = path.file_name().and_then(|name| name.as_bytes().strip_suffix(b".manifest"));
        let name = name.ok_or_else(|| format!("{} is no AOF manifest", path.display()))?;
        let directory = path.parent().unwrap_or(Path::new("")).to_path_buf();
        Self::named(server, directory, name.to_vec(), Claim::none())
    }

    /// A log of our name in another directory, to be written.
    pub(super) fn within(server: &'static Durability, directory: PathBuf) -> Result<Self, String> {
        let what = || format!("The append-only file in {}", directory.display());
        let claim = claims::claim(server, &directory, what)?;
        Self::named(server, directory, server.config.get(APPENDFILENAME).to_vec(), claim)
    }

    fn named(
        server: &'static Durability,
        directory: PathBuf,
        name: Vec<u8>,
        claim: Claim,
    ) -> Result<Self, String> {
        let storage = &*server.storage;
        let path = directory.join(OsStr::from_bytes(&Manifest::name(&name)));
        let manifest = match read_whole(storage, &path) {
            Ok(text) => {
                Manifest::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Manifest::default(),
            Err(error) => return Err(format!("{}: {}", path.display(), strerror(&error))),
        };
        Ok(Self { storage, directory, name, manifest, is_sure: true, _claim: claim })
    }

    pub(super) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The increment that is written, which began so.
    pub(super) fn written(&self, beginning: Beginning) -> Option<PathBuf> {
        match beginning {
            Beginning::Apart => Some(self.apart_path()),
            Beginning::Joined => self.manifest.increments().last().map(|file| self.path(file)),
            Beginning::Absent => None,
        }
    }

    pub(super) fn path(&self, file: &AofFile) -> PathBuf {
        self.path_of(&file.name)
    }

    /// Takes over a log of one file, as servers before Redis 7.0 keep it, if there is one and
    /// nothing else; whether there is.
    pub(super) fn take_over_single(&mut self) -> io::Result<bool> {
        let old = self.single_path();
        let single = Manifest::of_single_file(&self.name);
        let is_begun = self.manifest == single;
        let is_new = self.manifest == Manifest::default();
        // Once the file has come here, one of that name beside is another.
        if !(is_new || is_begun && !exists(self.storage, &self.path_of(&self.name))?) {
            return Ok(false);
        }
        if !exists(self.storage, &old)? {
            return Ok(false);
        }
        // FileError first: a file in the directory that nobody names would be lost.
        let here = &self.directory;
        self.storage.make_directory(here).map_err(naming(here))?;
        self.replace_manifest(single)?;
        self.storage.rename(&old, &self.path_of(&self.name)).map_err(naming(&old))?;
        self.sync_directory()?;
        Ok(true)
    }

    /// Where a log of a single file lies, which is older than manifests are.
    pub(super) fn single_path(&self) -> PathBuf {
        let beside = self.directory.parent().unwrap_or(&self.directory);
        beside.join(OsStr::from_bytes(&self.name))
    }

    /// Whether the manifest on disk is known. A manifest that is not known may name an increment
    /// behind the one that is written, which nothing may be added to then.
    pub(super) fn is_sure(&self) -> bool {
        self.is_sure
    }

    /// Begins an increment; after an error the one before goes on, if `is_sure`.
    pub(super) fn begin(&mut self, beginning: Beginning) -> io::Result<Box<dyn File>> {
        if beginning == Beginning::Apart {
            let path = self.apart_path();
            return self.storage.open(&path, OpenMode::Create).map_err(naming(&path));
        }
        let mut next = self.manifest.clone();
        let path = self.path(next.add_increment(&self.name));
        let file = self.storage.open(&path, OpenMode::Create).map_err(naming(&path))?;
        if let Err(error) = self.replace_manifest(next) {
            if !self.is_sure {
                // Where that fails, too, the manifest stays unsure.
                let _ = self.withdraw_increment();
            }
            return Err(error);
        }
        Ok(file)
    }

    /// Has the manifest not name the last increment any more, which may be named on disk.
    fn withdraw_increment(&mut self) -> io::Result<()> {
        let mut before = self.manifest.clone();
        before.withdraw_increment();
        self.write_manifest(&before, &self.directory)?;
        self.sync_directory()?;
        (self.manifest, self.is_sure) = (before, true);
        Ok(())
    }

    /// Puts a base, which is on disk, in the place of all that came before the increment that
    /// began at its cut. What it replaces is then history.
    pub(super) fn install(
        &mut self,
        base: &Path,
        form: BaseForm,
        beginning: Beginning,
    ) -> io::Result<()> {
        let mut next = self.manifest.clone();
        let base_file = next.next_base(&self.name, form);
        self.storage.rename(base, &self.path(&base_file)).map_err(naming(base))?;
        let first = match beginning {
            Beginning::Joined => next.increments().last().map_or(0, |last| last.sequence),
            Beginning::Apart => {
                let increment = next.add_increment(&self.name);
                let apart = self.apart_path();
                self.storage.rename(&apart, &self.path(increment)).map_err(naming(&apart))?;
                increment.sequence
            }
            Beginning::Absent => u64::MAX,
        };
        next.install_base(base_file, first);
        self.sync_directory()?;
        self.replace_manifest(next)
    }

    /// Forgets the files that are history. Those and what was forgotten before and is still there
    /// the caller removes when it likes.
    pub(super) fn take_leftovers(&mut self) -> io::Result<Vec<PathBuf>> {
        if !self.manifest.history().is_empty() {
            let mut next = self.manifest.clone();
            next.forget_history();
            self.replace_manifest(next)?;
        }
        let names = self.storage.list(&self.directory);
        let mut names = names.map_err(naming(&self.directory))?;
        names.retain(|name| self.manifest.is_left(&self.name, name.as_bytes()));
        Ok(names.iter().map(|name| self.directory.join(name)).collect())
    }

    /// After an error either manifest may be the one on disk: both name files that are there, as
    /// none is removed before a later replacement succeeds, and no number is given twice.
    fn replace_manifest(&mut self, manifest: Manifest) -> io::Result<()> {
        self.write_manifest(&manifest, &self.directory)?;
        (self.manifest, self.is_sure) = (manifest, false);
        self.sync_directory()?;
        self.is_sure = true;
        Ok(())
    }

    /// Writes a manifest; its directory is not synced yet. The path of it.
    fn write_manifest(&self, manifest: &Manifest, directory: &Path) -> io::Result<PathBuf> {
        let name = Manifest::name(&self.name);
        let temporary = directory.join(OsStr::from_bytes(&[b"temp-", &*name].concat()));
        let path = directory.join(OsStr::from_bytes(&name));
        let written = self.storage.open(&temporary, OpenMode::Create).and_then(|mut file| {
            write_all(&mut *file, &manifest.encode())?;
            file.sync()
        });
        written.map_err(naming(&temporary))?;
        self.storage.rename(&temporary, &path).map_err(naming(&temporary))?;
        Ok(path)
    }

    /// Gives the base a second name, in the directory of a backup.
    pub(super) fn pin_base(&self, directory: &Path) -> io::Result<PathBuf> {
        let base = self.manifest.base().ok_or(io::ErrorKind::NotFound)?;
        let pinned = self.pin(base, directory)?;
        self.storage.sync_directory(directory).map_err(naming(directory))?;
        Ok(pinned)
    }

    /// The same for the increment behind the base, to which nothing may be written any more, and
    /// adds a manifest of both.
    pub(super) fn pin_increment(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let (Some(base), [increment]) = (self.manifest.base(), self.manifest.increments()) else {
            return Err(io::Error::other("its base is not the log's any more"));
        };
        let pinned = self.pin(increment, directory)?;
        let manifest = Manifest::of_pair(base.clone(), increment.clone());
        let manifest = self.write_manifest(&manifest, directory)?;
        self.storage.sync_directory(directory).map_err(naming(directory))?;
        Ok(vec![pinned, manifest])
    }

    fn pin(&self, file: &AofFile, directory: &Path) -> io::Result<PathBuf> {
        let path = directory.join(OsStr::from_bytes(&file.name));
        if directory != self.directory {
            self.storage.link(&self.path(file), &path).map_err(naming(&path))?;
        }
        Ok(path)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.storage.sync_directory(&self.directory).map_err(naming(&self.directory))
    }

    fn apart_path(&self) -> PathBuf {
        self.path_of(&[b"temp-", &*self.name, b".incr"].concat())
    }

    fn path_of(&self, name: &[u8]) -> PathBuf {
        self.directory.join(OsStr::from_bytes(name))
    }
}

/// An error with a file, by its name.
#[derive(Debug)]
struct FileError {
    path: PathBuf,
    error: io::Error,
}

/// Names the file that an error is about, unless the error does.
pub(super) fn naming(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    |error| match error.get_ref().and_then(|inner| inner.downcast_ref::<FileError>()).is_some() {
        true => error,
        false => io::Error::new(error.kind(), FileError { path: path.to_owned(), error }),
    }
}

/// What an error says, without the file's name.
pub(super) fn bare(error: &io::Error) -> String {
    let named = error.get_ref().and_then(|inner| inner.downcast_ref::<FileError>());
    strerror(named.map_or(error, |named| &named.error))
}

impl fmt::Display for FileError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.path.display(), self.error)
    }
}

impl Error for FileError {}

/// Whether a file is there. An error says that it may be: a start without it would lose all of it.
fn exists(storage: &dyn Storage, path: &Path) -> io::Result<bool> {
    match storage.open(path, OpenMode::Read) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Where the files lie, whatever working directory the process turns to later.
fn directory(server: &Durability) -> io::Result<PathBuf> {
    let name = server.config.get(APPENDDIRNAME);
    Ok(std::env::current_dir()?.join(OsStr::from_bytes(&name)))
}

/// Makes the directory of the log where there is none, or the one of a backup's log.
pub(super) fn make_directory(server: &Durability, for_backup: Option<&Path>) -> io::Result<()> {
    server.storage.make_directory(&directory_for(server, for_backup)?)
}

/// Why there is no directory of the log.
pub(super) fn unmade_directory(server: &Durability, error: &io::Error) -> String {
    let name = server.config.get(APPENDDIRNAME);
    let path = directory(server).unwrap_or_else(|_| OsStr::from_bytes(&name).into());
    format!("Can't open or create append-only dir {}: {}", path.display(), strerror(error))
}

/// Where the base is written that is under way.
pub(super) fn new_base_path(server: &Durability, for_backup: Option<&Path>) -> io::Result<PathBuf> {
    let name = format!("temp-rewriteaof-bg-{}.aof", std::process::id());
    Ok(directory_for(server, for_backup)?.join(name))
}

fn directory_for(server: &Durability, for_backup: Option<&Path>) -> io::Result<PathBuf> {
    for_backup.map_or_else(|| directory(server), |for_backup| Ok(for_backup.to_owned()))
}
