//! A session's life: one state machine without sockets, timers, locks or threads.
//!
//! The session sees what there is ([`SessionStatus`]) and what others ask of it
//! ([`PendingSignals`]), does one thing, and looks again, until nothing is left to do before it is
//! woken. Whatever decides what comes next is here, and nowhere else. What it is done with stands
//! behind [`SessionHost`] and [`Waits`]: the real session has a socket and a worker, the simulation
//! (`life/simulation`) a model of them.
//!
//! Invariants, which the tests prove for every status, and the simulation for sessions that
//! meet each other:
//! - what a request waits for is looked at in every step, whatever the output does: a grant is used
//!   or given back in the step in which it comes;
//! - what the client sends is taken in every step until it has ended its side or is to be closed;
//! - a request is executed neither behind one that waits, nor while much waits to leave;
//! - a session that is to be closed, or whose client is gone, waits for nothing that has not begun;
//! - a unit that is half done, and needs the session for the rest, finds it, whatever became of the
//!   client: the session is cut off and stays until the unit is over;
//! - a session that is over stands in no queue and holds nothing.

use std::task::{Context as TaskContext, Poll};

use keyspace::Refusal;

use crate::clients::registry::{PendingSignals, Signal};

/// With more unsent bytes than this nothing more is executed.
pub const BACKLOG_LIMIT: usize = 1 << 20;

/// After so many reads the others of the worker have their turns.
const READS_PER_TURN: u32 = 8;

/// What a life is lived with. Whatever answers that it is not there yet wakes the session when that
/// may be another.
pub trait SessionHost: Waits {
    /// What there is to see.
    fn status(&self) -> SessionStatus;

    /// What others ask.
    fn asked(&self) -> PendingSignals;

    /// The session has seen to this.
    fn clear_signal(&mut self, signal: Signal);

    /// Whether its user may not be connected any more.
    fn must_disconnect(&self) -> bool;

    /// Passes on what others left for the client.
    fn deliver(&mut self);

    /// Writes what may leave.
    fn write(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), Disconnected>>;

    /// Whether more waits for the client than its limits allow.
    fn is_over_output_limit(&mut self) -> bool;

