//! The right to ask: that of a user of ACL, by name and password, or of the default user.
//!
//! Invariants: a figure is shown to no user that may not run INFO; protected mode is asked of each
//! request, whatever its headers say; a password that is wrong counts as one that AUTH was given.

use std::net::SocketAddr;
use std::sync::Arc;

use acl::{DEFAULT_USER, User};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use config::settings::PROTECTED_MODE;
use engine::admission::acl_check::{LoginAttempt, verify_from};
use engine::admission::delayed_login::DelayedLogin;
use engine::clients::registry::Peer;
use engine::session::needs_password;
use hyper::header::AUTHORIZATION;
use hyper::{HeaderMap, StatusCode};
use proto::OwnedArgs;

use super::state::HttpState;
use crate::control::server::info::INFO;
use crate::control::server::key_stats::{self, KEYSTATS};
use crate::control::server::quota::{self, QUOTA};

/// The user of a request, which may read what INFO tells; if that may not be, the status that says
/// so.
pub(super) fn check(
    server: &HttpState,
    peer: SocketAddr,
    headers: &HeaderMap,
) -> Result<Arc<User>, StatusCode> {
    let user = authenticate(server, peer, headers)?;
    match may_read_figures(server, &user) {
        true => Ok(user),
        false => Err(StatusCode::FORBIDDEN),
    }
}

/// Whether a user may run INFO.
pub(super) fn may_read_figures(server: &HttpState, user: &User) -> bool {
    may_run(server, user, &[INFO.spec.name])
}

/// Whether a user may read the names of keys that KEYSTATS tells.
pub(super) fn may_read_names(server: &HttpState, user: &User) -> bool {
    may_run(server, user, &[KEYSTATS.spec.name, key_stats::HOT.spec.name])
}

/// Whether a user may read the names of users that QUOTA tells.
pub(super) fn may_read_users(server: &HttpState, user: &User) -> bool {
    may_run(server, user, &[QUOTA.spec.name, quota::USERS.spec.name])
}

/// Whether a user may run a command. One that was renamed, or taken away from clients, keeps its
/// rights.
fn may_run(server: &HttpState, user: &User, words: &[&str]) -> bool {
    let words: OwnedArgs = words.iter().map(|word| word.as_bytes()).collect();
    let entry = server.table.resolve_declared(words.as_args()).expect("the command is declared");
    user.rules().may_run(entry.id, words.as_args())
}

/// The user of a request; if there is none, the status that says so.
pub(super) fn authenticate(
    server: &HttpState,
    peer: SocketAddr,
    headers: &HeaderMap,
) -> Result<Arc<User>, StatusCode> {
    // As on the other ports: where a stranger's command would need no password, a header with one
    // makes the stranger no less of one.
    let is_near = peer.ip().to_canonical().is_loopback();
    if !is_near && server.config.get(PROTECTED_MODE) && !needs_password(server) {
        return Err(StatusCode::FORBIDDEN);
    }
    let Some(value) = headers.get(AUTHORIZATION) else {
        return server.access.users.authenticate(DEFAULT_USER, b"").ok_or(StatusCode::UNAUTHORIZED);
    };
    // What cannot be read is a guess like any other.
    let (name, password) = credentials(value.as_bytes()).unwrap_or_default();
    let (context, word) = (acl::Context::TopLevel, b"AUTH");
    let login = LoginAttempt { context, word, name: &name, password: &password };
    let describe = || format!("addr={peer} cmd=http");
    verify_from(server, Peer::Tcp(peer.into()), login, describe)
        .map_err(|_| StatusCode::UNAUTHORIZED)
}

/// Waits until the password of a request may be looked at, if others from there have failed.
pub(super) async fn await_login(server: &HttpState, peer: SocketAddr, headers: &HeaderMap) {
    if !headers.contains_key(AUTHORIZATION) {
        return;
    }
    let Some(login) = DelayedLogin::begin(server, Peer::Tcp(peer.into())) else { return };
    while let Some(left) = login.time_left(server) {
        tokio::time::sleep(left).await;
    }
}

/// The name and the password of a header: `Basic` with both, or `Bearer` with a password.
fn credentials(value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let text = std::str::from_utf8(value).ok()?;
    let (scheme, given) = text.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some((DEFAULT_USER.to_vec(), given.trim().as_bytes().to_vec()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(given.trim()).ok()?;
    let at = decoded.iter().position(|byte| *byte == b':')?;
    let name = if at == 0 { DEFAULT_USER } else { &decoded[..at] };
    Some((name.to_vec(), decoded[at + 1..].to_vec()))
}
