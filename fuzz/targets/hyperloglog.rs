//! HyperLogLogs of any bytes: an error or an answer, and the same of the sparse and dense forms.
#![no_main]

use libfuzzer_sys::fuzz_target;
use structs::hyperloglog::{self, Adder, RegisterUpdate, Registers};

/// Magic to cached count.
const HEADER: usize = 16;

fuzz_target!(|data: &[u8]| {
    run(data, data);
    let mut sparse = hyperloglog::new();
    let elements = data.get(data.len() / 2..).unwrap_or_default();
    sparse.truncate(HEADER);
    sparse.extend_from_slice(data);
    run(&sparse, elements);
    run(&hyperloglog::new(), data);
});

fn run(start: &[u8], elements: &[u8]) {
    let valid = hyperloglog::validate(start);
    let (mut bytes, mut at_once) = (start.to_vec(), start.to_vec());
    let mut adder = Adder::new(&mut at_once, 200);
    for element in elements.chunks(3) {
        let place = RegisterUpdate::of(element);
        let did = hyperloglog::add(&mut bytes, place, 200);
        let did_at_once = adder.add(place);
        if valid.is_ok() {
            assert_eq!(did, did_at_once);
            assert_eq!(hyperloglog::add(&mut bytes, place, 200), Ok(false));
        }
    }
    if valid.is_ok() {
        assert_eq!(bytes, at_once, "many elements at once do what they do one by one");
    }
    let count = hyperloglog::count(&bytes);
    let _ = (hyperloglog::decode(&bytes), hyperloglog::cached_count(&bytes));
    let mut union = Registers::default();
    let merged = union.merge(&bytes);
    assert_eq!(merged.is_ok(), count.is_ok());
    let mut dense = bytes.clone();
    assert_eq!(hyperloglog::to_dense(&mut dense).is_ok(), count.is_ok());
    if valid.is_ok() {
        assert_eq!(count, Ok(union.count()));
        assert_eq!(hyperloglog::count(&dense), count);
        let mut stored = hyperloglog::new();
        assert_eq!(union.store(&mut stored, 3000), Ok(()));
        assert_eq!(hyperloglog::count(&stored), count);
    }
}
