//! Sorted sets, every option word of every command, in both protocols. The scripts are proven on
//! the real servers that know the commands.

use proto::value::Value;
use tests::script::afresh;
use tests::server::eventually;
use tests::{Oracle, Server};

/// Known to every real server, and the same in both protocols.
const COMMON: &str = r#"
    > ZADD z 1 a 2 b 3 c
    (integer) 3
    > ZADD z NX 9 a 4 d
    (integer) 1
    > ZADD z XX CH 5 d
    (integer) 1
    > ZADD z GT CH 1 d
    (integer) 0
    > ZADD z LT CH 4 d
    (integer) 1
    > ZADD z NX XX 1 a
    (error) ERR XX and NX options at the same time are not compatible
    > ZINCRBY s x a
    (error) ERR value is not a valid float
    > ZADD e 1 a 2 b 3 c 4 d 5 e
    (integer) 5
    > ZCARD z
    (integer) 4
    > ZCOUNT z (1 +inf
    (integer) 3
    > ZADD l 0 a 0 b 0 c 0 d
    (integer) 4
    > ZLEXCOUNT l [b +
    (integer) 3
    > ZRANK z b
    (integer) 1
    > ZREVRANK z b
    (integer) 2
    > ZRANK z x
    (nil)
    > ZRANGE z 0 -1
    1) "a"
    2) "b"
    3) "c"
    4) "d"
    > ZRANGE z 1 3 BYSCORE LIMIT 1 1
    1) "b"
    > ZRANGE z 3 1 BYSCORE REV
    1) "c"
    2) "b"
    3) "a"
    > ZRANGE l [b + BYLEX
    1) "b"
    2) "c"
    3) "d"
    > ZRANGE z 0 -1 LIMIT 0 1
    (error) ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
    > ZRANGESTORE d z 0 1
    (integer) 2
    > ZRANGESTORE d z 1 3 BYSCORE LIMIT 0 2
    (integer) 2
    > ZRANGESTORE d l + - BYLEX REV
    (integer) 4
    > ZRANGEBYSCORE z -inf +inf LIMIT 1 1
    1) "b"
    > ZREVRANGEBYSCORE z +inf -inf LIMIT 1 1
    1) "c"
    > ZRANGEBYLEX l - + LIMIT 1 2
    1) "b"
    2) "c"
    > ZREVRANGEBYLEX l + - LIMIT 1 2
    1) "c"
    2) "b"
    > ZREVRANGE z 0 0
    1) "d"
    > ZREM z d x
    (integer) 1
    > ZREMRANGEBYRANK e 0 0
    (integer) 1
    > ZREMRANGEBYSCORE e 2 2
    (integer) 1
    > ZREMRANGEBYLEX l - [a
    (integer) 1
    # members with different scores, where Redis still tells a range.
    > ZADD u 0 b 1 zz 2 a 3 d 4 c 5 m
    (integer) 6
    > ZRANGEBYLEX u [c [zzz
    1) "zz"
    2) "a"
    3) "d"
    4) "c"
    5) "m"
    > ZRANGEBYLEX u [c [d
    (empty array)
    > ZRANGEBYLEX u [b (zz
    1) "b"
    > ZRANGEBYLEX u (a [d
    1) "b"
    > ZRANGEBYLEX u - (a
    (empty array)
    > ZRANGEBYLEX u [n +
    (empty array)
    > ZREVRANGEBYLEX u [m [c
    1) "m"
    2) "c"
    3) "d"
    > ZREVRANGEBYLEX u (m [b LIMIT 1 2
    1) "d"
    > ZREVRANGEBYLEX u [d (b
    1) "c"
    2) "d"
    > ZLEXCOUNT u [c +
    (integer) 5
    > ZREMRANGEBYLEX u [c [d
    (integer) 0
    > ZREMRANGEBYLEX u [zz +
    (integer) 0
    > ZRANGE u 0 -1
    1) "b"
    2) "zz"
    3) "a"
    4) "d"
    5) "c"
    6) "m"
    > ZADD n 1 a 2 b 3 c
    (integer) 3
    > ZCOUNT n "(1\x009" "2\x00junk"
    (integer) 1
    > ZCOUNT n "\x001" 2
    (integer) 2
    > SADD set a x
    (integer) 2
    > ZUNION 2 z set WEIGHTS 1 2 AGGREGATE MAX
    1) "a"
    2) "b"
    3) "x"
    4) "c"
    > ZUNION 2 z set AGGREGATE MIN
    1) "a"
    2) "x"
    3) "b"
    4) "c"
    > ZUNION 2 z set AGGREGATE SUM
    1) "x"
    2) "a"
    3) "b"
    4) "c"
    > ZINTER 2 z set WEIGHTS 1 2 AGGREGATE MAX
    1) "a"
    > ZINTER 2 z set AGGREGATE MIN
    1) "a"
    > ZINTER 2 z set AGGREGATE SUM
    1) "a"
    > ZDIFF 2 z set
    1) "b"
    2) "c"
    > ZUNIONSTORE d 2 z set WEIGHTS 1 2 AGGREGATE MAX
    (integer) 4
    > ZUNIONSTORE d 2 z set AGGREGATE MIN
    (integer) 4
    > ZUNIONSTORE d 2 z set AGGREGATE SUM
    (integer) 4
    > ZINTERSTORE d 2 z set WEIGHTS 1 2 AGGREGATE MAX
    (integer) 1
    > ZINTERSTORE d 2 z set AGGREGATE MIN
    (integer) 1
    > ZINTERSTORE d 2 z set AGGREGATE SUM
    (integer) 1
    > ZDIFFSTORE d 2 z set
    (integer) 2
    > ZINTERCARD 2 z set LIMIT 1
    (integer) 1
    > ZRANDMEMBER none
    (nil)
    > ZRANDMEMBER z 0
    (empty array)
    > ZSCAN z 0 MATCH a* COUNT 10
    1) "0"
    2) 1) "a"
       2) "1"
    > ZMPOP 1 none MIN
    (nil)
    > ZMPOP 1 none MAX COUNT 2
    (nil)
    > BZMPOP 0.01 1 none MIN
    (nil)
    > BZMPOP 0.01 1 none MAX COUNT 2
    (nil)
    > BZPOPMIN none 0.01
    (nil)
    > BZPOPMAX none 0.01
    (nil)
    > ZPOPMIN none
    (empty array)
    > ZPOPMAX none
    (empty array)
