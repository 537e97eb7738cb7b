//! The HyperLogLog family: how many distinct elements there were, in a string.
//!
//! Invariants: every command declared in these files stands in `COMMANDS`; the strings are byte for
//! byte those of Redis, so they move both ways.

mod count;
mod debug;
#[cfg(test)]
mod tests;

use keyspace::{Refusal, Text, Tx};
use structs::hyperloglog::{self, HllDamage};

use crate::DataCommand;

/// All commands of the family.
pub const COMMANDS: &[&DataCommand] =
    &[&count::PFADD, &count::PFCOUNT, &debug::PFDEBUG, &count::PFMERGE, &debug::PFSELFTEST];

const FOREIGN: Refusal = Refusal::error("WRONGTYPE Key is not a valid HyperLogLog string value.");
const CORRUPT: Refusal = Refusal::error("INVALIDOBJ Corrupted HLL object detected");

fn refusal(damage: HllDamage) -> Refusal {
    match damage {
        HllDamage::Foreign => FOREIGN,
        HllDamage::Corrupted => CORRUPT,
    }
}

/// A copy of the HyperLogLog at a key, if there is one. The copy leaves no trace.
fn load(tx: &Tx, key: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
    let Some(text) = tx.peek_text(key)? else { return Ok(None) };
    let bytes = match text {
        Text::Inline(bytes) => bytes.to_vec(),
        // Neither a number nor a string of more than 64 KB is one.
        Text::Integer(_) | Text::Large(_) => return Err(FOREIGN),
    };
    hyperloglog::encoding(&bytes).map_err(refusal)?;
    Ok(Some(bytes))
}
