//! A stream that one server wrote is applied by another: same data, same journal, whatever the
//! pieces and the threads; and readers meanwhile see whole units.

mod commands;
mod cuts;
mod faults;
mod local;
mod log;
mod told;

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use engine::journal::DurabilityLevel;
use engine::journal::journal_copy::JournalCopy;
use engine::keyspace_settings::set_replica;
use engine::runtime::background::wait_for;
use keyspace::{Acquisition, Tx, TxOptions};
use proto::OwnedArgs;

use super::units::StreamUnits;
use super::{ApplyReport, StreamApplier};
use crate::durability::Durability;
use crate::testing::{durability_on, new_disk};

/// How long what must come is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A replica with a stream on its way.
struct Rig {
    server: &'static Durability,
    journal: JournalCopy,
    applier: StreamApplier,
    reports: Receiver<ApplyReport>,
    end: u64,
    applied: u64,
}

impl Rig {
    /// One that applies by so many threads, from this offset on.
    fn new(shares: usize, begin: u64) -> Self {
        Self::on(durability_on(Box::new(new_disk())), shares, begin)
    }

    /// The same on this server.
    fn on(server: &'static Durability, shares: usize, begin: u64) -> Self {
        let journal = follow(server);
        let (sender, reports) = channel();
        let report = Box::new(move |report| _ = sender.send(report));
        let applier = StreamApplier::by(server, shares, "10.0.0.1:6379".to_owned(), report);
        Self { server, journal, applier: applier.unwrap(), reports, end: begin, applied: begin }
    }

    /// Has whole units applied, before which this database is selected.
    fn push_in(&mut self, database: usize, units: &[u8]) {
        self.end += units.len() as u64;
        self.applier.push(units, self.end, database);
    }

    fn push(&mut self, lines: &[&str]) {
        self.push_in(0, &encoded(lines));
    }

    /// Waits until all is applied; or why that cannot be.
    fn settle(&mut self) -> Result<(), String> {
        while self.applied < self.end {
            match self.reports.recv_timeout(PATIENCE).expect("something is told") {
                ApplyReport::Applied(offset) => {
                    assert!(self.applied < offset && offset <= self.end, "offsets rise");
                    self.applied = offset;
                }
                ApplyReport::Failed(why) | ApplyReport::Panicked(why) => return Err(why),
            }
        }
        assert_eq!(self.applier.queued_bytes(), 0);
        Ok(())
    }

    /// The values of some keys, a line where one is not there.
    fn values(&self, keys: &str) -> String {
        values(self.server, keys)
    }

    /// What a client is told.
    fn ask(&self, database: usize, line: &str) -> String {
        ask(self.server, database, line)
    }
}

/// Makes a server a replica; what its journal is given from here on.
fn follow(server: &'static Durability) -> JournalCopy {
    let mut world = Acquisition::of_world(server.keyspace);
    wait_for(&mut world);
    set_replica(server, true);
    let copy = JournalCopy::attach(&server.journal, DurabilityLevel::None).1;
    drop(Tx::begin(world, TxOptions::internal(0, 0)));
    copy
}

fn words(line: &str) -> OwnedArgs {
    line.split(' ').map(str::as_bytes).collect()
}

fn encoded(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    lines.iter().for_each(|line| words(line).as_args().encode(&mut bytes));
    bytes
}

/// What a client is told.
fn ask(server: &'static Durability, database: usize, line: &str) -> String {
    let reply = engine::testing::run_together(server, database, &[words(line)]);
    String::from_utf8_lossy(&reply).into_owned()
}

/// The values of some keys of the first database, a line where one is not there.
fn values(server: &'static Durability, keys: &str) -> String {
    let value = |key: &str| match ask(server, 0, &format!("GET {key}")).split_once("\r\n") {
        Some((_, "")) | None => "-".to_owned(),
        Some((_, value)) => value.trim_end().to_owned(),
    };
    keys.split(' ').map(value).collect::<Vec<_>>().join(" ")
}

/// Where the units of a stream end.
fn ends_of(stream: &[u8]) -> Vec<usize> {
    let mut units = StreamUnits::new(stream, 0);
    let mut ends = Vec::new();
    while units.next_unit().unwrap().is_some() {
        ends.push(units.offset() as usize);
    }
    ends
}
