//! Slots that go over whole: grants, claims, and what befalls the nodes between the two.

use base::Random;

use super::world::{NODE_TIMEOUT, World};
use crate::engine::{Action, AdminCommand, ClaimEpochs, Moment};
use crate::id::NodeId;
use crate::slots::SlotSet;

/// `cluster-manual-failover-timeout`, as the default settings have it.
const TIMEOUT: u64 = 5000;

fn some_slots(world: &mut World, machine: usize) -> SlotSet {
    world.cluster(machine).my_slots().iter().take(3).collect()
}

fn is_owner_everywhere(world: &mut World, slots: &SlotSet, owner: NodeId) -> bool {
    (0..world.count())
        .all(|it| slots.iter().all(|slot| world.cluster(it).owner(slot) == Some(owner)))
}

/// Grants slots, and says under which epochs they may be claimed.
fn grant(
    world: &mut World,
    machine: usize,
    slots: &SlotSet,
    to: NodeId,
    names_epochs: bool,
) -> Option<ClaimEpochs> {
    let order = AdminCommand::Grant { slots: slots.clone(), to, names_epochs };
    while !world.try_order(machine, &order) {
        world.run_for(10);
    }
    world.cluster(machine).granted_epochs(slots).filter(|_| names_epochs)
}

/// The source takes another epoch while the target claims what was granted, as where slots go round
/// in a ring: the slots are the target's all the same, in whatever order the nodes hear of it.
#[test]
fn slots_that_were_granted_go_over_whatever_the_epochs_are() {
    for seed in 0..120 {
        let mut world = World::new(Random::from_seed(100 + seed), 3, 0, false);
        world.run_for(4000);
        let names_epochs = seed % 2 == 0;
        let (from, to, third) = (world.id(0), world.id(1), world.id(2));
        let (slots, others) = (some_slots(&mut world, 0), some_slots(&mut world, 2));
        let epochs_of_others = grant(&mut world, 2, &others, from, names_epochs);
        let mut epochs = None;
        let order = [[0, 1, 2], [0, 2, 1], [1, 0, 2]][(seed % 3) as usize];
        for step in order {
            match step {
                0 => epochs = grant(&mut world, 0, &slots, to, names_epochs),
                // Each claim is another epoch of the source.
                1 => {
                    for slot in others.iter() {
                        let slots = [slot].into_iter().collect();
                        let epochs = epochs_of_others;
                        world.order(0, &AdminCommand::Claim { slots, from: third, epochs });
                    }
                }
                _ => {
                    let slots = slots.clone();
                    world.order(1, &AdminCommand::Claim { slots, from, epochs });
                }
            }
            // Nodes hear of nothing, of some, or of all in between.
            world.run_for(seed / 6 * 2);
        }
        world.run_for(8000);
        assert!(is_owner_everywhere(&mut world, &slots, to), "seed {seed}");
        assert!(is_owner_everywhere(&mut world, &others, from), "seed {seed}");
    }
}

/// Slots that come and go back at once are their first owner's again, before what that said of them
/// while they were away is known to all.
#[test]
fn slots_that_go_back_at_once_go_back() {
    for seed in 0..40 {
        let mut world = World::new(Random::from_seed(300 + seed), 3, 0, false);
        world.run_for(4000);
        let (one, other) = (world.id(0), world.id(1));
        let slots = some_slots(&mut world, 0);
        let handover = |world: &mut World, (from, source), (to, target)| {
            let epochs = grant(world, from, &slots, target, seed % 2 == 0);
            world.order(to, &AdminCommand::Claim { slots: slots.clone(), from: source, epochs });
        };
        handover(&mut world, (0, one), (1, other));
        while slots.iter().any(|slot| world.cluster(0).owner(slot) != Some(other)) {
            world.run_for(1);
        }
        handover(&mut world, (1, other), (0, one));
        // Long before the words of the first handover are out of date.
        world.run_for(500);
        assert!(is_owner_everywhere(&mut world, &slots, one), "seed {seed}");
    }
}

