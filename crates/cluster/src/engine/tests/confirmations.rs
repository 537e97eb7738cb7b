//! Claims of which nobody has heard, and what must not make them newer.
//!
//! The invariant of all histories here: what a primary acknowledges behind the moment in which it
//! has taken its slots back, or has been put in the place of another one, is there in the end.

use base::Random;

use super::world::{NODE_TIMEOUT, World};
use crate::engine::{AdminCommand, ClaimEpochs, FailoverMode, SetSlotAction};
use crate::id::NodeId;
use crate::slots::SlotSet;

/// `cluster-manual-failover-timeout`, as the default settings have it.
const TIMEOUT: u64 = 5000;

/// Two moves that have begun within a latency: of `slots` from `source` to `target`, and of others
/// from `other_source` to `other_target`. Both targets claim under one epoch.
struct Race {
    world: World,
    source: usize,
    target: usize,
    other_source: usize,
    other_target: usize,
    slots: SlotSet,
}

fn some_slots(world: &mut World, machine: usize, first: usize) -> SlotSet {
    world.cluster(machine).my_slots().iter().skip(first).take(3).collect()
}

fn grant(world: &mut World, machine: usize, slots: &SlotSet, to: NodeId) -> ClaimEpochs {
    let order = AdminCommand::Grant { slots: slots.clone(), to, names_epochs: true };
    world.order(machine, &order);
    world.cluster(machine).granted_epochs(slots).expect("they are granted")
}

fn claim(slots: &SlotSet, from: NodeId, epochs: ClaimEpochs) -> AdminCommand {
    AdminCommand::Claim { slots: slots.clone(), from, epochs: Some(epochs) }
}

/// Primaries that serve the slots that have owners.
fn primaries(seed: u64, count: usize, replicas: usize) -> World {
    let mut world = World::new(Random::from_seed(seed), count, replicas, false);
    world.needs_all = false;
    for machine in 0..world.count() {
        world.kill(machine);
        world.revive(machine);
    }
    world.run_for(6000);
    world
}

fn serves(world: &mut World, machine: usize, slots: &SlotSet) -> bool {
    let cluster = world.cluster(machine);
    let has_all = slots.minus(cluster.my_slots()).is_empty();
    has_all && cluster.is_primary() && cluster.is_ok() && cluster.held_slots().is_empty()
}

impl Race {
    /// The target stands still behind so many actions of its claim, until then.
    fn start(seed: u64, is_target_first: bool, actions: usize, length: u64) -> Race {
        let mut world = primaries(seed, 4, 0);
        let mut names: Vec<(NodeId, usize)> = (0..4).map(|it| (world.id(it), it)).collect();
        names.sort_unstable();
        let [(_, low), (_, source), (_, other_source), (_, high)] = names[..] else {
            panic!("there are four")
        };
        let (target, other_target) = if is_target_first { (low, high) } else { (high, low) };
        let slots = some_slots(&mut world, source, 0);
        let others = some_slots(&mut world, other_source, 0);
        let (to, from) = (world.id(target), world.id(source));
        let (other_to, other_from) = (world.id(other_target), world.id(other_source));
        let epochs = grant(&mut world, source, &slots, to);
        let other_epochs = grant(&mut world, other_source, &others, other_to);
        assert!(epochs.last < other_epochs.first || other_epochs.last < epochs.first);
        let until = world.now + length;
        world.order_and_stop(target, &claim(&slots, from, epochs), actions, until);
        let epoch = world.cluster(target).my_epoch();
        world.run_for(seed % 30);
        // The sources have reserved the same epochs, as they may.
        let same = ClaimEpochs { first: epoch, last: epoch };
        world.order(other_target, &claim(&others, other_from, same));
        Race { world, source, target, other_source, other_target, slots }
    }

    /// The move fails; the source asks, and takes the slots back. The target is about to go on: it
    /// has not looked at anything that came meanwhile.
    fn run_to_take_back(&mut self, length: u64) {
        let end = self.world.now + length;
        self.world.run_for(2 * TIMEOUT);
        self.world.order(self.source, &AdminCommand::Withdraw(self.slots.clone()));
        self.world.run_for(3000);
        assert!(serves(&mut self.world, self.source, &self.slots));
        self.world.deleted.clear();
        self.world.run_for(end - 1 - self.world.now);
    }

