//! Tests of the bits: against one bit after the other, in one piece and in leaves.

use proptest::prelude::{Strategy, any, prop, prop_assert_eq, prop_assume, proptest};

use super::{
    BLOCK, BitRange, FieldType, FieldWindow, Operation, Overflow, bit_of, combine, count_ones,
    count_ones_in, find_bit, with_bit,
};
use crate::blob::Blob;

fn bit(bytes: &[u8], offset: u64) -> bool {
    bytes.get((offset / 8) as usize).is_some_and(|byte| bit_of(*byte, offset))
}

/// Mostly runs of equal bytes, as bitmaps have.
fn bitmap() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop::sample::select(vec![0, 0, 0xFF, 0xFF, 0x01, 0x80, 0x7F, 0xA5]);
    prop::collection::vec((byte, 1..20_usize), 0..12).prop_map(|runs| {
        runs.into_iter().flat_map(|(byte, len)| std::iter::repeat_n(byte, len)).collect()
    })
}

const OPERATIONS: [Operation; 8] = [
    Operation::And,
    Operation::Or,
    Operation::Xor,
    Operation::Not,
    Operation::Diff,
    Operation::Diff1,
    Operation::AndOr,
    Operation::One,
];

fn combined(operation: Operation, bits: &[bool]) -> bool {
    let (first, others) = (bits[0], &bits[1..]);
    let any_other = others.contains(&true);
    let set = bits.iter().filter(|bit| **bit).count();
    match operation {
        Operation::And => set == bits.len(),
        Operation::Or => set > 0,
        Operation::Xor => set % 2 == 1,
        Operation::Not => !first,
        Operation::Diff => first && !any_other,
        Operation::Diff1 => !first && any_other,
        Operation::AndOr => first && any_other,
        Operation::One => set == 1,
    }
}

fn combine_whole(operation: Operation, sources: &[Vec<u8>]) -> Vec<u8> {
    let len = sources.iter().map(Vec::len).max().unwrap_or(0);
    let mut result = vec![0; len];
    let chunk_at = |source: usize, offset: usize| sources[source].get(offset..).unwrap_or(&[]);
    combine(operation, sources.len(), len, chunk_at, |offset, block| {
        result[offset..offset + block.len()].copy_from_slice(block);
    });
    result
}

#[test]
fn the_first_bit_is_the_highest() {
    assert_eq!(with_bit(0, 0, true), 0x80);
    assert_eq!(with_bit(0xFF, 15, false), 0xFE);
    assert!(bit_of(0x40, 9));
    assert!(!bit_of(0x40, 10));
}

#[test]
fn words_and_what_is_left_of_them_are_counted() {
    for len in 0..70 {
        let bytes: Vec<u8> = (0..len).map(|index| (index * 37) as u8).collect();
        let expected: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(count_ones(&bytes), u64::from(expected));
    }
}

#[test]
fn a_range_may_lie_within_one_byte_or_be_empty() {
    let bytes: &[u8] = &[0b0011_0100];
    let range = |start, end| BitRange { start, end };
    assert_eq!(count_ones_in([bytes], range(3, 6)), 2);
    assert_eq!(find_bit([bytes], range(4, 8), true), Some(5));
    assert_eq!(find_bit([bytes], range(6, 8), true), None);
    assert_eq!(find_bit([bytes], range(2, 4), false), None);
    assert_eq!(count_ones_in([bytes], range(3, 3)), 0);
    assert_eq!(find_bit([bytes], range(3, 3), true), None);
    assert_eq!(range(15, 17).bytes(), 1..3);
}

#[test]
fn blobs_are_combined_across_leaves_and_blocks() {
    let len = 3 * BLOCK + 17;
    let pattern = |factor: usize, len: usize| -> Vec<u8> {
        (0..len).map(|index| (index * factor / 7) as u8).collect()
    };
    let sources = [pattern(3, len), pattern(11, len - BLOCK), pattern(5, 100)];
    let blobs: Vec<Blob> = sources.iter().map(|source| Blob::from_slice(source)).collect();
    for operation in OPERATIONS {
        let mut result = Blob::new();
        let chunk_at = |source: usize, offset: usize| blobs[source].chunk_at(offset);
        combine(operation, blobs.len(), len, chunk_at, |offset, block| {
            result.write_at(offset, block);
        });
        assert!(result == combine_whole(operation, &sources)[..], "{operation:?}");
    }
}

/// Replies of Redis 7.0.
#[test]
fn numbers_too_large_for_a_field_go_as_in_redis() {
    let field = |signed, width| FieldType::new(signed, width).unwrap();
    assert_eq!(field(false, 8).fit(-1, Overflow::Wrap), Some(255));
    assert_eq!(field(false, 8).fit(-1, Overflow::Saturate), Some(255));
    assert_eq!(field(false, 63).fit(-1, Overflow::Saturate), Some(i64::MAX));
    assert_eq!(field(false, 8).fit(256, Overflow::Fail), None);
    assert_eq!(field(true, 8).fit(-200, Overflow::Saturate), Some(-128));
    assert_eq!(field(true, 8).fit(200, Overflow::Wrap), Some(-56));
    assert_eq!(field(true, 64).add(i64::MAX, 1, Overflow::Saturate), Some(i64::MAX));
    assert_eq!(field(true, 64).add(i64::MAX, 1, Overflow::Wrap), Some(i64::MIN));
    assert_eq!(field(true, 64).add(i64::MIN, -1, Overflow::Fail), None);
    assert_eq!(field(false, 4).add(0, -1, Overflow::Wrap), Some(15));
    assert_eq!(field(false, 4).add(0, -1, Overflow::Saturate), Some(0));
}