/// Many moves of one source go on at a time, and their claims come in any order.
#[test]
fn claims_of_several_grants_come_in_any_order() {
    for seed in 0..24 {
        let mut world = World::new(Random::from_seed(900 + seed), 3, 0, false);
        world.run_for(4000);
        let (from, to) = (world.id(0), world.id(1));
        let all: Vec<_> = world.cluster(0).my_slots().iter().take(20).collect();
        let mut grants: Vec<_> = all
            .iter()
            .map(|slot| {
                let slots: SlotSet = [*slot].into_iter().collect();
                let epochs = grant(&mut world, 0, &slots, to, true);
                (slots, epochs)
            })
            .collect();
        if seed % 3 == 0 {
            grants.reverse();
        } else {
            grants.rotate_left(seed as usize % 20);
        }
        for (slots, epochs) in grants {
            world.order(1, &AdminCommand::Claim { slots, from, epochs });
            world.run_for(seed % 4 * 20);
        }
        world.run_for(8000);
        assert!(is_owner_everywhere(&mut world, &all.into_iter().collect(), to), "seed {seed}");
    }
}

/// A grant that came to nothing is taken back under an epoch above the promised ones, once the
/// others have said that they know of no claim.
#[test]
fn slots_that_were_granted_and_not_claimed_stay() {
    let mut world = World::new(Random::from_seed(19), 3, 0, false);
    world.run_for(4000);
    let (from, to) = (world.id(0), world.id(1));
    let slots = some_slots(&mut world, 0);
    let foreign = AdminCommand::Grant { slots: slots.clone(), to: from, names_epochs: true };
    assert!(world.refusal(1, &foreign).contains("I'm not the owner"));
    let epochs = grant(&mut world, 0, &slots, to, true).expect("they are granted");
    for order in [
        AdminCommand::DelSlots(slots.clone()),
        AdminCommand::FlushSlots(false),
        AdminCommand::Grant { slots: slots.clone(), to, names_epochs: true },
    ] {
        assert_eq!(world.refusal(0, &order), "Slot export in progress.", "{order:?}");
    }
    world.run_for(TIMEOUT - 1000);
    assert!(world.cluster(0).held_slots().is_empty());
    // The target may still claim.
    world.order(0, &AdminCommand::Withdraw(slots.clone()));
    world.run_for(900);
    assert!(slots.and(&world.cluster(0).header(false).slots).is_empty());
    assert_eq!(world.cluster(0).held_slots(), slots);
    world.run_for(2100);
    assert!(world.cluster(0).held_slots().is_empty());
    assert!(world.cluster(0).my_epoch() > epochs.last);
    world.run_for(2000);
    assert!(is_owner_everywhere(&mut world, &slots, from));
}

/// The target dies with a claim that nobody has heard of. The source serves the slots again, and
/// keeps them when the target is back.
#[test]
fn a_claim_that_comes_to_light_late_is_none() {
    for names_epochs in [true, false] {
        let mut world = World::new(Random::from_seed(29), 3, 0, false);
        world.run_for(4000);
        let (from, to) = (world.id(0), world.id(1));
        let slots = some_slots(&mut world, 0);
        let epochs = grant(&mut world, 0, &slots, to, names_epochs);
        world.let_die_after(1, 1);
        assert!(!world.try_order(1, &AdminCommand::Claim { slots: slots.clone(), from, epochs }));
        world.run_for(2 * TIMEOUT);
        world.order(0, &AdminCommand::Withdraw(slots.clone()));
        world.run_for(2000);
        assert!(world.cluster(0).held_slots().is_empty());
        world.revive(1);
        assert_eq!(world.cluster(1).owner(slots.iter().next().unwrap()), Some(to));
        world.run_for(3000);
        assert!(is_owner_everywhere(&mut world, &slots, from), "{names_epochs}");
        assert!(world.deleted.contains(&(1, slots)));
    }
}

