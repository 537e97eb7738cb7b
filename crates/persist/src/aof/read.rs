//! Reading the commands of a journal.
//!
//! ```text
//!  *2\r\n$6\r\nINCRBY\r\n..       a command: an array of strings, as clients send it
//!  #TS:1700000000\r\n             an annotation: the time, a check line, or anything
//! ```
//!
//! Invariants: a transaction comes whole or not at all; whatever ends too early or is no command is
//! an error that names the end of the last whole unit; a file that is cut off there is sound and
//! has the same units; memory grows with the bytes that come; a large command is in
//! memory once, with half as much of what comes behind it.

use std::fmt;
use std::io;
use std::ops::Range;

use base::number::parse_i64;
use proto::{Framing, OwnedArgs};

use super::check_line::CheckLine;
use super::cut_point::CutPoint;
use super::padding::Padding;
use super::stream_note::{HistoryPlace, StreamNote, StreamPosition, parse_history};
use super::sync_mark::SyncMark;
use crate::storage::{File, Window};

/// The longest line that is no argument.
const LINE_MAX: usize = 1024;

/// The longest command: positions in one have 32 bits.
const COMMAND_MAX: u64 = if cfg!(test) { 4096 } else { u32::MAX as u64 };

/// From this length on a command that is most of what was read is not copied.
const LARGE: usize = if cfg!(test) { 64 } else { 64 << 10 };

/// What is done at once: a command, or a transaction without the words around it.
#[derive(Debug, Default)]
pub struct Unit {
    /// The commands.
    pub commands: Vec<OwnedArgs>,
    /// Where in the file it begins, with the annotations before it.
    pub offset: u64,
    /// Where in the file it ends.
    pub end: u64,
    /// The latest time that was noted, in Unix seconds.
    pub time: Option<i64>,
}

/// A journal that cannot be read to its end.
#[derive(Debug)]
pub struct AofError {
    /// Where the last whole unit ends.
    pub offset: u64,
    /// What follows there.
    pub damage: AofDamage,
}

/// What keeps a journal from being read on.
#[derive(Debug)]
pub enum AofDamage {
    /// The file ends within a unit.
    Torn,
    /// Something that is no unit begins here.
    Malformed {
        /// Where the fault begins; whatever stands before that is as it was written.
        from: u64,
        /// Where the fault is seen.
        at: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// The disk does not give it.
    Unread(io::Error),
}

impl fmt::Display for AofError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.damage {
            AofDamage::Torn => {
                write!(out, "the file is cut off, its last whole unit ends at {}", self.offset)
            }
            AofDamage::Malformed { at, why, .. } => {
                write!(out, "at offset {at}: {why}; the last whole unit ends at {}", self.offset)
            }
            AofDamage::Unread(error) => write!(out, "the file cannot be read: {error}"),
        }
    }
}

impl std::error::Error for AofError {}

/// Reads one unit after the other.
pub struct UnitReader<'f> {
    window: Window<'f>,
    /// How many bytes of the window are passed over.
    at: usize,
    /// Whether nothing comes after the window.
    is_last: bool,
    /// Where the last whole unit ends.
    whole: CutPoint,
    /// Where the batch begins that was met last, and where it ends by its check line.
    batch: Option<(u64, u64)>,
    /// Whether that is as its check line says.
    is_as_written: bool,
    stream: StreamPosition,
    /// The database that is selected behind the last whole unit.
    database: usize,
    time: Option<i64>,
    number: Option<u64>,
    /// Where the padding begins that was just passed over, and what its last line so far was.
    padding: Option<(CutPoint, Padding)>,
}

/// Why there is nothing to take.
enum ScanError {
    /// At least so many more bytes are needed.
    More(u64),
    Malformed(&'static str),
}

/// What stands at a place in a journal.
enum LogItem {
    /// Where its arguments lie.
    Command(Vec<Range<usize>>),
    Time(i64),
    Check(CheckLine),
    Cut(CheckLine),
    Mark(SyncMark),
    Padding(Padding),
    Stream(StreamNote),
    History(Option<Box<[u8]>>),
    /// What says nothing to us.
    Annotation,
}

impl<'f> UnitReader<'f> {
    /// At the beginning of a file.
    pub fn new(file: &'f mut dyn File) -> Self {
        Self::behind(file, 0, Vec::new())
    }

