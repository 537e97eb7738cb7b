//! What requests for each hash slot took: CLUSTER SLOT-STATS.
//!
//! Invariant: without `cluster-slot-stats-enabled` a command costs one look at a word, and there is
//! no memory for figures before they are first wanted.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::hash_slot::{HASH_SLOTS, hash_slot};
use proto::Args;

use super::execution::Execution;
use super::hot_keys::{framed_bytes, request_bytes};
use crate::table::command_table::CommandEntry;

/// The figures of all slots.
#[derive(Default)]
pub struct SlotStats {
    is_on: AtomicBool,
    slots: OnceLock<Box<[SlotCounters]>>,
}

/// The figures of a slot: microseconds, bytes of requests, bytes of replies.
type SlotCounters = [AtomicU64; 3];

/// What requests for a slot took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotUsage {
    /// Microseconds.
    pub cpu_us: u64,
    /// Bytes of requests.
    pub bytes_in: u64,
    /// Bytes of replies and messages, and of the stream to replicas.
    pub bytes_out: u64,
}

impl SlotStats {
    /// Whether figures are kept.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Keeps figures from here on, or does not.
    pub fn set(&self, is_on: bool) {
        if is_on {
            self.slots.get_or_init(|| (0..HASH_SLOTS).map(|_| SlotCounters::default()).collect());
        }
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Notes a command of a client.
    #[cold]
    pub(crate) fn note(&self, execution: Execution<'_>) {
        let Execution { entry, args, micros, reply_bytes } = execution;
        let Some(slot) = slot_of(entry, args) else { return };
        self.add(slot, [micros, request_bytes(args), reply_bytes]);
    }

    /// Notes a message to so many subscribers of a shard channel.
    #[cold]
    pub(crate) fn note_message(&self, channel: &[u8], message: &[u8], receivers: usize) {
        let bytes = framed_bytes(&[b"smessage", channel, message]);
        self.add(hash_slot(channel), [0, 0, bytes * receivers as u64]);
    }

    fn add(&self, slot: u16, figures: [u64; 3]) {
        let Some(slots) = self.slots.get() else { return };
        for (counter, figure) in slots[usize::from(slot)].iter().zip(figures) {
            counter.fetch_add(figure, Ordering::Relaxed);
        }
    }

    /// The figures of a slot.
    pub fn usage(&self, slot: u16) -> SlotUsage {
        let Some(slots) = self.slots.get() else { return SlotUsage::default() };
        let [cpu_us, bytes_in, bytes_out] =
            slots[usize::from(slot)].each_ref().map(|counter| counter.load(Ordering::Relaxed));
        SlotUsage { cpu_us, bytes_in, bytes_out }
    }

    /// Forgets the figures of some slots.
    pub fn reset(&self, mut of: impl FnMut(u16) -> bool) {
        let Some(slots) = self.slots.get() else { return };
        for slot in (0..HASH_SLOTS).filter(|slot| of(*slot)) {
            slots[usize::from(slot)].iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        }
    }
}

/// The slot of a request: that of its first key. Keys of several slots are told of none.
fn slot_of(entry: &CommandEntry, args: Args<'_>) -> Option<u16> {
    let (mut slot, mut differ) = (None, false);
    for spec in entry.spec.keys {
        let _ = spec.visit(args, |index| {
            let its = hash_slot(&args[index]);
            differ |= *slot.get_or_insert(its) != its;
        });
    }
    slot.filter(|_| !differ)
}
