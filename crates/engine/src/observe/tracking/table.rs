//! The table of keys that tracked clients have read, and of these clients.
//!
//! Invariant: a key is entered and taken out by the holder of its lock, but for what makes room or
//! empties the table; so it is there for each client that was not told since it read the key.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use keyspace::{Keyspace, PartitionIndex};
use smallvec::SmallVec;

use crate::clients::client_id::ClientId;

/// The clients that have read a key, by rising id.
pub(super) type KeyReaders = SmallVec<[ClientId; 1]>;

/// Enough for the threads there may be not to meet.
const SHARDS: usize = 256;

/// The keys, by partition.
pub(super) struct TrackingTable {
    shards: Box<[TableShard]>,
    /// How many keys there are.
    size: AtomicUsize,
    /// Where room is made next.
    hand: AtomicUsize,
}

#[derive(Default)]
#[repr(align(64))]
struct TableShard(Mutex<Part>);

#[derive(Default)]
struct Part {
    keys: HashMap<Box<[u8]>, KeyReaders>,
    /// How many readers they have together.
    items: usize,
}

impl Default for TrackingTable {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| TableShard::default()).collect();
        Self { shards, size: AtomicUsize::new(0), hand: AtomicUsize::new(0) }
    }
}

impl TrackingTable {
    /// Enters a reader of a key of a partition.
    pub(super) fn add(&self, partition: PartitionIndex, key: &[u8], reader: ClientId) {
        let mut part = self.shards[usize::from(partition) % SHARDS].part();
        let Part { keys, items } = &mut *part;
        // Mostly the key is there, and nothing is to be copied.
        let readers = match keys.get_mut(key) {
            Some(readers) => readers,
            None => {
                self.size.fetch_add(1, Ordering::Relaxed);
                keys.entry(key.into()).or_default()
            }
        };
        if let Err(place) = readers.binary_search(&reader) {
            readers.insert(place, reader);
            *items += 1;
        }
    }

    /// Takes a key of a partition out.
    pub(super) fn take(&self, partition: PartitionIndex, key: &[u8]) -> KeyReaders {
        let readers = self.shards[usize::from(partition) % SHARDS].part().remove(key);
        // No key is entered for no reader.
        self.size.fetch_sub(usize::from(!readers.is_empty()), Ordering::Relaxed);
        readers
    }

    /// Takes out so many keys, whichever they are.
    pub(super) fn take_any(&self, count: usize) -> Vec<(Box<[u8]>, KeyReaders)> {
        let mut taken = Vec::with_capacity(count);
        for _ in 0..SHARDS {
            if taken.len() == count {
                break;
            }
            let hand = self.hand.fetch_add(1, Ordering::Relaxed);
            let mut part = self.shards[hand % SHARDS].part();
            let left = count - taken.len();
            let names: Vec<_> = part.keys.keys().take(left).cloned().collect();
            self.size.fetch_sub(names.len(), Ordering::Relaxed);
            taken.extend(names.into_iter().map(|key| {
                let readers = part.remove(&key);
                (key, readers)
            }));
        }
        taken
    }

    /// Forgets all keys.
    pub(super) fn clear(&self, keyspace: &Keyspace) {
        for shard in &self.shards {
            let part = std::mem::take(&mut *shard.part());
            self.size.fetch_sub(part.keys.len(), Ordering::Relaxed);
            if !part.keys.is_empty() {
                keyspace.lazy_free(part);
            }
        }
    }

    /// How many keys there are, now or a moment ago.
    pub(super) fn len(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// How many keys there are, and how many readers they have together.
    pub(super) fn sizes(&self) -> (usize, usize) {
        if self.len() == 0 {
            return (0, 0);
        }
        let sizes = self.shards.iter().map(|shard| {
            let part = shard.part();
            (part.keys.len(), part.items)
        });
        sizes.fold((0, 0), |(keys, items), part| (keys + part.0, items + part.1))
    }
}

impl TableShard {
    fn part(&self) -> MutexGuard<'_, Part> {
        self.0.lock().expect("no critical section here panics")
    }
}

impl Part {
    fn remove(&mut self, key: &[u8]) -> KeyReaders {
        let readers = self.keys.remove(key).unwrap_or_default();
        self.items -= readers.len();
        readers
    }
}

#[cfg(test)]
mod tests {
    use super::TrackingTable;

    #[test]
    fn a_key_has_each_reader_once_and_is_taken_with_all_of_them() {
        let table = TrackingTable::default();
        for reader in [7, 3, 7, 5] {
            table.add(1, b"k", reader);
        }
        table.add(2, b"l", 7);
        assert_eq!(table.sizes(), (2, 4));
        assert_eq!(table.take(1, b"k").as_slice(), [3, 5, 7]);
        assert_eq!(table.take(1, b"k").as_slice(), [0; 0]);
        assert_eq!(table.sizes(), (1, 1));
    }

    #[test]
    fn room_is_made_for_as_many_as_asked() {
        let table = TrackingTable::default();
        for partition in 0..1000 {
            table.add(partition, &partition.to_be_bytes(), 1);
        }
        assert_eq!(table.take_any(990).len(), 990);
        assert_eq!(table.sizes(), (10, 10));
        assert_eq!(table.take_any(990).len(), 10);
        assert_eq!(table.sizes(), (0, 0));
    }
}
