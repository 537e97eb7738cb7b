//! A connection to each of two servers, and what was queued on them since MULTI.
//! Invariant: the queue is what both servers queued, so that the replies of EXEC are compared one
//! by one, each as that of its command.

use proto::value::Value;

use super::Command;
use crate::client::Client;

/// Two connections that get the same commands; the first is to the server under test.
pub(super) struct Pair {
    pub(super) ours: Client,
    pub(super) theirs: Client,
    queue: Option<Vec<Command>>,
}

/// What replies are about.
pub(super) enum Answered {
    /// The command itself.
    One,
    /// Nothing yet: the command was queued.
    Queued,
    /// These commands, one reply for each.
    All(Vec<Command>),
}

impl Pair {
    pub(super) fn new(ours: Client, theirs: Client) -> Self {
        Self { ours, theirs, queue: None }
    }

    /// Whether both replies to a command are about it, or about others.
    pub(super) fn note(&mut self, command: &Command, ours: &Value, theirs: &Value) -> Answered {
        let Some(queue) = &mut self.queue else {
            if is(command, b"MULTI") && is_simple(ours, b"OK") && is_simple(theirs, b"OK") {
                self.queue = Some(Vec::new());
            }
            return Answered::One;
        };
        let are_queued = [ours, theirs].map(|reply| is_simple(reply, b"QUEUED"));
        if are_queued == [true, true] {
            queue.push(command.clone());
            return Answered::Queued;
        }
        // EXEC ends a transaction even when it is refused itself.
        let is_discard = is(command, b"DISCARD") && command.len() == 1;
        if !is(command, b"EXEC") && !is_discard {
            return Answered::One;
        }
        let queue = self.queue.take().unwrap_or_default();
        match (ours, theirs) {
            (Value::Array(ours), Value::Array(theirs))
                if ours.len() == queue.len() && theirs.len() == queue.len() =>
            {
                Answered::All(queue)
            }
            _ => Answered::One,
        }
    }

    /// Ends what was begun with MULTI or WATCH, if anything was; and selects the first database.
    pub(super) fn leave_transaction(&mut self) {
        for client in [&mut self.ours, &mut self.theirs] {
            // Without MULTI it is refused, which does no harm.
            client.call(&["DISCARD"]);
            client.call(&["UNWATCH"]);
            client.call(&["SELECT", "0"]);
        }
        self.queue = None;
    }
}

fn is(command: &Command, name: &[u8]) -> bool {
    command.first().is_some_and(|word| word.eq_ignore_ascii_case(name))
}

fn is_simple(reply: &Value, text: &[u8]) -> bool {
    matches!(reply, Value::Simple(bytes) if bytes == text)
}
