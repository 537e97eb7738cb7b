//! What the server does when an option changes, and at its start with all options.
//!
//! A change is checked, then what can fail is prepared by the configuration as it would be, then
//! all of it is published at once. Invariants: a change that fails is seen by nobody, neither in a
//! value nor in what it would have brought about; what is published cannot fail.

pub(crate) mod prepared;

use config::settings::{
    ACL_PUBSUB_DEFAULT, APPENDONLY, CLUSTER_COMPATIBILITY_SAMPLE_RATIO, CLUSTER_ENABLED,
    CLUSTER_SLOT_STATS_ENABLED, LATENCY_MONITOR_THRESHOLD, MAXCLIENTS,
};
use config::{AclPubsubDefault, Config, Draft, DraftedOption, SetError};
use durability::aof;
use engine::keyspace_settings::store_settings;
use engine::runtime::failpoint;
use engine::runtime::log::log_warning;
use engine::runtime::panics::AbortOnPanic;
use engine::runtime::process_title;
use engine::runtime::system_limits;
use prepared::{
    Prepared, prepare_directory, prepare_listeners, prepare_log_file, prepare_oom_score,
    prepare_tls, prepare_workers,
};

use crate::control::key_statistics;
use crate::control::users;
use crate::net::output_limit;
use crate::server::Server;

