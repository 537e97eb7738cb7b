//! A command that meets keys whose time is over: what is told of them stands before what is told of
//! the command itself, as in Redis.

use std::time::Duration;

use proto::value::Value;
use tests::render::text;
use tests::watching::say;
use tests::{Client, Oracle, Server};

/// What there is (`o`, and what else begins with it, expires), and the command that meets it.
const MEETINGS: &[(&str, &str)] = &[
    ("SET k ab; SET o cd PX 1", "BITOP AND d k o"),
    ("SET k ab; SET o cd PX 1", "BITOP OR d o k"),
    ("SET o cd PX 1", "BITOP NOT d o"),
    ("SADD k a; SADD o b; PEXPIRE o 1", "SMOVE k o a"),
    ("SADD k a; SADD o b; PEXPIRE o 1", "SMOVE o k b"),
    ("SADD k a; SADD o b; PEXPIRE o 1", "SUNIONSTORE d k o"),
    ("SADD k a; SADD o a; PEXPIRE o 1", "SINTERSTORE d k o"),
    ("SADD k a; SADD o a; PEXPIRE o 1; SADD d z", "SINTERSTORE d k o"),
    ("SADD k a; SADD o a; PEXPIRE o 1", "SDIFFSTORE d k o"),
    ("SADD k a; SADD o a; PEXPIRE o 1", "SUNIONSTORE o k"),
    ("SADD k a; SADD o a; PEXPIRE o 1", "SINTER k o"),
    ("SADD k a; SADD o a; PEXPIRE o 1; SADD oo a; PEXPIRE oo 1", "SUNIONSTORE d o nosuch oo k"),
    ("ZADD k 1 a; ZADD o 1 a; PEXPIRE o 1", "ZUNIONSTORE d 2 k o"),
    ("ZADD k 1 a; ZADD o 1 a; PEXPIRE o 1", "ZINTERSTORE d 2 k o"),
    ("ZADD k 1 a; ZADD o 1 a; PEXPIRE o 1", "ZDIFFSTORE d 2 k o"),
    ("ZADD k 1 a; ZADD o 1 a; PEXPIRE o 1", "ZRANGESTORE o k 0 -1"),
    ("ZADD k 1 a; ZADD o 1 a; PEXPIRE o 1; ZADD d 1 z", "ZRANGESTORE d o 0 -1"),
    ("RPUSH k a; RPUSH o a; PEXPIRE o 1", "LMPOP 2 o k LEFT"),
    ("RPUSH k a; RPUSH o a; PEXPIRE o 1", "BLPOP o k 1"),
    ("RPUSH k a; RPUSH o a; PEXPIRE o 1", "LMOVE k o LEFT RIGHT"),
    ("RPUSH k a; RPUSH o a; PEXPIRE o 1", "RPOPLPUSH o k"),
    ("RPUSH k a; RPUSH o a; PEXPIRE o 1", "BLMOVE k o LEFT RIGHT 1"),
    ("RPUSH k a; RPUSH o a; PEXPIRE o 1", "LPUSHX o a"),
    ("ZADD k 1 a; ZADD o 1 a; PEXPIRE o 1", "ZMPOP 2 o k MIN"),
    ("ZADD k 1 a; ZADD o 1 a; PEXPIRE o 1", "BZPOPMIN o k 1"),
    ("PFADD k a; PFADD o b; PEXPIRE o 1", "PFMERGE d k o"),
    ("PFADD k a; PFADD o b; PEXPIRE o 1", "PFMERGE o k"),
    ("RPUSH k 2 1; SET o x PX 1", "SORT k STORE o"),
    ("RPUSH o 2 1; PEXPIRE o 1; SET d x", "SORT o STORE d"),
    (
        "GEOADD k 1 1 a; GEOADD o 1 1 b; PEXPIRE o 1",
        "GEOSEARCHSTORE o k FROMLONLAT 1 1 BYRADIUS 9 m",
    ),
    ("SET k a; SET o b PX 1", "MGET k o nosuch"),
    ("SET k a; SET o b PX 1", "MSET k x o y"),
    ("SET k a; SET o b PX 1", "MSETNX d x o y"),
    ("SET k a; SET o b PX 1", "DEL k o"),
    ("SET k a; SET o b PX 1", "EXISTS k o"),
    ("SET k a; SET o b PX 1", "RENAME k o"),
    ("SET k a; SET o b PX 1", "RENAMENX k o"),
    ("SET k a; SET o b PX 1", "COPY k o"),
    ("SET k a; SET o b PX 1", "COPY o k"),
    ("SET o b PX 1", "GETDEL o"),
    ("SET o b PX 1", "APPEND o x"),
    ("SET o 5 PX 1", "INCR o"),
    ("SET o 5 PX 1", "SETRANGE o 2 x"),
    ("SET o 5 PX 1", "SET o x XX"),
    ("SET o 5 PX 1", "SET o x NX GET"),
    ("SET o 5 PX 1", "GETEX o EX 100"),
    ("HSET o f v; PEXPIRE o 1", "HSET o g w"),
    ("HSET o f v; PEXPIRE o 1", "HINCRBY o g 1"),
    ("XADD o 1-1 a b; PEXPIRE o 1", "XADD o 2-1 a b"),
    ("XADD o 1-1 a b; PEXPIRE o 1", "XADD o NOMKSTREAM 2-1 a b"),
    ("SET o 5 PX 1; SET k 1", "MULTI; INCR k; GET o; INCR k; EXEC"),
    (
        "SET o 5 PX 1; SET k 1",
        "EVAL \"redis.call('INCR', 'k') redis.call('GET', 'o') redis.call('INCR', 'k')\" 0",
    ),
];

