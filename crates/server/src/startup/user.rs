//! Whose rights the process has: root can give them up for those of another user.
//!
//! Invariants: they are given up as a whole, by the one thread there is yet and before a file of
//! the server is opened, so whatever comes later has no others; a process that cannot give them up
//! does not serve.

use std::{env, fs};

use base::account_lines::numbers_of;
use base::io_error_text::strerror;
use config::Config;
use config::settings::{
    HTTP_PORT, HTTP_TLS_PORT, MEMCACHED_PORT, MEMCACHED_UDP_PORT, PORT, RUN_AS_USER, TLS_PORT,
};
use rustix::fs::{Gid, Uid};
use rustix::process::{DumpableBehavior, geteuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities, set_thread_gid,
    set_thread_groups, set_thread_uid,
};

/// Where users stand, a line each.
const USERS: &str = "/etc/passwd";

/// Ports below it are root's, and those of a process with the capability for them.
const FIRST_FREE_PORT: i64 = 1024;

/// The user whose rights are all that there are.
const ROOT: u32 = 0;

/// A user and its group, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UserNumbers {
    user: u32,
    group: u32,
}

/// Takes on the rights of a user, if the process has those of root.
pub(crate) fn switch_to(name: &[u8]) -> Result<(), String> {
    match geteuid().is_root() {
        true => become_user(name, CapabilitySet::empty()),
        false => Ok(()),
    }
}

/// Takes on the rights of `run-as-user`, where there is one. Of root's only that to the ports below
/// 1024 is kept, and only where one of them is configured.
pub(crate) fn switch_to_configured(config: &Config) -> Result<(), String> {
    let name = config.get(RUN_AS_USER);
    if name.is_empty() {
        return Ok(());
    }
    if geteuid().is_root() {
        return become_user(&name, kept(config));
    }
    match look_up(&name)?.user == geteuid().as_raw() {
        true => Ok(()),
        false => Err(format!(
            "Can't take on the rights of {}: only root can, and the server was not started by it",
            String::from_utf8_lossy(&name)
        )),
    }
}

/// What the configured ports need of root's rights.
fn kept(config: &Config) -> CapabilitySet {
    let ports = [PORT, TLS_PORT, HTTP_PORT, HTTP_TLS_PORT].map(|port| i64::from(config.get(port)));
    let of_memcached = [MEMCACHED_PORT, MEMCACHED_UDP_PORT].map(|port| i64::from(config.get(port)));
    let mut all = ports.iter().chain(&of_memcached);
    match all.any(|port| (1..FIRST_FREE_PORT).contains(port)) {
        true => CapabilitySet::NET_BIND_SERVICE,
        false => CapabilitySet::empty(),
    }
}

fn become_user(name: &[u8], kept: CapabilitySet) -> Result<(), String> {
    let UserNumbers { user, group } = look_up(name)?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: none };
    // A process that is no longer root can neither choose a group nor go back.
    set_keep_capabilities(!kept.is_empty())
        .and_then(|()| set_thread_groups(&[]))
        .and_then(|()| set_thread_gid(Gid::from_raw(group)))
        .and_then(|()| set_thread_uid(Uid::from_raw(user)))
        .and_then(|()| if user == ROOT { Ok(()) } else { set_capabilities(None, sets) })
        .map_err(|why| {
            let why = strerror(&why.into());
            format!("Can't take on the rights of {}: {why}", String::from_utf8_lossy(name))
        })?;
    // What the kernel tells of the process itself would be root's, and a crash report needs it.
    // A kernel that refuses leaves the report with less.
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    // Nothing that a relative path could name can be reached from a directory that is closed.
    if env::set_current_dir(".").is_err() {
        env::set_current_dir("/").map_err(|why| format!("Can't chdir to '/': {why}"))?;
    }
    Ok(())
}

fn look_up(name: &[u8]) -> Result<UserNumbers, String> {
    let users = fs::read(USERS).map_err(|why| format!("Can't read {USERS}: {why}"))?;
    let shown = String::from_utf8_lossy(name);
    let found = numbers_of(&users, name).map(|[user, group]| UserNumbers { user, group });
    found.ok_or_else(|| format!("Can't find the user {shown} in {USERS}"))
}
