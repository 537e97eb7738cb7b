//! Tests of the listpack: bytes as a real Redis 7.0 wrote them, edits against a list of strings,
//! damage in every place.

use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::{
    EMPTY_LEN, Element, Entry, Listpack, ListpackDamage, insert, insert_from, new, push_back,
    push_front, remove, replace, replace_range, split_off, truncate, validate,
};

fn listpack_of<T: AsRef<[u8]>>(texts: &[T]) -> Vec<u8> {
    let mut bytes = new();
    for text in texts {
        push_back(&mut bytes, Element::Bytes(text.as_ref()));
    }
    bytes
}

/// Asserts that the bytes are a listpack of these, by every way of reading them.
fn check(bytes: &[u8], model: &[Vec<u8>]) {
    assert_eq!(validate(bytes), Ok(()));
    let listpack = Listpack::new(bytes);
    assert_eq!(listpack.bytes(), listpack_of(model), "the bytes do not depend on the edits");
    assert_eq!(listpack.len(), model.len());
    assert_eq!(listpack.is_empty(), model.is_empty());
    assert!(listpack.iter().map(Element::to_vec).eq(model.iter().cloned()));
    assert!(listpack.iter().rev().map(Element::to_vec).eq(model.iter().rev().cloned()));
    let mut offset = listpack.start_offset();
    for entry in listpack {
        assert_eq!(entry.offset, offset);
        assert_eq!(entry.element.encoded_len(), entry.end - offset);
        assert_eq!(listpack.entry_before(entry.end), Some(entry));
        offset = entry.end;
    }
    assert_eq!(offset, listpack.end_offset());
}

#[test]
fn integers_are_encoded_as_in_redis() {
    let table: [(i64, &[u8]); 23] = [
        (0, b"\x00\x01"),
        (1, b"\x01\x01"),
        (127, b"\x7f\x01"),
        (128, b"\xc0\x80\x02"),
        (-1, b"\xdf\xff\x02"),
        (4095, b"\xcf\xff\x02"),
        (4096, b"\xf1\x00\x10\x03"),
        (-4096, b"\xd0\x00\x02"),
        (-4097, b"\xf1\xff\xef\x03"),
        (32_767, b"\xf1\xff\x7f\x03"),
        (32_768, b"\xf2\x00\x80\x00\x04"),
        (-32_768, b"\xf1\x00\x80\x03"),
        (-32_769, b"\xf2\xff\x7f\xff\x04"),
        (8_388_607, b"\xf2\xff\xff\x7f\x04"),
        (8_388_608, b"\xf3\x00\x00\x80\x00\x05"),
        (-8_388_608, b"\xf2\x00\x00\x80\x04"),
        (-8_388_609, b"\xf3\xff\xff\x7f\xff\x05"),
        (2_147_483_647, b"\xf3\xff\xff\xff\x7f\x05"),
        (2_147_483_648, b"\xf4\x00\x00\x00\x80\x00\x00\x00\x00\x09"),
        (-2_147_483_648, b"\xf3\x00\x00\x00\x80\x05"),
        (-2_147_483_649, b"\xf4\xff\xff\xff\x7f\xff\xff\xff\xff\x09"),
        (i64::MAX, b"\xf4\xff\xff\xff\xff\xff\xff\xff\x7f\x09"),
        (i64::MIN, b"\xf4\x00\x00\x00\x00\x00\x00\x00\x80\x09"),
    ];
    for (number, expected) in table {
        let text = number.to_string();
        let bytes = listpack_of(&[&text]);
        assert_eq!(&bytes[6..bytes.len() - 1], expected, "{number}");
        let mut plain = new();
        push_back(&mut plain, Element::Integer(number));
        assert_eq!(plain, bytes);
        let element = Listpack::new(&bytes).first().unwrap().element;
        assert_eq!(element, Element::Integer(number));
        assert_eq!(element.len_text(), text.len());
        assert!(element.equals(text.as_bytes()));
    }
}

