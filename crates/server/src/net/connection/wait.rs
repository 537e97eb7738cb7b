//! The wait of a session: what it looks at, and how it ends.
//!
//! When that is done `life.rs` says. Invariant: a waiting session holds no turnstile, and is woken
//! by what it waits for, by a signal, or by its deadline.

mod forwarded;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use commands::Role;
use durability::aof::AofState;
use durability::waitaof;
use engine::admission::{acl_check, redirection};
use engine::clients::registry::{Signal, client_flags};
use engine::commit::accounting;
use engine::lane::Lane;
use engine::observe::execution::Execution;
use engine::session::LockWaitEnd;
use engine::session::Resumed;
use engine::session::life::{EventEnd, Resumption, StepEnd, Waits};
use engine::session::timer::{Timer, is_due};
use engine::session::{AckRequirement, AckWait, Blocked, Recheck};
use engine::session::{
    AfterOffload, ExecutedCommand, OffloadResult, Parked, SessionEndWait, Suspension,
};
use engine::session::{KeyWait, Served, ServedWith, Session};
use keyspace::{Keyspace, Refusal};
use proto::{Block, Output, Reply};
use tokio::sync::oneshot;

use super::Connection;
use super::timer::SessionTimer;
use crate::net::network::Network;
use crate::net::worker::unregister;

/// While all data stand still, a session that would be served by the clock looks so often whether
/// they do.
const STANDSTILL_LOOK: Duration = Duration::from_millis(100);

/// What comes from another thread with so many bytes is not freed by a worker.
const LARGE: u64 = 64 * 1024;

const DEMOTED: Refusal = Refusal::error(
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
);
const UNBLOCKED: Refusal = Refusal::error("UNBLOCKED client unblocked via CLIENT UNBLOCK");

impl Waits for Connection {
    fn has_locks(&mut self, cx: &mut TaskContext<'_>) -> bool {
        let Suspension::Locks(parked) = &mut self.suspension else { return false };
        let Parked { acquisition, attempt, .. } = &mut **parked;
        attempt.pass.as_mut().is_none_or(|pass| pass.poll(cx.waker()).is_ready())
            && self.worker.poll_locks(acquisition, cx.waker()).is_ready()
    }

    fn has_lost_purpose(&mut self, cx: &mut TaskContext<'_>) -> bool {
        // What waits for locks while commands are queued is EXEC.
        let multi = self.session.multi.as_ref();
        multi.is_some_and(|multi| multi.poll_broken(cx.waker()))
    }

    fn has_lost_patience(&mut self, cx: &mut TaskContext<'_>) -> bool {
        let Suspension::Locks(parked) = &mut self.suspension else { return false };
        parked.has_lost_patience(self.worker.server, &mut self.timer, cx)
    }

    fn resume(&mut self, cx: &mut TaskContext<'_>, with: Resumption) -> StepEnd {
        let Suspension::Locks(parked) = self.take_suspension() else { return StepEnd::Again };
        engine::runtime::counters::add(&self.worker.counters.waits, 1);
        let Parked { acquisition, mut attempt, began_us, .. } = *parked;
        attempt.began_us = Some(began_us);
        let grant = match with {
            Resumption::Granted => LockWaitEnd::Locks(acquisition, attempt),
            Resumption::Busy => LockWaitEnd::Busy,
        };
        self.run_granted(cx, grant)
    }

    fn take_result(&mut self, cx: &mut TaskContext<'_>) -> StepEnd {
        match self.take_suspension() {
            Suspension::Offload(receiver) => self.await_offload(cx, receiver, Suspension::Offload),
            Suspension::ResumableOffload(receiver) => {
                self.await_offload(cx, receiver, Suspension::ResumableOffload)
            }
            Suspension::Forwarded(receiver) => self.await_forwarded(cx, receiver),
            Suspension::Steps(steps) => self.take_step(cx, steps),
            Suspension::SessionEndWait(departures) => self.await_departures(cx, departures),
            suspension => unreachable!("{:?} is no wait for a result", suspension.wait()),
        }
    }

