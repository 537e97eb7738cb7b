//! Records on their way from `commit` to the writer of the append-only file.
//!
//! Invariants: what is put in comes out in that order, orders between the records where they were
//! given; the queue always accepts, and begins backpressure when it holds more than `ROOM`; the
//! writer has nothing to wait for where no record waits for `rest`.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use engine::journal::{JournalReader, ReaderId, Sleeper, StreamHistory, selection};
use engine::limits::log_buffers::PIECES_KEPT;
use engine::runtime::backpressure::Backpressure;
use keyspace::Lsn;
use persist::aof::{StreamNote, history_line};

use super::WriterCommand;
use super::buffers::Pieces;
use crate::aof::aligned_buffer::AlignedBuffer;

/// Bytes in the queue beyond which writers wait.
const ROOM: usize = 32 << 20;

/// How long records wait for others that come right after them, where no reply waits for them.
const LINGER: Duration = Duration::from_millis(2);

/// Waiting for company shorter than this costs more than it saves.
const SHORTEST: Duration = Duration::from_micros(100);

/// A worker takes about so long to answer a write and to read the next one of that client.
const RETURN: Duration = Duration::from_micros(5);

/// The next writes of all clients are waited for no longer than this.
const MOST: Duration = Duration::from_millis(1);

/// So often the number of times is doubled that clients which did not come are not waited for.
const DOUBLINGS: u32 = 6;

/// So many bytes are taken at once without lingering.
const LARGE: usize = 1 << 20;

/// The queue.
pub(super) struct RecordQueue {
    /// As which the journal knows it.
    pub(super) reader: ReaderId,
    inner: Mutex<Inner>,
    arrived: Arc<Condvar>,
    /// In front of commands that write.
    backpressure: &'static Backpressure,
}

#[derive(Default)]
struct Inner {
    bytes: Pieces,
    /// What they may go on in.
    spare: Vec<AlignedBuffer>,
    /// How many records these bytes are.
    records: usize,
    /// With how many of them the writer waits no longer for more.
    company: usize,
    trust: ReturnPredictor,
    /// Bytes that the writer took and that the system does not have yet.
    taken: usize,
    end: Lsn,
    /// The database that is selected there.
    database: usize,
    /// Of which history of replication the records are.
    history: Option<StreamHistory>,
    /// Each with how many of the bytes come before it.
    orders: Vec<(usize, WriterCommand)>,
    wait: WriterWait,
    /// Whether replies wait for what is here.
    is_urgent: bool,
    /// Whether any of the records that are here does not wait for `rest`.
    is_due: bool,
    /// Whether no writer comes any more.
    is_without_writer: bool,
}

/// What the writer did last: clients that were answered by that come again soon, and one sync for
/// them and for clients that came meanwhile takes less than two.
#[derive(Clone, Copy, Default)]
pub(super) struct LastBatch {
    pub(super) records: usize,
    /// How long it took to make them safe.
    pub(super) took: Duration,
    /// Bytes of what was taken that are not written yet.
    pub(super) left: usize,
}

impl LastBatch {
    /// How long clients that were answered are waited for.
    fn group_wait(&self) -> Duration {
        let records = u32::try_from(self.records).unwrap_or(u32::MAX);
        MOST.min(RETURN.saturating_mul(records)).max(self.took / 2)
    }
}

/// Whether clients that were answered come again while they are waited for. Where they do not, as
/// where many clients write now and then, to wait for them is to be late for clients that are
/// there.
#[derive(Default)]
struct ReturnPredictor {
    /// How often in a row they did not.
    failures: u32,
    /// So many times nobody is waited for.
    passes: u32,
}

impl ReturnPredictor {
    /// Whether they are waited for this time.
    fn holds(&mut self) -> bool {
        let holds = self.passes == 0;
        self.passes = self.passes.saturating_sub(1);
        holds
    }

