//! Compaction: entries and tables move out of pages of the arena that are being emptied.
//!
//! An entry's address is known to one word of its partition's table, and to nothing else without
//! the partition's lock: readers that go on without it hold shares of values, walks are given
//! copies, and what left a table has an owner of its own. So the holder of the lock may move
//! entries.
//!
//! Invariant: a step holds one partition, moves a bounded number of entries and changes no data.

use crate::counters::Count;
use crate::lock::acquisition::Acquisition;
use crate::lock::partition::PartitionIndex;

impl Acquisition {
    /// One step in a held partition: looks at `at_least` entries from `from` on, a physical
    /// database and a position there. Returns where to go on; `None` when all of the partition
    /// was seen.
    pub fn compact(
        &mut self,
        lane: usize,
        partition: PartitionIndex,
        from: (usize, u64),
        at_least: usize,
    ) -> Option<(usize, u64)> {
        let counters = self.keyspace().lane(lane);
        let content = self.content_mut(partition).expect("a step holds its partition");
        let (database, position) = from;
        let (mut moved, mut kept) = (0, 0);
        let next = content.tables.get_mut(database).and_then(|table| {
            table.relocate(position, at_least, |is_moved| {
                moved += i64::from(is_moved);
                kept += i64::from(!is_moved);
            })
        });
        counters.count(Count::Moved, moved);
        counters.count(Count::Kept, kept);
        content.tables.next_of_walk(database, next)
    }
}
