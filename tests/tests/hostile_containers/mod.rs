//! Hostile requests to lists, sets, hashes, sorted sets, places, streams, bits and HyperLogLogs, by
//! the rows of the corpus: one reply each, and that of Redis 8.2 where it dares to give one.
//! Invariant: whatever one client sends, the others are answered and memory stays bounded.

mod words;

use proto::value::Value;
use tests::{Duel, Oracle, Server, check};

const MEGABYTE: u64 = 1 << 20;

/// One key of each type, with little in it.
const KEYS: &str = "
    FLUSHALL
    SET string abc
    RPUSH list a b c
    SADD set a
    HSET hash f 1
    ZADD sorted 1 a 2 b
    GEOADD places 13.361389 38.115556 Palermo
    XADD stream 1-1 f v
    XADD stream 2-1 f v
    XADD stream 3-1 f v
    XGROUP CREATE stream group 0
    PFADD hyperloglog a b c
";

/// Sends the lines to Apus and to Redis 8.2, in both protocols, with the keys above.
#[track_caller]
fn duel(lines: &str) {
    let [ours, theirs] = Oracle::Redis82.beside(&[]);
    let before = ours.resident();
    for connect in [Server::client, Server::client3] {
        let mut duel = Duel::new(connect(&ours), connect(&theirs), 0);
        duel.run_lines(KEYS);
        duel.run_lines(lines);
        duel.run_lines("PING");
    }
    let grown = ours.resident().saturating_sub(before);
    assert!(grown <= 32 * MEGABYTE, "grown by {} MB", grown / MEGABYTE);
}

/// The lines with each of the words in place of `?`.
fn with(lines: &str, words: &[&str]) -> String {
    words.iter().map(|word| lines.replace('?', word)).collect::<Vec<_>>().join("\n")
}

/// H22: pending entries whose entries are gone, claimed with any count.
#[test]
fn h22_claims_of_deleted_entries() {
    let claims = with(
        "
        XAUTOCLAIM stream group other 0 0 COUNT ?
        XAUTOCLAIM stream group other 0 0-0 COUNT ? JUSTID
        XAUTOCLAIM stream group other ? 0 COUNT 1
        XCLAIM stream group other ? 1-1
        XCLAIM stream group other 0 1-1 IDLE ?
        XCLAIM stream group other 0 1-1 TIME ?
        XCLAIM stream group other 0 1-1 RETRYCOUNT ? FORCE JUSTID
        ",
        &["0", "-1", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "x"],
    );
    duel(&format!(
        "
        XREADGROUP GROUP group consumer STREAMS stream >
        XDEL stream 1-1 2-1
        {claims}
        XAUTOCLAIM stream group other 0 0 COUNT 10
        XPENDING stream group
        XLEN stream
        "
    ));
}

/// H23: counts for which an element would be repeated for ever.
#[test]
fn h23_random_elements_without_end() {
    duel(
        "
        HRANDFIELD hash -4611686018427387905 WITHVALUES
        ZRANDMEMBER places -4611686018427387905 WITHSCORES
    ",
    );
    duel(&with(
        "
        SRANDMEMBER set ?
        HRANDFIELD hash ?
        HRANDFIELD hash ? WITHVALUES
        ZRANDMEMBER places ?
        ZRANDMEMBER places ? WITHSCORES
        SPOP none ?
        ZPOPMIN none ?
        LPOP none ?
        ",
        &[
            "-9223372036854775808",
            "-9223372036854775809",
            "9223372036854775807",
            "9223372036854775808",
            "2147483648",
            "0",
            "-3",
            "x",
        ],
    ));
}

/// H23: what is drawn from one member again and again is refused before it fills the memory.
#[test]
fn h23_one_member_gives_no_gigabytes() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let long = "m".repeat(2000);
    client.call(&["SADD", "set", &long]);
    client.call(&["HSET", "hash", &long, "v"]);
    client.call(&["ZADD", "sorted", "1", &long]);
    for (name, key) in [("SRANDMEMBER", "set"), ("HRANDFIELD", "hash"), ("ZRANDMEMBER", "sorted")] {
        let script = format!("return redis.call('{name}', KEYS[1], -50000000)");
        for words in [&[name, key, "-50000000"][..], &["EVAL", &script, "1", key]] {
            let reply = client.call(words);
            let refused = b"ERR value is out of range, the reply would exceed 512 MB";
            let is_refused = matches!(&reply, Value::Error(text) if text.starts_with(refused));
            assert!(is_refused, "{words:?}");
        }
    }
    check(&mut client, "> PING\nPONG");
    assert!(server.peak() < 2048 * MEGABYTE, "{} MB", server.peak() / MEGABYTE);
}

