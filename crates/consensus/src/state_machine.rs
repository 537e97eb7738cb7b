//! The map as openraft's state machine.
//!
//! Invariant: what is published is the map behind an entry that is committed, and never an earlier
//! one than before.

use std::io;
use std::sync::Arc;

use base::crc::crc64;
use openraft::storage::RaftStateMachine;
use openraft::{AnyError, EntryPayload, OptionalSend, RaftSnapshotBuilder, StorageIOError};
use quorum::wire::{Fields, WireError, put_u64};
use quorum::{ClusterMap, MapRefusal};
use tokio::sync::watch;

use crate::codec::{Coded, snapshot_meta};
use crate::snapshot::SnapshotFile;
use crate::types::{Entry, LogId, MapRaft, SnapshotMeta, StorageError, StoredMembership};

/// What entries have made.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MapState {
    /// The map.
    pub map: Arc<ClusterMap>,
    /// A checksum of all entries up to here. Where two nodes have applied as many and this is not
    /// the same, one of them is broken.
    pub digest: u64,
}

impl Coded for MapState {
    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.digest);
        self.map.encode(out);
    }

    fn read(fields: &mut Fields<'_>) -> Result<MapState, WireError> {
        let digest = fields.u64()?;
        Ok(MapState { map: Arc::new(ClusterMap::decode(fields)?), digest })
    }
}

/// The map, and how much of the log is in it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AppliedMap {
    /// How many entries of the log were applied.
    pub entries: u64,
    /// What they have made.
    pub state: MapState,
}

/// The state machine.
pub(crate) struct StateMachine {
    applied: Option<LogId>,
    membership: StoredMembership,
    state: MapState,
    snapshot: SnapshotFile,
    published: watch::Sender<AppliedMap>,
}

/// The state of which a snapshot is to be.
pub(crate) struct SnapshotBuilder {
    meta: SnapshotMeta,
    state: MapState,
    snapshot: SnapshotFile,
}

impl StateMachine {
    /// The state machine as the snapshot has it.
    pub(crate) fn new(
        snapshot: SnapshotFile,
        published: watch::Sender<AppliedMap>,
    ) -> StateMachine {
        let (meta, state) = snapshot.last().unwrap_or_default();
        let (applied, membership) = (meta.last_log_id, meta.last_membership);
        let machine = StateMachine { applied, membership, state, snapshot, published };
        machine.publish();
        machine
    }

    fn publish(&self) {
        let entries = self.applied.map_or(0, |applied| applied.index + 1);
        self.published.send_replace(AppliedMap { entries, state: self.state.clone() });
    }

    fn take(&mut self, entry: &Entry) -> Result<(), MapRefusal> {
        let mut bytes = Vec::new();
        entry.put(&mut bytes);
        self.state.digest = crc64(self.state.digest, &bytes);
        self.applied = Some(entry.log_id);
        match &entry.payload {
            EntryPayload::Blank => Ok(()),
            EntryPayload::Normal(change) => Arc::make_mut(&mut self.state.map).apply(change),
            EntryPayload::Membership(membership) => {
                self.membership = StoredMembership::new(Some(entry.log_id), membership.clone());
                Ok(())
            }
        }
    }
}

impl RaftSnapshotBuilder<MapRaft> for SnapshotBuilder {
    async fn build_snapshot(&mut self) -> Result<openraft::Snapshot<MapRaft>, StorageError> {
        let (meta, state) = (self.meta.clone(), self.state.clone());
        self.snapshot.write((meta.clone(), state.clone())).await.map_err(unwritten)?;
        Ok(openraft::Snapshot { meta, snapshot: Box::new(state) })
    }
}

impl RaftStateMachine<MapRaft> for StateMachine {
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Result<(), MapRefusal>>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let effects = entries.into_iter().map(|entry| self.take(&entry)).collect();
        self.publish();
        Ok(effects)
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        let meta = snapshot_meta(self.applied, self.membership.clone());
        SnapshotBuilder { meta, state: self.state.clone(), snapshot: self.snapshot.clone() }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<MapState>, StorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<MapState>,
    ) -> Result<(), StorageError> {
        let installed = (meta.clone(), (*snapshot).clone());
        self.snapshot.write(installed).await.map_err(unwritten)?;
        (self.applied, self.membership) = (meta.last_log_id, meta.last_membership.clone());
        self.state = *snapshot;
        self.publish();
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<openraft::Snapshot<MapRaft>>, StorageError> {
        let last = self.snapshot.last();
        Ok(last.map(|(meta, state)| openraft::Snapshot { meta, snapshot: Box::new(state) }))
    }
}

fn unwritten(error: io::Error) -> StorageError {
    StorageIOError::write_snapshot(None, AnyError::error(error)).into()
}
