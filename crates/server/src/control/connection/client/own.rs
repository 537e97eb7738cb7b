//! CLIENT subcommands by which a client tells about itself.
//!
//! Invariant: they concern the client that sends them and no other.

use base::quote::shown;
use commands::arguments::is;
use commands::declare::{Command, Flags, Group, Role, Spec, at_least, exactly};
use commands::errors::{SYNTAX, showing};
use config::settings::IMPORT_MODE;
use engine::clients::registry::client_flags;
use keyspace::Refusal;
use proto::{Args, Reply};

use super::super::names::{checked, checked_client_name};
use super::specs::{OF_ITSELF, OF_OTHERS};
use crate::control::context::{Context, ControlCommand, Next};

pub(super) const ID: ControlCommand = Command {
    spec: Spec {
        name: "ID",
        since: "5.0.0",
        summary: "Returns the unique client ID of the connection.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: OF_ITSELF.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..OF_ITSELF
    },
    subcommands: &[],
    run: id,
};

fn id(context: &mut Context<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    reply.integer(context.session()?.client.id as i64);
    Ok(Next::Done)
}

pub(super) const GETNAME: ControlCommand = Command {
    spec: Spec {
        name: "GETNAME",
        since: "2.6.9",
        summary: "Returns the name of the connection.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: OF_ITSELF.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..OF_ITSELF
    },
    subcommands: &[],
    run: getname,
};

fn getname(context: &mut Context<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    match &*context.session()?.client.names().name {
        [] => reply.null(),
        name => reply.bulk(name),
    }
    Ok(Next::Done)
}

pub(super) const SETNAME: ControlCommand = Command {
    spec: Spec {
        name: "SETNAME",
        since: "2.6.9",
        syntax: "connection-name",
        summary: "Sets the connection name.",
        complexity: "O(1)",
        arity: exactly(3),
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        flags: OF_ITSELF.flags.and(Flags::SESSION),
        ..OF_ITSELF
    },
    subcommands: &[],
    run: setname,
};

fn setname(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    context.session()?.client.names().name = checked_client_name(&args[2])?.into();
    reply.ok();
    Ok(Next::Done)
}

pub(super) const SETINFO: ControlCommand = Command {
    spec: Spec {
        name: "SETINFO",
        since: "7.2.0",
        syntax: "<LIB-NAME libname | LIB-VER libver>",
        summary: "Sets information specific to the client or connection.",
        complexity: "O(1)",
        arity: exactly(4),
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        flags: OF_ITSELF.flags.and(Flags::SESSION),
        ..OF_ITSELF
    },
    subcommands: &[],
    run: setinfo,
};

fn setinfo(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    let option = shown(&args[2], usize::MAX);
    if is(&args[2], "LIB-NAME") {
        context.session()?.client.names().library = checked(&args[3], option)?.into();
    } else if is(&args[2], "LIB-VER") {
        context.session()?.client.names().library_version = checked(&args[3], option)?.into();
    } else {
        return Err(showing("ERR Unrecognized option '", option, "'"));
    }
    reply.ok();
    Ok(Next::Done)
}

pub(super) const NO_EVICT: ControlCommand = Command {
    spec: Spec {
        name: "NO-EVICT",
        since: "7.0.0",
        syntax: "<ON | OFF>",
        summary: "Sets the client eviction mode of the connection.",
        complexity: "O(1)",
        arity: exactly(3),
        ..OF_OTHERS
    },
    subcommands: &[],
    run: no_evict,
};

fn no_evict(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    let on = on_or_off(&args[2])?;
    context.session()?.client.set_flag(client_flags::NO_EVICT, on);
    reply.ok();
    Ok(Next::Done)
}

pub(super) const NO_TOUCH: ControlCommand = Command {
    spec: Spec {
        name: "NO-TOUCH",
        since: "7.2.0",
        syntax: "<ON | OFF>",
        summary: "Controls whether commands sent by the client affect the LRU/LFU of accessed \
         keys.",
        complexity: "O(1)",
        arity: exactly(3),
        ..OF_ITSELF
    },
    subcommands: &[],
    run: no_touch,
};