/// What the server does when any of some directives changes.
struct ConfigEffect {
    /// The directives.
    of: &'static [&'static str],
    /// Whether the effect happens as well where CONFIG SET names one with the value that it has.
    applies_unchanged: bool,
    /// Whether what cannot fail of it is done at the start, too.
    at_start: bool,
    /// Makes ready what can fail, by the configuration as it would be. The name is the directive
    /// that asks for it, and the error is for the client.
    prepare: fn(&'static Server, &str, &Config) -> Result<Prepared, String>,
    /// Brings in line what cannot fail with the configuration as it is.
    apply: fn(&'static Server),
}

const NO_EFFECT: ConfigEffect = ConfigEffect {
    of: &[],
    applies_unchanged: false,
    at_start: false,
    prepare: |_, _, _| Ok(Prepared::Nothing),
    apply: |_| (),
};

/// All of them, in the order in which they are prepared and applied: what is hard to take back
/// comes late, and behind the log, which may begin in a new directory, nothing can fail. A
/// directive may stand in several; one that stands in none is read where it is needed.
const EFFECTS: &[ConfigEffect] = &[
    // Encodings, limits, eviction, events: a plain store away for each command.
    ConfigEffect {
        of: &[
            "proto-max-bulk-len",
            "hash-max-listpack-entries",
            "hash-max-listpack-value",
            "list-max-listpack-size",
            "set-max-intset-entries",
            "set-max-listpack-entries",
            "set-max-listpack-value",
            "zset-max-listpack-entries",
            "zset-max-listpack-value",
            "stream-node-max-bytes",
            "stream-node-max-entries",
            "stream-idmp-duration",
            "stream-idmp-maxsize",
            "hll-sparse-max-bytes",
            "maxmemory-policy",
            "lfu-log-factor",
            "lfu-decay-time",
            "notify-keyspace-events",
            "rdbcompression",
            "rdb-write-version",
            "import-mode",
        ],
        at_start: true,
        apply: |server| store_settings(server),
        ..NO_EFFECT
    },
    // The slow log and its kin get another size.
    ConfigEffect {
        of: &[
            "slowlog-log-slower-than",
            "slowlog-max-len",
            "commandlog-request-larger-than",
            "commandlog-large-request-max-len",
            "commandlog-reply-larger-than",
            "commandlog-large-reply-max-len",
        ],
        at_start: true,
        apply: |server| server.observed.command_log.configure(&server.config),
        ..NO_EFFECT
    },
    // Slow events are noted from another duration on.
    ConfigEffect {
        of: &["latency-monitor-threshold"],
        at_start: true,
        apply: |server| {
            server.observed.latency.configure(server.config.get(LATENCY_MONITOR_THRESHOLD));
        },
        ..NO_EFFECT
    },
    // The statistics of keys are told what they are to keep.
    ConfigEffect {
        of: &["hot-keys-sample", "big-keys", "key-prefixes"],
        at_start: true,
        apply: |server| key_statistics::configure(server),
        ..NO_EFFECT
    },
    // Accounts are kept, or not, and have other limits.
    ConfigEffect {
        of: &["usage-accounting", "user-quota", "db-quota"],
        at_start: true,
        apply: |server| {
            let now_us = server.keyspace.clock().monotonic_us();
            server.gates.quotas.configure(&server.config, now_us);
        },
        ..NO_EFFECT
    },
    // What new users begin with.
    ConfigEffect {
        of: &["acl-pubsub-default"],
        at_start: true,
        apply: |server| {
            let channels = server.config.get(ACL_PUBSUB_DEFAULT);
            server.access.users.set_all_channels(channels == AclPubsubDefault::AllChannels);
        },
        ..NO_EFFECT
    },
    // The default user gets the password, which ACL SETUSER may have changed since. A client
    // that is in stays in, as in Redis.
    ConfigEffect {
        of: &["requirepass"],
        applies_unchanged: true,
        at_start: true,
        apply: |server| users::adopt_password(server),
        ..NO_EFFECT
    },
    // Links to replicas and to the primary.
    ConfigEffect {
        of: &[
            "masterauth",
            "masteruser",
            "replica-serve-stale-data",
            "replica-read-only",
            "replica-priority",
            "replica-announced",
            "replica-announce-ip",
            "replica-announce-port",
            "repl-ping-replica-period",
            "repl-timeout",
            "repl-disable-tcp-nodelay",
            "repl-backlog-size",
            "repl-backlog-ttl",
            "repl-diskless-sync",
            "repl-diskless-sync-delay",
            "repl-diskless-sync-max-replicas",
            "repl-diskless-load",
            "repl-rdb-channel",
            "replica-full-sync-buffer-limit",
            "dual-channel-replication-enabled",
            "min-replicas-to-write",
            "min-replicas-max-lag",
            "rdb-write-version",
        ],
        at_start: true,
        apply: |server| server.links.configure(server),
        ..NO_EFFECT
    },
    // Figures of hash slots are kept, or not.
    ConfigEffect {
        of: &["cluster-slot-stats-enabled"],
        at_start: true,
        apply: |server| {
            let is_wanted = server.config.get(CLUSTER_SLOT_STATS_ENABLED);
            server.observed.slot_stats.set(is_wanted && server.config.get(CLUSTER_ENABLED));
        },
        ..NO_EFFECT
    },
    // What a cluster would refuse is counted, or not.
    ConfigEffect {
        of: &["cluster-compatibility-sample-ratio"],
        at_start: true,
        apply: |server| {
            let is_node = server.config.get(CLUSTER_ENABLED);
            let ratio = server.config.get(CLUSTER_COMPATIBILITY_SAMPLE_RATIO);
            let ratio = if is_node { 0 } else { ratio };
            server.keyspace.compatibility().set(ratio);
            server.gates.routing.check_requests(ratio > 0);
        },
        ..NO_EFFECT
    },
    // The node of the cluster is told.
    ConfigEffect {
        of: &[
            "cluster-node-timeout",
            "cluster-announce-ip",
            "cluster-announce-port",
            "cluster-announce-tls-port",
            "cluster-announce-bus-port",
            "cluster-announce-hostname",
            "cluster-announce-human-nodename",
            "cluster-announce-client-ipv4",
            "cluster-announce-client-ipv6",
            "cluster-announce-client-port",
            "cluster-announce-client-tls-port",
            "cluster-ping-interval",
            "cluster-preferred-endpoint-type",
            "cluster-replica-validity-factor",
            "cluster-replica-no-failover",
            "cluster-migration-barrier",
            "cluster-allow-replica-migration",
            "cluster-require-full-coverage",
            "cluster-allow-reads-when-down",
            "cluster-allow-pubsubshard-when-down",
            "cluster-allow-cross-slot",
            "cluster-proxy",
            "cluster-blacklist-ttl",
            "cluster-manual-failover-timeout",
        ],
        apply: |server| server.cluster.configure(server),
        ..NO_EFFECT
    },
    // Memory fits its limit.
    ConfigEffect {
        of: &["maxmemory", "replica-ignore-maxmemory"],
        apply: |server| {
            server.memory.budget.configure(&server.config, &server.gates.replica_role);
            // A replica that evicts has its log told of it.
            server.links.configure(server);
            warn_of_small_limit(server);
        },
        ..NO_EFFECT
    },
    // Workers are bound to cores, or freed.
    ConfigEffect {
        of: &["server-thread-affinity"],
        apply: |server| server.worker_pool.rebind(),
        ..NO_EFFECT
    },
    // Sessions look anew at what they could not send. What a replica holds of its primary's
    // stream goes by it, too.
    ConfigEffect {
        of: &["client-output-buffer-limit"],
        apply: |server| {
            output_limit::review(server);
            server.links.configure(server);
        },
        ..NO_EFFECT
    },
    // The table of clients' copies fits its limit.
    ConfigEffect {
        of: &["tracking-table-max-keys"],
        apply: |server| server.pushes.tracking.fit_table(server.tracking_context()),
        ..NO_EFFECT
    },
    // Event loops are looked at more often, or less.
    ConfigEffect { of: &["watchdog-period"], apply: |_| crash::reset_watchdog(), ..NO_EFFECT },
    // Replies wait for the disk, or not.
    ConfigEffect {
        of: &["appendfsync"],
        apply: |server| server.aof.policy_changed(server),
        ..NO_EFFECT
    },
    // The limit of open files is raised; the value may prove unreachable.
    ConfigEffect {
        of: &["maxclients"],
        prepare: |server, _, config| {
            fit_open_files(server, config.get(MAXCLIENTS)).map(|()| Prepared::Nothing)
        },
        ..NO_EFFECT
    },
    // The log is opened anew, or filtered anew.
    ConfigEffect {
        of: &["loglevel", "log-format", "log-timestamp-format"],
        prepare: |server, _, config| server.log.prepare(config).map(Prepared::Log),
        ..NO_EFFECT
    },
    // The kernel is told the new out-of-memory scores.
    ConfigEffect {
        of: &["oom-score-adj", "oom-score-adj-values"],
        prepare: |server, _, config| prepare_oom_score(server, config),
        ..NO_EFFECT
    },
    // Saves may go to another file. The points of `save` are read whenever the slow clock looks.
    ConfigEffect {
        of: &["dbfilename", "save"],
        prepare: |server, _, config| {
            server.snapshot_claim.take_if_due(server, config).map(|()| Prepared::Nothing)
        },
        ..NO_EFFECT
    },
    // Certificates and keys are loaded anew. A client that comes by a new port is to be answered
    // by something.
    ConfigEffect {
        of: &[
            "tls-cert-file",
            "tls-key-file",
            "tls-key-file-pass",
            "tls-client-cert-file",
            "tls-client-key-file",
            "tls-client-key-file-pass",
            "tls-ca-cert-file",
            "tls-ca-cert-dir",
            "tls-auth-clients",
            "tls-expected-peer-name",
            "tls-replication",
            "tls-cluster",
            "tls-protocols",
            "tls-ciphers",
            "tls-ciphersuites",
            "tls-groups",
            "tls-prefer-server-ciphers",
            "tls-session-caching",
            "tls-session-cache-size",
            "tls-session-cache-timeout",
            "tls-port",
        ],
        prepare: |server, _, config| prepare_tls(server, config).map(Prepared::Tls),
        ..NO_EFFECT
    },
    // Metrics and spans are exported elsewhere, in another way, or no longer.
    ConfigEffect {
        of: &[
            "otlp-endpoint",
            "otlp-headers",
            "otlp-interval",
            "otlp-traces",
            "otlp-arguments",
            "otlp-service-name",
            "otlp-service-instance-id",
            "tls-cert-file",
            "tls-key-file",
            "tls-key-file-pass",
            "tls-client-cert-file",
            "tls-client-key-file",
            "tls-client-key-file-pass",
            "tls-ca-cert-file",
            "tls-ca-cert-dir",
            "tls-protocols",
            "tls-ciphers",
            "tls-ciphersuites",
            "tls-groups",
        ],
        prepare: |server, _, config| {
            server.telemetry.prepare(server, config).map(Prepared::Exports)
        },
        ..NO_EFFECT
    },
    // Workers are started or ended.
    ConfigEffect {
        of: &["worker-threads"],
        prepare: |server, _, config| prepare_workers(server, config),
        ..NO_EFFECT
    },
    // TCP listeners are opened and closed.
    ConfigEffect { of: &["port", "bind", "tls-port"], prepare: prepare_listeners, ..NO_EFFECT },
    // The working directory.
    ConfigEffect {
        of: &["dir"],
        prepare: |server, _, config| prepare_directory(server, config),
        ..NO_EFFECT
    },
    // The journal's file is turned on or off.
    ConfigEffect {
        of: &["appendonly"],
        prepare: |server, _, config| prepare_log_file(server, config),
        apply: follow_log_file,
        ..NO_EFFECT
    },
];

/// CONFIG SET: changes all values with their effects, or none. The change may wait, so it is not
/// for workers.
pub(crate) fn change_config(
    server: &'static Server,
    pairs: &[&[u8]],
    is_local: bool,
) -> Result<(), SetError> {
    let _turn = server.take_config_turn();
    let draft = server.config.draft(pairs, is_local)?;
    let effects = EFFECTS.iter().filter_map(|effect| Some((effect, effect.cause(&draft)?)));
    let effects: Vec<_> = effects.collect();
    let mut preparations = Preparations { server, ready: Vec::new() };
    for (effect, name) in &effects {
        let ready = (effect.prepare)(server, name, &draft.config);
        preparations.ready.push(ready.map_err(|why| SetError::refused(name, why))?);
        failpoint::point();
    }
    let unbroken =
        AbortOnPanic::begin(server.keyspace, "a change of the configuration was half made");
    server.config.publish(&draft);
    failpoint::point();
    // The right to come in is decided before a client comes by a new socket.
    effects.iter().for_each(|(effect, _)| (effect.apply)(server));
    failpoint::point();
    preparations.publish();
    unbroken.end();
    process_title::update(&server.config, server.identity.port());
    Ok(())
}

impl ConfigEffect {
    /// What the client called the first option that has it happen, if one has.
    fn cause<'d>(&self, draft: &'d Draft) -> Option<&'d str> {
        let is_cause = |option: &&DraftedOption| {
            self.of.contains(&option.name) && (option.is_new || self.applies_unchanged)
        };
        draft.options.iter().find(is_cause).map(|option| &*option.called)
    }
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

