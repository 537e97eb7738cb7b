//! The journal: one sequence of records in commit order, and its readers.
//!
//! A record is what a transaction changed, as the exact bytes of the replication stream. Every
//! byte of that stream is a byte of a record, and every byte of a record counts: the SELECT by
//! which a record leaves database 0 and the one by which it comes back, MULTI, EXEC, and the DEL of
//! what expired on the way. A record's LSN is the number of bytes up to its end. So the LSN is the
//! replication offset: a reader that begins at an LSN, which is always the end of a record and in
//! database 0, and adds up the bytes that it is given, has the LSN of the last one. What a reader
//! writes for itself, such as the annotations of the append-only file, does not count, and what
//! the stream is to carry besides writes (PING, GETACK) is to be appended like them.
//!
//! A server that follows a primary appends that one's stream as it comes (`primary_stream`). The
//! stream goes on in whatever database the primary has selected. What clients write beside it has
//! LSNs, too, by which replies wait for the log, and no offsets: there the two part by as much.
//!
//! Without a reader nothing is encoded, nothing counts and nothing waits: the stream has a hole
//! there. Every reader is given the same bytes, which belong to the appender; what it keeps of
//! them, and what becomes of a reader that is too slow for that, is the reader's own rule. How far
//! each of them is, and what that means for replies, is in `durability`.
//!
//! Invariant: records that share a key are appended in the order their transactions ran, since
//! `commit` appends under their locks.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::Waker;

use base::time::Clock;
use keyspace::{FeatureLevel, Lsn, Refusal};
use proto::args::encode_command;
use replication::history::{SavedHistory, SecondId};
use replication::ids::ReplicationId;
use smallvec::SmallVec;

use crate::runtime::record_batch::RecordBatch;
use acks::ReplicaAcks;
use durability::{ReaderProgress, WaitingLine, WakeUp};
use snapshot_fence::SnapshotFence;

pub mod acks;
mod durability;
#[cfg(any(test, feature = "testing"))]
pub mod journal_copy;
mod primary_stream;
mod record;
mod reply_lsn;
pub mod snapshot_fence;
mod waiting;

pub use durability::{DurabilityLevel, LATE_US, LinePlace, ReaderId};
pub use record::selection;
pub(crate) use record::{CommandEffects, record, record_of_command};
pub use reply_lsn::ReplyLsn;

/// Takes records in order. Called with locks held: a reader may copy and queue, never wait. What it
/// keeps has a bound: a reader that is behind keeps writers from beginning, or forgets.
pub trait JournalReader: Send {
    /// The record that ends at `lsn`. Where `may_wait` says so, the reader may leave it until
    /// [`flush`](Self::flush) is called, and returns whether it does.
    fn record(&mut self, lsn: Lsn, bytes: &[u8], may_wait: bool) -> bool;

    /// The same for a unit of a primary's stream that did something else here: `kept` does that.
    /// The reader that passes the stream on takes what came.
    fn record_kept(&mut self, lsn: Lsn, bytes: &[u8], _kept: &[u8]) {
        self.record(lsn, bytes, false);
    }

    /// Whether the reader keeps what clients of a replica write, which is no part of the stream.
    fn logs_local_writes(&self) -> bool {
        false
    }

    /// The next record, of this length, stores what only a server that meets this can hold.
    fn requires(&mut self, _: FeatureLevel, _len: usize) {}

    /// What comes behind this LSN is of this history, or of none.
    fn set_history(&mut self, _: Lsn, _: Option<StreamHistory>) {}

    /// Another database is selected behind all it was given: what begins there is to say so.
    /// Without this it is the first one.
    fn selects(&mut self, _: usize) {}

    /// The thread that appended what waits has no more for now. Returns what to wake, if anything
    /// sleeps: not before the journal's mutex is free, since the sleeper asks for it first thing.
    fn flush(&mut self) -> Option<Sleeper> {
        None
    }
}

/// What sleeps until a reader has something.
pub enum Sleeper {
    /// A thread that waits for this.
    Thread(Arc<Condvar>),
    /// A task.
    Task(Waker),
}

impl Sleeper {
    fn wake(self) {
        match self {
            Self::Thread(arrived) => arrived.notify_one(),
            Self::Task(waker) => waker.wake(),
        }
    }
}

