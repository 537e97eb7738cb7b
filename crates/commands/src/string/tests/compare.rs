//! Sessions of what depends on the value there is: SET with IFEQ and its kin, DELEX, CAS and CAD.

use super::check_effects;
use crate::testing::{START, Session, check};

/// The pages redis.io/commands/set, /delex and /digest (8.4), and valkey.io/commands/delifeq.
#[test]
fn comparing() {
    check(
        r#"SET k "Hello world"
           DIGEST k
           DIGEST none
           SET k hello
           DIGEST k
           SET n 123
           DIGEST n
           SET k v2 IFEQ v1
           SET k v2 IFEQ hello
           SET k v3 IFNE v2
           SET k v3 IFNE v1
           SET none v IFEQ v
           SET none v IFDEQ 0000000000000000
           EXISTS none
           SET new v IFNE x
           SET new w IFDNE 0000000000000000 GET
           SET k hello
           SET k world IFDEQ 9555E8555C62DCFD GET
           SET k hello IFDNE 9555e8555c62dcfd
           SET k world IFDNE 9555e8555c62dcfd
           SET k v IFDEQ 12"#,
        r#"+OK
           "b6acb9d84a38ff74"
           nil
           +OK
           "9555e8555c62dcfd"
           +OK
           "404a763b3f4c8c9a"
           nil
           +OK
           nil
           +OK
           nil
           nil
           :0
           +OK
           "v"
           +OK
           "hello"
           +OK
           nil
           -ERR The digest must be exactly 16 hexadecimal characters"#,
    );
}

/// The page redis.io/commands/delex; errors as in client libraries' tests.
#[test]
fn deleting_what_compares() {
    check(
        "DELEX none
         DELEX none FOO x
         SET k hello
         DELEX k IFEQ other
         DELEX k IFNE hello
         DELEX k IFDEQ 0000000000000000
         DELEX k IFDNE 9555e8555c62dcfd
         DELEX k IFDEQ 955
         DELEX k FOO hello
         DELEX k IFEQ hello extra
         DELEX k IFDEQ 9555E8555C62DCFD
         SET k 0123
         DELEX k IFEQ 123
         DELEX k ifne 123
         SET k 1
         DELEX k
         DELIFEQ k 1
         SET k 1
         DELIFEQ k 2
         DELIFEQ k 1
         EXISTS k",
        ":0
         :0
         +OK
         :0
         :0
         :0
         :0
         -ERR The digest must be exactly 16 hexadecimal characters
         -ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE
         -ERR wrong number of arguments for 'delex' command
         :1
         +OK
         :0
         :1
         +OK
         :1
         :0
         +OK
         :0
         :1
         :0",
    );
}

/// Tair's page on CAS and CAD, Kvrocks' list of commands.
#[test]
fn compare_and_set() {
    check(
        "CAS k 1 2
         CAD k 1
         SET k 1 EX 100
         CAS k 2 3
         CAS k 1 2
         TTL k
         CAS k 2 3 EX 10
         TTL k
         CAS k 3 4 EX 0
         CAS k 3 4 NX
         CAD k 1
         CAD k 3
         EXISTS k",
        ":-1
         :-1
         +OK
         :0
         :1
         :-1
         :1
         :10
         -ERR invalid expire time in 'cas' command
         -ERR syntax error
         :0
         :1
         :0",
    );
}

#[test]
fn effects_of_comparing() {
    let at = START + 10_000;
    check_effects(
        &mut Session::new(),
        &[
            ("SET k 1 IFNE 1", "SET k 1 / new k, set k"),
            ("SET k 2 IFEQ 1", "SET k 2 / overwritten k, set k"),
            ("SET k 2 IFEQ 1", " / "),
            ("CAS k 2 3 EX 10", &format!("SET k 3 PXAT {at} / overwritten k, set k, expire k")),
            ("CAS k 3 1", "SET k 1 / overwritten k, set k"),
            ("DELEX k IFEQ 2", " / "),
            ("DELEX k IFEQ 1", "DEL k / del k"),
            ("SET k 1", "SET k 1 / new k, set k"),
            ("DELIFEQ k 1", "DEL k / del k"),
            ("SET k 1", "SET k 1 / new k, set k"),
            ("CAD k 1", "DEL k / del k"),
        ],
    );
}
