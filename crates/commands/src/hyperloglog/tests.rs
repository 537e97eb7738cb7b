//! Tests of the HyperLogLog commands; the counts are those of Redis 7.0 for the same elements.

use crate::testing::{Session, check};

#[test]
fn elements_are_counted_once() {
    check(
        "PFADD h a b c d e f g
         PFCOUNT h
         PFADD h a b
         PFADD h
         PFADD new
         PFADD new
         PFCOUNT nothing
         PFADD i x y a
         PFCOUNT h i nothing
         PFMERGE m h i
         PFCOUNT m
         PFMERGE empty
         PFCOUNT empty
         PFDEBUG ENCODING h
         TYPE h",
        ":1
         :7
         :0
         :0
         :1
         :0
         :0
         :1
         :9
         +OK
         :9
         +OK
         :0
         +sparse
         +string",
    );
}

#[test]
fn what_is_no_hyperloglog_is_refused() {
    let foreign = "-WRONGTYPE Key is not a valid HyperLogLog string value.";
    let mut session = Session::new();
    session.call("SET s text");
    session.call("SET n 12");
    for line in ["PFADD s a", "PFCOUNT s", "PFMERGE d s", "PFCOUNT s s", "PFDEBUG GETREG s"] {
        assert_eq!(session.call(line), foreign, "{line}");
        assert_eq!(session.call(&line.replace(" s", " n")), foreign, "{line}");
    }
    assert_eq!(session.call("EXISTS d"), ":0");
    assert_eq!(session.call("PFDEBUG ENCODING nothing"), "-ERR The specified key does not exist");
    session.call("PFADD h a");
    let unknown = "-ERR Unknown PFDEBUG subcommand 'foo'";
    assert_eq!(session.call("PFDEBUG foo h"), unknown);
}

#[test]
fn a_damaged_one_is_told_from_a_foreign_one() {
    let mut session = Session::new();
    session.call("PFADD h a b c");
    session.call("APPEND h hello");
    let corrupt = "-INVALIDOBJ Corrupted HLL object detected";
    assert_eq!(session.call("PFCOUNT h"), corrupt);
    assert_eq!(session.call("PFMERGE d h"), corrupt);
}

#[test]
fn counting_keeps_the_count_in_the_string() {
    let mut session = Session::new();
    session.call("PFADD h a b c");
    assert_eq!(session.journal(), ["PFADD h a b c"]);
    assert_eq!(session.events(), ["new h", "pfadd h"]);
    session.call("PFCOUNT h");
    assert_eq!(session.journal(), ["PFCOUNT h"]);
    session.call("PFCOUNT h");
    assert!(session.journal().is_empty(), "it is kept by now");
}

#[test]
fn debugging_shows_registers_and_makes_them_dense() {
    let mut session = Session::new();
    session.call("PFADD h a");
    assert!(session.call("PFDEBUG DECODE h").starts_with("\"Z:"));
    assert_eq!(session.call("PFDEBUG TODENSE h"), ":1");
    assert_eq!(session.call("PFDEBUG TODENSE h"), ":0");
    assert_eq!(session.call("PFDEBUG DECODE h"), "-ERR HLL encoding is not sparse");
    assert_eq!(session.call("PFDEBUG ENCODING h"), "+dense");
    assert!(session.call("PFDEBUG GETREG h").starts_with("[:0 :0"));
    assert_eq!(session.call("PFCOUNT h"), ":1");
    assert_eq!(session.call("PFSELFTEST"), "+OK");
}
