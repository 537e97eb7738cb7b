//! The commands by which a client begins and ends to listen.
//!
//! Invariant: each name given is answered by one message, which says how many subscriptions there
//! are then; what was published before it stands before it.

use commands::declare::{Channels, Command, Flags, Group, Spec, at_least};
use commands::{Access, KeySpec, keys};
use engine::clients::registry::SubscriptionKind;
use engine::lane::Lane;
use engine::observe::pubsub::Subscriptions;
use engine::runtime::yielding::FEW;
use engine::session::lost_channels::recheck_channel;
use engine::session::{Session, StepContext, StepOutcome, SteppedWork};
use engine::shared::Shared;
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, ControlOutcome};

/// What all of them have in common.
const BASE: Spec = Spec {
    since: "2.0.0",
    group: Group::PubSub,
    flags: Flags::PUBSUB
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE)
        .and(Flags::SUBSCRIBED),
    ..Spec::BASE
};

/// Shard channels are placed as keys are.
const SHARD_CHANNELS: &[KeySpec] = &[keys::all_from(1, Access::NOT_KEY)];

pub(super) const SUBSCRIBE: ControlCommand = Command {
    spec: Spec {
        name: "SUBSCRIBE",
        syntax: "channel [channel ...]",
        summary: "Listens for messages published to channels.",
        complexity: "O(N) where N is the number of channels to subscribe to.",
        arity: at_least(2),
        channels: Channels::From(1),
        ..BASE
    },
    subcommands: &[],
    run: |context, args, reply| begin(context, SubscriptionKind::Channel, args, reply),
};

pub(super) const PSUBSCRIBE: ControlCommand = Command {
    spec: Spec {
        name: "PSUBSCRIBE",
        syntax: "pattern [pattern ...]",
        summary: "Listens for messages published to channels that match one or more patterns.",
        complexity: "O(N) where N is the number of patterns to subscribe to.",
        arity: at_least(2),
        channels: Channels::PatternsFrom(1),
        ..BASE
    },
    subcommands: &[],
    run: |context, args, reply| begin(context, SubscriptionKind::Pattern, args, reply),
};

pub(super) const SSUBSCRIBE: ControlCommand = Command {
    spec: Spec {
        name: "SSUBSCRIBE",
        since: "7.0.0",
        syntax: "shardchannel [shardchannel ...]",
        summary: "Listens for messages published to shard channels.",
        complexity: "O(N) where N is the number of shard channels to subscribe to.",
        arity: at_least(2),
        keys: SHARD_CHANNELS,
        channels: Channels::From(1),
        ..BASE
    },
    subcommands: &[],
    run: |context, args, reply| {
        // As in Redis; the two older ones may.
        if context.unit.is_some() {
            return Err(WITHIN_MULTI);
        }
        begin(context, SubscriptionKind::ShardChannel, args, reply)
    },
};

const WITHIN_MULTI: Refusal =
    Refusal::error("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client");

fn begin(
    context: &mut Context<'_>,
    kind: SubscriptionKind,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    // The reply of a unit is made in one piece.
    if args.len() > FEW && context.unit.is_none() {
        let work = EachName { kind, next: 1, ends: false };
        return Ok(ControlOutcome::in_steps(context.entry, args, work));
    }
    let (server, session) = (context.server, context.session()?);
    args.skip(1).iter().for_each(|name| begin_one((server, session), kind, name, reply));
    Ok(ControlOutcome::Done)
}

