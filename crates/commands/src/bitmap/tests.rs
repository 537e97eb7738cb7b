//! Tests of the bitmap commands, as sessions.

use crate::testing::{Session, check};

#[test]
fn bits_are_set_and_read_wherever_they_lie() {
    check(
        "SETBIT k 7 1
         GETBIT k 7
         GETBIT k 6
         GETBIT k 100
         GET k
         SETBIT k 7 1
         SETBIT k 7 0
         SETBIT k 1000 1
         STRLEN k
         SETBIT k 4294967296 1
         SETBIT k -1 1
         SETBIT k x 1
         SETBIT k 1 2
         SET n 12
         SETBIT n 6 1
         GET n
         GETBIT nothing 5",
        r#":0
         :1
         :0
         :0
         "\x01"
         :1
         :1
         :0
         :126
         -ERR bit offset is not an integer or out of range
         -ERR bit offset is not an integer or out of range
         -ERR bit offset is not an integer or out of range
         -ERR bit is not an integer or out of range
         +OK
         :0
         "32"
         :0"#,
    );
}

#[test]
fn a_bit_beyond_64_kilobytes_grows_a_tree() {
    check(
        "SETBIT k 800000 1
         SETBIT k 4000000000 1
         BITCOUNT k
         BITPOS k 1
         BITPOS k 1 100001
         BITPOS k 0 100000
         GETBIT k 800000
         STRLEN k",
        ":0
         :0
         :2
         :800000
         :4000000000
         :800001
         :1
         :500000001",
    );
}

#[test]
fn setting_what_is_set_changes_nothing() {
    let mut session = Session::new();
    session.call("SETBIT k 3 1");
    assert_eq!(session.journal(), ["SETBIT k 3 1"]);
    assert_eq!(session.events(), ["new k", "setbit k"]);
    session.call("SETBIT k 3 1");
    assert!(session.journal().is_empty() && session.events().is_empty());
    session.call("SETBIT k 9 0");
    assert_eq!(session.journal(), ["SETBIT k 9 0"], "it grew");
}

#[test]
fn a_number_that_bits_are_written_to_is_one_no_more() {
    check(
        "SET n 12
         SETBIT n 7 1
         OBJECT ENCODING n
         SET n 12
         BITFIELD n SET u8 0 49 GET u8 8
         OBJECT ENCODING n
         GET n
         SET n 12
         BITFIELD n GET u8 0
         OBJECT ENCODING n
         BITPOS n 0 1 x y
         BITPOS n 0 x 1 y
         BITPOS n 0 -10 -11
         BITCOUNT n -10 -11",
        r#"+OK
         :1
         "raw"
         +OK
         [:49 :50]
         "raw"
         "12"
         +OK
         [:49]
         "int"
         -ERR syntax error
         -ERR value is not an integer or out of range
         :0
         :0"#,
    );
}

#[test]
fn counts_and_positions_take_ranges_of_bytes_and_bits() {
    check(
        r#"SET k foobar
         BITCOUNT k
         BITCOUNT k 0 0
         BITCOUNT k 1 1 BYTE
         BITCOUNT k 5 30 BIT
         BITCOUNT k -2 -1
         BITCOUNT k 3 1
         BITCOUNT k 1
         BITCOUNT k 0 0 NIBBLE
         BITCOUNT nothing
         SET p "\xff\xf0\x00"
         BITPOS p 0
         BITPOS p 1 2
         BITPOS p 1 2 -1 BYTE
         BITPOS p 1 7 15 BIT
         BITPOS p 0 0 0
         BITPOS p 2
         BITPOS p x
         BITPOS nothing 0
         BITPOS nothing 1
         SET full "\xff\xff"
         BITPOS full 0
         BITPOS full 0 0 -1
         BITPOS full 0 5
         BITPOS p 1 0 -1 BIT extra"#,
        "+OK
         :26
         :4
         :6
         :17
         :7
         :0
         -ERR syntax error
         -ERR syntax error
         :0
         +OK
         :12
         :-1
         :-1
         :7
         :-1
         -ERR The bit argument must be 1 or 0.
         -ERR value is not an integer or out of range
         :0
         :-1
         +OK
         :16
         :-1
         :-1
         -ERR syntax error",
    );
}

#[test]
fn strings_are_combined_bit_by_bit() {
    check(
        r#"SET a "\x0f\xff"
         SET b "\x33"
         BITOP AND d a b
         GET d
         BITOP OR d a b
         GET d
         BITOP XOR d a b
         GET d
         BITOP NOT d a
         GET d
         BITOP DIFF d a b
         GET d
         BITOP DIFF1 d a b
         GET d
         BITOP ANDOR d a b
         GET d
         BITOP ONE d a b
         GET d
         BITOP AND d nothing
         EXISTS d
         BITOP NOT d a b
         BITOP DIFF d a
         BITOP NAND d a b
         EXISTS d"#,
        r#"+OK
         +OK
         :2
         "\x03\x00"
         :2
         "?\xff"
         :2
         "<\xff"
         :2
         "\xf0\x00"
         :2
         "\x0c\xff"
         :2
         "0\x00"
         :2
         "\x03\x00"
         :2
         "<\xff"
         :0
         :0
         -ERR BITOP NOT must be called with a single source key.
         -ERR BITOP DIFF must be called with at least two source keys.
         -ERR syntax error
         :0"#,
    );
}

#[test]
fn fields_of_any_width_are_read_and_written() {
    check(
        "BITFIELD k SET u8 0 255 GET u4 4 GET i8 0
         BITFIELD k INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1
         BITFIELD k OVERFLOW FAIL INCRBY u8 0 1 GET u8 0
         BITFIELD k OVERFLOW WRAP INCRBY u8 0 2
         BITFIELD k SET i5 #1 -3 GET i5 #1
         BITFIELD nothing GET u8 0
         EXISTS nothing
         BITFIELD k
         BITFIELD k GET u64 0
         BITFIELD k GET i65 0
         BITFIELD k GET u8 -1
         BITFIELD k OVERFLOW MAYBE SET u8 0 1
         BITFIELD k SET u8 0 x
         BITFIELD k GET u8
         BITFIELD_RO k GET u8 0
         BITFIELD_RO k SET u8 0 1
         BITFIELD_RO k",
        "[:0 :15 :-1]
         [:1 :1]
         [nil :255]
         [:1]
         [:4 :-3]
         [:0]
         :0
         []
         -ERR Invalid bitfield type. Use something like i16 u8. Note that \\
         u64 is not supported but i64 is.
         -ERR Invalid bitfield type. Use something like i16 u8. Note that \\
         u64 is not supported but i64 is.
         -ERR bit offset is not an integer or out of range
         -ERR Invalid OVERFLOW type specified
         -ERR value is not an integer or out of range
         -ERR syntax error
         [:7]
         -ERR BITFIELD_RO only supports the GET subcommand
         []",
    );
}