    fn may_begin(&mut self, cx: &mut TaskContext<'_>) -> bool {
        let server = self.worker.server;
        let may_begin = match &mut self.suspension {
            Suspension::Pause => {
                let left =
                    server.gates.pause.await_end(cx.waker(), server.keyspace.clock().now_ms());
                left.inspect(|left| self.timer.wake_in(cx, *left)).is_none()
            }
            Suspension::Backpressure(backpressure) => !backpressure.wait(cx.waker()),
            _ => true,
        };
        if may_begin {
            self.take_suspension();
        }
        may_begin
    }

    fn reply_served(&mut self) -> bool {
        self.session.client.take(Signal::Served);
        let Some(served) = self.place().and_then(KeyWait::outcome) else { return false };
        self.pass_on_served(served);
        true
    }

    fn reply_acknowledged(&mut self, cx: &mut TaskContext<'_>) -> bool {
        let (server, resp) = (self.worker.server, self.session.resp);
        let Suspension::Blocked(blocked) = &mut self.suspension else { return false };
        if let Some(forwarded) = &mut blocked.forwarded {
            let Poll::Ready(done) = forwarded.poll(cx) else { return false };
            self.reply_forwarded(done);
            return true;
        }
        let Some(ack_wait) = &mut blocked.ack_wait else { return false };
        let needs_file = matches!(ack_wait.awaited, AckRequirement::Synced { here: true, .. });
        let mut output = Output::new();
        let mut reply = Reply::new(&mut output, resp);
        if needs_file && server.aof.phase() == AofState::Off {
            server.refuse(&waitaof::NO_FILE, &mut reply);
            blocked.ran.failed = true;
        } else {
            // Each is to know that it is waited for.
            let are_copied = are_copied(ack_wait, server, cx);
            if !are_copied || needs_file && !is_safe(ack_wait, server, cx) {
                return false;
            }
            waitaof::reply_copies(server, ack_wait.lsn, ack_wait.awaited, &mut reply);
        }
        self.end_wait(output);
        true
    }

    fn unblocked(&mut self) -> Option<bool> {
        if let Some(place) = self.place() {
            // A wait for keys is over already then; another is asked to end.
            return place.unblocked();
        }
        let client = &self.session.client;
        if !client.has_flag(client_flags::BLOCKED) {
            // Asked too late for the last wait, and not meant for this one.
            self.forget_unblock();
        }
        let with_error = client.is_asked(Signal::UnblockError);
        let is_asked = with_error || client.is_asked(Signal::Unblock);
        if let Suspension::Blocked(blocked) = &mut self.suspension
            && let Some(forwarded) = &mut blocked.forwarded
        {
            // What its node has for it comes first, and is the reply.
            if is_asked {
                forwarded.unblock(with_error);
                self.forget_unblock();
            }
            return None;
        }
        is_asked.then_some(with_error)
    }

    fn is_late(&mut self, cx: &mut TaskContext<'_>) -> bool {
        let Suspension::Blocked(blocked) = &mut self.suspension else { return false };
        let now_us = self.worker.server.keyspace.clock().monotonic_us();
        blocked.until_us.is_some_and(|until_us| is_due(&mut self.timer, cx, now_us, until_us))
    }

    fn refusal(&self) -> Option<Refusal> {
        let (server, blocked) = (self.worker.server, self.blocked()?);
        let entry = blocked.ran.entry;
        if blocked.forwarded.is_some() {
            return acl_check::refuse(server, &self.session, entry, blocked.ran.args.as_args());
        }
        let place = self.place()?;
        place.requests().find_map(|it| {
            let (session, args) = (&self.session, it.as_args());
            acl_check::refuse(server, session, entry, args)
                .or_else(|| redirection::refuse_waiting(server, session, entry, args))
        })
    }

