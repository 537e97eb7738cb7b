//! Sessions of the array family. No server of the tests has it: the pages redis.io/commands/arset
//! and so on say what is replied, and where they are silent the tests that redis-py and go-redis
//! carry for them; what neither tells is said beside the test.

mod model;
mod search;

use crate::testing::{Session, check};

#[track_caller]
fn check_effects(session: &mut Session, table: &[(&str, &str)]) {
    for (line, expected) in table {
        session.call(line);
        let got = format!("{} / {}", session.journal().join("; "), session.events().join(", "));
        assert_eq!(got, *expected, "{line}");
    }
}

/// Each request of a session that has the array `a` (x at 0, y at 5) and the string `s` is refused
/// so, and changes nothing.
#[track_caller]
fn check_refused(table: &[(&str, &str)]) {
    for (line, expected) in table {
        let mut session = Session::new();
        session.check("ARMSET a 0 x 5 y\nSET s x", ":2\n+OK");
        assert_eq!(session.call(line), *expected, "{line}");
        assert!(session.journal().is_empty() && session.events().is_empty(), "{line}");
        session.check("ARSCAN a 0 9\nARNEXT a\nGET s", "[[:0 \"x\"] [:5 \"y\"]]\n:0\n\"x\"");
    }
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
const SYNTAX: &str = "-ERR syntax error";
const INVALID_INDEX: &str = "-ERR invalid array index";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range";
const NOT_POSITIVE: &str = "-ERR value is out of range, must be positive";

/// redis.io/commands: arset, armset, arget, armget, argetrange, arlen, arcount.
#[test]
fn sets_and_gets() {
    check(
        r#"ARSET a 0 hello
           ARGET a 0
           ARGET a 1
           ARSET a 2 a b c
           ARGET a 2
           ARGET a 4
           ARSET a 1 x y
           ARMSET a 0 alpha 5 beta 100 gamma
           ARMSET a 7 one 7 two
           ARGET a 7
           ARMGET a 100 0 50 5
           ARMGET none 0 1
           ARGET none 0
           ARLEN a
           ARCOUNT a
           ARLEN none
           ARCOUNT none
           ARGETRANGE a 3 6
           ARGETRANGE a 6 3
           ARGETRANGE a 5 5
           ARGETRANGE a 200 202
           ARGETRANGE none 1 0
           ARSET a 9 ""
           ARGET a 9
           ARSET a 10 12345
           ARGET a 10
           TYPE a
           OBJECT ENCODING a"#,
        r#":1
           "hello"
           nil
           :3
           "a"
           "c"
           :1
           :2
           :1
           "two"
           ["gamma" "alpha" nil "beta"]
           [nil nil]
           nil
           :101
           :8
           :0
           :0
           ["b" "c" "beta" nil]
           [nil "beta" "c" "b"]
           ["beta"]
           [nil nil nil]
           [nil nil]
           :1
           ""
           :1
           "12345"
           +array
           "sliced-array""#,
    );
}

/// redis.io/commands: ardel, ardelrange.
#[test]
fn ardel_and_ardelrange_remove_elements() {
    check(
        "ARSET a 0 a b c d e f g h
         ARDEL a 1
         ARDEL a 1 1 2 2 50
         ARDELRANGE a 4 3
         ARDELRANGE a 20 30
         ARSCAN a 0 9
         ARDELRANGE a 5 6 0 5
         ARLEN a
         ARDEL none 0
         ARDELRANGE none 0 18446744073709551614
         ARDELRANGE a 0 18446744073709551614
         EXISTS a
         ARSET a 3 x
         ARDEL a 3
         EXISTS a",
        r#":8
           :1
           :1
           :2
           :0
           [[:0 "a"] [:5 "f"] [:6 "g"] [:7 "h"]]
           :3
           :8
           :0
           :0
           :1
           :0
           :1
           :1
           :0"#,
    );
}

/// redis.io/commands/arscan.
#[test]
fn arscan_tells_elements_in_either_order() {
    check(
        "ARMSET a 0 a 5 b 9 c
         ARSCAN a 0 10
         ARSCAN a 10 0
         ARSCAN a 1 8
         ARSCAN a 0 10 LIMIT 2
         ARSCAN a 10 0 limit 2
         ARSCAN a 0 10 LIMIT 18446744073709551615
         ARSCAN a 0 10 LIMIT 2 LIMIT 1
         ARSCAN a 6 8
         ARSCAN none 0 10
         ARSCAN a 0 18446744073709551614 LIMIT 1",
        r#":3
           [[:0 "a"] [:5 "b"] [:9 "c"]]
           [[:9 "c"] [:5 "b"] [:0 "a"]]
           [[:5 "b"]]
           [[:0 "a"] [:5 "b"]]
           [[:9 "c"] [:5 "b"]]
           [[:0 "a"] [:5 "b"] [:9 "c"]]
           [[:0 "a"]]
           []
           []
           [[:0 "a"]]"#,
    );
}

/// redis.io/commands: arinsert, arnext, arseek, arlastitems.
#[test]
fn the_cursor_moves() {
    check(
        "ARNEXT a
         ARSEEK a 7
         EXISTS a
         ARINSERT a a
         ARINSERT a b c
         ARNEXT a
         ARDEL a 2
         ARNEXT a
         ARSET a 20 x
         ARNEXT a
         ARSEEK a 10
         ARINSERT a d
         ARNEXT a
         ARSEEK a 0
         ARNEXT a
         ARINSERT a A
         ARGET a 0
         ARSEEK a 18446744073709551614
         ARINSERT a last
         ARNEXT a
         ARINSERT a more
         ARLEN a
         ARDEL a 18446744073709551614
         ARSEEK a 18446744073709551615
         ARNEXT a",
        r#":0
           :0
           :0
           :0
           :2
           :3
           :1
           :3
           :1
           :3
           :1
           :10
           :11
           :1
           :0
           :0
           "A"
           :1
           "18446744073709551614"
           nil
           -ERR insert index overflow
           "18446744073709551615"
           :1
           :1
           nil"#,
    );
}

/// The protocol's integers are signed: beyond them RESP2 has bulk strings and RESP3 big numbers, as
/// go-redis reads them.
#[test]
fn great_indexes_are_big_numbers() {
    Session::new().resp3().check(
        "ARSET a 9223372036854775807 x y
         ARLEN a
         ARSCAN a 0 18446744073709551614
         ARGREP a - + MATCH x
         ARSEEK a 9223372036854775808
         ARNEXT a
         ARINSERT a z
         ARSEEK a 18446744073709551615
         ARNEXT a",
        r#":2
           (9223372036854775809
           [[:9223372036854775807 "x"] [(9223372036854775808 "y"]]
           [:9223372036854775807]
           :1
           (9223372036854775808
           (9223372036854775808
           :1
           nil"#,
    );
}

/// redis.io/commands/arlastitems; that slots behind the cursor may be empty and that their number
/// is that of the elements at most is from the page of another server with arrays, and that the
/// greatest index stands for a cursor that was never moved, from the discussion of the type.
#[test]
fn the_newest_are_told() {
    check(
        "ARINSERT a v0 v1 v2 v3 v4
         ARLASTITEMS a 3
         ARLASTITEMS a 3 REV
         ARLASTITEMS a 10
         ARLASTITEMS a 10 rev
         ARLASTITEMS a 0
         ARLASTITEMS none 3
         ARDEL a 3
         ARLASTITEMS a 3
         ARSEEK a 2
         ARLASTITEMS a 3
         ARLASTITEMS a 3 REV
         ARSEEK a 100
         ARLASTITEMS a 2
         ARSET b 4 x y z
         ARLASTITEMS b 2
         ARLASTITEMS b 18446744073709551615",
        r#":4
           ["v2" "v3" "v4"]
           ["v4" "v3" "v2"]
           ["v0" "v1" "v2" "v3" "v4"]
           ["v4" "v3" "v2" "v1" "v0"]
           []
           []
           :1
           ["v2" nil "v4"]
           :1
           ["v4" "v0" "v1"]
           ["v1" "v0" "v4"]
           :1
           [nil nil]
           :3
           ["y" "z"]
           ["x" "y" "z"]"#,
    );
}

/// redis.io/commands/arring. What becomes of the elements when the size changes: the page says that
/// the array is truncated to fit; redis-py's and go-redis' tests that the newest are kept in order,
/// from index 0, and no further than the first hole; the page of another server with arrays that a
/// greater size keeps what fits in order, too.
#[test]
fn rings_turn() {
    check(
        "ARRING r 3 v0
         ARRING r 3 v1
         ARRING r 3 v2
         ARRING r 3 v3
         ARGET r 0
         ARCOUNT r
         ARLASTITEMS r 3
         ARNEXT r
         ARRING r 5 v4 v5
         ARGETRANGE r 0 5
         ARRING r 5 v6
         ARGETRANGE r 0 4
         ARRING r 2 v7
         ARGETRANGE r 0 2
         ARLEN r
         ARRING r 2 a b c d e
         ARGETRANGE r 0 1
         ARRING s 5 v0 v1 v2 v3 v4
         ARDEL s 3
         ARRING s 3 new
         ARGETRANGE s 0 3
         ARINSERT t a b c
         ARSEEK t 10
         ARRING t 5 x
         ARGETRANGE t 0 4
         ARSET u 0 a b c d e
         ARRING u 2 x
         ARGETRANGE u 0 4
         ARRING v 18446744073709551615 x
         ARSEEK v 18446744073709551615
         ARRING v 18446744073709551615 y
         ARGET v 0",
        r#":0
           :1
           :2
           :0
           "v3"
           :3
           ["v1" "v2" "v3"]
           :1
           :4
           ["v1" "v2" "v3" "v4" "v5" nil]
           :0
           ["v6" "v2" "v3" "v4" "v5"]
           :0
           ["v7" "v6" nil]
           :2
           :1
           ["d" "e"]
           :4
           :1
           :1
           ["v4" "new" nil nil]
           :2
           :1
           :0
           ["x" "b" "c" nil nil]
           :5
           :0
           ["x" "e" nil nil nil]
           :0
           :1
           :0
           "y""#,
    );
}

/// redis.io/commands/arinfo for the fields, their order and their types; what a slice is here, the
/// head of `info.rs` says.
#[test]
fn what_it_is_made_of() {
    let script = "ARMSET a 0 a 1 b 100 c
                  ARINSERT a d
                  ARINFO a
                  ARSEEK a 18446744073709551615
                  ARINFO a FULL
                  ARDEL a 100
                  ARINFO a full
                  ARINFO none";
    check(
        script,
        r#":3
           :0
           ["count" :3 "len" :101 "next-insert-index" :1 "slices" :1 "directory-size" :1 \
            "super-dir-entries" :0 "slice-size" :4096]
           :1
           ["count" :3 "len" :101 "next-insert-index" :0 "slices" :1 "directory-size" :1 \
            "super-dir-entries" :0 "slice-size" :4096 "dense-slices" :0 "sparse-slices" :1 \
            "avg-dense-size" "0" "avg-dense-fill" "0" "avg-sparse-size" "3"]
           :1
           ["count" :2 "len" :2 "next-insert-index" :0 "slices" :1 "directory-size" :1 \
            "super-dir-entries" :0 "slice-size" :4096 "dense-slices" :1 "sparse-slices" :0 \
            "avg-dense-size" "2" "avg-dense-fill" "1" "avg-sparse-size" "0"]
           -ERR no such key"#,
    );
    let mut session = Session::new().resp3();
    session.call("ARSET a 0 x");
    session.check(
        "ARINFO a FULL",
        r#"{"count": :1, "len": :1, "next-insert-index": :0, "slices": :1, "directory-size": :1, \
           "super-dir-entries": :0, "slice-size": :4096, "dense-slices": :1, "sparse-slices": :0, \
           "avg-dense-size": ,1, "avg-dense-fill": ,1, "avg-sparse-size": ,0}"#,
    );
}

/// `invalid array index` and `range exceeds maximum` are told by the clients' tests, `insert index
/// overflow` and the bounds of predicates by the page of another server with arrays. Where nothing
/// is told, the texts are those that Redis has for such arguments elsewhere.
#[test]
fn array_commands_refuse_bad_places_and_counts() {
    check_refused(&[
        ("ARSET a -1 x", INVALID_INDEX),
        ("ARSET a x x", INVALID_INDEX),
        ("ARSET a 18446744073709551615 x", INVALID_INDEX),
        ("ARSET a 18446744073709551614 x y", INVALID_INDEX),
        ("ARSET a 18446744073709551616 x", INVALID_INDEX),
        ("ARSET a 0", "-ERR wrong number of arguments for 'arset' command"),
        ("ARSET s 0 x", WRONG_TYPE),
        ("ARSET s x x", INVALID_INDEX),
        ("ARMSET a 0 x 1", "-ERR wrong number of arguments for 'armset' command"),
        ("ARMSET a 0 z -1 y", INVALID_INDEX),
        ("ARMSET s 0 x", WRONG_TYPE),
        ("ARGET none x", INVALID_INDEX),
        ("ARGET s 0", WRONG_TYPE),
        ("ARMGET a 0 -1", INVALID_INDEX),
        ("ARMGET s 0", WRONG_TYPE),
        ("ARGETRANGE a 0 1000000", "-ERR range exceeds maximum of 1000000 items"),
        ("ARGETRANGE none 1000000 0", "-ERR range exceeds maximum of 1000000 items"),
        ("ARGETRANGE a 0 18446744073709551614", "-ERR range exceeds maximum of 1000000 items"),
        ("ARGETRANGE a 0 -1", INVALID_INDEX),
        ("ARGETRANGE s 0 1", WRONG_TYPE),
        ("ARLEN s", WRONG_TYPE),
        ("ARCOUNT s", WRONG_TYPE),
        ("ARDEL a 0 x", INVALID_INDEX),
        ("ARDEL s 0", WRONG_TYPE),
        ("ARDELRANGE a 0 1 2", "-ERR wrong number of arguments for 'ardelrange' command"),
        ("ARDELRANGE a 0 1 2 -", INVALID_INDEX),
        ("ARDELRANGE s 0 1", WRONG_TYPE),
    ]);
}

/// Events are named after their commands; that there is a class of them for arrays, redis.io's page
/// on keyspace notifications says.
#[test]
fn array_commands_are_logged_and_told_by_their_names() {
    check_effects(
        &mut Session::new(),
        &[
            ("ARSET a 0 x y", "ARSET a 0 x y / new a, arset a"),
            ("ARMSET a 0 x 9 z", "ARMSET a 0 x 9 z / arset a"),
            ("ARDEL a 5", " / "),
            ("ARDEL a 1 5", "ARDEL a 1 5 / ardel a"),
            ("ARDELRANGE a 2 8", " / "),
            ("ARDELRANGE a 9 8", "ARDELRANGE a 9 8 / ardelrange a"),
            ("ARSEEK a 0", "ARSEEK a 0 / arseek a"),
            ("ARSEEK none 5", " / "),
            ("ARINSERT a x", "ARINSERT a x / arinsert a"),
            ("ARRING a 3 x", "ARRING a 3 x / arring a"),
            ("ARGET a 0", " / "),
            ("ARDELRANGE a 0 9", "ARDELRANGE a 0 9 / ardelrange a, del a"),
            ("ARRING a 3 x", "ARRING a 3 x / new a, arring a"),
            ("ARDEL a 0", "ARDEL a 0 / ardel a, del a"),
        ],
    );
}

/// Distance costs nothing, elements do: what walks over many of them is no work for a worker.
#[test]
fn much_work_is_heavy() {
    let mut session = Session::new();
    session.call("ARMSET far 0 a 1152921504606846976 b 18446744073709551614 c");
    for line in [
        "ARLEN far",
        "ARSCAN far 0 18446744073709551614",
        "AROP far 0 18446744073709551614 SUM",
        "ARGREP far - + RE a|b",
        "ARLASTITEMS far 1000",
        "ARDELRANGE far 1 18446744073709551613",
        "ARRING far 1 x",
    ] {
        session.call(line);
        assert!(!session.ran_heavy(), "{line}");
    }
    for number in 0..20 {
        let words: Vec<String> =
            (0..500).map(|offset| format!("{}", number * 500 + offset)).collect();
        session.call(&format!("ARINSERT many {}", words.join(" ")));
    }
    for (line, is_heavy) in [
        ("ARCOUNT many", false),
        ("AROP many 0 9999 USED", false),
        ("AROP many 0 9999 SUM", true),
        ("ARSCAN many 0 9999 LIMIT 100", false),
        ("ARSCAN many 0 9999", true),
        ("ARGETRANGE many 0 9999", true),
        ("ARGREP many - + MATCH 99", true),
        ("ARGREP many 0 9 MATCH 9", false),
        ("ARLASTITEMS many 10000", true),
        ("ARRING many 9000 x", true),
        ("ARDELRANGE many 0 8000", true),
    ] {
        session.call(line);
        assert_eq!(session.ran_heavy(), is_heavy, "{line}");
    }
}

/// What all types have.
#[test]
fn arrays_are_values_like_others() {
    let mut session = Session::new();
    session.check(
        "ARINSERT a x y z
         COPY a b
         ARDEL b 1
         ARSCAN a 0 9
         ARNEXT b
         RENAME b c
         ARCOUNT c
         EXPIRE c 100
         ARSET c 0 X
         TTL c
         SCAN 0 TYPE array COUNT 100
         SET s x
         COPY a s REPLACE
         TYPE s
         DEL a c s
         EXISTS a c s",
        r#":2
           :1
           :1
           [[:0 "x"] [:1 "y"] [:2 "z"]]
           :3
           +OK
           :2
           :1
           :0
           :100
           ["0" ["a" "c"]]
           +OK
           :1
           +array
           :3
           :0"#,
    );
    for number in 0..200 {
        session.call(&format!("ARSET big {number} {}", "x".repeat(100)));
    }
    session.check(
        "COPY big copy\nARDELRANGE copy 0 100\nARCOUNT big\nARCOUNT copy",
        ":1\n:101\n:200\n:99",
    );
}
