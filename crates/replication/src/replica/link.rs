//! The link's life: which primary it leads to, when it connects, when it ends, and what it says by
//! itself.
//!
//! Invariants: at most one connection attempt begins per second; the position is where our data
//! stands in the primary's stream, or none if it stands nowhere; a connection that is closed says
//! nothing more, and is told nothing more.

use proto::args::encode_command;

use super::action::{LoadMode, LoadOrder, Outbox, PrimaryChannel, ReplicaAction};
use super::channel::{ChannelDialect, ChannelHandshake, DualChannel, HeldBytes};
use super::handover::Handover;
use super::handshake::Handshake;
use super::phase::{ConnectCause, Phase, Streaming};
use super::settings::{PrimaryAddress, ReplicaSettings, ReplicaofReply};
use super::stream::StreamParser;
use crate::history::SavedHistory;
use crate::ids::ReplicationId;

/// The engine of a server that may be a replica.
pub struct ReplicaLink {
    pub(super) settings: ReplicaSettings,
    pub(super) out: Outbox,
    pub(super) primary: Option<PrimaryAddress>,
    /// Whether the next primary is to become one by our own request.
    pub(super) handover: Handover,
    pub(super) phase: Phase,
    /// Where our data stands: whole units that were handed over count as data.
    pub(super) position: Option<SavedHistory>,
    /// Whether the present primary has said that our data are of its history, and nothing since
    /// that they are not.
    pub(super) is_confirmed: bool,
    pub(super) applied: u64,
    pub(super) synced: u64,
    pub(super) clocks: LinkClocks,
    /// Where the data come on a second connection: what the first one does until they are loaded.
    pub(super) beside: Option<DualChannel>,
    pub(super) held: HeldBytes,
    /// Bytes of each connection that were shown already and are not done with.
    pub(super) left: [usize; 2],
    pub(super) attempts: Attempts,
}

/// When things happened.
#[derive(Debug, Default)]
pub(super) struct LinkClocks {
    /// When the latest attempt to connect began.
    pub(super) attempt_ms: Option<u64>,
    /// When bytes came last.
    pub(super) heard_ms: u64,
    /// When we spoke of ourselves last.
    pub(super) said_ms: u64,
    /// Since when the stream does not flow, if it ever did.
    pub(super) down_since_ms: Option<u64>,
    /// For how long it did not, before that.
    pub(super) down_ms: u64,
}

/// How often a connection to the present primary was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Since a stream ended last, the one that led to the present stream included
    /// (`master_current_sync_attempts`).
    pub current: u64,
    /// In all (`master_total_sync_attempts`).
    pub total: u64,
}

/// How a load went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadOutcome {
    /// All is there, and this database is selected in the stream behind it: `repl-stream-db`, or 0.
    Loaded {
        /// The database.
        database: u32,
    },
    /// The data is of no use; what was there before still is.
    Refused,
    /// The data is of no use, and what was there before is gone.
    Lost,
}

/// No second attempt to connect begins before so long after the first.
const RETRY_MS: u64 = 1000;

/// How often we speak of ourselves.
pub(super) const SAY_MS: u64 = 1000;

/// What the log says of a primary that leaves the handshake without a reply.
const NO_RESPONSE: &str = "Master did not respond to command during SYNC handshake";

/// How long one reply of the handshake may take.
const REPLY_MS: u64 = 5000;

impl ReplicaLink {
    /// One without a primary.
    pub fn new(settings: ReplicaSettings) -> Self {
        Self {
            settings,
            out: Outbox::default(),
            primary: None,
            handover: Handover::None,
            phase: Phase::Unlinked,
            position: None,
            is_confirmed: false,
            applied: 0,
            synced: 0,
            clocks: LinkClocks::default(),
            beside: None,
            held: HeldBytes::default(),
            left: [0; 2],
            attempts: Attempts::default(),
        }
    }

    /// The configuration changes.
    pub fn configure(&mut self, settings: ReplicaSettings) {
        self.settings = settings;
    }

    /// What is to be done, in order.
    pub fn take_actions(&mut self) -> Vec<ReplicaAction> {
        self.out.take()
    }

