//! What the server does when an option changes, and at its start with all options.
//!
//! A change is checked, then what can fail is prepared by the configuration as it would be, then
//! all of it is published at once. Invariants: a change that fails is seen by nobody, neither in a
//! value nor in what it would have brought about; what is published cannot fail.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use base::io_text::plain;
use config::settings::{
    ACL_PUBSUB_DEFAULT, APPENDONLY, DIR, LATENCY_MONITOR_THRESHOLD, MAXCLIENTS, SANDBOX, TLS_PORT,
    WORKER_THREADS,
};
use config::{AclPubsubDefault, Config, Effect, SetError};
use durability::aof;
use engine::keyspace_settings::store_settings;
use engine::runtime::drill;
use engine::runtime::limits;
use engine::runtime::log::{Sink, log_warning};
use engine::runtime::oom_score;
use engine::runtime::panics::Unbroken;
use engine::runtime::title;
use rustix::fs::{Mode, OFlags, open};
use rustix::process::fchdir;

use crate::control::users;
use crate::net::listeners;
use crate::net::output_limit;
use crate::net::tls::{is_wanted as is_tls_wanted, settings_of};
use crate::server::Server;

/// CONFIG SET: changes all values with their effects, or none. The change may wait, so it is not
/// for workers.
pub(crate) fn change_config(
    server: &'static Server,
    pairs: &[&[u8]],
    is_local: bool,
) -> Result<(), SetError> {
    let _turn = server.take_config_turn();
    let mut draft = server.config.draft(pairs, is_local)?;
    // A client that comes by a new port is to be answered by something.
    let opens_tls = draft.config.get(TLS_PORT) != server.config.get(TLS_PORT);
    if opens_tls && draft.effects.iter().all(|(effect, _)| *effect != Effect::Tls) {
        draft.effects.push((Effect::Tls, "tls-port".to_owned()));
    }
    draft.effects.sort_by_key(|(effect, _)| weight(*effect));
    let mut preparations = Preparations { server, ready: Vec::new() };
    for (effect, name) in &draft.effects {
        let ready = prepare(server, *effect, name, &draft.config);
        preparations.ready.push(ready.map_err(|why| SetError::refused(name, why))?);
        drill::point();
    }
    let unbroken = Unbroken::begin(server.keyspace, "a change of the configuration was half made");
    server.config.publish(&draft);
    drill::point();
    // The right to come in is decided before a client comes by a new socket.
    draft.effects.iter().for_each(|(effect, _)| apply_effect(server, *effect));
    drill::point();
    preparations.publish();
    unbroken.end();
    title::update(&server.config, server.identity.port());
    Ok(())
}

/// In which order effects are prepared: what is hard to take back comes late, and behind the log,
/// which may begin in a new directory, nothing can fail.
fn weight(effect: Effect) -> u8 {
    match effect {
        Effect::Workers => 1,
        Effect::Listeners => 2,
        Effect::Directory => 3,
        Effect::AppendOnly => 4,
        _ => 0,
    }
}

/// What was made ready for a change.
enum Prepared {
    Nothing,
    /// The log's new place.
    Log(Sink),
    /// Sockets that are bound; nobody is let in yet.
    Listeners,
    /// What new encrypted connections begin with.
    Tls(Option<Arc<tls::Contexts>>),
    /// More workers, or fewer; so many there were.
    Workers(usize),
    /// The new directory was entered; this was the one before.
    Directory(OwnedFd),
    /// The append-only file was begun.
    AppendOnly,
    /// The kernel was told another out-of-memory score.
    OomScore,
}

/// What was made ready so far. Unless it is published it is abandoned, in a panic too.
struct Preparations {
    server: &'static Server,
    ready: Vec<Prepared>,
}

impl Preparations {
    fn publish(mut self) {
        self.ready.drain(..).for_each(|ready| ready.publish(self.server));
    }
}

