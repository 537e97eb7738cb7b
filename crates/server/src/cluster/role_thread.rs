//! The thread that does for the node what may wait for the data: its role, pauses, lost keys, and
//! the tables of the gates.
//!
//! Invariant: jobs are done in the order in which they came; a pause ends with the thread's own
//! ticket and by its time, so no failover leaves writers held. A table by which this node serves
//! less comes before the role that goes with it, and one by which it serves more behind.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use cluster::Event;
use engine::limits::pause::Ticket;
use engine::reclaim::slots::note_copied;
use engine::runtime::background::wait_for;
use engine::runtime::log::log_warning;
use keyspace::{Acquisition, PartitionIndex};
use replication::replica::{PrimaryAddress, ReplicaofTarget};

use super::node::World;
use super::start::ClusterContext;
use super::trims::begin_trim;
use crate::links::RoleChange;
use crate::net::network::Network;

/// Between two attempts to change the role while another change is under way.
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// The client that changes the role, as the log shows it.
const CLIENT: &str = "cluster";

/// Writers that are held, as long as this is there.
struct WritePause {
    _ticket: Ticket,
    /// When they go on by the monotonic clock, whatever becomes of the failover.
    ends_us: i64,
}

impl WritePause {
    /// How much longer they are held at most.
    fn rest(&self, server: &Network) -> Duration {
        let left = self.ends_us.saturating_sub(server.keyspace.clock().monotonic_us());
        Duration::from_micros(u64::try_from(left).unwrap_or(0))
    }
}

/// What is to be done.
pub(super) enum RoleJob {
    /// Clients may have to be told something else.
    Publish,
    /// Replicate this server.
    Replicate(PrimaryAddress),
    /// Be a primary.
    Promote,
    /// Hold the writers, for so long at most.
    Pause(Duration),
    /// Let them go on.
    Resume,
    /// Delete the keys of those of these slots whose keys are copies.
    DeleteSlotKeys(Vec<PartitionIndex>),
    /// Delete the keys of these slots, which another node has taken.
    DeleteLostKeys(Vec<PartitionIndex>),
}

/// Does jobs as long as the process lives.
pub(super) fn run(start: ClusterContext, jobs: &Receiver<RoleJob>) {
    let mut held: Option<WritePause> = None;
    loop {
        let job = match &held {
            None => jobs.recv().map_err(RecvTimeoutError::from),
            Some(held) => jobs.recv_timeout(held.rest(start.server)),
        };
        let job = match job {
            Ok(job) => job,
            Err(RecvTimeoutError::Timeout) => {
                held = None;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        match job {
            RoleJob::Publish => start.node.publish_slot_map(start.server, World::Going),
            RoleJob::Replicate(primary) => {
                change_role(start, &ReplicaofTarget::Primary(primary), false);
            }
            RoleJob::Promote => {
                change_role(start, &ReplicaofTarget::NoOne, true);
                start.node.publish_slot_map(start.server, World::Going);
                drop_strays(start);
            }
            RoleJob::Pause(length) => held = Some(pause(start, length)),
            RoleJob::Resume => held = None,
            RoleJob::DeleteSlotKeys(slots) => begin_trim(start, slots),
            RoleJob::DeleteLostKeys(slots) => {
                // A table that was made before they were lost may have been published since.
                note_copied(start.server, &slots);
                begin_trim(start, slots);
            }
        }
    }
}

impl ClusterContext {
    /// Gives the data the role that the node has just decided on, with the world that the caller
    /// has: whoever is answered behind this finds it. What cannot be done here is left to the
    /// thread of roles, which has a job for it in any case.
    pub(crate) fn apply_role(self, world: Acquisition, may_release_world: bool) -> Acquisition {
        let Self { server, links, node } = self;
        let Some(target) = node.replication_target(server) else { return world };
        if target == ReplicaofTarget::NoOne && !server.gates.replica_role.is_replica() {
            return world;
        }
        let change = RoleChange { target, client: CLIENT, may_release_world };
        let (world, _) = links.replicaof(server, change, world);
        node.publish_slot_map(server, World::Stopped);
        world
    }
}

/// A node that has just become a primary drops what its primary was brought and did not claim.
/// Other keys of other nodes' slots may be nowhere else.
fn drop_strays(start: ClusterContext) {
    let server = start.server;
    let (copied, others) = start.node.stray_slots(server);
    for (first, last) in others.ranges() {
        log_warning!(
            server.log,
            "I have keys of slots {first}-{last}, which are assigned to other nodes. They stay, as \
             they may be nowhere else."
        );
    }
    begin_trim(start, copied);
}

/// Changes the role, unless the node has changed its mind by then.
fn change_role(start: ClusterContext, target: &ReplicaofTarget, is_primary: bool) {
    let ClusterContext { server, links, node } = start;
    let is_wanted = || node.with_engine(|cluster| cluster.is_primary()) == Some(is_primary);
    while is_wanted() {
        let world = Acquisition::of_world(server.keyspace);
        let change = RoleChange { target: target.clone(), client: CLIENT, may_release_world: true };
        let (world, done) = links.replicaof(server, change, world);
        drop(world);
        if done.is_ok() {
            return;
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
}

/// Holds the writers, and tells the node at which offset.
fn pause(start: ClusterContext, length: Duration) -> WritePause {
    let ClusterContext { server, links, node } = start;
    let length_us = i64::try_from(length.as_micros()).unwrap_or(i64::MAX);
    let ends_us = server.keyspace.clock().monotonic_us().saturating_add(length_us);
    let ticket = server.gates.pause.begin_own();
    let mut world = Acquisition::of_world(server.keyspace);
    wait_for(&mut world);
    drop(world);
    let offset = links.report(server).offset;
    node.handle(server, Event::WritesPaused { offset });
    WritePause { _ticket: ticket, ends_us }
}
