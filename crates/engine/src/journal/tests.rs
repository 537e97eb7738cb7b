//! Records and readers of the journal: what they are given, what is safe, and what waits for it.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;

use base::time::Clock;
use keyspace::{
    Acquisition, FeatureLevel, Keyspace, Lifetime, NewText, Options, PartitionSet, Tx, TxOptions,
};
use proto::OwnedArgs;
use replication::ids::ReplicationId;

use super::journal_copy::JournalCopy;
use super::{
    DurabilityLevel, Journal, JournalReader, LATE_US, LinePlace, Lsn, ReaderId, StreamHistory,
};
use crate::commit::publish::publish;
use crate::runtime::counting_waker::CountingWaker;
use crate::runtime::record_batch::RecordBatch;

/// One that no transaction writes to.
fn journal_on(clock: Clock) -> Journal {
    Journal::new(clock, Box::leak(Box::default()))
}

struct Rig {
    keyspace: &'static Keyspace,
    journal: Journal,
    reader: ReaderId,
    copy: JournalCopy,
    /// How much of the copy was looked at.
    seen: Cell<usize>,
}

impl Rig {
    fn new() -> Self {
        let keyspace = Keyspace::leak(Options { hash_key: (1, 2), ..Options::new() });
        let journal = Journal::new(Clock::system(), &keyspace.settings().journal_attached);
        let (reader, copy) = JournalCopy::attach(&journal, DurabilityLevel::Disk);
        Self { keyspace, journal, reader, copy, seen: Cell::new(0) }
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
        let seen = publish(&self.journal, &RecordBatch::default(), &mut tx, args.as_args());
        tx.seal();
        drop(tx);
        self.keyspace.leave(0);
        seen.lsn
    }

    fn set(&self, database: usize, lifetime: Lifetime) -> u64 {
        self.run(database, 1000, "SET k v", |tx| {
            tx.put_text(b"k", NewText::from_client(b"v"), lifetime).unwrap();
        })
    }

