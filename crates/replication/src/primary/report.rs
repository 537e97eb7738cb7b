//! The replicas as ROLE and INFO show them.
//!
//! Invariants: rows are in the order of attaching; a replica's second connection is no replica.

use std::fmt;

use super::attached::{Attached, Stage};
use super::registry::Primary;

/// One replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaRow {
    /// Its address, the announced one if there is one.
    pub ip: String,
    /// The port that the replica listens to, or 0.
    pub port: i64,
    /// `wait_bgsave`, `send_bulk`, `send_bulk_and_stream` or `online`.
    pub state: &'static str,
    /// Up to where the stream is acknowledged.
    pub offset: u64,
    /// Seconds since the replica was heard of; 0 unless online.
    pub lag_s: u64,
}

impl fmt::Display for ReplicaRow {
    /// What INFO says behind `slaveN:`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ip, port, state, offset, lag_s } = self;
        write!(f, "ip={ip},port={port},state={state},offset={offset},lag={lag_s}")
    }
}

impl Primary {
    /// All replicas, as INFO shows them; ROLE shows those that are online.
    pub fn rows(&self, now_ms: u64) -> impl Iterator<Item = ReplicaRow> {
        let replicas = self.replicas.iter().filter(|replica| !replica.is_channel());
        replicas.map(move |replica| replica.row(now_ms))
    }
}

impl Attached {
    fn row(&self, now_ms: u64) -> ReplicaRow {
        ReplicaRow {
            ip: self.ip(),
            port: self.announced.port,
            state: match self.stage {
                // A snapshot on its way to sockets counts as one that is waited for.
                Stage::AwaitsChannel | Stage::Waiting | Stage::Joined | Stage::SendingRest => {
                    "wait_bgsave"
                }
                Stage::BesideChannel => "send_bulk_and_stream",
                Stage::SendingFile | Stage::Transmitted => "send_bulk",
                Stage::OnlineUnheard | Stage::Online => "online",
            },
            offset: self.acked,
            lag_s: if self.is_online() { self.lag_s(now_ms) } else { 0 },
        }
    }

    /// Whole seconds since the replica was heard of.
    pub(super) fn lag_s(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.heard_ms) / 1000
    }
}
