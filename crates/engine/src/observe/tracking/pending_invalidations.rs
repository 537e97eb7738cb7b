//! The notices of one transaction, by the client that they concern.
//!
//! Invariant: a client gets one message for all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::TrackedClient;
use crate::clients::client_id::ClientId;
use crate::clients::invalidation::{Invalidation, SharedKeys};
use crate::clients::mailbox::{Directory, PendingWakes};
use crate::clients::registry::{Client, client_flags};

/// Notices to be left.
pub struct PendingInvalidations {
    /// The client whose transaction it is.
    origin: ClientId,
    /// The client that altered the keys that are told now: the same, or one that waited and was
    /// served within the transaction.
    pub(super) author: ClientId,
    messages: BTreeMap<ClientId, Invalidations>,
}

/// What a client is told of: keys, or all of them.
type Invalidations = (Arc<TrackedClient>, Vec<Option<SharedKeys>>);

impl PendingInvalidations {
    pub(super) fn new(origin: ClientId) -> Self {
        Self { origin, author: origin, messages: BTreeMap::new() }
    }

    /// Tells some clients of keys, but for one that wants to hear nothing of its own changes.
    pub(super) fn add_keys<'t>(
        &mut self,
        trackers: impl Iterator<Item = &'t Arc<TrackedClient>>,
        keys: &BTreeSet<&[u8]>,
    ) {
        let mut shared = None;
        for tracker in trackers {
            let is_own = tracker.client.id == self.author;
            if keys.is_empty() || is_own && tracker.options.no_loop {
                continue;
            }
            let keys = shared.get_or_insert_with(|| keys.iter().map(|&key| key.into()).collect());
            self.message(tracker).push(Some(Arc::clone(keys)));
        }
    }

    /// Tells a client of keys that others altered.
    pub(super) fn add_keys_of_others(
        &mut self,
        tracker: &Arc<TrackedClient>,
        keys: &BTreeSet<&[u8]>,
    ) {
        if !keys.is_empty() {
            let keys = keys.iter().map(|&key| key.into()).collect();
            self.message(tracker).push(Some(keys));
        }
    }

    /// Tells a client that no key is as it was.
    pub(super) fn add_all_keys(&mut self, tracker: &Arc<TrackedClient>) {
        self.message(tracker).push(None);
    }

    fn message(&mut self, tracker: &Arc<TrackedClient>) -> &mut Vec<Option<SharedKeys>> {
        let message = self.messages.entry(tracker.client.id);
        &mut message.or_insert_with(|| (Arc::clone(tracker), Vec::new())).1
    }

    /// Leaves in the mailboxes what is for clients other than the one that altered the keys, and
    /// wakes their workers.
    pub(super) fn post_to_others(&mut self, directory: Directory<'_>) {
        let to_origin = self.messages.remove(&self.origin);
        post_all(directory, std::mem::take(&mut self.messages).into_values());
        self.messages.extend(to_origin.map(|message| (self.origin, message)));
    }

    /// Leaves the rest, behind what it has published itself: in that order Redis tells it.
    pub fn post_to_origin(self, directory: Directory<'_>) {
        post_all(directory, self.messages.into_values());
    }
}

fn post_all(directory: Directory<'_>, messages: impl Iterator<Item = Invalidations>) {
    let wakes = PendingWakes::default();
    for (tracker, keys) in messages {
        let (receiver, notices) = address(directory, &tracker, &keys);
        directory.mailboxes.post_invalidations(&receiver, notices, &wakes);
    }
    directory.mailboxes.wake(&wakes);
}

/// The client that is to be told, and what.
fn address(
    directory: Directory<'_>,
    tracker: &TrackedClient,
    keys: &[Option<SharedKeys>],
) -> (Arc<Client>, Vec<Invalidation>) {
    let itself = || Arc::clone(&tracker.client);
    let invalid = |redirected| {
        keys.iter().map(move |keys| Invalidation::Invalid { keys: keys.clone(), redirected })
    };
    let Some(target) = tracker.options.redirect else {
        return (itself(), invalid(false).collect());
    };
    if let Some(client) = directory.clients.find(target) {
        return (client, invalid(true).collect());
    }
    tracker.client.set_flag(client_flags::BROKEN_REDIRECT, true);
    (itself(), keys.iter().map(|_| Invalidation::RedirectionBroken(target)).collect())
}
