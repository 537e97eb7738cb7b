//! A session: one client's connection, from its first byte to its last, as one future.
//!
//! The future is written by hand, as a machine whose states are named by what they await: an idle
//! session is its struct and nothing else. One turn reads, executes every request that is complete,
//! and writes the replies in one go; only what could not be finished is kept in the session.
//!
//! Invariants:
//! - requests are answered in order; nothing is executed while a former request waits;
//! - between reading into the worker's buffer and leaving it, the session does not give way;
//! - it is closed by its own worker only, whatever others ask.

mod batch;
mod deferred;
mod durable_output;
mod memcached;
mod socket;
mod stepping;
mod timer;
mod wait;
mod waiting_input;
mod window;

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context as TaskContext, Poll, Waker};

use proto::{Output, Reply, RequestParser};

pub(crate) use deferred::REQUEST_MAX;
use durable_output::Watermarks;
pub(crate) use socket::{RawStream, Stream};
use timer::SessionTimer;
pub(crate) use window::{Slot, Window};

use crate::memcached::watch;
use crate::net::deferred::DeferredNumber;
use crate::net::output_limit::{self, UnsentBytes};
use crate::net::worker::{Worker, subscriber_sets_of};
use engine::admission::acl_check;
use engine::clients::mailbox::IN_TRANSIT;
use engine::clients::multicast::migrate;
use engine::clients::registry::{PendingSignals, Signal, client_flags};
use engine::runtime::panics::contain;
use engine::session::life::{
    SessionHost, Disconnected, Incoming, LifeOutcome, Outgoing, ReadOutcome, SessionStatus, StepEnd, Waits,
};
use engine::session::{self, Session, Suspension};

/// A connection being served.
pub(crate) struct Connection {
    worker: Rc<Worker>,
    stream: Stream,
    suspension: Suspension,
    /// What wakes it when its suspension ends by a time.
    timer: SessionTimer,
    session: Session,
    /// Bytes read and not executed yet, from `executed` on. Empty while idle.
    input: Vec<u8>,
    executed: usize,
    /// The parser of the request that `input` begins with, if it is incomplete.
    parser: Option<Box<RequestParser>>,
    /// Replies that the socket did not take yet.
    output: Option<Box<Output>>,
    /// Which of them must wait for the journal.
    watermarks: Option<Box<Watermarks>>,
    /// As others of the worker know it.
    own: Weak<RefCell<Connection>>,
    /// Its task's, once that has run: a task's waker stays the same for life.
    waker: Option<Waker>,
    place: DeferralState,
    /// Whether its requests came one at a time, as of late.
    comes_alone: bool,
    /// Whether the client has said that it sends nothing more.
    has_ended: bool,
    /// Whether its client is gone, and it goes on for what it has begun.
    is_cut_off: bool,
    /// Where its next request is kept in the worker's buffer, if that was deferred.
    deferred: Option<DeferredNumber>,
}

/// The task of a session, which the worker shares while replies wait for their second turn.
pub(crate) struct ConnectionTask(Rc<RefCell<Connection>>);

// There are many sessions, and the allocator's next class begins above 256 bytes. A socket takes 32
// of them, and a word more where mio is built with debug assertions.
const SERVING_SIZE: usize = size_of::<RefCell<Connection>>() + 2 * size_of::<usize>();
const _: () = assert!(SERVING_SIZE <= 256 - 32 + size_of::<Stream>());

/// Where a session stands in the line of those whose replies wait (`deferred.rs`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeferralState {
    Nowhere,
    /// The session is to line up when its turn is over.
    Joining,
    InLine,
}

/// How a session ended.
pub(crate) enum SessionExit {
    /// The connection is over.
    Closed,
    /// The session goes on at another worker.
    Moved(Box<MovingSession>),
}

/// A session between two workers, with all that is under way.
pub(crate) struct MovingSession {
    pub(crate) stream: RawStream,
    pub(crate) session: Session,
    suspension: Suspension,
    input: Vec<u8>,
    executed: usize,
    parser: Option<Box<RequestParser>>,
    output: Option<Box<Output>>,
    watermarks: Option<Box<Watermarks>>,
    has_ended: bool,
    is_cut_off: bool,
}

impl Connection {
    /// Begins to serve, or goes on where another worker left off.
    pub(crate) fn new(worker: Rc<Worker>, moving: MovingSession) -> io::Result<Self> {
        let MovingSession { stream, session, suspension, input, executed, .. } = moving;
        let (parser, output, mut watermarks) = (moving.parser, moving.output, moving.watermarks);
        if let Some(watermarks) = &mut watermarks {
            watermarks.requeue();
        }
        let stream = Stream::attach(stream)?;
        let suspension = suspension.unpacked();
        Ok(Self {
            worker,
            stream,
            suspension,
            timer: SessionTimer::default(),
            session,
            input,
            executed,
            parser,
            output,
            watermarks,
            own: Weak::new(),
            waker: None,
            place: DeferralState::Nowhere,
            comes_alone: true,
            has_ended: moving.has_ended,
            is_cut_off: moving.is_cut_off,
            deferred: None,
        })
    }

