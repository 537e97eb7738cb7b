//! Commands that take long and only read, or read and then store one result: they compute without
//! their locks.
//!
//! Such a command runs in phases, as optimistic transactions do. Under its locks it takes copies of
//! what its keys hold, in O(1) for whatever is large: its *read set*. Then it gives the locks back
//! and computes from the copies (`begin_read_phase`, `compute`). What only reads is done then. What
//! stores takes its locks again, and where the keys that it read hold what they held
//! (`validate`), it stores what it computed; else it computes again, with its locks.
//!
//! Invariants:
//! - copies are taken while all locks of the command are held, so they are of one moment;
//! - a read phase changes nothing: there is no grant, so whatever is to be changed is refused with
//!   `Widen`, as is a key that the command did not name;
//! - a result is used only where all that it was made of is there, unchanged.

use std::any::Any;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use super::{LookupCounters, Missed, Tx, TxOptions};
use crate::entry::{EntryBox, EntryRef};
use crate::lazy_free::{BIG_ENTRY, CopiesHeld, LazyFreeQueue};
use crate::lock::acquisition::{Acquisition, PartitionSet};
use crate::lock::partition::PartitionIndex;
use crate::refusal::Refusal;

/// A command with more keys keeps its locks: each copy takes some time under them.
const KEYS_MAX: usize = 512;

/// The same for the bytes of values that are copied and not shared.
const BYTES_MAX: usize = 256 * 1024;

/// What a command found at its keys, by their names.
pub(super) struct ReadSet {
    copies: HashMap<Box<[u8]>, Copied>,
    /// Those that are big, where others see them.
    held: Option<CopiesHeld>,
}

impl Drop for ReadSet {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            held.release(std::mem::take(&mut self.copies));
        }
    }
}

/// What one key held.
pub(super) struct Copied {
    /// Nothing if it was absent.
    image: Option<EntryBox>,
    /// Whether the command looked at it.
    was_read: Cell<bool>,
}

/// What makes a transaction one of these.
pub(super) enum TxPhase {
    /// The copies that the command computes from; the result, once it is there.
    Read(ReadSet, Option<Box<dyn Any + Send>>),
    /// The command has its locks again; the result is valid.
    Write(Box<dyn Any + Send>),
    /// The transaction has no such phases, and this is the buffer that its request came in.
    Single(Arc<Vec<u8>>),
}

/// What a read phase came to.
pub struct ReadPhaseResult {
    reads: ReadSet,
    result: Option<Box<dyn Any + Send>>,
    counted: LookupCounters,
    missed: Vec<Missed>,
}

