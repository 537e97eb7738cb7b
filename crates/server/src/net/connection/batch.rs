//! A turn of a session: reading, and executing all requests that are complete.
//!
//! Invariant: the parser of an incomplete request stays with its bytes, so nothing is read twice
//! however slowly they come.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll};

use commands::{Flags, Role};
use config::settings::{CLIENT_QUERY_BUFFER_LIMIT, PREFETCH_BATCH_MAX_SIZE};
use engine::clients::registry::Signal;
use engine::execute::{LOCK_BATCH_MAX, LockBatch, Lookup, execute, queue_together};
use engine::lane::is_over;
use engine::reclaim::client_eviction;
use engine::runtime::lanes::READ_SIZE;
use engine::session::life::{BACKLOG_LIMIT, StepEnd};
use engine::session::{LockWaitEnd, PendingInput, Step};
use keyspace::Location;
use proto::{Args, Output, ProtocolError, Reply};
use smallvec::SmallVec;

use super::window::{Slot, WINDOW, Window};
use super::{Connection, DeferralState, Session, Suspension};
use crate::net::output_limit;
use crate::net::worker::Worker;

mod forward;

/// After so many commands, or a turn's time, a session lets others have the worker.
pub(super) const COMMAND_BUDGET: u32 = 64;

/// A read for a long argument asks for at least this much at once.
const READ_AHEAD: usize = 16 * 1024;

/// From so many bytes on a buffer takes the size of the argument that it is for.
const LONG: usize = 1 << 20;

/// So many times what is there a long buffer grows at once for arguments that are only counted.
const GROWTH: usize = 15;

/// Replies of so few bytes do not leave before those of the requests behind them are there, too.
const GATHERED: usize = 4096;

/// How a batch over some bytes ended.
#[derive(Clone, Copy)]
pub(super) enum BatchEnd {
    /// All complete requests are done.
    Drained,
    /// The budget is spent.
    Yielded,
    /// A request waits for something; the machine's suspension says for what.
    Waits,
    /// The connection must be closed.
    Closing,
}

impl Connection {
    /// Executes what is there, or reads more.
    pub(super) fn serve_requests(&mut self, cx: &mut TaskContext<'_>) -> StepEnd {
        if self.worker.is_turn_over() {
            self.worker.yield_turn(cx.waker());
            return StepEnd::Wait;
        }
        if self.has_requests() {
            let is_used_up = self.executed == self.input.len() || self.awaits_bytes();
            let taken = if is_used_up { self.take_later() } else { 0 };
            self.worker.start_batch();
            let end = self.run_input(None);
            return self.after_batch(cx, end, taken);
        }
        if self.input.is_empty() {
            let worker = Rc::clone(&self.worker);
            let mut buffer = worker.input.borrow_mut();
            let begin = worker.deferred.bytes();
            let buffer = &mut buffer[begin..begin + READ_SIZE];
            let count = match self.stream.poll_read(cx, buffer) {
                Poll::Pending => return StepEnd::Wait,
                Poll::Ready(Err(_)) => return StepEnd::End,
                Poll::Ready(Ok(0)) => return self.end_of_input(),
                Poll::Ready(Ok(count)) => count,
            };
            self.note_read(count);
            if self.session.multi.is_some() {
                let limit = worker.server.config.get(CLIENT_QUERY_BUFFER_LIMIT);
                if self.is_overrun(count, limit) {
                    return StepEnd::End;
                }
            }
            if self.defer(&buffer[..count]) {
                self.line_up(cx);
                return StepEnd::Wait;
            }
            worker.start_batch();
            let (consumed, end) = self.run_batch(&buffer[..count], None);
            self.input.extend_from_slice(&buffer[consumed..count]);
            self.executed = 0;
            return self.after_batch(cx, end, count);
        }
        self.read_more(cx)
    }

    /// Whether requests may be there that are not executed yet.
    #[inline]
    pub(super) fn has_requests(&self) -> bool {
        self.session.pending_input().is_some()
            || self.executed < self.input.len() && !self.awaits_bytes()
    }

    /// Whether what it has to say leaves with the replies to what comes next: a system call for
    /// each turn would cost more than the commands.
    #[inline]
    pub(super) fn gathers(&self) -> bool {
        let is_little = |output: &Output| {
            output.len() < GATHERED && !output.is_streaming() && !output.is_overfull()
        };
        matches!(self.suspension, Suspension::None)
            && self.has_requests()
            && !self.session.closing
            && self.output.as_deref().is_some_and(is_little)
    }

