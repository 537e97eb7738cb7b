//! Failpoints of units: one is told to begin again, or to panic, at one of its steps.
//!
//! Invariant: what a failpoint asks for could have come by itself: a failpoint asks for nothing
//! where the unit says that it is never begun again.

use keyspace::Refusal;

use super::Unit;
#[cfg(debug_assertions)]
use crate::runtime::failpoint::{FailpointCause, step};

/// A step begins: an error says that the unit cannot go on here.
#[cfg(debug_assertions)]
pub(super) fn trigger(unit: &Unit) -> Result<(), Refusal> {
    let mut causes = vec![FailpointCause::PanicBefore];
    if unit.tx.is_undoable() && !unit.is_final() {
        causes.push(FailpointCause::Widen);
    }
    if unit.refuses_long_work() {
        causes.push(FailpointCause::Heavy);
    }
    match step(&causes) {
        None => Ok(()),
        Some(FailpointCause::Widen) => Err(Refusal::Widen),
        Some(FailpointCause::Heavy) => Err(Refusal::Heavy),
        Some(cause) => panic!("failpoint: {cause:?}"),
    }
}

/// All steps are over.
#[cfg(debug_assertions)]
pub(super) fn trigger_at_commit(unit: &Unit) -> Result<(), Refusal> {
    let mut causes = vec![FailpointCause::PanicAtCommit];
    if unit.tx.is_undoable() && !unit.is_final() {
        causes.push(FailpointCause::Service);
    }
    match step(&causes) {
        None => Ok(()),
        Some(FailpointCause::Service) => Err(Refusal::Widen),
        Some(cause) => panic!("failpoint: {cause:?}"),
    }
}

#[cfg(not(debug_assertions))]
pub(super) const fn trigger(_: &Unit) -> Result<(), Refusal> {
    Ok(())
}

#[cfg(not(debug_assertions))]
pub(super) const fn trigger_at_commit(_: &Unit) -> Result<(), Refusal> {
    Ok(())
}