/// A source that nobody hears does not serve what may have been claimed, and gives it when it is
/// heard again.
#[test]
fn a_source_that_was_cut_off_gives_what_was_claimed_meanwhile() {
    let mut world = World::new(Random::from_seed(31), 3, 0, false);
    world.run_for(4000);
    let (from, to) = (world.id(0), world.id(1));
    let slots = some_slots(&mut world, 0);
    let epochs = grant(&mut world, 0, &slots, to, true);
    // What it does for itself gives it a greater epoch than that of the claim.
    world.order(2, &AdminCommand::BumpEpoch);
    world.run_for(1000);
    world.order(0, &AdminCommand::BumpEpoch);
    world.isolate(0);
    world.order(1, &AdminCommand::Claim { slots: slots.clone(), from, epochs });
    world.run_for(2 * TIMEOUT);
    world.order(0, &AdminCommand::Withdraw(slots.clone()));
    world.run_for(5000);
    assert_eq!(world.cluster(0).held_slots(), slots);
    world.join_all();
    world.run_for(5000);
    assert!(is_owner_everywhere(&mut world, &slots, to));
    assert!(world.cluster(0).held_slots().is_empty());
}

/// A node that begins anew knows what it has granted.
#[test]
fn grants_outlive_a_restart() {
    for is_claimed in [true, false] {
        let mut world = World::new(Random::from_seed(37), 3, 0, false);
        world.run_for(4000);
        let (from, to) = (world.id(0), world.id(1));
        let slots = some_slots(&mut world, 0);
        let epochs = grant(&mut world, 0, &slots, to, true);
        world.kill(0);
        world.revive(0);
        let moving = AdminCommand::SetSlot {
            slot: slots.iter().next().unwrap(),
            change: crate::engine::SetSlotAction::Migrating(to),
            has_keys: true,
        };
        world.run_for(TIMEOUT - 100);
        assert_eq!(world.refusal(0, &moving), "Slot export in progress.");
        assert_eq!(world.cluster(0).held_slots(), slots);
        if is_claimed {
            world.order(1, &AdminCommand::Claim { slots: slots.clone(), from, epochs });
        }
        world.run_for(3000);
        let owner = if is_claimed { to } else { from };
        assert!(is_owner_everywhere(&mut world, &slots, owner));
        assert!(world.cluster(0).held_slots().is_empty());
        world.kill(0);
        world.revive(0);
        assert!(world.cluster(0).held_slots().is_empty());
    }
}

#[test]
fn a_reset_forgets_what_was_granted() {
    let mut world = World::new(Random::from_seed(41), 3, 0, false);
    world.run_for(4000);
    let (to, slots) = (world.id(1), some_slots(&mut world, 0));
    grant(&mut world, 0, &slots, to, true);
    world.order(0, &AdminCommand::Reset { is_hard: false, has_keys: false });
    assert_eq!(world.cluster(0).granted_epochs(&slots), None);
    world.order(0, &AdminCommand::AddSlots(slots.clone()));
    assert_eq!(*world.cluster(0).my_slots(), slots);
}

/// Two sources reserve epochs apart, and the target's own epoch is above those of one of them when
/// it claims of the other: that source takes nothing back below what it has seen, once it says so.
#[test]
fn claims_of_two_sources_come_in_any_order() {
    for seed in 0..24 {
        let mut world = World::new(Random::from_seed(1200 + seed), 4, 0, false);
        world.run_for(4000);
        let (to, sources) = (world.id(1), if seed % 2 == 0 { [0, 2] } else { [2, 0] });
        let grants = sources.map(|source| {
            let slots = some_slots(&mut world, source);
            let epochs = grant(&mut world, source, &slots, to, true);
            (world.id(source), slots, epochs)
        });
        for (from, slots, epochs) in grants.clone() {
            let order = AdminCommand::Claim { slots, from, epochs };
            let until = world.now + 1000;
            while !world.try_order(1, &order) {
                assert!(world.now < until, "seed {seed}");
                world.run_for(5);
            }
        }
        world.run_for(4000);
        for (_, slots, _) in grants {
            assert!(is_owner_everywhere(&mut world, &slots, to), "seed {seed}");
        }
    }
}