    /// Whether the input ends within a request that is next.
    #[inline]
    fn awaits_bytes(&self) -> bool {
        let of_memcached = self.session.memcached.as_ref();
        self.parser.is_some() || of_memcached.is_some_and(|state| state.is_incomplete)
    }

    /// Reads on behind an incomplete request.
    fn read_more(&mut self, cx: &mut TaskContext<'_>) -> StepEnd {
        self.forget_executed();
        let limit = self.worker.server.config.get(CLIENT_QUERY_BUFFER_LIMIT);
        if self.is_overrun(self.input.len(), limit) {
            return StepEnd::End;
        }
        self.make_room_for_input();
        let count = match self.stream.poll_read_more(cx, &mut self.input) {
            Poll::Pending => return StepEnd::Wait,
            Poll::Ready(Err(_)) => return StepEnd::End,
            Poll::Ready(Ok(0)) => return self.end_of_input(),
            Poll::Ready(Ok(count)) => count,
        };
        self.note_read(count);
        // What is there counts before any of it is executed.
        self.note_batch();
        if self.session.client.is_asked(Signal::Kill) {
            return StepEnd::Again;
        }
        self.worker.start_batch();
        let end = self.run_input(None);
        self.after_batch(cx, end, count)
    }

    /// A buffer grows as bytes come, and not beyond the argument that it is for: what it has room
    /// for is memory in use. Of a long argument a mebibyte has to be there before the rest is
    /// believed.
    pub(super) fn make_room_for_input(&mut self) {
        let have = self.input.len();
        if self.input.capacity() - have >= READ_AHEAD {
            return;
        }
        let parser = self.parser.as_ref();
        let announced = parser.and_then(|parser| parser.bytes_announced());
        let missing = announced.and_then(|bytes| bytes.checked_sub(have));
        let expected = parser.map_or(0, |parser| parser.bytes_expected()).saturating_sub(have);
        self.input.reserve_exact(more_room(have, missing, expected));
    }

    /// Goes on with the request that waited, now that its locks are there or it waits no longer.
    pub(super) fn run_granted(&mut self, cx: &mut TaskContext<'_>, grant: LockWaitEnd) -> StepEnd {
        self.worker.start_batch();
        let end = self.run_input(Some(grant));
        self.after_batch(cx, end, 0)
    }

    /// Executes what is there. A long request may leave its worker with the whole input; what
    /// stands behind it stays.
    fn run_input(&mut self, grant: Option<LockWaitEnd>) -> BatchEnd {
        let (input, start) = (std::mem::take(&mut self.input), self.executed);
        self.worker.handover.open(&input);
        let (consumed, end) = self.run_batch(&input[start..], grant);
        match self.worker.handover.close() {
            Some(leaving) => {
                self.input = input[start + consumed..].to_vec();
                self.executed = 0;
                leaving.submit(input);
            }
            None => self.put_back(input, start + consumed),
        }
        end
    }

    /// A request that was executed without effect is the next one again.
    #[cold]
    pub(super) fn stand_first(&mut self, args: Args<'_>) {
        /// At most what stands around an argument.
        const AROUND: usize = 32;
        let behind = self.input.len() - self.executed;
        let room = AROUND + args.total_bytes() + AROUND * args.len() + behind;
        let mut input = Vec::with_capacity(room);
        input.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
        for argument in args.iter() {
            input.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            input.extend_from_slice(argument);
            input.extend_from_slice(b"\r\n");
        }
        input.extend_from_slice(&self.input[self.executed..]);
        (self.input, self.executed, self.parser) = (input, 0, None);
    }

    fn put_back(&mut self, input: Vec<u8>, executed: usize) {
        if executed < input.len() {
            self.input = input;
            self.executed = executed;
        } else {
            self.executed = 0;
        }
    }

    pub(super) fn note_read(&self, count: usize) {
        let live = &self.session.client.live;
        engine::runtime::counters::add(&live.net_in, count as u64);
        self.worker.counters.add_net_in(count as u64);
        live.last_active.store(self.worker.now_ms(), Ordering::Relaxed);
    }

    /// Shows what is left of the input.
    pub(super) fn note_batch(&self) {
        let left = u32::try_from(self.waiting_bytes()).unwrap_or(u32::MAX);
        let room =
            self.input.capacity() + self.session.pending_input().map_or(0, PendingInput::room);
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let live = &self.session.client.live;
        live.query_bytes.store(left, Ordering::Relaxed);
        live.query_room.store(room, Ordering::Relaxed);
        self.check_client_memory();
    }

