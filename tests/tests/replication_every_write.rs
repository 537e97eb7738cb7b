//! What commands and options that came late write here every real server that follows has,
//! too; or its link has ended, with a line, where it cannot hold what was written.
//!
//! Invariant: each line is run on an empty world that all of them have, and is no error.

use base::quote::split_arguments;
use proto::value::Value;
use tests::replica_group::ReplicaGroup;

/// What there is before each of the lines below.
const SCENE: &[&str] = &[
    "FLUSHALL",
    "MSET s hello t world n 5 f 1.5",
    "RPUSH l a b c d e f",
    "SADD set a b c",
    "ZADD z 1 a 2 b 3 c",
    "HSET h f v g w n 1",
    "GEOADD places 1 1 a 2 2 b 30 30 c",
    "XADD x 1-1 a b",
    "XADD x 2-1 a b",
    "XADD x 3-1 a b",
    "XADD x 4-1 a b",
    "XADD x 5-1 a b",
    "XGROUP CREATE x g 0",
    "XGROUP CREATE x other 0",
    "XREADGROUP GROUP g c COUNT 5 STREAMS x >",
    "XREADGROUP GROUP other c COUNT 5 STREAMS x >",
    "XACK x g 1-1 2-1 4-1",
    "XACK x other 1-1 2-1 4-1",
    "HIMPORT PREPARE fields f g",
    "FUNCTION LOAD \"#!lua name=lib\\nredis.register_function('f', function() return 1 end)\"",
];

/// Each is run behind the scene.
const LINES: &[&str] = &[
    "CAD s hello",
    "CAS s hello world",
    "DELEX s IFEQ hello",
    "DELEX s IFNE other",
    "DELIFEQ s hello",
    "SET s v IFEQ hello",
    "SET s v IFNE x",
    "SET s v IFEQ hello GET PX 100000000",
    "MSETEX 2 s 1 t 2 XX EX 10000000",
    "INCREX n BYINT 3 EX 10000000",
    "PREPEND s abc",
    "LMOVEM l o LEFT RIGHT COUNT 2 OBO",
    "LMOVEM l o LEFT LEFT EXACTLY 3 BULK",
    "LMOVEM l l LEFT RIGHT COUNT 10 OBO",
    "LMOVEM l o RIGHT LEFT",
    "BLMOVEM l o RIGHT LEFT 0 COUNT 2 BULK",
    "HSETEX h FIELDS 2 f x new y",
    "HSETEX h FXX KEEPTTL FIELDS 1 f x",
    "HGETDEL h FIELDS 1 f",
    "HEXPIRE h 0 FIELDS 1 f",
    "HEXPIRE h 10000000 FIELDS 1 f",
    "HGETEX h EX 10000000 FIELDS 1 f",
    "BITOP DIFF o s t",
    "BITOP DIFF1 o s t",
    "BITOP ANDOR o s t",
    "BITOP ONE o s t",
    "BITOP DIFF s none none",
    "ZUNIONSTORE o 2 z set AGGREGATE COUNT",
    "ZUNIONSTORE o 2 z set WEIGHTS 0x2 3 AGGREGATE COUNT",
    "ZINTERSTORE o 2 z set AGGREGATE COUNT",
    "ZINTERSTORE z 2 z none AGGREGATE COUNT",
    "GEOSEARCHSTORE o places BYPOLYGON 4 0 0 0 5 5 5 5 0",
    "GEOSEARCHSTORE o places BYPOLYGON 4 0 0 0 5 5 5 5 0 STOREDIST",
    "XDELEX x IDS 2 2-1 3-1",
    "XDELEX x DELREF IDS 2 2-1 3-1",
    "XDELEX x ACKED IDS 2 2-1 3-1",
    "XACKDEL x g IDS 2 3-1 5-1",
    "XACKDEL x g DELREF IDS 2 3-1 5-1",
    "XACKDEL x g ACKED IDS 2 3-1 5-1",
    "XTRIM x MAXLEN 1 KEEPREF",
    "XTRIM x MAXLEN 1 DELREF",
    "XTRIM x MAXLEN 1 ACKED",
    "XTRIM x MINID 5-1 ACKED",
    "XADD x KEEPREF MAXLEN 2 9-9 a b",
    "XADD x DELREF MAXLEN 2 9-9 a b",
    "XADD x ACKED MAXLEN 2 9-9 a b",
    "XADD x ACKED MAXLEN 2 * a b",
    "XADD x IDMP p i * a b",
    "XCFGSET x IDMP-DURATION 10",
    "XNACK x g FAIL IDS 1 3-1",
    "XREADGROUP GROUP g d CLAIM 0 STREAMS x >",
    "SADDEX set 10000000 d",
    "EXPIREMEMBER set a 10000000",
    "EXPIREMEMBER h f 10000000",
    "PEXPIREMEMBERAT h f 4102444800000",
    "FIELDEXPIRE h 10000000 f g",
    "ARSET array 1 v",
    "RESTORE h 0 \"\\x19\\x00\\xd8\\xc3,\\xbb\\x03\\x00\\x00\\x1f\\x1f\\x00\\x00\\x00\\x06\\x00\
     \\x81f\\x02\\x81v\\x02\\xf4\\x00\\xd8\\xc3,\\xbb\\x03\\x00\\x00\\x09\\x81g\\x02\\x81w\\x02\
     \\x00\\x01\\xff\\x0c\\x00\\x846\\xd9\\x88\\x88\\x06\\xec\\x99\" REPLACE",
    "RESTORE o 4102444800000 \"\\x16\\x02\\x01f\\x01v\\x00\\xd8\\xc3,\\xbb\\x03\\x00\\x00\\x01g\
     \\x01w\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xffP\\x00\\xe6\\x0a/u\\xe1\\xb4ZY\" ABSTTL",
    "HIMPORT SET imported fields hello world",
    "FUNCTION LOAD \"#!lua name=own\\nredis.register_function('g', function() return 1 end)\"",
    "FUNCTION LOAD REPLACE \"#!lua name=lib\\nredis.register_function('g', function() end)\"",
    "FUNCTION DELETE lib",
    "FUNCTION FLUSH",
    "FUNCTION RESTORE \"\\xf5@B#!lua name=c\\nredis.register_function(\\\"c\\\", \
     function() return 1 end)\\n\\x00Y\\x1f\\xa2\\xe5\\xc3\\x08\\xcc\\x03\"",
    "EVAL \"redis.call('XTRIM', KEYS[1], 'MAXLEN', 1, 'DELREF') \
     return redis.call('BITOP', 'ONE', KEYS[2], KEYS[3])\" 3 x o s",
];

#[test]
fn what_takes_effect_just_so_reaches_every_replica_or_ends_its_link() {
    let mut group = ReplicaGroup::start();
    let mut client = group.primary.client();
    for line in LINES {
        group.gather();
        for words in SCENE.iter().chain([line]) {
            let words = split_arguments(words.as_bytes()).expect("its quotes are even");
            let reply = client.call(&words);
            assert!(!matches!(reply, Value::Error(_)), "{line}: {reply:?}");
        }
        let difference = group.difference();
        assert!(difference.is_none(), "{line}: {}", difference.unwrap_or_default());
    }
}
