//! Rounds: one snapshot for all replicas that wait for the same kind of it.
//!
//! Invariants: one round at a time, and none right behind one of its requirements that failed; all
//! of its replicas begin at the same cut, and are told so at the cut and never before.

use super::action::{CloseWhen, LogLevel, PrimaryAction, RoundId, SnapshotTarget};
use super::attached::{Attached, Dialect, ReplicaId, Stage};
use super::registry::Primary;
use super::replconf_state::{Capabilities, Requirements};
use crate::history::History;
use crate::ids::ReplicationId;

/// A snapshot from its start to the end of its making.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) id: RoundId,
    pub(super) target: SnapshotTarget,
    requirements: Requirements,
    /// The offset that the snapshot is complete up to, once known.
    pub(super) cut: Option<u64>,
    /// The database that is selected there.
    database: u32,
    /// What stands around a body of unknown length.
    mark: [u8; 40],
}

impl Primary {
    /// The snapshot's cut has been made, at this end of the stream, where this database is
    /// selected.
    pub fn snapshot_cut(&mut self, round: RoundId, at: u64, database: u32, history: &History) {
        let Some(current) = self.round.as_mut().filter(|current| current.id == round) else {
            return;
        };
        (current.cut, current.database) = (Some(at), database);
        for index in 0..self.replicas.len() {
            if self.replicas[index].stage == Stage::Joined {
                self.announce_cut(index, at, history);
            }
        }
    }

    /// All bytes of a snapshot towards sockets are queued. A replica may still be far from having
    /// them.
    pub fn snapshot_streamed(&mut self, round: RoundId, now_ms: u64) {
        let Some(round) = self.take_round(round) else { return };
        self.pauses.succeeded(round.requirements);
        for id in self.joined() {
            let index = self.index_of(id).expect("nothing was closed");
            self.replicas[index].enter(Stage::SendingRest, now_ms);
            self.replicas[index].loads = true;
            self.send(id, round.mark);
            self.push_action(PrimaryAction::NoteSent { replica: id });
        }
        self.begin_due_round(now_ms);
    }

    /// A snapshot towards a file is complete, and so long.
    pub fn snapshot_saved(&mut self, round: RoundId, len: u64, now_ms: u64) {
        let Some(round) = self.take_round(round) else { return };
        self.pauses.succeeded(round.requirements);
        for id in self.joined() {
            let index = self.index_of(id).expect("nothing was closed");
            self.replicas[index].enter(Stage::SendingFile, now_ms);
            self.replicas[index].loads = true;
            self.send(id, format!("${len}\r\n"));
            self.push_action(PrimaryAction::SendFile { replica: id, round: round.id });
            self.push_action(PrimaryAction::NoteSent { replica: id });
        }
        self.begin_due_round(now_ms);
    }

    /// A replica's socket has taken the last byte of its snapshot.
    pub fn body_sent(&mut self, id: ReplicaId, now_ms: u64) {
        let Some(index) = self.index_of(id) else { return };
        let stage = self.replicas[index].stage;
        if !matches!(stage, Stage::SendingFile | Stage::SendingRest) {
            return;
        }
        if !self.replicas[index].announced.wants_stream() {
            self.end_snapshot_only(id, now_ms);
            return;
        }
        let name = self.replicas[index].name();
        let line = match stage {
            Stage::SendingRest => format!(
                "Streamed RDB transfer with replica {name} succeeded (socket). Waiting for \
                 REPLCONF ACK from replica to enable streaming"
            ),
            _ => format!("Synchronization with replica {name} succeeded"),
        };
        self.log(LogLevel::Notice, line);
        if stage == Stage::SendingFile || self.replicas[index].acked_early {
            self.start_stream(index, now_ms);
        } else {
            self.replicas[index].enter(Stage::OnlineUnheard, now_ms);
            self.count_good(now_ms);
        }
    }

