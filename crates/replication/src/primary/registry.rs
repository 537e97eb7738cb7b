//! The replicas that are attached, in the order of their attaching.
//!
//! Invariants: a replica that is closed is in no count from then on; a round has replicas, or is
//! aborted; of two connections of one replica none is left alone before the snapshot's end.

use super::action::{CloseWhen, LogLevel, PrimaryAction, RoundId};
use super::attached::{Attached, Dialect, ReplicaId, Stage};
use super::replconf_state::{Ack, IsNode, Nameable, RdbReader, ReplconfReply, ReplconfState};
use super::round_pauses::RoundPauses;
use super::rounds::Round;
use super::settings::{OutputLimit, PrimarySettings};

/// Twenty random bytes that nobody can foresee, at each call.
pub type RandomIds = Box<dyn FnMut() -> [u8; 20] + Send>;

/// The engine of a server that has replicas.
pub struct Primary {
    pub(super) settings: PrimarySettings,
    pub(super) random_ids: RandomIds,
    pub(super) replicas: Vec<Attached>,
    pub(super) round: Option<Round>,
    /// Whether no round may begin.
    pub(super) holds_rounds: bool,
    pub(super) pauses: RoundPauses,
    pub(super) rounds_begun: u64,
    pub(super) counts: SyncCounts,
    actions: Vec<PrimaryAction>,
    pub(super) pinged_ms: u64,
    /// Since when there is no replica.
    pub(super) alone_since_ms: Option<u64>,
    /// Online replicas that were heard of lately, as of the last look.
    pub(super) good: usize,
    pub(super) acks_wanted: bool,
}

/// How often replicas synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncCounts {
    /// `sync_full`.
    pub full: u64,
    /// `sync_partial_ok`.
    pub partial_ok: u64,
    /// `sync_partial_err`.
    pub partial_err: u64,
    /// Links closed for their debt, a part of `client_output_buffer_limit_disconnections`.
    pub overweight: u64,
}

impl Primary {
    /// One without replicas.
    pub fn new(settings: PrimarySettings, random_ids: RandomIds, now_ms: u64) -> Primary {
        Primary {
            settings,
            random_ids,
            replicas: Vec::new(),
            round: None,
            holds_rounds: false,
            pauses: RoundPauses::default(),
            rounds_begun: 0,
            counts: SyncCounts::default(),
            actions: Vec::new(),
            pinged_ms: now_ms,
            alone_since_ms: Some(now_ms),
            good: 0,
            acks_wanted: false,
        }
    }

    /// Changes the directives; they hold from the next event on.
    pub fn configure(&mut self, settings: PrimarySettings, now_ms: u64) {
        self.settings = settings;
        self.begin_due_round(now_ms);
        self.count_good(now_ms);
    }

    /// What is to be done since the last call.
    #[must_use]
    pub fn take_actions(&mut self) -> Vec<PrimaryAction> {
        std::mem::take(&mut self.actions)
    }

    /// How often replicas synced since the counters were reset.
    pub fn counts(&self) -> SyncCounts {
        self.counts
    }

    /// Begins the counters anew, as CONFIG RESETSTAT does.
    pub fn reset_counts(&mut self) {
        self.counts = SyncCounts::default();
    }

    /// The REPLCONF of a client that is not attached, whose name is not among `args`. `nodes` are
    /// those of our cluster, if we are in one.
    pub fn announce(
        &self,
        announced: &mut ReplconfState,
        args: &[&[u8]],
        nodes: Option<IsNode<'_>>,
    ) -> ReplconfReply {
        let awaits_channel = |id| self.awaits_channel(id);
        let is_unnamed = |id| self.unnamed_channel(id).is_some();
        let nameable = Nameable {
            channels: self.settings.rdb_channel || self.settings.dual_channel,
            mains: self.settings.rdb_channel.then_some(&awaits_channel),
            numbered: self.settings.dual_channel.then_some(&is_unnamed),
            nodes,
        };
        announced.replconf(args, &nameable)
    }

