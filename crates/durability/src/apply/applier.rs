//! The thread that applies a stream, takes pieces of it, runs their units and appends them.
//!
//! Invariant: while it has leave, what is applied is appended before the leave ends; so there is no
//! moment at which somebody else has the world and one is there without the other.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Wake, Waker};
use std::thread::Thread;

use base::io_error_text::strerror;
use config::settings::REPLICA_IGNORE_DISK_WRITE_ERRORS;
use engine::runtime::background::{BETWEEN_LOOKS, wait_for};
use engine::runtime::counters::add;
use engine::runtime::lanes::APPLIER_LANE;
use engine::runtime::log::log_warning;
use engine::runtime::panics::{contain, text_of};
use keyspace::{Acquisition, HeavyPass, Location};
use proto::Output;

use super::queue::{Piece, PieceQueue};
use super::units::{StreamItem, StreamUnits};
use super::{ApplyReport, ReportTo};
use crate::durability::Durability;
use crate::loading::TurnstileGuard;
use crate::replay::parallel::{Running, ShareThreads};
use crate::replay::partitioner::{Partitioner, Segment, Task};
use crate::replay::read_ahead::ReplayStop;
use crate::replay::replayer::{Applied, Replayer};
use crate::replay::stream::{DivergentUnit, StreamSource, StreamThread};
use crate::stream_turns::StreamTurn;

/// After so many units the applier looks whether others want the world.
const GROUP: usize = 16;

/// After so many units that are run by this thread they are appended.
const APPEND_EACH: usize = 256;

/// So often it is told that what is applied is not kept.
const WARN_EACH_US: i64 = 10_000_000;

/// What the thread has.
pub(super) struct Applier {
    server: &'static Durability,
    queue: Arc<PieceQueue>,
    report: ReportTo,
    source: Arc<StreamSource>,
    thread: StreamThread,
    partitioner: Partitioner,
    shares: usize,
    threads: Option<ShareThreads>,
    out: Output,
    pass: Option<HeavyPass>,
    /// Whether each unit is appended under its locks, in one order with what clients write here.
    is_exact: bool,
    /// All up to this offset is applied,
    applied: u64,
    /// behind which this database is selected,
    database: usize,
    /// and all up to this one is appended and told.
    appended: u64,
    /// When the log was last told that nothing is kept, on the monotonic clock.
    warned_us: Option<i64>,
}

/// Why nothing more is applied.
enum End {
    Fault(String),
    /// The process is to end because of that.
    Panic(String),
    /// The process ends, or what is not applied was given up.
    Asked,
}

impl From<ReplayStop> for End {
    fn from(stopped: ReplayStop) -> Self {
        match stopped {
            ReplayStop::Malformed(why) | ReplayStop::Refused(why) | ReplayStop::Alone(why) => {
                Self::Fault(why)
            }
            ReplayStop::Panicked(line) => Self::Panic(line),
        }
    }
}

impl Applier {
    pub(super) fn new(
        server: &'static Durability,
        shares: usize,
        queue: Arc<PieceQueue>,
        peer: String,
        report: ReportTo,
    ) -> Self {
        let source = Arc::new(StreamSource::new(peer));
        Self {
            server,
            queue,
            report,
            thread: StreamThread::new(server, Arc::clone(&source), APPLIER_LANE),
            source,
            partitioner: Partitioner::new(server, shares),
            shares,
            threads: None,
            out: Output::new(),
            pass: None,
            is_exact: false,
            applied: 0,
            database: 0,
            appended: 0,
            warned_us: None,
        }
    }

    /// Applies what comes, until nothing does any more, or it cannot.
    pub(super) fn run(mut self, turn: &StreamTurn) {
        turn.wait();
        while let Some(piece) = self.queue.take() {
            let applied = contain(|| self.apply(&piece));
            let report = match applied {
                Ok(Ok(())) => {
                    self.queue.give_back(piece);
                    continue;
                }
                Ok(Err(End::Asked)) => return,
                Ok(Err(End::Fault(why))) => ApplyReport::Failed(why),
                Ok(Err(End::Panic(line))) => ApplyReport::Panicked(line),
                Err(panic) => ApplyReport::Failed(format!("a bug: {}", text_of(&*panic))),
            };
            self.pass = None;
            return (self.report)(report);
        }
    }

