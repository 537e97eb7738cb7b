//! Histories of a few slots that go from node to node under writes, while nodes die at any point,
//! stand still, or hear nobody and are heard by nobody for a time.
//!
//! Invariant: what was acknowledged is at the slots' owner when all is well again; nobody serves
//! for long what another node has claimed under a greater epoch. What a node says while nobody
//! hears that node is not acknowledged. `CLUSTER_HISTORIES` says how many histories are run,
//! `CLUSTER_SEED` from which seed on.

use std::collections::BTreeSet;

use base::Random;

use super::world::{NODE_TIMEOUT, World};
use crate::engine::{AdminCommand, ClaimEpochs};
use crate::slots::SlotSet;

/// `cluster-manual-failover-timeout`, as the default settings have it.
const TIMEOUT: u64 = 5000;
/// The writers of a source wait so long for it to learn that nothing was claimed.
const ANSWERS: u64 = 3000;
const STEP: u64 = 20;
/// Two nodes may serve a slot for so long, where one of them was not there.
const BOUND: u64 = 2 * NODE_TIMEOUT;
/// What a node has said is heard by others within that time, where they hear that node.
const HEARD_WITHIN: u64 = 300;

/// A move behind its grant.
struct Move {
    from: usize,
    to: usize,
    epochs: Option<ClaimEpochs>,
    held_at: u64,
    /// When the target claims, if it does.
    claims_at: Option<u64>,
    /// Since when the source takes the slots back.
    withdrawn_at: Option<u64>,
}

struct History {
    world: World,
    slots: SlotSet,
    /// What each machine has of the slots.
    data: Vec<BTreeSet<u64>>,
    acknowledged: BTreeSet<u64>,
    /// Writes of machines that may be cut off before others have heard of their claims.
    fresh: Vec<(usize, u64)>,
    /// A machine that is cut off, and until when.
    apart: Option<(usize, u64)>,
    /// Whether a machine was up and reached others at the last look, and since when.
    were_up: Vec<bool>,
    informed_since: Vec<u64>,
    moving: Option<Move>,
    /// Machines whose writers are held.
    held: Vec<bool>,
    /// Since when a machine serves what another has claimed.
    doubly_since: Vec<Option<u64>>,
    failures: Vec<String>,
    /// Whether nothing befalls the machines any more.
    is_mended: bool,
    moves: usize,
}

impl History {
    fn start(seed: u64, is_told: bool) -> Self {
        let primaries = 3 + (seed % 2) as usize;
        let mut world = World::new(Random::from_seed(seed), primaries, 0, is_told);
        world.needs_all = false;
        for machine in 0..world.count() {
            world.kill(machine);
            world.revive(machine);
        }
        world.run_for(4000);
        let slots: SlotSet = world.cluster(0).my_slots().iter().take(3).collect();
        let count = world.count();
        Self {
            world,
            slots,
            data: vec![BTreeSet::new(); count],
            acknowledged: BTreeSet::new(),
            fresh: Vec::new(),
            apart: None,
            were_up: vec![true; count],
            informed_since: vec![0; count],
            moving: None,
            held: vec![false; count],
            doubly_since: vec![None; count],
            failures: Vec::new(),
            is_mended: false,
            moves: 0,
        }
    }

    fn owns(&mut self, machine: usize) -> bool {
        self.world.is_up(machine)
            && self.slots.minus(self.world.cluster(machine).my_slots()).is_empty()
    }

    fn serves(&mut self, machine: usize) -> bool {
        self.owns(machine) && !self.world.is_frozen(machine) && {
            let cluster = self.world.cluster(machine);
            cluster.is_primary() && cluster.is_ok() && cluster.held_slots().is_empty()
        }
    }

    fn is_granted(&mut self, machine: usize) -> bool {
        self.world.is_up(machine)
            && self.world.cluster(machine).granted_epochs(&self.slots).is_some()
    }

