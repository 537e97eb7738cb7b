//! The log of openraft: in memory as far as the snapshot does not have it, and in its file.
//!
//! Invariants: what the engine hears of as written is on disk; entries follow each other without a
//! gap. The file is written on a thread for what blocks, so that heartbeats do not wait for a disk.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard};

use cluster::NodeId;
use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{AnyError, LogState, OptionalSend, RaftLogReader, StorageIOError};

use crate::folder::Folder;
use crate::log_file::{Durable, LogFile};
use crate::record::Record;
use crate::types::{Entry, LogId, MapRaft, StorageError, Vote};

/// The log.
pub(crate) struct LogStore {
    kept: Arc<Mutex<Kept>>,
    file: Arc<Mutex<LogFile>>,
}

/// Reads entries of the log.
pub(crate) struct LogReader(Arc<Mutex<Kept>>);

/// What the file says, in memory.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Kept {
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
    entries: BTreeMap<u64, Entry>,
}

impl Kept {
    /// Takes a record in, if it can follow what is here.
    pub(crate) fn take(&mut self, record: Record) -> Result<(), &'static str> {
        match record {
            Record::Vote(vote) => self.vote = Some(vote),
            Record::Entry(entry) => {
                let next = self.last().map_or(0, |last| last.index + 1);
                if entry.log_id.index != next {
                    return Err("an entry follows that is not the next one");
                }
                self.entries.insert(next, entry);
            }
            Record::Truncated(index) => drop(self.entries.split_off(&index)),
            Record::Purged(last) => {
                self.entries = self.entries.split_off(&(last.index + 1));
                self.purged = Some(last);
            }
            Record::Committed(last) => self.committed = Some(last),
        }
        Ok(())
    }

    fn last(&self) -> Option<LogId> {
        self.entries.last_key_value().map(|(_, entry)| entry.log_id).or(self.purged)
    }

    /// The records of a file that has this and nothing else.
    fn records(&self) -> Vec<Record> {
        let entries = self.entries.values().cloned().map(Record::Entry);
        let vote = self.vote.map(Record::Vote);
        let purged = self.purged.map(Record::Purged);
        let committed = self.committed.map(Record::Committed);
        vote.into_iter().chain(purged).chain(entries).chain(committed).collect()
    }
}

impl LogStore {
    /// The log of a node. `log` hears of what was cut.
    pub(crate) fn open(folder: &Folder, node: NodeId, log: &dyn Fn(&str)) -> io::Result<LogStore> {
        let (file, records) = LogFile::open(folder, node, log)?;
        let mut kept = Kept::default();
        for record in records {
            kept.take(record).map_err(|what| folder.damaged("map.log", what))?;
        }
        Ok(LogStore { kept: Arc::new(Mutex::new(kept)), file: Arc::new(Mutex::new(file)) })
    }

    /// Up to where the entries are in the snapshot alone.
    pub(crate) fn purged(&self) -> Option<LogId> {
        lock(&self.kept).purged
    }

    /// Has the file do something, on a thread for that.
    async fn write(
        &self,
        act: impl FnOnce(&mut LogFile) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let file = Arc::clone(&self.file);
        on_disk(move || match file.lock() {
            Ok(mut file) => act(&mut file),
            Err(_) => Err(io::Error::other("a thread that wrote the log has panicked")),
        })
        .await
    }

    async fn append_record(&self, record: Record, durable: Durable) -> io::Result<()> {
        lock(&self.kept).take(record.clone()).map_err(io::Error::other)?;
        self.write(move |file| file.append(&[record], durable)).await
    }
}

/// Does what waits for a disk, on a thread for that.
pub(crate) async fn on_disk<T: Send + 'static>(
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(act).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error.to_string())))
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().expect("no critical section here panics")
}

async fn read(
    kept: &Mutex<Kept>,
    range: impl RangeBounds<u64>,
) -> Result<Vec<Entry>, StorageError> {
    let bounds = (range.start_bound().cloned(), range.end_bound().cloned());
    // A range that ends before it begins is no range for a tree.
    let kept = lock(kept);
    Ok(kept
        .entries
        .values()
        .filter(|entry| bounds.contains(&entry.log_id.index))
        .cloned()
        .collect())
}

impl RaftLogReader<MapRaft> for LogReader {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, StorageError> {
        read(&self.0, range).await
    }
}

impl RaftLogReader<MapRaft> for LogStore {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, StorageError> {
        read(&self.kept, range).await
    }
}

impl RaftLogStorage<MapRaft> for LogStore {
    type LogReader = LogReader;

    async fn get_log_state(&mut self) -> Result<LogState<MapRaft>, StorageError> {
        let kept = lock(&self.kept);
        Ok(LogState { last_purged_log_id: kept.purged, last_log_id: kept.last() })
    }

    async fn get_log_reader(&mut self) -> LogReader {
        LogReader(Arc::clone(&self.kept))
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        let written = self.append_record(Record::Vote(*vote), Durable::Now).await;
        written.map_err(|error| StorageIOError::write_vote(AnyError::error(error)).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        Ok(lock(&self.kept).vote)
    }

    /// A node that starts again goes on from there before it has a leader. The file has the entries
    /// before it says so, so what a crash takes is the saying first.
    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), StorageError> {
        let Some(committed) = committed else { return Ok(()) };
        let written = self.append_record(Record::Committed(committed), Durable::Later).await;
        written.map_err(|error| StorageIOError::write_logs(AnyError::error(error)).into())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, StorageError> {
        Ok(lock(&self.kept).committed)
    }

    /// All entries of a call are written at once, and synced once.
    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<MapRaft>,
    ) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let records: Vec<Record> = entries.into_iter().map(Record::Entry).collect();
        let taken = {
            let mut kept = lock(&self.kept);
            records.iter().try_for_each(|record| kept.take(record.clone()))
        };
        taken.map_err(|what| StorageIOError::write_logs(AnyError::error(what)))?;
        let written = self.write(move |file| file.append(&records, Durable::Now)).await;
        callback.log_io_completed(written);
        Ok(())
    }

    async fn truncate(&mut self, from: LogId) -> Result<(), StorageError> {
        let written = self.append_record(Record::Truncated(from.index), Durable::Now).await;
        written.map_err(|error| StorageIOError::write_logs(AnyError::error(error)).into())
    }

    /// The file goes, and one that has the rest takes its place.
    async fn purge(&mut self, last: LogId) -> Result<(), StorageError> {
        let records = {
            let mut kept = lock(&self.kept);
            let taken = kept.take(Record::Purged(last));
            taken
                .map(|()| kept.records())
                .map_err(|what| StorageIOError::write_logs(AnyError::error(what)))?
        };
        let written = self.write(move |file| file.replace(&records)).await;
        written.map_err(|error| StorageIOError::write_logs(AnyError::error(error)).into())
    }
}
