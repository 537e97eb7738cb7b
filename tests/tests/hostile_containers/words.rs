//! Requests with words of the wrong kind: keys of another type, cursors that no scan gave, options
//! without their values.

use super::{duel, with};

/// H33: every typed command on a key of every other type.
#[test]
fn h33_keys_of_another_type() {
    let keys = ["string", "list", "set", "hash", "sorted", "stream"];
    for key in keys {
        duel(&with(TYPED, &[key]));
    }
}

/// Commands that want one type or another.
const TYPED: &str = "
    GET ?
    APPEND ? x
    SETBIT ? 1 1
    GETBIT ? 1
    BITCOUNT ?
    BITPOS ? 1
    BITFIELD ? GET u8 0
    BITOP AND into ? string
    PFADD ? x
    PFCOUNT ?
    PFMERGE ? hyperloglog
    LPUSH ? x
    RPUSHX ? x
    LPOP ? 1
    LLEN ?
    LINDEX ? 0
    LINSERT ? BEFORE a b
    LRANGE ? 0 -1
    LREM ? 0 zz
    LSET ? 7 x
    LTRIM ? 0 -1
    LPOS ? zz
    LMOVE ? none LEFT LEFT
    LMOVE none ? LEFT LEFT
    LMPOP 2 none ? LEFT
    BLPOP ? 0.001
    BLMOVE ? none LEFT LEFT 0.001
    SADD ? a
    SREM ? zz
    SISMEMBER ? a
    SMISMEMBER ? a b
    SMEMBERS ?
    SCARD ?
    SRANDMEMBER ? 0
    SPOP ? 0
    SMOVE ? other a
    SMOVE set ? a
    SINTER set ?
    SINTERCARD 2 set ?
    SUNIONSTORE into ? set
    SDIFF ? set
    SSCAN ? 0
    HSET ? f 1
    HSETNX ? f 2
    HGET ? f
    HMGET ? f g
    HGETALL ?
    HDEL ? zz
    HEXISTS ? f
    HINCRBY ? f 0
    HINCRBYFLOAT ? f 0
    HKEYS ?
    HLEN ?
    HSTRLEN ? f
    HRANDFIELD ? 0
    HSCAN ? 0
    HEXPIRE ? 100 FIELDS 1 zz
    HTTL ? FIELDS 1 zz
    HPERSIST ? FIELDS 1 zz
    HGETDEL ? FIELDS 1 zz
    HGETEX ? EX 10 FIELDS 1 zz
    HSETEX ? FXX FIELDS 1 zz 1
    ZADD ? XX 1 zz
    ZCARD ?
    ZCOUNT ? -inf +inf
    ZINCRBY ? 0 a
    ZRANGE ? 0 -1
    ZRANGEBYSCORE ? 0 0
    ZRANGESTORE into ? 0 0
    ZRANK ? a
    ZREM ? zz
    ZREMRANGEBYRANK ? 7 8
    ZSCORE ? a
    ZMSCORE ? a zz
    ZPOPMIN ? 0
    ZMPOP 2 none ? MIN
    BZPOPMIN ? 0.001
    ZRANDMEMBER ? 0
    ZSCAN ? 0
    ZUNION 2 ? sorted
    ZDIFFSTORE into 1 ?
    GEOADD ? XX 1 1 zz
    GEODIST ? a b
    GEOPOS ? a
    GEOHASH ? a
    GEOSEARCH ? FROMLONLAT 0 0 BYRADIUS 1 m
    XADD ? NOMKSTREAM 4-1 f v
    XLEN ?
    XRANGE ? - +
    XREVRANGE ? + - COUNT 1
    XDEL ? 9-9
    XTRIM ? MAXLEN 100
    XREAD STREAMS ? 0
    XSETID ? 9-9
    XGROUP CREATE ? another 0
    XGROUP CREATECONSUMER ? group me
    XGROUP DELCONSUMER ? group me
    XGROUP SETID ? group 0
    XGROUP DESTROY ? another
    XREADGROUP GROUP group c STREAMS ? 0
    XACK ? group 1-1
    XPENDING ? group
    XCLAIM ? group c 0 1-1
    XAUTOCLAIM ? group c 0 0
    XINFO GROUPS ?
    XACKDEL ? group IDS 1 9-9
    GETSET ? x
    GETDEL ?
    GETEX ? PERSIST
    GETRANGE ? 0 0
    SETRANGE ? 0 a
    STRLEN ?
    INCR ?
    DECRBY ? 1
    INCRBYFLOAT ? 1
    MGET ? string
    LCS ? string
    BITFIELD_RO ? GET u8 0
    RPUSH ? x
    LPUSHX ? x
    RPOP ?
    RPOPLPUSH ? none
    BRPOP ? 0.001
    BRPOPLPUSH ? none 0.001
    BLMPOP 0.001 1 ? LEFT
    SINTERSTORE into ? set
    SUNION ? set
    SDIFFSTORE into ? set
    HVALS ?
    HPEXPIRE ? 100000 FIELDS 1 zz
    HPEXPIRETIME ? FIELDS 1 zz
    ZPOPMAX ? 0
    BZPOPMAX ? 0.001
    BZMPOP 0.001 1 ? MAX
    ZLEXCOUNT ? - +
    ZRANGEBYLEX ? - +
    ZREVRANGE ? 0 -1
    ZREVRANGEBYSCORE ? 0 0
    ZREVRANK ? a
    ZREMRANGEBYSCORE ? 7 8
    ZREMRANGEBYLEX ? [zz +
    ZINTER 2 ? sorted
    ZINTERCARD 2 ? sorted
    ZINTERSTORE into 2 ? sorted
    ZUNIONSTORE into 2 ? sorted
    ZDIFF 2 ? sorted
    GEORADIUS ? 0 0 1 m
    GEORADIUSBYMEMBER ? a 1 m
    GEOSEARCHSTORE into ? FROMLONLAT 0 0 BYRADIUS 1 m
    XINFO STREAM ?
    XINFO CONSUMERS ? none
    SORT ? ALPHA
    SORT_RO ? BY nosort
    XDELEX ? IDS 1 9-9
";

/// H34, H41: cursors that no scan gave, and options without their values.
#[test]
fn h34_cursors_from_nowhere() {
    let cursors = with(
        "
        HSCAN hash ?
        SSCAN set ?
        ZSCAN places ?
        HSCAN none ?
        ",
        &["9223372036854775808", "18446744073709551615", "18446744073709551616", "abc", "\"\""],
    );
    let options = with(
        "
        HSCAN hash 0 ?
        SSCAN set 0 ?
        ZSCAN places 0 ?
        ",
        &[
            "COUNT",
            "MATCH",
            "COUNT 0",
            "COUNT -1",
            "COUNT 536870912",
            "COUNT 9223372036854775807",
            "COUNT 9223372036854775808",
            "NOVALUES",
            "TYPE hash",
            "COUNT 1 COUNT",
        ],
    );
    duel(&format!("{cursors}\n{options}"));
}

/// H36: words whose values are missing.
#[test]
fn h36_words_that_are_missing() {
    duel(CUT_SHORT);
}

/// Commands that end too early, or say what goes not together.
const CUT_SHORT: &str = "
    HGETEX hash
    HGETEX hash EX
    HGETEX hash EX 10
    HGETEX hash FIELDS
    HGETEX hash FIELDS 1
    HGETEX hash FIELDS 2 f
    HGETEX hash FIELDS 0 f
    HGETEX hash EX 10 PX 10 FIELDS 1 f
    HGETEX hash PERSIST FIELDS 1
    HSETEX hash
    HSETEX hash FIELDS
    HSETEX hash FIELDS 1
    HSETEX hash FIELDS 1 f
    HSETEX hash FIELDS 2 f v
    HSETEX hash FNX
    HSETEX hash EX FIELDS 1 f v
    HGETDEL hash
    HGETDEL hash FIELDS
    HGETDEL hash FIELDS 1
    HGETDEL hash FIELDS 2 f
    HGETDEL hash FIELDS -1 f
    HEXPIRE hash
    HEXPIRE hash 10
    HEXPIRE hash 10 FIELDS
    HEXPIRE hash 10 FIELDS 1
    HEXPIRE hash 10 FIELDS 2 f
    HEXPIRE hash 10 NX XX FIELDS 1 f
    HTTL hash FIELDS
    HTTL hash FIELDS 1
    SINTERCARD
    SINTERCARD 0
    SINTERCARD 0 set
    SINTERCARD 1
    SINTERCARD 1 set LIMIT
    SINTERCARD 1 set LIMIT -1
    ZADD sorted NX
    ZADD sorted NX XX 1 a
    ZADD sorted GT LT 1 a
    ZADD sorted INCR 1 a 2 b
    ZADD sorted 1
    ZADD sorted 1 a 2
    ZRANGE sorted 0 1 LIMIT
    ZRANGE sorted 0 1 LIMIT 0 1
    ZRANGE sorted 0 1 BYSCORE LIMIT 0
    ZRANGE sorted 0 1 BYSCORE BYLEX
    ZRANGEBYSCORE sorted 0 1 LIMIT
    ZRANGEBYSCORE sorted 0 1 LIMIT 0
    ZRANGEBYLEX sorted - + LIMIT 0
    ZRANGEBYLEX sorted a b
    ZRANDMEMBER sorted 1 WITHSCORES x
    ZUNION 1 sorted WEIGHTS
    ZUNION 1 sorted WEIGHTS 1 2
    ZUNION 1 sorted AGGREGATE
    ZUNION 1 sorted AGGREGATE x
    GEOADD places 1
    GEOADD places NX 1 2
    GEOSEARCH places
    GEOSEARCH places FROMMEMBER
    GEOSEARCH places FROMMEMBER Palermo BYRADIUS
    GEOSEARCH places FROMMEMBER Palermo BYRADIUS 1
    GEOSEARCH places FROMMEMBER Palermo BYBOX 1
    GEOSEARCH places FROMMEMBER Palermo BYRADIUS 1 km COUNT
    GEOSEARCH places FROMLONLAT 1 BYRADIUS 1 km
    GEORADIUS places 1 1 1 km STORE
    XADD stream MAXLEN
    XADD stream MAXLEN 1
    XADD stream MAXLEN ~ 1 LIMIT
    XADD stream * f
    XADD stream * f v g
    XTRIM stream
    XTRIM stream MAXLEN
    XTRIM stream MAXLEN =
    XTRIM stream MAXLEN 10 LIMIT 1
    XREAD
    XREAD COUNT
    XREAD STREAMS
    XREAD STREAMS stream
    XREAD BLOCK
    XREAD COUNT 1 BLOCK STREAMS stream 0
    XREADGROUP GROUP group
    XREADGROUP GROUP group c STREAMS stream
    XRANGE stream - + COUNT
    XPENDING stream group - +
    XCLAIM stream group c
    XCLAIM stream group c 0
    XCLAIM stream group c 0 1-1 IDLE
    XAUTOCLAIM stream group c 0
    XAUTOCLAIM stream group c 0 0 COUNT
    XGROUP
    XGROUP CREATE stream
    XGROUP CREATE stream g
    XACK stream group
    XACKDEL stream group IDS
    XACKDEL stream group IDS 2 1-1
    XDELEX stream IDS 0
    LPOS list
    LPOS list a RANK
    LPOS list a COUNT
    LPOS list a MAXLEN
    LMPOP
    LMPOP 1
    LMPOP 1 list
    LMPOP 1 list LEFT COUNT
    BLMPOP 0 1 list
    ZMPOP 1 sorted
    ZMPOP 1 sorted MIN COUNT
    BZMPOP 0 1 sorted
    LINSERT list BEFORE a
    LINSERT list NEAR a b
    BLPOP list
    BLPOP list x
    BLPOP list -1
    BITFIELD string GET
    BITFIELD string GET u8
    BITFIELD string SET u8 0
    BITPOS string
    BITPOS string 2
    BITCOUNT string 0
    BITOP AND into
    PFDEBUG
    PFDEBUG GETREG
";
