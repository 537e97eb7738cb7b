//! The commands of a cluster that are about its data: CLUSTERSCAN, CLUSTER FLUSHSLOT.
//!
//! Invariant: in a node of a cluster the partition of a key is its hash slot, so a slot is walked
//! without a look at any other key; elsewhere the commands are refused.

mod flush_slot;
mod scan;

use base::number::parse_i64;
use keyspace::{PARTITIONS, PartitionIndex, Refusal};

use crate::DataCommand;

pub(crate) use flush_slot::FLUSHSLOT;

/// All commands of the family that stand below no container.
pub const COMMANDS: &[&DataCommand] = &[&scan::CLUSTERSCAN];

const DISABLED: Refusal = Refusal::error("ERR This instance has cluster support disabled");

/// A slot, as the partition of its keys.
fn slot(word: &[u8]) -> Result<PartitionIndex, Refusal> {
    const NO_SLOT: Refusal = Refusal::error("ERR Invalid or out of range slot");
    let slot = parse_i64(word).and_then(|number| PartitionIndex::try_from(number).ok());
    slot.filter(|slot| usize::from(*slot) < PARTITIONS).ok_or(NO_SLOT)
}
