//! Commands that programs call and that come between them, drawn from templates.
//! Invariant: their replies follow from the data and have one order.

use base::random::Random;

use crate::differential::Command;

/// A word with `$` is drawn: `a` string, `l`ist, `s`et, `h`ash, `z` sorted set, `x` stream, `b`its,
/// `p` HyperLogLog, any `k`ey; a `v`alue, an `e`lement, an `i`nteger, a small `n`umber, a scor`S`.
const TEMPLATES: &[&str] = &[
    "GET $a",
    "GET $a",
    "GET $k",
    "SET $a $v",
    "SET $a $v",
    "SET $k $v NX",
    "SET $a $v XX GET",
    "SETNX $a $v",
    "GETSET $a $v",
    "GETDEL $a",
    "MGET $a $k $a",
    "MSET $a $v $a $v",
    "MSETNX $a $v $a $v",
    "APPEND $a $v",
    "STRLEN $a",
    "GETRANGE $a $n $n",
    "SETRANGE $a 3 $v",
    "INCR $a",
    "DECR $a",
    "INCRBY $a $i",
    "DECRBY $a $n",
    "INCRBYFLOAT $a $S",
    "LCS $a $a",
    "DEL $k",
    "DEL $a $l",
    "UNLINK $k",
    "EXISTS $k $k",
    "TYPE $k",
    "TOUCH $k $k",
    "RENAME $k $k",
    "RENAMENX $k $k",
    "COPY $k $k",
    "COPY $k $k REPLACE",
    "EXPIREAT $k 4000000000",
    "PEXPIREAT $k 4000000000123",
    "EXPIRETIME $k",
    "PERSIST $k",
    "DBSIZE",
    "PING",
    "PING $v",
    "ECHO $v",
    "SELECT 1",
    "SELECT 0",
    "SETBIT $b $n 1",
    "GETBIT $b $n",
    "BITCOUNT $b",
    "BITPOS $b 1",
    "BITOP XOR $b $b $a",
    "BITFIELD $b SET u8 0 $n INCRBY i5 3 $n",
    "RPUSH $l $v",
    "LPUSH $l $v $e",
    "RPUSHX $l $v",
    "LPOP $l",
    "RPOP $l 2",
    "LLEN $l",
    "LRANGE $l $n $n",
    "LRANGE $l 0 -1",
    "LINDEX $l $n",
    "LSET $l $n $v",
    "LINSERT $l BEFORE $v $v",
    "LREM $l $n $v",
    "LTRIM $l $n $n",
    "LPOS $l $v",
    "LMOVE $l $l LEFT RIGHT",
    "RPOPLPUSH $l $l",
    "LMPOP 2 $l $l LEFT",
    "SADD $s $e $e",
    "SREM $s $e",
    "SCARD $s",
    "SISMEMBER $s $e",
    "SMISMEMBER $s $e $e",
    "SMOVE $s $s $e",
    "SINTERCARD 2 $s $s",
    "SINTERSTORE $s $s $s",
    "SUNIONSTORE $s $s $s",
    "SDIFFSTORE $s $s $s",
    "HSET $h $e $v",
    "HSET $h $e $v $e $v",
    "HSETNX $h $e $v",
    "HGET $h $e",
    "HMGET $h $e $e",
    "HDEL $h $e",
    "HEXISTS $h $e",
    "HLEN $h",
    "HSTRLEN $h $e",
    "HINCRBY $h $e $i",
    "HINCRBYFLOAT $h $e $S",
    "ZADD $z $S $e",
    "ZADD $z $S $e $S $e",
    "ZADD $z GT CH $S $e",
    "ZADD $z INCR $S $e",
    "ZINCRBY $z $S $e",
    "ZREM $z $e",
    "ZCARD $z",
    "ZSCORE $z $e",
    "ZMSCORE $z $e $e",
    "ZRANK $z $e",
    "ZREVRANK $z $e",
    "ZRANGE $z $n $n",
    "ZRANGE $z 0 -1 WITHSCORES",
    "ZRANGE $z -inf +inf BYSCORE LIMIT 0 2",
    "ZRANGEBYSCORE $z $S +inf",
    "ZCOUNT $z -inf $S",
    "ZPOPMIN $z",
    "ZPOPMAX $z 2",
    "ZMPOP 1 $z MIN",
    "ZREMRANGEBYRANK $z $n $n",
    "ZUNIONSTORE $z 2 $z $z",
    "ZINTER 2 $z $s WITHSCORES",
    "ZRANGESTORE $z $z 0 1",
    "XADD $x 5-$n f $v",
    "XADD $x 6-* f $v g $e",
    "XLEN $x",
    "XRANGE $x - +",
    "XREVRANGE $x + - COUNT 1",
    "XDEL $x 5-$n",
    "XTRIM $x MAXLEN 2",
    "XREAD COUNT 1 STREAMS $x 0",
    "PFADD $p $e $v",
    "PFCOUNT $p $p",
    "PFMERGE $p $p",
    "TYPE nosuch",
    "PUBLISH $e $v",
    "FLUSHDB",
];

