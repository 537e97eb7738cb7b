//! A link to a replica: its socket, what is to be sent, and what the replica says.
//!
//! Invariant: a link that has ended is told to the engine once, and its client's books are ended.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker, ready};

use commands::Role;
use engine::clients::registry::{Client, Peer, Signal};
use engine::runtime::log::log_warning;
use engine::session::client_info::describe;
use keyspace::FeatureLevel;
use proto::{Args, Limits, Progress, RequestParser};
use replication::primary::ReplicaId;

use super::replication_state::now_ms;
use super::link_output::{LinkOutput, NextBytes};
use super::thread::LinksThread;
use crate::net::connection::Stream;

/// What a replica says before its sync, and then, is short.
const REQUEST_MAX: usize = 64 << 10;

/// Bytes that are read at a time.
const READ: usize = 16 << 10;

/// A replica's connection.
pub(super) struct ReplicaLink {
    pub(super) id: ReplicaId,
    client: Arc<Client>,
    /// The port that the replica announced, or 0.
    announced_port: i64,
    pub(super) output: RefCell<LinkOutput>,
    waker: Cell<Option<Waker>>,
    is_closed: Cell<bool>,
    /// Whether the engine was told that the socket takes no bytes.
    is_stalled: Cell<bool>,
}

/// What the task of a link has for itself.
struct LinkSocket {
    stream: Stream,
    input: Vec<u8>,
    parser: RequestParser,
}

impl ReplicaLink {
    /// A link of a client that announced this port, or 0, and knows to hold what meets this.
    pub(super) fn new(client: Arc<Client>, announced_port: i64, meets: FeatureLevel) -> Rc<Self> {
        Rc::new(Self {
            id: ReplicaId(client.id),
            client,
            announced_port,
            output: RefCell::new(LinkOutput::new(meets)),
            waker: Cell::new(None),
            is_closed: Cell::new(false),
            is_stalled: Cell::new(false),
        })
    }

