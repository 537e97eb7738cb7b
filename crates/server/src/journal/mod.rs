//! The journal: one sequence of records in commit order, and how far it is safe.
//!
//! A record is what a transaction changed, as the exact bytes of the replication stream; its LSN is
//! the stream's offset behind it. Without a reader nothing is encoded and nothing waits. With one
//! that replies wait for, every reply is stamped with the highest LSN it saw and leaves only once
//! the reader has acknowledged that. Where they do not wait, they do so from the moment on in which
//! the reader is late: the oldest record that the system does not have is older than [`LATE_US`].
//!
//! Invariants: records that share a key are appended in the order their transactions ran, since
//! `commit` appends under their locks; what was said to be safe stays safe; while the reader has
//! failed no reply waits, none of a write that is not safe says that it was done, and none shows it
//! where they wait for the disk.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::Waker;

use base::time::Clock;
use keyspace::{Lsn, Refusal};

use crate::gathering;

mod record;

pub(crate) use record::{Deed, record, record_of_command};

/// Takes records in order. Called with locks held: it may copy and queue, never wait.
pub(crate) trait JournalReader: Send {
    /// The record that ends at `lsn`. Where `may_wait` says so, the reader may leave it until
    /// [`rest`](Self::rest) is called, and returns whether it does.
    fn record(&mut self, lsn: Lsn, bytes: &[u8], may_wait: bool) -> bool;

    /// Whoever appended what waits has no more for now. Returns whom to wake, if anybody sleeps:
    /// not before the journal's mutex is free, since the sleeper asks for it first thing.
    fn rest(&mut self) -> Option<Arc<Condvar>> {
        None
    }
}

/// The sequence of records.
pub(crate) struct Journal {
    tail: Mutex<Tail>,
    /// Everything up to here is safe.
    safe: AtomicU64,
    /// What replies may have seen that leave: what is safe, or anything if none is held.
    durable: AtomicU64,
    failed: AtomicBool,
    /// From when on the reader is late, on the monotonic clock; changed under the tail's mutex.
    late_at_us: AtomicI64,
    line: Mutex<Line>,
    clock: Clock,
}

/// How long a record may wait for the system to have it before replies wait for that, in
/// microseconds: as much as a process that is killed may lose of what it acknowledged. A sync that
/// takes as long keeps replies waiting, too.
pub(crate) const LATE_US: i64 = 500_000;

/// When nothing waits.
const NEVER: i64 = i64::MAX;

/// Where in line those stand who wait for a reader that may be relied on: behind all records.
const RELIANCE: Lsn = Lsn::MAX;

/// What replies may rely on: who has what they saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reliance {
    /// Nobody needs to: replies never wait.
    #[default]
    Nobody,
    /// The system, but for what is not older than [`LATE_US`].
    System,
    /// The disk.
    Disk,
}

#[derive(Default)]
struct Tail {
    lsn: Lsn,
    reader: Option<Box<dyn JournalReader>>,
}

/// Who waits, and for what.
#[derive(Default)]
struct Line {
    reliance: Reliance,
    /// Whether replies wait for the system to have what they saw, as the reader is late.
    is_late: bool,
    /// The system has everything up to here.
    written: Lsn,
    /// Why the reader fails.
    failure: String,
    waiting: Vec<(Lsn, Waker)>,
    /// How often all were to look again.
    rouses: u64,
}

impl Line {
    /// Has all who wait look again. They stay in line: who waits on does not queue again.
    fn rouse(&mut self) {
        self.rouses += 1;
        self.waiting.iter().for_each(|(_, waker)| waker.wake_by_ref());
    }
}

