//! Scripts over unions, intersections and differences of sorted sets and of sets.

use crate::testing::{Session, check};

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

/// Without weight an infinite score is no number: of the smallest input it is 0, of another it adds
/// nothing to the least and the greatest.
#[test]
fn infinite_scores_may_have_no_weight() {
    check(
        r#"
        ZADD x inf a
        ZADD y inf a 1 b
        ZINTER 2 x y WEIGHTS 1 0 WITHSCORES
        ZINTER 2 x y WEIGHTS 0 1 WITHSCORES
        ZINTER 2 x y WEIGHTS 1 0 AGGREGATE MIN WITHSCORES
        ZINTER 2 x y WEIGHTS -1 0 AGGREGATE MAX WITHSCORES
        ZINTER 2 x y WEIGHTS 0 1 AGGREGATE MIN WITHSCORES
        ZUNION 2 x y WEIGHTS 1 0 WITHSCORES
        ZUNION 2 x y WEIGHTS 1 0 AGGREGATE MIN WITHSCORES
        "#,
        r#"
        :1
        :2
        ["a" "0"]
        ["a" "inf"]
        ["a" "inf"]
        ["a" "-inf"]
        ["a" "0"]
        ["b" "0" "a" "inf"]
        ["a" "0" "b" "0"]
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
