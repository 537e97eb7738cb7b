//! Strings, every option word of every command, in both protocols. The scripts are proven on the
//! real servers that know the commands; for the others the page that says so is named.

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

/// Redis 8.4 to 8.8: the pages named are the authority, no real server at hand has it.
const NEWER: &str = r#"
    # redis.io/docs/latest/commands/set
    > SET k v
    OK
    > SET k w IFEQ x
    (nil)
    > SET k w IFEQ v
    OK
    > SET k x IFNE w
    (nil)
    > SET k x IFNE v
    OK
    > SET none v IFEQ v
    (nil)
    > SET none2 v IFNE v
    OK
    > SET k y IFEQ x GET
    "x"
    > SET k z IFEQ x GET
    "y"
    > SET k hello
    OK
    > DIGEST k
    "9555e8555c62dcfd"
    > SET k w IFDEQ 9555e8555c62dcfc
    (nil)
    > SET k w IFDNE 9555e8555c62dcfd
    (nil)
    > SET k w IFDEQ 9555e8555c62dcfd EX 100
    OK
    > TTL k
    (integer) 100
    > SET none3 v IFDEQ 9555e8555c62dcfd
    (nil)
    > SET none3 v IFDNE 9555e8555c62dcfd
    OK
    > SET k v IFDEQ 95
    (error) ERR The digest must be exactly 16 hexadecimal characters
    > SET k v IFEQ v NX
    (error) ERR syntax error
    > SET k v IFEQ
    (error) ERR syntax error
    # redis.io/docs/latest/commands/digest
    > SET d "Hello world"
    OK
    > DIGEST d
    "b6acb9d84a38ff74"
    > DIGEST none4
    (nil)
    > DIGEST d d
    (error) ERR wrong number of arguments for 'digest' command
    # redis.io/docs/latest/commands/delex
    > SET k v
    OK
    > DELEX k IFEQ w
    (integer) 0
    > DELEX k IFNE v
    (integer) 0
    > DELEX k IFEQ v
    (integer) 1
    > DELEX k IFEQ v
    (integer) 0
    > SET k v
    OK
    > DELEX k IFNE w
    (integer) 1
    > SET k hello
    OK
    > DELEX k IFDEQ 0000000000000000
    (integer) 0
    > DELEX k IFDNE 9555e8555c62dcfd
    (integer) 0
    > DELEX k IFDEQ 9555E8555C62DCFD
    (integer) 1
    > SET k hello
    OK
    > DELEX k IFDNE 0000000000000000
    (integer) 1
    > SET k v
    OK
    > DELEX k
    (integer) 1
    > DELEX k
    (integer) 0
    > DELEX k FOO v
    (integer) 0
    > DELEX k IFEQ v x
    (error) ERR wrong number of arguments for 'delex' command
    # redis.io/docs/latest/commands/msetex
    > MSETEX 2 a 1 b 2
    (integer) 1
    > MGET a b
    1) "1"
    2) "2"
    > TTL a
    (integer) -1
    > MSETEX 2 a 3 c 4 NX
    (integer) 0
    > MSETEX 2 c 3 e 4 NX
    (integer) 1
    > MSETEX 2 a 5 none5 4 XX
    (integer) 0
    > MSETEX 2 a 5 b 6 XX
    (integer) 1
    > MSETEX 2 a 1 b 2 EX 100
    (integer) 1
    > TTL b
    (integer) 100
    > MSETEX 2 a 3 b 4 KEEPTTL
    (integer) 1
    > TTL b
    (integer) 100
    > MSETEX 1 a 1 PX 200000
    (integer) 1
    > TTL a
    (integer) 200
    > MSETEX 1 a 1 EXAT 4102444800
    (integer) 1
    > EXPIRETIME a
    (integer) 4102444800
    > MSETEX 1 a 1 PXAT 4102444800123
    (integer) 1
    > PEXPIRETIME a
    (integer) 4102444800123
    > MSETEX 1 a 1 XX EX 100
    (integer) 1
    > MSETEX 0 a 1
    (error) ERR invalid numkeys value
    > MSETEX x a 1
    (error) ERR invalid numkeys value
    > MSETEX 2 a 1
    (error) ERR wrong number of key-value pairs
    > MSETEX 1 a 1 NX XX
    (error) ERR syntax error
    > MSETEX 1 a 1 EX 1 KEEPTTL
    (error) ERR syntax error
    # redis.io/docs/latest/commands/increx
    > INCREX i
    1) (integer) 1
    2) (integer) 1
    > INCREX i BYINT 5
    1) (integer) 6
    2) (integer) 5
    > INCREX i BYINT -10
    1) (integer) -4
    2) (integer) -10
    > INCREX i BYINT 50 UBOUND 10
    1) (integer) -4
    2) (integer) 0
    > INCREX i BYINT 50 UBOUND 10 SATURATE
    1) (integer) 10
    2) (integer) 14
    > INCREX i BYINT -50 LBOUND 0
    1) (integer) 10
    2) (integer) 0
    > INCREX i BYINT -50 LBOUND 0 SATURATE
    1) (integer) 0
    2) (integer) -10
    > INCREX i EX 100
    1) (integer) 1
    2) (integer) 1
    > TTL i
    (integer) 100
    > INCREX i
    1) (integer) 2
    2) (integer) 1
    > TTL i
    (integer) 100
    > INCREX i EX 1000 ENX
    1) (integer) 3
    2) (integer) 1
    > TTL i
    (integer) 100
    > INCREX i PX 200000
    1) (integer) 4
    2) (integer) 1
    > TTL i
    (integer) 200
    > INCREX i EXAT 4102444800
    1) (integer) 5
    2) (integer) 1
    > EXPIRETIME i
    (integer) 4102444800
    > INCREX i PXAT 4102444800123
    1) (integer) 6
    2) (integer) 1
    > PEXPIRETIME i
    (integer) 4102444800123
    > INCREX i PERSIST
    1) (integer) 7
    2) (integer) 1
    > TTL i
    (integer) -1
    > INCREX i ENX
    (error) ERR ENX flag requires an expiration
    > INCREX i LBOUND 5 UBOUND 1
    (error) ERR LBOUND can't be greater than UBOUND
    > INCREX i BYINT x
    (error) ERR Increment is not an integer or out of range
    > INCREX i BYINT 1 BYFLOAT 1
    (error) ERR syntax error
    > INCREX i FOO
    (error) ERR syntax error
    > SET i x
    OK
    > INCREX i
    (error) ERR value is not an integer or out of range
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