/// The sequence of records.
pub struct Journal {
    tail: Mutex<Tail>,
    /// Whether transactions are to make records: there is a reader.
    is_read: &'static AtomicBool,
    /// Whether there is a reader that passes it on to replicas.
    has_replicas: AtomicBool,
    /// Whether there is one, also where transactions make none.
    has_readers: AtomicBool,
    /// Everything up to here is safe with all readers that replies rely on.
    safe: AtomicU64,
    /// What replies may have seen that leave: what is safe, or anything if none is held.
    durable: AtomicU64,
    /// Whether a reader that replies rely on has failed.
    has_failed: AtomicBool,
    /// From when on a reader is late, on the monotonic clock; changed under the tail's mutex.
    late_at_us: AtomicI64,
    line: Mutex<WaitingLine>,
    clock: Clock,
    /// How far the replicas are.
    pub replica_acks: ReplicaAcks,
    /// Holds replies back until the snapshot file has followed.
    pub snapshot_fence: SnapshotFence,
}

#[derive(Default)]
struct Tail {
    lsn: Lsn,
    /// How many bytes of that were written beside a primary's stream.
    beside: u64,
    /// Whether a primary's stream is what is appended.
    follows: bool,
    /// Whether clients may write beside that.
    takes_local: bool,
    /// The database that is selected here; another than the first behind a primary's stream only.
    database: usize,
    /// The level that the next record requires.
    feature_level: FeatureLevel,
    /// Of which history of replication it is, by LSNs as they are now.
    history: Option<StreamHistory>,
    readers: Vec<Attached>,
    /// How many readers were ever named.
    named: u64,
}

/// Of which history of replication records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamHistory {
    /// The id.
    pub id: ReplicationId,
    /// How much an offset is more than an LSN.
    pub shift: i64,
    /// The id that the stream had before.
    pub second: Option<SecondId>,
}

impl StreamHistory {
    /// The same where so many more bytes are in the journal that are none of the stream.
    #[must_use]
    pub fn behind(self, beside: u64) -> Self {
        Self { shift: self.shift.saturating_sub_unsigned(beside), ..self }
    }

    /// Where this LSN stands in it, at which this database is selected.
    pub fn at(&self, lsn: Lsn, database: usize) -> Option<SavedHistory> {
        let Self { id, shift, second } = *self;
        let (offset, database) = (lsn.saturating_add_signed(shift), u32::try_from(database).ok()?);
        Some(SavedHistory { id, offset, database, second })
    }
}

struct Attached {
    id: ReaderId,
    reader: Box<dyn JournalReader>,
    /// When the oldest record will be late that the system does not have from this reader.
    late_at_us: i64,
    /// Whether replies are held where it is late.
    holds_when_late: bool,
}

/// When nothing waits.
const NEVER: i64 = i64::MAX;

/// Where in line the sessions stand that wait for a reader that replies rely on: behind all
/// records.
const DURABLE_READER: Lsn = Lsn::MAX;

impl Tail {
    fn select(&mut self, database: usize) {
        if self.database != database {
            self.database = database;
            self.readers.iter_mut().for_each(|attached| attached.reader.selects(database));
        }
    }

    fn reader(&mut self, id: ReaderId) -> Option<&mut Attached> {
        self.readers.iter_mut().find(|attached| attached.id == id)
    }

    /// When the first reader is late that may not be.
    fn late_at_us(&self) -> i64 {
        let strict = self.readers.iter().filter(|attached| attached.holds_when_late);
        strict.map(|attached| attached.late_at_us).min().unwrap_or(NEVER)
    }
}

impl Journal {
    /// `is_read` tells transactions whether they are to make records.
    pub fn new(clock: Clock, is_read: &'static AtomicBool) -> Self {
        Self {
            tail: Mutex::default(),
            is_read,
            has_replicas: AtomicBool::new(false),
            has_readers: AtomicBool::new(false),
            safe: AtomicU64::new(0),
            durable: AtomicU64::new(Lsn::MAX),
            has_failed: AtomicBool::new(false),
            late_at_us: AtomicI64::new(NEVER),
            line: Mutex::default(),
            clock,
            replica_acks: ReplicaAcks::default(),
            snapshot_fence: SnapshotFence::default(),
        }
    }

    /// A name for a reader that is to be attached, once.
    pub fn name_reader(&self) -> ReaderId {
        let mut tail = self.tail();
        tail.named += 1;
        ReaderId(tail.named)
    }

