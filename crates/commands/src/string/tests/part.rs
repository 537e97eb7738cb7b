//! Sessions of parts of strings: ranges read and written, long values, common subsequences.

use std::sync::atomic::Ordering;

use crate::testing::{Session, check};

/// Row H44: indexes of an empty value.
#[test]
fn ranges() {
    check(
        "SET s aZZdef
         GETRANGE s 0 -1
         GETRANGE s -3 -1
         GETRANGE s 0 0
         GETRANGE s -100 100
         GETRANGE s -200 -100
         GETRANGE s 5 2
         GETRANGE s -1 -5
         GETRANGE s 6 9
         GETRANGE s 9223372036854775807 -9223372036854775808
         GETRANGE s -9223372036854775808 9223372036854775807
         GETRANGE s x 1
         GETRANGE none x 1
         GETRANGE none 0 1
         SUBSTR s 1 2
         SET e ''
         GETRANGE e -1 -1
         GETRANGE e 0 0
         SET n 12345
         GETRANGE n 1 -2",
        r#"+OK
           "aZZdef"
           "def"
           "a"
           "aZZdef"
           "a"
           ""
           ""
           ""
           ""
           "aZZdef"
           -ERR value is not an integer or out of range
           -ERR value is not an integer or out of range
           ""
           "ZZ"
           +OK
           ""
           ""
           +OK
           "234""#,
    );
}

/// Rows H20 and H45: offsets at and beyond the limit are errors, and nothing is allocated.
#[test]
fn writing_ranges() {
    let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    let table = [
        ("SETRANGE s -1 ''", "-ERR offset is out of range"),
        ("SETRANGE s -1 a", "-ERR offset is out of range"),
        ("SETRANGE s x a", "-ERR value is not an integer or out of range"),
        ("SETRANGE s 5 ''", ":0"),
        ("EXISTS s", ":0"),
        ("SETRANGE s 536870912 ''", ":0"),
        ("SETRANGE s 536870911 ab", too_long),
        ("SETRANGE s 600000000 x", too_long),
        ("SETRANGE s 4294967295 x", too_long),
        ("SETRANGE s 9223372036854775807 x", too_long),
        ("SETRANGE s 2 ab", ":4"),
        ("GET s", r#""\x00\x00ab""#),
        ("SETRANGE s 1 XYZ", ":4"),
        ("SETRANGE s 0 ''", ":4"),
        ("APPEND s 1", ":5"),
        ("GET s", r#""\x00XYZ1""#),
        ("APPEND n 5", ":1"),
        ("OBJECT ENCODING n", r#""int""#),
        ("APPEND n 5", ":2"),
        ("OBJECT ENCODING n", r#""raw""#),
        ("SETRANGE s 536870911 a", ":536870912"),
        ("APPEND s a", too_long),
        ("PREPEND s a", too_long),
        ("GETRANGE s 536870910 -1", r#""\x00a""#),
        ("STRLEN s", ":536870912"),
    ];
    let mut session = Session::new();
    for (line, reply) in table {
        assert_eq!(session.call(line), reply, "{line}");
    }
}

#[test]
fn the_limit_is_a_setting() {
    let mut session = Session::new();
    session.keyspace().settings().max_string.store(10, Ordering::Relaxed);
    let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    assert_eq!(session.call("SETRANGE s 9 a"), ":10");
    assert_eq!(session.call("SETRANGE s 9 ab"), too_long);
    assert_eq!(session.call("APPEND s a"), too_long);
    assert_eq!(session.call("APPEND s ''"), ":10");
    assert_eq!(session.call("PREPEND s a"), too_long);
}

/// Values around the size at which they become trees, changed and read in part.
#[test]
fn long_values() {
    let mut session = Session::new();
    let mut model = Vec::new();
    for step in 0..40_usize {
        let piece = vec![b'a' + (step % 26) as u8; 9000];
        let command: &[u8] = if step % 3 == 0 { b"PREPEND" } else { b"APPEND" };
        if step % 3 == 0 {
            model.splice(0..0, piece.iter().copied());
        } else {
            model.extend_from_slice(&piece);
        }
        assert_eq!(session.call_words(&[command, b"s", &piece]), format!(":{}", model.len()));
        let offset = model.len() / 2;
        model[offset..offset + 3].copy_from_slice(b"XYZ");
        session.call(&format!("SETRANGE s {offset} XYZ"));
        let (start, end) = (offset - 4000, offset + 200);
        let part = session.call(&format!("GETRANGE s {start} {end}"));
        assert_eq!(part, base::quote::quote(&model[start..=end]), "step {step}");
    }
    assert_eq!(session.call("GET s"), base::quote::quote(&model));
    let copy = model.clone();
    assert_eq!(session.call_words(&[b"SET", b"s", b"1", b"IFEQ", &copy]), "+OK");
}

#[test]
fn longest_common_subsequence() {
    check(
        "MSET k1 ohmytext k2 mynewtext
         LCS k1 k2
         LCS k1 k2 LEN
         LCS k1 k2 IDX
         LCS k1 k2 IDX MINMATCHLEN 4
         LCS k1 k2 WITHMATCHLEN MINMATCHLEN -5 IDX
         LCS k1 none
         LCS k1 none LEN
         LCS none none IDX
         LCS k1 k2 LEN IDX
         LCS k1 k2 MINMATCHLEN x
         LCS k1 k2 FOO",
        r#"+OK
           "mytext"
           :6
           ["matches" [[[:4 :7] [:5 :8]] [[:2 :3] [:0 :1]]] "len" :6]
           ["matches" [[[:4 :7] [:5 :8]]] "len" :6]
           ["matches" [[[:4 :7] [:5 :8] :4] [[:2 :3] [:0 :1] :2]] "len" :6]
           ""
           :0
           ["matches" [] "len" :0]
           -ERR If you want both the length and indexes, please just use IDX.
           -ERR value is not an integer or out of range
           -ERR syntax error"#,
    );
}

/// Row H21: the table of two long strings.
#[test]
fn longest_common_subsequence_is_bounded() {
    let beyond = "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
    let mut session = Session::new();
    session.call("SETRANGE huge 500000000 x");
    assert_eq!(session.call("LCS huge huge LEN"), beyond);
    assert_eq!(session.call("LCS huge huge"), beyond);
    session.call("SETRANGE long 2000 x");
    assert_eq!(session.call("LCS long long LEN"), ":2001");
    assert!(session.ran_heavy(), "four million cells are not for a worker");
    session.keyspace().settings().max_string.store(1 << 20, Ordering::Relaxed);
    session.call("MSET a '' b ''");
    session.call("SETRANGE a 510 x");
    session.call("SETRANGE b 511 x");
    assert_eq!(session.call("LCS a a LEN"), ":511");
    assert_eq!(session.call("LCS b b LEN"), beyond);
}
