//! What the two ends of a link tell each other, of any bytes: a stream, the link of a replica as a
//! whole, what a replica announces, and what was kept of a history.
#![no_main]

use libfuzzer_sys::fuzz_target;
use replication::history::SavedHistory;
use replication::primary::{ReplconfState, Primary, PrimarySettings};
use replication::replica::{check_link, check_stream};

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else { return };
    match kind {
        b's' => check_stream(data),
        b'l' => check_link(data),
        b'a' => announce(data),
        _ => keep(data),
    }
});

/// A line for each REPLCONF, of words with a blank between.
fn announce(data: &[u8]) {
    let primary = Primary::new(PrimarySettings::default(), Box::new(|| [7; 20]), 0);
    let mut announced = ReplconfState::default();
    for line in data.split(|byte| *byte == b'\n') {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        primary.announce(&mut announced, &words, Some(&|name| name == b"n"));
    }
}

/// What is read is written as something that is read as the same.
fn keep(data: &[u8]) {
    if let Some(saved) = SavedHistory::parse(data) {
        let text = saved.to_string();
        assert_eq!(SavedHistory::parse(text.as_bytes()), Some(saved), "{text}");
    }
}
