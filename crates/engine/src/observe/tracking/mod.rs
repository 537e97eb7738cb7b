//! CLIENT TRACKING: clients keep copies of what they read, and are told when those are old.
//!
//! What a tracked client reads is entered in the table, under the locks of its keys; a transaction
//! that alters such a key takes it out and leaves a notice, under the same locks. In broadcast mode
//! a client names prefixes instead, and nothing is entered. As in Redis, databases are not told
//! apart.
//!
//! Invariants: a client is tracked if and only if its session has a [`TrackingRegistration`]; the
//! notice of a change that came after a read is left after that read was entered, and reaches the
//! client behind the reply.

mod options;
mod pending_invalidations;
mod table;
mod unsent;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Included, Unbounded};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use commands::{Access, Flags, Spec};
use config::Config;
use config::settings::TRACKING_TABLE_MAX_KEYS;
use keyspace::{ChangeInterest, Keyspace, Tx};
use proto::Args;

pub use options::{TrackingMode, TrackingOptions};

use crate::clients::client_id::ClientId;
use crate::clients::mailbox::Directory;
use crate::clients::registry::{Client, client_flags};
use crate::table::command_table::CommandEntry;
pub(crate) use pending_invalidations::PendingInvalidations;
use table::TrackingTable;
use unsent::UnsentInvalidations;

/// So many keys leave the table in one go, where it is to hold fewer than it does.
const FORGOTTEN_AT_ONCE: usize = 256;

/// All that is tracked.
#[derive(Default)]
pub struct Tracking {
    /// How many clients are tracked.
    size: AtomicUsize,
    tracked_clients: RwLock<TrackedClients>,
    table: TrackingTable,
}

/// The tracked clients.
#[derive(Default)]
struct TrackedClients {
    trackers: BTreeMap<ClientId, Arc<TrackedClient>>,
    /// The clients that want to hear of all keys with a prefix.
    prefixes: BTreeMap<Box<[u8]>, BTreeSet<ClientId>>,
}

/// A tracked client and what it asked for.
pub struct TrackedClient {
    client: Arc<Client>,
    /// The modes that CLIENT TRACKING gave.
    pub options: TrackingOptions,
}

/// A session's place among the tracked clients.
pub struct TrackingRegistration {
    tracking: &'static Tracking,
    keyspace: &'static Keyspace,
    /// The client, as the invalidation table knows it.
    pub tracker: Arc<TrackedClient>,
    /// What the client was told of and has not read.
    pub unsent: UnsentInvalidations,
    _interest: ChangeInterest,
}

/// What a command within a unit read.
pub struct UnitRead {
    /// How many keys the unit had altered by then.
    modified: usize,
    reader: ClientId,
    keys: Vec<Box<[u8]>>,
}

/// What tracking works with.
#[derive(Clone, Copy)]
pub struct TrackingContext<'a> {
    pub(crate) keyspace: &'a Keyspace,
    pub(crate) config: &'a Config,
    pub(crate) directory: Directory<'a>,
}

/// What INFO tells.
pub struct TrackingStats {
    /// Clients with CLIENT TRACKING on.
    pub clients: usize,
    /// Keys in the invalidation table.
    pub keys: usize,
    /// Keys of the table, each once for every client that has read it.
    pub items: usize,
    /// Prefixes of all clients with BCAST.
    pub prefixes: usize,
}

impl TrackingRegistration {
    /// Enters a client, or what it wants now, if it was there.
    pub fn begin(
        tracking: &'static Tracking,
        keyspace: &'static Keyspace,
        client: &Arc<Client>,
        options: TrackingOptions,
    ) -> Self {
        // From here on changes are heeded; the client has not read anything yet.
        let interest = keyspace.register_change_interest();
        let redirect = options.redirect.map_or(0, |target| target as i64);
        client.live.redirect.store(redirect, Ordering::Relaxed);
        client.set_flag(client_flags::TRACKING, true);
        client.set_flag(client_flags::BROADCAST, options.mode == TrackingMode::Broadcast);
        client.set_flag(client_flags::BROKEN_REDIRECT, false);
        client.names().held_memory.prefixes = options.prefixes.iter().map(|it| bytes_of(it)).sum();
        let tracker = Arc::new(TrackedClient { client: Arc::clone(client), options });
        tracking.enter(&tracker);
        Self {
            tracking,
            keyspace,
            tracker,
            unsent: UnsentInvalidations::default(),
            _interest: interest,
        }
    }
}

