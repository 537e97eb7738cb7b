//! Histories: nodes, their network, disks and clocks that misbehave, and what must hold all the
//! same.
//!
//! One seed makes one history. `CLUSTER_HISTORIES` says how many are run, `CLUSTER_SEED` from which
//! seed on; a single one is told in full where it fails.

use base::Random;

use super::world::World;

/// After so long all is well again, whatever has happened: elections may be lost a few times.
const BOUND: u64 = 60_000;

struct Verdict {
    failures: Vec<String>,
    promotions: u64,
    healed_in: u64,
    tale: Vec<String>,
}

fn history(seed: u64, is_told: bool) -> Verdict {
    let mut random = Random::from_seed(seed);
    let primaries = [3, 3, 3, 4, 5][random.below(5) as usize];
    let replicas = 1 + random.below(2) as usize;
    let mut world = World::new(random, primaries, replicas, is_told);
    world.moves_slots = seed.is_multiple_of(3);
    world.run_for(3000);
    let end = world.now + 4000 + world.random.below(12_000);
    while world.now < end {
        world.disturb();
        let pause = world.random.below(2500);
        world.run_for(pause);
    }
    world.mend();
    let mended = world.now;
    while world.disagreement().is_some() && world.now < mended + BOUND {
        world.run_for(500);
    }
    let mut failures = std::mem::take(&mut world.failures);
    failures.extend(world.disagreement().map(|trouble| format!("not healed: {trouble}")));
    Verdict {
        failures,
        promotions: world.promotions,
        healed_in: world.now - mended,
        tale: world.tale.take().unwrap_or_default(),
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The histories are told off in this many shares, which run side by side.
const SHARES: u64 = 2;

fn run(share: u64) {
    let (first, count) = (setting("CLUSTER_SEED", 1), setting("CLUSTER_HISTORIES", 12));
    let seeds = (first..first + count).filter(|seed| (seed - first) % SHARES == share);
    let (mut histories, mut promotions, mut slowest) = (0, 0, 0);
    let mut failed = Vec::new();
    for seed in seeds {
        let verdict = history(seed, count == 1);
        histories += 1;
        promotions += verdict.promotions;
        slowest = slowest.max(verdict.healed_in);
        if !verdict.failures.is_empty() {
            verdict.tale.iter().for_each(|line| println!("{line}"));
            failed.push(format!("seed {seed}: {:?}", verdict.failures));
        }
    }
    println!("{histories} histories, {promotions} promotions, healed in {slowest} ms at most");
    assert!(failed.is_empty(), "{} failed: {:#?}", failed.len(), &failed[..failed.len().min(20)]);
    assert!(histories < 100 || promotions > histories / 4);
}

#[test]
fn votes_are_given_once_and_tables_agree_in_the_end_first_share() {
    run(0);
}

#[test]
fn votes_are_given_once_and_tables_agree_in_the_end_second_share() {
    run(1);
}
