//! A session with a model for a body: its socket is two queues, its requests are [`Kind`]s.
//!
//! Invariant: nothing stands behind a reply that is still being made, and what it keeps of its
//! client's has a bound.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use keyspace::{Refusal, Waiter};

use super::super::{
    Disconnected, EventEnd, Incoming, Outgoing, ReadOutcome, Resumption, SessionHost,
    SessionStatus, StepEnd, Wait, Waits,
};
use super::world::{
    DENIED, Id, Kind, Rights, SimulatedVerdict, Slot, World, abandon, give_up, is_unblocked,
    outcome,
};
use crate::clients::registry::{Client, Delivery, PendingSignals, Signal};

/// A request is this long.
const REQUEST: usize = 100;
/// So much may wait to be executed.
pub(crate) const INPUT_MOST: usize = 200 * REQUEST;
/// So much may wait to leave.
pub(crate) const OWED_MOST: usize = 4 << 20;
/// So many requests are executed before others have their turns.
const BUDGET: usize = 8;
/// A request waits so long for a lock.
const PATIENCE: u64 = 400;

/// Both directions of a connection, with the client's end.
#[derive(Default)]
pub(crate) struct Pipe {
    pub(crate) incoming: VecDeque<Kind>,
    /// Nothing comes behind that.
    pub(crate) is_ended: bool,
    /// The client is gone.
    pub(crate) is_broken: bool,
    reader: Option<Waker>,
    /// So many bytes are taken for now.
    pub(crate) room: usize,
    writer: Option<Waker>,
    /// What the client has got.
    pub(crate) received: Vec<What>,
}

impl Pipe {
    /// The session is to look at it.
    pub(crate) fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}

impl Pipe {
    /// The client reads whatever comes.
    pub(crate) fn take_all(&mut self) {
        self.room = usize::MAX >> 1;
        self.writer.take().into_iter().for_each(Waker::wake);
    }
}

/// What a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Reply(Kind),
    Denied(Kind),
    Busy(Kind),
    Nothing(Kind),
    Element(Kind, u64),
    Message,
}

/// A part of the output.
struct Piece {
    what: What,
    made: usize,
    to_come: usize,
}

/// What it waits for.
pub(crate) enum SimulatedWait {
    Requests,
    Locks {
        key: usize,
        began: u64,
    },
    Result(Kind, Rc<RefCell<Slot>>),
    /// The same, and so often it comes back before.
    Return(Kind, Rc<RefCell<Slot>>, u32),
    Postponed(Kind),
    Room(Kind),
    Event(Event),
}

/// A wait for an element, or for the disk.
pub(crate) struct Event {
    kind: Kind,
    pub(crate) queue: Option<(usize, Arc<Waiter>)>,
    lsn: u64,
    until: Option<u64>,
    is_roused: bool,
}

/// What became of a request.
enum SimulatedStep {
    Done,
    Close,
    /// The request stays in the input.
    Postpone(SimulatedWait),
    Wait(SimulatedWait),
}

/// A session.
pub(crate) struct Model {
    pub(crate) world: Rc<RefCell<World>>,
    pub(crate) id: Id,
    pub(crate) client: Arc<Client>,
    pub(crate) user: usize,
    pub(crate) pipe: Pipe,
    input: VecDeque<Kind>,
    output: VecDeque<Piece>,
    pub(crate) suspension: SimulatedWait,
    pub(crate) is_closing: bool,
    has_ended: bool,
    pub(crate) is_cut_off: bool,
    /// Why it may be over.
    pub(crate) is_overrun: bool,
    pub(crate) is_over_output_limit: bool,
}

impl Model {
    pub(crate) fn new(world: Rc<RefCell<World>>, id: Id, client: Arc<Client>, user: usize) -> Self {
        Self {
            world,
            id,
            client,
            user,
            pipe: Pipe { room: 1 << 16, ..Pipe::default() },
            input: VecDeque::new(),
            output: VecDeque::new(),
            suspension: SimulatedWait::Requests,
            is_closing: false,
            has_ended: false,
            is_cut_off: false,
            is_overrun: false,
            is_over_output_limit: false,
        }
    }

