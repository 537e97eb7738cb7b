//! Strings, every option word of every command, in both protocols, proven on the real servers.
//! What none of them knows is in strings_newer.rs.

use tests::script::afresh;
use tests::{Oracle, Server};

/// Known to every real server.
const COMMON: &str = r#"
    # SET and its options
    > SET k v
    OK
    > SET k v2 NX
    (nil)
    > SET k v2 XX
    OK
    > SET new x XX
    (nil)
    > SET new x NX
    OK
    > SET k v3 GET
    "v2"
    > SET none v GET
    (nil)
    > SET k v4 NX GET
    "v3"
    > SET k v5 XX GET
    "v3"
    > SET absent v XX GET
    (nil)
    > SET k v EX 100
    OK
    > TTL k
    (integer) 100
    > SET k v2 KEEPTTL
    OK
    > TTL k
    (integer) 100
    > SET k v PX 100000
    OK
    > TTL k
    (integer) 100
    > SET k v EXAT 4102444800
    OK
    > EXPIRETIME k
    (integer) 4102444800
    > SET k v PXAT 4102444800123
    OK
    > PEXPIRETIME k
    (integer) 4102444800123
    > SET k v EXAT 1
    OK
    > EXISTS k
    (integer) 0
    > SET k v nx ex 100 get
    (nil)
    > SET k v EX 0
    (error) ERR invalid expire time in 'set' command
    > SET k v EX -1
    (error) ERR invalid expire time in 'set' command
    > SET k v EX x
    (error) ERR value is not an integer or out of range
    > SET k v EX 9223372036854775807
    (error) ERR invalid expire time in 'set' command
    > SET k v PX 9223372036854775807
    (error) ERR invalid expire time in 'set' command
    > SET k v EX 1 PX 1
    (error) ERR syntax error
    > SET k v EX 1 KEEPTTL
    (error) ERR syntax error
    > SET k v NX XX
    (error) ERR syntax error
    > SET k v EX
    (error) ERR syntax error
    > SET k v FOO
    (error) ERR syntax error
    > SET k
    (error) ERR wrong number of arguments for 'set' command
    > SETNX k v
    (integer) 0
    > SETNX fresh v
    (integer) 1
    > SETEX k 100 v
    OK
    > TTL k
    (integer) 100
    > SETEX k 0 v
    (error) ERR invalid expire time in 'setex' command
    > SETEX k x v
    (error) ERR value is not an integer or out of range
    > PSETEX k 100000 v
    OK
    > TTL k
    (integer) 100
    > PSETEX k -1 v
    (error) ERR invalid expire time in 'psetex' command
    # reading
    > GET k
    "v"
    > GET absent2
    (nil)
    > GET k extra
    (error) ERR wrong number of arguments for 'get' command
    > STRLEN k
    (integer) 1
    > STRLEN absent2
    (integer) 0
    > GETDEL k
    "v"
    > GETDEL k
    (nil)
    > SET g v
    OK
    > GETEX g
    "v"
    > GETEX g EX 100
    "v"
    > TTL g
    (integer) 100
    > GETEX g PX 200000
    "v"
    > TTL g
    (integer) 200
    > GETEX g EXAT 4102444800
    "v"
    > EXPIRETIME g
    (integer) 4102444800
    > GETEX g PXAT 4102444800123
    "v"
    > PEXPIRETIME g
    (integer) 4102444800123
    > GETEX g PERSIST
    "v"
    > TTL g
    (integer) -1
    > GETEX g EX 10 PERSIST
    (error) ERR syntax error
    > GETEX g EX 0
    (error) ERR invalid expire time in 'getex' command
    > GETEX g EX
    (error) ERR syntax error
    > GETEX g FOO
    (error) ERR syntax error
    > GETEX absent2 EX 10
    (nil)
    > GETSET g w
    "v"
    > GETSET absent3 v
    (nil)
    # counters
    > INCR n
    (integer) 1
    > INCRBY n 41
    (integer) 42
    > DECR n
    (integer) 41
    > DECRBY n 40
    (integer) 1
    > DECRBY n -9223372036854775808
    (error) ERR decrement would overflow
    > INCRBY n 9223372036854775807
    (error) ERR increment or decrement would overflow
    > INCRBY n x
    (error) ERR value is not an integer or out of range
    > SET n 9223372036854775807
    OK
    > INCR n
    (error) ERR increment or decrement would overflow
    > SET n "10 "
    OK
    > INCR n
    (error) ERR value is not an integer or out of range
    > SET n 010
    OK
    > INCR n
    (error) ERR value is not an integer or out of range
    > INCRBYFLOAT f 10.5
    "10.5"
    > INCRBYFLOAT f -5
    "5.5"
    > INCRBYFLOAT f 5.0e3
    "5005.5"
    > INCRBYFLOAT f 0.1
    "5005.60000000000000009"
    > INCRBYFLOAT f x
    (error) ERR value is not a valid float
    > INCRBYFLOAT f nan
    (error) ERR value is not a valid float
    > INCRBYFLOAT f inf
    (error) ERR increment would produce NaN or Infinity
    > SET f 3.0e3
    OK
    > INCRBYFLOAT f 200
    "3200"
    > SET f x
    OK
    > INCRBYFLOAT f 1
    (error) ERR value is not a valid float
    # parts
    > APPEND p Hello
    (integer) 5
    > APPEND p " World"
    (integer) 11
    > GETRANGE p 0 4
    "Hello"
    > GETRANGE p -5 -1
    "World"
    > GETRANGE p 5 1
    ""
    > GETRANGE p -1 -5
    ""
    > GETRANGE p 0 -1
    "Hello World"
    > GETRANGE p -100 100
    "Hello World"
    > GETRANGE p x 1
    (error) ERR value is not an integer or out of range
    > GETRANGE absent4 0 -1
    ""
    > SUBSTR p 0 4
    "Hello"
    > SETRANGE p 6 Redis
    (integer) 11
    > GET p
    "Hello Redis"
    > SETRANGE absent4 3 x
    (integer) 4
    > GET absent4
    "\x00\x00\x00x"
    > SETRANGE absent5 3 ""
    (integer) 0
    > EXISTS absent5
    (integer) 0
    > SETRANGE p -1 x
    (error) ERR offset is out of range
    > SETRANGE p 536870912 x
    (error) ERR string exceeds maximum allowed size (proto-max-bulk-len)
    > SETRANGE p 9223372036854775807 x
    (error) ERR string exceeds maximum allowed size (proto-max-bulk-len)
    > SETRANGE p x x
    (error) ERR value is not an integer or out of range
    # many
    > MSET a 1 b 2 a 3
    OK
    > MGET a b absent6
    1) "3"
    2) "2"
    3) (nil)
    > MGET absent6
    1) (nil)
    > MSET a
    (error) ERR wrong number of arguments for 'mset' command
    > MSET a 1 b
    (error) ERR wrong number of arguments for 'mset' command
    > MSETNX a 1 z 2
    (integer) 0
    > EXISTS z
    (integer) 0
    > MSETNX y 1 z 2
    (integer) 1
    > MSETNX d 1 d 2
    (integer) 1
    > GET d
    "2"
    > MSETNX q
    (error) ERR wrong number of arguments for 'msetnx' command
    # LCS
    > MSET s1 ohmytext s2 mynewtext
    OK
    > LCS s1 s2
    "mytext"
    > LCS s1 s2 LEN
    (integer) 6
    > LCS s1 absent6
    ""
    > LCS s1 absent6 LEN
    (integer) 0
    > LCS s1 s2 LEN IDX
    (error) ERR If you want both the length and indexes, please just use IDX.
    > LCS s1 s2 MINMATCHLEN x
    (error) ERR value is not an integer or out of range
    > LCS s1 s2 MINMATCHLEN
    (error) ERR syntax error
    > LCS s1 s2 FOO
    (error) ERR syntax error
    > LCS s1
    (error) ERR wrong number of arguments for 'lcs' command