    /// Has a machine die in the midst of what it does next, at times.
    fn endanger(&mut self, machine: usize) {
        if !self.is_mended && self.world.random.below(4) == 0 {
            let actions = self.world.random.below(5) as usize;
            self.world.let_die_after(machine, actions);
        }
    }

    /// A move comes to its grant.
    fn begin_move(&mut self) {
        let count = self.world.count() as u64;
        let to = self.world.random.below(count) as usize;
        let from = (0..count as usize).find(|it| self.serves(*it) && !self.held[*it]);
        let Some(from) = from.filter(|from| *from != to && self.world.is_up(to)) else { return };
        let agrees = {
            let source = self.world.id(from);
            self.slots.iter().all(|slot| self.world.cluster(to).owner(slot) == Some(source))
        };
        // A machine drops what it has of other nodes' slots when it starts, before all else.
        if self.is_granted(from) || !agrees || !self.were_up[to] {
            return;
        }
        self.data[to] = self.data[from].clone();
        self.endanger(from);
        let names_epochs = self.world.random.below(4) > 0;
        let order =
            AdminCommand::Grant { slots: self.slots.clone(), to: self.world.id(to), names_epochs };
        if !self.world.try_order(from, &order) {
            return;
        }
        let epochs = self.world.cluster(from).granted_epochs(&self.slots);
        // The word may be lost, and the claim may have to wait.
        let delay = [10, 100, 2000, TIMEOUT + 1000][self.world.random.below(4) as usize];
        let claims_at = self.world.now + self.world.random.below(delay);
        let claims_at = Some(claims_at).filter(|_| self.world.random.below(6) > 0);
        let (epochs, held_at) = (epochs.filter(|_| names_epochs), self.world.now);
        self.held[from] = true;
        self.moving = Some(Move { from, to, epochs, held_at, claims_at, withdrawn_at: None });
        self.moves += 1;
        self.world.tell(|| format!("m{from} grants to m{to} {epochs:?}, claimed at {claims_at:?}"));
        self.part(from, to);
    }

    /// Has an end of a move be cut off or stand still, at times, for shorter or longer than that.
    fn part(&mut self, from: usize, to: usize) {
        let lengths = [500, 3000, TIMEOUT + 1000, 2 * TIMEOUT + 500, 20_000];
        let length = lengths[self.world.random.below(lengths.len() as u64) as usize];
        let until = self.world.now + length;
        let machine = [from, from, to][self.world.random.below(3) as usize];
        match self.world.random.below(4) {
            0 => self.isolate(machine, until),
            // The machine goes on a moment before what has come meanwhile is looked at.
            1 => self.world.freeze(machine, until / STEP * STEP + 1),
            _ => {}
        }
    }

    fn isolate(&mut self, machine: usize, until: u64) {
        if self.apart.is_none() {
            self.world.isolate(machine);
            self.apart = Some((machine, until));
            self.fresh.retain(|(writer, _)| *writer != machine);
        }
    }

    fn claim(&mut self) {
        let Some(moving) = &mut self.moving else { return };
        let (from, to, epochs) = (moving.from, moving.to, moving.epochs);
        if moving.claims_at.is_none_or(|at| self.world.now < at) {
            return;
        }
        if self.world.is_frozen(to) {
            return;
        }
        moving.claims_at = None;
        if self.world.now > moving.held_at + TIMEOUT || !self.world.is_up(to) {
            return;
        }
        self.endanger(to);
        self.world.tell(|| format!("m{to} claims"));
        let (slots, from) = (self.slots.clone(), self.world.id(from));
        self.world.try_order(to, &AdminCommand::Claim { slots, from, epochs });
    }

