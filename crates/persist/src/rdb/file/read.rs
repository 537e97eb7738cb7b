//! Reading a file: one thread splits it into entries, any others make values of them. Those that
//! are too large to be handed over it makes itself.
//!
//! Invariants: memory grows with the bytes that come, not with what they claim; the checksum covers
//! exactly the bytes from the head to the last item, and what follows it in the file is given back.

use std::borrow::Cow;
use std::ops::Range;

use base::UnixMillis;
use base::crc::crc64;
use keyspace::{EntryBox, ItemNotes};

use super::gather::PartialEntry;
use super::skip_cursor::{SkipCursor, Stop};
use super::{Damage, FileError, HEAD_LEN, opcode};
use crate::entry_notes;
use crate::rdb::string::{Decoded, read_string};
use crate::rdb::value::{Limits, Value};
use crate::rdb::{Malformed, REDIS_NEWEST, Reader, VALKEY, ValueType, is_readable};
use crate::storage::{File, Window};

/// From this version on a file ends with a checksum.
const FIRST_WITH_SUM: u16 = 5;

/// A value as a module writes it.
const MODULE_TYPE: u8 = 7;

/// An entry that is not whole in so many bytes is made while it is read.
const LARGE: usize = if cfg!(test) { 60 } else { 4 << 20 };

/// What a file may hold.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Whether values and notes of modules are passed over rather than refused.
    pub skips_modules: bool,
    /// Whether a version that is not known is taken for one that is.
    pub any_version: bool,
    /// Whether the checksum does not matter.
    pub ignores_sum: bool,
}

/// Takes what is in a file, in its order.
pub trait Sink {
    /// The version that the head tells.
    fn version(&mut self, _version: u16) {}

    /// Something about the file.
    fn note(&mut self, _name: &[u8], _text: &[u8]) {}

    /// How many keys a database has and how many of them have deadlines, as the file has it: a
    /// hint.
    fn sizes(&mut self, _database: u64, _keys: u64, _volatile: u64) {}

    /// A library of functions; why it cannot be had.
    fn library(&mut self, code: &[u8]) -> Result<(), String>;

    /// Entries; why no more are wanted.
    fn batch(&mut self, batch: Batch) -> Result<(), FileError>;

    /// What takes entries that are built while they are read. Without, they come in batches,
    /// however large they are.
    fn gatherer(&mut self) -> Option<&mut dyn LargeEntrySink> {
        None
    }
}

/// Takes entries that are made while they are read, as they are too large for a batch.
pub trait LargeEntrySink {
    /// How far containers stay small.
    fn limits(&self) -> Limits;

    /// The file was read up to there.
    fn advance(&mut self, offset: u64);

    /// An entry; why no more are wanted.
    fn entry(&mut self, made: BuiltEntry) -> Result<(), FileError>;
}

/// An entry that was made while it was read.
pub struct BuiltEntry {
    /// Where in the file it begins.
    pub offset: u64,
    /// The database, by the number that clients select.
    pub database: u64,
    /// When the key was used.
    pub access: Access,
    /// The entry.
    pub entry: EntryBox,
}

/// What was read to its end.
#[derive(Debug, Default)]
pub struct End {
    /// The version that the head told.
    pub version: u16,
    /// Where in the file the end was.
    pub offset: u64,
    /// What was read beyond the end.
    pub rest: Vec<u8>,
    /// Values and notes of modules that were passed over.
    pub skipped: u64,
}

/// Entries with the bytes they lie in.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Where in the file the bytes begin.
    offset: u64,
    places: Vec<EntryLocation>,
}

/// Where an entry lies in a batch.
#[derive(Clone, Debug)]
struct EntryLocation {
    start: usize,
    key: Range<usize>,
    value: Range<usize>,
    database: u64,
    value_type: ValueType,
    known: EntryAttributes,
}

/// What stands before an entry.
#[derive(Clone, Copy, Debug, Default)]
struct EntryAttributes {
    deadline: Option<UnixMillis>,
    access: Access,
    note: PrecedingNotes,
}