    pub(crate) fn wait(&self) -> Wait {
        match self.suspension {
            SimulatedWait::Requests => Wait::Nothing,
            SimulatedWait::Locks { .. } => Wait::Locks,
            SimulatedWait::Result(..) => Wait::Result,
            SimulatedWait::Return(..) => Wait::Return,
            SimulatedWait::Postponed(_) => Wait::Postponed,
            SimulatedWait::Room(_) => Wait::Room,
            SimulatedWait::Event(_) => Wait::Event,
        }
    }

    pub(crate) fn unsent(&self) -> usize {
        self.output.iter().map(|piece| piece.made).sum()
    }

    pub(crate) fn unexecuted(&self) -> usize {
        self.input.len() * REQUEST
    }

    /// How many elements are in its output.
    pub(crate) fn elements(&self) -> usize {
        self.output.iter().filter(|it| matches!(it.what, What::Element(..))).count()
    }

    /// Goes on at another worker.
    pub(crate) fn move_on(&mut self) {
        if !self.wait().survives_move() {
            self.cancel_wait();
        }
    }

    fn append(&mut self, what: What, made: usize, to_come: usize) {
        let behind = self.output.back().is_none_or(|last| last.to_come == 0);
        assert!(behind, "{what:?} stands in the middle of a reply");
        self.output.push_back(Piece { what, made, to_come });
    }

    fn outgoing(&self) -> Outgoing {
        let is_streaming = self.output.back().is_some_and(|last| last.to_come > 0);
        Outgoing::of(self.unsent(), is_streaming)
    }

    /// Runs a request, whose lock may have been granted.
    fn run(&mut self, kind: Kind, granted: Option<usize>) -> SimulatedStep {
        let world = Rc::clone(&self.world);
        let mut world = world.borrow_mut();
        let verdict = world.gates(self.user, kind);
        if verdict != SimulatedVerdict::Admitted {
            granted.into_iter().for_each(|key| world.give_back(key, self.id));
        }
        match verdict {
            SimulatedVerdict::Refused => {
                self.append(What::Denied(kind), 30, 0);
                return SimulatedStep::Done;
            }
            SimulatedVerdict::Postponed => {
                return SimulatedStep::Postpone(SimulatedWait::Postponed(kind));
            }
            SimulatedVerdict::Full => return SimulatedStep::Postpone(SimulatedWait::Room(kind)),
            SimulatedVerdict::Admitted => {}
        }
        let key = match kind {
            Kind::Get(key) | Kind::Push(key) | Kind::Pop(key, _) | Kind::Slow(key, _) => key,
            Kind::Unit(key, ..) => key,
            _ => return self.run_keyless(kind, &world),
        };
        if granted.is_none() && !world.try_lock(key, self.id) {
            world.line_up(key, self.id);
            return SimulatedStep::Postpone(SimulatedWait::Locks { key, began: world.now });
        }
        let step = self.run_locked(kind, key, &mut world);
        world.give_back(key, self.id);
        step
    }

    fn run_keyless(&mut self, kind: Kind, world: &World) -> SimulatedStep {
        match kind {
            Kind::Echo(bytes) => self.append(What::Reply(kind), bytes, 0),
            Kind::Long(bytes) => self.append(What::Reply(kind), 0, bytes),
            Kind::Quit => {
                self.append(What::Reply(kind), 5, 0);
                return SimulatedStep::Close;
            }
            Kind::Sync(time) => {
                let (lsn, until) = (world.pushed, Some(world.now + time));
                let event = Event { kind, queue: None, lsn, until, is_roused: false };
                return SimulatedStep::Wait(SimulatedWait::Event(event));
            }
            _ => unreachable!("it has a key"),
        }
        SimulatedStep::Done
    }

