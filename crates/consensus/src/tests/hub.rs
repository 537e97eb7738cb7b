//! A network in one process: seeded delays, losses, doubles and partitions; and disks that a dead
//! process cannot write any more.
//!
//! Invariant: nothing goes from or to a process that has ended.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;

use base::Random;
use cluster::NodeId;
use persist::storage::simulated::SimulatedDisk;
use persist::storage::{Claim, Claimed, File, OpenMode, Storage};

use crate::message::Request;
use crate::node::Consensus;
use crate::transport::{Answering, Transport, TransportError};

/// The network.
pub(super) struct Hub(Mutex<Cables>);

/// What the network is like now.
pub(super) struct Cables {
    pub(super) random: Random,
    running: BTreeMap<NodeId, Process>,
    /// The side of each node; between sides nothing goes.
    pub(super) sides: BTreeMap<NodeId, u64>,
    /// Of a hundred messages so many are lost.
    pub(super) lost: u64,
    /// Of a hundred requests so many come twice.
    pub(super) doubled: u64,
    /// A message takes so many milliseconds at most.
    pub(super) delay: u64,
    /// Snapshots that were sent.
    pub(super) snapshots: u64,
}

#[derive(Clone)]
struct Process {
    generation: u64,
    node: Arc<Consensus>,
}

/// What a node sends by.
pub(super) struct Cable {
    pub(super) hub: Arc<Hub>,
    pub(super) from: NodeId,
    pub(super) generation: u64,
}

impl Hub {
    pub(super) fn new(seed: u64) -> Arc<Hub> {
        Arc::new(Hub(Mutex::new(Cables {
            random: Random::from_seed(seed),
            running: BTreeMap::new(),
            sides: BTreeMap::new(),
            lost: 0,
            doubled: 0,
            delay: 3,
            snapshots: 0,
        })))
    }

    pub(super) fn cables(&self) -> MutexGuard<'_, Cables> {
        self.0.lock().expect("no critical section here panics")
    }

    pub(super) fn below(&self, bound: u64) -> u64 {
        self.cables().random.below(bound)
    }

    pub(super) fn plug(&self, id: NodeId, generation: u64, node: Arc<Consensus>) {
        self.cables().running.insert(id, Process { generation, node });
    }

    /// The process is gone, and who held it lets it go.
    pub(super) fn unplug(&self, id: NodeId) -> Option<Arc<Consensus>> {
        self.cables().running.remove(&id).map(|process| process.node)
    }

    pub(super) fn running(&self) -> Vec<Arc<Consensus>> {
        self.cables().running.values().map(|process| Arc::clone(&process.node)).collect()
    }

    /// The process at the other end, if there is a way from this one.
    fn reach(&self, from: (NodeId, u64), to: NodeId) -> Option<Process> {
        let cables = self.cables();
        // A process that is being started is not plugged yet, and may ask already.
        let is_alive = cables.running.get(&from.0).is_none_or(|own| own.generation == from.1);
        let side = |node: NodeId| cables.sides.get(&node).copied().unwrap_or_default();
        let is_open = is_alive && side(from.0) == side(to);
        cables.running.get(&to).filter(|_| is_open).cloned()
    }

    /// Takes its time; whether the message arrives.
    async fn carry(&self) -> bool {
        let (delay, is_lost) = {
            let mut cables = self.cables();
            let (delay, lost) = (cables.delay, cables.lost);
            (cables.random.below(delay + 1), cables.random.below(100) < lost)
        };
        tokio::time::sleep(Duration::from_millis(delay)).await;
        !is_lost
    }
}

impl Transport for Cable {
    fn ask(&self, to: NodeId, request: Vec<u8>) -> Answering {
        let (hub, from) = (Arc::clone(&self.hub), (self.from, self.generation));
        if matches!(Request::decode(&request), Ok(Request::Snapshot { .. })) {
            hub.cables().snapshots += 1;
        }
        Box::pin(async move {
            let refused = || TransportError("there is no way".to_owned());
            if !hub.carry().await {
                return std::future::pending().await;
            }
            let process = hub.reach(from, to).ok_or_else(refused)?;
            let doubled = hub.cables().doubled;
            if hub.below(100) < doubled {
                let (hub, request) = (Arc::clone(&hub), request.clone());
                tokio::spawn(async move {
                    hub.carry().await;
                    if let Some(process) = hub.reach(from, to) {
                        drop(process.node.answer(from.0, &request).await);
                    }
                });
            }
            let generation = process.generation;
            let answer = process.node.answer(from.0, &request).await;
            drop(process);
            if !hub.carry().await {
                return std::future::pending().await;
            }
            let back = hub.reach((to, generation), from.0).ok_or_else(refused)?;
            if back.generation != from.1 {
                return Err(refused());
            }
            answer.map_err(|error| TransportError(error.to_string()))
        })
    }
}

/// A disk as one process sees it.
#[derive(Clone)]
pub(super) struct ProcessDisk {
    disk: SimulatedDisk,
    is_dead: Arc<RwLock<bool>>,
}

impl ProcessDisk {
    pub(super) fn new(disk: SimulatedDisk) -> ProcessDisk {
        ProcessDisk { disk, is_dead: Arc::default() }
    }

    /// The process ends, and the machine loses what was not synced.
    pub(super) fn crash(&self, seed: u64) {
        *self.is_dead.write().expect("no critical section here panics") = true;
        self.disk.crash(seed);
    }

    fn alive<T>(&self, act: impl FnOnce(&SimulatedDisk) -> io::Result<T>) -> io::Result<T> {
        let is_dead = self.is_dead.read().expect("no critical section here panics");
        if *is_dead { Err(io::ErrorKind::BrokenPipe.into()) } else { act(&self.disk) }
    }
}

impl Storage for ProcessDisk {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Box<dyn File>> {
        self.alive(|disk| disk.open(path, how))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.alive(|disk| disk.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.alive(|disk| disk.link(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.alive(|disk| disk.remove(path))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.alive(|disk| disk.list(directory))
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        self.alive(|disk| disk.make_directory(path))
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.alive(|disk| disk.sync_directory(path))
    }

    fn claim(&self, path: &Path) -> Result<Claim, Claimed> {
        self.disk.claim(path)
    }
}