/// What is noted of an entry that comes.
#[derive(Clone, Copy, Debug, Default)]
struct PrecedingNotes {
    flags: u32,
    is_sticky: bool,
}

impl PrecedingNotes {
    /// Takes a note in, if it is about the next entry.
    fn take(&mut self, name: &[u8], text: &[u8]) -> bool {
        let (is_flags, is_sticky) =
            (*name == *entry_notes::FLAGS.as_bytes(), *name == *entry_notes::STICKY.as_bytes());
        if is_flags {
            self.flags = entry_notes::parse_flags(text).unwrap_or(0);
        }
        self.is_sticky |= is_sticky;
        is_flags || is_sticky
    }
}

/// When or how often a key was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// The file does not say.
    #[default]
    Unknown,
    /// Not for so many seconds.
    Idle(u64),
    /// So often, on a logarithmic scale.
    Frequency(u8),
}

/// An entry whose value is not made yet.
#[derive(Clone, Debug)]
pub struct RawEntry<'a> {
    /// Where in the file it begins.
    pub offset: u64,
    /// The database, by the number that clients select.
    pub database: u64,
    /// The key.
    pub key: Cow<'a, [u8]>,
    /// When the key expires.
    pub deadline: Option<UnixMillis>,
    /// When the key was used.
    pub access: Access,
    /// What memcached's clients noted.
    pub flags: u32,
    /// Whether the key is never evicted.
    pub is_sticky: bool,
    /// How the value is written.
    pub value_type: ValueType,
    /// The value as it is written.
    pub value: &'a [u8],
}

impl Batch {
    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Where in the file the batch ends.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// The entries.
    pub fn entries(&self) -> impl Iterator<Item = Result<RawEntry<'_>, FileError>> {
        self.places.iter().map(|place| {
            let offset = self.offset + place.start as u64;
            let key = read_string(&mut Reader::new(&self.bytes[place.key.clone()]));
            let key = key.map_err(|_| FileError { offset, damage: Damage::Malformed })?;
            Ok(RawEntry {
                offset,
                database: place.database,
                key: key.into_bytes(),
                deadline: place.known.deadline,
                access: place.known.access,
                flags: place.known.note.flags,
                is_sticky: place.known.note.is_sticky,
                value_type: place.value_type,
                value: &self.bytes[place.value.clone()],
            })
        })
    }
}

impl RawEntry<'_> {
    /// Makes the entry.
    pub fn decode(&self, limits: &Limits) -> Result<EntryBox, FileError> {
        let mut reader = Reader::new(self.value);
        let value = Value::read(self.value_type, &mut reader, limits);
        match value {
            Ok(value) if reader.is_at_end() => {
                let entry = value.into_entry(&self.key, self.deadline);
                let entry = entry.with_notes(ItemNotes::of_flags(self.flags));
                entry.borrow().set_sticky(self.is_sticky);
                Ok(entry)
            }
            _ => Err(FileError { offset: self.offset, damage: Damage::Value(self.value_type) }),
        }
    }
}

/// Reads a file from its head to its end.
pub fn read_file(file: &mut dyn File, rules: Rules, sink: &mut dyn Sink) -> Result<End, FileError> {
    let mut splitter = Splitter::begin(file, rules)?;
    sink.version(splitter.end.version);
    while splitter.step(sink)? {}
    let mut end = splitter.end;
    end.rest = splitter.window.bytes;
    Ok(end)
}

/// Whether a file begins as one that is read, by these rules.
pub fn check_head(file: &mut dyn File, rules: Rules) -> Result<(), FileError> {
    Splitter::begin(file, rules).map(drop)
}

/// A file on its way into pieces.
struct Splitter<'f> {
    rules: Rules,
    /// What was read and not given away.
    window: Window<'f>,
    /// How many of the bytes are items that were met.
    at: usize,
    places: Vec<EntryLocation>,
    /// What was noted of the next entry.
    noted: PrecedingNotes,
    database: u64,
    sum: u64,
    /// By which version types of values are understood.
    dialect: u16,
    end: End,
}

