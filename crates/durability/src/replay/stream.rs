//! A thread that runs units of a primary's stream: where it is in the journal, what is accounted of
//! its commands, and which clients are woken.
//!
//! Invariants: one thread writes what is counted in its lane; a unit that was not applied as it
//! came is noted before it counts as applied.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use base::time::{Moment, UnixMillis};
use engine::clients::mailbox::PendingWakes;
use engine::commit::accounting::{AppliedCommand, account_applied};
use engine::table::command_table::CommandEntry;
use engine::transaction::engine::Engine;
use keyspace::Lsn;
use proto::{Args, RequestParser};

/// Where a stream comes from.
pub(crate) struct StreamSource {
    /// The address of the primary.
    pub(crate) peer: String,
    /// What an offset of the stream lacks to be an LSN.
    shift: AtomicU64,
    /// The offset of the first byte of the present piece.
    begin: AtomicU64,
    odd: Mutex<DivergentUnits>,
}

/// What is remembered of a stream beside where it is.
#[derive(Default)]
struct DivergentUnits {
    /// Units that are not appended yet.
    units: Vec<DivergentUnit>,
    /// The last bytes before the present piece.
    before: Vec<u8>,
}

/// A unit that did not do here what it did at the primary's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DivergentUnit {
    /// Its offsets.
    pub(crate) place: Range<u64>,
    /// The databases that are selected before and behind it.
    pub(crate) databases: [usize; 2],
    /// Commands that do what it did.
    pub(crate) kept: Vec<u8>,
}

/// So many bytes before a command that fails are shown.
const SHOWN: usize = 256;

impl StreamSource {
    /// A primary's, nothing of whose stream has come.
    pub(crate) fn new(peer: String) -> Self {
        Self { peer, shift: AtomicU64::new(0), begin: AtomicU64::new(0), odd: Mutex::default() }
    }

    /// The journal has this LSN where the stream has this offset, at which a piece begins.
    pub(crate) fn align(&self, offset: u64, lsn: Lsn) {
        self.realign(offset, lsn);
        self.begin.store(offset, Ordering::Relaxed);
    }

    /// The same within a piece: something was written beside the stream.
    pub(crate) fn realign(&self, offset: u64, lsn: Lsn) {
        self.shift.store(lsn.wrapping_sub(offset), Ordering::Relaxed);
    }

    /// A piece is done with.
    pub(crate) fn pass(&self, piece: &[u8]) {
        let before = &mut self.odd().before;
        before.extend_from_slice(&piece[piece.len().saturating_sub(SHOWN)..]);
        before.drain(..before.len().saturating_sub(SHOWN));
    }

    /// The last bytes before this offset, which lies in this piece.
    pub(super) fn bytes_before(&self, offset: u64, piece: &[u8]) -> Vec<u8> {
        let end = offset.saturating_sub(self.begin.load(Ordering::Relaxed));
        let here = &piece[..piece.len().min(usize::try_from(end).unwrap_or(usize::MAX))];
        let mut bytes = [&self.odd().before, here].concat();
        bytes.split_off(bytes.len().saturating_sub(SHOWN))
    }

    /// Notes a unit that is not to be appended as it came; where that is noted twice the second
    /// counts.
    pub(crate) fn note_divergent(&self, unit: DivergentUnit) {
        self.odd().units.push(unit);
    }

    /// Those up to this offset, in their order, which are appended now.
    pub(crate) fn take_divergent(&self, end: u64) -> Vec<DivergentUnit> {
        let mut odd = self.odd();
        let mut units: Vec<_> = odd.units.extract_if(.., |unit| unit.place.end <= end).collect();
        drop(odd);
        units.sort_by_key(|unit| unit.place.start);
        units.dedup_by(|later, unit| {
            let is_same = later.place == unit.place;
            if is_same {
                std::mem::swap(later, unit);
            }
            is_same
        });
        units
    }

    fn odd(&self) -> MutexGuard<'_, DivergentUnits> {
        self.odd.lock().expect("no critical section here panics")
    }

    fn lsn_of(&self, offset: u64) -> Lsn {
        offset.wrapping_add(self.shift.load(Ordering::Relaxed))
    }
}

/// A thread that runs units of a stream.
pub(crate) struct StreamThread {
    pub(super) server: &'static Engine,
    pub(super) source: Arc<StreamSource>,
    pub(super) lane: usize,
    /// Whose mailboxes have letters.
    pub(super) wakes: PendingWakes,
    /// Reads commands that lie in the bytes that came.
    pub(super) parser: RefCell<RequestParser>,
    /// When the present batch began, and when it was last looked at the clock.
    began: Cell<Moment>,
    ticked_us: Cell<i64>,
    /// The time of its units.
    pub(super) now: Cell<UnixMillis>,
}

impl StreamThread {
    /// One with this lane.
    pub(crate) fn new(server: &'static Engine, source: Arc<StreamSource>, lane: usize) -> Self {
        Self {
            server,
            source,
            lane,
            wakes: PendingWakes::default(),
            parser: RefCell::default(),
            began: Cell::default(),
            ticked_us: Cell::default(),
            now: Cell::default(),
        }
    }

    /// Where the journal is behind this offset of the stream.
    pub(super) fn lsn_of(&self, offset: u64) -> Lsn {
        self.source.lsn_of(offset)
    }

    /// A few units come: times are told from here on.
    pub(crate) fn begin_batch(&self) {
        self.now.set(self.server.keyspace.clock().now_ms());
        self.began.set(self.server.keyspace.clock().moment());
        self.ticked_us.set(self.began.get().us());
    }

    /// The units are over: clients that have letters are woken.
    pub(crate) fn end_batch(&self) {
        self.server.mailboxes.wake(&self.wakes);
    }

    /// Accounts for a command that ran.
    #[inline]
    pub(super) fn account(
        &self,
        database: usize,
        entry: &'static CommandEntry,
        args: Args<'_>,
        has_failed: bool,
    ) {
        let now_us = self.server.keyspace.clock().since(self.began.get());
        let micros = u64::try_from(now_us - self.ticked_us.replace(now_us)).unwrap_or(0);
        let (lane, source) = (self.lane, &*self.source.peer);
        let applied = AppliedCommand { lane, source, database, entry, args, micros, has_failed };
        account_applied(self.server, &self.wakes, &applied);
    }
}
