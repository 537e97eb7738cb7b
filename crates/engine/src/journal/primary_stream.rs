//! What a server appends that follows a primary: that one's stream, and beside it what its own
//! clients write where they may.
//!
//! Invariants: the stream is passed on as it came, and an offset counts its bytes alone; what
//! clients write here is given to readers that keep the data, and to none that passes the stream on,
//! and has an LSN of its own, for which its reply waits.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use keyspace::{FeatureLevel, Lsn};

use super::{Journal, Tail, selection};
use crate::runtime::record_batch::RecordBatch;

impl Tail {
    /// Whether somebody keeps what clients write beside a stream.
    pub(super) fn logs_local_writes(&self) -> bool {
        self.takes_local && self.readers.iter().any(|attached| attached.reader.logs_local_writes())
    }
}

impl Journal {
    /// Says whether a primary's stream is what is appended from here on. The world must be stopped.
    /// Behind a stream that had selected another database the first record turns back.
    pub fn set_follows(&self, follows: bool) {
        let mut tail = self.tail();
        (tail.follows, tail.feature_level) = (follows, FeatureLevel::Nothing);
        self.show_writers(&tail);
        if !follows && tail.database != 0 {
            if !tail.readers.is_empty() {
                self.append_to(&mut tail, &RecordBatch::default(), &selection(0));
            }
            tail.select(0);
        }
    }

    /// Says whether something may be written here beside a primary's stream, by clients or as keys
    /// are evicted; returns whether that is new.
    pub fn set_takes_local(&self, takes_local: bool) -> bool {
        let mut tail = self.tail();
        let before = std::mem::replace(&mut tail.takes_local, takes_local);
        self.show_writers(&tail);
        before != takes_local
    }

    /// Says what a unit demands that was applied and is appended later.
    pub(crate) fn note_feature_level(&self, feature_level: FeatureLevel) {
        if feature_level != FeatureLevel::Nothing {
            let mut tail = self.tail();
            if !tail.readers.is_empty() {
                tail.feature_level = tail.feature_level.max(feature_level);
            }
        }
    }

    /// Whether transactions make records beside a primary's stream: then its units are to be
    /// appended under their locks, as those are.
    pub fn logs_local_writes(&self) -> bool {
        self.is_read.load(Ordering::Relaxed) && self.tail().follows
    }

    /// Appends whole units of a primary's stream, behind which this database is selected; returns
    /// the LSN there. The units count whether a reader takes them or not.
    pub fn append_stream(&self, units: &[u8], database: usize) -> Lsn {
        let mut tail = self.tail();
        let lsn = self.append_to(&mut tail, &RecordBatch::default(), units);
        tail.select(database);
        lsn
    }

    /// The same for a unit that did not do here what it did at the primary's: `kept` are commands
    /// that do what it did, if it did anything.
    pub fn append_kept(&self, unit: &[u8], kept: &[u8], database: usize) {
        let mut tail = self.tail();
        tail.lsn += unit.len() as u64;
        let (lsn, feature_level) = (tail.lsn, std::mem::take(&mut tail.feature_level));
        for attached in &mut tail.readers {
            if feature_level != FeatureLevel::Nothing {
                attached.reader.requires(feature_level, unit.len());
            }
            attached.reader.record_kept(lsn, unit, kept);
            self.await_written(attached);
        }
        tail.select(database);
    }

    /// Appends what clients took that waited for a unit of the stream, right behind it; returns the
    /// LSN there.
    pub fn append_taken(&self, record: &[u8]) -> Lsn {
        let mut tail = self.tail();
        match record {
            [] => tail.lsn,
            record => self.append_local(&mut tail, record),
        }
    }

    /// Appends what a client wrote beside the stream, for the readers that keep the data; returns
    /// the LSN behind it. A record begins and ends in the first database.
    pub(super) fn append_local(&self, tail: &mut Tail, record: &[u8]) -> Lsn {
        if !tail.takes_local {
            debug_assert!(false, "a read-only replica writes nothing by itself");
            return tail.lsn;
        }
        let len = record.len() as u64;
        (tail.lsn, tail.beside) = (tail.lsn + len, tail.beside + len);
        tail.history = tail.history.map(|history| history.behind(len));
        let lsn = tail.lsn;
        let kept = match tail.database {
            0 => Cow::Borrowed(record),
            other => Cow::Owned([&selection(0), record, &selection(other)].concat()),
        };
        for attached in
            tail.readers.iter_mut().filter(|attached| attached.reader.logs_local_writes())
        {
            attached.reader.record_kept(lsn, &[], &kept);
            self.await_written(attached);
        }
        lsn
    }
}
