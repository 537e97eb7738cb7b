//! What a session may wait for between two requests or in the middle of one.
//!
//! Invariant: a waiting session holds no turnstile; it is woken by what it waits for, by a signal,
//! or by its deadline, and looks at all three.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use keyspace::{Acquisition, Lsn, Refusal};
use proto::{Args, Output, OwnedArgs, Reply};
use tokio::sync::oneshot;
use tokio::time::Sleep;

use super::blocked::{Awaited, Blocked, Rousing, Safety};
use super::life::Wait;
use super::{Serve, Turn};
use crate::aof::Phase;
use crate::blocking::{Place, Served, Waiting};
use crate::busy;
use crate::clients::{ClientId, Signal, client_flags};
use crate::control::server::wait;
use crate::execute::{self, Grant, Round};
use crate::guard;
use crate::table::Entry;
use crate::unit::Program;
use crate::valve::Valve;

const UNBLOCKED: Refusal = Refusal::error("UNBLOCKED client unblocked via CLIENT UNBLOCK");

/// What the session awaits.
pub(crate) enum Stage {
    /// Requests.
    Requests,
    /// Locks for the request at the head of the input.
    Parked(Box<Parked>),
    /// A result from another thread.
    Elsewhere(oneshot::Receiver<Elsewhere>),
    /// The end of other sessions.
    Departures(Box<Departures>),
    /// The end of CLIENT PAUSE; the request at the head of the input is still to be run.
    Paused(Pin<Box<Sleep>>),
    /// Room for what the request at the head of the input would leave behind.
    Shut(&'static Valve),
    /// Something that a blocking command waits for.
    Blocked(Box<Blocked>),
}

/// A request whose locks are not all there.
pub(crate) struct Parked {
    pub(crate) acquisition: Acquisition,
    pub(crate) round: Round,
    /// When it began to wait, on the monotonic clock in microseconds.
    pub(crate) began_us: i64,
    /// Rings when its patience may be over.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Parked {
    pub(crate) fn new(acquisition: Acquisition, round: Round, began_us: i64) -> Box<Self> {
        Box::new(Self { acquisition, round, began_us, timer: None })
    }
}

/// What came back from another thread.
pub(crate) struct Elsewhere {
    pub(crate) output: Output,
    /// The LSN that the output must wait for.
    pub(crate) seen: Lsn,
    pub(crate) ran: Ran,
    /// It found nothing and stands in queues now.
    pub(crate) waits: Option<Waiting>,
}

/// A command that ran on another thread, or waits, for the books of its session's worker.
pub(crate) struct Ran {
    pub(crate) entry: &'static Entry,
    pub(crate) args: OwnedArgs,
    pub(crate) micros: u64,
    pub(crate) failed: bool,
    /// The program that it was, if it was one, with what its own commands have to be booked for.
    pub(crate) program: Option<Box<dyn Program>>,
}

impl Ran {
    /// What has just begun.
    pub(crate) fn begun(entry: &'static Entry, args: Args<'_>) -> Self {
        Self { entry, args: args.into(), micros: 0, failed: false, program: None }
    }
}

/// A wait for the end of other sessions.
pub(crate) struct Departures {
    ids: Vec<ClientId>,
    /// Rings when the wait has lasted long enough.
    patience: Pin<Box<Sleep>>,
    /// On the monotonic clock, in microseconds.
    began_us: i64,
    /// What is replied then.
    done: Elsewhere,
}

impl Departures {
    /// Waits for the end of these clients' sessions, for so long at most, and replies this.
    pub(crate) fn new(
        ids: Vec<ClientId>,
        patience: Duration,
        began_us: i64,
        done: Elsewhere,
    ) -> Self {
        Self { ids, patience: Box::pin(tokio::time::sleep(patience)), began_us, done }
    }
}

impl Stage {
    /// What it is a wait for.
    #[inline]
    pub(super) fn wait(&self) -> Wait {
        match self {
            Self::Requests => Wait::Nothing,
            Self::Parked(_) | Self::Elsewhere(_) | Self::Departures(_) => Wait::Grant,
            Self::Paused(_) | Self::Shut(_) => Wait::Leave,
            Self::Blocked(_) => Wait::Event,
        }
    }

