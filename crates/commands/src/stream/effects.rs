//! What the journal gets for options that came late: commands that every server with streams knows,
//! so that a replica of any version has the same entries, and the same ones pending.
//!
//! Invariant: no command is longer than a client's may be.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyspace::Tx;
use structs::stream::{EntryId, Stream};

use super::ids::IdText;

/// So many IDs stand in one command at most.
const IDS_AT_ONCE: usize = 1024;

/// What a stream says of which nothing was ever deleted.
const NONE_DELETED: &[u8] = b"0-0";

/// Entries that groups had pending and have no more, by group.
#[derive(Default)]
pub(super) struct DroppedPending(BTreeMap<Arc<[u8]>, Vec<EntryId>>);

impl DroppedPending {
    pub(super) fn note(&mut self, group: Arc<[u8]>, id: EntryId) {
        self.0.entry(group).or_default().push(id);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Says of each group what it has no more.
    pub(super) fn journal(&self, tx: &mut Tx, key: &[u8]) {
        for (group, ids) in &self.0 {
            journal_ids(tx, &[b"XACK", key, group], ids);
        }
    }
}

/// Says which entries were deleted one by one.
pub(super) fn journal_deleted(tx: &mut Tx, key: &[u8], ids: &[EntryId]) {
    journal_ids(tx, &[b"XDEL", key], ids);
}

fn journal_ids(tx: &mut Tx, head: &[&[u8]], ids: &[EntryId]) {
    if !tx.effects().is_recorded() {
        return;
    }
    for ids in ids.chunks(IDS_AT_ONCE) {
        let ids: Vec<IdText> = ids.iter().map(|id| IdText::new(*id)).collect();
        let words = head.iter().copied().chain(ids.iter().map(IdText::as_bytes));
        tx.effects_mut().instead(&words.collect::<Vec<_>>());
    }
}

/// What a trim took out from between entries that stay, for the journal.
pub(super) struct TrimmedGaps {
    ids: Vec<EntryId>,
    /// What XSETID is told where deleting them one by one counts otherwise than the trim did.
    counters: Option<[Vec<u8>; 3]>,
}

impl TrimmedGaps {
    /// Of these entries, which are gone, those behind the first one that stays.
    pub(super) fn of(stream: &Stream, gone: &[EntryId]) -> Self {
        let first = if stream.is_empty() { EntryId::MAX } else { stream.first_id() };
        let ids = gone[gone.partition_point(|id| *id < first)..].to_vec();
        let most = stream.max_deleted_id();
        let counts_otherwise = ids.last().is_some_and(|last| *last > most);
        let counters = counts_otherwise.then(|| {
            let added = stream.entries_added().to_string().into_bytes();
            [stream.last_id().to_string().into_bytes(), added, most.to_string().into_bytes()]
        });
        Self { ids, counters }
    }

    pub(super) fn journal(&self, tx: &mut Tx, key: &[u8]) {
        journal_deleted(tx, key, &self.ids);
        if let Some([last, added, deleted]) = &self.counters
            && tx.tells_redis_7()
        {
            let mut set = |deleted: &[u8]| {
                let words: [&[u8]; 7] =
                    [b"XSETID", key, last, b"ENTRIESADDED", added, b"MAXDELETEDID", deleted];
                tx.effects_mut().instead(&words);
            };
            // A real server does not take the word that none was deleted: before it comes the
            // lowest ID, with which it counts what groups have still to read as we do.
            if deleted == NONE_DELETED {
                set(b"0-1");
            }
            set(deleted);
        }
    }
}