impl Drop for Preparations {
    fn drop(&mut self) {
        self.ready.drain(..).rev().for_each(|ready| ready.abandon(self.server));
    }
}

impl Prepared {
    fn publish(self, server: &'static Server) {
        match self {
            Self::Log(sink) => server.log.change(sink),
            Self::Listeners => listeners::finish(server, true),
            Self::Tls(contexts) => server.tls.change(contexts),
            Self::Nothing
            | Self::Workers(_)
            | Self::Directory(_)
            | Self::AppendOnly
            | Self::OomScore => {}
        }
    }

    fn abandon(self, server: &'static Server) {
        match self {
            Self::Listeners => listeners::finish(server, false),
            Self::Workers(before) => {
                if let Err(error) = server.worker_pool.resize(server, before) {
                    log_warning!(server.log, "Cannot start the workers: {}", plain(&error));
                }
            }
            Self::Directory(before) => {
                if let Err(error) = fchdir(before) {
                    let why = plain(&error.into());
                    log_warning!(server.log, "Cannot go back to the directory before: {why}");
                }
                if let Err(why) = server.snapshot_claim.take_if_due(server, &server.config) {
                    log_warning!(server.log, "{why}");
                }
            }
            // Nothing can fail behind it but by a bug.
            Self::AppendOnly => aof::switch_off(server),
            Self::OomScore => {
                let is_replica = server.replica_role.is_replica();
                // The log says what could not be done.
                let _ = oom_score::adjust(&server.config, is_replica, &server.log);
            }
            Self::Nothing | Self::Log(_) | Self::Tls(_) => {}
        }
    }
}

/// Why `dir` stays as it is.
const CONFINED: &str = "the sandbox confines the server to the directory that it was started in. \
                        Start it with the other one, or with sandbox no";

