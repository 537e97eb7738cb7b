//! The sparse form: runs of equal registers, changed by the very steps that Redis takes.
//!
//! A run is found from the start, one after the other. [`Adder`] adds many elements, and keeps
//! where the runs of each block of registers begin, so that an element costs a walk over one block.

use std::fmt;

use base::step_count;

use super::{
    Encoding, HEADER, HllDamage, REGISTERS, RegisterUpdate, STALE, STALE_AT, add_dense, encoding,
    to_dense,
};

/// The highest value that a run can say.
const VALUE_MAX: u8 = 32;

/// The longest run of values.
const VALUES_MAX: usize = 4;

/// The longest run of zeros in one byte.
const SHORT_ZEROS_MAX: usize = 64;

/// So many runs are looked at for equal neighbours after a change.
const JOIN_SCAN: usize = 5;

/// Equal registers one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) value: u8,
    pub(super) len: usize,
    /// Of its bytes; a short run of zeros may come in two.
    wide: bool,
}

impl Run {
    pub(super) fn zeros(len: usize) -> Run {
        Run { value: 0, len, wide: len > SHORT_ZEROS_MAX }
    }

    fn values(value: u8, len: usize) -> Run {
        Run { value, len, wide: false }
    }

    /// The run that these bytes begin with, unless they are too few.
    fn read(at: &[u8]) -> Option<Run> {
        let first = *at.first()?;
        match first >> 6 {
            0 => Some(Run { value: 0, len: usize::from(first) + 1, wide: false }),
            1 => {
                let len = u16::from_be_bytes([first & 0x3F, *at.get(1)?]);
                Some(Run { value: 0, len: usize::from(len) + 1, wide: true })
            }
            _ => Some(Run::values((first >> 2 & 0x1F) + 1, usize::from(first & 3) + 1)),
        }
    }

    fn bytes(self) -> usize {
        1 + usize::from(self.wide)
    }

    pub(super) fn write_to(self, target: &mut Vec<u8>) {
        let mut written = Written::default();
        written.push(self);
        target.extend_from_slice(written.as_slice());
    }
}

impl fmt::Display for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Run { value: 0, len, wide: false } => write!(formatter, "z:{len}"),
            Run { value: 0, len, wide: true } => write!(formatter, "Z:{len}"),
            Run { value, len, .. } => write!(formatter, "v:{value},{len}"),
        }
    }
}

/// The runs of a sparse form. Together they are all registers and no more, or the last is an error.
pub(super) struct Runs<'a> {
    rest: &'a [u8],
    registers: usize,
    failed: bool,
}

impl<'a> Runs<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Runs<'a> {
        Runs { rest: &bytes[HEADER..], registers: 0, failed: false }
    }
}

impl Iterator for Runs<'_> {
    type Item = Result<Run, HllDamage>;

    fn next(&mut self) -> Option<Result<Run, HllDamage>> {
        if self.failed || (self.rest.is_empty() && self.registers == REGISTERS) {
            return None;
        }
        step_count::step();
        match Run::read(self.rest).filter(|run| self.registers + run.len <= REGISTERS) {
            Some(run) => {
                self.rest = &self.rest[run.bytes()..];
                self.registers += run.len;
                Some(Ok(run))
            }
            None => {
                self.failed = true;
                Some(Err(HllDamage::Corrupted))
            }
        }
    }
}

/// A run and where it lies.
pub(super) struct RunLocation {
    pub(super) run: Run,
    /// Of its first byte.
    at: usize,
    /// The first byte of the run before it, or its own.
    before: usize,
    /// Its first register.
    first: usize,
}

/// The run that holds a register.
pub(super) fn find(bytes: &[u8], index: usize) -> Result<RunLocation, HllDamage> {
    walk(bytes, Anchor::START, index, |_, _, _| {})
}

/// The run that holds a register, from a run on that lies before that one or is the first of all.
/// `pass` is given each run that is come to from the one before it.
fn walk(
    bytes: &[u8],
    start: Anchor,
    index: usize,
    mut pass: impl FnMut(Anchor, usize, Run),
) -> Result<RunLocation, HllDamage> {
    let (mut at, mut first) = (start.at as usize, usize::from(start.first));
    let mut before = None;
    loop {
        step_count::step();
        let run = bytes.get(at..).and_then(Run::read).ok_or(HllDamage::Corrupted)?;
        if first + run.len > REGISTERS {
            return Err(HllDamage::Corrupted);
        }
        if let Some(before) = before {
            pass(before, first, run);
        }
        if index < first + run.len {
            let before = before.map_or(at, |before| before.at as usize);
            return Ok(RunLocation { run, at, before, first });
        }
        before = Some(Anchor { at: at as u32, first: first as u16 });
        at += run.bytes();
        first += run.len;
    }
}

/// A run's first byte and first register.
#[derive(Clone, Copy)]
struct Anchor {
    at: u32,
    first: u16,
}

impl Anchor {
    const START: Anchor = Anchor { at: HEADER as u32, first: 0 };
}

/// Registers of a block.
const BLOCK: usize = 256;

