//! What the commands of the family are.
//!
//! Invariant: every command declared here stands in `COMMANDS`.

use std::sync::atomic::Ordering;

use cluster::ClientRoute;
use commands::declare::{Command, Flags, Group, LockPlan, Role, Spec, at_least, exactly};
use engine::clients::registry::client_flags;
use keyspace::Refusal;
use proto::{Args, Reply};

use super::{admin, declared_moves, info, nodes, rebalance, shards, slot_keys, slot_stats};
use crate::control::context::{Context, ControlCommand, ControlHandler, ControlOutcome};
use crate::control::help::{self, container};
use crate::server::Server;

/// All commands of the family.
pub(crate) const COMMANDS: &[&ControlCommand] = &[&ASKING, &CLUSTER, &READONLY, &READWRITE];

/// What reads the state of the cluster.
const OF_CLUSTER: Spec =
    Spec { group: Group::Cluster, flags: Flags::STALE.and(Flags::IDEMPOTENT), ..Spec::BASE };

/// What changes the state of the cluster.
const CHANGES_CLUSTER: Spec = Spec {
    flags: Flags::ADMIN.and(Flags::STALE).and(Flags::NO_ASYNC_LOADING).and(Flags::IDEMPOTENT),
    plan: LockPlan::World,
    ..OF_CLUSTER
};

