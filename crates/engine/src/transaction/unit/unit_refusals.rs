//! What is short as a unit begins: memory, or a place to write down what it changes.
//!
//! Invariants: what is said of a unit's beginning holds to its end. A gate that shuts while the
//! unit is under way would leave it applied by half. The role is none of it: a unit changes that.

use commands::{Flags, Role};
use keyspace::Refusal;

use crate::limits::budget::OUT_OF_MEMORY;
use crate::limits::quotas::DatabasesOverQuota;
use crate::limits::write_refusals::ActiveRefusals;
use crate::shared::Shared;
use crate::transaction::unit::Unit;

/// Why what a script calls may be refused, as of one moment.
#[derive(Clone, Copy)]
pub struct UnitRefusals {
    is_out_of_memory: bool,
    reasons: ActiveRefusals,
    /// The databases that have all the memory that they may have.
    full: DatabasesOverQuota,
    /// Whether the unit has to run whatever is short.
    must_obey: bool,
}

impl UnitRefusals {
    /// As of now.
    #[inline]
    pub(crate) fn now(server: &Shared) -> Self {
        let is_out_of_memory = server.memory.budget.is_out_of_memory(0);
        let reasons = server.gates.write_refusals.active(&server.config);
        let full = server.gates.quotas.databases_over_quota(server.keyspace);
        Self { is_out_of_memory, reasons, full, must_obey: false }
    }

    /// For what has to run whatever is short.
    const NONE: Self = Self {
        is_out_of_memory: false,
        reasons: ActiveRefusals::NONE,
        full: DatabasesOverQuota::NONE,
        must_obey: true,
    };

    /// Whether anything is short.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.is_out_of_memory || self.reasons.is_any() || self.full.are_there()
    }

    /// Why a command with these flags may not run, if it may not. A script may say that it runs
    /// without memory, too.
    pub(crate) fn refuse(
        &self,
        server: &Shared,
        flags: Flags,
        allows_oom: bool,
    ) -> Option<Refusal> {
        if self.must_obey {
            return None;
        }
        let reasons = self.reasons.in_role(&server.gates.write_refusals);
        let refusal = reasons.refuse(&server.journal, flags, Role::Any);
        let is_refused = self.is_out_of_memory && flags.has(Flags::DENYOOM) && !allows_oom;
        refusal.or_else(|| is_refused.then_some(OUT_OF_MEMORY))
    }

    /// The databases that have all the memory that they may have.
    #[inline]
    pub(crate) fn databases_over_quota(&self) -> DatabasesOverQuota {
        self.full
    }
}

impl Unit {
    /// What is short, as of the first time that its program asks, which is as it begins.
    #[inline]
    pub fn initial_refusals(&mut self) -> UnitRefusals {
        match self.must_obey {
            true => UnitRefusals::NONE,
            false => *self.initial_refusals.get_or_insert_with(|| UnitRefusals::now(self.server)),
        }
    }

    /// What runs on it from here on was accepted elsewhere, and is neither refused nor ended here.
    pub fn set_must_obey(&mut self) {
        self.must_obey = true;
    }

    /// Whether that is so.
    pub(crate) fn must_obey(&self) -> bool {
        self.must_obey
    }
}
