//! Machines that run nodes, and what must hold of all maps that were ever seen.
//!
//! Invariant: of two maps behind the same number of entries, seen anywhere and ever, both are one:
//! what a node applied is a beginning of what each other one applies.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::NodeId;
use persist::storage::simulated::SimulatedDisk;
use quorum::{MapEntry, NodeAddress};
use tokio::sync::watch;

use super::hub::{Cable, Hub, ProcessDisk};
use crate::node::Consensus;
use crate::settings::Settings;
use crate::state_machine::AppliedMap;

/// Within so much of virtual time all is well again once nothing goes wrong.
const BOUND: Duration = Duration::from_secs(120);

/// A machine: its disk stays while processes come and go.
pub(super) struct Machine {
    pub(super) id: NodeId,
    pub(super) disk: SimulatedDisk,
    process_disk: Option<ProcessDisk>,
    generation: u64,
}

/// All machines.
pub(super) struct World {
    pub(super) hub: Arc<Hub>,
    pub(super) machines: Vec<Machine>,
    pub(super) settings: Settings,
    pub(super) ledger: Arc<Ledger>,
}

/// What was seen and acknowledged.
#[derive(Default)]
pub(super) struct Ledger {
    seen: Mutex<BTreeMap<u64, AppliedMap>>,
    acknowledged: Mutex<BTreeSet<NodeId>>,
    failures: Mutex<Vec<String>>,
}

impl Ledger {
    fn see(&self, who: NodeId, applied: &AppliedMap) {
        let mut seen = self.seen.lock().expect("no critical section here panics");
        let known = seen.entry(applied.entries).or_insert_with(|| applied.clone());
        if *known != *applied {
            self.fail(format!("{who} has another map behind {} entries", applied.entries));
        }
    }

    pub(super) fn fail(&self, what: String) {
        self.failures.lock().expect("no critical section here panics").push(what);
    }

    fn acknowledge(&self, node: NodeId) {
        self.acknowledged.lock().expect("no critical section here panics").insert(node);
    }

    pub(super) fn acknowledged(&self) -> BTreeSet<NodeId> {
        self.acknowledged.lock().expect("no critical section here panics").clone()
    }

    /// A map must have what was acknowledged before.
    pub(super) fn check_has(&self, acknowledged: &BTreeSet<NodeId>, map: &AppliedMap, what: &str) {
        let lacks = acknowledged.iter().find(|node| !map.state.map.nodes().contains_key(node));
        if let Some(node) = lacks {
            self.fail(format!("{what} lacks {node}, which was acknowledged"));
        }
    }

    pub(super) fn check(&self, seed: u64) {
        let failures = self.failures.lock().expect("no critical section here panics");
        assert!(failures.is_empty(), "seed {seed}: {failures:#?}");
    }
}

impl World {
    /// Machines on which nothing runs.
    pub(super) fn new(seed: u64, count: usize, settings: Settings) -> World {
        let hub = Hub::new(seed);
        let machines = (0..count).map(|_| Machine {
            id: NodeId::random(&mut hub.cables().random),
            disk: SimulatedDisk::new(),
            process_disk: None,
            generation: 0,
        });
        let machines = machines.collect();
        World { hub, machines, settings, ledger: Arc::default() }
    }

    /// Machines of which the first has founded a cluster that all others have joined.
    pub(super) async fn founded(seed: u64, count: usize, settings: Settings) -> World {
        let mut world = World::new(seed, count, settings);
        for index in 0..count {
            world.start(index).await.expect("an empty disk is fine");
        }
        let first = world.machines[0].id;
        assert_eq!(world.node(0).found().await, Ok(true));
        assert_eq!(world.node(0).found().await, Ok(false), "a cluster is founded once");
        for index in 1..count {
            world.join(index, first).await;
        }
        world
    }

