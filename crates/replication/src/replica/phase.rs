//! How far a link has come.
//!
//! Invariant: what belongs to one phase only is kept in that phase, and gone with it.

use std::collections::VecDeque;

use super::action::LoadOrder;
use super::channel::ChannelHandshake;
use super::handshake::Handshake;
use super::stream::StreamParser;
use super::transfer::Transfer;
use crate::ids::ReplicationId;

/// The state of a link, as ROLE names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// There is no primary: we are one.
    None,
    /// No connection; one will be made.
    Connect,
    /// The connection is being made.
    Connecting,
    /// Words before data or stream.
    Handshake,
    /// All data comes, or is being loaded.
    Sync,
    /// The stream flows.
    Connected,
}

impl LinkState {
    /// As ROLE calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Connect => "connect",
            Self::Connecting => "connecting",
            Self::Handshake => "handshake",
            Self::Sync => "sync",
            Self::Connected => "connected",
        }
    }
}

/// Why a connection is tried, as the log tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectCause {
    /// A client or the configuration asked for it, or the latest one came to nothing.
    Asked,
    /// The stream ended.
    StreamLost,
    /// Data did not come, or were of no use.
    SyncFailed,
}

#[derive(Debug)]
pub(super) enum Phase {
    Unlinked,
    /// No connection; the next one is tried then.
    Waiting {
        until_ms: u64,
        cause: ConnectCause,
    },
    Connecting,
    Shaking {
        handshake: Handshake,
        /// When the wait for the present reply began.
        since_ms: u64,
    },
    /// A second connection is being made, which the data will come on.
    OpeningChannel,
    /// Words on the second connection.
    ShakingChannel {
        handshake: ChannelHandshake,
        /// When the wait for the present reply began.
        since_ms: u64,
    },
    /// The line in front of the data is to come.
    Announced(Option<(ReplicationId, u64)>),
    Receiving {
        order: LoadOrder,
        transfer: Transfer,
    },
    Loading {
        order: LoadOrder,
        read: u64,
        /// The primary is gone meanwhile.
        is_lost: bool,
    },
    Streaming(Streaming),
}

/// A stream that flows.
#[derive(Debug)]
pub(super) struct Streaming {
    pub(super) parser: StreamParser,
    /// Behind the last whole unit.
    pub(super) offset: u64,
    /// How many bytes of the unit behind that have come.
    pub(super) partial: usize,
    /// Whether the primary knows of offsets.
    pub(super) is_counted: bool,
    /// The offsets in front of requests for an acknowledgement that are not answered yet.
    pub(super) asked: VecDeque<u64>,
    /// The last of them that was answered before all in front of it was on disk.
    pub(super) unsynced: Option<u64>,
    pub(super) since_ms: u64,
}

/// How many requests for an acknowledgement are remembered.
const ASKED_MAX: usize = 64;

impl Streaming {
    /// Notes a request that stands behind the last whole unit. Of too many, the last ones get
    /// their answer with the newest.
    pub(super) fn ask(&mut self) {
        if self.asked.len() == ASKED_MAX {
            self.asked.pop_back();
        }
        self.asked.push_back(self.offset);
    }
}

impl Phase {
    pub(super) fn state(&self) -> LinkState {
        match self {
            Self::Unlinked => LinkState::None,
            Self::Waiting { .. } => LinkState::Connect,
            Self::Connecting => LinkState::Connecting,
            Self::Shaking { .. } => LinkState::Handshake,
            Self::OpeningChannel
            | Self::ShakingChannel { .. }
            | Self::Announced(_)
            | Self::Receiving { .. }
            | Self::Loading { .. } => LinkState::Sync,
            Self::Streaming(_) => LinkState::Connected,
        }
    }

    /// Whether bytes of the primary are of use now.
    pub(super) fn is_reading(&self) -> bool {
        matches!(
            self,
            Self::Shaking { .. }
                | Self::ShakingChannel { .. }
                | Self::Announced(_)
                | Self::Receiving { .. }
                | Self::Streaming(_)
        )
    }
}
