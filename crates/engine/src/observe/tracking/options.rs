//! What a client may ask of CLIENT TRACKING.
//!
//! Invariant: prefixes are there in broadcast mode only, and none begins with another.

use crate::clients::client_id::ClientId;

/// How a client wants to be tracked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackingOptions {
    /// Which keys are tracked: all that are read, prefixes, or by CLIENT CACHING.
    pub mode: TrackingMode,
    /// Whether the client wants to hear nothing of what it changes itself.
    pub no_loop: bool,
    /// The client that is to be told instead.
    pub redirect: Option<ClientId>,
    /// The keys that it wants to hear of, in broadcast mode; in order.
    pub prefixes: Vec<Box<[u8]>>,
}

/// What of all that it reads a client is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackingMode {
    /// All of it.
    Everything,
    /// What the command right after CLIENT CACHING YES reads.
    OptIn,
    /// All but what the command right after CLIENT CACHING NO reads.
    OptOut,
    /// Of keys with its prefixes, whether it reads them or not.
    Broadcast,
}

impl TrackingOptions {
    /// Whether the client is told of keys that nobody remembers.
    pub(crate) fn broadcasts(&self) -> bool {
        self.mode == TrackingMode::Broadcast
    }

    /// Whether what a command reads is remembered, given whether CLIENT CACHING came before it.
    #[inline]
    pub(crate) fn remembers(&self, has_caching: bool) -> bool {
        match self.mode {
            TrackingMode::Everything => true,
            TrackingMode::OptIn => has_caching,
            TrackingMode::OptOut => !has_caching,
            TrackingMode::Broadcast => false,
        }
    }
}