    fn after_batch(&mut self, cx: &mut TaskContext<'_>, end: BatchEnd, read: usize) -> StepEnd {
        self.note_batch();
        self.worker.note_turn(read);
        match end {
            BatchEnd::Drained if self.may_wait() => {
                self.line_up(cx);
                StepEnd::Wait
            }
            BatchEnd::Drained | BatchEnd::Waits => StepEnd::Again,
            BatchEnd::Closing => {
                self.session.close();
                StepEnd::Again
            }
            BatchEnd::Yielded => {
                if !self.gathers()
                    && let Poll::Ready(Err(_)) = self.flush(cx)
                {
                    return StepEnd::End;
                }
                self.worker.yield_turn(cx.waker());
                StepEnd::Wait
            }
        }
    }

    /// Has the replies of the batch wait for their second turn. That is no turn of the session,
    /// which listens for what comes next already.
    fn line_up(&mut self, cx: &mut TaskContext<'_>) {
        if self.place == DeferralState::Nowhere {
            self.place = DeferralState::Joining;
        }
        if self.stream.poll_readable(cx).is_ready() {
            self.worker.yield_turn(cx.waker());
        }
    }

    /// Whether the replies of the batch leave in a second turn. Those that are held leave behind
    /// others anyway.
    fn may_wait(&self) -> bool {
        self.watermarks.is_none()
            && self.output.as_ref().is_some_and(|output| self.worker.has_wait(output.len()))
    }

    /// Says what this client's buffers take, and has clients go if all of them take too much.
    pub(super) fn check_client_memory(&self) {
        let live = &self.session.client.live;
        let input = u64::from(live.query_room.load(Ordering::Relaxed));
        let queued = live.queued_bytes.load(Ordering::Relaxed);
        let bytes = input + queued + live.output_bytes.load(Ordering::Relaxed);
        client_eviction::record(
            self.worker.server,
            &self.session.client,
            bytes,
            &self.worker.wakes,
        );
    }

    /// Executes the complete requests at the start of `data`; returns how many bytes they took.
    pub(super) fn run_batch(
        &mut self,
        data: &[u8],
        grant: Option<LockWaitEnd>,
    ) -> (usize, BatchEnd) {
        if self.session.memcached.is_some() {
            return self.run_memcached(data, None, grant);
        }
        let mut window = self.worker.window.take();
        window.begin(self.parser.take());
        self.run_window(window, data, grant)
    }

    /// Executes the one request that the data is, which was parsed before.
    pub(super) fn run_parsed(&mut self, data: &[u8], slot: &mut Slot) -> (usize, BatchEnd) {
        let mut window = self.worker.window.take();
        window.begin_parsed(slot);
        self.run_window(window, data, None)
    }

    fn run_window(
        &mut self,
        window: Window,
        data: &[u8],
        grant: Option<LockWaitEnd>,
    ) -> (usize, BatchEnd) {
        let worker = Rc::clone(&self.worker);
        let mut output = self.output();
        let started = worker.ticked_us();
        self.receive_messages(&mut output);
        let keys_max = worker.server.config.get(PREFETCH_BATCH_MAX_SIZE).min(2 * WINDOW);
        let class = output_limit::class_of(&self.session.client);
        let mut batch =
            Batch { worker: &worker, window, data, grant, commands: 0, keys_max, class };
        // What was granted is used though much waits to leave, and nothing behind it is executed.
        let budget = if output.len() > BACKLOG_LIMIT { 1 } else { COMMAND_BUDGET };
        let end = loop {
            if let Some(end) = batch.next(self, &mut output) {
                break end;
            }
            if batch.commands >= budget || is_over(worker.ticked_us() - started) {
                break BatchEnd::Yielded;
            }
        };
        self.comes_alone = batch.commands <= 1;
        let mut window = batch.window;
        self.parser = window.end();
        let consumed = window.executed;
        worker.window.replace(window);
        self.keep_output(output);
        (consumed, end)
    }
}

impl Connection {
    /// Has messages that are under way stand before what is executed next.
    #[inline]
    fn receive_messages(&mut self, output: &mut Output) {
        if self.session.is_listener() && !output.is_streaming() {
            self.worker.deliver_letters();
            let begun = output.appended();
            let mut reply = Reply::new(output, self.session.resp);
            self.session.pass_on(self.worker.server, &mut reply);
            self.hold_messages(output, begun);
        }
    }
}

