//! The file of the log: frames behind each other, each with a checksum and with a mark that says up
//! to where the file was on disk before.
//!
//! ```text
//!  "APUSMAPL" version node whole checksum | length mark payload checksum | length mark ..
//! ```
//!
//! A power loss may leave anything in the place of what was not synced, even before bytes that are
//! whole. So a frame that is not whole is the torn end of the file, which is cut, unless a mark
//! behind it says that it was on disk: then the disk has lost what it had, and the node must not
//! start, since it may have promised what it does not know of. (No mark can tell of the very end.)
//!
//! Invariant: after an error nothing is written any more, since nobody knows what is there.

use std::io;

use base::crc::crc64;
use cluster::NodeId;
use persist::storage::{File, write_all};
use quorum::wire::Fields;

use crate::folder::Folder;
use crate::record::Record;

/// The name of the file.
const NAME: &str = "map.log";

const MAGIC: &[u8; 8] = b"APUSMAPL";

const VERSION: u8 = 1;

/// Magic, version, node, how long the file was when it took its place, and a checksum.
const HEADER_LEN: usize = 8 + 1 + 40 + 8 + 8;

/// The bytes of a frame beside its payload: length, mark and checksum.
const FRAME_LEN: usize = 4 + 8 + 8;

/// Where checksums begin, so that zeros have none that is right.
const SEED: u64 = 0x6d61_705f_6c6f_6731;

/// What to write, and whether that is to be on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Durable {
    /// A crash may take it.
    Later,
    /// Before the call is over, with all that was written before.
    Now,
}

/// The open file.
pub(crate) struct LogFile {
    folder: Folder,
    node: NodeId,
    file: Box<dyn File>,
    length: u64,
    /// Up to here the file is on disk.
    synced: u64,
    is_broken: bool,
}

impl LogFile {
    /// The file of a node, and its records; made where there is none. `log` hears of what was cut.
    pub(crate) fn open(
        folder: &Folder,
        node: NodeId,
        log: &dyn Fn(&str),
    ) -> io::Result<(LogFile, Vec<Record>)> {
        let (length, end, records) = match folder.read(NAME)? {
            None => {
                folder.replace(NAME, &header(node, HEADER_LEN as u64))?;
                (HEADER_LEN, HEADER_LEN, Vec::new())
            }
            Some(bytes) => {
                let (end, records) = read(folder, node, &bytes)?;
                (bytes.len(), end, records)
            }
        };
        let mut file = folder.append(NAME)?;
        let naming = |error: io::Error| folder.naming(NAME, &error);
        if end < length {
            log(&format!("map.log: its last {} bytes were torn and are cut", length - end));
            file.truncate(end as u64).map_err(naming)?;
        }
        // What was read may be in the memory of the system alone, and is relied on from here on.
        file.sync().map_err(naming)?;
        let (folder, length) = (folder.clone(), end as u64);
        let file = LogFile { folder, node, file, length, synced: length, is_broken: false };
        Ok((file, records))
    }

    /// Writes records at the end.
    pub(crate) fn append(&mut self, records: &[Record], durable: Durable) -> io::Result<()> {
        self.check()?;
        let mut bytes = Vec::new();
        for record in records {
            put_frame(&mut bytes, self.synced, &record.encode());
        }
        self.is_broken = true;
        let naming = |error: io::Error| self.folder.naming(NAME, &error);
        write_all(&mut *self.file, &bytes).map_err(naming)?;
        self.length += bytes.len() as u64;
        if durable == Durable::Now {
            self.file.sync().map_err(naming)?;
            self.synced = self.length;
        }
        self.is_broken = false;
        Ok(())
    }

    /// Puts a file with these records in the place of this one.
    pub(crate) fn replace(&mut self, records: &[Record]) -> io::Result<()> {
        self.check()?;
        let mut frames = Vec::new();
        for record in records {
            put_frame(&mut frames, 0, &record.encode());
        }
        let length = (HEADER_LEN + frames.len()) as u64;
        let bytes = [header(self.node, length), frames].concat();
        self.is_broken = true;
        self.folder.replace(NAME, &bytes)?;
        self.file = self.folder.append(NAME)?;
        (self.length, self.synced, self.is_broken) = (length, length, false);
        Ok(())
    }