impl TrackingRegistration {
    /// All has left. The next output has places of its own.
    pub fn forget_unsent(&mut self) {
        self.unsent = UnsentInvalidations::default();
    }
}

impl Drop for TrackingRegistration {
    fn drop(&mut self) {
        let client = &self.tracker.client;
        // Its successor may be there already.
        if self.tracking.leave(self.keyspace, &self.tracker) {
            const FLAGS: [u32; 3] =
                [client_flags::TRACKING, client_flags::BROADCAST, client_flags::BROKEN_REDIRECT];
            FLAGS.iter().for_each(|flag| client.set_flag(*flag, false));
            client.live.redirect.store(-1, Ordering::Relaxed);
            client.names().held_memory.prefixes = 0;
        }
    }
}

/// The client whose copies of what a command reads are tracked: what a command reads that may
/// write is no copy of anybody's.
#[inline]
pub(crate) fn reader_of(reader: Option<ClientId>, entry: &CommandEntry) -> Option<ClientId> {
    reader.filter(|_| entry.spec.flags.has(Flags::READONLY))
}

impl UnitRead {
    /// What a command with these arguments reads for a client, now that it ran.
    pub(crate) fn new(reader: ClientId, tx: &mut Tx, spec: &Spec, args: Args<'_>) -> Self {
        let mut keys = Vec::new();
        visit_keys(spec, args, |key| keys.push(key.into()));
        Self { modified: tx.fence_modified(), reader, keys }
    }
}

impl Tracking {
    /// Whether anybody is tracked.
    #[inline]
    fn any(&self) -> bool {
        self.size.load(Ordering::Relaxed) != 0
    }

    /// Enters what a client has read, whose locks are still held.
    #[cold]
    pub(crate) fn remember(
        &self,
        tracking_context: TrackingContext<'_>,
        reader: ClientId,
        spec: &Spec,
        args: Args<'_>,
    ) {
        let locate = |key: &[u8]| tracking_context.keyspace.locate(key).partition();
        visit_keys(spec, args, |key| self.table.add(locate(key), key, reader));
        self.fit_table(tracking_context);
    }

    /// Leaves notices of all that a transaction altered and enters what its commands read, in
    /// their order. Its locks are still held. What is for the client itself is to be left behind
    /// what it has to say.
    pub(crate) fn on_commit(
        &self,
        tracking_context: TrackingContext<'_>,
        tx: &Tx,
        readings: &[UnitRead],
    ) -> Option<PendingInvalidations> {
        if !self.any() {
            return None;
        }
        let TrackingContext { keyspace, directory, .. } = tracking_context;
        let tracked_clients = self.tracked_clients();
        let mut pending = PendingInvalidations::new(tx.options().origin);
        if tx.has_modified_databases() {
            self.table.clear(keyspace);
            tracked_clients.trackers.values().for_each(|tracker| pending.add_all_keys(tracker));
        }
        let (modified, mut from) = (tx.modified(), 0);
        for UnitRead { modified: until, reader, keys } in readings {
            self.invalidate(keyspace, &tracked_clients, &modified[from..*until], &mut pending);
            from = *until;
            for key in keys {
                self.table.add(keyspace.locate(key).partition(), key, *reader);
            }
        }
        let own = &modified[from..tx.modified_by_itself()];
        self.invalidate(keyspace, &tracked_clients, own, &mut pending);
        for (author, keys) in tx.modified_for_others() {
            pending.author = author;
            self.invalidate(keyspace, &tracked_clients, keys, &mut pending);
        }
        pending.author = tx.options().origin;
        invalidate_prefixes(&tracked_clients, tx, &mut pending);
        pending.post_to_others(directory);
        drop(tracked_clients);
        self.fit_table(tracking_context);
        Some(pending)
    }

