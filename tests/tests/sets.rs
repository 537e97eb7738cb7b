//! Sets, every option word of every command, in both protocols. The scripts are proven on the real
//! servers that know the commands; for the others the page that says so is named.

use proto::value::Value;
use tests::script::afresh;
use tests::{Client, Oracle, Server, check};

/// Known to every real server.
const COMMON: &str = r#"
    > SADD s 1 2 3 2
    (integer) 3
    > SADD s 1
    (integer) 0
    > OBJECT ENCODING s
    "intset"
    > SREM s 9
    (integer) 0
    > SREM s 3 9
    (integer) 1
    > SISMEMBER s 1
    (integer) 1
    > SISMEMBER s 3
    (integer) 0
    > SISMEMBER none 3
    (integer) 0
    > SMISMEMBER s 1 3
    1) (integer) 1
    2) (integer) 0
    > SMISMEMBER none 1
    1) (integer) 0
    > SCARD s
    (integer) 2
    > SCARD none
    (integer) 0
    # one key of another type refuses all, and nothing changes
    > SET str v
    OK
    > SINTER none str
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > SUNIONSTORE s none str
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > SMOVE s str 1
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > SPOP str 0
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > SMOVE none str 1
    (integer) 0
    > SCARD s
    (integer) 2
    # by chance
    > SPOP none
    (nil)
    > SPOP s -1
    (error) ERR value is out of range, must be positive
    > SPOP s 1 2
    (error) ERR syntax error
    > SRANDMEMBER none
    (nil)
    > SRANDMEMBER none 5
    (empty array)
    > SRANDMEMBER s 0
    (empty array)
    > SRANDMEMBER s x
    (error) ERR value is not an integer or out of range
    > SRANDMEMBER s -9223372036854775808
    ~ (error) ERR value is out of range, value must between -922*7 and 922*7
    > SADD one a
    (integer) 1
    > SRANDMEMBER one
    "a"
    > SRANDMEMBER one 9
    1) "a"
    > SRANDMEMBER one -2
    1) "a"
    2) "a"
    > SPOP one
    "a"
    > EXISTS one
    (integer) 0
    # from one to another
    > SMOVE s d 1
    (integer) 1
    > SMOVE s d 9
    (integer) 0
    > SMOVE s s 2
    (integer) 1
    > SMOVE s d 2
    (integer) 1
    > EXISTS s
    (integer) 0
    # algebra
    > SADD a 1 2 3 4
    (integer) 4
    > SADD b 3 4 5
    (integer) 3
    > SINTERSTORE r a b
    (integer) 2
    > SUNIONSTORE r a b none
    (integer) 5
    > SDIFFSTORE r a b
    (integer) 2
    > SDIFFSTORE r a a
    (integer) 0
    > EXISTS r
    (integer) 0
    > SINTERSTORE str a b
    (integer) 2
    > TYPE str
    set
    > SINTERCARD 2 a b
    (integer) 2
    > SINTERCARD 2 a b LIMIT 1
    (integer) 1
    > SINTERCARD 2 a b LIMIT 0
    (integer) 2
    > SINTERCARD 2 a none
    (integer) 0
    > SINTERCARD 0 a
    (error) ERR numkeys should be greater than 0
    > SINTERCARD 2 a
    (error) ERR Number of keys can't be greater than number of args
    > SINTERCARD 1 a LIMIT -1
    (error) ERR LIMIT can't be negative
    > SINTERCARD 1 a FOO
    (error) ERR syntax error
    # in steps
    > SSCAN a 0
    1) "0"
    2) 1) "1"
       2) "2"
       3) "3"
       4) "4"
    > SSCAN a 0 MATCH 3* COUNT 5
    1) "0"
    2) 1) "3"
    > SSCAN none 17 COUNT 0
    1) "0"
    2) (empty array)
    > SSCAN a x
    (error) ERR invalid cursor
    > SSCAN a 18446744073709551616
    (error) ERR invalid cursor
    > SSCAN a 0 COUNT 0
    (error) ERR syntax error
    > SSCAN a 0 TYPE set
    (error) ERR syntax error
    > SADD a
    (error) ERR wrong number of arguments for 'sadd' command
"#;

/// Replies that are sets in RESP3 and arrays in RESP2; known to every real server.
const SETS: &str = r#"
    > SADD a 1 2 3
    (integer) 3
    > SADD b 2 3 4
    (integer) 3
    > SMEMBERS a
    1) "1"
    2) "2"
    3) "3"
    > SMEMBERS none
    (empty array)
    > SINTER a b
    1) "2"
    2) "3"
    > SINTER a none
    (empty array)
    > SUNION a b
    1) "1"
    2) "2"
    3) "3"
    4) "4"
    > SDIFF a b
    1) "1"
    > SDIFF none a
    (empty array)
    > SPOP none 5
    (empty array)
    > SPOP a 0
    (empty array)
    > SREM a 2 3
    (integer) 2
    > SPOP a 5
    1) "1"
    > EXISTS a
    (integer) 0
"#;