    /// What of it goes along to another worker: a request that waits to run is run there from the
    /// start, everything else goes on.
    pub(super) fn packed(mut self) -> Self {
        if let Self::Blocked(blocked) = &mut self
            && let Rousing::Underway(..) = blocked.rousing
        {
            blocked.rousing = Rousing::Due;
        }
        match self {
            Self::Requests | Self::Parked(_) | Self::Paused(_) | Self::Shut(_) => Self::Requests,
            Self::Elsewhere(_) | Self::Departures(_) | Self::Blocked(_) => self,
        }
    }

    /// The stage at its new worker, whose timer it is to use.
    pub(super) fn unpacked(mut self) -> Self {
        let renew = |sleep: &mut Pin<Box<Sleep>>| {
            *sleep = Box::pin(tokio::time::sleep_until(sleep.deadline()));
        };
        if let Self::Departures(departures) = &mut self {
            renew(&mut departures.patience);
        }
        if let Self::Blocked(blocked) = &mut self {
            blocked.again = None;
            blocked.until.iter_mut().for_each(renew);
            if let Some(safety) = &mut blocked.safety {
                safety.is_queued = false;
            }
        }
        self
    }
}

impl Serve {
    /// Looks whether the wait is over.
    pub(super) fn await_stage(&mut self, cx: &mut TaskContext<'_>) -> Turn {
        let turn = match std::mem::replace(&mut self.stage, Stage::Requests) {
            Stage::Requests => Turn::Again,
            Stage::Parked(parked) => self.await_locks(cx, parked),
            Stage::Elsewhere(receiver) => self.await_elsewhere(cx, receiver),
            Stage::Departures(departures) => self.await_departures(cx, departures),
            Stage::Paused(sleep) => self.await_resumption(cx, sleep),
            Stage::Shut(valve) => self.await_room(cx, valve),
            Stage::Blocked(blocked) => self.await_event(cx, blocked),
        };
        let works = matches!(
            self.stage,
            Stage::Parked(_) | Stage::Shut(_) | Stage::Elsewhere(_) | Stage::Departures(_)
        );
        self.session.client.set_flag(client_flags::WORKING, works);
        turn
    }

    fn await_locks(&mut self, cx: &mut TaskContext<'_>, mut parked: Box<Parked>) -> Turn {
        if self.poll_locks(cx, &mut parked).is_ready() {
            let Parked { acquisition, round, .. } = *parked;
            return self.resume(cx, Grant::Locks(acquisition, round));
        }
        if self.poll_patience(cx, &mut parked).is_ready() {
            drop(parked);
            return self.resume(cx, Grant::Busy);
        }
        self.stage = Stage::Parked(parked);
        Turn::Wait
    }

    fn poll_locks(&self, cx: &TaskContext<'_>, parked: &mut Parked) -> Poll<()> {
        if let Some(pass) = &mut parked.round.pass {
            ready!(pass.poll(cx.waker()));
        }
        self.worker.poll_locks(&mut parked.acquisition, cx.waker())
    }