    pub(super) async fn start(&mut self, index: usize) -> Result<(), String> {
        let machine = &mut self.machines[index];
        machine.generation += 1;
        let (id, generation) = (machine.id, machine.generation);
        let disk = ProcessDisk::new(machine.disk.clone());
        let cable = Arc::new(Cable { hub: Arc::clone(&self.hub), from: id, generation });
        let started = Consensus::start(
            self.settings.clone(),
            id,
            Path::new("map"),
            Arc::new(disk.clone()),
            cable,
            |_| {},
        );
        let node = started.await?;
        machine.process_disk = Some(disk);
        tokio::spawn(observe(Arc::clone(&self.ledger), id, node.applied()));
        self.hub.plug(id, generation, Arc::new(node));
        Ok(())
    }

    /// The process dies, and the machine with it.
    pub(super) fn kill(&mut self, index: usize) {
        let seed = self.hub.below(u64::MAX);
        let machine = &mut self.machines[index];
        if let Some(disk) = machine.process_disk.take() {
            disk.crash(seed);
            drop(self.hub.unplug(machine.id));
        }
    }

    pub(super) fn is_running(&self, index: usize) -> bool {
        self.machines[index].process_disk.is_some()
    }

    pub(super) fn node(&self, index: usize) -> Arc<Consensus> {
        let id = self.machines[index].id;
        let running = self.hub.running().into_iter().find(|node| node.id() == id);
        running.expect("the test has started it")
    }

    /// A node joins through another one, as often as that takes.
    pub(super) async fn join(&self, index: usize, through: NodeId) {
        let node = self.node(index);
        let joining = async { while node.join(through).await.is_err() {} };
        tokio::time::timeout(BOUND, joining).await.expect("a node that may join joins");
    }

    /// Waits until something holds.
    pub(super) async fn until(&self, what: &str, holds: impl Fn(&World) -> bool) {
        let waiting = async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(BOUND, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
    }

    /// All goes well from now on, and everybody has all.
    pub(super) async fn heal(&mut self, seed: u64) {
        {
            let mut cables = self.hub.cables();
            cables.sides.clear();
            (cables.lost, cables.doubled) = (0, 0);
        }
        for index in 0..self.machines.len() {
            if !self.is_running(index) {
                self.start(index).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
        }
        let acknowledged = self.ledger.acknowledged();
        for node in self.hub.running() {
            let reading = async {
                loop {
                    if let Ok(map) = node.read_linearizable().await {
                        return map;
                    }
                }
            };
            let map = tokio::time::timeout(BOUND, reading).await;
            let map = map.unwrap_or_else(|_| panic!("seed {seed}: {} never healed", node.id()));
            self.ledger.check_has(&acknowledged, &map, "a map behind the end");
        }
        self.ledger.check(seed);
    }
}

/// Proposes a node that nobody has proposed yet; whether that was acknowledged.
pub(super) async fn propose(hub: &Hub, ledger: &Ledger, node: &Consensus) -> bool {
    let entry = add_node(hub);
    let MapEntry::AddNode { node: added, .. } = entry else { return false };
    let is_done = node.propose(entry).await.is_ok();
    if is_done {
        ledger.acknowledge(added);
    }
    is_done
}

pub(super) fn add_node(hub: &Hub) -> MapEntry {
    let node = NodeId::random(&mut hub.cables().random);
    let ip = Ipv4Addr::LOCALHOST.into();
    let address = NodeAddress { ip, tcp_port: 1, tls_port: 0, bus_port: 2 };
    MapEntry::AddNode { node, address }
}

async fn observe(ledger: Arc<Ledger>, id: NodeId, mut applied: watch::Receiver<AppliedMap>) {
    let mut last = 0;
    loop {
        let now = applied.borrow_and_update().clone();
        if now.entries < last {
            ledger.fail(format!("{id} went back from {last} to {} entries", now.entries));
        }
        last = now.entries;
        ledger.see(id, &now);
        if applied.changed().await.is_err() {
            return;
        }
    }
}

/// Times that are short, and snapshots that come often.
pub(super) fn quick() -> Settings {
    Settings {
        heartbeat: Duration::from_millis(50),
        election_timeout: Duration::from_millis(300),
        request_timeout: Duration::from_secs(2),
        snapshot_entries: 12,
        kept_entries: 3,
    }
}
