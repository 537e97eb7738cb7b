//! The keyspace room: entries in partitions, the locks around them, and the transaction that is
//! the only way in.
//!
//! The keyspace knows nothing of protocols, sockets or files. `unsafe` is confined to `entry` (the
//! bytes of a key and its value) and `lock` (who may touch a partition).

#![deny(unsafe_code)]

mod aging;
mod awaited;
mod big_keys;
mod clock;
mod compaction;
mod containers;
mod counters;
mod critical_section;
mod databases;
mod demand;
#[allow(unsafe_code, reason = "the bytes of entries are laid out by hand")]
mod entry;
mod garbage;
mod ghost_list;
mod keyspace;
mod local_deadlines;
mod located;
#[allow(unsafe_code, reason = "a lock is what makes shared memory exclusive")]
mod lock;
mod options;
mod outside;
mod patience;
mod populated;
mod refusal;
mod sizes;
mod stall_stats;
mod sync;
mod tables;
mod tx;
mod waiting;
mod walk;
mod watch;
mod world;

pub use awaited::Awaited;
pub use big_keys::{BigBy, BigKeys, elements, usage};
pub use clock::{AccessClock, AccessPolicy, ClockJump};
pub use containers::{ContainerSettings, Threshold};
pub use counters::{Count, Counters};
pub use critical_section::in_critical_section;
pub use demand::Demand;
pub use entry::{Encoding, EntryBox, EntryRef, INLINE_MAX, Kind, NewText, Notes, Text};
pub use garbage::Reclaimer;
pub use keyspace::{EventMask, Keyspace, Location, PARTITIONS, Settings};
pub use local_deadlines::{LocalDeadlines, LocalKey};
pub use located::LocatedKeys;
pub use lock::acquisition::{Acquisition, PartitionSet, Wanted};
pub use lock::partition::{Lsn, PartitionIndex};
pub use options::Options;
pub use patience::{Obstacle, Patience};
pub use refusal::{BUSY, EmptyReply, Refusal, Wait};
pub use sizes::Sizes;
pub use stall_stats::{HOLD_LIMITS_US, StallSnapshot, StallStats};
pub use structs::{arena, heap};
pub use tx::{
    Begun, Computed, Effects, Event, EventClass, Evicted, Lifetime, Look, MEMBER_EVENTS, Mark,
    Need, Order, Outcome, Propagation, Rule, Swept, Tx, TxOptions,
};
pub use waiting::{Cancelled, QueuedWaiter, WaitQueue, Waiter};
pub use walk::{WALKS, Walk, WalkSink};
pub use watch::{ChangeInterest, Watch};
pub use world::{HEAVY_TRANSACTIONS, HeavyPass, LANES};

/// What a command may cost before it is handed to a heavy-work thread, in nanoseconds.
pub const WORKER_BUDGET_NS: u64 = 200_000;

/// After this many rounds of widening a transaction takes the world.
pub const WIDENING_ROUNDS: u32 = 3;

#[cfg(test)]
#[cfg(feature = "shuttle")]
mod tests;
