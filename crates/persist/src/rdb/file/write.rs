//! Writing a file: chunks, which any thread encodes, and one writer that puts them in a row.
//!
//! Invariants: a chunk says itself which database its entries are in, so chunks may come in any
//! order; the head tells the lowest version that all of them need, or the one that was asked for,
//! and then nothing needs a higher one. What is read while it is written begins with the one that
//! was asked for, or with our own, which holds everything.

use std::io;

use base::crc::{crc64, crc64_combine};
use keyspace::{AccessClock, EntryRef};

use super::{OLDEST, opcode};
use crate::aof::manifest::BaseForm;
use crate::aof::{check_line, commands};
use crate::entry_notes;
use crate::rdb::length::write_length;
use crate::rdb::string::write_bytes;
use crate::rdb::value::ValueRef;
use crate::rdb::{OWN, REDIS_7_2, VALKEY, Writer};
use crate::storage::{File, write_all};

/// Bytes after which a file that is synced as it grows is synced, so that the end is not one long
/// wait for the disk.
const SYNC_STEP: u64 = 4 << 20;

/// How a file is written.
#[derive(Clone, Debug)]
pub struct Options {
    /// In which words the data are told.
    pub form: BaseForm,
    /// Whether strings are compressed.
    pub compresses: bool,
    /// Whether the file ends with a checksum.
    pub sums: bool,
    /// By what each key's last access is told, if it is told.
    pub access: Option<AccessClock>,
    /// The version of the file; 0 is the lowest that will do.
    pub version: u16,
    /// Whether the file is synced as it grows.
    pub syncs: bool,
}

/// A part of a file that is being made.
pub struct ChunkWriter {
    options: Options,
    out: Writer,
    database: Option<usize>,
    version: u16,
    kind: &'static str,
}

/// A part of a file: items.
#[derive(Debug)]
pub struct Chunk {
    /// The items.
    pub bytes: Vec<u8>,
    /// The checksum of the bytes alone; 0 if there is none in the file.
    pub sum: u64,
    /// The version that a reader must know.
    pub version: u16,
    /// The type of a key that needs that; empty where none does.
    pub kind: &'static str,
    /// Whether the chunk ends within a value, which the next one goes on with: nothing may come
    /// between.
    pub is_followed: bool,
}

impl Chunk {
    fn new(bytes: Vec<u8>, options: &Options) -> Self {
        let sum = if options.sums_chunks() { crc64(0, &bytes) } else { 0 };
        Self { bytes, sum, version: OLDEST, kind: "", is_followed: false }
    }
}

impl Options {
    /// The version that values may need at most.
    fn newest_value(&self) -> u16 {
        match self.version {
            0 => u16::MAX,
            version => redis_version(version),
        }
    }

    /// Commands have sums in their check lines only.
    fn sums_chunks(&self) -> bool {
        self.sums && self.form == BaseForm::Snapshot
    }
}

