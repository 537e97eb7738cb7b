//! Lists, every option word of every command, in both protocols. The scripts are proven on the real
//! servers; for LMOVEM and BLMOVEM, which none of them has, redis.io/commands/lmovem and blmovem
//! say so.

use tests::render::render;
use tests::script::afresh;
use tests::{Client, Oracle, Server};

/// Known to every real server, and the same in both protocols.
const COMMON: &str = r#"
    > RPUSH l b c
    (integer) 2
    > LPUSH l a
    (integer) 3
    > LPUSHX l 0
    (integer) 4
    > RPUSHX l d
    (integer) 5
    > LPUSHX none 0
    (integer) 0
    > RPUSHX none 0
    (integer) 0
    > LRANGE l 0 -1
    1) "0"
    2) "a"
    3) "b"
    4) "c"
    5) "d"
    > LRANGE none 0 -1
    (empty array)
    > LLEN l
    (integer) 5
    > LLEN none
    (integer) 0
    > LINDEX l 0
    "0"
    > LINDEX l -1
    "d"
    > LINDEX l 5
    (nil)
    > LSET l 0 zero
    OK
    > LSET l 9 x
    (error) ERR index out of range
    > LSET none 0 x
    (error) ERR no such key
    > LINSERT l BEFORE a x
    (integer) 6
    > LINSERT l AFTER d x
    (integer) 7
    > LINSERT l AFTER nothing x
    (integer) -1
    > LINSERT none BEFORE a x
    (integer) 0
    > LINSERT l UNDER a x
    (error) ERR syntax error
    > LPOS l x
    (integer) 1
    > LPOS l x RANK 2
    (integer) 6
    > LPOS l x RANK -1 MAXLEN 1
    (integer) 6
    > LPOS l x COUNT 0
    1) (integer) 1
    2) (integer) 6
    > LPOS l x COUNT -1
    (error) ERR COUNT can't be negative
    > LPOS l x MAXLEN -1
    (error) ERR MAXLEN can't be negative
    > LREM l -1 x
    (integer) 1
    > LREM l 0 x
    (integer) 1
    > LREM l 1 nothing
    (integer) 0
    > LTRIM l 0 3
    OK
    > LRANGE l 0 -1
    1) "zero"
    2) "a"
    3) "b"
    4) "c"
    > LPOP l
    "zero"
    > RPOP l
    "c"
    > LPOP l 1
    1) "a"
    > RPOP l 5
    1) "b"
    > LPOP l
    (nil)
    > LPOP l -1
    (error) ERR value is out of range, must be positive
    > RPUSH l a b c d e f
    (integer) 6
    > LMPOP 2 none l LEFT
    1) "l"
    2) 1) "a"
    > LMPOP 1 l RIGHT COUNT 2
    1) "l"
    2) 1) "f"
       2) "e"
    > LMPOP 0 l LEFT
    (error) ERR numkeys should be greater than 0
    > LMPOP 1 l LEFT COUNT 0
    (error) ERR count should be greater than 0
    > LMOVE l m LEFT RIGHT
    "b"
    > LMOVE l m RIGHT LEFT
    "d"
    > RPOPLPUSH m l
    "b"
    > LRANGE l 0 -1
    1) "b"
    2) "c"
    > LMOVE l m LEFT UP
    (error) ERR syntax error
    > LMOVE none m LEFT LEFT
    (nil)
    > RPOPLPUSH none m
    (nil)
    > BLPOP none l 1
    1) "l"
    2) "b"
    > BRPOP l 1
    1) "l"
    2) "c"
    > RPUSH l a b c d
    (integer) 4
    > BLMPOP 1 1 l LEFT
    1) "l"
    2) 1) "a"
    > BLMPOP 1 2 none l RIGHT COUNT 2
    1) "l"
    2) 1) "d"
       2) "c"
    > BLMOVE l m LEFT RIGHT 1
    "b"
    > BLMOVE m l RIGHT LEFT 1
    "b"
    > BRPOPLPUSH l m 1
    "b"
    > BLPOP l x
    (error) ERR timeout is not a float or out of range
    > BLPOP l -1
    (error) ERR timeout is negative
    > SET s x
    OK
    > LPUSH s x
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > BLPOP none s 1
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > RPUSH l 1
    (integer) 1
    > TYPE l
    list
    > COPY l copy
    (integer) 1
    > LPOP l
    "1"
    > LRANGE copy 0 -1
    1) "1"
    > EXISTS l
    (integer) 0
"#;

