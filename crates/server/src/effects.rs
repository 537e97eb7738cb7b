//! What the server does when an option changes, and at its start with all options.
//!
//! Invariant: an effect reads the configuration and brings one thing in line with it, so performing
//! it twice does no harm, and after an undo performing it again brings the old state back.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

use keyspace::AccessPolicy;

use crate::aof;
use crate::config::settings::{
    ACL_PUBSUB_DEFAULT, DIR, HASH_MAX_LISTPACK_ENTRIES, HASH_MAX_LISTPACK_VALUE,
    HLL_SPARSE_MAX_BYTES, IMPORT_MODE, LATENCY_MONITOR_THRESHOLD, LFU_DECAY_TIME, LFU_LOG_FACTOR,
    LIST_MAX_LISTPACK_SIZE, MAXCLIENTS, MAXMEMORY_POLICY, NOTIFY_KEYSPACE_EVENTS,
    PROTO_MAX_BULK_LEN, RDBCOMPRESSION, SET_MAX_INTSET_ENTRIES, SET_MAX_LISTPACK_ENTRIES,
    SET_MAX_LISTPACK_VALUE, STREAM_IDMP_DURATION, STREAM_IDMP_MAXSIZE, STREAM_NODE_MAX_BYTES,
    STREAM_NODE_MAX_ENTRIES, WORKER_THREADS, ZSET_MAX_LISTPACK_ENTRIES, ZSET_MAX_LISTPACK_VALUE,
};
use crate::config::{AclPubsubDefault, Config, Effect, MaxmemoryPolicy, SetError};
use crate::log::log_warning;
use crate::notifications;
use crate::reception::{self, plain};
use crate::server::Server;
use crate::startup::limits;
use crate::users;

/// No string becomes longer, whatever `proto-max-bulk-len` says: its bits have to be counted.
const STRING_LEN_MAX: u64 = (1 << 60) - 1;

/// CONFIG SET: changes values and performs their effects, all or none. It may wait, so it is not
/// for workers.
pub(crate) fn change_config(
    server: &'static Server,
    pairs: &[&[u8]],
    is_local: bool,
) -> Result<(), SetError> {
    let _turn = server.config_turn.lock().expect("no critical section here panics");
    let change = server.config.set_many(pairs, is_local)?;
    for (done, (effect, name)) in change.effects.iter().enumerate() {
        let Err(why) = perform(server, *effect, name) else { continue };
        let (performed, name) = (change.effects[..done].to_vec(), name.clone());
        let error = server.config.undo(change, &name, why);
        for (effect, name) in performed {
            // It held before, and there is nobody to tell if it no longer does.
            let _ = perform(server, effect, &name);
        }
        return Err(error);
    }
    Ok(())
}

/// Brings in line what needs no more than a store; done once for all at the start.
pub(crate) fn apply_settings(server: &'static Server) {
    server.budget.configure(&server.config);
    for effect in [
        Effect::KeyspaceSettings,
        Effect::CommandLog,
        Effect::LatencyMonitor,
        Effect::NewUsers,
        Effect::Password,
    ] {
        perform(server, effect, "").expect("storing a number does not fail");
    }
}

/// Has what was accepted once be accepted again, whatever the configuration says of what comes now,
/// or has it count again.
pub(crate) fn set_replays(server: &'static Server, replays: bool) {
    server.keyspace.settings().replays.store(replays, Ordering::Relaxed);
    apply_settings(server);
}

/// Enters the configured working directory.
pub(crate) fn enter_directory(config: &Config) -> Result<(), String> {
    std::env::set_current_dir(OsStr::from_bytes(&config.get(DIR))).map_err(|error| plain(&error))
}

/// The same at run time: where snapshots of another process lie the old one stays.
fn turn_to_directory(server: &Server) -> Result<(), String> {
    let before = std::env::current_dir().map_err(|error| plain(&error))?;
    enter_directory(&server.config)?;
    server.snapshot_claim.take_if_due(server).inspect_err(|_| {
        // It was there a moment ago.
        let _ = std::env::set_current_dir(&before);
    })
}