struct Batch<'a> {
    worker: &'a Worker,
    window: Window,
    data: &'a [u8],
    grant: Option<LockWaitEnd>,
    commands: u32,
    /// How many keys are fetched from memory together, and how many requests make a lock batch.
    keys_max: usize,
    /// What the client is to the limits of its output.
    class: u32,
}

impl Batch<'_> {
    /// Executes the next request, or a lock batch of them; `Some` ends the batch.
    fn next(&mut self, serve: &mut Connection, output: &mut Output) -> Option<BatchEnd> {
        if self.window.is_empty() {
            let authenticated = serve.session.is_authenticated();
            let limits = self.worker.server.request_limits(authenticated);
            self.window.fill(self.data, &limits);
            self.look_ahead(&serve.session);
        }
        let done = self.execute_together(serve, output);
        if done > 0 {
            self.window.advance_past(done);
            self.commands += done as u32;
            return output.is_streaming().then_some(BatchEnd::Drained);
        }
        let Some((args, located, consumed)) = self.window.first(self.data) else {
            return Some(self.finish(serve, output));
        };
        self.commands += 1;
        let (grant, begun) = (self.grant.take(), output.appended());
        let step =
            execute(self.worker.executor(), &mut serve.session, args, located, output, grant);
        self.renew_ceiling(&serve.session, output);
        // Messages that the command itself brought about come right behind its reply, which another
        // thread may still have to make.
        let (session, replied) = (&serve.session, matches!(step, Step::Done | Step::Close));
        let has_own = session.is_subscriber() && self.worker.wakes.include(self.worker.number);
        let receives = replied && (has_own || session.tracked().is_some());
        serve.hold(output, begun);
        if receives {
            serve.receive_messages(output);
        }
        let end = match step {
            // EXEC ends a client where one of its commands does.
            Step::Done if serve.session.closing => Some(BatchEnd::Closing),
            // What comes next is appended when the stream is sent.
            Step::Done => output.is_streaming().then_some(BatchEnd::Drained),
            Step::Close => Some(BatchEnd::Closing),
            Step::Postpone(suspension) => {
                // The request stays in the input, to be parsed again when it is its turn.
                serve.suspension = suspension;
                return Some(BatchEnd::Waits);
            }
            Step::Wait(suspension) => {
                serve.suspension = suspension;
                Some(BatchEnd::Waits)
            }
            Step::Forward(batch) => {
                self.window.advance(consumed);
                self.forward(serve, batch);
                return Some(BatchEnd::Waits);
            }
        };
        self.window.advance(consumed);
        end
    }

    /// A command may have made the client one of other limits, which hold for the next reply.
    #[inline]
    fn renew_ceiling(&mut self, session: &Session, output: &mut Output) {
        let class = output_limit::class_of(&session.client);
        if class != self.class {
            self.class = class;
            output.set_ceiling(self.worker.server.output_ceiling(&session.client));
        }
    }

    /// Queues the next requests for EXEC, or executes them under locks that are taken once, as far
    /// as they may be; how many.
    #[inline]
    fn execute_together(&self, serve: &mut Connection, output: &mut Output) -> usize {
        // With its locks granted a request goes on by itself.
        if self.window.len() < 2 || self.grant.is_some() {
            return 0;
        }
        if serve.session.is_queueing() {
            let (begun, requests) = (output.appended(), self.window.ahead(self.data));
            let done = queue_together(self.worker, &mut serve.session, requests, output);
            serve.hold(output, begun);
            return done;
        }
        self.execute_chain(serve, output)
    }

    fn execute_chain(&self, serve: &mut Connection, output: &mut Output) -> usize {
        if !LockBatch::is_possible(self.worker, &serve.session) {
            return 0;
        }
        let mut batched = self.window.batched(self.data, self.keys_max.min(LOCK_BATCH_MAX));
        let Some(mut batch) =
            LockBatch::begin(self.worker.executor(), &serve.session, &mut batched)
        else {
            return 0;
        };
        for (done, request) in batched.iter().enumerate() {
            let begun = output.appended();
            if !batch.execute(&mut serve.session, request, output) {
                return done;
            }
            serve.hold(output, begun);
            if output.is_streaming() || batch.is_long() {
                return done + 1;
            }
        }
        batched.len()
    }

    /// Finds out what the requests ahead are about, and has their keys on their way from memory
    /// while the first ones run.
    fn look_ahead(&mut self, session: &Session) {
        let (server, keys_max) = (self.worker.server, self.keys_max);
        if self.window.len() < 2 || keys_max == 0 {
            return;
        }
        // With its locks granted the worker is inside, and must not go out before they are used.
        if self.grant.is_none() && !self.worker.enter() {
            return;
        }
        let mut locations = SmallVec::<[Location; 2 * WINDOW]>::new();
        let (mut before, mut are_brief) = (None, true);
        let mut is_queueing = session.is_queueing();
        for (args, located) in self.window.requests(self.data) {
            let Ok(lookup) = Lookup::behind(before, server, args) else { continue };
            before = Some(lookup);
            let found = lookup.resolved;
            located.set_resolved(found);
            are_brief &= found.entry.is_brief && found.location.is_some();
            if found.entry.spec.flags.has(Flags::IMMEDIATE) {
                is_queueing = found.entry.spec.role == Role::Multi;
            }
            if is_queueing {
                // EXEC fetches the rest under its locks.
                server.keyspace.prefetch_locks(found.location.as_slice());
                continue;
            }
            if let Some(location) = found.location {
                if locations.len() < keys_max && locations.last() != Some(&location) {
                    locations.push(location);
                }
                continue;
            }
            if locations.len() >= keys_max {
                continue;
            }
            let most = keys_max - locations.len();
            let several = located.locate_several(server.keyspace, found.entry, args, most);
            locations.extend_from_slice(several);
        }
        if are_brief && LockBatch::is_possible(self.worker, session) {
            // Lock batches fetch the rest while they have the locks.
            server.keyspace.prefetch_locks(&locations);
        } else {
            server.keyspace.prefetch(self.worker.number, &locations, session.database);
        }
    }

    /// What stands behind the last complete request: nothing, part of one, or an error.
    fn finish(&mut self, serve: &Connection, output: &mut Output) -> BatchEnd {
        let Some(error) = self.window.take_error() else { return BatchEnd::Drained };
        self.window.advance(self.data.len());
        self.worker.server.note_protocol_error(&serve.session, &error);
        if error != ProtocolError::SecurityAttack {
            let mut line = b"ERR ".to_vec();
            line.extend_from_slice(&error.message());
            Reply::new(output, serve.session.resp).error(line);
        }
        BatchEnd::Closing
    }
}

