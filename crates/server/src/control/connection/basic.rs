//! The simplest commands of a connection.
//!
//! Invariant: none of them needs a key or another client.

use commands::declare::{Command, Databases, Flags, Group, Role, Spec, at_least, exactly};
use engine::clients::registry::client_flags;
use engine::lane::Lane;
use engine::session::{Session, StepContext, StepOutcome, SteppedWork};
use engine::shared::Shared;
use keyspace::Refusal;
use proto::{Args, Reply, Resp};

use super::flags::AT_ANY_TIME;
use crate::control::context::{Context, ControlCommand, ControlOutcome};

pub(super) const PING: ControlCommand = Command {
    spec: Spec {
        name: "PING",
        role: Role::Ping,
        since: "1.0.0",
        group: Group::Connection,
        syntax: "[message]",
        summary: "Returns the server's liveliness response.",
        complexity: "O(1)",
        arity: at_least(1),
        flags: Flags::FAST
            .and(Flags::SUBSCRIBED)
            .and(Flags::IDEMPOTENT)
            .and(Flags::CHANGES_NOTHING),
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: ping,
};

fn ping(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    // A subscriber that speaks RESP2 could not tell a plain reply from a message.
    let is_resp2_subscriber = context.session().is_ok_and(|session| session.is_resp2_subscriber());
    if is_resp2_subscriber && args.len() <= 2 {
        reply.array(2);
        reply.bulk(b"pong");
        reply.bulk(args.get(1).unwrap_or_default());
        return Ok(ControlOutcome::Done);
    }
    match args.len() {
        1 => reply.simple("PONG"),
        2 => reply.bulk(&args[1]),
        _ => return Err(commands::errors::wrong_arity(&context.entry.full_name)),
    }
    Ok(ControlOutcome::Done)
}

pub(super) const ECHO: ControlCommand = Command {
    spec: Spec {
        name: "ECHO",
        since: "1.0.0",
        group: Group::Connection,
        syntax: "message",
        summary: "Returns the given string.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::LOADING
            .and(Flags::STALE)
            .and(Flags::FAST)
            .and(Flags::IDEMPOTENT)
            .and(Flags::CHANGES_NOTHING),
        ..Spec::BASE
    },
    subcommands: &[],
    run: echo,
};

fn echo(
    _: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    reply.bulk(&args[1]);
    Ok(ControlOutcome::Done)
}

pub(super) const SELECT: ControlCommand = Command {
    spec: Spec {
        name: "SELECT",
        role: Role::Select,
        since: "1.0.0",
        group: Group::Connection,
        syntax: "index",
        summary: "Changes the selected database.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::LOADING
            .and(Flags::STALE)
            .and(Flags::FAST)
            .and(Flags::IDEMPOTENT)
            .and(Flags::CHANGES_NOTHING),
        databases: Databases::At(&[1]),
        ..Spec::BASE
    },
    subcommands: &[],
    run: select,
};

fn select(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let index = context.server.database_of(&args[1])?;
    context.session()?.select(index);
    reply.ok();
    Ok(ControlOutcome::Done)
}

pub(super) const QUIT: ControlCommand = Command {
    spec: Spec {
        name: "QUIT",
        since: "1.0.0",
        group: Group::Connection,
        summary: "Closes the connection.",
        complexity: "O(1)",
        arity: at_least(1),
        flags: AT_ANY_TIME.and(Flags::IMMEDIATE).and(Flags::SUBSCRIBED).and(Flags::SESSION),
        deprecated: Some(("7.2.0", "just closing the connection")),
        ..Spec::BASE
    },
    subcommands: &[],
    run: quit,
};

/// Its subscriptions are over before it hears so.
fn quit(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let (lane, entry) = (context.lane()?, context.entry);
    let session = context.session()?;
    if session.subscriptions.as_ref().is_some_and(|all| all.are_many()) {
        return Ok(ControlOutcome::in_steps(entry, args, BulkUnsubscription { closes: true }));
    }
    end_listening(lane, session, reply);
    Ok(ControlOutcome::Close)
}

/// Ends what is left of subscriptions, and says so.
fn end_listening(lane: &Lane, session: &mut Session, reply: &mut Reply<'_>) {
    if let Some(all) = &mut session.subscriptions {
        all.remove_all(|| lane.deliver_letters());
        session.pass_on(lane.shared, reply);
        session.subscriptions = None;
    }
    reply.ok();
}

/// Ends very many subscriptions.
struct BulkUnsubscription {
    /// Whether the connection is closed then, or begins anew.
    closes: bool,
}

impl SteppedWork for BulkUnsubscription {
    fn step(&mut self, step_context: &mut StepContext<'_, '_>) -> StepOutcome {
        let lane = step_context.lane;
        while let Some(all) = &mut step_context.session.subscriptions
            && all.remove_first(|| lane.deliver_letters())
        {
            if step_context.is_over() {
                return StepOutcome::GoesOn;
            }
        }
        let mut reply = Reply::new(step_context.out, step_context.session.resp);
        if self.closes {
            end_listening(lane, step_context.session, &mut reply);
            return StepOutcome::Closes;
        }
        // Publishers of messages that came meanwhile were told of a receiver.
        step_context.session.pass_on(lane.shared, &mut reply);
        begin_anew(lane.shared, step_context.session);
        Reply::new(step_context.out, step_context.session.resp).simple("RESET");
        StepOutcome::Done
    }
}

pub(super) const RESET: ControlCommand = Command {
    spec: Spec {
        name: "RESET",
        since: "6.2.0",
        group: Group::Connection,
        summary: "Resets the connection.",
        complexity: "O(1)",
        arity: exactly(1),
        flags: AT_ANY_TIME.and(Flags::IMMEDIATE).and(Flags::SUBSCRIBED).and(Flags::SESSION),
        ..Spec::BASE
    },
    subcommands: &[],
    run: reset,
};

fn reset(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let (server, entry, session) = (context.server, context.entry, context.session()?);
    if session.subscriptions.as_ref().is_some_and(|all| all.are_many()) {
        return Ok(ControlOutcome::in_steps(entry, args, BulkUnsubscription { closes: false }));
    }
    begin_anew(server, session);
    reply.simple("RESET");
    Ok(ControlOutcome::Done)
}

/// Makes the connection what it was when it came, but for the library's name, which stays true.
fn begin_anew(server: &'static Shared, session: &mut Session) {
    server.pushes.monitors.remove(&session.client);
    session.end_transaction(server);
    session.unsubscribe_all();
    session.untrack();
    session.set_caching(false);
    session.set_asking(false);
    session.client.set_flag(client_flags::READONLY, false);
    session.select(0);
    session.set_protocol(Resp::Two);
    session.authenticate(Some(server.access.users.default_user()).filter(|user| user.is_open()));
    if !session.is_authenticated() {
        // Its time to log in begins anew.
        session.client.names().forgotten_at = server.keyspace.clock().now_ms();
    }
    session.no_touch = false;
    session.forget_fieldsets();
    session.reply_mode.reset();
    let flags = client_flags::NO_EVICT | client_flags::NO_TOUCH | client_flags::IMPORT_SOURCE;
    session.client.set_flag(flags, false);
    session.client.names().name = Box::default();
}
