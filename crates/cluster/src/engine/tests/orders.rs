//! Orders of operators, in clusters of several nodes.

use base::Random;

use super::world::World;
use crate::engine::{AdminCommand, PublishedMessage, SetSlotAction};
use crate::nodes_file::OpenSlot;
use crate::slots::{Slot, SlotSet};

fn set(slot: Slot, change: SetSlotAction) -> AdminCommand {
    AdminCommand::SetSlot { slot, change, has_keys: false }
}

fn first_slot_of(world: &mut World, machine: usize) -> Slot {
    world.cluster(machine).my_slots().iter().next().expect("a primary of these worlds has slots")
}

#[test]
fn a_slot_goes_over_by_setslot_and_all_learn_of_it() {
    let mut world = World::new(Random::from_seed(11), 3, 0, false);
    world.run_for(4000);
    let (slot, from, to) = (first_slot_of(&mut world, 0), world.id(0), world.id(1));
    world.order(1, &set(slot, SetSlotAction::Importing(from)));
    world.order(0, &set(slot, SetSlotAction::Migrating(to)));
    world.run_for(3000);
    let open = |world: &mut World, machine| world.cluster(machine).open_slots().collect::<Vec<_>>();
    assert_eq!(open(&mut world, 0), [(slot, OpenSlot::Migrating(to))]);
    assert_eq!(open(&mut world, 1), [(slot, OpenSlot::Importing(from))]);
    let change = SetSlotAction::Node(to);
    let refusal = world.refusal(0, &AdminCommand::SetSlot { slot, change, has_keys: true });
    assert_eq!(
        refusal,
        "Can't assign hashslot 0 to a different node while I still hold keys for this hash slot."
    );
    world.order(1, &set(slot, SetSlotAction::Node(to)));
    world.order(0, &set(slot, SetSlotAction::Node(to)));
    world.run_for(3000);
    assert_eq!(world.disagreement(), None);
    for machine in 0..3 {
        assert_eq!(world.cluster(machine).owner(slot), Some(to));
        assert!(open(&mut world, machine).is_empty());
    }
    assert!(world.cluster(1).my_epoch() > 3);
}

/// What nobody has moves from nobody to nobody.
#[test]
fn a_slot_that_is_given_up_is_on_the_move_no_more() {
    let mut world = World::new(Random::from_seed(12), 3, 0, false);
    world.run_for(4000);
    let (slot, from, to) = (first_slot_of(&mut world, 0), world.id(0), world.id(1));
    world.order(1, &set(slot, SetSlotAction::Importing(from)));
    world.order(0, &set(slot, SetSlotAction::Migrating(to)));
    for machine in 0..2 {
        world.order(machine, &AdminCommand::DelSlots([slot].into_iter().collect()));
        assert_eq!(world.cluster(machine).open_slots().count(), 0);
    }
}

#[test]
fn slots_on_the_move_outlive_a_restart_and_end_with_stable() {
    let mut world = World::new(Random::from_seed(12), 3, 0, false);
    world.run_for(4000);
    let (slot, to) = (first_slot_of(&mut world, 0), world.id(1));
    world.order(0, &set(slot, SetSlotAction::Migrating(to)));
    world.kill(0);
    world.revive(0);
    let open: Vec<_> = world.cluster(0).open_slots().collect();
    assert_eq!(open, [(slot, OpenSlot::Migrating(to))]);
    world.order(0, &set(slot, SetSlotAction::Stable));
    assert_eq!(world.cluster(0).open_slots().count(), 0);
}

#[test]
fn slots_move_only_between_primaries_that_are_known() {
    let mut world = World::new(Random::from_seed(13), 3, 1, false);
    world.run_for(2000);
    let (slot, replica, stranger) =
        (first_slot_of(&mut world, 0), world.id(4), crate::NodeId::random(&mut world.random));
    let me = world.id(0);
    let cases = [
        (3, SetSlotAction::Stable, "Please use SETSLOT only with masters.".to_owned()),
        (1, SetSlotAction::Migrating(me), "I'm not the owner of hash slot 0".to_owned()),
        (0, SetSlotAction::Importing(me), "I'm already the owner of hash slot 0".to_owned()),
        (0, SetSlotAction::Migrating(me), "Target node is myself".to_owned()),
        (0, SetSlotAction::Migrating(stranger), format!("I don't know about node {stranger}")),
        (0, SetSlotAction::Migrating(replica), "Target node is not a master".to_owned()),
        (0, SetSlotAction::Node(stranger), format!("Unknown node {stranger}")),
        (0, SetSlotAction::Node(replica), "Target node is not a master".to_owned()),
    ];
    for (machine, change, text) in cases {
        assert_eq!(world.refusal(machine, &set(slot, change)), text);
    }
}

