//! Looking through a journal, and making its end right.
//!
//! Invariant: a file is cut off only where a whole unit ends, and is sound then.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{CheckError, Operator, Repair, snapshot};
use crate::aof::commands::loaded_library;
use crate::aof::manifest::{AofFile, Manifest};
use crate::aof::{AofDamage, AofError, CutPoint, Unit, UnitReader};
use crate::storage::{Claim, Claimed, OpenMode, Storage, read_full, read_whole};

/// Checks a journal, and repairs it as far as that is wanted.
pub(super) fn check(
    storage: &dyn Storage,
    path: &Path,
    repair: Repair,
    operator: &mut Operator<'_>,
) -> Result<(), CheckError> {
    let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
    let _claim = match repair.fixes || repair.until.is_some() {
        true => storage.claim(directory.unwrap_or(Path::new("."))).map_err(|Claimed { pid }| {
            let owner = pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
            CheckError(format!("{} is written by {owner}, which is to end first", path.display()))
        })?,
        false => Claim::none(),
    };
    if path.extension() != Some(OsStr::new("manifest")) {
        return check_file(storage, path, Some(repair), operator);
    }
    let unread = |error| CheckError::of_file(path, &error);
    let manifest = Manifest::parse(&read_whole(storage, path).map_err(unread)?);
    let manifest = manifest.map_err(|error| CheckError(format!("{}: {error}", path.display())))?;
    let files = manifest.files();
    let last = files.len().checked_sub(1);
    for (index, AofFile { name, .. }) in files.enumerate() {
        let path = path.with_file_name(OsStr::from_bytes(name));
        // Only the last file may have been written to when something happened.
        check_file(storage, &path, (Some(index) == last).then_some(repair), operator)?;
    }
    writeln!(operator.out, "All AOF files and manifest are valid")?;
    Ok(())
}

/// A time before all that the file has is taken for a mistake.
fn check_some_is_left(cut_point: CutPoint, path: &Path, until: i64) -> Result<(), CheckError> {
    if cut_point.offset() == 0 {
        let name = path.display();
        return Err(CheckError(format!(
            "AOF {name} has nothing before timestamp {until}, aborting..."
        )));
    }
    Ok(())
}

/// Whether the libraries of functions that a unit loads can be loaded: a server that cannot does
/// not start. Nothing is cut off for that, as what follows is sound.
fn check_libraries(
    unit: &Unit,
    path: &Path,
    library: &dyn Fn(&[u8]) -> Result<(), String>,
) -> Result<(), CheckError> {
    for command in &unit.commands {
        let Some(code) = loaded_library(command.as_args()) else { continue };
        library(code).map_err(|why| {
            let (name, offset) = (path.display(), unit.offset);
            CheckError(format!("AOF {name} is not valid, at offset {offset}: {why}"))
        })?;
    }
    Ok(())
}

/// Checks a file; without a repair it is not touched.
fn check_file(
    storage: &dyn Storage,
    path: &Path,
    repair: Option<Repair>,
    operator: &mut Operator<'_>,
) -> Result<(), CheckError> {
    let name = path.display();
    let fault = |error: io::Error| CheckError::of_file(path, &error);
    let begins_with_snapshot = {
        let mut head = [0; 5];
        let mut file = storage.open(path, OpenMode::Read).map_err(fault)?;
        let len = read_full(&mut *file, &mut head).map_err(fault)?;
        matches!(&head[..len], b"REDIS" | b"VALKE")
    };
    let mut file = storage.open(path, OpenMode::Read).map_err(fault)?;
    let size = file.length().map_err(fault)?;
    let (offset, rest) = match begins_with_snapshot {
        true => {
            writeln!(operator.out, "The AOF {name} begins with a snapshot")?;
            let end = snapshot::read(&mut *file, path, operator)?;
            (end.offset, end.rest)
        }
        false => (0, Vec::new()),
    };
    let library = operator.library;
    let mut units = UnitReader::behind(&mut *file, offset, rest);
    let (cut_point, sound, error) = loop {
        let cut_point = units.cut_point();
        match units.next_unit() {
            Ok(Some(unit)) => match repair.and_then(|repair| repair.until) {
                Some(until) if unit.time.is_some_and(|time| time > until) => {
                    check_some_is_left(cut_point, path, until)?;
                    break (cut_point, cut_point.offset(), None);
                }
                _ => check_libraries(&unit, path, library)?,
            },
            // Padding at the end stays: a server may be about to write over it.
            Ok(None) => break (units.cut_point(), size, None),
            Err(error) => break (cut_point, cut_point.offset(), Some(error)),
        }
    };
    drop(units);
    writeln!(operator.out, "AOF analyzed: filename={name}, size={size}, ok_up_to={sound}")?;
    match error {
        Some(AofError { damage: AofDamage::Unread(error), .. }) => return Err(fault(error)),
        Some(error) => agree(&error, path, repair, (size, sound), operator)?,
        None => {}
    }
    let out = &mut *operator.out;
    if sound < size {
        drop(file);
        cut_point.cut(storage, path).map_err(fault)?;
        writeln!(out, "Successfully truncated AOF {name} from {size} to {sound} bytes")?;
    } else {
        writeln!(out, "AOF {name} is valid")?;
    }
    Ok(())
}

/// Whether the damaged end of a file may be cut off. A time says itself how much is to go; of this
/// nobody has known.
fn agree(
    error: &AofError,
    path: &Path,
    repair: Option<Repair>,
    (size, sound): (u64, u64),
    operator: &mut Operator<'_>,
) -> Result<(), CheckError> {
    let name = path.display();
    if !repair.is_some_and(|repair| repair.fixes) {
        let hint = match repair {
            Some(_) => "Use the --fix option to cut it off there.",
            None => "It is not the last file of the journal and cannot be repaired.",
        };
        return Err(CheckError(format!("AOF {name} is not valid, {error}. {hint}")));
    }
    let lost = size - sound;
    writeln!(operator.out, "AOF {name} is not valid, {error}")?;
    let change = format_args!("from {size} bytes, with {lost} bytes, to {sound} bytes");
    writeln!(operator.out, "This will shrink the AOF {name} {change}")?;
    if operator.agrees()? { Ok(()) } else { Err(CheckError("Aborting...".to_owned())) }
}