    /// Takes altered keys out of the table, for the clients that had read them.
    fn invalidate(
        &self,
        keyspace: &Keyspace,
        tracked_clients: &TrackedClients,
        modified: &[(usize, Box<[u8]>)],
        pending: &mut PendingInvalidations,
    ) {
        for (_, key) in modified {
            let readers = self.table.take(keyspace.locate(key).partition(), key);
            let trackers = readers.iter().filter_map(|id| tracked_clients.reader(*id));
            pending.add_keys(trackers, &BTreeSet::from([&**key]));
        }
    }

    /// Takes some keys out of the table if it is larger than it may be; the clients that had read
    /// them are told. The next call goes on, so that no client is told of very many at once.
    pub fn fit_table(&self, tracking_context: TrackingContext<'_>) {
        let max = tracking_context.config.get(TRACKING_TABLE_MAX_KEYS);
        let excess = self.table.len().saturating_sub(max);
        if max == 0 || excess == 0 {
            return;
        }
        let (tracked_clients, mut pending) = (self.tracked_clients(), PendingInvalidations::new(0));
        for (key, readers) in self.table.take_any(excess.min(FORGOTTEN_AT_ONCE)) {
            let trackers = readers.iter().filter_map(|id| tracked_clients.reader(*id));
            pending.add_keys(trackers, &BTreeSet::from([&*key]));
        }
        pending.post_to_origin(tracking_context.directory);
    }

    /// How much there is of everything.
    pub fn stats(&self) -> TrackingStats {
        let (keys, items) = self.table.sizes();
        let tracked_clients = self.tracked_clients();
        let (clients, prefixes) = (tracked_clients.trackers.len(), tracked_clients.prefixes.len());
        TrackingStats { clients, keys, items, prefixes }
    }

    fn enter(&self, tracker: &Arc<TrackedClient>) {
        let mut tracked_clients = self.tracked_clients_mut();
        tracked_clients.remove(tracker.client.id);
        for prefix in &tracker.options.prefixes {
            tracked_clients.prefixes.entry(prefix.clone()).or_default().insert(tracker.client.id);
        }
        tracked_clients.trackers.insert(tracker.client.id, Arc::clone(tracker));
        self.size.store(tracked_clients.trackers.len(), Ordering::Relaxed);
    }

    /// Strikes a client off; `false` if something newer stands in its place.
    fn leave(&self, keyspace: &Keyspace, tracker: &Arc<TrackedClient>) -> bool {
        let (mut tracked_clients, id) = (self.tracked_clients_mut(), tracker.client.id);
        if !tracked_clients.trackers.get(&id).is_some_and(|present| Arc::ptr_eq(present, tracker)) {
            return false;
        }
        tracked_clients.remove(id);
        self.size.store(tracked_clients.trackers.len(), Ordering::Relaxed);
        // No client can come before this is done, and without any client no change is looked at.
        if tracked_clients.trackers.is_empty() {
            self.table.clear(keyspace);
        }
        true
    }

    fn tracked_clients(&self) -> RwLockReadGuard<'_, TrackedClients> {
        self.tracked_clients.read().expect("no critical section here panics")
    }

    fn tracked_clients_mut(&self) -> RwLockWriteGuard<'_, TrackedClients> {
        self.tracked_clients.write().expect("no critical section here panics")
    }
}

impl TrackedClients {
    /// The client that is told by name of what it has read.
    fn reader(&self, id: ClientId) -> Option<&Arc<TrackedClient>> {
        self.trackers.get(&id).filter(|tracker| tracker.options.mode != TrackingMode::Broadcast)
    }

