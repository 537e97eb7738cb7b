//! Intsets of any bytes: reading them never panics; what is valid agrees with a sorted set through
//! any edits.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use structs::intset::{self, Intset};

fuzz_target!(|data: &[u8]| {
    let set = Intset::new(data);
    assert_eq!(set.iter().count(), set.len());
    let _ = (set.contains(0), set.get(set.len()));

    let [cut, rest @ ..] = data else { return };
    let (start, steps) = rest.split_at(rest.len().min(usize::from(*cut)));
    let mut bytes = if intset::validate(start).is_ok() { start.to_vec() } else { intset::new() };
    let mut model: BTreeSet<i64> = Intset::new(&bytes).iter().collect();
    for step in steps.chunks(9) {
        let [kind, number @ ..] = step else { return };
        let mut word = [0; 8];
        word[..number.len()].copy_from_slice(number);
        // Shifts make narrow numbers as likely as wide ones.
        let value = i64::from_le_bytes(word) >> (kind >> 2);
        match kind & 3 {
            0 => assert_eq!(intset::remove(&mut bytes, value), model.remove(&value)),
            1 => {
                let index = value.unsigned_abs() as usize % (model.len() + 1);
                let expected = model.iter().nth(index).copied();
                assert_eq!(intset::remove_at(&mut bytes, index), expected);
                expected.map(|value| model.remove(&value));
            }
            _ => assert_eq!(intset::insert(&mut bytes, value), model.insert(value)),
        }
        assert!(Intset::new(&bytes).iter().eq(model.iter().copied()));
        assert_eq!(intset::validate(&bytes).is_ok(), !model.is_empty());
    }
});
