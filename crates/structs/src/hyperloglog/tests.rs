//! Tests of the HyperLogLog: bytes and counts as a real Redis 7.0 gave them, sparse against dense,
//! and bytes of any kind.

use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

use super::{
    Adder, DENSE_LEN, Encoding, HEADER, HllDamage, REGISTERS, RegisterUpdate, Registers, add,
    add_dense, cache_count, cached_count, count, decode, encoding, forget_count, new, register,
    self_test, to_dense, validate,
};

const SPARSE_LEN_MAX: usize = 3000;

fn added<T: AsRef<[u8]>>(elements: impl IntoIterator<Item = T>, sparse_len_max: usize) -> Vec<u8> {
    let mut bytes = new();
    for element in elements {
        let place = RegisterUpdate::of(element.as_ref());
        let rises = register(&bytes, place.index).unwrap() < place.value;
        assert_eq!(add(&mut bytes, place, sparse_len_max), Ok(rises));
        assert!(register(&bytes, place.index).unwrap() >= place.value);
    }
    bytes
}

fn numbered(range: std::ops::Range<usize>) -> impl Iterator<Item = String> {
    range.map(|number| format!("e{number}"))
}

/// FNV-1a, to write 12 KB of expected bytes as one number.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

fn all_registers(bytes: &[u8]) -> Vec<u8> {
    let mut registers = Registers::default();
    registers.merge(bytes).unwrap();
    registers.values().to_vec()
}

