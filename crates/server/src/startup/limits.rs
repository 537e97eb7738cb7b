//! What the system lets us have: open files, and pages of our own choice.
//!
//! Invariant: the limit of open files is only ever raised.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Config;
use crate::config::settings::{DISABLE_THP, MAXCLIENTS};
use crate::log::{Log, log_notice, log_warning};
use crate::reception::plain;

/// Descriptors besides those of clients: listeners, files, the workers' own.
const RESERVED: u64 = 32;

/// How much less is asked for when the system refuses.
const STEP: u64 = 16;

/// Makes room for `maxclients`, or lowers it to what there is room for.
pub(crate) fn fit_max_clients(config: &Config, log: &Log) -> Result<(), String> {
    let wanted = config.get(MAXCLIENTS);
    let possible = raise_open_files(log, wanted)?;
    if possible != wanted {
        // The option takes any positive number at any time.
        let number = possible.to_string();
        let _ = config.set_many(&[b"maxclients", number.as_bytes()], true);
    }
    Ok(())
}

/// Raises the limit of open files so that so many clients fit; returns how many do. The error is
/// for who cannot be served at all.
pub(crate) fn raise_open_files(log: &Log, clients: u32) -> Result<u32, String> {
    let wanted = u64::from(clients) + RESERVED;
    let limits = getrlimit(Resource::Nofile);
    let before = limits.current.unwrap_or(u64::MAX);
    if before >= wanted {
        return Ok(clients);
    }
    let mut best = wanted;
    let mut refusal = String::new();
    while best > before {
        let maximum = limits.maximum.map(|maximum| maximum.max(best));
        match setrlimit(Resource::Nofile, Rlimit { current: Some(best), maximum }) {
            Ok(()) => break,
            Err(error) => refusal = plain(&error.into()),
        }
        best = best.saturating_sub(STEP).max(before);
    }
    if best >= wanted {
        log_notice!(
            log,
            "Increased maximum number of open files to {wanted} (it was originally set to {before})."
        );
        return Ok(clients);
    }
    if best <= RESERVED {
        return Err(format!(
            "Your current 'ulimit -n' of {before} is not enough for the server to start. Please \
             increase your open file limit to at least {wanted}. Exiting."
        ));
    }
    let fitting = u32::try_from(best - RESERVED).unwrap_or(clients);
    log_warning!(
        log,
        "You requested maxclients of {clients} requiring at least {wanted} max file descriptors."
    );
    log_warning!(
        log,
        "Server can't set maximum open files to {wanted} because of OS error: {refusal}."
    );
    log_warning!(
        log,
        "Current maximum open files is {best}. maxclients has been reduced to {fitting} to \
         compensate for low ulimit. If you need higher maxclients increase 'ulimit -n'."
    );
    Ok(fitting)
}

/// Follows `disable-thp`.
pub(crate) fn choose_pages(config: &Config) {
    if config.get(DISABLE_THP) {
        // A kernel that cannot do it serves with the pages that it has.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
}
