//! How far the journal's readers are, and what that means for replies.
//!
//! Each reader says how far all is safe with it, and whether replies rely on that. Every reply is
//! stamped with the highest LSN it saw. Where replies rely on the disk of a reader, a reply leaves
//! once that reader has acknowledged what it saw, so with several such readers once all of them
//! have. Where they rely on the system only, they wait from the moment on in which the reader is
//! late: the oldest record that the system does not have is older than [`LATE_US`]. A reader that
//! nobody relies on holds no reply, however far behind it is.
//!
//! Invariants: what was said to be safe stays safe, so a reader that is relied on later counts
//! from there on; what is safe may leave; while a reader that is relied on has failed no reply
//! waits, none of a write that is not safe says that it was done, and none shows it where they
//! wait for the disk.

use std::task::Waker;

use base::LineGrowth;
use keyspace::Lsn;

/// How long a record may wait for the system to have it before replies wait for that, in
/// microseconds: as much as a process that is killed may lose of what it acknowledged. A sync that
/// takes as long keeps replies waiting, too.
pub const LATE_US: i64 = 500_000;

/// Names a reader, before it is attached and when it is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderId(pub(super) u64);

/// What replies may rely on: where what they saw must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DurabilityLevel {
    /// Neither the system nor the disk needs to have it: replies never wait.
    #[default]
    None,
    /// The system, but for what is not older than [`LATE_US`].
    Os,
    /// The disk.
    Disk,
}

/// The tasks that are to look again whether waiting is over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeUp {
    Nobody,
    All,
}

/// The readers, and the tasks that wait for them.
#[derive(Default)]
pub(super) struct WaitingLine {
    pub(super) readers: Vec<ReaderProgress>,
    /// Why a reader fails, or failed last.
    pub(super) failure: String,
    pub(super) waiting: Vec<(Lsn, Waker)>,
    /// How often all were to look again.
    pub(super) wake_ups: u64,
    pub(super) growth: LineGrowth,
}

/// Where a task stands in the line of those that wait for safety, if it does: how often all were to
/// look again when it came, and what it waits for there. With that it is taken out of line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinePlace(pub(super) Option<(u64, Lsn)>);

/// How far a reader is.
pub(super) struct ReaderProgress {
    pub(super) id: ReaderId,
    pub(super) level: DurabilityLevel,
    /// All up to here is safe with it.
    pub(super) safe: Lsn,
    /// The system has all up to here from it.
    pub(super) written: Lsn,
    /// Replies that saw up to here leave, though that is not safe.
    pub(super) passed: Lsn,
    /// Whether replies wait for the system to have what they saw, as it is late.
    pub(super) is_late: bool,
    pub(super) has_failed: bool,
}

impl ReaderProgress {
    /// What replies may have seen that leave, as far as this reader is concerned.
    pub(super) fn durable(&self) -> Lsn {
        match self.level {
            DurabilityLevel::Disk => self.safe.max(self.passed),
            DurabilityLevel::Os if self.is_late => self.safe.max(self.written),
            DurabilityLevel::Os | DurabilityLevel::None => Lsn::MAX,
        }
    }

    /// The reader is not late any more: the tasks that waited as it was are to look again.
    pub(super) fn be_in_time(&mut self) -> WakeUp {
        if std::mem::take(&mut self.is_late) { WakeUp::All } else { WakeUp::Nobody }
    }
}

impl WaitingLine {
    /// A reader begins behind this LSN.
    pub(super) fn add(&mut self, id: ReaderId, lsn: Lsn) {
        self.readers.push(ReaderProgress {
            id,
            level: DurabilityLevel::None,
            safe: lsn,
            written: lsn,
            passed: 0,
            is_late: false,
            has_failed: false,
        });
    }

    pub(super) fn reader(&mut self, id: ReaderId) -> Option<&mut ReaderProgress> {
        self.readers.iter_mut().find(|reader| reader.id == id)
    }

    /// The readers that replies rely on.
    pub(super) fn durable_readers(&self) -> impl Iterator<Item = &ReaderProgress> {
        self.readers.iter().filter(|reader| reader.level != DurabilityLevel::None)
    }

    /// Has all tasks that wait look again. One that waits on queues again.
    pub(super) fn wake_all(&mut self) {
        self.wake_ups += 1;
        std::mem::take(&mut self.waiting).into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// What replies may rely on a reader for.
    pub(super) fn set_durability(&mut self, id: ReaderId, level: DurabilityLevel) {
        if let Some(reader) = self.reader(id) {
            (reader.level, reader.passed, reader.is_late) = (level, 0, false);
        }
    }
}
