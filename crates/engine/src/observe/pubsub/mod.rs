//! Publish and subscribe: channels, patterns over channels, and shard channels.
//!
//! Each channel and each pattern that a client has subscribed to is a set of subscribers; a message
//! is encoded once for each, and its bytes are shared by all that get it.
//!
//! Invariants: locks are taken in one order: a registry's, a set's, a mailbox's; to publish
//! holds no two but the last two. Messages of one publisher, and those to one channel, reach each
//! subscriber in order, that to the channel before those to patterns.

mod registry;
mod subscriptions;

use std::sync::Arc;

use proto::args::encode_command;

pub use registry::Registry;
pub use subscriptions::Subscriptions;

use crate::clients::mailbox::Outbox;
use crate::clients::registry::SubscriptionKind;

/// Where a message is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PubSubType {
    /// To channels, and patterns that match them.
    Global,
    /// To shard channels, which patterns do not see.
    Shard,
}

impl PubSubType {
    /// The command that publishes there.
    pub(crate) fn command(self) -> &'static [u8] {
        match self {
            Self::Global => b"PUBLISH",
            Self::Shard => b"SPUBLISH",
        }
    }
}

/// Takes messages to other nodes of a cluster.
pub trait MessageBus: Send + Sync {
    /// Takes one; where it goes is not waited for.
    fn publish(&self, space: PubSubType, channel: &[u8], message: &[u8]);
}

/// All that is subscribed to.
pub struct PubSub {
    channels: Registry,
    patterns: Registry,
    shard_channels: Registry,
}

impl Default for PubSub {
    fn default() -> Self {
        /// Enough for the threads there may be not to meet.
        const SHARDS: usize = 64;
        Self {
            channels: Registry::new(SHARDS),
            // To publish walks all of them, so they lie together.
            patterns: Registry::in_order(),
            shard_channels: Registry::new(SHARDS),
        }
    }
}

impl PubSub {
    /// Whether nobody would get a message, but for those to shard channels.
    pub(crate) fn is_silent(&self) -> bool {
        self.channels.count() == 0 && self.patterns.count() == 0
    }

    /// All that is subscribed to of a kind.
    pub fn registry(&self, kind: SubscriptionKind) -> &Registry {
        match kind {
            SubscriptionKind::Channel => &self.channels,
            SubscriptionKind::Pattern => &self.patterns,
            SubscriptionKind::ShardChannel => &self.shard_channels,
        }
    }

    /// Leaves a message for all subscribers; for how many subscriptions it was. The caller wakes
    /// workers when its batch is over. Any thread may publish, whatever keys it has locked.
    pub fn publish(
        &self,
        outbox: Outbox<'_>,
        space: PubSubType,
        channel: &[u8],
        message: &[u8],
    ) -> usize {
        let Outbox { mailboxes, wakes } = outbox;
        if space == PubSubType::Shard {
            let Some(found) = self.shard_channels.find(channel) else { return 0 };
            let bytes = encode(&[b"smessage", channel, message]);
            return found.subscribers.publish(mailboxes, wakes, &bytes);
        }
        let mut receivers = 0;
        if let Some(found) = self.channels.find(channel) {
            let bytes = encode(&[b"message", channel, message]);
            receivers += found.subscribers.publish(mailboxes, wakes, &bytes);
        }
        for found in self.patterns.that_match(channel) {
            let bytes = encode(&[b"pmessage", &found.name, channel, message]);
            receivers += found.subscribers.publish(mailboxes, wakes, &bytes);
        }
        receivers
    }

    /// For how many subscriptions a message to a channel would be.
    fn count_receivers(&self, space: PubSubType, channel: &[u8]) -> usize {
        match space {
            PubSubType::Shard => self.shard_channels.subscribers(channel),
            PubSubType::Global => {
                let patterns = self.patterns.that_match(channel);
                let by_pattern: usize = patterns.iter().map(|found| found.subscribers.len()).sum();
                self.channels.subscribers(channel) + by_pattern
            }
        }
    }
}

/// A message that is to be published.
pub struct Publication {
    /// Whether the message goes to channels or to shard channels.
    pub space: PubSubType,
    /// The channel that it is published to.
    pub channel: Box<[u8]>,
    /// The payload.
    pub message: Box<[u8]>,
}

impl Publication {
    /// For how many subscriptions it is now.
    pub(crate) fn count_receivers(&self, pubsub: &PubSub) -> usize {
        pubsub.count_receivers(self.space, &self.channel)
    }
}

/// A message in the form that sessions take: see [`proto::Reply::message`].
fn encode(words: &[&[u8]]) -> Arc<[u8]> {
    /// The most that the header of a word and the line end behind it take.
    const FRAME: usize = 24;
    let size: usize = words.iter().map(|word| word.len() + FRAME).sum();
    let mut bytes = Vec::with_capacity(size + FRAME);
    encode_command(words.iter().copied(), &mut bytes);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{PubSubType, Subscriptions};
    use crate::clients::mailbox::{Outbox, PendingWakes};
    use crate::clients::registry::{Client, Peer, SubscriptionKind};
    use crate::testing;
    use crate::transaction::engine::Engine;

    fn subscriber(server: &'static Engine) -> (Arc<Client>, Subscriptions) {
        let client = server.clients.register(Peer::Unix, Peer::Unix, 0, 0);
        let subscriptions = Subscriptions::new(&server.pushes.pubsub, &server.mailboxes, &client);
        (client, subscriptions)
    }

    #[test]
    fn a_message_reaches_the_channel_first_then_the_patterns() {
        let server = testing::engine();
        let (client, mut subscriptions) = subscriber(server);
        subscriptions.add(SubscriptionKind::Pattern, b"n*");
        subscriptions.add(SubscriptionKind::Pattern, b"other*");
        subscriptions.add(SubscriptionKind::Channel, b"news");
        subscriptions.add(SubscriptionKind::ShardChannel, b"news");
        assert_eq!(server.pushes.pubsub.count_receivers(PubSubType::Global, b"news"), 2);
        assert_eq!(server.pushes.pubsub.count_receivers(PubSubType::Shard, b"news"), 1);
        assert_eq!(server.pushes.pubsub.count_receivers(PubSubType::Shard, b"n"), 0);
        let outbox = Outbox { mailboxes: &server.mailboxes, wakes: &PendingWakes::default() };
        assert_eq!(server.pushes.pubsub.publish(outbox, PubSubType::Global, b"news", b"a"), 2);
        assert_eq!(server.pushes.pubsub.publish(outbox, PubSubType::Shard, b"news", b"b"), 1);
        let expected = [
            "*3 $7 message $4 news $1 a ",
            "*4 $8 pmessage $2 n* $4 news $1 a ",
            "*3 $8 smessage $4 news $1 b ",
        ];
        assert_eq!(testing::read_messages(&client), expected);
    }

    #[test]
    fn what_nobody_listens_to_is_forgotten() {
        let server = testing::engine();
        let (_first, mut one) = subscriber(server);
        let (_second, mut two) = subscriber(server);
        for kind in SubscriptionKind::ALL {
            assert!(one.add(kind, b"x") && two.add(kind, b"x") && !one.add(kind, b"x"));
            assert_eq!(server.pushes.pubsub.registry(kind).count(), 1);
            assert!(one.remove(kind, b"x", || ()) && !one.remove(kind, b"x", || ()));
            assert_eq!(server.pushes.pubsub.registry(kind).count(), 1);
        }
        drop(two);
        for kind in SubscriptionKind::ALL {
            assert_eq!(server.pushes.pubsub.registry(kind).count(), 0);
        }
    }
}