/// A source that has not heard of the target's epoch might take the slots back below it.
#[test]
fn no_claim_is_above_what_its_source_has_seen() {
    let mut world = World::new(Random::from_seed(43), 4, 0, false);
    world.run_for(4000);
    let (from, other, to) = (world.id(0), world.id(2), world.id(1));
    let (slots, others) = (some_slots(&mut world, 0), some_slots(&mut world, 2));
    let (low, high) =
        (grant(&mut world, 0, &slots, to, true), grant(&mut world, 2, &others, to, true));
    let (low, high) = if low.unwrap().first < high.unwrap().first {
        ((slots, from, low), (others, other, high))
    } else {
        ((others, other, high), (slots, from, low))
    };
    let claim = |(slots, from, epochs)| AdminCommand::Claim { slots, from, epochs };
    world.order(1, &claim(high));
    assert!(world.refusal(1, &claim(low.clone())).contains("has not answered yet"));
    world.run_for(500);
    world.order(1, &claim(low));
}

/// A target that has no slots of its own counts all the same: its claim would have made it one of
/// those that make a majority. The operator may give it up.
#[test]
fn slots_that_were_granted_to_a_node_that_is_gone_are_held_without_a_majority() {
    let mut world = World::new(Random::from_seed(47), 2, 0, false);
    world.run_for(4000);
    let (from, to) = (world.id(1), world.id(0));
    let all = world.cluster(0).my_slots().clone();
    let epochs = grant(&mut world, 0, &all, from, true);
    world.order(1, &AdminCommand::Claim { slots: all, from: to, epochs });
    world.run_for(2000);
    assert!(world.cluster(0).my_slots().is_empty());
    world.order(0, &AdminCommand::Reset { is_hard: false, has_keys: false });
    world.run_for(8000);
    world.order(0, &AdminCommand::Meet { ip: super::world::ip(1), port: 7000, bus_port: 17_000 });
    world.run_for(4000);
    let slots = some_slots(&mut world, 1);
    assert_eq!((world.cluster(1).size(), world.cluster(1).records().len()), (1, 2));
    grant(&mut world, 1, &slots, to, true);
    world.kill(0);
    world.order(1, &AdminCommand::Withdraw(slots.clone()));
    world.run_for(60_000);
    assert_eq!(world.cluster(1).held_slots(), slots);
    world.order(1, &AdminCommand::Forget(to));
    world.run_for(4000);
    assert!(world.cluster(1).held_slots().is_empty());
}

/// The slots were taken back, and granted to another node, whose claim nobody has heard yet: a
/// claim that comes to light now is an older one, though nobody else claims them.
#[test]
fn an_older_claim_takes_nothing_that_is_granted_anew() {
    for names_epochs in [true, false] {
        let mut world = World::new(Random::from_seed(53), 4, 0, false);
        world.run_for(4000);
        let (from, first, second) = (world.id(0), world.id(1), world.id(2));
        let slots = some_slots(&mut world, 0);
        let epochs = grant(&mut world, 0, &slots, first, names_epochs);
        world.let_die_after(1, 1);
        assert!(!world.try_order(1, &AdminCommand::Claim { slots: slots.clone(), from, epochs }));
        world.run_for(2 * TIMEOUT);
        world.order(0, &AdminCommand::Withdraw(slots.clone()));
        world.run_for(3000);
        let epochs = grant(&mut world, 0, &slots, second, names_epochs);
        world.run_for(300);
        world.kill(0);
        // What the third one knows of the owner outlives a start.
        world.kill(3);
        world.revive(3);
        world.revive(1);
        world.run_for(6000);
        assert!(slots.iter().all(|slot| world.cluster(3).owner(slot) == Some(from)));
        assert!(slots.and(world.cluster(1).my_slots()).is_empty());
        world.order(2, &AdminCommand::Claim { slots: slots.clone(), from, epochs });
        world.revive(0);
        world.run_for(4000);
        assert!(is_owner_everywhere(&mut world, &slots, second), "{names_epochs}");
    }
}

