//! Pauses behind rounds that failed: what could not be made for some replicas can seldom be made
//! right behind that, and an attempt costs a walk over all data.
//!
//! Invariants: a round of the same requirements begins no earlier than its pause ends; pauses
//! double up to a bound, and end with a round that comes to its end.

use super::replconf_state::Requirements;

const FIRST_MS: u64 = 1000;
const LONGEST_MS: u64 = 60_000;

/// The pauses that are on, and those that a next failure doubles.
#[derive(Debug, Default)]
pub(super) struct RoundPauses(Vec<RoundPause>);

#[derive(Debug)]
struct RoundPause {
    requirements: Requirements,
    until_ms: u64,
    length_ms: u64,
}

impl RoundPauses {
    /// A round failed that replicas waited for.
    pub(super) fn failed(&mut self, requirements: Requirements, now_ms: u64) {
        // Requirements come from replicas: what is long over is not remembered.
        self.0.retain(|pause| now_ms < pause.until_ms + LONGEST_MS);
        let before = self.0.iter().find(|pause| pause.requirements == requirements);
        let length_ms = before.map_or(FIRST_MS, |it| (it.length_ms * 2).min(LONGEST_MS));
        self.succeeded(requirements);
        self.0.push(RoundPause { requirements, until_ms: now_ms + length_ms, length_ms });
    }

    /// A round came to its end.
    pub(super) fn succeeded(&mut self, requirements: Requirements) {
        self.0.retain(|pause| pause.requirements != requirements);
    }

    /// Whether no round may begin for these.
    pub(super) fn hold(&self, requirements: Requirements, now_ms: u64) -> bool {
        self.0.iter().any(|it| it.requirements == requirements && now_ms < it.until_ms)
    }
}