#[test]
fn what_is_no_canonical_integer_is_a_string() {
    for text in ["", "a", "-0", "01", "+1", " 1", "-", "00", "9223372036854775808"] {
        let bytes = listpack_of(&[text]);
        assert_eq!(bytes[6], 0x80 + text.len() as u8, "{text:?}");
        let element = Listpack::new(&bytes).first().unwrap().element;
        assert_eq!(element, Element::Bytes(text.as_bytes()));
    }
}

#[test]
fn strings_are_encoded_as_in_redis() {
    let table: [(usize, usize, &[u8], &[u8]); 12] = [
        (63, 72, b"\xbf", b"x\x40\xff"),
        (64, 74, b"\xe0\x40", b"x\x42\xff"),
        (124, 134, b"\xe0\x7c", b"x\x7e\xff"),
        (125, 135, b"\xe0\x7d", b"x\x7f\xff"),
        (126, 137, b"\xe0\x7e", b"x\x01\x80\xff"),
        (4095, 4106, b"\xef\xff", b"x\x20\x81\xff"),
        (4096, 4110, b"\xf0\x00\x10\x00\x00", b"x\x20\x85\xff"),
        (16_377, 16_391, b"\xf0\xf9\x3f\x00\x00", b"x\x7f\xfe\xff"),
        (16_378, 16_393, b"\xf0\xfa\x3f\x00\x00", b"x\x00\xff\xff\xff"),
        (16_379, 16_394, b"\xf0\xfb\x3f\x00\x00", b"x\x01\x80\x80\xff"),
        (16_380, 16_395, b"\xf0\xfc\x3f\x00\x00", b"x\x01\x80\x81\xff"),
        (60_000, 60_015, b"\xf0\x60\xea\x00\x00", b"x\x03\xd4\xe5\xff"),
    ];
    for (len, total, head, tail) in table {
        let text = vec![b'x'; len];
        let bytes = listpack_of(&[&text]);
        assert_eq!(bytes.len(), total);
        assert!(bytes[6..].starts_with(head) && bytes.ends_with(tail), "{len}");
        check(&bytes, &[text]);
    }
}

#[test]
fn elements_are_found_by_place_from_either_end() {
    let texts: Vec<Vec<u8>> = (0..9).map(|number| format!("n{number}").into_bytes()).collect();
    let bytes = listpack_of(&texts);
    let listpack = Listpack::new(&bytes);
    for index in -12..12_i64 {
        let place = if index < 0 { index + 9 } else { index };
        let expected = usize::try_from(place).ok().and_then(|place| texts.get(place));
        let found = listpack.get(index).map(|entry| entry.element.to_vec());
        assert_eq!(found.as_ref(), expected, "{index}");
    }
    assert_eq!(listpack.get(i64::MIN), None);
    assert_eq!(listpack.get(i64::MAX), None);
    assert_eq!(Listpack::new(&new()).get(-1), None);
}

#[test]
fn a_stride_skips_values() {
    let bytes = listpack_of(&["a", "12", "12", "a", "b", "x"]);
    let listpack = Listpack::new(&bytes);
    let at = |entry: Option<Entry<'_>>| entry.map(|entry| entry.offset);
    assert_eq!(at(listpack.find(b"12", 1)), at(listpack.get(1)));
    assert_eq!(at(listpack.find(b"12", 2)), at(listpack.get(2)));
    assert_eq!(at(listpack.find(b"x", 2)), None);
    assert_eq!(at(listpack.find(b"b", 3)), None);
    let second = listpack.get(1).unwrap().offset;
    let mut from_second = listpack.search(b"a", 2).starting_at(second, 7);
    assert_eq!(from_second.next(), listpack.get(3).map(|entry| (8, entry)));
    assert_eq!(from_second.next(), None);
    let pairs: Vec<_> = listpack.chunks::<2>().map(|[field, _]| field.element.to_vec()).collect();
    assert_eq!(pairs, [b"a".to_vec(), b"12".to_vec(), b"b".to_vec()]);
    let last = listpack.chunks::<3>().next_back().unwrap();
    assert_eq!(last.map(|entry| entry.element.to_vec()), [b"a", b"b", b"x"]);
}

