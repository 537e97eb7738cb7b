//! A thread that runs units of a primary's stream: where it is in the journal, what is booked of
//! its commands, and who is woken.
//!
//! Invariant: one thread writes what is counted in its lane.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::time::{Moment, UnixMillis};
use config::PropagationErrorBehavior;
use config::settings::{PROPAGATION_ERROR_BEHAVIOR, REPLICA_READ_ONLY};
use engine::clients::mailbox::PendingWakes;
use engine::commit::accounting::{Applied, book_applied};
use engine::table::command_table::CommandEntry;
use engine::transaction::engine::Engine;
use keyspace::Lsn;
use proto::{Args, Limits, RequestParser};

/// A primary may allow longer arguments than we do.
pub(crate) const LIMITS: Limits = Limits {
    bulk: u32::MAX as usize,
    arguments: i32::MAX as usize,
    inline: 64 << 10,
    authenticated: true,
};

/// Where a stream comes from.
pub(crate) struct StreamSource {
    /// The address of the primary.
    pub(crate) peer: String,
    /// What an offset of the stream lacks to be an LSN.
    shift: AtomicU64,
}

impl StreamSource {
    /// A primary's, nothing of whose stream has come.
    pub(crate) fn new(peer: String) -> Self {
        Self { peer, shift: AtomicU64::new(0) }
    }

    /// The journal has this LSN where the stream has this offset.
    pub(crate) fn align(&self, offset: u64, lsn: Lsn) {
        self.shift.store(lsn.wrapping_sub(offset), Ordering::Relaxed);
    }

    fn lsn_of(&self, offset: u64) -> Lsn {
        offset.wrapping_add(self.shift.load(Ordering::Relaxed))
    }
}

/// A thread that runs units of a stream.
pub(crate) struct StreamThread {
    server: &'static Engine,
    source: Arc<StreamSource>,
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

    /// They are over: those are woken who have letters.
    pub(crate) fn end_batch(&self) {
        self.server.mailboxes.wake(&self.wakes);
    }

    /// Books a command that ran.
    #[inline]
    pub(super) fn book(
        &self,
        database: usize,
        entry: &'static CommandEntry,
        args: Args<'_>,
        has_failed: bool,
    ) {
        let now_us = self.server.keyspace.clock().since(self.began.get());
        let micros = u64::try_from(now_us - self.ticked_us.replace(now_us)).unwrap_or(0);
        let (lane, source) = (self.lane, &*self.source.peer);
        let applied = Applied { lane, source, database, entry, args, micros, has_failed };
        book_applied(self.server, &self.wakes, &applied);
    }

    /// Counts an error that a primary's command is answered with; whether it ends the stream.
    #[cold]
    pub(super) fn refuses_errors(&self) -> bool {
        self.server.stats.unexpected_errors.fetch_add(1, Ordering::Relaxed);
        let behavior = self.server.config.get(PROPAGATION_ERROR_BEHAVIOR);
        behavior != PropagationErrorBehavior::Ignore && self.server.config.get(REPLICA_READ_ONLY)
    }
}
