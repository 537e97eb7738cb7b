//! The append-only file at a start: what its files hold is run again, and the log goes on where
//! they end.
//!
//! Invariant: only the end of the last file may be damaged, and only as far as the configuration
//! allows; that end is cut off before anything is written behind it.

use std::io;
use std::path::Path;

use base::io_error_text::strerror;
use config::settings::{AOF_LOAD_CORRUPT_TAIL_MAX_SIZE, AOF_LOAD_TRUNCATED};
use engine::journal::selection;
use engine::keyspace_settings::set_replays;
use engine::limits::gate_state::GateState;
use engine::runtime::background::wait_for;
use engine::runtime::log::{log_notice, log_warning};
use engine::shared::Shared;
use keyspace::{Acquisition, Tx, TxOptions};
use persist::aof::manifest::AofFile;
use persist::aof::{
    AofDamage, AofError, CutPoint, HistoryPlace, Unit, UnitReader, is_synced_beyond,
};
use persist::rdb::file::{Damage, FileWriter, Options};
use persist::storage::{File, OpenMode, read_full};
use replication::history::SavedHistory;

use super::files::{
    AofDirectory, Beginning, make_directory, naming, new_base_path, unmade_directory,
};
use super::writer::LastIncrement;
use super::{base_form, resume};
use crate::durability::Durability;
use crate::loading::{self, OnDuplicate, snapshot};
use crate::replay::partitioner::Partitioner;
use crate::replay::pipeline::Pipeline;
use crate::replay::read_ahead::{ReplayStop, SourceEnd, UnitSource, run_each};
use crate::replay::replayer;

/// How snapshots begin.
const MAGICS: [&[u8]; 2] = [b"REDIS", b"VALKEY"];
const MAGIC_LEN: usize = 6;

/// What is there to be loaded.
pub struct AofFiles {
    files: AofDirectory,
    /// In bytes.
    total: u64,
}

/// What becomes of a log whose end is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The torn end is cut off, if that is allowed.
    Mended,
    /// The log is refused, and stays as it is.
    Kept,
}

/// Looks what there is. The error is for the operator.
pub fn find(server: &'static Durability) -> Result<AofFiles, String> {
    let made = make_directory(server, None);
    made.map_err(|error| unmade_directory(server, &error))?;
    let mut files = AofDirectory::find(server)?;
    let taken = files.take_over_single();
    taken.map_err(|error| {
        format!(
            "Can't upgrade the old AOF file {}: {}",
            files.single_path().display(),
            strerror(&error)
        )
    })?;
    measure(server, files)
}

/// Looks what there is of our own log, which is written meanwhile.
pub fn find_own(server: &'static Durability) -> Result<AofFiles, String> {
    measure(server, AofDirectory::peek(server)?)
}

/// Looks what a manifest names, which is not our own. The error is for the operator.
pub fn find_foreign(server: &'static Durability, manifest: &Path) -> Result<AofFiles, String> {
    let stock = measure(server, AofDirectory::of_manifest(server, manifest)?)?;
    match stock.is_empty() {
        true => Err(format!("There is no log at {}", manifest.display())),
        false => Ok(stock),
    }
}

fn measure(server: &Durability, files: AofDirectory) -> Result<AofFiles, String> {
    let mut total = 0;
    for file in files.manifest().files() {
        let path = files.path(file);
        let length = server.storage.open(&path, OpenMode::Read).and_then(|file| file.length());
        let fault = |error| format!("The AOF file {}: {}", path.display(), strerror(&error));
        total += length.map_err(fault)?;
    }
    Ok(AofFiles { files, total })
}