#[test]
fn the_count_is_unknown_from_65535_on() {
    let mut bytes = listpack_of(&vec!["1"; 65_534]);
    assert_eq!(bytes[4..6], [0xFE, 0xFF]);
    push_back(&mut bytes, Element::Integer(2));
    push_front(&mut bytes, Element::Integer(0));
    assert_eq!(bytes[4..6], [0xFF, 0xFF]);
    assert_eq!(validate(&bytes), Ok(()));
    let listpack = Listpack::new(&bytes);
    assert_eq!(listpack.len(), 65_536);
    assert_eq!(listpack.get(65_535).unwrap().element, Element::Integer(2));
    assert_eq!(listpack.get(-65_536).unwrap().element, Element::Integer(0));
    assert_eq!(listpack.get(65_536), None);
    assert_eq!(remove(&mut bytes, 6, 65_000), 65_000);
    assert_eq!(Listpack::new(&bytes).len(), 536);
}

#[test]
fn a_foreign_encoding_is_read_and_not_kept() {
    // The string "5", and 5 in three bytes.
    let mut bytes = b"\x0e\0\0\0\x02\0\x81\x35\x02\xf1\x05\0\x03\xff".to_vec();
    assert_eq!(validate(&bytes), Ok(()));
    let listpack = Listpack::new(&bytes);
    assert_eq!(listpack.find(b"5", 1).map(|entry| entry.offset), Some(6));
    let both: Vec<_> =
        listpack.search(b"5", 1).map(|(place, entry)| (place, entry.offset)).collect();
    assert_eq!(both, [(0, 6), (1, 9)]);
    let element = listpack.first().unwrap().element;
    assert_eq!(element.to_integer(), Some(5));
    push_back(&mut bytes, Element::Bytes(b"5"));
    assert_eq!(Listpack::new(&bytes).last().unwrap().element, Element::Integer(5));
}

#[test]
fn damage_is_found() {
    let table: [(&[u8], ListpackDamage); 13] = [
        (b"", ListpackDamage::Length),
        (b"\x06\0\0\0\0\0", ListpackDamage::Length),
        (b"\x08\0\0\0\0\0\xff", ListpackDamage::Length),
        (b"\x07\0\0\0\0\0\xfe", ListpackDamage::EndMark),
        (b"\x07\0\0\0\x01\0\xff", ListpackDamage::Count),
        (b"\x09\0\0\0\0\0\x01\x01\xff", ListpackDamage::Count),
        (b"\x09\0\0\0\x01\0\x01\x02\xff", ListpackDamage::Entry(6)),
        (b"\x09\0\0\0\x01\0\xf5\x01\xff", ListpackDamage::Entry(6)),
        (b"\x09\0\0\0\x01\0\x83\x01\xff", ListpackDamage::Entry(6)),
        // The entry's own byte would be half of the length behind it.
        (b"\x09\0\0\0\x01\0\0\x80\xff", ListpackDamage::Entry(6)),
        (b"\x08\0\0\0\x01\0\x01\xff", ListpackDamage::Entry(6)),
        (b"\x0b\0\0\0\x02\0\x01\x01\xff\x01\xff", ListpackDamage::Entry(8)),
        (b"\x0d\0\0\0\x01\0\xf0\xff\xff\xff\xff\x01\xff", ListpackDamage::Entry(6)),
    ];
    for (bytes, expected) in table {
        assert_eq!(validate(bytes), Err(expected), "{bytes:?}");
    }
    assert_eq!(validate(&new()), Ok(()));
    assert_eq!(new().len(), EMPTY_LEN);
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => (any::<i64>(), 0..64_u32)
            .prop_map(|(number, shift)| (number >> shift).to_string().into_bytes()),
        4 => prop::collection::vec(any::<u8>(), 0..12),
        1 => (60..140_usize).prop_map(|len| vec![b'y'; len]),
        1 => prop::sample::select(vec![4095, 4096, 16_377, 16_378]).prop_map(|len| vec![b'z'; len]),
    ]
}

