//! Shard channels whose hash slot has another owner: their subscribers are told that it is over.
//!
//! Invariant: a client that has subscribed is told with the table by which its channel's slot is
//! another node's, or sees by itself that this came before its subscription.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::hash_slot::hash_slot;
use proto::Reply;

use super::Session;
use crate::clients::mailbox::PendingWakes;
use crate::clients::registry::SubscriptionKind::ShardChannel;
use crate::shared::Shared;

impl Session {
    /// Ends subscriptions to shard channels of these slots.
    #[cold]
    pub(super) fn leave_lost_channels(&mut self, slots: &BTreeSet<u16>, reply: &mut Reply<'_>) {
        let Some(all) = &mut self.subscriptions else { return };
        for name in all.names(ShardChannel) {
            if !slots.contains(&hash_slot(&name)) {
                continue;
            }
            // What was published before came before the letter that asks for this.
            all.remove(ShardChannel, &name, || ());
            reply.push(3);
            reply.bulk(b"sunsubscribe");
            reply.bulk(&name);
            reply.integer(all.count(ShardChannel) as i64);
        }
        if all.is_empty() {
            self.subscriptions = None;
        }
    }
}

/// A table counts by which slots are lost: subscribers of their shard channels are told.
pub fn notify_lost_channels(server: &Shared, is_lost: impl Fn(u16) -> bool) {
    let registry = server.pushes.pubsub.registry(ShardChannel);
    if registry.count() == 0 {
        return;
    }
    let names = registry.names(None);
    let slots = names.iter().map(|channel| hash_slot(&channel.name));
    let lost = Arc::new(slots.filter(|slot| is_lost(*slot)).collect::<BTreeSet<u16>>());
    if lost.is_empty() {
        return;
    }
    let wakes = PendingWakes::default();
    for client in server.clients.all() {
        if client.subscriptions_of(ShardChannel) > 0 {
            server.mailboxes.post_rerouted(&client, &lost, &wakes);
        }
    }
    server.mailboxes.wake(&wakes);
}

/// A client has just subscribed to a shard channel, whose slot may have left behind the gates.
pub fn recheck_channel(server: &Shared, session: &Session, name: &[u8]) {
    let slot = hash_slot(name);
    if server.gates.routing.is_on() && !server.gates.routing.table().is_served(slot) {
        let wakes = PendingWakes::default();
        let lost = Arc::new(BTreeSet::from([slot]));
        server.mailboxes.post_rerouted(&session.client, &lost, &wakes);
        server.mailboxes.wake(&wakes);
    }
}
