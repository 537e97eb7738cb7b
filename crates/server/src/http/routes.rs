//! What each path answers.
//!
//! Invariant: there is one answer for each request, and none of them waits.

use std::net::SocketAddr;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};

use super::state::HttpState;
use super::{access, health, metrics};

type HttpResponse = Response<Full<Bytes>>;

const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// The answer to a request.
pub(super) fn answer(
    server: &'static HttpState,
    peer: SocketAddr,
    request: &Request<Incoming>,
) -> HttpResponse {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let refusal = text(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "GET or HEAD\n".to_owned());
        return with(refusal, ALLOW, "GET, HEAD");
    }
    match request.uri().path() {
        "/healthz" => text(StatusCode::OK, PLAIN, "ok\n".to_owned()),
        "/readyz" => ready(server),
        "/metrics" => guarded(server, peer, request, || {
            let accepts = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
            let format = metrics::Format::of(accepts.unwrap_or_default());
            text(StatusCode::OK, format.content_type(), metrics::text(server, format))
        }),
        "/api/info" => guarded(server, peer, request, || {
            text(StatusCode::OK, JSON, metrics::json(&(server.info)()))
        }),
        _ => text(
            StatusCode::NOT_FOUND,
            PLAIN,
            "There are /metrics, /healthz, /readyz and /api/info.\n".to_owned(),
        ),
    }
}

fn ready(server: &HttpState) -> HttpResponse {
    match &health::reasons(server)[..] {
        [] => text(StatusCode::OK, PLAIN, "ok\n".to_owned()),
        reasons => text(StatusCode::SERVICE_UNAVAILABLE, PLAIN, reasons.join("\n") + "\n"),
    }
}

fn guarded(
    server: &HttpState,
    peer: SocketAddr,
    request: &Request<Incoming>,
    answer: impl FnOnce() -> HttpResponse,
) -> HttpResponse {
    match access::check(server, peer, request.headers()) {
        Ok(()) => answer(),
        Err(StatusCode::UNAUTHORIZED) => {
            let why = "A name and a password of ACL are needed.\n".to_owned();
            let refusal = text(StatusCode::UNAUTHORIZED, PLAIN, why);
            with(refusal, WWW_AUTHENTICATE, "Basic realm=\"apus\"")
        }
        Err(status) => {
            let why = "The user may not run INFO, or protected mode keeps strangers out.\n";
            text(status, PLAIN, why.to_owned())
        }
    }
}

fn text(status: StatusCode, kind: &'static str, body: String) -> HttpResponse {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    with(with(answer, CONTENT_TYPE, kind), CACHE_CONTROL, "no-store")
}

fn with(mut answer: HttpResponse, name: HeaderName, value: &'static str) -> HttpResponse {
    answer.headers_mut().insert(name, hyper::header::HeaderValue::from_static(value));
    answer
}