impl Journal {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            late_at_us: AtomicI64::new(NEVER),
            tail: Mutex::default(),
            safe: AtomicU64::new(0),
            durable: AtomicU64::new(Lsn::MAX),
            failed: AtomicBool::new(false),
            line: Mutex::default(),
        }
    }

    /// Attaches the reader. The world must be stopped, and the keyspace told to record.
    pub(crate) fn attach(&self, reader: Box<dyn JournalReader>, reliance: Reliance) {
        let mut tail = self.tail();
        tail.reader = Some(reader);
        self.late_at_us.store(NEVER, Ordering::Relaxed);
        self.safe.fetch_max(tail.lsn, Ordering::AcqRel);
        self.line().written = tail.lsn;
        drop(tail);
        self.rely_on(reliance);
    }

    /// Lets the reader go: nobody waits any more.
    pub(crate) fn detach(&self) {
        let mut tail = self.tail();
        tail.reader = None;
        self.late_at_us.store(NEVER, Ordering::Relaxed);
        drop(tail);
        self.failed.store(false, Ordering::Release);
        self.rely_on(Reliance::Nobody);
        // Nothing will become safe any more.
        let waiting = std::mem::take(&mut self.line().waiting);
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// What replies may rely on from now on.
    pub(crate) fn rely_on(&self, reliance: Reliance) {
        let mut line = self.line();
        line.reliance = reliance;
        line.is_late = false;
        let durable = if reliance == Reliance::Disk { self.safe() } else { Lsn::MAX };
        self.durable.store(durable, Ordering::Release);
        line.rouse();
        if reliance != Reliance::Nobody {
            line.waiting.retain(|(lsn, _)| *lsn != RELIANCE);
        }
    }

    /// The reader has everything up to `lsn` safe: replies that waited for it leave.
    pub(crate) fn acknowledge(&self, lsn: Lsn) {
        let mut line = self.line();
        let safe = self.safe.fetch_max(lsn, Ordering::AcqRel).max(lsn);
        if line.reliance == Reliance::Disk {
            self.durable.fetch_max(safe, Ordering::AcqRel);
        }
        self.be_in_time(&mut line);
        let (ready, waiting) = line.waiting.drain(..).partition(|(wanted, _)| *wanted <= safe);
        line.waiting = waiting;
        drop(line);
        let ready: Vec<(Lsn, Waker)> = ready;
        ready.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Looks whether the reader is late, at this time of the monotonic clock: then replies wait.
    #[inline]
    pub(crate) fn look(&self, now_us: i64) {
        if now_us > self.late_at_us.load(Ordering::Relaxed) {
            self.hold_late(now_us);
        }
    }

    #[cold]
    fn hold_late(&self, now_us: i64) {
        let mut line = self.line();
        // The reader may have caught up meanwhile.
        let is_late = now_us > self.late_at_us.load(Ordering::Relaxed);
        if is_late && line.reliance == Reliance::System && !line.is_late {
            line.is_late = true;
            // What is safe may leave in any case.
            self.durable.store(line.written.max(self.safe()), Ordering::Release);
        }
    }

    /// The system has everything up to `lsn`, and what comes behind came since `since_us`.
    pub(crate) fn note_written(&self, lsn: Lsn, since_us: i64) {
        let tail = self.tail();
        let late_at_us = if tail.lsn > lsn { since_us + LATE_US } else { NEVER };
        self.late_at_us.store(late_at_us, Ordering::Relaxed);
        drop(tail);
        let mut line = self.line();
        line.written = lsn;
        self.be_in_time(&mut line);
    }

    /// Lets replies go that waited for a late reader.
    fn be_in_time(&self, line: &mut Line) {
        if std::mem::take(&mut line.is_late) {
            self.durable.store(Lsn::MAX, Ordering::Release);
            line.rouse();
        }
    }

    /// Replies that saw up to `lsn` leave, though that is not safe: somebody wants it so.
    pub(crate) fn let_pass(&self, lsn: Lsn) {
        let mut line = self.line();
        if line.reliance == Reliance::Disk {
            self.durable.fetch_max(lsn, Ordering::AcqRel);
        }
        // They stay in line: some of them may wait for more than that.
        line.rouse();
    }

    /// The reader cannot go on, and why. Nobody waits meanwhile. `bar` keeps further writes from
    /// running, before anybody is told who could send the next one.
    pub(crate) fn fail(&self, why: String, bar: impl FnOnce()) {
        self.line().failure = why;
        bar();
        let mut line = self.line();
        self.failed.store(true, Ordering::Release);
        line.rouse();
    }

    /// The reader goes on, and has everything up to `lsn` safe.
    pub(crate) fn heal(&self, lsn: Lsn) {
        self.acknowledge(lsn);
        self.failed.store(false, Ordering::Release);
    }

    /// Whether the reader has failed.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// What whoever would write is told while the reader has failed: nothing was done.
    pub(crate) fn refusal(&self) -> Refusal {
        let why = &self.line().failure;
        Refusal::owned(format!("MISCONF Errors writing to the AOF file: {why}"))
    }

    /// What is told in the place of a reply that saw what is not safe: how that ends is not known.
    pub(crate) fn doubt(&self) -> Refusal {
        let why = &self.line().failure;
        Refusal::owned(format!(
            "UNSAFE Errors writing to the AOF file: {why}. The command ran, and what it changed or \
             saw is not on disk: nobody is shown it before it is, and a restart before undoes it"
        ))
    }

    /// Whether what is not safe is shown to nobody, also while the reader has failed.
    pub(crate) fn hides_unsafe(&self) -> bool {
        self.line().reliance == Reliance::Disk
    }

    /// Where the journal ends.
    pub(crate) fn end(&self) -> Lsn {
        self.tail().lsn
    }

    /// Everything up to here is safe, as far as the reader has said.
    pub(crate) fn safe(&self) -> Lsn {
        self.safe.load(Ordering::Acquire)
    }

    /// Whether a reply that saw `lsn` may leave.
    #[inline]
    pub(crate) fn is_durable(&self, lsn: Lsn) -> bool {
        lsn <= self.durable.load(Ordering::Acquire)
    }

    /// Queues a task that waits for others, in the place where it stood before: until what the
    /// lowest of them waits for is safe, or all are to look again. Whoever is taken out of line is
    /// woken. Returns how often all were to look again so far.
    pub(crate) fn stand(&self, lowest: Option<Lsn>, waker: &Waker) -> u64 {
        let mut line = self.line();
        line.waiting.retain(|(_, other)| !other.will_wake(waker));
        // It changes under this mutex only, so the waker cannot come too late.
        if let Some(lowest) = lowest.filter(|lowest| *lowest > self.safe()) {
            line.waiting.push((lowest, waker.clone()));
        }
        line.rouses
    }

    /// Queues a waker until everything up to `lsn` is safe, or something changed; `false` if it is
    /// safe.
    pub(crate) fn wait_for_safety(&self, lsn: Lsn, waker: &Waker) -> bool {
        let mut line = self.line();
        if lsn <= self.safe() {
            return false;
        }
        line.waiting.push((lsn, waker.clone()));
        true
    }

    /// Queues who waits until replies may rely on the reader, or it is let go.
    pub(crate) fn wait_for_reliance(&self, waker: &Waker) {
        let mut line = self.line();
        if !line.waiting.iter().any(|(lsn, own)| *lsn == RELIANCE && own.will_wake(waker)) {
            line.waiting.push((RELIANCE, waker.clone()));
        }
    }

    /// Appends a transaction's record; returns the LSN behind it.
    pub(crate) fn append(&self, record: &[u8]) -> Lsn {
        let mut tail = self.tail();
        tail.lsn += record.len() as u64;
        let lsn = tail.lsn;
        if let Some(reader) = &mut tail.reader {
            if reader.record(lsn, record, gathering::is_open()) {
                gathering::join();
            }
            if self.late_at_us.load(Ordering::Relaxed) == NEVER {
                let late_at_us = self.clock.monotonic_us() + LATE_US;
                self.late_at_us.store(late_at_us, Ordering::Relaxed);
            }
        }
        lsn
    }

    /// Has the reader take what was left for this moment.
    pub(crate) fn rest(&self) {
        let sleeper = self.tail().reader.as_mut().and_then(|reader| reader.rest());
        if let Some(sleeper) = sleeper {
            sleeper.notify_one();
        }
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().expect("no reader panics")
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().expect("no critical section here panics")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use base::time::Clock;
    use keyspace::{
        Acquisition, Keyspace, Lifetime, NewText, Options, PartitionSet, Tx, TxOptions,
    };
    use proto::OwnedArgs;

    use super::{Journal, JournalReader, LATE_US, Lsn, Reliance};
    use crate::commit::publish;

    #[derive(Clone, Default)]
    struct Copy(Arc<Mutex<Vec<u8>>>);

    impl JournalReader for Copy {
        fn record(&mut self, lsn: u64, bytes: &[u8], _: bool) -> bool {
            let mut copy = self.0.lock().unwrap();
            copy.extend_from_slice(bytes);
            assert_eq!(lsn, copy.len() as u64, "an LSN is the offset behind its record");
            false
        }
    }

    struct Rig {
        keyspace: &'static Keyspace,
        journal: Journal,
        copy: Copy,
    }

    impl Rig {
        fn new() -> Self {
            let keyspace = Keyspace::leak(Options { hash_key: (1, 2), ..Options::new() });
            let recording = &keyspace.settings().journal_attached;
            recording.store(true, std::sync::atomic::Ordering::Relaxed);
            let (journal, copy) = (Journal::new(Clock::system()), Copy::default());
            journal.attach(Box::new(copy.clone()), Reliance::Disk);
            Self { keyspace, journal, copy }
        }

        /// Runs a transaction on a key; returns what its reply must wait for.
        fn run(&self, database: usize, now: i64, line: &str, work: impl FnOnce(&mut Tx)) -> u64 {
            let args: OwnedArgs = line.split(' ').map(str::as_bytes).collect();
            let partition = self.keyspace.locate(&args.as_args()[1]).partition();
            assert!(self.keyspace.enter(0));
            let mut grant =
                Acquisition::of_partitions(self.keyspace, PartitionSet::from_slice(&[partition]));
            assert!(grant.attempt());
            let options = TxOptions { database, now, touches: true, ..TxOptions::internal(0, now) };
            let mut tx = Tx::begin(grant, options);
            work(&mut tx);
            tx.finish();
            let seen = publish(&self.journal, &mut tx, args.as_args());
            tx.seal();
            drop(tx);
            self.keyspace.leave(0);
            seen
        }

        fn set(&self, database: usize, lifetime: Lifetime) -> u64 {
            self.run(database, 1000, "SET k v", |tx| {
                tx.put_text(b"k", NewText::from_client(b"v"), lifetime).unwrap();
            })
        }

        fn written(&self) -> String {
            let bytes = std::mem::take(&mut *self.copy.0.lock().unwrap());
            String::from_utf8(bytes).unwrap().replace("\r\n", " ")
        }
    }

    #[test]
    fn a_record_is_the_command_and_begins_and_ends_in_database_0() {
        let rig = Rig::new();
        rig.set(0, Lifetime::Forever);
        assert_eq!(rig.written(), "*3 $3 SET $1 k $1 v ");
        let rig = Rig::new();
        rig.set(3, Lifetime::Forever);
        let expected = "*2 $6 SELECT $1 3 *3 $3 SET $1 k $1 v *2 $6 SELECT $1 0 ";
        assert_eq!(rig.written(), expected);
    }

    #[test]
    fn what_expired_on_the_way_stands_with_the_command_between_multi_and_exec() {
        let rig = Rig::new();
        rig.set(0, Lifetime::Until(1500));
        rig.written();
        rig.copy.0.lock().unwrap().resize(rig.journal.end() as usize, b' ');
        rig.run(0, 2000, "APPEND k w", |tx| {
            tx.append_text(b"k", b"w").unwrap();
        });
        let written = rig.written();
        let expected = "*1 $5 MULTI *2 $3 DEL $1 k *3 $6 APPEND $1 k $1 w *1 $4 EXEC ";
        assert_eq!(written.trim_start(), expected);
    }

    #[test]
    fn a_read_waits_for_the_write_it_saw_and_for_no_other() {
        let rig = Rig::new();
        let written = rig.set(0, Lifetime::Forever);
        assert_eq!(written, rig.journal.end());
        assert!(!rig.journal.is_durable(written));
        let read = |line| rig.run(0, 1000, line, |_| {});
        assert_eq!(read("GET k"), written);
        let other = (0..).map(|n| format!("GET other{n}")).find(|line| {
            rig.keyspace.locate(&line.as_bytes()[4..]).partition()
                != rig.keyspace.locate(b"k").partition()
        });
        assert_eq!(read(&other.unwrap()), 0);
        rig.journal.acknowledge(written);
        assert!(rig.journal.is_durable(written));
    }

    #[test]
    fn without_a_reader_nothing_waits() {
        let journal = Journal::new(Clock::system());
        assert!(journal.is_durable(u64::MAX));
    }

    /// On a clock that is moved by hand.
    #[test]
    fn replies_wait_from_the_moment_on_in_which_the_reader_is_late() {
        let clock = Clock::manual(1000);
        let journal = Journal::new(clock.clone());
        journal.attach(Box::new(Copy::default()), Reliance::System);
        let look = |millis| {
            clock.advance(millis);
            journal.look(clock.monotonic_us());
        };
        let first = journal.append(b"first");
        look(LATE_US / 1000);
        assert!(journal.is_durable(first), "it may take so long");
        let began_us = clock.monotonic_us();
        let second = journal.append(b"second");
        look(1);
        assert!(!journal.is_durable(first) && !journal.is_durable(second));
        assert!(journal.is_durable(0), "who saw nothing of it waits for nothing");
        journal.note_written(first, began_us);
        assert!(journal.is_durable(second), "it is not late any more");
        look(LATE_US / 1000);
        assert!(journal.is_durable(first) && !journal.is_durable(second));
        // Who wants the disk to have it waits for that.
        journal.rely_on(Reliance::Disk);
        journal.note_written(second, began_us);
        assert!(!journal.is_durable(second));
        journal.rely_on(Reliance::System);
        look(LATE_US);
        assert!(journal.is_durable(second), "nothing waits to be written");
        journal.append(b"third");
        journal.rely_on(Reliance::Nobody);
        look(LATE_US);
        assert!(journal.is_durable(Lsn::MAX), "nobody relies on it");
        journal.rely_on(Reliance::System);
        journal.detach();
        look(LATE_US);
        assert!(journal.is_durable(Lsn::MAX), "nobody is there who could be late");
    }
}