/// Slots that were handed over are the new owner's everywhere, under an epoch of its own.
#[test]
fn slots_that_are_claimed_are_the_new_owners_everywhere() {
    let mut world = World::new(Random::from_seed(17), 3, 1, false);
    world.run_for(4000);
    let (from, to) = (world.id(0), world.id(1));
    let slots: SlotSet = world.cluster(0).my_slots().iter().take(3).collect();
    let claim = AdminCommand::Claim { slots: slots.clone(), from, epochs: None };
    let refused = world.refusal(4, &claim);
    assert_eq!(refused, "Please use SETSLOT only with masters.");
    world.order(1, &claim);
    assert!(world.refusal(1, &claim).ends_with("is another node's by now"));
    let epoch = world.cluster(1).my_epoch();
    assert!(epoch > world.cluster(0).my_epoch() && epoch > world.cluster(2).my_epoch());
    world.run_for(4000);
    for machine in 0..6 {
        let cluster = world.cluster(machine);
        assert!(slots.iter().all(|slot| cluster.owner(slot) == Some(to)), "{machine}");
    }
    assert!(!world.cluster(0).my_slots().is_empty() && world.cluster(0).is_primary());
}

/// A replica that was away while its primary took slots, or an epoch, is told of that by others:
/// without it nobody would vote for the replica.
#[test]
fn a_replica_that_missed_what_its_primary_claimed_is_elected() {
    for takes_slots in [true, false] {
        let mut world = World::new(Random::from_seed(23), 3, 1, false);
        world.run_for(4000);
        let (from, primary) = (world.id(0), world.id(1));
        let replicas_of = |machine: usize, world: &mut World| {
            world.cluster(machine).my_primary() == Some(primary)
        };
        let replica = (3..6).find(|machine| replicas_of(*machine, &mut world)).expect("it has one");
        world.kill(replica);
        world.run_for(100);
        let slots: SlotSet = world.cluster(0).my_slots().iter().take(3).collect();
        if takes_slots {
            world.order(1, &AdminCommand::Claim { slots, from, epochs: None });
        } else {
            world.order(0, &AdminCommand::BumpEpoch);
            world.run_for(2000);
            world.order(1, &AdminCommand::BumpEpoch);
        }
        world.run_for(2000);
        world.kill(1);
        world.revive(replica);
        // Its primary is gone, so nobody says that its data are not too old.
        world.configure(replica, |settings| settings.replica_validity_factor = 0);
        world.run_for(40_000);
        assert!(world.cluster(replica).is_primary(), "slots {takes_slots}");
        assert!(!world.cluster(replica).my_slots().is_empty());
    }
}

#[test]
fn a_node_that_one_node_forgets_is_forgotten_by_all_and_stays_so() {
    let mut world = World::new(Random::from_seed(14), 3, 1, false);
    world.run_for(4000);
    let gone = world.id(5);
    world.kill(5);
    world.order(0, &AdminCommand::Forget(gone));
    world.run_for(4000);
    let knows = |world: &mut World, machine| {
        world.cluster(machine).records().iter().any(|node| node.id == gone)
    };
    assert!((0..5).all(|machine| !knows(&mut world, machine)));
    world.run_for(90_000);
    assert!((0..5).all(|machine| !knows(&mut world, machine)));
    let (me, primary) = (world.id(0), world.id(1));
    let refusal = world.refusal(0, &AdminCommand::Forget(me));
    assert_eq!(refusal, "I tried hard but I can't forget myself...");
    assert_eq!(world.refusal(4, &AdminCommand::Forget(primary)), "Can't forget my master!");
}