impl ChunkWriter {
    /// An empty chunk.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let out = Writer::new(options.compresses);
        Self { options, out, database: None, version: OLDEST, kind: "" }
    }

    /// An empty chunk; one that a large value fills is passed on before the value is written
    /// whole.
    #[must_use]
    pub fn passing_on(options: Options, mut pass: Box<dyn FnMut(Chunk)>) -> Self {
        let how = options.clone();
        let outlet = move |bytes| pass(Chunk { is_followed: true, ..Chunk::new(bytes, &how) });
        let out = Writer::with_outlet(options.compresses, Box::new(outlet));
        Self { options, out, database: None, version: OLDEST, kind: "" }
    }

    /// Turns to a database, by the number that clients select.
    pub fn select(&mut self, database: usize) {
        if self.database.replace(database) == Some(database) {
            return;
        }
        match self.options.form {
            BaseForm::Commands => commands::write_select(&mut self.out, database),
            BaseForm::Snapshot => {
                self.out.push(opcode::DATABASE);
                write_length(&mut self.out, database as u64);
            }
        }
    }

    /// Tells how many keys the database has, and how many of them have deadlines, where there is a
    /// word for it.
    pub fn sizes(&mut self, keys: usize, volatile: usize) {
        debug_assert!(self.database.is_some(), "sizes are of a database");
        if self.options.form == BaseForm::Commands {
            return;
        }
        self.out.push(opcode::SIZES);
        write_length(&mut self.out, keys as u64);
        write_length(&mut self.out, volatile as u64);
    }

    /// Adds an entry of the database.
    pub fn entry(&mut self, entry: EntryRef<'_>) {
        debug_assert!(self.database.is_some(), "an entry is in a database");
        let out = &mut self.out;
        if self.options.form == BaseForm::Commands {
            return commands::write_entry(out, entry);
        }
        // First of all: a reader that knows no such note forgets what it has read of the entry.
        let flags = entry.notes().flags;
        if flags != 0 {
            write_note(out, entry_notes::FLAGS, &flags.to_string());
        }
        if entry.is_sticky() {
            write_note(out, entry_notes::STICKY, "yes");
        }
        if let Some(deadline) = entry.deadline() {
            out.push(opcode::DEADLINE_MS);
            out.extend(&deadline.to_le_bytes());
        }
        match &self.options.access {
            Some(clock) if clock.by_frequency() => {
                out.push(opcode::FREQUENCY);
                out.push(clock.frequency(entry.access_clock()) as u8);
            }
            Some(clock) => {
                out.push(opcode::IDLE);
                write_length(out, clock.idle_seconds(entry.access_clock()).into());
            }
            None => {}
        }
        let value = ValueRef::of(entry);
        let is_for_valkey = VALKEY.contains(&self.options.version);
        let value_type = match is_for_valkey {
            true => value.value_type_for_valkey(),
            false => value.value_type_within(self.options.newest_value()),
        };
        let needed = redis_version(value_type.version());
        if needed > self.version {
            (self.version, self.kind) = (needed, entry.kind().name());
        }
        out.push(value_type.byte());
        write_bytes(out, entry.key());
        match is_for_valkey {
            true => value.write_for_valkey(out),
            false => value.write_as(out, value_type),
        }
    }

    /// Tells something about the file, where there is a word for it.
    pub fn note(&mut self, name: &str, text: &str) {
        if self.options.form == BaseForm::Snapshot {
            write_note(&mut self.out, name, text);
        }
    }

    /// Tells the slots whose keys are copies.
    pub fn copied_slots(&mut self, slots: &str) {
        match self.options.form {
            BaseForm::Commands => commands::write_copied_slots(&mut self.out, slots),
            BaseForm::Snapshot => write_note(&mut self.out, entry_notes::COPIED_SLOTS, slots),
        }
    }

    /// Adds a library of functions, where there is a word for it.
    pub fn library(&mut self, code: &[u8]) {
        match self.options.form {
            BaseForm::Commands => commands::write_library(&mut self.out, code),
            BaseForm::Snapshot if self.options.newest_value() < OLDEST => {}
            BaseForm::Snapshot => {
                self.out.push(opcode::LIBRARY);
                write_bytes(&mut self.out, code);
            }
        }
    }

    /// Bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.bytes().len()
    }

    /// Whether nothing was written yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the chunk; the next one begins.
    pub fn finish(&mut self) -> Chunk {
        let bytes = self.out.take();
        self.database = None;
        let version = std::mem::replace(&mut self.version, OLDEST);
        let kind = std::mem::take(&mut self.kind);
        Chunk { version, kind, ..Chunk::new(bytes, &self.options) }
    }
}

/// Where the bytes of a file go, in their order: to a disk, or on to their reader there.
pub trait ByteSink: Send {
    /// Takes the next bytes; after an error any part of them may be taken.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes what was taken outlive a crash, where that can be said of it.
    fn sync(&mut self) -> io::Result<()>;

    /// Whether the first bytes can be written anew. Where they are gone by then the head tells from
    /// the beginning on which version is needed: the one that is asked for, or our own.
    fn keeps_head(&self) -> bool;

    /// Writes them anew.
    fn rewrite_head(&mut self, head: &[u8]) -> io::Result<()>;
}

impl ByteSink for dyn File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_all(self, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        File::sync(self)
    }

    fn keeps_head(&self) -> bool {
        true
    }

    fn rewrite_head(&mut self, head: &[u8]) -> io::Result<()> {
        self.write_at(0, head)
    }
}

/// A file that is being written.
pub struct FileWriter<S: ByteSink + ?Sized = dyn File> {
    sink: Box<S>,
    options: Options,
    /// The checksum of all but the head.
    sum: u64,
    /// Bytes of all but the head.
    len: u64,
    version: u16,
    unsynced: u64,
}