#[test]
fn fields_have_a_bit_at_least_and_fit_an_integer() {
    for (signed, width, there) in [
        (true, 0, false),
        (true, 64, true),
        (true, 65, false),
        (false, 63, true),
        (false, 64, false),
    ] {
        assert_eq!(FieldType::new(signed, width).is_some(), there);
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config {
        failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn counting_and_searching_go_bit_by_bit(
        bytes in bitmap(), places in any::<(u32, u32)>(), piece in 1..40_usize,
    ) {
        let bits = bytes.len() as u64 * 8;
        let (one, other) = (u64::from(places.0) % (bits + 1), u64::from(places.1) % (bits + 1));
        let range = BitRange { start: one.min(other), end: one.max(other) };
        let mut set = (range.start..range.end).filter(|offset| bit(&bytes, *offset));
        let mut clear = (range.start..range.end).filter(|offset| !bit(&bytes, *offset));
        let chunks = || bytes[range.bytes()].chunks(piece);
        prop_assert_eq!(find_bit(chunks(), range, true), set.clone().next());
        prop_assert_eq!(find_bit(chunks(), range, false), clear.next());
        prop_assert_eq!(count_ones_in(chunks(), range), set.by_ref().count() as u64);
    }

    #[test]
    fn combining_goes_bit_by_bit(sources in prop::collection::vec(bitmap(), 1..6)) {
        for operation in OPERATIONS {
            let result = combine_whole(operation, &sources);
            for offset in 0..result.len() as u64 * 8 {
                let bits: Vec<bool> = sources.iter().map(|source| bit(source, offset)).collect();
                prop_assert_eq!(bit(&result, offset), combined(operation, &bits));
            }
        }
    }

    #[test]
    fn a_field_is_its_bits_and_leaves_the_others(
        bytes in prop::collection::vec(any::<u8>(), 0..20),
        (signed, width) in any::<bool>().prop_flat_map(|signed| {
            (proptest::strategy::Just(signed), 1..=if signed { 64_u32 } else { 63 })
        }),
        offset in 0..200_u64, value in any::<i64>(),
    ) {
        let field = FieldType::new(signed, width).unwrap();
        let mut window = FieldWindow::new(field, offset);
        let range = window.range();
        let held = range.start.min(bytes.len())..range.end.min(bytes.len());
        window = window.filled(bytes[held].chunks(2));
        let naive = |bytes: &[u8]| {
            let sign = signed && bit(bytes, offset);
            (0..u64::from(width)).fold(if sign { -1_i64 } else { 0 }, |number, place| {
                number << 1 | i64::from(bit(bytes, offset + place))
            })
        };
        prop_assert_eq!(window.get(), naive(&bytes));

        let fitted = field.fit(value, Overflow::Wrap).unwrap();
        window.set(fitted);
        prop_assert_eq!(window.get(), fitted);
        let mut written = bytes.clone();
        written.resize(bytes.len().max(range.end), 0);
        written[range.clone()].copy_from_slice(window.bytes());
        prop_assert_eq!(naive(&written), fitted);
        let inside = offset..offset + u64::from(width);
        for place in (0..written.len() as u64 * 8).filter(|place| !inside.contains(place)) {
            prop_assert_eq!(bit(&written, place), bit(&bytes, place));
        }
    }

    #[test]
    fn what_a_field_cannot_hold_is_wrapped_bounded_or_refused(
        signed in any::<bool>(), width in 1..=63_u32, value in any::<i64>(), by in any::<i64>(),
    ) {
        let field = FieldType::new(signed, width).unwrap();
        let value = field.fit(value, Overflow::Wrap).unwrap();
        let (low, high) = if signed {
            (-(1_i128 << (width - 1)), (1_i128 << (width - 1)) - 1)
        } else {
            (0, (1_i128 << width) - 1)
        };
        prop_assume!((low..=high).contains(&i128::from(value)));
        let exact = i128::from(value) + i128::from(by);
        let fits = (low..=high).contains(&exact);
        let wrapped = i128::from(field.add(value, by, Overflow::Wrap).unwrap());
        prop_assert_eq!((wrapped - exact).rem_euclid(1_i128 << width), 0);
        proptest::prop_assert!((low..=high).contains(&wrapped));
        let bounded = field.add(value, by, Overflow::Saturate).map(i128::from);
        prop_assert_eq!(bounded, Some(exact.clamp(low, high)));
        let refused = field.add(value, by, Overflow::Fail).map(i128::from);
        prop_assert_eq!(refused, fits.then_some(exact));
    }
}