    /// REPLICAOF with a host, from a client if there is one. `own` is where our own stream ends, if
    /// we are a primary: the new one may go on from there.
    pub fn replicaof(
        &mut self,
        primary: PrimaryAddress,
        own: Option<SavedHistory>,
        client: Option<&str>,
        now_ms: u64,
    ) -> ReplicaofReply {
        let old = self.primary.as_ref();
        if old.is_some_and(|old| old.is_same(&primary)) {
            self.out.notice(
                "REPLICAOF would result into synchronization with the master we are already \
                 connected with. No operation performed.",
            );
            return ReplicaofReply::Already;
        }
        if old.is_none() {
            if own.is_some() {
                self.out.notice(
                    "Before turning into a replica, using my own master parameters to synthesize \
                     a cached master: I may be able to synchronize with the new master with just \
                     a partial transfer.",
                );
            }
            self.position = own;
            self.applied = own.map_or(0, |own| own.offset);
        }
        self.disconnect(now_ms, SocketState::Open);
        let enabled = client.map(|client| {
            let PrimaryAddress { host, port } = &primary;
            format!("REPLICAOF {host}:{port} enabled (user request from '{client}')")
        });
        self.primary = Some(primary);
        self.is_confirmed = false;
        self.clocks = LinkClocks::default();
        self.attempts = Attempts::default();
        self.connect(ConnectCause::Asked, now_ms);
        enabled.into_iter().for_each(|line| self.out.notice(line));
        ReplicaofReply::Done
    }

    /// REPLICAOF NO ONE. Returns where our own stream begins, if we were a replica: what was handed
    /// over is to be applied first, then the history parts there. `None` within: our data stands
    /// nowhere in a primary's stream.
    pub fn promote(&mut self, now_ms: u64) -> Option<Option<SavedHistory>> {
        self.primary.take()?;
        self.handover = Handover::None;
        self.disconnect(now_ms, SocketState::Open);
        self.discard_cached();
        Some(self.position.take())
    }

    /// Where our data stands in the primary's stream; to be written down beside it.
    pub fn position(&self) -> Option<SavedHistory> {
        self.position
    }

    /// Whether our data are of this history, and no other data are coming in their place.
    pub fn is_in_history(&self, id: ReplicationId) -> bool {
        let gives_way = match &self.phase {
            Phase::Loading { .. } => true,
            Phase::Receiving { order, .. } => order.mode == LoadMode::Flush,
            _ => false,
        };
        !gives_way && self.position.is_some_and(|position| position.id == id)
    }

    /// Our data stand nowhere any more.
    pub fn forget_position(&mut self) {
        self.position = None;
    }

    /// The connection stands.
    pub fn connected(&mut self, wire: PrimaryChannel, now_ms: u64) {
        match (wire, &self.phase, &self.beside) {
            (PrimaryChannel::Main, Phase::Connecting, _) => {
                self.out.notice("Non blocking connect for SYNC fired the event.");
                let handshake = Handshake::begin(&mut self.out);
                self.phase = Phase::Shaking { handshake, since_ms: now_ms };
            }
            (PrimaryChannel::Rdb, Phase::OpeningChannel, Some(beside)) => {
                let dialect = beside.dialect;
                let handshake = ChannelHandshake::begin(dialect, &self.settings, &mut self.out);
                self.phase = Phase::ShakingChannel { handshake, since_ms: now_ms };
            }
            _ => return,
        }
        self.clocks.heard_ms = now_ms;
        self.left[wire as usize] = 0;
    }

    /// No connection could be made.
    pub fn connect_failed(&mut self, wire: PrimaryChannel, why: &str, now_ms: u64) {
        match (wire, &self.phase) {
            (PrimaryChannel::Main, Phase::Connecting) => {
                self.out.warning(format!("Error condition on socket for SYNC: {why}"));
                self.disconnect(now_ms, SocketState::Closed);
                self.wait(now_ms);
            }
            (PrimaryChannel::Rdb, Phase::OpeningChannel) => {
                self.out.warning(format!("Error condition on socket for the RDB channel: {why}"));
                self.lose_channel(now_ms);
            }
            _ => {}
        }
    }

    /// The primary closed the connection, or it broke. Of a connection whose stream is held this is
    /// told when all that was held is shown.
    pub fn closed(&mut self, wire: PrimaryChannel, now_ms: u64) {
        match wire {
            PrimaryChannel::Main => self.main_closed(now_ms),
            PrimaryChannel::Rdb if self.beside.is_none() => {}
            PrimaryChannel::Rdb => match &self.phase {
                Phase::OpeningChannel => self.connect_failed(wire, "closed", now_ms),
                Phase::ShakingChannel { .. } | Phase::Announced(_) | Phase::Receiving { .. } => {
                    let line = "I/O error trying to sync with MASTER: RDB channel lost";
                    self.out.warning(line);
                    self.lose_channel(now_ms);
                }
                _ => {}
            },
        }
    }

