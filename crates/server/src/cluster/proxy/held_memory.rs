//! What a client's requests take that were sent on, and the replies to them.
//!
//! Invariant: what is kept for a client counts in its figures as long as it is kept, but for less
//! than `NOTED_STEP`, and not longer.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use engine::clients::registry::Client;

/// So many bytes more or less are noted as their client's: few requests and replies are as long.
const NOTED_STEP: usize = 16 << 10;

/// The bytes that are kept for one batch of a client.
pub(super) struct HeldMemory {
    client: Arc<Client>,
    bytes: Cell<usize>,
    noted: Cell<usize>,
}

/// An order's bytes among them; they go with this.
pub(super) struct HeldBytes {
    held: Rc<HeldMemory>,
    sent: usize,
}

impl HeldMemory {
    /// The requests take so much.
    pub(super) fn new(client: Arc<Client>, requests: usize) -> Rc<Self> {
        let held = Self { client, bytes: Cell::default(), noted: Cell::default() };
        held.set(requests);
        Rc::new(held)
    }

    /// What is to be sent for them takes so much more.
    pub(super) fn with_sent(self: &Rc<Self>, sent: usize) -> HeldBytes {
        self.set(self.bytes.get() + sent);
        HeldBytes { held: Rc::clone(self), sent }
    }

    fn set(&self, bytes: usize) {
        self.bytes.set(bytes);
        if bytes.abs_diff(self.noted.get()) >= NOTED_STEP {
            self.note(bytes);
        }
    }

    fn note(&self, bytes: usize) {
        self.client.note_forwarded(self.noted.replace(bytes), bytes);
    }
}

impl HeldBytes {
    /// So much of a reply has come, which is kept until the rest of the batch is there.
    pub(super) fn count_reply(&self, bytes: usize) {
        self.held.set(self.held.bytes.get() + bytes);
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.held.set(self.held.bytes.get().saturating_sub(self.sent));
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        if self.noted.get() > 0 {
            self.note(0);
        }
    }
}
