//! The ports of HTTP, plain and encrypted, and their thread.
//!
//! Invariants: the ports are bound before the server says that it is ready; so many connections at
//! most are open, each for a bounded time.

use std::convert::Infallible;
use std::io::{self, Cursor};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::io_error_text::plain;
use config::settings::{HTTP_BIND, HTTP_METRICS_ON_PORT, HTTP_PORT, HTTP_TLS_PORT};
use engine::runtime::lanes::STACK_BYTES;
use engine::runtime::log::{log_notice, log_warning};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::spawn_local;

use super::response::HttpResponse;
use super::state::HttpState;
use super::{access, routes};
use crate::net::connection::RawStream;
use crate::net::listeners::bind_for;

/// More wait in the listener's queue.
const CONNECTIONS_MOST: usize = 64;

/// A request's head comes within this time, and a connection lives no longer than the second one.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
const LIFE_MOST: Duration = Duration::from_secs(300);

/// A pause after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that clients of HTTP come in by.
struct HttpSocket {
    address: SocketAddr,
    socket: std::net::TcpListener,
    is_encrypted: bool,
}

/// Opens the ports, if there are to be any, and serves them from now on.
pub(crate) fn open(server: HttpState) -> Result<(), String> {
    let binds = server.config.get(HTTP_BIND);
    let mut sockets = Vec::new();
    for (name, is_encrypted) in [(HTTP_PORT, false), (HTTP_TLS_PORT, true)] {
        let port = server.config.get(name);
        if port == 0 {
            continue;
        }
        for (address, socket) in bind_for(&server, &binds, port)? {
            let how = if is_encrypted { " over TLS" } else { "" };
            log_notice!(server.log, "Listening on {address} for HTTP{how}");
            sockets.push(HttpSocket { address, socket, is_encrypted });
        }
    }
    let takes_guests = server.config.get(HTTP_METRICS_ON_PORT);
    if sockets.is_empty() && !takes_guests {
        return Ok(());
    }
    let server: &'static HttpState = Box::leak(Box::new(server));
    let (sender, guests) = mpsc::unbounded_channel();
    if takes_guests {
        // The thread ends with the process only.
        server.let_http_in(move |stream, input| _ = sender.send(Guest { stream, input }));
    }
    let run = move || {
        let mut builder = Builder::new_current_thread();
        match builder.enable_all().build_local(LocalOptions::default()) {
            Ok(runtime) => runtime.block_on(serve_all(server, sockets, guests)),
            Err(error) => log_warning!(server.log, "Cannot serve HTTP: {}", plain(&error)),
        }
    };
    let thread = std::thread::Builder::new().name("http".to_owned()).stack_size(STACK_BYTES);
    thread.spawn(run).map(|_| ()).map_err(|error| format!("Cannot serve HTTP: {}", plain(&error)))
}

async fn serve_all(
    server: &'static HttpState,
    sockets: Vec<HttpSocket>,
    mut guests: mpsc::UnboundedReceiver<Guest>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MOST));
    for HttpSocket { address, socket, is_encrypted } in sockets {
        match TcpListener::from_std(socket) {
            Ok(listener) => {
                spawn_local(accept(server, listener, is_encrypted, Arc::clone(&places)));
            }
            Err(error) => {
                log_warning!(server.log, "Cannot serve HTTP on {address}: {}", plain(&error));
            }
        }
    }
    while let Some(guest) = guests.recv().await {
        // One that finds no place is closed: its requests cannot wait in a listener's queue.
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            spawn_local(async move {
                // A guest that cannot be read from is no client.
                let _ = guest.serve(server).await;
                drop(place);
            });
        }
    }
    std::future::pending::<()>().await;
}

/// A connection that came in by the port of Redis, with what it has sent already.
struct Guest {
    stream: RawStream,
    input: Vec<u8>,
}

impl Guest {
    async fn serve(self, server: &'static HttpState) -> io::Result<()> {
        let input = Cursor::new(self.input);
        match self.stream {
            RawStream::Tcp(socket) => {
                let stream = TcpStream::from_std(socket)?;
                let peer = stream.peer_addr()?;
                serve_guest(server, input, stream, peer).await;
            }
            RawStream::Tls(session) => {
                let stream = session.attach()?;
                let peer = stream.socket().peer_addr()?;
                serve_guest(server, input, *stream, peer).await;
            }
            // No address is known, by which its rights would be told.
            RawStream::Unix(_) => {}
        }
        Ok(())
    }
}

async fn serve_guest(
    server: &'static HttpState,
    input: Cursor<Vec<u8>>,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: SocketAddr,
) {
    let (reader, writer) = tokio::io::split(stream);
    let stream = tokio::io::join(input.chain(reader), writer);
    let service = service_fn(move |request| {
        answer_in_time(server, peer, request, async move |request| {
            routes::answer_guest(server, peer, &request)
        })
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(LIFE_MOST, connection).await;
}

async fn accept(
    server: &'static HttpState,
    listener: TcpListener,
    is_encrypted: bool,
    places: Arc<Semaphore>,
) {
    loop {
        let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
        match listener.accept().await {
            Ok((stream, peer)) => {
                let Ok(local) = stream.local_addr() else { continue };
                let ends = (peer, local);
                spawn_local(async move {
                    match is_encrypted {
                        false => serve(server, stream, ends).await,
                        true => {
                            // A client that cannot agree is no client.
                            if let Ok(stream) = server.tls.receive(stream, HEAD_PATIENCE).await {
                                serve(server, stream, ends).await;
                            }
                        }
                    }
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve(
    server: &'static HttpState,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    ends: (SocketAddr, SocketAddr),
) {
    let service = service_fn(move |request| {
        answer_in_time(server, ends.0, request, async move |request| {
            routes::answer(server, ends, request).await
        })
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    // A client that breaks off, or stays too long, is nobody's concern.
    let _ = tokio::time::timeout(LIFE_MOST, connection).await;
}

/// Answers a request, late where others from there have guessed at passwords.
async fn answer_in_time(
    server: &'static HttpState,
    peer: SocketAddr,
    request: Request<Incoming>,
    answer: impl AsyncFnOnce(Request<Incoming>) -> HttpResponse,
) -> Result<HttpResponse, Infallible> {
    // Whether the answer is late must not depend on whether the password is right.
    let delay = access::delay(server, peer, request.headers());
    let response = answer(request).await;
    if let Some(delay) = delay {
        tokio::time::sleep(delay).await;
    }
    Ok(response)
}
