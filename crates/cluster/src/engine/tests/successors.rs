//! A replica in its primary's place, as all others see it.

use base::Random;

use super::world::World;
use crate::engine::{AdminCommand, FailoverMode, SetSlotAction};
use crate::nodes_file::OpenSlot;
use crate::slots::Slot;

/// The first primary hands over to its first replica, or dies.
fn exchange(world: &mut World, is_agreed: bool) {
    match is_agreed {
        true => world.order(3, &AdminCommand::Failover(FailoverMode::Agreed)),
        false => world.kill(0),
    }
    world.run_for(12_000);
    assert!(world.cluster(3).is_primary());
}

/// The directive is about other shards.
#[test]
fn a_shard_follows_its_new_primary_also_where_replicas_may_not_migrate() {
    for is_agreed in [true, false] {
        let mut world = World::new(Random::from_seed(24), 3, 2, false);
        let forbid = |world: &mut World, machine| {
            world.configure(machine, |settings| settings.allows_replica_migration = false);
        };
        (0..9).for_each(|machine| forbid(&mut world, machine));
        world.run_for(4000);
        // Of two replicas the other one must not be elected.
        world.configure(6, |settings| {
            settings.is_failover_off = true;
            settings.allows_replica_migration = false;
        });
        exchange(&mut world, is_agreed);
        if !is_agreed {
            world.revive(0);
            forbid(&mut world, 0);
            world.run_for(6000);
        }
        let new = world.id(3);
        for machine in [0, 6] {
            assert_eq!(world.cluster(machine).my_primary(), Some(new), "{machine} {is_agreed}");
        }
        assert_eq!(world.disagreement(), None);
    }
}

/// A node that is to get a slot goes on when the slot's owner is replaced, and gets it from the one
/// in its place.
#[test]
fn a_slot_that_is_importing_goes_over_with_its_shard() {
    for is_agreed in [true, false] {
        let mut world = World::new(Random::from_seed(25), 3, 1, false);
        world.run_for(4000);
        let slot: Slot = world.cluster(0).my_slots().iter().next().expect("a primary has slots");
        let (old, new, target) = (world.id(0), world.id(3), world.id(1));
        for (machine, change) in
            [(1, SetSlotAction::Importing(old)), (0, SetSlotAction::Migrating(target))]
        {
            world.order(machine, &AdminCommand::SetSlot { slot, change, has_keys: false });
        }
        exchange(&mut world, is_agreed);
        let cluster = world.cluster(1);
        assert!(cluster.is_ok(), "{is_agreed}");
        assert_eq!(cluster.owner(slot), Some(new));
        let open: Vec<_> = cluster.open_slots().collect();
        assert_eq!(open, [(slot, OpenSlot::Importing(new))]);
    }
}

#[test]
fn settings_beyond_all_bounds_end_no_node() {
    let mut world = World::new(Random::from_seed(26), 3, 1, false);
    for machine in 0..6 {
        world.configure(machine, |settings| {
            settings.node_timeout = u64::MAX;
            settings.replica_validity_factor = u64::MAX;
            settings.replica_ping_period = u64::MAX;
            settings.blacklist_ttl = u64::MAX;
            settings.manual_failover_timeout = u64::MAX;
            settings.ping_interval = u64::MAX;
        });
    }
    world.run_for(4000);
    world.order(3, &AdminCommand::Failover(FailoverMode::Force));
    let gone = world.id(5);
    world.order(0, &AdminCommand::Forget(gone));
    world.run_for(6000);
    assert!(world.cluster(3).is_primary());
}