    /// Has the link look at what is to be sent.
    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake_by_ref();
            self.waker.set(Some(waker));
        }
    }

    /// Ends the link at once.
    pub(super) fn close(&self) {
        self.is_closed.set(true);
        self.wake();
    }

    /// Fails: the engine is told as of a link that breaks.
    pub(super) fn end(&self) {
        self.client.ask(Signal::Kill);
        self.wake();
    }

    /// Shows in CLIENT LIST what is still to be sent.
    pub(super) fn show_debt(&self, debt: u64) {
        self.client.live.output_bytes.store(debt, Ordering::Relaxed);
    }

    /// The address of the replica's end.
    pub(super) fn peer_ip(&self) -> String {
        match self.client.peer {
            Peer::Tcp(address) => address.ip.to_string(),
            Peer::Unix => "/unixsocket".to_owned(),
        }
    }

    /// The replica in the log: its address and the port that it announced.
    fn peer_name(&self) -> String {
        match self.announced_port {
            0 => self.peer_ip(),
            port => format!("{}:{port}", self.peer_ip()),
        }
    }

    /// The client as CLIENT LIST shows it.
    pub(super) fn describe(&self, thread: &Rc<LinksThread>) -> String {
        let server = thread.server;
        describe(server, &self.client, server.keyspace.clock().now_ms())
    }

    /// Serves the link until it ends.
    pub(super) async fn run(
        self: Rc<Self>,
        thread: Rc<LinksThread>,
        stream: Stream,
        input: Vec<u8>,
    ) {
        let mut socket = LinkSocket { stream, input, parser: RequestParser::new() };
        // What has come with the request for a sync is heard first.
        let mut lives = self.receive(&thread, &mut socket).is_ok();
        while lives {
            lives = poll_fn(|cx| self.poll(&thread, &mut socket, cx)).await.is_ok();
        }
        if !self.is_closed.get() {
            thread.ask(|core, server| {
                core.ask(server, |primary, _| primary.closed(self.id, now_ms(server)));
            });
        }
        thread.forget(self.id);
        thread.server.session_ended(self.client.id);
    }

    /// Reads and writes until nothing can be; ready with an error when the link is over.
    fn poll(
        &self,
        thread: &Rc<LinksThread>,
        socket: &mut LinkSocket,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        self.client.set_waker(cx.waker());
        self.waker.set(Some(cx.waker().clone()));
        if self.is_closed.get() || self.client.take(Signal::Kill) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        while let Poll::Ready(count) = read(socket, cx) {
            match count {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    let (live, clock) = (&self.client.live, thread.server.keyspace.clock());
                    live.net_in.fetch_add(count as u64, Ordering::Relaxed);
                    live.last_active.store(clock.now_ms(), Ordering::Relaxed);
                    self.receive(thread, socket)?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        loop {
            let next = self.output.borrow_mut().make_ready(cx.waker())?;
            match next {
                NextBytes::There => ready!(self.write(thread, socket, cx))?,
                NextBytes::Note => thread.ask(|core, server| {
                    core.ask(server, |primary, _| primary.body_sent(self.id, now_ms(server)));
                }),
                NextBytes::Nothing => return Poll::Pending,
                NextBytes::Unmet(feature_level) => {
                    log_warning!(
                        thread.server.log,
                        "Replica {} cannot hold what was written, {}: its link is closed",
                        self.peer_name(),
                        feature_level.what()
                    );
                    return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
                }
                NextBytes::End => {
                    socket.stream.shut_down();
                    return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
                }
            }
        }
    }

    fn write(
        &self,
        thread: &Rc<LinksThread>,
        socket: &mut LinkSocket,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut output = self.output.borrow_mut();
        let mut pieces = Vec::new();
        output.pieces(&mut pieces);
        let written = socket.stream.poll_write(cx, &pieces);
        drop(pieces);
        match written {
            Poll::Ready(Ok(count)) => {
                output.note_sent(count);
                drop(output);
                self.client.live.net_out.fetch_add(count as u64, Ordering::Relaxed);
                thread.links.sent.fetch_add(count as u64, Ordering::Relaxed);
                if self.is_stalled.take() {
                    thread.ask(|core, server| core.ask(server, |it, _| it.moved(self.id)));
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                let is_in_body = output.is_in_body();
                drop(output);
                if is_in_body && !self.is_stalled.replace(true) {
                    thread.ask(|core, server| {
                        core.ask(server, |primary, _| primary.stalled(self.id, now_ms(server)));
                    });
                }
                Poll::Pending
            }
        }
    }

    /// Hears what the replica says.
    fn receive(&self, thread: &Rc<LinksThread>, socket: &mut LinkSocket) -> io::Result<()> {
        let limits = Limits { authenticated: true, ..Limits::default() };
        let mut from = 0;
        loop {
            let rest = &socket.input[from..];
            let advanced = socket.parser.advance(rest, &limits);
            let consumed = match advanced.map_err(|_| io::ErrorKind::InvalidData)? {
                Progress::Incomplete { .. } => break,
                Progress::Empty { consumed } => {
                    thread.ask(|core, server| {
                        core.ask(server, |primary, _| primary.newline(self.id, now_ms(server)));
                    });
                    consumed
                }
                Progress::Complete { consumed } => {
                    self.take_request(thread, socket.parser.args(rest));
                    consumed
                }
            };
            from += consumed;
            socket.parser.reset();
        }
        socket.input.drain(..from);
        if socket.input.len() > REQUEST_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(())
    }

    fn take_request(&self, thread: &Rc<LinksThread>, args: Args<'_>) {
        let table = &thread.server.table;
        let entry = table.resolve(args).ok();
        self.client.note_commands(1, entry.map(|entry| entry.id));
        // A peer may not know what commands are called here.
        let meant = entry.or_else(|| table.resolve_declared(args));
        let role = meant.map_or(Role::Any, |entry| entry.spec.role);
        let client = self.describe(thread);
        let words: Vec<&[u8]> = args.iter().collect();
        thread.ask(|core, server| {
            core.ask(server, |primary, _| {
                let now = now_ms(server);
                if role == Role::Replconf {
                    primary.replconf(self.id, &words[1..], &client, now);
                } else if !asks_again(role, words.len()) {
                    let command = String::from_utf8_lossy(words[0]).to_lowercase();
                    primary.misbehaved(self.id, &command, &client, now);
                }
            });
        });
    }
}

/// Whether a replica asks to become one, which says nothing: real servers pass over it, too.
fn asks_again(role: Role, arguments: usize) -> bool {
    (role == Role::Psync && arguments > 2) || (role == Role::Sync && arguments == 1)
}

fn read(socket: &mut LinkSocket, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    socket.input.reserve(READ);
    socket.stream.poll_read_more(cx, &mut socket.input)
}
