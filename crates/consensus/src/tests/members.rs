//! Voters and learners, nodes that come late, and disks that fail.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cluster::NodeId;
use persist::storage::Disk;
use persist::storage::simulated::Fault;
use quorum::{MapEntry, MapRefusal};

use super::hub::{Cable, Hub};
use super::world::{World, add_node, propose, quick};
use crate::keep_voters::VOTERS_MAX;
use crate::node::{Consensus, ProposalError, RequestError};
use crate::settings::Settings;

#[tokio::test(start_paused = true)]
async fn an_entry_is_told_what_became_of_it() {
    let mut world = World::founded(1, 3, quick()).await;
    let node = world.node(2);
    let entry = add_node(&world.hub);
    let entries = node.propose(entry.clone()).await.expect("a majority is there");
    let map = node.read_linearizable().await.expect("a majority is there");
    assert!(map.entries >= entries);
    let MapEntry::AddNode { node: added, .. } = entry else { panic!("it is one") };
    assert!(map.state.map.nodes().contains_key(&added));
    let stranger = MapEntry::RemoveNode { node: world.machines[0].id };
    assert_eq!(
        node.propose(stranger).await,
        Err(ProposalError::Refused(MapRefusal::UnknownNode)),
        "the map has that node only by an entry"
    );
    world.heal(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_minority_neither_writes_nor_reads() {
    let mut world = World::founded(2, 5, quick()).await;
    world.until("five voters", |world| world.node(0).members().voters.len() == 5).await;
    for index in 0..2 {
        let id = world.machines[index].id;
        world.hub.cables().sides.insert(id, 1);
    }
    for index in 0..2 {
        let node = world.node(index);
        assert!(node.propose(add_node(&world.hub)).await.is_err());
        assert!(node.read_linearizable().await.is_err());
    }
    while !propose(&world.hub, &world.ledger, &world.node(4)).await {}
    world.heal(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_late_node_is_brought_up_by_a_snapshot() {
    let mut world = World::founded(3, 3, quick()).await;
    for _ in 0..60 {
        while !propose(&world.hub, &world.ledger, &world.node(0)).await {}
    }
    let before = world.hub.cables().snapshots;
    let fourth = World::new(33, 1, quick()).machines.remove(0);
    world.machines.push(fourth);
    world.start(3).await.expect("an empty disk is fine");
    world.join(3, world.machines[1].id).await;
    world.until("it votes", |world| world.node(3).members().voters.len() == 4).await;
    assert!(world.hub.cables().snapshots > before, "the log alone does not go back so far");
    world.heal(3).await;
    // What it was sent outlives a crash.
    let entries = world.node(3).applied().borrow().entries;
    world.kill(3);
    world.start(3).await.expect("a snapshot is read");
    assert!(world.node(3).applied().borrow().entries + quick().snapshot_entries >= entries);
    world.heal(3).await;
}

#[tokio::test(start_paused = true)]
async fn seven_vote_and_who_goes_is_replaced_while_entries_come() {
    let mut world = World::founded(4, 9, quick()).await;
    let is_full = |world: &World| {
        let members = world.node(0).members();
        members.voters.len() == VOTERS_MAX && members.learners.len() == 2
    };
    world.until("seven voters and two learners", is_full).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(is_full(&world), "more than seven never vote");
    let (hub, ledger) = (Arc::clone(&world.hub), Arc::clone(&world.ledger));
    let load = tokio::spawn(async move {
        loop {
            let nodes = hub.running();
            propose(&hub, &ledger, &nodes[hub.below(nodes.len() as u64) as usize]).await;
        }
    });
    let members = world.node(0).members();
    let others = members.voters.iter().filter(|id| **id != world.machines[0].id);
    let gone: Vec<NodeId> = others.copied().take(2).collect();
    for id in &gone {
        while world.node(0).remove_member(*id).await.is_err() {}
        world.node(0).remove_member(*id).await.expect("to remove it twice is to remove it");
    }
    let is_replaced = |world: &World| {
        let members = world.node(0).members();
        members.voters.len() == VOTERS_MAX
            && members.learners.is_empty()
            && gone.iter().all(|id| !members.voters.contains(id))
    };
    world.until("learners vote in the place of who went", is_replaced).await;
    load.abort();
    assert!(!world.ledger.acknowledged().is_empty());
    for id in gone {
        let index = world.machines.iter().position(|machine| machine.id == id);
        let index = index.expect("a machine has that name");
        world.kill(index);
        world.machines.remove(index);
    }
    world.heal(4).await;
}

/// A leader dies between the two entries of a change, at one moment or another.
#[tokio::test(start_paused = true)]
async fn a_change_of_voters_that_a_dead_leader_began_is_brought_to_its_end() {
    let mut begun = 0;
    for round in 0..24 {
        let mut world = World::founded(500 + round, 5, quick()).await;
        let has_five = |world: &World| {
            let members = world.node(0).members();
            members.voters.len() == 5 && !members.is_changing
        };
        world.until("five voters", has_five).await;
        let leader = world.node(0).leader().expect("a leader made them voters");
        let index = world.machines.iter().position(|machine| machine.id == leader);
        let index = index.expect("a machine has that name");
        let gone = world.machines[(index + 1) % 5].id;
        let node = world.node(index);
        let removing = tokio::spawn(async move { node.remove_member(gone).await });
        tokio::time::sleep(Duration::from_millis(round)).await;
        world.kill(index);
        removing.abort();
        // The tasks of the dead one are at their end, too.
        drop(removing.await);
        tokio::time::sleep(Duration::from_millis(100)).await;
        begun += u64::from(world.hub.running().iter().any(|node| node.members().is_changing));
        let is_over = |world: &World| {
            let running = world.hub.running();
            running.iter().filter(|node| node.id() != gone).all(|node| !node.members().is_changing)
        };
        world.until("a leader", |world| world.node((index + 2) % 5).leader().is_some()).await;
        world.until("the change is over", is_over).await;
        world.start(index).await.expect("a crash is survived");
        world.until("the change is over there, too", is_over).await;
    }
    assert!(begun > 0, "no leader died in the middle of a change");
}

#[tokio::test(start_paused = true)]
async fn the_last_voter_stays() {
    let world = World::founded(5, 1, quick()).await;
    let node = world.node(0);
    let result = node.remove_member(node.id()).await;
    assert_eq!(result, Err(ProposalError::LastVoter));
    node.propose(add_node(&world.hub)).await.expect("one is a majority of one");
}

#[tokio::test(start_paused = true)]
async fn nobody_speaks_for_another_node() {
    let world = World::founded(6, 3, quick()).await;
    let vote = crate::types::Vote::new(9, crate::PeerId(world.machines[0].id));
    let request = openraft::raft::VoteRequest::new(vote, None);
    let request = crate::Request::Vote(request).encode();
    let liar = world.machines[1].id;
    assert_eq!(world.node(2).answer(liar, &request).await, Err(RequestError::Sender));
    assert!(matches!(world.node(2).answer(liar, b"\x02").await, Err(RequestError::Wire(_))));
}

/// Each call of the disk is the one that fails, from some on.
#[tokio::test(start_paused = true)]
async fn a_disk_that_fails_ends_the_node_and_no_other() {
    for (round, fault) in [(0, Fault::Error(5)), (1, Fault::Error(28)), (2, Fault::Short)] {
        let mut world = World::founded(70 + round, 3, quick()).await;
        world.until("three voters", |world| world.node(0).members().voters.len() == 3).await;
        let disk = world.machines[2].disk.clone();
        disk.fail_from(disk.calls() + world.hub.below(40), fault);
        let broken = world.node(2);
        while broken.ended().is_none() {
            while !propose(&world.hub, &world.ledger, &world.node(0)).await {}
        }
        let reason = broken.wait_for_end().await;
        assert!(reason.contains("map/map.") || reason.contains("map.log"), "{reason}");
        let refused = broken.propose(add_node(&world.hub)).await;
        assert!(matches!(refused, Err(ProposalError::Ended(_))), "{refused:?}");
        drop(broken);
        for _ in 0..30 {
            while !propose(&world.hub, &world.ledger, &world.node(1)).await {}
        }
        world.kill(2);
        disk.heal();
        world.heal(70 + round).await;
    }
}

/// The same on files.
#[tokio::test(start_paused = true)]
async fn a_node_goes_on_from_its_files() {
    let folder = tempfile::tempdir().expect("a folder is made");
    let id = NodeId::parse(&[b'a'; 40]).expect("forty letters");
    let mut added = Vec::new();
    for round in 0..4 {
        let hub = Hub::new(round);
        let cable = Arc::new(Cable { hub: Arc::clone(&hub), from: id, generation: 1 });
        let path = folder.path().join("map");
        let node = start(quick(), id, &path, cable).await.expect("the files are read");
        let published = node.applied().borrow().clone();
        assert!(added.iter().all(|node| published.state.map.nodes().contains_key(node)));
        assert_eq!(node.found().await, Ok(round == 0));
        for _ in 0..20 {
            let MapEntry::AddNode { node: name, address } = add_node(&hub) else { continue };
            node.propose(MapEntry::AddNode { node: name, address }).await.expect("it leads");
            added.push(name);
        }
        node.read_linearizable().await.expect("it leads");
        node.stop().await;
    }
    let other = NodeId::parse(&[b'b'; 40]).expect("forty letters");
    let cable = Arc::new(Cable { hub: Hub::new(9), from: other, generation: 1 });
    let refused = start(quick(), other, &folder.path().join("map"), cable).await;
    let reason = refused.err().expect("the log is not its own");
    assert!(reason.contains("another node"), "{reason}");
}

async fn start(
    settings: Settings,
    id: NodeId,
    path: &Path,
    cable: Arc<Cable>,
) -> Result<Consensus, String> {
    Consensus::start(settings, id, path, Arc::new(Disk), cable, |_| {}).await
}