    /// The records came, or did not.
    fn record(&mut self, have_come: bool) {
        self.failures = if have_come { 0 } else { (self.failures + 1).min(DOUBLINGS) };
        self.passes = (1 << self.failures) - 1;
    }
}

/// What the writer waits for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum WriterWait {
    #[default]
    Nothing,
    /// Anything.
    Anything,
    /// For more, but not long.
    More,
}

impl Inner {
    /// Says where the data stand behind all that is here.
    fn history_line(&self) -> Vec<u8> {
        let place = self.history.and_then(|history| history.at(self.end, self.database));
        history_line(place.map(|place| place.to_string()).as_deref())
    }

    /// Whether the writer has something to do.
    fn has_work(&self) -> bool {
        !self.orders.is_empty() || self.records > 0 && (self.is_due || self.bytes.len() > LARGE)
    }

    /// Whether the writer waits for no more than there is. The writer is to be woken then, once.
    fn is_enough(&mut self) -> bool {
        let is_enough = match self.wait {
            WriterWait::Nothing => false,
            WriterWait::Anything => self.has_work(),
            WriterWait::More => self.bytes.len() > LARGE || self.records >= self.company,
        };
        if is_enough {
            self.wait = WriterWait::Nothing;
        }
        is_enough
    }
}

/// What the writer takes at once.
pub(super) struct QueuedWork {
    pub(super) bytes: Pieces,
    pub(super) records: usize,
    /// Where the journal is behind these bytes.
    pub(super) end: Lsn,
    pub(super) orders: Vec<(usize, WriterCommand)>,
}

/// The queue's end at the journal.
pub(super) struct QueueReader(pub(super) Arc<RecordQueue>);

impl JournalReader for QueueReader {
    fn record(&mut self, lsn: Lsn, bytes: &[u8], may_wait: bool) -> bool {
        self.0.put(lsn, bytes, may_wait)
    }

    fn record_kept(&mut self, lsn: Lsn, bytes: &[u8], kept: &[u8]) {
        let note = StreamNote { stream: bytes.len() as u64, kept: kept.len() as u64 };
        self.0.note_beside(lsn, note.stream);
        self.0.put(lsn, &[&note.line(), kept].concat(), false);
    }

    fn logs_local_writes(&self) -> bool {
        true
    }

    fn selects(&mut self, database: usize) {
        self.0.lock().database = database;
    }

    fn set_history(&mut self, lsn: Lsn, history: Option<StreamHistory>) {
        let mut inner = self.0.lock();
        inner.end = lsn;
        if std::mem::replace(&mut inner.history, history) == history {
            return;
        }
        let line = inner.history_line();
        drop(inner);
        self.0.put(lsn, &line, false);
    }

    fn flush(&mut self) -> Option<Sleeper> {
        self.0.flush().map(Sleeper::Thread)
    }
}

impl RecordQueue {
    /// For a log that begins where the journal ends now, or later.
    pub(super) fn new(
        backpressure: &'static Backpressure,
        reader: ReaderId,
        end: Lsn,
    ) -> Arc<Self> {
        let inner = Inner { end, ..Inner::default() };
        Arc::new(Self { reader, inner: Mutex::new(inner), arrived: Arc::default(), backpressure })
    }

    /// Records come from behind this end of the journal on.
    pub(super) fn begin_at(&self, end: Lsn) {
        self.lock().end = end;
    }

    /// A record ends at this LSN that has so many bytes of the stream: what more there is of the
    /// journal has no offsets.
    fn note_beside(&self, lsn: Lsn, stream: u64) {
        let mut inner = self.lock();
        let beside = (lsn - inner.end).saturating_sub(stream);
        inner.history = inner.history.map(|history| history.behind(beside));
    }

