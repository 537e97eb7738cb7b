//! One replica: what was said by the replica, how far its sync is, what was acknowledged.
//!
//! Invariant: acknowledged offsets only grow.

use base::quote::escape;

use super::replconf_state::{Ack, Capabilities, ReplconfState};

/// A replica's client number, never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub u64);

/// How far a replica's sync is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its snapshot is to be fetched on another connection, which is not there yet.
    AwaitsChannel,
    /// Its snapshot is being sent on another connection, and the stream on this one.
    BesideChannel,
    /// In no round yet.
    Waiting,
    /// In the round, to the end of its snapshot.
    Joined,
    /// Being sent a file.
    SendingFile,
    /// Being sent what is left of a snapshot towards sockets, which has been made.
    SendingRest,
    /// A connection for a snapshot only, which has all of it, and whose replica has not named it.
    Transmitted,
    /// All data sent, but the stream must not come before the next acknowledgement.
    OnlineUnheard,
    /// Gets the stream.
    Online,
}

/// How the replica asked for its sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// SYNC: no line of reply, and no acknowledgements are expected.
    Sync,
    /// SYNC on a connection for a snapshot only, which is told its number, as Valkey has it.
    Numbered,
    /// PSYNC.
    Psync,
}

/// An attached replica.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) id: ReplicaId,
    /// The address of its end of the link.
    pub(super) peer: String,
    pub(super) announced: ReplconfState,
    /// The replica whose snapshot this connection is for, once that is known.
    pub(super) main: Option<ReplicaId>,
    pub(super) dialect: Dialect,
    pub(super) stage: Stage,
    /// Since when the present stage lasts.
    pub(super) since_ms: u64,
    /// When the replica was last heard of.
    pub(super) heard_ms: u64,
    pub(super) acked: u64,
    pub(super) fsynced: u64,
    /// Whether it has all data, sent or on their way, and has not said that it has loaded them.
    pub(super) loads: bool,
    /// An acknowledgement came before its snapshot was known to be sent.
    pub(super) acked_early: bool,
    /// Since when its socket takes no bytes.
    pub(super) stalled_ms: Option<u64>,
    /// Since when its debt is above the soft limit.
    pub(super) heavy_ms: Option<u64>,
}

impl Attached {
    pub(super) fn new(
        id: ReplicaId,
        peer: &str,
        announced: &ReplconfState,
        dialect: Dialect,
        now_ms: u64,
    ) -> Self {
        Self {
            id,
            peer: peer.to_owned(),
            announced: announced.clone(),
            main: announced.main,
            dialect,
            stage: Stage::Waiting,
            since_ms: now_ms,
            heard_ms: now_ms,
            acked: 0,
            fsynced: 0,
            loads: false,
            acked_early: false,
            stalled_ms: None,
            heavy_ms: None,
        }
    }

    pub(super) fn enter(&mut self, stage: Stage, now_ms: u64) {
        (self.stage, self.since_ms, self.heard_ms) = (stage, now_ms, now_ms);
    }

    pub(super) fn is_online(&self) -> bool {
        matches!(self.stage, Stage::Online | Stage::OnlineUnheard)
    }

    /// Whether this is the second connection of a replica, and no replica itself.
    pub(super) fn is_channel(&self) -> bool {
        self.main.is_some() || self.dialect == Dialect::Numbered
    }

    pub(super) fn has(&self, capability: Capabilities) -> bool {
        self.announced.capabilities.has(capability)
    }

    pub(super) fn take_ack(&mut self, ack: Ack, now_ms: u64) {
        (self.heard_ms, self.loads) = (now_ms, false);
        self.acked = self.acked.max(ack.offset);
        self.fsynced = self.fsynced.max(ack.fsynced.unwrap_or(0));
    }

    /// The address to show. What a client announced is no line of our own, so that nothing in it
    /// may end one.
    pub(super) fn ip(&self) -> String {
        self.announced.ip.as_ref().map_or_else(|| self.peer.clone(), |ip| escape(ip))
    }

    /// The name in the log.
    pub(super) fn name(&self) -> String {
        match self.announced.port {
            0 => format!("{}:<unknown-replica-port>", self.ip()),
            port => format!("{}:{port}", self.ip()),
        }
    }
}