impl AofFiles {
    pub(crate) fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Loads all there is and begins to write behind it; where the data stand in a history of
    /// replication, if the log says so. The error is for the operator.
    pub(crate) fn load(self, server: &'static Durability) -> Result<Option<SavedHistory>, String> {
        let mut files = self.files;
        let is_new = files.manifest().files().len() == 0;
        let began_us = server.keyspace.clock().monotonic_us();
        // Nothing is over before the log says so; a snapshot in it is a part of it.
        set_replays(server, true);
        let passed_over = server.aof.passed_over();
        let replayed = replay(server, &files, Ending::Mended, &mut None)?;
        let Replayed { bytes: total, base, number, .. } = replayed;
        if is_new {
            begin_base(server, &mut files).map_err(|error| {
                let directory = files.directory().display();
                format!("Can't create the AOF base file in {directory}: {}", strerror(&error))
            })?;
        } else {
            let seconds = seconds_since(server, began_us);
            log_notice!(server.log, "DB loaded from append only file: {seconds:.3} seconds");
        }
        let last = open_last(server, &mut files, number);
        let last =
            last.map_err(|error| format!("Can't open the append-only file {}", strerror(&error)))?;
        // What cannot be removed now a later rewrite finds.
        super::rewrite::remove(server, files.take_leftovers().unwrap_or_default());
        // How long the log was when its base was made nobody has noted. To take all of it would let
        // a log grow for ever whose server ends before it has grown by enough.
        server.aof.stats.set_sizes(total, base);
        // Nothing is changed before the log is attached.
        let mut world = Acquisition::of_world(server.keyspace);
        wait_for(&mut world);
        server.journal.select(replayed.database);
        resume(server, files, last)?;
        if replayed.database != 0 && !server.gates.replica_role.is_replica() {
            // What the log has was a primary's, in the database which that had selected.
            server.journal.append_kept(&[], &selection(0), 0);
        }
        drop(world);
        set_replays(server, false);
        // Without a command that was passed over the data stand in no history.
        let is_whole = server.aof.passed_over() == passed_over;
        Ok(replayed.saved_history().filter(|_| is_whole))
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.manifest().files().len() == 0
    }

    /// Loads all there is and leaves it as it is.
    pub(crate) fn read(&self, server: &'static Durability) -> Result<(), String> {
        self.read_on(server, &mut None)
    }

    /// The same on a transaction that has the world, with nothing beside it; the transaction comes
    /// back. If the log is our own, nothing may be written to it meanwhile, nor a base be under
    /// way.
    pub fn read_within(&self, server: &'static Durability, tx: Tx) -> Result<Tx, String> {
        let mut held = Some(tx);
        self.read_on(server, &mut held)?;
        Ok(held.expect("what was held comes back"))
    }

    fn read_on(&self, server: &'static Durability, held: &mut Option<Tx>) -> Result<(), String> {
        set_replays(server, true);
        let replayed = replay(server, &self.files, Ending::Kept, held);
        set_replays(server, false);
        replayed.map(drop)
    }
}

/// How a transaction is begun that has the world while our own log is loaded.
pub fn options_within(server: &Durability, lane: usize) -> TxOptions {
    replayer::options(lane, server.keyspace.clock().now_ms())
}

fn seconds_since(server: &Durability, began_us: i64) -> f64 {
    (server.keyspace.clock().monotonic_us() - began_us) as f64 / 1e6
}

/// What files were found to be.
#[derive(Default)]
struct Replayed {
    /// How many bytes they have.
    bytes: u64,
    /// How many of them the base has.
    base: u64,
    /// What the marks of the last one are known by.
    number: Option<u64>,
    /// Where the data stand in a history, as far as notes say.
    history: Option<HistoryPlace>,
    /// The database that is selected in the last one.
    database: usize,
    /// Whether there is anything in it.
    has_content: bool,
}

impl Replayed {
    fn saved_history(&self) -> Option<SavedHistory> {
        let HistoryPlace { note, since } = self.history.as_ref()?;
        let noted = SavedHistory::parse(note)?;
        let (offset, database) = (noted.offset.checked_add(*since)?, self.database);
        Some(SavedHistory { offset, database: u32::try_from(database).ok()?, ..noted })
    }
}

/// Runs all files again, on a transaction that has the world, if there is one.
fn replay(
    server: &'static Durability,
    files: &AofDirectory,
    ending: Ending,
    held: &mut Option<Tx>,
) -> Result<Replayed, String> {
    let mut all = Replayed::default();
    let in_order: Vec<&AofFile> = files.manifest().files().collect();
    for (index, file) in in_order.iter().enumerate() {
        let may_mend = ending == Ending::Mended && index + 1 == in_order.len();
        let source = Source { server, path: &files.path(file), before: all.bytes, may_mend };
        let began_us = server.keyspace.clock().monotonic_us();
        let replayed = source.load(held)?;
        all.bytes += replayed.bytes;
        all.number = replayed.number;
        if replayed.has_content {
            (all.history, all.database) = (replayed.history, replayed.database);
        }
        let is_base = files.manifest().base() == Some(*file);
        if is_base {
            all.base = replayed.bytes;
        }
        log_notice!(
            server.log,
            "DB loaded from {} file {}: {:.3} seconds",
            if is_base { "base" } else { "incr" },
            String::from_utf8_lossy(&file.name),
            seconds_since(server, began_us)
        );
    }
    Ok(all)
}