    fn apply(&mut self, piece: &Piece) -> Result<(), End> {
        self.enter()?;
        self.source.align(piece.begin(), self.server.journal.end());
        self.partitioner.select(piece.database);
        self.database = piece.database;
        (self.applied, self.appended) = (piece.begin(), piece.begin());
        let (commands, fault) = self.split(piece);
        let ran = self.run_segments(piece);
        if ran.is_ok() && fault.is_none() {
            (self.applied, self.database) = (piece.end, self.partitioner.database());
        }
        self.append_applied(piece);
        self.source.pass(&piece.bytes);
        self.pass = None;
        add(&self.server.threads.applier.commands, commands);
        ran?;
        fault.map_or(Ok(()), |why| Err(End::Fault(why)))
    }

    /// Makes tasks of the units of a piece; how many commands they are, and why not all of it is
    /// units.
    fn split(&mut self, piece: &Piece) -> (u64, Option<String>) {
        let mut units = StreamUnits::new(&piece.bytes, piece.begin());
        let mut commands = 0;
        loop {
            match units.next_unit() {
                Ok(Some(StreamItem::Command(args, place))) => {
                    let offset = |at: usize| piece.begin() + at as u64;
                    let offsets = offset(place.start)..offset(place.end);
                    commands += 1;
                    self.partitioner.add_within(args, place, offsets);
                }
                Ok(Some(StreamItem::Nothing(place))) => {
                    let offset = |at: usize| piece.begin() + at as u64;
                    let place = offset(place.start)..offset(place.end);
                    self.note_kept(place, self.partitioner.database(), Vec::new());
                }
                Ok(Some(StreamItem::Transaction(unit, kept))) => {
                    commands += unit.commands.len() as u64;
                    let (place, before) = (unit.offset..unit.end, self.partitioner.database());
                    self.partitioner.add(unit);
                    if let Some(kept) = kept {
                        self.note_kept(place, before, kept);
                    }
                }
                Ok(None) => return (commands, None),
                Err(why) => return (commands, Some(why)),
            }
        }
    }

    /// A log has this in the place of bytes that were just split, before which that database was
    /// selected.
    fn note_kept(&self, place: Range<u64>, before: usize, kept: Vec<u8>) {
        let databases = [before, self.partitioner.database()];
        self.source.note_divergent(DivergentUnit { place, databases, kept });
    }

    fn run_segments(&mut self, piece: &Piece) -> Result<(), End> {
        for segment in self.partitioner.take() {
            self.check_disk()?;
            match segment {
                Segment::Serial(tasks) => self.run_serial(piece, &tasks)?,
                Segment::Parallel(shares) => match self.lock_segment(piece, &shares)? {
                    Some(grant) => self.run_parallel(piece, shares, grant)?,
                    None => {
                        let mut tasks: Vec<Task> = shares.into_iter().flatten().collect();
                        tasks.sort_unstable_by_key(|task| task.offset);
                        self.run_serial(piece, &tasks)?;
                    }
                },
            }
        }
        Ok(())
    }

    /// What is applied while the disk keeps nothing would be lost with the process: as in Redis
    /// that ends here, unless it is to go on.
    fn check_disk(&mut self) -> Result<(), End> {
        let server = self.server;
        if !server.gates.write_refusals.is_disk_failing(&server.config) {
            return Ok(());
        }
        if !server.config.get(REPLICA_IGNORE_DISK_WRITE_ERRORS) {
            return Err(End::Panic("Replica was unable to write command to disk.".to_owned()));
        }
        let now_us = server.keyspace.clock().monotonic_us();
        if self.warned_us.is_none_or(|at_us| now_us - at_us >= WARN_EACH_US) {
            self.warned_us = Some(now_us);
            log_warning!(
                server.log,
                "Replica is applying a command even though it is unable to write to disk."
            );
        }
        Ok(())
    }

