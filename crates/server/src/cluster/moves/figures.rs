//! What moves of slots have come to since the start.
//!
//! Invariant: a move counts as over once, when it is, whatever came of it; bytes count as they go
//! and come, keys when their slots have changed hands.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{MoveDirection, MoveState};

/// Of both directions.
#[derive(Debug, Default)]
pub(crate) struct MoveFigures {
    exports: DirectionFigures,
    imports: DirectionFigures,
}

/// Of moves in one direction.
#[derive(Debug, Default)]
pub(crate) struct DirectionFigures {
    succeeded: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    keys: AtomicU64,
    bytes: AtomicU64,
}

impl MoveFigures {
    pub(crate) fn of(&self, direction: MoveDirection) -> &DirectionFigures {
        match direction {
            MoveDirection::Export => &self.exports,
            MoveDirection::Import => &self.imports,
        }
    }
}

impl DirectionFigures {
    /// How many are over in this state.
    pub(crate) fn ended(&self, state: MoveState) -> u64 {
        self.counter(state).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    /// How many keys have gone with their slots.
    pub(crate) fn keys(&self) -> u64 {
        self.keys.load(Ordering::Relaxed)
    }

    /// How many bytes went by connections of moves.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A move is in another state.
    pub(super) fn note_state(&self, state: MoveState) {
        if let Some(counter) = self.counter(state) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn add_keys(&self, count: u64) {
        self.keys.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn add_bytes(&self, count: u64) {
        self.bytes.fetch_add(count, Ordering::Relaxed);
    }

    fn counter(&self, state: MoveState) -> Option<&AtomicU64> {
        match state {
            MoveState::Success => Some(&self.succeeded),
            MoveState::Failed => Some(&self.failed),
            MoveState::Cancelled => Some(&self.cancelled),
            _ => None,
        }
    }
}
