//! Hits and misses: a command looks up its keys as often as in Redis, whatever lies there, and
//! says as often that one was missed.
//!
//! Each command is sent where its keys have the type that it is for, where they have another, and
//! where they are absent.

use std::collections::BTreeSet;

use base::quote::split_arguments;
use proto::value::Value;
use tests::render::{render, text};
use tests::{Client, Oracle, Server};

/// What lies under the keys that the commands are for.
const VALUES: &str = "
    SET k 5
    SET k2 7
    PFADD p a b
    PFADD p2 c
    RPUSH l a b c
    RPUSH l2 a
    SET w_a 1
    SET g_a 1
    HSET hh_a f 1 g 2
    HSET h a 1 b 2
    SADD u a b c
    SADD u2 a
    ZADD z 1 a 2 b
    ZADD z2 1 a
    GEOADD g 1 1 a 1.001 1 b
    XADD x 1-1 f v
    XADD x 2-1 f v
    XADD x2 1-1 f v
    XGROUP CREATE x p 0
    XGROUP CREATE x2 p 0";

/// All keys that the commands name: those of strings come first.
const KEYS: [&str; 15] =
    ["k", "k2", "p", "p2", "l", "l2", "h", "u", "u2", "z", "z2", "g", "x", "x2", "d"];

const STRINGS: usize = 4;

