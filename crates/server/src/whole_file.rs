//! Files that are replaced as a whole.
//!
//! Invariant: a crash leaves the old file or the new one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::unit::drill;

/// Puts a new file in an old one's place, or where there is none.
pub(crate) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    // A link stays a link.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!("-{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = write_new(&temporary, path, text).and_then(|()| {
        drill::point();
        fs::rename(&temporary, path)
    });
    drill::point();
    if written.is_err() {
        // What is left of it is of no use, and the first error is the one to tell.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

fn write_new(temporary: &Path, old: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = File::create(temporary)?;
    if let Ok(old) = fs::metadata(old) {
        file.set_permissions(old.permissions())?;
    }
    file.write_all(text)?;
    file.sync_all()
}