    fn drive(&mut self, cx: &mut TaskContext<'_>) -> Poll<SessionExit> {
        match session::life::live(self, cx) {
            LifeOutcome::Waits => Poll::Pending,
            LifeOutcome::Over => Poll::Ready(SessionExit::Closed),
            LifeOutcome::Moves => Poll::Ready(self.detach()),
        }
    }

    fn outgoing(&self) -> Outgoing {
        let output = self.output.as_deref();
        output.map_or(Outgoing::Nothing, |it| Outgoing::of(it.len(), it.is_streaming()))
    }

    /// Packs up for another worker, whatever it waits for.
    fn detach(&mut self) -> SessionExit {
        self.undefer();
        let (server, client) = (self.worker.server, &self.session.client);
        let settle = || self.worker.deliver_letters();
        let subscriber_sets = subscriber_sets_of(server, &self.session);
        migrate(subscriber_sets, &server.mailboxes, client, IN_TRANSIT, settle);
        let stream = std::mem::replace(&mut self.stream, Stream::Gone);
        let Ok(stream) = stream.detach() else { return SessionExit::Closed };
        // Its new worker sees for itself whether a pause still holds it.
        self.session.client.set_flag(client_flags::PAUSED, false);
        SessionExit::Moved(Box::new(MovingSession {
            stream,
            session: self.session.take(),
            suspension: std::mem::replace(&mut self.suspension, Suspension::None).packed(),
            input: std::mem::take(&mut self.input),
            executed: self.executed,
            parser: self.parser.take(),
            output: self.output.take(),
            watermarks: self.watermarks.take(),
            has_ended: self.has_ended,
            is_cut_off: self.is_cut_off,
        }))
    }
}

impl SessionHost for Connection {
    #[inline]
    fn status(&self) -> SessionStatus {
        SessionStatus {
            wait: self.suspension.wait(),
            outgoing: self.outgoing(),
            incoming: Incoming::of(self.has_requests(), self.has_ended),
            closing: self.session.closing,
            is_cut_off: self.is_cut_off,
        }
    }

    #[inline]
    fn asked(&self) -> PendingSignals {
        self.session.client.asked()
    }

    fn clear_signal(&mut self, signal: Signal) {
        self.session.client.take(signal);
    }

    fn must_disconnect(&self) -> bool {
        let (server, session) = (self.worker.server, &self.session);
        // What a request in its middle has not come to yet counts as if it were done.
        let may_go_on = match &self.suspension {
            Suspension::Steps(steps) => acl_check::may_subscribe(server, session, steps.request()),
            _ => true,
        };
        !may_go_on || acl_check::must_disconnect(server, session)
    }

    fn deliver(&mut self) {
        let deliveries = self.session.take_deliveries();
        let mut output = self.output();
        let begun = output.appended();
        let (server, lane) = (self.worker.server, self.worker.number);
        match self.session.memcached.as_mut().and_then(|state| state.watch.as_mut()) {
            Some(watch) => {
                watch::write_lines(
                    watch,
                    (&server.memcached.counters, lane),
                    &deliveries,
                    &mut output,
                );
                self.session.note_lsn(server.journal.end());
            }
            None => {
                let mut reply = Reply::new(&mut output, self.session.resp);
                self.session.pass(server, &deliveries, &mut reply);
            }
        }
        self.hold_messages(&output, begun);
        self.keep_output(output);
    }

    fn write(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), Disconnected>> {
        self.undefer();
        if self.output.is_none() || self.gathers() {
            return Poll::Ready(Ok(()));
        }
        self.flush(cx).map_err(|_| Disconnected)
    }

    #[cold]
    fn is_over_output_limit(&mut self) -> bool {
        let (server, client) = (self.worker.server, &self.session.client);
        if self.is_overfull() {
            output_limit::record(server, client, self.worker.now_ms());
            return true;
        }
        let deliveries = client.delivery_bytes() as u64;
        let tracked = self.output.as_ref().zip(self.session.tracked());
        let notices = tracked.map_or(0, |(output, tracked)| tracked.unsent.bytes(output));
        let owed =
            UnsentBytes { all: self.unsent() as u64 + deliveries, notices: notices + deliveries };
        output_limit::is_exceeded(server, client, owed, self.worker.now_ms())
    }

    fn read_input(&mut self, cx: &mut TaskContext<'_>) -> ReadOutcome {
        let outcome = self.take_bytes(cx);
        if matches!(outcome, ReadOutcome::End | ReadOutcome::Disconnected) {
            self.session.note_import_end();
        }
        outcome
    }