/// Commands that look up keys.
const COMMANDS: &str = "
    GET k
    GETEX k
    GETEX k PERSIST
    GETDEL k
    GETSET k v
    SET k v GET
    SET k v NX
    SET k v XX
    SETNX k v
    GETRANGE k 0 -1
    SUBSTR k 0 -1
    STRLEN k
    MGET k k2
    MGET k k k
    APPEND k x
    SETRANGE k 0 x
    INCR k
    INCRBYFLOAT k 1
    DECRBY k 1
    MSETNX k 1 k2 2
    LCS k k2
    LCS k k2 LEN
    GETBIT k 1
    SETBIT k 1 1
    BITCOUNT k
    BITCOUNT k 0 1
    BITPOS k 1
    BITPOS k 0 1 2
    BITFIELD k GET u8 0
    BITFIELD k GET u8 0 GET u8 1
    BITFIELD k SET u8 0 1
    BITFIELD k
    BITFIELD_RO k GET u8 0
    BITFIELD_RO k
    BITOP AND d k k2
    BITOP NOT d k
    PFADD p a
    PFCOUNT p
    PFCOUNT p p2
    PFMERGE d p p2
    EXISTS k
    EXISTS k k2 k
    TYPE k
    TTL k
    PTTL k
    EXPIRETIME k
    PEXPIRETIME k
    EXPIRE k 100
    PEXPIREAT k 4000000000000 NX
    PERSIST k
    TOUCH k
    TOUCH k k2
    DEL k
    UNLINK k k2
    DUMP k
    OBJECT ENCODING k
    OBJECT REFCOUNT k
    OBJECT IDLETIME k
    OBJECT FREQ k
    MEMORY USAGE k
    RENAME k d
    RENAMENX k k2
    COPY k d
    COPY k k2
    COPY k k2 REPLACE
    COPY k d DB 1
    MOVE k 1
    RESTORE k 0 x
    RESTORE k 0 x REPLACE
    EVAL \"return redis.call('get',KEYS[1])\" 1 k
    EVAL_RO \"return redis.call('exists',KEYS[1])\" 1 k
    EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 k
    FCALL_RO nobody 1 k
    LLEN l
    LINDEX l 0
    LRANGE l 0 -1
    LPOS l a
    LPOS l a COUNT 0
    LPUSH l a
    LPUSHX l a
    RPUSHX l a
    LPOP l
    RPOP l 2
    LSET l 0 a
    LREM l 0 a
    LINSERT l BEFORE a b
    LTRIM l 0 -1
    LMOVE l l2 LEFT LEFT
    LMOVE l l LEFT LEFT
    RPOPLPUSH l l2
    LMPOP 2 l l2 LEFT
    BLPOP l l2 0.01
    BRPOP l 0.01
    BLMOVE l l2 LEFT LEFT 0.01
    BRPOPLPUSH l l2 0.01
    BLMPOP 0.01 2 l l2 LEFT
    SORT l ALPHA
    SORT l ALPHA LIMIT 0 1
    SORT l BY w_* ALPHA
    SORT l BY w_* GET g_* GET # ALPHA
    SORT l BY hh_*->f GET hh_*->f ALPHA
    SORT l BY nosort GET hh_*->f
    SORT l ALPHA STORE d
    SORT_RO l ALPHA
    SORT_RO l BY w_* GET g_* ALPHA
    HGET h a
    HGET h zz
    HMGET h a zz
    HGETALL h
    HKEYS h
    HVALS h
    HLEN h
    HEXISTS h a
    HSTRLEN h a
    HRANDFIELD h
    HRANDFIELD h 2
    HRANDFIELD h -2 WITHVALUES
    HSCAN h 0
    HSET h a 1
    HSETNX h a 1
    HMSET h a 1
    HDEL h a
    HINCRBY h n 1
    HINCRBYFLOAT h n 1
    HTTL h FIELDS 1 a
    HPTTL h FIELDS 1 a
    HEXPIRETIME h FIELDS 1 a
    HPEXPIRETIME h FIELDS 1 a
    HEXPIRE h 100 FIELDS 1 a
    HPERSIST h FIELDS 1 a
    HGETDEL h FIELDS 1 a
    HGETEX h FIELDS 1 a
    HGETEX h EX 100 FIELDS 1 a
    HSETEX h FIELDS 1 a 1
    HSETEX h FNX FIELDS 1 a 1
    SCARD u
    SISMEMBER u a
    SMISMEMBER u a zz
    SMEMBERS u
    SRANDMEMBER u
    SRANDMEMBER u 2
    SSCAN u 0
    SADD u a
    SREM u a
    SPOP u
    SPOP u 2
    SMOVE u u2 a
    SMOVE u u a
    SINTER u u2
    SINTER u
    SINTERCARD 2 u u2
    SUNION u u2
    SDIFF u u2
    SINTERSTORE d u u2
    SUNIONSTORE d u u2
    SDIFFSTORE d u u2
    SORT u ALPHA
    ZCARD z
    ZSCORE z a
    ZMSCORE z a zz
    ZRANK z a
    ZREVRANK z a WITHSCORE
    ZCOUNT z 0 9
    ZLEXCOUNT z - +
    ZRANGE z 0 -1
    ZRANGE z 0 9 BYSCORE
    ZRANGE z - + BYLEX REV
    ZREVRANGE z 0 -1
    ZRANGEBYSCORE z 0 9
    ZREVRANGEBYSCORE z 9 0
    ZRANGEBYLEX z - +
    ZREVRANGEBYLEX z + -
    ZRANDMEMBER z
    ZRANDMEMBER z 2
    ZSCAN z 0
    ZADD z 1 a
    ZADD z INCR 1 a
    ZINCRBY z 1 a
    ZREM z a
    ZREMRANGEBYRANK z 0 0
    ZREMRANGEBYSCORE z 0 0
    ZREMRANGEBYLEX z [x [y
    ZPOPMIN z
    ZPOPMAX z 2
    ZMPOP 2 z z2 MIN
    BZPOPMIN z z2 0.01
    BZMPOP 0.01 2 z z2 MIN
    ZUNION 2 z z2
    ZINTER 2 z z2
    ZDIFF 2 z z2
    ZINTERCARD 2 z z2
    ZUNIONSTORE d 2 z z2
    ZINTERSTORE d 2 z z2
    ZDIFFSTORE d 2 z z2
    ZRANGESTORE d z 0 -1
    SORT z ALPHA
    GEOPOS g a
    GEODIST g a b
    GEOHASH g a
    GEOSEARCH g FROMMEMBER a BYRADIUS 10 km
    GEOSEARCH g FROMLONLAT 1 1 BYBOX 10 10 km
    GEOSEARCHSTORE d g FROMMEMBER a BYRADIUS 10 km
    GEORADIUS g 1 1 10 km
    GEORADIUS g 1 1 10 km STORE d
    GEORADIUS_RO g 1 1 10 km
    GEORADIUSBYMEMBER g a 10 km
    GEORADIUSBYMEMBER_RO g a 10 km
    GEOADD g 1 1 a
    XLEN x
    XRANGE x - +
    XREVRANGE x + -
    XREAD STREAMS x 0
    XREAD STREAMS x x2 0 0
    XREAD STREAMS x $
    XREAD STREAMS x +
    XREAD COUNT 1 STREAMS x 9
    XREAD BLOCK 1 STREAMS x 9
    XREAD BLOCK 1 STREAMS x $
    XREAD BLOCK 1 STREAMS x 0
    XREAD BLOCK 1 STREAMS x +
    XREAD BLOCK 1 STREAMS x x2 9 9
    XREADGROUP GROUP p c STREAMS x >
    XREADGROUP GROUP p c STREAMS x 0
    XREADGROUP GROUP nog c STREAMS x >
    XREADGROUP GROUP p c BLOCK 1 STREAMS x >
    XREADGROUP GROUP p c BLOCK 1 STREAMS x x2 > >
    XPENDING x p
    XPENDING x p - + 10
    XPENDING x nog
    XINFO STREAM x
    XINFO STREAM x FULL
    XINFO GROUPS x
    XINFO CONSUMERS x p
    XADD x * f v
    XADD x NOMKSTREAM * f v
    XDEL x 1-1
    XTRIM x MAXLEN 1
    XSETID x 9-9
    XACK x p 1-1
    XACK x nog 1-1
    XCLAIM x p c 0 1-1
    XAUTOCLAIM x p c 0 0
    XGROUP CREATE x q $
    XGROUP CREATE x q $ MKSTREAM
    XGROUP SETID x p 0
    XGROUP DESTROY x p
    XGROUP CREATECONSUMER x p e
    XGROUP DELCONSUMER x p c
    XDELEX x IDS 1 1-1
    XACKDEL x p IDS 1 1-1";

/// A server, a client that asks it, and one that hears what was missed.
struct Side {
    server: Server,
    admin: Client,
    listener: Client,
}

const MISSED: &str = "__keyevent@0__:keymiss";

impl Side {
    fn of(server: Server) -> Self {
        let (mut admin, mut listener) = (server.client(), server.client());
        admin.call(&["CONFIG", "SET", "notify-keyspace-events", "Em"]);
        listener.call(&["SUBSCRIBE", MISSED]);
        Self { server, admin, listener }
    }

    /// What a command looks up: hits, misses, and what was missed; with its reply for the reader.
    fn look_up(&mut self, command: &[String], prepared: &[Vec<String>]) -> (String, String) {
        self.admin.pipeline(prepared);
        // Of its own, as it may wait.
        let reply = render(&self.server.client().call(command));
        let figures = ["keyspace_hits", "keyspace_misses"];
        let stats = text(&self.admin.call(&["INFO", "stats"]));
        let told = stats.lines().filter(|line| figures.iter().any(|name| line.starts_with(name)));
        let mut told: Vec<String> = told.map(str::to_owned).collect();
        self.admin.call(&["PUBLISH", MISSED, "fence"]);
        loop {
            let Value::Array(message) = self.listener.receive() else { panic!("a message") };
            match text(&message[2]) {
                key if key == "fence" => break,
                key => told.push(key),
            }
        }
        (told.join(" "), reply)
    }
}

fn lines(text: &str) -> Vec<Vec<String>> {
    let split = |line| split_arguments(str::as_bytes(line)).expect("quotes are balanced");
    let words = |line| split(line).into_iter().map(|it| String::from_utf8(it).expect("ASCII"));
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| words(line).collect()).collect()
}

/// What is there before a command, for each of the cases.
fn cases() -> [(&'static str, Vec<Vec<String>>); 3] {
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let clear = || vec![own(&[&["DEL", "w_a", "g_a", "hh_a"][..], &KEYS].concat())];
    let others = KEYS.iter().enumerate().map(|(at, key)| match at < STRINGS {
        true => own(&["RPUSH", key, "a"]),
        false => own(&["SET", key, "text"]),
    });
    let reset = || vec![own(&["CONFIG", "RESETSTAT"])];
    [
        ("there", [clear(), lines(VALUES), reset()].concat()),
        ("absent", [clear(), reset()].concat()),
        ("of another type", [clear(), others.collect(), reset()].concat()),
    ]
}

#[test]
fn a_command_looks_up_keys_as_often_as_in_redis() {
    let oracle = Oracle::Redis82.start(&[]);
    let [mut ours, mut theirs] = [Side::of(Server::start(&[])), Side::of(oracle)];
    let (commands, cases) = (lines(COMMANDS), cases());
    let mut differ = Vec::new();
    for command in &commands {
        for (case, prepared) in &cases {
            let (found, reply) = ours.look_up(command, prepared);
            let (expected, their_reply) = theirs.look_up(command, prepared);
            if found != expected {
                differ.push(format!(
                    "{} ({case}): {found}, not {expected}; {reply}; {their_reply}",
                    command.join(" ")
                ));
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    // No command that reads is left out.
    let tried: BTreeSet<String> = commands.iter().map(|words| words[0].to_lowercase()).collect();
    let [ours, theirs] = [ours, theirs].map(|mut side| reading(&mut side.admin));
    let left_out: Vec<&String> =
        ours.intersection(&theirs).filter(|it| !tried.contains(*it)).collect();
    assert!(left_out.is_empty(), "{left_out:?}");
}

/// The commands that read keys, by the first of their words.
fn reading(client: &mut Client) -> BTreeSet<String> {
    let Value::Array(commands) = client.call(&["COMMAND"]) else { panic!("a table") };
    let mut found = BTreeSet::new();
    let mut left = commands;
    while let Some(command) = left.pop() {
        let Value::Array(mut parts) = command else { panic!("{command:?}") };
        if let Some(Value::Array(below)) = parts.get_mut(9) {
            left.append(below);
        }
        let flags = render(&parts[2]);
        let names_keys = parts[3] != Value::Integer(0) || flags.contains("movablekeys");
        if flags.contains("readonly") && names_keys {
            let name = text(&parts[0]);
            found.insert(name.split('|').next().unwrap_or_default().to_owned());
        }
    }
    found
}