    /// Whether the record waits for `rest`.
    fn put(&self, lsn: Lsn, bytes: &[u8], may_wait: bool) -> bool {
        let mut guard = self.lock();
        let inner = &mut *guard;
        inner.bytes.append(bytes, &mut inner.spare);
        inner.records += 1;
        inner.end = lsn;
        if inner.bytes.len() > ROOM {
            self.backpressure.begin();
        }
        let waits = may_wait && inner.is_urgent;
        inner.is_due |= !waits;
        let is_enough = inner.is_enough();
        drop(guard);
        if is_enough {
            self.arrived.notify_one();
        }
        waits
    }

    /// The thread that left records waiting has no more for now. Returns the writer, if it is to be
    /// woken.
    fn flush(&self) -> Option<Arc<Condvar>> {
        let mut inner = self.lock();
        inner.is_due = inner.records > 0;
        inner.is_enough().then(|| Arc::clone(&self.arrived))
    }

    /// Tells the writer to do something behind the records that are here; with the LSN there.
    pub(super) fn order(&self, make: impl FnOnce(Lsn) -> WriterCommand) {
        let mut inner = self.lock();
        let (at, order) = (inner.bytes.len(), make(inner.end));
        if inner.is_without_writer {
            // The sender goes with the order, so the receiver learns that there is no answer.
            return;
        }
        let begins_file = matches!(order, WriterCommand::Cut(_) | WriterCommand::Seal(..));
        inner.orders.push((at, order));
        if begins_file {
            // Each file is loaded by itself. What says so is no part of the journal.
            let mut head = Vec::new();
            if inner.database != 0 {
                head = selection(inner.database);
            }
            if inner.history.is_some() {
                head.extend(inner.history_line());
            }
            let Inner { bytes, spare, .. } = &mut *inner;
            bytes.append(&head, spare);
        }
        inner.wait = WriterWait::Nothing;
        drop(inner);
        self.arrived.notify_one();
    }

    /// No writer takes anything from here on: no order that is here, or comes, is answered.
    pub(super) fn detach_writer(&self) {
        let mut inner = self.lock();
        inner.is_without_writer = true;
        let orders = std::mem::take(&mut inner.orders);
        drop(inner);
        drop(orders);
    }

    /// Whether replies wait for what comes, so that it must not linger.
    pub(super) fn set_urgent(&self, is_urgent: bool) {
        let mut inner = self.lock();
        inner.is_urgent = is_urgent;
        // No thread looks whether they still may wait.
        inner.is_due = inner.records > 0;
    }

    /// How many bytes wait, here or with the writer.
    pub(super) fn len(&self) -> usize {
        let inner = self.lock();
        inner.taken + inner.bytes.len()
    }

    /// Takes all there is, waiting for it so long, and then a little for more. `done` is what was
    /// taken before.
    pub(super) fn take(
        &self,
        patience: Option<Duration>,
        done: Pieces,
        last: LastBatch,
    ) -> QueuedWork {
        drop(self.recycle(done));
        let mut inner = self.lock();
        inner.taken = last.left;
        let company = inner.records + last.records;
        while !inner.has_work() {
            inner = self.pause(inner, WriterWait::Anything, patience);
            if patience.is_some() {
                break;
            }
        }
        let is_urgent = inner.is_urgent;
        let (company, group_wait) = match is_urgent {
            true => (company, last.group_wait()),
            false => (usize::MAX, LINGER),
        };
        let is_alone = (1..LARGE).contains(&inner.bytes.len()) && inner.records < company;
        let is_worth_it = is_alone && inner.orders.is_empty() && group_wait >= SHORTEST;
        if is_worth_it && (!is_urgent || inner.trust.holds()) {
            inner.company = company;
            inner = self.pause(inner, WriterWait::More, Some(group_wait));
            if is_urgent {
                let have_come = inner.records >= company || inner.bytes.len() > LARGE;
                inner.trust.record(have_come);
            }
        }
        inner.is_due = false;
        let orders = std::mem::take(&mut inner.orders);
        let (bytes, end) = (std::mem::take(&mut inner.bytes), inner.end);
        inner.taken += bytes.len();
        QueuedWork { bytes, records: std::mem::take(&mut inner.records), end, orders }
    }