    /// Takes a piece of what the client has sent.
    fn read_input(&mut self, cx: &mut TaskContext<'_>) -> ReadOutcome;

    /// Executes the next requests, and reads them where none are there.
    fn execute(&mut self, cx: &mut TaskContext<'_>) -> StepEnd;

    /// From now on nothing is executed; the session ends once its replies have left.
    fn close(&mut self);

    /// Tells the client that nothing more will come.
    fn shut_down(&mut self);

    /// The client is gone, or to go at once, and the session goes on without it.
    fn cut_off(&mut self);

    /// The session is over: nothing of it is found any more, and it keeps nothing from anybody.
    fn tear_down(&mut self);
}

/// What the first of its requests waits for, and how such a wait ends.
pub trait Waits {
    /// Whether the locks are there.
    fn has_locks(&mut self, cx: &mut TaskContext<'_>) -> bool;

    /// Whether the request ends in the same way with and without them.
    fn has_lost_purpose(&mut self, cx: &mut TaskContext<'_>) -> bool;

    /// Whether it has waited for them long enough.
    fn has_lost_patience(&mut self, cx: &mut TaskContext<'_>) -> bool;

    /// Executes the request whose wait for locks is over. The gates are asked with the locks in
    /// hand: where they refuse, or postpone, the locks go back.
    fn resume(&mut self, cx: &mut TaskContext<'_>, with: Resumption) -> StepEnd;

    /// Replies the result, if it is there.
    fn take_result(&mut self, cx: &mut TaskContext<'_>) -> StepEnd;

    /// Whether what kept the request from beginning is over.
    fn may_begin(&mut self, cx: &mut TaskContext<'_>) -> bool;

    /// Replies what somebody else gave, if so; the wait is over then.
    fn reply_served(&mut self) -> bool;

    /// Replies that what was written is safe, if so; the wait is over then.
    fn reply_acknowledged(&mut self, cx: &mut TaskContext<'_>) -> bool;

    /// Whether it was asked to wait no longer, and if so, whether with an error.
    fn unblocked(&mut self) -> Option<bool>;

    /// Whether its time is over.
    fn is_late(&mut self, cx: &mut TaskContext<'_>) -> bool;

    /// What the gates say now of the request that waits for an event.
    fn refusal(&self) -> Option<Refusal>;

    /// From here on no command serves it; `false` if somebody does so this moment.
    fn withdraw(&mut self) -> bool;

    /// Replies how the wait for an event ended.
    fn end_event(&mut self, end: EventEnd);

    /// What it waits for is to be looked at by the session itself: others passed it over.
    fn recheck(&mut self);

    /// Looks at what it waits for where that is due, since nobody else may come to do it.
    fn recheck_if_due(&mut self, cx: &mut TaskContext<'_>) -> StepEnd;

    /// Waits for nothing any more: what was granted is given back, and queues are left.
    fn cancel_wait(&mut self);

    /// Shows others whether it waits, and for what.
    fn show_wait(&mut self);
}

/// The client cannot be reached any more.
pub struct Disconnected;

/// What came of listening.
pub enum ReadOutcome {
    /// Nothing came.
    Nothing,
    /// The client sent bytes.
    Bytes,
    /// The client sends nothing more.
    End,
    /// The client cannot be reached any more, or has sent more than may wait.
    Disconnected,
}

/// How a wait for locks ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumption {
    /// The locks are there.
    Granted,
    /// The end of its patience.
    Busy,
}

/// How a wait for an event ended, other than by the event.
#[derive(Debug)]
pub enum EventEnd {
    /// Its timeout is over.
    Late,
    /// CLIENT UNBLOCK ended the wait.
    Unblocked {
        /// CLIENT UNBLOCK ERROR: the reply is an error, else that of a timeout.
        with_error: bool,
    },
    /// The client may not wait for that any more.
    Refused(Refusal),
}

/// How a step of the machine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepEnd {
    /// Go on at once.
    Again,
    /// Nothing to do until woken.
    Wait,
    /// The session is over.
    End,
}

/// How a session rests when it has done what there was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeOutcome {
    /// Until it is woken.
    Waits,
    /// The session is over, and has left.
    Over,
    /// The session goes on at another worker.
    Moves,
}

/// What a session sees of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    /// What the first of its requests waits for.
    pub wait: Wait,
    /// The replies that have not left.
    pub outgoing: Outgoing,
    /// What the client has sent and is not executed.
    pub incoming: Incoming,
    /// Whether it is to be closed once the replies due have left.
    pub closing: bool,
    /// Whether its client is gone, and it goes on for what it has begun.
    pub is_cut_off: bool,
}

/// What the first of its requests waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The session waits for nothing but requests.
    Nothing,
    /// Locks, or the world; they come by themselves.
    Locks,
    /// What comes of the request elsewhere. The result comes by itself.
    Result,
    /// The same, of a unit that may come back to go on with the session.
    Return,
    /// Room for what the request would leave behind. The room comes by itself.
    Room,
    /// Leave to begin: the end of a pause.
    Postponed,
    /// An event: a key, a time, a disk.
    Event,
}

/// The replies that have not left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// All replies have left.
    Nothing,
    /// At most [`BACKLOG_LIMIT`] bytes.
    Little,
    /// More than [`BACKLOG_LIMIT`].
    Much,
    /// A long reply whose end is made as it is sent.
    Unfinished,
}

/// What the client has sent and is not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Nothing, or the beginning of a request.
    Incomplete,
    /// Bytes that may be requests.
    Requests,
    /// As `Incomplete`, and no more comes.
    Over,
    /// As `Requests`, and no more comes behind them.
    Last,
}

/// What a session does in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionPlan {
    /// The session is over.
    End,
    /// The client sends nothing more and has all its replies but those that are due.
    Close,
    /// What it waits for is given back, and queues are left.
    CancelWait,
    /// Goes on.
    GoOn {
        /// Whether what the client sends is taken into the input now.
        reads: bool,
        does: SessionAction,
    },
}

/// What a session that goes on does, besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionAction {
    /// Looks whether the wait is over.
    Await,
    /// Executes requests, or reads the next ones.
    Execute,
    /// Nothing, until something has left.
    Nothing,
}

/// What others ask that can be seen to now, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DueSignal {
    /// The session ends without a word.
    Kill,
    /// The session looks at what its user may still do.
    Review,
    /// The same, behind the reply of the command that changed it.
    ReviewAfterReply,
    /// The session passes on what others left for the client.
    Deliver,
    /// The session goes on at another worker.
    Move,
}

impl SessionStatus {
    /// Whether its client says no more while it waits for an element or a time. An element that it
    /// was given, or is being given this moment, is still its client's.
    fn has_ended_in_a_queue(self) -> bool {
        let Self { wait, incoming, closing, is_cut_off, .. } = self;
        wait == Wait::Event && incoming.has_ended() && !closing && !is_cut_off
    }
}

impl Wait {
    /// Whether the wait goes along to another worker; a request that waits to begin begins there
    /// from the start.
    #[inline]
    pub(crate) fn survives_move(self) -> bool {
        matches!(self, Self::Result | Self::Return | Self::Event)
    }

