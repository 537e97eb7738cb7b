//! The file of the snapshot: the map as it was behind an entry of the log.
//!
//! Invariant: the file is replaced by a later one only, and is on disk before the log is cut.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use base::crc::crc64;
use quorum::wire::{Fields, WireError};

use crate::codec::Coded;
use crate::folder::Folder;
use crate::log_store::on_disk;
use crate::state_machine::MapState;
use crate::types::{LogId, SnapshotMeta};

/// The name of the file.
const NAME: &str = "map.snapshot";

/// What the file begins with; the last byte is the version.
const MAGIC: &[u8; 9] = b"APUSMAPS\x01";

/// Where checksums begin.
const SEED: u64 = 0x6d61_705f_736e_6170;

/// A snapshot.
pub(crate) type Snapshot = (SnapshotMeta, MapState);

/// The file, and what it holds.
#[derive(Clone)]
pub(crate) struct SnapshotFile {
    folder: Folder,
    last: Arc<Mutex<Option<Snapshot>>>,
}

impl SnapshotFile {
    /// The file in a folder, if there is one.
    pub(crate) fn open(folder: &Folder) -> io::Result<SnapshotFile> {
        let last = match folder.read(NAME)? {
            None => None,
            Some(bytes) => Some(decode(&bytes).map_err(|error| {
                folder.damaged(NAME, &format!("the snapshot is not understood: {error}"))
            })?),
        };
        Ok(SnapshotFile { folder: folder.clone(), last: Arc::new(Mutex::new(last)) })
    }

    /// The snapshot.
    pub(crate) fn last(&self) -> Option<Snapshot> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the file, unless it is that of a later snapshot.
    pub(crate) async fn write(&self, snapshot: Snapshot) -> io::Result<()> {
        let own = self.clone();
        on_disk(move || {
            // The lock is held while the file is written: of two threads one comes after the other.
            let Ok(mut last) = own.last.lock() else {
                return Err(io::Error::other("a thread that wrote the snapshot has panicked"));
            };
            if last.as_ref().is_some_and(|last| last.0.last_log_id >= snapshot.0.last_log_id) {
                return Ok(());
            }
            own.folder.replace(NAME, &encode(&snapshot))?;
            *last = Some(snapshot);
            Ok(())
        })
        .await
    }

    /// Whether the log may have been cut up to here.
    pub(crate) fn check(&self, purged: Option<LogId>) -> io::Result<()> {
        let last = self.last().and_then(|(meta, _)| meta.last_log_id);
        if purged > last {
            return Err(self.folder.damaged(NAME, "the snapshot that the log was cut for is gone"));
        }
        Ok(())
    }
}

fn encode((meta, state): &Snapshot) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    meta.put(&mut bytes);
    state.put(&mut bytes);
    let checksum = crc64(SEED, &bytes);
    bytes.extend_from_slice(&checksum.to_be_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Result<Snapshot, WireError> {
    let (body, checksum) = bytes.split_last_chunk::<8>().ok_or(WireError::Cut)?;
    if u64::from_be_bytes(*checksum) != crc64(SEED, body) {
        return Err(WireError::Value("checksum"));
    }
    let body = body.strip_prefix(MAGIC).ok_or(WireError::Value("version"))?;
    let mut fields = Fields::new(body);
    let snapshot = (SnapshotMeta::read(&mut fields)?, MapState::read(&mut fields)?);
    fields.end().map(|()| snapshot)
}
