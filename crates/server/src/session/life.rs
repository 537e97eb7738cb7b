//! A session's life: what it does next, as one pure function of what it sees.
//!
//! Neither sockets nor timers nor locks are known here. The session (`mod.rs`) looks at itself,
//! asks for a plan, carries it out and looks again.
//!
//! Invariants, which the tests prove for every sight there is:
//! - what a request waits for is looked at in every step, whatever the output does: a grant is used
//!   or given back in the step in which it comes;
//! - what the client sends is taken in every step until it has ended its side or is to be closed;
//! - a request is executed neither behind one that waits, nor while much waits to leave;
//! - a session that is to be closed, or whose client is gone, waits for nothing that has not begun.

/// With more unsent bytes than this nothing more is executed.
pub(super) const BACKLOG_LIMIT: usize = 1 << 20;

/// What a session sees of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) wait: Wait,
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
    /// Whether it is to be closed once the replies due have left.
    pub(super) closing: bool,
}

/// What the first of its requests waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Nothing,
    /// What was asked for with the request: locks, the world, a result. It comes by itself.
    Grant,
    /// Leave to begin: the end of a pause, room for what the request would leave behind.
    Leave,
    /// An event: a key, a time, a disk.
    Event,
}

/// The replies that have not left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    Nothing,
    Little,
    /// More than [`BACKLOG_LIMIT`], or a long reply whose end is made as it is sent.
    Much,
}

/// What the client has sent and is not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Incoming {
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
pub(super) enum Plan {
    /// The session is over.
    End,
    /// The client sends nothing more and has all its replies but those that are due.
    Close,
    /// What it waits for is given back, and queues are left.
    GiveUp,
    /// Goes on.
    GoOn {
        /// Whether what the client sends is taken into the input now.
        listens: bool,
        does: Deed,
    },
}

/// What a session that goes on does, besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// Looks whether the wait is over.
    Await,
    /// Executes requests, or reads the next ones.
    Execute,
    /// Nothing, until something has left.
    Nothing,
}

impl Outgoing {
    /// So many bytes, and perhaps some that are still to be made.
    #[inline]
    pub(super) fn of(bytes: usize, is_streaming: bool) -> Self {
        match bytes {
            _ if is_streaming || bytes > BACKLOG_LIMIT => Self::Much,
            0 => Self::Nothing,
            _ => Self::Little,
        }
    }
}

impl Incoming {
    #[inline]
    pub(super) fn of(has_requests: bool, has_ended: bool) -> Self {
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

/// What to do in view of this.
#[inline]
pub(super) fn plan(sight: Sight) -> Plan {
    let Sight { wait, outgoing, incoming, closing } = sight;
    if closing {
        return match (wait, outgoing) {
            (Wait::Nothing, Outgoing::Nothing) => Plan::End,
            (Wait::Nothing, _) => Plan::GoOn { listens: false, does: Deed::Nothing },
            _ => Plan::GiveUp,
        };
    }
    if incoming.has_ended() {
        // As in Redis, whose client is gone begins nothing any more that it had to wait for.
        match wait {
            Wait::Leave | Wait::Event => return Plan::End,
            Wait::Nothing if incoming == Incoming::Over => return Plan::Close,
            Wait::Nothing | Wait::Grant => {}
        }
    }
    let does = match (wait, outgoing) {
        (Wait::Nothing, Outgoing::Much) => Deed::Nothing,
        (Wait::Nothing, _) => Deed::Execute,
        _ => Deed::Await,
    };
    // Who executes reads by itself, into the worker's buffer.
    Plan::GoOn { listens: does != Deed::Execute && !incoming.has_ended(), does }
}

#[cfg(test)]
mod tests;
