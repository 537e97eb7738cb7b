//! The longest common subsequence of two strings: LCS.
//!
//! Invariant: memory is one bit for each pair of bytes and four bytes for each byte of the shorter
//! row, allocated fallibly, and the table that Redis would need stays within the same limit as
//! there.

use std::sync::atomic::Ordering;

use keyspace::{EntryRef, Refusal, Text, Tx};
use proto::{Args, Reply};

use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::SYNTAX;
use crate::keys::{Access, range};

const NOT_STRINGS: Refusal = Refusal::error("ERR The specified keys must contain string values");
const LENGTH_AND_INDEXES: Refusal =
    Refusal::error("ERR If you want both the length and indexes, please just use IDX.");
const BEYOND_LIMIT: Refusal =
    Refusal::error("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
const NO_MEMORY: Refusal =
    Refusal::error("ERR Insufficient memory, failed allocating transient memory for LCS");

/// What a cell of the table takes in Redis.
const REDIS_CELL: u64 = 4;

pub(super) const LCS: DataCommand = Command {
    spec: Spec {
        name: "LCS",
        since: "7.0.0",
        group: Group::String,
        syntax: "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
        summary: "Finds the longest common substring.",
        complexity: "O(N*M) where N and M are the lengths of s1 and s2, respectively",
        arity: at_least(3),
        flags: Flags::READONLY,
        keys: &[range(1, 1, 1, Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: lcs,
};

fn lcs(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let texts = [string_at(tx, &args[1])?, string_at(tx, &args[2])?];
    let [Some(first), Some(second)] = texts else { return Err(NOT_STRINGS) };
    let options = LcsOptions::read(args)?;
    let limit = tx.keyspace().settings().max_string.load(Ordering::Relaxed);
    let cells = (first.len() as u64 + 1).checked_mul(second.len() as u64 + 1);
    let cells = cells.filter(|&cells| cells <= limit / REDIS_CELL).ok_or(BEYOND_LIMIT)?;
    tx.charge(cells)?;
    let mut scratch = [Vec::new(), Vec::new()];
    let [first_scratch, second_scratch] = &mut scratch;
    let first = first.contiguous(first_scratch);
    let second = second.contiguous(second_scratch);
    if options.length {
        reply.integer(i64::from(fill(first, second, |_, _| {})?));
        return Ok(());
    }
    let mut turns = TracebackBits::new(first.len(), second.len())?;
    let length = fill(first, second, |row, column| turns.set(row, column))?;
    let matches = matches(first, second, &turns);
    if options.indexes {
        reply_indexes(&matches, length, options, reply);
    } else {
        reply_subsequence(first, &matches, reply);
    }
    Ok(())
}

/// The string at a key, empty if there is none; `None` if it is of another type.
fn string_at<'a>(tx: &'a Tx, key: &[u8]) -> Result<Option<Text<'a>>, Refusal> {
    Ok(tx.read(key)?.map_or(Some(Text::Inline(b"")), EntryRef::text))
}

#[derive(Clone, Copy, Default)]
struct LcsOptions {
    length: bool,
    indexes: bool,
    with_lengths: bool,
    shortest_match: i64,
}

impl LcsOptions {
    fn read(args: Args<'_>) -> Result<Self, Refusal> {
        let mut read = Self::default();
        let mut options = Options::from(args, 3);
        while let Some(word) = options.word() {
            if is(word, "LEN") {
                read.length = true;
            } else if is(word, "IDX") {
                read.indexes = true;
            } else if is(word, "WITHMATCHLEN") {
                read.with_lengths = true;
            } else if is(word, "MINMATCHLEN") {
                read.shortest_match = options.integer()?;
            } else {
                return Err(SYNTAX);
            }
        }
        let conflict = read.length && read.indexes;
        if conflict { Err(LENGTH_AND_INDEXES) } else { Ok(read) }
    }
}

/// For each pair of different bytes, one bit: which neighbour the longest subsequence comes from.
struct TracebackBits {
    columns: usize,
    bits: Vec<u64>,
}

impl TracebackBits {
    fn new(rows: usize, columns: usize) -> Result<Self, Refusal> {
        let words = (rows * columns).div_ceil(64);
        let mut bits = Vec::new();
        bits.try_reserve_exact(words).map_err(|_| NO_MEMORY)?;
        bits.resize(words, 0);
        Ok(Self { columns, bits })
    }

    /// Notes that the way goes on in the row before.
    fn set(&mut self, row: usize, column: usize) {
        let index = row * self.columns + column;
        self.bits[index / 64] |= 1 << (index % 64);
    }

    fn is_set(&self, row: usize, column: usize) -> bool {
        let index = row * self.columns + column;
        self.bits[index / 64] >> (index % 64) & 1 == 1
    }
}

/// Fills the table of lengths row by row, keeping one row; calls `note_turn` where two bytes
/// differ and the row before has the longer subsequence. Returns the length of the longest.
fn fill(
    first: &[u8],
    second: &[u8],
    mut note_turn: impl FnMut(usize, usize),
) -> Result<u32, Refusal> {
    let mut lengths: Vec<u32> = Vec::new();
    lengths.try_reserve_exact(second.len()).map_err(|_| NO_MEMORY)?;
    lengths.resize(second.len(), 0);
    for (row, &byte) in first.iter().enumerate() {
        let (mut diagonal, mut left) = (0, 0);
        for (column, (length, &other)) in lengths.iter_mut().zip(second).enumerate() {
            let above = *length;
            if byte == other {
                *length = diagonal + 1;
            } else {
                if above > left {
                    note_turn(row, column);
                }
                *length = above.max(left);
            }
            (diagonal, left) = (above, *length);
        }
    }
    Ok(lengths.last().copied().unwrap_or(0))
}

/// A run of equal bytes.
struct Match {
    first: usize,
    second: usize,
    len: usize,
}

/// The runs that make up the subsequence, from the last to the first.
fn matches(first: &[u8], second: &[u8], turns: &TracebackBits) -> Vec<Match> {
    let mut runs: Vec<Match> = Vec::new();
    let (mut row, mut column) = (first.len(), second.len());
    while row > 0 && column > 0 {
        if first[row - 1] != second[column - 1] {
            if turns.is_set(row - 1, column - 1) {
                row -= 1;
            } else {
                column -= 1;
            }
            continue;
        }
        match runs.last_mut().filter(|run| (run.first, run.second) == (row, column)) {
            Some(run) => {
                *run = Match { first: row - 1, second: column - 1, len: run.len + 1 };
            }
            None => runs.push(Match { first: row - 1, second: column - 1, len: 1 }),
        }
        (row, column) = (row - 1, column - 1);
    }
    runs
}

fn reply_subsequence(first: &[u8], matches: &[Match], reply: &mut Reply<'_>) {
    let mut subsequence = Vec::new();
    for run in matches.iter().rev() {
        subsequence.extend_from_slice(&first[run.first..run.first + run.len]);
    }
    reply.bulk(&subsequence);
}

fn reply_indexes(matches: &[Match], length: u32, options: LcsOptions, reply: &mut Reply<'_>) {
    let is_long_enough = |run: &&Match| run.len as i64 >= options.shortest_match;
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(matches.iter().filter(is_long_enough).count());
    for run in matches.iter().filter(is_long_enough) {
        reply.array(2 + usize::from(options.with_lengths));
        for start in [run.first, run.second] {
            reply.array(2);
            reply.integer(start as i64);
            reply.integer((start + run.len - 1) as i64);
        }
        if options.with_lengths {
            reply.integer(run.len as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(i64::from(length));
}