impl Tx {
    /// A transaction over copies of what these keys hold, which needs no locks; `None` if there are
    /// too many, or if something is to be done under the locks first. `is_first` says that the
    /// command has not run before, so that its accesses are still to be noted.
    #[must_use]
    pub fn begin_read_phase<'k>(
        &self,
        keys: impl ExactSizeIterator<Item = &'k [u8]>,
        is_first: bool,
    ) -> Option<Self> {
        let has_met_expired = !self.stale.borrow().is_empty();
        if self.made.touched || self.has_world() || has_met_expired || keys.len() > KEYS_MAX {
            return None;
        }
        let (mut copies, mut bytes, mut big) = (HashMap::with_capacity(keys.len()), 0, Vec::new());
        for key in keys {
            let entry = self.peek(key).ok()?;
            bytes += entry.map_or(0, EntryRef::bytes_in_block);
            if bytes > BYTES_MAX {
                return None;
            }
            if let Some(entry) = entry.filter(|_| is_first) {
                self.note_access(entry);
            }
            let image = entry.map(EntryRef::pre_image);
            if let Some(entry) =
                entry.filter(|it| it.root_address().is_some() && it.memory() >= BIG_ENTRY)
            {
                big.push(entry.pre_image());
            }
            copies.insert(key.into(), Copied { image, was_read: Cell::new(false) });
        }
        if !self.stale.borrow().is_empty() {
            return None;
        }
        let reads = ReadSet { copies, held: LazyFreeQueue::hold_copies(self.keyspace, big) };
        let nothing = Acquisition::of_partitions(self.keyspace, PartitionSet::new());
        let options = TxOptions { undoable: false, heavy: true, ..self.options };
        let mut phase = Self::with_grant(nothing, options);
        phase.note_lsn(self.observed_lsn());
        phase.phase = Some(Box::new(TxPhase::Read(reads, None)));
        Some(phase)
    }

    /// What a key holds by the read set, if it is in there.
    #[cold]
    pub(super) fn peek_copy(
        &self,
        key: &[u8],
        partition: PartitionIndex,
    ) -> Result<Option<EntryRef<'_>>, Refusal> {
        let Some(TxPhase::Read(reads, _)) = self.phase.as_deref() else {
            return Err(self.refuse_beyond(partition));
        };
        let Some(copied) = reads.copies.get(key) else { return Err(self.refuse_beyond(partition)) };
        copied.was_read.set(true);
        Ok(copied.image.as_ref().map(EntryBox::borrow))
    }

    /// What a command stores, made of what its keys hold. The work may take long, and must depend
    /// on nothing else but the command's arguments; lookups before it are not counted. In a read
    /// phase the result is kept and `Widen` comes back: the command is to begin again with its
    /// locks, and gets here what is kept if that is still valid.
    pub fn compute<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Self) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        match self.phase.as_deref() {
            None | Some(TxPhase::Single(_)) => return work(self),
            Some(TxPhase::Write(_)) => {
                if let Some(TxPhase::Write(result)) = self.phase.take().map(|phase| *phase)
                    && let Ok(result) = result.downcast()
                {
                    return Ok(*result);
                }
                return work(self);
            }
            Some(TxPhase::Read(..)) => {}
        }
        self.counted = LookupCounters::default();
        self.missed.get_mut().clear();
        let computed = work(self)?;
        if let Some(TxPhase::Read(_, result)) = self.phase.as_deref_mut() {
            *result = Some(Box::new(computed));
        }
        Err(Refusal::Widen)
    }

    /// Ends a read phase behind which the command begins again with its locks.
    #[must_use]
    pub fn end_read_phase(mut self) -> Option<ReadPhaseResult> {
        let TxPhase::Read(reads, result) = *self.phase.take()? else { return None };
        let (counted, missed) = (std::mem::take(&mut self.counted), self.missed.take());
        Some(ReadPhaseResult { reads, result, counted, missed })
    }

    /// Takes what a read phase computed, if the keys that it read hold now what they held then:
    /// whether that is so. The locks of all of them are held.
    #[must_use]
    pub fn validate(&mut self, computed: &mut ReadPhaseResult) -> bool {
        let Some(result) = computed.result.take() else { return false };
        let are_same = computed.reads.copies.iter().all(|(key, copied)| {
            !copied.was_read.get() || self.holds_still(key, copied.image.as_ref())
        });
        if !are_same {
            return false;
        }
        for (key, copied) in &computed.reads.copies {
            if copied.was_read.get()
                && let Ok(Some(entry)) = self.peek(key)
            {
                self.note_access(entry);
            }
        }
        self.counted = std::mem::take(&mut computed.counted);
        self.missed.replace(std::mem::take(&mut computed.missed));
        self.phase = Some(Box::new(TxPhase::Write(result)));
        true
    }

    /// Whether a key holds what it held when this image was taken, of whose members none is over.
    fn holds_still(&self, key: &[u8], image: Option<&EntryBox>) -> bool {
        match (self.peek(key), image) {
            (Ok(None), None) => true,
            (Ok(Some(entry)), Some(image)) => {
                let is_over = |deadline| deadline <= self.options.now;
                entry.is_same_value(image.borrow()) && !entry.member_deadline().is_some_and(is_over)
            }
            _ => false,
        }
    }
}