    /// Goes on behind a snapshot at the beginning of the file: at this place, with what was read
    /// beyond it.
    pub fn behind(file: &'f mut dyn File, offset: u64, read: Vec<u8>) -> Self {
        let window = Window::at(file, offset, read);
        let whole = CutPoint { offset, batch: None };
        Self {
            window,
            at: 0,
            is_last: false,
            whole,
            batch: None,
            is_as_written: false,
            stream: StreamPosition::default(),
            database: 0,
            time: None,
            number: None,
            padding: None,
        }
    }

    /// Where the last whole unit ends.
    #[must_use]
    pub fn cut_point(&self) -> CutPoint {
        self.whole
    }

    /// The file's number, if sync marks that were read so far tell it.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.number
    }

    /// Where the data stand behind the last whole unit, as far as the file says.
    #[must_use]
    pub fn history(&self) -> Option<&HistoryPlace> {
        self.stream.place()
    }

    /// The database that is selected there.
    #[must_use]
    pub fn database(&self) -> usize {
        self.database
    }

    /// The next unit; `None` at the end of the file.
    pub fn next_unit(&mut self) -> Result<Option<Unit>, AofError> {
        let mut unit = Unit { offset: self.whole.offset, ..Unit::default() };
        let mut is_transaction = false;
        let mut selected = None;
        loop {
            let Some(args) = self.next_command()? else {
                if is_transaction {
                    return Err(self.error(AofDamage::Torn));
                }
                // Annotations at the end belong to no unit, and are whole; padding is no part of
                // what was written.
                self.whole = self.padding.map_or_else(|| self.cut_point_here(), |(begin, _)| begin);
                self.stream.close();
                return Ok(None);
            };
            let framing = args.as_args().get(0).and_then(Framing::named);
            match (framing, is_transaction) {
                (Some(Framing::Multi), false) => is_transaction = true,
                (Some(Framing::Multi), true) => {
                    return Err(self.malformed_here("MULTI within MULTI"));
                }
                (Some(Framing::Exec), false) => {
                    return Err(self.malformed_here("EXEC without MULTI"));
                }
                (Some(Framing::Exec), true) => break,
                (Some(Framing::Select), _) => {
                    selected = args.as_args().get(1).and_then(parse_i64);
                    unit.commands.push(args);
                }
                (Some(Framing::Discard) | None, _) => unit.commands.push(args),
            }
            if !is_transaction {
                break;
            }
        }
        self.whole = self.cut_point_here();
        self.stream.close();
        if let Some(selected) = selected {
            self.database = usize::try_from(selected).unwrap_or(usize::MAX);
        }
        unit.end = self.whole.offset;
        unit.time = self.time;
        Ok(Some(unit))
    }

    /// The next command; `None` at the end of the file.
    fn next_command(&mut self) -> Result<Option<OwnedArgs>, AofError> {
        loop {
            let mut cursor = Cursor { bytes: &self.window.bytes, at: self.at };
            let found = match cursor.item() {
                Ok(LogItem::Check(check)) => {
                    cursor.verify(check, self.is_last).map(|is_as_written| {
                        self.is_as_written = is_as_written;
                        LogItem::Check(check)
                    })
                }
                other => other,
            };
            match found {
                Ok(item) => {
                    let cut_point = self.cut_point_here();
                    let begin = std::mem::replace(&mut self.at, cursor.at);
                    self.note_padding(&item, cut_point)?;
                    let is_sound = self.is_as_written && cut_point.batch.is_some();
                    match item {
                        LogItem::Command(args) => {
                            match is_sound {
                                true => self.stream.pass((self.at - begin) as u64),
                                // The log does not say of which history it is.
                                false => self.stream.set(None),
                            }
                            return Ok(Some(self.own(begin, args)));
                        }
                        LogItem::Stream(note) if is_sound => self.stream.note(note),
                        LogItem::History(note) if is_sound => self.stream.set(note.as_deref()),
                        LogItem::Stream(_) | LogItem::History(_) => self.stream.set(None),
                        LogItem::Time(time) => self.time = Some(time),
                        LogItem::Mark(mark) => self.number = self.number.or(Some(mark.file)),
                        LogItem::Check(check) => {
                            let begin = self.here();
                            self.batch = Some((begin, begin.saturating_add(check.len)));
                        }
                        LogItem::Cut(_) => self.batch = None,
                        LogItem::Padding(_) | LogItem::Annotation => {}
                    }
                }
                Err(ScanError::Malformed(why)) => {
                    let at = self.window.offset + cursor.at as u64;
                    return Err(self.malformed(self.here(), at, why));
                }
                Err(ScanError::More(count)) if !self.is_last => {
                    self.window.skip(std::mem::take(&mut self.at));
                    let result = self.window.fill(count);
                    let has_more = result.map_err(|error| self.error(AofDamage::Unread(error)))?;
                    self.is_last = !has_more;
                }
                Err(ScanError::More(_)) if self.at == self.window.bytes.len() => return Ok(None),
                Err(ScanError::More(_)) => return Err(self.error(AofDamage::Torn)),
            }
        }
    }