    /// Whether the request has waited long enough.
    fn poll_patience(&self, cx: &mut TaskContext<'_>, parked: &mut Parked) -> Poll<()> {
        loop {
            let Some(left) = busy::patience_left(self.worker.server, parked) else {
                return Poll::Pending;
            };
            let left = u64::try_from(left).ok().filter(|&left| left > 0);
            let Some(left) = left else { return Poll::Ready(()) };
            let timer = parked
                .timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(Duration::from_micros(left))));
            ready!(timer.as_mut().poll(cx));
            // What it waits for now may have begun later than what it waited for first.
            parked.timer = None;
        }
    }

    fn await_elsewhere(
        &mut self,
        cx: &mut TaskContext<'_>,
        mut receiver: oneshot::Receiver<Elsewhere>,
    ) -> Turn {
        match Pin::new(&mut receiver).poll(cx) {
            Poll::Pending => {
                self.stage = Stage::Elsewhere(receiver);
                Turn::Wait
            }
            // The thread gave up without a word: it panicked, and nobody knows the result.
            Poll::Ready(Err(_)) => Turn::End,
            Poll::Ready(Ok(Elsewhere { waits: Some(waiting), ran, .. })) => {
                let (session, args) = (&self.session, ran.args.as_args());
                execute::tell_watchers(&self.worker, session, session.database, ran.entry, args);
                self.stage = Stage::Blocked(Box::new(Blocked::on_keys(ran, waiting)));
                Turn::Again
            }
            Poll::Ready(Ok(done)) => self.take_result(done),
        }
    }

    fn await_departures(
        &mut self,
        cx: &mut TaskContext<'_>,
        mut departures: Box<Departures>,
    ) -> Turn {
        let server = self.worker.server;
        // Who is busy for longer is gone as soon as it looks up.
        if server.clients.poll_departures(&departures.ids, cx.waker()).is_pending()
            && departures.patience.as_mut().poll(cx).is_pending()
        {
            self.stage = Stage::Departures(departures);
            return Turn::Wait;
        }
        let Departures { began_us, mut done, .. } = *departures;
        let micros = server.keyspace.clock().monotonic_us() - began_us;
        done.ran.micros = u64::try_from(micros).unwrap_or(0);
        self.take_result(done)
    }

    /// Passes on what came of a command that did not run here.
    fn take_result(&mut self, done: Elsewhere) -> Turn {
        let reply_bytes = done.output.len() as u64 + done.output.bytes_to_come();
        self.book(&done.ran, reply_bytes);
        // Its command took long; from here on it may be idle.
        let now = self.worker.server.keyspace.clock().now_ms();
        self.session.client.live.last_active.store(now, Ordering::Relaxed);
        let mut output = self.output();
        let begun = output.appended();
        if self.session.replies() {
            output.append(done.output);
        }
        self.session.command_done(Some(done.ran.entry));
        self.session.see_by(done.ran.entry, done.seen);
        self.hold(&output, begun);
        self.keep_output(output);
        Turn::Again
    }

    fn book(&mut self, ran: &Ran, reply_bytes: u64) {
        let worker = &*self.worker;
        if let Some(program) = &ran.program {
            program.book(ran.args.as_args(), worker, &mut self.session);
        }
        let (session, args) = (&self.session, ran.args.as_args());
        let (database, entry) = (session.database, ran.entry);
        execute::account(worker, session, entry, args, ran.micros, reply_bytes);
        execute::tell_watchers(worker, session, database, entry, args);
        if ran.failed {
            worker.server.stats.failed(worker.lane, ran.entry.id);
        }
    }

    fn await_resumption(&mut self, cx: &mut TaskContext<'_>, mut sleep: Pin<Box<Sleep>>) -> Turn {
        let pause = &self.worker.server.pause;
        // Queued first: a pause that ends between the two still wakes us.
        pause.wait(cx.waker());
        let now = self.worker.server.keyspace.clock().now_ms();
        let resumed = !pause.is_on(now) || sleep.as_mut().poll(cx).is_ready();
        self.session.client.set_flag(client_flags::PAUSED, !resumed);
        if resumed {
            return Turn::Again;
        }
        self.stage = Stage::Paused(sleep);
        Turn::Wait
    }

    fn await_room(&mut self, cx: &TaskContext<'_>, valve: &'static Valve) -> Turn {
        if !valve.wait(cx.waker()) {
            return Turn::Again;
        }
        self.stage = Stage::Shut(valve);
        Turn::Wait
    }

    fn await_event(&mut self, cx: &mut TaskContext<'_>, mut blocked: Box<Blocked>) -> Turn {
        let client = &self.session.client;
        client.take(Signal::Served);
        if !client.has_flag(client_flags::BLOCKED) {
            // Asked too late for the last wait, and not meant for this one.
            self.forget_unblock();
        }
        if let Some(served) = blocked.place.as_ref().and_then(Place::outcome) {
            return self.take_served(*blocked, served);
        }
        if let Some(safety) = &mut blocked.safety
            && let Some(output) = self.look_at_disk(cx, safety, &mut blocked.ran.failed)
        {
            return self.end_wait(*blocked, output);
        }
        let unblocked = self.unblocked(&blocked);
        let client = &self.session.client;
        let timed_out =
            blocked.until.as_mut().is_some_and(|sleep| sleep.as_mut().poll(cx).is_ready());
        // Who is being served this moment learns soon how that went.
        let ends =
            unblocked.is_some() || timed_out && blocked.place.as_ref().is_none_or(Place::give_up);
        if !ends {
            if !client.has_flag(client_flags::BLOCKED) {
                client.show_waiter(blocked.place.as_ref().map(Place::waiter));
                client.set_flag(client_flags::BLOCKED, true);
            }
            let turn = self.look_again(cx, &mut blocked);
            self.stage = Stage::Blocked(blocked);
            return turn;
        }
        let mut output = Output::new();
        let mut reply = Reply::new(&mut output, self.session.resp);
        if unblocked == Some(true) {
            self.worker.server.refuse(&UNBLOCKED, &mut reply);
            blocked.ran.failed = true;
        } else if let Some(safety) = &blocked.safety {
            wait::reply_copies(self.worker.server, safety.lsn, &mut reply);
        } else {
            (blocked.on_timeout)(&mut reply);
        }
        self.end_wait(*blocked, output)
    }

    /// Whether CLIENT UNBLOCK ends the wait, and if so, whether with an error. A wait for keys is
    /// over already then; another is asked to end.
    fn unblocked(&self, blocked: &Blocked) -> Option<bool> {
        if let Some(place) = &blocked.place {
            return place.unblocked();
        }
        let client = &self.session.client;
        let with_error = client.is_asked(Signal::UnblockError);
        (with_error || client.is_asked(Signal::Unblock)).then_some(with_error)
    }

    /// What CLIENT UNBLOCK asked for is done, or was too late.
    fn forget_unblock(&self) {
        self.session.client.take(Signal::Unblock);
        self.session.client.take(Signal::UnblockError);
    }

    /// Looks at what its user may still do. Who waits for what is not for it any more waits no
    /// longer; `false` if it has to go, with the messages and replies that it did not take yet.
    pub(super) fn review(&mut self) -> bool {
        let server = self.worker.server;
        if guard::must_leave(server, &self.session) {
            return false;
        }
        let Stage::Blocked(blocked) = &mut self.stage else { return true };
        let (Some(place), entry) = (&blocked.place, blocked.ran.entry) else { return true };
        let mut requests = place.requests();
        let refusal = requests.find_map(|it| guard::refuse(server, &self.session, entry, it));
        drop(requests);
        // Until now it was passed over.
        blocked.rousing = Rousing::Due;
        // Who is being served this moment was so before.
        let Some(refusal) = refusal.filter(|_| place.give_up()) else { return true };
        let mut output = Output::new();
        server.refuse(&refusal, &mut Reply::new(&mut output, self.session.resp));
        server.stats.rejected(self.worker.lane, entry.id);
        if let Stage::Blocked(blocked) = std::mem::replace(&mut self.stage, Stage::Requests) {
            self.leave_wait(*blocked, output);
        }
        true
    }

    /// The reply of a wait for the disk, if it is over.
    fn look_at_disk(
        &self,
        cx: &TaskContext<'_>,
        safety: &mut Safety,
        failed: &mut bool,
    ) -> Option<Output> {
        if safety.awaited == Awaited::Replicas {
            return None;
        }
        let server = self.worker.server;
        let mut output = Output::new();
        let mut reply = Reply::new(&mut output, self.session.resp);
        if server.aof.phase() == Phase::Off {
            server.refuse(&wait::NO_FILE, &mut reply);
            *failed = true;
            return Some(output);
        }
        let journal = &server.journal;
        let is_safe = safety.lsn <= journal.safe()
            // Once in line it stays there until it is safe.
            || !safety.is_queued && !journal.wait_for_safety(safety.lsn, cx.waker());
        safety.is_queued = true;
        if !is_safe || safety.awaited != Awaited::File {
            return None;
        }
        wait::reply_copies(server, safety.lsn, &mut reply);
        Some(output)
    }

    /// Has the client looked at again when it is time, as nobody else may come to do it.
    fn look_again(&self, cx: &mut TaskContext<'_>, blocked: &mut Blocked) -> Turn {
        let Some(place) = &blocked.place else { return Turn::Wait };
        let keyspace = self.worker.server.keyspace;
        if let Rousing::No = blocked.rousing {
            let Some(again) = place.again() else { return Turn::Wait };
            if blocked.again.as_ref().is_none_or(|(at, _)| *at != again) {
                let left = again - keyspace.clock().now_ms();
                let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
                blocked.again = Some((again, Box::pin(tokio::time::sleep(left))));
            }
            let timer = blocked.again.as_mut();
            if timer.is_none_or(|(_, sleep)| sleep.as_mut().poll(cx).is_pending()) {
                return Turn::Wait;
            }
        }
        blocked.again = None;
        let (mut acquisition, round) = match std::mem::replace(&mut blocked.rousing, Rousing::No) {
            Rousing::Underway(acquisition, round) => (acquisition, round),
            Rousing::No | Rousing::Due => (place.acquisition(keyspace), 0),
        };
        if self.worker.poll_locks(&mut acquisition, cx.waker()).is_pending() {
            blocked.rousing = Rousing::Underway(acquisition, round);
            return Turn::Wait;
        }
        if let Err(wider) = place.rouse(&self.worker, acquisition, round) {
            blocked.rousing = Rousing::Underway(wider, round + 1);
        }
        Turn::Again
    }

    /// Passes on what somebody else's transaction gave.
    fn take_served(&mut self, mut blocked: Blocked, served: Served) -> Turn {
        self.session.see(served.seen);
        if blocked.place.is_some() {
            self.session.see_by(blocked.ran.entry, served.seen);
            blocked.ran.failed = served.failed;
        }
        self.end_wait(blocked, served.output)
    }

    /// Has the reply of a client that was served stand before what comes now.
    pub(super) fn take_outcome(&mut self) {
        let Stage::Blocked(blocked) = &self.stage else { return };
        let Some(place) = &blocked.place else { return };
        if let Some(served) = place.outcome()
            && let Stage::Blocked(blocked) = std::mem::replace(&mut self.stage, Stage::Requests)
        {
            self.take_served(*blocked, served);
        }
    }

    /// Waits for nothing any more: what was granted is given back, and queues are left.
    pub(super) fn give_up_wait(&mut self) {
        if let Stage::Blocked(blocked) = std::mem::replace(&mut self.stage, Stage::Requests) {
            self.session.client.set_flag(client_flags::BLOCKED, false);
            self.leave_queues(*blocked);
        }
    }

    /// The client does not wait for keys any more.
    pub(super) fn leave_queues(&self, blocked: Blocked) {
        if let Some(place) = blocked.place {
            place.leave(&self.worker);
        }
    }

    /// The command is over with this reply. Its time is that in which it ran: what others did for
    /// it, and the wait, are not in it.
    fn end_wait(&mut self, blocked: Blocked, reply: Output) -> Turn {
        let Ran { entry, args, micros, failed, .. } = &blocked.ran;
        let (worker, bytes) = (&*self.worker, reply.len() as u64 + reply.bytes_to_come());
        execute::account(worker, &self.session, entry, args.as_args(), *micros, bytes);
        if *failed {
            worker.server.stats.failed(worker.lane, entry.id);
        }
        self.leave_wait(blocked, reply)
    }

    /// The wait is over with this reply.
    fn leave_wait(&mut self, blocked: Blocked, reply: Output) -> Turn {
        let client = &self.session.client;
        client.set_flag(client_flags::BLOCKED, false);
        self.forget_unblock();
        self.worker.start_batch();
        client.live.last_active.store(self.worker.now_ms(), Ordering::Relaxed);
        self.leave_queues(blocked);
        let mut output = self.output();
        let begun = output.appended();
        if self.session.replies() {
            output.append(reply);
        }
        self.session.command_done(None);
        self.hold(&output, begun);
        self.keep_output(output);
        Turn::Again
    }
}
