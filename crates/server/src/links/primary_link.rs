//! The link to our own primary: its connection, what is applied of the stream, what is loaded.
//!
//! Invariants: what the engine wants done is done in the call that shows it the bytes, so that a
//! range is one of the buffer at hand; a connection that was closed is not heard again.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use base::io_error_text::strerror;
use config::LogLevel;
use config::settings::TLS_REPLICATION;
use durability::apply::{ApplyReport, StreamApplier};
use durability::receive::{ReceiveMode, ReceiveReport, SnapshotReceiver};
use engine::clients::registry::Signal;
use engine::journal::LinePlace;
use replication::primary;
use replication::replica::{
    LinkState, LoadMode, LoadOrder, LoadOutcome, PrimaryChannel, RdbFraming, ReplicaAction,
};
use tokio::task::{AbortHandle, spawn_local};

use super::held_stream::HeldStream;
use super::primary_client::PrimaryClient;
use super::replication_state::{ReplicationState, now_ms};
use super::settings;
use super::thread::{LinksMessage, LinksThread};
use crate::net::connection::Stream;
use crate::net::outgoing;

/// With so many bytes on their way to be applied, or to be loaded, nothing more is read.
const AHEAD_MOST: usize = 64 << 20;

/// Between two looks whether all is applied.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Bytes that are read at a time.
const READ: usize = 256 << 10;

/// So much room for what was read is kept; a long unit's is given back behind it.
const INPUT_KEPT: usize = 4 << 20;

/// What the links' thread has of the link to our primary.
#[derive(Default)]
pub(super) struct PrimaryLink {
    main: PrimaryConnection,
    /// The first connection as a client.
    client: RefCell<Weak<PrimaryClient>>,
    /// The second connection of a full sync.
    channel: PrimaryConnection,
    /// The stream that came while its data did.
    held: RefCell<HeldStream>,
    /// How many appliers and loads there were.
    begun: Cell<u64>,
    applier: RefCell<Option<(u64, Arc<StreamApplier>)>>,
    receiver: RefCell<Option<(u64, SnapshotReceiver)>>,
    /// The task that waits for the disk, and the offset up to which it waits.
    sync_wait: RefCell<Option<AbortHandle>>,
    sync_target: Cell<u64>,
}

/// What there is of a connection to our primary.
#[derive(Default)]
struct PrimaryConnection {
    /// The connection's task.
    task: RefCell<Option<AbortHandle>>,
    /// Which connection it is, among all there ever were.
    number: Cell<u64>,
    /// What is to be sent.
    unsent: RefCell<Vec<u8>>,
    waker: RefCell<Option<Waker>>,
}

impl PrimaryConnection {
    /// Has the connection's task look again.
    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    fn close(&self) {
        if let Some(task) = self.task.borrow_mut().take() {
            task.abort();
        }
        self.unsent.borrow_mut().clear();
        self.number.set(self.number.get() + 1);
    }
}

/// What a connection's task has for itself.
struct PrimarySocket {
    wire: PrimaryChannel,
    number: u64,
    stream: Stream,
    input: Vec<u8>,
    /// Whether nothing more comes.
    has_ended: bool,
}

/// What threads beside this one tell of the link.
pub(super) enum PrimaryLinkMessage {
    /// An applier is so far, or cannot go on.
    Applied(u64, ApplyReport),
    /// A load is over.
    Received(u64, ReceiveReport),
}

impl PrimaryLink {
    /// A number for an applier or a load, never given twice.
    fn next_begun(&self) -> u64 {
        self.begun.set(self.begun.get() + 1);
        self.begun.get()
    }

    /// Has the connections look again.
    pub(super) fn wake(&self) {
        self.main.wake();
        self.channel.wake();
    }

    fn connection(&self, wire: PrimaryChannel) -> &PrimaryConnection {
        match wire {
            PrimaryChannel::Main => &self.main,
            PrimaryChannel::Rdb => &self.channel,
        }
    }

    /// Whether all that was read is applied, and no data is being loaded.
    pub(super) fn is_idle(&self) -> bool {
        let queued = self.applier.borrow().as_ref().map_or(0, |(_, it)| it.queued_bytes());
        queued == 0 && self.receiver.borrow().is_none()
    }

