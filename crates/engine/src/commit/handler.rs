//! Where a handler runs, for whomever: `attempt` is the one place. For a request, a background
//! thread and another front what it did is committed here; units (EXEC, scripts, replay) and
//! waiters that are served have handlers run within a transaction that others commit.
//!
//! Invariant: what a handler wrote leaves by `commit` while its locks are still held; a reply that
//! was begun and not ended is taken back. A command that uses a key which its request was not found
//! to name is refused where it cannot begin again with that key's lock.

use commands::Handler;
use keyspace::{Refusal, Tx, Wait};
use proto::{Args, Output, Reply, Resp};

use crate::clients::client_id::ClientId;
use crate::clients::mailbox::PendingWakes;
use crate::commit::publish::commit;
use crate::journal::ReplyLsn;
use crate::session::WaitingCommand;
use crate::shared::{Shared, write_refusal};
use crate::table::command_table::CommandEntry;

const UNDECLARED_KEY: Refusal =
    Refusal::error("ERR The command uses a key that its request was not found to name");

/// What a command does within its transaction: a handler does that, or what a front brings.
pub trait CommandBody {
    /// Does it, and replies.
    fn run(&mut self, tx: &mut Tx, out: &mut Output) -> Result<(), Refusal>;

    /// Replies an error instead.
    fn refuse(&mut self, refusal: &Refusal, out: &mut Output);
}

/// A handler with the request that it is given.
pub(crate) struct HandlerCall<'a> {
    pub(crate) handler: Handler,
    pub(crate) args: Args<'a>,
    pub(crate) resp: Resp,
}

impl CommandBody for HandlerCall<'_> {
    #[inline]
    fn run(&mut self, tx: &mut Tx, out: &mut Output) -> Result<(), Refusal> {
        self.handler.run(tx, self.args, &mut Reply::new(out, self.resp))
    }

    #[cold]
    fn refuse(&mut self, refusal: &Refusal, out: &mut Output) {
        write_refusal(refusal, &mut Reply::new(out, self.resp));
    }
}

/// How an attempt ended, before anything of it is final.
pub(crate) enum AttemptEnd {
    Replied,
    /// An error was replied, which counts once it is final.
    Failed(Refusal),
    /// The command is too much for a worker.
    Heavy,
    /// The command needs more locks.
    Widen,
    /// There is nothing for it yet.
    Wait(Box<Wait>),
}

/// Has a command do what it does, within whatever transaction. Where that ends in nothing to tell
/// yet, nothing is told.
#[inline]
pub(crate) fn attempt(tx: &mut Tx, out: &mut Output, body: &mut impl CommandBody) -> AttemptEnd {
    let mark = out.mark();
    let Err(refusal) = body.run(tx, out) else { return AttemptEnd::Replied };
    out.truncate(mark);
    let is_lost = refusal == Refusal::Widen && !tx.may_widen();
    match if is_lost { UNDECLARED_KEY } else { refusal } {
        Refusal::Heavy => AttemptEnd::Heavy,
        Refusal::Widen => AttemptEnd::Widen,
        Refusal::Wait(wait) => AttemptEnd::Wait(wait),
        refusal => {
            body.refuse(&refusal, out);
            AttemptEnd::Failed(refusal)
        }
    }
}

/// Has a command do what it does and commits that; the caller then drops the transaction. `args`
/// are what the journal is told where the command itself does not say it.
#[inline]
pub(crate) fn run(
    server: &Shared,
    wakes: &PendingWakes,
    tx: &mut Tx,
    args: Args<'_>,
    out: &mut Output,
    body: &mut impl CommandBody,
) -> HandlerOutcome {
    let mark = out.mark();
    let begun = if tx.serves_within_budget() { tx.mark() } else { None };
    let ended = attempt(tx, out, body);
    match ended {
        AttemptEnd::Widen => return HandlerOutcome::Widen,
        AttemptEnd::Heavy => {
            if tx.is_touched() {
                // What was over was removed: a change of its own, before the locks may go.
                let removed = |tx: &mut Tx| commit(server, wakes, tx, Args::default());
                if tx.without_budget(removed).is_err() {
                    return HandlerOutcome::Widen;
                }
                tx.renew();
            }
            return HandlerOutcome::Heavy;
        }
        AttemptEnd::Replied | AttemptEnd::Failed(_) | AttemptEnd::Wait(_) => {}
    }
    let seen = match commit(server, wakes, tx, args) {
        Ok(seen) => seen,
        Err(refusal) => {
            out.truncate(mark);
            if let (Refusal::Heavy, Some(begun)) = (refusal, begun) {
                tx.return_to(begun);
                return HandlerOutcome::Heavy;
            }
            return HandlerOutcome::Widen;
        }
    };
    match ended {
        AttemptEnd::Failed(refusal) => {
            server.count_refusal(&refusal);
            HandlerOutcome::Failed(seen)
        }
        AttemptEnd::Wait(wait) => HandlerOutcome::Wait(wait),
        _ => HandlerOutcome::Replied(seen),
    }
}

