//! What a primary does by the clock: pings, signs of life, links that are dead, a backlog that
//! nobody needs; and what its clients wait for.
//!
//! Invariant: only the top of a tree puts records of its own into the stream.

use super::action::{CloseWhen, LogLevel, PrimaryAction, SnapshotTarget};
use super::attached::{Attached, Dialect, ReplicaId, Stage};
use super::registry::Primary;
use super::sync::{Role, StreamView};

/// Tells replicas that there is nothing to tell.
const PING: &[u8] = b"*1\r\n$4\r\nping\r\n";

/// Asks replicas for what they have.
const GETACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

impl Primary {
    /// A second has passed. A failover keeps records of our own out of the stream: a replica is to
    /// have all of it. A pause does not, as replicas would take the silence for our end.
    pub fn tick(&mut self, role: Role, fails_over: bool, stream: &mut StreamView<'_>, now_ms: u64) {
        self.close_dead(now_ms);
        self.show_life();
        let is_top = role == Role::Primary;
        let is_ping_due = now_ms.saturating_sub(self.pinged_ms) >= self.settings.ping_period_ms;
        if is_top && !fails_over && !self.replicas.is_empty() && is_ping_due {
            self.pinged_ms = now_ms;
            self.push_action(PrimaryAction::Append { record: PING });
        }
        let ttl_ms = self.settings.backlog_ttl_ms;
        let alone_ms = self.alone_since_ms.map_or(0, |since_ms| now_ms.saturating_sub(since_ms));
        if is_top && stream.kept.is_some() && ttl_ms != 0 && alone_ms > ttl_ms {
            stream.history.end_backlog(self.fresh_id());
            let seconds = ttl_ms / 1000;
            let line = format!("Backlog freed after {seconds} seconds without replicas");
            self.log(LogLevel::Notice, line);
            self.push_action(PrimaryAction::FreeBacklog);
            self.alone_since_ms = Some(now_ms);
        }
        self.begin_due_round(now_ms);
        self.count_good(now_ms);
    }

    /// A replica's socket takes no more bytes of its snapshot, or of what goes with that.
    pub fn stalled(&mut self, id: ReplicaId, now_ms: u64) {
        if let Some(index) = self.index_of(id) {
            self.replicas[index].stalled_ms.get_or_insert(now_ms);
        }
    }

    /// A replica's socket has taken bytes again.
    pub fn moved(&mut self, id: ReplicaId) {
        if let Some(index) = self.index_of(id) {
            self.replicas[index].stalled_ms = None;
        }
    }

    /// A client waits for what replicas acknowledge: they are to be asked.
    pub fn want_acks(&mut self) {
        self.acks_wanted = true;
    }

    /// All clients that were to be looked at have been: replicas are asked once for all of them.
    pub fn end_of_turn(&mut self, role: Role, fails_over: bool) {
        if self.acks_wanted && !fails_over {
            self.acks_wanted = false;
            if role == Role::Primary && !self.replicas.is_empty() {
                self.push_action(PrimaryAction::Append { record: GETACK });
            }
        }
    }

    /// How far the online replicas have applied the stream, and how far each has it on disk.
    pub fn acks(&self) -> impl Iterator<Item = (u64, u64)> {
        self.online().map(|replica| (replica.acked, replica.fsynced))
    }

    /// `min_slaves_good_slaves`, if the directives ask for this.
    pub fn good_replicas(&self) -> Option<usize> {
        let is_on = self.settings.replicas_min != 0 && self.settings.lag_max_ms != 0;
        is_on.then_some(self.good)
    }

    /// Whether enough replicas are there for a write.
    pub fn allows_writes(&self) -> bool {
        self.good_replicas().is_none_or(|good| good >= self.settings.replicas_min)
    }

    pub(super) fn count_good(&mut self, now_ms: u64) {
        let (lag_max, online) = (self.settings.lag_max_ms / 1000, self.online());
        self.good = online.filter(|replica| replica.lag_s(now_ms) <= lag_max).count();
    }

    fn online(&self) -> impl Iterator<Item = &Attached> {
        self.replicas.iter().filter(|replica| replica.is_online())
    }

    fn close_dead(&mut self, now_ms: u64) {
        let timeout_ms = self.settings.timeout_ms;
        let is_over = |since_ms: u64| now_ms.saturating_sub(since_ms) > timeout_ms;
        for id in self.replicas.iter().map(|replica| replica.id).collect::<Vec<_>>() {
            let Some(index) = self.index_of(id) else { continue };
            let replica = &self.replicas[index];
            let is_silent = replica.is_online()
                && replica.dialect == Dialect::Psync
                && is_over(replica.heard_ms);
            let is_stuck = !replica.is_online() && replica.stalled_ms.is_some_and(is_over)
                || replica.stage == Stage::AwaitsChannel
                    && !self.replicas.iter().any(|other| other.main == Some(id))
                    && is_over(replica.since_ms)
                || replica.stage == Stage::Transmitted && is_over(replica.since_ms);
            let doing = match (is_silent, is_stuck) {
                (true, _) => "streaming sync",
                (_, true) => "full sync",
                _ => continue,
            };
            let line = format!("Disconnecting timedout replica ({doing}): {}", replica.name());
            self.log(LogLevel::Warning, line);
            self.close(index, CloseWhen::Now, now_ms);
        }
    }

    /// Sends an empty line to all that wait, as long as no data is on its way to them.
    fn show_life(&mut self) {
        let to_socket =
            self.round.as_ref().is_some_and(|round| round.target == SnapshotTarget::Socket);
        for index in 0..self.replicas.len() {
            let replica = &self.replicas[index];
            let waits = match replica.stage {
                Stage::Waiting => true,
                Stage::Joined => !to_socket,
                Stage::AwaitsChannel
                | Stage::BesideChannel
                | Stage::Transmitted
                | Stage::SendingFile
                | Stage::SendingRest
                | Stage::OnlineUnheard
                | Stage::Online => false,
            };
            if waits {
                self.send(replica.id, &b"\n"[..]);
            }
        }
    }
}