    fn execute(&mut self, cx: &mut TaskContext<'_>) -> StepEnd {
        self.serve_requests(cx)
    }

    fn close(&mut self) {
        self.session.close();
    }

    fn shut_down(&mut self) {
        self.stream.shut_down();
    }

    #[cold]
    fn cut_off(&mut self) {
        self.undefer();
        self.stream.cut();
        self.session.take_deliveries();
        (self.output, self.watermarks, self.parser) = (None, None, None);
        self.drop_input();
        self.is_cut_off = true;
    }

    fn tear_down(&mut self) {
        self.cancel_wait();
        if let Some(all) = self.session.subscriptions.take() {
            if all.end_elsewhere() {
                self.worker.server.threads.background.spawn(move |_| drop(all));
            }
            self.session.client.take_deliveries();
        }
        self.session.untrack();
        self.session.end_transaction(self.worker.server);
        watch::notify_departure(self.worker.server, &self.session);
        self.drop_input();
    }
}

impl MovingSession {
    /// Whether the client is still owed replies.
    pub(crate) fn has_output(&self) -> bool {
        self.output.is_some()
    }

    /// Answers the request that the session waits for, so that the session goes on with the next.
    pub(crate) fn answer(&mut self, write: impl FnOnce(&mut Reply<'_>)) {
        self.suspension = Suspension::None;
        let mut output = self.output.take().unwrap_or_default();
        write(&mut Reply::new(&mut output, self.session.resp));
        self.output = Some(output).filter(|output| !output.is_empty());
    }

    /// What has come and is not executed.
    pub(crate) fn take_input(&mut self) -> Vec<u8> {
        let mut input = std::mem::take(&mut self.input);
        input.drain(..std::mem::take(&mut self.executed));
        input
    }

    /// A session that begins.
    pub(crate) fn fresh(stream: RawStream, session: Session) -> Self {
        Self {
            stream,
            session,
            suspension: Suspension::None,
            input: Vec::new(),
            executed: 0,
            parser: None,
            output: None,
            watermarks: None,
            has_ended: false,
            is_cut_off: false,
        }
    }
}

impl ConnectionTask {
    pub(crate) fn new(serve: Connection) -> Self {
        Self(Rc::new_cyclic(|own| RefCell::new(Connection { own: own.clone(), ..serve })))
    }
}

impl Future for ConnectionTask {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let mut serve = self.0.borrow_mut();
        let ended = serve.take_turn(cx);
        if ended.is_pending() && serve.place == DeferralState::Joining {
            serve.place = DeferralState::InLine;
            serve.worker.deferred.join(Rc::clone(&self.0));
        }
        ended
    }
}

impl Connection {
    fn take_turn(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        if self.waker.is_none() {
            self.session.client.set_waker(cx.waker());
            self.waker = Some(cx.waker().clone());
        }
        self.worker.wakes.records.open();
        self.worker.begin_turn();
        let driven = contain(|| self.drive(cx));
        self.worker.end_turn();
        let driven = driven.unwrap_or_else(|_| {
            self.worker.server.note_panic(self.session.client.id);
            self.tear_down();
            Poll::Ready(SessionExit::Closed)
        });
        if driven.is_ready() {
            self.deferred = None;
        }
        driven.map(|exit| self.worker.session_over(&self.session.client, exit))
    }

    /// Writes the replies that waited for a second turn.
    pub(crate) fn write_pending(&mut self) {
        self.place = DeferralState::Nowhere;
        self.write_replies();
    }

    /// Writes the replies that may leave. All else there is to do is left to a turn of its own.
    pub(crate) fn write_replies(&mut self) {
        // A session that has left, or panicked, has no replies that wait.
        let Some(waker) = self.waker.take() else { return };
        let reads_on = self.reads_on();
        let flushed = self.flush(&mut TaskContext::from_waker(&waker));
        let is_settled = match flushed {
            Poll::Ready(done) => done.is_ok(),
            // A session that holds replies back sees to them again.
            Poll::Pending => self.watermarks.is_some() && !self.is_overfull(),
        };
        if !is_settled || !reads_on || self.has_more() {
            waker.wake_by_ref();
        }
        self.waker = Some(waker);
    }

    /// Whether requests are read though replies have not left.
    fn reads_on(&self) -> bool {
        !self.session.closing && !self.outgoing().is_much()
    }

    /// Whether the session is to go on though its client has nothing new to say.
    fn has_more(&self) -> bool {
        self.session.closing || self.has_requests() || !matches!(self.suspension, Suspension::None)
    }

    /// Ends the session after a panic in its second turn.
    pub(crate) fn abort(&self) {
        let client = &self.session.client;
        self.worker.server.note_panic(client.id);
        client.ask(Signal::Kill);
        client.wake();
    }
}