    fn run_serial(&mut self, piece: &Piece, tasks: &[Task]) -> Result<(), End> {
        for (index, group) in tasks.chunks(GROUP).enumerate() {
            self.prefetch(group);
            self.thread.begin_batch();
            let ran = group.iter().try_for_each(|task| self.run_task(piece, task));
            self.thread.end_batch();
            ran?;
            if index % (APPEND_EACH / GROUP) == 0 {
                self.append_applied(piece);
            }
            self.yield_to_world(piece)?;
        }
        Ok(())
    }

    /// Has the keys of units fetched from memory together.
    fn prefetch(&self, group: &[Task]) {
        if group.len() < 2 || self.pass.is_none() {
            return;
        }
        let locate = |task: &Task| task.resolved.and_then(|resolved| resolved.location);
        let locations: Vec<Location> = group.iter().filter_map(locate).collect();
        let keyspace = self.server.keyspace;
        let _guard = TurnstileGuard::enter(keyspace, APPLIER_LANE);
        keyspace.prefetch(APPLIER_LANE, &locations, group[0].state.database);
    }

    /// Runs a unit with nothing of the stream beside it.
    fn run_task(&mut self, piece: &Piece, task: &Task) -> Result<(), End> {
        let keyspace = self.server.keyspace;
        let mut grant = match task.needs_world {
            true => Acquisition::of_world(keyspace),
            false => Acquisition::of_partitions(keyspace, task.partitions.clone()),
        };
        loop {
            let has_world = grant.wants_world();
            if has_world {
                self.append_applied(piece);
                self.pass = None;
                grant = self.await_leave(|| {
                    let mut world = Acquisition::of_world(keyspace);
                    wait_for(&mut world);
                    world
                })?;
            } else {
                self.enter()?;
                if !grant.attempt() {
                    // The wait may take long.
                    self.append_applied(piece);
                    wait_for(&mut grant);
                }
            }
            let (server, stream, from) = (self.server, &self.thread, self.appended);
            let is_appended = has_world || self.is_exact;
            let append = |taken: &[u8]| {
                is_appended.then(|| {
                    append(server, &self.source, piece, from..task.end, task.selects);
                    let lsn = server.journal.append_taken(taken);
                    self.source.realign(task.end, lsn);
                    lsn
                })
            };
            let unit = (task, &**piece.bytes);
            match Replayer::apply(server, stream, unit, grant, &mut self.out, append)? {
                Applied::Done(_) => {
                    (self.applied, self.database) = (task.end, task.selects);
                    if is_appended {
                        self.report_appended();
                    }
                    return Ok(());
                }
                Applied::Needs(more) => grant = more,
            }
        }
    }

    /// The locks of all keys of a segment that may be run share by share: to readers that is one
    /// moment, as nobody has a key of it from before its first unit until its last. `None` where
    /// its units are to be told, or served, one by one.
    fn lock_segment(
        &mut self,
        piece: &Piece,
        shares: &[Vec<Task>],
    ) -> Result<Option<Acquisition>, End> {
        self.enter()?;
        if self.is_exact || self.are_units_followed() {
            return Ok(None);
        }
        let partitions = shares.iter().flatten().flat_map(|task| task.partitions.iter().copied());
        let mut grant = Acquisition::of_partitions(self.server.keyspace, partitions.collect());
        if !grant.attempt() {
            // The wait may take long.
            self.append_applied(piece);
            wait_for(&mut grant);
        }
        // No more come to wait, or to watch, under these locks.
        Ok(Some(grant).filter(|grant| !grant.has_waiters() && !self.are_units_followed()))
    }

    /// Whether anybody is told of units, each in its turn.
    fn are_units_followed(&self) -> bool {
        let server = self.server;
        server.keyspace.changes_are_observed()
            || server.keyspace.settings().events.load(Ordering::Relaxed) != 0
            || server.pushes.monitors.any()
    }