    /// Has pieces filled again; those that are too many where nothing comes, to be dropped while
    /// nobody waits for the mutex.
    fn recycle(&self, done: Pieces) -> Vec<AlignedBuffer> {
        let mut inner = self.lock();
        done.recycle(&mut inner.spare);
        let kept = if inner.bytes.is_empty() { PIECES_KEPT } else { usize::MAX };
        let kept = kept.min(inner.spare.len());
        inner.spare.split_off(kept)
    }

    fn pause<'a>(
        &self,
        mut inner: MutexGuard<'a, Inner>,
        wait: WriterWait,
        time: Option<Duration>,
    ) -> MutexGuard<'a, Inner> {
        inner.wait = wait;
        const WHY: &str = "no critical section here panics";
        let mut inner = match time {
            Some(time) => self.arrived.wait_timeout(inner, time).expect(WHY).0,
            None => self.arrived.wait(inner).expect(WHY),
        };
        inner.wait = WriterWait::Nothing;
        inner
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no critical section here panics")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::time::Clock;
    use engine::journal::Journal;
    use engine::runtime::backpressure::Backpressure;

    use super::{
        LastBatch, MOST, PIECES_KEPT, Pieces, QueuedWork, ROOM, RecordQueue, ReturnPredictor,
        SHORTEST, WriterWait,
    };
    use crate::aof::WriterCommand;

    fn queue() -> (std::sync::Arc<RecordQueue>, &'static Backpressure) {
        let backpressure: &'static Backpressure = Box::leak(Box::default());
        let journal = Journal::new(Clock::system(), Box::leak(Box::default()));
        (RecordQueue::new(backpressure, journal.name_reader(), 100), backpressure)
    }

    fn all(work: &QueuedWork) -> Vec<u8> {
        work.bytes.slices(0, work.bytes.len()).collect::<Vec<_>>().concat()
    }

    #[test]
    fn orders_stand_between_the_records_where_they_were_given() {
        let (queue, _) = queue();
        queue.put(103, b"abc", false);
        queue.order(|lsn| {
            assert_eq!(lsn, 103);
            WriterCommand::Reconfigure
        });
        queue.put(105, b"de", false);
        let work = queue.take(None, Pieces::default(), LastBatch::default());
        assert_eq!((all(&work), work.end), (b"abcde".to_vec(), 105));
        assert!(matches!(work.orders[..], [(3, WriterCommand::Reconfigure)]));
        assert_eq!(queue.len(), 5, "they are not written yet");
        let last = LastBatch { left: 2, ..LastBatch::default() };
        let nothing = queue.take(Some(Duration::ZERO), work.bytes, last);
        assert!(nothing.bytes.is_empty() && nothing.end == 105);
        assert_eq!(queue.len(), 2, "the writer has some of them still");
    }

    /// The log is turned off while its writer comes to an end by a bug.
    #[test]
    fn an_order_that_no_writer_takes_is_answered_by_nobody() {
        let (queue, _) = queue();
        let order = || {
            let (sender, receiver) = std::sync::mpsc::channel();
            queue.order(|lsn| WriterCommand::Close(lsn, sender));
            receiver
        };
        let before = order();
        queue.detach_writer();
        assert!(before.recv().is_err() && order().recv().is_err());
    }

    /// The time is a bound that nobody reaches.
    #[test]
    fn clients_that_come_again_soon_are_waited_for() {
        let (queue, _) = queue();
        queue.set_urgent(true);
        let last = LastBatch { records: 2, took: Duration::from_secs(1000), left: 0 };
        queue.put(1, b"a", false);
        std::thread::scope(|scope| {
            let taking = scope.spawn(|| queue.take(None, Pieces::default(), last));
            while queue.lock().wait != WriterWait::More {
                std::thread::yield_now();
            }
            queue.put(2, b"b", false);
            queue.put(3, b"c", false);
            let work = taking.join().unwrap();
            assert_eq!((all(&work), work.records), (b"abc".to_vec(), 3));
        });
        queue.put(4, b"d", false);
        let last = LastBatch { took: Duration::ZERO, ..last };
        assert_eq!(
            queue.take(None, Pieces::default(), last).records,
            1,
            "a quick disk is not waited for"
        );
    }

    #[test]
    fn the_wait_for_answered_clients_is_bounded_by_their_number_and_the_disk() {
        let group_wait = |records, took| LastBatch { records, took, left: 0 }.group_wait();
        assert!(group_wait(1, Duration::ZERO) < SHORTEST, "one client alone");
        assert!(group_wait(2, Duration::from_micros(150)) < SHORTEST, "two, and a quick disk");
        assert!((SHORTEST..=MOST).contains(&group_wait(50, Duration::ZERO)));
        assert_eq!(group_wait(100_000, Duration::ZERO), MOST);
        assert_eq!(group_wait(usize::MAX, 4 * MOST), 2 * MOST);
    }

    #[test]
    fn clients_that_did_not_come_are_waited_for_ever_more_seldom() {
        let mut trust = ReturnPredictor::default();
        let mut passes = |have_come| {
            let passes = (0..).take_while(|_| !trust.holds()).count();
            trust.record(have_come);
            passes
        };
        assert_eq!([true, true, false, false].map(&mut passes), [0, 0, 0, 1]);
        assert_eq!([false; 6].map(&mut passes), [3, 7, 15, 31, 63, 63]);
        assert_eq!([true, false, true].map(&mut passes), [63, 0, 1]);
    }

    #[test]
    fn records_wait_for_those_of_the_same_gathering_where_replies_wait_for_them() {
        let (queue, _) = queue();
        assert!(!queue.put(1, b"a", true), "no reply waits");
        queue.take(None, Pieces::default(), LastBatch::default());
        queue.set_urgent(true);
        assert!(queue.put(2, b"b", true));
        std::thread::scope(|scope| {
            let taking = scope.spawn(|| queue.take(None, Pieces::default(), LastBatch::default()));
            while queue.lock().wait != WriterWait::Anything {
                std::thread::yield_now();
            }
            assert!(queue.put(3, b"c", true));
            assert!(queue.lock().wait == WriterWait::Anything, "it still waits");
            queue.flush().expect("the writer waits").notify_one();
            assert_eq!(taking.join().unwrap().records, 2);
        });
        assert!(queue.put(4, b"d", true));
        assert!(!queue.put(5, b"e", false), "whoever has no gathering waits for none");
        assert_eq!(queue.take(None, Pieces::default(), LastBatch::default()).records, 2);
        assert!(queue.put(6, b"f", true));
        queue.set_urgent(false);
        assert_eq!(queue.take(None, Pieces::default(), LastBatch::default()).records, 1);
        assert!(queue.flush().is_none());
        assert!(!queue.lock().has_work(), "there is nothing to be seen to");
    }

    #[test]
    fn what_a_burst_took_is_given_back_when_nothing_comes() {
        let (queue, _) = queue();
        let put = || queue.put(1, &vec![b'x'; ROOM / 2], false);
        put();
        let work = queue.take(None, Pieces::default(), LastBatch::default());
        put();
        let work = queue.take(None, work.bytes, LastBatch::default());
        assert!(queue.lock().spare.len() > PIECES_KEPT, "there was more");
        queue.take(Some(Duration::ZERO), work.bytes, LastBatch::default());
        assert_eq!(queue.lock().spare.len(), PIECES_KEPT);
    }

    #[test]
    fn backpressure_begins_when_the_queue_is_full() {
        let (queue, backpressure) = queue();
        queue.put(1, &vec![b'x'; ROOM], false);
        assert!(!backpressure.is_on());
        queue.put(2, b"x", false);
        assert!(backpressure.is_on());
    }
}
