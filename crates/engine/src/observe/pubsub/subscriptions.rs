//! What one client has subscribed to.
//!
//! Invariants: each subscription is a place in its channel's subscribers, left at the latest when
//! this is dropped; the client's record counts them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::PubSub;
use super::registry::ChannelByName;
use crate::clients::mailbox::Mailboxes;
use crate::clients::multicast::Subscribers;
use crate::clients::registry::{Client, SubscriptionKind, client_flags};
use crate::runtime::yielding::FEW;

/// The subscriptions of a client.
pub struct Subscriptions {
    pubsub: &'static PubSub,
    mailboxes: &'static Mailboxes,
    client: Arc<Client>,
    /// What they take, here and in the registries.
    bytes: usize,
    /// By kind.
    sets: [BTreeSet<ChannelByName>; SubscriptionKind::COUNT],
}

impl Subscriptions {
    /// None yet.
    pub fn new(
        pubsub: &'static PubSub,
        mailboxes: &'static Mailboxes,
        client: &Arc<Client>,
    ) -> Self {
        let client = Arc::clone(client);
        Self { pubsub, mailboxes, client, bytes: 0, sets: Default::default() }
    }

    /// How many there are of a kind.
    pub fn count(&self, kind: SubscriptionKind) -> usize {
        self.sets[kind as usize].len()
    }

    /// Whether there are none at all.
    pub fn is_empty(&self) -> bool {
        self.sets.iter().all(BTreeSet::is_empty)
    }

    /// The names of a kind.
    pub fn names(&self, kind: SubscriptionKind) -> Vec<Box<[u8]>> {
        self.sets[kind as usize].iter().map(|named| named.0.name.clone()).collect()
    }

    /// The first name of a kind.
    pub fn first_name(&self, kind: SubscriptionKind) -> Option<Box<[u8]>> {
        self.sets[kind as usize].first().map(|named| named.0.name.clone())
    }

    /// Whether they are so many that they are not ended at once.
    pub fn are_many(&self) -> bool {
        self.sets.iter().map(BTreeSet::len).sum::<usize>() > FEW
    }

    /// All names, each with whether it is a pattern.
    pub(crate) fn all_names(&self) -> impl Iterator<Item = (&[u8], bool)> {
        SubscriptionKind::ALL.into_iter().flat_map(|kind| {
            let names = self.sets[kind as usize].iter().map(|named| &*named.0.name);
            names.map(move |name| (name, kind == SubscriptionKind::Pattern))
        })
    }

    /// The sets of subscribers that the client belongs to.
    pub fn subscriber_sets(&self) -> impl Iterator<Item = &Subscribers> {
        self.sets.iter().flatten().map(|named| &named.0.subscribers)
    }

    /// Subscribes; `false` if the client had already.
    pub fn add(&mut self, kind: SubscriptionKind, name: &[u8]) -> bool {
        if self.sets[kind as usize].contains(name) {
            return false;
        }
        let registry = self.pubsub.registry(kind);
        let named = registry.join(name, self.mailboxes, &self.client);
        self.sets[kind as usize].insert(named);
        self.bytes += bytes_of(name);
        self.record(kind);
        true
    }

    /// Ends a subscription; `false` if there is none. `settle` hands out what is under way to the
    /// client.
    pub fn remove(&mut self, kind: SubscriptionKind, name: &[u8], settle: impl FnOnce()) -> bool {
        let Some(named) = self.sets[kind as usize].take(name) else { return false };
        self.pubsub.registry(kind).leave(&named, &self.client, settle);
        self.bytes -= bytes_of(name);
        self.record(kind);
        true
    }

    /// Ends one of any kind; `false` if there is none. `settle` hands out what is under way to the
    /// client.
    pub fn remove_first(&mut self, settle: impl FnOnce()) -> bool {
        let names = SubscriptionKind::ALL.map(|kind| (kind, self.first_name(kind)));
        let found = names.into_iter().find_map(|(kind, name)| Some((kind, name?)));
        found.is_some_and(|(kind, name)| self.remove(kind, &name, settle))
    }

    /// Whether they are so many that another thread is to end them when their client is gone.
    pub fn end_elsewhere(&self) -> bool {
        /// At about a quarter of a microsecond for each.
        const MANY: usize = 1000;
        self.sets.iter().map(BTreeSet::len).sum::<usize>() > MANY
    }

    /// Ends all. `settle` hands out what is under way to the client.
    pub fn remove_all(&mut self, settle: impl Fn()) {
        self.bytes = 0;
        for kind in SubscriptionKind::ALL {
            for named in std::mem::take(&mut self.sets[kind as usize]) {
                self.pubsub.registry(kind).leave(&named, &self.client, &settle);
            }
            self.record(kind);
        }
    }

    fn record(&self, kind: SubscriptionKind) {
        let count = u32::try_from(self.count(kind)).unwrap_or(u32::MAX);
        self.client.live.subscriptions[kind as usize].store(count, Ordering::Relaxed);
        self.client.set_flag(client_flags::SUBSCRIBER, !self.is_empty());
        self.client.names().held_memory.subscriptions = self.bytes;
    }
}

/// What a subscription takes: a name may be of one client alone.
fn bytes_of(name: &[u8]) -> usize {
    /// Its place in two sets, and a set of subscribers.
    const PLACE: usize = 480;
    PLACE + name.len()
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        self.remove_all(|| ());
    }
}