    fn main_closed(&mut self, now_ms: u64) {
        match &mut self.phase {
            Phase::Unlinked | Phase::Waiting { .. } => return,
            Phase::Loading { is_lost, .. }
                if self.beside.as_ref().is_none_or(|it| it.loaded.is_none()) =>
            {
                *is_lost = true;
                return;
            }
            Phase::Connecting => {
                return self.connect_failed(PrimaryChannel::Main, "closed", now_ms);
            }
            Phase::Shaking { .. } => {
                self.out.warning("Failed to read response from the server: connection lost");
                self.out.warning(NO_RESPONSE);
                self.disconnect(now_ms, SocketState::Closed);
                return self.wait(now_ms);
            }
            Phase::OpeningChannel
            | Phase::ShakingChannel { .. }
            | Phase::Announced(_)
            | Phase::Receiving { .. } => {
                self.out.warning("I/O error trying to sync with MASTER: connection lost");
            }
            Phase::Loading { .. } | Phase::Streaming(_) => {}
        }
        self.reconnect(now_ms, SocketState::Closed);
    }

    /// The second connection is gone before all data have come.
    fn lose_channel(&mut self, now_ms: u64) {
        if let Some(beside) = &mut self.beside {
            beside.is_open = false;
        }
        self.reconnect(now_ms, SocketState::Open);
    }

    /// The load went so; whether it was still waited for. Bytes that came behind the data are to be
    /// shown again now.
    pub fn loaded(&mut self, outcome: LoadOutcome, now_ms: u64) -> bool {
        let (order, is_lost, is_whole) = match self.phase {
            Phase::Loading { order, is_lost, .. } => (order, is_lost, true),
            Phase::Receiving { order, .. } => (order, false, false),
            _ => return false,
        };
        if let LoadOutcome::Loaded { database } = outcome
            && is_whole
            && !is_lost
            && let Some(beside) = self.beside.as_mut().filter(|it| !it.is_held())
        {
            beside.loaded = Some(database);
            return true;
        }
        match outcome {
            LoadOutcome::Loaded { database } if is_whole => self.adopt(order, database, now_ms),
            LoadOutcome::Refused => {}
            LoadOutcome::Loaded { .. } | LoadOutcome::Lost => self.position = None,
        }
        let socket = if is_lost { SocketState::Closed } else { SocketState::Open };
        if !matches!(self.phase, Phase::Streaming(_)) {
            self.out.warning("Failed trying to load the MASTER synchronization DB");
            self.phase = Phase::Announced(None);
            self.reconnect(now_ms, socket);
        } else if is_lost {
            self.closed(PrimaryChannel::Main, now_ms);
        } else if order.of.is_some() {
            self.acknowledge(self.applied, now_ms);
        }
        true
    }

    /// All units up to this offset are applied.
    pub fn applied(&mut self, offset: u64, now_ms: u64) {
        self.applied = offset;
        self.answer_asked(now_ms);
    }

    /// All units up to this offset are on disk.
    pub fn synced(&mut self, offset: u64, now_ms: u64) {
        self.synced = offset;
        if let Phase::Streaming(stream) = &mut self.phase
            && stream.unsynced.take_if(|asked| *asked <= offset).is_some()
        {
            self.acknowledge(self.applied, now_ms);
        }
    }

    /// The stream cannot be applied, and why: our data stands nowhere any more, and the next link
    /// asks for all data.
    pub fn apply_failed(&mut self, why: &str, now_ms: u64) {
        self.position = None;
        if self.primary.is_some() {
            self.out.warning(format!("The stream of the master can't be applied: {why}"));
            self.reconnect(now_ms, SocketState::Open);
        }
    }

    /// Time passes; to be called a few times per second.
    pub fn tick(&mut self, now_ms: u64) {
        let timeout_ms = self.settings.timeout_ms;
        let is_silent = now_ms.saturating_sub(self.clocks.heard_ms) >= timeout_ms;
        let reply_ms = self.reply_ms();
        let is_over = |since_ms: u64| now_ms.saturating_sub(since_ms) >= reply_ms;
        let line = match &self.phase {
            Phase::Waiting { until_ms, cause } if now_ms >= *until_ms => {
                return self.connect(*cause, now_ms);
            }
            Phase::Connecting if is_silent => "Timeout connecting to the MASTER...",
            Phase::Shaking { since_ms, .. } if is_over(*since_ms) => {
                self.out.warning(NO_RESPONSE);
                return self.fail(now_ms);
            }
            Phase::ShakingChannel { handshake, since_ms }
                if !handshake.has_asked() && is_over(*since_ms) =>
            {
                "Master did not respond to command during the handshake of the RDB channel"
            }
            _ if self.beside.as_ref().and_then(DualChannel::waits_since).is_some_and(is_over) => {
                "Master did not respond to command beside its data"
            }
            Phase::OpeningChannel
            | Phase::ShakingChannel { .. }
            | Phase::Announced(_)
            | Phase::Receiving { .. }
                if is_silent =>
            {
                "Timeout receiving bulk data from MASTER..."
            }
            Phase::Streaming(_) if is_silent => "MASTER timeout: no data nor PING received...",
            _ => return self.speak(now_ms),
        };
        self.out.warning(line);
        self.reconnect(now_ms, SocketState::Open);
    }

