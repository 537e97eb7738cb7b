//! What all threads may ask of replication, under one lock: both engines, the ids, the stream.
//!
//! Invariants: what the engine wants done is queued for the links' thread while the lock is held,
//! so that it is done in the order in which it was decided; a place in the backlog is taken before
//! the backlog may change. An offset is a shift, which changes with the history only, and what the
//! journal has of the stream.

use std::task::Waker;

use base::random::Random;
use config::settings::{
    REPL_BACKLOG_SIZE, REPLICA_IGNORE_MAXMEMORY, REPLICA_READ_ONLY, REPLICA_SERVE_STALE_DATA,
};
use durability::aof::AofState;
use engine::journal::acks::ReplicaAck;
use engine::journal::{StreamHistory, selection};
use engine::limits::write_refusals::{FEW_REPLICAS, READ_ONLY};
use engine::runtime::log::log_notice;
use keyspace::Lsn;
use replication::backlog::Place;
use replication::history::{History, SavedHistory};
use replication::ids::ReplicationId;
use replication::primary::{
    CloseWhen, LogLevel, Primary, PrimaryAction, ReplicaId, Requirements, Role, RoundId,
    ServerRole, SnapshotTarget, StreamView,
};
use replication::replica::{LinkState, ReplicaLink};

use super::settings;
use super::stream::ReplicationStream;
use crate::net::network::Network;

/// The state of replication.
pub(super) struct ReplicationState {
    pub(super) primary: Primary,
    /// The link to our own primary, if we have one.
    pub(super) link: ReplicaLink,
    pub(super) history: History,
    /// How much an offset is more than what the journal has of the stream up to there.
    shift: i64,
    pub(super) stream: Option<ReplicationStream>,
    /// Whether our data stand nowhere in the stream of the primary that we leave.
    has_lost_position: bool,
    /// Whether a failover of ours runs.
    pub(super) fails_over: bool,
    /// The links' thread, where it waits for a stream to begin.
    pub(super) awaits_stream: Option<Waker>,
    queue: Vec<LinkAction>,
}

/// One thing for the links' thread to do.
pub(super) enum LinkAction {
    /// Send bytes that are not of the stream.
    Send { replica: ReplicaId, bytes: Vec<u8> },
    /// A link stands here in the stream.
    Pin { replica: ReplicaId, place: Place },
    /// A link stands nowhere in the stream any more.
    Unpin { replica: ReplicaId },
    /// The stream flows from the link's place on.
    Stream { replica: ReplicaId },
    /// Begin a snapshot.
    Begin(SnapshotOrder),
    /// The body of a snapshot comes behind what was sent to its replicas.
    SendBody { round: RoundId },
    /// No replica waits for a snapshot any more.
    Abort { round: RoundId },
    /// Send the file that a snapshot was written to.
    SendFile { replica: ReplicaId, round: RoundId },
    /// Tell the engine when all that was to be sent so far has been.
    NoteSent { replica: ReplicaId },
    /// Append a record of our own.
    Append { record: &'static [u8] },
    /// End a link.
    Close { replica: ReplicaId, when: CloseWhen },
}

/// A snapshot that is wanted.
pub(super) struct SnapshotOrder {
    pub(super) round: RoundId,
    pub(super) target: SnapshotTarget,
    pub(super) requirements: Requirements,
    pub(super) replicas: Vec<ReplicaId>,
}

impl ReplicationState {
    pub(super) fn new(server: &Network) -> Self {
        let settings = settings::of_primary(&server.config);
        Self {
            primary: Primary::new(settings, Box::new(random_bytes), now_ms(server)),
            link: ReplicaLink::new(settings::of_replica(server)),
            history: History::new(ReplicationId::from_random(random_bytes())),
            shift: 0,
            stream: None,
            has_lost_position: false,
            fails_over: false,
            awaits_stream: None,
            queue: Vec::new(),
        }
    }