/// What Redis 8.10 has besides.
const NEWER: &str = r#"
    # redis.io/docs/latest/commands/sunioncard and sdiffcard
    > SADD key1 a b c
    (integer) 3
    > SADD key2 c d e
    (integer) 3
    > SUNIONCARD 2 key1 key2
    (integer) 5
    > SUNIONCARD 2 key1 key2 LIMIT 3
    (integer) 3
    > SUNIONCARD 2 key1 key2 APPROX
    (integer) 5
    > SUNIONCARD 2 key1 key2 APPROX LIMIT 4
    (integer) 4
    > SUNIONCARD 2 key1 none
    (integer) 3
    > SUNIONCARD 0 key1
    (error) ERR numkeys should be greater than 0
    > SUNIONCARD 1 key1 LIMIT -1
    (error) ERR LIMIT can't be negative
    > SUNIONCARD 1 key1 FOO
    (error) ERR syntax error
    > SDIFFCARD 2 key1 key2
    (integer) 2
    > SDIFFCARD 2 key1 key2 LIMIT 1
    (integer) 1
    > SDIFFCARD 2 none key1
    (integer) 0
    > SDIFFCARD 3 key1 key2
    (error) ERR Number of keys can't be greater than number of args
    > SET text x
    OK
    > SUNIONCARD 2 key1 key2 LIMIT 0
    (integer) 5
    > SUNIONCARD 2 key1 key2 limit 9
    (integer) 5
    > SUNIONCARD 3 none key1 key2 LIMIT 5
    (integer) 5
    > SUNIONCARD 1 none APPROX
    (integer) 0
    > SUNIONCARD 2 key1 key1 approx limit 0
    (integer) 3
    > SUNIONCARD 2 key1 key2 LIMIT 2 APPROX
    (integer) 2
    > SUNIONCARD 2 key1 key2 LIMIT
    (error) ERR syntax error
    > SUNIONCARD 2 key1 key2 LIMIT x
    (error) ERR LIMIT can't be negative
    > SUNIONCARD 2 key1 key2 LIMIT -1
    (error) ERR LIMIT can't be negative
    > SUNIONCARD 2 key1 key2 APPROX FOO
    (error) ERR syntax error
    > SUNIONCARD x key1
    (error) ERR numkeys should be greater than 0
    > SUNIONCARD -1 key1
    (error) ERR numkeys should be greater than 0
    > SUNIONCARD 3 key1 key2
    (error) ERR Number of keys can't be greater than number of args
    > SUNIONCARD 2 key1 text
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > SUNIONCARD 2 none text LIMIT 1
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > SUNIONCARD 1
    (error) ERR wrong number of arguments for 'sunioncard' command
    > SDIFFCARD 2 key1 key2 LIMIT 0
    (integer) 2
    > SDIFFCARD 2 key1 key2 limit 1
    (integer) 1
    > SDIFFCARD 2 key1 none
    (integer) 3
    > SDIFFCARD 1 key1
    (integer) 3
    > SDIFFCARD 2 key1 key1
    (integer) 0
    > SDIFFCARD 0 key1
    (error) ERR numkeys should be greater than 0
    > SDIFFCARD x key1
    (error) ERR numkeys should be greater than 0
    > SDIFFCARD 2 key1 key2 LIMIT
    (error) ERR syntax error
    > SDIFFCARD 2 key1 key2 LIMIT x
    (error) ERR LIMIT can't be negative
    > SDIFFCARD 2 key1 key2 LIMIT -1
    (error) ERR LIMIT can't be negative
    > SDIFFCARD 2 key1 key2 APPROX
    (error) ERR syntax error
    > SDIFFCARD 2 key1 text
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > SDIFFCARD 1
    (error) ERR wrong number of arguments for 'sdiffcard' command
"#;

/// What KeyDB and Dragonfly have besides.
const RIVALS: &str = r#"
    # Dragonfly's pages on SADDEX, FIELDEXPIRE and FIELDTTL
    > SADDEX s 100 Hello
    (integer) 1
    > SADDEX s 200 World Dragonfly
    (integer) 2
    > FIELDTTL s Hello
    ~ (integer) [19]*
    > SADDEX s KEEPTTL 300 Hello New
    (integer) 1
    > FIELDTTL s Hello
    ~ (integer) [19]*
    > FIELDTTL s New
    ~ (integer) [23]*
    > SADDEX s 300 Hello
    (integer) 0
    > FIELDTTL s Hello
    ~ (integer) [23]*
    > SADDEX s 0 Hello
    (error) ERR invalid expire time in 'saddex' command
    > SADD s endless
    (integer) 1
    > FIELDTTL s endless
    (integer) -1
    > FIELDTTL s absent
    (integer) -3
    > FIELDTTL absent field
    (integer) -2
    > FIELDEXPIRE s 100 endless absent
    1) (integer) 1
    2) (integer) -2
    > FIELDEXPIRE s 0 New
    1) (integer) 2
    > SISMEMBER s New
    (integer) 0
    # KeyDB's page on EXPIREMEMBER
    > EXPIREMEMBER s World 100
    (integer) 1
    > FIELDTTL s World
    ~ (integer) [19]*
    > EXPIREMEMBER s World 200 s
    (integer) 1
    > FIELDTTL s World
    ~ (integer) [12]*
    > EXPIREMEMBER s World 300000 ms
    (integer) 1
    > FIELDTTL s World
    ~ (integer) [23]*
    > TTL s World
    ~ (integer) [23]*
    > TTL s
    (integer) -1
    > SADD s forever
    (integer) 1
    > TTL s forever
    (integer) -1
    > PTTL s absent
    (integer) -2
    > PTTL absent World
    (integer) -2
    > TTL s World s
    (error) ERR wrong number of arguments for 'ttl' command
    > EXPIREMEMBER s absent 100
    (integer) 0
    > EXPIREMEMBERAT s World 1
    (integer) 1
    > SISMEMBER s World
    (integer) 0
    > EXPIREMEMBERAT s Hello 4102444800
    (integer) 1
    > PEXPIREMEMBERAT s Hello 4102444800123
    (integer) 1
    > SET str v
    OK
    > EXPIREMEMBER str Hello 100
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > PTTL str Hello
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
"#;

