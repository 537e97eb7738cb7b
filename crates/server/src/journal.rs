//! The journal: one sequence of records in commit order, and how far it is safe.
//!
//! A record is what a transaction changed, as the exact bytes of the replication stream; its LSN is
//! the stream's offset behind it. Without a reader nothing is encoded and nothing waits. With one,
//! every reply is stamped with the highest LSN it saw and leaves only once the reader has
//! acknowledged that.
//!
//! Invariants: records that share a key are appended in the order their transactions ran, since
//! `commit` appends under their locks; the acknowledged LSN never falls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;

use keyspace::{Effects, Lsn, Propagation};
use proto::Args;
use proto::args::encode_command;

/// Takes records in order. Called with locks held: it may copy and queue, never wait.
pub(crate) trait JournalReader: Send {
    /// The record that ends at `lsn`.
    fn record(&mut self, lsn: Lsn, bytes: &[u8]);
}

/// The sequence of records.
pub(crate) struct Journal {
    tail: Mutex<Tail>,
    /// Everything up to here is safe; without a reader, everything is.
    durable: AtomicU64,
}

#[derive(Default)]
struct Tail {
    lsn: Lsn,
    reader: Option<Box<dyn JournalReader>>,
    /// Sessions with replies that wait for an LSN.
    waiting: Vec<(Lsn, Waker)>,
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self { tail: Mutex::default(), durable: AtomicU64::new(Lsn::MAX) }
    }

    /// Attaches the reader. The world must be stopped, and the keyspace told to record.
    #[cfg_attr(not(test), expect(dead_code, reason = "the append-only file will attach itself"))]
    pub(crate) fn attach(&self, reader: Box<dyn JournalReader>) {
        let mut tail = self.tail();
        tail.reader = Some(reader);
        self.durable.store(tail.lsn, Ordering::Release);
    }

    /// The reader has everything up to `lsn` safe: replies that waited for it leave.
    #[cfg_attr(not(test), expect(dead_code, reason = "the append-only file will attach itself"))]
    pub(crate) fn acknowledge(&self, lsn: Lsn) {
        let mut tail = self.tail();
        self.durable.fetch_max(lsn, Ordering::AcqRel);
        let (ready, waiting) = tail.waiting.drain(..).partition(|(wanted, _)| *wanted <= lsn);
        tail.waiting = waiting;
        drop(tail);
        let ready: Vec<(Lsn, Waker)> = ready;
        ready.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Where the journal ends.
    pub(crate) fn end(&self) -> Lsn {
        self.tail().lsn
    }

    /// Whether everything up to `lsn` is safe.
    #[inline]
    pub(crate) fn is_durable(&self, lsn: Lsn) -> bool {
        lsn <= self.durable.load(Ordering::Acquire)
    }

    /// Queues a session to be woken when `lsn` is safe; `false` if it is already.
    pub(crate) fn wait(&self, lsn: Lsn, waker: &Waker) -> bool {
        let mut tail = self.tail();
        // Acknowledged under this mutex, so the waker cannot come too late.
        if self.is_durable(lsn) {
            return false;
        }
        tail.waiting.retain(|(_, queued)| !queued.will_wake(waker));
        tail.waiting.push((lsn, waker.clone()));
        true
    }

    /// Appends a transaction's record; returns the LSN behind it.
    pub(crate) fn append(&self, record: &[u8]) -> Lsn {
        let mut tail = self.tail();
        tail.lsn += record.len() as u64;
        let lsn = tail.lsn;
        if let Some(reader) = &mut tail.reader {
            reader.record(lsn, record);
        }
        lsn
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().expect("no reader panics")
    }
}

/// One command of a transaction: what it changed, where, and what the client sent.
pub(crate) struct Deed<'a> {
    pub(crate) effects: &'a Effects,
    pub(crate) database: usize,
    pub(crate) args: Args<'a>,
}

