//! Scripts over parts of sorted sets: counted, read in either order, and stored.

use crate::testing::{Session, check};

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