/// What came before the question is no answer to it: a source that stood still hears at first what
/// was said before the claim.
#[test]
fn a_source_that_stood_still_gives_what_was_claimed_meanwhile() {
    for seed in 0..20 {
        let mut world = World::new(Random::from_seed(59 + seed), 3, 0, false);
        world.run_for(4000);
        let (from, to) = (world.id(0), world.id(1));
        let slots = some_slots(&mut world, 0);
        let epochs = grant(&mut world, 0, &slots, to, seed % 2 == 0);
        let until = world.now + 2 * TIMEOUT + 1000;
        world.freeze(0, until);
        world.run_for(seed * 20);
        world.order(1, &AdminCommand::Claim { slots: slots.clone(), from, epochs });
        world.run_for(until - 1 - world.now);
        world.order(0, &AdminCommand::Withdraw(slots.clone()));
        world.run_for(100);
        world.order(0, &AdminCommand::Withdraw(slots.clone()));
        world.run_for(5000);
        assert!(is_owner_everywhere(&mut world, &slots, to), "{seed}");
    }
}

/// What came before the question is no answer to it, so the links from before are closed: what
/// stands in them was said earlier, and one that is dead at the other end brings no correction.
#[test]
fn links_are_opened_anew_to_ask_what_was_claimed() {
    let mut world = World::new(Random::from_seed(61), 3, 0, false);
    world.run_for(4000);
    let (to, slots) = (world.id(1), some_slots(&mut world, 0));
    grant(&mut world, 0, &slots, to, true);
    let moment = Moment { now: world.now + 2 * TIMEOUT, ..Moment::default() };
    let links = world.cluster(0).links();
    assert_eq!(links.len(), 4);
    let actions = world.cluster(0).order(moment, &AdminCommand::Withdraw(slots)).unwrap();
    for (link, _) in links {
        assert!(actions.contains(&Action::Close { link }), "{link:?}");
    }
    let opened = actions.iter().filter(|action| matches!(action, Action::Connect { .. }));
    assert_eq!((opened.count(), world.cluster(0).links()), (2, Vec::new()));
}

/// What an operator has one node give up goes to another one, whatever their epochs are, also in
/// the tables of nodes to which nothing was said.
#[test]
fn slots_that_were_given_up_and_added_elsewhere_are_the_other_nodes() {
    let mut world = World::new(Random::from_seed(67), 3, 0, false);
    world.run_for(4000);
    let (to, slots) = (world.id(0), some_slots(&mut world, 2));
    assert!(world.cluster(0).my_epoch() < world.cluster(2).my_epoch());
    world.order(2, &AdminCommand::DelSlots(slots.clone()));
    world.order(0, &AdminCommand::DelSlots(slots.clone()));
    world.order(0, &AdminCommand::AddSlots(slots.clone()));
    world.run_for(4000);
    assert!(is_owner_everywhere(&mut world, &slots, to));
}

/// A source that comes back late asks for slots that were given on meanwhile, and that nobody
/// claims at the moment: that is answered, and takes nothing.
#[test]
fn a_question_takes_nothing_that_was_given_on() {
    for is_gone in [false, true] {
        let mut world = World::new(Random::from_seed(71), 4, 0, false);
        world.run_for(4000);
        let (from, first, second) = (world.id(0), world.id(1), world.id(2));
        let slots = some_slots(&mut world, 0);
        let epochs = grant(&mut world, 0, &slots, first, true);
        world.kill(0);
        world.order(1, &AdminCommand::Claim { slots: slots.clone(), from, epochs });
        world.run_for(4000);
        let epochs = grant(&mut world, 1, &slots, second, true);
        world.run_for(4000);
        world.revive(0);
        world.run_for(TIMEOUT - 1000);
        if is_gone {
            world.kill(1);
        }
        world.run_for(6000);
        for machine in (0..4).filter(|it| !is_gone || *it != 1) {
            let cluster = world.cluster(machine);
            assert!(slots.iter().all(|slot| cluster.owner(slot) == Some(first)), "{machine}");
        }
        world.order(2, &AdminCommand::Claim { slots: slots.clone(), from: first, epochs });
        world.revive(1);
        world.run_for(6000);
        assert!(is_owner_everywhere(&mut world, &slots, second), "{is_gone}");
    }
}