    /// Nothing of the stream will come any more.
    pub(super) fn end_applier(&self) {
        self.applier.borrow_mut().take();
    }

    fn is_ahead(&self) -> bool {
        let applying = self.applier.borrow().as_ref().map_or(0, |(_, it)| it.queued_bytes());
        let loading = self.receiver.borrow().as_ref().map_or(0, |(_, it)| it.queued_bytes());
        applying.max(loading) >= AHEAD_MOST
    }
}

impl LinksThread {
    /// Does what the link's engine wants done; `bytes` is what it was shown.
    pub(super) fn perform_for_link(self: &Rc<Self>, action: ReplicaAction, bytes: &[u8]) {
        let link = &self.primary_link;
        match action {
            ReplicaAction::Connect { wire, host, port } => {
                self.close_link(wire);
                // What is announced to the primary is what holds now.
                self.with_replication_state(ReplicationState::configure);
                let task = spawn_local(Rc::clone(self).connect(wire, host, port));
                *link.connection(wire).task.borrow_mut() = Some(task.abort_handle());
            }
            ReplicaAction::Send { wire, bytes } => {
                link.connection(wire).unsent.borrow_mut().extend_from_slice(&bytes);
                link.connection(wire).wake();
            }
            ReplicaAction::Close { wire } => self.close_link(wire),
            ReplicaAction::Hold(range) => link.held.borrow_mut().push(&bytes[range]),
            ReplicaAction::BeginLoad(order) => self.begin_load(order),
            ReplicaAction::Rdb(range) => {
                if let Some((_, receiver)) = &*link.receiver.borrow() {
                    receiver.push(&bytes[range]);
                }
            }
            ReplicaAction::EndOfRdb => {
                if let Some((_, receiver)) = &*link.receiver.borrow() {
                    receiver.finish();
                }
            }
            ReplicaAction::AbortLoad => {
                let receiver = link.receiver.borrow_mut().take();
                if receiver.is_some_and(|(_, receiver)| receiver.abort()) {
                    self.with_replication_state(|core, _| core.forget_position());
                }
            }
            ReplicaAction::SetHistory(of) => {
                self.with_replication_state(|core, server| core.adopt(server, of));
            }
            ReplicaAction::Follow { id, at } => {
                self.with_replication_state(|core, server| core.shift_id(server, id, at));
            }
            ReplicaAction::Stream { range, end, databases: [before, behind], commands } => {
                let units = &bytes[range];
                if let Some(client) = link.client.borrow().upgrade() {
                    client.note_units(units, commands, behind);
                }
                self.apply(units, end, before);
            }
            ReplicaAction::AwaitSync(offset) => {
                link.sync_target.set(offset);
                let mut task = link.sync_wait.borrow_mut();
                if task.as_ref().is_none_or(AbortHandle::is_finished) {
                    *task = Some(spawn_local(Rc::clone(self).await_sync()).abort_handle());
                }
            }
            ReplicaAction::Log { level, line } => {
                let level = match level {
                    primary::LogLevel::Verbose => LogLevel::Verbose,
                    primary::LogLevel::Notice => LogLevel::Notice,
                    primary::LogLevel::Warning => LogLevel::Warning,
                };
                self.server.log.write(level, format_args!("{line}"));
            }
        }
    }

    /// Hears what another thread tells of the link.
    pub(super) fn handle_link_message(self: &Rc<Self>, message: PrimaryLinkMessage) {
        let link = &self.primary_link;
        match message {
            PrimaryLinkMessage::Applied(number, report) => {
                let is_present = link.applier.borrow().as_ref().is_some_and(|it| it.0 == number);
                if !is_present {
                    return;
                }
                match report {
                    ApplyReport::Applied(offset) => {
                        let now = now_ms(self.server);
                        self.ask_link(|link| link.applied(offset, now));
                    }
                    ApplyReport::Panicked(line) => {
                        self.server.log.write(LogLevel::Warning, format_args!("{line}"));
                        std::process::abort();
                    }
                    ApplyReport::Failed(why) => {
                        link.end_applier();
                        let now = now_ms(self.server);
                        self.ask_link(|link| link.apply_failed(&why, now));
                    }
                }
            }
            PrimaryLinkMessage::Received(number, report) => {
                let is_present = link.receiver.borrow_mut().take_if(|it| it.0 == number).is_some();
                if is_present {
                    self.end_load(report);
                }
            }
        }
        link.wake();
    }

