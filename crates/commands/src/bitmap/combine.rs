//! Bits of several strings: BITOP.
//!
//! Invariants: sources are read where they lie; a result over 64 KB is built as a tree; the journal
//! gets the result of operations that came late.

use keyspace::{EventClass, INLINE_MAX, Kind, Lifetime, NewText, Refusal, Tx};
use proto::{Args, Reply};
use smallvec::SmallVec;
use structs::bits::{Operation, combine};
use structs::blob::Blob;

use super::StringBytes;
use crate::DataCommand;
use crate::arguments::is;
use crate::change::{notify_overwritten, remove};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::{SYNTAX, showing};
use crate::keys::{Access, all_from, at};

/// About what is combined in a nanosecond, cautiously, in bytes.
const COMBINED_BYTES_PER_NS: u64 = 2;

pub(super) const BITOP: DataCommand = Command {
    spec: Spec {
        name: "BITOP",
        since: "2.6.0",
        group: Group::Bitmap,
        syntax: "<AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE> destkey key [key ...]",
        summary: "Performs bitwise operations on multiple strings, and stores the result.",
        complexity: "O(N)",
        arity: at_least(4),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::OPTIMISTIC),
        keys: &[at(2, Access::OW.and(Access::UPDATE)), all_from(3, Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: bitop,
};

const OPERATIONS: [(&str, Operation); 8] = [
    ("AND", Operation::And),
    ("OR", Operation::Or),
    ("XOR", Operation::Xor),
    ("NOT", Operation::Not),
    ("DIFF", Operation::Diff),
    ("DIFF1", Operation::Diff1),
    ("ANDOR", Operation::AndOr),
    ("ONE", Operation::One),
];

fn bitop(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (destination, sources) = (&args[2], args.skip(3));
    let operation = OPERATIONS.iter().find(|(name, _)| is(&args[1], name));
    let &(name, operation) = operation.ok_or(SYNTAX)?;
    match operation {
        Operation::Not if sources.len() != 1 => {
            return Err(Refusal::error("ERR BITOP NOT must be called with a single source key."));
        }
        Operation::Diff | Operation::Diff1 | Operation::AndOr if sources.len() < 2 => {
            let after = " must be called with at least two source keys.";
            return Err(showing("ERR BITOP ", name.as_bytes(), after));
        }
        _ => {}
    }
    let result = tx.compute(|tx| combined(tx, operation, sources))?;
    let len = match &result {
        Combined::Short(bytes) => bytes.len(),
        Combined::Long(blob) => blob.len(),
    };
    if len > 0 {
        if !is_known_to_all(operation) && tx.effects().is_recorded() {
            let long;
            let bytes = match &result {
                Combined::Short(bytes) => bytes,
                Combined::Long(blob) => {
                    long = blob.chunks(0..len).collect::<Vec<_>>().concat();
                    &long
                }
            };
            tx.effects_mut().instead(&[b"SET", destination, bytes]);
        }
        let text = match &result {
            Combined::Short(bytes) => NewText::from_bytes(bytes, true),
            Combined::Long(blob) => NewText::Large(blob.clone()),
        };
        if let Some(before) = tx.put_text(destination, text, Lifetime::Forever)? {
            notify_overwritten(tx, destination, before, Kind::String);
        }
        tx.event(EventClass::String, "set", destination);
    } else if tx.exists(destination)? {
        remove(tx, destination)?;
    }
    reply.integer(len as i64);
    Ok(())
}

/// Whether every server that replicates knows an operation.
fn is_known_to_all(operation: Operation) -> bool {
    matches!(operation, Operation::And | Operation::Or | Operation::Xor | Operation::Not)
}

enum Combined {
    Short(Vec<u8>),
    Long(Blob),
}

fn combined(tx: &Tx, operation: Operation, keys: Args<'_>) -> Result<Combined, Refusal> {
    let mut digits: SmallVec<[[u8; 20]; 8]> = SmallVec::from_elem([0; 20], keys.len());
    let mut sources = SmallVec::<[StringBytes<'_>; 8]>::new();
    for (key, digits) in keys.iter().zip(&mut digits) {
        sources.push(StringBytes::of(tx.text(key)?, digits));
    }
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let work = sources.iter().map(|source| source.len() as u64).sum::<u64>();
    tx.charge(work / COMBINED_BYTES_PER_NS)?;
    let chunk_at = |source: usize, offset| sources[source].chunk_at(offset);
    if len > INLINE_MAX {
        let mut blob = Blob::default();
        let append = |_, block: &[u8]| blob.append(block);
        combine(operation, sources.len(), len, chunk_at, append);
        return Ok(Combined::Long(blob));
    }
    let mut bytes = Vec::with_capacity(len);
    let append = |_, block: &[u8]| bytes.extend_from_slice(block);
    combine(operation, sources.len(), len, chunk_at, append);
    Ok(Combined::Short(bytes))
}
