//! Taking what a client sends while nothing can be executed: a request waits, or too many replies
//! wait to leave.
//!
//! Reading goes on then, since many clients read no reply before all of their pipeline is sent. To
//! execute on, as Redis does, would answer some bytes of request with any number of bytes of reply;
//! what the client sends takes no more memory than it had to send.
//!
//! While a request waits for locks or for another thread, about a mebibyte is read behind it: that
//! wait ends by itself, and the client's machine keeps the rest meanwhile. So does it where the
//! server has no room for what it was sent, as a disk is slow; no key is evicted for it.
//!
//! Invariants: what waits to be executed has a bound, with what waits for EXEC, and a client that
//! sends more is closed; the end of what the client sends is heard behind any number of requests
//! where that changes what becomes of the one that waits.

use std::task::{Context as TaskContext, Poll};

use config::settings::CLIENT_QUERY_BUFFER_LIMIT;
use engine::runtime::lanes::READ_SIZE;
use engine::session::PendingInput;
use engine::session::life::{ReadOutcome, StepEnd};

use super::{Connection, Suspension};

/// A read that is for later asks for at least this much.
const READ_LEAST: usize = 512;

/// What comes beyond so many bytes that wait does not lie in the input, which would be copied as it
/// grows.
const INPUT_MOST: usize = 1 << 20;

/// Where memory has a limit, one client may have this part of it wait, or `BUDGET_LEAST`.
const BUDGET_SHARE: u64 = 4;

/// So much of one client may wait however small the limit of memory is.
const BUDGET_LEAST: u64 = 16 << 20;

/// A client that has not logged in yet may have so much wait, as in Redis.
const UNAUTHENTICATED_MOST: usize = 1 << 20;

impl Connection {
    /// Takes a piece of what has come.
    pub(super) fn take_bytes(&mut self, cx: &mut TaskContext<'_>) -> ReadOutcome {
        if self.waiting_bytes() >= self.most_ahead() {
            return ReadOutcome::Nothing;
        }
        // Most clients that wait send nothing meanwhile, and need no room for it.
        match self.stream.poll_readable(cx) {
            Poll::Pending => return ReadOutcome::Nothing,
            Poll::Ready(Err(_)) => return ReadOutcome::Disconnected,
            Poll::Ready(Ok(())) => {}
        }
        let has_much = self.session.pending_input().is_some() || self.waiting_bytes() >= INPUT_MOST;
        let read = if has_much {
            let later = &mut self.session.rare_state.get_or_insert_default().pending_input;
            later.take_in(|piece| self.stream.poll_read_more(cx, piece))
        } else {
            if self.executed * 2 >= self.input.len() {
                self.forget_executed();
            }
            if self.input.try_reserve(READ_LEAST).is_err() {
                return ReadOutcome::Disconnected;
            }
            self.stream.poll_read_more(cx, &mut self.input)
        };
        match read {
            Poll::Pending => return ReadOutcome::Nothing,
            Poll::Ready(Err(_)) => return ReadOutcome::Disconnected,
            Poll::Ready(Ok(0)) => {
                self.has_ended = true;
                return ReadOutcome::End;
            }
            Poll::Ready(Ok(count)) => self.note_heard(count),
        }
        if self.is_overrun(self.waiting_bytes(), self.bound()) {
            return ReadOutcome::Disconnected;
        }
        ReadOutcome::Bytes
    }

    /// With so much that waits no more is read in this suspension.
    fn most_ahead(&self) -> usize {
        match self.suspension {
            Suspension::Backpressure(_) => READ_SIZE,
            // These end whatever the client does: the client is heard again then.
            Suspension::Locks(_)
            | Suspension::Offload(_)
            | Suspension::ResumableOffload(_)
            | Suspension::Steps(_)
            | Suspension::SessionEndWait(_) => INPUT_MOST,
            // Some clients read nothing before they have sent all; of the others one may be gone.
            Suspension::None | Suspension::Pause | Suspension::Blocked(_) => usize::MAX,
        }
    }

    /// How many bytes have come and are not executed.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.input.len() - self.executed + self.session.pending_input().map_or(0, PendingInput::len)
    }

    /// Adds to the input what comes behind it, as if it were read now: a piece, and how much that
    /// was.
    pub(super) fn take_later(&mut self) -> usize {
        self.forget_executed();
        self.make_room_for_input();
        self.session
            .rare_state
            .as_mut()
            .map_or(0, |rare_state| rare_state.pending_input.add_to(&mut self.input))
    }

    /// Drops all that has come; much of it is not freed here.
    pub(super) fn drop_input(&mut self) {
        let input = std::mem::take(&mut self.input);
        self.executed = 0;
        let later = self
            .session
            .rare_state
            .as_mut()
            .map(|rare_state| std::mem::take(&mut rare_state.pending_input));
        let later = later.filter(|later| !later.is_empty());
        if later.is_some() || input.capacity() > INPUT_MOST {
            self.worker.server.keyspace.lazy_free((input, later));
        }
    }

    fn note_heard(&mut self, count: usize) {
        self.note_read(count);
        self.note_batch();
        if self.session.pending_input().is_some() {
            return;
        }
        // What was an incomplete request may be complete now: the parser that waits for more of it
        // would wait for what is here already.
        self.parser = None;
        if let Some(state) = &mut self.session.memcached {
            state.is_incomplete = false;
        }
    }

    /// The client sends nothing more. What it has sent is executed and answered as far as it need
    /// not wait.
    pub(super) fn end_of_input(&mut self) -> StepEnd {
        self.has_ended = true;
        StepEnd::Again
    }

    /// Drops the bytes that are executed.
    pub(super) fn forget_executed(&mut self) {
        if self.executed > 0 {
            self.input.drain(..self.executed);
            self.executed = 0;
        }
    }

    /// Whether so many bytes, with the commands that wait for EXEC, are more than may wait; the
    /// session ends then.
    pub(super) fn is_overrun(&self, bytes: usize, bound: usize) -> bool {
        let queued = self.session.multi.as_ref().map_or(0, |multi| multi.query_bytes());
        let is_overrun = bytes + queued > bound;
        if is_overrun {
            self.worker.server.note_query_buffer_overrun(&self.session);
        }
        is_overrun
    }

    /// What may wait while nothing is executed.
    fn bound(&self) -> usize {
        let server = self.worker.server;
        let mut bound = server.config.get(CLIENT_QUERY_BUFFER_LIMIT);
        if !self.session.is_authenticated() {
            bound = bound.min(UNAUTHENTICATED_MOST);
        }
        match server.memory.budget.configured() {
            0 => bound,
            limit => bound.min((limit / BUDGET_SHARE).max(BUDGET_LEAST) as usize),
        }
    }
}