"#;

/// Scores, which the protocols write differently; as Redis 8.2 has it.
const IN_RESP2: &str = r#"
    > ZADD z 1 a 2.5 b
    (integer) 2
    > ZADD z INCR 1 a
    "2"
    > ZINCRBY z 1 a
    "3"
    > ZSCORE z b
    "2.5"
    > ZMSCORE z a x
    1) "3"
    2) (nil)
    > ZRANK z a WITHSCORE
    1) (integer) 1
    2) "3"
    > ZREVRANK z a WITHSCORE
    1) (integer) 0
    2) "3"
    > ZRANGE z 0 -1 WITHSCORES
    1) "b"
    2) "2.5"
    3) "a"
    4) "3"
    > ZREVRANGE z 0 -1 WITHSCORES
    1) "a"
    2) "3"
    3) "b"
    4) "2.5"
    > ZRANGEBYSCORE z 0 9 WITHSCORES
    1) "b"
    2) "2.5"
    3) "a"
    4) "3"
    > ZREVRANGEBYSCORE z 9 0 WITHSCORES
    1) "a"
    2) "3"
    3) "b"
    4) "2.5"
    > ZUNION 1 z WITHSCORES
    1) "b"
    2) "2.5"
    3) "a"
    4) "3"
    > ZINTER 1 z WITHSCORES
    1) "b"
    2) "2.5"
    3) "a"
    4) "3"
    > ZDIFF 1 z WITHSCORES
    1) "b"
    2) "2.5"
    3) "a"
    4) "3"
    > ZADD one 7 m
    (integer) 1
    > ZRANDMEMBER one 1 WITHSCORES
    1) "m"
    2) "7"
    > ZADD p 1 a 2 b 3 c 4 d 5 e 6 f 7 g
    (integer) 7
    > ZPOPMIN p
    1) "a"
    2) "1"
    > ZPOPMAX p 1
    1) "g"
    2) "7"
    > ZMPOP 1 p MIN COUNT 1
    1) "p"
    2) 1) 1) "b"
          2) "2"
    > BZPOPMIN p 0
    1) "p"
    2) "c"
    3) "3"
    > BZPOPMAX p 0
    1) "p"
    2) "f"
    3) "6"
    > BZMPOP 0 1 p MAX COUNT 1
    1) "p"
    2) 1) 1) "e"
          2) "5"
"#;

