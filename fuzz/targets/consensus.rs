//! What a node of the map's consensus is sent, answered and left on disk, of any bytes: what is
//! read is written as the same bytes.
#![no_main]

use consensus::{Answer, Record, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let written = match kind % 3 {
        0 => Request::decode(bytes).map(|request| request.encode()),
        1 => Answer::decode(bytes).map(|answer| answer.encode()),
        _ => Record::decode(bytes).map(|record| record.encode()),
    };
    match written {
        Ok(written) => assert_eq!(written, bytes),
        Err(error) => drop(error.to_string()),
    }
});
