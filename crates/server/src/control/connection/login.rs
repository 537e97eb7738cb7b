//! AUTH and HELLO: the client's user and its protocol.
//!
//! Invariants: how long a refusal takes says nothing about the password or about which users exist;
//! an attempt that is delayed has no effect before its time; a HELLO that fails leaves the protocol
//! and the name as they were.

use std::time::Duration;

use acl::DEFAULT_USER;
use base::quote::shown;
use commands::arguments::is;
use commands::declare::{Command, Flags, Group, Secrets, Spec, at_least};
use commands::errors::{SYNTAX, showing};
use config::Profile;
use config::settings::HELLO_SERVER_NAME;
use engine::admission::acl_check::{LoginAttempt, verify};
use engine::admission::delayed_login::DelayedLogin;
use engine::runtime::version;
use engine::session::Session;
use keyspace::Refusal;
use proto::{Args, Reply, Resp};

use super::flags::AT_ANY_TIME;
use super::names::checked_client_name;
use crate::control::context::{Context, ControlCommand, ControlOutcome};
use crate::control::delayed_command::{TimeLeft, run_later};
use crate::server::Server;

const NO_PASSWORD_SET: Refusal = Refusal::error(
    "ERR AUTH <password> called without any password configured for the default user. Are you sure \
     your configuration is correct?",
);

const HELLO_WITHOUT_AUTH: Refusal = Refusal::error(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
     <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
     protocol version at the same time",
);

const NOT_A_VERSION: Refusal =
    Refusal::error("ERR Protocol version is not an integer or out of range");

const DELAYED_IN_EXEC: Refusal = Refusal::error(
    "ERR Logins from this address are delayed, as too many have failed: AUTH and HELLO AUTH are \
     not served within MULTI/EXEC meanwhile",
);

const UNKNOWN_VERSION: Refusal = Refusal::error("NOPROTO unsupported protocol version");

/// What is booked of the wait of a login: it is no work, of which a user has a quota.
const UNBOOKED: Duration = Duration::ZERO;

pub(super) const AUTH: ControlCommand = Command {
    spec: Spec {
        name: "AUTH",
        since: "1.0.0",
        group: Group::Connection,
        syntax: "[username] password",
        summary: "Authenticates the connection.",
        complexity: "O(N) where N is the number of passwords defined for the user",
        arity: at_least(2),
        flags: AT_ANY_TIME.and(Flags::SESSION),
        history: &[("6.0.0", "Added ACL style (username and password).")],
        secrets: Secrets::From(1),
        ..Spec::BASE
    },
    subcommands: &[],
    run: auth,
};

fn auth(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    match delay(context)? {
        Some(time_left) => Ok(run_later(context, args, (UNBOOKED, time_left), auth_now)),
        None => auth_now(context, args, reply),
    }
}

fn auth_now(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    let (user, password) = match args.len() {
        2 if server.access.users.default_user().rules().needs_no_password() => {
            return Err(NO_PASSWORD_SET);
        }
        2 => (DEFAULT_USER, &args[1]),
        3 => (&args[1], &args[2]),
        _ => return Err(SYNTAX),
    };
    let session = context.session()?;
    log_in(server, session, &args[0], (user, password))?;
    reply.ok();
    Ok(ControlOutcome::Done)
}

pub(super) const HELLO: ControlCommand = Command {
    spec: Spec {
        name: "HELLO",
        since: "6.0.0",
        group: Group::Connection,
        syntax: "[protover [AUTH username password] [SETNAME clientname]]",
        summary: "Handshakes with the Redis server.",
        complexity: "O(1)",
        arity: at_least(1),
        flags: AT_ANY_TIME.and(Flags::SESSION),
        history: &[(
            "6.2.0",
            "`protover` made optional; when called without arguments the command reports the \
                 current connection's context.",
        )],
        secrets: Secrets::Options {
            first: 2,
            options: &[("AUTH", 2), ("SETNAME", 1)],
            secret: "AUTH",
        },
        ..Spec::BASE
    },
    subcommands: &[],
    run: hello,
};