    fn run_locked(&mut self, kind: Kind, key: usize, world: &mut World) -> SimulatedStep {
        match kind {
            Kind::Push(_) => {
                world.push(key);
                self.append(What::Reply(kind), 4, 0);
            }
            Kind::Pop(_, left) => {
                let Some(element) = world.lists[key].pop_front() else {
                    let queue = Some((key, world.stand(key, self.id, &self.client)));
                    let until = left.map(|left| world.now + left);
                    let event = Event { kind, queue, lsn: 0, until, is_roused: false };
                    return SimulatedStep::Wait(SimulatedWait::Event(event));
                };
                self.append(What::Element(kind, element), 30, 0);
            }
            Kind::Slow(_, steps) => {
                return SimulatedStep::Wait(SimulatedWait::Result(
                    kind,
                    world.begin_job(key, steps, false),
                ));
            }
            Kind::Unit(_, steps, returns) => {
                world.underway += 1;
                let slot = world.begin_job(key, steps, true);
                return SimulatedStep::Wait(SimulatedWait::Return(kind, slot, returns));
            }
            _ => self.append(What::Reply(kind), 30, 0),
        }
        SimulatedStep::Done
    }

    /// Sees to the first request of the input; `false` if nothing comes behind it for now.
    fn execute_first(&mut self, granted: Option<usize>) -> bool {
        let Some(kind) = self.input.pop_front() else { return false };
        match self.run(kind, granted) {
            SimulatedStep::Done => return true,
            SimulatedStep::Close => self.close(),
            SimulatedStep::Postpone(suspension) => {
                self.input.push_front(kind);
                self.suspension = suspension;
            }
            SimulatedStep::Wait(suspension) => self.suspension = suspension,
        }
        false
    }

    fn end_wait(&mut self, what: What) {
        if let SimulatedWait::Event(Event { queue: Some((key, waiter)), .. }) =
            std::mem::replace(&mut self.suspension, SimulatedWait::Requests)
        {
            self.world.borrow_mut().leave_queue(key, &waiter);
        }
        self.client.take(Signal::Unblock);
        self.append(what, 30, 0);
    }
}

impl SessionHost for Model {
    fn status(&self) -> SessionStatus {
        SessionStatus {
            wait: self.wait(),
            outgoing: self.outgoing(),
            incoming: Incoming::of(!self.input.is_empty(), self.has_ended),
            closing: self.is_closing,
            is_cut_off: self.is_cut_off,
        }
    }

    fn asked(&self) -> PendingSignals {
        self.client.asked()
    }

    fn clear_signal(&mut self, signal: Signal) {
        self.client.take(signal);
    }

    fn must_disconnect(&self) -> bool {
        self.world.borrow().rights(self.user) == Rights::None
    }

