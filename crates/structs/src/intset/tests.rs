//! Tests of the intset: bytes as Redis writes them, edits against a sorted set of std.

use std::collections::BTreeSet;

use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::{Intset, IntsetDamage, bytes_for, insert, new, remove, remove_at, validate};

fn set_of(values: &[i64]) -> Vec<u8> {
    let mut bytes = new();
    for value in values {
        assert!(insert(&mut bytes, *value));
    }
    bytes
}

fn check(bytes: &[u8], model: &BTreeSet<i64>) {
    let set = Intset::new(bytes);
    assert!(set.iter().eq(model.iter().copied()));
    assert!(set.iter().rev().eq(model.iter().rev().copied()));
    assert_eq!(set.len(), model.len());
    assert_eq!(set.is_empty(), model.is_empty());
    assert_eq!(set.get(model.len()), None);
    let expected = if model.is_empty() { Err(IntsetDamage::Empty) } else { Ok(()) };
    assert_eq!(validate(bytes), expected);
}

#[test]
fn the_bytes_are_those_of_redis() {
    let wide = 1 << 40;
    let table: [(&[i64], &[u8]); 5] = [
        (&[3], b"\x02\0\0\0\x01\0\0\0\x03\0"),
        (&[5, -3, 7], b"\x02\0\0\0\x03\0\0\0\xfd\xff\x05\0\x07\0"),
        (&[1, 40_000], b"\x04\0\0\0\x02\0\0\0\x01\0\0\0\x40\x9c\0\0"),
        (&[1, -40_000, 3], b"\x04\0\0\0\x03\0\0\0\xc0\x63\xff\xff\x01\0\0\0\x03\0\0\0"),
        (
            &[1, wide, -wide],
            b"\x08\0\0\0\x03\0\0\0\0\0\0\0\0\xff\xff\xff\
              \x01\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0",
        ),
    ];
    for (values, expected) in table {
        assert_eq!(set_of(values), expected, "{values:?}");
    }
}

#[test]
fn removing_makes_nothing_narrower() {
    let mut bytes = set_of(&[3, 100_000]);
    assert!(remove(&mut bytes, 100_000));
    assert_eq!(bytes, b"\x04\0\0\0\x01\0\0\0\x03\0\0\0");
    assert_eq!(bytes.len(), bytes_for(1, 100_000));
}

#[test]
fn damage_is_found() {
    let table: [(&[u8], IntsetDamage); 9] = [
        (b"", IntsetDamage::Length),
        (b"\x02\0\0\0\x01\0\0", IntsetDamage::Length),
        (b"\x02\0\0\0\0\0\0\0", IntsetDamage::Empty),
        (b"\x03\0\0\0\x01\0\0\0\x01\0\0", IntsetDamage::Width),
        (b"\x02\0\0\0\x02\0\0\0\x01\0", IntsetDamage::Length),
        (b"\x02\0\0\0\x01\0\0\0\x01\0\0", IntsetDamage::Length),
        (b"\x08\0\0\0\xff\xff\xff\xff\x01\0", IntsetDamage::Length),
        (b"\x02\0\0\0\x02\0\0\0\x01\0\x01\0", IntsetDamage::Order(1)),
        (b"\x02\0\0\0\x03\0\0\0\x01\0\x02\0\xff\xff", IntsetDamage::Order(2)),
    ];
    for (bytes, expected) in table {
        assert_eq!(validate(bytes), Err(expected), "{bytes:?}");
    }
}

fn value() -> impl Strategy<Value = i64> {
    prop_oneof![
        6 => -40_i64..40,
        2 => any::<i16>().prop_map(i64::from),
        1 => any::<i32>().prop_map(i64::from),
        1 => any::<i64>(),
        1 => prop::sample::select(vec![
            i64::MIN, i64::MAX, 1 << 31, (1 << 31) - 1, -(1 << 31), -(1 << 31) - 1, 32_767,
            32_768, -32_768, -32_769,
        ]),
    ]
}

proptest! {
    #![proptest_config(proptest::test_runner::Config {
        failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn an_intset_is_a_sorted_set(steps in prop::collection::vec((0..4_u8, value()), 0..80)) {
        let (mut bytes, mut model) = (new(), BTreeSet::new());
        for (kind, value) in steps {
            match kind {
                0 | 1 => prop_assert_eq!(insert(&mut bytes, value), model.insert(value)),
                2 => prop_assert_eq!(remove(&mut bytes, value), model.remove(&value)),
                _ => {
                    let index = value.unsigned_abs() as usize % (model.len() + 1);
                    let expected = model.iter().nth(index).copied();
                    prop_assert_eq!(Intset::new(&bytes).get(index), expected);
                    prop_assert_eq!(remove_at(&mut bytes, index), expected);
                    expected.map(|value| model.remove(&value));
                }
            }
            prop_assert_eq!(Intset::new(&bytes).contains(value), model.contains(&value));
            check(&bytes, &model);
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let set = Intset::new(&bytes);
        prop_assert!(set.iter().count() == set.len());
        set.contains(5);
    }
}
