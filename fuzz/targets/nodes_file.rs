//! A file `nodes.conf` of any bytes: what is read is written as something that is read as the same.
#![no_main]

use cluster::NodesFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for is_tls in [false, true] {
        if let Ok(file) = NodesFile::parse(data, is_tls) {
            let text = file.to_text(is_tls);
            assert_eq!(NodesFile::parse(text.as_bytes(), is_tls), Ok(file), "{text}");
        }
    }
});
