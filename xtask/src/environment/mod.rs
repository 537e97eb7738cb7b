//! `setup`: whatever the tests need beside the code, in `target/test-env`: the real servers they
//! compare with and the client libraries. Invariant: a part is installed once per state of its
//! pins; its stamp holds them.

mod oracles;
mod parts;

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell;
use parts::{PARTS, Part};

/// Sets up what is absent and returns the folder.
pub(crate) fn prepare() -> Result<PathBuf, String> {
    let folder = shell::target().join("test-env");
    fs::create_dir_all(&folder).map_err(|error| name(&folder, &error))?;
    // Work trees may share one folder by a link: what is written down is where it really lies.
    let folder = folder.canonicalize().map_err(|error| name(&folder, &error))?;
    // Two runs at once would install over each other.
    let guard = fs::File::create(folder.join("lock")).map_err(|error| name(&folder, &error))?;
    guard.lock().map_err(|error| name(&folder, &error))?;
    for part in PARTS {
        install(part, &folder)?;
    }
    oracles::record(&folder)?;
    Ok(folder)
}

fn install(part: &Part, folder: &Path) -> Result<(), String> {
    // A venv does not survive being moved, so where it is belongs to its state.
    let mut pins = format!("{}\n{}\n", folder.display(), part.extra);
    for file in part.pins {
        pins += &read(&shell::root().join(file))?;
    }
    let own = folder.join(part.name);
    let stamp = own.with_extension("stamp");
    let is_there = own.is_dir() && (part.is_there)();
    if is_there && fs::read_to_string(&stamp).is_ok_and(|present| present == pins) {
        return Ok(());
    }
    println!("setting up {}", part.name);
    empty(&own)?;
    (part.install)(&own).map_err(|error| format!("cannot set up {}: {error}", part.name))?;
    fs::write(&stamp, pins).map_err(|error| name(&stamp, &error))
}

/// Makes the folder exist with nothing in it.
pub(crate) fn empty(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(name(folder, &error)),
        _ => fs::create_dir_all(folder).map_err(|error| name(folder, &error)),
    }
}

/// The entries of a folder in order of their names.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| name(folder, &error))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>().map_err(|error| name(folder, &error))?;
    paths.sort();
    Ok(paths)
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| name(file, &error))
}

fn name(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
