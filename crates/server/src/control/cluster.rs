//! The cluster family, on a server that is no node of a cluster: every command says so.
//!
//! Invariant: every command declared here stands in `COMMANDS`.

use commands::declare::{Command, Flags, Group, Spec, at_least, exactly};
use keyspace::Refusal;
use proto::{Args, Reply};

use super::context::{Context, ControlCommand, Next};
use super::help::{self, container};

/// All commands of the family.
pub(crate) const COMMANDS: &[&ControlCommand] = &[&ASKING, &CLUSTER, &READONLY, &READWRITE];

/// What reads the state of the cluster.
const OF_CLUSTER: Spec =
    Spec { group: Group::Cluster, flags: Flags::STALE.and(Flags::REPEATABLE), ..Spec::BASE };

/// What changes the state of the cluster.
const CHANGES_CLUSTER: Spec = Spec {
    flags: Flags::ADMIN.and(Flags::STALE).and(Flags::NO_ASYNC_LOADING).and(Flags::REPEATABLE),
    ..OF_CLUSTER
};

const ASKING: ControlCommand = Command {
    spec: Spec {
        name: "ASKING",
        since: "3.0.0",
        group: Group::Cluster,
        summary: "Signals that a cluster client is following an -ASK redirect.",
        complexity: "O(1)",
        arity: exactly(1),
        flags: Flags::FAST,
        categories: &["@connection"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: refuse,
};

const READONLY: ControlCommand = Command {
    spec: Spec {
        name: "READONLY",
        since: "3.0.0",
        group: Group::Cluster,
        summary: "Enables read-only queries for a connection to a Redis Cluster replica node.",
        complexity: "O(1)",
        arity: exactly(1),
        flags: Flags::LOADING.and(Flags::STALE).and(Flags::FAST),
        categories: &["@connection"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: refuse,
};

const READWRITE: ControlCommand = Command {
    spec: Spec {
        name: "READWRITE",
        since: "3.0.0",
        group: Group::Cluster,
        summary: "Enables read-write queries for a connection to a Redis Cluster replica node.",
        complexity: "O(1)",
        arity: exactly(1),
        flags: Flags::LOADING.and(Flags::STALE).and(Flags::FAST),
        categories: &["@connection"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: refuse,
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
        refused(Spec {
            name: "ADDSLOTS",
            since: "3.0.0",
            syntax: "slot [slot ...]",
            summary: "Assigns new hash slots to a node.",
            complexity: "O(N) where N is the total number of hash slot arguments",
            arity: at_least(3),
            ..CHANGES_CLUSTER
        }),
        refused(Spec {
            name: "ADDSLOTSRANGE",
            since: "7.0.0",
            syntax: "start-slot end-slot [start-slot end-slot ...]",
            summary: "Assigns new hash slot ranges to a node.",
            complexity: "O(N) where N is the total number of the slots between the start slot and \
         end slot arguments.",
            arity: at_least(4),
            ..CHANGES_CLUSTER
        }),
        refused(Spec {
            name: "BUMPEPOCH",
            since: "3.0.0",
            summary: "Advances the cluster config epoch.",
            complexity: "O(1)",
            arity: exactly(2),
            tips: &["nondeterministic_output"],
            ..CHANGES_CLUSTER
        }),
        refused(Spec {
            name: "COUNTKEYSINSLOT",
            since: "3.0.0",
            syntax: "slot",
            summary: "Returns the number of keys in a hash slot.",
            complexity: "O(1)",
            arity: exactly(3),
            ..OF_CLUSTER
        }),
        refused(Spec {
            name: "COUNT-FAILURE-REPORTS",
            since: "3.0.0",
            group: Group::Cluster,
            syntax: "node-id",
            summary: "Returns the number of active failure reports active for a node.",
            complexity: "O(N) where N is the number of failure reports",
            arity: exactly(3),
            flags: Flags::ADMIN.and(Flags::STALE).and(Flags::REPEATABLE),
            tips: &["nondeterministic_output"],
            ..Spec::BASE
        }),
        refused(Spec {
            name: "DELSLOTS",
            since: "3.0.0",
            syntax: "slot [slot ...]",
            summary: "Sets hash slots as unbound for a node.",
            complexity: "O(N) where N is the total number of hash slot arguments",
            arity: at_least(3),
            ..CHANGES_CLUSTER
        }),
        refused(Spec {
            name: "DELSLOTSRANGE",
            since: "7.0.0",
            syntax: "start-slot end-slot [start-slot end-slot ...]",
            summary: "Sets hash slot ranges as unbound for a node.",
            complexity: "O(N) where N is the total number of the slots between the start slot and \
         end slot arguments.",
            arity: at_least(4),
            ..CHANGES_CLUSTER
        }),
        refused(Spec {
            name: "FAILOVER",
            since: "3.0.0",
            syntax: "[FORCE | TAKEOVER]",
            summary: "Forces a replica to perform a manual failover of its master.",
            complexity: "O(1)",
            arity: at_least(2),
            ..CHANGES_CLUSTER
        }),
        refused(Spec {
            name: "FLUSHSLOTS",
            since: "3.0.0",
            summary: "Deletes all slots information from a node.",
            complexity: "O(1)",
            arity: exactly(2),
            ..CHANGES_CLUSTER
        }),
        refused(Spec {
            name: "FORGET",
            since: "3.0.0",
            syntax: "node-id",
            summary: "Removes a node from the nodes table.",
            complexity: "O(1)",
            arity: exactly(3),
            ..CHANGES_CLUSTER
        }),
        refused(Spec {
            name: "GETKEYSINSLOT",
            since: "3.0.0",
            syntax: "slot count",
            summary: "Returns the key names in a hash slot.",
            complexity: "O(N) where N is the number of requested keys",
            arity: exactly(4),
            tips: &["nondeterministic_output"],
            ..OF_CLUSTER
        }),
        help::subcommand(Group::Cluster, "5.0.0", refuse),
        refused(Spec {
            name: "INFO",
            since: "3.0.0",
            summary: "Returns information about the state of a node.",
            complexity: "O(1)",
            arity: exactly(2),
            tips: &["nondeterministic_output"],
            ..OF_CLUSTER
        }),
        refused(Spec {
            name: "KEYSLOT",
            since: "3.0.0",
            syntax: "key",
            summary: "Returns the hash slot for a key.",
            complexity: "O(N) where N is the number of bytes in the key",
            arity: exactly(3),
            ..OF_CLUSTER
        }),
        refused(Spec {
            name: "LINKS",
            since: "7.0.0",
            summary: "Returns a list of all TCP links to and from peer nodes.",
            complexity: "O(N) where N is the total number of Cluster nodes",
            arity: exactly(2),
            tips: &["nondeterministic_output"],
            ..OF_CLUSTER
        }),
        refused(Spec {
            name: "MEET",
            since: "3.0.0",
            syntax: "ip port [cluster-bus-port]",
            summary: "Forces a node to handshake with another node.",
            complexity: "O(1)",
            arity: at_least(4),
            history: &[("4.0.0", "Added the optional `cluster_bus_port` argument.")],
            ..CHANGES_CLUSTER
        }),
        refused(Spec {
            name: "MYID",
            since: "3.0.0",
            summary: "Returns the ID of a node.",
            complexity: "O(1)",
            arity: exactly(2),
            ..OF_CLUSTER
        }),
        refused(Spec {
            name: "MYSHARDID",
            since: "7.2.0",
            summary: "Returns the shard ID of a node.",
            complexity: "O(1)",
            arity: exactly(2),
            tips: &["nondeterministic_output"],
            ..OF_CLUSTER
        }),
        refused(Spec {
            name: "NODES",
            since: "3.0.0",
            summary: "Returns the cluster configuration for a node.",
            complexity: "O(N) where N is the total number of Cluster nodes",
            arity: exactly(2),
            tips: &["nondeterministic_output"],
            ..OF_CLUSTER
        }),
        refused(Spec {
            name: "REPLICAS",
            since: "5.0.0",
            group: Group::Cluster,
            syntax: "node-id",
            summary: "Lists the replica nodes of a master node.",
            complexity: "O(N) where N is the number of replicas.",
            arity: exactly(3),
            flags: Flags::ADMIN.and(Flags::STALE).and(Flags::REPEATABLE),
            tips: &["nondeterministic_output"],
            ..Spec::BASE
        }),
        refused(Spec {
            name: "REPLICATE",
            since: "3.0.0",
            syntax: "node-id",
            summary: "Configure a node as replica of a master node.",
            complexity: "O(1)",
            arity: exactly(3),
            ..CHANGES_CLUSTER
        }),
        refused(Spec {
            name: "RESET",
            since: "3.0.0",
            group: Group::Cluster,
            syntax: "[HARD | SOFT]",
            summary: "Resets a node.",
            complexity: "O(N) where N is the number of known nodes. The command may execute a \
         FLUSHALL as a side effect.",
            arity: at_least(2),
            flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::STALE).and(Flags::REPEATABLE),
            ..Spec::BASE
        }),
        refused(Spec {
            name: "SAVECONFIG",
            since: "3.0.0",
            summary: "Forces a node to save the cluster configuration to disk.",
            complexity: "O(1)",
            arity: exactly(2),
            ..CHANGES_CLUSTER
        }),
        refused(Spec {
            name: "SETSLOT",
            since: "3.0.0",
            syntax: "slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>",
            summary: "Binds a hash slot to a node.",
            complexity: "O(1)",
            arity: at_least(4),
            ..CHANGES_CLUSTER
        }),
        refused(Spec {
            name: "SET-CONFIG-EPOCH",
            since: "3.0.0",
            syntax: "config-epoch",
            summary: "Sets the configuration epoch for a new node.",
            complexity: "O(1)",
            arity: exactly(3),
            ..CHANGES_CLUSTER
        }),
        refused(Spec {
            name: "SHARDS",
            since: "7.0.0",
            group: Group::Cluster,
            summary: "Returns the mapping of cluster slots to shards.",
            complexity: "O(N) where N is the total number of cluster nodes",
            arity: exactly(2),
            flags: Flags::LOADING.and(Flags::STALE).and(Flags::REPEATABLE),
            tips: &["nondeterministic_output"],
            ..Spec::BASE
        }),
        refused(Spec {
            name: "SLAVES",
            since: "3.0.0",
            group: Group::Cluster,
            syntax: "node-id",
            summary: "Lists the replica nodes of a master node.",
            complexity: "O(N) where N is the number of replicas.",
            arity: exactly(3),
            flags: Flags::ADMIN.and(Flags::STALE).and(Flags::REPEATABLE),
            tips: &["nondeterministic_output"],
            deprecated: Some(("5.0.0", "`CLUSTER REPLICAS`")),
            ..Spec::BASE
        }),
        refused(Spec {
            name: "SLOTS",
            since: "3.0.0",
            group: Group::Cluster,
            summary: "Returns the mapping of cluster slots to nodes.",
            complexity: "O(N) where N is the total number of Cluster nodes",
            arity: exactly(2),
            flags: Flags::LOADING.and(Flags::STALE).and(Flags::REPEATABLE),
            tips: &["nondeterministic_output"],
            history: &[
                ("4.0.0", "Added node IDs."),
                ("7.0.0", "Added additional networking metadata field."),
            ],
            deprecated: Some(("7.0.0", "`CLUSTER SHARDS`")),
            ..Spec::BASE
        }),
        refused(Spec {
            name: "SLOT-STATS",
            since: "8.2.0",
            group: Group::Cluster,
            syntax: "<SLOTSRANGE start-slot end-slot | ORDERBY metric [LIMIT limit] [ASC | DESC]>",
            summary: "Return an array of slot usage statistics for slots assigned to the current \
             node.",
            complexity: "O(N) where N is the total number of slots based on arguments. O(N*log(N)) \
         with ORDERBY subcommand.",
            arity: at_least(4),
            flags: Flags::LOADING.and(Flags::STALE).and(Flags::REPEATABLE),
            tips: &["nondeterministic_output", "request_policy:all_shards"],
            ..Spec::BASE
        }),
    ],
    run: container,
};

const fn refused(spec: Spec) -> ControlCommand {
    Command { spec, subcommands: &[], run: refuse }
}

fn refuse(_: &mut Context<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<Next, Refusal> {
    Err(Refusal::error("ERR This instance has cluster support disabled"))
}
