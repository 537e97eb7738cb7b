//! A look at all keys of some partitions, one after another, on a background thread.
//!
//! Invariant: a lock is held for some hundred keys at a time; a survey is no more one moment in
//! time than SCAN is. Keys that others hold for too long end the survey with BUSY, so no survey
//! keeps its thread from those behind it.

use keyspace::{EntryRef, Keyspace, PartitionIndex, Refusal, Tx, TxOptions, usage};

use crate::runtime::background::BackgroundAccess;

/// So many keys are looked at under one lock.
const KEYS_AT_ONCE: usize = 256;

/// A survey that is under way.
pub(super) struct KeySurvey {
    keyspace: &'static Keyspace,
    lane: usize,
    access: BackgroundAccess,
}

impl KeySurvey {
    /// Begins on a background thread of this lane.
    pub(super) fn begin(keyspace: &'static Keyspace, lane: usize) -> Result<Self, Refusal> {
        Ok(Self { keyspace, lane, access: BackgroundAccess::for_client(keyspace)? })
    }

    /// Shows each entry of a partition, of all databases.
    pub(super) fn visit(
        &mut self,
        partition: PartitionIndex,
        mut visit: impl FnMut(EntryRef<'_>),
    ) -> Result<(), Refusal> {
        let keyspace = self.keyspace;
        for database in 0..keyspace.database_count() {
            if keyspace.len(database) == 0 {
                continue;
            }
            let mut next = Some(0);
            while let Some(from) = next {
                let options = TxOptions::internal(self.lane, keyspace.clock().now_ms());
                let options = TxOptions { database, heavy: true, ..options };
                let tx = Tx::begin(self.access.acquire_for_client(partition)?, options);
                next = tx.walk(partition, from, KEYS_AT_ONCE, &mut visit);
            }
        }
        Ok(())
    }
}

/// What the keys of some partitions take, as MEMORY USAGE tells it, on a background thread of this
/// lane.
pub fn memory_of(
    keyspace: &'static Keyspace,
    lane: usize,
    partitions: impl IntoIterator<Item = PartitionIndex>,
) -> Result<Vec<(PartitionIndex, u64)>, Refusal> {
    let mut survey = KeySurvey::begin(keyspace, lane)?;
    let populated = partitions.into_iter().filter(|it| keyspace.population(*it) > 0);
    let sizes = populated.map(|partition| {
        let mut bytes = 0;
        survey.visit(partition, |entry| bytes += usage(entry) as u64)?;
        Ok((partition, bytes))
    });
    sizes.collect()
}