/// What an item was.
enum FileItem<'a> {
    Note(&'a [u8], &'a [u8]),
    Database(u64),
    Sizes(u64, u64),
    Library(&'a [u8]),
    Entry(EntryLocation),
    /// Nothing that matters.
    Slot,
    /// What a module wrote.
    Module,
    End,
}

/// Why there is no item.
enum ItemError {
    More(u64),
    Damage(Damage),
}

const MALFORMED: ItemError = ItemError::Damage(Damage::Malformed);

impl From<Stop> for ItemError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::More(count) => Self::More(count),
            Stop::Malformed => MALFORMED,
        }
    }
}

impl<'f> Splitter<'f> {
    /// Reads the head.
    fn begin(file: &'f mut dyn File, rules: Rules) -> Result<Self, FileError> {
        let mut splitter = Self {
            rules,
            window: Window::new(file),
            at: 0,
            places: Vec::new(),
            noted: PrecedingNotes::default(),
            database: 0,
            sum: 0,
            dialect: 0,
            end: End::default(),
        };
        splitter.fill(HEAD_LEN as u64)?;
        let head = splitter.window.bytes.first_chunk::<HEAD_LEN>();
        let (version, is_valkey) =
            head.and_then(parse_head).ok_or(FileError::at(0, Damage::Head))?;
        let is_known = is_readable(version) && VALKEY.contains(&version) == is_valkey;
        if !is_known && !rules.any_version {
            return Err(FileError::at(0, Damage::Version(version)));
        }
        splitter.dialect = match (is_known, is_valkey) {
            (true, _) => version,
            (false, true) => *VALKEY.end(),
            (false, false) => REDIS_NEWEST,
        };
        splitter.end.version = version;
        splitter.at = HEAD_LEN;
        Ok(splitter)
    }

    /// Takes the next item, or reads on; whether there is more to come.
    fn step(&mut self, sink: &mut dyn Sink) -> Result<bool, FileError> {
        let here = self.window.offset + self.at as u64;
        let mut skip = SkipCursor::new(&self.window.bytes);
        skip.at = self.at;
        match item(&mut skip, self.database, self.dialect, self.rules) {
            Ok(found) => {
                self.at = skip.at;
                match found {
                    FileItem::Note(name, text) => {
                        let (name, text) = (plain(name, here)?, plain(text, here)?);
                        if !self.noted.take(&name, &text) {
                            sink.note(&name, &text);
                        }
                    }
                    FileItem::Database(database) => self.database = database,
                    FileItem::Sizes(keys, volatile) => sink.sizes(self.database, keys, volatile),
                    FileItem::Library(code) => {
                        let added = sink.library(&plain(code, here)?);
                        added.map_err(|why| FileError::at(here, Damage::Refused(why)))?;
                    }
                    FileItem::Entry(mut place) => {
                        place.known.note = std::mem::take(&mut self.noted);
                        self.places.push(place);
                    }
                    FileItem::Slot => {}
                    FileItem::Module => self.end.skipped += 1,
                    FileItem::End => {
                        self.flush_entries(sink)?;
                        self.finish()?;
                        return Ok(false);
                    }
                }
            }
            Err(ItemError::More(count)) => {
                self.flush_entries(sink)?;
                if self.window.bytes.len() >= LARGE && self.gather(sink)? {
                    return Ok(true);
                }
                if !self.fill(count)? {
                    return Err(FileError::at(here, Damage::Truncated));
                }
            }
            Err(ItemError::Damage(damage)) => return Err(FileError::at(here, damage)),
        }
        Ok(true)
    }

    /// Sums what was passed over, and gives the entries in it to the sink.
    fn flush_entries(&mut self, sink: &mut dyn Sink) -> Result<(), FileError> {
        if self.at == 0 {
            return Ok(());
        }
        let count = std::mem::take(&mut self.at);
        let (offset, bytes) = self.pass(count);
        let places = std::mem::take(&mut self.places);
        if places.is_empty() { Ok(()) } else { sink.batch(Batch { bytes, offset, places }) }
    }

