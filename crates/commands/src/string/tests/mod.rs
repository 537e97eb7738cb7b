//! Sessions of the string family. Replies, events and journal were compared with Redis 8.2 (and
//! Valkey 9.1 for DELIFEQ) where those have the command; the tests of the others name their page.

mod compare;
mod increx;
mod part;

use std::sync::atomic::Ordering;

use crate::testing::{START, Session, check};

/// Runs a line; its journal and its events, in one text.
fn effects(session: &mut Session, line: &str) -> String {
    session.call(line);
    format!("{} / {}", session.journal().join("; "), session.events().join(", "))
}

#[track_caller]
fn check_effects(session: &mut Session, table: &[(&str, &str)]) {
    for (line, expected) in table {
        assert_eq!(effects(session, line), *expected, "{line}");
    }
}

#[test]
fn get_and_set() {
    check(
        "GET a
         SET a hello
         get a
         SETNX a other
         SETNX b other
         STRLEN a
         STRLEN none
         GETSET a new
         GETSET c new
         GETDEL a
         GETDEL a
         SET a ''
         GET a",
        r#"nil
           +OK
           "hello"
           :0
           :1
           :5
           :0
           "hello"
           nil
           "new"
           nil
           +OK
           """#,
    );
}

#[test]
fn set_options() {
    check(
        "SET a 1 XX
         SET a 1 NX
         SET a 2 nx
         SET a 2 XX
         SET a 3 GET
         SET a 4 NX GET
         SET b 4 NX GET
         SET c 4 XX GET
         EXISTS c
         SET a 5 EX 10
         PTTL a
         SET a 6 KEEPTTL
         PTTL a
         SET a 7
         PTTL a
         SET a 7 EX 10 EX 20
         TTL a
         SET a 8 PXAT 9223372036854775807
         SET a 9 KEEPTTL KEEPTTL XX XX GET GET
         SET a 1 EXAT 1
         GET a",
        r#"nil
           +OK
           nil
           +OK
           "2"
           "3"
           nil
           nil
           :0
           +OK
           :10000
           +OK
           :10000
           +OK
           :-1
           +OK
           :20
           +OK
           "8"
           +OK
           nil"#,
    );
}

#[test]
fn set_refuses() {
    let invalid = "-ERR invalid expire time in 'set' command";
    let table = [
        ("SET a 1 NX XX", "-ERR syntax error"),
        ("SET a 1 EX 10 PX 10", "-ERR syntax error"),
        ("SET a 1 EX 10 KEEPTTL", "-ERR syntax error"),
        ("SET a 1 PERSIST", "-ERR syntax error"),
        ("SET a 1 NX IFEQ 1", "-ERR syntax error"),
        ("SET a 1 IFEQ 1 IFEQ 1", "-ERR syntax error"),
        ("SET a 1 EX x FOO", "-ERR syntax error"),
        ("SET a 1 EX x", "-ERR value is not an integer or out of range"),
        ("SET a 1 EX 0", invalid),
        ("SET a 1 PXAT -1", invalid),
        ("SET a 1 EX 9223372036854775807", invalid),
        ("SET a 1 EX 9223372036854775", invalid),
        ("SET a 1 PX 9223372036854775807", invalid),
        ("SETEX a 0 v", "-ERR invalid expire time in 'setex' command"),
        ("PSETEX a -1 v", "-ERR invalid expire time in 'psetex' command"),
        ("SETEX a x v", "-ERR value is not an integer or out of range"),
        ("GET a", "nil"),
    ];
    let mut session = Session::new();
    for (line, reply) in table {
        assert_eq!(session.call(line), reply, "{line}");
    }
}

/// Rows H36 and H41 of the reliability list: an option that lacks its value.
#[test]
fn an_option_word_may_not_come_last() {
    let mut session = Session::new();
    for word in ["EX", "PX", "EXAT", "PXAT", "IFEQ", "IFNE", "IFDEQ", "IFDNE"] {
        assert_eq!(session.call(&format!("SET a 1 {word}")), "-ERR syntax error", "{word}");
    }
    for word in ["EX", "PX", "EXAT", "PXAT"] {
        for command in ["GETEX a", "MSETEX 1 a 1", "INCREX a", "CAS a 1 2"] {
            let line = format!("{command} {word}");
            assert_eq!(session.call(&line), "-ERR syntax error", "{line}");
        }
    }
    for word in ["BYINT", "BYFLOAT", "LBOUND", "UBOUND"] {
        assert_eq!(session.call(&format!("INCREX a {word}")), "-ERR syntax error", "{word}");
    }
    assert_eq!(session.call("LCS a b MINMATCHLEN"), "-ERR syntax error");
    let arity = "-ERR wrong number of arguments for 'delex' command";
    assert_eq!(session.call("DELEX a IFEQ"), arity);
    assert_eq!(session.call("EXISTS a"), ":0");
}

#[test]
fn getex() {
    check(
        "SET a v
         GETEX a
         GETEX a EX 100
         TTL a
         GETEX a PERSIST
         TTL a
         GETEX a PX 1 PX 2000
         PTTL a
         GETEX a EX 10 PERSIST
         GETEX a KEEPTTL
         GETEX a EX 0
         GETEX a EX 9223372036854775
         GETEX none EX 0
         GETEX none FOO
         GETEX a PXAT 1
         EXISTS a",
        r#"+OK
           "v"
           "v"
           :100
           "v"
           :-1
           "v"
           :2000
           -ERR syntax error
           -ERR syntax error
           -ERR invalid expire time in 'getex' command
           -ERR invalid expire time in 'getex' command
           nil
           -ERR syntax error
           "v"
           :0"#,
    );
}

#[test]
fn effects_of_setting() {
    let now = START;
    let mut session = Session::new();
    let at = now + 100_000;
    check_effects(
        &mut session,
        &[
            ("SET a 1", "SET a 1 / new a, set a"),
            ("SET a 2", "SET a 2 / overwritten a, set a"),
            ("SET a 3 NX", " / "),
            ("SET a 3 XX GET", "SET a 3 / overwritten a, set a"),
            ("SET a 4 EX 100", &format!("SET a 4 PXAT {at} / overwritten a, set a, expire a")),
            ("SET a 4 KEEPTTL", "SET a 4 KEEPTTL / overwritten a, set a"),
            ("SETEX a 100 5", &format!("SET a 5 PXAT {at} / overwritten a, set a, expire a")),
            ("PSETEX b 100000 5", &format!("SET b 5 PXAT {at} / new b, set b, expire b")),
            ("SETNX b 6", " / "),
            ("SETNX c 6", "SETNX c 6 / new c, set c"),
            ("GETSET c 7", "SET c 7 / overwritten c, set c"),
            ("GETSET d 7", "SET d 7 / keymiss d, new d, set d"),
            ("GETEX a", " / "),
            ("GETEX a PERSIST", "PERSIST a / persist a"),
            ("GETEX a PERSIST", " / "),
            ("GETEX a EX 100", &format!("PEXPIREAT a {at} / expire a")),
            ("GETEX a EXAT 1", "DEL a / del a"),
            ("GETDEL b", "DEL b / del b"),
            ("GETDEL b", " / keymiss b"),
            (
                "MSET c 1 c 2 e 3",
                "MSET c 1 c 2 e 3 / overwritten c, set c, overwritten c, set c, new e, set e",
            ),
        ],
    );
}

#[test]
fn an_expired_key_is_gone_first() {
    let mut session = Session::new();
    session.call("SET a 1 PX 10");
    session.advance(10);
    assert_eq!(
        effects(&mut session, "GETSET a 2"),
        "DEL a; SET a 2 / expired a, keymiss a, new a, set a"
    );
    session.call("SET a 1 PX 10");
    session.advance(10);
    assert_eq!(effects(&mut session, "INCR a"), "DEL a; INCR a / expired a, new a, incrby a");
    session.call("SET a 1 PX 10");
    session.advance(10);
    assert_eq!(session.call("SET a 2 KEEPTTL"), "+OK");
    assert_eq!(session.call("TTL a"), ":-1");
}

#[test]
fn counters() {
    check(
        "INCR n
         INCRBY n 41
         DECR n
         DECRBY n 2
         OBJECT ENCODING n
         DECRBY n -9223372036854775808
         INCRBY n 9223372036854775807
         INCRBY n x
         SET n 9223372036854775807
         INCR n
         SET n -9223372036854775808
         DECR n
         SET n '1 '
         INCR n
         SET n 10 EX 100
         INCR n
         TTL n",
        r#":1
           :42
           :41
           :39
           "int"
           -ERR decrement would overflow
           -ERR increment or decrement would overflow
           -ERR value is not an integer or out of range
           +OK
           -ERR increment or decrement would overflow
           +OK
           -ERR increment or decrement would overflow
           +OK
           -ERR value is not an integer or out of range
           +OK
           :11
           :100"#,
    );
}

#[test]
fn float_counters() {
    check(
        "SET n 3.0e3
         INCRBYFLOAT n 200
         INCRBYFLOAT n 0.1
         INCRBYFLOAT n -3200.1
         INCRBYFLOAT n 0x10
         INCRBYFLOAT n inf
         INCRBYFLOAT n nan
         INCRBYFLOAT n x
         SET n 1e4932
         INCRBYFLOAT n 1e4932
         SET n abc
         INCRBYFLOAT n 1
         INCRBYFLOAT m 1.5
         INCRBYFLOAT m 0.5
         OBJECT ENCODING m",
        r#"+OK
           "3200"
           "3200.10000000000000009"
           "0"
           "16"
           -ERR increment would produce NaN or Infinity
           -ERR value is not a valid float
           -ERR value is not a valid float
           +OK
           -ERR increment would produce NaN or Infinity
           +OK
           -ERR value is not a valid float
           "1.5"
           "2"
           "embstr""#,
    );
}

#[test]
fn effects_of_counting() {
    check_effects(
        &mut Session::new(),
        &[
            ("INCR n", "INCR n / new n, incrby n"),
            ("DECRBY n 5", "DECRBY n 5 / incrby n"),
            ("INCRBYFLOAT n 0.5", "SET n -3.5 KEEPTTL / incrbyfloat n"),
            ("INCRBYFLOAT m 1", "SET m 1 KEEPTTL / new m, incrbyfloat m"),
            ("APPEND m 5", "APPEND m 5 / append m"),
            ("APPEND s ''", "APPEND s \"\" / new s, append s"),
            ("SETRANGE s 1 x", "SETRANGE s 1 x / setrange s"),
            ("SETRANGE s 1 ''", " / "),
            ("PREPEND s y", r#"SET s "y\x00x" KEEPTTL / prepend s"#),
        ],
    );
}

/// Row H26: a key named twice.
#[test]
fn many_keys() {
    check(
        "MSET a 1 b 2
         MGET a none b a
         MSET a 1 a 2
         GET a
         MSETNX c 1 a 2
         EXISTS c
         MSETNX p 1 p 2
         GET p
         MSET a
         MSET a 1 b
         MSETNX a 1 b
         SET a 1 EX 100
         MSET a 1
         TTL a",
        r#"+OK
           ["1" nil "2" "1"]
           +OK
           "2"
           :0
           :0
           :1
           "2"
           -ERR wrong number of arguments for 'mset' command
           -ERR wrong number of arguments for 'mset' command
           -ERR wrong number of arguments for 'msetnx' command
           +OK
           +OK
           :-1"#,
    );
}

/// The page redis.io/commands/msetex; texts of errors as in client libraries' tests.
#[test]
fn msetex() {
    let mut session = Session::new();
    session.check(
        "MSETEX 2 a 1 b 2
         MSETEX 2 a 1 c 2 NX
         MSETEX 2 a 1 c 2 XX
         EXISTS c
         MSETEX 2 a 3 b 4 XX EX 100
         TTL b
         MSETEX 2 a 5 b 6 KEEPTTL
         TTL b
         MSETEX 2 a 5 b 6 PX 1 PX 5000
         MGET a b
         MSETEX 2 d 1 d 2 NX
         GET d
         MSETEX 0 a 1
         MSETEX -1 a 1
         MSETEX x a 1
         MSETEX 2147483648 a 1
         MSETEX 2147483647 a 1
         MSETEX 2 a 1 b
         MSETEX 1 a 1 b 2
         MSETEX 1 a 1 NX XX
         MSETEX 1 a 1 EX 0
         MSETEX 1 a 1 EX 1 KEEPTTL
         MSETEX 1 a 1 GET
         MSETEX 1 a 1 IFEQ 5
         MSETEX 1 a",
        r#":1
           :0
           :0
           :0
           :1
           :100
           :1
           :100
           :1
           ["5" "6"]
           :1
           "2"
           -ERR invalid numkeys value
           -ERR invalid numkeys value
           -ERR invalid numkeys value
           -ERR invalid numkeys value
           -ERR wrong number of key-value pairs
           -ERR wrong number of key-value pairs
           -ERR syntax error
           -ERR syntax error
           -ERR invalid expire time in 'msetex' command
           -ERR syntax error
           -ERR syntax error
           -ERR syntax error
           -ERR wrong number of arguments for 'msetex' command"#,
    );
    let at = START + 9000;
    assert_eq!(
        effects(&mut session, "MSETEX 2 a 1 z 2 PX 9000"),
        format!(
            "SET a 1 PXAT {at}; SET z 2 PXAT {at} / \
             overwritten a, set a, expire a, new z, set z, expire z"
        )
    );
}

/// memcached's `protocol.txt`, "Expiration times".
#[test]
fn get_and_touch() {
    let mut session = Session::new();
    session.check(
        "MSET a 1 b 2
         GAT 100 a none b
         TTL b
         GAT 1700000500 a
         TTL a
         GAT 0 a
         TTL a
         GAT x a
         GAT 9223372036854775807 a
         GAT -1 a b
         MGET a b",
        r#"+OK
           ["1" nil "2"]
           :100
           ["1"]
           :500
           ["1"]
           :-1
           -ERR value is not an integer or out of range
           -ERR invalid expire time in 'gat' command
           ["1" "2"]
           [nil nil]"#,
    );
    let at = START + 100_000;
    session.call("MSET a 1 b 2");
    assert_eq!(
        effects(&mut session, "GAT 100 a b"),
        format!("PEXPIREAT a {at}; PEXPIREAT b {at} / expire a, expire b")
    );
}

#[test]
fn resp3() {
    Session::new().resp3().check(
        "GET none
         SET a 1 XX
         MGET none
         INCREX f BYFLOAT 1.5
         INCREX n
         INCRBYFLOAT f 1
         LCS a f IDX
         DIGEST none",
        r#"nil
           nil
           [nil]
           [,1.5 ,1.5]
           [:1 :1]
           "2.5"
           {"matches": [], "len": :0}
           nil"#,
    );
}

/// Rows H43 and H46 in general: whatever comes in, there is one reply and no panic.
#[test]
fn any_arguments_get_one_reply() {
    let words = [
        "k",
        "m",
        "",
        "0",
        "1",
        "-1",
        "2147483648",
        "536870912",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551616",
        "1.5",
        "inf",
        "nan",
        "NX",
        "XX",
        "GET",
        "KEEPTTL",
        "EX",
        "PX",
        "EXAT",
        "PXAT",
        "PERSIST",
        "IFEQ",
        "IFDNE",
        "LEN",
        "IDX",
        "MINMATCHLEN",
        "BYINT",
        "BYFLOAT",
        "LBOUND",
        "UBOUND",
        "SATURATE",
        "ENX",
    ];
    let mut session = Session::new();
    session.keyspace().settings().max_string.store(1 << 20, Ordering::Relaxed);
    let mut random = base::random::Random::from_seed(1);
    let mut below = |end: usize| random.below(end as u64) as usize;
    for _ in 0..30_000 {
        let command = super::COMMANDS[below(super::COMMANDS.len())];
        let mut request = vec![command.spec.name.as_bytes()];
        for _ in 0..below(8) {
            request.push(words[below(words.len())].as_bytes());
        }
        session.value_of(&request);
    }
}
