//! Access clocks are looked at before they go round.
//!
//! Invariant: a step holds one partition, looks at a bounded number of entries and changes nothing
//! but what says how long they were not used.

use crate::clock::{AccessClock, ClockJump};
use crate::lock::acquisition::Acquisition;
use crate::lock::partition::PartitionIndex;

impl Acquisition {
    /// One step in a held partition: looks at `at_least` entries from `from` on, a physical
    /// database and a position there. Returns where to go on; `None` when all of the partition
    /// was seen.
    pub fn renew_clocks(
        &mut self,
        access: &AccessClock,
        clock_jump: Option<ClockJump>,
        partition: PartitionIndex,
        from: (usize, u64),
        at_least: usize,
    ) -> Option<(usize, u64)> {
        let tables = &self.content(partition).expect("a step holds its partition").tables;
        let (database, position) = from;
        let next = tables.get(database).and_then(|table| {
            table.walk_ahead(position, at_least, false, |_, _| {});
            table.walk(position, at_least, |entry| {
                if let Some(clock) = access.renewed(entry.access_clock(), clock_jump) {
                    entry.set_access_clock(clock);
                }
            })
        });
        tables.next_of_walk(database, next)
    }
}
