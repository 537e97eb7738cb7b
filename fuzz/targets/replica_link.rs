//! What a primary says to its replica, of any bytes, on one connection and on two: little is kept,
//! and no byte of the stream is taken twice or left out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use replication::replica::{check_channels, check_link, check_stream};

fuzz_target!(|data: &[u8]| {
    check_link(data);
    check_channels(data);
    check_stream(data);
});