    fn check(&self) -> io::Result<()> {
        match self.is_broken {
            true => Err(self.folder.damaged(NAME, "an earlier write failed")),
            false => Ok(()),
        }
    }
}

fn header(node: NodeId, whole: u64) -> Vec<u8> {
    let id = node.as_str().as_bytes();
    let mut bytes = [&MAGIC[..], &[VERSION], id, &whole.to_be_bytes()].concat();
    let checksum = crc64(SEED, &bytes);
    bytes.extend_from_slice(&checksum.to_be_bytes());
    bytes
}

/// Where the last whole frame ends, and the records up to there.
fn read(folder: &Folder, node: NodeId, bytes: &[u8]) -> io::Result<(usize, Vec<Record>)> {
    let damaged = |what: &str| folder.damaged(NAME, what);
    let whole = whole_length(bytes, node).map_err(damaged)?;
    let (mut end, mut records) = (HEADER_LEN, Vec::new());
    while let Some(frame) = Frame::at(bytes, end) {
        let record = Record::decode(frame.payload).map_err(|error| {
            damaged(&format!("what begins at {end} is not understood: {error}"))
        })?;
        records.push(record);
        end = frame.end;
    }
    let was_synced =
        |later: usize| Frame::at(bytes, later).is_some_and(|frame| frame.mark > end as u64);
    if (end as u64) < whole || (end + 1..bytes.len()).any(was_synced) {
        return Err(damaged(&format!(
            "what begins at {end} was on disk and is not whole any more"
        )));
    }
    Ok((end, records))
}

/// How long the file was when it took its place.
fn whole_length(bytes: &[u8], node: NodeId) -> Result<u64, &'static str> {
    let mut fields = Fields::new(bytes);
    if fields.bytes(MAGIC.len()) != Ok(MAGIC) {
        return Err("this is no log of a map");
    }
    if fields.u8() != Ok(VERSION) {
        return Err("another version has written this");
    }
    let (id, whole, checksum) = (fields.id(), fields.u64(), fields.u64());
    let (Ok(id), Ok(whole), Ok(checksum)) = (id, whole, checksum) else {
        return Err("its header is not whole");
    };
    if checksum != crc64(SEED, &bytes[..HEADER_LEN - 8]) {
        return Err("its header is not whole");
    }
    if id != node { Err("this is the log of another node") } else { Ok(whole) }
}

/// A frame that is whole.
struct Frame<'a> {
    payload: &'a [u8],
    /// Up to here the file was on disk when the frame was written.
    mark: u64,
    /// Where the frame ends.
    end: usize,
}

impl Frame<'_> {
    fn at(bytes: &[u8], begin: usize) -> Option<Frame<'_>> {
        let body = bytes.get(begin..)?;
        let (length, rest) = body.split_first_chunk::<4>()?;
        let length = u32::from_be_bytes(*length) as usize;
        let (mark, rest) = rest.split_first_chunk::<8>()?;
        let (payload, rest) = rest.split_at_checked(length)?;
        let checksum = u64::from_be_bytes(*rest.first_chunk::<8>()?);
        let mark = u64::from_be_bytes(*mark);
        let is_whole = checksum == crc64(SEED, &body[..12 + length]) && mark <= begin as u64;
        is_whole.then_some(Frame { payload, mark, end: begin + FRAME_LEN + length })
    }
}

fn put_frame(out: &mut Vec<u8>, mark: u64, payload: &[u8]) {
    let begin = out.len();
    let length = u32::try_from(payload.len()).expect("no record is as long as four gigabytes");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&mark.to_be_bytes());
    out.extend_from_slice(payload);
    let checksum = crc64(SEED, &out[begin..]);
    out.extend_from_slice(&checksum.to_be_bytes());
}
