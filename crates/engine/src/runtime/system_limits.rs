//! What the system lets us have: open files, pages of our own choice, and a quicker clock.
//!
//! Invariant: the limit of open files is only ever raised.

use base::Clock;
use base::io_error_text::strerror;
use config::Config;
use config::settings::{DISABLE_THP, MAXCLIENTS};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::runtime::log::{Log, log_notice, log_warning};

/// Descriptors besides those of clients: listeners, files, the workers' own.
const RESERVED: u64 = 32;

/// Makes room for `maxclients`, or lowers it to what there is room for.
pub fn fit_max_clients(config: &Config, log: &Log) -> Result<(), String> {
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
/// for a server that could serve no client at all.
pub fn raise_open_files(log: &Log, clients: u32) -> Result<u32, String> {
    let wanted = u64::from(clients) + RESERVED;
    let limits = getrlimit(Resource::Nofile);
    let before = limits.current.unwrap_or(u64::MAX);
    if before >= wanted {
        return Ok(clients);
    }
    let hard = limits.maximum.unwrap_or(u64::MAX);
    let mut refusal = String::new();
    let mut best = before;
    for candidate in [wanted, wanted.min(most_of_system()), wanted.min(hard)] {
        if candidate <= before {
            continue;
        }
        let maximum = limits.maximum.map(|maximum| maximum.max(candidate));
        match setrlimit(Resource::Nofile, Rlimit { current: Some(candidate), maximum }) {
            Ok(()) => {
                best = candidate;
                break;
            }
            Err(error) => refusal = strerror(&error.into()),
        }
    }
    if best >= wanted {
        log_notice!(
            log,
            "Increased maximum number of open files to {wanted} \
             (it was originally set to {before})."
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

/// What the system lets any process have, the superuser's included.
fn most_of_system() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/fs/nr_open").ok();
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX)
}

/// The machine's clock, with short times told by the processor's counter where the kernel goes by
/// that: the kernel has made sure that the counter is steady, and the same on all cores.
pub fn choose_clock() -> Clock {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = std::fs::read_to_string(SOURCE).unwrap_or_default();
    if source.trim() == "tsc" { Clock::counting() } else { Clock::system() }
}

/// Follows `disable-thp`.
pub fn choose_pages(config: &Config) {
    if config.get(DISABLE_THP) {
        // A kernel that cannot do it serves with the pages that it has.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
}