/// A file that is loaded.
struct Source<'a> {
    server: &'static Durability,
    path: &'a Path,
    /// The bytes of the files before it.
    before: u64,
    /// Whether a damaged end may be cut off.
    may_mend: bool,
}

impl Source<'_> {
    /// Loads the file; a damaged end is cut off.
    fn load(&self, held: &mut Option<Tx>) -> Result<Replayed, String> {
        let mut file = self.open()?;
        let length = file.length().map_err(|error| self.failure(&strerror(&error)))?;
        let mut head = vec![0; MAGIC_LEN];
        let count =
            read_full(&mut *file, &mut head).map_err(|error| self.failure(&strerror(&error)))?;
        head.truncate(count);
        let mut offset = 0;
        if MAGICS.iter().any(|magic| head.starts_with(magic)) {
            log_notice!(self.server.log, "Reading RDB base file on AOF loading...");
            file = self.open()?;
            let end = match held {
                None => snapshot::load(self.server, &mut *file, OnDuplicate::Refused),
                Some(tx) => {
                    snapshot::load_within(self.server, &mut *file, OnDuplicate::Refused, tx)
                }
            };
            let end = end.map_err(|error| match error.damage {
                Damage::Unread(_) | Damage::Stopped => self.failure(&error.to_string()),
                _ => self.refuse(&error.to_string()),
            })?;
            (offset, head) = (end.offset, end.rest);
        }
        self.run(UnitReader::behind(&mut *file, offset, head), length, held)
    }

    /// Runs the commands of the file again.
    fn run(
        &self,
        reader: UnitReader<'_>,
        length: u64,
        held: &mut Option<Tx>,
    ) -> Result<Replayed, String> {
        let shares = if held.is_some() { 1 } else { loading::threads(self.server) };
        let Shared { gates: GateState { loading, .. }, keyspace, log, .. } = &***self.server;
        let report = |at| loading.advance_to(self.before + at, keyspace.clock(), log);
        let mut pipeline = Pipeline::new(self.server, shares, held.take(), report);
        let partitioner = Partitioner::new(self.server, shares);
        let read = run_each(reader, partitioner, |segments, end| pipeline.run(segments, end));
        let told = |stopped| match stopped {
            ReplayStop::Malformed(why) => self.refuse(&why),
            ReplayStop::Refused(why) => self.refuse_command(&why),
            ReplayStop::Alone(why) | ReplayStop::Panicked(why) => self.failure(&why),
        };
        let SourceEnd { end, source } = read.map_err(told)?;
        let (cut_point, number) = (source.cut_point(), source.number());
        let (history, database) = (source.history().cloned(), source.database());
        let has_content = history.is_some() || cut_point.offset() > 0;
        *held = pipeline.finish().map_err(told)?;
        let bytes = match end {
            // Padding is no part of it. And what is appended to a part of a batch would seem to be
            // of what was cut off.
            Ok(())
                if self.may_mend
                    && (cut_point.offset() < length || cut_point.is_within_batch()) =>
            {
                self.cut(cut_point)?
            }
            Ok(()) => length,
            Err(error) => self.mend(&error, cut_point, length, number)?,
        };
        let database = Some(database).filter(|it| *it < self.server.keyspace.database_count());
        let history = history.filter(|_| database.is_some());
        let database = database.unwrap_or(0);
        Ok(Replayed { bytes, number, history, database, has_content, ..Replayed::default() })
    }

    fn open(&self) -> Result<Box<dyn File>, String> {
        let file = self.server.storage.open(self.path, OpenMode::Read);
        file.map_err(|error| self.failure(&strerror(&error)))
    }

    /// Cuts a damaged end off, if that is allowed; how long the file is then.
    fn mend(
        &self,
        error: &AofError,
        cut_point: CutPoint,
        length: u64,
        number: Option<u64>,
    ) -> Result<u64, String> {
        let config = &self.server.config;
        let if_truncated = || config.get(AOF_LOAD_TRUNCATED).then_some("aof-load-truncated");
        let allowed_by = match error.damage {
            AofDamage::Torn => if_truncated(),
            AofDamage::Malformed { .. }
                if length - error.offset <= config.get(AOF_LOAD_CORRUPT_TAIL_MAX_SIZE) =>
            {
                Some("aof-load-corrupt-tail-max-size")
            }
            AofDamage::Malformed { from, .. } if self.may_be_unsynced(from, number)? => {
                if_truncated()
            }
            _ => None,
        };
        let Some(option) = allowed_by.filter(|_| self.may_mend) else {
            let why = error.to_string();
            let is_unread = matches!(error.damage, AofDamage::Unread(_));
            return Err(if is_unread { self.failure(&why) } else { self.refuse(&why) });
        };
        let (log, path) = (&self.server.log, self.path.display());
        log_warning!(log, "!!! Warning: short read while loading the AOF file {path}!!!");
        log_warning!(log, "Truncating the AOF {path} at offset {}", error.offset);
        let length = self.cut(cut_point)?;
        log_warning!(log, "AOF {path} loaded anyway because {option} is enabled");
        Ok(length)
    }

    fn cut(&self, cut_point: CutPoint) -> Result<u64, String> {
        let cut = cut_point.cut(&*self.server.storage, self.path);
        cut.map_err(|error| self.failure(&strerror(&error)))
    }

    /// Whether a power loss may have left what is there from a place on, so that nobody relied on
    /// it.
    fn may_be_unsynced(&self, from: u64, number: Option<u64>) -> Result<bool, String> {
        // A file without marks does not say so.
        let Some(number) = number else { return Ok(false) };
        let is_synced = is_synced_beyond(&mut *self.open()?, number, from);
        is_synced.map(|is_synced| !is_synced).map_err(|error| self.failure(&strerror(&error)))
    }

    /// What is wrong lies not with the file: nothing is to be done to it.
    fn failure(&self, why: &str) -> String {
        format!("Can't load the append only file {}: {why}", self.path.display())
    }

    /// A command of it fails here, and did not where it was written.
    fn refuse_command(&self, why: &str) -> String {
        format!(
            "Can't load the append only file {}, which is sound: {why}. With aof-load-errors \
             ignore it is loaded without what fails",
            self.path.display()
        )
    }

    fn refuse(&self, why: &str) -> String {
        format!(
            "Bad file format reading the append only file {}: {why}. Make a backup of your AOF \
             file, then use apus check aof --fix <filename.manifest>",
            self.path.display()
        )
    }
}