    /// The prefixes that any of these keys begins with, each with those keys. Of the prefixes only
    /// those are looked at that begin as a key does.
    fn matching<'a>(
        &'a self,
        keys: impl Iterator<Item = &'a [u8]>,
    ) -> BTreeMap<&'a [u8], BTreeSet<&'a [u8]>> {
        let mut matching = BTreeMap::<_, BTreeSet<_>>::new();
        for key in keys {
            let mut bound = key;
            while let Some((prefix, _)) =
                self.prefixes.range::<[u8], _>((Unbounded, Included(bound))).next_back()
            {
                let common = prefix.iter().zip(bound).take_while(|(one, other)| one == other);
                let common = common.count();
                let is_prefix = common == prefix.len();
                if is_prefix {
                    matching.entry(&**prefix).or_default().insert(key);
                }
                // What comes before it and begins as the key does is no longer than that.
                if is_prefix && common == 0 {
                    break;
                }
                bound = &key[..common - usize::from(is_prefix)];
            }
        }
        matching
    }

    fn remove(&mut self, id: ClientId) {
        let Some(tracker) = self.trackers.remove(&id) else { return };
        for prefix in &tracker.options.prefixes {
            if let Some(ids) = self.prefixes.get_mut(prefix) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.prefixes.remove(prefix);
                }
            }
        }
    }
}

/// What a prefix takes, which may be one client's alone.
fn bytes_of(prefix: &[u8]) -> usize {
    /// Its place among the tracked clients and among the options.
    const PLACE: usize = 160;
    PLACE + 2 * prefix.len()
}

/// Visits the keys of a request. One whose key counts lie has read none.
fn visit_keys(spec: &Spec, args: Args<'_>, mut visit: impl FnMut(&[u8])) {
    for keys in spec.keys.iter().filter(|keys| !keys.access.has(Access::NOT_KEY)) {
        let _ = keys.visit(args, |index| visit(&args[index]));
    }
}

/// Tells clients that track prefixes of all that a transaction altered. A client that wants to hear
/// nothing of its own changes hears of what others did to the same key.
fn invalidate_prefixes(
    tracked_clients: &TrackedClients,
    tx: &Tx,
    pending: &mut PendingInvalidations,
) {
    let modified = tx.modified();
    for (prefix, matching) in tracked_clients.matching(modified.iter().map(|(_, key)| &**key)) {
        let ids = tracked_clients.prefixes.get(prefix).into_iter().flatten();
        let trackers = ids.filter_map(|id| tracked_clients.trackers.get(id));
        if tx.modified_by_itself() == modified.len() {
            pending.add_keys(trackers, &matching);
            continue;
        }
        let (quiet, others): (Vec<_>, Vec<_>) =
            trackers.partition(|tracker| tracker.options.no_loop);
        pending.add_keys(others.into_iter(), &matching);
        for tracker in quiet {
            pending
                .add_keys_of_others(tracker, &altered_by_others(tx, tracker.client.id, &matching));
        }
    }
}

/// Those of the keys that others than this client altered within the transaction.
fn altered_by_others<'a>(tx: &'a Tx, id: ClientId, of: &BTreeSet<&'a [u8]>) -> BTreeSet<&'a [u8]> {
    let own = (tx.options().origin, &tx.modified()[..tx.modified_by_itself()]);
    let runs = [own].into_iter().chain(tx.modified_for_others());
    let others = runs.filter(|(author, _)| *author != id).flat_map(|(_, keys)| keys);
    others.map(|(_, key)| &**key).filter(|key| of.contains(key)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use base::Random;

    use super::TrackedClients;

    #[test]
    fn the_prefixes_of_altered_keys_are_found_as_by_looking_at_each() {
        let mut random = Random::from_seed(1);
        let mut word = |most: u64| -> Box<[u8]> {
            (0..random.below(most)).map(|_| b'a' + random.below(2) as u8).collect()
        };
        for _ in 0..200 {
            let prefixes = (0..20).map(|_| (word(6), BTreeSet::new())).collect();
            let tracked_clients = TrackedClients { prefixes, ..TrackedClients::default() };
            let keys: Vec<_> = (0..10).map(|_| word(9)).collect();
            let mut expected = BTreeMap::<&[u8], BTreeSet<&[u8]>>::new();
            for prefix in tracked_clients.prefixes.keys() {
                for key in keys.iter().filter(|key| key.starts_with(prefix)) {
                    expected.entry(prefix).or_default().insert(key);
                }
            }
            assert_eq!(tracked_clients.matching(keys.iter().map(|key| &**key)), expected);
        }
    }
}
