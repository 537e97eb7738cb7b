//! How long keys have to live on average, by a sample.
//!
//! Invariant: the sample takes a bounded while whatever the number of keys, and waits for no lock.

use base::Random;
use engine::lane::Lane;
use keyspace::{PARTITIONS, Tx, TxOptions};

/// Keys with a deadline that are enough to tell.
const ENOUGH: u64 = 200;

/// Partitions that are looked at, and entries in each.
const MOST_PARTITIONS: usize = 1024;
const ENTRIES: usize = 32;

/// For each database the mean time that its keys with a deadline have left, in milliseconds; 0
/// where the sample has none.
pub(super) fn means(lane: &Lane) -> Vec<i64> {
    let keyspace = lane.shared.keyspace;
    let mut sums = vec![(0_i128, 0_u64); keyspace.database_count()];
    let wanted: Vec<usize> =
        (0..sums.len()).filter(|&database| keyspace.volatile_len(database) > 0).collect();
    if wanted.is_empty() || !lane.enter() {
        return vec![0; sums.len()];
    }
    // Every partition that may hold a deadline, however late, from a random one on.
    let start = Random::from_entropy().below(PARTITIONS as u64) as u16;
    let (before, behind): (Vec<_>, Vec<_>) =
        keyspace.partitions_due(i64::MAX - 1).partition(|&partition| partition < start);
    for partition in behind.into_iter().chain(before).take(MOST_PARTITIONS) {
        let Some(acquisition) = keyspace.try_acquire(partition) else { continue };
        let options = TxOptions::internal(lane.number, lane.now_ms());
        let mut tx = Tx::begin(acquisition, options);
        for &database in &wanted {
            tx.switch_database(database);
            let (sum, count) = &mut sums[database];
            tx.walk(partition, 0, ENTRIES, |entry| {
                if let Some(deadline) = entry.deadline() {
                    *sum += i128::from(deadline) - i128::from(options.now);
                    *count += 1;
                }
            });
        }
        if wanted.iter().all(|&database| sums[database].1 >= ENOUGH) {
            break;
        }
    }
    let mean = |(sum, count): (i128, u64)| (sum / i128::from(count.max(1))) as i64;
    sums.into_iter().map(mean).collect()
}
