//! What a client is told: that copies are old, or that nobody can be told for it any more.
//!
//! Invariant: what a notice looks like is decided by the session that passes it on, when it does.

use std::sync::Arc;

use proto::{Reply, Resp};

use crate::clients::client_id::ClientId;

/// The channel that clients without RESP3 listen to.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// Some keys, for all clients that are told of them.
pub(crate) type SharedKeys = Arc<[Box<[u8]>]>;

/// One message.
#[derive(Clone)]
pub enum Invalidation {
    /// Copies of these keys are old, of all keys without any.
    Invalid {
        /// The keys that changed; `None` after FLUSHALL and its like.
        keys: Option<SharedKeys>,
        /// Whether somebody else's copies are meant.
        redirected: bool,
    },
    /// The client that was to be told instead is gone.
    RedirectionBroken(ClientId),
}

impl Invalidation {
    /// Writes the invalidation to a client, if that speaks RESP3 or `subscribes` for somebody else.
    pub(crate) fn write(&self, reply: &mut Reply<'_>, subscribes: bool) {
        match (self, reply.resp()) {
            (Self::Invalid { keys, .. }, Resp::Three) => {
                reply.push(2);
                reply.bulk(b"invalidate");
                write_keys(reply, keys.as_ref());
            }
            (Self::Invalid { keys, redirected: true }, Resp::Two) if subscribes => {
                reply.push(3);
                reply.bulk(b"message");
                reply.bulk(CHANNEL);
                write_keys(reply, keys.as_ref());
            }
            (Self::RedirectionBroken(target), Resp::Three) => {
                reply.push(2);
                reply.bulk(b"tracking-redir-broken");
                reply.integer(*target as i64);
            }
            // RESP2 has no place for it.
            (Self::Invalid { .. } | Self::RedirectionBroken(_), Resp::Two) => {}
        }
    }

    /// About how many bytes it is.
    pub(crate) fn size(&self) -> usize {
        /// The words around the keys, and what frames each.
        const FRAME: usize = 48;
        let Self::Invalid { keys, .. } = self else { return FRAME };
        FRAME + keys.iter().flat_map(|keys| keys.iter()).map(|key| key.len() + 8).sum::<usize>()
    }
}

fn write_keys(reply: &mut Reply<'_>, keys: Option<&SharedKeys>) {
    let Some(keys) = keys else { return reply.null() };
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
}