    /// What came since this was last asked.
    fn written(&self) -> String {
        let text = self.copy.text();
        text[self.seen.replace(text.len())..].replace("\r\n", " ")
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
    rig.run(0, 2000, "APPEND k w", |tx| {
        tx.append_text(b"k", b"w").unwrap();
    });
    let written = rig.written();
    let expected = "*1 $5 MULTI *2 $3 DEL $1 k *3 $6 APPEND $1 k $1 w *1 $4 EXEC ";
    assert_eq!(written, expected);
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
    rig.journal.acknowledge(rig.reader, written);
    assert!(rig.journal.is_durable(written));
}

#[test]
fn without_a_reader_nothing_waits() {
    let journal = journal_on(Clock::system());
    assert!(journal.is_durable(u64::MAX));
}

/// On a clock that is moved by hand.
#[test]
fn replies_wait_from_the_moment_on_in_which_the_reader_is_late() {
    let clock = Clock::manual(1000);
    let journal = journal_on(clock.clone());
    let (reader, _) = JournalCopy::attach(&journal, DurabilityLevel::Os);
    let look = |millis| {
        clock.advance(millis);
        journal.check_lag(clock.monotonic_us());
    };
    let first = journal.append(b"first");
    look(LATE_US / 1000);
    assert!(journal.is_durable(first), "it may take so long");
    let began_us = clock.monotonic_us();
    let second = journal.append(b"second");
    look(1);
    assert!(!journal.is_durable(first) && !journal.is_durable(second));
    assert!(journal.is_durable(0), "who saw nothing of it waits for nothing");
    journal.note_written(reader, first, began_us);
    assert!(journal.is_durable(second), "it is not late any more");
    look(LATE_US / 1000);
    assert!(journal.is_durable(first) && !journal.is_durable(second));
    // A reply that relies on the disk waits for that.
    journal.set_durability(reader, DurabilityLevel::Disk);
    journal.note_written(reader, second, began_us);
    assert!(!journal.is_durable(second));
    journal.set_durability(reader, DurabilityLevel::Os);
    look(LATE_US);
    assert!(journal.is_durable(second), "nothing waits to be written");
    journal.append(b"third");
    journal.set_durability(reader, DurabilityLevel::None);
    look(LATE_US);
    assert!(journal.is_durable(Lsn::MAX), "nobody relies on it");
    journal.set_durability(reader, DurabilityLevel::Os);
    journal.detach(reader);
    look(LATE_US);
    assert!(journal.is_durable(Lsn::MAX), "nobody is there who could be late");
}

#[test]
fn what_leaves_database_0_or_stands_in_a_group_counts_with_all_its_bytes() {
    let rig = Rig::new();
    rig.set(3, Lifetime::Until(1500));
    let behind_select = rig.journal.end();
    assert_eq!(behind_select, rig.copy.text().len() as u64);
    assert!(rig.copy.text().ends_with("SELECT\r\n$1\r\n0\r\n"));
    // A reader that begins there is given a whole group, in database 0.
    let (_, later) = JournalCopy::attach(&rig.journal, DurabilityLevel::None);
    rig.run(3, 2000, "APPEND k w", |tx| {
        tx.append_text(b"k", b"w").unwrap();
    });
    assert!(later.text().starts_with("*1\r\n$5\r\nMULTI\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"));
    assert_eq!(rig.journal.end(), behind_select + later.text().len() as u64);
    assert!(rig.copy.text().ends_with(&later.text()));
}

#[test]
fn each_reader_is_given_all_from_where_it_came_to_where_it_went() {
    let is_read: &'static AtomicBool = Box::leak(Box::default());
    let journal = Journal::new(Clock::system(), is_read);
    let (first, from_first) = JournalCopy::attach(&journal, DurabilityLevel::None);
    journal.append(b"1;");
    let (second, from_second) = JournalCopy::attach(&journal, DurabilityLevel::None);
    assert!(journal.is_attached(first) && journal.is_attached(second));
    journal.append(b"22;");
    journal.detach(first);
    assert!(!journal.is_attached(first) && is_read.load(Relaxed));
    journal.append(b"333;");
    journal.detach(first);
    assert!(is_read.load(Relaxed), "who is gone is not gone again");
    journal.detach(second);
    assert!(!is_read.load(Relaxed), "nobody makes records for nobody");
    assert_eq!((&*from_first.text(), &*from_second.text()), ("1;22;", "22;333;"));
    assert_eq!(journal.end(), 9);
}

#[test]
fn a_reply_waits_for_all_readers_that_replies_rely_on_and_for_no_other() {
    let journal = journal_on(Clock::system());
    let (one, _) = JournalCopy::attach(&journal, DurabilityLevel::Disk);
    let early = journal.append(b"early");
    let (other, _) = JournalCopy::attach(&journal, DurabilityLevel::Disk);
    let (idle, _) = JournalCopy::attach(&journal, DurabilityLevel::None);
    let late = journal.append(b"late");
    let waiter = Arc::new(CountingWaker::default());
    let place = &mut LinePlace::default();
    assert!(journal.wait_for_safety(late, &Waker::from(Arc::clone(&waiter)), place));
    journal.acknowledge(other, late);
    assert!(!journal.is_durable(early), "the first has not even that");
    journal.acknowledge(one, early);
    assert!(journal.is_durable(early) && !journal.is_durable(late));
    journal.acknowledge(idle, early);
    assert_eq!((journal.safe(), waiter.count()), (early, 0));
    journal.acknowledge(one, late);
    assert!(journal.is_durable(late), "nobody relies on the third");
    assert_eq!((journal.safe(), waiter.count()), (late, 1));
    // A reader that is gone says nothing any more.
    let next = journal.append(b"next");
    journal.acknowledge(one, next);
    assert!(!journal.is_durable(next));
    journal.detach(other);
    assert!(journal.is_durable(next), "nobody waits for who is gone");
    let last = journal.append(b"last");
    journal.acknowledge(other, last);
    assert!(!journal.is_durable(last));
}

/// A task may wait for more each time that it looks, or for less: it is woken when that is safe.
#[test]
fn a_task_whose_wish_changes_is_woken_for_each_that_becomes_safe() {
    let journal = journal_on(Clock::system());
    let (reader, _) = JournalCopy::attach(&journal, DurabilityLevel::Disk);
    let lsns = [b"one", b"two", b"six"].map(|record| journal.append(record));
    let waiter = Arc::new(CountingWaker::default());
    let (waker, mut place) = (Waker::from(Arc::clone(&waiter)), LinePlace::default());
    for (count, lsn) in lsns.into_iter().enumerate() {
        for _ in 0..3 {
            assert!(journal.wait_for_safety(lsn, &waker, &mut place));
        }
        assert_eq!(waiter.count(), count, "it stands in line once");
        journal.acknowledge(reader, lsn);
    }
    let (near, far) = (journal.append(b"near"), journal.append(b"far"));
    let before = waiter.count();
    assert!(journal.wait_for_safety(far, &waker, &mut place));
    assert!(journal.wait_for_safety(near, &waker, &mut place));
    journal.acknowledge(reader, near);
    assert_eq!((before, waiter.count()), (3, 4));
}

#[test]
fn sessions_that_wait_go_on_when_the_reader_that_lacked_the_record_goes() {
    let journal = journal_on(Clock::system());
    let (one, _) = JournalCopy::attach(&journal, DurabilityLevel::Disk);
    let (other, _) = JournalCopy::attach(&journal, DurabilityLevel::Disk);
    let lsn = journal.append(b"record");
    let waiter = Arc::new(CountingWaker::default());
    let waker = Waker::from(Arc::clone(&waiter));
    journal.acknowledge(one, lsn);
    let wake_ups = journal.wait_for_lowest(Some(lsn), &waker);
    journal.detach(other);
    assert!(journal.is_durable(lsn) && waiter.count() > 0);
    assert!(journal.wait_for_lowest(None, &waker) > wake_ups, "all are to look again");
    let lsn = journal.append(b"record");
    assert!(journal.wait_for_safety(lsn, &waker, &mut LinePlace::default()));
    let before = waiter.count();
    journal.detach(one);
    assert!(journal.is_durable(lsn) && waiter.count() > before, "no reader is left");
}

#[test]
fn a_reader_that_is_relied_on_later_takes_nothing_back() {
    let journal = journal_on(Clock::system());
    let (log, _) = JournalCopy::attach(&journal, DurabilityLevel::Disk);
    let (replica, _) = JournalCopy::attach(&journal, DurabilityLevel::None);
    let lsn = journal.append(b"record");
    journal.acknowledge(log, lsn);
    journal.set_durability(replica, DurabilityLevel::Disk);
    assert!(journal.is_durable(lsn) && journal.safe() == lsn, "it was safe");
    let lsn = journal.append(b"record");
    journal.acknowledge(log, lsn);
    assert!(!journal.is_durable(lsn));
    journal.release_up_to(replica, lsn);
    assert!(journal.is_durable(lsn) && journal.safe() < lsn);
    journal.release_up_to(log, Lsn::MAX - 1);
    let lsn = journal.append(b"record");
    assert!(!journal.is_durable(lsn), "what one lets pass the other holds");
}

#[test]
fn one_of_two_readers_is_late() {
    let clock = Clock::manual(1000);
    let journal = journal_on(clock.clone());
    let (log, _) = JournalCopy::attach(&journal, DurabilityLevel::Os);
    let (slow, _) = JournalCopy::attach(&journal, DurabilityLevel::Os);
    let (idle, _) = JournalCopy::attach(&journal, DurabilityLevel::None);
    let look = |millis| {
        clock.advance(millis);
        journal.check_lag(clock.monotonic_us());
    };
    let first = journal.append(b"first");
    journal.note_written(log, first, clock.monotonic_us());
    look(LATE_US / 1000 + 1);
    assert!(!journal.is_durable(first), "one of them has it, and the other is late");
    let second = journal.append(b"second");
    journal.note_written(slow, first, clock.monotonic_us());
    assert!(journal.is_durable(second), "neither is late, and nobody waits for the third");
    journal.note_written(log, second, clock.monotonic_us());
    look(LATE_US / 1000 + 1);
    assert!(journal.is_durable(first) && !journal.is_durable(second));
    journal.set_durability(slow, DurabilityLevel::None);
    look(1);
    assert!(journal.is_durable(second), "nobody relies on the late one");
    journal.set_durability(idle, DurabilityLevel::Os);
    look(1);
    assert!(!journal.is_durable(second), "it has been late all the time");
    journal.detach(idle);
    look(1);
    assert!(journal.is_durable(second));
}

#[test]
fn a_failure_counts_while_replies_rely_on_the_reader() {
    let journal = journal_on(Clock::system());
    let (log, _) = JournalCopy::attach(&journal, DurabilityLevel::Disk);
    let (replica, _) = JournalCopy::attach(&journal, DurabilityLevel::None);
    journal.fail(replica, "gone".to_owned(), || ());
    assert!(!journal.has_failed());
    journal.fail(log, "full".to_owned(), || ());
    assert!(journal.has_failed());
    journal.set_durability(replica, DurabilityLevel::Disk);
    let lsn = journal.append(b"record");
    journal.recover(log, lsn);
    assert!(journal.has_failed(), "the other one has, too");
    journal.recover(replica, 0);
    assert!(!journal.has_failed() && !journal.is_durable(lsn), "it has not got that");
    journal.fail(replica, "gone".to_owned(), || ());
    journal.detach(replica);
    assert!(!journal.has_failed() && journal.is_durable(lsn));
}

/// A replica that nobody may write to has nothing to append: whatever does so changed its data.
#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "a read-only replica writes nothing by itself")]
fn a_write_of_a_read_only_replica_is_a_fault() {
    let journal = journal_on(Clock::system());
    journal.set_follows(true);
    journal.append_in(&RecordBatch::default(), b"a write", FeatureLevel::Nothing);
}

#[test]
fn a_follower_has_no_records_of_its_own() {
    let journal = journal_on(Clock::system());
    let (_, copy) = JournalCopy::attach(&journal, DurabilityLevel::None);
    journal.set_has_replicas(true);
    let before = journal.append(b"before");
    journal.set_follows(true);
    // Each was decided before, and comes behind.
    assert_eq!(journal.append(b"a ping"), before);
    journal.forward(&[b"PUBLISH", b"channel", b"message"]);
    assert_eq!(journal.end(), before);
    let streamed = journal.append_stream(b"stream", 0);
    journal.set_follows(false);
    assert!(streamed > before && journal.append(b"again") > streamed);
    drop(copy);
}

/// What is written beside a stream has LSNs and no offsets.
#[test]
fn a_reply_waits_for_what_was_written_beside_a_stream() {
    struct Log;
    impl JournalReader for Log {
        fn record(&mut self, _: Lsn, _: &[u8], _: bool) -> bool {
            false
        }

        fn logs_local_writes(&self) -> bool {
            true
        }
    }
    let journal = journal_on(Clock::system());
    let log = journal.name_reader();
    journal.attach(log, Box::new(Log), DurabilityLevel::Disk);
    let id = ReplicationId::from_random([7; 20]);
    journal.set_history(Some(StreamHistory { id, shift: 1000, second: None }));
    journal.set_takes_local(true);
    journal.set_follows(true);
    let stream = journal.append_stream(b"12345678", 0);
    journal.acknowledge(log, stream);
    let offset = |journal: &Journal| journal.history().map(|place| place.offset);
    assert_eq!((journal.stream_end(), offset(&journal)), (8, Some(1008)));
    for len in 1..=3 {
        let lsn = journal.append_in(&RecordBatch::default(), b"own", FeatureLevel::Nothing);
        assert_eq!((lsn, journal.end()), (8 + 3 * len, lsn));
        assert!(!journal.is_durable(lsn), "the log does not have it");
        journal.acknowledge(log, lsn);
        assert!(journal.is_durable(lsn));
        assert_eq!((journal.stream_end(), offset(&journal)), (8, Some(1008)));
        journal.set_history(Some(StreamHistory { id, shift: 1000, second: None }));
        assert_eq!(offset(&journal), Some(1008), "it was told again");
    }
    assert_eq!(journal.append_stream(b"12", 0), 19);
    assert_eq!((journal.stream_end(), offset(&journal)), (10, Some(1010)));
}
