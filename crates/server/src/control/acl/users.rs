//! The ACL commands that show and change users.
//!
//! Invariant: a user changes as the whole command says, or not at all.

use std::sync::Arc;

use acl::{DEFAULT_USER, Denial, Permissions, RuleError, User};
use base::quote::shown;
use commands::declare::{Command, Flags, Secrets, Spec, at_least, exactly};
use commands::errors::wrong_arity;
use engine::admission::acl_check::{must_disconnect, recheck_clients_of};
use engine::session::Request;
use keyspace::Refusal;
use proto::{Args, Reply};

use super::shared::{OF_USERS, quoting};
use crate::control::context::{Context, ControlCommand, ControlOutcome};

pub(super) const SETUSER: ControlCommand = Command {
    spec: Spec {
        name: "SETUSER",
        since: "6.0.0",
        syntax: "username [rule [rule ...]]",
        summary: "Creates and modifies an ACL user and its rules.",
        complexity: "O(N). Where N is the number of rules provided.",
        arity: at_least(3),
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        history: &[
            ("6.2.0", "Added Pub/Sub channel patterns."),
            ("7.0.0", "Added selectors and key based permissions."),
        ],
        secrets: Secrets::From(2),
        ..OF_USERS
    },
    subcommands: &[],
    run: setuser,
};

fn setuser(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    if !acl::is_name(&args[2]) {
        return Err(Refusal::error("ERR Usernames can't contain spaces or null characters"));
    }
    let words: Vec<&[u8]> = args.skip(3).iter().collect();
    let user = context.server.access.users.set(&args[2], &words).map_err(|error| match error {
        RuleError::Wrong { word, why } => {
            quoting("Error in ACL SETUSER modifier", shown(&word, usize::MAX), &format!(": {why}"))
        }
        RuleError::Unmatched { word } => {
            quoting("Unmatched parenthesis in acl selector starting at", &word, ".")
        }
    })?;
    reply.ok();
    notify_clients(context, &[user])
}

pub(super) const GETUSER: ControlCommand = Command {
    spec: Spec {
        name: "GETUSER",
        since: "6.0.0",
        syntax: "username",
        summary: "Lists the ACL rules of a user.",
        complexity: "O(N). Where N is the number of password, command and pattern rules that the \
         user has.",
        arity: exactly(3),
        history: &[
            ("6.2.0", "Added Pub/Sub channel patterns."),
            (
                "7.0.0",
                "Added selectors and changed the format of key and channel patterns from a list \
                 to their rule representation.",
            ),
        ],
        flags: OF_USERS.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        secrets: Secrets::From(2),
        ..OF_USERS
    },
    subcommands: &[],
    run: getuser,
};

fn getuser(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let users = &context.server.access.users;
    let Some(user) = users.named(&args[2]) else {
        reply.null();
        return Ok(ControlOutcome::Done);
    };
    let rules = user.rules();
    let root = rules.root(users.catalogue());
    reply.map(3 + permission_count(&root));
    reply.bulk(b"flags");
    let flags = rules.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    let passwords: Vec<String> = rules.passwords().collect();
    reply.array(passwords.len());
    passwords.iter().for_each(|digest| reply.bulk(digest.as_bytes()));
    reply_permissions(&root, reply);
    reply.bulk(b"selectors");
    let selectors = rules.selectors(users.catalogue());
    reply.array(selectors.len());
    for selector in selectors {
        reply.map(permission_count(&selector));
        reply_permissions(&selector, reply);
    }
    Ok(ControlOutcome::Done)
}

/// Databases are Valkey's, so they are told only where a rule speaks of them.
fn permission_count(permissions: &Permissions) -> usize {
    3 + usize::from(permissions.databases.is_some())
}

fn reply_permissions(permissions: &Permissions, reply: &mut Reply<'_>) {
    let Permissions { commands, keys, channels, databases } = permissions;
    let mut pair = |what: &str, rules: &[u8]| {
        reply.bulk(what.as_bytes());
        reply.bulk(rules);
    };
    pair("commands", commands);
    pair("keys", keys);
    pair("channels", channels);
    if let Some(databases) = databases {
        pair("databases", databases);
    }
}