"#;

/// LCS with IDX, a map.
const INDEXES: &str = r#"
    > MSET s1 ohmytext s2 mynewtext
    OK
    > LCS s1 s2 IDX
    1) "matches"
    2) 1) 1) 1) (integer) 4
             2) (integer) 7
          2) 1) (integer) 5
             2) (integer) 8
       2) 1) 1) (integer) 2
             2) (integer) 3
          2) 1) (integer) 0
             2) (integer) 1
    3) "len"
    4) (integer) 6
    > LCS s1 s2 IDX MINMATCHLEN 4
    1) "matches"
    2) 1) 1) 1) (integer) 4
             2) (integer) 7
          2) 1) (integer) 5
             2) (integer) 8
    3) "len"
    4) (integer) 6
    > LCS s1 s2 IDX WITHMATCHLEN
    1) "matches"
    2) 1) 1) 1) (integer) 4
             2) (integer) 7
          2) 1) (integer) 5
             2) (integer) 8
          3) (integer) 4
       2) 1) 1) (integer) 2
             2) (integer) 3
          2) 1) (integer) 0
             2) (integer) 1
          3) (integer) 2
    3) "len"
    4) (integer) 6
    > LCS s1 s2 IDX MINMATCHLEN 4 WITHMATCHLEN
    1) "matches"
    2) 1) 1) 1) (integer) 4
             2) (integer) 7
          2) 1) (integer) 5
             2) (integer) 8
          3) (integer) 4
    3) "len"
    4) (integer) 6
    > LCS s1 none IDX
    1) "matches"
    2) (empty array)
    3) "len"
    4) (integer) 0
    > LCS s1 s2 WITHMATCHLEN
    "mytext"