    /// Whether the request has begun and is on another thread.
    #[inline]
    pub(crate) fn is_offloaded(self) -> bool {
        matches!(self, Self::Result | Self::Return)
    }
}

impl Outgoing {
    /// So many bytes, and perhaps some that are still to be made.
    #[inline]
    pub fn of(bytes: usize, is_streaming: bool) -> Self {
        match bytes {
            _ if is_streaming => Self::Unfinished,
            _ if bytes > BACKLOG_LIMIT => Self::Much,
            0 => Self::Nothing,
            _ => Self::Little,
        }
    }

    /// Whether nothing is executed before some of it has left.
    #[inline]
    pub fn is_much(self) -> bool {
        matches!(self, Self::Much | Self::Unfinished)
    }
}

impl Incoming {
    /// What the input is, by whether it has requests and whether the client has ended it.
    #[inline]
    pub fn of(has_requests: bool, has_ended: bool) -> Self {
        match (has_requests, has_ended) {
            (false, false) => Self::Incomplete,
            (true, false) => Self::Requests,
            (false, true) => Self::Over,
            (true, true) => Self::Last,
        }
    }

    /// Whether the client sends nothing more.
    fn has_ended(self) -> bool {
        matches!(self, Self::Over | Self::Last)
    }
}

/// Lives on until nothing is left to do.
pub fn live(body: &mut impl SessionHost, cx: &mut TaskContext<'_>) -> LifeOutcome {
    loop {
        let asked = body.asked();
        let turn = match due_signal_of(body, asked) {
            Some(DueSignal::Move) => {
                body.clear_signal(Signal::Move);
                return LifeOutcome::Moves;
            }
            Some(due_signal) => handle_due_signal(body, due_signal),
            None => step(body, cx, asked),
        };
        match turn {
            StepEnd::Again => {}
            // The reply that messages had to wait for may have come meanwhile.
            StepEnd::Wait if due_signal_of(body, body.asked()) == Some(DueSignal::Deliver) => {}
            StepEnd::Wait => return LifeOutcome::Waits,
            StepEnd::End if body.status().wait == Wait::Return => {
                body.clear_signal(Signal::Kill);
                body.cut_off();
            }
            StepEnd::End => {
                body.tear_down();
                return LifeOutcome::Over;
            }
        }
    }
}

fn due_signal_of(body: &impl SessionHost, asked: PendingSignals) -> Option<DueSignal> {
    due_signal(asked, || body.status(), || body.must_disconnect())
}

/// What to see to first of what is asked.
#[inline]
pub(crate) fn due_signal(
    asked: PendingSignals,
    status: impl FnOnce() -> SessionStatus,
    must_disconnect: impl FnOnce() -> bool,
) -> Option<DueSignal> {
    if asked.is_nothing() {
        return None;
    }
    let (SessionStatus { wait, outgoing, .. }, is_asked) = (status(), |it| asked.is_asked(it));
    // A result may have been made of what is old by now, so nothing comes before it.
    let is_settled = !wait.is_offloaded();
    if is_asked(Signal::Kill) {
        Some(DueSignal::Kill)
    } else if is_asked(Signal::Review) && (is_settled || must_disconnect()) {
        // While it is not known whether what was sent elsewhere waits there, the review stays
        // asked.
        Some(DueSignal::Review)
    } else if is_asked(Signal::ReviewAfterReply) && is_settled {
        Some(DueSignal::ReviewAfterReply)
    } else if is_asked(Signal::Deliver) && is_settled && outgoing != Outgoing::Unfinished {
        Some(DueSignal::Deliver)
    } else {
        is_asked(Signal::Move).then_some(DueSignal::Move)
    }
}

/// Sees to what others ask.
fn handle_due_signal(body: &mut impl SessionHost, due_signal: DueSignal) -> StepEnd {
    match due_signal {
        DueSignal::Kill | DueSignal::Move => return StepEnd::End,
        DueSignal::Review => {
            let may_stay = review(body);
            // Until then no command gives it anything; what changes from here on it sees now.
            body.clear_signal(Signal::Review);
            if !may_stay || !review(body) {
                return StepEnd::End;
            }
        }
        DueSignal::ReviewAfterReply => {
            body.clear_signal(Signal::ReviewAfterReply);
            if body.must_disconnect() {
                body.close();
            }
        }
        DueSignal::Deliver => {
            // The thread that served the client did so before others could tell it that this is
            // old.
            if body.status().wait == Wait::Event {
                body.reply_served();
            }
            body.deliver();
        }
    }
    StepEnd::Again
}

/// Looks at what its user may still do. A session that waits for what is not for it any more waits
/// no longer; `false` if the session has to go.
fn review(body: &mut impl SessionHost) -> bool {
    if body.must_disconnect() {
        return false;
    }
    if body.status().wait == Wait::Event {
        // Until now it was passed over.
        body.recheck();
        // A client that is being served this moment was so before.
        if let Some(refusal) = body.refusal()
            && body.withdraw()
        {
            body.end_event(EventEnd::Refused(refusal));
        }
    }
    true
}

/// Does the next thing of its own.
fn step(body: &mut impl SessionHost, cx: &mut TaskContext<'_>, asked: PendingSignals) -> StepEnd {
    let is_owing = match body.write(cx) {
        Poll::Ready(Err(Disconnected)) => return StepEnd::End,
        Poll::Ready(Ok(())) => asked.is_asked(Signal::Deliver),
        Poll::Pending => true,
    };
    if is_owing && body.is_over_output_limit() {
        return StepEnd::End;
    }
    let status = body.status();
    if status.has_ended_in_a_queue() {
        if body.reply_served() {
            return StepEnd::Again;
        }
        if !body.withdraw() {
            return poll_wait(body, cx, status.wait);
        }
    }
    match plan(status) {
        SessionPlan::End => {
            body.shut_down();
            StepEnd::End
        }
        SessionPlan::Close => {
            body.close();
            StepEnd::Again
        }
        SessionPlan::CancelWait => {
            body.cancel_wait();
            StepEnd::Again
        }
        SessionPlan::GoOn { reads, does } => {
            if reads && let turn @ (StepEnd::Again | StepEnd::End) = read_available(body, cx) {
                return turn;
            }
            match does {
                SessionAction::Await => poll_wait(body, cx, status.wait),
                SessionAction::Execute => body.execute(cx),
                SessionAction::Nothing => StepEnd::Wait,
            }
        }
    }
}

/// What to do in view of this.
#[inline]
pub(crate) fn plan(status: SessionStatus) -> SessionPlan {
    let SessionStatus { wait, outgoing, incoming, closing, is_cut_off } = status;
    if (closing || is_cut_off) && wait == Wait::Return {
        return SessionPlan::GoOn { reads: false, does: SessionAction::Await };
    }
    if is_cut_off {
        return SessionPlan::End;
    }
    if closing {
        return match (wait, outgoing) {
            (Wait::Nothing, Outgoing::Nothing) => SessionPlan::End,
            (Wait::Nothing, _) => SessionPlan::GoOn { reads: false, does: SessionAction::Nothing },
            _ => SessionPlan::CancelWait,
        };
    }
    if incoming.has_ended() {
        // As in Redis, a session without its client begins nothing that was put off. The replies
        // to what was done before are still its client's.
        match (wait, outgoing) {
            (Wait::Postponed | Wait::Event, Outgoing::Nothing) => return SessionPlan::End,
            (Wait::Postponed | Wait::Event, _) => return SessionPlan::Close,
            (Wait::Nothing, _) if incoming == Incoming::Over => return SessionPlan::Close,
            (Wait::Nothing | Wait::Locks | Wait::Result | Wait::Return | Wait::Room, _) => {}
        }
    }
    let does = match wait {
        Wait::Nothing if outgoing.is_much() => SessionAction::Nothing,
        Wait::Nothing => SessionAction::Execute,
        _ => SessionAction::Await,
    };
    // A session that executes reads by itself, into the worker's buffer.
    SessionPlan::GoOn { reads: does != SessionAction::Execute && !incoming.has_ended(), does }
}

/// Takes what the client has sent.
fn read_available(body: &mut impl SessionHost, cx: &mut TaskContext<'_>) -> StepEnd {
    for _ in 0..READS_PER_TURN {
        match body.read_input(cx) {
            ReadOutcome::Nothing => return StepEnd::Wait,
            ReadOutcome::Bytes => {}
            ReadOutcome::End => return StepEnd::Again,
            ReadOutcome::Disconnected => return StepEnd::End,
        }
    }
    cx.waker().wake_by_ref();
    StepEnd::Wait
}

/// Looks whether the wait is over, and ends it if so.
fn poll_wait(body: &mut impl SessionHost, cx: &mut TaskContext<'_>, wait: Wait) -> StepEnd {
    let turn = match wait {
        Wait::Nothing => StepEnd::Again,
        Wait::Locks if body.has_locks(cx) => body.resume(cx, Resumption::Granted),
        Wait::Locks if body.has_lost_purpose(cx) => {
            body.cancel_wait();
            StepEnd::Again
        }
        Wait::Locks if body.has_lost_patience(cx) => body.resume(cx, Resumption::Busy),
        Wait::Result | Wait::Return => body.take_result(cx),
        // The request is executed like one that has just come.
        Wait::Postponed | Wait::Room if body.may_begin(cx) => StepEnd::Again,
        Wait::Locks | Wait::Postponed | Wait::Room => StepEnd::Wait,
        Wait::Event => poll_event(body, cx),
    };
    body.show_wait();
    turn
}

fn poll_event(body: &mut impl SessionHost, cx: &mut TaskContext<'_>) -> StepEnd {
    if body.reply_served() || body.reply_acknowledged(cx) {
        return StepEnd::Again;
    }
    let end = match body.unblocked() {
        Some(with_error) => Some(EventEnd::Unblocked { with_error }),
        // A client that is being served this moment learns soon how that went.
        None => Some(EventEnd::Late).filter(|_| body.is_late(cx) && body.withdraw()),
    };
    match end {
        Some(end) => {
            body.end_event(end);
            StepEnd::Again
        }
        None => body.recheck_if_due(cx),
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
