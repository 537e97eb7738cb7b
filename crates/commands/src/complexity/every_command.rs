//! The law of growth for every command: what each looks at, on small and on large data.
//!
//! Invariant: a command that is in neither table fails here, unless [`EXEMPT`] says why.

use std::collections::HashSet;

use super::{Growth, check, containers};
use crate::FAMILIES;
use crate::testing::Session;

/// Commands that are not held to the law, each with the reason.
const EXEMPT: &[(&str, &str)] = &[
    ("CLUSTERSCAN", "is SCAN in a node of a cluster"),
    ("OBJECT|FREQ", "is OBJECT IDLETIME under another policy"),
    ("PFDEBUG", "is for tests of HyperLogLogs"),
    ("PFSELFTEST", "has no data"),
];

/// Every type, of `size` elements, and as many keys.
pub(crate) fn everything(session: &mut Session, size: usize) {
    containers(session, size);
    let numbers = || 0..size;
    let join = |words: &mut dyn Iterator<Item = String>| words.collect::<Vec<_>>().join(" ");
    let others = join(&mut numbers().map(|number| format!("m:{}", number + size / 2)));
    session.call(&format!("SADD s2 {others}"));
    let scored = join(&mut numbers().map(|number| format!("1 m:{}", number + size / 2)));
    session.call(&format!("ZADD z2 {scored}"));
    let level = join(&mut numbers().map(|number| format!("0 m:{number:07}")));
    session.call(&format!("ZADD lex {level}"));
    session.call(&format!("SET text {}", "ab".repeat(size * 4)));
    session.call(&format!("SET other {}", "ba".repeat(size * 4)));
    let elements = join(&mut numbers().map(|number| format!("{number} {number}")));
    session.call(&format!("ARMSET a {elements}"));
    let places = numbers().map(|number| (number % 170, number % 80));
    let places =
        places.zip(0..).map(|((east, north), number)| format!("{east} {north} m:{number}"));
    session.call(&format!("GEOADD p {}", join(&mut { places })));
    session.call(&format!("PFADD pf {others}"));
    for number in numbers() {
        session.call(&format!("SET k:{number} v"));
        session.call(&format!("XADD x {}-1 f v", number + 1));
    }
    ["g", "g2", "g3"]
        .iter()
        .for_each(|group| _ = session.call(&format!("XGROUP CREATE x {group} 0")));
    session.call("XREADGROUP GROUP g c STREAMS x >");
    session.call("SET number 5");
}

