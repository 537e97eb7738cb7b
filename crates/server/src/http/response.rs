//! The answers of HTTP: their bodies and their heads.
//!
//! Invariant: no answer may be stored, framed, or taken for another type than it says.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};

use super::json;

/// An answer as it is made.
pub(super) type UnsentAnswer = Response<Bytes>;

/// An answer that leaves.
pub(super) type HttpResponse = Response<Full<Bytes>>;

pub(super) const PLAIN: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json";

/// Why a request has nothing but a status and a sentence.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: StatusCode,
    pub(super) why: String,
}

impl Failure {
    pub(super) fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self { status, why: why.into() }
    }

    /// The caller asked for what cannot be.
    pub(super) fn of_caller(why: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, why)
    }

    /// As an answer of the API.
    pub(super) fn as_json(&self) -> UnsentAnswer {
        text(self.status, JSON, json::object([("error", json::quoted(&self.why))]))
    }
}

/// An answer of this type.
pub(super) fn text(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> UnsentAnswer {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// The same with one more header.
pub(super) fn with(
    mut answer: UnsentAnswer,
    name: HeaderName,
    value: &'static str,
) -> UnsentAnswer {
    answer.headers_mut().insert(name, HeaderValue::from_static(value));
    answer
}