    /// How long one reply may take. A peer that is to become a primary may have much to do.
    fn reply_ms(&self) -> u64 {
        let timeout_ms = self.settings.timeout_ms;
        if self.handover.is_underway() { timeout_ms } else { REPLY_MS.min(timeout_ms) }
    }

    /// Says what is due by the clock.
    fn speak(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.clocks.said_ms) < SAY_MS {
            return;
        }
        match &self.phase {
            Phase::Streaming(stream) if stream.is_counted => {
                self.acknowledge(self.applied, now_ms);
            }
            // A primary that is not asked for the stream yet takes no sign of life.
            _ if self.beside.as_ref().is_some_and(|it| !it.is_held()) => {}
            Phase::Receiving { order: LoadOrder { mode: LoadMode::Disk, .. }, .. } => {}
            Phase::Receiving { .. } | Phase::Loading { is_lost: false, .. } => {
                self.clocks.said_ms = now_ms;
                self.out.send(*b"\n");
            }
            _ => {}
        }
    }

    /// Answers the requests for an acknowledgement that stand behind applied units only: at once,
    /// and once more when these are on disk, as somebody may wait for that.
    pub(super) fn answer_asked(&mut self, now_ms: u64) {
        let mut answered = None;
        while let Phase::Streaming(stream) = &mut self.phase
            && let Some(asked) = stream.asked.pop_front_if(|asked| *asked <= self.applied)
        {
            if stream.is_counted {
                self.acknowledge(asked, now_ms);
                answered = Some(asked);
            }
        }
        let is_unsynced = |asked: &u64| self.settings.has_aof && *asked > self.synced;
        if let Some(asked) = answered.filter(is_unsynced)
            && let Phase::Streaming(stream) = &mut self.phase
        {
            stream.unsynced = Some(asked);
            self.out.push(ReplicaAction::AwaitSync(asked));
        }
    }

    fn acknowledge(&mut self, offset: u64, now_ms: u64) {
        self.clocks.said_ms = now_ms;
        let (offset, synced) = (offset.to_string(), self.synced.to_string());
        let mut words = vec![&b"REPLCONF"[..], b"ACK", offset.as_bytes()];
        if self.settings.has_aof {
            words.extend([&b"FACK"[..], synced.as_bytes()]);
        }
        let mut bytes = Vec::new();
        encode_command(words.into_iter(), &mut bytes);
        self.out.send(bytes);
    }

    /// Our data is the primary's now, and the stream begins behind it.
    fn adopt(&mut self, order: LoadOrder, database: u32, now_ms: u64) {
        let saved = |(id, offset)| SavedHistory { id, offset, database, second: None };
        let of = order.of.map(saved);
        if order.mode == LoadMode::Swap {
            self.discard_cached();
        }
        self.position = of;
        self.applied = of.map_or(0, |of| of.offset);
        self.synced = 0;
        self.out.push(ReplicaAction::SetHistory(of));
        self.out.notice("MASTER <-> REPLICA sync: Finished with success");
        self.flow(self.applied, database, now_ms);
    }

    /// The stream flows from here on.
    pub(super) fn flow(&mut self, offset: u64, database: u32, now_ms: u64) {
        let ReplicaSettings { databases, unit_len_max, .. } = self.settings;
        self.is_confirmed = true;
        self.clocks.heard_ms = now_ms;
        if let Some(since_ms) = self.clocks.down_since_ms.take() {
            self.clocks.down_ms += now_ms.saturating_sub(since_ms);
        }
        if self.beside.take().is_some() && self.held.size > 0 {
            self.held.flowing = self.held.size;
            self.out.notice(format!(
                "MASTER <-> REPLICA sync: Starting to stream replication buffer into the db ({} \
                 bytes).",
                self.held.size
            ));
        }
        self.phase = Phase::Streaming(Streaming {
            parser: StreamParser::new(database, databases, unit_len_max),
            offset,
            partial: 0,
            is_counted: self.position.is_some(),
            asked: [].into(),
            unsynced: None,
            since_ms: now_ms,
        });
    }

    /// What there was to go on from is of no use any more.
    pub(super) fn discard_cached(&mut self) {
        if self.position.is_some() {
            self.out.notice("Discarding previously cached master state.");
        }
    }

    fn connect(&mut self, cause: ConnectCause, now_ms: u64) {
        let Some(PrimaryAddress { host, port }) = self.primary.clone() else { return };
        self.clocks.attempt_ms = Some(now_ms);
        self.clocks.heard_ms = now_ms;
        self.attempts.current += 1;
        self.attempts.total += 1;
        self.phase = Phase::Connecting;
        self.out.notice(match cause {
            ConnectCause::Asked => format!("Connecting to MASTER {host}:{port}"),
            ConnectCause::StreamLost => format!("Reconnecting to MASTER {host}:{port}"),
            ConnectCause::SyncFailed => {
                format!("Reconnecting to MASTER {host}:{port} after failure")
            }
        });
        self.out.push(ReplicaAction::Connect { wire: PrimaryChannel::Main, host, port });
        self.out.notice("MASTER <-> REPLICA sync started");
    }

    /// All data come on a second connection.
    pub(super) fn open_channel(&mut self, dialect: ChannelDialect, now_ms: u64) {
        let Some(PrimaryAddress { host, port }) = self.primary.clone() else { return };
        self.clocks.heard_ms = now_ms;
        self.beside = Some(DualChannel::new(dialect));
        self.held = HeldBytes::default();
        self.phase = Phase::OpeningChannel;
        self.out.push(ReplicaAction::Connect { wire: PrimaryChannel::Rdb, host, port });
    }

    /// All data have come: a second connection is of no more use.
    pub(super) fn close_channel(&mut self) {
        let beside = self.beside.as_mut();
        if beside.is_some_and(|beside| std::mem::take(&mut beside.is_open)) {
            self.out.push(ReplicaAction::Close { wire: PrimaryChannel::Rdb });
        }
    }

    /// The handshake came to nothing.
    pub(super) fn fail(&mut self, now_ms: u64) {
        self.disconnect(now_ms, SocketState::Open);
        self.wait(now_ms);
    }

    fn wait(&mut self, now_ms: u64) {
        self.phase = Phase::Waiting { until_ms: now_ms + RETRY_MS, cause: ConnectCause::Asked };
    }

    /// A link or a transfer ends: the next one is tried at once, unless one was just now.
    pub(super) fn reconnect(&mut self, now_ms: u64, socket: SocketState) {
        let cause = self.disconnect(now_ms, socket);
        let until_ms = self.clocks.attempt_ms.map_or(now_ms, |attempt| attempt + RETRY_MS);
        self.phase = Phase::Waiting { until_ms, cause };
        if now_ms >= until_ms {
            self.connect(cause, now_ms);
        }
    }

    /// Ends what goes on; why the next connection is tried, if one is.
    fn disconnect(&mut self, now_ms: u64, socket: SocketState) -> ConnectCause {
        if let Phase::Loading { order, .. } = self.phase
            && let Some(database) = self.beside.as_mut().and_then(|it| it.loaded.take())
        {
            // The data are there, and only the stream behind them is not.
            self.adopt(order, database, now_ms);
        }
        self.lose_handover();
        let old = std::mem::replace(&mut self.phase, Phase::Unlinked);
        let is_open = !matches!(
            old,
            Phase::Unlinked | Phase::Waiting { .. } | Phase::Loading { is_lost: true, .. }
        );
        if is_open && socket == SocketState::Open {
            self.out.push(ReplicaAction::Close { wire: PrimaryChannel::Main });
        }
        self.close_channel();
        self.beside = None;
        self.held.size = 0;
        match old {
            Phase::Receiving { .. } => self.out.push(ReplicaAction::AbortLoad),
            Phase::Loading { order, .. } => {
                self.out.push(ReplicaAction::AbortLoad);
                // Beside what is there, or in its place.
                self.position = self.position.filter(|_| order.mode == LoadMode::Swap);
            }
            Phase::Streaming(_) => {
                self.clocks.down_since_ms = Some(now_ms);
                self.attempts.current = 0;
                self.out.notice("Connection with master lost.");
                if self.position.is_some() {
                    self.out.notice("Caching the disconnected master state.");
                }
                return ConnectCause::StreamLost;
            }
            _ => {}
        }
        ConnectCause::SyncFailed
    }
}

/// Whether a connection is still there to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketState {
    /// The connection is there.
    Open,
    /// The other side has closed.
    Closed,
}