#[test]
fn a_new_one_is_that_of_redis() {
    let mut bytes = new();
    assert_eq!(bytes, b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff");
    assert_eq!(cached_count(&bytes), Ok(Some(0)));
    forget_count(&mut bytes).unwrap();
    assert_eq!(bytes, b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x7f\xff");
    assert_eq!(cached_count(&bytes), Ok(None));
    assert_eq!(count(&bytes), Ok(0));
    assert_eq!(validate(&bytes), Ok(()));
}

#[test]
fn sparse_bytes_are_those_of_redis() {
    let mut bytes = added(["a", "b", "c", "d", "e", "f", "g"], SPARSE_LEN_MAX);
    let registers = b"\x46\x6d\x80\x56\x0c\x80\x44\x3c\x84\x38\x80\x50\xb1\x84\x49\x8c\x80\x42\
        \x6d\x80\x42\x5a";
    assert_eq!(bytes[..HEADER], *b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80");
    assert_eq!(bytes[HEADER..], *registers);
    assert_eq!(count(&bytes), Ok(7));
    cache_count(&mut bytes, 7).unwrap();
    assert_eq!(bytes[..HEADER], *b"HYLL\x01\0\0\0\x07\0\0\0\0\0\0\0");
    assert_eq!(cached_count(&bytes), Ok(Some(7)));
}

#[test]
fn the_sparse_form_is_spelled_out() {
    let mut bytes = added(["a", "b", "c"], SPARSE_LEN_MAX);
    let text = decode(&bytes).unwrap();
    assert_eq!(text.unwrap(), "Z:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603");
    to_dense(&mut bytes).unwrap();
    assert_eq!(decode(&bytes), Ok(None));
}

#[test]
fn bytes_and_counts_of_many_are_those_of_redis() {
    let table = [
        (10, 48, 0x4afc_b65d_27f7_d346, 10, Encoding::Sparse),
        (100, 285, 0xb8de_76da_b4a4_065e, 100, Encoding::Sparse),
        (500, 1068, 0xae68_01a0_53be_0586, 506, Encoding::Sparse),
        (1000, 1906, 0x5935_de02_3280_6824, 1008, Encoding::Sparse),
        (2000, 12_304, 0x1b55_76fa_1f6b_8092, 2000, Encoding::Dense),
        (10_000, 12_304, 0x7378_cbab_5ab5_c44b, 9973, Encoding::Dense),
        (100_000, 12_304, 0xafbf_1713_dc5b_a3c8, 100_853, Encoding::Dense),
        (1_000_000, 12_304, 0x13d9_15c4_6776_e346, 991_657, Encoding::Dense),
    ];
    for (elements, len, expected, expected_count, expected_encoding) in table {
        let mut bytes = new();
        for element in numbered(0..elements) {
            add(&mut bytes, RegisterUpdate::of(element.as_bytes()), SPARSE_LEN_MAX).unwrap();
        }
        assert_eq!((bytes.len(), encoding(&bytes)), (len, Ok(expected_encoding)));
        assert_eq!(digest(&bytes), expected, "{elements}");
        assert_eq!(count(&bytes), Ok(expected_count));
    }
}

#[test]
fn the_dense_form_is_taken_when_the_sparse_one_would_pass_its_bound() {
    let before = added(numbered(0..14), 60);
    assert_eq!((before.len(), encoding(&before)), (60, Ok(Encoding::Sparse)));
    let after = added(numbered(0..15), 60);
    assert_eq!(encoding(&after), Ok(Encoding::Dense));
    assert_eq!(digest(&after), 0xd36a_958b_f22a_c3ee);
}

#[test]
fn a_register_above_32_makes_the_form_dense() {
    let mut bytes = added(["a"], SPARSE_LEN_MAX);
    assert_eq!(add(&mut bytes, RegisterUpdate { index: 7, value: 32 }, SPARSE_LEN_MAX), Ok(true));
    assert_eq!(encoding(&bytes), Ok(Encoding::Sparse));
    assert_eq!(
        add_dense(&mut bytes, RegisterUpdate { index: 8, value: 3 }),
        Err(HllDamage::Foreign)
    );
    assert_eq!(add(&mut bytes, RegisterUpdate { index: 7, value: 33 }, SPARSE_LEN_MAX), Ok(true));
    assert_eq!(encoding(&bytes), Ok(Encoding::Dense));
    assert_eq!(register(&bytes, 7), Ok(33));
    assert_eq!(add_dense(&mut bytes, RegisterUpdate { index: 8, value: 3 }), Ok(true));
    assert_eq!(add_dense(&mut bytes, RegisterUpdate { index: 8, value: 2 }), Ok(false));
}

#[test]
fn a_union_of_sparse_ones_is_that_of_redis() {
    let mut union = Registers::default();
    union.merge(&added(numbered(0..300), SPARSE_LEN_MAX)).unwrap();
    union.merge(&added(numbered(200..500), SPARSE_LEN_MAX)).unwrap();
    assert_eq!(union.count(), 506);
    let mut bytes = new();
    union.store(&mut bytes, SPARSE_LEN_MAX).unwrap();
    assert_eq!((bytes.len(), digest(&bytes)), (1068, 0xae68_01a0_53be_0586));
}

#[test]
fn a_union_with_a_dense_one_is_dense() {
    let mut dense = added(numbered(0..20), SPARSE_LEN_MAX);
    assert_eq!(to_dense(&mut dense), Ok(true));
    assert_eq!(to_dense(&mut dense), Ok(false));
    let mut target = added(numbered(10..30), SPARSE_LEN_MAX);
    let mut union = Registers::default();
    union.merge(&dense).unwrap();
    union.merge(&target).unwrap();
    union.store(&mut target, SPARSE_LEN_MAX).unwrap();
    assert_eq!(encoding(&target), Ok(Encoding::Dense));
    assert_eq!(all_registers(&target), all_registers(&added(numbered(0..30), SPARSE_LEN_MAX)));
}

#[test]
fn forged_bytes_are_refused_as_redis_does() {
    let sparse = |registers: &[u8]| [b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80", registers].concat();
    let dense_too_short = [b"HYLL\0".as_slice(), &[0; DENSE_LEN - 6]].concat();
    let table = [
        (b"HYLL".to_vec(), HllDamage::Foreign),
        (b"HYLL\x02\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec(), HllDamage::Foreign),
        (b"HYLX\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff".to_vec(), HllDamage::Foreign),
        (dense_too_short, HllDamage::Foreign),
        (sparse(b""), HllDamage::Corrupted),
        (sparse(b"\x7f"), HllDamage::Corrupted),
        (sparse(b"\x7f\xfe"), HllDamage::Corrupted),
        (sparse(b"\x7f\xff\0"), HllDamage::Corrupted),
        (sparse(b"\x7f\xff\x7f\xff"), HllDamage::Corrupted),
    ];
    for (bytes, damage) in table {
        assert_eq!(validate(&bytes), Err(damage));
        assert_eq!(count(&bytes), Err(damage));
        assert_eq!(Registers::default().merge(&bytes), Err(damage));
        let mut target = bytes.clone();
        assert_eq!(to_dense(&mut target), Err(damage));
        assert_eq!(target, bytes, "nothing is half-done");
    }
}

#[test]
fn registers_and_estimates_pass_their_own_test() {
    self_test(200_000).unwrap();
}

proptest! {
    #![proptest_config(proptest::test_runner::Config {
        cases: 64, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn sparse_and_dense_registers_are_the_highest_values(
        places in prop::collection::vec((0..80_usize, 1..=34_u8), 0..150),
        spread in prop::sample::select(vec![1_usize, 3, 70, 205]), start in 0..3_usize,
    ) {
        let (mut sparse, mut dense) = (new(), new());
        to_dense(&mut dense).unwrap();
        let mut model = vec![0; REGISTERS];
        for (index, value) in places {
            let index = [0, 5000, REGISTERS - 1 - 79 * spread][start] + index * spread;
            let place = RegisterUpdate { index: index.min(REGISTERS - 1), value };
            let rises = model[place.index] < value;
            prop_assert_eq!(add(&mut sparse, place, 400), Ok(rises));
            prop_assert_eq!(add_dense(&mut dense, place), Ok(rises));
            model[place.index] = model[place.index].max(value);
            prop_assert_eq!(register(&sparse, place.index), Ok(model[place.index]));
            prop_assert_eq!(register(&dense, place.index), Ok(model[place.index]));
        }
        prop_assert_eq!(validate(&sparse), Ok(()));
        prop_assert_eq!(&all_registers(&sparse), &model);
        prop_assert_eq!(&all_registers(&dense), &model);
        prop_assert_eq!(count(&sparse), count(&dense));
    }

    /// The order decides how runs are joined, and an adder's anchors move with each change.
    #[test]
    fn many_elements_at_once_leave_what_they_leave_one_by_one(
        mut indexes in prop::collection::vec(0..REGISTERS, 0..400),
        order in 0..4_usize, spread in prop::sample::select(vec![1_usize, 30, 40, REGISTERS]),
        values in 1..=4_u8, len_max in prop::sample::select(vec![300_usize, 3000]),
    ) {
        indexes.iter_mut().for_each(|index| *index = *index % spread * (REGISTERS / spread));
        match order {
            0 => indexes.sort_unstable(),
            1 => indexes.sort_unstable_by(|one, other| other.cmp(one)),
            _ => {}
        }
        let (mut one_by_one, mut at_once) = (new(), new());
        let places = indexes.iter().zip((0..=u8::MAX).cycle()).map(|(index, number)| {
            RegisterUpdate { index: *index, value: number % values + 1 }
        });
        let mut adder = Adder::new(&mut at_once, len_max);
        for place in places {
            prop_assert_eq!(adder.add(place), add(&mut one_by_one, place, len_max));
        }
        prop_assert_eq!(at_once, one_by_one);
    }

    #[test]
    fn any_registers_are_read_and_changed_without_a_panic(
        registers in prop::collection::vec(any::<u8>(), 0..60), element in any::<u64>(),
    ) {
        let mut bytes = new();
        bytes.truncate(HEADER);
        bytes.extend_from_slice(&registers);
        let place = RegisterUpdate::of(&element.to_le_bytes());
        prop_assert_eq!(validate(&bytes).is_ok(), count(&bytes).is_ok());
        if add(&mut bytes, place, 70) == Ok(true) {
            prop_assert!(register(&bytes, place.index) == Ok(place.value));
        }
        let _ = Registers::default().merge(&bytes);
        let _ = Registers::default().store(&mut bytes, 70);
    }
}
