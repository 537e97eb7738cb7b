//! The keyspace room: entries in partitions, the locks around them, and the transaction that is
//! the only way in.
//!
//! The keyspace knows nothing of protocols, sockets or files. `unsafe` is confined to `entry` (the
//! bytes of a key and its value) and `lock` (the right to touch a partition).

#![deny(unsafe_code)]

mod big_keys;
mod blocking_keys;
mod clock;
mod clock_renewal;
mod cluster_compatibility;
mod compaction;
mod containers;
mod counters;
mod critical_section;
mod databases;
#[allow(unsafe_code, reason = "the bytes of entries are laid out by hand")]
mod entry;
mod feature_level;
mod ghost_list;
mod hash_slots;
mod hooks;
mod importing;
mod keyspace;
mod lazy_free;
mod local_deadlines;
mod located;
#[allow(unsafe_code, reason = "a lock is what makes shared memory exclusive")]
mod lock;
mod options;
mod patience;
mod populated_partitions;
mod prefix_index;
mod refusal;
mod settings;
mod sizes;
mod stall_stats;
mod sync;
mod tables;
mod tx;
mod waiting;
mod walk;
mod watch;
mod world;

pub use big_keys::{BigKeyMetric, BigKeys, elements, usage};
pub use blocking_keys::BlockingKeys;
pub use clock::{AccessClock, AccessPolicy, ClockJump};
pub use cluster_compatibility::ClusterCompatibility;
pub use containers::{ContainerSettings, Threshold};
pub use counters::{Count, Counters};
pub use critical_section::in_critical_section;
pub use entry::{Encoding, EntryBox, EntryRef, INLINE_MAX, ItemNotes, Kind, NewText, Text};
pub use feature_level::FeatureLevel;
pub use hash_slots::SlotFlags;
pub use importing::ImportingPartitions;
pub use keyspace::{EventMask, Keyspace, Location, PARTITIONS};
pub use lazy_free::LazyFreeQueue;
pub use local_deadlines::{LocalDeadlines, LocalKey};
pub use located::LocatedKeys;
pub use lock::acquisition::{Acquisition, LockScope, PartitionSet};
pub use lock::held_locks::HeldLocks;
pub use lock::partition::{Lsn, PartitionIndex};
pub use options::Options;
pub use patience::{Patience, WaitReason};
pub use prefix_index::PrefixNumber;
pub use refusal::{BUSY, EmptyReply, Refusal, Wait};
pub use settings::Settings;
pub use sizes::Sizes;
pub use stall_stats::{HOLD_LIMITS_US, StallSnapshot, StallStats};
pub use structs::{arena, heap};
pub use tx::{
    CommandStart, ContainerOutcome, Effects, Event, EventClass, Evicted, EvictionNeed,
    EvictionOrder, EvictionPolicy, EvictionSample, Lifetime, MEMBER_EVENTS, Propagation,
    ReadPhaseResult, Swept, Tx, TxOptions, UndoPoint,
};
pub use waiting::{Cancelled, QueuedWaiter, WaitQueue, Waiter};
pub use walk::{WALKS, Walk, WalkSink};
pub use watch::{ChangeInterest, Watch};
pub use world::{HEAVY_TRANSACTIONS, HeavyPass, LANES};

/// What a command may cost before it is handed to a heavy-work thread, in nanoseconds.
pub const WORKER_BUDGET_NS: u64 = 200_000;

/// After this many rounds of widening a transaction takes the world.
pub const WIDENINGS_MAX: u32 = 3;

#[cfg(test)]
#[cfg(feature = "shuttle")]
mod tests;