pub(super) const DELUSER: ControlCommand = Command {
    spec: Spec {
        name: "DELUSER",
        since: "6.0.0",
        syntax: "username [username ...]",
        summary: "Deletes ACL users, and terminates their connections.",
        complexity: "O(1) amortized time considering the typical user.",
        arity: at_least(3),
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        secrets: Secrets::From(2),
        ..OF_USERS
    },
    subcommands: &[],
    run: deluser,
};

fn deluser(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let names = args.skip(2);
    if names.iter().any(|name| name == DEFAULT_USER) {
        return Err(Refusal::error("ERR The 'default' user cannot be removed"));
    }
    let users = &context.server.access.users;
    let removed: Vec<Arc<User>> = names.iter().filter_map(|name| users.remove(name)).collect();
    reply.integer(removed.len() as i64);
    notify_clients(context, &removed)
}

/// Tells the clients of these users that they have changed, or are gone. The own client has its
/// reply and goes, too, if it has to.
fn notify_clients(
    context: &mut Context<'_>,
    users: &[Arc<User>],
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    let session = context.session()?;
    recheck_clients_of(server, users, Some(session.client.id));
    Ok(if must_disconnect(server, session) { ControlOutcome::Close } else { ControlOutcome::Done })
}

pub(super) const DRYRUN: ControlCommand = Command {
    spec: Spec {
        name: "DRYRUN",
        since: "7.0.0",
        syntax: "username command [arg [arg ...]]",
        summary: "Simulates the execution of a command by a user, without executing the command.",
        complexity: "O(1).",
        arity: at_least(4),
        flags: OF_USERS.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        // The command that a user is asked to be allowed may be a login.
        secrets: Secrets::From(4),
        ..OF_USERS
    },
    subcommands: &[],
    run: dryrun,
};

fn dryrun(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    let Some(user) = server.access.users.named(&args[2]) else {
        return Err(quoting("User", &args[2], " not found"));
    };
    let (entry, tried) = match server.table.resolve(args.skip(3)) {
        Ok(entry) => (entry, args.skip(3)),
        Err(_) => return Err(quoting("Command", &args[3], " not found")),
    };
    if !entry.spec.arity.admits(tried.len()) {
        return Err(wrong_arity(&entry.full_name));
    }
    let request = Request { entry, args: tried, database: 0 };
    let Some(denial) = engine::session::denial(server, &user.rules(), request) else {
        reply.ok();
        return Ok(ControlOutcome::Done);
    };
    let text: [&[u8]; 3] = match denial {
        Denial::Command => [b"run the '", entry.full_name.as_bytes(), b"' command"],
        Denial::Key(index) => [b"access the '", &tried[index], b"' key"],
        Denial::Channel(index) => [b"access the '", &tried[index], b"' channel"],
        Denial::Database(index) => [b"access database ", &tried[index], b""],
    };
    let who: [&[u8]; 3] = [b"User ", user.name(), b" has no permissions to "];
    reply.bulk(&[who.concat(), text.concat()].concat());
    Ok(ControlOutcome::Done)
}

pub(super) const LIST: ControlCommand = Command {
    spec: Spec {
        name: "LIST",
        since: "6.0.0",
        summary: "Dumps the effective rules in ACL file format.",
        complexity: "O(N). Where N is the number of configured users.",
        arity: exactly(2),
        flags: OF_USERS.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..OF_USERS
    },
    subcommands: &[],
    run: list,
};

fn list(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let users = &context.server.access.users;
    let all = users.all();
    reply.array(all.len());
    all.iter().for_each(|user| reply.bulk(&users.line(user)));
    Ok(ControlOutcome::Done)
}

pub(super) const USERS: ControlCommand = Command {
    spec: Spec {
        name: "USERS",
        since: "6.0.0",
        summary: "Lists all ACL users.",
        complexity: "O(N). Where N is the number of configured users.",
        arity: exactly(2),
        flags: OF_USERS.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..OF_USERS
    },
    subcommands: &[],
    run: users,
};

fn users(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let all = context.server.access.users.all();
    reply.array(all.len());
    all.iter().for_each(|user| reply.bulk(user.name()));
    Ok(ControlOutcome::Done)
}
