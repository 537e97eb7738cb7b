//! One command of a unit, which may meet keys beyond the unit's grant.
//!
//! Invariant: what is begun again has changed nothing and is not answered yet.

use keyspace::{CommandStart, Tx};
use proto::Output;

use super::Unit;
use crate::commit::handler::{self, AttemptEnd, HandlerCall};
use crate::session::LockSet;
use crate::table::command_table::CommandEntry;

/// A command takes locks beyond the grant where it stands so many times.
const REACHES_MAX: u32 = 8;

impl Unit {
    /// Runs a handler, again with more locks where those that it needs are free.
    #[inline]
    pub(super) fn attempt(
        &mut self,
        entry: &CommandEntry,
        mut call: HandlerCall<'_>,
        out: &mut Output,
        begun: &CommandStart,
    ) -> AttemptEnd {
        let (refuses_long_work, args) = (self.refuses_long_work, call.args);
        let mut run = |tx: &mut Tx, out: &mut Output| {
            let mut run = |tx: &mut Tx| handler::attempt(tx, out, &mut call);
            if refuses_long_work { run(tx) } else { tx.without_budget(run) }
        };
        let mut ended = run(&mut self.tx, out);
        if matches!(ended, AttemptEnd::Widen) {
            // The command met the first of its keys: those that it names come with it.
            let mut needs = LockSet::default();
            needs.add(self.server, entry, args);
            self.tx.require_partitions(&needs.partitions);
        }
        for _ in 0..REACHES_MAX {
            if !matches!(ended, AttemptEnd::Widen) || !self.tx.try_extend(begun) {
                break;
            }
            self.tx.forget_command(begun);
            ended = run(&mut self.tx, out);
        }
        ended
    }
}