/// What is told of each meeting.
fn told(server: &Server) -> Vec<Vec<String>> {
    let (mut client, mut ear) = (server.client(), server.client());
    say(&mut client, "CONFIG SET notify-keyspace-events KEAm; DEBUG SET-ACTIVE-EXPIRE 0");
    say(&mut ear, "PSUBSCRIBE __keyevent@0__:* mark");
    ear.receive();
    let meet = |&(before, command): &(&str, &str)| {
        say(&mut client, "FLUSHALL");
        say(&mut client, before);
        std::thread::sleep(Duration::from_millis(5));
        say(&mut client, "PUBLISH mark 1");
        hear(&mut ear);
        say(&mut client, command);
        say(&mut client, "PUBLISH mark 1");
        hear(&mut ear)
    };
    MEETINGS.iter().map(meet).collect()
}

/// The events up to the mark.
fn hear(ear: &mut Client) -> Vec<String> {
    let next = || {
        let Value::Array(items) = ear.receive() else { panic!("a message is an array") };
        let [channel, payload] = [&items[2], &items[3]].map(text);
        format!("{} {payload}", channel.rsplit(':').next().expect("a channel has a name"))
    };
    std::iter::repeat_with(next).take_while(|event| !event.starts_with("mark ")).collect()
}

#[test]
fn what_had_expired_is_told_before_what_was_done() {
    let [ours, theirs] = Oracle::Redis82.beside(&["--enable-debug-command", "yes"]);
    let mut wrong = Vec::new();
    for (meeting, (ours, theirs)) in MEETINGS.iter().zip(told(&ours).iter().zip(told(&theirs))) {
        if *ours != theirs {
            wrong.push(format!("{meeting:?}\nours:   {ours:?}\ntheirs: {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a command has removed before it turns out to be too much for a worker is told once, and
/// stands in the log.
#[test]
fn what_goes_before_a_command_leaves_its_worker_is_told() {
    const HASH: &str =
        "EVAL \"for i = 1, 30000 do redis.call('HSET', KEYS[1], 'f' .. i, i) end\" 1 o";
    let server = Server::start(&["--enable-debug-command", "yes", "--appendonly", "yes"]);
    let (mut client, mut ear) = (server.client(), server.client());
    say(&mut client, "CONFIG SET notify-keyspace-events EA; DEBUG SET-ACTIVE-EXPIRE 0");
    say(&mut client, HASH);
    say(&mut client, "HPEXPIRE o 1 FIELDS 1 f7");
    std::thread::sleep(Duration::from_millis(5));
    say(&mut ear, "PSUBSCRIBE __keyevent@0__:hexpired mark");
    ear.receive();
    let Value::Array(fields) = say(&mut client, "HRANDFIELD o 29000") else { panic!("fields") };
    assert_eq!(fields.len(), 29_000);
    assert_eq!(client.info("expired_subkeys"), "1");
    say(&mut client, "PUBLISH mark 1");
    assert_eq!(hear(&mut ear), ["hexpired o"]);
    let digest = say(&mut client, "DEBUG DIGEST");
    assert_eq!(say(&mut client, "DEBUG LOADAOF; DEBUG DIGEST"), digest);
}