"#;

/// The same in RESP3.
const INDEXES3: &str = r#"
    > MSET s1 ohmytext s2 mynewtext
    OK
    > LCS s1 s2 IDX
    1# "matches" =>
       1) 1) 1) (integer) 4
             2) (integer) 7
          2) 1) (integer) 5
             2) (integer) 8
       2) 1) 1) (integer) 2
             2) (integer) 3
          2) 1) (integer) 0
             2) (integer) 1
    2# "len" => (integer) 6
    > LCS s1 s2 IDX MINMATCHLEN 4
    1# "matches" =>
       1) 1) 1) (integer) 4
             2) (integer) 7
          2) 1) (integer) 5
             2) (integer) 8
    2# "len" => (integer) 6
    > LCS s1 s2 IDX WITHMATCHLEN
    1# "matches" =>
       1) 1) 1) (integer) 4
             2) (integer) 7
          2) 1) (integer) 5
             2) (integer) 8
          3) (integer) 4
       2) 1) 1) (integer) 2
             2) (integer) 3
          2) 1) (integer) 0
             2) (integer) 1
          3) (integer) 2
    2# "len" => (integer) 6
    > LCS s1 s2 IDX MINMATCHLEN 4 WITHMATCHLEN
    1# "matches" =>
       1) 1) 1) (integer) 4
             2) (integer) 7
          2) 1) (integer) 5
             2) (integer) 8
          3) (integer) 4
    2# "len" => (integer) 6
    > LCS s1 none IDX
    1# "matches" => (empty array)
    2# "len" => (integer) 0
    > LCS s1 s2 WITHMATCHLEN
    "mytext"
"#;

/// What Valkey has besides.
const VALKEY: &str = r#"
    > SET k v
    OK
    > SET k w IFEQ x
    (nil)
    > SET k w IFEQ v
    OK
    > SET k x IFEQ w GET
    "w"
    > SET none v IFEQ v
    (nil)
    > SET k y IFEQ x EX 100
    OK
    > TTL k
    (integer) 100
    > SET k y IFEQ y NX
    (error) ERR syntax error
    > DELIFEQ k x
    (integer) 0
    > DELIFEQ k y
    (integer) 1
    > DELIFEQ k y
    (integer) 0
    > DELIFEQ k
    (error) ERR wrong number of arguments for 'delifeq' command
"#;

/// Floats are strings in RESP2.
const FLOATS: &str = r#"
    # redis.io/docs/latest/commands/increx
    > INCREX fl BYFLOAT 0.5
    1) "0.5"
    2) "0.5"
    > INCREX fl BYFLOAT 2.5 UBOUND 1.5
    1) "0.5"
    2) "0"
    > INCREX fl BYFLOAT 2.5 UBOUND 1.5 SATURATE
    1) "1.5"
    2) "1"
    > INCREX fl BYFLOAT -2.5 LBOUND 0.25 SATURATE EX 100
    1) "0.25"
    2) "-1.25"
"#;

/// Floats are doubles in RESP3.
const FLOATS3: &str = r#"
    # redis.io/docs/latest/commands/increx
    > INCREX fl BYFLOAT 0.5
    1) (double) 0.5
    2) (double) 0.5
    > INCREX fl BYFLOAT 2.5 UBOUND 1.5
    1) (double) 0.5
    2) (double) 0
    > INCREX fl BYFLOAT 2.5 UBOUND 1.5 SATURATE
    1) (double) 1.5
    2) (double) 1
    > INCREX fl BYFLOAT -2.5 LBOUND 0.25 SATURATE EX 100
    1) (double) 0.25
    2) (double) -1.25
"#;

#[test]
fn strings_answer_as_written() {
    let server = Server::start(&[]);
    for script in [COMMON, INDEXES, VALKEY, FLOATS] {
        afresh(&server, "2", script);
    }
    for script in [COMMON, INDEXES3, VALKEY, FLOATS3] {
        afresh(&server, "3", script);
    }
}

#[test]
fn the_real_servers_write_the_same() {
    for oracle in Oracle::ALL {
        let server = oracle.start(&[]);
        for (protocol, indexes) in [("2", INDEXES), ("3", INDEXES3)] {
            afresh(&server, protocol, COMMON);
            afresh(&server, protocol, indexes);
        }
    }
}

#[test]
fn valkey_writes_the_same() {
    let server = Oracle::valkey91();
    for protocol in ["2", "3"] {
        afresh(&server, protocol, VALKEY);
    }
}