    fn withdraw(&mut self) -> bool {
        self.place().is_none_or(KeyWait::cancel)
    }

    fn end_event(&mut self, end: EventEnd) {
        let (server, resp) = (self.worker.server, self.session.resp);
        if let EventEnd::Refused(refusal) = &end
            && redirection::leads_to_other_node(server, refusal)
        {
            return self.begin_anew();
        }
        let Suspension::Blocked(blocked) = &mut self.suspension else { return };
        let mut output = Output::new();
        let mut reply = Reply::new(&mut output, resp);
        match (end, &blocked.ack_wait) {
            (EventEnd::Refused(refusal), _) => {
                server.refuse(&refusal, &mut reply);
                return self.finish_refused(output);
            }
            (EventEnd::Unblocked { with_error: true }, _) => {
                let client = &self.session.client;
                let is_demoted = blocked.place.as_ref().is_some_and(KeyWait::is_demoted);
                match is_demoted || client.has_flag(client_flags::DEMOTED) {
                    true => {
                        client.set_flag(client_flags::DEMOTED, false);
                        server.refuse(&DEMOTED, &mut reply);
                        self.session.close();
                    }
                    false => server.refuse(&UNBLOCKED, &mut reply),
                }
                blocked.ran.failed = true;
            }
            (_, Some(ack_wait)) => {
                waitaof::reply_copies(server, ack_wait.lsn, ack_wait.awaited, &mut reply);
            }
            (_, None) => (blocked.on_timeout)(&mut reply),
        }
        self.end_wait(output);
    }

    fn recheck(&mut self) {
        if let Suspension::Blocked(blocked) = &mut self.suspension {
            blocked.recheck = Recheck::Due;
        }
    }

    fn recheck_if_due(&mut self, cx: &mut TaskContext<'_>) -> StepEnd {
        let Suspension::Blocked(blocked) = &mut self.suspension else {
            return StepEnd::Again;
        };
        let Some(place) = &blocked.place else { return StepEnd::Wait };
        let keyspace = self.worker.server.keyspace;
        let now = keyspace.clock().now_ms();
        if let Recheck::No = blocked.recheck {
            let Some(again) = place.again() else { return StepEnd::Wait };
            if !is_due(&mut self.timer, cx, now.saturating_mul(1000), again.saturating_mul(1000)) {
                return StepEnd::Wait;
            }
        }
        // A claim by the clock is a write that no other command has brought past the gates.
        let waits_for_disk = blocked.ran.entry.may_write()
            && self.worker.server.gates.write_backpressure().is_some();
        if keyspace.settings().holds_expiry(now) || waits_for_disk {
            self.timer.wake_in(cx, STANDSTILL_LOOK);
            blocked.recheck = Recheck::Due;
            return StepEnd::Wait;
        }
        let (mut acquisition, widenings) =
            match std::mem::replace(&mut blocked.recheck, Recheck::No) {
                Recheck::Underway(acquisition, widenings) => (acquisition, widenings),
                Recheck::No | Recheck::Due => (place.acquisition(keyspace), 0),
            };
        if self.worker.poll_locks(&mut acquisition, cx.waker()).is_pending() {
            blocked.recheck = Recheck::Underway(acquisition, widenings);
            return StepEnd::Wait;
        }
        if let Err(wider) = place.recheck(&self.worker, acquisition, widenings) {
            blocked.recheck = Recheck::Underway(wider, widenings + 1);
        }
        StepEnd::Again
    }

    fn cancel_wait(&mut self) {
        if let Suspension::Blocked(blocked) = self.take_suspension() {
            self.session.client.set_flag(client_flags::BLOCKED, false);
            self.leave_queues(*blocked);
        }
    }