/// By how much an input grows that has so many bytes: so many are missing of the argument that
/// comes, if its length is known, and so many are expected of the whole request. To grow copies
/// what is there, so the sum of all copies stays below a few times the request.
fn more_room(have: usize, missing: Option<usize>, expected: usize) -> usize {
    match missing {
        Some(missing) => {
            // Options stand behind a long value, for which it is not to grow once more.
            let enough = missing.saturating_add(READ_AHEAD).max(expected.min(have));
            if have < LONG { enough.min(have.max(READ_AHEAD)) } else { enough }
        }
        None if have < LONG => have.max(READ_AHEAD),
        // Of very many arguments those to come may be as long as those that are there.
        None => expected.min(have.saturating_mul(GROWTH)).max(have) + READ_AHEAD,
    }
}

#[cfg(test)]
mod tests {
    use super::{READ_AHEAD, more_room};

    /// Bytes that are copied while a request of arguments of one length comes, and its room.
    fn grow(arguments: usize, length: usize) -> (usize, usize) {
        let whole = arguments * length;
        let (mut have, mut room, mut copied) = (0, 0, 0);
        while have < whole {
            if room - have < READ_AHEAD {
                // The input ends within an argument, nearly always.
                let missing = Some(length - have % length).filter(|_| length > READ_AHEAD);
                let expected = if have < length { 0 } else { whole - have };
                copied += have;
                room = have + more_room(have, missing, expected);
            }
            have = whole.min(have + (room - have).min(256 << 10));
        }
        (copied, room)
    }

    #[test]
    fn an_input_grows_by_a_factor() {
        let whole = 256 << 20;
        for length in [100, 20_000, 60_000, 300_000, 1 << 20, 10 << 20, whole] {
            let (copied, room) = grow(whole / length, length);
            assert!(copied < 3 * whole, "{length}: {copied} bytes are copied");
            assert!(room < 3 * whole, "{length}: {room}");
        }
        let (copied, room) = grow(1, whole);
        assert!(copied < 4 << 20 && room <= whole + READ_AHEAD, "{copied} {room}");
    }
}