    /// The source sees that the slots are the target's, or gives up.
    fn release(&mut self) {
        let Some(Move { from, to, held_at, withdrawn_at, claims_at, .. }) = self.moving else {
            return;
        };
        if !self.held[from] {
            // The source has died, and with it the move; the target may still claim.
            let is_over = claims_at.is_none();
            self.moving = self.moving.take().filter(|_| !is_over);
            return;
        }
        if self.world.is_frozen(from) {
            return;
        }
        let (source, target) = (self.world.id(from), self.world.id(to));
        let owner = self.world.cluster(from).owner(self.slots.iter().next().expect("three"));
        let (now, is_granted) = (self.world.now, self.is_granted(from));
        let is_over = match withdrawn_at {
            None if owner == Some(target) => true,
            None if now >= held_at + 2 * TIMEOUT => {
                self.endanger(from);
                self.world.tell(|| format!("m{from} withdraws"));
                let slots = self.slots.clone();
                self.world.try_order(from, &AdminCommand::Withdraw(slots));
                if let Some(moving) = &mut self.moving {
                    moving.withdrawn_at = Some(now);
                }
                false
            }
            None => false,
            Some(at) => !is_granted || now >= at + ANSWERS,
        };
        if is_over {
            self.held[from] = false;
            self.moving = None;
            if owner == Some(source) {
                self.drop_stray(to);
            }
        }
    }

    fn clear(&mut self, machine: usize) {
        let gone = self.data[machine].len();
        self.world.tell(|| format!("m{machine} drops {gone} writes"));
        self.data[machine].clear();
    }

    /// What a machine has of slots that it does not own is dropped.
    fn drop_stray(&mut self, machine: usize) {
        let first = self.slots.iter().next().expect("there are three");
        if !self.world.is_up(machine) || self.owns(machine) {
            return;
        }
        if self.world.cluster(machine).owner(first).is_some() {
            self.clear(machine);
        }
    }

    /// A machine that starts takes slots that nobody has and of which there are keys there.
    fn take_unassigned(&mut self, machine: usize) {
        let cluster = self.world.cluster(machine);
        let is_free = self.slots.iter().all(|slot| cluster.owner(slot).is_none());
        if is_free && !self.data[machine].is_empty() {
            self.world.try_order(machine, &AdminCommand::AddSlots(self.slots.clone()));
        }
    }

    /// Whether a machine has been there for long, and hears all others.
    fn is_informed(&mut self, machine: usize) -> bool {
        self.apart.is_none()
            && !self.world.is_frozen(machine)
            && self.world.now > self.informed_since[machine] + 4000
    }

    /// Whether a claim is to come under an epoch that its source does not know.
    fn may_collide(&self) -> bool {
        self.moving.as_ref().is_some_and(|moving| moving.epochs.is_none())
    }

    fn disturb(&mut self) {
        let machine = self.world.random.below(self.world.count() as u64) as usize;
        match self.world.random.below(40) {
            0 => self.world.kill(machine),
            1..=3 => self.world.revive(machine),
            // A node that has just begun may not know yet what it has lost.
            4 if self.is_informed(machine) && !self.may_collide() => {
                self.world.tell(|| format!("m{machine} bumps its epoch"));
                self.world.try_order(machine, &AdminCommand::BumpEpoch);
            }
            5 if self.owns(machine) && !self.world.is_frozen(machine) => {
                self.world.try_order(machine, &AdminCommand::DelSlots(self.slots.clone()));
                // An operator who sees that nobody took them.
                self.world.try_order(machine, &AdminCommand::AddSlots(self.slots.clone()));
            }
            6 if self.world.random.below(8) == 0 => {
                self.isolate(machine, self.world.now + 3000);
            }
            _ => {}
        }
    }