    fn deliver(&mut self) {
        self.client.take(Signal::Deliver);
        for delivery in self.client.take_deliveries() {
            let Delivery::Messages(bundle) = delivery else { continue };
            bundle.iter().for_each(|message| self.append(What::Message, message.len(), 0));
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Disconnected>> {
        while let Some(piece) = self.output.front_mut() {
            if self.pipe.is_broken {
                return Poll::Ready(Err(Disconnected));
            }
            if self.pipe.room == 0 {
                self.pipe.writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let more = piece.to_come.min(1 << 16);
            if piece.made < more {
                (piece.made, piece.to_come) = (piece.made + more, piece.to_come - more);
            }
            let written = piece.made.min(self.pipe.room);
            piece.made -= written;
            self.pipe.room -= written;
            if piece.made + piece.to_come == 0 {
                self.pipe.received.push(piece.what);
                self.output.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }

    fn is_over_output_limit(&mut self) -> bool {
        self.is_over_output_limit = self.unsent() + self.client.delivery_bytes() > OWED_MOST;
        self.is_over_output_limit
    }

    fn read_input(&mut self, cx: &mut Context<'_>) -> ReadOutcome {
        if self.pipe.is_broken {
            return ReadOutcome::Disconnected;
        }
        let Some(kind) = self.pipe.incoming.pop_front() else {
            if self.pipe.is_ended {
                self.has_ended = true;
                return ReadOutcome::End;
            }
            self.pipe.reader = Some(cx.waker().clone());
            return ReadOutcome::Nothing;
        };
        self.input.push_back(kind);
        self.is_overrun = self.unexecuted() > INPUT_MOST;
        if self.is_overrun { ReadOutcome::Disconnected } else { ReadOutcome::Bytes }
    }

    fn execute(&mut self, cx: &mut Context<'_>) -> StepEnd {
        for done in 0..BUDGET {
            if self.input.is_empty() {
                match self.read_input(cx) {
                    ReadOutcome::Bytes => {}
                    ReadOutcome::Nothing if done == 0 => return StepEnd::Wait,
                    // What was replied leaves.
                    ReadOutcome::Nothing => return StepEnd::Again,
                    ReadOutcome::End => return StepEnd::Again,
                    ReadOutcome::Disconnected => return StepEnd::End,
                }
            }
            if !self.execute_first(None) || self.outgoing().is_much() {
                return StepEnd::Again;
            }
        }
        cx.waker().wake_by_ref();
        StepEnd::Wait
    }

    fn close(&mut self) {
        self.is_closing = true;
    }

    fn shut_down(&mut self) {}

    fn cut_off(&mut self) {
        assert_eq!(self.wait(), Wait::Return, "nothing else is half done");
        self.is_cut_off = true;
        self.pipe.is_broken = true;
        self.input.clear();
        self.world.borrow_mut().swallowed += self.elements() as u64;
        self.output.clear();
        self.client.take(Signal::Deliver);
        self.client.take_deliveries();
    }

    fn tear_down(&mut self) {
        self.cancel_wait();
        self.world.borrow_mut().gone.insert(self.id);
    }
}

impl Waits for Model {
    fn has_locks(&mut self, cx: &mut Context<'_>) -> bool {
        let SimulatedWait::Locks { key, .. } = self.suspension else { return false };
        self.world.borrow_mut().is_granted(key, self.id, cx)
    }

    fn has_lost_purpose(&mut self, _: &mut Context<'_>) -> bool {
        false
    }

    fn has_lost_patience(&mut self, cx: &mut Context<'_>) -> bool {
        let SimulatedWait::Locks { began, .. } = self.suspension else { return false };
        let mut world = self.world.borrow_mut();
        world.ring_at(began + PATIENCE, cx);
        began + PATIENCE <= world.now
    }

    fn resume(&mut self, _: &mut Context<'_>, with: Resumption) -> StepEnd {
        if let SimulatedWait::Locks { key, .. } =
            std::mem::replace(&mut self.suspension, SimulatedWait::Requests)
        {
            if with == Resumption::Granted {
                self.execute_first(Some(key));
            } else if let Some(kind) = self.input.pop_front() {
                self.world.borrow_mut().give_back(key, self.id);
                self.append(What::Busy(kind), 30, 0);
            }
        }
        StepEnd::Again
    }

    fn take_result(&mut self, cx: &mut Context<'_>) -> StepEnd {
        let (SimulatedWait::Result(kind, slot) | SimulatedWait::Return(kind, slot, _)) =
            &self.suspension
        else {
            return StepEnd::Again;
        };
        if !slot.borrow().is_done {
            slot.borrow_mut().waker = Some(cx.waker().clone());
            return StepEnd::Wait;
        }
        let kind = *kind;
        let suspension = std::mem::replace(&mut self.suspension, SimulatedWait::Requests);
        if let (Kind::Unit(key, steps, _), SimulatedWait::Return(_, _, returns)) =
            (kind, suspension)
        {
            let mut world = self.world.borrow_mut();
            if returns > 0 {
                let slot = world.begin_job(key, steps, true);
                self.suspension = SimulatedWait::Return(kind, slot, returns - 1);
                return StepEnd::Again;
            }
            world.underway -= 1;
            world.unlock(key);
        }
        self.append(What::Reply(kind), 2000, 0);
        StepEnd::Again
    }

    fn may_begin(&mut self, cx: &mut Context<'_>) -> bool {
        let (SimulatedWait::Postponed(kind) | SimulatedWait::Room(kind)) = self.suspension else {
            return false;
        };
        let may_begin = self.world.borrow_mut().lets_in(kind, cx);
        if may_begin {
            self.suspension = SimulatedWait::Requests;
        }
        may_begin
    }

    fn reply_served(&mut self) -> bool {
        let SimulatedWait::Event(Event { kind, queue: Some((_, waiter)), .. }) = &self.suspension
        else {
            return false;
        };
        let Some(element) = outcome(waiter) else { return false };
        self.end_wait(What::Element(*kind, element));
        true
    }

    fn reply_acknowledged(&mut self, cx: &mut Context<'_>) -> bool {
        let SimulatedWait::Event(Event { kind, queue: None, lsn, .. }) = self.suspension else {
            return false;
        };
        let is_safe = self.world.borrow_mut().is_safe(lsn, cx);
        if is_safe {
            self.end_wait(What::Reply(kind));
        }
        is_safe
    }

    fn unblocked(&self) -> Option<bool> {
        let SimulatedWait::Event(event) = &self.suspension else { return None };
        let is_unblocked = match &event.queue {
            Some((_, waiter)) => is_unblocked(waiter),
            None => self.client.is_asked(Signal::Unblock),
        };
        is_unblocked.then_some(false)
    }

    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let SimulatedWait::Event(Event { until: Some(until), .. }) = self.suspension else {
            return false;
        };
        let mut world = self.world.borrow_mut();
        world.ring_at(until, cx);
        until <= world.now
    }

    fn refusal(&self) -> Option<Refusal> {
        let SimulatedWait::Event(Event { kind, queue: Some(_), .. }) = &self.suspension else {
            return None;
        };
        let verdict = self.world.borrow().gates(self.user, *kind);
        (verdict == SimulatedVerdict::Refused).then_some(DENIED)
    }

    fn withdraw(&mut self) -> bool {
        let SimulatedWait::Event(event) = &self.suspension else { return true };
        event.queue.as_ref().is_none_or(|(_, waiter)| give_up(waiter))
    }

    fn end_event(&mut self, end: EventEnd) {
        let SimulatedWait::Event(Event { kind, .. }) = self.suspension else { return };
        self.end_wait(match end {
            EventEnd::Refused(_) => What::Denied(kind),
            EventEnd::Late | EventEnd::Unblocked { .. } => What::Nothing(kind),
        });
    }

    fn recheck(&mut self) {
        if let SimulatedWait::Event(event) = &mut self.suspension {
            event.is_roused = true;
        }
    }

    fn recheck_if_due(&mut self, cx: &mut Context<'_>) -> StepEnd {
        let SimulatedWait::Event(Event {
            queue: Some((key, _)), is_roused: is_roused @ true, ..
        }) = &mut self.suspension
        else {
            return StepEnd::Wait;
        };
        let mut world = self.world.borrow_mut();
        if !world.is_free(*key, cx) {
            return StepEnd::Wait;
        }
        *is_roused = false;
        world.serve(*key);
        StepEnd::Again
    }

    fn cancel_wait(&mut self) {
        let mut world = self.world.borrow_mut();
        match std::mem::replace(&mut self.suspension, SimulatedWait::Requests) {
            SimulatedWait::Locks { key, .. } => world.give_back(key, self.id),
            SimulatedWait::Event(Event { queue: Some((key, waiter)), .. }) => {
                abandon(&waiter);
                world.leave_queue(key, &waiter);
                // What it was given goes with it.
                world.swallowed += u64::from(outcome(&waiter).is_some());
            }
            _ => {}
        }
    }

    fn show_wait(&mut self) {}
}
