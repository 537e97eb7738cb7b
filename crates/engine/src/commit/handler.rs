//! A handler runs for a request or a background thread, and what it did is committed. Units and
//! waiters that are served have handlers run within a transaction that others commit.
//!
//! Invariant: what a handler wrote leaves by `commit` while its locks are still held.

use commands::Handler;
use keyspace::{Lsn, Refusal, Tx, Wait};
use proto::{Args, Output, Reply, Resp};

use crate::clients::client_id::ClientId;
use crate::clients::mailbox::Rounds;
use crate::commit::publish::commit;
use crate::session::WaitingCommand;
use crate::shared::Shared;
use crate::table::command_table::Entry;

/// Everything needed to run a data command, on whatever thread.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    pub(crate) server: &'static Shared,
    pub(crate) entry: &'static Entry,
    pub(crate) handler: Handler,
    pub(crate) resp: Resp,
    /// Whose copies of what it reads are tracked.
    pub(crate) reader: Option<ClientId>,
}

/// How a handler's run ended.
pub(crate) enum Outcome {
    /// It replied and was committed; the reply waits for this LSN.
    Replied(Lsn),
    /// It replied an error; nothing but expired keys was committed.
    Failed(Lsn),
    /// It is too much for a worker; nothing was changed.
    Heavy,
    /// It needs more locks.
    Widen,
    /// There is nothing for it yet.
    Wait(Box<Wait>),
}

impl Outcome {
    fn having_seen(self, lsn: Lsn) -> Self {
        match self {
            Self::Replied(_) => Self::Replied(lsn),
            Self::Failed(_) => Self::Failed(lsn),
            other => other,
        }
    }
}

impl Work {
    /// Runs the handler and commits what it did; the caller then drops the transaction.
    #[inline]
    pub(crate) fn run(
        self,
        tx: &mut Tx,
        args: Args<'_>,
        out: &mut Output,
        rounds: &Rounds,
    ) -> Outcome {
        let mark = out.mark();
        let reply = &mut Reply::new(out, self.resp);
        let result = self.handler.run(tx, args, reply);
        let outcome = match result {
            Ok(()) => Outcome::Replied(0),
            Err(Refusal::Heavy) => {
                out.truncate(mark);
                if tx.is_touched() {
                    // What was over was removed: a change of its own, before the locks may go.
                    if commit(self.server, rounds, tx, Args::default()).is_err() {
                        return Outcome::Widen;
                    }
                    tx.renew();
                }
                return Outcome::Heavy;
            }
            Err(Refusal::Widen) => {
                out.truncate(mark);
                return Outcome::Widen;
            }
            Err(Refusal::Wait(wait)) => {
                out.truncate(mark);
                Outcome::Wait(wait)
            }
            Err(refusal) => {
                out.truncate(mark);
                self.server.refuse(&refusal, &mut Reply::new(out, self.resp));
                Outcome::Failed(0)
            }
        };
        match commit(self.server, rounds, tx, args) {
            Ok(seen) => {
                if let Some(reader) = self.reader {
                    let Self { server, entry, .. } = self;
                    server.remember(reader, entry.spec, args);
                }
                outcome.having_seen(seen)
            }
            Err(_) => {
                out.truncate(mark);
                Outcome::Widen
            }
        }
    }

    /// The command, as what a client waits with.
    pub(crate) fn waiting(self) -> WaitingCommand {
        let Self { server, entry, resp, reader, .. } = self;
        WaitingCommand { server, entry, resp, reader }
    }
}
