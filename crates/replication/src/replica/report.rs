//! The link as ROLE and INFO show it.
//!
//! Invariant: a figure that does not exist is -1, as the texts have it, or its field is absent.

use super::action::RdbFraming;
use super::channel::HeldBytes;
use super::link::{Attempts, ReplicaLink};
use super::phase::{LinkState, Phase};

/// All that a replica tells of its link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkReport<'a> {
    /// `master_host`.
    pub host: &'a str,
    /// `master_port`.
    pub port: u16,
    /// The state; `master_link_status` is up if connected.
    pub state: LinkState,
    /// `master_last_io_seconds_ago`.
    pub last_io_s: i64,
    /// `slave_read_repl_offset`.
    pub read_offset: u64,
    /// `slave_repl_offset`.
    pub offset: u64,
    /// Whether the offset is one of this primary's history, as far as the primary has said.
    pub is_of_primary: bool,
    /// What ROLE says: the applied offset, or -1.
    pub role_offset: i64,
    /// How much of the stream is held until the data are loaded.
    pub held: HeldBytes,
    /// How the data comes, in state sync.
    pub sync: Option<SyncProgress>,
    /// `master_link_down_since_seconds`, unless connected.
    pub down_since_s: Option<i64>,
    /// `master_link_up_since_seconds`, if connected.
    pub up_since_s: Option<i64>,
    /// `total_disconnect_time_sec`.
    pub down_total_s: i64,
    /// How often a connection was tried.
    pub attempts: Attempts,
}

/// How far data has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncProgress {
    /// `master_sync_total_bytes`: -1 as long as that is unknown, 0 if a mark will tell.
    pub total: i64,
    /// `master_sync_read_bytes`.
    pub read: i64,
    /// `master_sync_last_io_seconds_ago`.
    pub last_io_s: i64,
}

impl SyncProgress {
    /// `master_sync_left_bytes`.
    pub fn left(&self) -> i64 {
        self.total - self.read
    }

    /// `master_sync_perc`.
    pub fn percent(&self) -> f64 {
        if self.total > 0 { self.read as f64 * 100.0 / self.total as f64 } else { 0.0 }
    }
}

impl ReplicaLink {
    /// The state of the link.
    pub fn state(&self) -> LinkState {
        self.phase.state()
    }

    /// The link now; `None` if there is no primary.
    pub fn report(&self, now_ms: u64) -> Option<LinkReport<'_>> {
        let primary = self.primary.as_ref()?;
        let seconds = |ms: u64| (ms / 1000) as i64;
        let since = |then_ms: u64| seconds(now_ms.saturating_sub(then_ms));
        let io_s = since(self.clocks.heard_ms);
        let stream = match &self.phase {
            Phase::Streaming(stream) => Some(stream),
            _ => None,
        };
        // Without a stream, and nothing to go on from, the texts say 1.
        let offset = match (stream, self.position) {
            (None, None) => 1,
            _ => self.applied,
        };
        let down_ms = self.clocks.down_since_ms.map(|then_ms| now_ms.saturating_sub(then_ms));
        Some(LinkReport {
            host: &primary.host,
            port: primary.port,
            state: self.state(),
            last_io_s: if stream.is_some() { io_s } else { -1 },
            read_offset: stream.map_or(offset, |it| it.offset + it.partial as u64),
            offset,
            is_of_primary: self.is_confirmed && self.position.is_some(),
            role_offset: stream.map_or(-1, |_| self.applied as i64),
            held: self.held,
            sync: self.progress(io_s),
            down_since_s: stream.is_none().then(|| down_ms.map_or(-1, seconds)),
            up_since_s: stream.map(|stream| since(stream.since_ms)),
            down_total_s: seconds(self.clocks.down_ms + down_ms.unwrap_or(0)),
            attempts: self.attempts,
        })
    }

    fn progress(&self, last_io_s: i64) -> Option<SyncProgress> {
        let (framing, read) = match &self.phase {
            Phase::OpeningChannel | Phase::ShakingChannel { .. } | Phase::Announced(_) => {
                return Some(SyncProgress { total: -1, read: 0, last_io_s });
            }
            Phase::Receiving { order, transfer } => (order.framing, transfer.read()),
            Phase::Loading { order, read, .. } => (order.framing, *read),
            _ => return None,
        };
        let total = match framing {
            RdbFraming::Length(length) => length as i64,
            RdbFraming::Marked => 0,
        };
        Some(SyncProgress { total, read: read as i64, last_io_s })
    }
}
