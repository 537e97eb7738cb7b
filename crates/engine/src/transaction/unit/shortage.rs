//! What is short as a unit begins: memory, or a place to write down what it changes.
//!
//! Invariant: what is said of a unit's beginning holds to its end. A gate that shuts while the unit
//! is under way would leave it applied by half.

use commands::{Flags, Role};
use keyspace::Refusal;

use crate::limits::budget::OUT_OF_MEMORY;
use crate::limits::write_refusals;
use crate::shared::Shared;
use crate::transaction::unit::Unit;

/// Why what a script calls may be refused, as of one moment.
#[derive(Clone, Copy)]
pub struct Shortage {
    is_out_of_memory: bool,
    reasons: write_refusals::ActiveRefusals,
}

impl Shortage {
    /// As of now.
    #[inline]
    pub(crate) fn now(server: &Shared) -> Self {
        let is_out_of_memory = server.budget.is_out_of_memory(0);
        Self { is_out_of_memory, reasons: server.write_refusals.active(&server.config) }
    }

    /// Whether anything is short.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.is_out_of_memory || self.reasons.is_any()
    }

    /// Why a command with these flags may not run, if it may not. A script may say that it runs
    /// without memory, too.
    pub(crate) fn refuse(
        &self,
        server: &Shared,
        flags: Flags,
        allows_oom: bool,
    ) -> Option<Refusal> {
        let refusal = self.reasons.refuse(&server.journal, flags, Role::Any);
        let is_refused = self.is_out_of_memory && flags.has(Flags::DENYOOM) && !allows_oom;
        refusal.or_else(|| is_refused.then_some(OUT_OF_MEMORY))
    }
}

impl Unit {
    /// What is short, as of the first time that its program asks, which is as it begins.
    #[inline]
    pub fn shortage(&mut self) -> Shortage {
        *self.shortage.get_or_insert_with(|| Shortage::now(self.server))
    }
}
