//! Hash slots that a client brings: the source of a move, whose commands are for slots that are not
//! served here yet.
//!
//! Invariants: a command of such a client that fails ends its session, and with it the move: what
//! is left out would be lost. Its commands see what is over, as those of a primary do: the source
//! says when that goes.

use std::any::Any;
use std::sync::Arc;

use keyspace::PartitionIndex;

use super::Session;

/// Slots on their way to this node.
pub trait ImportingSlots: Send + Sync {
    /// Whether they are on their way still.
    fn are_underway(&self) -> bool;
    /// Whether a slot is one of them.
    fn contain(&self, slot: PartitionIndex) -> bool;
    /// A command of the client was answered by this error.
    fn note_error(&self, line: &[u8]);
    /// The client is gone, or sends nothing more.
    fn note_end(&self);
    /// The same, as what it is.
    fn as_any(&self) -> &dyn Any;
}

impl Session {
    /// The client brings slots from here on. Its commands are not answered any more.
    pub fn import_slots(&mut self, slots: Arc<dyn ImportingSlots>) {
        self.rare_state.get_or_insert_default().importing_slots = Some(slots);
        self.reply_mode.switch_off();
    }

    /// What the client brings, if it does.
    pub fn importing_slots(&self) -> Option<&Arc<dyn ImportingSlots>> {
        self.rare_state.as_ref()?.importing_slots.as_ref()
    }

    /// Whether the client brings slots: it says alone when their keys go.
    #[inline]
    pub(crate) fn is_importing_slots(&self) -> bool {
        self.importing_slots().is_some_and(|slots| slots.are_underway())
    }

    /// Whether a slot is one that the client brings.
    pub(crate) fn imports_slot(&self, slot: PartitionIndex) -> bool {
        self.importing_slots().is_some_and(|slots| slots.are_underway() && slots.contain(slot))
    }

    /// The client is gone, or sends nothing more.
    #[cold]
    pub fn note_import_end(&self) {
        if let Some(slots) = self.importing_slots() {
            slots.note_end();
        }
    }

    /// A command was answered so.
    #[inline]
    pub fn check_import_answer<'a>(&mut self, answer: impl FnOnce() -> &'a [u8]) {
        if self.rare_state.is_some() {
            self.fail_import(answer());
        }
    }

    #[cold]
    fn fail_import(&mut self, answer: &[u8]) {
        if answer.first() == Some(&b'-')
            && let Some(slots) = self.importing_slots()
        {
            slots.note_error(answer);
            self.closing = true;
        }
    }
}