/// Commands that name a few of many elements, or ends of what is long.
const FEW: &str = "
    APPEND number 1; GET number; SET new v; SETNX new2 v; SETEX e 100 v; PSETEX e 100000 v;
    GETSET number 5; GETEX number; GETDEL new; INCR number; DECR number; INCRBY number 2;
    DECRBY number 2; INCRBYFLOAT number 1; INCREX number; STRLEN text; SETRANGE text 5 abc;
    GETRANGE text 5 9; SUBSTR text 5 9; GETBIT text 5; SETBIT text 5 1; BITFIELD text GET u8 0;
    BITFIELD_RO text GET u8 0; BITCOUNT text 0 5; BITPOS text 1 0 5; LCS number e; MGET number e;
    MSET a1 1 b1 2; MSETNX c1 1 d1 2; MSETEX 2 e1 1 f1 2; DELEX a1; DELIFEQ b1 2; CAS c1 1 2;
    CAD d1 2; DIGEST number; GAT 100 e; PREPEND e x;
    HGET h m:1; HSET h m:1 w; HSETNX h new v; HMSET h m:1 w m:2 w; HMGET h m:1 m:2; HDEL h m:2;
    HEXISTS h m:3; HLEN h; HSTRLEN h m:1; HINCRBY h count 1; HINCRBYFLOAT h count 1;
    HRANDFIELD h 5; HSCAN h 0; HEXPIRE h 100 FIELDS 1 m:5; HPEXPIRE h 100000 FIELDS 1 m:5;
    HEXPIREAT h 1800000000 FIELDS 1 m:5; HPEXPIREAT h 1800000000000 FIELDS 1 m:5;
    HEXPIRETIME h FIELDS 1 m:5; HPEXPIRETIME h FIELDS 1 m:5; HTTL h FIELDS 1 m:5;
    HPTTL h FIELDS 1 m:5; HPERSIST h FIELDS 1 m:5; HGETEX h EX 100 FIELDS 1 m:5;
    HSETEX h EX 100 FIELDS 1 m:5 v; HGETDEL h FIELDS 1 m:6;
    FIELDEXPIRE h 100 m:7; FIELDTTL h m:7; EXPIREMEMBER h m:8 100; EXPIREMEMBERAT h m:8 1800000000;
    PEXPIREMEMBERAT h m:8 1800000000000; TTL h m:8; PTTL h m:8;
    SADD s new; SADDEX s 100 newer; SREM s m:1; SISMEMBER s m:2; SMISMEMBER s m:2 m:3; SCARD s;
    SRANDMEMBER s 5; SPOP s 5; SMOVE s t m:3; SSCAN s 0; SINTER few s; SINTERCARD 2 few s;
    SINTERSTORE d few s; SDIFF few s; SDIFFCARD 2 few s; SDIFFSTORE d few s; SUNION few few2;
    SUNIONCARD 2 few few2; SUNIONSTORE d few few2; SMEMBERS few;
    ZADD z 5 new; ZSCORE z m:1; ZMSCORE z m:1 m:2; ZRANK z m:2; ZREVRANK z m:2; ZREM z m:3;
    ZCARD z; ZCOUNT z 5 9; ZLEXCOUNT lex [m:0000005 [m:0000009; ZRANGE z 5 9; ZREVRANGE z 5 9;
    ZRANGEBYSCORE z 5 9; ZREVRANGEBYSCORE z 9 5; ZRANGEBYLEX lex [m:0000005 [m:0000009;
    ZREVRANGEBYLEX lex [m:0000009 [m:0000005; ZRANGESTORE d z 5 9; ZPOPMIN z; ZPOPMAX z;
    ZMPOP 1 z MIN; BZPOPMIN z 0; BZPOPMAX z 0; BZMPOP 0 1 z MIN; ZRANDMEMBER z 5; ZINCRBY z 1 m:9;
    ZREMRANGEBYRANK z 3 5; ZREMRANGEBYSCORE z 100 102; ZREMRANGEBYLEX lex [m:0000100 [m:0000102;
    ZSCAN z 0; ZEXPIRE z 100 MEMBERS 1 m:50; ZPEXPIRE z 100000 MEMBERS 1 m:50;
    ZEXPIREAT z 1800000000 MEMBERS 1 m:50; ZPEXPIREAT z 1800000000000 MEMBERS 1 m:50;
    ZEXPIRETIME z MEMBERS 1 m:50; ZPEXPIRETIME z MEMBERS 1 m:50; ZTTL z MEMBERS 1 m:50;
    ZPTTL z MEMBERS 1 m:50; ZPERSIST z MEMBERS 1 m:50; ZCOLLECT z; ZINTER 2 zfew z2;
    ZINTERCARD 2 zfew z2; ZINTERSTORE d 2 zfew z2; ZDIFF 2 zfew z2; ZDIFFSTORE d 2 zfew z2;
    ZUNION 2 zfew zfew; ZUNIONSTORE d 2 zfew zfew;
    RPUSH l new; LPUSH l new; RPUSHX l new; LPUSHX l new; LPOP l; RPOP l 5; LLEN l; LRANGE l 5 9;
    LINDEX l 700; LSET l 700 x; LTRIM l 1 -2; LMOVE l k LEFT RIGHT; RPOPLPUSH l k;
    LMOVEM l k LEFT RIGHT COUNT 3 BULK; BLMOVE l k LEFT RIGHT 0; BRPOPLPUSH l k 0;
    BLMOVEM l k LEFT RIGHT 0 COUNT 3 BULK; BLPOP l 0; BRPOP l 0; LMPOP 1 l LEFT; BLMPOP 0 1 l LEFT;
    LPOS l m:20; LINSERT l BEFORE m:20 new;
    XADD x * f v; XLEN x; XRANGE x 5-1 9-1; XREVRANGE x 9-1 5-1; XREAD COUNT 2 STREAMS x 5;
    XREADGROUP GROUP g2 c COUNT 2 STREAMS x >; XACK x g 1-1; XACKDEL x g IDS 1 2-1; XDEL x 3-1;
    XDELEX x IDS 1 4-1; XCLAIM x g other 0 5-1; XAUTOCLAIM x g other 0 6-1 COUNT 2;
    XNACK x g FAIL IDS 1 7-1; XPENDING x g; XPENDING x g - + 5; XTRIM x MAXLEN ~ 1000000;
    XSETID x 9999999999999-1; XCFGSET x IDMP-DURATION 50; XADD i IDMP a b * f v;
    XIDMPRECORD x a c 20-1; XINFO STREAM x; XINFO GROUPS x; XINFO CONSUMERS x g;
    XGROUP CREATE x fresh 0; XGROUP SETID x fresh 5-1; XGROUP CREATECONSUMER x fresh c;
    XGROUP DELCONSUMER x fresh c; XGROUP DESTROY x fresh; XGROUP HELP; XINFO HELP;
    GEOADD p 5 5 new; GEODIST p m:1 m:2; GEOHASH p m:1; GEOPOS p m:1;
    ARSET a 5 v; ARGET a 5; ARMGET a 5 6; ARMSET a 5 v 6 v; ARDEL a 5; ARDELRANGE a 6 7;
    ARGETRANGE a 10 15; ARGREP a 10 20 EXACT v; ARSCAN a 10 20; AROP a 10 20 SUM; ARCOUNT a;
    ARLEN a; ARINFO a; ARNEXT a; ARSEEK a 50; ARINSERT a v; ARLASTITEMS a 3; ARRING ring 10 v w;
    PFADD pf m:700; PFCOUNT pf;
    OBJECT ENCODING h; OBJECT REFCOUNT h; OBJECT IDLETIME h; OBJECT HELP; TYPE s; EXISTS l;
    EXPIRE z 100; PEXPIRE z 100000; EXPIREAT z 1800000000; PEXPIREAT z 1800000000000;
    EXPIRETIME z; PEXPIRETIME z; TTL z; PTTL z; PERSIST z; TOUCH z; RENAME s r; RENAMENX r s;
    MOVE number 1; COPY few few3; DEL few3; UNLINK few2; RANDOMKEY; DBSIZE; SCAN 0; RM 0 COUNT 1;
    SORT few ALPHA; SORT_RO few ALPHA";

/// Commands that look at all there is.
const ALL: &str = "
    HGETALL h; HKEYS h; HVALS h; SMEMBERS s; SINTER s s2; SINTERSTORE d s s2; SUNION s s2;
    SUNIONSTORE d s s2; SDIFF s s2; SDIFFSTORE d s s2; SINTERCARD 2 s s2; SUNIONCARD 2 s s2;
    SDIFFCARD 2 s s2; ZRANGE z 0 -1; ZUNION 2 z z2; ZUNIONSTORE d 2 z z2; ZINTER 2 z z2;
    ZINTERSTORE d 2 z z2; ZDIFF 2 z z2; ZDIFFSTORE d 2 z z2; ZINTERCARD 2 z z2;
    ZRANGESTORE d z 0 -1; LRANGE l 0 -1; LPOS l absent; LREM l 0 absent; LINSERT l BEFORE absent x;
    COPY h h2; COPY l l2; XRANGE x - +; XREVRANGE x + -; XREAD STREAMS x 0;
    XPENDING x g - + {n}; XINFO STREAM x FULL COUNT 0; XTRIM x MAXLEN 0;
    BITCOUNT text; BITPOS text 0; BITOP AND d text other; GETRANGE text 0 -1; DIGEST text;
    ARGREP a 0 {n} EXACT v; ARSCAN a 0 {n}; AROP a 0 {n} SUM; ARGETRANGE a 0 {n}; ARINFO a FULL;
    GEOSEARCH p FROMLONLAT 0 0 BYRADIUS 20000 km;
    GEOSEARCHSTORE d p FROMLONLAT 0 0 BYRADIUS 20000 km;
    GEORADIUS p 0 0 20000 km; GEORADIUS_RO p 0 0 20000 km; GEORADIUSBYMEMBER p m:1 20000 km;
    GEORADIUSBYMEMBER_RO p m:1 20000 km; SORT l ALPHA; SORT_RO l ALPHA; SORT l BY nosort GET #;
    KEYS *; SPOP s {n}; HRANDFIELD h {n}; ZPOPMIN z {n}; ZREMRANGEBYRANK d 0 -1; DEL h2; UNLINK l2;
    PFMERGE pf2 pf pf; SWAPDB 0 1; SWAPDB 0 1; FLUSHDB; FLUSHALL";

/// A request for each command that is held to the law, and more, separated by semicolons.
pub(crate) fn requests(size: usize) -> String {
    [FEW, ALL].join(";").replace("{n}", &size.to_string())
}

fn with_few(session: &mut Session, size: usize) {
    everything(session, size);
    // The first push splits the page at that end.
    ["LPUSH l first", "SADD few m:1 m:2 m:3", "SADD few2 m:2 x y", "ZADD zfew 1 m:700 2 m:800"]
        .iter()
        .for_each(|request| _ = session.call(request));
}

#[test]
fn a_few_elements_cost_no_more_where_there_are_many() {
    check(with_few, 1000, Growth::Flat, FEW);
}

/// The same data, beside more or fewer keys of the same and of another database, groups of the
/// stream, and clients that wait for other keys and watch them.
fn beside_others(session: &mut Session, size: usize) {
    with_few(session, 1000);
    for number in 0..size {
        session.call(&format!("SET beside:{number} v"));
        session.call(&format!("XGROUP CREATE x beside:{number} 0"));
        session.attend(format!("attended:{number}").as_bytes());
    }
    session.select(1);
    (0..size).for_each(|number| _ = session.call(&format!("SET beside:{number} v")));
    session.select(0);
}

#[test]
fn what_lies_beside_is_no_work() {
    // XINFO GROUPS tells of all groups.
    let named = |request: &&str| !request.trim().starts_with("XINFO GROUPS");
    let requests: Vec<&str> = FEW.split(';').filter(named).collect();
    check(beside_others, 40, Growth::Flat, &requests.join(";"));
}

#[test]
fn all_elements_cost_in_proportion() {
    check(with_few, 4, Growth::Product, ALL);
    check(with_few, 600, Growth::Linear, ALL);
}

#[test]
fn every_command_is_held_to_the_law_or_exempt() {
    let requests = requests(1);
    let held: HashSet<String> = requests
        .split(';')
        .flat_map(|request| {
            let mut words = request.split_whitespace();
            let name = words.next().unwrap_or_default().to_owned();
            [format!("{name}|{}", words.next().unwrap_or_default()), name]
        })
        .collect();
    let exempt: HashSet<&str> = EXEMPT.iter().map(|(name, _)| *name).collect();
    let mut missing = Vec::new();
    for command in FAMILIES.iter().flat_map(|family| family.iter()) {
        let name = command.spec.name;
        let subcommands = command.subcommands.iter().map(|it| format!("{name}|{}", it.spec.name));
        missing.extend(std::iter::once(name.to_owned()).chain(subcommands).filter(|name| {
            assert!(!(held.contains(name) && exempt.contains(name.as_str())), "{name} is held");
            !held.contains(name) && !exempt.contains(name.as_str())
        }));
    }
    assert!(missing.is_empty(), "neither held to the law of growth nor exempt: {missing:?}");
}