    /// A snapshot could not be started, or has failed since.
    pub fn snapshot_failed(&mut self, round: RoundId, now_ms: u64) {
        let Some(round) = self.take_round(round) else { return };
        let joined = self.joined();
        if !joined.is_empty() {
            self.pauses.failed(round.requirements, now_ms);
        }
        if round.cut.is_some() && !joined.is_empty() {
            let line = "SYNC failed. BGSAVE child returned an error".to_owned();
            self.log(LogLevel::Warning, line);
        }
        for id in joined {
            let index = self.index_of(id).expect("only this one's predecessors were closed");
            if round.cut.is_some() {
                self.close(index, CloseWhen::Now, now_ms);
            } else {
                self.send(id, &b"-ERR BGSAVE failed, replication can't continue\r\n"[..]);
                self.close(index, CloseWhen::Flushed, now_ms);
            }
        }
        self.begin_due_round(now_ms);
    }

    /// A new replica joins the round, if the snapshot can be its own, or waits for the next one.
    pub(super) fn join_or_wait(&mut self, index: usize, history: &History, now_ms: u64) {
        let Some(round) = &self.round else {
            self.begin_due_round(now_ms);
            return;
        };
        let (target, cut) = (round.target, round.cut);
        let text = if target == SnapshotTarget::Socket {
            "Current BGSAVE has socket target. Waiting for next BGSAVE for SYNC"
        } else if self.may_join(index) {
            self.replicas[index].enter(Stage::Joined, now_ms);
            if let Some(cut) = cut {
                self.announce_cut(index, cut, history);
            }
            "Waiting for end of BGSAVE for SYNC"
        } else {
            "Can't attach the replica to the current BGSAVE. Waiting for next BGSAVE for SYNC"
        };
        self.log(LogLevel::Notice, text.to_owned());
    }

    /// Whether a round towards a file can be a new replica's. Behind the cut this needs another
    /// one that waits for as much: what follows the cut is kept for it.
    fn may_join(&self, index: usize) -> bool {
        let announced = &self.replicas[index].announced;
        let Some(round) = &self.round else { return false };
        let fits = round.requirements == announced.requirements;
        let is_covered = || {
            self.replicas.iter().any(|other| {
                other.stage == Stage::Joined
                    && announced.capabilities.has(other.announced.capabilities)
                    && (other.announced.wants_stream() || !announced.wants_stream())
            })
        };
        fits && (round.cut.is_none() || is_covered())
    }

    /// Tells a replica that its data is as of this offset, and keeps the stream from there on.
    fn announce_cut(&mut self, index: usize, cut: u64, history: &History) {
        let (id, dialect) = (self.replicas[index].id, self.replicas[index].dialect);
        let wants_stream = self.replicas[index].announced.wants_stream();
        match dialect {
            Dialect::Psync => self.send(id, history.full_line(cut)),
            Dialect::Numbered => {
                let database = self.round.as_ref().map_or(0, |round| round.database);
                self.send(id, history.numbered_line(cut, id.0, database));
            }
            Dialect::Sync => {}
        }
        let round = self.round.as_ref().expect("there is a round whose cut this is");
        if round.target == SnapshotTarget::Socket {
            let header = [b"$EOF:", &round.mark[..], b"\r\n"].concat();
            self.send(id, header);
        }
        if dialect == Dialect::Numbered {
            // Its replica will ask for what comes behind.
            self.push_action(PrimaryAction::Pin { replica: id, from: cut });
        } else if let Some(main) = self.replicas[index].main {
            self.push_action(PrimaryAction::Pin { replica: main, from: cut });
            self.push_action(PrimaryAction::Stream { replica: main });
            let main = self.index_of(main).expect("its channel would have been closed with it");
            self.replicas[main].stage = Stage::BesideChannel;
        } else if wants_stream {
            self.push_action(PrimaryAction::Pin { replica: id, from: cut });
        }
    }

    /// All of a snapshot is sent on a connection that is there for nothing else. If that was for
    /// another one, this other one has all data; one that is not named yet waits for that.
    fn end_snapshot_only(&mut self, id: ReplicaId, now_ms: u64) {
        if let Some(index) = self.unnamed_channel(id) {
            self.replicas[index].enter(Stage::Transmitted, now_ms);
            return;
        }
        let index = self.index_of(id).expect("the connection is open");
        let main = self.replicas[index].main.and_then(|main| self.index_of(main));
        if let Some(main) = main.filter(|it| self.replicas[*it].stage == Stage::BesideChannel) {
            self.replicas[main].enter(Stage::Online, now_ms);
            self.count_good(now_ms);
        }
        self.close(index, CloseWhen::Flushed, now_ms);
    }

