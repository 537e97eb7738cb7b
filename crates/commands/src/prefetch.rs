//! Commands of many keys: what they look up is on its way from memory before its turn comes.
//!
//! Invariant: each is handled once, in its order; a key is hashed once for all that its turn does.

use keyspace::{Location, Refusal, Tx};
use smallvec::SmallVec;

/// The keys of so few were fetched before their command began.
const FEW: usize = 64;

/// So many are fetched together.
const TOGETHER: usize = 16;

/// Handles things with keys, such as pairs, one after the other.
pub(crate) fn for_each<'a, T: Copy>(
    tx: &mut Tx,
    mut things: impl ExactSizeIterator<Item = T>,
    key: impl Fn(T) -> &'a [u8],
    mut handle: impl FnMut(&mut Tx, T) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    if things.len() <= FEW {
        return things.try_for_each(|thing| handle(tx, thing));
    }
    loop {
        let some: SmallVec<[T; TOGETHER]> = things.by_ref().take(TOGETHER).collect();
        let locations: SmallVec<[Location; TOGETHER]> =
            some.iter().map(|&thing| tx.location_of(key(thing))).collect();
        tx.prefetch(&locations);
        for (&thing, &location) in some.iter().zip(&locations) {
            tx.hint(key(thing), location);
            let handled = handle(tx, thing);
            tx.forget_hint();
            handled?;
        }
        if some.len() < TOGETHER {
            return Ok(());
        }
    }
}

/// Handles keys, one after the other.
pub(crate) fn for_each_key<'a>(
    tx: &mut Tx,
    keys: impl ExactSizeIterator<Item = &'a [u8]>,
    handle: impl FnMut(&mut Tx, &'a [u8]) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    for_each(tx, keys, |key| key, handle)
}

#[cfg(test)]
mod tests {
    use keyspace::{Acquisition, PartitionSet, Refusal, Tx, TxOptions};

    use super::{FEW, TOGETHER, for_each_key};
    use crate::testing::{START, Session};

    /// A transaction that may touch nothing.
    fn begin() -> Tx {
        let nothing = Acquisition::of_partitions(Session::new().keyspace(), PartitionSet::new());
        Tx::begin(nothing, TxOptions::internal(0, START))
    }

    #[test]
    fn of_many_keys_each_comes_once_in_its_order_and_is_hashed_before() {
        let names: Vec<_> = (0..FEW + 3 * TOGETHER).map(|n| format!("k{n}")).collect();
        for count in [0, 1, FEW, FEW + 1, FEW + TOGETHER - 1, FEW + TOGETHER, names.len()] {
            let keys = names[..count].iter().map(String::as_bytes);
            let (mut seen, mut hashed) = (Vec::new(), 0);
            let handled = for_each_key(&mut begin(), keys.clone(), |tx, key| {
                hashed += usize::from(tx.hinted(key).is_some());
                seen.push(key);
                Ok(())
            });
            assert!(handled.is_ok());
            assert!(keys.eq(seen));
            assert_eq!(hashed, if count > FEW { count } else { 0 });
        }
    }

    #[test]
    fn the_first_refusal_ends_it() {
        let names: Vec<_> = (0..100).map(|n| format!("k{n}")).collect();
        let mut seen = 0;
        let refused = for_each_key(&mut begin(), names.iter().map(String::as_bytes), |_, _| {
            seen += 1;
            if seen == 70 { Err(Refusal::Heavy) } else { Ok(()) }
        });
        assert!(matches!(refused, Err(Refusal::Heavy)) && seen == 70);
    }
}
