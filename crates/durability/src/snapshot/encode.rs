//! Encoding: the threads that visit partitions and make chunks of the file.
//!
//! Invariant: an entry is encoded outside its lock unless that costs less than to copy it; a thread
//! that waits for the file to take a chunk holds neither lock nor leave for heavy work.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::random::Random;
use config::settings::RDB_KEY_SAVE_DELAY;
use engine::runtime::background::BackgroundAccess;
use keyspace::{Acquisition, Encoding, EntryBox, EntryRef, PartitionIndex, Walk};
use persist::rdb::file::ChunkWriter;

use super::Snapshot;
use super::chunks::ChunkOutput;
use super::queue::copy;

/// Bytes from which on a chunk is passed on.
const CHUNK: usize = 256 << 10;

/// Bytes of entries that one hold of a lock aims at, and the most entries.
const HOLD_BYTES: usize = 32 << 10;
const HOLD_ENTRIES: usize = 64;

/// For how long the world may wait for an encoder, in microseconds.
const ADMITTED_US: i64 = 500;

/// Entries up to this size take less time to encode than to copy.
const SMALL: usize = 64;

/// The longest sleep before looking whether anybody still wants the snapshot.
const NAP_US: u64 = 10_000;

/// While the workers keep all cores busy an encoder works for so many microseconds at a time.
const TURN_US: i64 = 1000;
/// The encoder sleeps for so many in between, and so takes a fifth of a core.
const REST_US: u64 = 4000;

/// How partitions are held.
#[derive(Clone, Copy)]
pub(super) enum PartitionHold<'a> {
    /// One by one.
    Each,
    /// All at once: the world stands still meanwhile.
    World(&'a Acquisition),
}