    /// The clock has gone on.
    pub(super) fn tick_link(self: &Rc<Self>) {
        self.tell_synced();
        let now = now_ms(self.server);
        self.ask_link(|link| link.tick(now));
        self.primary_link.wake();
    }

    /// Tells the link when all up to the offset that was asked for last is on disk. One task waits,
    /// however often that changes: a disk may have nothing for long.
    async fn await_sync(self: Rc<Self>) {
        let (journal, mut place) = (&self.server.journal, LinePlace::default());
        let is_safe = poll_fn(|context| {
            let offset = self.primary_link.sync_target.get();
            let lsn = self.with_replication_state(|core, server| core.lsn_of(server, offset));
            match journal.wait_for_safety(lsn, context.waker(), &mut place) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        });
        is_safe.await;
        self.tell_synced();
        self.primary_link.wake();
    }

    fn tell_synced(self: &Rc<Self>) {
        let (server, now) = (self.server, now_ms(self.server));
        let synced = self.with_replication_state(|core, _| core.synced_offset(server));
        self.ask_link(|link| link.synced(synced, now));
    }

    fn close_link(&self, wire: PrimaryChannel) {
        let link = &self.primary_link;
        link.connection(wire).close();
        if wire == PrimaryChannel::Main {
            link.held.borrow_mut().clear();
        }
    }

    async fn connect(self: Rc<Self>, wire: PrimaryChannel, host: String, port: u16) {
        let number = self.number(wire);
        let connected = self.open_stream(wire, &host, port).await;
        if self.number(wire) != number {
            return;
        }
        let now = now_ms(self.server);
        match connected {
            Ok((stream, client)) => {
                self.ask_link(|link| link.connected(wire, now));
                self.serve_link(wire, number, client, stream).await;
            }
            Err(error) => self.ask_link(|link| link.connect_failed(wire, &strerror(&error), now)),
        }
    }

    /// Connects to a primary, in secret where that is asked for.
    async fn open_stream(
        &self,
        wire: PrimaryChannel,
        host: &str,
        port: u16,
    ) -> io::Result<(Stream, Option<Rc<PrimaryClient>>)> {
        let server = self.server;
        let socket = outgoing::connect_to_primary(&server.config, host, port).await?;
        // A link without it is slower, and no less right.
        let _ = socket.set_nodelay(true);
        let client = match wire {
            PrimaryChannel::Main => {
                let client = Rc::new(PrimaryClient::register(server, &socket));
                *self.primary_link.client.borrow_mut() = Rc::downgrade(&client);
                Some(client)
            }
            PrimaryChannel::Rdb => None,
        };
        let stream = match server.config.get(TLS_REPLICATION) {
            true => Stream::Tls(server.tls.connect(socket).await?),
            false => Stream::Tcp(socket),
        };
        Ok((stream, client))
    }

    /// Which connection there is, of all there ever were.
    fn number(&self, wire: PrimaryChannel) -> u64 {
        self.primary_link.connection(wire).number.get()
    }

    /// Serves the connection until it ends, or another takes its place.
    async fn serve_link(
        self: &Rc<Self>,
        wire: PrimaryChannel,
        number: u64,
        client: Option<Rc<PrimaryClient>>,
        stream: Stream,
    ) {
        let mut socket =
            PrimarySocket { wire, number, stream, input: Vec::new(), has_ended: false };
        let client = client.as_ref().map(|it| &*it.client);
        poll_fn(|cx| {
            if let Some(client) = client {
                client.set_waker(cx.waker());
            }
            Poll::Ready(())
        })
        .await;
        while !client.is_some_and(|client| client.take(Signal::Kill)) {
            let ended = poll_fn(|cx| match client {
                Some(client) if client.is_asked(Signal::Kill) => Poll::Ready(Ok(())),
                _ => self.poll_link(&mut socket, cx),
            });
            let ended = ended.await;
            if !self.is_present(&socket) {
                return;
            }
            if ended.is_err() {
                break;
            }
        }
        let now = now_ms(self.server);
        self.ask_link(|link| link.closed(wire, now));
    }

    /// Whether no other connection has taken the place of this one.
    fn is_present(&self, socket: &PrimarySocket) -> bool {
        self.number(socket.wire) == socket.number
    }

