//! Folders of servers. Invariant: what is no file and no folder (a socket) is left out of a copy.

use std::path::{Path, PathBuf};

/// Copies all files below a folder into another one.
///
/// # Panics
///
/// If one cannot be read or written.
pub fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("a name");
        let to = to.join(entry.file_name());
        let kind = entry.file_type().expect("it has one");
        if kind.is_dir() {
            std::fs::create_dir(&to).expect("a new folder");
            copy_folder(&entry.path(), &to);
        } else if kind.is_file() {
            std::fs::copy(entry.path(), to).expect("it can be copied");
        }
    }
}

/// Makes a folder the log directory of a server that is to start.
pub fn with_log(from: PathBuf) -> impl Fn(&Path) {
    move |folder| {
        let to = folder.join("appendonlydir");
        std::fs::create_dir(&to).expect("the folder is new");
        copy_folder(&from, &to);
    }
}