/// What Tair, Kvrocks and Dragonfly have besides.
const OTHERS: &str = r#"
    # Tair's page on CAS and CAD, Kvrocks' list of commands
    > SET k 1
    OK
    > CAS k 2 3
    (integer) 0
    > CAS k 1 2
    (integer) 1
    > GET k
    "2"
    > CAS none 1 2
    (integer) -1
    > CAS k 2 3 EX 100
    (integer) 1
    > TTL k
    (integer) 100
    > CAS k 3 4 PX 200000
    (integer) 1
    > TTL k
    (integer) 200
    > CAS k 4 5 EXAT 4102444800
    (integer) 1
    > EXPIRETIME k
    (integer) 4102444800
    > CAS k 5 6 PXAT 4102444800123
    (integer) 1
    > PEXPIRETIME k
    (integer) 4102444800123
    > CAS k 6 7
    (integer) 1
    > TTL k
    (integer) -1
    > CAS k 7 8 FOO
    (error) ERR syntax error
    > CAD k 1
    (integer) 0
    > CAD k 7
    (integer) 1
    > CAD k 7
    (integer) -1
    # Dragonfly's pages on PREPEND, GAT and RM
    > SET p World
    OK
    > PREPEND p "Hello "
    (integer) 11
    > GET p
    "Hello World"
    > PREPEND absent x
    (integer) 1
    > MSET a 1 b 2
    OK
    > GAT 100 a b none
    1) "1"
    2) "2"
    3) (nil)
    > TTL a
    (integer) 100
    > GAT x a
    (error) ERR value is not an integer or out of range
    > EXISTS a
    (integer) 1
"#;

#[test]
fn as_written() {
    let server = Server::start(&[]);
    for script in [COMMON, INDEXES, VALKEY, NEWER, FLOATS, OTHERS] {
        afresh(&server, "2", script);
    }
    for script in [COMMON, INDEXES3, VALKEY, NEWER, FLOATS3, OTHERS] {
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
