//! SORT and SORT_RO: orders, patterns, limits, destinations, refusals. Invariant: what is claimed
//! of replies here holds for Redis as well; `tests/tests/sort.rs` asks it.

use crate::testing::{Session, check};

#[test]
fn numbers_go_by_value_and_equal_ones_by_bytes() {
    check(
        r#"
        RPUSH l 3 10 -1 2.5 1e1 +3 inf 1e400
        SORT l
        SORT l DESC
        SORT l LIMIT 1 3
        SORT l ASC LIMIT 6 100
        SORT_RO l LIMIT 0 2 DESC
        RPUSH odd "" 1e-400 "-1\x00x" -inf
        SORT odd
        RPUSH w 1 a
        SORT w
        LSET w 1 nan
        SORT w
        LSET w 1 0x10
        SORT w
        LSET w 1 " 2"
        SORT w
        SORT_RO w STORE d
        SORT none
        SORT none BY w_* GET # STORE d
        "#,
        r#"
        :8
        ["-1" "2.5" "+3" "3" "10" "1e1" "1e400" "inf"]
        ["inf" "1e400" "1e1" "10" "3" "+3" "2.5" "-1"]
        ["2.5" "+3" "3"]
        ["1e400" "inf"]
        ["inf" "1e400"]
        :4
        ["-inf" "-1\x00x" "" "1e-400"]
        :2
        -ERR One or more scores can't be converted into double
        +OK
        -ERR One or more scores can't be converted into double
        +OK
        -ERR One or more scores can't be converted into double
        +OK
        -ERR One or more scores can't be converted into double
        -ERR syntax error
        []
        :0
        "#,
    );
}

#[test]
fn words_go_by_their_bytes() {
    check(
        r#"
        SADD s b a C 10 9 "" ab
        SORT s
        SORT s ALPHA
        SORT s alpha desc LIMIT 0 2
        SORT s ALPHA DESC ASC
        "#,
        r#"
        :7
        -ERR One or more scores can't be converted into double
        ["" "10" "9" "C" "a" "ab" "b"]
        ["b" "ab"]
        ["" "10" "9" "C" "a" "ab" "b"]
        "#,
    );
}

#[test]
fn keys_and_fields_are_what_patterns_make_of_elements() {
    check(
        r#"
        RPUSH l 1 2 3
        MSET w_1 30 w_2 20 w_3 10 o_1 one o_3 three text x
        SORT l BY w_*
        SORT l BY w_* GET # GET o_* DESC
        HSET h:1 n 5 name uno
        HSET h:2 n 7
        HSET h:3 n 6 name tres
        SORT l BY h:*->n GET h:*->name
        SORT l BY none_*
        SORT l BY o_*
        SORT l BY o_* ALPHA
        SORT l BY l* GET h:* GET text GET h:*-> GET #* GET *
        SORT l GET w_*->n GET none:*->n LIMIT 0 1
        SET x1->y z
        SORT l GET x*-> GET x*->y LIMIT 0 1
        "#,
        r#"
        :3
        +OK
        ["3" "2" "1"]
        ["1" "one" "2" nil "3" "three"]
        :2
        :1
        :2
        ["uno" "tres" nil]
        ["1" "2" "3"]
        -ERR One or more scores can't be converted into double
        ["2" "1" "3"]
        [nil nil nil nil nil nil nil nil nil nil nil nil nil nil nil]
        [nil nil]
        +OK
        [nil nil]
        "#,
    );
}

#[test]
fn without_an_order_elements_come_as_they_lie() {
    check(
        r#"
        RPUSH l c a b
        SORT l BY nosort
        SORT l BY nosort DESC
        SORT l BY nosort LIMIT 1 1
        SORT l BY nosort DESC LIMIT 0 2
        ZADD z 3 a 1 c 2 b
        SORT z BY nosort
        SORT z BY nosort DESC
        SORT z BY nosort LIMIT 1 5
        SORT z BY nosort DESC LIMIT 0 1
        SORT z BY # LIMIT -5 -5
        SORT z ALPHA
        SORT z ALPHA LIMIT 3 1
        SORT z ALPHA LIMIT 9223372036854775807 9223372036854775807
        SORT z ALPHA LIMIT 1 9223372036854775807
        SORT z ALPHA LIMIT 1 0
        SADD s z y x
        SORT s BY nosort STORE d
        LRANGE d 0 -1
        SORT s BY nosort DESC STORE d
        LRANGE d 0 -1
        "#,
        r#"
        :3
        ["c" "a" "b"]
        ["b" "a" "c"]
        ["a"]
        ["b" "a"]
        :3
        ["c" "b" "a"]
        ["a" "b" "c"]
        ["b" "a"]
        ["a"]
        ["c" "b" "a"]
        ["a" "b" "c"]
        []
        []
        ["b" "c"]
        []
        :3
        :3
        ["x" "y" "z"]
        :3
        ["z" "y" "x"]
        "#,
    );
}