    fn show_wait(&mut self) {
        let client = &self.session.client;
        let (works, is_paused) = match &self.suspension {
            Suspension::None | Suspension::Blocked(_) => (false, false),
            Suspension::Pause => (false, true),
            Suspension::Locks(_)
            | Suspension::Backpressure(_)
            | Suspension::Offload(_)
            | Suspension::Forwarded(_)
            | Suspension::ResumableOffload(_)
            | Suspension::Steps(_)
            | Suspension::SessionEndWait(_) => (true, false),
        };
        client.set_flag(client_flags::WORKING, works);
        client.set_flag(client_flags::PAUSED, is_paused);
        if let Suspension::Blocked(blocked) = &self.suspension
            && !client.has_flag(client_flags::BLOCKED)
        {
            client.show_waiter(blocked.place.as_ref().map(KeyWait::waiter));
            client.set_flag(client_flags::WAITS_ELSEWHERE, blocked.forwarded.is_some());
            client.set_flag(client_flags::BLOCKED, true);
        }
    }
}

/// Whether as many replicas have what was written as are wanted; if not, the session is woken when
/// one says something new.
fn are_copied(ack_wait: &mut AckWait, server: &Network, cx: &TaskContext<'_>) -> bool {
    let are_copied = || waitaof::is_on_replicas(server, ack_wait.lsn, ack_wait.awaited);
    if are_copied() {
        return true;
    }
    let is_first = !std::mem::replace(&mut ack_wait.asks, true);
    server.journal.replica_acks.wait(cx.waker(), is_first);
    waitaof::is_on_replicas(server, ack_wait.lsn, ack_wait.awaited)
}

/// Whether what was written is safe; if not, the session is woken when it is.
fn is_safe(ack_wait: &mut AckWait, server: &Network, cx: &TaskContext<'_>) -> bool {
    let journal = &server.journal;
    if !server.aof.is_relied_on() {
        journal.wait_for_durable_reader(cx.waker());
        // In line it hears of the base; that it came before is seen here.
        if !server.aof.is_relied_on() {
            return false;
        }
    }
    ack_wait.lsn <= journal.safe()
        || !journal.wait_for_safety(ack_wait.lsn, cx.waker(), &mut ack_wait.place)
}

/// Bytes of a long reply that another thread made: a worker sends them, and does not free them.
struct Apart {
    keyspace: &'static Keyspace,
    bytes: Vec<u8>,
}

fn held_apart(keyspace: &'static Keyspace, bytes: Vec<u8>) -> Block {
    Arc::new(Apart { keyspace, bytes })
}

impl AsRef<[u8]> for Apart {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.keyspace.lazy_free(std::mem::take(&mut self.bytes));
    }
}

fn reply_bytes_of(done: &OffloadResult) -> u64 {
    done.output.len() as u64 + done.output.bytes_to_come()
}

impl Connection {
    /// What the session waited for, with which its timer goes.
    fn take_suspension(&mut self) -> Suspension {
        self.timer = SessionTimer::default();
        std::mem::replace(&mut self.suspension, Suspension::None)
    }

    /// What the session waits for, if that is an event.
    fn blocked(&self) -> Option<&Blocked> {
        let Suspension::Blocked(blocked) = &self.suspension else { return None };
        Some(blocked)
    }

    /// Where the session stands in queues of keys, if it does.
    fn place(&self) -> Option<&KeyWait> {
        self.blocked()?.place.as_ref()
    }