    /// The offset of the stream's end.
    pub(super) fn offset(&self, server: &Network) -> u64 {
        server.journal.stream_end().saturating_add_signed(self.shift)
    }

    /// What we are.
    pub(super) fn server_role(&self, server: &Network) -> ServerRole {
        let is_connected = self.link.state() == LinkState::Connected;
        let role = match server.gates.replica_role.is_replica() {
            false => Role::Primary,
            true => Role::Replica { is_connected },
        };
        ServerRole { role, fails_over: self.fails_over }
    }

    /// Asks something of the link to our primary, and tells others what follows.
    pub(super) fn ask_link<T>(
        &mut self,
        server: &Network,
        ask: impl FnOnce(&mut ReplicaLink) -> T,
    ) -> T {
        let answer = ask(&mut self.link);
        self.publish(server);
        answer
    }

    /// Up to where the stream is on our disk, where there is a log.
    pub(super) fn synced_offset(&self, server: &Network) -> u64 {
        match server.aof.is_relied_on() {
            true => {
                let safe = server.journal.safe().saturating_sub(server.journal.beside_stream());
                safe.saturating_add_signed(self.shift)
            }
            false => 0,
        }
    }

    /// Where an offset of the stream lies in our journal, or a little behind: what was written
    /// beside the stream since may stand between.
    pub(super) fn lsn_of(&self, server: &Network, offset: u64) -> Lsn {
        offset.saturating_add_signed(-self.shift).saturating_add(server.journal.beside_stream())
    }

    /// Our primary's address, as MONITOR shows it.
    pub(super) fn primary_address(&self) -> Option<String> {
        self.link.report(0).map(|link| format!("{}:{}", link.host, link.port))
    }

    /// Where our stream ends, for going on with it as a replica of another server; without a
    /// backlog it stands nowhere.
    pub(super) fn position(&self, server: &Network) -> Option<SavedHistory> {
        let database = u32::try_from(server.journal.database()).unwrap_or(0);
        self.stream.as_ref().map(|_| self.history.saved(self.offset(server), database))
    }

    /// The data that a start has loaded stand there in a history: a replica may go on from there,
    /// and replicas of a primary may. Nothing has changed since.
    pub(super) fn resume(&mut self, server: &Network, saved: SavedHistory) {
        self.history = match server.gates.replica_role.is_replica() {
            true => History::of_replica(saved),
            false => {
                let fresh = ReplicationId::from_random(random_bytes());
                History::of_primary(saved, fresh)
            }
        };
        self.shift = signed(saved.offset) - signed(server.journal.stream_end());
        self.begin_stream(server, saved.offset);
        self.publish(server);
        let database = saved.database as usize;
        if server.gates.replica_role.is_replica() {
            server.journal.select(database);
        } else if database != 0 {
            // Replicas that go on have selected it.
            server.journal.append(&selection(0));
        }
    }

    /// The data of a full sync are here: we are of their history, with an empty backlog; where that
    /// is not known, of a fresh one. Nothing is appended meanwhile.
    pub(super) fn adopt(&mut self, server: &Network, of: Option<SavedHistory>) {
        let (id, offset) = match of {
            Some(saved) => (saved.id, saved.offset),
            None => (ReplicationId::from_random(random_bytes()), 0),
        };
        self.has_lost_position = false;
        // Before the id: what is published in between would be true of neither.
        self.shift = signed(offset) - signed(server.journal.stream_end());
        self.ask(server, |primary, stream| {
            stream.history.adopt(id);
            primary.drop_all(now_ms(server));
        });
        match &self.stream {
            Some(stream) => stream.state().restart(offset),
            None => self.begin_stream(server, offset),
        }
        self.publish(server);
    }

    /// Other data have come in the place of ours, and nobody wants them any more: they stand
    /// nowhere.
    pub(super) fn forget_position(&mut self) {
        self.link.forget_position();
        self.has_lost_position = true;
    }