fn no_touch(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    let on = on_or_off(&args[2])?;
    context.session()?.no_touch = on;
    context.session()?.client.set_flag(client_flags::NO_TOUCH, on);
    reply.ok();
    Ok(Next::Done)
}

pub(super) const REPLY: ControlCommand = Command {
    spec: Spec {
        name: "REPLY",
        since: "3.2.0",
        syntax: "<ON | OFF | SKIP>",
        summary: "Instructs the server whether to reply to commands.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: OF_ITSELF.flags.and(Flags::SESSION),
        ..OF_ITSELF
    },
    subcommands: &[],
    run: set_reply_mode,
};

fn set_reply_mode(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    let (server, is_alone) = (context.server, context.unit.is_none());
    let session = context.session()?;
    if is(&args[2], "ON") && is_alone {
        // What came while replies were off is passed on as that says.
        session.pass_on(server, reply);
    }
    let mode = &mut session.reply_mode;
    if is(&args[2], "ON") {
        mode.switch_on();
        reply.ok();
    } else if is(&args[2], "OFF") {
        mode.switch_off();
    } else if !is(&args[2], "SKIP") {
        return Err(SYNTAX);
    } else {
        mode.skip_next();
    }
    Ok(Next::Done)
}

pub(super) const CAPA: ControlCommand = Command {
    spec: Spec {
        name: "CAPA",
        role: Role::Client,
        since: "8.0.0",
        group: Group::Connection,
        syntax: "capability [capability ...]",
        summary: "A client claims its capability.",
        complexity: "O(1)",
        arity: at_least(3),
        flags: Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE).and(Flags::ALLOW_BUSY),
        origin: "valkey",
        ..Spec::BASE
    },
    subcommands: &[],
    run: capa,
};

/// Capabilities that we do not know are ignored: a client may be newer than the server.
fn capa(context: &mut Context<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    if args.skip(2).iter().any(|capability| is(capability, "redirect")) {
        context.session()?.client.set_flag(client_flags::REDIRECT, true);
    }
    reply.ok();
    Ok(Next::Done)
}

pub(super) const IMPORT_SOURCE: ControlCommand = Command {
    spec: Spec {
        name: "IMPORT-SOURCE",
        since: "8.1.0",
        syntax: "<ON | OFF>",
        summary: "Marks this client as an import source when the server is in import mode.",
        complexity: "O(1)",
        arity: exactly(3),
        origin: "valkey",
        ..OF_ITSELF
    },
    subcommands: &[],
    run: import_source,
};

fn import_source(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    let is_off = is(&args[2], "OFF");
    if !is_off && !context.server.config.get(IMPORT_MODE) {
        return Err(Refusal::error("ERR Server is not in import mode"));
    }
    let on = on_or_off(&args[2])?;
    context.session()?.client.set_flag(client_flags::IMPORT_SOURCE, on);
    reply.ok();
    Ok(Next::Done)
}

pub(super) const MAINT_NOTIFICATIONS: ControlCommand = Command {
    spec: Spec {
        name: "MAINT_NOTIFICATIONS",
        since: "8.2.0",
        syntax: "<ON | OFF> [MOVING-ENDPOINT-TYPE type]",
        summary: "Controls whether the connection is told of planned maintenance.",
        complexity: "O(1)",
        arity: at_least(3),
        origin: "redis-enterprise",
        ..OF_ITSELF
    },
    subcommands: &[],
    run: maint_notifications,
};

/// Clients ask on every connection and go on without when told no.
fn maint_notifications(
    _: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    if on_or_off(&args[2])? {
        return Err(Refusal::error("ERR Maintenance notifications are not supported"));
    }
    reply.ok();
    Ok(Next::Done)
}

fn on_or_off(word: &[u8]) -> Result<bool, Refusal> {
    match word {
        on if is(on, "ON") => Ok(true),
        off if is(off, "OFF") => Ok(false),
        _ => Err(SYNTAX),
    }
}