/// The same in RESP3.
const IN_RESP3: &str = r#"
    > ZADD z 1 a 2.5 b
    (integer) 2
    > ZADD z INCR 1 a
    (double) 2
    > ZINCRBY z 1 a
    (double) 3
    > ZSCORE z b
    (double) 2.5
    > ZMSCORE z a x
    1) (double) 3
    2) (nil)
    > ZRANK z a WITHSCORE
    1) (integer) 1
    2) (double) 3
    > ZREVRANK z a WITHSCORE
    1) (integer) 0
    2) (double) 3
    > ZRANGE z 0 -1 WITHSCORES
    1) 1) "b"
       2) (double) 2.5
    2) 1) "a"
       2) (double) 3
    > ZREVRANGE z 0 -1 WITHSCORES
    1) 1) "a"
       2) (double) 3
    2) 1) "b"
       2) (double) 2.5
    > ZRANGEBYSCORE z 0 9 WITHSCORES
    1) 1) "b"
       2) (double) 2.5
    2) 1) "a"
       2) (double) 3
    > ZREVRANGEBYSCORE z 9 0 WITHSCORES
    1) 1) "a"
       2) (double) 3
    2) 1) "b"
       2) (double) 2.5
    > ZUNION 1 z WITHSCORES
    1) 1) "b"
       2) (double) 2.5
    2) 1) "a"
       2) (double) 3
    > ZINTER 1 z WITHSCORES
    1) 1) "b"
       2) (double) 2.5
    2) 1) "a"
       2) (double) 3
    > ZDIFF 1 z WITHSCORES
    1) 1) "b"
       2) (double) 2.5
    2) 1) "a"
       2) (double) 3
    > ZADD one 7 m
    (integer) 1
    > ZRANDMEMBER one 1 WITHSCORES
    1) 1) "m"
       2) (double) 7
    > ZADD p 1 a 2 b 3 c 4 d 5 e 6 f 7 g
    (integer) 7
    > ZPOPMIN p
    1) "a"
    2) (double) 1
    > ZPOPMAX p 1
    1) 1) "g"
       2) (double) 7
    > ZMPOP 1 p MIN COUNT 1
    1) "p"
    2) 1) 1) "b"
          2) (double) 2
    > BZPOPMIN p 0
    1) "p"
    2) "c"
    3) (double) 3
    > BZPOPMAX p 0
    1) "p"
    2) "f"
    3) (double) 6
    > BZMPOP 0 1 p MAX COUNT 1
    1) "p"
    2) 1) 1) "e"
          2) (double) 5
"#;

/// Valkey's own.
const OF_VALKEY: &str = r#"
    > ZADD z 1 a 2 b
    (integer) 2
    > ZSCAN z 0 NOSCORES
    1) "0"
    2) 1) "a"
       2) "b"
"#;

/// Of Redis 8.8, which no oracle is: redis.io/commands/zunionstore says so.
const COUNTED: &str = r#"
    > ZADD x 5 a 6 b
    (integer) 2
    > ZADD y 7 b
    (integer) 1
    > ZUNION 2 x y AGGREGATE COUNT
    1) "a"
    2) "b"
    > ZINTER 2 x y AGGREGATE COUNT
    1) "b"
    > ZUNIONSTORE d 2 x y AGGREGATE COUNT
    (integer) 2
    > ZCOUNT d 2 2
    (integer) 1
    > ZINTERSTORE d 2 x y AGGREGATE COUNT
    (integer) 1
"#;

#[test]
fn sorted_sets_answer_as_written() {
    let server = Server::start(&[]);
    for protocol in ["2", "3"] {
        afresh(&server, protocol, COMMON);
        afresh(&server, protocol, OF_VALKEY);
        afresh(&server, protocol, COUNTED);
    }
    afresh(&server, "2", IN_RESP2);
    afresh(&server, "3", IN_RESP3);
}

#[test]
fn the_real_servers_write_the_same() {
    for oracle in Oracle::ALL {
        let server = oracle.start(&[]);
        for protocol in ["2", "3"] {
            afresh(&server, protocol, COMMON);
        }
    }
    let server = Oracle::redis82();
    afresh(&server, "2", IN_RESP2);
    afresh(&server, "3", IN_RESP3);
    let server = Oracle::valkey91();
    for protocol in ["2", "3"] {
        afresh(&server, protocol, OF_VALKEY);
    }
}

