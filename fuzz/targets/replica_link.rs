//! What a primary says to its replica on two connections, of any bytes: little is kept, and no byte
//! of the stream is taken twice or left out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use replication::replica::check_channels;

fuzz_target!(|data: &[u8]| check_channels(data));
