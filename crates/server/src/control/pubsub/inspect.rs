//! PUBSUB: what is subscribed to, and by how many.
//!
//! Invariant: the command looks and disturbs nobody.

use commands::declare::{Command, Flags, Group, Spec, at_least, exactly};
use engine::clients::registry::SubscriptionKind;
use engine::observe::pubsub::Registry;
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, ControlOutcome, by_size};
use crate::control::help::{self, container, misused};
use crate::server::Server;

/// More channels than these take longer than one client may have a worker for.
const CHANNELS_OF_A_WORKER: usize = 1000;

pub(super) const PUBSUB: ControlCommand = Command {
    spec: Spec {
        name: "PUBSUB",
        since: "2.8.0",
        group: Group::PubSub,
        summary: "A container for Pub/Sub commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        ..Spec::BASE
    },
    subcommands: &[CHANNELS, HELP, NUMPAT, NUMSUB, SHARDCHANNELS, SHARDNUMSUB],
    run: container,
};

/// What the subcommands have in common.
const BASE: Spec = Spec {
    since: "2.8.0",
    group: Group::PubSub,
    flags: Flags::PUBSUB
        .and(Flags::LOADING)
        .and(Flags::STALE)
        .and(Flags::IDEMPOTENT)
        .and(Flags::CHANGES_NOTHING),
    ..Spec::BASE
};

const CHANNELS: ControlCommand = Command {
    spec: Spec {
        name: "CHANNELS",
        syntax: "[pattern]",
        summary: "Returns the active channels.",
        complexity: "O(N) where N is the number of active channels, and assuming constant time \
            pattern matching (relatively short channels and patterns)",
        arity: at_least(2),
        ..BASE
    },
    subcommands: &[],
    run: |context, args, reply| list(context, SubscriptionKind::Channel, args, reply),
};

const SHARDCHANNELS: ControlCommand = Command {
    spec: Spec {
        name: "SHARDCHANNELS",
        since: "7.0.0",
        syntax: "[pattern]",
        summary: "Returns the active shard channels.",
        complexity: "O(N) where N is the number of active shard channels, and assuming constant \
            time pattern matching (relatively short shard channels).",
        arity: at_least(2),
        ..BASE
    },
    subcommands: &[],
    run: |context, args, reply| list(context, SubscriptionKind::ShardChannel, args, reply),
};

fn list(
    context: &mut Context<'_>,
    kind: SubscriptionKind,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    if args.len() > 3 {
        return Err(misused("PUBSUB", &args[1]));
    }
    let registry = context.server.pushes.pubsub.registry(kind);
    if registry.count() <= CHANNELS_OF_A_WORKER {
        write_names(registry, args.get(2), reply);
        return Ok(ControlOutcome::Done);
    }
    Ok(ControlOutcome::offload(move |_, args, reply| {
        write_names(registry, args.get(2), reply);
        Ok(())
    }))
}

fn write_names(registry: &Registry, pattern: Option<&[u8]>, reply: &mut Reply<'_>) {
    let found = registry.names(pattern);
    reply.array(found.len());
    found.iter().for_each(|channel| reply.bulk(&channel.name));
}

const NUMSUB: ControlCommand = Command {
    spec: Spec {
        name: "NUMSUB",
        syntax: "[channel [channel ...]]",
        summary: "Returns a count of subscribers to channels.",
        complexity: "O(N) for the NUMSUB subcommand, where N is the number of requested channels",
        arity: at_least(2),
        ..BASE
    },
    subcommands: &[],
    run: |context, args, reply| {
        Ok(by_size(context.server, args, reply, |server, args, reply| {
            count(server, SubscriptionKind::Channel, args, reply);
        }))
    },
};

const SHARDNUMSUB: ControlCommand = Command {
    spec: Spec {
        name: "SHARDNUMSUB",
        since: "7.0.0",
        syntax: "[shardchannel [shardchannel ...]]",
        summary: "Returns the count of subscribers of shard channels.",
        complexity: "O(N) for the SHARDNUMSUB subcommand, where N is the number of requested \
            shard channels",
        arity: at_least(2),
        ..BASE
    },
    subcommands: &[],
    run: |context, args, reply| {
        Ok(by_size(context.server, args, reply, |server, args, reply| {
            count(server, SubscriptionKind::ShardChannel, args, reply);
        }))
    },
};

fn count(server: &Server, kind: SubscriptionKind, args: Args<'_>, reply: &mut Reply<'_>) {
    let (names, registry) = (args.skip(2), server.pushes.pubsub.registry(kind));
    reply.array(2 * names.len());
    for name in names.iter() {
        reply.bulk(name);
        reply.integer(registry.subscribers(name) as i64);
    }
}

const NUMPAT: ControlCommand = Command {
    spec: Spec {
        name: "NUMPAT",
        summary: "Returns a count of unique pattern subscriptions.",
        complexity: "O(1)",
        arity: exactly(2),
        ..BASE
    },
    subcommands: &[],
    run: num_pat,
};

fn num_pat(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    reply.integer(context.server.pushes.pubsub.registry(SubscriptionKind::Pattern).count() as i64);
    Ok(ControlOutcome::Done)
}

const HELP: ControlCommand = help::subcommand(Group::PubSub, "6.2.0", print_help);

fn print_help(
    _: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    help::help(
        reply,
        "PUBSUB",
        &[
            "CHANNELS [<pattern>]",
            "    Return the currently active channels matching a <pattern> (default: '*').",
            "NUMPAT",
            "    Return number of subscriptions to patterns.",
            "NUMSUB [<channel> ...]",
            "    Return the number of subscribers for the specified channels, excluding",
            "    pattern subscriptions(default: no channels).",
            "SHARDCHANNELS [<pattern>]",
            "    Return the currently active shard level channels matching a <pattern> \
             (default: '*').",
            "SHARDNUMSUB [<shardchannel> ...]",
            "    Return the number of subscribers for the specified shard level channel(s)",
        ],
    );
    Ok(ControlOutcome::Done)
}