/// The form is chosen by how many members a request brings, not by what comes of them; their
/// lengths count only where they are added (Valkey goes by both).
const FORMS: &str = r#"
    > CONFIG SET zset-max-listpack-entries 4 zset-max-listpack-value 8
    OK
    > ZADD few 1 a 1 b 1 c
    (integer) 3
    > ZADD few XX 1 d 1 e 1 f 1 g
    (integer) 0
    > ZADD few XX 1 abcdefghijk
    (integer) 0
    > OBJECT ENCODING few
    "listpack"
    > ZADD few XX 1 d 1 e 1 f 1 g 1 h
    (integer) 0
    > OBJECT ENCODING few
    "skiplist"
    > ZADD same 1 a
    (integer) 1
    > ZADD same NX 1 a 1 a 1 a 1 a 1 a
    (integer) 0
    > OBJECT ENCODING same
    "skiplist"
    > GEOADD places 1 1 a
    (integer) 1
    > GEOADD places XX 1 1 b 1 1 c 1 1 d 1 1 e 1 1 f
    (integer) 0
    > OBJECT ENCODING places
    "skiplist"
    > ZADD none XX 1 a 1 b 1 c 1 d 1 e
    (integer) 0
    > EXISTS none
    (integer) 0
    > CONFIG SET zset-max-listpack-entries 128 zset-max-listpack-value 64
    OK
"#;

#[test]
fn the_form_follows_what_a_request_brings() {
    for server in [Server::start(&[]), Oracle::redis82()] {
        afresh(&server, "2", FORMS);
    }
}

/// The names are Garnet's; the replies are those that its own tests expect.
#[test]
fn members_have_times_to_live() {
    let server = Server::start(&[]);
    let script = r#"
        > ZADD z 1 a 2 b 3 c
        (integer) 3
        > ZEXPIRE z 1000 MEMBERS 2 a x
        1) (integer) 1
        2) (integer) -2
        > ZPEXPIRE z 1000000 NX MEMBERS 2 a b
        1) (integer) 0
        2) (integer) 1
        > ZEXPIREAT z 4000000000 GT MEMBERS 1 a
        1) (integer) 1
        > ZPEXPIREAT z 4000000001000 LT MEMBERS 1 a
        1) (integer) 0
        > ZPEXPIREAT z 4000000001000 XX MEMBERS 2 a c
        1) (integer) 1
        2) (integer) 0
        > ZEXPIRETIME z MEMBERS 3 a c x
        1) (integer) 4000000001
        2) (integer) -1
        3) (integer) -2
        > ZPEXPIRETIME z MEMBERS 1 a
        1) (integer) 4000000001000
        > ZPERSIST z MEMBERS 3 a c x
        1) (integer) 1
        2) (integer) -1
        3) (integer) -2
        > ZTTL z MEMBERS 1 a
        1) (integer) -1
        > ZPTTL z MEMBERS 1 x
        1) (integer) -2
        > PEXPIREMEMBERAT z a 4000000000000
        (integer) 1
        > ZPEXPIRETIME z MEMBERS 1 a
        1) (integer) 4000000000000
        > ZEXPIRE z 0 MEMBERS 1 b
        1) (integer) 2
        > ZRANGE z 0 -1
        1) "a"
        2) "c"
        > ZCOLLECT z
        OK
    "#;
    for protocol in ["2", "3"] {
        afresh(&server, protocol, script);
    }
    // What nobody asks for goes by itself, and its key with it.
    let mut client = server.client();
    client.call(&["DEL", "z"]);
    client.call(&["ZADD", "z", "1", "a"]);
    client.call(&["ZPEXPIRE", "z", "1", "MEMBERS", "1", "a"]);
    eventually("an empty world", || client.call(&["DBSIZE"]) == Value::Integer(0));
}

#[test]
fn a_count_that_is_none_is_refused_where_members_expire() {
    let server = Server::start(&[]);
    // From here on commands about sorted sets look for members whose time is over.
    afresh(
        &server,
        "2",
        "
        > ZADD z:2 1 a
        (integer) 1
        > ZEXPIRE z:2 1000 MEMBERS 1 a
        1) (integer) 1
        > ZDIFFSTORE z:2 z:2 3 z:1
        (error) ERR value is not an integer or out of range
        > ZINTERSTORE 2 p:3 z:2 x:1
        (error) ERR value is not an integer or out of range
        > ZUNION 9 z:2
        (error) ERR syntax error
        > ZMPOP x z:2 MIN
        (error) ERR numkeys should be greater than 0
        > PING
        PONG
        ",
    );
}
