//! All that a server has, to be compared.
//!
//! Invariant: what a replica need not have as its primary has it is left out.

use base::UnixMillis;
use engine::runtime::background::wait_for;
use keyspace::{Acquisition, EntryRef, PARTITIONS, PartitionIndex, Tx, TxOptions};
use persist::contents::{self, Extent};
use persist::rdb::value::ValueRef;

use crate::durability::Durability;

/// An entry: database, key, value and deadline.
pub type Item = (usize, Vec<u8>, Vec<Vec<u8>>, Option<UnixMillis>);

/// What DEBUG DIGEST looks at.
fn value_of(entry: EntryRef<'_>) -> Vec<Vec<u8>> {
    let (value, mut elements) = (ValueRef::of(entry), Vec::new());
    let show = |parts: &[&[u8]]| elements.push(parts.join(&b"/"[..]));
    contents::for_each(&value, Extent::Replicated, show);
    if !contents::is_ordered(&value) {
        elements.sort();
    }
    elements.push(entry.kind().name().as_bytes().to_vec());
    elements
}

/// All that a server has.
pub fn data_of(server: &'static Durability) -> Vec<Item> {
    let mut world = Acquisition::of_world(server.keyspace);
    wait_for(&mut world);
    let mut tx = Tx::begin(world, TxOptions { heavy: true, ..TxOptions::internal(0, 0) });
    let mut items = Vec::new();
    for database in 0..server.keyspace.database_count() {
        tx.switch_database(database);
        for partition in 0..PARTITIONS as PartitionIndex {
            let mut position = Some(0);
            while let Some(from) = position {
                position = tx.walk(partition, from, usize::MAX, |entry| {
                    items.push((database, entry.key().to_vec(), value_of(entry), entry.deadline()));
                });
            }
        }
    }
    items.sort();
    items
}