    /// Our primary goes on under another id from this offset on.
    pub(super) fn shift_id(&mut self, server: &Network, id: ReplicationId, at: u64) {
        self.ask(server, |primary, stream| {
            if stream.history.shift_id(at, id) {
                primary.drop_all(now_ms(server));
            }
        });
    }

    /// Our history is another one, as far as others know.
    pub(super) fn change_id(&mut self, server: &Network) {
        let fresh = ReplicationId::from_random(random_bytes());
        self.ask(server, |_, stream| stream.history.adopt(fresh));
    }

    /// We have a primary from now on: our own replicas ask anew.
    pub(super) fn become_replica(&mut self, server: &Network) {
        self.has_lost_position = false;
        self.ask(server, |primary, _| primary.drop_all(now_ms(server)));
    }

    /// We are a primary again, from this offset of the stream of the one before on; where our data
    /// stood nowhere there, of a fresh history. Our own replicas ask anew.
    pub(super) fn become_primary(
        &mut self,
        server: &Network,
        at: u64,
        position: Option<SavedHistory>,
    ) {
        let position = position.filter(|_| !std::mem::take(&mut self.has_lost_position));
        let fresh = ReplicationId::from_random(random_bytes());
        self.ask(server, |primary, stream| {
            match position {
                Some(_) => {
                    let line = stream.history.promote(at, fresh);
                    log_notice!(server.log, "{line}");
                }
                None => stream.history.adopt(fresh),
            }
            primary.drop_all(now_ms(server));
        });
    }