    /// Attaches a reader; returns the LSN behind which it is given all records. The world must be
    /// stopped. Up to there nothing is asked of it.
    pub fn attach(
        &self,
        id: ReaderId,
        reader: Box<dyn JournalReader>,
        level: DurabilityLevel,
    ) -> Lsn {
        let mut tail = self.tail();
        let mut attached = Attached { id, reader, late_at_us: NEVER, holds_when_late: false };
        if tail.database != 0 {
            attached.reader.selects(tail.database);
        }
        attached.reader.set_history(tail.lsn, tail.history);
        tail.readers.push(attached);
        self.show_writers(&tail);
        let lsn = tail.lsn;
        self.line().add(id, lsn);
        drop(tail);
        self.set_durability(id, level);
        lsn
    }

    /// Lets a reader go: no reply waits for it any more. One that is not there is gone already.
    pub fn detach(&self, id: ReaderId) {
        let mut tail = self.tail();
        tail.readers.retain(|attached| attached.id != id);
        self.show_writers(&tail);
        self.late_at_us.store(tail.late_at_us(), Ordering::Relaxed);
        drop(tail);
        self.forget(id);
    }

    /// Tells transactions whether they are to make records.
    fn show_writers(&self, tail: &Tail) {
        let has_readers = !tail.readers.is_empty();
        self.has_readers.store(has_readers, Ordering::Relaxed);
        let is_read = if tail.follows { tail.logs_local_writes() } else { has_readers };
        self.is_read.store(is_read, Ordering::Relaxed);
    }

    /// This database is selected where the journal ends, by the data that a stream goes on behind.
    pub fn select(&self, database: usize) {
        self.tail().select(database);
    }

    /// Where the journal ends, and 0 where nobody reads it: one load then.
    pub(crate) fn end_if_read(&self) -> Lsn {
        if self.has_readers.load(Ordering::Relaxed) { self.end() } else { 0 }
    }

    /// The database that is selected where the journal ends: what a reader needs that begins there.
    pub fn database(&self) -> usize {
        self.tail().database
    }

    /// Whether this reader is given what is appended.
    pub fn is_attached(&self, id: ReaderId) -> bool {
        self.tail().reader(id).is_some()
    }

    /// Appends a record of our own for which nothing waits; returns the LSN behind it. Behind a
    /// demotion, which it may have been decided before, it is no record any more.
    pub fn append(&self, record: &[u8]) -> Lsn {
        let mut tail = self.tail();
        if tail.follows {
            return tail.lsn;
        }
        self.append_to(&mut tail, &RecordBatch::default(), record)
    }

    /// Appends a transaction's record, of a batch that may be open; returns the LSN behind it.
    /// Only a server with this feature level can hold what the record stores.
    pub(crate) fn append_in(
        &self,
        batch: &RecordBatch,
        record: &[u8],
        feature_level: FeatureLevel,
    ) -> Lsn {
        let mut tail = self.tail();
        if tail.follows {
            return self.append_local(&mut tail, record);
        }
        tail.feature_level = tail.feature_level.max(feature_level);
        self.append_to(&mut tail, batch, record)
    }

    fn append_to(&self, tail: &mut Tail, batch: &RecordBatch, record: &[u8]) -> Lsn {
        tail.lsn += record.len() as u64;
        let (lsn, feature_level) = (tail.lsn, std::mem::take(&mut tail.feature_level));
        for attached in &mut tail.readers {
            if feature_level != FeatureLevel::Nothing {
                attached.reader.requires(feature_level, record.len());
            }
            if attached.reader.record(lsn, record, batch.is_batching()) {
                batch.note_pending();
            }
            self.await_written(attached);
        }
        lsn
    }

    /// A reader has something from now on that the system does not have.
    fn await_written(&self, attached: &mut Attached) {
        if attached.late_at_us == NEVER {
            attached.late_at_us = self.clock.monotonic_us() + LATE_US;
            if attached.holds_when_late {
                self.late_at_us.fetch_min(attached.late_at_us, Ordering::Relaxed);
            }
        }
    }

    /// Has the readers take what was left for this moment.
    pub fn flush(&self) {
        let mut tail = self.tail();
        let sleepers = tail.readers.iter_mut().filter_map(|attached| attached.reader.flush());
        let sleepers: SmallVec<[_; 1]> = sleepers.collect();
        drop(tail);
        sleepers.into_iter().for_each(Sleeper::wake);
    }

