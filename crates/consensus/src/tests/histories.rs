//! Histories: proposals and reads through partitions, losses, and crashes that forget.
//!
//! One seed makes one history, up to the moments at which openraft's own chance has elections
//! begin. `CONSENSUS_HISTORIES` says how many are run, `CONSENSUS_SEED` from which seed on. Time is
//! virtual.

use std::sync::Arc;
use std::time::Duration;

use super::hub::Hub;
use super::world::{Ledger, World, propose, quick};

/// What a history was like.
#[derive(Default, Debug)]
struct Tale {
    acknowledged: usize,
    kills: u64,
    partitions: u64,
    snapshots: u64,
}

/// A client: proposes and reads, by any node that runs.
async fn client(hub: Arc<Hub>, ledger: Arc<Ledger>) {
    loop {
        tokio::time::sleep(Duration::from_millis(hub.below(60))).await;
        let running = hub.running();
        if running.is_empty() {
            continue;
        }
        let node = Arc::clone(&running[hub.below(running.len() as u64) as usize]);
        drop(running);
        if hub.below(4) > 0 {
            propose(&hub, &ledger, &node).await;
            continue;
        }
        let acknowledged = ledger.acknowledged();
        if let Ok(map) = node.read_linearizable().await {
            ledger.check_has(&acknowledged, &map, "a linearizable read");
        }
    }
}

async fn history(seed: u64) -> Tale {
    let count = 3 + (seed % 5) as usize;
    let mut world = World::founded(seed, count, quick()).await;
    let mut tale = Tale::default();
    let clients: Vec<_> = (0..3)
        .map(|_| tokio::spawn(client(Arc::clone(&world.hub), Arc::clone(&world.ledger))))
        .collect();
    for _ in 0..30 {
        let hub = Arc::clone(&world.hub);
        let chosen = hub.below(count as u64) as usize;
        match hub.below(8) {
            0 | 1 => {
                tale.kills += u64::from(world.is_running(chosen));
                world.kill(chosen);
            }
            2..=4 => {
                for index in 0..count {
                    if !world.is_running(index) && hub.below(3) > 0 {
                        world.start(index).await.unwrap_or_else(|error| {
                            panic!("seed {seed}: a crash left what cannot be read: {error}")
                        });
                    }
                }
            }
            5 => {
                tale.partitions += 1;
                for machine in &world.machines {
                    let side = hub.below(2);
                    hub.cables().sides.insert(machine.id, side);
                }
            }
            6 => hub.cables().sides.clear(),
            _ => {
                let (lost, doubled) = (hub.below(20), hub.below(20));
                let delay = hub.below(60);
                let mut cables = hub.cables();
                (cables.lost, cables.doubled, cables.delay) = (lost, doubled, delay);
            }
        }
        tokio::time::sleep(Duration::from_millis(hub.below(1500))).await;
    }
    for client in clients {
        client.abort();
        // The client is at its end, one way or the other.
        drop(client.await);
    }
    world.heal(seed).await;
    tale.acknowledged = world.ledger.acknowledged().len();
    tale.snapshots = world.hub.cables().snapshots;
    tale
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn nothing_acknowledged_is_lost_and_all_maps_are_beginnings_of_one() {
    let first = setting("CONSENSUS_SEED", 1);
    let mut acknowledged = 0;
    for seed in first..first + setting("CONSENSUS_HISTORIES", 5) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime begins");
        let tale = runtime.block_on(history(seed));
        println!("seed {seed}: {tale:?}");
        acknowledged += tale.acknowledged;
    }
    assert!(acknowledged > 0, "something was acknowledged");
}
