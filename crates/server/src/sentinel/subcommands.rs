//! The subcommands of SENTINEL, as COMMAND and the rules of users know them.
//!
//! Invariant: the Sentinel itself serves each of them; those that Valkey calls by other names, too,
//! stand here under both.

use commands::declare::{Arity, Command, Flags, Group, Spec, at_least, exactly};

use super::commands::ask;
use crate::control::context::ControlCommand;

pub(super) const SUBCOMMANDS: &[ControlCommand] = &[
    named("CKQUORUM", "master-name", "Checks for a Redis Sentinel quorum.", exactly(3)),
    named(
        "CONFIG",
        "<SET parameter value [parameter value ...] | GET parameter [parameter ...]>",
        "Configures Redis Sentinel.",
        at_least(3),
    ),
    named(
        "DEBUG",
        "[parameter value [parameter value ...]]",
        "Lists or updates the current configurable parameters of Redis Sentinel.",
        at_least(2),
    ),
    named(
        "FAILOVER",
        "master-name [COORDINATED]",
        "Forces a Redis Sentinel failover.",
        at_least(3),
    ),
    named("FLUSHCONFIG", "", "Rewrites the Redis Sentinel configuration file.", exactly(2)),
    named(
        "GET-MASTER-ADDR-BY-NAME",
        "master-name",
        "Returns the port and address of a master Redis instance.",
        exactly(3),
    ),
    of_valkey("GET-PRIMARY-ADDR-BY-NAME", "GET-MASTER-ADDR-BY-NAME", "primary-name", exactly(3)),
    HELP,
    named(
        "INFO-CACHE",
        "nodename [nodename ...]",
        "Returns the cached INFO replies from the deployment's instances.",
        at_least(3),
    ),
    named(
        "IS-MASTER-DOWN-BY-ADDR",
        "ip port current-epoch runid",
        "Determines whether a master Redis instance is down.",
        exactly(6),
    ),
    of_valkey(
        "IS-PRIMARY-DOWN-BY-ADDR",
        "IS-MASTER-DOWN-BY-ADDR",
        "ip port current-epoch runid",
        exactly(6),
    ),
    named("MASTER", "master-name", "Returns the state of a master Redis instance.", exactly(3)),
    named("MASTERS", "", "Returns a list of monitored Redis masters.", exactly(2)),
    named("MONITOR", "name ip port quorum", "Starts monitoring.", exactly(6)),
    named("MYID", "", "Returns the Redis Sentinel instance ID.", exactly(2)),
    named(
        "PENDING-SCRIPTS",
        "",
        "Returns information about pending scripts for Redis Sentinel.",
        exactly(2),
    ),
    of_valkey("PRIMARIES", "MASTERS", "", exactly(2)),
    of_valkey("PRIMARY", "MASTER", "primary-name", exactly(3)),
    named("REMOVE", "master-name", "Stops monitoring.", exactly(3)),
    named("REPLICAS", "master-name", "Returns a list of the monitored Redis replicas.", exactly(3)),
    named("RESET", "pattern", "Resets Redis masters by name matching a pattern.", exactly(3)),
    named("SENTINELS", "master-name", "Returns a list of Sentinel instances.", exactly(3)),
    named(
        "SET",
        "master-name option value [option value ...]",
        "Changes the configuration of a monitored Redis master.",
        at_least(5),
    ),
    named(
        "SIMULATE-FAILURE",
        "[CRASH-AFTER-ELECTION] [CRASH-AFTER-PROMOTION] [HELP]",
        "Simulates failover scenarios.",
        at_least(3),
    ),
    Command {
        spec: Spec {
            deprecated: Some(("5.0.0", "`SENTINEL REPLICAS`")),
            ..spec("SLAVES", "master-name", "Returns a list of the monitored replicas.", exactly(3))
        },
        subcommands: &[],
        run: ask,
    },
];

const HELP: ControlCommand = Command {
    spec: Spec {
        flags: Flags::LOADING.and(Flags::STALE).and(Flags::CHANGES_NOTHING),
        ..spec("HELP", "", "Returns helpful text about the different subcommands.", exactly(2))
    },
    subcommands: &[],
    run: ask,
};

const fn spec(
    name: &'static str,
    syntax: &'static str,
    summary: &'static str,
    arity: Arity,
) -> Spec {
    Spec {
        name,
        since: "2.8.4",
        group: Group::Sentinel,
        syntax,
        summary,
        complexity: "O(N) where N is the number of instances",
        arity,
        flags: Flags::ADMIN,
        ..Spec::BASE
    }
}

const fn named(
    name: &'static str,
    syntax: &'static str,
    summary: &'static str,
    arity: Arity,
) -> ControlCommand {
    Command { spec: spec(name, syntax, summary, arity), subcommands: &[], run: ask }
}

/// What Valkey calls a subcommand of Redis.
const fn of_valkey(
    name: &'static str,
    of_redis: &'static str,
    syntax: &'static str,
    arity: Arity,
) -> ControlCommand {
    let spec = Spec { origin: "valkey", since: "8.0.0", ..spec(name, syntax, of_redis, arity) };
    Command { spec, subcommands: &[], run: ask }
}