/// H24, H44: places of bits at and beyond the limits.
#[test]
fn h24_bits_at_the_limits() {
    let places = with(
        "
        GETBIT string ?
        GETBIT none ?
        BITCOUNT string ? -1
        BITCOUNT string 0 ? BIT
        BITCOUNT none ? ?
        BITPOS string 1 ?
        BITPOS string 0 ? -1 BIT
        BITPOS string 0 0 ?
        BITPOS none 0 ? ?
        BITFIELD_RO string GET u8 ?
        BITFIELD string GET i64 ?
        BITFIELD none GET u63 ?
        ",
        &[
            "0",
            "-1",
            "23",
            "24",
            "4294967295",
            "4294967296",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "x",
        ],
    );
    duel(&format!(
        "
        {places}
        BITFIELD string GET u8 #0 GET u8 #2 GET u8 #3 GET u8 #536870911
        BITFIELD string GET u8 #536870912
        BITFIELD string GET u8 #-1
        BITFIELD string GET u8 #x
        SETBIT string 4294967296 1
        SETBIT string -1 1
        SETBIT string 9223372036854775807 1
        SETBIT string 1 2
        BITFIELD string SET u8 #536870912 1
        BITFIELD string SET i64 #9223372036854775807 1
        BITFIELD string GET u64 0
        BITFIELD string GET i65 0
        BITFIELD string GET u0 0
        BITFIELD string GET i0 0
        BITFIELD string GET x8 0
        BITFIELD string OVERFLOW
        BITFIELD string OVERFLOW x
        BITFIELD b SET i64 0 9223372036854775807 INCRBY i64 0 1
        BITFIELD b SET i64 0 9223372036854775807 OVERFLOW SAT INCRBY i64 0 9223372036854775807
        BITFIELD b OVERFLOW FAIL INCRBY i64 0 1
        BITFIELD b SET i64 0 -9223372036854775808 OVERFLOW SAT INCRBY i64 0 -9223372036854775808
        BITFIELD b OVERFLOW FAIL INCRBY i64 0 -1
        BITFIELD b OVERFLOW WRAP INCRBY i64 0 -1
        BITFIELD b SET u63 0 9223372036854775807 OVERFLOW SAT INCRBY u63 0 1
        BITFIELD b OVERFLOW FAIL INCRBY u63 0 1 OVERFLOW WRAP INCRBY u63 0 1
        BITFIELD b SET u8 0 256 SET u8 0 -1 OVERFLOW SAT SET u8 0 -1 SET i8 0 128
        BITOP NOT into string string
        BITOP NOT into none
        BITOP DIFF into string
        STRLEN string
        "
    ));
}

/// H25: sums that are no numbers any more.
#[test]
fn h25_numbers_that_overflow() {
    duel(&with(
        "
        HINCRBYFLOAT hash f ?
        HINCRBY hash f ?
        ZINCRBY sorted ? a
        ZADD sorted INCR ? b
        ZADD sorted ? c
        INCRBYFLOAT float ?
        HSET hash f ?
        HINCRBYFLOAT hash f 1
        HINCRBY hash f 1
        HSET hash f 1
        ZADD sorted 1 a 2 b
        ",
        &[
            "inf",
            "-inf",
            "nan",
            "1e308",
            "1.7976931348623157e308",
            "-1.7976931348623157e309",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "1e-400",
            "0x10",
            "1e5000",
            "\"\"",
            "\" 1\"",
            "\"1\\x00\"",
        ],
    ));
}

/// H26: the same key and the same element again and again.
#[test]
fn h26_the_same_many_times() {
    duel(
        "
        SADD set a a b b
        SINTERSTORE set set set set
        SCARD set
        SDIFFSTORE set set set
        EXISTS set
        SMOVE list list a
        SADD set a
        SMOVE set set a
        SMOVE set set b
        LMOVE list list LEFT LEFT
        LMOVE list list RIGHT LEFT
        RPOPLPUSH list list
        LRANGE list 0 -1
        LMPOP 3 list list list LEFT
        HSET hash f 1 f 2 f 3
        HGETALL hash
        HDEL hash f f f
        ZADD sorted 1 a 2 a 3 a
        ZUNIONSTORE sorted 3 sorted sorted sorted
        ZRANGE sorted 0 -1 WITHSCORES
        ZDIFFSTORE sorted 2 sorted sorted
        EXISTS sorted
        PFMERGE hyperloglog hyperloglog hyperloglog
        PFCOUNT hyperloglog hyperloglog
        BITOP XOR string string string
        GET string
        XDEL stream 1-1 1-1 1-1
        XREAD STREAMS stream stream 0 0
        GEOADD places 1 1 x 2 2 x
        GEOPOS places x
        GEOSEARCHSTORE places places FROMMEMBER x BYRADIUS 1 km
        ZCARD places
    ",
    );
}