    /// Says whether replicas read it: they are also told what writes nothing.
    pub fn set_has_replicas(&self, has_replicas: bool) {
        self.has_replicas.store(has_replicas, Ordering::Relaxed);
    }

    /// Whether replicas read what is written here.
    pub fn is_for_replicas(&self) -> bool {
        self.has_replicas.load(Ordering::Relaxed)
    }

    /// Appends a command that writes nothing and that subscribers of replicas are to hear of. What
    /// clients of a replica publish stays there, as in Redis.
    pub(crate) fn forward(&self, words: &[&[u8]]) {
        if self.is_for_replicas() {
            let mut record = Vec::new();
            encode_command(words.iter().copied(), &mut record);
            self.append(&record);
        }
    }

    /// Says of which history the journal is from here on; `None` if it is of none that others may
    /// know. Before something is appended that is not of it, it is to be of none.
    /// Its shift is between offsets and what [`stream_end`](Self::stream_end) counts.
    pub fn set_history(&self, history: Option<StreamHistory>) {
        let mut tail = self.tail();
        let history = history.map(|history| history.behind(tail.beside));
        if std::mem::replace(&mut tail.history, history) != history {
            let lsn = tail.lsn;
            tail.readers.iter_mut().for_each(|attached| attached.reader.set_history(lsn, history));
        }
    }

    /// Where the journal's end stands in a history of replication, if it does.
    pub fn history(&self) -> Option<SavedHistory> {
        let tail = self.tail();
        tail.history?.at(tail.lsn, tail.database)
    }

    /// Where the journal ends.
    pub fn end(&self) -> Lsn {
        self.tail().lsn
    }

    /// The same without what was written beside a primary's stream: a replica that has the whole
    /// stream has so much.
    pub fn stream_end(&self) -> Lsn {
        let tail = self.tail();
        tail.lsn - tail.beside
    }

    /// How many bytes were written beside a primary's stream.
    pub fn beside_stream(&self) -> u64 {
        self.tail().beside
    }

    /// What replies may rely on this reader for, from now on.
    pub fn set_durability(&self, id: ReaderId, level: DurabilityLevel) {
        let mut tail = self.tail();
        if let Some(attached) = tail.reader(id) {
            attached.holds_when_late = level == DurabilityLevel::Os;
        }
        self.late_at_us.store(tail.late_at_us(), Ordering::Relaxed);
        drop(tail);
        self.change(|line| {
            line.set_durability(id, level);
            WakeUp::All
        });
        if level != DurabilityLevel::None {
            self.line().waiting.retain(|(lsn, _)| *lsn != DURABLE_READER);
        }
    }

