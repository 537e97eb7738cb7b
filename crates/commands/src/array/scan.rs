//! Elements with their indexes: ARSCAN. Invariant: what it takes goes by the elements, not by the
//! range that is asked for.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::array::{Array, ArrayRef};
use structs::members::Text;

use super::get::READ;
use super::{IndexRange, PASSED_NS, limit, reply_index};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Spec, at_least};
use crate::errors::SYNTAX;
use crate::text::reply_member;

pub(super) const ARSCAN: DataCommand = Command {
    spec: Spec {
        name: "ARSCAN",
        syntax: "key start end [LIMIT limit:integer]",
        summary: "Iterates existing elements in a range, returning index-value pairs.",
        complexity: "O(P) where P is visited positions in touched slices (dense scanned slots + \
                     sparse entries), with worst-case O(|end-start|+1) and typical case close to \
                     O(N), where N is the number of existing elements in range.",
        arity: at_least(4),
        ..READ
    },
    subcommands: &[],
    run: arscan,
};

fn arscan(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let indexes = IndexRange::read(&args[2], &args[3])?;
    let mut most = u64::MAX;
    let mut options = Options::from(args, 4);
    while let Some(word) = options.word() {
        if !is(word, "LIMIT") {
            return Err(SYNTAX);
        }
        most = limit(options.value()?, 1)?;
    }
    let Some(array) = tx.view::<Array>(&args[1])? else {
        reply.array(0);
        return Ok(());
    };
    let count = array.count_in(indexes.range.clone()).min(most);
    tx.charge(count * PASSED_NS)?;
    reply.array(count as usize);
    for (index, text) in items(array, &indexes).take(count as usize) {
        reply_pair(index, text, reply);
    }
    Ok(())
}

/// The elements of a range, in the order in which it was given.
pub(super) fn items<'a>(
    array: ArrayRef<'a>,
    indexes: &IndexRange,
) -> impl Iterator<Item = (u64, Text<'a>)> + use<'a> {
    let (mut items, is_reversed) = (array.items(indexes.range.clone()), indexes.is_reversed);
    std::iter::from_fn(move || if is_reversed { items.next_back() } else { items.next() })
}

/// Replies an element with its index.
pub(super) fn reply_pair(index: u64, text: Text<'_>, reply: &mut Reply<'_>) {
    reply.array(2);
    reply_index(index, reply);
    reply_member(text, reply);
}