    /// Sums so many bytes and takes them out of the window.
    fn pass(&mut self, count: usize) -> (u64, Vec<u8>) {
        let (offset, bytes) = self.window.take(count);
        if !self.rules.ignores_sum {
            self.sum = crc64(self.sum, &bytes);
        }
        (offset, bytes)
    }

    /// Makes the entry at the beginning of the window while it is read, if it is one for that;
    /// whether it was.
    fn gather(&mut self, sink: &mut dyn Sink) -> Result<bool, FileError> {
        let Some(gatherer) = sink.gatherer() else { return Ok(false) };
        let here = self.window.offset;
        let mut skip = SkipCursor::new(&self.window.bytes);
        // Whatever is wrong with it is told where it is read as any other.
        let Ok(Begun::Entry(place)) = begin_item(&mut skip, self.database, self.dialect) else {
            return Ok(false);
        };
        let begun = PartialEntry::begin(place.value_type, &mut skip, &gatherer.limits());
        let Ok(Some(mut gathering)) = begun else { return Ok(false) };
        let begin = skip.at;
        let key = plain(&self.window.bytes[place.key], here)?.into_owned();
        self.pass(begin);
        let flawed = || FileError::at(here, Damage::Value(place.value_type));
        let rest_len = loop {
            let mut missing = 0;
            if !gathering.is_done() {
                let fed = gathering.feed(&self.window.bytes).map_err(|Malformed| flawed())?;
                self.pass(fed.taken);
                gatherer.advance(self.window.offset);
                missing = fed.missing;
            }
            if gathering.is_done() {
                match gathering.rest_len(&self.window.bytes) {
                    Ok(length) => break length,
                    Err(Stop::More(count)) => missing = count,
                    Err(Stop::Malformed) => return Err(flawed()),
                }
            }
            if !self.fill(missing)? {
                return Err(FileError::at(here, Damage::Truncated));
            }
        };
        let value = gathering.finish(&self.window.bytes[..rest_len]);
        let entry = value.map_err(|Malformed| flawed())?.into_entry(&key, place.known.deadline);
        let PrecedingNotes { flags, is_sticky } = std::mem::take(&mut self.noted);
        let entry = entry.with_notes(ItemNotes::of_flags(flags));
        entry.borrow().set_sticky(is_sticky);
        self.pass(rest_len);
        let (database, access) = (place.database, place.known.access);
        gatherer.entry(BuiltEntry { offset: here, database, access, entry })?;
        Ok(true)
    }

    /// Checks what follows the last item.
    fn finish(&mut self) -> Result<(), FileError> {
        if self.end.version >= FIRST_WITH_SUM {
            let missing = size_of::<u64>().saturating_sub(self.window.bytes.len());
            if missing > 0 {
                self.fill(missing as u64)?;
            }
            let here = self.window.offset;
            let sum = self.window.bytes.first_chunk();
            let sum = u64::from_le_bytes(*sum.ok_or(FileError::at(here, Damage::Truncated))?);
            // Zero stands where no checksum was made.
            if sum != 0 && sum != self.sum && !self.rules.ignores_sum {
                return Err(FileError::at(here, Damage::Sum));
            }
            self.window.take(size_of_val(&sum));
        }
        self.end.offset = self.window.offset;
        Ok(())
    }

    /// Reads on; whether anything came.
    fn fill(&mut self, needed: u64) -> Result<bool, FileError> {
        let result = self.window.fill(needed);
        result.map_err(|error| FileError::at(self.window.end(), Damage::Unread(error)))
    }
}

/// The version that a head tells, and whether it is one of Valkey's own.
fn parse_head(head: &[u8; HEAD_LEN]) -> Option<(u16, bool)> {
    let (digits, is_valkey) = match head.strip_prefix(b"VALKEY") {
        Some(digits) => (digits, true),
        None => (head.strip_prefix(b"REDIS")?, false),
    };
    let version = str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
    Some((version.parse().ok()?, is_valkey))
}

