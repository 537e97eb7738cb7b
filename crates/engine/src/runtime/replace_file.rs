//! Files that are replaced as a whole.
//!
//! Invariant: a crash leaves the old file or the new one, and beside it at most a file whose name
//! tells a process that has ended.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use crate::runtime::failpoint;

/// The highest number that Linux gives a process.
const PID_MAX: i32 = 1 << 22;

/// Puts a new file in an old one's place, or where there is none.
pub fn replace_atomically(path: &Path, text: &[u8]) -> io::Result<()> {
    let path = &place_of(path);
    let mut temporary = Temporary::beside(path);
    write_new(&temporary.path, path, text)?;
    failpoint::point();
    fs::rename(&temporary.path, path)?;
    temporary.is_placed = true;
    failpoint::point();
    File::open(directory_of(path))?.sync_all()
}

/// Where a file lies: a link stays a link.
pub fn place_of(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The directory that a file lies in.
pub fn directory_of(path: &Path) -> &Path {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    directory.unwrap_or(Path::new("."))
}

/// What is to take the place of a file; removed again where that comes to nothing.
struct Temporary {
    path: PathBuf,
    is_placed: bool,
}

impl Temporary {
    fn beside(path: &Path) -> Self {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!("-{}.tmp", std::process::id()));
        Self { path: path.with_file_name(name), is_placed: false }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_placed {
            // What is left of it is of no use, and the first error is the one to tell.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The process that was to put a file of this name in another one's place.
pub fn writer_of(name: &OsStr, replaced: &OsStr) -> Option<Pid> {
    let prefix: OsString = [replaced, OsStr::new("-")].into_iter().collect();
    let number = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes())?;
    process_of(std::str::from_utf8(number.strip_suffix(b".tmp")?).ok()?)
}

/// The process of a number that Linux may give one, written as it is: a date is none.
pub fn process_of(number: &str) -> Option<Pid> {
    let pid = number.parse().ok().filter(|pid| (1..=PID_MAX).contains(pid))?;
    Pid::from_raw(pid).filter(|_| pid.to_string() == number)
}

fn write_new(temporary: &Path, old: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = File::create(temporary)?;
    if let Ok(old) = fs::metadata(old) {
        file.set_permissions(old.permissions())?;
    }
    file.write_all(text)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::replace_atomically;

    #[test]
    fn nothing_is_left_beside_a_file_that_was_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for text in ["a", "b"] {
            replace_atomically(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
