//! Looking through a snapshot.
//!
//! Invariant: every value is made, so what is found sound can be loaded.

use std::io::Write;
use std::path::Path;

use base::quote::escape;
use base::time::{Clock, UnixMillis};
use keyspace::ContainerSettings;

use super::{CheckError, Operator};
use crate::rdb::file::{Batch, BuiltEntry, End, FileError, LargeEntrySink, Rules, Sink, read_file};
use crate::rdb::value::Limits;
use crate::storage::{File, OpenMode, Storage};

/// What a snapshot holds.
struct Census<'o> {
    out: &'o mut dyn Write,
    checks_library: &'o dyn Fn(&[u8]) -> Result<(), String>,
    limits: Limits,
    now: UnixMillis,
    keys: u64,
    volatile: u64,
    expired: u64,
    libraries: u64,
}

/// Checks a snapshot.
pub(super) fn check(
    storage: &dyn Storage,
    path: &Path,
    operator: &mut Operator<'_>,
) -> Result<(), CheckError> {
    let file = storage.open(path, OpenMode::Read);
    let mut file = file.map_err(|error| CheckError::of_file(path, &error))?;
    writeln!(operator.out, "[offset 0] Checking RDB file {}", path.display())?;
    let end = read(&mut *file, path, operator)?;
    writeln!(operator.out, "[offset {}] RDB looks OK, version {}", end.offset, end.version)?;
    Ok(())
}

/// Reads the snapshot that a file is or begins with, and reports what it holds.
pub(super) fn read(
    file: &mut dyn File,
    path: &Path,
    operator: &mut Operator<'_>,
) -> Result<End, CheckError> {
    let limits = Limits::from(&ContainerSettings::default());
    let now = Clock::system().now_ms();
    let (out, checks_library) = (&mut *operator.out, operator.library);
    let (keys, volatile, expired, libraries) = (0, 0, 0, 0);
    let mut census =
        Census { out, checks_library, limits, now, keys, volatile, expired, libraries };
    let rules = Rules { skips_modules: true, ..Rules::default() };
    let result = read_file(file, rules, &mut census);
    let Census { out, keys, volatile, expired, libraries, .. } = census;
    let end = result.map_err(|error| {
        let name = path.display();
        let report = format_args!("--- RDB ERROR DETECTED ---\n{name}, {error}");
        CheckError(format!("{report}\n[info] {keys} keys were read before"))
    })?;
    writeln!(out, "[info] {keys} keys read")?;
    writeln!(out, "[info] {volatile} expires")?;
    writeln!(out, "[info] {expired} already expired")?;
    writeln!(out, "[info] {libraries} libraries of functions")?;
    if end.skipped > 0 {
        writeln!(out, "[info] {} values or notes of modules passed over", end.skipped)?;
    }
    Ok(end)
}

impl Sink for Census<'_> {
    fn note(&mut self, name: &[u8], text: &[u8]) {
        let (name, text) = (escape(name), escape(text));
        // An operator that does not listen to this hears the result.
        let _ = writeln!(self.out, "[info] AUX FIELD {name} = '{text}'");
    }

    fn library(&mut self, code: &[u8]) -> Result<(), String> {
        self.libraries += 1;
        (self.checks_library)(code)
    }

    fn batch(&mut self, batch: Batch) -> Result<(), FileError> {
        for raw in batch.entries() {
            let raw = raw?;
            raw.decode(&self.limits)?;
            self.count(raw.deadline);
        }
        Ok(())
    }

    fn gatherer(&mut self) -> Option<&mut dyn LargeEntrySink> {
        Some(self)
    }
}

impl LargeEntrySink for Census<'_> {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn advance(&mut self, _: u64) {}

    fn entry(&mut self, made: BuiltEntry) -> Result<(), FileError> {
        self.count(made.entry.borrow().deadline());
        Ok(())
    }
}

impl Census<'_> {
    fn count(&mut self, deadline: Option<UnixMillis>) {
        self.keys += 1;
        self.volatile += u64::from(deadline.is_some());
        self.expired += u64::from(deadline.is_some_and(|deadline| deadline < self.now));
    }
}