/// What adds many elements to one HyperLogLog.
///
/// Invariant: each block's anchor is the first run of all, or ends at or before the block's first
/// register, so a walk from there finds the run before any of the block's.
pub struct Adder<'b> {
    bytes: &'b mut Vec<u8>,
    sparse_len_max: usize,
    anchors: [Anchor; REGISTERS / BLOCK],
}

impl<'b> Adder<'b> {
    /// Adds to these bytes. A sparse form that would be longer than `sparse_len_max` bytes, header
    /// included, becomes dense.
    pub fn new(bytes: &'b mut Vec<u8>, sparse_len_max: usize) -> Adder<'b> {
        Adder { bytes, sparse_len_max, anchors: [Anchor::START; REGISTERS / BLOCK] }
    }

    /// Adds an element; tells whether a register rose.
    pub fn add(&mut self, place: RegisterUpdate) -> Result<bool, HllDamage> {
        match encoding(self.bytes)? {
            Encoding::Dense => add_dense(self.bytes, place),
            Encoding::Sparse if place.value > VALUE_MAX => self.add_beyond(place),
            Encoding::Sparse => self.raise(place),
        }
    }

    /// Whether each register lies on its own by now.
    pub(super) fn is_dense(&self) -> bool {
        encoding(self.bytes) == Ok(Encoding::Dense)
    }

    /// Raises a register where it fits.
    fn raise(&mut self, place: RegisterUpdate) -> Result<bool, HllDamage> {
        let RunLocation { run, at, before, first } = self.find(place.index)?;
        if run.value >= place.value {
            return Ok(false);
        }
        let mut runs = Written::default();
        let (below, above) = (place.index - first, first + run.len - 1 - place.index);
        let rest = |len| if run.value == 0 { Run::zeros(len) } else { Run::values(run.value, len) };
        if below > 0 {
            runs.push(rest(below));
        }
        runs.push(Run::values(place.value, 1));
        if above > 0 {
            runs.push(rest(above));
        }
        let runs = runs.as_slice();
        let len = self.bytes.len();
        if runs.len() > run.bytes() && len + runs.len() - run.bytes() > self.sparse_len_max {
            return self.add_beyond(place);
        }
        self.bytes.splice(at..at + run.bytes(), runs.iter().copied());
        let changed_to = join_equal(self.bytes, before);
        self.note_change(before, changed_to, self.bytes.len() as isize - len as isize);
        self.bytes[STALE_AT] |= STALE;
        Ok(true)
    }

    /// Adds what the sparse form cannot say or has no room for.
    fn add_beyond(&mut self, place: RegisterUpdate) -> Result<bool, HllDamage> {
        to_dense(self.bytes)?;
        add_dense(self.bytes, place)
    }

    /// The run that holds a register, from its block's anchor. Anchors of the blocks that are come
    /// to on the way move up to where they can be.
    fn find(&mut self, index: usize) -> Result<RunLocation, HllDamage> {
        let (last, anchors) = (index / BLOCK, &mut self.anchors);
        walk(self.bytes, anchors[last], index, |before, first, run| {
            let mut block = first.div_ceil(BLOCK);
            while block <= last && block * BLOCK < first + run.len {
                anchors[block] = before;
                block += 1;
            }
        })
    }

    /// Anchors within what was changed, which now is `from..to`, fall back to the block before
    /// theirs; those above go along.
    fn note_change(&mut self, from: usize, to: usize, moved: isize) {
        let mut last = Anchor::START;
        for anchor in &mut self.anchors {
            let at = anchor.at as usize;
            if at >= from && at > HEADER {
                match at.checked_add_signed(moved) {
                    Some(at) if at >= to => anchor.at = at as u32,
                    _ => *anchor = last,
                }
            }
            last = *anchor;
        }
    }
}

/// A few runs, as bytes.
#[derive(Default)]
struct Written {
    bytes: [u8; 5],
    len: usize,
}

impl Written {
    fn push(&mut self, run: Run) {
        let mut put = |byte| {
            self.bytes[self.len] = byte;
            self.len += 1;
        };
        let len = (run.len - 1) as u16;
        if run.value > 0 {
            put(0x80 | (run.value - 1) << 2 | len as u8);
        } else if run.wide {
            (0x4000 | len).to_be_bytes().into_iter().for_each(put);
        } else {
            put(len as u8);
        }
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Joins neighbouring runs of one value, looking at a few from `at` on; where what it looked at
/// ends.
fn join_equal(bytes: &mut Vec<u8>, mut at: usize) -> usize {
    let read = |bytes: &[u8], at| bytes.get(at..).and_then(Run::read);
    for _ in 0..JOIN_SCAN {
        let Some(run) = read(bytes, at) else { return at };
        let next = at + run.bytes();
        let joined = read(bytes, next).filter(|follower| {
            run.value > 0 && follower.value == run.value && follower.len + run.len <= VALUES_MAX
        });
        match joined {
            Some(follower) => {
                // Runs of values take a byte each.
                bytes[at] += follower.len as u8;
                bytes.remove(next);
            }
            None => at = next,
        }
    }
    read(bytes, at).map_or(at, |run| at + run.bytes())
}
