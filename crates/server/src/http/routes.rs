//! What each path answers.
//!
//! Invariant: there is one answer for each request; what tells of health is made at once, and all
//! that takes longer on another thread.

use std::net::SocketAddr;

use acl::User;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, WWW_AUTHENTICATE};
use hyper::{Method, Request, StatusCode};

use super::response::{HttpResponse, PLAIN, UnsentAnswer, text, with};
use super::state::HttpState;
use super::{access, api, health, metrics, origin, page};

/// The answer to a request that came from the first of these ends to the second.
pub(super) async fn answer(
    server: &'static HttpState,
    ends: (SocketAddr, SocketAddr),
    request: Request<Incoming>,
) -> HttpResponse {
    let path = request.uri().path().to_owned();
    if let Some(path) = path.strip_prefix("/api/") {
        let path = path.to_owned();
        let make = async move {
            let answer = api::answer(server, ends, &path, request).await;
            server.answers.admit(answer)
        };
        return server.make(make).await;
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let refusal = text(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "GET or HEAD\n");
        return server.answers.admit(with(refusal, ALLOW, "GET, HEAD"));
    }
    let answer = match &*path {
        "/healthz" => text(StatusCode::OK, PLAIN, "ok\n"),
        "/readyz" => ready(server),
        "/metrics" => return make_figures(server, ends.0, request).await,
        other => page::answer(other).unwrap_or_else(|| {
            let there = "There are /, /metrics, /healthz, /readyz and /api/....\n";
            text(StatusCode::NOT_FOUND, PLAIN, there)
        }),
    };
    server.answers.admit(answer)
}

/// The answer to a request that came in by the port of Redis, where there are only metrics.
pub(super) async fn answer_guest(
    server: &'static HttpState,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> HttpResponse {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => make_figures(server, peer, request).await,
        _ => {
            let there = "There is GET /metrics.\n";
            server.answers.admit(text(StatusCode::NOT_FOUND, PLAIN, there))
        }
    }
}

async fn make_figures(
    server: &'static HttpState,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> HttpResponse {
    server.make(async move { server.answers.admit(figures(server, peer, &request)) }).await
}

fn figures(server: &HttpState, peer: SocketAddr, request: &Request<Incoming>) -> UnsentAnswer {
    if let Some(why) = origin::refusal_of_other_site(request.headers()) {
        return text(StatusCode::FORBIDDEN, PLAIN, format!("{why}\n"));
    }
    guarded(server, peer, request, |user| {
        let is_told_names = origin::may_be_told_names(request.headers(), user);
        let accepts = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
        let format = metrics::Format::of(accepts.unwrap_or_default());
        let keys = is_told_names && access::may_read_names(server, user);
        let users = is_told_names && access::may_read_users(server, user);
        let named = metrics::NamePermissions { keys, users };
        text(StatusCode::OK, format.content_type(), metrics::text(server, format, named))
    })
}

fn ready(server: &HttpState) -> UnsentAnswer {
    match &health::reasons(server)[..] {
        [] => text(StatusCode::OK, PLAIN, "ok\n"),
        reasons => text(StatusCode::SERVICE_UNAVAILABLE, PLAIN, reasons.join("\n") + "\n"),
    }
}

fn guarded(
    server: &HttpState,
    peer: SocketAddr,
    request: &Request<Incoming>,
    answer: impl FnOnce(&User) -> UnsentAnswer,
) -> UnsentAnswer {
    match access::check(server, peer, request.headers()) {
        Ok(user) => answer(&user),
        Err(StatusCode::UNAUTHORIZED) => {
            let why = "A name and a password of ACL are needed.\n";
            let refusal = text(StatusCode::UNAUTHORIZED, PLAIN, why);
            with(refusal, WWW_AUTHENTICATE, "Basic realm=\"apus\"")
        }
        Err(status) => {
            let why = "The user may not run INFO, or protected mode keeps strangers out.\n";
            text(status, PLAIN, why)
        }
    }
}