#[test]
fn what_is_stored_is_a_list() {
    let mut session = Session::new();
    session.check(
        r#"
        RPUSH l 2 1
        SET d x EX 100
        SET o_1 one
        SORT l STORE other STORE d
        TYPE d
        TTL d
        EXISTS other
        SORT l GET o_* GET # STORE l
        LRANGE l 0 -1
        OBJECT ENCODING l
        "#,
        r#"
        :2
        +OK
        +OK
        :2
        +list
        :-1
        :0
        :4
        ["one" "1" "" "2"]
        "listpack"
        "#,
    );
    assert_eq!(session.call("SORT d STORE d"), ":2");
    assert_eq!(session.events(), ["overwritten d", "sortstore d"]);
    assert_eq!(session.journal(), ["SORT d STORE d"]);
    assert_eq!(session.call("SORT none STORE d"), ":0");
    assert_eq!(session.events(), ["keymiss none", "del d"]);
    assert_eq!(session.call("SORT none STORE d"), ":0");
    assert!(session.journal().is_empty(), "nothing changed");
}

#[test]
fn long_values_are_compared_and_stored() {
    let mut session = Session::new();
    let (one, other) = ("y".repeat(100_000), format!("{}z", "y".repeat(99_999)));
    session.call("RPUSH l a b");
    session.call_words(&[b"SET", b"w_a", other.as_bytes()]);
    session.call_words(&[b"SET", b"w_b", one.as_bytes()]);
    assert_eq!(session.call("SORT l BY w_* ALPHA"), r#"["b" "a"]"#);
    assert_eq!(session.call("SORT l BY w_* ALPHA GET w_* STORE d"), ":2");
    assert_eq!(session.call("LINDEX d 0"), format!("\"{one}\""));
    assert_eq!(
        session.call("SORT l BY w_*"),
        "-ERR One or more scores can't be converted into double"
    );
    // The list's own long elements, too.
    assert_eq!(session.call("SORT d ALPHA DESC LIMIT 0 1"), format!("[\"{other}\"]"));
}

#[test]
fn members_whose_time_is_over_are_absent() {
    let mut session = Session::new();
    session.call("SADD s 1 2 3");
    session.call("EXPIREMEMBER s 2 10");
    session.call("HSET h1 f x");
    session.call("HPEXPIRE h1 10000 FIELDS 1 f");
    session.call("SET k1 x PX 10000");
    assert_eq!(session.call("SORT s LIMIT 0 1 GET h*->f GET k*"), r#"["x" "x"]"#);
    session.advance(20_000);
    assert_eq!(session.call("SORT s STORE d"), ":2");
    assert_eq!(session.journal(), ["SREM s 2", "SORT s STORE d"]);
    assert_eq!(session.call("SORT s GET # GET h*->f GET k*"), r#"["1" nil nil "3" nil nil]"#);
    assert_eq!(session.call("SORT s LIMIT 1 5"), r#"["3"]"#);
    // A server that runs it again finds what is over: the journal tells what came of it.
    assert_eq!(session.call("SORT s GET # GET h*->f GET k* STORE d"), ":6");
    assert_eq!(session.journal(), ["DEL d", r#"RPUSH d 1 "" "" 3 "" """#]);
    assert_eq!(session.call("SORT none BY h*->f STORE d"), ":0");
    assert_eq!(session.journal(), ["DEL d"]);
    assert_eq!(session.call("SORT none BY h*->f STORE d"), ":0");
    assert!(session.journal().is_empty(), "nothing changed");
}

#[test]
fn words_that_are_wrong_are_refused() {
    check(
        r#"
        SET text x
        SORT text
        SORT text NOSUCH
        SORT none LIMIT 0
        SORT none LIMIT a 1
        SORT none LIMIT 0 b
        SORT none BY
        SORT none GET
        SORT none STORE
        SORT none ASC x
        HSET h f v
        SORT_RO h
        SORT
        "#,
        "
        +OK
        -WRONGTYPE Operation against a key holding the wrong kind of value
        -ERR syntax error
        -ERR syntax error
        -ERR value is not an integer or out of range
        -ERR value is not an integer or out of range
        -ERR syntax error
        -ERR syntax error
        -ERR syntax error
        -ERR syntax error
        :1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        -ERR wrong number of arguments for 'sort' command
        ",
    );
}

#[test]
fn ties_are_broken_the_same_way_everywhere() {
    check(
        "
        RPUSH l b a d c
        MSET w_a 1 w_b 1 w_c 1 w_d 0
        SORT l BY w_*
        SORT l BY w_* DESC
        SORT l BY w_* ALPHA
        SORT l BY w_* ALPHA DESC
        SADD s b a d c
        SORT s BY w_* ALPHA
        SORT s BY none_* ALPHA DESC
        ",
        r#"
        :4
        +OK
        ["d" "a" "b" "c"]
        ["c" "b" "a" "d"]
        ["d" "b" "a" "c"]
        ["b" "a" "c" "d"]
        :4
        ["d" "b" "a" "c"]
        ["b" "a" "d" "c"]
        "#,
    );
}

#[test]
fn nulls_are_those_of_the_protocol() {
    let mut session = Session::new().resp3();
    session.call("RPUSH l 1");
    assert_eq!(session.call("SORT l GET x_* GET #"), r#"[nil "1"]"#);
}

#[test]
fn much_work_goes_elsewhere() {
    let mut session = Session::new();
    let members: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
    let words = ["SADD", "s"].into_iter().chain(members.iter().map(String::as_str));
    session.call_words(&words.map(str::as_bytes).collect::<Vec<_>>());
    session.call("SORT s LIMIT 0 3");
    assert!(session.ran_heavy());
    session.call("SORT s BY nosort LIMIT 0 3");
    assert!(!session.ran_heavy());
    assert_eq!(session.call("SORT s BY none_* DESC LIMIT 9998 5"), r#"["1" "0"]"#);
}