/// H40: numbers of keys that are lies.
#[test]
fn h40_numbers_of_keys() {
    duel(&with(
        "
        SINTERCARD ? set
        ZINTERCARD ? sorted
        ZINTERSTORE into ? sorted
        ZUNIONSTORE into ? sorted
        ZDIFFSTORE into ? sorted
        ZUNION ? sorted
        ZINTER ? sorted
        ZDIFF ? sorted
        LMPOP ? none LEFT
        ZMPOP ? none MIN
        BLMPOP 0.001 ? none LEFT
        BZMPOP 0.001 ? none MIN
        ",
        &[
            "-1",
            "0",
            "1",
            "2",
            "2147483647",
            "2147483648",
            "4294967297",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "x",
        ],
    ));
}

/// H42, H43, H46: counts, ranks and indexes at the limits.
#[test]
fn h42_counts_at_the_limits() {
    duel(&with(
        COUNTED,
        &[
            "-9223372036854775808",
            "9223372036854775807",
            "-9223372036854775809",
            "9223372036854775808",
            "-2147483648",
            "2147483648",
            "4294967296",
            "536870912",
            "-1",
            "0",
            "1",
            "x",
        ],
    ));
    duel(
        "
        LSET list -4 a
        LSET list 3 a
        LTRIM list -9223372036854775808 9223372036854775807
        LLEN list
        LTRIM list 9223372036854775807 -9223372036854775808
        LLEN list
        XTRIM stream MAXLEN 9223372036854775807
        XTRIM stream MINID 18446744073709551615-18446744073709551615
        XADD stream 18446744073709551615-18446744073709551615 f v
        XADD stream * f v
        XADD stream 18446744073709551615-* f v
        XADD stream 18446744073709551616-0 f v
        XADD stream 0-0 f v
        XSETID stream 1-1
        XRANGE stream (18446744073709551615-18446744073709551615 +
        XRANGE stream - (0-0
        XREAD STREAMS stream 18446744073709551615-18446744073709551615
        XGROUP CREATE stream last $ ENTRIESREAD 9223372036854775807
        XGROUP CREATE stream less $ ENTRIESREAD -2
    ",
    );
}

/// Commands with counts, ranks and indexes. LSET overflows in Redis at such indexes, and succeeds.
const COUNTED: &str = "
    LREM list ? zz
    LPOS list a RANK ?
    LPOS list a COUNT ?
    LPOS list a MAXLEN ?
    LPOS list zz RANK ? MAXLEN ?
    LRANGE list ? ?
    LRANGE list 0 ?
    LINDEX list ?
    LMPOP 1 none LEFT COUNT ?
    ZMPOP 1 none MIN COUNT ?
    BLMPOP 0.001 1 none LEFT COUNT ?
    LPOP none ?
    RPOP none ?
    ZPOPMAX none ?
    ZRANGE sorted ? ?
    ZREVRANGE sorted 0 ?
    ZRANGE sorted ? -1 REV
    ZRANGEBYSCORE sorted -inf +inf LIMIT ? 1
    ZRANGEBYSCORE sorted -inf +inf LIMIT 0 ?
    ZRANGEBYSCORE sorted -inf +inf LIMIT ? ?
    ZREVRANGEBYLEX places + - LIMIT 0 ?
    ZRANGE sorted -inf +inf BYSCORE LIMIT 1 ?
    ZREMRANGEBYRANK none ? ?
    ZINTERCARD 1 sorted LIMIT ?
    SINTERCARD 1 set LIMIT ?
    GEOSEARCH places FROMMEMBER Palermo BYRADIUS 1 km COUNT ?
    XRANGE stream - + COUNT ?
    XREVRANGE stream + - COUNT ?
    XREAD COUNT ? STREAMS stream 0
    XTRIM none MAXLEN ?
    XTRIM none MAXLEN ~ 1 LIMIT ?
    XPENDING stream group - + ?
    XRANGE stream ? +
    XSETID none ?
    EXPIRE none ?
    HEXPIRE hash ? FIELDS 1 zz
    HPEXPIREAT hash ? FIELDS 1 zz
    LTRIM none ? ?
";

/// Places outside the world, and shapes that are none.
#[test]
fn places_beyond_the_world() {
    let positions = with(
        "
        GEOADD places ? 0 x
        GEOADD places 0 ? x
        GEOSEARCH places FROMLONLAT ? 0 BYRADIUS 1 km
        GEOSEARCH places FROMLONLAT 0 ? BYRADIUS 1 km
        GEOSEARCH places FROMLONLAT 13 38 BYRADIUS ? km
        GEOSEARCH places FROMLONLAT 13 38 BYBOX ? 100 km
        GEOSEARCH places FROMLONLAT 13 38 BYBOX 100 ? km
        GEORADIUS places ? 0 1 km
        ",
        &["180.1", "-180.1", "85.06", "-85.06", "nan", "-1", "1e300", "x", "\"\""],
    );
    duel(&format!(
        "
        {positions}
        GEODIST places Palermo none
        GEODIST places Palermo Palermo parsec
        ZADD places 4503599627370496 beyond
        GEOPOS places beyond
        GEOHASH places beyond
        "
    ));
}
