//! A durability for tests, on a storage of theirs.
//!
//! Invariant: nothing here is part of the product.

pub mod items;

use std::thread;
use std::time::Duration;

use engine::testing::{NoControl, new_engine};
use persist::storage::simulated::SimulatedDisk;
use persist::storage::{Disk, Storage};
use replication::history::SavedHistory;

use crate::aof::{find, switch_off};
use crate::data;
use crate::durability::Durability;

/// Where the log lies, and where one that moved does.
pub const HERE: &[u8] = b"appendonlydir";

/// How long an end is waited for that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// One on the real disk.
pub fn durability() -> &'static Durability {
    durability_on(Box::new(Disk))
}

/// One on this storage.
pub fn durability_on(storage: Box<dyn Storage>) -> &'static Durability {
    let durability = Durability::new(new_engine(&[commands::FAMILIES, &[data::COMMANDS]]), storage);
    let durability: &'static Durability = Box::leak(Box::new(durability));
    durability.set_hooks();
    durability.set_control_plane(&NoControl);
    durability
}

/// An empty disk with the working directory on it.
pub fn new_disk() -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let here = std::env::current_dir().expect("tests have a working directory");
    for directory in here.ancestors().collect::<Vec<_>>().into_iter().rev() {
        persist::storage::Storage::make_directory(&disk, directory).expect("the disk is sound");
    }
    disk
}

/// A server whose log goes on with what is on the disk, or why it does not start.
pub fn start(disk: &SimulatedDisk) -> Result<&'static Durability, String> {
    start_in(disk, HERE)
}

/// The same with the log in another directory.
pub fn start_in(disk: &SimulatedDisk, directory: &[u8]) -> Result<&'static Durability, String> {
    let server = durability_on(Box::new(disk.clone()));
    start_log(server, directory).map(|_| server)
}

/// Has a new server's log go on with what is on its disk; where the data stand in a history.
pub fn start_log(
    server: &'static Durability,
    directory: &[u8],
) -> Result<Option<SavedHistory>, String> {
    server.config.put(b"appenddirname", directory);
    let pairs: [&[u8]; 4] = [b"appendonly", b"yes", b"appendfsync", b"always"];
    server.config.set_many(&pairs, true).expect("the directives are known");
    find(server)?.load(server)
}

/// Waits for what is to come soon.
pub fn await_end(what: &str, is_over: impl Fn() -> bool) {
    let began = base::time::Clock::system();
    let limit = began.monotonic_us() + PATIENCE.as_micros() as i64;
    while !is_over() {
        assert!(began.monotonic_us() < limit, "{what} never ends");
        thread::sleep(Duration::from_micros(200));
    }
}

/// Ends the log and the threads.
pub fn end(server: &'static Durability) {
    switch_off(server);
    await_end("a rewrite", || !server.aof.rewrite.status(0).is_underway);
    server.threads.background.shut_down(PATIENCE);
}
