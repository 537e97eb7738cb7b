//! `sandbox yes`: the process can reach the files that its configuration names and no others, and
//! make the system calls that it needs and no others.
//!
//! Invariants: the process confines itself while it has one thread, so no thread is free; what the
//! kernel cannot hold is said in the log, and the rest is held.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::settings::{
    ACLFILE, LOGFILE, MEMCACHED_AUTH_FILE, MEMCACHED_PORT_FILENAME, MEMCACHED_UNIXSOCKET, PIDFILE,
    PRELOAD_FILE, SANDBOX, TLS_CA_CERT_DIR, TLS_CA_CERT_FILE, TLS_CERT_FILE, TLS_CLIENT_CERT_FILE,
    TLS_CLIENT_KEY_FILE, TLS_KEY_FILE, UNIXSOCKET,
};
use config::{Config, Profile};
use engine::runtime::log::{Log, log_notice, log_warning};
use landlock::{
    ABI, Access, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use super::system_calls::NEEDED;

/// What is asked of Landlock; a kernel that knows less holds less.
const RIGHTS: ABI = ABI::V5;

/// What the system and its libraries read: names of hosts and users, clocks, cores, memory, the
/// program itself.
const OF_SYSTEM: &[&str] =
    &["/etc", "/usr", "/lib", "/lib64", "/proc", "/sys", "/run/systemd/resolve", "/dev/urandom"];

/// Files of the system that are links where something else writes them, as NetworkManager does that
/// of the resolver. The files are replaced there, so the folder counts.
const LINKED: &[&str] = &["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"];

/// What is written of the system: scores of the out-of-memory killer, what is nowhere, the log of
/// the system.
const WRITTEN_OF_SYSTEM: &[&str] = &["/proc/self", "/dev/null", "/dev/log"];

/// Confines the process, where its configuration says so.
pub(crate) fn enter(config: &Config, log: &Log) -> Result<(), String> {
    if !config.get(SANDBOX) {
        return Ok(());
    }
    if config.profile() == Profile::Sentinel {
        return Err("sandbox: a Sentinel runs scripts, which a sandbox would not let it".to_owned());
    }
    match confine_files(config) {
        Ok(RulesetStatus::NotEnforced) => {
            log_warning!(log, "Sandbox: this kernel has no Landlock, all files can be reached");
        }
        Ok(_) => log_notice!(log, "Sandbox: only the files of the configuration can be reached"),
        Err(why) => log_warning!(log, "Sandbox: all files can be reached: {why}"),
    }
    match confine_calls() {
        Ok(()) => log_notice!(log, "Sandbox: {} system calls can be made", NEEDED.len()),
        Err(why) => log_warning!(log, "Sandbox: all system calls can be made: {why}"),
    }
    Ok(())
}

fn confine_files(config: &Config) -> Result<RulesetStatus, RulesetError> {
    let all = AccessFs::from_all(RIGHTS);
    let read = AccessFs::from_read(RIGHTS) & !AccessFs::Execute;
    let mut ruleset = Ruleset::default().handle_access(all)?.create()?;
    let system = OF_SYSTEM.iter().map(|path| (PathBuf::from(path), AccessFs::from_read(RIGHTS)));
    let linked = LINKED.iter().filter_map(folder_behind).map(|path| (path, read));
    let written = WRITTEN_OF_SYSTEM
        .iter()
        .map(|path| (PathBuf::from(path), read | AccessFs::WriteFile | AccessFs::Truncate));
    let program = std::env::current_exe().ok().map(|path| (path, read));
    let own = folders(config)
        .into_iter()
        .map(|(path, writes)| (path, if writes { all & !AccessFs::Execute } else { read }));
    for (path, rights) in system.chain(linked).chain(written).chain(program).chain(own) {
        // A path that there is not needs no right.
        if let Ok(opened) = PathFd::new(&path) {
            let rights: BitFlags<AccessFs> =
                if path.is_dir() { rights } else { rights & AccessFs::from_file(RIGHTS) };
            ruleset = ruleset.add_rule(PathBeneath::new(opened, rights))?;
        }
    }
    Ok(ruleset.restrict_self()?.ruleset)
}

/// The folders of the configuration, and whether the server writes there. Files are replaced by
/// others of their name, so a right to a file is one to its folder.
fn folders(config: &Config) -> Vec<(PathBuf, bool)> {
    let written =
        [LOGFILE, PIDFILE, ACLFILE, UNIXSOCKET, MEMCACHED_UNIXSOCKET, MEMCACHED_PORT_FILENAME];
    let read = [
        TLS_CERT_FILE,
        TLS_KEY_FILE,
        TLS_CLIENT_CERT_FILE,
        TLS_CLIENT_KEY_FILE,
        TLS_CA_CERT_FILE,
        MEMCACHED_AUTH_FILE,
        PRELOAD_FILE,
    ];
    let named = |name| {
        let value: Arc<[u8]> = config.get(name);
        (!value.is_empty()).then(|| folder_of(Path::new(OsStr::from_bytes(&value))))
    };
    let mut all = vec![(PathBuf::from("."), true)];
    all.extend(config.path().map(|path| (folder_of(path), true)));
    all.extend(written.into_iter().filter_map(named).map(|path| (path, true)));
    all.extend(read.into_iter().filter_map(named).map(|path| (path, false)));
    let authorities = config.get(TLS_CA_CERT_DIR);
    let authorities = (!authorities.is_empty()).then(|| OsStr::from_bytes(&authorities).into());
    all.extend(authorities.map(|path| (path, false)));
    all
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The folder of the file that a path comes to in the end.
fn folder_behind(path: impl AsRef<Path>) -> Option<PathBuf> {
    path.as_ref().canonicalize().ok().map(|file| folder_of(&file))
}

fn confine_calls() -> Result<(), String> {
    let rules: BTreeMap<i64, Vec<_>> = NEEDED.iter().map(|call| (*call, Vec::new())).collect();
    // A library that meets a call which the kernel does not know has another way.
    let others = SeccompAction::Errno(rustix::io::Errno::NOSYS.raw_os_error().cast_unsigned());
    let machine: TargetArch =
        ARCH.try_into().map_err(|_| format!("there is no filter for {ARCH}"))?;
    let filter = SeccompFilter::new(rules, others, SeccompAction::Allow, machine);
    let program: BpfProgram =
        filter.and_then(TryInto::try_into).map_err(|error| error.to_string())?;
    seccompiler::apply_filter(&program).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{NEEDED, folder_behind, folder_of};

    #[test]
    fn a_file_without_a_folder_is_here() {
        assert_eq!(folder_of(Path::new("users.acl")), Path::new("."));
        assert_eq!(folder_of(Path::new("/etc/apus/users.acl")), Path::new("/etc/apus"));
    }

    #[test]
    fn a_link_is_followed_to_the_folder_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = folder.path().canonicalize().unwrap().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::write(elsewhere.join("file"), "").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(elsewhere.join("file"), &link).unwrap();
        assert_eq!(folder_behind(&link), Some(elsewhere));
        assert_eq!(folder_behind(folder.path().join("nothing")), None);
    }

    #[test]
    fn the_sandbox_runs_no_program_and_looks_at_no_process() {
        for call in [libc::SYS_execve, libc::SYS_execveat, libc::SYS_ptrace, libc::SYS_mount] {
            assert!(!NEEDED.contains(&call), "{call}");
        }
        let mut sorted = NEEDED.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), NEEDED.len(), "each is named once");
    }
}
