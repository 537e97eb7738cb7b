//! Scripts over the sorted set commands: every option, error and edge, what is journalled, and
//! which events there are.

use keyspace::EmptyReply;

use crate::testing::{START, Session, check};

/// Requests with the journal and the events each of them leaves.
#[track_caller]
fn check_effects(session: &mut Session, table: &[(&str, &str)]) {
    for (request, expected) in table {
        session.call(request);
        let effects = format!("{} / {}", session.journal().join("; "), session.events().join(", "));
        assert_eq!(effects.trim(), *expected, "{request}");
    }
}

#[test]
fn zadd_adds_and_updates() {
    check(
        r#"
        ZADD z 1 a 2 b
        ZADD z 1 a 3 b 4 c
        ZADD z CH 1 a 4 b 5 c
        ZADD z NX 9 a 6 d
        ZADD z XX 9 a 6 e
        ZADD z XX CH 10 a 6 e
        ZADD z GT CH 1 a 20 b
        ZADD z LT CH 1 a 30 b
        ZADD z GT 1 f
        ZADD z LT 1 g
        ZADD z XX GT CH 2 a 1 h
        ZADD z INCR 5 a
        ZADD z INCR 5 i
        ZADD z NX INCR 5 i
        ZADD z XX INCR 5 j
        ZADD z GT INCR -1 i
        ZADD z LT INCR -1 i
        ZADD z CH 7 k 8 k
        ZADD z inf l -inf m +inf n
        ZADD z 1e3 o .5 p
        ZRANGE z 0 -1 WITHSCORES
        ZADD none XX 1 a
        ZADD none XX INCR 1 a
        EXISTS none
        "#,
        r#"
        :2
        :1
        :2
        :1
        :0
        :1
        :1
        :1
        :1
        :1
        :1
        "7"
        "5"
        nil
        nil
        nil
        "4"
        :2
        :3
        :2
        ["m" "-inf" "p" "0.5" "f" "1" "g" "1" "i" "4" "c" "5" "d" "6" "a" "7" "k" "8" "b" "20" \
        "o" "1000" "l" "inf" "n" "inf"]
        :0
        nil
        :0
        "#,
    );
}

#[test]
fn zadd_refuses() {
    check(
        r#"
        SET s x
        ZADD z 1 a
        ZADD z NX XX 1 a
        ZADD z NX GT 1 a
        ZADD z NX LT 1 a
        ZADD z GT LT 1 a
        ZADD z INCR 1 a 2 b
        ZADD z 1 a 2
        ZADD z NX CH
        ZADD z x a
        ZADD z 1 a nan b
        ZADD z 1e400 a
        ZADD s x a
        ZADD s 1 a
        ZADD z
        ZADD i inf a
        ZINCRBY i -inf a
        ZADD i INCR -inf a
        ZINCRBY i x a
        ZINCRBY i nan a
        ZINCRBY s 1 a
        ZINCRBY z 2.5 a
        ZINCRBY z -1 new
        ZINCRBY z 0 new
        "#,
        r#"
        +OK
        :1
        -ERR XX and NX options at the same time are not compatible
        -ERR GT, LT, and/or NX options at the same time are not compatible
        -ERR GT, LT, and/or NX options at the same time are not compatible
        -ERR GT, LT, and/or NX options at the same time are not compatible
        -ERR INCR option supports a single increment-element pair
        -ERR syntax error
        -ERR syntax error
        -ERR value is not a valid float
        -ERR value is not a valid float
        -ERR value is not a valid float
        -ERR value is not a valid float
        -WRONGTYPE Operation against a key holding the wrong kind of value
        -ERR wrong number of arguments for 'zadd' command
        :1
        -ERR resulting score is not a number (NaN)
        -ERR resulting score is not a number (NaN)
        -ERR value is not a valid float
        -ERR value is not a valid float
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "3.5"
        "-1"
        "-1"
        "#,
    );
}