    /// An attached replica's REPLCONF, whose name is not among `args`. `client` is the client as
    /// CLIENT LIST shows it.
    pub fn replconf(&mut self, id: ReplicaId, args: &[&[u8]], client: &str, now_ms: u64) {
        let Some(index) = self.index_of(id) else { return };
        match self.replicas[index].announced.replconf(args, &Nameable::default()) {
            ReplconfReply::Silence => {}
            ReplconfReply::Ack(ack) => self.take_ack(index, ack, now_ms),
            ReplconfReply::Ok | ReplconfReply::Error(_) => {
                self.misbehaved(id, "replconf", client, now_ms);
            }
        }
    }

    /// An attached replica sent an empty line: a sign of life.
    pub fn newline(&mut self, id: ReplicaId, now_ms: u64) {
        if let Some(index) = self.index_of(id) {
            self.replicas[index].heard_ms = now_ms;
        }
    }

    /// An attached replica sent a command that would be answered. Replies have no place in a
    /// stream, so that the link is closed. `client` is the client as CLIENT LIST shows it.
    pub fn misbehaved(&mut self, id: ReplicaId, command: &str, client: &str, now_ms: u64) {
        let Some(index) = self.index_of(id) else { return };
        self.log(
            LogLevel::Warning,
            format!("Replica generated a reply to command '{command}', disconnecting it: {client}"),
        );
        self.close(index, CloseWhen::Now, now_ms);
        self.begin_due_round(now_ms);
    }

    /// A link ended; one that was closed for the engine's sake is known to have.
    pub fn closed(&mut self, id: ReplicaId, now_ms: u64) {
        if let Some(index) = self.index_of(id) {
            self.tell_of_unloaded(index, now_ms);
            self.detach(index, now_ms);
            self.begin_due_round(now_ms);
        }
    }

    /// Tells of a replica that left with all its data and before it had loaded them: Redis 6.2
    /// does so where it does not know the version, and introduces itself as Redis 7 does. As it
    /// comes back at once, its next data wait a while.
    fn tell_of_unloaded(&mut self, index: usize, now_ms: u64) {
        let replica = &self.replicas[index];
        let requirements = replica.announced.requirements;
        let is_unknown =
            replica.dialect == Dialect::Psync && requirements.reader == RdbReader::Unknown;
        if replica.loads && is_unknown && !self.settings.writes_redis_6 {
            let line = format!(
                "Replica {} closed its link before it had loaded its data. Redis 6.2 and KeyDB \
                 load no RDB version beyond 9, and have no functions: they want rdb-write-version \
                 9 here",
                replica.name()
            );
            self.log(LogLevel::Warning, line);
            self.pauses.failed(requirements, now_ms);
        }
    }

    /// The stream's history changes, or our role: all links are closed, and replicas ask anew.
    pub fn drop_all(&mut self, now_ms: u64) {
        while !self.replicas.is_empty() {
            self.close(0, CloseWhen::Now, now_ms);
        }
    }

    /// Looks whether what a replica has still to receive, the stream behind a snapshot included,
    /// is too much. `client` is the client as CLIENT LIST shows it.
    pub fn weigh(
        &mut self,
        id: ReplicaId,
        debt: u64,
        limit: OutputLimit,
        backlog_size: u64,
        client: &str,
        now_ms: u64,
    ) {
        let Some(index) = self.index_of(id) else { return };
        let replica = &mut self.replicas[index];
        let is_heavy = limit.soft != 0 && debt >= limit.soft;
        let since_ms = is_heavy.then(|| replica.heavy_ms.unwrap_or(now_ms));
        replica.heavy_ms = since_ms;
        let is_over_hard = limit.hard != 0 && debt >= limit.hard.max(backlog_size);
        let is_over_soft =
            since_ms.is_some_and(|since_ms| now_ms.saturating_sub(since_ms) > limit.soft_ms);
        if is_over_hard || is_over_soft {
            self.log(
                LogLevel::Warning,
                format!(
                    "Client {client} scheduled to be closed ASAP for overcoming of output buffer \
                     limits."
                ),
            );
            self.counts.overweight += 1;
            self.close(index, CloseWhen::Now, now_ms);
            self.begin_due_round(now_ms);
        }
    }