/// Brings in line what needs no more than a store; done once for all at the start.
pub(crate) fn apply_settings(server: &'static Server) {
    server.memory.budget.configure(&server.config, &server.gates.replica_role);
    let at_start = EFFECTS.iter().filter(|effect| effect.at_start);
    at_start.for_each(|effect| (effect.apply)(server));
}

fn follow_log_file(server: &'static Server) {
    // The load looks at its end.
    if !server.gates.loading.is_on() && !server.config.get(APPENDONLY) {
        aof::switch_off(server);
    }
    // A replica tells what its log has.
    server.links.configure(server);
}

fn fit_open_files(server: &Server, wanted: u32) -> Result<(), String> {
    let possible = system_limits::raise_open_files(&server.log, wanted)?;
    if possible == wanted {
        return Ok(());
    }
    Err(format!(
        "The operating system is not able to handle the specified number of clients, try with \
         {possible}"
    ))
}

fn warn_of_small_limit(server: &Server) {
    let (limit, used) = (server.memory.budget.limit(), server.memory.budget.used_exactly() as u64);
    if limit > 0 && limit < used {
        log_warning!(
            server.log,
            "WARNING: the new maxmemory value set via CONFIG SET ({limit}) is smaller than the \
             current memory usage ({used}). This will result in key eviction and/or the inability \
             to accept new write commands depending on the maxmemory-policy."
        );
    }
}

#[cfg(test)]
mod tests {
    use config::ConfigOption;

    use super::EFFECTS;

    #[test]
    fn effects_are_of_directives_that_there_are() {
        for effect in EFFECTS {
            assert!(!effect.of.is_empty());
            for (place, name) in effect.of.iter().enumerate() {
                let option = ConfigOption::named(name.as_bytes());
                assert_eq!(option.map(|option| option.name), Some(*name));
                assert!(!effect.of[..place].contains(name), "{name} twice");
            }
        }
    }
}
