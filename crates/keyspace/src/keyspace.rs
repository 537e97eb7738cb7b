//! The keyspace: all partitions, the map of databases, and what the transactions share.
//!
//! Invariant: entries are reached through a `Tx` only; what is here is either lock-free (counters,
//! hints, settings) or changed with the world stopped (the map of databases).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use base::hash::KeyHasher;
use base::time::{Clock, UnixMillis};
use structs::prefetch;

use crate::big_keys::BigKeys;
use crate::counters::{Count, Counters, LaneCounters};
use crate::critical_section::AbortHook;
use crate::databases::Databases;
use crate::entry::EntryTable;
use crate::ghost_list::GhostList;
use crate::hooks::Hooks;
use crate::lazy_free::{Garbage, LazyFreeQueue};
use crate::lock::ParkingLot;
use crate::lock::partition::{Partition, PartitionIndex};
use crate::options::Options;
use crate::populated_partitions::PopulatedPartitions;
use crate::settings::Settings;
use crate::stall_stats::StallStats;
use crate::walk::Walks;
use crate::watch::ChangeInterest;
use crate::world::{LANES, World};

/// Partitions of the keyspace: as many as Redis Cluster has hash slots.
pub const PARTITIONS: usize = 1 << PARTITION_BITS;

// Schedules are explored on a small keyspace.
const PARTITION_BITS: u32 = if cfg!(feature = "shuttle") { 2 } else { 14 };

/// Independently locked parts of the parking lot.
const LOTS: usize = if cfg!(feature = "shuttle") { 2 } else { 64 };

/// A deadline bound that no clock reaches: nothing in the partition expires.
pub(crate) const NEVER: UnixMillis = UnixMillis::MAX;

/// Where a key belongs: its place in the partition's hash space, and in the low bits, which mean
/// nothing there, the partition. As one word it is copied whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location(u64);

impl Location {
    const PARTITION: u64 = (1 << PARTITION_BITS) - 1;

    /// A place in a partition's hash space, of which the top 50 bits mean something.
    #[inline]
    #[must_use]
    pub const fn new(partition: PartitionIndex, position: u64) -> Self {
        Self(position & !Self::PARTITION | partition as u64)
    }

    /// The first bits of a hash say which partition it is, the others where in there.
    #[inline]
    const fn of_hash(hash: u64) -> Self {
        Self(hash.rotate_left(PARTITION_BITS))
    }

    /// Its partition.
    #[inline]
    #[must_use]
    pub const fn partition(self) -> PartitionIndex {
        (self.0 & Self::PARTITION) as PartitionIndex
    }

    /// Its place in the partition's hash space; the top 50 bits mean something.
    #[inline]
    #[must_use]
    pub const fn position(self) -> u64 {
        self.0 & !Self::PARTITION
    }
}

/// Which events commands shall report; bits as in `EventClass`.
pub type EventMask = u32;

/// All data and what guards it. Lives as long as the process (`Keyspace::leak`), so that a
/// transaction can move to another thread.
pub struct Keyspace {
    partitions: Box<[Partition]>,
    /// For each partition a lower bound of its next expiry, all side by side for a quick sweep.
    pub(crate) deadlines: Box<[AtomicI64]>,
    lot: ParkingLot,
    world: World,
    hasher: KeyHasher,
    pub(crate) by_hash_slot: bool,
    clock: Clock,
    counters: Counters,
    databases: Databases,
    lazy_free_queue: LazyFreeQueue,
    hooks: Hooks,
    pub(crate) abort_hook: OnceLock<AbortHook>,
    walks: Walks,
    ghost_list: GhostList,
    pub(crate) big_keys: BigKeys,
    populated: PopulatedPartitions,
    pub(crate) declared_prefixes: crate::prefix_index::DeclaredPrefixes,
    pub(crate) importing: crate::ImportingPartitions,
    pub(crate) served_slots: crate::SlotFlags,
    pub(crate) open_slots: crate::SlotFlags,
    pub(crate) compatibility: crate::ClusterCompatibility,
    /// Partitions in which somebody waits for a key, and how many such keys there are.
    awaited: AtomicU32,
    blocking_key_count: AtomicU32,
    /// Clients that want to know which keys change.
    change_interests: AtomicU32,
    /// Keys that clients watch.
    watched: AtomicU32,
    /// The version that was told last.
    versions: AtomicU64,
    /// How often a database was emptied, or changed its place with another.
    pub(crate) flushes: AtomicU64,
    settings: Settings,
}