/// Makes ready what can fail, by the configuration as it would be; `name` is the option that asks
/// for it, and the error is for the client.
fn prepare(
    server: &'static Server,
    effect: Effect,
    name: &str,
    config: &Config,
) -> Result<Prepared, String> {
    match effect {
        Effect::Listeners => match listeners::reserve(server, config) {
            Ok(()) => return Ok(Prepared::Listeners),
            Err(()) if name == "bind" => {
                return Err("Failed to bind to specified addresses.".to_owned());
            }
            Err(()) => return Err("Unable to listen on this port. Check server logs.".to_owned()),
        },
        Effect::Tls => return prepare_tls(server, config).map(Prepared::Tls),
        Effect::MaxClients => fit_open_files(server, config.get(MAXCLIENTS))?,
        Effect::Workers => {
            let before = server.worker_count();
            let size = server.cores.workforce(config.get(WORKER_THREADS)).workers;
            let resized = server.worker_pool.resize(server, size);
            return resized.map(|()| Prepared::Workers(before)).map_err(|error| plain(&error));
        }
        Effect::Directory if config.get(SANDBOX) => {
            return Err(CONFINED.to_owned());
        }
        Effect::Directory => {
            let plainly = |error: rustix::io::Errno| plain(&error.into());
            let here = open(".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(plainly)?;
            enter_directory(config)?;
            // Where snapshots of another process lie the old one stays.
            return match server.snapshot_claim.take_if_due(server, config) {
                Ok(()) => Ok(Prepared::Directory(here)),
                Err(why) => {
                    Prepared::Directory(here).abandon(server);
                    Err(why)
                }
            };
        }
        Effect::Logging => return server.log.prepare(config).map(Prepared::Log),
        Effect::OomScore => {
            let is_replica = server.replica_role.is_replica();
            oom_score::adjust(config, is_replica, &server.log)?;
            return Ok(Prepared::OomScore);
        }
        Effect::SaveSchedule => server.snapshot_claim.take_if_due(server, config)?,
        Effect::AppendOnly if server.loading.is_on() => {}
        Effect::AppendOnly if config.get(APPENDONLY) && !server.config.get(APPENDONLY) => {
            return aof::switch(server, true).map(|()| Prepared::AppendOnly);
        }
        Effect::AppendOnly if config.get(APPENDONLY) => aof::switch(server, true)?,
        _ => {}
    }
    Ok(Prepared::Nothing)
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
    let begun = server.tls.begin(server.cores.workforce(config.get(WORKER_THREADS)).workers);
    begun.map_err(|error| format!("Cannot start the threads of handshakes: {}", plain(&error)))?;
    Ok(Some(Arc::new(contexts)))
}

/// Brings in line what needs no more than a store; done once for all at the start.
pub(crate) fn apply_settings(server: &'static Server) {
    server.budget.configure(&server.config, &server.replica_role);
    for effect in [
        Effect::KeyspaceSettings,
        Effect::CommandLog,
        Effect::LatencyMonitor,
        Effect::NewUsers,
        Effect::Password,
        Effect::Replication,
    ] {
        apply_effect(server, effect);
    }
}

/// Enters the configured working directory.
pub(crate) fn enter_directory(config: &Config) -> Result<(), String> {
    std::env::set_current_dir(OsStr::from_bytes(&config.get(DIR))).map_err(|error| plain(&error))
}

/// Brings in line what cannot fail with the configuration as it is.
fn apply_effect(server: &'static Server, effect: Effect) {
    match effect {
        Effect::Affinity => server.worker_pool.rebind(),
        Effect::MaxMemory => {
            server.budget.configure(&server.config, &server.replica_role);
            warn_of_small_limit(server);
        }
        Effect::KeyspaceSettings => store_settings(server),
        Effect::CommandLog => server.command_log.configure(&server.config),
        Effect::LatencyMonitor => {
            server.latency.configure(server.config.get(LATENCY_MONITOR_THRESHOLD));
        }
        Effect::OutputLimits => {
            output_limit::review(server);
            // What a replica holds of its primary's stream goes by it, too.
            server.links.configure(server);
        }
        Effect::Replication => server.links.configure(server),
        Effect::TrackingTable => server.tracking.fit_table(server.surroundings()),
        Effect::AppendOnly => {
            // The load looks at its end.
            if !server.loading.is_on() && !server.config.get(APPENDONLY) {
                aof::switch_off(server);
            }
            // A replica tells what its log has.
            server.links.configure(server);
        }
        Effect::Watchdog => crash::look_again(),
        Effect::AppendSync => server.aof.policy_changed(server),
        // A client that is in stays in, as in Redis.
        Effect::Password => users::adopt_password(server),
        Effect::NewUsers => {
            let channels = server.config.get(ACL_PUBSUB_DEFAULT);
            server.users.set_all_channels(channels == AclPubsubDefault::AllChannels);
        }
        // What can fail was done before, and the title follows in any case.
        Effect::Listeners
        | Effect::MaxClients
        | Effect::Workers
        | Effect::Directory
        | Effect::Logging
        | Effect::ProcessTitle
        // The points of `save` are read whenever the slow clock looks.
        | Effect::SaveSchedule
        | Effect::OomScore
        // What this would change is not there yet.
        | Effect::Tls
        | Effect::None => {}
    }
}

fn fit_open_files(server: &Server, wanted: u32) -> Result<(), String> {
    let possible = limits::raise_open_files(&server.log, wanted)?;
    if possible == wanted {
        return Ok(());
    }
    Err(format!(
        "The operating system is not able to handle the specified number of clients, try with \
         {possible}"
    ))
}

fn warn_of_small_limit(server: &Server) {
    let (limit, used) = (server.budget.limit(), server.budget.used_exactly() as u64);
    if limit > 0 && limit < used {
        log_warning!(
            server.log,
            "WARNING: the new maxmemory value set via CONFIG SET ({limit}) is smaller than the \
             current memory usage ({used}). This will result in key eviction and/or the inability \
             to accept new write commands depending on the maxmemory-policy."
        );
    }
}
