//! Sessions of the list family. Replies, events and journal were compared with Redis 8.2; those of
//! LMOVEM and BLMOVEM, which no server of the tests has, with redis.io/commands/lmovem and blmovem.

mod cost;

use keyspace::EmptyReply;

use crate::testing::{START, Session, check};

#[track_caller]
fn check_effects(session: &mut Session, table: &[(&str, &str)]) {
    for (line, expected) in table {
        session.call(line);
        let got = format!("{} / {}", session.journal().join("; "), session.events().join(", "));
        assert_eq!(got, *expected, "{line}");
    }
}

/// Each request of a session that has the list `l` (a b c) and the string `s` is refused so.
#[track_caller]
fn check_refused(table: &[(&str, &str)]) {
    for (line, expected) in table {
        let mut session = Session::new();
        session.check("RPUSH l a b c\nSET s x", ":3\n+OK");
        assert_eq!(session.call(line), *expected, "{line}");
        assert!(session.journal().is_empty() && session.events().is_empty(), "{line}");
        session.check("LRANGE l 0 -1\nGET s", "[\"a\" \"b\" \"c\"]\n\"x\"");
    }
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
const SYNTAX: &str = "-ERR syntax error";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range";
const NOT_SYMMETRIC: &str =
    "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";

#[test]
fn pushes_and_reads() {
    check(
        "RPUSH l a b
         LPUSH l c 17
         LRANGE l 0 -1
         RPUSHX l z
         LPUSHX l y
         LPUSHX none y
         RPUSHX none y y
         EXISTS none
         LLEN l
         LLEN none
         LINDEX l 0
         LINDEX l 1
         LINDEX l -1
         LINDEX l 6
         LINDEX l -7
         LINDEX none 0
         LINDEX none x
         LRANGE l 1 2
         LRANGE l -2 -1
         LRANGE l -100 0
         LRANGE l 5 100
         LRANGE l 6 7
         LRANGE l 2 1
         LRANGE none 0 -1
         LRANGE l 0 -9223372036854775808
         TYPE l",
        r#":2
           :4
           ["17" "c" "a" "b"]
           :5
           :6
           :0
           :0
           :0
           :6
           :0
           "y"
           "17"
           "z"
           nil
           nil
           nil
           nil
           ["17" "c"]
           ["b" "z"]
           ["y"]
           ["z"]
           []
           []
           []
           []
           +list"#,
    );
}

#[test]
fn pops() {
    check(
        "RPUSH l a b c d e f g
         LPOP l
         RPOP l
         LPOP l 2
         RPOP l 2
         LPOP l 0
         LPOP l 9223372036854775807
         EXISTS l
         LPOP l
         LPOP l 0
         RPOP l 1
         RPUSH l a b c d e
         LMPOP 2 none l LEFT
         LMPOP 1 l right count 2
         LMPOP 2 l l LEFT COUNT 10
         LMPOP 1 l LEFT",
        r#":7
           "a"
           "g"
           ["b" "c"]
           ["f" "e"]
           []
           ["d"]
           :0
           nil
           nil-array
           nil-array
           :5
           ["l" ["a"]]
           ["l" ["e" "d"]]
           ["l" ["b" "c"]]
           nil-array"#,
    );
}

#[test]
fn inserts_sets_and_removes() {
    check(
        "RPUSH l a b a b a
         LINSERT l BEFORE a x
         LINSERT l after a y
         LINSERT l AFTER none z
         LINSERT none AFTER a z
         LRANGE l 0 -1
         LSET l 0 0
         LSET l -1 last
         LRANGE l 0 -1
         LREM l 0 none
         LREM l 1 a
         LREM l -1 b
         LRANGE l 0 -1
         LREM l 0 a
         LREM l 9223372036854775807 0
         LREM none 0 a
         LRANGE l 0 -1
         LTRIM l 1 -2
         LRANGE l 0 -1
         LTRIM l 5 1
         EXISTS l
         LTRIM l 0 1
         RPUSH l 1 1 1
         LREM l 0 1
         EXISTS l",
        r#":5
           :6
           :7
           :-1
           :0
           ["x" "a" "y" "b" "a" "b" "a"]
           +OK
           +OK
           ["0" "a" "y" "b" "a" "b" "last"]
           :0
           :1
           :1
           ["0" "y" "b" "a" "last"]
           :1
           :1
           :0
           ["y" "b" "last"]
           +OK
           ["b"]
           +OK
           :0
           +OK
           :3
           :3
           :0"#,
    );
}

#[test]
fn positions() {
    check(
        "RPUSH l a b c 1 2 3 c c
         LPOS l c
         LPOS l c RANK 2
         LPOS l c RANK -1
         LPOS l c RANK -3
         LPOS l c RANK 4
         LPOS l c COUNT 2
         LPOS l c COUNT 0
         LPOS l c COUNT 0 RANK -1
         LPOS l c RANK 2 COUNT 0
         LPOS l c MAXLEN 2
         LPOS l c MAXLEN 3
         LPOS l c MAXLEN 0
         LPOS l c RANK -1 MAXLEN 2 COUNT 0
         LPOS l 2 rank 1 count 1 maxlen 100
         LPOS l x
         LPOS l x COUNT 1
         LPOS none x
         LPOS none x COUNT 1
         LPOS l a RANK -9223372036854775807
         LPOS l c RANK 1 RANK 2",
        ":8
         :2
         :6
         :7
         :2
         nil
         [:2 :6]
         [:2 :6 :7]
         [:7 :6 :2]
         [:6 :7]
         nil
         :2
         :2
         [:7 :6]
         [:4]
         nil
         []
         nil
         []
         nil
         :6",
    );
}

#[test]
fn moves() {
    check(
        "RPUSH l a b c d
         LMOVE l m LEFT RIGHT
         LMOVE l m left left
         LMOVE l m RIGHT LEFT
         LMOVE l m RIGHT RIGHT
         EXISTS l
         LRANGE m 0 -1
         LMOVE m m LEFT RIGHT
         RPOPLPUSH m m
         LRANGE m 0 -1
         RPOPLPUSH m l
         LMOVE none l LEFT LEFT
         RPOPLPUSH none l
         SET s x
         LMOVE none s LEFT LEFT
         RPUSH one 1
         PEXPIRE one 100000
         LMOVE one one LEFT LEFT
         PTTL one",
        r#":4
           "a"
           "b"
           "d"
           "c"
           :0
           ["d" "b" "a" "c"]
           "d"
           "d"
           ["d" "b" "a" "c"]
           "c"
           nil
           nil
           +OK
           nil
           :1
           :1
           "1"
           :100000"#,
    );
}

/// The examples of the page, and the order of each pair of ends.
#[test]
fn moves_of_many() {
    check(
        "RPUSH mylist 1 2 3 4
         LMOVEM mylist myotherlist LEFT LEFT COUNT 2 OBO
         LRANGE mylist 0 -1
         LRANGE myotherlist 0 -1
         LMOVEM mylist myotherlist LEFT LEFT EXACTLY 5 BULK
         RPUSH somelist a b c
         LMOVEM somelist somelist LEFT LEFT EXACTLY 2 OBO
         LRANGE somelist 0 -1
         LMOVEM somelist somelist LEFT LEFT EXACTLY 3 bulk
         LRANGE somelist 0 -1
         LMOVEM somelist other RIGHT LEFT
         LMOVEM none other LEFT LEFT
         LMOVEM none other LEFT LEFT COUNT 3 OBO
         LMOVEM none other LEFT LEFT EXACTLY 1 OBO
         LMOVEM somelist other LEFT RIGHT COUNT 9223372036854775807 BULK
         EXISTS somelist
         LRANGE other 0 -1",
        r#":4
           ["2" "1"]
           ["3" "4"]
           ["2" "1"]
           nil
           :3
           ["b" "a"]
           ["b" "a" "c"]
           ["b" "a" "c"]
           ["b" "a" "c"]
           ["c"]
           nil
           nil
           nil
           ["b" "a"]
           :0
           ["c" "b" "a"]"#,
    );
    let table = [
        ("LEFT LEFT COUNT 2 OBO", r#"["2" "1"]"#, r#"["2" "1" "x"]"#),
        ("LEFT RIGHT COUNT 2 OBO", r#"["1" "2"]"#, r#"["x" "1" "2"]"#),
        ("RIGHT LEFT COUNT 2 OBO", r#"["3" "4"]"#, r#"["3" "4" "x"]"#),
        ("RIGHT RIGHT COUNT 2 OBO", r#"["4" "3"]"#, r#"["x" "4" "3"]"#),
        ("LEFT LEFT COUNT 2 BULK", r#"["1" "2"]"#, r#"["1" "2" "x"]"#),
        ("LEFT RIGHT EXACTLY 2 BULK", r#"["1" "2"]"#, r#"["x" "1" "2"]"#),
        ("RIGHT LEFT EXACTLY 2 BULK", r#"["3" "4"]"#, r#"["3" "4" "x"]"#),
        ("RIGHT RIGHT COUNT 2 BULK", r#"["3" "4"]"#, r#"["x" "3" "4"]"#),
    ];
    for (words, reply, destination) in table {
        let mut session = Session::new();
        session.check("RPUSH a 1 2 3 4\nRPUSH b x", ":4\n:1");
        assert_eq!(session.call(&format!("LMOVEM a b {words}")), reply, "{words}");
        assert_eq!(session.call("LRANGE b 0 -1"), destination, "{words}");
    }
}

#[test]
fn wrong_types_are_refused() {
    check_refused(&[
        ("LPUSH s a", WRONG_TYPE),
        ("RPUSHX s a", WRONG_TYPE),
        ("LLEN s", WRONG_TYPE),
        ("LINDEX s x", WRONG_TYPE),
        ("LRANGE s 0 1", WRONG_TYPE),
        ("LPOS s a", WRONG_TYPE),
        ("LSET s 0 x", WRONG_TYPE),
        ("LINSERT s BEFORE a b", WRONG_TYPE),
        ("LPOP s", WRONG_TYPE),
        ("LPOP s 0", WRONG_TYPE),
        ("RPOP s 1", WRONG_TYPE),
        ("LMPOP 2 none s LEFT", WRONG_TYPE),
        ("LREM s 0 x", WRONG_TYPE),
        ("LTRIM s 0 -1", WRONG_TYPE),
        ("LMOVE l s LEFT RIGHT", WRONG_TYPE),
        ("LMOVE s l LEFT RIGHT", WRONG_TYPE),
        ("LMOVEM l s LEFT RIGHT COUNT 1 OBO", WRONG_TYPE),
        ("RPOPLPUSH l s", WRONG_TYPE),
        ("BLPOP none s l 1", WRONG_TYPE),
        ("BRPOP s 0", WRONG_TYPE),
        ("BLMOVE l s LEFT RIGHT 0", WRONG_TYPE),
        ("BRPOPLPUSH s l 0", WRONG_TYPE),
        ("BLMPOP 0 1 s LEFT", WRONG_TYPE),
        ("BLMOVEM s l LEFT RIGHT 0", WRONG_TYPE),
    ]);
}

#[test]
fn wrong_arguments_are_refused() {
    let rank_zero = "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the \
                     second ... or use negative to start from the end of the list";
    check_refused(&[
        ("LINDEX l x", NOT_AN_INTEGER),
        ("LRANGE l x 1", NOT_AN_INTEGER),
        ("LRANGE s 1 x", NOT_AN_INTEGER),
        ("LTRIM s x 1", NOT_AN_INTEGER),
        ("LSET none x x", "-ERR no such key"),
        ("LSET l x x", NOT_AN_INTEGER),
        ("LSET l 3 x", "-ERR index out of range"),
        ("LSET l -4 x", "-ERR index out of range"),
        ("LINSERT s MIDDLE a b", SYNTAX),
        ("LREM l x a", NOT_AN_INTEGER),
        ("LREM l -9223372036854775808 a", NOT_SYMMETRIC),
        ("LREM l -9223372036854775809 a", NOT_AN_INTEGER),
        ("LPOS s a RANK 0", rank_zero),
        ("LPOS l a RANK -9223372036854775808", NOT_SYMMETRIC),
        ("LPOS l a RANK x", NOT_AN_INTEGER),
        ("LPOS l a COUNT -1", "-ERR COUNT can't be negative"),
        ("LPOS l a MAXLEN x", "-ERR MAXLEN can't be negative"),
        ("LPOS s a FOO 1", SYNTAX),
        ("LPOS l a RANK", SYNTAX),
        ("LPOP s -1", "-ERR value is out of range, must be positive"),
        ("RPOP l 9223372036854775808", "-ERR value is out of range, must be positive"),
        ("LPOP l 1 1", "-ERR wrong number of arguments for 'lpop' command"),
        ("RPOP l 1 1", "-ERR wrong number of arguments for 'rpop' command"),
        ("LMPOP 0 l LEFT", "-ERR numkeys should be greater than 0"),
        ("LMPOP x l LEFT", "-ERR numkeys should be greater than 0"),
        ("LMPOP -1 l LEFT", "-ERR numkeys should be greater than 0"),
        ("LMPOP 9223372036854775807 l LEFT", SYNTAX),
        ("LMPOP 2 l LEFT", SYNTAX),
        ("LMPOP 1 l MIDDLE", SYNTAX),
        ("LMPOP 1 l LEFT COUNT", SYNTAX),
        ("LMPOP 1 l LEFT FOO 1", SYNTAX),
        ("LMPOP 1 l LEFT COUNT 1 COUNT 1", SYNTAX),
        ("LMPOP 1 l LEFT COUNT 0", "-ERR count should be greater than 0"),
        ("LMPOP 1 l LEFT COUNT x", "-ERR count should be greater than 0"),
        ("LMOVE l l LEFT UP", SYNTAX),
        ("LMOVE l s UP LEFT", SYNTAX),
        ("LMOVEM l l LEFT UP", SYNTAX),
        ("LMOVEM l l LEFT LEFT COUNT 1", SYNTAX),
        ("LMOVEM l l LEFT LEFT FOO 1 OBO", SYNTAX),
        ("LMOVEM l l LEFT LEFT COUNT 1 FOO", SYNTAX),
        ("LMOVEM l l LEFT LEFT COUNT 1 OBO x", SYNTAX),
        ("LMOVEM l l LEFT LEFT COUNT 0 OBO", "-ERR count should be greater than 0"),
        ("LMOVEM l l LEFT LEFT EXACTLY -1 OBO", "-ERR exactly should be greater than 0"),
        ("BLPOP l x", "-ERR timeout is not a float or out of range"),
        ("BLPOP l nan", "-ERR timeout is not a float or out of range"),
        ("BRPOP l -1", "-ERR timeout is negative"),
        ("BRPOP l 1e17", "-ERR timeout is out of range"),
        ("BLMPOP x 0 l LEFT", "-ERR numkeys should be greater than 0"),
        ("BLMPOP x 1 l LEFT COUNT 0", "-ERR count should be greater than 0"),
        ("BLMPOP x 1 l LEFT", "-ERR timeout is not a float or out of range"),
        ("BLMOVE l l LEFT UP x", SYNTAX),
        ("BLMOVE l l LEFT LEFT x", "-ERR timeout is not a float or out of range"),
        ("BRPOPLPUSH s s x", "-ERR timeout is not a float or out of range"),
        ("BLMOVEM l l LEFT LEFT x", "-ERR timeout is not a float or out of range"),
        ("BLMOVEM l l LEFT LEFT 0 COUNT 1", SYNTAX),
    ]);
}

#[test]
fn changes_are_told_as_redis_tells_them() {
    let mut session = Session::new();
    let table = [
        ("RPUSH l a b c d e f", "RPUSH l a b c d e f / new l, rpush l"),
        ("LPUSHX l x y", "LPUSHX l x y / lpush l"),
        ("LPUSHX none x", " / "),
        ("LPOP l", "LPOP l / lpop l"),
        ("LPOP l 2", "LPOP l 2 / lpop l"),
        ("LPOP l 0", " / "),
        ("RPOP l 1", "RPOP l 1 / rpop l"),
        ("LMPOP 2 none l RIGHT COUNT 2", "RPOP l 2 / rpop l"),
        ("LINSERT l BEFORE b z", "LINSERT l BEFORE b z / linsert l"),
        ("LINSERT l BEFORE none z", " / "),
        ("LSET l 0 q", "LSET l 0 q / lset l"),
        ("LREM l 0 none", " / "),
        ("LREM l 0 q", "LREM l 0 q / lrem l"),
        ("LTRIM l 0 -1", " / ltrim l"),
        ("LTRIM l 5 1", "LTRIM l 5 1 / ltrim l, del l"),
        ("LTRIM l 5 1", " / "),
        ("RPUSH l a b c d e f g h i", "RPUSH l a b c d e f g h i / new l, rpush l"),
        ("LMOVE l m LEFT RIGHT", "LMOVE l m LEFT RIGHT / new m, rpush m, lpop l"),
        ("LMOVE l l LEFT RIGHT", "LMOVE l l LEFT RIGHT / rpush l, lpop l"),
        ("RPOPLPUSH m n", "RPOPLPUSH m n / new n, lpush n, rpop m, del m"),
        ("RPOPLPUSH n n", "RPOPLPUSH n n / lpush n, rpop n"),
        ("BLPOP none l 0", "LPOP l / lpop l"),
        ("brpop l 10", "RPOP l / rpop l"),
        ("BLMOVE l m LEFT LEFT 0", "LMOVE l m LEFT LEFT / new m, lpush m, lpop l"),
        ("BRPOPLPUSH l m 0", "RPOPLPUSH l m / lpush m, rpop l"),
        ("LMOVEM l m LEFT LEFT COUNT 2 OBO", "LPOP l 2; LPUSH m e f / lpush m, lpop l"),
        ("LMOVEM l m LEFT LEFT EXACTLY 20 OBO", " / "),
        ("BLMOVEM m n LEFT LEFT 0 COUNT 2 BULK", "LPOP m 2; LPUSH n e f / lpush n, lpop m"),
        ("PEXPIREAT n 4102444800000", "PEXPIREAT n 4102444800000 / expire n"),
        (
            "LMOVEM n n LEFT RIGHT COUNT 2 BULK",
            "LPOP n 2; RPUSH n f e; PEXPIREAT n 4102444800000 / rpush n, lpop n",
        ),
        ("PERSIST n", "PERSIST n / persist n"),
        ("BLMOVEM l n LEFT LEFT 0", "LMOVE l n LEFT LEFT / lpush n, lpop l"),
        ("BLMPOP 0 2 none n LEFT COUNT 100", "LPOP n 4 / lpop n, del n"),
        ("BLPOP none 0", " / "),
    ];
    check_effects(&mut session, &table);
}

#[test]
fn a_command_that_finds_nothing_waits_for_each_key_by_itself() {
    let mut session = Session::new();
    let table: &[(&str, &[&str])] = &[
        ("BLPOP a b 5", &["BLPOP a 0", "BLPOP b 0"]),
        ("brpop a 5", &["brpop a 0"]),
        ("BLMPOP 5 2 a b LEFT", &["BLMPOP 0 1 a LEFT", "BLMPOP 0 1 b LEFT"]),
        ("BLMPOP 5 1 a RIGHT COUNT 3", &["BLMPOP 0 1 a RIGHT COUNT 3"]),
        ("BLMOVE a b LEFT RIGHT 5", &["BLMOVE a b LEFT RIGHT 0"]),
        ("BRPOPLPUSH a b 5", &["BRPOPLPUSH a b 0"]),
        ("BLMOVEM a b LEFT RIGHT 5", &["BLMOVEM a b LEFT RIGHT 0"]),
        ("BLMOVEM a b LEFT LEFT 5 COUNT 2 OBO", &["BLMOVEM a b LEFT LEFT 0 COUNT 2 OBO"]),
    ];
    for (line, requests) in table {
        session.call(line);
        let wait = session.waits().expect("there is nothing to give");
        let words = |nth| wait.awaited.request(nth).map(String::from_utf8_lossy);
        let text = |nth| words(nth).collect::<Vec<_>>().join(" ");
        let narrowed: Vec<_> = (0..wait.awaited.len()).map(text).collect();
        assert_eq!(narrowed, *requests, "{line}");
        assert_eq!(wait.deadline, Some(START + 5000), "{line}");
        let waits_for_element = line.starts_with("BLMOVE ") || line.starts_with("BRPOPLPUSH");
        let at_once = if waits_for_element { EmptyReply::Null } else { EmptyReply::NullArray };
        assert_eq!((wait.wakes_on_deletion, wait.at_once), (false, at_once), "{line}");
    }
    session.call("BLPOP a 0");
    assert_eq!(session.waits().expect("there is nothing to give").deadline, None);
}

#[test]
fn blmovem_waits_until_there_are_enough() {
    check(
        "RPUSH l a b
         BLMOVEM l m LEFT LEFT 0 EXACTLY 3 OBO
         RPUSH l c
         BLMOVEM l m LEFT LEFT 0 EXACTLY 3 OBO
         BLMOVEM m l LEFT LEFT 0 COUNT 10 BULK",
        r#":2
           +waits for 1 keys
           :3
           ["c" "b" "a"]
           ["c" "b" "a"]"#,
    );
}

#[test]
fn replies_are_the_same_in_resp3_but_for_nulls() {
    let mut session = Session::new().resp3();
    session.check(
        "RPUSH l a b c
         LPOP none
         LPOP none 1
         LMPOP 1 none LEFT
         LMPOP 1 l LEFT COUNT 2
         BLPOP l 0
         LMOVEM none l LEFT LEFT EXACTLY 1 OBO
         LMOVEM none l LEFT LEFT
         LPOS l a
         LINDEX l 0",
        r#":3
           nil
           nil
           nil
           ["l" ["a" "b"]]
           ["l" "c"]
           nil
           nil
           nil
           nil"#,
    );
}

#[test]
fn the_encoding_follows_the_directive() {
    let mut session = Session::new();
    let long = "x".repeat(4000);
    session.call(&format!("RPUSH l {long} {long}"));
    session.check("OBJECT ENCODING l", "\"listpack\"");
    session.call(&format!("RPUSH l {long}"));
    session.check(
        "OBJECT ENCODING l
         RPOP l 2
         LLEN l
         OBJECT ENCODING l
         LSET l 0 short
         OBJECT ENCODING l",
        "\"quicklist\"\n[\"x\" \"x\"]\n:1\n\"listpack\"\n+OK\n\"listpack\""
            .replace("\"x\"", &format!("\"{long}\""))
            .as_str(),
    );
}