    /// Whether the target takes all slots for its own, and would claim them anew.
    fn is_sure(&mut self) -> bool {
        let cluster = self.world.cluster(self.target);
        self.slots.minus(cluster.my_slots()).is_empty() && cluster.is_confirmed()
    }

    /// All is well again, and the source has kept what it has acknowledged.
    fn check_kept(&mut self, what: &str) {
        self.world.run_for(12_000);
        let Race { world, source, target, other_target, slots, .. } = self;
        for slot in slots.iter() {
            for machine in 0..world.count() {
                let owner = world.cluster(machine).owner(slot);
                assert_eq!(owner, Some(world.id(*source)), "{what}: m{machine}");
            }
        }
        let is_deleted =
            |(machine, gone): &(usize, SlotSet)| machine == source && !gone.and(slots).is_empty();
        assert!(!world.deleted.iter().any(is_deleted), "{what}");
        // A collision is put off, and not for good.
        assert_ne!(world.cluster(*target).my_epoch(), world.cluster(*other_target).my_epoch());
        world.order(*target, &AdminCommand::BumpEpoch);
        world.run_for(500);
        assert_eq!(world.disagreement(), None, "{what}");
    }
}

#[test]
fn a_target_that_stood_still_behind_its_claim_takes_nothing_by_a_collision() {
    for seed in 0..48 {
        let length = [13_500, 14_000, 20_000][seed as usize % 3];
        let mut race = Race::start(700 + seed, seed % 4 > 0, seed as usize % 2 + 1, length);
        race.run_to_take_back(length - seed % 30);
        race.check_kept(&format!("seed {seed}"));
    }
}

/// A stop that nobody has noticed: the claim counts, and the collision is settled all the same.
#[test]
fn a_target_that_stood_still_for_a_moment_has_its_slots() {
    for seed in 0..24 {
        let length = [100, 1000, 4000][seed as usize % 3];
        let mut race = Race::start(800 + seed, seed % 2 > 0, seed as usize % 5 + 1, length);
        race.world.run_for(length + 6000);
        let Race { world, target, other_target, slots, .. } = &mut race;
        let owner = world.id(*target);
        for machine in 0..4 {
            assert!(slots.iter().all(|slot| world.cluster(machine).owner(slot) == Some(owner)));
        }
        assert_ne!(world.cluster(*target).my_epoch(), world.cluster(*other_target).my_epoch());
        assert_eq!(world.disagreement(), None, "seed {seed}");
    }
}

/// What may be ordered of a target that has not heard yet what became of its claim.
#[derive(Clone, Copy, Debug)]
enum Temptation {
    Bump,
    SetSlot,
    ClaimFromOther,
    ClaimFromSource,
}

/// The target goes on, and is given an order when it has heard how great the epochs are by now, and
/// of nothing else.
#[test]
fn no_order_makes_an_old_claim_newer() {
    use Temptation::{Bump, ClaimFromOther, ClaimFromSource, SetSlot};
    for order in [Bump, SetSlot, ClaimFromOther, ClaimFromSource] {
        let mut tempted = 0;
        for seed in 0..24 {
            let length = 13_500;
            let mut race = Race::start(900 + seed, seed % 2 > 0, 1, length);
            race.run_to_take_back(length - seed % 30);
            tempted += usize::from(race.hears_of_epochs_only() && race.tempt(order));
            race.check_kept(&format!("seed {seed}, {order:?}"));
        }
        assert!(tempted > 3, "{order:?}: {tempted}");
    }
}

impl Race {
    /// Runs until the target has heard that another node has a greater epoch than all; whether the
    /// target takes the slots for its own still.
    fn hears_of_epochs_only(&mut self) -> bool {
        let Race { world, target, other_source, slots, .. } = self;
        let id = world.id(*other_source);
        world.order(*other_source, &AdminCommand::BumpEpoch);
        let epoch = world.cluster(*other_source).my_epoch();
        while world.cluster(*target).record_of(id).is_none_or(|it| it.config_epoch < epoch) {
            world.run_for(1);
        }
        slots.minus(world.cluster(*target).my_slots()).is_empty()
    }

