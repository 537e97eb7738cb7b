//! Files that an earlier life of the process began and never finished.
//!
//! Invariant: only what nobody can be writing any more is removed: its name tells a process that
//! has ended, or it lies in the directory of a log that is claimed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use config::settings::{
    ACLFILE, APPENDDIRNAME, APPENDFILENAME, APPENDONLY, MEMCACHED_PORT_FILENAME,
};
use engine::runtime::log::log_notice;
use engine::runtime::replace_file;
use rustix::process::{Pid, test_kill_process};

use crate::server::Server;

/// Removes them, when what is written from here on is claimed and nothing is written yet.
pub(crate) fn remove(server: &Server) {
    remove_replacements(server);
    remove_from(server, Path::new("."), is_abandoned);
    let log = server.config.get(APPENDFILENAME);
    let ours = [[b"temp-", &*log, b".incr"].concat(), [b"temp-", &*log, b".manifest"].concat()];
    let directory = PathBuf::from(OsStr::from_bytes(&server.config.get(APPENDDIRNAME)));
    let is_ours = |name: &OsStr| ours.iter().any(|own| own == name.as_bytes());
    let names = server.storage.list(&directory).unwrap_or_default();
    let has_ours = names.iter().any(|name| is_ours(name));
    // Without a log of its own a server may stand beside one that has it.
    let asks = has_ours && !server.config.get(APPENDONLY);
    let claim = asks.then(|| server.storage.claim(&directory));
    let is_claimed = !matches!(claim, Some(Err(_)));
    remove_from(server, &directory, |name| is_abandoned(name) || is_claimed && is_ours(name));
}

/// Removes what was to take the place of files that are replaced as a whole.
pub(crate) fn remove_replacements(server: &Server) {
    let named = [ACLFILE, MEMCACHED_PORT_FILENAME].map(|name| server.config.get(name));
    let named = named.iter().filter(|path| !path.is_empty());
    let named = named.map(|path| Path::new(OsStr::from_bytes(path)));
    for path in server.config.path().into_iter().chain(named) {
        let path = replace_file::place_of(path);
        let Some(replaced) = path.file_name() else { continue };
        remove_from(server, replace_file::directory_of(&path), |name| {
            replace_file::writer_of(name, replaced).is_some_and(has_ended)
        });
    }
}

fn remove_from(server: &Server, directory: &Path, is_left: impl Fn(&OsStr) -> bool) {
    // Where there is no directory, nothing was left in it.
    let names = server.storage.list(directory).unwrap_or_default();
    for name in names.into_iter().filter(|name| is_left(name)) {
        let path = directory.join(&name);
        if server.storage.remove(&path).is_ok() {
            log_notice!(server.log, "Removed {}, which was never finished", path.display());
        }
    }
}

/// Whether a file has the name of one that a process was writing when it ended: we, or a Redis.
fn is_abandoned(name: &OsStr) -> bool {
    let Some(stem) = name.to_str().and_then(|name| name.strip_prefix("temp-")) else {
        return false;
    };
    let pid = match stem.rsplit_once('.') {
        // The number of the process, and maybe one of ours behind it.
        Some((numbers, "rdb")) => numbers.split_once('-').map_or(numbers, |(pid, _)| pid),
        Some((rest, "aof")) => match rest.strip_prefix("rewriteaof-") {
            Some(rest) => rest.strip_prefix("bg-").unwrap_or(rest),
            None => return false,
        },
        _ => return false,
    };
    replace_file::process_of(pid).is_some_and(has_ended)
}

/// Whether a process runs no more. One that has our number was an earlier one: this one has begun
/// nothing yet.
fn has_ended(pid: Pid) -> bool {
    pid == rustix::process::getpid()
        || matches!(test_kill_process(pid), Err(rustix::io::Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::is_abandoned;

    #[test]
    fn files_of_processes_that_have_ended_are_known_by_their_names() {
        let (own, other) = (std::process::id(), std::os::unix::process::parent_id());
        for (name, expected) in [
            (format!("temp-{own}-3.rdb"), true),
            (format!("temp-{own}.rdb"), true),
            (format!("temp-rewriteaof-bg-{own}.aof"), true),
            (format!("temp-rewriteaof-{own}.aof"), true),
            (format!("temp-{other}-3.rdb"), false),
            (format!("temp-rewriteaof-bg-{other}.aof"), false),
            (format!("temp-{own}.aof"), false),
            (format!("{own}-3.rdb"), false),
            ("temp-mine.rdb".to_owned(), false),
            ("temp-0.rdb".to_owned(), false),
            ("temp-rewriteaof--5.aof".to_owned(), false),
            ("temp-+5.rdb".to_owned(), false),
            ("temp-20261127.rdb".to_owned(), false),
            ("dump.rdb".to_owned(), false),
        ] {
            assert_eq!(is_abandoned(OsStr::new(&name)), expected, "{name}");
        }
    }
}