/// Everything needed to run a data command, on whatever thread.
#[derive(Clone, Copy)]
pub(crate) struct HandlerWork {
    pub(crate) server: &'static Shared,
    pub(crate) entry: &'static CommandEntry,
    pub(crate) handler: Handler,
    pub(crate) resp: Resp,
    /// Whose copies of what it reads are tracked.
    pub(crate) reader: Option<ClientId>,
}

/// How a handler's run ended.
pub(crate) enum HandlerOutcome {
    /// The command replied and was committed; the reply waits for this LSN.
    Replied(ReplyLsn),
    /// The command replied an error; nothing but expired keys was committed.
    Failed(ReplyLsn),
    /// The command is too much for a worker; nothing was changed.
    Heavy,
    /// The command needs more locks.
    Widen,
    /// There is nothing for it yet.
    Wait(Box<Wait>),
}

impl HandlerWork {
    /// Runs the handler and commits what it did; the caller then drops the transaction.
    #[inline]
    pub(crate) fn run(
        self,
        tx: &mut Tx,
        args: Args<'_>,
        out: &mut Output,
        wakes: &PendingWakes,
    ) -> HandlerOutcome {
        let Self { server, entry, handler, resp, reader } = self;
        let outcome = run(server, wakes, tx, args, out, &mut HandlerCall { handler, args, resp });
        if let Some(reader) = reader
            && !matches!(outcome, HandlerOutcome::Heavy | HandlerOutcome::Widen)
        {
            server.remember(reader, entry.spec, args);
        }
        outcome
    }

    /// The command, as what a client waits with.
    pub(crate) fn waiting(self) -> WaitingCommand {
        let Self { server, entry, resp, reader, .. } = self;
        WaitingCommand { server, entry, resp, reader }
    }
}

#[cfg(test)]
mod tests {
    use commands::Handler;
    use keyspace::{Acquisition, PartitionSet, Tx, TxOptions};
    use proto::{Output, OwnedArgs, Resp};

    use super::{AttemptEnd, HandlerCall, attempt};
    use crate::table::command_table::Run;
    use crate::testing;

    fn handler(name: &str) -> Handler {
        match testing::entry(name).run {
            Run::Data(handler) => handler,
            Run::Control | Run::Unit => unreachable!("it is about data"),
        }
    }

    #[test]
    fn a_key_that_was_not_locked_costs_one_error() {
        let keyspace = testing::engine().keyspace;
        let other = keyspace.locate(b"x").partition() ^ 1;
        for words in [&["GET", "x"][..], &["SET", "x", "v"], &["ZUNIONSTORE", "x", "1", "y"]] {
            for undoable in [false, true] {
                let partitions = PartitionSet::from_elem(other, 1);
                let mut acquisition = Acquisition::of_partitions(keyspace, partitions);
                assert!(acquisition.attempt());
                let options = TxOptions { undoable, ..TxOptions::internal(0, 1) };
                let mut tx = Tx::begin(acquisition, options);
                let mut out = Output::new();
                let owned: OwnedArgs = words.iter().map(|word| word.as_bytes()).collect();
                let (args, resp) = (owned.as_args(), Resp::Two);
                let handler = handler(words[0]);
                let ended = attempt(&mut tx, &mut out, &mut HandlerCall { handler, args, resp });
                if undoable {
                    assert!(matches!(ended, AttemptEnd::Widen), "{words:?} begins again");
                    continue;
                }
                assert!(matches!(ended, AttemptEnd::Failed(_)), "{words:?} is refused");
                assert!(out.front().starts_with(b"-ERR The command uses a key"));
                assert!(!tx.is_touched(), "{words:?} changed nothing");
            }
        }
    }
}
