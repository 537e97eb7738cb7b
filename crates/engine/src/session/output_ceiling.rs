//! Which of `client-output-buffer-limit` is a client's, and how long a reply may become by it.
//!
//! Invariant: a reply does not grow beyond the hard limit while it is made.

use std::sync::atomic::Ordering;

use config::settings::CLIENT_OUTPUT_BUFFER_LIMIT;
use config::{OutputBufferLimit, OutputBufferLimits};

use crate::clients::registry::{Client, client_flags};
use crate::shared::Shared;

impl Shared {
    /// With so many bytes unsent the client is closed at once, so its replies need not grow beyond
    /// that while they are made.
    pub fn output_ceiling(&self, client: &Client) -> usize {
        // What others bring upon a client that tracks is no reply.
        let flags = client.live.flags.load(Ordering::Relaxed) & !client_flags::TRACKING;
        match limit_of(self.config.get(CLIENT_OUTPUT_BUFFER_LIMIT), flags).hard {
            0 => usize::MAX,
            hard => usize::try_from(hard).unwrap_or(usize::MAX),
        }
    }
}

/// The limit of a client with these flags.
pub fn limit_of(limits: OutputBufferLimits, flags: u32) -> OutputBufferLimit {
    let OutputBufferLimits { normal, pubsub, .. } = limits;
    let watches = flags & (client_flags::MONITOR | client_flags::TRACKING) != 0;
    let subscribes = flags & client_flags::SUBSCRIBER != 0;
    if subscribes || watches && normal.hard == 0 && normal.soft == 0 { pubsub } else { normal }
}