/// What an item turned out to be.
enum Begun {
    /// An entry, whose value comes next.
    Entry(EntryLocation),
    /// What a module wrote under a key.
    Module,
    /// What this opcode says.
    Lone(u8),
}

/// Passes over an item.
fn item<'a>(
    skip: &mut SkipCursor<'a>,
    database: u64,
    dialect: u16,
    rules: Rules,
) -> Result<FileItem<'a>, ItemError> {
    match begin_item(skip, database, dialect)? {
        Begun::Entry(mut place) => {
            skip.value(place.value_type)?;
            place.value.end = skip.at;
            Ok(FileItem::Entry(place))
        }
        Begun::Module => module(skip, rules),
        Begun::Lone(byte) => lone_item(byte, skip, rules),
    }
}

/// Passes over the beginning of an item: what says what it is, and the key of an entry.
fn begin_item(skip: &mut SkipCursor<'_>, database: u64, dialect: u16) -> Result<Begun, ItemError> {
    let start = skip.at;
    let mut known = EntryAttributes::default();
    loop {
        let byte = skip.byte()?;
        match byte {
            opcode::DEADLINE_MS => known.deadline = Some(i64::from_le_bytes(skip.array()?)),
            opcode::DEADLINE => {
                let seconds = i32::from_le_bytes(skip.array()?);
                known.deadline = Some(i64::from(seconds) * 1000);
            }
            opcode::IDLE => known.access = Access::Idle(skip.length()?),
            opcode::FREQUENCY => known.access = Access::Frequency(skip.byte()?),
            MODULE_TYPE => {
                skip.text()?;
                return Ok(Begun::Module);
            }
            _ => {
                if let Some(value_type) = ValueType::from_byte(byte, dialect) {
                    let key_start = skip.at;
                    skip.text()?;
                    let (key, value) = (key_start..skip.at, skip.at..skip.at);
                    let place = EntryLocation { start, key, value, database, value_type, known };
                    return Ok(Begun::Entry(place));
                }
                // What is known of a key stands before a key.
                let is_lone = skip.at == start + 1;
                return if is_lone { Ok(Begun::Lone(byte)) } else { Err(MALFORMED) };
            }
        }
    }
}

/// Passes over an item that is no entry.
fn lone_item<'a>(
    byte: u8,
    skip: &mut SkipCursor<'a>,
    rules: Rules,
) -> Result<FileItem<'a>, ItemError> {
    Ok(match byte {
        opcode::NOTE => FileItem::Note(skip.text()?, skip.text()?),
        opcode::DATABASE => FileItem::Database(skip.length()?),
        opcode::SIZES => FileItem::Sizes(skip.length()?, skip.length()?),
        opcode::LIBRARY => FileItem::Library(skip.text()?),
        opcode::SLOT => {
            for _ in 0..3 {
                skip.length()?;
            }
            FileItem::Slot
        }
        opcode::MODULE => return module(skip, rules),
        opcode::END => FileItem::End,
        _ => return Err(ItemError::Damage(Damage::Unknown(byte))),
    })
}

/// Passes over what a module wrote.
fn module<'a>(skip: &mut SkipCursor<'a>, rules: Rules) -> Result<FileItem<'a>, ItemError> {
    let id = skip.length()?;
    if !rules.skips_modules {
        return Err(ItemError::Damage(Damage::Module(module_name(id))));
    }
    skip.module()?;
    Ok(FileItem::Module)
}

/// The name in a module's number: nine characters of six bits, before ten bits of a version.
fn module_name(id: u64) -> String {
    const CHARACTERS: &[u8; 64] =
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let character = |index: u32| char::from(CHARACTERS[(id >> (58 - 6 * index) & 63) as usize]);
    (0..9).map(character).collect()
}

/// The bytes of a string that was passed over.
fn plain(text: &[u8], offset: u64) -> Result<Cow<'_, [u8]>, FileError> {
    let text = read_string(&mut Reader::new(text));
    text.map(Decoded::into_bytes).map_err(|_| FileError::at(offset, Damage::Malformed))
}