/// redis.io/commands/lmovem and redis.io/commands/blmovem.
const MANY: &str = r#"
    > RPUSH mylist 1 2 3 4
    (integer) 4
    > LMOVEM mylist myotherlist LEFT LEFT COUNT 2 OBO
    1) "2"
    2) "1"
    > LRANGE mylist 0 -1
    1) "3"
    2) "4"
    > LRANGE myotherlist 0 -1
    1) "2"
    2) "1"
    > LMOVEM mylist myotherlist LEFT LEFT EXACTLY 5 BULK
    (nil)
    > RPUSH somelist a b c
    (integer) 3
    > LMOVEM somelist somelist LEFT LEFT EXACTLY 2 OBO
    1) "b"
    2) "a"
    > LRANGE somelist 0 -1
    1) "b"
    2) "a"
    3) "c"
    > LMOVEM somelist myotherlist RIGHT RIGHT COUNT 2 BULK
    1) "a"
    2) "c"
    > LMOVEM somelist myotherlist RIGHT LEFT
    1) "b"
    > LMOVEM somelist myotherlist LEFT RIGHT COUNT 2 OBO
    (nil)
    > LMOVEM somelist myotherlist LEFT RIGHT COUNT 2
    (error) ERR syntax error
    > BLMOVEM mylist somelist RIGHT LEFT 1 COUNT 2 OBO
    1) "3"
    2) "4"
    > BLMOVEM somelist mylist LEFT RIGHT 1 EXACTLY 2 BULK
    1) "3"
    2) "4"
    > BLMOVEM mylist somelist LEFT LEFT 1
    1) "3"
"#;

/// Every option of the two pages, and every error. That `source` holds nothing is told by a null,
/// as redis-py and go-redis expect it of Redis 8.10; the page on LMOVEM says an empty array.
const MANY_TOKENS: &str = r#"
    # redis.io/commands/lmovem
    > RPUSH a 1 2 3 4 5
    (integer) 5
    > LMOVEM a b LEFT RIGHT COUNT 2 BULK
    1) "1"
    2) "2"
    > LRANGE b 0 -1
    1) "1"
    2) "2"
    > LMOVEM a b left left exactly 2 obo
    1) "4"
    2) "3"
    > LRANGE b 0 -1
    1) "4"
    2) "3"
    3) "1"
    4) "2"
    > LMOVEM a b RIGHT RIGHT
    1) "5"
    > EXISTS a
    (integer) 0
    > LRANGE b 0 -1
    1) "4"
    2) "3"
    3) "1"
    4) "2"
    5) "5"
    > LMOVEM b b LEFT RIGHT EXACTLY 5 BULK
    1) "4"
    2) "3"
    3) "1"
    4) "2"
    5) "5"
    > LRANGE b 0 -1
    1) "4"
    2) "3"
    3) "1"
    4) "2"
    5) "5"
    > LMOVEM b b LEFT LEFT EXACTLY 6 BULK
    (nil)
    > LMOVEM b a RIGHT LEFT COUNT 99 OBO
    1) "4"
    2) "3"
    3) "1"
    4) "2"
    5) "5"
    > LRANGE a 0 -1
    1) "4"
    2) "3"
    3) "1"
    4) "2"
    5) "5"
    > LMOVEM none b LEFT LEFT
    (nil)
    > LMOVEM none b LEFT LEFT COUNT 1 OBO
    (nil)
    > LMOVEM none b LEFT LEFT EXACTLY 1 OBO
    (nil)
    > EXISTS b
    (integer) 0
    > LMOVEM a b UP LEFT
    (error) ERR syntax error
    > LMOVEM a b LEFT UP
    (error) ERR syntax error
    > LMOVEM a b LEFT LEFT COUNT 1
    (error) ERR syntax error
    > LMOVEM a b LEFT LEFT COUNT
    (error) ERR syntax error
    > LMOVEM a b LEFT LEFT BULK
    (error) ERR syntax error
    > LMOVEM a b LEFT LEFT BULK COUNT 1
    (error) ERR syntax error
    > LMOVEM a b LEFT LEFT COUNT 1 FOO
    (error) ERR syntax error
    > LMOVEM a b LEFT LEFT FOO 1 BULK
    (error) ERR syntax error
    > LMOVEM a b LEFT LEFT COUNT 1 OBO BULK
    (error) ERR syntax error
    > LMOVEM a b LEFT LEFT COUNT 0 OBO
    (error) ERR count should be greater than 0
    > LMOVEM a b LEFT LEFT COUNT -1 OBO
    (error) ERR count should be greater than 0
    > LMOVEM a b LEFT LEFT COUNT x OBO
    (error) ERR count should be greater than 0
    > LMOVEM a b LEFT LEFT EXACTLY 0 OBO
    (error) ERR exactly should be greater than 0
    > LMOVEM a b LEFT LEFT EXACTLY x OBO
    (error) ERR exactly should be greater than 0
    > SET text x
    OK
    > LMOVEM text b LEFT LEFT
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > LMOVEM a text LEFT LEFT COUNT 1 BULK
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > LMOVEM none text LEFT LEFT
    (nil)
    > LLEN a
    (integer) 5
    > LMOVEM a b LEFT
    (error) ERR wrong number of arguments for 'lmovem' command
    # redis.io/commands/blmovem
    > BLMOVEM a b LEFT LEFT 0 EXACTLY 3 OBO
    1) "1"
    2) "3"
    3) "4"
    > BLMOVEM a b RIGHT RIGHT 1.5 COUNT 9 BULK
    1) "2"
    2) "5"
    > BLMOVEM a b LEFT LEFT 0.001
    (nil)
    > BLMOVEM a b LEFT LEFT 0.001 COUNT 1 BULK
    (nil)
    > BLMOVEM b a LEFT LEFT 0.001 EXACTLY 99 BULK
    (nil)
    > LLEN b
    (integer) 5
    > MULTI
    OK
    > BLMOVEM b a LEFT LEFT 0 EXACTLY 99 BULK
    QUEUED
    > BLMOVEM none a LEFT LEFT 0
    QUEUED
    > BLMOVEM b a LEFT LEFT 0 EXACTLY 5 BULK
    QUEUED
    > EXEC
    1) (nil)
    2) (nil)
    3) 1) "1"
       2) "3"
       3) "4"
       4) "2"
       5) "5"
    > BLMOVEM a b LEFT LEFT x
    (error) ERR timeout is not a float or out of range
    > BLMOVEM a b LEFT LEFT -1
    (error) ERR timeout is negative
    > BLMOVEM a b LEFT LEFT 1e300
    (error) ERR timeout is out of range
    > BLMOVEM a b UP LEFT 0
    (error) ERR syntax error
    > BLMOVEM a b LEFT LEFT 0 COUNT 1
    (error) ERR syntax error
    > BLMOVEM a b LEFT LEFT 0 COUNT 0 OBO
    (error) ERR count should be greater than 0
    > BLMOVEM a b LEFT LEFT 0 EXACTLY 0 OBO
    (error) ERR exactly should be greater than 0
    > BLMOVEM a b LEFT LEFT 0 FOO 1 OBO
    (error) ERR syntax error
    > BLMOVEM a b LEFT LEFT 0 COUNT 1 FOO
    (error) ERR syntax error
    > BLMOVEM text b LEFT LEFT 0
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > BLMOVEM a text LEFT LEFT 0
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > BLMOVEM a b LEFT LEFT
    (error) ERR wrong number of arguments for 'blmovem' command