    fn run_parallel(
        &mut self,
        piece: &Piece,
        shares: Vec<Vec<Task>>,
        grant: Acquisition,
    ) -> Result<(), End> {
        let threads = match self.threads.take() {
            Some(threads) => threads,
            None => {
                let running = Running::Stream(Arc::clone(&self.source));
                let spawned = ShareThreads::spawn(self.server, self.shares, &running);
                spawned.map_err(|error| End::Fault(strerror(&error)))?
            }
        };
        let threads = self.threads.insert(threads);
        let last = shares.iter().filter_map(|tasks| tasks.last());
        let last = last.max_by_key(|task| task.end);
        let (end, database) =
            last.map_or((self.applied, self.database), |task| (task.end, task.selects));
        let handed_over = threads.hand_over(shares, &piece.bytes, Some(grant));
        // Whatever comes of it, no thread is at work behind this.
        threads.wait()?;
        handed_over?;
        (self.applied, self.database) = (end, database);
        self.append_applied(piece);
        self.yield_to_world(piece)
    }

    /// Appends what is applied, and says so.
    fn append_applied(&mut self, piece: &Piece) {
        let (from, to) = (self.appended, self.applied);
        if from < to {
            append(self.server, &self.source, piece, from..to, self.database);
            self.report_appended();
        }
    }

    /// All that is applied is appended: says so.
    fn report_appended(&mut self) {
        self.queue.note_applied((self.applied - self.appended) as usize);
        self.appended = self.applied;
        (self.report)(ApplyReport::Applied(self.applied));
    }

    /// Lets the world pass if somebody wants it.
    fn yield_to_world(&mut self, piece: &Piece) -> Result<(), End> {
        if !self.server.keyspace.is_world_wanted() || self.pass.is_none() {
            return Ok(());
        }
        self.append_applied(piece);
        self.pass = None;
        self.enter()
    }

    /// Has leave to run units: from here on nobody has the world, until it is given back.
    fn enter(&mut self) -> Result<(), End> {
        if self.pass.is_none() {
            let keyspace = self.server.keyspace;
            self.pass = Some(self.await_leave(|| {
                let mut pass = HeavyPass::for_visit(keyspace);
                pass.wait_while(|| true);
                pass
            })?);
        }
        Ok(())
    }

    /// The one door to running units, by a pass or with the world: waits while clients are paused,
    /// and while there is no room for what is to be appended. What was given up does not run.
    fn await_leave<T>(&mut self, take: impl Fn() -> T) -> Result<T, End> {
        loop {
            if self.server.gates.shutdown_request.is_asked() || self.queue.is_closed() {
                return Err(End::Asked);
            }
            if self.wait_at_gates() {
                continue;
            }
            let leave = take();
            // A pause waits for the world once it is on, so it is seen here, or waits for the end.
            // So is whether the rest was given up, as it is with the world stopped.
            if !self.is_paused() && !self.queue.is_closed() {
                self.is_exact = self.server.journal.logs_local_writes();
                return Ok(leave);
            }
        }
    }

    /// Waits a while if something keeps writers; whether something did.
    fn wait_at_gates(&self) -> bool {
        let waker = || Waker::from(Arc::new(WakeApplier(std::thread::current())));
        let is_kept = match self.server.gates.write_backpressure() {
            Some(backpressure) => backpressure.wait(&waker()),
            None => self.is_paused(),
        };
        if is_kept {
            std::thread::park_timeout(BETWEEN_LOOKS);
        }
        is_kept
    }

    fn is_paused(&self) -> bool {
        self.server.gates.pause.holds_writes(|| self.server.keyspace.clock().now_ms())
    }
}

/// Appends a part of a piece that is applied, behind which this database is selected. A log has
/// something else in the place of units that did something else here.
fn append(
    server: &Durability,
    source: &StreamSource,
    piece: &Piece,
    Range { start: mut from, end }: Range<u64>,
    database: usize,
) {
    for DivergentUnit { place, databases: [before, behind], kept } in source.take_divergent(end) {
        if from < place.start {
            server.journal.append_stream(piece.between(from, place.start), before);
        }
        server.journal.append_kept(piece.between(place.start, place.end), &kept, behind);
        from = place.end;
    }
    if from < end {
        server.journal.append_stream(piece.between(from, end), database);
    }
}

/// Wakes the applier where it waits for room.
struct WakeApplier(Thread);

impl Wake for WakeApplier {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
