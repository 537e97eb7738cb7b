//! The sparse form: runs of equal registers, changed by the very steps that Redis takes.

use std::fmt;

use super::{Damage, HEADER, Place, REGISTERS, STALE, STALE_AT, add_dense, to_dense};

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
        let len = (self.len - 1) as u16;
        if self.value > 0 {
            target.push(0x80 | (self.value - 1) << 2 | len as u8);
        } else if self.wide {
            target.extend_from_slice(&(0x4000 | len).to_be_bytes());
        } else {
            target.push(len as u8);
        }
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
    type Item = Result<Run, Damage>;

    fn next(&mut self) -> Option<Result<Run, Damage>> {
        if self.failed || (self.rest.is_empty() && self.registers == REGISTERS) {
            return None;
        }
        match Run::read(self.rest).filter(|run| self.registers + run.len <= REGISTERS) {
            Some(run) => {
                self.rest = &self.rest[run.bytes()..];
                self.registers += run.len;
                Some(Ok(run))
            }
            None => {
                self.failed = true;
                Some(Err(Damage::Corrupted))
            }
        }
    }
}

/// A run and where it lies.
pub(super) struct Found {
    pub(super) run: Run,
    /// Of its first byte.
    at: usize,
    /// The first byte of the run before it, or its own.
    before: usize,
    /// Its first register.
    first: usize,
}

/// The run that holds a register.
pub(super) fn find(bytes: &[u8], index: usize) -> Result<Found, Damage> {
    let (mut at, mut before, mut first) = (HEADER, HEADER, 0);
    loop {
        let run = bytes.get(at..).and_then(Run::read).ok_or(Damage::Corrupted)?;
        if first + run.len > REGISTERS {
            return Err(Damage::Corrupted);
        }
        if index < first + run.len {
            return Ok(Found { run, at, before, first });
        }
        before = at;
        at += run.bytes();
        first += run.len;
    }
}

/// Raises a register; tells whether it rose.
pub(super) fn add(bytes: &mut Vec<u8>, place: Place, len_max: usize) -> Result<bool, Damage> {
    if place.value > VALUE_MAX {
        to_dense(bytes)?;
        return add_dense(bytes, place);
    }
    let Found { run, at, before, first } = find(bytes, place.index)?;
    if run.value >= place.value {
        return Ok(false);
    }
    let mut runs = Vec::with_capacity(5);
    let (below, above) = (place.index - first, first + run.len - 1 - place.index);
    let rest = |len| if run.value == 0 { Run::zeros(len) } else { Run::values(run.value, len) };
    if below > 0 {
        rest(below).write_to(&mut runs);
    }
    Run::values(place.value, 1).write_to(&mut runs);
    if above > 0 {
        rest(above).write_to(&mut runs);
    }
    if runs.len() > run.bytes() && bytes.len() + runs.len() - run.bytes() > len_max {
        to_dense(bytes)?;
        return add_dense(bytes, place);
    }
    bytes.splice(at..at + run.bytes(), runs);
    join_equal(bytes, before);
    bytes[STALE_AT] |= STALE;
    Ok(true)
}

/// Joins neighbouring runs of one value, looking at a few from `at` on.
fn join_equal(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOIN_SCAN {
        let Some(run) = bytes.get(at..).and_then(Run::read) else { return };
        let next = at + run.bytes();
        let joined = bytes.get(next..).and_then(Run::read).filter(|follower| {
            run.value > 0 && follower.value == run.value && follower.len + run.len <= VALUES_MAX
        });
        match joined {
            Some(follower) => {
                let mut both = Vec::with_capacity(1);
                Run::values(run.value, run.len + follower.len).write_to(&mut both);
                bytes.splice(at..=next, both);
            }
            None => at = next,
        }
    }
}
