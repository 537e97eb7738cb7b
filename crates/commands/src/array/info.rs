//! What an array is made of: ARINFO.
//!
//! Redis cuts an array into slices of equal index ranges; here a slice is a page, which ends where
//! its bytes do. A page is dense where no index is missing on it. There is no directory beside the
//! pages: as its size their number is told, and no entries above it.
//!
//! Invariant: the fields and their order are those of Redis.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::array::{Array, ArrayRef, INDEX_MAX};

use super::get::READ;
use super::{FOUND_NS, reply_index};
use crate::DataCommand;
use crate::arguments::is;
use crate::declare::{Command, Spec, at_least};
use crate::errors::{NO_SUCH_KEY, SYNTAX};

/// Bytes of a page.
const SLICE_SIZE: u64 = 4096;

pub(super) const ARINFO: DataCommand = Command {
    spec: Spec {
        name: "ARINFO",
        syntax: "key [FULL]",
        summary: "Returns metadata about an array.",
        complexity: "O(1), or O(N) with FULL option where N is the number of slices.",
        arity: at_least(2),
        ..READ
    },
    subcommands: &[],
    run: arinfo,
};

fn arinfo(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let is_full = match args.len() {
        2 => false,
        3 if is(&args[2], "FULL") => true,
        _ => return Err(SYNTAX),
    };
    let array = tx.view::<Array>(&args[1])?.ok_or(NO_SUCH_KEY)?;
    if is_full {
        tx.charge(array.pages() * FOUND_NS)?;
    }
    reply.map(if is_full { 12 } else { 7 });
    let next = array.next();
    let numbers = [
        ("count", array.count()),
        ("len", array.len()),
        ("next-insert-index", if next > INDEX_MAX { 0 } else { next }),
        ("slices", array.pages()),
        ("directory-size", array.pages()),
        ("super-dir-entries", 0),
        ("slice-size", SLICE_SIZE),
    ];
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply_index(number, reply);
    }
    if is_full {
        reply_pages(array, reply);
    }
    Ok(())
}

fn reply_pages(array: ArrayRef<'_>, reply: &mut Reply<'_>) {
    let counts = array.page_counts();
    for (name, number) in [("dense-slices", counts.runs), ("sparse-slices", counts.gapped)] {
        reply.bulk(name.as_bytes());
        reply_index(number, reply);
    }
    let mean = |sum: u64, count: u64| if count == 0 { 0.0 } else { sum as f64 / count as f64 };
    let numbers = [
        ("avg-dense-size", mean(counts.in_runs, counts.runs)),
        ("avg-dense-fill", mean(counts.runs, counts.runs)),
        ("avg-sparse-size", mean(counts.in_gapped, counts.gapped)),
    ];
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.double(number);
    }
}