    /// Notes an item that begins at a place. Behind padding stands more of it, or the end. A
    /// server that does not know it writes behind its last line.
    fn note_padding(&mut self, item: &LogItem, cut_point: CutPoint) -> Result<(), AofError> {
        let before = self.padding.take();
        match (item, before) {
            (LogItem::Padding(kind), _) => {
                self.padding = Some((before.map_or(cut_point, |(begin, _)| begin), *kind));
            }
            (_, Some((begin, Padding::Line))) => {
                let why = "the beginning of a batch is not there";
                return Err(self.malformed(begin.offset(), cut_point.offset(), why));
            }
            _ => {}
        }
        Ok(())
    }

    /// The command that was just passed over; its arguments are where these say.
    fn own(&mut self, begin: usize, mut args: Vec<Range<usize>>) -> OwnedArgs {
        let len = self.at - begin;
        if len < LARGE || len < self.window.bytes.len() / 2 {
            return args.into_iter().map(|arg| &self.window.bytes[arg]).collect();
        }
        self.window.skip(begin);
        for arg in &mut args {
            *arg = arg.start - begin..arg.end - begin;
        }
        self.at = 0;
        let (_, bytes) = self.window.take(len);
        OwnedArgs::at(bytes, &args).expect("a command is not longer than it may be")
    }

    /// How far the file was passed over.
    fn here(&self) -> u64 {
        self.window.offset + self.at as u64
    }

    fn cut_point_here(&self) -> CutPoint {
        let offset = self.here();
        let batch = self.batch.filter(|(_, end)| offset < *end).map(|(begin, _)| begin);
        CutPoint { offset, batch }
    }

    fn malformed_here(&self, why: &'static str) -> AofError {
        self.malformed(self.here(), self.here(), why)
    }

    fn malformed(&self, from: u64, at: u64, why: &'static str) -> AofError {
        self.error(AofDamage::Malformed { from, at, why })
    }

    fn error(&self, damage: AofDamage) -> AofError {
        AofError { offset: self.whole.offset, damage }
    }
}