/// A node that starts while the source is gone knows that this one may have granted slots under a
/// lesser epoch than its last.
#[test]
fn a_claim_counts_for_nodes_that_start_behind_it() {
    let mut world = World::new(Random::from_seed(73), 4, 0, false);
    world.run_for(4000);
    let (from, to, slots) = (world.id(0), world.id(1), some_slots(&mut world, 0));
    let epochs = grant(&mut world, 0, &slots, to, true);
    world.run_for(500);
    world.order(2, &AdminCommand::BumpEpoch);
    world.run_for(1000);
    world.order(0, &AdminCommand::BumpEpoch);
    world.run_for(1000);
    world.kill(0);
    world.kill(3);
    world.order(1, &AdminCommand::Claim { slots: slots.clone(), from, epochs });
    world.revive(3);
    world.run_for(4000);
    for machine in 1..4 {
        let cluster = world.cluster(machine);
        assert!(slots.iter().all(|slot| cluster.owner(slot) == Some(to)), "{machine}");
    }
}

/// A claim that lost, and of which others hear late, takes nothing that its source has granted
/// anew, however long that grant lasts: an owner says what it has granted.
#[test]
fn a_grant_that_lasts_long_is_no_slot_given_up() {
    let mut world = World::new(Random::from_seed(79), 4, 0, false);
    world.run_for(4000);
    let (from, to, next) = (world.id(0), world.id(1), world.id(2));
    let slots = some_slots(&mut world, 0);
    let epochs = grant(&mut world, 0, &slots, to, true);
    world.isolate(1);
    world.order(1, &AdminCommand::Claim { slots: slots.clone(), from, epochs });
    world.run_for(2 * TIMEOUT);
    world.order(0, &AdminCommand::Withdraw(slots.clone()));
    world.run_for(4000);
    assert!(world.cluster(0).held_slots().is_empty());
    grant(&mut world, 0, &slots, next, true);
    world.run_for(4 * NODE_TIMEOUT);
    world.join_all();
    world.run_for(4 * NODE_TIMEOUT);
    assert!(is_owner_everywhere(&mut world, &slots, from));
}

/// A node that has granted slots, and does not know of their claim, is asked by their owner: an
/// epoch that the node has taken since is none of a claim.
#[test]
fn an_epoch_behind_a_grant_is_no_claim_of_what_was_granted() {
    let mut world = World::new(Random::from_seed(83), 4, 0, false);
    world.run_for(4000);
    let (from, to, next) = (world.id(0), world.id(1), world.id(2));
    let slots = some_slots(&mut world, 0);
    let epochs = grant(&mut world, 0, &slots, to, true);
    world.kill(0);
    world.order(1, &AdminCommand::Claim { slots: slots.clone(), from, epochs });
    world.run_for(4000);
    grant(&mut world, 1, &slots, next, true);
    world.run_for(100);
    world.kill(1);
    world.revive(0);
    world.run_for(4000);
    world.order(3, &AdminCommand::BumpEpoch);
    world.run_for(500);
    world.order(0, &AdminCommand::BumpEpoch);
    world.kill(0);
    world.revive(1);
    world.run_for(500);
    world.revive(0);
    world.run_for(4 * TIMEOUT);
    assert!(is_owner_everywhere(&mut world, &slots, to));
}

/// What a node claims while other slots of it are granted it claims under its epoch of now: others
/// can tell the source of that, which has not heard it.
#[test]
fn a_claim_beside_a_grant_is_told_to_a_source_that_asks() {
    for names_epochs in [false, true] {
        let mut world = World::new(Random::from_seed(89), 4, 0, false);
        world.run_for(4000);
        let (from, to, next) = (world.id(0), world.id(1), world.id(2));
        let (slots, others) = (some_slots(&mut world, 0), some_slots(&mut world, 1));
        let epochs = grant(&mut world, 0, &slots, to, names_epochs);
        grant(&mut world, 1, &others, next, true);
        world.run_for(100);
        world.isolate(0);
        world.order(1, &AdminCommand::Claim { slots: slots.clone(), from, epochs });
        world.run_for(500);
        world.kill(1);
        world.run_for(2 * TIMEOUT);
        world.order(0, &AdminCommand::Withdraw(slots.clone()));
        world.join_all();
        world.run_for(2 * TIMEOUT);
        for machine in [0, 2, 3] {
            let cluster = world.cluster(machine);
            assert!(slots.iter().all(|slot| cluster.owner(slot) == Some(to)), "{machine}");
        }
    }
}
