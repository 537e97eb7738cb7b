//! Scripts with the replies that a real server gave them.

use proto::Resp;

use super::{Bench, on_deep_stack};

#[test]
fn replies_are_those_of_redis() {
    on_deep_stack(|| {
        let mut bench = Bench::new();
        let lines: Vec<_> = include_str!("recorded.txt").lines().collect();
        let lines = lines.iter().filter(|line| !line.starts_with('#'));
        let cases: Vec<_> = lines.collect();
        let mut compared = 0;
        for case in cases.chunks_exact(2) {
            let script = case[0].strip_prefix("> ").expect("a script comes first");
            bench.shop.strings.insert(b"k".to_vec(), b"v".to_vec());
            let reply = bench.reply(Resp::Two, &unescape(script));
            assert_eq!(reply.escape_ascii().to_string(), *case[1], "{script}");
            compared += 1;
        }
        assert!(compared > 400, "{compared} scripts");
    });
}

/// What `escape_ascii` made, undone.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next() {
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'x') => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&digits, 16).unwrap()
            }
            Some(other) => other,
            None => panic!("{text:?} ends within an escape"),
        });
    }
    bytes
}