/// A place in bytes.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn item(&mut self) -> Result<LogItem, ScanError> {
        match self.bytes.get(self.at) {
            None => Err(ScanError::More(1)),
            Some(b'*') => self.command().map(LogItem::Command),
            Some(b'#') => {
                let line = self.line()?;
                if CheckLine::is_meant(line) {
                    let check =
                        CheckLine::parse(line).ok_or(ScanError::Malformed("a bad check line"))?;
                    return Ok(LogItem::Check(check));
                }
                if CheckLine::is_cut_meant(line) {
                    let left =
                        CheckLine::parse_cut(line).ok_or(ScanError::Malformed("a bad cut line"))?;
                    return Ok(LogItem::Cut(left));
                }
                if let Some(mark) = SyncMark::parse(line) {
                    return Ok(LogItem::Mark(mark));
                }
                if let Some(padding) = Padding::parse(line) {
                    return Ok(LogItem::Padding(padding));
                }
                if let Some(note) = StreamNote::parse(line) {
                    return Ok(LogItem::Stream(note));
                }
                if let Some(note) = parse_history(line) {
                    return Ok(LogItem::History(note.map(Box::from)));
                }
                let time = line.strip_prefix(b"#TS:").and_then(parse_i64);
                Ok(time.map_or(LogItem::Annotation, LogItem::Time))
            }
            Some(_) => Err(ScanError::Malformed("neither a command nor an annotation")),
        }
    }

    /// Whether the batch that begins here is as its check line says, or was cut off: by the end of
    /// the file, by us, or by another server. No verdict changes where a file is cut off behind a
    /// unit that it admits. Returns whether all of it is known to be as it was written.
    fn verify(&self, check: CheckLine, is_last: bool) -> Result<bool, ScanError> {
        let here = &self.bytes[self.at..];
        let len = usize::try_from(check.len).unwrap_or(usize::MAX);
        if here.get(..len).is_some_and(|batch| check.admits(batch)) {
            return Ok(true);
        }
        // A cut line may begin within the batch and end behind it.
        let missing = check.len.saturating_add(LINE_MAX as u64).saturating_sub(here.len() as u64);
        if missing > 0 && !is_last {
            return Err(ScanError::More(missing));
        }
        let is_short = here.len() < len;
        let is_sound = match Ending::of(here, len) {
            Ending::Cut { at, left } if left.admits(&here[..at]) => return Ok(true),
            Ending::Cut { .. } => false,
            Ending::Another => true,
            // The one behind ours begins with an annotation; a writer that leaves none is another
            // server.
            Ending::Beyond => is_short || !matches!(here.get(len), None | Some(b'#')),
            Ending::Lost => false,
            Ending::Unclear => is_short,
        };
        let damaged = ScanError::Malformed("the batch is not as its check line says");
        if is_sound { Ok(false) } else { Err(damaged) }
    }

    fn command(&mut self) -> Result<Vec<Range<usize>>, ScanError> {
        let begin = self.at;
        let count = self.number(b'*')?;
        let mut args = Vec::new();
        for _ in 0..count {
            let line = self.at;
            let len = self.number(b'$')?;
            if ((self.at - begin) as u64).saturating_add(len) > COMMAND_MAX {
                self.at = line;
                return Err(ScanError::Malformed("a command is longer than 4 GiB"));
            }
            let start = self.at;
            self.take(len)?;
            args.push(start..self.at);
            if self.take(2)? != b"\r\n" {
                return Err(ScanError::Malformed("an argument does not end in CR LF"));
            }
        }
        if args.is_empty() {
            Err(ScanError::Malformed("a command without a name"))
        } else {
            Ok(args)
        }
    }

    fn number(&mut self, mark: u8) -> Result<u64, ScanError> {
        let line = self.line()?;
        let digits = line.split_first().filter(|(first, _)| **first == mark);
        let number = digits.and_then(|(_, digits)| parse_i64(digits));
        let number = number.and_then(|number| u64::try_from(number).ok());
        number.ok_or(ScanError::Malformed("a length is expected"))
    }

    /// A line, without its end.
    fn line(&mut self) -> Result<&'a [u8], ScanError> {
        let rest = &self.bytes[self.at..];
        let window = &rest[..rest.len().min(LINE_MAX)];
        let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
            let is_too_long = window.len() == LINE_MAX;
            let too_long = ScanError::Malformed("a line does not end");
            return Err(if is_too_long { too_long } else { ScanError::More(1) });
        };
        self.at += end + 1;
        let line = &window[..end];
        line.strip_suffix(b"\r").ok_or(ScanError::Malformed("a line does not end in CR LF"))
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], ScanError> {
        let rest = &self.bytes[self.at..];
        let missing = || ScanError::More(count - rest.len() as u64);
        let count_here = usize::try_from(count).ok().filter(|count| *count <= rest.len());
        let taken = &rest[..count_here.ok_or_else(missing)?];
        self.at += taken.len();
        Ok(taken)
    }
}

/// How a batch ends that is not as its check line says.
enum Ending {
    /// A cut line stands behind whole items, and says what they are.
    Cut { at: usize, left: CheckLine },
    /// Another batch begins within, behind whole items.
    Another,
    /// An item begins within and does not end there.
    Beyond,
    /// Its end was not written over padding.
    Lost,
    /// Something within is no item, or all of it are whole items.
    Unclear,
}

impl Ending {
    /// That of a batch of this length at the beginning of some bytes.
    fn of(bytes: &[u8], len: usize) -> Self {
        let mut cursor = Cursor { bytes, at: 0 };
        while cursor.at < len {
            let at = cursor.at;
            match cursor.item() {
                Ok(LogItem::Cut(left)) => return Self::Cut { at, left },
                Ok(LogItem::Check(_)) => return Self::Another,
                Ok(LogItem::Padding(_)) => return Self::Lost,
                Ok(_) => {}
                Err(ScanError::More(_)) => return Self::Beyond,
                Err(ScanError::Malformed(_)) => return Self::Unclear,
            }
        }
        if cursor.at == len { Self::Unclear } else { Self::Beyond }
    }
}