    fn step(&mut self) {
        self.world.run_for(STEP);
        if self.apart.is_some_and(|(_, until)| self.world.now >= until) {
            self.apart = None;
            self.world.tell(|| "all reach each other again".to_owned());
            self.world.join_all();
        }
        for (machine, slots) in std::mem::take(&mut self.world.deleted) {
            if !slots.and(&self.slots).is_empty() && !self.owns(machine) {
                self.clear(machine);
            }
        }
        for machine in 0..self.world.count() {
            let is_up = self.world.is_up(machine);
            if !is_up {
                self.held[machine] = false;
                // With the target its session is gone.
                if let Some(moving) = self.moving.as_mut().filter(|it| it.to == machine) {
                    moving.claims_at = None;
                }
            } else if !self.were_up[machine] {
                self.drop_stray(machine);
                self.take_unassigned(machine);
                self.informed_since[machine] = self.world.now;
            }
            self.were_up[machine] = is_up;
            if self.apart.is_some() || self.world.is_frozen(machine) {
                self.informed_since[machine] = self.world.now;
            }
        }
        self.claim();
        self.release();
        self.write();
    }

    /// The node that serves the slots acknowledges a write.
    fn write(&mut self) {
        for machine in 0..self.world.count() {
            if !self.serves(machine) {
                self.doubly_since[machine] = None;
                continue;
            }
            let epoch = self.world.cluster(machine).my_epoch();
            let is_claimed = !self.held[machine]
                && (0..self.world.count()).any(|other| {
                    other != machine
                        && self.owns(other)
                        && !self.is_granted(other)
                        && self.world.cluster(other).my_epoch() > epoch
                });
            let now = self.world.now;
            if !is_claimed {
                self.doubly_since[machine] = None;
            } else if now > *self.doubly_since[machine].get_or_insert(now) + BOUND {
                self.failures.push(format!("m{machine} serves what another has claimed at {now}"));
            }
            if !self.held[machine] {
                self.data[machine].insert(now);
                if self.apart.is_none_or(|(apart, _)| apart != machine) {
                    self.fresh.push((machine, now));
                }
            }
        }
        let heard = self.world.now.saturating_sub(HEARD_WITHIN);
        let is_heard = |(_, at): &mut (usize, u64)| *at <= heard;
        self.acknowledged.extend(self.fresh.extract_if(.., is_heard).map(|(_, at)| at));
    }

    fn run(mut self) -> (usize, Vec<String>) {
        for _ in 0..3000 {
            self.step();
            self.disturb();
            if self.moving.is_none() && self.world.random.below(20) == 0 {
                self.begin_move();
            }
        }
        (self.apart, self.is_mended) = (None, true);
        self.world.mend();
        let end = self.world.now + 60_000;
        while self.world.now < end && (self.moving.is_some() || !self.is_well()) {
            self.step();
        }
        self.failures.extend(self.world.disagreement());
        let owner = (0..self.world.count()).find(|it| self.owns(*it)).map(|it| &self.data[it]);
        let lost = owner.map(|found| self.acknowledged.difference(found).count());
        if lost != Some(0) {
            self.failures.push(format!("lost: {lost:?} of {}", self.acknowledged.len()));
        }
        self.failures.extend(std::mem::take(&mut self.world.failures));
        // What holds for a time is said once.
        self.failures.dedup_by_key(|text| text.split(" at ").next().map(str::to_owned));
        self.world.tale.iter().flatten().for_each(|line| println!("{line}"));
        (self.moves, self.failures)
    }

    fn is_well(&mut self) -> bool {
        self.world.disagreement().is_none()
            && (0..self.world.count()).any(|machine| self.serves(machine))
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn nothing_that_was_acknowledged_is_lost_when_nodes_die_or_are_cut_off_beside_moves() {
    let (first, count) = (setting("CLUSTER_SEED", 1), setting("CLUSTER_HISTORIES", 12));
    let (mut moves, mut failed) = (0, Vec::new());
    for seed in first..first + count {
        let (made, failures) = History::start(seed, count == 1).run();
        moves += made;
        if !failures.is_empty() {
            failed.push(format!("seed {seed}: {failures:?}"));
        }
    }
    assert!(failed.is_empty(), "{} failed: {:#?}", failed.len(), &failed[..failed.len().min(9)]);
    assert!(moves as u64 > count, "{moves}");
}