#[test]
fn a_reset_leaves_a_node_alone_and_a_hard_one_under_another_name() {
    let mut world = World::new(Random::from_seed(15), 3, 1, false);
    world.run_for(4000);
    let (old, has_keys) = (world.id(3), true);
    let refused = world.refusal(0, &AdminCommand::Reset { is_hard: false, has_keys });
    assert_eq!(refused, "CLUSTER RESET can't be called with master nodes containing keys");
    world.order(3, &AdminCommand::Reset { is_hard: false, has_keys });
    let replica = world.cluster(3);
    assert!(replica.is_primary() && replica.my_id() == old && replica.records().len() == 1);
    assert_eq!(replica.current_epoch(), 3);
    world.order(3, &AdminCommand::Reset { is_hard: true, has_keys: false });
    let node = world.cluster(3);
    assert!(node.my_id() != old && node.current_epoch() == 0 && node.records().len() == 1);
}

#[test]
fn a_replica_that_replicates_no_one_is_a_primary_without_slots() {
    let mut world = World::new(Random::from_seed(20), 3, 1, false);
    world.run_for(4000);
    let (id, primary) = (world.id(3), world.id(0));
    let shard = world.cluster(0).record_of(id).and_then(|node| node.aux.shard);
    world.order(3, &AdminCommand::ReplicateNoOne);
    let node = world.cluster(3);
    assert!(node.is_primary() && node.my_id() == id && node.my_slots().is_empty());
    assert_eq!(node.records().len(), 6);
    // The others are told at once, not by the next ping.
    world.run_for(100);
    let record = world.cluster(1).record_of(id).unwrap();
    assert!(record.primary.is_none() && record.aux.shard != shard);
    let slots = world.cluster(0).my_slots().clone();
    world.order(0, &AdminCommand::ReplicateNoOne);
    assert_eq!(*world.cluster(0).my_slots(), slots);
    assert_eq!(world.cluster(0).my_id(), primary);
}

#[test]
fn a_spare_replica_goes_over_to_a_primary_without_any() {
    let mut world = World::new(Random::from_seed(16), 3, 2, false);
    world.run_for(4000);
    let orphan = world.id(0);
    world.kill(3);
    world.kill(6);
    world.run_for(20_000);
    let moved = [4, 5, 7, 8]
        .into_iter()
        .filter(|machine| world.cluster(*machine).my_primary() == Some(orphan));
    assert_eq!(moved.count(), 1);
}

#[test]
fn an_epoch_is_bumped_only_where_another_has_a_greater_one() {
    let mut world = World::new(Random::from_seed(17), 3, 0, false);
    world.run_for(4000);
    world.order(2, &AdminCommand::BumpEpoch);
    assert_eq!(world.cluster(2).my_epoch(), 3);
    world.order(0, &AdminCommand::BumpEpoch);
    assert_eq!(world.cluster(0).my_epoch(), 4);
}

#[test]
fn slots_are_flushed_where_there_are_no_keys() {
    let mut world = World::new(Random::from_seed(18), 3, 0, false);
    let refused = world.refusal(0, &AdminCommand::FlushSlots(true));
    assert_eq!(refused, "DB must be empty to perform CLUSTER FLUSHSLOTS.");
    world.order(0, &AdminCommand::FlushSlots(false));
    assert_eq!(*world.cluster(0).my_slots(), SlotSet::empty());
}

#[test]
fn a_message_comes_to_all_nodes_and_a_sharded_one_to_its_shard() {
    let mut world = World::new(Random::from_seed(19), 3, 1, false);
    world.run_for(4000);
    for is_sharded in [false, true] {
        world.delivered.clear();
        let (channel, message) = (b"news".to_vec(), b"hello".to_vec());
        world.publish(1, PublishedMessage { channel, message, is_sharded });
        world.run_for(1000);
        let mut machines: Vec<usize> = world.delivered.iter().map(|it| it.0).collect();
        machines.sort_unstable();
        assert_eq!(machines, if is_sharded { vec![4] } else { vec![0, 2, 3, 4, 5] });
        let is_it = |it: &(usize, Vec<u8>, Vec<u8>, bool)| {
            it.1 == b"news" && it.2 == b"hello" && it.3 == is_sharded
        };
        assert!(world.delivered.iter().all(is_it));
    }
}
