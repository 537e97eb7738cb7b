//! A change of role: REPLICAOF, and what the configuration says at the start.
//!
//! Invariants: one change at a time; the role changes with the world stopped; what was handed over
//! of the stream is applied before a replica becomes a primary. Not for workers: all of it waits.

use std::sync::PoisonError;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use config::settings::APPENDONLY;
use durability::aof;
use engine::clients::mailbox::PendingWakes;
use engine::clients::registry::{Signal, client_flags};
use engine::keyspace_settings::set_replica;
use engine::limits::loading::LOADING;
use engine::runtime::background::wait_for;
use engine::runtime::log::{log_notice, log_warning};
use engine::session::await_end_of_wait;
use keyspace::{Acquisition, Refusal};
use replication::history::SavedHistory;
use replication::replica::{PrimaryAddress, ReplicaLink, ReplicaofReply, ReplicaofTarget};

use super::failover::FailoverState;
use super::handle::Links;
use super::replication_state::now_ms;
use super::thread::LinksMessage;
use crate::net::network::Network;

/// Between two looks whether the stream is applied.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Another caller changes the role, and waits for what this transaction has.
const CHANGING: Refusal = Refusal::error("ERR Another change of the role is in progress.");

/// The caller is not there any more.
const UNWANTED: Refusal = Refusal::error("ERR The change of the role is not wanted any more.");

/// A request for another role.
pub(crate) struct RoleChange<'a> {
    /// The primary to follow.
    pub(crate) target: ReplicaofTarget,
    /// The client that asks, as CLIENT LIST shows it.
    pub(crate) client: &'a str,
    /// Whether the world may be let go of meanwhile: nothing is half done with it.
    pub(crate) may_release_world: bool,
}

impl Links {
    /// Changes the role, with a world that is waited for if it is not there yet, and comes back.
    /// An error says that nothing was done.
    pub(crate) fn replicaof(
        &'static self,
        server: &'static Network,
        change: RoleChange<'_>,
        world: Acquisition,
    ) -> (Acquisition, Result<ReplicaofReply, Refusal>) {
        self.replicaof_if(server, change, world, || true)
    }

    /// The same if it is still wanted when the world is there and nothing else keeps it.
    pub(super) fn replicaof_if(
        &'static self,
        server: &'static Network,
        change: RoleChange<'_>,
        mut world: Acquisition,
        is_wanted: impl FnOnce() -> bool,
    ) -> (Acquisition, Result<ReplicaofReply, Refusal>) {
        // The holder of the turn may need the world. So a caller that has the world does not wait
        // for the turn.
        let turn = self.role_turn.try_lock();
        if turn.is_err() && !change.may_release_world {
            return (world, Err(CHANGING));
        }
        let _turn = turn.unwrap_or_else(|_| {
            world = Acquisition::of_world(server.keyspace);
            self.role_turn.lock().unwrap_or_else(PoisonError::into_inner)
        });
        // A failover that has handed over meanwhile looks at the link.
        if self.failover_state() == FailoverState::InProgress {
            wait_for(&mut world);
            return (world, Err(CHANGING));
        }
        wait_for(&mut world);
        // Since the gates a load may have begun: a part of its data is nothing to lead with.
        if server.gates.loading.is_on() || server.gates.loading.is_beside() {
            return (world, Err(LOADING));
        }
        if !is_wanted() {
            return (world, Err(UNWANTED));
        }
        let (mut world, reply) = match change.target {
            ReplicaofTarget::NoOne => {
                let world = self.promote(server, change.client, change.may_release_world, world);
                (world, ReplicaofReply::Done)
            }
            ReplicaofTarget::Primary(primary) => {
                self.begin_link(server, &primary, change.client, world)
            }
        };
        wait_for(&mut world);
        (world, Ok(reply))
    }

    /// Before the first client comes: the server is a replica from the start on if the
    /// configuration says so.
    pub(crate) fn begin(&'static self, server: &'static Network) {
        if configured(server).is_some() {
            self.begin_as_replica(server);
        }
    }

    /// Before the data are loaded: those are a replica's.
    pub(crate) fn begin_as_replica(&'static self, server: &'static Network) {
        set_replica(server, true);
        self.core(server).publish(server);
    }

    /// The data are loaded, and stand there in a history if it is known; no client has seen them
    /// yet. Goes on with the primary that `nodes.conf` or the configuration names.
    pub(crate) fn resume(
        &'static self,
        server: &'static Network,
        of_cluster: Option<PrimaryAddress>,
        origin: Option<SavedHistory>,
    ) {
        if let Some(saved) = origin {
            self.core(server).resume(server, saved);
        }
        if let Some(primary) = of_cluster.or_else(|| configured(server)) {
            let mut core = self.core(server);
            core.configure(server);
            let now = now_ms(server);
            core.ask_link(server, |link| link.replicaof(primary, origin, None, now));
            drop(core);
            self.send(server, LinksMessage::RunActions);
        }
    }

