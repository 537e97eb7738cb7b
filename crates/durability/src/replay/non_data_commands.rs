//! Commands that a primary's stream holds beside those that change its data.
//!
//! Invariant: none of them needs a lock, or leaves anything behind in the data.

use commands::Role;
use engine::observe::pubsub::{PubSubType, Publication};
use proto::Args;

/// What such a command does.
pub(super) enum NonDataCommand<'a> {
    /// The command counts, and that is all: such a command asks for a sign of life or how far this
    /// is, or brings scripts, which the stream has the effects of.
    Nothing,
    /// The command tells subscribers.
    Message(PubSubType, &'a [u8], &'a [u8]),
    /// The primary ends, and has the node of this name take over.
    TakeOver(&'a [u8]),
}

impl<'a> NonDataCommand<'a> {
    /// What a request for a command of this role does, if it is one of these.
    #[inline]
    pub(super) fn of(role: Role, args: Args<'a>) -> Option<Self> {
        let space = match role {
            Role::Ping | Role::Replconf | Role::Script => return Some(Self::Nothing),
            Role::Publish => PubSubType::Global,
            Role::ShardPublish => PubSubType::Shard,
            // CLUSTER FAILOVER FORCE REPLICAID <node>: words of a primary alone.
            Role::ClusterFailover => {
                let is = |index: usize, word: &[u8]| args[index].eq_ignore_ascii_case(word);
                let is_order = args.len() == 5 && is(2, b"FORCE") && is(3, b"REPLICAID");
                return is_order.then_some(Self::TakeOver(args.get(4)?));
            }
            _ => return None,
        };
        let (channel, message) = (args.get(1)?, args.get(2)?);
        (args.len() == 3).then_some(Self::Message(space, channel, message))
    }
}

/// A message as a unit publishes it.
pub(super) fn publication(space: PubSubType, channel: &[u8], message: &[u8]) -> Publication {
    Publication { space, channel: channel.into(), message: message.into() }
}