    /// A reader is there no more: where that was the last one that replies relied on nothing will
    /// become safe any more, and nobody waits on.
    fn forget(&self, id: ReaderId) {
        self.change(|line| {
            line.readers.retain(|reader| reader.id != id);
            WakeUp::All
        });
        let mut line = self.line();
        let is_last = line.durable_readers().next().is_none();
        let waiting = if is_last { std::mem::take(&mut line.waiting) } else { Vec::new() };
        drop(line);
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// A reader has everything up to `lsn` safe: replies leave that waited for it alone.
    pub fn acknowledge(&self, id: ReaderId, lsn: Lsn) {
        self.change(|line| {
            let Some(reader) = line.reader(id) else { return WakeUp::Nobody };
            reader.safe = reader.safe.max(lsn);
            reader.be_in_time()
        });
    }

    /// Looks whether a reader is late, at this time of the monotonic clock: then replies wait.
    #[inline]
    pub fn check_lag(&self, now_us: i64) {
        if now_us > self.late_at_us.load(Ordering::Relaxed) {
            self.hold_late(now_us);
        }
    }

    #[cold]
    fn hold_late(&self, now_us: i64) {
        // A reader may have caught up meanwhile, or does so behind both.
        let tail = self.tail();
        self.change(|line| {
            let is_late = |id| {
                let mut late = tail.readers.iter().filter(|it| now_us > it.late_at_us);
                late.any(|attached| attached.id == id)
            };
            for reader in &mut line.readers {
                reader.is_late |= reader.level == DurabilityLevel::Os && is_late(reader.id);
            }
            WakeUp::Nobody
        });
    }

    /// The system has everything up to `lsn` from a reader, and what comes behind came since
    /// `since_us`.
    pub fn note_written(&self, id: ReaderId, lsn: Lsn, since_us: i64) {
        let mut tail = self.tail();
        let late_at_us = if tail.lsn > lsn { since_us + LATE_US } else { NEVER };
        if let Some(attached) = tail.reader(id) {
            attached.late_at_us = late_at_us;
        }
        self.late_at_us.store(tail.late_at_us(), Ordering::Relaxed);
        drop(tail);
        self.change(|line| {
            let Some(reader) = line.reader(id) else { return WakeUp::Nobody };
            reader.written = lsn;
            reader.be_in_time()
        });
    }

    /// Replies that saw up to `lsn` leave, though that is not safe with a reader: an operator wants
    /// it so.
    pub fn release_up_to(&self, id: ReaderId, lsn: Lsn) {
        self.change(|line| {
            if let Some(reader) = line.reader(id) {
                reader.passed = reader.passed.max(lsn);
            }
            // The tasks stay in line: some of them may wait for more than that.
            WakeUp::All
        });
    }

    /// A reader cannot go on, and why. No reply waits meanwhile. `bar` keeps further writes from
    /// running, before any client is told that could send the next one.
    pub fn fail(&self, id: ReaderId, why: String, bar: impl FnOnce()) {
        self.line().failure = why;
        bar();
        self.change(|line| {
            if let Some(reader) = line.reader(id) {
                reader.has_failed = true;
            }
            WakeUp::All
        });
    }

    /// A reader goes on, and has everything up to `lsn` safe.
    pub fn recover(&self, id: ReaderId, lsn: Lsn) {
        self.change(|line| {
            let Some(reader) = line.reader(id) else { return WakeUp::Nobody };
            (reader.safe, reader.has_failed) = (reader.safe.max(lsn), false);
            reader.be_in_time()
        });
    }

    /// Changes what is known of the readers, and then says what follows: what is safe, what may
    /// leave, and which tasks go on.
    fn change(&self, change: impl FnOnce(&mut WaitingLine) -> WakeUp) {
        let mut line = self.line();
        let wake_up = change(&mut line);
        let all = line.durable_readers().map(|reader| reader.safe).min();
        let safe = self.safe().max(all.unwrap_or(0));
        self.safe.store(safe, Ordering::Release);
        let durable = line.durable_readers().map(ReaderProgress::durable).min();
        self.durable.store(durable.unwrap_or(Lsn::MAX).max(safe), Ordering::Release);
        let has_failed = line.durable_readers().any(|reader| reader.has_failed);
        self.has_failed.store(has_failed, Ordering::Release);
        if wake_up == WakeUp::All {
            line.wake_all();
        }
        let ready: Vec<_> = line.waiting.extract_if(.., |(lsn, _)| *lsn <= safe).collect();
        drop(line);
        ready.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Whether a reader has failed that replies rely on.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// The refusal of each write while a reader has failed: nothing was done.
    pub(crate) fn refusal(&self) -> Refusal {
        let why = &self.line().failure;
        Refusal::owned(format!("MISCONF Errors writing to the AOF file: {why}"))
    }

    /// What is told in the place of a reply that saw what is not safe: how that ends is not known.
    pub fn unknown_outcome(&self) -> Refusal {
        let why = &self.line().failure;
        Refusal::owned(format!(
            "UNSAFE Errors writing to the AOF file: {why}. The command ran, and what it changed or \
             saw is not on disk: nobody is shown it before it is, and a restart before undoes it"
        ))
    }

    /// Whether what is not safe is shown to nobody, also while a reader has failed.
    pub fn hides_unsafe(&self) -> bool {
        self.line().readers.iter().any(|reader| reader.level == DurabilityLevel::Disk)
    }

    /// Everything up to here is safe, as far as the readers have said that replies rely on.
    pub fn safe(&self) -> Lsn {
        self.safe.load(Ordering::Acquire)
    }

    /// Whether a reply that saw `lsn` may leave.
    #[inline]
    pub fn is_durable(&self, lsn: Lsn) -> bool {
        lsn <= self.durable.load(Ordering::Acquire)
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().expect("no reader panics")
    }

    fn line(&self) -> MutexGuard<'_, WaitingLine> {
        self.line.lock().expect("no critical section here panics")
    }
}

#[cfg(test)]
pub mod tests;