#[test]
fn members_are_looked_up() {
    let requests = r#"
        ZADD z 1 a 2 b 3 c
        SET s x
        ZSCORE z b
        ZSCORE z x
        ZSCORE none x
        ZSCORE s x
        ZMSCORE z a x c
        ZMSCORE none a
        ZMSCORE s a
        ZRANK z a
        ZRANK z x
        ZRANK none x
        ZRANK z c WITHSCORE
        ZRANK z x WITHSCORE
        ZRANK z a FOO
        ZRANK z a WITHSCORE x
        ZREVRANK z a withscore
        ZREVRANK z c
        ZREVRANK z c WITHSCORE x
        ZCARD z
        ZCARD none
        ZCARD s
        "#;
    check(
        requests,
        r#"
        :3
        +OK
        "2"
        nil
        nil
        -WRONGTYPE Operation against a key holding the wrong kind of value
        ["1" nil "3"]
        [nil]
        -WRONGTYPE Operation against a key holding the wrong kind of value
        :0
        nil
        nil
        [:2 "3"]
        nil-array
        -ERR syntax error
        -ERR wrong number of arguments for 'zrank' command
        [:2 "1"]
        :0
        -ERR wrong number of arguments for 'zrevrank' command
        :3
        :0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
    let mut third = Session::new().resp3();
    third.call("ZADD z 1 a 2.5 b");
    third.check(
        "ZSCORE z b\nZSCORE z x\nZMSCORE z a x\nZRANK z b WITHSCORE\nZINCRBY z 1 b\n\
         ZADD z INCR 1 b",
        ",2.5\nnil\n[,1 nil]\n[:1 ,2.5]\n,3.5\n,4.5",
    );
}

#[test]
fn parts_are_counted() {
    check(
        r#"
        ZADD z 1 a 2 b 3 c
        ZCOUNT z -inf +inf
        ZCOUNT z (1 3
        ZCOUNT z 1 (3
        ZCOUNT z 3 1
        ZCOUNT z "" 9
        ZCOUNT z ( 1e400
        ZCOUNT z nan 1
        ZCOUNT z " 1" 2
        ZCOUNT z 1 "2 "
        ZCOUNT none 1 2
        ZADD l 0 a 0 b 0 c
        ZLEXCOUNT l - +
        ZLEXCOUNT l [b +
        ZLEXCOUNT l (b +
        ZLEXCOUNT l - (b
        ZLEXCOUNT l + -
        ZLEXCOUNT l + +
        ZLEXCOUNT l b +
        ZLEXCOUNT l -a +
        "#,
        r#"
        :3
        :3
        :2
        :2
        :0
        :3
        :3
        -ERR min or max is not a float
        -ERR min or max is not a float
        -ERR min or max is not a float
        :0
        :3
        :3
        :2
        :1
        :1
        :0
        :0
        -ERR min or max not valid string range item
        -ERR min or max not valid string range item
        "#,
    );
}

#[test]
fn ranges_are_read() {
    check(RANGES, RANGES_REPLIED);
    let mut third = Session::new().resp3();
    third.call("ZADD z 1 a 2.5 b");
    third.check(
        "ZRANGE z 0 -1 WITHSCORES\nZRANGE z 0 -1\nZREVRANGEBYSCORE z 9 0 WITHSCORES",
        "[[\"a\" ,1] [\"b\" ,2.5]]\n[\"a\" \"b\"]\n[[\"b\" ,2.5] [\"a\" ,1]]",
    );
}

const RANGES: &str = r#"
        ZADD z 1 a 2 b 3 c
        SET s x
        ZRANGE z 0 -1
        ZRANGE z -2 -1 WITHSCORES
        ZRANGE z 0 0 REV
        ZRANGE z 5 9
        ZRANGE z -9 9223372036854775807
        ZRANGE z -9223372036854775808 -9223372036854775808
        ZRANGE z 2 1
        ZRANGE z (1 3 BYSCORE WITHSCORES
        ZRANGE z 3 (1 BYSCORE REV
        ZRANGE z -inf inf BYSCORE LIMIT 1 1
        ZRANGE z +inf -inf BYSCORE REV LIMIT 1 -1
        ZRANGE z -inf inf BYSCORE LIMIT -1 1
        ZRANGE z [a (c BYLEX
        ZRANGE z + - BYLEX REV LIMIT 0 2
        ZRANGE z 0 -1 LIMIT 0 -1
        ZRANGE z 0 -1 LIMIT 0 1
        ZRANGE z 0 -1 LIMIT 0
        ZRANGE z 0 -1 LIMIT 0 x
        ZRANGE z - + BYLEX WITHSCORES
        ZRANGE z 0 -1 REV REV
        ZRANGE z 0 1 BYSCORE BYLEX
        ZRANGE z x 1
        ZRANGE none x 1 BYSCORE
        ZRANGE none x 1 BYLEX
        ZRANGE none 0 -1
        ZRANGE s 0 -1
        ZREVRANGE z 0 1 WITHSCORES
        ZREVRANGE z 0 1 REV
        ZREVRANGE z 0 1 LIMIT 0 1
        ZRANGEBYSCORE z (1 +inf WITHSCORES LIMIT 0 1
        ZRANGEBYSCORE z 1 2 BYLEX
        ZREVRANGEBYSCORE z 3 2
        ZRANGEBYLEX z - [b
        ZRANGEBYLEX z - + WITHSCORES
        ZREVRANGEBYLEX z + (a LIMIT 1 5
        "#;

const RANGES_REPLIED: &str = r#"
        :3
        +OK
        ["a" "b" "c"]
        ["b" "2" "c" "3"]
        ["c"]
        []
        ["a" "b" "c"]
        []
        []
        ["b" "2" "c" "3"]
        ["c" "b"]
        ["b"]
        ["b" "a"]
        []
        ["a" "b"]
        ["c" "b"]
        ["a" "b" "c"]
        -ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
        -ERR syntax error
        -ERR value is not an integer or out of range
        -ERR syntax error, WITHSCORES not supported in combination with BYLEX
        -ERR syntax error
        -ERR syntax error
        -ERR value is not an integer or out of range
        -ERR min or max is not a float
        -ERR min or max not valid string range item
        []
        -WRONGTYPE Operation against a key holding the wrong kind of value
        ["c" "3" "b" "2"]
        -ERR syntax error
        -ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
        ["b" "2"]
        -ERR syntax error
        ["c" "b"]
        ["a" "b"]
        -ERR syntax error, WITHSCORES not supported in combination with BYLEX
        ["b"]
        "#;

#[test]
fn ranges_are_stored() {
    check(
        r#"
        ZADD z 1 a 2 b 3 c
        ZRANGESTORE d z 0 1 REV
        ZRANGE d 0 -1 WITHSCORES
        ZRANGESTORE d z 2 +inf BYSCORE LIMIT 1 1
        ZRANGE d 0 -1
        ZRANGESTORE d z + [b BYLEX REV
        ZRANGE d 0 -1
        ZRANGESTORE z z 1 1
        ZRANGE z 0 -1
        ZRANGESTORE d none 0 -1
        EXISTS d
        ZRANGESTORE d z 0 -1 WITHSCORES
        SET s x
        ZRANGESTORE d s 0 -1
        ZRANGESTORE s z 0 -1
        TYPE s
        "#,
        r#"
        :3
        :2
        ["b" "2" "c" "3"]
        :1
        ["c"]
        :2
        ["b" "c"]
        :1
        ["b"]
        :0
        :0
        -ERR syntax error
        +OK
        -WRONGTYPE Operation against a key holding the wrong kind of value
        :1
        +zset
        "#,
    );
}

#[test]
fn members_are_removed() {
    check(
        r#"
        ZADD z 1 a 2 b 3 c 4 d 5 e 6 f
        SET s x
        ZREM z a x
        ZREM none a
        ZREM s a
        ZREMRANGEBYRANK z 0 0
        ZREMRANGEBYRANK z a 0
        ZREMRANGEBYRANK s 0 0
        ZREMRANGEBYSCORE z (3 4
        ZREMRANGEBYSCORE z a 4
        ZREMRANGEBYLEX z [e +
        ZREMRANGEBYLEX z a +
        ZRANGE z 0 -1
        ZREMRANGEBYRANK z 5 9
        ZREM z c
        EXISTS z
        ZREMRANGEBYSCORE none 0 1
        "#,
        r#"
        :6
        +OK
        :1
        :0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        :1
        -ERR value is not an integer or out of range
        -WRONGTYPE Operation against a key holding the wrong kind of value
        :1
        -ERR min or max is not a float
        :2
        -ERR min or max not valid string range item
        ["c"]
        :0
        :1
        :0
        :0
        "#,
    );
}

#[test]
fn members_are_popped() {
    check(
        r#"
        ZADD z 1 a 2 b 3 c 4 d 5 e 6 f
        SET s x
        ZPOPMIN z
        ZPOPMAX z 2
        ZPOPMIN z 0
        ZPOPMIN none
        ZPOPMIN none 3
        ZPOPMIN z -1
        ZPOPMIN z x
        ZPOPMIN z 1 2
        ZPOPMIN s 0
        ZMPOP 2 none z MIN
        ZMPOP 1 z MAX COUNT 9
        EXISTS z
        ZMPOP 1 z MAX
        ZMPOP 0 z MIN
        ZMPOP x z MIN
        ZMPOP 2 z MIN
        ZMPOP 9223372036854775807 z MIN
        ZMPOP 1 z FOO
        ZMPOP 1 z MIN COUNT
        ZMPOP 1 z MIN COUNT 0
        ZMPOP 1 z MIN COUNT 1 COUNT 1
        ZMPOP 1 s MIN
        "#,
        r#"
        :6
        +OK
        ["a" "1"]
        ["f" "6" "e" "5"]
        []
        []
        []
        -ERR value is out of range, must be positive
        -ERR value is out of range, must be positive
        -ERR syntax error
        -WRONGTYPE Operation against a key holding the wrong kind of value
        ["z" [["b" "2"]]]
        ["z" [["d" "4"] ["c" "3"]]]
        :0
        nil-array
        -ERR numkeys should be greater than 0
        -ERR numkeys should be greater than 0
        -ERR syntax error
        -ERR syntax error
        -ERR syntax error
        -ERR syntax error
        -ERR count should be greater than 0
        -ERR syntax error
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
    let mut third = Session::new().resp3();
    third.call("ZADD z 1 a 2 b 3 c 4 d 5 e");
    third.check(
        "ZPOPMIN z\nZPOPMIN z 1\nZPOPMAX none 1\nZMPOP 1 z MAX\nBZPOPMIN z 0\nBZMPOP 0 1 z MIN",
        r#"
        ["a" ,1]
        [["b" ,2]]
        []
        ["z" [["e" ,5]]]
        ["z" "c" ,3]
        ["z" [["d" ,4]]]
        "#,
    );
}

#[test]
fn pops_wait() {
    let mut session = Session::new();
    session.check(
        r#"
        ZADD z 1 a 2 b
        SET s x
        BZPOPMIN none z 0
        BZPOPMAX z 0.5
        BZPOPMIN none s 0
        BZPOPMIN none x
        BZPOPMIN none -1
        BZPOPMIN none 1e400
        BZMPOP x 1 none FOO
        BZMPOP x 1 none MIN
        BZMPOP 0 0 none MIN
        BZMPOP 0 1 s MIN
        BZMPOP 1.5 2 none other MAX COUNT 3
        "#,
        r#"
        :2
        +OK
        ["z" "a" "1"]
        ["z" "b" "2"]
        -WRONGTYPE Operation against a key holding the wrong kind of value
        -ERR timeout is not a float or out of range
        -ERR timeout is negative
        -ERR timeout is out of range
        -ERR syntax error
        -ERR timeout is not a float or out of range
        -ERR numkeys should be greater than 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        +waits for 2 keys
        "#,
    );
    let wait = session.waits().expect("nothing was there");
    assert_eq!(wait.deadline, Some(START + 1500));
    assert_eq!(wait.on_timeout, EmptyReply::NullArray);
    let request = wait.awaited[1].request.join(&b' ');
    assert_eq!(request, b"BZMPOP 0 1 other MAX COUNT 3");
    assert_eq!(session.call("BZPOPMAX none other 0"), "+waits for 2 keys");
    let wait = session.waits().expect("nothing was there");
    assert_eq!((wait.deadline, &*wait.awaited[0].key), (None, &b"none"[..]));
    assert_eq!(wait.awaited[0].request.join(&b' '), b"BZPOPMAX none 0");
}

#[test]
fn members_come_by_chance() {
    let mut session = Session::new();
    session.check(
        r#"
        ZADD z 1 a 2 b 3 c
        ZRANDMEMBER none
        ZRANDMEMBER none 3
        ZRANDMEMBER z 0
        ZRANDMEMBER z x
        ZRANDMEMBER z 1 FOO
        ZRANDMEMBER z 1 WITHSCORES x
        ZRANDMEMBER z -9223372036854775808
        ZRANDMEMBER z 9223372036854775807 WITHSCORES
        ZRANDMEMBER z -9223372036854775807
        "#,
        r#"
        :3
        nil
        []
        []
        -ERR value is not an integer or out of range
        -ERR syntax error
        -ERR syntax error
        -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        -ERR value is out of range
        -ERR value is out of range
        "#,
    );
    for _ in 0..20 {
        let one = session.call("ZRANDMEMBER z");
        assert!([r#""a""#, r#""b""#, r#""c""#].contains(&&*one), "{one}");
        let all = session.call("ZRANDMEMBER z 9 WITHSCORES");
        let pairs = [r#""a" "1""#, r#""b" "2""#, r#""c" "3""#];
        assert!(pairs.iter().all(|pair| all.contains(pair)), "{all}");
        let two = session.call("ZRANDMEMBER z 2");
        assert_eq!(two.matches('"').count(), 4, "{two}");
        assert_ne!(two[1..4], two[5..8], "{two}");
        let five = session.call("ZRANDMEMBER z -5");
        assert_eq!(five.matches('"').count(), 10, "{five}");
    }
    let mut third = Session::new().resp3();
    third.call("ZADD z 1 a");
    third.check("ZRANDMEMBER z -2 WITHSCORES", r#"[["a" ,1] ["a" ,1]]"#);
}

#[test]
fn members_are_scanned() {
    let mut session = Session::new();
    session.check(
        r#"
        ZADD z 1 a 2.5 b 3 ab
        SET s x
        ZSCAN z 0
        ZSCAN z 0 MATCH a* COUNT 1
        ZSCAN z 0 NOSCORES
        ZSCAN z 0 NOVALUES
        ZSCAN z 0 TYPE zset
        ZSCAN z 0 COUNT 0
        ZSCAN z 0 COUNT x
        ZSCAN z 0 MATCH
        ZSCAN z x
        ZSCAN none 0 COUNT 0
        ZSCAN none x
        ZSCAN s 0 COUNT 0
        "#,
        r#"
        :3
        +OK
        ["0" ["a" "1" "b" "2.5" "ab" "3"]]
        ["0" ["a" "1" "ab" "3"]]
        ["0" ["a" "b" "ab"]]
        -ERR NOVALUES option can only be used in HSCAN
        -ERR syntax error
        -ERR syntax error
        -ERR value is not an integer or out of range
        -ERR syntax error
        -ERR invalid cursor
        ["0" []]
        -ERR invalid cursor
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
    for number in 0..1000 {
        session.call(&format!("ZADD large {number} m{number}"));
    }
    let (mut cursor, mut found, mut calls) = ("0".to_owned(), 0, 0);
    while calls == 0 || cursor != "0" {
        let reply = session.call(&format!("ZSCAN large {cursor} COUNT 50 MATCH m*7"));
        cursor = reply[2..].split('"').next().expect("a cursor").to_owned();
        found += reply.matches("\"m").count();
        calls += 1;
    }
    assert!(found >= 100 && calls > 5, "{found} of 100 in {calls} calls");
}

#[test]
fn sets_are_combined() {
    check(
        r#"
        ZADD x 1 a 2 b 3 c
        ZADD y 10 b 20 c 30 d
        ZADD s 1 c 1 e
        SET t x
        ZUNION 2 x y
        ZUNION 2 x y WITHSCORES
        ZUNION 3 x y s WEIGHTS 1 2 3 AGGREGATE MAX WITHSCORES
        ZUNION 2 x y AGGREGATE MIN WITHSCORES
        ZUNION 2 x y AGGREGATE COUNT WITHSCORES
        ZUNION 2 x y WEIGHTS 2 3 AGGREGATE COUNT WITHSCORES
        ZINTER 2 x y WITHSCORES
        ZINTER 3 x y s WITHSCORES AGGREGATE SUM
        ZINTER 2 x none
        ZDIFF 2 x y WITHSCORES
        ZDIFF 2 x s
        ZDIFF 2 s x WITHSCORES
        ZDIFF 2 none x
        ZINTERCARD 2 x y
        ZINTERCARD 2 x y LIMIT 1
        ZINTERCARD 2 x y LIMIT 0
        ZUNIONSTORE d 2 x y
        ZRANGE d 0 -1 WITHSCORES
        ZINTERSTORE d 2 x y WEIGHTS inf 0 AGGREGATE SUM
        ZRANGE d 0 -1 WITHSCORES
        ZDIFFSTORE x 2 x y
        ZRANGE x 0 -1
        ZDIFFSTORE x 1 none
        EXISTS x
        "#,
        r#"
        :3
        :3
        :2
        +OK
        ["a" "b" "c" "d"]
        ["a" "1" "b" "12" "c" "23" "d" "30"]
        ["a" "1" "e" "3" "b" "20" "c" "40" "d" "60"]
        ["a" "1" "b" "2" "c" "3" "d" "30"]
        ["a" "1" "d" "1" "b" "2" "c" "2"]
        ["a" "2" "d" "3" "b" "5" "c" "5"]
        ["b" "12" "c" "23"]
        ["c" "24"]
        []
        ["a" "1"]
        ["a" "b"]
        ["e" "1"]
        []
        :2
        :1
        :2
        :4
        ["a" "1" "b" "12" "c" "23" "d" "30"]
        :2
        ["b" "inf" "c" "inf"]
        :1
        ["a"]
        :0
        :0
        "#,
    );
}

#[test]
fn combining_refuses() {
    check(
        r#"
        ZADD z 1 a
        SET t x
        ZUNION 0 z
        ZINTER x z
        ZDIFF 2 z
        ZUNION 1 t FOO
        ZUNION 1 z FOO
        ZUNION 1 z WEIGHTS x
        ZUNION 1 z WEIGHTS nan
        ZUNION 1 z WEIGHTS
        ZUNION 1 z WEIGHTS 1 2
        ZUNION 1 z AGGREGATE foo
        ZUNION 1 z AGGREGATE
        ZDIFF 1 z WEIGHTS 1
        ZUNIONSTORE d 1 z WITHSCORES
        ZUNIONSTORE d 0 z
        ZINTERSTORE d -1 z
        ZDIFFSTORE d 9223372036854775808 z
        ZINTERCARD 0 z
        ZINTERCARD 1 z LIMIT -1
        ZINTERCARD 1 z LIMIT x
        ZINTERCARD 1 z LIMIT
        ZINTERCARD 1 z WITHSCORES
        ZINTERCARD 1 t
        "#,
        r#"
        :1
        +OK
        -ERR at least 1 input key is needed for 'zunion' command
        -ERR value is not an integer or out of range
        -ERR syntax error
        -WRONGTYPE Operation against a key holding the wrong kind of value
        -ERR syntax error
        -ERR weight value is not a float
        -ERR weight value is not a float
        -ERR syntax error
        -ERR syntax error
        -ERR syntax error
        -ERR syntax error
        -ERR syntax error
        -ERR syntax error
        -ERR at least 1 input key is needed for 'zunionstore' command
        -ERR at least 1 input key is needed for 'zinterstore' command
        -ERR value is not an integer or out of range
        -ERR at least 1 input key is needed for 'zintercard' command
        -ERR LIMIT can't be negative
        -ERR LIMIT can't be negative
        -ERR syntax error
        -ERR syntax error
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn effects_are_told() {
    let mut session = Session::new();
    check_effects(
        &mut session,
        &[
            ("ZADD z 1 a 2 b", "ZADD z 1 a 2 b / new z, zadd z"),
            ("ZADD z 1 a", "/"),
            ("ZADD z XX 5 none", "/"),
            ("ZADD z 3 b", "ZADD z 3 b / zadd z"),
            ("ZADD z INCR 1 b", "ZADD z INCR 1 b / zincr z"),
            ("ZADD z INCR 0 b", "/"),
            ("ZINCRBY z 1 c", "ZINCRBY z 1 c / zincr z"),
            ("ZREM z x", "/"),
            ("ZREM z c", "ZREM z c / zrem z"),
            ("ZREMRANGEBYSCORE z 9 9", "/"),
            ("ZREMRANGEBYSCORE z 4 4", "ZREMRANGEBYSCORE z 4 4 / zremrangebyscore z"),
            ("ZREMRANGEBYRANK z 0 0", "ZREMRANGEBYRANK z 0 0 / zremrangebyrank z, del z"),
            ("ZADD z 0 a 0 b 0 c 0 d 0 e", "ZADD z 0 a 0 b 0 c 0 d 0 e / new z, zadd z"),
            ("ZREMRANGEBYLEX z - [a", "ZREMRANGEBYLEX z - [a / zremrangebylex z"),
            ("ZPOPMIN z 0", "/"),
            ("ZPOPMAX z", "ZPOPMAX z / zpopmax z"),
            ("BZPOPMIN none z 0", "ZPOPMIN z / zpopmin z"),
            ("ZUNIONSTORE d 1 z", "ZUNIONSTORE d 1 z / new d, zunionstore d"),
            ("ZINTERSTORE d 1 z", "ZINTERSTORE d 1 z / overwritten d, zinterstore d"),
            ("ZRANGESTORE d z 0 -1", "ZRANGESTORE d z 0 -1 / overwritten d, zrangestore d"),
            ("ZDIFFSTORE d 2 z z", "ZDIFFSTORE d 2 z z / del d"),
            ("ZDIFFSTORE d 2 z z", "/"),
            ("SET d x", "SET d x / new d, set d"),
            ("ZDIFFSTORE d 1 z", "ZDIFFSTORE d 1 z / overwritten d, type_changed d, zdiffstore d"),
            ("BZMPOP 0 1 z MAX COUNT 9", "ZPOPMAX z 2 / zpopmax z, del z"),
            ("ZMPOP 1 z MIN", "/"),
        ],
    );
}

#[test]
fn thresholds_name_the_encoding() {
    let mut session = Session::new();
    session.keyspace().settings().containers.sorted_set_entries.set(4);
    session.keyspace().settings().containers.sorted_set_value.set(8);
    session.check(
        r#"
        ZADD z 1 a 2 b 3 c 4 d
        OBJECT ENCODING z
        ZADD z 5 e
        OBJECT ENCODING z
        ZADD v 1 123456789
        OBJECT ENCODING v
        ZRANGESTORE d z 0 1
        OBJECT ENCODING d
        ZUNIONSTORE d 1 z
        OBJECT ENCODING d
        ZADD w 1 a 1 b 1 c 1 d 1 e
        OBJECT ENCODING w
        "#,
        r#"
        :4
        "listpack"
        :1
        "skiplist"
        :1
        "skiplist"
        :2
        "listpack"
        :5
        "skiplist"
        :5
        "skiplist"
        "#,
    );
}

#[test]
fn long_work_goes_elsewhere() {
    let mut session = Session::new();
    for hundred in 0..100 {
        let pair = |number: u32| format!("{} m{number}", f64::from(number) / 2.0);
        let pairs: Vec<_> = (hundred * 100..hundred * 100 + 100).map(pair).collect();
        session.call(&format!("ZADD z {}", pairs.join(" ")));
        assert!(!session.ran_heavy());
    }
    session.check("ZCARD z\nZCOUNT z 100 199.5\nZRANK z m7000", ":10000\n:200\n:7000");
    assert!(!session.ran_heavy());
    session.call("ZRANGE z 0 -1");
    assert!(session.streamed() && !session.ran_heavy());
    for request in
        ["ZUNIONSTORE d 1 z", "ZRANDMEMBER z -10000", "ZSCAN z 0 COUNT 10000", "ZPOPMIN z 5000"]
    {
        session.call(request);
        assert!(session.ran_heavy(), "{request}");
    }
    session.check("ZCARD z\nZRANGE z 0 0\nZCARD d", ":5000\n[\"m5000\"]\n:10000");
}

#[test]
fn members_of_sets_have_the_score_one() {
    let mut session = Session::new();
    session.check(
        r#"
        ZADD z 2 a 5 b
        SADD s a 7
        ZUNION 2 z s WEIGHTS 1 3 WITHSCORES
        ZINTER 2 s z WITHSCORES
        ZDIFF 2 s z WITHSCORES
        ZINTERCARD 2 s z
        ZUNIONSTORE s 1 s
        TYPE s
        "#,
        r#"
        :2
        :2
        ["7" "3" "a" "5" "b" "5"]
        ["a" "3"]
        ["7" "1"]
        :1
        :2
        +zset
        "#,
    );
}
