//! What of a change of the configuration can fail, and is therefore made ready before anything of
//! the change is published.
//!
//! Invariant: what was made ready has changed nothing for clients yet, and `abandon` takes it back.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use base::io_error_text::strerror;
use config::Config;
use config::settings::{APPENDONLY, DIR, SANDBOX, WORKER_THREADS};
use durability::aof;
use engine::runtime::log::{Sink, log_warning};
use engine::runtime::oom_score;
use rustix::fs::{Mode, OFlags, open};
use rustix::process::fchdir;

use crate::net::listeners;
use crate::net::tls::{is_wanted as is_tls_wanted, settings_of};
use crate::server::Server;
use crate::telemetry::ExportPlan;

/// What was made ready for a change.
pub(super) enum Prepared {
    Nothing,
    /// The log's new place.
    Log(Sink),
    /// Sockets that are bound; no client is let in yet.
    Listeners,
    /// What new encrypted connections begin with.
    Tls(Option<Arc<tls::Contexts>>),
    /// What is exported from now on.
    Exports(Option<Arc<ExportPlan>>),
    /// More workers, or fewer; so many there were.
    Workers(usize),
    /// The new directory was entered; this was the one before.
    Directory(OwnedFd),
    /// The append-only file was begun.
    AppendOnly,
    /// The kernel was told another out-of-memory score.
    OomScore,
}

impl Prepared {
    pub(super) fn publish(self, server: &'static Server) {
        match self {
            Self::Log(sink) => server.log.change(sink),
            Self::Listeners => listeners::finish(server, true),
            Self::Tls(contexts) => {
                server.tls.change(contexts, server.keyspace.clock().monotonic_us());
            }
            Self::Exports(plan) => server.telemetry.change(server, plan),
            Self::Nothing
            | Self::Workers(_)
            | Self::Directory(_)
            | Self::AppendOnly
            | Self::OomScore => {}
        }
    }

    pub(super) fn abandon(self, server: &'static Server) {
        match self {
            Self::Listeners => listeners::finish(server, false),
            Self::Workers(before) => {
                if let Err(error) = server.worker_pool.resize(server, before) {
                    log_warning!(server.log, "Cannot start the workers: {}", strerror(&error));
                }
            }
            Self::Directory(before) => {
                if let Err(error) = fchdir(before) {
                    let why = strerror(&error.into());
                    log_warning!(server.log, "Cannot go back to the directory before: {why}");
                }
                if let Err(why) = server.snapshot_claim.take_if_due(server, &server.config) {
                    log_warning!(server.log, "{why}");
                }
            }
            // Nothing can fail behind it but by a bug.
            Self::AppendOnly => aof::switch_off(server),
            Self::OomScore => {
                let is_replica = server.gates.replica_role.is_replica();
                // The log says what could not be done.
                let _ = oom_score::adjust(&server.config, is_replica, &server.log);
            }
            Self::Nothing | Self::Log(_) | Self::Tls(_) | Self::Exports(_) => {}
        }
    }
}

/// Why `dir` stays as it is.
const CONFINED: &str = "the sandbox confines the server to the directory that it was started in. \
                        Start it with the other one, or with sandbox no";

pub(super) fn prepare_listeners(
    server: &'static Server,
    name: &str,
    config: &Config,
) -> Result<Prepared, String> {
    match listeners::reserve(server, config) {
        Ok(()) => Ok(Prepared::Listeners),
        Err(()) if name == "bind" => Err("Failed to bind to specified addresses.".to_owned()),
        Err(()) => Err("Unable to listen on this port. Check server logs.".to_owned()),
    }
}

pub(super) fn prepare_workers(
    server: &'static Server,
    config: &Config,
) -> Result<Prepared, String> {
    let before = server.threads.worker_count();
    let size = server.threads.cores.worker_count(config.get(WORKER_THREADS)).workers;
    let resized = server.worker_pool.resize(server, size);
    resized.map(|()| Prepared::Workers(before)).map_err(|error| strerror(&error))
}

pub(super) fn prepare_directory(
    server: &'static Server,
    config: &Config,
) -> Result<Prepared, String> {
    if config.get(SANDBOX) {
        return Err(CONFINED.to_owned());
    }
    let plainly = |error: rustix::io::Errno| strerror(&error.into());
    let here = open(".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(plainly)?;
    enter_directory(config)?;
    // Where snapshots of another process lie the old one stays.
    match server.snapshot_claim.take_if_due(server, config) {
        Ok(()) => Ok(Prepared::Directory(here)),
        Err(why) => {
            Prepared::Directory(here).abandon(server);
            Err(why)
        }
    }
}

pub(super) fn prepare_oom_score(
    server: &'static Server,
    config: &Config,
) -> Result<Prepared, String> {
    let is_replica = server.gates.replica_role.is_replica();
    oom_score::adjust(config, is_replica, &server.log)?;
    Ok(Prepared::OomScore)
}

pub(super) fn prepare_log_file(
    server: &'static Server,
    config: &Config,
) -> Result<Prepared, String> {
    if server.gates.loading.is_on() || !config.get(APPENDONLY) {
        return Ok(Prepared::Nothing);
    }
    let begins = !server.config.get(APPENDONLY);
    aof::switch(server, true)?;
    Ok(if begins { Prepared::AppendOnly } else { Prepared::Nothing })
}

/// Makes ready what new encrypted connections begin with, if any are to come.
pub(crate) fn prepare_tls(
    server: &'static Server,
    config: &Config,
) -> Result<Option<Arc<tls::Contexts>>, String> {
    if !is_tls_wanted(config) {
        return Ok(None);
    }
    let contexts = tls::Contexts::build(&settings_of(config), server.keyspace.clock());
    let contexts = contexts.map_err(|refusal| refusal.to_string())?;
    let begun =
        server.tls.begin(server.threads.cores.worker_count(config.get(WORKER_THREADS)).workers);
    begun
        .map_err(|error| format!("Cannot start the threads of handshakes: {}", strerror(&error)))?;
    Ok(Some(Arc::new(contexts)))
}

/// Enters the configured working directory.
pub(crate) fn enter_directory(config: &Config) -> Result<(), String> {
    std::env::set_current_dir(OsStr::from_bytes(&config.get(DIR))).map_err(|error| strerror(&error))
}