    /// A replica goes on behind the snapshot that it fetches on the connection which it has named.
    pub(super) fn take_channel(
        &mut self,
        main: ReplicaId,
        channel: Option<ReplicaId>,
        now_ms: u64,
    ) {
        let Some(index) = channel.and_then(|channel| self.unnamed_channel(channel)) else { return };
        let id = self.replicas[index].id;
        self.replicas[index].main = Some(main);
        self.push_action(PrimaryAction::Unpin { replica: id });
        if self.replicas[index].stage == Stage::Transmitted {
            self.close(index, CloseWhen::Flushed, now_ms);
        } else if let Some(main) = self.index_of(main) {
            self.replicas[main].stage = Stage::BesideChannel;
            self.count_good(now_ms);
        }
    }

    /// Whether other data take the place of ours just now: what a snapshot saw of both would be
    /// neither. A replica that waits for one waits on.
    pub fn hold_rounds(&mut self, holds: bool) {
        self.holds_rounds = holds;
    }

    /// Begins a round, if none runs and one is due: that of the replica that came first, or of
    /// the first one for which nothing needs to be waited for.
    pub(super) fn begin_due_round(&mut self, now_ms: u64) {
        if self.round.is_some() || self.holds_rounds {
            return;
        }
        let waiting = || self.replicas.iter().filter(|replica| replica.stage == Stage::Waiting);
        let due = waiting().find_map(|first| {
            let requirements = first.announced.requirements;
            let members = || waiting().filter(|other| other.announced.requirements == requirements);
            let all_know_marks = members().all(|member| member.has(Capabilities::EOF));
            let to_socket =
                self.settings.diskless || requirements.is_filtered() || requirements.channel;
            let target = if to_socket && all_know_marks {
                SnapshotTarget::Socket
            } else {
                SnapshotTarget::Disk
            };
            let waited_ms = now_ms.saturating_sub(first.since_ms);
            let enough = self.settings.diskless_replicas_max;
            let is_ready = target == SnapshotTarget::Disk
                || waited_ms >= self.settings.diskless_delay_ms
                || (enough != 0 && members().count() >= enough);
            let is_due = is_ready && !self.pauses.hold(requirements, now_ms);
            let ids = || members().map(|member| member.id).collect::<Vec<_>>();
            is_due.then(|| (target, requirements, ids()))
        });
        if let Some((target, requirements, replicas)) = due {
            self.begin_round(target, requirements, replicas, now_ms);
        }
    }

    fn begin_round(
        &mut self,
        target: SnapshotTarget,
        requirements: Requirements,
        replicas: Vec<ReplicaId>,
        now_ms: u64,
    ) {
        let is_numbered = |replica: &Attached| replica.dialect == Dialect::Numbered;
        let first = self.replicas.iter().find(|replica| replicas.contains(&replica.id));
        let where_to = match target {
            SnapshotTarget::Socket if first.is_some_and(is_numbered) => {
                "replicas sockets using: dual-channel"
            }
            SnapshotTarget::Socket if requirements.channel => "replicas sockets (rdb-channel)",
            SnapshotTarget::Socket => "replicas sockets",
            SnapshotTarget::Disk => "disk",
        };
        let id = self.next_round_id();
        let mark = *self.fresh_id().as_bytes();
        self.round = Some(Round { id, target, requirements, cut: None, database: 0, mark });
        for replica in &mut self.replicas {
            if replicas.contains(&replica.id) {
                replica.enter(Stage::Joined, now_ms);
            }
        }
        self.log(LogLevel::Notice, format!("Starting BGSAVE for SYNC with target: {where_to}"));
        self.push_action(PrimaryAction::StartSnapshot {
            round: id,
            target,
            requirements,
            replicas,
        });
    }

    /// Ends the round, if this is the present one.
    fn take_round(&mut self, id: RoundId) -> Option<Round> {
        self.round.take_if(|round| round.id == id)
    }

    fn joined(&self) -> Vec<ReplicaId> {
        let joined = self.replicas.iter().filter(|replica| replica.stage == Stage::Joined);
        joined.map(|replica| replica.id).collect()
    }

    /// A new id from the dice.
    pub(super) fn fresh_id(&mut self) -> ReplicationId {
        ReplicationId::from_random((self.random_ids)())
    }
}