impl Keyspace {
    /// Makes a keyspace for the rest of the process's life.
    #[must_use]
    pub fn leak(options: Options) -> &'static Self {
        let databases = u32::try_from(options.databases).expect("databases is a small number");
        let clock = options.clock;
        // What clients remember of a former process is no version of this one: no process tells
        // more than one in a microsecond for long.
        let first_version = clock.now_us().unsigned_abs();
        Box::leak(Box::new(Self {
            partitions: (0..PARTITIONS).map(|_| Partition::new()).collect(),
            deadlines: (0..PARTITIONS).map(|_| AtomicI64::new(NEVER)).collect(),
            lot: ParkingLot::new(LOTS),
            world: World::new(clock.clone()),
            hasher: KeyHasher::new(options.hash_key.0, options.hash_key.1),
            by_hash_slot: options.by_hash_slot,
            clock,
            counters: Counters::new(LANES, 2 * options.databases),
            databases: Databases::new(databases),
            lazy_free_queue: LazyFreeQueue::default(),
            hooks: Hooks::default(),
            abort_hook: OnceLock::new(),
            walks: Walks::default(),
            ghost_list: GhostList::default(),
            big_keys: BigKeys::default(),
            populated: PopulatedPartitions::default(),
            declared_prefixes: crate::prefix_index::DeclaredPrefixes::new(&options.prefixes),
            importing: crate::ImportingPartitions::default(),
            served_slots: crate::SlotFlags::default(),
            open_slots: crate::SlotFlags::default(),
            compatibility: crate::ClusterCompatibility::default(),
            awaited: AtomicU32::new(0),
            change_interests: AtomicU32::new(0),
            blocking_key_count: AtomicU32::new(0),
            watched: AtomicU32::new(0),
            flushes: AtomicU64::new(0),
            versions: AtomicU64::new(first_version),
            settings: Settings::default(),
        }))
    }

    /// Whether a key's partition is its hash slot, as in a node of a cluster.
    pub fn is_by_hash_slot(&self) -> bool {
        self.by_hash_slot
    }

    /// Where a key belongs.
    #[inline]
    #[must_use]
    pub fn locate(&self, key: &[u8]) -> Location {
        let hash = self.hasher.hash(key);
        if self.by_hash_slot { Self::locate_by_slot(key, hash) } else { Location::of_hash(hash) }
    }

    /// Where a key belongs, which may have been located before.
    #[inline]
    #[must_use]
    pub fn locate_unless_known(&self, key: &[u8], known: Option<&Location>) -> Location {
        let location = known.map_or_else(|| self.locate(key), |&location| location);
        debug_assert_eq!(location, self.locate(key), "it is the location of another key");
        location
    }

    /// Asks the processor for all that lookups of these keys in a logical database will read, so
    /// that their waits for memory overlap: the locks first, then buckets, then entries, of which
    /// the beginning tells where they end. Does nothing unless the caller is inside its turnstile,
    /// as the world may be another's.
    pub fn prefetch(&self, lane: usize, locations: &[Location], logical: usize) {
        if !self.world.is_inside(lane) {
            return;
        }
        self.prefetch_locks(locations);
        let physical = self.physical(logical);
        let each = |look: fn(&EntryTable, u64)| {
            for location in locations {
                let partition = location.partition();
                self.partition(partition).try_peek(&self.lot, partition, |content| {
                    if let Some(table) = content.table(physical) {
                        look(table, location.position());
                    }
                });
            }
        };
        each(EntryTable::prefetch);
        each(|table, position| table.likely(position).iter().for_each(|it| it.prefetch_start()));
        each(|table, position| table.likely(position).iter().for_each(|it| it.prefetch_rest()));
    }

    /// A version that was never told.
    #[must_use]
    pub fn next_version(&self) -> u64 {
        self.versions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// As `prefetch`, the locks only, for the transaction that takes them next.
    pub fn prefetch_locks(&self, locations: &[Location]) {
        for location in locations {
            let partition = self.partition(location.partition());
            prefetch::line(std::ptr::from_ref(partition).cast());
        }
    }

    /// The clock that all transactions read.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The logical databases.
    #[inline]
    pub(crate) fn databases(&self) -> &Databases {
        &self.databases
    }

    /// Keys in a logical database, expired ones not yet collected included.
    #[must_use]
    pub fn len(&self, logical: usize) -> usize {
        self.counters.keys(self.physical(logical))
    }

    /// Whether no database holds a key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        (0..self.database_count()).all(|database| self.len(database) == 0)
    }

    /// Keys with a deadline in a logical database.
    #[must_use]
    pub fn volatile_len(&self, logical: usize) -> usize {
        self.counters.volatile(self.physical(logical))
    }

    /// Keys in a logical database with members that have deadlines of their own.
    #[must_use]
    pub fn members_volatile_len(&self, logical: usize) -> usize {
        self.counters.members_volatile(self.physical(logical))
    }

    /// Bytes of a logical database in entries and tables.
    #[must_use]
    pub fn database_memory(&self, logical: usize) -> usize {
        self.counters.memory(self.physical(logical))
    }

    /// Bytes of memory in entries and tables.
    #[must_use]
    pub fn memory(&self) -> usize {
        (0..self.databases.count_all())
            .map(|database| self.counters.memory(database))
            .sum::<usize>()
            + self.fixed_memory()
    }

    /// Bytes that the keyspace takes when it is empty.
    #[must_use]
    pub fn fixed_memory(&self) -> usize {
        PARTITIONS * (size_of::<Partition>() + size_of::<AtomicI64>())
    }

    /// The statistics of all lanes.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The switches of the keyspace.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether anybody waits for any key.
    #[inline]
    #[must_use]
    pub fn any_waiters(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) != 0
    }

    /// How many keys clients wait for.
    #[must_use]
    pub fn blocking_key_count(&self) -> u32 {
        self.blocking_key_count.load(Ordering::Relaxed)
    }

    /// Counts keys of a partition that begin or cease to be waited for; called by its holder.
    pub(crate) fn note_waiting(&self, before: u32, after: u32) {
        self.awaited.fetch_add(after.min(1).wrapping_sub(before.min(1)), Ordering::Relaxed);
        self.blocking_key_count.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Transactions gather the keys that they modify as long as such an interest lives; to be
    /// registered before any key is looked at.
    #[must_use]
    pub fn register_change_interest(&'static self) -> ChangeInterest {
        ChangeInterest::begin(&self.change_interests)
    }

    /// How many keys clients watch.
    #[must_use]
    pub fn watched_keys(&self) -> u32 {
        self.watched.load(Ordering::Relaxed)
    }

    pub(crate) fn count_watched(&self, is_more: bool) {
        if is_more {
            self.watched.fetch_add(1, Ordering::Relaxed);
        } else {
            self.watched.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether anybody wants to know which keys change. A thread that holds a lock sees those
    /// that said so before they held it.
    #[inline]
    #[must_use]
    pub fn changes_are_observed(&self) -> bool {
        self.change_interests.load(Ordering::Relaxed) != 0
    }

    /// What is big and waits to be freed.
    #[must_use]
    pub fn lazy_free_queue(&self) -> &LazyFreeQueue {
        &self.lazy_free_queue
    }

    /// Says for how many heavy transactions there are threads, where the system refuses some of
    /// [`HEAVY_TRANSACTIONS`](crate::HEAVY_TRANSACTIONS).
    pub fn limit_heavy_transactions(&self, most: usize) {
        self.world.limit_transactions(most);
    }

    pub(crate) fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// Frees something on a thread of its own, as a lazy free does: a clone of a big value, whose
    /// pages may be nobody else's by now.
    pub fn lazy_free(&self, held: impl Send + 'static) {
        self.discard(Garbage::held(Box::new(held)));
    }

    /// Hands over something big to be freed; without a reclaimer it is freed here.
    pub(crate) fn discard(&self, garbage: Garbage) {
        self.lazy_free_queue.add(garbage);
    }

    /// The partitions that may hold a key whose time is over at `now`.
    pub fn partitions_due(&self, now: UnixMillis) -> impl Iterator<Item = PartitionIndex> + '_ {
        let due = move |bound: &AtomicI64| bound.load(Ordering::Relaxed) <= now;
        let indices = self.deadlines.iter().enumerate();
        indices.filter(move |(_, bound)| due(bound)).map(|(index, _)| index as PartitionIndex)
    }

    /// How often a database was emptied, or changed its place with another.
    #[must_use]
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Entries of a partition in all databases; a hint.
    #[must_use]
    pub fn population(&self, partition: PartitionIndex) -> usize {
        self.partition(partition).population()
    }

    /// Tells the policy that learns how many keys there are.
    pub fn note_keys(&self, keys: u32) {
        self.ghost_list.note_keys(keys);
    }

    /// Entries of a partition, in all databases, that have a deadline; a hint.
    #[must_use]
    pub fn volatile_population(&self, partition: PartitionIndex) -> usize {
        self.partition(partition).volatile()
    }

    /// Makes a partition due for a sweep, whatever its bound; needs no lock.
    pub fn mark_due(&self, partition: PartitionIndex, now: UnixMillis) {
        self.deadlines[usize::from(partition)].fetch_min(now, Ordering::Relaxed);
    }

    /// Counts an expiry turn that ran out of time.
    pub fn count_expiry_timeout(&self, lane: usize) {
        self.lane(lane).count(Count::ExpiryTimeouts, 1);
    }

    /// Lowers a partition's expiry bound; called by the holder of its lock.
    pub(crate) fn note_deadline(&self, partition: PartitionIndex, deadline: UnixMillis) {
        let bound = &self.deadlines[usize::from(partition)];
        if deadline < bound.load(Ordering::Relaxed) {
            // A hint may come from elsewhere at the same time.
            bound.fetch_min(deadline, Ordering::Relaxed);
        }
    }

    /// Sets a partition's expiry bound; called by the holder of its lock.
    pub(crate) fn set_deadline_bound(&self, partition: PartitionIndex, bound: Option<UnixMillis>) {
        self.deadlines[usize::from(partition)].store(bound.unwrap_or(NEVER), Ordering::Relaxed);
    }

    pub(crate) fn lane(&self, lane: usize) -> &LaneCounters {
        self.counters.lane(lane)
    }

    pub(crate) fn partition(&self, index: PartitionIndex) -> &Partition {
        &self.partitions[usize::from(index)]
    }

    pub(crate) fn populated_bits(&self) -> &PopulatedPartitions {
        &self.populated
    }

    pub(crate) fn lot(&self) -> &ParkingLot {
        &self.lot
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    pub(crate) fn ghost_list(&self) -> &GhostList {
        &self.ghost_list
    }

    pub(crate) fn walks(&self) -> &Walks {
        &self.walks
    }
}

/// The turnstiles, as the server's threads use them.
impl Keyspace {
    /// Comes in to run transactions on a lane; `false` while the world is stopped.
    #[inline]
    #[must_use]
    pub fn enter(&self, lane: usize) -> bool {
        self.world.enter(lane)
    }

    /// Goes out; no transaction of this lane may be running.
    #[inline]
    pub fn leave(&self, lane: usize) {
        self.world.leave(lane);
    }

    /// Whether a thread inside its turnstile should go out at the next command boundary.
    #[inline]
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.world.is_stopping()
    }

    /// Queues a waker until the world goes on; `false` if it goes on already.
    #[must_use]
    pub fn wait_for_world(&self, waker: &std::task::Waker) -> bool {
        self.world.wait(waker)
    }

    /// Since when the world has been stopped, on the monotonic clock in microseconds; `None` while
    /// it goes on.
    #[must_use]
    pub fn stopped_since(&self) -> Option<i64> {
        self.world.stopped_since()
    }

    /// Whether somebody waits for the world, or has it: then no heavy work begins.
    #[must_use]
    pub fn is_world_wanted(&self) -> bool {
        self.world.is_wanted()
    }

    /// How long transactions kept others waiting.
    #[inline]
    #[must_use]
    pub fn stall_stats(&self) -> &StallStats {
        self.world.stall_stats()
    }
}

#[cfg(test)]
mod tests {
    use super::{Location, PARTITION_BITS, PartitionIndex};

    #[test]
    fn the_first_bits_of_a_hash_are_the_partition_and_the_others_the_position() {
        for hash in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef, 1 << 63, 1 << (64 - PARTITION_BITS)] {
            let location = Location::of_hash(hash);
            assert_eq!(u64::from(location.partition()), hash >> (64 - PARTITION_BITS));
            assert_eq!(location.position(), hash << PARTITION_BITS);
            assert_eq!(Location::new(location.partition(), location.position()), location);
            // What a position has no bits for says nothing of the partition.
            let partition: PartitionIndex = 1;
            assert_eq!(Location::new(partition, u64::MAX).partition(), partition);
        }
    }
}
