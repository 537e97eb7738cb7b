//! Lines cut into arguments: quoting them gives a line that is cut into the same again.
#![no_main]

use base::quote::{quote, split_arguments};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    let Some(arguments) = split_arguments(line) else { return };
    let quoted: Vec<String> = arguments.iter().map(|argument| quote(argument)).collect();
    assert_eq!(split_arguments(quoted.join(" ").as_bytes()), Some(arguments));
});
