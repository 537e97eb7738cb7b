//! One command of a unit, which may meet keys beyond the unit's grant.
//!
//! Invariant: what is begun again has changed nothing and is not answered yet.

use commands::Handler;
use keyspace::{Begun, Refusal, Tx};
use proto::{Args, Output, Reply, Resp};

use super::Unit;
use crate::session::Needs;
use crate::table::command_table::Entry;

/// A command takes locks beyond the grant where it stands so many times.
const REACHES_MAX: u32 = 8;

impl Unit {
    /// Runs a handler, again with more locks where those that it needs are free.
    #[inline]
    pub(super) fn attempt(
        &mut self,
        entry: &Entry,
        handler: Handler,
        args: Args<'_>,
        resp: Resp,
        out: &mut Output,
        begun: &Begun,
    ) -> Result<(), Refusal> {
        let (mark, hurries) = (out.mark(), self.hurries);
        let run = |tx: &mut Tx, out: &mut Output| {
            let reply = &mut Reply::new(out, resp);
            let mut run = |tx: &mut Tx| handler.run(tx, args, reply);
            if hurries { run(tx) } else { tx.without_budget(run) }
        };
        let mut result = run(&mut self.tx, out);
        if result == Err(Refusal::Widen) {
            // It met the first of its keys: those that it names come with it.
            let mut needs = Needs::default();
            needs.add(self.server, entry, args);
            self.tx.require_partitions(&needs.partitions);
        }
        for _ in 0..REACHES_MAX {
            if result != Err(Refusal::Widen) || !self.tx.try_extend(begun) {
                break;
            }
            out.truncate(mark);
            self.tx.give_up(begun);
            result = run(&mut self.tx, out);
        }
        result
    }
}
