//! Scripts over the sorted set commands: every option, error and edge.

mod combine;
mod effects;
mod range;

use keyspace::{EmptyReply, Wait};

use crate::testing::{START, Session, check};

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
    assert_eq!(wait.at_once, EmptyReply::NullArray);
    let request = |wait: &Wait, nth| wait.awaited.request(nth).collect::<Vec<_>>().join(&b' ');
    assert_eq!(request(wait, 1), b"BZMPOP 0 1 other MAX COUNT 3");
    assert_eq!(session.call("BZPOPMAX none other 0"), "+waits for 2 keys");
    let wait = session.waits().expect("nothing was there");
    assert_eq!((wait.deadline, wait.awaited.key(0)), (None, &b"none"[..]));
    assert_eq!(request(wait, 0), b"BZPOPMAX none 0");
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
fn numbers_are_read_and_written_as_redis_does() {
    let mut session = Session::new();
    session.check(
        r#"
        ZADD z 1e17 a 0.1 b
        ZSCAN z 0
        ZINCRBY z -0 d
        ZREM z d
        ZCOUNT z 0x1 (3
        ZCOUNT z 1 (0x3
        ZRANGE z 0x1 3 BYSCORE
        ZRANDMEMBER none -2147483649 WITHSCORES
        ZRANDMEMBER z -2147483649
        "#,
        r#"
        :2
        ["0" ["b" "0.1" "a" "100000000000000000"]]
        "-0"
        :1
        -ERR min or max is not a float
        -ERR min or max is not a float
        -ERR min or max is not a float
        []
        -ERR value is out of range
        "#,
    );
    session.keyspace().settings().containers.sorted_set_entries.set(1);
    session.check(
        r#"
        ZADD z 3 c
        ZSCAN z 0 MATCH a
        ZSCAN z 0 MATCH b
        ZSCAN z 0 MATCH c
        "#,
        r#"
        :1
        ["0" ["a" "1e+17"]]
        ["0" ["b" "0.10000000000000001"]]
        ["0" ["c" "3"]]
        "#,
    );
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