    /// Gives the order; whether it was refused for the claims.
    fn tempt(&mut self, order: Temptation) -> bool {
        let Race { world, source, target, other_source, .. } = self;
        let (target, me) = (*target, world.id(*target));
        let giver = match order {
            Temptation::ClaimFromSource => *source,
            _ => *other_source,
        };
        let (giver_id, more) = (world.id(giver), some_slots(world, giver, 6));
        let is_refused = |world: &mut World, order: &AdminCommand| {
            !world.try_order(target, order) && world.refusal(target, order).contains("majority")
        };
        match order {
            Temptation::Bump => is_refused(world, &AdminCommand::BumpEpoch),
            Temptation::SetSlot => {
                let slot = more.iter().next().expect("there are three");
                let [first, second] = [SetSlotAction::Importing(giver_id), SetSlotAction::Node(me)]
                    .map(|change| AdminCommand::SetSlot { slot, change, has_keys: false });
                world.order(target, &first);
                let is_refused = is_refused(world, &second);
                let change = SetSlotAction::Stable;
                world.order(target, &AdminCommand::SetSlot { slot, change, has_keys: false });
                is_refused
            }
            Temptation::ClaimFromOther | Temptation::ClaimFromSource => {
                let epochs = grant(world, giver, &more, me);
                let is_refused = is_refused(world, &claim(&more, giver_id, epochs));
                world.order(giver, &AdminCommand::Revoke(more));
                is_refused
            }
        }
    }
}

/// The target and one other node are cut off with the claim. What they may do with each other, or
/// what their clients bring, makes nothing newer than what all others go by.
#[test]
fn a_target_that_was_cut_off_with_its_claim_takes_nothing() {
    for seed in 0..24 {
        let mut world = primaries(1000 + seed, 5, 0);
        let mut names: Vec<(NodeId, usize)> = (0..5).map(|it| (world.id(it), it)).collect();
        names.sort_unstable();
        // The last one draws the greatest epochs.
        let ((from, source), (me, target), (other_id, other)) = (names[0], names[4], names[1]);
        let (slots, more) = (some_slots(&mut world, source, 0), some_slots(&mut world, source, 3));
        let granted_on = some_slots(&mut world, target, 0);
        let epochs = grant(&mut world, source, &slots, me);
        world.separate(&[target, other]);
        let (gives_back, gives_on) = (seed % 3 == 0, seed % 3 == 1);
        if gives_back {
            grant(&mut world, target, &granted_on, other_id);
        }
        world.order(target, &claim(&slots, from, epochs));
        world.run_for(2 * TIMEOUT);
        world.order(source, &AdminCommand::Withdraw(slots.clone()));
        world.order(target, &AdminCommand::Withdraw(granted_on.clone()));
        world.run_for(6000);
        assert!(serves(&mut world, source, &slots));
        // A node that asks claims nothing: so the claim is to be heard first.
        assert!(world.cluster(target).header(false).config_epoch > 0);
        let order = AdminCommand::Grant { slots: slots.clone(), to: other_id, names_epochs: true };
        if gives_back || gives_on {
            if gives_on && world.try_order(target, &order) {
                let epochs = world.cluster(target).granted_epochs(&slots).expect("just granted");
                world.order(other, &claim(&slots, me, epochs));
            }
        } else {
            let epochs = grant(&mut world, source, &more, me);
            world.try_order(target, &claim(&more, from, epochs));
            world.order(source, &AdminCommand::Revoke(more));
        }
        world.join_all();
        world.run_for(12_000);
        for machine in 0..5 {
            let cluster = world.cluster(machine);
            assert!(slots.iter().all(|slot| cluster.owner(slot) == Some(from)), "seed {seed}");
            assert!(granted_on.iter().all(|slot| cluster.owner(slot) == Some(me)), "seed {seed}");
        }
        assert_eq!(world.disagreement(), None, "seed {seed}");
    }
}

/// A node that has answered may know of a later claim, and tell of it by another link, which is
/// slow.
#[test]
fn claims_are_confirmed_when_there_was_time_to_correct_them() {
    for seed in 0..40 {
        let mut race = Race::start(1200 + seed, true, 1, 13_500);
        race.run_to_take_back(13_500 - seed % 30);
        let Race { source, target, .. } = race;
        // Only those tell of the later claim to whom nothing was granted.
        race.world.cut(source, target);
        race.world.cut(target, source);
        race.world.slow_down(300);
        for _ in 0..6000 {
            race.world.run_for(1);
            assert!(!race.is_sure(), "seed {seed}");
        }
        race.world.join_all();
        race.world.slow_down(8);
        race.check_kept(&format!("seed {seed}"));
    }
}

