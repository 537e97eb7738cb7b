//! The disk, as far as snapshots and journals need one.
//!
//! Invariant: nothing else in this room and nothing that keeps data on disk touches a file but
//! through here, so that a simulated disk can stand in for the real one.

mod claim;
#[cfg(any(test, feature = "simulated"))]
pub mod simulated;
mod window;

use std::ffi::OsString;
use std::fs;
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Advice, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, pwritev};

pub use claim::{Claim, Claimed};
pub(crate) use window::Window;

/// What goes past the memory of the system is whole blocks of this length, from addresses and to
/// places that it divides. Disks have blocks of 512 or 4,096 bytes.
pub const BLOCK: usize = 4096;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// To be read from its beginning.
    Read,
    /// To be written anew; what was there is gone.
    Create,
    /// To be written at its end; the file is made where there is none.
    Append,
}

/// Where files lie.
pub trait Storage: Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Box<dyn File>>;

    /// Gives a file another name, in the place of whatever had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name, which nothing has yet.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file's name.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in no order.
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>>;

    /// Makes a directory that outlives a crash; that there is one already is no error.
    fn make_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes what happened to the names in a directory outlive a crash.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Keeps other processes from a file or a directory that is there. The
    /// process that has it already may be about to end, so that is waited for a moment.
    fn claim(&self, path: &Path) -> Result<Claim, Claimed>;
}

/// An open file.
pub trait File: Send {
    /// Reads on; 0 at the end.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes on, maybe not all of it; see [`write_all`].
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes at a place, all of it; after an error any part of it may be written. What is written
    /// on is not moved by that.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// The same from memory to the disk, where the system keeps no copy; `false` if that cannot be
    /// done here, and nothing was written. All slices, and the place, are of whole blocks
    /// ([`BLOCK`]).
    fn write_direct(&mut self, offset: u64, slices: &mut [IoSlice<'_>]) -> io::Result<bool>;

    /// Makes what was written outlive a crash.
    fn sync(&mut self) -> io::Result<()>;

    /// Has the disk begin with what was written in a range, so that `sync` takes less time. What
    /// it has written there may leave the memory of the system.
    fn begin_sync(&mut self, range: Range<u64>);

    /// Cuts the file off; what is written next follows there.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// How long the file is.
    fn length(&self) -> io::Result<u64>;
}

/// Writes all bytes; after an error any number of them may be written.
pub fn write_all(file: &mut dyn File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads until the buffer is full or the file ends; how many bytes came.
pub fn read_full(file: &mut dyn File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// All that a file holds.
pub fn read_whole(storage: &dyn Storage, path: &Path) -> io::Result<Vec<u8>> {
    let mut file = storage.open(path, OpenMode::Read)?;
    let mut bytes = Vec::new();
    loop {
        let filled = bytes.len();
        bytes.resize(filled + READ_STEP, 0);
        let count = read_full(&mut *file, &mut bytes[filled..])?;
        bytes.truncate(filled + count);
        if count < READ_STEP {
            return Ok(bytes);
        }
    }
}

/// Bytes that are read at once.
const READ_STEP: usize = 64 * 1024;

/// The real disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Storage for Disk {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Box<dyn File>> {
        let mut options = fs::OpenOptions::new();
        match how {
            OpenMode::Read => options.read(true),
            OpenMode::Create => options.write(true).create(true).truncate(true),
            // Not as the system appends, which would write what is to go over something else at
            // the end, too.
            OpenMode::Append => options.write(true).create(true).truncate(false),
        };
        let mut file = options.open(path)?;
        if how == OpenMode::Append {
            file.seek(SeekFrom::End(0))?;
        }
        Ok(Box::new(Regular { file, is_direct: false }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            Err(error) => Err(error),
            Ok(()) => match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => self.sync_directory(parent),
                _ => self.sync_directory(Path::new(".")),
            },
        }
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }

    fn claim(&self, path: &Path) -> Result<Claim, Claimed> {
        claim::claim(path)
    }
}

/// A file of the real disk.
struct Regular {
    file: fs::File,
    /// Whether what is written goes past the memory of the system now.
    is_direct: bool,
}

impl Regular {
    /// The file, for whatever may be of any length and anywhere.
    fn buffered(&mut self) -> io::Result<&mut fs::File> {
        self.set_direct(false)?;
        Ok(&mut self.file)
    }

    fn set_direct(&mut self, is_direct: bool) -> io::Result<()> {
        if self.is_direct != is_direct {
            let mut flags = fcntl_getfl(&self.file)?;
            flags.set(OFlags::DIRECT, is_direct);
            fcntl_setfl(&self.file, flags)?;
            self.is_direct = is_direct;
        }
        Ok(())
    }
}

impl File for Regular {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Read::read(self.buffered()?, buffer)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(self.buffered()?, bytes)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.buffered()?.write_all_at(bytes, offset)
    }

    fn write_direct(
        &mut self,
        mut offset: u64,
        mut slices: &mut [IoSlice<'_>],
    ) -> io::Result<bool> {
        if self.set_direct(true).is_err() {
            return Ok(false);
        }
        let begin = offset;
        while !slices.is_empty() {
            match pwritev(&self.file, slices, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    offset += count as u64;
                    IoSlice::advance_slices(&mut slices, count);
                }
                Err(Errno::INTR) => {}
                // As file systems say it that have no such way, or larger blocks.
                Err(Errno::INVAL | Errno::OPNOTSUPP) if offset == begin => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn begin_sync(&mut self, Range { start, end }: Range<u64>) {
        // What the kernel is no longer to keep it writes at once, and drops what is written
        // already. If it does not, `sync` takes its time.
        let length = NonZeroU64::new(end.saturating_sub(start));
        let _ = rustix::fs::fadvise(&self.file, start, length, Advice::DontNeed);
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        // Else what was written behind the cut would leave a hole.
        self.file.seek(SeekFrom::Start(length)).map(drop)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}
