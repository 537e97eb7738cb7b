//! `/api`: what the dashboard shows, as JSON.
//!
//! Invariants: a figure needs the right to run INFO; all else is told by commands in a session of
//! the caller's user, with the rights of that user; no answer is of more than one page of data.

mod accounts;
mod commands;
mod config;
mod console;
mod figures;
mod key_stats;
mod keys;
mod lists;
mod values;

use std::net::SocketAddr;

use hyper::body::Incoming;
use hyper::header::WWW_AUTHENTICATE;
use hyper::{Method, Request, StatusCode};
use proto::value::Value;

use super::command_session::{Caller, CommandSession, Words};
use super::query::Query;
use super::response::{Failure, JSON, UnsentAnswer, text, with};
use super::{access, json, origin};
use crate::http::HttpState;

/// What stands behind `/api/`.
const PATHS: &str = "info, me, latency, keys, key, hotkeys, bigkeys, prefixes, clients, \
                     accounts, slow, config, commands, command";

/// The answer to a request for a path behind `/api/`.
pub(super) async fn answer(
    server: &'static HttpState,
    ends: (SocketAddr, SocketAddr),
    path: &str,
    request: Request<Incoming>,
) -> UnsentAnswer {
    match answer_or_fail(server, ends, path, request).await {
        Ok(body) => text(StatusCode::OK, JSON, body),
        Err(failure) if failure.status == StatusCode::UNAUTHORIZED => {
            // A browser would ask for a password by itself if it were told of `Basic`.
            with(failure.as_json(), WWW_AUTHENTICATE, "Bearer realm=\"apus\"")
        }
        Err(failure) => failure.as_json(),
    }
}

async fn answer_or_fail(
    server: &'static HttpState,
    ends: (SocketAddr, SocketAddr),
    path: &str,
    request: Request<Incoming>,
) -> Result<String, Failure> {
    let headers = request.headers();
    let refuse = |why| Err(Failure::new(StatusCode::FORBIDDEN, why));
    if let Some(why) = origin::refusal_of_other_site(headers) {
        return refuse(why);
    }
    let user = access::authenticate(server, ends.0, headers).map_err(|status| {
        let why = match status {
            StatusCode::UNAUTHORIZED => "A name and a password of ACL are needed.",
            _ => "Protected mode keeps strangers out.",
        };
        Failure::new(status, why)
    })?;
    if let Some(why) = origin::refusal_of_name(headers, &user) {
        return refuse(why);
    }
    if (path == "command") != (request.method() == Method::POST) {
        let why = "POST is for /api/command, and GET for all else.";
        return Err(Failure::new(StatusCode::METHOD_NOT_ALLOWED, why));
    }
    let caller = Caller::new(server, ends, user);
    let told = respond(&caller, path, request).await;
    caller.sessions_over().await;
    told
}

async fn respond(
    caller: &Caller,
    path: &str,
    request: Request<Incoming>,
) -> Result<String, Failure> {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    match path {
        "info" => figures::info(caller),
        "me" => Ok(figures::me(caller)),
        "latency" => figures::latency(caller),
        "keys" => keys::list(caller, &query).await,
        "key" => values::show(caller, &query).await,
        "hotkeys" => key_stats::hot(caller, &query).await,
        "bigkeys" => key_stats::big(caller, &query).await,
        "prefixes" => key_stats::prefixes(caller).await,
        "clients" => lists::clients(caller).await,
        "accounts" => accounts::list(caller).await,
        "slow" => lists::slow(caller).await,
        "config" => config::list(caller).await,
        "commands" => Ok(commands::list(caller.server)),
        "command" => console::run(caller, &query, request.into_body()).await,
        _ => {
            let why = format!("There are, behind /api/: {PATHS}.");
            Err(Failure::new(StatusCode::NOT_FOUND, why))
        }
    }
}

/// Opens a session in the database that a query names, by the command and with the right that this
/// takes.
async fn open<'c>(caller: &'c Caller, query: &Query) -> Result<CommandSession<'c>, Failure> {
    let database = query.number("db", 0).map_err(Failure::of_caller)?;
    let mut session = CommandSession::open(caller)?;
    if database != 0 {
        let select = words(caller.server, [b"SELECT", database.to_string().as_bytes()])?;
        accepted(session.run(&[select]).await?.pop().unwrap_or(Value::Null))?;
    }
    Ok(session)
}

/// A request by the names that commands were declared by, whatever clients call them.
fn words<const N: usize>(server: &HttpState, words: [&[u8]; N]) -> Result<Words, Failure> {
    let mut words: Words = words.map(<[u8]>::to_vec).into();
    let Some(entry) = server.table.declared_for_clients(&words[0]) else {
        let name = String::from_utf8_lossy(&words[0]);
        let why = format!("rename-command took {name} away, which this view needs.");
        return Err(Failure::new(StatusCode::FORBIDDEN, why));
    };
    words[0] = entry.full_name.clone().into_bytes();
    Ok(words)
}

/// Runs one request in a session of its own; an error of the command is the answer.
async fn run(caller: &Caller, request: Words) -> Result<Value, Failure> {
    let mut session = CommandSession::open(caller)?;
    let reply = session.run(&[request]).await?.pop().unwrap_or(Value::Null);
    accepted(reply)
}

/// A reply that is no error.
fn accepted(reply: Value) -> Result<Value, Failure> {
    let Value::Error(line) = reply else { return Ok(reply) };
    let line = String::from_utf8_lossy(&line).into_owned();
    let status = match line.split(' ').next() {
        Some("NOPERM") => StatusCode::FORBIDDEN,
        Some("LOADING" | "BUSY" | "MASTERDOWN") => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    Err(Failure::new(status, line))
}

/// A reply that may be an error, in which case there is nothing to say.
fn or_null(reply: &Value) -> String {
    match reply {
        Value::Error(_) => "null".to_owned(),
        Value::Simple(text) => json::bytes(text),
        other => json::reply(other),
    }
}
