//! A session of a caller's user, in which the API runs commands.
//!
//! A worker serves it like any other client's, by a pair of sockets; so rights, gates, locks and
//! statistics are those of every client, and the thread of HTTP runs no command itself.
//!
//! Invariants: a session lives no longer than the request that it was opened for, and an answer is
//! told once its sessions no longer count; what a session may say is bounded in bytes and in time.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream as RawUnixStream;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use acl::User;
use engine::clients::client_id::ClientId;
use engine::clients::registry::Peer;
use engine::session::Session;
use hyper::StatusCode;
use proto::Resp;
use proto::args::encode_command;
use proto::value::{ReplyLimits, ReplyParser, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::answer_memory::AnswerReservation;
use super::json;
use super::response::Failure;
use super::state::HttpState;
use crate::net::connection::{MovingSession, RawStream};
use crate::net::listeners::has_room;

/// All replies of a session together, as the JSON that they become.
const BYTES_MOST: usize = 8 << 20;

/// All commands of a session together.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long an answer waits for the end of its sessions, which a worker under load sees late.
const DEPARTURE: Duration = Duration::from_secs(5);

/// A caller by HTTP: where the request came from and to, and its user.
pub(super) struct Caller {
    pub(super) server: &'static HttpState,
    peer: SocketAddr,
    local: SocketAddr,
    pub(super) user: Arc<User>,
    /// The clients that the sessions of this request are registered as.
    opened: Mutex<Vec<ClientId>>,
    /// What the replies of these sessions take.
    taken: Mutex<AnswerReservation>,
}

impl Caller {
    /// The sender of a request between these ends (peer, own).
    pub(super) fn new(
        server: &'static HttpState,
        (peer, local): (SocketAddr, SocketAddr),
        user: Arc<User>,
    ) -> Self {
        let taken = Mutex::new(server.answers.begin());
        Self { server, peer, local, user, opened: Mutex::default(), taken }
    }

    /// Waits until the sessions of the request are over, so that the next request finds room.
    pub(super) async fn sessions_over(&self) {
        let opened = std::mem::take(&mut *self.opened());
        if !opened.is_empty() {
            let clients = &self.server.clients;
            let over = poll_fn(|cx| clients.poll_departures(&opened, cx.waker()));
            // A command that goes on keeps its session longer than any answer is kept.
            let _ = tokio::time::timeout(DEPARTURE, over).await;
        }
    }

    /// Takes memory for what has come of replies.
    fn take(&self, bytes: usize) -> Result<(), Failure> {
        let mut taken = self.taken.lock().expect("no critical section here panics");
        let why = "Too many answers are made at once.";
        let full = || Failure::new(StatusCode::SERVICE_UNAVAILABLE, why);
        taken.take(bytes).then_some(()).ok_or_else(full)
    }

    fn opened(&self) -> MutexGuard<'_, Vec<ClientId>> {
        self.opened.lock().expect("no critical section here panics")
    }
}

/// The words of a request, of which the first is the command's.
pub(super) type Words = Vec<Vec<u8>>;

/// The session.
pub(super) struct CommandSession<'c> {
    caller: &'c Caller,
    stream: UnixStream,
    parser: ReplyParser,
    room: usize,
}

impl<'c> CommandSession<'c> {
    /// Opens a session.
    pub(super) fn open(caller: &'c Caller) -> Result<Self, Failure> {
        let server = caller.server;
        let is_local = caller.peer.ip().to_canonical().is_loopback();
        if !has_room(server, is_local) {
            let why = "ERR max number of clients reached";
            return Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, why));
        }
        let (stream, other) = pair().map_err(|error| {
            let why = base::io_error_text::strerror(&error);
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, why)
        })?;
        let now = server.keyspace.clock().now_ms();
        let ends = [caller.peer, caller.local].map(|end| Peer::Tcp(end.into()));
        let client = server.clients.register(ends[0], ends[1], other.as_raw_fd(), now);
        caller.opened().push(client.id);
        let mut session = Session::new(client, Some(Arc::clone(&caller.user)), is_local);
        session.set_protocol(Resp::Three);
        // To look at a key is not to use it.
        session.no_touch = true;
        let moving = MovingSession::fresh(RawStream::Unix(other), session);
        server.worker_pool.hand_over(server, Box::new(moving));
        let limits = ReplyLimits { bulk: BYTES_MOST, elements: 1 << 20, depth: 32 };
        Ok(Self { caller, stream, parser: ReplyParser::new(limits), room: BYTES_MOST })
    }

    /// Runs requests in order.
    pub(super) async fn run(&mut self, requests: &[Words]) -> Result<Vec<Value>, Failure> {
        let late = || Failure::new(StatusCode::GATEWAY_TIMEOUT, "The command takes too long.");
        let replies = tokio::time::timeout(PATIENCE, self.exchange(requests)).await;
        replies.map_err(|_| late())?
    }

    async fn exchange(&mut self, requests: &[Words]) -> Result<Vec<Value>, Failure> {
        let gone = || Failure::new(StatusCode::BAD_GATEWAY, "The server closed the session.");
        let mut bytes = Vec::new();
        for words in requests {
            encode_command(words.iter().map(Vec::as_slice), &mut bytes);
        }
        let Self { caller, stream, parser, room } = self;
        let (mut reader, mut writer) = stream.split();
        let read = async {
            let mut replies = Vec::with_capacity(requests.len());
            let mut buffer = vec![0; 16 << 10];
            while replies.len() < requests.len() {
                let count = reader.read(&mut buffer).await.unwrap_or(0);
                if count == 0 {
                    return Err(gone());
                }
                let bytes = json::bytes_for(&buffer[..count]);
                *room = room.checked_sub(bytes).ok_or_else(too_much)?;
                caller.take(bytes)?;
                parser.feed(&buffer[..count]);
                while let Some(value) = parser.next_reply().map_err(|_| too_much())? {
                    // A message, which answers nothing.
                    if !matches!(value, Value::Push(_)) {
                        replies.push(value);
                    }
                }
            }
            Ok(replies)
        };
        // A write that fails shows as an end of the replies.
        let (mut write, mut read) = (pin!(writer.write_all(&bytes)), pin!(read));
        let mut is_written = false;
        poll_fn(|cx| {
            is_written = is_written || write.as_mut().poll(cx).is_ready();
            read.as_mut().poll(cx)
        })
        .await
    }
}

fn too_much() -> Failure {
    let why = format!("The reply is larger than {} MB of JSON.", BYTES_MOST >> 20);
    Failure::new(StatusCode::PAYLOAD_TOO_LARGE, why)
}

fn pair() -> std::io::Result<(UnixStream, RawUnixStream)> {
    let (own, other) = RawUnixStream::pair()?;
    own.set_nonblocking(true)?;
    other.set_nonblocking(true)?;
    Ok((UnixStream::from_std(own)?, other))
}