/// The file says that the slots are the node's; others may know better.
#[test]
fn claims_of_a_node_that_begins_are_to_be_confirmed() {
    for seed in 0..12 {
        let mut race = Race::start(1300 + seed, true, 1, 13_500);
        race.world.kill(race.target);
        let slots = race.slots.clone();
        race.world.run_for(2 * TIMEOUT);
        race.world.order(race.source, &AdminCommand::Withdraw(slots.clone()));
        race.world.run_for(3000);
        assert!(serves(&mut race.world, race.source, &slots));
        race.world.revive(race.target);
        let owned = race.world.cluster(race.target).my_slots().clone();
        assert!(slots.minus(&owned).is_empty());
        for _ in 0..3000 {
            assert!(!race.is_sure(), "seed {seed}");
            race.world.run_for(1);
        }
        race.check_kept(&format!("seed {seed}"));
    }
}

/// A source asks, and stands still before it takes the slots back; the target goes on meanwhile,
/// and all others hear of the claim.
#[test]
fn a_source_that_stands_still_with_its_answers_takes_nothing() {
    let mut held = 0;
    for seed in 0..24 {
        let mut race = Race::start(1400 + seed, false, 1, 6700);
        let (start, slots) = (race.world.now - seed % 30, race.slots.clone());
        race.world.run_for(start + TIMEOUT + 1 - race.world.now);
        race.world.order(race.source, &AdminCommand::Withdraw(slots.clone()));
        race.world.run_for(900 + seed * 20);
        if race.world.cluster(race.source).held_slots().is_empty() {
            continue;
        }
        held += 1;
        race.world.freeze(race.source, race.world.now + 4000);
        race.world.run_for(12_000);
        let owner = race.world.id(race.target);
        for machine in 0..4 {
            let cluster = race.world.cluster(machine);
            assert!(slots.iter().all(|slot| cluster.owner(slot) == Some(owner)), "seed {seed}");
        }
        assert_eq!(race.world.disagreement(), None, "seed {seed}");
    }
    assert!(held > 6, "{held}");
}

/// The answer to a ping that was sent before the claim says nothing of that, also where both were
/// sent within one millisecond.
#[test]
fn an_answer_confirms_only_what_came_before_its_question() {
    for seed in 0..8 {
        let mut world = primaries(1500 + seed, 4, 0);
        let (from, to) = (world.id(0), world.id(1));
        let slots = some_slots(&mut world, 0, 0);
        let epochs = grant(&mut world, 0, &slots, to);
        let pinged = |world: &mut World| {
            let record = world.cluster(1).record_of(from).expect("the node is known");
            record.ping_sent == 1_700_000_000_000 + world.now
        };
        while !pinged(&mut world) {
            world.run_for(1);
        }
        world.cut(1, 0);
        world.order(1, &claim(&slots, from, epochs));
        world.run_for(400);
        assert!(!world.cluster(1).is_confirmed(), "seed {seed}");
        // The others have heard it.
        world.run_for(3600);
        assert!(world.cluster(1).is_confirmed(), "seed {seed}");
    }
}

/// A replica may have been elected in its place: what a node that was cut off claims, grants or
/// takes back would make its old claims newer.
#[test]
fn a_node_that_was_cut_off_claims_nothing_before_a_majority_has_answered() {
    for case in 0..16 {
        let mut world = primaries(1550 + case, 4, 0);
        let (from, to) = (world.id(0), world.id(1));
        let slots = some_slots(&mut world, 0, 0);
        let epochs = grant(&mut world, 0, &slots, to);
        let claim = claim(&slots, from, epochs);
        // Together with the source, which is no majority.
        world.separate(&[0, 1]);
        world.run_for(NODE_TIMEOUT + 300);
        assert!(!world.try_order(1, &claim), "case {case}");
        world.join_all();
        world.run_for(20 * case);
        assert!(!world.try_order(1, &claim), "case {case}");
        world.run_for(4000);
        assert!(world.try_order(1, &claim), "case {case}");
    }
}

