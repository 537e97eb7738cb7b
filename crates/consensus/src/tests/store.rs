//! The log of openraft against a plain one: what a call has done a crash does not undo.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base::Random;
use cluster::NodeId;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::{CommittedLeaderId, EntryPayload, LogState, RaftLogReader};
use persist::storage::simulated::SimulatedDisk;

use crate::folder::Folder;
use crate::log_store::LogStore;
use crate::types::{Entry, LogId, PeerId, Vote};

/// What the log must be.
#[derive(Default)]
struct Plain {
    vote: Option<Vote>,
    purged: Option<LogId>,
    entries: BTreeMap<u64, Entry>,
    committed: Option<LogId>,
    term: u64,
}

impl Plain {
    fn last(&self) -> Option<LogId> {
        self.entries.last_key_value().map(|(_, entry)| entry.log_id).or(self.purged)
    }

    /// Does one thing to both.
    async fn step(&mut self, store: &mut LogStore, random: &mut Random) {
        let next = self.last().map_or(0, |last| last.index + 1);
        let kept = self.purged.map_or(0, |last| last.index + 1);
        let open = self.committed.map_or(kept, |last| kept.max(last.index + 1));
        match random.below(8) {
            0 => {
                self.term += 1;
                let vote = Vote::new(self.term, peer());
                store.save_vote(&vote).await.expect("the disk is fine");
                self.vote = Some(vote);
            }
            1..=3 => {
                let new: Vec<Entry> = (next..next + random.below(5) + 1)
                    .map(|index| entry(self.term, index))
                    .collect();
                store.blocking_append(new.clone()).await.expect("the disk is fine");
                self.entries.extend(new.into_iter().map(|entry| (entry.log_id.index, entry)));
            }
            // What is committed is never cut off.
            4 if next > open => {
                let from = open + random.below(next - open);
                let first = self.entries[&from].log_id;
                store.truncate(first).await.expect("the disk is fine");
                self.entries.split_off(&from);
            }
            5 if next > kept => {
                let upto = kept + random.below(next - kept);
                let last = self.entries[&upto].log_id;
                store.purge(last).await.expect("the disk is fine");
                self.entries = self.entries.split_off(&(upto + 1));
                self.purged = Some(last);
            }
            // A snapshot goes beyond the end.
            6 if random.below(4) == 0 => {
                let last = entry(self.term, next + random.below(3)).log_id;
                store.purge(last).await.expect("the disk is fine");
                self.entries.clear();
                self.purged = Some(last);
            }
            _ => {
                store.save_committed(self.last()).await.expect("the disk is fine");
                self.committed = self.last();
            }
        }
    }

    async fn check(&self, store: &mut LogStore, seed: u64) {
        let state = LogState { last_purged_log_id: self.purged, last_log_id: self.last() };
        assert_eq!(store.get_log_state().await, Ok(state), "seed {seed}");
        assert_eq!(store.read_vote().await, Ok(self.vote), "seed {seed}");
        let entries: Vec<Entry> = self.entries.values().cloned().collect();
        assert_eq!(store.try_get_log_entries(..).await, Ok(entries.clone()), "seed {seed}");
        let mut reader = store.get_log_reader().await;
        assert_eq!(reader.try_get_log_entries(0..=u64::MAX).await, Ok(entries), "seed {seed}");
        // What is committed may be forgotten, and is never made up.
        let committed = store.read_committed().await.expect("the log is in memory");
        assert!(committed <= self.committed.max(self.purged), "seed {seed}: {committed:?}");
    }
}

fn peer() -> PeerId {
    PeerId(NodeId::parse(&[b'a'; 40]).expect("forty letters"))
}

fn entry(term: u64, index: u64) -> Entry {
    let log_id = LogId::new(CommittedLeaderId::new(term, peer()), index);
    Entry { log_id, payload: EntryPayload::Blank }
}

#[tokio::test]
async fn what_a_call_has_done_outlives_a_crash() {
    for seed in 0..60 {
        let disk = SimulatedDisk::new();
        let open = || {
            let folder = Folder::open(Arc::new(disk.clone()), Path::new("map"));
            let store = LogStore::open(&folder.expect("a folder is made"), peer().0, &|_| {});
            store.unwrap_or_else(|error| panic!("seed {seed}: {error}"))
        };
        let mut random = Random::from_seed(seed);
        let (mut store, mut plain) = (open(), Plain::default());
        for _ in 0..30 {
            plain.step(&mut store, &mut random).await;
            plain.check(&mut store, seed).await;
            if random.below(3) == 0 {
                disk.crash(random.next_u64());
                store = open();
                plain.check(&mut store, seed).await;
            }
        }
    }
}
