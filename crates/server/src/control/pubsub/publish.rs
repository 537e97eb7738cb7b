//! PUBLISH and SPUBLISH.
//!
//! Invariant: the message is under way to every subscriber when the count is replied; within a
//! unit it leaves with the unit's changes.

use commands::declare::{Channels, Command, Flags, Group, Role, Spec, exactly};
use commands::{Access, keys};
use engine::clients::mailbox::PendingWakes;
use engine::clients::registry::SubscriptionKind;
use engine::observe::pubsub::{PubSubType, Publication};
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, ControlOutcome, offload_past_gates};
use crate::server::Server;

/// What both have in common.
const BASE: Spec = Spec {
    since: "2.0.0",
    group: Group::PubSub,
    arity: exactly(3),
    flags: Flags::PUBSUB
        .and(Flags::LOADING)
        .and(Flags::STALE)
        .and(Flags::FAST)
        .and(Flags::MAY_REPLICATE)
        .and(Flags::IDEMPOTENT),
    ..Spec::BASE
};

pub(crate) const PUBLISH: ControlCommand = Command {
    spec: Spec {
        name: "PUBLISH",
        role: Role::Publish,
        syntax: "channel message",
        summary: "Posts a message to a channel.",
        complexity: "O(N+M) where N is the number of clients subscribed to the receiving channel \
            and M is the total number of subscribed patterns (by any client).",
        channels: Channels::At(1),
        ..BASE
    },
    subcommands: &[],
    run: |context, args, reply| publish(context, PubSubType::Global, args, reply),
};

pub(super) const SPUBLISH: ControlCommand = Command {
    spec: Spec {
        name: "SPUBLISH",
        role: Role::ShardPublish,
        since: "7.0.0",
        syntax: "shardchannel message",
        summary: "Post a message to a shard channel",
        complexity: "O(N) where N is the number of clients subscribed to the receiving shard \
            channel.",
        keys: &[keys::first(Access::NOT_KEY)],
        channels: Channels::At(1),
        ..BASE
    },
    subcommands: &[],
    run: |context, args, reply| publish(context, PubSubType::Shard, args, reply),
};

fn publish(
    context: &mut Context<'_>,
    space: PubSubType,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let (channel, message) = (&args[1], &args[2]);
    let is_kept = context.server.journal.is_for_replicas() && !context.is_let_in();
    let receivers = match &mut context.unit {
        Some(unit) => {
            unit.publish(Publication { space, channel: channel.into(), message: message.into() })
        }
        None if is_kept || space == PubSubType::Global && has_many_patterns(context.server) => {
            return Ok(publish_offloaded(context, space));
        }
        None => {
            let wakes = &context.lane()?.wakes;
            let receivers = context.server.publish(wakes, space, channel, message);
            // Replicas are sent it, so that WAIT may wait for it.
            if context.server.journal.is_for_replicas() {
                let lsn = context.server.journal.end();
                context.session()?.note_write(lsn);
            }
            receivers
        }
    };
    reply.integer(receivers as i64);
    Ok(ControlOutcome::Done)
}

/// Whether a look at all patterns takes long, each of which may get a message of its own.
fn has_many_patterns(server: &Server) -> bool {
    /// At 50 to 150 ns for each.
    const MANY: usize = 2000;
    server.pushes.pubsub.registry(SubscriptionKind::Pattern).count() > MANY
}

/// On another thread, where it waits for a pause that has come: replicas are sent the message.
fn publish_offloaded(context: &Context<'_>, space: PubSubType) -> ControlOutcome {
    let server = context.server;
    offload_past_gates(context, move |_, args, reply| {
        let wakes = PendingWakes::default();
        let receivers = server.publish(&wakes, space, &args[1], &args[2]);
        server.mailboxes.wake(&wakes);
        reply.integer(receivers as i64);
        Ok(())
    })
}
