//! Sessions of INCREX, by the text of its page at redis.io.

use super::check_effects;
use crate::testing::{START, Session, check};

/// The page redis.io/commands/increx (8.8), example by example and rule by rule.
#[test]
fn increx() {
    check(
        "INCREX k
         INCREX k
         SET k 100
         INCREX k BYINT 5
         INCREX k BYINT -10
         SET k 1.5
         INCREX k BYFLOAT 0.25
         INCREX k
         SET k 99
         INCREX k BYINT 5 UBOUND 100
         INCREX k BYINT 5 UBOUND 100 SATURATE
         INCREX k BYINT -500 LBOUND 0
         INCREX k BYINT -500 LBOUND 0 SATURATE
         SET k 9223372036854775806
         INCREX k BYINT 5
         INCREX k BYINT 5 SATURATE
         INCREX k BYINT -5 UBOUND -9223372036854775808 SATURATE
         INCREX none BYINT 10 UBOUND 5
         EXISTS none
         INCREX none BYINT 10 UBOUND 5 SATURATE
         SET k 5
         INCREX k BYFLOAT 2.5 UBOUND 7.4
         INCREX k BYFLOAT 2.5 UBOUND 7.4 SATURATE
         GET k",
        r#"[:1 :1]
           [:2 :1]
           +OK
           [:105 :5]
           [:95 :-10]
           +OK
           ["1.75" "0.25"]
           -ERR value is not an integer or out of range
           +OK
           [:99 :0]
           [:100 :1]
           [:100 :0]
           [:0 :-100]
           +OK
           [:9223372036854775806 :0]
           [:9223372036854775807 :1]
           -ERR applied increment would overflow
           [:0 :0]
           :0
           [:5 :5]
           +OK
           ["5" "0"]
           ["7.4" "2.4"]
           "7.4""#,
    );
}

#[test]
fn increx_and_time() {
    check(
        "INCREX k EX 100
         INCREX k
         TTL k
         INCREX k EX 10 ENX
         TTL k
         INCREX k EX 10 UBOUND 1
         TTL k
         INCREX k PERSIST
         TTL k
         INCREX k PX 5000 ENX
         PTTL k
         INCREX k EXAT 100 ENX
         EXISTS k
         INCREX k EXAT 100
         EXISTS k",
        "[:1 :1]
         [:2 :1]
         :100
         [:3 :1]
         :100
         [:3 :0]
         :100
         [:4 :1]
         :-1
         [:5 :1]
         :5000
         [:6 :1]
         :1
         [:7 :1]
         :0",
    );
}

#[test]
fn increx_refuses() {
    let table = [
        ("BYINT 1 BYFLOAT 1", "syntax error"),
        ("BYINT 1 BYINT 1", "syntax error"),
        ("LBOUND 1 LBOUND 1", "syntax error"),
        ("SATURATE SATURATE", "syntax error"),
        ("EX 1 EX 1", "syntax error"),
        ("EX 1 PX 1", "syntax error"),
        ("PERSIST EX 1", "syntax error"),
        ("PERSIST PERSIST", "syntax error"),
        ("ENX PERSIST", "syntax error"),
        ("KEEPTTL", "syntax error"),
        ("ENX", "ENX flag requires an expiration"),
        ("BYINT 1.5", "Increment is not an integer or out of range"),
        ("BYFLOAT x", "Increment is not a valid float"),
        ("LBOUND 1.5", "LBOUND is not an integer or out of range"),
        ("BYFLOAT 1 UBOUND x", "UBOUND is not a valid float"),
        ("LBOUND 2 UBOUND 1", "LBOUND can't be greater than UBOUND"),
        ("BYFLOAT 1 LBOUND 2.5 UBOUND 1", "LBOUND can't be greater than UBOUND"),
        ("EX 0", "invalid expire time in 'increx' command"),
        ("BYFLOAT 1 LBOUND inf UBOUND inf SATURATE", "applied increment would be Infinity"),
        ("BYFLOAT 1 LBOUND -inf UBOUND -inf SATURATE", "applied increment would be Infinity"),
    ];
    let mut session = Session::new();
    for (options, text) in table {
        assert_eq!(session.call(&format!("INCREX k {options}")), format!("-ERR {text}"));
    }
    assert_eq!(session.call("INCREX k BYFLOAT 1 LBOUND inf UBOUND inf"), r#"["0" "0"]"#);
    assert_eq!(session.call("INCREX k BYFLOAT inf"), r#"["0" "0"]"#);
    assert_eq!(session.call("EXISTS k"), ":0");
}

#[test]
fn effects_of_increx() {
    let at = START + 10_000;
    check_effects(
        &mut Session::new(),
        &[
            ("INCREX k", "SET k 1 KEEPTTL / new k, incrby k"),
            ("INCREX k UBOUND 1 EX 10", " / "),
            ("INCREX k EX 10", &format!("SET k 2 PXAT {at} / incrby k, expire k")),
            ("INCREX k PERSIST", "SET k 3 / incrby k, persist k"),
            ("INCREX k BYFLOAT 0.5", "SET k 3.5 KEEPTTL / incrbyfloat k"),
            ("INCREX k BYFLOAT 0.5 EXAT 1", "DEL k / del k"),
            ("INCREX k BYFLOAT 0.5 EXAT 1", " / "),
        ],
    );
}
