//! Histories: nodes, clients and a network that misbehave, and what must hold all the same.
//!
//! One seed makes one history. `QUORUM_HISTORIES` says how many are run, `QUORUM_SEED` from which
//! seed on; a single one is told in full where it fails.

mod checks;
mod machine;
mod map_log;
mod world;

use base::Random;

use self::machine::Process;
use self::world::World;
use crate::position::Term;
use crate::settings::Settings;
use crate::state::MemberState;

/// What a history begins with.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    nodes: usize,
    shards: usize,
    /// Nodes that are in no shard at first.
    spares: usize,
    clients: usize,
    /// Whether what is durable is on disk, or in memory alone.
    is_on_disk: bool,
    settings: Settings,
}

fn plan(random: &mut Random) -> Plan {
    let nodes = 3 + random.below(7) as usize;
    let shards = 1 + random.below((nodes as u64 / 2).min(4)) as usize;
    // A coordinator that is quicker than the lease is held off by it.
    let span = [300, 300, 2000][random.below(3) as usize];
    let (lease, node_timeout) = (200 + random.below(span), 100 + random.below(600));
    let settings = Settings { lease, node_timeout };
    Plan {
        nodes,
        shards,
        spares: (random.below(2) as usize).min(nodes - shards),
        clients: 2 + random.below(5) as usize,
        is_on_disk: random.below(4) > 0,
        settings,
    }
}

/// After so long all is well again, whatever has happened.
const BOUND: u64 = 20_000;

/// What came of a history.
struct Verdict {
    failures: Vec<String>,
    acknowledged: usize,
    reads: usize,
    terms: usize,
    is_hopeless: bool,
    healed_in: u64,
    tale: Vec<String>,
}

fn history(seed: u64, is_told: bool) -> Verdict {
    let mut random = Random::from_seed(seed);
    let plan = plan(&mut random);
    let mut world = World::new(random, plan, is_told);
    let calm = world.now + 1000 + world.random.below(2000);
    world.run_until(calm);
    let end = calm + 3000 + world.random.below(12_000);
    while world.now < end {
        world.disturb();
        let next = world.now + world.random.below(1200);
        world.run_until(next);
    }
    world.mend();
    let mended = world.now;
    let before = written(&world);
    let has_healed = |world: &World| {
        let now = written(world);
        before.iter().zip(now).all(|(before, now)| now >= before + 3)
    };
    while world.now < mended + BOUND && !has_healed(&world) {
        let next = world.now + 100;
        world.run_until(next);
    }
    let healed_in = world.now - mended;
    let is_healed = has_healed(&world);
    let is_hopeless = !is_healed && is_hopeless(&world);
    if is_healed {
        let next = world.now + 1000;
        world.run_until(next);
        check_primaries(&mut world);
    } else if !is_hopeless {
        world.checks.failures.push(format!("not healed in {BOUND} ms"));
    }
    world.checks.check_registers();
    Verdict {
        acknowledged: world.checks.acknowledged(),
        reads: world.checks.reads(),
        terms: world.checks.terms(),
        is_hopeless,
        healed_in: if is_healed { healed_in } else { 0 },
        failures: std::mem::take(&mut world.checks.failures),
        tale: world.tale.take().unwrap_or_default(),
    }
}

/// How many writes of each shard were acknowledged.
fn written(world: &World) -> Vec<usize> {
    world.shards.iter().map(|shard| world.checks.acknowledged_of(*shard)).collect()
}

/// Whether a shard has lost the memories of a majority at once, where nothing is on disk.
fn is_hopeless(world: &World) -> bool {
    let is_whole = |node: &cluster::NodeId| {
        let text = &world.machines[world.machine_of(*node)].disk.state;
        let state = MemberState::parse(text).expect("the file was written whole");
        state.membership.is_some_and(|own| own.is_whole)
    };
    let mut shards = world.map.shards().values();
    !world.plan.is_on_disk
        && shards.any(|shard| {
            shard.members.iter().filter(|node| is_whole(node)).count() < shard.majority()
        })
}

/// What the primaries have in the end.
fn check_primaries(world: &mut World) {
    for shard in world.shards.clone() {
        let primary = world.map.shards()[&shard].primary.expect("the shard is served");
        let machine = world.machine_of(primary);
        let process = world.machines[machine].process.as_ref();
        let values = process.map_or(Vec::new(), Process::values);
        world.checks.has_all(shard, Term(u64::MAX), &values, "the last primary");
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn nothing_acknowledged_is_lost_and_keys_are_linearizable() {
    let (first, count) = (setting("QUORUM_SEED", 1), setting("QUORUM_HISTORIES", 300));
    let (mut writes, mut reads, mut terms, mut hopeless, mut slowest) = (0, 0, 0, 0, 0);
    let mut failed = Vec::new();
    for seed in first..first + count {
        let verdict = history(seed, count == 1);
        writes += verdict.acknowledged;
        reads += verdict.reads;
        terms += verdict.terms;
        hopeless += usize::from(verdict.is_hopeless);
        slowest = slowest.max(verdict.healed_in);
        if !verdict.failures.is_empty() {
            verdict.tale.iter().for_each(|line| println!("{line}"));
            failed.push(format!("seed {seed}: {:?}", verdict.failures));
        }
    }
    println!(
        "{count} histories, {writes} writes, {reads} reads, {terms} terms, {hopeless} with lost \
         memories, healed in {slowest} ms at most"
    );
    assert!(failed.is_empty(), "{} failed: {:#?}", failed.len(), &failed[..failed.len().min(10)]);
    let histories = count as usize;
    assert!(count < 100 || (writes > 20 * histories && terms > 3 * histories));
    assert!(hopeless * 5 <= 5 + histories, "{hopeless} histories say nothing of healing");
}