    /// Asks something of the engine that looks at the stream, which stands still meanwhile.
    pub(super) fn ask<T>(
        &mut self,
        server: &Network,
        ask: impl FnOnce(&mut Primary, &mut StreamView<'_>) -> T,
    ) -> T {
        let Self { primary, link, history, stream, queue, .. } = self;
        primary.hold_rounds(link.state() == LinkState::Sync);
        let mut state = stream.as_ref().map(ReplicationStream::state);
        let kept = state.as_ref().map(|state| state.backlog.range());
        let answer = ask(primary, &mut StreamView { history, kept });
        let mut is_over = false;
        for action in primary.take_actions() {
            let place_at = |from| state.as_mut().and_then(|it| it.backlog.place_at(from));
            is_over |= action == PrimaryAction::FreeBacklog;
            queue.extend(for_thread(server, action, place_at));
        }
        drop(state);
        if is_over && let Some(stream) = stream.take() {
            server.journal.set_has_replicas(false);
            stream.detach(&server.journal);
        }
        self.publish(server);
        answer
    }

    /// The cut of a snapshot is made: the stream begins here, if it has not begun. The world must
    /// be stopped.
    pub(super) fn note_cut(&mut self, server: &Network, round: RoundId) {
        let at = self.offset(server);
        if self.stream.is_none() {
            self.begin_stream(server, at);
        }
        let database = u32::try_from(server.journal.database()).unwrap_or(0);
        self.ask(server, |it, stream| it.snapshot_cut(round, at, database, stream.history));
        self.queue.push(LinkAction::SendBody { round });
    }

    fn begin_stream(&mut self, server: &Network, offset: u64) {
        let size = server.config.get(REPL_BACKLOG_SIZE);
        self.stream = Some(ReplicationStream::attach(&server.journal, offset, size));
        server.journal.set_has_replicas(true);
        if let Some(waker) = self.awaits_stream.take() {
            waker.wake();
        }
    }

    /// The directives have changed, maybe.
    pub(super) fn configure(&mut self, server: &Network) {
        let settings = settings::of_primary(&server.config);
        if let Some(stream) = &self.stream {
            stream.state().backlog.resize(server.config.get(REPL_BACKLOG_SIZE));
        }
        self.link.configure(settings::of_replica(server));
        self.ask(server, |primary, _| primary.configure(settings, now_ms(server)));
    }

    /// Tells others what concerns them.
    pub(super) fn publish(&self, server: &Network) {
        let (config, state) = (&server.config, self.link.state());
        let is_replica = server.gates.replica_role.is_replica();
        // While other data come in the place of ours, these stand nowhere.
        let stands = !is_replica || self.link.is_in_history(self.history.id());
        let stream = self.stream.as_ref().filter(|_| stands);
        let (id, shift, second) = (self.history.id(), self.shift, self.history.second());
        let history = stream.map(|_| StreamHistory { id, shift, second });
        server.journal.set_history(history);
        let refusals = &server.gates.write_refusals;
        refusals.set(FEW_REPLICAS, !is_replica && !self.primary.allows_writes());
        let is_read_only = config.get(REPLICA_READ_ONLY);
        // What a replica evicts by itself is no part of the stream, either.
        let evicts = !config.get(REPLICA_IGNORE_MAXMEMORY);
        let is_new = server.journal.set_takes_local(!is_read_only || evicts);
        if is_new && is_replica && server.aof.phase() != AofState::Off {
            // What was under way may have missed the log, or the order there.
            server.aof.rewrite.schedule();
        }
        refusals.set(READ_ONLY, is_replica && is_read_only);
        let hides = is_replica && !config.get(REPLICA_SERVE_STALE_DATA);
        server.gates.replica_role.set_stale(hides && state != LinkState::Connected);
        let acks = self.primary.acks().map(|(applied, synced)| ReplicaAck {
            applied: self.lsn_of(server, applied),
            synced: self.lsn_of(server, synced),
        });
        server.journal.replica_acks.set(acks.collect());
    }

    /// What is to be done.
    pub(super) fn take_queue(&mut self) -> Vec<LinkAction> {
        std::mem::take(&mut self.queue)
    }
}

/// What is left of an action for the links' thread.
fn for_thread(
    server: &Network,
    action: PrimaryAction,
    place_at: impl FnOnce(u64) -> Option<Place>,
) -> Option<LinkAction> {
    Some(match action {
        PrimaryAction::Send { replica, bytes } => LinkAction::Send { replica, bytes },
        // The backlog is made at the cut of the snapshot that was wanted with it.
        PrimaryAction::CreateBacklog => return None,
        PrimaryAction::FreeBacklog => return None,
        PrimaryAction::Pin { replica, from } => match place_at(from) {
            Some(place) => LinkAction::Pin { replica, place },
            None => LinkAction::Close { replica, when: CloseWhen::Now },
        },
        PrimaryAction::Unpin { replica } => LinkAction::Unpin { replica },
        PrimaryAction::Stream { replica } => LinkAction::Stream { replica },
        PrimaryAction::StartSnapshot { round, target, requirements, replicas } => {
            LinkAction::Begin(SnapshotOrder { round, target, requirements, replicas })
        }
        PrimaryAction::AbortSnapshot { round } => LinkAction::Abort { round },
        PrimaryAction::SendFile { replica, round } => LinkAction::SendFile { replica, round },
        PrimaryAction::NoteSent { replica } => LinkAction::NoteSent { replica },
        PrimaryAction::Append { record } => LinkAction::Append { record },
        PrimaryAction::Close { replica, when } => LinkAction::Close { replica, when },
        PrimaryAction::Log { level, line } => {
            let level = match level {
                LogLevel::Verbose => config::LogLevel::Verbose,
                LogLevel::Notice => config::LogLevel::Notice,
                LogLevel::Warning => config::LogLevel::Warning,
            };
            server.log.write(level, format_args!("{line}"));
            return None;
        }
    })
}

fn signed(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

/// The clock of the engines.
pub(super) fn now_ms(server: &Network) -> u64 {
    u64::try_from(server.keyspace.clock().monotonic_us() / 1000).unwrap_or(0)
}

fn random_bytes() -> [u8; 20] {
    let mut random = Random::from_entropy();
    std::array::from_fn(|_| random.next_u64() as u8)
}