    fn await_offload(
        &mut self,
        cx: &mut TaskContext<'_>,
        mut receiver: oneshot::Receiver<OffloadResult>,
        suspension: fn(oneshot::Receiver<OffloadResult>) -> Suspension,
    ) -> StepEnd {
        match Pin::new(&mut receiver).poll(cx) {
            Poll::Pending => {
                self.suspension = suspension(receiver);
                StepEnd::Wait
            }
            // The thread panicked without a word, and nobody knows the result.
            Poll::Ready(Err(_)) => StepEnd::End,
            Poll::Ready(Ok(OffloadResult { then: AfterOffload::Waits(waiting), ran, .. })) => {
                let (session, args) = (&self.session, ran.args.as_args());
                accounting::feed_monitors(&self.worker, session, session.database, ran.entry, args);
                self.suspension = Suspension::Blocked(Box::new(Blocked::on_keys(ran, waiting)));
                StepEnd::Again
            }
            Poll::Ready(Ok(OffloadResult { then: AfterOffload::PutOff, mut ran, .. })) => {
                if let Some(program) = &mut ran.program {
                    program.put_off(&mut self.session);
                }
                self.session.note_put_off();
                self.stand_first(ran.args.as_args());
                StepEnd::Again
            }
            Poll::Ready(Ok(OffloadResult {
                then: AfterOffload::GoesOn(offloaded), ran, ..
            })) => {
                self.worker.start_batch();
                match offloaded.resume(&self.worker, &mut self.session, ran.args) {
                    Resumed::Over(done) => return self.take_result(cx, *done, suspension),
                    Resumed::Away(suspension) => self.suspension = suspension,
                }
                StepEnd::Again
            }
            Poll::Ready(Ok(done)) => self.take_result(cx, done, suspension),
        }
    }

    /// Passes on what came of a command, once its books leave no more to do than fits a turn.
    fn take_result(
        &mut self,
        cx: &mut TaskContext<'_>,
        mut done: OffloadResult,
        suspension: fn(oneshot::Receiver<OffloadResult>) -> Suspension,
    ) -> StepEnd {
        let program = done.ran.program.as_mut();
        if program.is_none_or(|it| it.charge_next(&self.worker, &mut self.session)) {
            engine::runtime::counters::add(&self.worker.counters.elsewhere, 1);
            self.pass_on_result(done);
            return StepEnd::Again;
        }
        // The rest is booked behind the worker's other sessions.
        let (sender, receiver) = oneshot::channel();
        let _ = sender.send(done);
        self.suspension = suspension(receiver);
        self.worker.yield_turn(cx.waker());
        StepEnd::Wait
    }

    fn await_departures(
        &mut self,
        cx: &mut TaskContext<'_>,
        departures: Box<SessionEndWait>,
    ) -> StepEnd {
        let server = self.worker.server;
        let now_us = server.keyspace.clock().monotonic_us();
        // A client that is busy for longer is gone as soon as it looks up.
        if server.clients.poll_departures(&departures.ids, cx.waker()).is_pending()
            && !is_due(&mut self.timer, cx, now_us, departures.until_us)
        {
            self.suspension = Suspension::SessionEndWait(departures);
            return StepEnd::Wait;
        }
        let SessionEndWait { began_us, mut done, .. } = *departures;
        done.ran.micros = u64::try_from(now_us - began_us).unwrap_or(0);
        self.pass_on_result(done);
        StepEnd::Again
    }

    /// Passes on what came of a command that did not run here.
    pub(super) fn pass_on_result(&mut self, mut done: OffloadResult) {
        self.charge(&mut done);
        self.pass_on_booked(done);
    }

    /// Passes on what came of a command that has been booked.
    fn pass_on_booked(&mut self, done: OffloadResult) {
        let reply_bytes = reply_bytes_of(&done);
        // Its command took long; from here on it may be idle.
        let now = self.worker.server.keyspace.clock().now_ms();
        self.session.client.live.last_active.store(now, Ordering::Relaxed);
        let OffloadResult { output: reply, seen, ran, .. } = done;
        let keyspace = self.worker.server.keyspace;
        let mut output = self.output();
        let begun = output.appended();
        self.session.check_import_answer(|| reply.front());
        // EXEC has left out itself what its client does not want.
        let is_made = ran.entry.spec.role == Role::Exec || ran.entry.answers_with_messages();
        if self.session.replies() || is_made {
            output.adopt(reply, |bytes| held_apart(keyspace, bytes));
        }
        self.session.command_done(Some(ran.entry));
        self.session.note_reply(ran.entry, seen);
        self.hold(&output, begun);
        self.keep_output(output);
        if reply_bytes >= LARGE || ran.args.memory() as u64 >= LARGE {
            keyspace.lazy_free((ran.args, ran.program));
        }
    }

