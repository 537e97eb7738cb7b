//! The ports of HTTP, plain and encrypted, and their thread.
//!
//! Invariants: the ports are bound before the server says that it is ready; so many connections at
//! most are open, each for a bounded time; beyond that number one goes that has not asked yet, then
//! one that has its answer, and only then one whose answer is made, of each the one that has asked
//! for nothing for the longest time: so clients that neither ask nor read keep nobody out.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{self, Cursor};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::io_error_text::strerror;
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
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, spawn_local};

use super::patient_stream::TimeoutStream;
use super::response::HttpResponse;
use super::state::HttpState;
use super::{access, routes};
use crate::net::connection::RawStream;
use crate::net::listeners::bind_for;

/// For one more, another goes.
const CONNECTIONS_MOST: usize = 64;

/// A request's head comes within this time, a client reads some of its answer within the second
/// one, and a connection lives no longer than the third.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
const LIFE_MOST: Duration = Duration::from_secs(300);

/// A pause after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How far a connection is, the most dispensable first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Its client has asked for nothing.
    New,
    /// Its client has been answered, or is to be let in.
    Waits,
    /// An answer for it is made.
    Served,
}

/// A place among the connections: how far, and a number that grows by when it last asked.
type Place = (Stage, u64);

/// The connections that are open.
#[derive(Default)]
struct OpenConnections {
    tasks: RefCell<BTreeMap<Place, AbortHandle>>,
    next: Cell<u64>,
}

/// One of them, until it is dropped.
struct OpenConnection {
    all: Rc<OpenConnections>,
    place: Cell<Place>,
}

impl OpenConnections {
    /// Has a connection served; where there are too many, another goes.
    fn serve<F: Future<Output = ()> + 'static>(
        self: &Rc<Self>,
        serve: impl FnOnce(Rc<OpenConnection>) -> F,
    ) {
        let place = self.place(Stage::New);
        let connection = OpenConnection { all: Rc::clone(self), place: Cell::new(place) };
        let task = spawn_local(serve(Rc::new(connection)));
        let mut tasks = self.tasks.borrow_mut();
        if tasks.len() >= CONNECTIONS_MOST
            && let Some((_, longest)) = tasks.pop_first()
        {
            longest.abort();
        }
        tasks.insert(place, task.abort_handle());
    }

    fn place(&self, stage: Stage) -> Place {
        (stage, self.next.replace(self.next.get() + 1))
    }
}

impl OpenConnection {
    /// The connection is so far now.
    fn note(&self, stage: Stage) {
        let mut tasks = self.all.tasks.borrow_mut();
        let place = self.all.place(stage);
        if let Some(task) = tasks.remove(&self.place.replace(place)) {
            tasks.insert(place, task);
        }
    }

    /// Answers a request, once its password may be looked at.
    async fn answer(
        &self,
        server: &'static HttpState,
        peer: SocketAddr,
        request: Request<Incoming>,
        answer: impl AsyncFnOnce(Request<Incoming>) -> HttpResponse,
    ) -> Result<HttpResponse, Infallible> {
        self.note(Stage::Waits);
        access::await_login(server, peer, request.headers()).await;
        self.note(Stage::Served);
        let response = answer(request).await;
        self.note(Stage::Waits);
        Ok(response)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.all.tasks.borrow_mut().remove(&self.place.get());
    }
}

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
    let (sender, connections) = mpsc::unbounded_channel();
    if takes_guests {
        // The thread ends with the process only.
        server.set_http_handover(move |stream, input| {
            _ = sender.send(HandedOverConnection { stream, input });
        });
    }
    let run = move || {
        let mut builder = Builder::new_current_thread();
        match builder.enable_all().build_local(LocalOptions::default()) {
            Ok(runtime) => runtime.block_on(serve_all(server, sockets, connections)),
            Err(error) => log_warning!(server.log, "Cannot serve HTTP: {}", strerror(&error)),
        }
    };
    start_maker(server)
        .and_then(|()| start_thread("http", run))
        .map_err(|error| format!("Cannot serve HTTP: {}", strerror(&error)))
}

