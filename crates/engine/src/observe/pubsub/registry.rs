//! What is subscribed to: channels, or patterns, by their names.
//!
//! Invariant: a channel is listed if and only if somebody has subscribed to it, but for the moment
//! in which the last one leaves.

use std::borrow::Borrow;
use std::cmp::Ordering as Compared;
use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use base::glob;
use smallvec::SmallVec;

use crate::clients::mailbox::Mailboxes;
use crate::clients::multicast::Subscribers;
use crate::clients::registry::Client;

/// A channel or a pattern, and its subscribers.
pub struct Channel {
    pub name: Box<[u8]>,
    pub(crate) subscribers: Subscribers,
}

/// A channel in a set, where its name finds it.
#[derive(Clone)]
pub(crate) struct ChannelByName(pub(crate) Arc<Channel>);

/// All channels of a kind that somebody has subscribed to.
pub struct Registry {
    count: AtomicUsize,
    hasher: RandomState,
    shards: Box<[ChannelShard]>,
}

/// Places that a shard may keep though nothing needs them.
const SPARE: usize = 16;

#[repr(align(128))]
struct ChannelShard(RwLock<ChannelSet>);

/// The channels of a shard.
enum ChannelSet {
    Hashed(HashSet<ChannelByName, RandomState>),
    Ordered(BTreeSet<ChannelByName>),
}

impl Registry {
    /// An empty one; names are spread over so many locks.
    pub(super) fn new(shards: usize) -> Self {
        Self::of(shards, |hasher| ChannelSet::Hashed(HashSet::with_hasher(hasher.clone())))
    }

    /// An empty one whose names lie together. The names may be very many, and a set of so many that
    /// is hashed keeps all others waiting when it grows.
    pub(super) fn in_order() -> Self {
        Self::of(1, |_| ChannelSet::Ordered(BTreeSet::new()))
    }

    fn of(shards: usize, names: impl Fn(&RandomState) -> ChannelSet) -> Self {
        let hasher = RandomState::new();
        let shards = (0..shards).map(|_| ChannelShard(RwLock::new(names(&hasher)))).collect();
        Self { count: AtomicUsize::new(0), hasher, shards }
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// One of them. Where there is none at all, the look costs one load.
    pub(super) fn find(&self, name: &[u8]) -> Option<Arc<Channel>> {
        if self.count() == 0 {
            return None;
        }
        let shard = self.shard(name).read();
        shard.get(name).map(|found| Arc::clone(&found.0))
    }

    /// How many clients have subscribed to one.
    pub fn subscribers(&self, name: &[u8]) -> usize {
        self.find(name).map_or(0, |found| found.subscribers.len())
    }

    /// Those that are patterns which match a channel.
    pub(super) fn that_match(&self, channel: &[u8]) -> SmallVec<[Arc<Channel>; 4]> {
        let mut found = SmallVec::new();
        if self.count() == 0 {
            return found;
        }
        for shard in &self.shards {
            let shard = shard.read();
            let matching =
                shard.iter().filter(|listed| glob::matches(&listed.0.name, channel, false));
            found.extend(matching.map(|listed| Arc::clone(&listed.0)));
        }
        found
    }

    /// The names that match a pattern; all without one.
    pub fn names(&self, pattern: Option<&[u8]>) -> Vec<Arc<Channel>> {
        let mut names = Vec::new();
        for shard in &self.shards {
            let shard = shard.read();
            let wanted = |listed: &&ChannelByName| {
                pattern.is_none_or(|one| glob::matches(one, &listed.0.name, false))
            };
            names.extend(shard.iter().filter(wanted).map(|listed| Arc::clone(&listed.0)));
        }
        names
    }

    /// Takes a client that is no subscriber yet in as one.
    pub(super) fn join(
        &self,
        name: &[u8],
        mailboxes: &Mailboxes,
        client: &Arc<Client>,
    ) -> ChannelByName {
        let mut shard = self.shard(name).write();
        let named = match shard.get(name) {
            Some(found) => found.clone(),
            None => {
                let channel = Channel { name: name.into(), subscribers: Subscribers::default() };
                let named = ChannelByName(Arc::new(channel));
                shard.insert(named.clone());
                self.count.fetch_add(1, Ordering::Relaxed);
                named
            }
        };
        named.0.subscribers.join(mailboxes, client.lane(), client);
        named
    }

    /// Lets a subscriber go: see [`Subscribers::leave`].
    pub(super) fn leave(&self, named: &ChannelByName, client: &Client, settle: impl FnOnce()) {
        let channel = &named.0;
        channel.subscribers.leave(client, settle);
        let mut shard = self.shard(&channel.name).write();
        // Others may have joined meanwhile, or left and joined anew.
        let is_listed =
            shard.get(&channel.name).is_some_and(|found| Arc::ptr_eq(&found.0, channel));
        if channel.subscribers.is_empty() && is_listed {
            shard.remove(&channel.name);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn shard(&self, name: &[u8]) -> &ChannelShard {
        let hash = self.hasher.hash_one(name) as usize;
        &self.shards[hash % self.shards.len()]
    }
}

impl ChannelSet {
    fn get(&self, name: &[u8]) -> Option<&ChannelByName> {
        match self {
            Self::Hashed(names) => names.get(name),
            Self::Ordered(names) => names.get(name),
        }
    }

    fn insert(&mut self, named: ChannelByName) {
        match self {
            Self::Hashed(names) => names.insert(named),
            Self::Ordered(names) => names.insert(named),
        };
    }

    fn remove(&mut self, name: &[u8]) {
        match self {
            Self::Hashed(names) => {
                names.remove(name);
                if names.capacity() > 4 * names.len() + SPARE {
                    names.shrink_to(2 * names.len());
                }
            }
            Self::Ordered(names) => _ = names.remove(name),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &ChannelByName> {
        let (hashed, ordered) = match self {
            Self::Hashed(names) => (Some(names), None),
            Self::Ordered(names) => (None, Some(names)),
        };
        hashed.into_iter().flatten().chain(ordered.into_iter().flatten())
    }
}

impl ChannelShard {
    fn read(&self) -> RwLockReadGuard<'_, ChannelSet> {
        self.0.read().expect("no critical section here panics")
    }

    fn write(&self) -> RwLockWriteGuard<'_, ChannelSet> {
        self.0.write().expect("no critical section here panics")
    }
}

impl Borrow<[u8]> for ChannelByName {
    fn borrow(&self) -> &[u8] {
        &self.0.name
    }
}

impl Hash for ChannelByName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl PartialEq for ChannelByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ChannelByName {}

impl PartialOrd for ChannelByName {
    fn partial_cmp(&self, other: &Self) -> Option<Compared> {
        Some(self.cmp(other))
    }
}

impl Ord for ChannelByName {
    fn cmp(&self, other: &Self) -> Compared {
        self.0.name.cmp(&other.0.name)
    }
}
