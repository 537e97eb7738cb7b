//! `apus check`: looks whether a snapshot or a journal can be loaded, and cuts off the damaged end
//! of a journal.
//!
//! Invariant: without `--fix` and `--truncate-to-timestamp` nothing is written; with them, only the
//! last file of a journal gets shorter, and by `--fix` not before the operator has agreed.

mod journal;
mod snapshot;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use crate::storage::Storage;

const USAGE: &str = "Usage: apus check rdb FILE
       apus check aof [--fix] [--truncate-to-timestamp SECONDS] FILE

FILE of a journal is its manifest, or a journal of one file. --fix cuts off an end that cannot be
loaded, if the answer to its question is y, --truncate-to-timestamp all that was written after a
time (Unix seconds).

Examples:
       apus check rdb dump.rdb
       apus check aof appendonlydir/appendonly.aof.manifest
       apus check aof --fix appendonlydir/appendonly.aof.manifest";

/// What is to be done.
enum Task {
    Snapshot(PathBuf),
    Journal(PathBuf, Repair),
}

/// What may be done to a journal.
#[derive(Clone, Copy, Debug, Default)]
struct Repair {
    /// Whether an end that cannot be loaded is cut off.
    fixes: bool,
    /// After which time, in Unix seconds, all is cut off.
    until: Option<i64>,
}

/// What is wrong with the file, or with the wish.
#[derive(Debug)]
struct CheckError(String);

impl CheckError {
    /// The disk does not do as it is asked to with a file.
    fn of_file(path: &Path, error: &io::Error) -> Self {
        Self(format!("{}: {error}", path.display()))
    }
}

/// For flaws whose text nobody reads.
impl From<io::Error> for CheckError {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// The person at the terminal: hears what is found, and is asked before anything is lost.
pub struct Operator<'a> {
    /// Where answers come from.
    pub answers: &'a mut dyn BufRead,
    /// Where reports and questions go.
    pub out: &'a mut dyn Write,
    /// Says why a library of functions cannot be loaded, of those that cannot.
    pub library: &'a dyn Fn(&[u8]) -> Result<(), String>,
}

impl Operator<'_> {
    /// Whether the check is to go on; no answer means no.
    fn agrees(&mut self) -> Result<bool, CheckError> {
        write!(self.out, "Continue? [y/N]: ")?;
        self.out.flush()?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(answer.starts_with(['y', 'Y']))
    }
}

/// Does as the arguments say and reports it; whether all is well.
pub fn run(
    arguments: impl Iterator<Item = OsString>,
    storage: &dyn Storage,
    mut operator: Operator<'_>,
) -> bool {
    let mut arguments = arguments.peekable();
    if arguments.peek().is_some_and(|word| word == "--help" || word == "-h") {
        return writeln!(operator.out, "{USAGE}").is_ok();
    }
    let result = parse(arguments).and_then(|task| match task {
        Task::Snapshot(path) => snapshot::check(storage, &path, &mut operator),
        Task::Journal(path, repair) => journal::check(storage, &path, repair, &mut operator),
    });
    match result {
        Ok(()) => true,
        Err(CheckError(line)) => {
            // No other reader is there to tell.
            let _ = writeln!(operator.out, "{line}");
            false
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Task, CheckError> {
    let usage = || CheckError(USAGE.to_owned());
    let kind = arguments.next().ok_or_else(usage)?;
    let (mut path, mut repair) = (None, Repair::default());
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--fix") => repair.fixes = true,
            Some("--truncate-to-timestamp") => {
                let seconds = arguments.next().and_then(|text| text.to_str()?.parse().ok());
                repair.until = Some(seconds.ok_or_else(usage)?);
            }
            _ if path.is_none() => path = Some(PathBuf::from(argument)),
            _ => return Err(usage()),
        }
    }
    let path = path.ok_or_else(usage)?;
    match kind.to_str() {
        Some("rdb") if !repair.fixes && repair.until.is_none() => Ok(Task::Snapshot(path)),
        Some("aof") => Ok(Task::Journal(path, repair)),
        _ => Err(usage()),
    }
}
