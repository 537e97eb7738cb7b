//! One request to the endpoint, and its answer.
//!
//! Invariants: a request is over within a bounded time, whatever the endpoint does; no more of an
//! answer is kept than its meaning takes.

use std::io;
use std::time::Duration;

use base::io_error_text::strerror;
use config::Config;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::Builder;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use otlp::Signal;
use otlp::answer::{BODY_MAX, Verdict};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::timeout;

use super::plan::ExportPlan;
use crate::net::outgoing::connect_to_host;
use crate::net::tls::Tls;

/// A request is answered within this time, from the connection on.
const PATIENCE: Duration = Duration::from_secs(10);

/// The body of an answer comes within this time behind its head, which has said all that matters.
const BODY_PATIENCE: Duration = Duration::from_secs(2);

/// An answer with a longer head is none.
const HEAD_MAX: usize = 32 << 10;

const USER: &str = concat!("apus-otlp-exporter/", env!("CARGO_PKG_VERSION"));

/// What carries a connection; it ends with the request.
struct ConnectionTask(AbortHandle);

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends a body to the endpoint of a plan; the error says, for the log, why there was no answer.
pub(super) async fn post(
    config: &Config,
    plan: &ExportPlan,
    signal: Signal,
    body: Bytes,
    now_s: u64,
) -> Result<(u16, Verdict), String> {
    let request = request(plan, signal, body)?;
    match timeout(PATIENCE, connect_and_send(config, plan, request, now_s)).await {
        Ok(answered) => answered,
        Err(_) => Err(format!("no answer within {} seconds", PATIENCE.as_secs())),
    }
}

fn request(plan: &ExportPlan, signal: Signal, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(plan.endpoint.path_of(signal))
        .header(HOST, &plan.endpoint.authority)
        .header(CONTENT_TYPE, "application/x-protobuf")
        .header(CONNECTION, "close");
    let names_user = plan.headers.iter().any(|(name, _)| *name == USER_AGENT);
    if !names_user {
        request = request.header(USER_AGENT, USER);
    }
    for (name, value) in &plan.headers {
        request = request.header(name, value);
    }
    request.body(Full::new(body)).map_err(|_| "the path of the endpoint is none of HTTP".to_owned())
}

async fn connect_and_send(
    config: &Config,
    plan: &ExportPlan,
    request: Request<Full<Bytes>>,
    now_s: u64,
) -> Result<(u16, Verdict), String> {
    let (host, port) = (&*plan.endpoint.host, plan.endpoint.port);
    let socket = connect_to_host(config, host, port).await.map_err(|error| strerror(&error))?;
    match plan.tls() {
        None => send(socket, request, now_s).await,
        Some(context) => {
            let stream = Tls::connect_to(&context, host, socket).await;
            let stream = stream.map_err(|error: io::Error| strerror(&error))?;
            send(stream, request, now_s).await
        }
    }
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    request: Request<Full<Bytes>>,
    now_s: u64,
) -> Result<(u16, Verdict), String> {
    let mut builder = Builder::new();
    builder.max_buf_size(HEAD_MAX);
    let opened = builder.handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = opened.map_err(|error| error.to_string())?;
    // How the connection ended is told by the answer.
    let task = ConnectionTask(spawn_local(async { _ = connection.await }).abort_handle());
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let verdict = read(answer, now_s).await;
    drop(task);
    Ok(verdict)
}

async fn read(answer: Response<Incoming>, now_s: u64) -> (u16, Verdict) {
    let status = answer.status().as_u16();
    let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = retry_after.map(str::to_owned);
    let mut bytes = Vec::new();
    // What of the body is missing has nothing to say.
    let _ = timeout(BODY_PATIENCE, gather(answer.into_body(), &mut bytes)).await;
    (status, Verdict::of(status, retry_after.as_deref(), &bytes, now_s))
}

async fn gather(mut body: Incoming, bytes: &mut Vec<u8>) {
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        let room = BODY_MAX - bytes.len();
        bytes.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() >= room {
            return;
        }
    }
}