"#;

#[test]
fn lists_answer_as_written() {
    let server = Server::start(&[]);
    for protocol in ["2", "3"] {
        afresh(&server, protocol, COMMON);
        afresh(&server, protocol, MANY);
        afresh(&server, protocol, MANY_TOKENS);
    }
}

#[test]
fn the_real_servers_write_the_same() {
    for oracle in Oracle::ALL {
        let server = oracle.start(&[]);
        for protocol in ["2", "3"] {
            afresh(&server, protocol, COMMON);
        }
    }
}

/// The encoding after each step of a list's life, under one setting of the directive. Steps that
/// leave elements in several small nodes of Redis are left out: there it stays a quicklist.
fn encodings(client: &mut Client, size: &str) -> Vec<String> {
    client.call(&["CONFIG", "SET", "list-max-listpack-size", size]);
    client.call(&["DEL", "l", "m"]);
    let mut seen = Vec::new();
    let mut step = |client: &mut Client, words: &[&str]| {
        client.call(words);
        let encoding = render(&client.call(&["OBJECT", "ENCODING", "l"]));
        seen.push(format!("{}: {encoding}", words[..2].join(" ")));
    };
    let text = "x".repeat(100);
    for _ in 0..400 {
        step(client, &["RPUSH", "l", &text]);
    }
    step(client, &["LTRIM", "l", "-1", "-1"]);
    for number in 0..9 {
        step(client, &["RPUSH", "l", &number.to_string()]);
    }
    let long = "y".repeat(10_000);
    step(client, &["LSET", "l", "3", &long]);
    step(client, &["LTRIM", "l", "-1", "-1"]);
    step(client, &["LINSERT", "l", "BEFORE", "8", &long]);
    step(client, &["LTRIM", "l", "-1", "-1"]);
    step(client, &["RPUSH", "l", &long, "1", "2", "3"]);
    step(client, &["LTRIM", "l", "0", "0"]);
    step(client, &["LPUSH", "l", &long, &long, &long, &long, &long, &long, &long]);
    step(client, &["RPOPLPUSH", "l", "m"]);
    step(client, &["LPOP", "l", "7"]);
    seen
}

#[test]
fn encodings_are_those_of_redis() {
    let servers = [Server::start(&[]), Oracle::redis82(), Oracle::valkey91()];
    let [mut ours, redis82, valkey91] = servers.each_ref().map(Server::client);
    let mut theirs = [redis82, valkey91];
    for size in ["-1", "-2", "-3", "-4", "-5", "0", "1", "5", "128", "1000"] {
        let here = encodings(&mut ours, size);
        for theirs in &mut theirs {
            assert_eq!(here, encodings(theirs, size), "list-max-listpack-size {size}");
        }
    }
}