    fn charge(&mut self, done: &mut OffloadResult) {
        let worker = &*self.worker;
        let ran = &mut done.ran;
        if let Some(program) = &mut ran.program {
            program.detach(&mut self.session);
            program.charge(ran.args.as_args(), worker, &mut self.session);
        }
        self.book(done, accounting::account_request);
    }

    /// Notes a command that is over, as `account` does it.
    fn book(&self, done: &OffloadResult, account: fn(&Lane, &Session, Execution<'_>)) {
        let (worker, session, ran) = (&*self.worker, &self.session, &done.ran);
        let (database, entry, args) = (session.database, ran.entry, ran.args.as_args());
        let reply_bytes = reply_bytes_of(done);
        account(worker, session, Execution { entry, args, micros: ran.micros, reply_bytes });
        accounting::feed_monitors(worker, session, database, entry, args);
        if ran.failed {
            worker.server.observed.stats.failed(worker.number, entry.id);
        }
    }

    /// Passes on what somebody else's transaction gave.
    fn pass_on_served(&mut self, served: Served) {
        self.session.note_reply_lsn(served.seen);
        if let Suspension::Blocked(blocked) = &mut self.suspension {
            self.session.note_reply(blocked.ran.entry, served.seen);
            blocked.ran.failed = served.answer == ServedWith::Error;
        }
        if served.answer == ServedWith::Refusal {
            return self.finish_refused(served.output);
        }
        self.end_wait(served.output);
    }

    /// What CLIENT UNBLOCK asked for is done, or was too late.
    fn forget_unblock(&self) {
        self.session.client.take(Signal::Unblock);
        self.session.client.take(Signal::UnblockError);
    }

    /// The client does not wait for keys any more.
    fn leave_queues(&self, blocked: Blocked) {
        if let Some(leaving) = blocked.place.and_then(KeyWait::leave) {
            unregister(&self.worker, leaving);
        }
    }

    /// The command is over with this reply. Its time is that in which it ran: what others did for
    /// it, and the wait, are not in it.
    fn end_wait(&mut self, reply: Output) {
        let Some(Blocked { ran, .. }) = self.blocked() else { return };
        let ExecutedCommand { entry, args, micros, failed, .. } = ran;
        let (worker, args, micros) = (&*self.worker, args.as_args(), *micros);
        let reply_bytes = reply.len() as u64 + reply.bytes_to_come();
        let execution = Execution { entry, args, micros, reply_bytes };
        // Monitors were told when the wait began.
        accounting::account_request(worker, &self.session, execution);
        if *failed {
            worker.server.observed.stats.failed(worker.number, entry.id);
        }
        self.finish_event(reply);
    }

    /// The command has not run, and is over with this refusal.
    fn finish_refused(&mut self, reply: Output) {
        if let Some(blocked) = self.blocked() {
            self.worker.server.observed.stats.rejected(self.worker.number, blocked.ran.entry.id);
        }
        self.finish_event(reply);
    }

    /// The wait for an event is over with this reply.
    fn finish_event(&mut self, reply: Output) {
        let client = &self.session.client;
        client.set_flag(client_flags::BLOCKED, false);
        self.forget_unblock();
        self.worker.start_batch();
        let client = &self.session.client;
        client.live.last_active.store(self.worker.now_ms(), Ordering::Relaxed);
        if let Suspension::Blocked(blocked) = self.take_suspension() {
            self.leave_queues(*blocked);
        }
        let mut output = self.output();
        let begun = output.appended();
        if self.session.replies() {
            let keyspace = self.worker.server.keyspace;
            output.adopt(reply, |bytes| held_apart(keyspace, bytes));
        }
        self.session.command_done(None);
        self.hold(&output, begun);
        self.keep_output(output);
    }
}
