//! What strings can do that no real server at hand knows: Redis 8.4 to 8.8, Tair, Kvrocks and
//! Dragonfly. The pages named are the authority.

use tests::Server;
use tests::script::afresh;

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
fn newer_string_commands_answer_as_their_pages_say() {
    let server = Server::start(&[]);
    for protocol in ["2", "3"] {
        afresh(&server, protocol, NEWER);
        afresh(&server, protocol, OTHERS);
    }
}
