//! What is too much for a worker leaves it: with its locks, or without where it only reads or
//! stores what it computes.
//!
//! Invariant: what leaves has changed nothing yet that is not committed (what was over is removed
//! before it is known that the rest is heavy), and has leave for heavy work before its locks or its
//! copies leave the worker's turnstile.

use std::sync::Arc;

use commands::{Flags, Plan};
use keyspace::{HeavyPass, PartitionSet, Tx};
use proto::{Args, OwnedArgs};

use super::{Request, Round, Step, Work};
use crate::busy::Hold;
use crate::heavy::{Reading, Transaction};
use crate::session::Stage;

impl Request<'_> {
    /// Moves a transaction to a heavy-work thread, without its locks if it can do without them; or
    /// gives them back while somebody asks for the world or was kept from them for long. `is_first`
    /// says that its handler has not run yet.
    #[cold]
    pub(super) fn hand_over(&self, mut tx: Tx, work: Work, round: Round, is_first: bool) -> Step {
        let server = work.server;
        let mut pass = None;
        // A transaction that has the world needs no leave, and would wait for itself.
        if !tx.has_world() {
            let asked = round.pass.unwrap_or_else(|| HeavyPass::to_move(server.keyspace));
            if !asked.is_admitted() {
                let round = Round { number: round.number, pass: Some(asked), moves: false };
                drop(tx);
                return self.park(self.plan(&self.locations()), round);
            }
            if let Some(phase) = self.read_phase(&tx, work, is_first) {
                return self.read_apart(tx, phase, asked, work);
            }
            if !tx.prolong() {
                let round = Round { number: round.number, pass: Some(asked), moves: false };
                return self.park(tx.defer(), round);
            }
            pass = Some(asked);
        }
        let hold = Hold::begin(server, self.worker.ticked_us(), tx.partitions().into());
        let args = OwnedArgs::from(self.args);
        let client = Arc::clone(&self.session.client);
        let transaction = Transaction { pass, hold, tx, client };
        let receiver = server.heavy.run_transaction(transaction, args, work);
        Step::Wait(Stage::Elsewhere(receiver))
    }

    /// A transaction that computes without the locks of this one, if the command is of those that
    /// only read, or store what they compute. Not where its client caches what it reads: news of a
    /// change would come before the reply that it makes void.
    fn read_phase(&self, tx: &Tx, work: Work, is_first: bool) -> Option<Tx> {
        let spec = work.entry.spec;
        if spec.plan != Plan::Keys
            || self.session.is_told_of_changes()
            || !computes_apart(spec.flags)
        {
            return None;
        }
        if self.may_widen() && commands::generic::pattern_option(self.args).is_some() {
            return None;
        }
        let mut keys = Vec::new();
        for of in spec.keys {
            of.visit(self.args, |index| keys.push(&self.args[index])).ok()?;
        }
        tx.begin_read_phase(keys.into_iter(), is_first)
    }

    /// Gives the locks back and has the command go on without them.
    fn read_apart(&self, tx: Tx, phase: Tx, mut pass: HeavyPass, work: Work) -> Step {
        let (options, partitions) = (tx.options(), PartitionSet::from(tx.partitions()));
        // The locks go first, as the world may be granted right after the pass.
        drop(tx);
        pass.step_aside();
        let client = Arc::clone(&self.session.client);
        let reading = Reading { pass, phase, options, partitions, client };
        let heavy = &work.server.heavy;
        Step::Wait(Stage::Elsewhere(heavy.run_reading(reading, self.args.into(), work)))
    }
}

/// Whether a request's size alone is more than a worker should spend on one client.
#[inline]
pub(crate) fn looks_heavy(args: Args<'_>) -> bool {
    /// What one more argument costs: a lookup, an entry, a line of reply.
    const ARGUMENT_NS: u64 = 150;
    let count = args.len() as u64;
    // Only long requests are weighed: the short ones are the hot path.
    count > 64 && count * ARGUMENT_NS > keyspace::WORKER_BUDGET_NS
}

/// Whether a command takes nothing from its locks but what its keys hold at one moment.
pub(crate) fn computes_apart(flags: Flags) -> bool {
    flags.has(Flags::READONLY) || flags.has(Flags::OPTIMISTIC)
}
