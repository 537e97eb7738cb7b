//! Claims: what one process writes no other one does.
//!
//! A claim is an advisory lock of the system on an open file or directory. The lock is gone with
//! the process, however that ends, and a copy of the directory or its new name has none.
//!
//! Invariant: a claim that cannot be made, since the file system has no such locks or nothing can
//! be opened there, keeps nobody from anything.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A claim, until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Claim {
    _file: Option<fs::File>,
}

/// Another process has the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Its number, if the system tells.
    pub pid: Option<u32>,
}

/// A process that was killed may take so long to be gone: so often is asked, with such a pause.
const TRIES: usize = 50;
const PAUSE: Duration = Duration::from_millis(20);

impl Claim {
    /// One of nothing.
    pub fn none() -> Self {
        Self { _file: None }
    }
}

/// Claims a file or a directory that is there.
pub(super) fn claim(path: &Path) -> Result<Claim, Claimed> {
    let Ok(file) = fs::File::open(path) else { return Ok(Claim::none()) };
    for _ in 0..TRIES {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Claim { _file: Some(file) }),
            Err(Errno::WOULDBLOCK) => thread::sleep(PAUSE),
            Err(Errno::INTR) => {}
            Err(_) => return Ok(Claim::none()),
        }
    }
    Err(Claimed { pid: holder(&file) })
}

/// The process that has the lock, by the system's list.
fn holder(file: &fs::File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| pid_of(line, inode))
}

/// The process that a line tells of, if it is about this file: `1: FLOCK ADVISORY WRITE 123
/// 08:01:456 0 EOF`. That of another container is 0.
fn pid_of(line: &str, inode: u64) -> Option<u32> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, "FLOCK", _, _, pid, place, ..] = words[..] else { return None };
    let number: u64 = place.rsplit(':').next()?.parse().ok()?;
    pid.parse().ok().filter(|pid| number == inode && *pid != 0)
}

#[cfg(test)]
mod tests {
    use super::{Claimed, claim, fs, pid_of};

    #[test]
    fn a_second_claim_is_refused_until_the_first_is_gone() {
        let folder = std::env::temp_dir().join(format!("apus-claim-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let first = claim(&folder).unwrap();
        assert_eq!(claim(&folder).unwrap_err(), Claimed { pid: Some(std::process::id()) });
        let moved = folder.with_extension("moved");
        fs::rename(&folder, &moved).unwrap();
        fs::create_dir(&folder).unwrap();
        drop(claim(&folder).unwrap());
        drop(first);
        drop(claim(&moved).unwrap());
        drop(claim(&folder.join("nothing")).unwrap());
        fs::remove_dir(&folder).unwrap();
        fs::remove_dir(&moved).unwrap();
    }

    #[test]
    fn the_list_of_locks_is_read() {
        for (line, expected) in [
            ("1: FLOCK  ADVISORY  WRITE 1234 08:01:77 0 EOF", Some(1234)),
            ("1: FLOCK  ADVISORY  WRITE 1234 08:01:78 0 EOF", None),
            ("1: POSIX  ADVISORY  WRITE 1234 08:01:77 0 EOF", None),
            ("1: FLOCK  ADVISORY  WRITE 0 08:01:77 0 EOF", None),
            ("1: -> FLOCK  ADVISORY  WRITE 1234 08:01:77 0 EOF", None),
            ("", None),
        ] {
            assert_eq!(pid_of(line, 77), expected, "{line}");
        }
    }
}