/// Starts the thread on which answers are made that take long.
fn start_maker(server: &'static HttpState) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let _ = server.maker.set(runtime.handle().clone());
    start_thread("http-answers", move || runtime.block_on(std::future::pending()))
}

fn start_thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
    thread.spawn(run).map(|_| ())
}

async fn serve_all(
    server: &'static HttpState,
    sockets: Vec<HttpSocket>,
    mut connections: mpsc::UnboundedReceiver<HandedOverConnection>,
) {
    let open = Rc::new(OpenConnections::default());
    for HttpSocket { address, socket, is_encrypted } in sockets {
        match TcpListener::from_std(socket) {
            Ok(listener) => {
                spawn_local(accept(server, listener, is_encrypted, Rc::clone(&open)));
            }
            Err(error) => {
                log_warning!(server.log, "Cannot serve HTTP on {address}: {}", strerror(&error));
            }
        }
    }
    while let Some(guest) = connections.recv().await {
        open.serve(|connection| async move {
            // A guest that cannot be read from is no client.
            let _ = guest.serve(server, &connection).await;
        });
    }
    std::future::pending::<()>().await;
}

/// A connection that came in by the port of Redis, with what it has sent already.
struct HandedOverConnection {
    stream: RawStream,
    input: Vec<u8>,
}

impl HandedOverConnection {
    async fn serve(
        self,
        server: &'static HttpState,
        connection: &OpenConnection,
    ) -> io::Result<()> {
        let input = Cursor::new(self.input);
        match self.stream {
            RawStream::Tcp(socket) => {
                let stream = TcpStream::from_std(socket)?;
                let peer = stream.peer_addr()?;
                serve_guest(server, connection, input, stream, peer).await;
            }
            RawStream::Tls(session) => {
                let stream = session.attach()?;
                let peer = stream.socket().peer_addr()?;
                serve_guest(server, connection, input, *stream, peer).await;
            }
            // No address is known, by which its rights would be told.
            RawStream::Unix(_) => {}
        }
        Ok(())
    }
}

async fn serve_guest(
    server: &'static HttpState,
    open: &OpenConnection,
    input: Cursor<Vec<u8>>,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: SocketAddr,
) {
    let (reader, writer) = tokio::io::split(stream);
    let stream = tokio::io::join(input.chain(reader), writer);
    let service = service_fn(move |request| {
        open.answer(server, peer, request, async move |request| {
            routes::answer_guest(server, peer, request).await
        })
    });
    let connection =
        connection_builder().keep_alive(false).serve_connection(written_in_time(stream), service);
    let _ = tokio::time::timeout(LIFE_MOST, connection).await;
}

async fn accept(
    server: &'static HttpState,
    listener: TcpListener,
    is_encrypted: bool,
    open: Rc<OpenConnections>,
) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let Ok(local) = stream.local_addr() else { continue };
                let ends = (peer, local);
                open.serve(|connection| async move {
                    match is_encrypted {
                        false => serve(server, &connection, stream, ends).await,
                        true => {
                            // A client that cannot agree is no client.
                            if let Ok(stream) = server.tls.receive(stream, HEAD_PATIENCE).await {
                                serve(server, &connection, stream, ends).await;
                            }
                        }
                    }
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve(
    server: &'static HttpState,
    open: &OpenConnection,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    ends: (SocketAddr, SocketAddr),
) {
    let service = service_fn(move |request| {
        open.answer(server, ends.0, request, async move |request| {
            routes::answer(server, ends, request).await
        })
    });
    let connection = connection_builder().serve_connection(written_in_time(stream), service);
    // A client that breaks off, or stays too long, is nobody's concern.
    let _ = tokio::time::timeout(LIFE_MOST, connection).await;
}

fn connection_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE);
    // An answer is written from where it lies: what is copied would be counted as gone.
    builder.writev(true);
    builder
}

fn written_in_time<S>(stream: S) -> TokioIo<TimeoutStream<S>> {
    TokioIo::new(TimeoutStream::new(stream, WRITE_PATIENCE))
}