/// A file that is written and synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// How long it is.
    pub bytes: u64,
    /// Its version.
    pub version: u16,
}

impl<S: ByteSink + ?Sized> FileWriter<S> {
    /// Begins a new file with some notes about it, if there is a word for them.
    pub fn begin(sink: Box<S>, notes: &[(&str, &str)], options: Options) -> io::Result<Self> {
        let version = match options.version {
            0 if sink.keeps_head() => OLDEST,
            0 => OWN,
            asked => asked,
        };
        let mut writer = Self { sink, options, sum: 0, len: 0, version, unsynced: 0 };
        if writer.options.form == BaseForm::Commands {
            return Ok(writer);
        }
        writer.sink.write(&head(version))?;
        let mut out = Writer::new(false);
        for (name, text) in notes {
            write_note(&mut out, name, text);
        }
        writer.append(out.bytes())?;
        Ok(writer)
    }

    /// Adds a chunk.
    pub fn push(&mut self, chunk: &Chunk) -> io::Result<()> {
        match self.options.version {
            0 => self.version = self.version.max(chunk.version),
            // What is older is written in the words of then.
            asked if chunk.version > self.options.newest_value().max(OLDEST) => {
                let Chunk { version: needed, kind, .. } = chunk;
                let text = format!(
                    "a key of type {kind} needs RDB version {needed}, and {asked} is to be written"
                );
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
            _ => {}
        }
        if self.options.form == BaseForm::Commands {
            // A chunk ends behind a command.
            self.write(&check_line(&chunk.bytes), 0)?;
        }
        self.write(&chunk.bytes, chunk.sum)
    }

    /// Where the file goes.
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Ends the file and makes it outlive a crash.
    pub fn finish(self) -> io::Result<Written> {
        self.finish_in_sink().map(|(written, _)| written)
    }

    /// The same for a caller that has more to do with the sink.
    pub fn finish_in_sink(mut self) -> io::Result<(Written, Box<S>)> {
        if self.options.form == BaseForm::Commands {
            self.sink.sync()?;
            return Ok((Written { bytes: self.len, version: self.version }, self.sink));
        }
        self.append(&[opcode::END])?;
        let head = head(self.version);
        let sum = match self.options.sums {
            true => crc64_combine(crc64(0, &head), self.sum, self.len),
            false => 0,
        };
        self.sink.write(&sum.to_le_bytes())?;
        if self.sink.keeps_head() {
            // Only now is it known which version the data need.
            self.sink.rewrite_head(&head)?;
        }
        self.sink.sync()?;
        let bytes = head.len() as u64 + self.len + size_of_val(&sum) as u64;
        Ok((Written { bytes, version: self.version }, self.sink))
    }

    /// Bytes written so far.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        match self.options.form {
            BaseForm::Commands => self.len,
            BaseForm::Snapshot => super::HEAD_LEN as u64 + self.len,
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes, if self.options.sums { crc64(0, bytes) } else { 0 })
    }

    fn write(&mut self, bytes: &[u8], sum: u64) -> io::Result<()> {
        self.sink.write(bytes)?;
        let len = bytes.len() as u64;
        self.sum = crc64_combine(self.sum, sum, len);
        self.len += len;
        self.unsynced += len;
        if self.options.syncs && self.unsynced >= SYNC_STEP {
            self.sink.sync()?;
            self.unsynced = 0;
        }
        Ok(())
    }
}

/// Tells something about the file, or about the entry behind it.
fn write_note(out: &mut Writer, name: &str, text: &str) {
    out.push(opcode::NOTE);
    write_bytes(out, name.as_bytes());
    write_bytes(out, text.as_bytes());
}

/// The version of Redis whose values a reader of this version can read: those of Valkey parted with
/// it at 7.2.
fn redis_version(version: u16) -> u16 {
    if VALKEY.contains(&version) { REDIS_7_2 } else { version }
}

/// What a file of this version begins with.
fn head(version: u16) -> [u8; super::HEAD_LEN] {
    let text = match VALKEY.contains(&version) {
        true => format!("VALKEY{version:03}"),
        false => format!("REDIS{version:04}"),
    };
    text.as_bytes().try_into().expect("a version has at most as many digits")
}