fn begin_one(
    (server, session): (&'static Shared, &mut Session),
    kind: SubscriptionKind,
    name: &[u8],
    reply: &mut Reply<'_>,
) {
    let Session { subscriptions, client, .. } = session;
    let all = subscriptions.get_or_insert_with(|| {
        Box::new(Subscriptions::new(&server.pushes.pubsub, &server.mailboxes, client))
    });
    all.add(kind, name);
    confirm(reply, begun(kind), Some(name), counted(all, kind));
    if kind == SubscriptionKind::ShardChannel {
        recheck_channel(server, session, name);
    }
}

/// Begins, or ends, a subscription to each of very many names.
struct EachName {
    kind: SubscriptionKind,
    /// The argument that comes next.
    next: usize,
    ends: bool,
}

impl SteppedWork for EachName {
    fn step(&mut self, step_context: &mut StepContext<'_, '_>) -> StepOutcome {
        let Self { kind, ends, .. } = *self;
        while let Some(name) = step_context.args.get(self.next) {
            let (lane, resp) = (step_context.lane, step_context.session.resp);
            let mut reply = Reply::new(step_context.out, resp);
            match ends {
                true => end_one(lane, step_context.session, kind, (name, true), &mut reply),
                false => {
                    begin_one((lane.shared, step_context.session), kind, name, &mut reply);
                }
            }
            self.next += 1;
            if step_context.is_over() {
                return StepOutcome::GoesOn;
            }
        }
        StepOutcome::Done
    }
}

/// Ends all subscriptions of a kind, which are very many.
struct All(SubscriptionKind);

impl SteppedWork for All {
    fn step(&mut self, step_context: &mut StepContext<'_, '_>) -> StepOutcome {
        let first = |session: &Session| session.subscriptions.as_ref()?.first_name(self.0);
        while let Some(name) = first(step_context.session) {
            let (lane, resp) = (step_context.lane, step_context.session.resp);
            let mut reply = Reply::new(step_context.out, resp);
            end_one(lane, step_context.session, self.0, (&name, true), &mut reply);
            if step_context.is_over() {
                return StepOutcome::GoesOn;
            }
        }
        StepOutcome::Done
    }
}

pub(super) const UNSUBSCRIBE: ControlCommand = Command {
    spec: Spec {
        name: "UNSUBSCRIBE",
        syntax: "[channel [channel ...]]",
        summary: "Stops listening to messages posted to channels.",
        complexity: "O(N) where N is the number of channels to unsubscribe.",
        arity: at_least(1),
        ..BASE
    },
    subcommands: &[],
    run: |context, args, reply| end(context, SubscriptionKind::Channel, args, reply),
};

pub(super) const PUNSUBSCRIBE: ControlCommand = Command {
    spec: Spec {
        name: "PUNSUBSCRIBE",
        syntax: "[pattern [pattern ...]]",
        summary: "Stops listening to messages published to channels that match one or more \
            patterns.",
        complexity: "O(N) where N is the number of patterns to unsubscribe.",
        arity: at_least(1),
        ..BASE
    },
    subcommands: &[],
    run: |context, args, reply| end(context, SubscriptionKind::Pattern, args, reply),
};

pub(super) const SUNSUBSCRIBE: ControlCommand = Command {
    spec: Spec {
        name: "SUNSUBSCRIBE",
        since: "7.0.0",
        syntax: "[shardchannel [shardchannel ...]]",
        summary: "Stops listening to messages posted to shard channels.",
        complexity: "O(N) where N is the number of shard channels to unsubscribe.",
        arity: at_least(1),
        keys: SHARD_CHANNELS,
        ..BASE
    },
    subcommands: &[],
    run: |context, args, reply| end(context, SubscriptionKind::ShardChannel, args, reply),
};

fn end(
    context: &mut Context<'_>,
    kind: SubscriptionKind,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let (lane, is_alone, entry) = (context.lane()?, context.unit.is_none(), context.entry);
    let session = context.session()?;
    if args.len() > FEW && is_alone {
        return Ok(ControlOutcome::in_steps(entry, args, EachName { kind, next: 1, ends: true }));
    }
    for name in args.skip(1).iter() {
        end_one(lane, session, kind, (name, is_alone), reply);
    }
    if args.len() > 1 {
        return Ok(ControlOutcome::Done);
    }
    let all = session.subscriptions.as_ref();
    if all.is_some_and(|all| all.count(kind) > FEW) && is_alone {
        return Ok(ControlOutcome::in_steps(entry, args, All(kind)));
    }
    let names = all.map(|all| all.names(kind)).unwrap_or_default();
    for name in &names {
        end_one(lane, session, kind, (name, is_alone), reply);
    }
    if names.is_empty() {
        confirm(reply, ended(kind), None, left(session, kind));
    }
    Ok(ControlOutcome::Done)
}

/// Ends a subscription; `is_alone` says that no unit may still take the reply back.
fn end_one(
    lane: &Lane,
    session: &mut Session,
    kind: SubscriptionKind,
    (name, is_alone): (&[u8], bool),
    reply: &mut Reply<'_>,
) {
    if let Some(all) = &mut session.subscriptions {
        all.remove(kind, name, || lane.deliver_letters());
        if all.is_empty() {
            session.subscriptions = None;
        }
        if is_alone {
            session.pass_on(lane.shared, reply);
        }
    }
    confirm(reply, ended(kind), Some(name), left(session, kind));
}

/// What is left to a session of the subscriptions that are counted with a kind.
fn left(session: &Session, kind: SubscriptionKind) -> usize {
    session.subscriptions.as_ref().map_or(0, |all| counted(all, kind))
}

/// Channels and patterns are counted together.
fn counted(all: &Subscriptions, kind: SubscriptionKind) -> usize {
    match kind {
        SubscriptionKind::ShardChannel => all.count(kind),
        SubscriptionKind::Channel | SubscriptionKind::Pattern => {
            all.count(SubscriptionKind::Channel) + all.count(SubscriptionKind::Pattern)
        }
    }
}

fn confirm(reply: &mut Reply<'_>, word: &str, name: Option<&[u8]>, count: usize) {
    reply.push(3);
    reply.bulk(word.as_bytes());
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.integer(count as i64);
}

fn begun(kind: SubscriptionKind) -> &'static str {
    match kind {
        SubscriptionKind::Channel => "subscribe",
        SubscriptionKind::Pattern => "psubscribe",
        SubscriptionKind::ShardChannel => "ssubscribe",
    }
}

fn ended(kind: SubscriptionKind) -> &'static str {
    match kind {
        SubscriptionKind::Channel => "unsubscribe",
        SubscriptionKind::Pattern => "punsubscribe",
        SubscriptionKind::ShardChannel => "sunsubscribe",
    }
}