fn hello(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let logs_in = args.iter().skip(2).any(|word| is(word, "AUTH"));
    let delay = if logs_in { delay(context)? } else { None };
    match delay {
        Some(time_left) => Ok(run_later(context, args, (UNBOOKED, time_left), hello_now)),
        None => hello_now(context, args, reply),
    }
}

fn hello_now(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let (server, session) = (context.server, context.session()?);
    let resp = wanted_version(args)?;
    let wishes = HelloOptions::read(args)?;
    if let Some(credentials) = wishes.credentials {
        log_in(server, session, &args[0], credentials)?;
    }
    if session.effective_user(server).is_none() {
        return Err(HELLO_WITHOUT_AUTH);
    }
    if let Some(name) = wishes.name {
        session.client.names().name = name.into();
    }
    if let Some(resp) = resp {
        session.set_protocol(resp);
    }
    // The reply is the first one in the new protocol.
    reply.speak(session.resp);
    let is_sentinel = server.config.profile() == Profile::Sentinel;
    reply.map(if is_sentinel { 6 } else { 7 });
    reply.bulk(b"server");
    reply.bulk(&server.config.get(HELLO_SERVER_NAME));
    reply.bulk(b"version");
    reply.bulk(version::of_redis(&server.config).as_bytes());
    reply.bulk(b"proto");
    reply.integer(if session.resp == Resp::Two { 2 } else { 3 });
    reply.bulk(b"id");
    reply.integer(session.client.id as i64);
    reply.bulk(b"mode");
    reply.bulk(version::mode(&server.config).as_bytes());
    if !is_sentinel {
        let is_replica = server.gates.replica_role.is_replica();
        reply.bulk(b"role");
        reply.bulk(if is_replica { b"replica" } else { b"master" });
    }
    reply.bulk(b"modules");
    reply.array(0);
    Ok(ControlOutcome::Done)
}

fn wanted_version(args: Args<'_>) -> Result<Option<Resp>, Refusal> {
    let Some(version) = args.get(1) else { return Ok(None) };
    match base::number::parse_i64(version).ok_or(NOT_A_VERSION)? {
        2 => Ok(Some(Resp::Two)),
        3 => Ok(Some(Resp::Three)),
        _ => Err(UNKNOWN_VERSION),
    }
}

/// The options of a HELLO.
#[derive(Default)]
struct HelloOptions<'a> {
    credentials: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

impl<'a> HelloOptions<'a> {
    fn read(args: Args<'a>) -> Result<Self, Refusal> {
        let mut wishes = Self::default();
        let mut next = 2;
        while let Some(word) = args.get(next) {
            match (args.get(next + 1), args.get(next + 2)) {
                (Some(user), Some(password)) if is(word, "AUTH") => {
                    wishes.credentials = Some((user, password));
                    next += 3;
                }
                (Some(name), _) if is(word, "SETNAME") => {
                    wishes.name = Some(checked_client_name(name)?);
                    next += 2;
                }
                _ => {
                    let word = shown(word, usize::MAX);
                    return Err(showing("ERR Syntax error in HELLO option '", word, "'"));
                }
            }
        }
        Ok(wishes)
    }
}

/// How long an attempt to log in waits, as others from there have failed. A transaction, which
/// holds locks, is not kept waiting: its attempt is refused, whatever the password.
fn delay(context: &mut Context<'_>) -> Result<Option<TimeLeft>, Refusal> {
    let server = context.server;
    let Ok(session) = context.session() else { return Ok(None) };
    let Some(login) = DelayedLogin::begin(server, session.client.peer) else { return Ok(None) };
    if context.unit.is_some() {
        return Err(DELAYED_IN_EXEC);
    }
    Ok(Some(Box::new(move |server| login.time_left(server))))
}

/// Makes a session that of a user, if this is the user's password.
fn log_in(
    server: &Server,
    session: &mut Session,
    word: &[u8],
    (name, password): (&[u8], &[u8]),
) -> Result<(), Refusal> {
    let context = if session.is_queueing() { acl::Context::Multi } else { acl::Context::TopLevel };
    let user = verify(server, &session.client, LoginAttempt { context, word, name, password })?;
    session.authenticate(Some(user));
    Ok(())
}
