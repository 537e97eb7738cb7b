//! The thread that writes the append-only file.
//!
//! The writer takes all records that have come, writes them in one piece, syncs as `appendfsync`
//! asks for, and tells the journal how far it is safe: one sync for all that wait. A write that
//! fails is cut off and tried again; a sync that fails makes the file worthless, as what of it is
//! on disk is not known: then only a base made of the memory helps.
//!
//! Invariants: what is acknowledged is on disk, in a file that the manifest names, with all that
//! comes before it; a file in the manifest ends with a whole batch, or this thread cuts it before
//! it writes more.

use std::io;
use std::iter;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use base::io_error_text::strerror;
use base::random::Random;
use config::AppendFsync;
use config::settings::{
    AOF_DIRECT_WRITES, AOF_TIMESTAMP_ENABLED, APPENDFSYNC, NO_APPENDFSYNC_ON_REWRITE,
};
use engine::runtime::failpoint;
use engine::runtime::log::{log_notice, log_warning};
use keyspace::Lsn;
use persist::aof::{SyncMark, check_line_of};
use persist::storage::File;

use super::buffers::Pieces;
use super::files::{AofDirectory, Beginning, bare};
use super::increment::{Increment, OVER_PADDING};
use super::queue::{self, QueuedWork, RecordQueue};
use super::{AofState, WriterCommand, rewrite, set_failed};
use crate::durability::Durability;
use crate::log_scheduling::LogScheduling;

/// Between two tries while the disk fails.
const RETRY_US: i64 = 250_000;

/// Between two syncs of `everysec`, in microseconds.
const SECOND_US: i64 = 1_000_000;

/// A sync that took longer counts as delayed.
const DELAYED_US: i64 = 2_000_000;

/// With `everysec` the disk begins with so many bytes before they are synced.
const WRITE_OUT: u64 = 8 << 20;

/// What the disk began with earlier, of which it has written most by the next time.
const WRITTEN_OUT: u64 = 8 * WRITE_OUT;

/// A disk that takes longer for a batch is given what comes before the next sync through the
/// memory of the system, which takes a burst that is too much for the disk.
const SLOW_US: i64 = 50_000;

/// What stands before a batch is shorter.
const ANNOTATIONS: usize = 160;

/// What the writer has to do.
pub(super) struct LogWriter {
    pub(super) server: &'static Durability,
    pub(super) queue: Arc<RecordQueue>,
    pub(super) files: AofDirectory,
    /// Whether only a backup needs it.
    pub(super) is_for_backup: bool,
    pub(super) state: LogState,
    /// The present increment; none before the first base.
    pub(super) file: Option<Increment>,
    /// How much of it is on disk, and what the last mark in it says of that.
    synced_length: u64,
    marked: Option<u64>,
    /// How much of it the disk has begun with.
    begun_length: u64,
    /// Whether the disk was slow since the last sync.
    is_slow: bool,
    /// What its marks are known by.
    number: u64,
    /// What could not be written yet.
    unwritten: Pieces,
    /// Up to where the journal is written.
    pub(super) end: Lsn,
    /// Up to where it is synced.
    synced: Lsn,
    synced_at_us: i64,
    /// How the increment began that follows the base under way.
    pub(super) cut: Option<Beginning>,
    /// The bytes of the first base, which is in its place, while what was told of before is not
    /// known to be safe.
    pub(super) securing: Option<u64>,
    /// When a base was last asked for.
    began_us: i64,
    /// The second of the last timestamp in the file.
    stamped: i64,
    /// A line with its batch.
    piece: Vec<u8>,
    scheduling: LogScheduling,
}

/// The increment that a start goes on with: whole batches, on disk.
pub(super) struct LastIncrement {
    pub(super) file: Box<dyn File>,
    pub(super) length: u64,
    /// What its marks are known by, if it has any.
    pub(super) number: Option<u64>,
}

/// How the log stands with its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogState {
    /// The log goes on in what the manifest names.
    Healthy,
    /// A write failed. Everything since is kept, and written when the disk takes it.
    WriteFailed,
    /// Only a new base helps; nothing is written before its cut.
    NeedsBase,
    /// A new base is under way, and what came since its cut is written beside.
    Rebuilding,
}

/// Whether the thread goes on.
#[derive(PartialEq, Eq)]
enum AfterCommand {
    On,
    End,
}