/// A text is found where the model has it, from the front and among every so many elements.
fn check_searches(listpack: Listpack<'_>, model: &[Vec<u8>], text: &[u8]) {
    let offset_of = |place: usize| listpack.get(place as i64).map(|entry| entry.offset);
    assert_eq!(
        listpack.find(text, 1).map(|entry| entry.offset),
        model.iter().position(|other| other == text).and_then(offset_of)
    );
    for stride in [1, 2, 3] {
        let found = listpack.search(text, stride).map(|(place, _)| place * stride);
        let every = (0..model.len()).step_by(stride);
        let equal: Vec<usize> = every.filter(|place| model[*place] == text).collect();
        assert_eq!(found.collect::<Vec<_>>(), equal);
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config {
        cases: 128, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn edits_are_those_of_a_list(
        steps in prop::collection::vec(
            (0..9_u8, any::<usize>(), 0..4_usize, text(), text()), 1..30,
        ),
    ) {
        let (mut bytes, mut model) = (new(), Vec::<Vec<u8>>::new());
        for (kind, place, count, one, two) in steps {
            let place = place % (model.len() + 1);
            let last = (place + count).min(model.len());
            let listpack = Listpack::new(&bytes);
            let offset_of = |place: usize| {
                listpack.get(place as i64).map_or(listpack.end_offset(), |entry| entry.offset)
            };
            let (offset, end) = (offset_of(place), offset_of(last));
            let (first, second) = (Element::Bytes(&one), Element::Bytes(&two));
            check_searches(listpack, &model, &one);
            match kind {
                0 => {
                    push_back(&mut bytes, first);
                    model.push(one);
                }
                1 => {
                    push_front(&mut bytes, first);
                    model.insert(0, one);
                }
                2 | 3 => {
                    insert(&mut bytes, offset, [first, second]);
                    model.splice(place..place, [one, two]);
                }
                4 => {
                    // At the end mark there is nothing to replace.
                    replace(&mut bytes, offset, first);
                    if let Some(text) = model.get_mut(place) {
                        *text = one;
                    }
                }
                5 => {
                    prop_assert_eq!(remove(&mut bytes, offset, count), last - place);
                    model.drain(place..last);
                }
                6 => {
                    replace_range(&mut bytes, offset..end, [first, second]);
                    model.splice(place..last, [one, two]);
                }
                7 => {
                    let upper = split_off(&mut bytes, offset);
                    let upper_model = model.split_off(place);
                    check(&upper, &upper_model);
                    let upper = Listpack::new(&upper);
                    let whole = upper.start_offset()..upper.end_offset();
                    insert_from(&mut bytes, 6, upper, whole);
                    model.splice(0..0, upper_model);
                }
                _ => {
                    if last > 0 {
                        truncate(&mut bytes, end);
                        model.truncate(last);
                    }
                }
            }
            check(&bytes, &model);
        }
    }

    #[test]
    fn elements_compare_as_their_texts(one in text(), two in text()) {
        let bytes = listpack_of(&[&one]);
        let element = Listpack::new(&bytes).first().unwrap().element;
        prop_assert_eq!(element.compare(&two), one.cmp(&two));
        prop_assert_eq!(element.equals(&two), one == two);
        prop_assert_eq!(element.len_text(), one.len());
        prop_assert!(element.to_text(&mut [0; 20]) == one);
        prop_assert_eq!(element.to_integer(), base::number::parse_i64(&one));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(
        body in prop::collection::vec(
            prop_oneof![any::<u8>(), 0..4_u8, 0x80..0x84_u8, 0xE0..=0xFF_u8], 0..40,
        ),
        whole in any::<bool>(),
    ) {
        let mut bytes = body;
        if whole && bytes.len() >= EMPTY_LEN {
            let len = bytes.len() as u32;
            bytes[..4].copy_from_slice(&len.to_le_bytes());
            bytes[4..6].fill(0xFF);
            bytes[len as usize - 1] = 0xFF;
        }
        let listpack = Listpack::new(&bytes);
        let (forward, backward) = (listpack.iter().count(), listpack.iter().rev().count());
        prop_assert!(forward <= bytes.len() && backward <= bytes.len());
        let _ = (listpack.get(3), listpack.get(-3), listpack.find(b"1", 2));
        for at in 0..bytes.len() + 2 {
            let _ = (listpack.entry_at(at), listpack.entry_before(at));
        }
        if validate(&bytes).is_ok() {
            prop_assert_eq!(forward, backward);
        }
    }
}