/// What only programs call: wrong in ways that have the same words everywhere.
const WRONG: &[&str] = &[
    "SET $a $v WRONG",
    "INCR $l",
    "INCRBY $a $v",
    "LPUSH $a $v",
    "ZADD $z $v $e",
    "XADD $x 0-0 f $v",
    "LSET $l 100 $v",
    "RENAME nosuch $k",
    "SELECT 100",
];

/// What Valkey refuses in words of its own, whose length a program could tell.
const REDIS_ONLY: &[&str] = &[
    "NOSUCH $v",
    "GET",
    "GET $a $a",
    "SET $a",
    "HSET $h $e",
    "SUBSCRIBE $e",
    "MULTI",
    "WATCH $a",
    "EVAL $v 0",
];

/// What Redis 7.0 did not let scripts call.
const RECENT_ONLY: &[&str] = &[
    "BLPOP $l 1",
    "BRPOP $l $l 0",
    "BLMOVE $l $l LEFT LEFT 0",
    "BZPOPMIN $z 0.1",
    "BLMPOP 0 1 $l LEFT",
];

/// Commands whose replies have no order of their own.
const UNORDERED: &[&str] = &[
    "SMEMBERS $s",
    "SINTER $s $s",
    "SUNION $s $s",
    "SDIFF $s $s",
    "HKEYS $h",
    "HVALS $h",
    "KEYS *",
];

const STRINGS: &[&[u8]] = &[b"a", b"b", b"c", b"key:1"];
const ELEMENTS: &[&[u8]] = &[b"1", b"2", b"3", b"a", b"b", b"elem", b""];
const VALUES: &[&[u8]] = &[
    b"",
    b"a",
    b"hello",
    b"1",
    b"2",
    b"-3",
    b"10",
    b"1.5",
    b"3.0",
    b"1e3",
    b" 7 ",
    b"nan",
    b"inf",
    b"9007199254740993",
    b"9223372036854775807",
    b"{\"a\":[1,2.5,null,true,\"\\u00e9\"]}",
    b"[1,2,",
    b"x\x00\xff\r\n",
    b"%d $s ^[a-z]+",
    b"a text that is longer than forty-four bytes, so not embstr",
];
const INTEGERS: &[&[u8]] =
    &[b"1", b"-1", b"7", b"100", b"9007199254740992", b"9223372036854775807", b"1.5", b"x"];
const NUMBERS: &[&[u8]] = &[b"0", b"1", b"2", b"3", b"5", b"-1", b"-2"];
const SCORES: &[&[u8]] = &[b"0", b"1", b"2", b"-1", b"1.5", b"3", b"250", b"inf", b"-inf", b"x"];

/// A command.
pub(super) fn draw(random: &mut Random) -> Command {
    fill(random, TEMPLATES)
}

/// A command for a program, which runs on Redis 7.0 or on Valkey.
pub(super) fn draw_called(random: &mut Random, is_recent: bool) -> Command {
    let templates = match random.below(24) {
        0 => WRONG,
        1 if is_recent => RECENT_ONLY,
        1 => REDIS_ONLY,
        _ => TEMPLATES,
    };
    fill(random, templates)
}

/// A command that answers a list whose order is nobody's.
pub(super) fn draw_unordered(random: &mut Random) -> Command {
    fill(random, UNORDERED)
}

/// A key of any type.
pub(super) fn key(random: &mut Random) -> Vec<u8> {
    let kinds = ["$a", "$a", "$l", "$s", "$h", "$z", "$x", "$b", "$p"];
    let kind = kinds[random.below(kinds.len() as u64) as usize];
    word(random, kind)
}

/// A value.
pub(super) fn value(random: &mut Random) -> Vec<u8> {
    pick(random, VALUES)
}

fn fill(random: &mut Random, templates: &[&str]) -> Command {
    let template = templates[random.below(templates.len() as u64) as usize];
    template.split(' ').map(|part| word(random, part)).collect()
}

fn word(random: &mut Random, part: &str) -> Vec<u8> {
    let Some((before, kind)) = part.split_once('$') else { return part.as_bytes().to_vec() };
    let drawn = match kind {
        "a" => pick(random, STRINGS),
        "l" => pick(random, &[b"l:1", b"l:2"]),
        "s" => pick(random, &[b"s:1", b"s:2"]),
        "h" => pick(random, &[b"h:1", b"h:2"]),
        "z" => pick(random, &[b"z:1", b"z:2"]),
        "x" => pick(random, &[b"x:1", b"x:2"]),
        "b" => pick(random, &[b"b:1", b"b:2"]),
        "p" => pick(random, &[b"p:1", b"p:2"]),
        "k" => key(random),
        "v" => value(random),
        "e" => pick(random, ELEMENTS),
        "i" => pick(random, INTEGERS),
        "n" => pick(random, NUMBERS),
        "S" => pick(random, SCORES),
        other => unreachable!("no template has ${other}"),
    };
    [before.as_bytes(), &drawn].concat()
}

fn pick(random: &mut Random, values: &[&[u8]]) -> Vec<u8> {
    values[random.below(values.len() as u64) as usize].to_vec()
}