impl LogWriter {
    /// One that goes on with a file of whole batches, up to `end` of the journal.
    pub(super) fn resume(
        server: &'static Durability,
        queue: Arc<RecordQueue>,
        files: AofDirectory,
        LastIncrement { file, length, number }: LastIncrement,
        end: Lsn,
    ) -> Self {
        let new = Self::new(server, queue, files);
        let number = number.unwrap_or(new.number);
        let (state, file) = (LogState::Healthy, Some(Increment::new(file, length)));
        let (synced, synced_length, begun_length) = (end, length, length);
        Self { state, file, synced_length, begun_length, number, end, synced, ..new }
    }

    /// One that waits for a base.
    pub(super) fn new(
        server: &'static Durability,
        queue: Arc<RecordQueue>,
        files: AofDirectory,
    ) -> Self {
        Self {
            server,
            queue,
            files,
            is_for_backup: false,
            state: LogState::NeedsBase,
            file: None,
            synced_length: 0,
            marked: None,
            begun_length: 0,
            is_slow: false,
            number: Random::from_entropy().next_u64(),
            unwritten: Pieces::default(),
            end: 0,
            synced: 0,
            synced_at_us: 0,
            cut: None,
            securing: None,
            began_us: 0,
            stamped: 0,
            piece: Vec::new(),
            scheduling: LogScheduling::default(),
        }
    }

    /// The same, for a backup.
    pub(super) fn for_backup(
        server: &'static Durability,
        queue: Arc<RecordQueue>,
        files: AofDirectory,
    ) -> Self {
        Self { is_for_backup: true, ..Self::new(server, queue, files) }
    }

    /// Works until it is told to close.
    pub(super) fn run(&mut self) {
        let (mut done, mut last) = (Pieces::default(), queue::LastBatch::default());
        loop {
            let QueuedWork { bytes, records, end, orders } =
                self.queue.take(self.patience(), done, last);
            let began_us = self.now_us();
            self.scheduling.tick(self.server, began_us);
            let mut from = 0;
            for (at, order) in orders {
                self.write(bytes.slices(from, at));
                from = at;
                if self.execute(order) == AfterCommand::End {
                    return;
                }
            }
            self.write(bytes.slices(from, bytes.len()));
            self.end = end;
            done = bytes;
            if self.state == LogState::WriteFailed {
                self.retry();
            }
            if self.state != LogState::WriteFailed {
                // What has come since it was taken is younger than that. Where nothing is written
                // at all, writes are refused, or nobody relies on the log yet.
                self.server.journal.note_written(self.queue.reader, end, began_us);
            }
            self.sync_if_due();
            if self.state == LogState::NeedsBase && !self.is_for_backup && self.is_rested() {
                self.began_us = self.now_us();
                rewrite::begin(self.server);
            }
            self.server.gates.log_backpressure.end();
            let took = u64::try_from(self.now_us() - began_us).unwrap_or(0);
            let (took, left) = (Duration::from_micros(took), self.unwritten.len());
            last = queue::LastBatch { records, took, left };
            self.pad_ahead();
        }
    }

    /// Whether the next base may be asked for: some time behind the last attempt, and behind its
    /// end, however long that took.
    fn is_rested(&self) -> bool {
        let latest_us = self.began_us.max(self.server.aof.rewrite.ended_us());
        self.now_us() - latest_us >= RETRY_US
    }

    /// How long to wait for records; for ever if `None`.
    fn patience(&self) -> Option<Duration> {
        if matches!(self.state, LogState::WriteFailed | LogState::NeedsBase) {
            return Some(Duration::from_micros(RETRY_US.unsigned_abs()));
        }
        let policy = self.server.config.get(APPENDFSYNC);
        if self.end == self.synced || policy == AppendFsync::No {
            return None;
        }
        if self.postpones_sync() {
            return Some(Duration::from_micros(SECOND_US.unsigned_abs()));
        }
        let due = self.synced_at_us + SECOND_US - self.now_us();
        Some(Duration::from_micros(u64::try_from(due).unwrap_or(0).max(1000)))
    }