    fn poll_link(
        self: &Rc<Self>,
        socket: &mut PrimarySocket,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let connection = self.primary_link.connection(socket.wire);
        *connection.waker.borrow_mut() = Some(cx.waker().clone());
        // What came behind data that is loaded now, or while nothing could be applied.
        self.show(socket);
        while self.is_present(socket) && self.release(socket) {}
        while self.is_present(socket) && self.may_read(socket) {
            socket.input.reserve(READ);
            match socket.stream.poll_read_more(cx, &mut socket.input) {
                Poll::Pending => break,
                Poll::Ready(Ok(0) | Err(_)) => socket.has_ended = true,
                Poll::Ready(Ok(count)) => {
                    self.links.heard.fetch_add(count as u64, Ordering::Relaxed);
                    self.show(socket);
                }
            }
        }
        if socket.has_ended && self.is_present(socket) {
            return match self.keeps_stream(socket.wire) {
                true => Poll::Pending,
                false => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            };
        }
        while self.is_present(socket) && !connection.unsent.borrow().is_empty() {
            let mut unsent = connection.unsent.borrow_mut();
            match socket.stream.poll_write(cx, &[io::IoSlice::new(&unsent)]) {
                Poll::Pending => break,
                Poll::Ready(Ok(count)) => {
                    unsent.drain(..count);
                    self.note_sent(socket.wire, count);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        match self.is_present(socket) {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }

    /// What is said while the stream flows counts for the primary as a client.
    fn note_sent(&self, wire: PrimaryChannel, count: usize) {
        let streams =
            || self.with_replication_state(|core, _| core.link.state() == LinkState::Connected);
        if let Some(client) = self.primary_link.client.borrow().upgrade()
            && wire == PrimaryChannel::Main
            && streams()
        {
            client.note_sent(count);
        }
    }

    /// Whether there is more of the stream than was shown, or is while data are loaded: the end of
    /// its connection comes behind it.
    fn keeps_stream(&self, wire: PrimaryChannel) -> bool {
        wire == PrimaryChannel::Main
            && (!self.primary_link.held.borrow().is_empty()
                || self.with_replication_state(|core, _| core.link.is_holding()))
    }

    fn may_read(&self, socket: &PrimarySocket) -> bool {
        let (wire, link) = (socket.wire, &self.primary_link);
        let (is_reading, is_holding) = self
            .with_replication_state(|core, _| (core.link.is_reading(wire), core.link.is_holding()));
        let may_go_on = match wire {
            PrimaryChannel::Main if is_holding => true,
            PrimaryChannel::Main => link.held.borrow().is_empty() && !link.is_ahead(),
            PrimaryChannel::Rdb => !link.is_ahead(),
        };
        !socket.has_ended && is_reading && may_go_on
    }

    /// Shows the engine more of what was held, if that is over; whether there was any.
    fn release(self: &Rc<Self>, socket: &mut PrimarySocket) -> bool {
        let link = &self.primary_link;
        if socket.wire == PrimaryChannel::Rdb
            || link.is_ahead()
            || self.with_replication_state(|core, _| core.link.is_holding())
        {
            return false;
        }
        let Some(bytes) = link.held.borrow_mut().pop() else { return false };
        socket.input.extend_from_slice(&bytes);
        self.ask_link(|link| link.released(bytes.len() as u64));
        self.show(socket);
        true
    }

    /// Shows the engine what has come.
    fn show(self: &Rc<Self>, socket: &mut PrimarySocket) {
        let (now, wire, input) = (now_ms(self.server), socket.wire, &socket.input);
        let (done, actions) = self.with_replication_state(|core, server| {
            if core.link.state() != LinkState::Connected {
                core.link.set_load(settings::load_mode(server));
            }
            let done = core.ask_link(server, |link| link.received(wire, input, now));
            (done, core.link.take_actions())
        });
        actions.into_iter().for_each(|action| self.perform_for_link(action, input));
        socket.input.drain(..done.min(socket.input.len()));
        if !self.is_present(socket) {
            socket.input.clear();
        }
        if socket.input.capacity() > INPUT_KEPT && socket.input.len() < INPUT_KEPT / 2 {
            socket.input.shrink_to(INPUT_KEPT);
        }
        self.run_actions();
    }

    fn apply(&self, units: &[u8], end: u64, database: u32) {
        let link = &self.primary_link;
        let mut applier = link.applier.borrow_mut();
        if applier.is_none() {
            let number = link.next_begun();
            let (server, links) = (self.server, self.links);
            let report = move |report| {
                let message = PrimaryLinkMessage::Applied(number, report);
                links.send(server, LinksMessage::OfPrimary(message));
            };
            let peer =
                self.with_replication_state(|core, _| core.primary_address()).unwrap_or_default();
            match StreamApplier::begin(server, peer, report) {
                Ok(begun) => *applier = Some((number, Arc::new(begun))),
                Err(error) => {
                    drop(applier);
                    let (why, now) = (strerror(&error), now_ms(server));
                    return self
                        .with_replication_state(|core, _| core.link.apply_failed(&why, now));
                }
            }
        }
        if let Some((_, applier)) = &*applier {
            applier.push(units, end, database as usize);
        }
    }

    fn begin_load(self: &Rc<Self>, order: LoadOrder) {
        let link = &self.primary_link;
        let (server, links) = (self.server, self.links);
        spawn_local(Rc::clone(self).end_applier_when_idle());
        let number = link.next_begun();
        let report = move |report| {
            let message = PrimaryLinkMessage::Received(number, report);
            links.send(server, LinksMessage::OfPrimary(message));
        };
        let mode = match order.mode {
            LoadMode::Flush => ReceiveMode::Flush,
            LoadMode::Disk => ReceiveMode::File,
            LoadMode::Swap => ReceiveMode::Swap { serves: order.is_our_history },
        };
        let length = match order.framing {
            RdbFraming::Length(length) => Some(length),
            RdbFraming::Marked => None,
        };
        match SnapshotReceiver::begin(server, mode, length, report) {
            Ok(receiver) => *link.receiver.borrow_mut() = Some((number, receiver)),
            Err(error) => {
                let why = strerror(&error);
                server.log.write(
                    LogLevel::Warning,
                    format_args!("Can't take the data of the master in: {why}"),
                );
                let now = now_ms(server);
                self.with_replication_state(|core, server| {
                    core.ask_link(server, |link| link.loaded(LoadOutcome::Refused, now));
                });
            }
        }
    }

    /// What was handed over counts as data, so all of it is applied before the data go. What a
    /// pause of the clients keeps from being applied is given up, as the data take its place; ours
    /// stand nowhere then.
    async fn end_applier_when_idle(self: Rc<Self>) {
        let applier = self.primary_link.applier.borrow().as_ref().map(|(_, it)| Arc::clone(it));
        let Some(applier) = applier else { return };
        while applier.queued_bytes() > 0 && !self.has_failed(&applier) {
            if self.server.gates.pause.holds_writes(|| self.server.keyspace.clock().now_ms()) {
                self.with_replication_state(|core, _| core.forget_position());
                break;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        self.primary_link.applier.borrow_mut().take_if(|(_, it)| Arc::ptr_eq(it, &applier));
    }

    /// Whether an applier was given up.
    fn has_failed(&self, applier: &Arc<StreamApplier>) -> bool {
        let present = self.primary_link.applier.borrow();
        !present.as_ref().is_some_and(|(_, it)| Arc::ptr_eq(it, applier))
    }

    fn end_load(self: &Rc<Self>, report: ReceiveReport) {
        let outcome = match report {
            ReceiveReport::Loaded(origin) => {
                LoadOutcome::Loaded { database: origin.database.unwrap_or(0) }
            }
            ReceiveReport::Refused(why) => {
                self.warn_of_load(&why);
                LoadOutcome::Refused
            }
            ReceiveReport::Lost(why) => {
                self.warn_of_load(&why);
                LoadOutcome::Lost
            }
        };
        let now = now_ms(self.server);
        let is_awaited = self.ask_link(|link| link.loaded(outcome, now));
        // The link is another one by now, and took our data for those of before.
        if !is_awaited && outcome != LoadOutcome::Refused {
            self.with_replication_state(|core, _| core.forget_position());
        }
    }

    fn warn_of_load(&self, why: &str) {
        self.server.log.write(LogLevel::Warning, format_args!("{why}"));
    }
}