#[test]
fn sets_answer_as_written() {
    let server = Server::start(&[]);
    for protocol in ["2", "3"] {
        for script in [COMMON, &sets(protocol), NEWER, RIVALS] {
            afresh(&server, protocol, script);
        }
    }
}

#[test]
fn the_real_servers_write_the_same() {
    for oracle in Oracle::ALL {
        let server = oracle.start(&[]);
        for protocol in ["2", "3"] {
            afresh(&server, protocol, COMMON);
            afresh(&server, protocol, &sets(protocol));
        }
    }
}

/// redis.io/commands/sunioncard: APPROX counts with a standard error of about 0.81%.
#[test]
fn an_approximate_union_is_near() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for (key, members) in [("one", 0..20_000), ("two", 10_000..40_000)] {
        let members: Vec<String> = members.map(|number| format!("member:{number}")).collect();
        for piece in members.chunks(5_000) {
            let words = ["SADD", key].into_iter().chain(piece.iter().map(String::as_str));
            client.call(&words.collect::<Vec<_>>());
        }
    }
    let mut counts = |words: &str| {
        let reply = client.call(&words.split(' ').collect::<Vec<_>>());
        let Value::Integer(count) = reply else { panic!("{words}: {reply:?}") };
        count
    };
    assert_eq!(counts("SUNIONCARD 2 one two"), 40_000);
    let near = counts("SUNIONCARD 2 one two APPROX");
    assert!((38_700..41_300).contains(&near), "four standard errors off: {near}");
    assert_eq!(counts("SUNIONCARD 2 one two APPROX LIMIT 39999999"), near);
    assert_eq!(counts("SUNIONCARD 2 one two APPROX LIMIT 1000"), 1000);
    assert_eq!(counts("SUNIONCARD 2 one two LIMIT 30001"), 30_001);
}

/// A member whose time is over is gone for readers, and some time later for the keyspace.
#[test]
fn members_expire() {
    let server = Server::start(&[]);
    let mut client = server.client();
    check(
        &mut client,
        "> SADD s a b\n(integer) 2\n> SADD t x\n(integer) 1\n\
         > EXPIREMEMBER s a 1 ms\n(integer) 1\n> EXPIREMEMBER t x 1 ms\n(integer) 1\n",
    );
    wait_for(&mut client, &["SCARD", "s"], 1);
    wait_for(&mut client, &["EXISTS", "t"], 0);
    check(&mut client, "> SMEMBERS s\n1) \"b\"\n");
}

/// As `SRANDMEMBER` of a set with one member and its like filled the memory of servers.
#[test]
fn a_huge_count_is_refused() {
    let server = Server::start(&[]);
    let mut client = server.client();
    check(
        &mut client,
        "> SADD s a\n(integer) 1\n\
         > SRANDMEMBER s -9223372036854775807\n\
         (error) ERR value is out of range, the reply would exceed 512 MB\n\
         > SRANDMEMBER s 9223372036854775807\n1) \"a\"\n\
         > SSCAN s 0 COUNT 9223372036854775807\n1) \"0\"\n2) 1) \"a\"\n\
         > SSCAN s 9223372036854775808\n1) \"0\"\n2) 1) \"a\"\n\
         > SINTERCARD 9223372036854775807 s\n\
         (error) ERR Number of keys can't be greater than number of args\n\
         > SPOP s 9223372036854775807\n1) \"a\"\n",
    );
}

/// Asks until the answer is this number; the test's own limit ends it otherwise.
fn wait_for(client: &mut Client, question: &[&str], answer: i64) {
    while client.call(question) != Value::Integer(answer) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// The script of set replies as a protocol shows them.
fn sets(protocol: &str) -> String {
    match protocol {
        "3" => SETS.replace(") \"", "~ \"").replace("(empty array)", "(empty set)"),
        _ => SETS.to_owned(),
    }
}
