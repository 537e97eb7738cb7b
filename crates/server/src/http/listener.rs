//! The port of HTTP and its thread.
//!
//! Invariants: the port is bound before the server says that it is ready; so many connections at
//! most are open, each for a bounded time.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::io_text::plain;
use config::settings::{HTTP_BIND, HTTP_PORT};
use engine::runtime::lanes::STACK_BYTES;
use engine::runtime::log::{log_notice, log_warning};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;

use super::state::HttpState;
use super::{access, routes};
use crate::net::listeners::bind_for;

/// More wait in the listener's queue.
const CONNECTIONS_MOST: usize = 64;

/// A request's head comes within this time, and a connection lives no longer than the second one.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
const LIFE_MOST: Duration = Duration::from_secs(300);

/// A pause after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Opens the port, if there is to be one, and serves it from now on.
pub(crate) fn open(server: HttpState) -> Result<(), String> {
    let port = server.config.get(HTTP_PORT);
    if port == 0 {
        return Ok(());
    }
    let sockets = bind_for(&server, &server.config.get(HTTP_BIND), port)?;
    for (address, _) in &sockets {
        log_notice!(server.log, "Listening on {address} for HTTP");
    }
    let server: &'static HttpState = Box::leak(Box::new(server));
    let run = move || {
        let mut builder = Builder::new_current_thread();
        match builder.enable_all().build_local(LocalOptions::default()) {
            Ok(runtime) => runtime.block_on(serve_all(server, sockets)),
            Err(error) => log_warning!(server.log, "Cannot serve HTTP: {}", plain(&error)),
        }
    };
    let thread = std::thread::Builder::new().name("http".to_owned()).stack_size(STACK_BYTES);
    thread.spawn(run).map(|_| ()).map_err(|error| format!("Cannot serve HTTP: {}", plain(&error)))
}

async fn serve_all(server: &'static HttpState, sockets: Vec<(SocketAddr, std::net::TcpListener)>) {
    let places = Rc::new(Semaphore::new(CONNECTIONS_MOST));
    for (address, socket) in sockets {
        match TcpListener::from_std(socket) {
            Ok(listener) => _ = spawn_local(accept(server, listener, Rc::clone(&places))),
            Err(error) => {
                log_warning!(server.log, "Cannot serve HTTP on {address}: {}", plain(&error));
            }
        }
    }
    std::future::pending::<()>().await;
}

async fn accept(server: &'static HttpState, listener: TcpListener, places: Rc<Semaphore>) {
    loop {
        let place = places.acquire().await.expect("it is never closed");
        match listener.accept().await {
            Ok((stream, peer)) => {
                place.forget();
                let places = Rc::clone(&places);
                spawn_local(async move {
                    serve(server, stream, peer).await;
                    places.add_permits(1);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve(server: &'static HttpState, stream: TcpStream, peer: SocketAddr) {
    let service = service_fn(move |request| {
        // Whether it is late must not depend on whether the password is right.
        let delay = access::delay(server, peer, request.headers());
        let response = routes::answer(server, peer, &request);
        async move {
            if let Some(delay) = delay {
                tokio::time::sleep(delay).await;
            }
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    // A client that breaks off, or stays too long, is nobody's concern.
    let _ = tokio::time::timeout(LIFE_MOST, connection).await;
}