const ASKING: ControlCommand = Command {
    spec: Spec {
        name: "ASKING",
        role: Role::Asking,
        since: "3.0.0",
        group: Group::Cluster,
        summary: "Signals that a cluster client is following an -ASK redirect.",
        complexity: "O(1)",
        arity: exactly(1),
        flags: Flags::FAST.and(Flags::SESSION),
        categories: &["@connection"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: asking,
};

const READONLY: ControlCommand = Command {
    spec: Spec {
        name: "READONLY",
        since: "3.0.0",
        group: Group::Cluster,
        summary: "Enables read-only queries for a connection to a Redis Cluster replica node.",
        complexity: "O(1)",
        arity: exactly(1),
        flags: Flags::LOADING.and(Flags::STALE).and(Flags::FAST).and(Flags::SESSION),
        categories: &["@connection"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: read_only,
};

const READWRITE: ControlCommand = Command {
    spec: Spec {
        name: "READWRITE",
        since: "3.0.0",
        group: Group::Cluster,
        summary: "Enables read-write queries for a connection to a Redis Cluster replica node.",
        complexity: "O(1)",
        arity: exactly(1),
        flags: Flags::LOADING.and(Flags::STALE).and(Flags::FAST).and(Flags::SESSION),
        categories: &["@connection"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: read_write,
};

const CLUSTER: ControlCommand = Command {
    spec: Spec {
        name: "CLUSTER",
        since: "3.0.0",
        group: Group::Cluster,
        summary: "A container for Redis Cluster commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        ..Spec::BASE
    },
    subcommands: &[
        declared_moves::CANCELSLOTMIGRATIONS,
        declared_moves::GETSLOTMIGRATIONS,
        declared_moves::MIGRATESLOTS,
        declared_moves::MIGRATION,
        declared_moves::SYNCSLOTS,
        offered(
            admin::add_slots,
            Spec {
                name: "ADDSLOTS",
                since: "3.0.0",
                syntax: "slot [slot ...]",
                summary: "Assigns new hash slots to a node.",
                complexity: "O(N) where N is the total number of hash slot arguments",
                arity: at_least(3),
                ..CHANGES_CLUSTER
            },
        ),
        offered(
            admin::add_slot_ranges,
            Spec {
                name: "ADDSLOTSRANGE",
                since: "7.0.0",
                syntax: "start-slot end-slot [start-slot end-slot ...]",
                summary: "Assigns new hash slot ranges to a node.",
                complexity: "O(N) where N is the total number of the slots between the start slot \
                    and end slot arguments.",
                arity: at_least(4),
                ..CHANGES_CLUSTER
            },
        ),
        offered(
            admin::bump_epoch,
            Spec {
                name: "BUMPEPOCH",
                since: "3.0.0",
                summary: "Advances the cluster config epoch.",
                complexity: "O(1)",
                arity: exactly(2),
                tips: &["nondeterministic_output"],
                ..CHANGES_CLUSTER
            },
        ),
        offered(
            slot_keys::count_keys,
            Spec {
                name: "COUNTKEYSINSLOT",
                since: "3.0.0",
                syntax: "slot",
                summary: "Returns the number of keys in a hash slot.",
                complexity: "O(1)",
                arity: exactly(3),
                ..OF_CLUSTER
            },
        ),
        offered(
            |context, _, _| read(context, nodes::failure_reports),
            Spec {
                name: "COUNT-FAILURE-REPORTS",
                since: "3.0.0",
                group: Group::Cluster,
                syntax: "node-id",
                summary: "Returns the number of active failure reports active for a node.",
                complexity: "O(N) where N is the number of failure reports",
                arity: exactly(3),
                flags: Flags::ADMIN.and(Flags::STALE).and(Flags::IDEMPOTENT),
                tips: &["nondeterministic_output"],
                ..Spec::BASE
            },
        ),
        offered(
            admin::delete_slots,
            Spec {
                name: "DELSLOTS",
                since: "3.0.0",
                syntax: "slot [slot ...]",
                summary: "Sets hash slots as unbound for a node.",
                complexity: "O(N) where N is the total number of hash slot arguments",
                arity: at_least(3),
                ..CHANGES_CLUSTER
            },
        ),
        offered(
            admin::delete_slot_ranges,
            Spec {
                name: "DELSLOTSRANGE",
                since: "7.0.0",
                syntax: "start-slot end-slot [start-slot end-slot ...]",
                summary: "Sets hash slot ranges as unbound for a node.",
                complexity: "O(N) where N is the total number of the slots between the start slot \
                    and end slot arguments.",
                arity: at_least(4),
                ..CHANGES_CLUSTER
            },
        ),
        offered(
            admin::fail_over,
            Spec {
                name: "FAILOVER",
                role: Role::ClusterFailover,
                since: "3.0.0",
                syntax: "[FORCE | TAKEOVER]",
                summary: "Forces a replica to perform a manual failover of its master.",
                complexity: "O(1)",
                arity: at_least(2),
                ..CHANGES_CLUSTER
            },
        ),
        offered(
            admin::flush_slots,
            Spec {
                name: "FLUSHSLOTS",
                since: "3.0.0",
                summary: "Deletes all slots information from a node.",
                complexity: "O(1)",
                arity: exactly(2),
                ..CHANGES_CLUSTER
            },
        ),
        offered(
            admin::forget,
            Spec {
                name: "FORGET",
                since: "3.0.0",
                syntax: "node-id",
                summary: "Removes a node from the nodes table.",
                complexity: "O(1)",
                arity: exactly(3),
                ..CHANGES_CLUSTER
            },
        ),
        offered(
            slot_keys::get_keys,
            Spec {
                name: "GETKEYSINSLOT",
                since: "3.0.0",
                syntax: "slot count",
                summary: "Returns the key names in a hash slot.",
                complexity: "O(N) where N is the number of requested keys",
                arity: exactly(4),
                tips: &["nondeterministic_output"],
                ..OF_CLUSTER
            },
        ),
        help::subcommand(Group::Cluster, "5.0.0", help_lines),
        offered(
            |context, _, _| read(context, info::info),
            Spec {
                name: "INFO",
                since: "3.0.0",
                summary: "Returns information about the state of a node.",
                complexity: "O(1)",
                arity: exactly(2),
                tips: &["nondeterministic_output"],
                ..OF_CLUSTER
            },
        ),
        offered(
            slot_keys::key_slot,
            Spec {
                name: "KEYSLOT",
                since: "3.0.0",
                syntax: "key",
                summary: "Returns the hash slot for a key.",
                complexity: "O(N) where N is the number of bytes in the key",
                arity: exactly(3),
                ..OF_CLUSTER
            },
        ),
        offered(
            |context, _, _| read(context, nodes::links),
            Spec {
                name: "LINKS",
                since: "7.0.0",
                summary: "Returns a list of all TCP links to and from peer nodes.",
                complexity: "O(N) where N is the total number of Cluster nodes",
                arity: exactly(2),
                tips: &["nondeterministic_output"],
                ..OF_CLUSTER
            },
        ),
        offered(
            admin::meet,
            Spec {
                name: "MEET",
                since: "3.0.0",
                syntax: "ip port [cluster-bus-port]",
                summary: "Forces a node to handshake with another node.",
                complexity: "O(1)",
                arity: at_least(4),
                history: &[("4.0.0", "Added the optional `cluster_bus_port` argument.")],
                ..CHANGES_CLUSTER
            },
        ),
        offered(
            |context, _, _| read(context, nodes::my_id),
            Spec {
                name: "MYID",
                since: "3.0.0",
                summary: "Returns the ID of a node.",
                complexity: "O(1)",
                arity: exactly(2),
                ..OF_CLUSTER
            },
        ),
        offered(
            |context, _, _| read(context, nodes::my_shard_id),
            Spec {
                name: "MYSHARDID",
                since: "7.2.0",
                summary: "Returns the shard ID of a node.",
                complexity: "O(1)",
                arity: exactly(2),
                tips: &["nondeterministic_output"],
                ..OF_CLUSTER
            },
        ),
        offered(
            |context, _, _| read_for_client(context, nodes::nodes),
            Spec {
                name: "NODES",
                since: "3.0.0",
                summary: "Returns the cluster configuration for a node.",
                complexity: "O(N) where N is the total number of Cluster nodes",
                arity: exactly(2),
                tips: &["nondeterministic_output"],
                ..OF_CLUSTER
            },
        ),
        rebalance::REBALANCE,
        offered(
            |context, _, _| read_for_client(context, nodes::replicas),
            Spec {
                name: "REPLICAS",
                since: "5.0.0",
                group: Group::Cluster,
                syntax: "node-id",
                summary: "Lists the replica nodes of a master node.",
                complexity: "O(N) where N is the number of replicas.",
                arity: exactly(3),
                flags: Flags::ADMIN.and(Flags::STALE).and(Flags::IDEMPOTENT),
                tips: &["nondeterministic_output"],
                ..Spec::BASE
            },
        ),
        offered(
            admin::replicate,
            Spec {
                name: "REPLICATE",
                since: "3.0.0",
                syntax: "<node-id | NO ONE>",
                summary: "Configure a node as replica of a master node.",
                complexity: "O(1)",
                arity: at_least(3),
                ..CHANGES_CLUSTER
            },
        ),
        offered(
            admin::reset,
            Spec {
                name: "RESET",
                since: "3.0.0",
                group: Group::Cluster,
                syntax: "[HARD | SOFT]",
                summary: "Resets a node.",
                complexity: "O(N) where N is the number of known nodes. The command may execute a \
         FLUSHALL as a side effect.",
                arity: at_least(2),
                plan: LockPlan::World,
                flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::STALE).and(Flags::IDEMPOTENT),
                ..Spec::BASE
            },
        ),
        offered(
            admin::save_config,
            Spec {
                name: "SAVECONFIG",
                since: "3.0.0",
                summary: "Forces a node to save the cluster configuration to disk.",
                complexity: "O(1)",
                arity: exactly(2),
                ..CHANGES_CLUSTER
            },
        ),
        offered(
            admin::set_slot,
            Spec {
                name: "SETSLOT",
                since: "3.0.0",
                syntax: "slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>",
                summary: "Binds a hash slot to a node.",
                complexity: "O(1)",
                arity: at_least(4),
                ..CHANGES_CLUSTER
            },
        ),
        offered(
            admin::set_config_epoch,
            Spec {
                name: "SET-CONFIG-EPOCH",
                since: "3.0.0",
                syntax: "config-epoch",
                summary: "Sets the configuration epoch for a new node.",
                complexity: "O(1)",
                arity: exactly(3),
                ..CHANGES_CLUSTER
            },
        ),
        offered(
            |context, _, _| read_for_client(context, shards::shards),
            Spec {
                name: "SHARDS",
                since: "7.0.0",
                group: Group::Cluster,
                summary: "Returns the mapping of cluster slots to shards.",
                complexity: "O(N) where N is the total number of cluster nodes",
                arity: exactly(2),
                flags: Flags::LOADING.and(Flags::STALE).and(Flags::IDEMPOTENT),
                tips: &["nondeterministic_output"],
                ..Spec::BASE
            },
        ),
        offered(
            |context, _, _| read_for_client(context, nodes::replicas),
            Spec {
                name: "SLAVES",
                since: "3.0.0",
                group: Group::Cluster,
                syntax: "node-id",
                summary: "Lists the replica nodes of a master node.",
                complexity: "O(N) where N is the number of replicas.",
                arity: exactly(3),
                flags: Flags::ADMIN.and(Flags::STALE).and(Flags::IDEMPOTENT),
                tips: &["nondeterministic_output"],
                deprecated: Some(("5.0.0", "`CLUSTER REPLICAS`")),
                ..Spec::BASE
            },
        ),
        offered(
            |context, _, _| read_for_client(context, shards::slots),
            Spec {
                name: "SLOTS",
                since: "3.0.0",
                group: Group::Cluster,
                summary: "Returns the mapping of cluster slots to nodes.",
                complexity: "O(N) where N is the total number of Cluster nodes",
                arity: exactly(2),
                flags: Flags::LOADING.and(Flags::STALE).and(Flags::IDEMPOTENT),
                tips: &["nondeterministic_output"],
                history: &[
                    ("4.0.0", "Added node IDs."),
                    ("7.0.0", "Added additional networking metadata field."),
                ],
                deprecated: Some(("7.0.0", "`CLUSTER SHARDS`")),
                ..Spec::BASE
            },
        ),
        offered(
            |context, _, _| read(context, slot_stats::slot_stats),
            Spec {
                name: "SLOT-STATS",
                since: "8.2.0",
                group: Group::Cluster,
                syntax: "<SLOTSRANGE start-slot end-slot | ORDERBY metric [LIMIT limit] [ASC | \
                    DESC]>",
                summary: "Return an array of slot usage statistics for slots assigned to the \
                    current node.",
                complexity: "O(N) where N is the total number of slots based on arguments. \
                    O(N*log(N)) with ORDERBY subcommand.",
                arity: at_least(4),
                flags: Flags::LOADING.and(Flags::STALE).and(Flags::IDEMPOTENT),
                tips: &["nondeterministic_output", "request_policy:all_shards"],
                ..Spec::BASE
            },
        ),
    ],
    run: container,
};

pub(super) const fn offered(run: ControlHandler, spec: Spec) -> ControlCommand {
    Command { spec, subcommands: &[], run }
}

const DISABLED: Refusal = Refusal::error("ERR This instance has cluster support disabled");

/// The server, if it is a node of a cluster.
pub(super) fn enabled(context: &Context<'_>) -> Result<&'static Server, Refusal> {
    if context.server.cluster.is_on() { Ok(context.server) } else { Err(DISABLED) }
}

/// What looks at the node, which may be in the middle of a write of its file.
type NodeReader = fn(&Server, Args<'_>, &mut Reply<'_>) -> Result<(), Refusal>;

pub(super) fn read(context: &Context<'_>, reader: NodeReader) -> Result<ControlOutcome, Refusal> {
    let server = enabled(context)?;
    Ok(ControlOutcome::offload(move |_, args, reply| reader(server, args, reply)))
}

/// What tells the same to all, but for addresses and ports.
type ClientReader = fn(&Server, Args<'_>, ClientRoute, &mut Reply<'_>) -> Result<(), Refusal>;

fn read_for_client(
    context: &mut Context<'_>,
    reader: ClientReader,
) -> Result<ControlOutcome, Refusal> {
    let server = enabled(context)?;
    let route = context.session().map(|session| ClientRoute {
        is_encrypted: session.client.live.tls_minor.load(Ordering::Relaxed) > 0,
        is_ipv6: session.client.peer.is_ipv6(),
    });
    let route = route.unwrap_or_default();
    Ok(ControlOutcome::offload(move |_, args, reply| reader(server, args, route, reply)))
}

fn asking(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    enabled(context)?;
    context.session()?.set_asking(true);
    reply.ok();
    Ok(ControlOutcome::Done)
}

fn read_only(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    set_read_only(context, true, reply)
}

fn read_write(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    set_read_only(context, false, reply)
}

fn set_read_only(
    context: &mut Context<'_>,
    reads: bool,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    enabled(context)?;
    context.session()?.client.set_flag(client_flags::READONLY, reads);
    reply.ok();
    Ok(ControlOutcome::Done)
}

fn help_lines(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    enabled(context)?;
    let lines: Vec<String> = CLUSTER
        .subcommands
        .iter()
        .flat_map(|it| {
            let head = format!("{} {}", it.spec.name, it.spec.syntax);
            [head.trim_end().to_owned(), format!("    {}", it.spec.summary)]
        })
        .collect();
    help::help(reply, "CLUSTER", &lines.iter().map(String::as_str).collect::<Vec<_>>());
    Ok(ControlOutcome::Done)
}