/// Makes chunks of entries.
pub(super) struct Encoder<'a> {
    snapshot: &'a Snapshot,
    walk: &'a Walk,
    /// Shared with the output, which passes a large value on piece by piece.
    outlet: Rc<RefCell<ChunkOutput>>,
    output: ChunkWriter,
    /// Entries taken under a lock, to be encoded after it.
    taken: Vec<(usize, EntryBox)>,
    /// How many entries to take in the next hold.
    at_least: usize,
    /// Leave for heavy work, and since when.
    access: Option<(BackgroundAccess, i64)>,
    /// Since when it has worked without a rest, on the monotonic clock in microseconds.
    works_since_us: i64,
    random: Random,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, walk: &'a Walk, outlet: ChunkOutput) -> Self {
        let outlet = Rc::new(RefCell::new(outlet));
        let pieces = Rc::clone(&outlet);
        let pass_on = Box::new(move |piece| pieces.borrow_mut().pass(piece));
        Self {
            snapshot,
            walk,
            outlet,
            output: ChunkWriter::passing_on(snapshot.options(), pass_on),
            taken: Vec::new(),
            at_least: 1,
            access: None,
            works_since_us: snapshot.server.keyspace.clock().monotonic_us(),
            random: Random::from_entropy(),
        }
    }

    /// Encodes until nothing is left to begin with.
    pub(super) fn run(&mut self, hold: PartitionHold<'_>) {
        while !self.walk.is_given_up() {
            // First what takes memory for as long as it waits.
            if self.encode_waiting() {
                continue;
            }
            match self.walk.next_partition() {
                Some(partition) => self.visit(partition, hold),
                None => break,
            }
        }
        self.pass_on();
    }

    /// Encodes all that is left when no partition is.
    pub(super) fn run_down(&mut self) {
        while self.encode_waiting() {}
        self.pass_on();
    }

    /// Encodes what transactions left, and what they flushed; `false` if that was nothing.
    fn encode_waiting(&mut self) -> bool {
        let snapshot = self.snapshot;
        if let Some((database, entry)) = snapshot.queue.pop() {
            self.encode(database, entry.borrow());
            return true;
        }
        let walk = self.walk;
        walk.visit_flushed(|database, entry| self.encode(database, entry))
    }

    /// Passes the present chunk on, however small.
    fn pass_on(&mut self) {
        // The file may take its time.
        self.access = None;
        if !self.output.is_empty() {
            self.outlet.borrow_mut().pass(self.output.finish());
        }
    }

    fn visit(&mut self, partition: PartitionIndex, hold: PartitionHold<'_>) {
        let mut from = Some((0, 0));
        while let Some(place) = from {
            from = match hold {
                PartitionHold::World(world) => self.take(world, partition, place),
                PartitionHold::Each => {
                    let grant = self.access().acquire_next(partition);
                    self.take(&grant, partition, place)
                }
            };
            for (database, entry) in std::mem::take(&mut self.taken) {
                self.encode(database, entry.borrow());
            }
            self.pass_on_full();
            while self.encode_waiting() {}
            if matches!(hold, PartitionHold::Each) {
                self.leave_cores();
            }
        }
    }

    /// Sleeps for a while now and then if the workers have work for all cores.
    fn leave_cores(&mut self) {
        let server = self.snapshot.server;
        let clock = server.keyspace.clock();
        let busy = server.threads.busy_workers.load(Ordering::Relaxed);
        if busy < server.threads.cores.count()
            || clock.monotonic_us() - self.works_since_us < TURN_US
        {
            return;
        }
        self.access = None;
        std::thread::sleep(Duration::from_micros(REST_US));
        self.works_since_us = clock.monotonic_us();
    }

    /// Leave for heavy work, which the world waits for: asked for anew every now and then, so that
    /// the world waits for a short while, and not for every step either.
    fn access(&mut self) -> &mut BackgroundAccess {
        let keyspace = self.snapshot.server.keyspace;
        let now = keyspace.clock().monotonic_us();
        if self.access.as_ref().is_some_and(|(_, since)| now - since > ADMITTED_US) {
            self.access = None;
        }
        let (access, _) =
            self.access.get_or_insert_with(|| (BackgroundAccess::wait(keyspace), now));
        access
    }

    /// Takes entries of a held partition.
    fn take(
        &mut self,
        grant: &Acquisition,
        partition: PartitionIndex,
        place: (usize, u64),
    ) -> Option<(usize, u64)> {
        let (mut count, mut bytes) = (0, 0);
        let (walk, at_least) = (self.walk, self.at_least);
        let next = walk.visit(grant, partition, place, at_least, |database, entry| {
            let inline = entry.encoding() != Encoding::Object;
            let size = if inline { entry.memory() } else { 0 };
            (count, bytes) = (count + 1, bytes + size);
            if inline && size <= SMALL && self.snapshot.key_delay == 0 {
                self.write(database, entry);
            } else {
                self.taken.push((database, copy(entry)));
            }
        });
        let mean = bytes.checked_div(count).unwrap_or(HOLD_BYTES).max(1);
        self.at_least = (HOLD_BYTES / mean).clamp(1, HOLD_ENTRIES);
        next
    }

    fn encode(&mut self, database: usize, entry: EntryRef<'_>) {
        if entry.encoding() == Encoding::Object {
            // The piece may be passed on in pieces, and the file may take its time.
            self.access = None;
        }
        self.write(database, entry);
        self.delay();
        self.pass_on_full();
    }

    /// Passes the present chunk on if it is large enough.
    fn pass_on_full(&mut self) {
        if self.output.len() >= CHUNK {
            self.pass_on();
        }
    }

    /// Waits as `rdb-key-save-delay` asks for: so many microseconds; below zero a single one for
    /// one key in so many. To set it to 0 calls off what is left.
    fn delay(&mut self) {
        let mut micros = match i64::from(self.snapshot.key_delay) {
            0 => return,
            micros @ 1.. => micros.unsigned_abs(),
            rarely => u64::from(self.random.below(rarely.unsigned_abs()) == 0),
        };
        self.access = None;
        while micros > 0 && !self.walk.is_given_up() && self.still_waits() {
            let step = micros.min(NAP_US);
            std::thread::sleep(Duration::from_micros(step));
            micros -= step;
        }
    }

    fn still_waits(&self) -> bool {
        self.snapshot.server.config.get(RDB_KEY_SAVE_DELAY) != 0
    }

    fn write(&mut self, database: usize, entry: EntryRef<'_>) {
        self.output.select(self.walk.name(database));
        self.output.entry(entry);
        self.snapshot.keys_done.fetch_add(1, Ordering::Relaxed);
    }
}