/// Performs an effect that the option called `name` asked for; the error is for the client.
fn perform(server: &'static Server, effect: Effect, name: &str) -> Result<(), String> {
    match effect {
        Effect::Listeners => reception::rebind(server).map_err(|()| match name {
            "bind" => "Failed to bind to specified addresses.".to_owned(),
            _ => "Unable to listen on this port. Check server logs.".to_owned(),
        }),
        Effect::MaxClients => fit_open_files(server),
        Effect::Workers => {
            let asked = server.config.get(WORKER_THREADS);
            let size = server.cores.workforce(asked).workers;
            server.crew.resize(server, size).map_err(|error| plain(&error))
        }
        Effect::Affinity => {
            server.crew.rebind();
            Ok(())
        }
        Effect::MaxMemory => {
            server.budget.configure(&server.config);
            warn_of_small_limit(server);
            Ok(())
        }
        Effect::KeyspaceSettings => {
            store_settings(server);
            Ok(())
        }
        Effect::Directory => turn_to_directory(server),
        Effect::SaveSchedule => server.snapshot_claim.take_if_due(server),
        Effect::Logging => server.log.reopen(&server.config),
        Effect::CommandLog => {
            server.command_log.configure(&server.config);
            Ok(())
        }
        Effect::LatencyMonitor => {
            server.latency.configure(server.config.get(LATENCY_MONITOR_THRESHOLD));
            Ok(())
        }
        // Whoever loads looks at the end.
        Effect::AppendOnly if server.loading.is_on() => Ok(()),
        Effect::AppendOnly => aof::follow_config(server),
        Effect::AppendSync => {
            server.aof.policy_changed(server);
            Ok(())
        }
        // Who is in stays in, as in Redis.
        Effect::Password => {
            users::adopt_password(server);
            Ok(())
        }
        Effect::NewUsers => {
            let channels = server.config.get(ACL_PUBSUB_DEFAULT);
            server.users.set_all_channels(channels == AclPubsubDefault::AllChannels);
            Ok(())
        }
        // What these would change is not there yet.
        Effect::Backlog | Effect::ProcessTitle | Effect::OomScore | Effect::Tls | Effect::None => {
            Ok(())
        }
    }
}

fn fit_open_files(server: &Server) -> Result<(), String> {
    let wanted = server.config.get(MAXCLIENTS);
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

fn store_settings(server: &Server) {
    let (config, settings) = (&server.config, server.keyspace.settings());
    let policy = match config.get(MAXMEMORY_POLICY) {
        MaxmemoryPolicy::AllkeysLfu | MaxmemoryPolicy::VolatileLfu => AccessPolicy::Frequency,
        MaxmemoryPolicy::AllkeysLrm | MaxmemoryPolicy::VolatileLrm => AccessPolicy::Changes,
        MaxmemoryPolicy::AllkeysApus => AccessPolicy::Worth,
        _ => AccessPolicy::Accesses,
    };
    settings.access_policy.store(policy as u8, Ordering::Relaxed);
    // Under another policy there may be keys to evict.
    server.budget.note_exhausted(false);
    let events = notifications::mask(config.get(NOTIFY_KEYSPACE_EVENTS));
    settings.events.store(events, Ordering::Relaxed);
    // While a log is run again it says when keys go, and how long strings may be.
    let replays = settings.replays();
    settings.expiry_suspended.store(config.get(IMPORT_MODE) || replays, Ordering::Relaxed);
    let longest = if replays { STRING_LEN_MAX } else { config.get(PROTO_MAX_BULK_LEN) as u64 };
    settings.max_string.store(longest.min(STRING_LEN_MAX), Ordering::Relaxed);
    settings.lfu_log_factor.store(config.get(LFU_LOG_FACTOR), Ordering::Relaxed);
    settings.lfu_decay_time.store(config.get(LFU_DECAY_TIME), Ordering::Relaxed);
    settings.compresses_dumps.store(config.get(RDBCOMPRESSION), Ordering::Relaxed);
    let containers = &settings.containers;
    containers.hash_entries.set(config.get(HASH_MAX_LISTPACK_ENTRIES));
    containers.hash_value.set(config.get(HASH_MAX_LISTPACK_VALUE));
    containers.set_intset_entries.set(config.get(SET_MAX_INTSET_ENTRIES));
    containers.set_entries.set(config.get(SET_MAX_LISTPACK_ENTRIES));
    containers.set_value.set(config.get(SET_MAX_LISTPACK_VALUE));
    containers.sorted_set_entries.set(config.get(ZSET_MAX_LISTPACK_ENTRIES));
    containers.sorted_set_value.set(config.get(ZSET_MAX_LISTPACK_VALUE));
    containers.list_size.store(config.get(LIST_MAX_LISTPACK_SIZE), Ordering::Relaxed);
    containers.stream_node_bytes.set(config.get(STREAM_NODE_MAX_BYTES));
    containers.stream_node_entries.set(config.get(STREAM_NODE_MAX_ENTRIES));
    containers.stream_idmp_seconds.set(config.get(STREAM_IDMP_DURATION));
    containers.stream_idmp_size.set(config.get(STREAM_IDMP_MAXSIZE));
    containers.hyperloglog_sparse_bytes.set(config.get(HLL_SPARSE_MAX_BYTES));
}