    fn begin_link(
        &'static self,
        server: &'static Network,
        primary: &PrimaryAddress,
        client: &str,
        world: Acquisition,
    ) -> (Acquisition, ReplicaofReply) {
        let reply = self.become_replica(server, primary, |link, own, now_ms| {
            link.replicaof(primary.clone(), own, Some(client), now_ms)
        });
        (world, reply)
    }

    /// Follows this primary from here on, as the link is asked to: a client that comes behind that
    /// finds a replica. With the turn, and the world stopped.
    pub(super) fn become_replica(
        &'static self,
        server: &'static Network,
        primary: &PrimaryAddress,
        ask: impl FnOnce(&mut ReplicaLink, Option<SavedHistory>, u64) -> ReplicaofReply,
    ) -> ReplicaofReply {
        let mut core = self.core(server);
        // The port is known by now.
        core.configure(server);
        if !server.gates.replica_role.is_replica() {
            // Our own records end here, and with them what the position counts.
            set_replica(server, true);
        }
        let (own, now) = (core.position(server), now_ms(server));
        let reply = core.ask_link(server, |link| ask(link, own, now));
        if reply == ReplicaofReply::Done {
            core.become_replica(server);
            server.config.set_primary(Some((&primary.host, primary.port)));
        }
        drop(core);
        if reply == ReplicaofReply::Done {
            server.gates.replica_role.note_demotion();
            unblock_all(server);
        }
        self.send(server, LinksMessage::RunActions);
        reply
    }

    pub(super) fn promote(
        &'static self,
        server: &'static Network,
        client: &str,
        may_release_world: bool,
        mut world: Acquisition,
    ) -> Acquisition {
        wait_for(&mut world);
        let promoted = self.core(server).link.promote(now_ms(server));
        let Some(position) = promoted else { return world };
        self.send(server, LinksMessage::RunActions);
        // The link is closed behind this: nothing more is handed over, and data that wait to take
        // the place of ours are called off while they cannot.
        let is_idle = self.is_link_idle(server, !may_release_world);
        if may_release_world && !is_idle {
            drop(world);
            // What a pause or a disk keeps from being applied was never acknowledged, and is given
            // up.
            while !self.is_link_idle(server, is_applier_kept(server)) {
                std::thread::sleep(BETWEEN_LOOKS);
            }
            world = Acquisition::of_world(server.keyspace);
            wait_for(&mut world);
        }
        // What we write from here on is of the history that begins: until that has its id, it is
        // of none.
        let mut core = self.core(server);
        let at = core.offset(server);
        server.journal.set_history(None);
        set_replica(server, false);
        core.become_primary(server, at, position);
        drop(core);
        log_notice!(server.log, "MASTER MODE enabled (user request from '{client}')");
        server.config.set_primary(None);
        self.send(server, LinksMessage::RunActions);
        begin_missing_log(server);
        world
    }

    /// Asks the links' thread whether all that came from the primary is applied, or has it give up
    /// what is not.
    fn is_link_idle(&'static self, server: &'static Network, gives_up: bool) -> bool {
        let (answer, answered) = sync_channel(1);
        self.send(server, LinksMessage::IsIdle { gives_up, answer });
        // Where there is no thread, nothing is under way.
        answered.recv().unwrap_or(true)
    }
}

/// Whether something keeps the stream from being applied that may last.
fn is_applier_kept(server: &Network) -> bool {
    let is_paused = server.gates.pause.holds_writes(|| server.keyspace.clock().now_ms());
    is_paused || server.gates.log_backpressure.is_on() || server.gates.snapshot_backpressure.is_on()
}

/// The primary that the configuration names.
pub(super) fn configured(server: &Network) -> Option<PrimaryAddress> {
    let (host, port) = server.config.primary()?;
    Some(PrimaryAddress { host: String::from_utf8_lossy(&host).into_owned(), port })
}

/// A blocked client waits for what will not come here any more. A wait may have begun and not be
/// shown yet, so the others look for themselves.
fn unblock_all(server: &Network) {
    let wakes = PendingWakes::default();
    for client in server.clients.all() {
        if client.has_flag(client_flags::REPLICA) {
            continue;
        }
        server.mailboxes.signal(&client, Signal::Review, &wakes);
        if client.has_flag(client_flags::BLOCKED) {
            client.set_flag(client_flags::DEMOTED, true);
            if !await_end_of_wait(server, &client, true) {
                client.set_flag(client_flags::DEMOTED, false);
            }
        }
    }
    server.mailboxes.wake(&wakes);
}

/// A full sync that failed has left no log behind: a primary keeps one again.
fn begin_missing_log(server: &'static Network) {
    if server.config.get(APPENDONLY) && server.aof.phase() == aof::AofState::Off {
        server.threads.background.spawn(move |_| {
            if let Err(why) = aof::restart(server) {
                log_warning!(server.log, "{why}");
            }
        });
    }
}