impl UnitSource for UnitReader<'_> {
    fn next_unit(&mut self) -> Result<Option<Unit>, AofError> {
        UnitReader::next_unit(self)
    }

    fn position(&self) -> u64 {
        self.cut_point().offset()
    }
}

/// Begins with a base that holds nothing.
fn begin_base(server: &'static Durability, files: &mut AofDirectory) -> io::Result<()> {
    let path = new_base_path(server, None)?;
    let form = base_form(server);
    let options =
        Options { form, compresses: false, sums: true, access: None, version: 0, syncs: false };
    let opened = server.storage.open(&path, OpenMode::Create);
    let begun = opened.and_then(|file| FileWriter::begin(file, &[("aof-base", "1")], options));
    begun.and_then(FileWriter::finish).map_err(naming(&path))?;
    files.install(&path, form, Beginning::Absent)
}

/// The last increment, to be written on; what it holds is on disk.
fn open_last(
    server: &'static Durability,
    files: &mut AofDirectory,
    number: Option<u64>,
) -> io::Result<LastIncrement> {
    let last = files.manifest().increments().last().map(|file| files.path(file));
    let path = last.clone().unwrap_or_else(|| files.directory().to_path_buf());
    let opened = match last {
        Some(path) => server.storage.open(&path, OpenMode::Append),
        None => files.begin(Beginning::Joined),
    };
    let measured = opened.and_then(|mut file: Box<dyn File>| {
        file.sync()?;
        let length = file.length()?;
        Ok(LastIncrement { file, length, number })
    });
    measured.map_err(naming(&path))
}