/// What stands in a link from before is old, and one that is dead at the other end brings nothing.
#[test]
fn a_node_that_stood_still_asks_by_new_links() {
    let mut world = primaries(1580, 3, 0);
    world.run_for(100);
    let before = world.cluster(1).links();
    let until = world.now + 650;
    world.freeze(1, until);
    world.run_for(650 + 3000);
    let behind = world.cluster(1).links();
    assert_eq!((before.len(), behind.len()), (4, 4));
    assert!(behind.iter().all(|link| !before.contains(link)));
    assert!(world.cluster(1).is_confirmed());
}

#[test]
fn the_source_confirms_at_once() {
    let mut world = primaries(1600, 4, 0);
    let (from, to) = (world.id(0), world.id(1));
    let slots = some_slots(&mut world, 0, 0);
    let epochs = grant(&mut world, 0, &slots, to);
    world.order(1, &claim(&slots, from, epochs));
    assert!(!world.cluster(1).is_confirmed());
    // There and back, in these worlds.
    world.run_for(450);
    assert!(world.cluster(1).is_confirmed());
}

/// A node that asks what became of a grant tells others of no claim.
#[test]
fn slots_are_not_claimed_while_other_nodes_are_asked() {
    let mut world = primaries(1700, 3, 0);
    let (from, to) = (world.id(2), world.id(1));
    let slots = some_slots(&mut world, 0, 0);
    grant(&mut world, 0, &slots, to);
    let more = some_slots(&mut world, 2, 0);
    let me = world.id(0);
    let epochs = grant(&mut world, 2, &more, me);
    world.isolate(0);
    world.run_for(2 * TIMEOUT);
    world.order(0, &AdminCommand::Withdraw(slots));
    assert_eq!(world.cluster(0).header(false).config_epoch, 0);
    assert!(world.refusal(0, &claim(&more, from, epochs)).contains("majority"));
}

/// A source that follows its own replica by now is not the one that could take the slots back.
#[test]
fn a_source_that_leads_no_more_confirms_nothing() {
    for seed in 0..16 {
        let mut world = primaries(1800 + seed, 3, 1);
        let (from, to) = (world.id(0), world.id(1));
        let slots = some_slots(&mut world, 0, 0);
        let epochs = grant(&mut world, 0, &slots, to);
        world.isolate(1);
        world.order(1, &claim(&slots, from, epochs));
        world.order(3, &AdminCommand::Failover(FailoverMode::Agreed));
        world.run_for(4000);
        assert!(serves(&mut world, 3, &slots) && !world.cluster(0).is_primary());
        world.join_all();
        world.separate(&[0, 1]);
        for _ in 0..3000 {
            world.run_for(1);
            let cluster = world.cluster(1);
            let is_known = slots.minus(cluster.my_slots()).is_empty();
            assert!(!(is_known && cluster.claims_are_known()), "seed {seed}");
        }
        world.join_all();
        world.run_for(8000);
        assert!(serves(&mut world, 3, &slots), "seed {seed}");
    }
}

/// A primary stands still or is cut off until its replica is in its place, and then hears first of
/// another node with its epoch.
#[test]
fn a_primary_that_was_away_takes_nothing_from_its_replica() {
    let mut seeds = 0..;
    for case in 0..48 {
        let is_frozen = case % 2 == 0;
        let mut world = loop {
            let world = primaries(1100 + seeds.next().expect("there is no end"), 3, 1);
            if world.id(2) < world.id(0) {
                break world;
            }
        };
        let (away, replica, epoch) = (2, 5, world.cluster(2).my_epoch());
        let (slots, from) = (world.cluster(away).my_slots().clone(), world.id(1));
        let moved = some_slots(&mut world, 1, 0);
        let until = world.now + 8000;
        if is_frozen {
            world.freeze(away, until);
        } else {
            world.isolate(away);
        }
        let to = world.id(0);
        grant(&mut world, 1, &moved, to);
        let same = ClaimEpochs { first: epoch, last: epoch };
        world.order(0, &claim(&moved, from, same));
        world.run_for(until - 1 - world.now);
        assert!(serves(&mut world, replica, &slots));
        world.deleted.clear();
        world.join_all();
        world.run_for(12_000);
        assert!(serves(&mut world, replica, &slots), "case {case}");
        assert!(world.deleted.iter().all(|(machine, _)| *machine != replica), "case {case}");
        assert_eq!(world.disagreement(), None, "case {case}");
    }
}
