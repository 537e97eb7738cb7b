//! Which keys a server said it stored, so that a verification knows a lost value from one that was
//! never written. Invariant: only acknowledged writes are in it, and only of this run.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::options::{Keys, Mix, Options, Verify};

/// Larger key ranges are not followed: half a gigabyte of bits.
const KEYS_MAX: u64 = 1 << 32;

/// A bit per key.
#[derive(Debug)]
pub(super) struct Written {
    first: u64,
    bits: Box<[AtomicU64]>,
}

impl Written {
    /// An empty set over the key range, where the run will verify and keys stay once written.
    pub(super) fn of(options: &Options) -> Option<Self> {
        let load = &options.load;
        let verifies = load.verify == Verify::AfterWriting && load.values.expiry.is_none();
        let Keys { minimum, maximum, .. } = load.keys;
        let count = maximum.checked_sub(minimum)?.saturating_add(1);
        let follows = verifies && matches!(load.mix, Mix::Ratio { .. }) && count <= KEYS_MAX;
        let words = usize::try_from(count.div_ceil(64)).ok()?;
        follows.then(|| Self {
            first: minimum,
            bits: std::iter::repeat_with(AtomicU64::default).take(words).collect(),
        })
    }

    /// The server has acknowledged a write of this key.
    pub(super) fn insert(&self, key: u64) {
        if let Some((word, bit)) = self.place(key) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether the key was written.
    pub(super) fn contains(&self, key: u64) -> bool {
        self.place(key).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    fn place(&self, key: u64) -> Option<(&AtomicU64, u64)> {
        let index = key.checked_sub(self.first)?;
        let word = self.bits.get(usize::try_from(index / 64).ok()?)?;
        Some((word, 1 << (index % 64)))
    }
}