/// A transaction's record: its commands, in their databases; it begins and ends in database 0.
/// Empty if it changed nothing. Several commands stand between MULTI and EXEC, so that whoever
/// follows sees all of them or none.
pub(crate) fn record(deeds: &[Deed<'_>]) -> Vec<u8> {
    let mut writer = Writer { bytes: Vec::new(), database: 0 };
    let is_group = deeds.iter().map(Deed::commands).sum::<usize>() > 1;
    if is_group {
        writer.command(0, [b"MULTI".as_slice()].into_iter());
    }
    deeds.iter().for_each(|deed| deed.write(&mut writer));
    writer.select(0);
    if is_group {
        writer.command(0, [b"EXEC".as_slice()].into_iter());
    }
    writer.bytes
}

impl Deed<'_> {
    /// How many commands it takes to tell.
    fn commands(&self) -> usize {
        self.effects.expired().len() + self.effects.expired_members().len() + self.own_commands()
    }

    fn own_commands(&self) -> usize {
        match self.effects.propagation() {
            _ if self.effects.changes() == 0 => 0,
            Propagation::Instead(commands) => commands.len(),
            Propagation::AsSent => 1,
        }
    }

    fn write(&self, writer: &mut Writer) {
        for (database, key) in self.effects.expired() {
            writer.command(*database, [b"DEL".as_slice(), key].into_iter());
        }
        for (database, command) in self.effects.expired_members() {
            writer.command(*database, command.iter().map(AsRef::as_ref));
        }
        match self.effects.propagation() {
            _ if self.own_commands() == 0 => {}
            Propagation::Instead(commands) => {
                for command in commands {
                    writer.command(self.database, command.iter().map(AsRef::as_ref));
                }
            }
            Propagation::AsSent => writer.command(self.database, self.args.iter()),
        }
    }
}

struct Writer {
    bytes: Vec<u8>,
    database: usize,
}

impl Writer {
    fn command<'a>(&mut self, database: usize, words: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.select(database);
        encode_command(words, &mut self.bytes);
    }

    fn select(&mut self, database: usize) {
        if self.database != database {
            let number = database.to_string();
            let words = [b"SELECT".as_slice(), number.as_bytes()];
            encode_command(words.into_iter(), &mut self.bytes);
            self.database = database;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use keyspace::{
        Acquisition, Keyspace, Lifetime, NewText, Options, PartitionSet, Tx, TxOptions,
    };
    use proto::OwnedArgs;

    use super::{Journal, JournalReader};
    use crate::commit::publish;

    #[derive(Clone, Default)]
    struct Copy(Arc<Mutex<Vec<u8>>>);

    impl JournalReader for Copy {
        fn record(&mut self, lsn: u64, bytes: &[u8]) {
            let mut copy = self.0.lock().unwrap();
            copy.extend_from_slice(bytes);
            assert_eq!(lsn, copy.len() as u64, "an LSN is the offset behind its record");
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
            let (journal, copy) = (Journal::new(), Copy::default());
            journal.attach(Box::new(copy.clone()));
            Self { keyspace, journal, copy }
        }

        /// Runs a transaction on a key; returns what its reply must wait for.
        fn run(&self, database: usize, now: i64, line: &str, work: impl FnOnce(&mut Tx)) -> u64 {
            let args: OwnedArgs = line.split(' ').map(str::as_bytes).collect();
            let partition = self.keyspace.locate(&args.as_args()[1]).partition;
            assert!(self.keyspace.enter(0));
            let mut grant =
                Acquisition::of_partitions(self.keyspace, PartitionSet::from_slice(&[partition]));
            assert!(grant.attempt());
            let options = TxOptions { database, now, touches: true, ..TxOptions::internal(0, now) };
            let mut tx = Tx::begin(grant, options);
            work(&mut tx);
            tx.conclude();
            let seen = publish(&self.journal, &mut tx, args.as_args());
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
            rig.keyspace.locate(&line.as_bytes()[4..]).partition
                != rig.keyspace.locate(b"k").partition
        });
        assert_eq!(read(&other.unwrap()), 0);
        rig.journal.acknowledge(written);
        assert!(rig.journal.is_durable(written));
    }

    #[test]
    fn without_a_reader_nothing_waits() {
        let journal = Journal::new();
        assert!(journal.is_durable(u64::MAX));
        assert!(!journal.wait(u64::MAX, std::task::Waker::noop()));
    }
}
