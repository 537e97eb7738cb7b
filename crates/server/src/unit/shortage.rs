//! What is short as a unit begins: memory, or a place to write down what it changes.
//!
//! Invariant: what is said of a unit's beginning holds to its end. A gate that shuts while the unit
//! is under way would leave it applied by half.

use commands::Flags;
use keyspace::Refusal;

use crate::budget::OUT_OF_MEMORY;
use crate::server::Server;

/// Why what a script calls may be refused, as of one moment.
pub(crate) struct Shortage {
    is_out_of_memory: bool,
    /// Why nothing may be written, if so.
    no_writes: Option<Refusal>,
}

impl Shortage {
    /// As of now.
    pub(crate) fn now(server: &Server) -> Self {
        Self {
            is_out_of_memory: server.budget.is_out_of_memory(0),
            no_writes: server.ailments.refuse_write(server, Flags::WRITE),
        }
    }

    /// Why a command with these flags may not run, if it may not. A script may say that it runs
    /// without memory, too.
    pub(crate) fn refuse(&self, flags: Flags, allows_oom: bool) -> Option<Refusal> {
        if flags.has(Flags::WRITE)
            && let Some(refusal) = &self.no_writes
        {
            return Some(refusal.clone());
        }
        let is_refused = self.is_out_of_memory && flags.has(Flags::DENYOOM) && !allows_oom;
        is_refused.then_some(OUT_OF_MEMORY)
    }
}