    fn execute(&mut self, order: WriterCommand) -> AfterCommand {
        failpoint::point_in_log();
        match order {
            WriterCommand::Reconfigure => {}
            WriterCommand::Cut(lsn) => {
                self.end = lsn;
                self.begin_increment();
            }
            WriterCommand::Base(base) => self.take_base(base),
            WriterCommand::Secure(lsn) => self.establish(lsn),
            WriterCommand::Seal(lsn, done) => {
                self.end = lsn;
                // The thread that waits may have lost patience.
                let _ = done.send(self.seal());
            }
            WriterCommand::Flush(lsn, done) => self.flush(lsn, &done),
            WriterCommand::Close(lsn, done) => {
                self.end = lsn;
                // A start cuts off what is there of a torn mark.
                self.mark_end();
                self.flush(lsn, &done);
                if self.securing.take().is_some() {
                    rewrite::done(self.server, None);
                }
                return AfterCommand::End;
            }
        }
        AfterCommand::On
    }

    /// Writes a batch of whole records.
    fn write<'a>(&mut self, batch: impl Iterator<Item = &'a [u8]> + Clone) {
        if self.state == LogState::NeedsBase {
            return;
        }
        if self.state == LogState::WriteFailed {
            self.keep(batch);
            return;
        }
        if let Err(error) = self.append(batch.clone()) {
            self.report("Error writing to the AOF file", &error);
            self.wait_for_disk(batch, &error);
        }
    }

    /// Keeps a batch that could not be written; what a failed write left is cut off later. A log
    /// that is not relied on yet begins anew instead, and nobody is refused for a backup's sake.
    fn wait_for_disk<'a>(&mut self, batch: impl Iterator<Item = &'a [u8]>, error: &io::Error) {
        if self.state == LogState::Rebuilding || self.is_for_backup || self.securing.is_some() {
            return self.need_base(error);
        }
        self.state = LogState::WriteFailed;
        self.keep(batch);
        self.fail(error);
    }

    fn keep<'a>(&mut self, batch: impl Iterator<Item = &'a [u8]>) {
        batch.for_each(|bytes| self.unwritten.append(bytes, &mut Vec::new()));
    }

    /// Writes a batch behind a line that tells whether it is whole.
    fn append<'a>(&mut self, batch: impl Iterator<Item = &'a [u8]> + Clone) -> io::Result<()> {
        let length = batch.clone().map(<[u8]>::len).sum::<usize>();
        if length == 0 || !self.make_room(length)? {
            return Ok(());
        }
        self.piece.clear();
        let now = self.server.keyspace.clock().now_ms() / 1000;
        if self.server.config.get(AOF_TIMESTAMP_ENABLED) && now != self.stamped {
            self.piece.extend_from_slice(format!("#TS:{now}\r\n").as_bytes());
            self.stamped = now;
        }
        self.mark();
        self.piece.extend_from_slice(&check_line_of(batch.clone()));
        failpoint::point_in_log();
        let began_us = self.now_us();
        self.write_piece(batch)?;
        failpoint::point_in_log();
        let took_us = self.now_us() - began_us;
        self.is_slow |= took_us > SLOW_US;
        self.note_latency("aof-write", took_us);
        let is_alone = !self.is_disk_busy();
        let event = if is_alone { "aof-write-alone" } else { "aof-write-active-child" };
        self.note_latency(event, took_us);
        self.begin_sync_if_due();
        Ok(())
    }

    /// Tells the latency monitor, under Redis' name for the event.
    fn note_latency(&self, event: &'static str, took_us: i64) {
        let micros = u64::try_from(took_us).unwrap_or(0);
        self.server.observed.latency.note(self.server.keyspace.clock(), event, micros);
    }

    /// Writes what is in `piece` and what follows it.
    fn write_piece<'a>(&mut self, rest: impl Iterator<Item = &'a [u8]> + Clone) -> io::Result<()> {
        let is_direct = self.is_direct();
        self.lengthen(|file, piece| file.write(piece, rest, is_direct))
    }

    /// Does something with the file, if there is one, and shows by how much it is longer then.
    fn lengthen(
        &mut self,
        work: impl FnOnce(&mut Increment, &mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let before = file.length();
        work(file, &mut self.piece)?;
        self.server.aof.stats.grow(file.length() - before);
        Ok(())
    }

    /// Sees to it that there is padding to write a batch over where each is synced, as that takes
    /// the disk less time; whether all that was written before is on disk, if it had to be.
    fn make_room(&mut self, length: usize) -> io::Result<bool> {
        let is_synced = self.server.config.get(APPENDFSYNC) == AppendFsync::Always;
        let pads = is_synced && self.state == LogState::Healthy && !self.is_for_backup;
        let count = length + ANNOTATIONS;
        let wants = |file: &Increment| count <= OVER_PADDING && file.wants_padding(count);
        if !pads || !self.file.as_ref().is_some_and(wants) {
            return Ok(true);
        }
        if self.marked.is_none() {
            // If a power loss takes the beginning of the first batch, too, the file is known to
            // have marks.
            self.piece.clear();
            self.mark();
            self.write_piece(iter::empty())?;
        }
        let is_direct = self.is_direct();
        self.lengthen(|file, _| file.pad(is_direct))?;
        Ok(self.sync())
    }

    /// Adds to the padding there is before a batch waits for that, while clients that were just
    /// answered have not come again.
    fn pad_ahead(&mut self) {
        if self.file.as_ref().is_some_and(Increment::is_padded)
            && let Err(error) = self.make_room(OVER_PADDING - ANNOTATIONS)
        {
            self.report("Error writing to the AOF file", &error);
            self.wait_for_disk(iter::empty(), &error);
        }
    }

    /// The log goes on in no file until it has another.
    pub(super) fn end_file(&mut self) {
        self.file = None;
        (self.synced_length, self.begun_length, self.marked) = (0, 0, None);
    }

    /// How much of the present increment are whole batches.
    pub(super) fn length(&self) -> u64 {
        self.file.as_ref().map_or(0, Increment::length)
    }

    /// Has the disk begin with much of what was written: to sync all that came in a second would
    /// take so long that clients had to wait for room in the queue. What it has written leaves the
    /// memory of the system, which is used again for what comes next.
    fn begin_sync_if_due(&mut self) {
        let length = self.length();
        let is_much = length - self.begun_length >= WRITE_OUT;
        let is_due = is_much && self.disk_begins_early();
        if let Some(file) = self.file.as_mut().filter(|_| is_due) {
            file.begin_sync(self.begun_length.saturating_sub(WRITTEN_OUT)..length);
            self.begun_length = length;
        }
    }

    /// Whether what is written may go past the memory of the system: the disk has it soon anyway.
    fn is_direct(&self) -> bool {
        let is_synced = self.server.config.get(APPENDFSYNC) == AppendFsync::Always;
        let is_soon = is_synced || self.disk_begins_early() && !self.is_slow;
        is_soon && self.server.config.get(AOF_DIRECT_WRITES)
    }

    /// Whether the disk is to begin with what is written before that is synced.
    fn disk_begins_early(&self) -> bool {
        self.server.config.get(APPENDFSYNC) == AppendFsync::Everysec && !self.postpones_sync()
    }

    /// Says how much of the file is on disk, unless that is said already.
    fn mark(&mut self) {
        let (offset, file) = (self.synced_length, self.number);
        if self.marked.replace(offset) != Some(offset) {
            self.piece.extend_from_slice(&SyncMark { offset, file }.line());
        }
    }

    /// At an end in good order: what is on disk was all, so that damage to it is seen as such.
    /// Whether all of it is on disk.
    pub(super) fn mark_end(&mut self) -> bool {
        if self.state != LogState::Healthy || !self.sync() {
            return false;
        }
        self.piece.clear();
        if self.length() > 0 {
            self.mark();
        }
        let cut_off = self.file.as_mut().map_or(Ok(()), Increment::cut_off);
        if let Err(error) = cut_off.and_then(|()| self.write_piece(iter::empty())) {
            self.report("Error writing to the AOF file", &error);
            self.wait_for_disk(iter::empty(), &error);
            return false;
        }
        self.sync()
    }

    /// Cuts off what a failed write left, and writes what has come since.
    pub(super) fn retry(&mut self) {
        let batch = std::mem::take(&mut self.unwritten);
        self.marked = None;
        let cut_off = self.file.as_mut().map_or(Ok(()), Increment::cut_off_all);
        if let Err(error) = cut_off.and_then(|()| self.append(batch.slices(0, batch.len()))) {
            self.unwritten = batch;
            return self.fail(&error);
        }
        self.state = LogState::Healthy;
        if self.sync() {
            self.recover("AOF write error looks solved. The server can write again.");
        }
    }

    /// Has the disk keep all there is, as far as it does, and wakes what waits for that.
    fn flush(&mut self, end: Lsn, done: &Sender<()>) {
        self.end = end;
        if self.state == LogState::WriteFailed {
            self.retry();
        }
        self.sync();
        // The thread that waits may have lost patience.
        let _ = done.send(());
    }

    fn sync_if_due(&mut self) {
        if self.end == self.synced {
            return;
        }
        let is_due = match self.server.config.get(APPENDFSYNC) {
            _ if self.postpones_sync() => {
                if self.state == LogState::Healthy {
                    self.server.journal.release_up_to(self.queue.reader, self.end);
                }
                false
            }
            AppendFsync::Always => true,
            AppendFsync::Everysec => self.now_us() - self.synced_at_us >= SECOND_US,
            AppendFsync::No => false,
        };
        if is_due {
            self.sync();
        }
    }

    /// Whether nothing is synced for now, as a base or a snapshot keeps the disk busy.
    fn postpones_sync(&self) -> bool {
        self.server.config.get(NO_APPENDFSYNC_ON_REWRITE) && self.is_disk_busy()
    }

    /// Whether a base or a snapshot is written beside the log.
    fn is_disk_busy(&self) -> bool {
        self.cut.is_some() || self.server.saves.is_running()
    }

    /// Has the disk keep what was written, and says so; whether that is true now.
    pub(super) fn sync(&mut self) -> bool {
        if matches!(self.state, LogState::WriteFailed | LogState::NeedsBase) {
            return false;
        }
        let Some(file) = &mut self.file else { return false };
        let (length, began_us) = (file.length(), self.server.keyspace.clock().monotonic_us());
        if let Err(error) = file.sync() {
            self.report("Fail to fsync the AOF file", &error);
            self.need_base(&error);
            return false;
        }
        failpoint::point_in_log();
        self.synced_at_us = self.now_us();
        let took_us = self.synced_at_us - began_us;
        self.server.aof.stats.note_sync(took_us > DELAYED_US);
        if self.server.config.get(APPENDFSYNC) == AppendFsync::Always {
            self.note_latency("aof-fsync-always", took_us);
        }
        self.synced = self.end;
        (self.synced_length, self.begun_length) = (length, length);
        self.is_slow = false;
        if self.state == LogState::Healthy {
            self.server.journal.acknowledge(self.queue.reader, self.end);
        }
        true
    }

    /// Writes to a file from its beginning on.
    pub(super) fn switch_file(&mut self, file: Box<dyn File>) {
        (self.file, self.stamped) = (Some(Increment::new(file, 0)), 0);
        (self.synced_length, self.begun_length, self.marked) = (0, 0, None);
        self.number = Random::from_entropy().next_u64();
        self.unwritten = Pieces::default();
    }

    /// Nothing that was written can be relied on any more.
    pub(super) fn need_base(&mut self, error: &io::Error) {
        self.state = LogState::NeedsBase;
        self.cut = None;
        self.unwritten = Pieces::default();
        self.server.backup.fail(self.server, &strerror(error));
        if self.securing.take().is_some() {
            self.server.aof.change_phase(self.server, AofState::Starting);
            rewrite::done(self.server, None);
        }
        self.fail(error);
    }

    /// Tells the operator what went wrong with the increment that is written.
    fn report(&self, what: &str, error: &io::Error) {
        let beginning = match self.state {
            LogState::Rebuilding => Beginning::Apart,
            _ => Beginning::Joined,
        };
        let path = self.files.written(beginning);
        let path = path.unwrap_or_else(|| self.files.directory().to_owned());
        log_warning!(self.server.log, "{what}: {}: {}", path.display(), bare(error));
    }

    fn fail(&self, error: &io::Error) {
        if self.server.aof.is_on() {
            // Replies do not say where the server keeps its files.
            let bar = || set_failed(self.server, true);
            self.server.journal.fail(self.queue.reader, bare(error), bar);
        }
        self.server.gates.log_backpressure.end();
    }

    pub(super) fn recover(&self, line: &str) {
        if self.server.journal.has_failed() {
            log_notice!(self.server.log, "{line}");
        }
        self.server.aof.set_lacks_base(false);
        self.server.journal.recover(self.queue.reader, self.synced);
        failpoint::point_in_log();
        set_failed(self.server, false);
    }

    fn now_us(&self) -> i64 {
        self.server.keyspace.clock().monotonic_us()
    }
}