    pub(super) fn index_of(&self, id: ReplicaId) -> Option<usize> {
        self.replicas.iter().position(|replica| replica.id == id)
    }

    /// Whether a replica waits for its second connection, and has none.
    pub(super) fn awaits_channel(&self, main: ReplicaId) -> bool {
        let mut waiting = self.replicas.iter().filter(|it| it.stage == Stage::AwaitsChannel);
        waiting.any(|replica| replica.id == main)
            && self.replicas.iter().all(|replica| replica.main != Some(main))
    }

    /// A connection for a snapshot only whose replica has not named it.
    pub(super) fn unnamed_channel(&self, id: ReplicaId) -> Option<usize> {
        let index = self.index_of(id)?;
        let channel = &self.replicas[index];
        (channel.dialect == Dialect::Numbered && channel.main.is_none()).then_some(index)
    }

    pub(super) fn push_action(&mut self, action: PrimaryAction) {
        self.actions.push(action);
    }

    pub(super) fn log(&mut self, level: LogLevel, line: String) {
        self.push_action(PrimaryAction::Log { level, line });
    }

    pub(super) fn send(&mut self, replica: ReplicaId, bytes: impl Into<Vec<u8>>) {
        self.push_action(PrimaryAction::Send { replica, bytes: bytes.into() });
    }

    /// Ends a replica from our side.
    pub(super) fn close(&mut self, index: usize, when: CloseWhen, now_ms: u64) {
        let replica = self.replicas[index].id;
        self.push_action(PrimaryAction::Close { replica, when });
        self.detach(index, now_ms);
    }

    fn detach(&mut self, index: usize, now_ms: u64) {
        let replica = self.replicas.remove(index);
        let others_join = self.replicas.iter().any(|other| other.stage == Stage::Joined);
        if replica.stage == Stage::Joined
            && !others_join
            && let Some(round) = self.round.take()
        {
            self.push_action(PrimaryAction::AbortSnapshot { round: round.id });
        }
        if let Some(index) = self.other_end(&replica) {
            self.close(index, CloseWhen::Now, now_ms);
        }
        if self.replicas.is_empty() {
            self.alone_since_ms = Some(now_ms);
        }
        self.count_good(now_ms);
    }

    /// The connection that must not outlive this one: one for a snapshot whose replica is gone, or
    /// a replica whose snapshot has not come to its end.
    fn other_end(&self, gone: &Attached) -> Option<usize> {
        self.replicas.iter().position(|other| match gone.main {
            Some(main) => {
                other.id == main
                    && matches!(other.stage, Stage::AwaitsChannel | Stage::BesideChannel)
            }
            None => other.main == Some(gone.id),
        })
    }

    fn take_ack(&mut self, index: usize, ack: Ack, now_ms: u64) {
        let is_cut = self.round.as_ref().is_some_and(|round| round.cut.is_some());
        let replica = &mut self.replicas[index];
        replica.take_ack(ack, now_ms);
        match replica.stage {
            Stage::Joined => replica.acked_early |= is_cut,
            Stage::SendingRest => replica.acked_early = true,
            Stage::OnlineUnheard => self.start_stream(index, now_ms),
            Stage::BesideChannel => {
                replica.enter(Stage::Online, now_ms);
                self.count_good(now_ms);
            }
            Stage::AwaitsChannel
            | Stage::Waiting
            | Stage::SendingFile
            | Stage::Transmitted
            | Stage::Online => {}
        }
    }

    /// Lets a replica have the stream from its place on.
    pub(super) fn start_stream(&mut self, index: usize, now_ms: u64) {
        let replica = self.replicas[index].id;
        self.replicas[index].enter(Stage::Online, now_ms);
        self.push_action(PrimaryAction::Stream { replica });
        self.count_good(now_ms);
    }

    /// The number of rounds is that of the last one.
    pub(super) fn next_round_id(&mut self) -> RoundId {
        self.rounds_begun += 1;
        RoundId(self.rounds_begun)
    }
}
