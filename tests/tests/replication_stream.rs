//! The stream of a primary: what each command becomes in it, compared with the real server's; whole
//! units; databases; and that neither kills of links nor chains change a byte of it.
//!
//! `APUS_REPLICATION_LINKS=1000` asks for so many kills of a link.

use std::time::Duration;

use proto::value::Value;
use tests::peer::{Impostor, Peer, request, words};
use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow, promote};
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

const HASTY: &[&str] = &[
    "--repl-diskless-sync-delay",
    "0",
    "--save",
    "",
    "--repl-ping-replica-period",
    "3600",
    "--enable-debug-command",
    "yes",
];

/// A primary and a peer that hears its stream.
struct Heard {
    server: Server,
    client: Client,
    peer: Peer,
    number: usize,
}

impl Heard {
    fn start(kind: NodeKind) -> Self {
        let server = kind.start(HASTY);
        if kind == NodeKind::Apus {
            // The peer says nothing of what it can hold, and hears of fields that expire.
            check(&mut server.client(), "> CONFIG SET rdb-write-version 12\nOK");
        }
        let mut peer = Peer::connect(server.port());
        let offset = peer.sync("capa eof capa psync2").offset;
        let mut client = server.client();
        client.call(&["SET", "begin", "v"]);
        // Real ones do not hear the first one, if it comes early.
        eventually("the stream begins", || {
            peer.acknowledge(offset);
            !peer.is_silent(Duration::from_millis(50))
        });
        Self { server, client, peer, number: 0 }
    }

    /// What stands in the stream for these lines, times and SELECT left out.
    fn stream_of(&mut self, lines: &str) -> Vec<String> {
        for line in lines.split(" | ") {
            let words = base::quote::split_arguments(line.as_bytes()).expect("its quotes are even");
            self.client.call(&words);
        }
        self.number += 1;
        let end = format!("end-of-{}", self.number);
        self.client.call(&["SET", "end", &end]);
        let mut commands = Vec::new();
        loop {
            let request = self.peer.request().unwrap_or_else(|| panic!("no stream: {lines}"));
            let words = words(&request);
            if words.contains(&end) {
                return commands;
            }
            if words[0].eq_ignore_ascii_case("SELECT") || words[0].eq_ignore_ascii_case("PING") {
                continue;
            }
            commands
                .push(words.iter().map(|word| without_time(word)).collect::<Vec<_>>().join(" "));
        }
    }
}

/// A moment of these years is any other.
fn without_time(word: &str) -> String {
    let (digits, rest) = word.split_at(word.find('-').unwrap_or(word.len()));
    let is_moment = digits.len() == 13 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_moment && digits.starts_with(['1', '2']) { format!("MS{rest}") } else { word.to_owned() }
}

/// What a client sends, each behind a DEL of what it is about.
const ROWS: &[&str] = &[
    "SET k v EX 100",
    "SET k v PX 100000 NX",
    "SET k v | SET k w EX 100 XX GET",
    "SETEX k 100 v",
    "PSETEX k 100000 v",
    "SET k v EXAT 4102444800",
    "SET k v PXAT 4102444800000",
    "SET k v | SET k w KEEPTTL",
    "set k v",
    "SET k v | SET k w NX",
    "SET k v | GETSET k w",
    "SET k v | GETDEL k",
    "GETDEL k",
    "SET k v | GETEX k EX 100",
    "SET k v EX 100 | GETEX k PERSIST",
    "SET k v | GETEX k PXAT 1",
    "SET k v | GETEX k",
    "SET k v | EXPIRE k 100",
    "SET k v | PEXPIRE k 100000 NX",
    "SET k v | EXPIREAT k 4102444800",
    "SET k v | EXPIRE k -1",
    "SET k v | EXPIRE k 100 XX",
    "EXPIRE k 100",
    "INCRBYFLOAT k 1.5",
    "INCR k",
    "APPEND k v",
    "SETRANGE k 2 v",
    "BITFIELD k SET u8 0 1 INCRBY u8 0 1",
    "BITFIELD k GET u8 0",
    "RPUSH k a b c | LPOP k",
    "RPUSH k a b c | LPOP k 2",
    "RPUSH k a b c | LPOP k 0",
    "SADD k a | SMOVE k l a",
    "SADD k a | SADD k a",
    "SADD k a | SREM k b",
    "SADD k a | SPOP k",
    "SADD k a b | SPOP k 5",
    "ZADD k 1 a | ZINCRBY k 2 a",
    "ZADD k 1 a | ZADD k 1 a",
    "ZADD k 1 a 2 b | ZRANGESTORE l k 0 -1",
    "SADD k a b | SUNIONSTORE l k",
    "SADD k a b | SORT k ALPHA STORE l",
    "SET k v | RENAME k l",
    "SET k v | COPY k l",
    "SET k v | PERSIST k",
    "SET k v EX 100 | PERSIST k",
    "MSET k v l w",
    "SET k v | MSETNX k w l x",
    "RPUSH k a b c | BLPOP k 0",
    "RPUSH k a b c | BRPOP k 0",
    "RPUSH k a b c | LMPOP 1 k LEFT",
    "RPUSH k a b c | BLMPOP 0 1 k RIGHT COUNT 2",
    "RPUSH k a b c | BLMOVE k l LEFT RIGHT 0",
    "RPUSH k a b c | BRPOPLPUSH k l 0",
    "ZADD k 1 a 2 b | BZPOPMIN k 0",
    "ZADD k 1 a 2 b | BZPOPMAX k 0",
    "ZADD k 1 a 2 b | ZMPOP 1 k MIN",
    "ZADD k 1 a 2 b | BZMPOP 0 1 k MAX COUNT 2",
    "XADD k * f v",
    "XADD k 1-1 f v | XADD k MAXLEN ~ 1 2-1 f v",
    "XADD k 1-1 f v | XTRIM k MAXLEN ~ 5",
    "XADD k 1-1 f v | XADD k 2-1 f v | XTRIM k MAXLEN = 1",
    "XADD k 1-1 f v | XGROUP CREATE k g 0 | XREADGROUP GROUP g c STREAMS k >",
    "XADD k 1-1 f v | XGROUP CREATE k g 0 | XREADGROUP GROUP g c NOACK STREAMS k >",
    "XADD k 1-1 f v | XGROUP CREATE k g 0 | XREADGROUP GROUP g c STREAMS k > | XACK k g 1-1",
    "XADD k 1-1 f v | XGROUP CREATE k g 0 | XREADGROUP GROUP g c STREAMS k > | XCLAIM k g d 0 1-1",
    "XADD k 1 f v | XGROUP CREATE k g 0 | XREADGROUP GROUP g c STREAMS k > | XAUTOCLAIM k g d 0 0",
    "GEOADD k 13.361389 38.115556 Palermo",
    "HSET k f 1 | HINCRBYFLOAT k f 1.5",
    "HSET k f 1 | HINCRBY k f 1",
    "HSET k f v g w | HDEL k f h",
    "PFADD k a b | PFCOUNT k",
    "PFADD k a | PFADD k a",
    "EVAL \"redis.call('SET', KEYS[1], 'v') return redis.call('GET', KEYS[1])\" 1 k",
    "EVAL \"redis.call('SET', KEYS[1], 'v') redis.call('SET', KEYS[2], 'w')\" 2 k l",
    "EVAL \"return redis.call('GET', KEYS[1])\" 1 k",
    "EVAL \"redis.call('SET', KEYS[1], 'v') error('half')\" 1 k",
    "EVAL \"redis.set_repl(redis.REPL_NONE) redis.call('SET', KEYS[1], 'v')\" 1 k",
    "SCRIPT LOAD \"return 1\"",
    "PUBLISH c m",
    "CONFIG SET maxmemory 0",
    "FUNCTION LOAD REPLACE \"#!lua name=lib\\nredis.register_function('f', function() end)\"",
    "FUNCTION DELETE lib",
    "SET k v | DEL k l",
    "SET k v | UNLINK k",
    "DEL k",
    "SET k v | MOVE k 5 | SELECT 5 | DEL k | SELECT 0",
    "SWAPDB 0 5 | SWAPDB 0 5",
    "FLUSHDB",
    "FLUSHALL",
    "flushall async",
];

/// Rows that Redis 7.0 has otherwise, or not.
const NEWER_ROWS: &[&str] = &[
    "SET k v PXAT 1",
    "HSET k f v g w | HEXPIRE k 100 FIELDS 1 f",
    "HSET k f v g w | HPEXPIRE k 100000 NX FIELDS 3 f g h",
    "HSET k f v g w | HEXPIREAT k 1 FIELDS 1 f",
    "HSET k f v | HGETEX k EX 100 FIELDS 1 f",
    "HSET k f v | HPEXPIREAT k 4102444800000 FIELDS 1 f | HGETEX k PERSIST FIELDS 1 f",
    "HSET k f v g w | HGETDEL k FIELDS 1 f",
    "HSETEX k EX 100 FIELDS 1 f v",
];

/// What we say in another way, which leaves the same data.
const OTHERWISE: &[(&str, &str)] = &[
    // The primary has decided whether the deadline is to be set.
    ("SET k v | PEXPIRE k 100000 NX", "SET k v | PEXPIREAT k MS"),
    // A field without a time to live has none to keep, and old replicas know this command.
    ("HSET k f 1 | HINCRBYFLOAT k f 1.5", "HSET k f 1 | HSET k f 2.5"),
    // A follower of the data gets all changes of them.
    ("EVAL \"redis.set_repl(redis.REPL_NONE) redis.call('SET', KEYS[1], 'v')\" 1 k", "SET k v"),
];

/// Consumers are made by a command of their own, and names of commands have no case.
fn plainly(commands: &[String]) -> String {
    let loud = |line: &String| {
        let (name, rest) = line.split_at(line.find(' ').unwrap_or(line.len()));
        name.to_uppercase() + rest
    };
    let lines = commands.iter().map(loud).filter(|it| !it.contains("CREATECONSUMER"));
    let text = lines.collect::<Vec<_>>().join(" | ");
    // One command alone has no unit around it.
    let mut units = text.split("MULTI | ");
    let mut plain = units.next().unwrap_or_default().to_owned();
    for unit in units {
        match unit.split_once(" | EXEC") {
            Some((inner, rest)) if !inner.contains(" | ") => plain += &format!("{inner}{rest}"),
            _ => plain += &format!("MULTI | {unit}"),
        }
    }
    plain
}

#[test]
fn r10_13_each_command_is_rewritten_as_the_real_server_rewrites_it() {
    let [mut ours, mut theirs] =
        [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis82)].map(Heard::start);
    let mut told = String::new();
    for row in ROWS.iter().chain(NEWER_ROWS) {
        let [one, other] = [&mut ours, &mut theirs].map(|it| {
            it.stream_of("DEL k l");
            it.stream_of(row)
        });
        let [ours, theirs] = [plainly(&one), plainly(&other)];
        match OTHERWISE.iter().find(|it| it.0 == *row) {
            Some((_, expected)) if ours == *expected && ours != theirs => {}
            None if ours == theirs => {}
            _ => told += &format!("{row}\n  ours:   {ours}\n  theirs: {theirs}\n"),
        }
    }
    assert!(told.is_empty(), "{told}");
}

/// What a primary says was accepted there, whatever limits and spellings hold for clients of ours:
/// a trim that is exact by now and has a limit still, bounds of Redis 7.0, deadlines of Valkey.
#[test]
fn what_a_real_primary_accepted_is_accepted() {
    const LINES: &[&str] = &[
        "CONFIG SET stream-node-max-entries 1",
        "XADD x 3-0 f v",
        "XADD x NOMKSTREAM MINID ~ 10-2 LIMIT 4 19-* f v",
        "XADD x MAXLEN ~ 1 LIMIT 1 20-1 f v",
        "XADD x 21-1 f v",
        "XTRIM x MAXLEN ~ 1 LIMIT 1",
        "XTRIM x MINID ~ 21 LIMIT 1",
        "ZADD z 1 a 16 b 17 c",
        "ZREMRANGEBYSCORE z 0x10 0x10",
        "HSET h f v",
        "HPEXPIREAT h 70368744177664 FIELDS 1 f",
    ];
    for oracle in Oracle::ALL {
        let (primary, replica) = (oracle.start(HASTY), NodeKind::Apus.start(HASTY));
        follow(&replica, primary.port());
        await_replica(&primary, &replica);
        let (mut client, mut below) = (primary.client(), replica.client());
        let ask = |client: &mut Client, line: &str| {
            render(&client.call(&line.split(' ').collect::<Vec<_>>()))
        };
        LINES.iter().for_each(|line| drop(ask(&mut client, line)));
        await_replica(&primary, &replica);
        assert_eq!(below.figure("unexpected_error_replies"), 0, "{oracle:?}: {}", replica.log());
        for line in ["XRANGE x - +", "ZRANGE z 0 -1", "HGETALL h"] {
            assert_eq!(ask(&mut client, line), ask(&mut below, line), "{oracle:?}: {line}");
        }
    }
}

/// A replica reads the numbers that a client wrote: Valkey knows no hexadecimal digits, where all
/// others do.
#[test]
fn numbers_are_said_as_every_replica_reads_them() {
    const LINES: &[&str] = &[
        "ZADD z 0x10 a +0x1p3 b 0X1.8p1 0x1",
        "ZADD z GT CH INCR 0x1 a",
        "ZINCRBY z -0x.8 b",
        "ZUNIONSTORE union 1 z WEIGHTS 0x2",
        "ZINTERSTORE intersection 1 z WEIGHTS 0x1p-1",
        "GEOADD places 0x5 0x5 0x5 5.5 5.5 n",
        "GEOSEARCHSTORE near places FROMLONLAT 0x5 0x5 BYRADIUS 0x200 km",
        "GEOSEARCHSTORE around places FROMMEMBER 0x5 BYBOX 0x200 0x200 km",
        "GEORADIUS places 0x5 0x5 0x200 km STORE within",
        "GEORADIUSBYMEMBER places 0x5 0x200 km STORE beside",
        "INCRBYFLOAT float 0x1.8p0",
        "HINCRBYFLOAT hash field 0x1.8p0",
        "EVAL \"return redis.call('ZADD', KEYS[1], '0x20', 'm')\" 1 scripted",
    ];
    let keys = ["z", "union", "intersection", "places", "near", "around", "within", "beside"];
    for kind in [NodeKind::Apus].into_iter().chain(Oracle::ALL.map(NodeKind::Genuine)) {
        let (primary, replica) = (NodeKind::Apus.start(HASTY), kind.start(HASTY));
        follow(&replica, primary.port());
        await_replica(&primary, &replica);
        let (mut client, mut below) = (primary.client(), replica.client());
        let ask = |client: &mut Client, line: &str| {
            let words = base::quote::split_arguments(line.as_bytes()).expect("its quotes are even");
            render(&client.call(&words))
        };
        for line in LINES {
            let reply = ask(&mut client, line);
            assert!(!reply.contains("ERR"), "{line}: {reply}");
        }
        await_replica(&primary, &replica);
        assert_eq!(below.figure("unexpected_error_replies"), 0, "{}", replica.log());
        let sets = keys.into_iter().chain(["scripted"]);
        let sets = sets.map(|key| format!("ZRANGE {key} 0 -1 WITHSCORES"));
        for line in sets.chain(["GET float", "HGETALL hash"].map(str::to_owned)) {
            assert_eq!(ask(&mut client, &line), ask(&mut below, &line), "{line}");
        }
    }
}

#[test]
fn r10_14_a_unit_has_as_much_around_it_as_it_needs() {
    let [mut ours, mut theirs] =
        [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis82)].map(Heard::start);
    for (lines, expected) in [
        ("MULTI | EXEC", vec![]),
        ("MULTI | GET k | INCR no | GET k | EXEC", vec!["INCR no"]),
        ("MULTI | GET k | EXEC", vec![]),
        ("MULTI | SET k v | GET k | EXEC", vec!["SET k v"]),
        ("MULTI | SET k v | INCR n | EXEC", vec!["MULTI", "SET k v", "INCR n", "EXEC"]),
        ("MULTI | SET k v | DISCARD", vec![]),
        (
            "DEL l | RPUSH l 1 | MULTI | LPOP l | LPOP l | EXEC",
            vec!["DEL l", "RPUSH l 1", "LPOP l"],
        ),
    ] {
        let told = [&mut ours, &mut theirs].map(|it| {
            it.stream_of("DEL k n no l");
            it.stream_of(lines)
        });
        let loud = |it: &[String]| -> Vec<String> {
            let shout =
                |word: &str| if word.eq_ignore_ascii_case("multi") { "MULTI" } else { "EXEC" };
            let line = |line: &String| match line.split(' ').count() {
                1 => shout(line).to_owned(),
                _ => line.clone(),
            };
            it.iter().map(line).filter(|line| !line.starts_with("DEL l")).collect()
        };
        let expected: Vec<&str> = expected.into_iter().filter(|it| *it != "DEL l").collect();
        assert_eq!(loud(&told[0]), expected, "{lines}");
        assert_eq!(told[0], told[1], "{lines}");
    }
    // A client that is served by a unit comes behind it, one by one.
    let told = [ours, theirs].map(|mut it| {
        it.stream_of("DEL queue other to");
        let mut waiters = [it.server.client(), it.server.client()];
        for (at, words) in
            [&["BLPOP", "queue", "0"][..], &["BLMOVE", "queue", "to", "LEFT", "RIGHT", "0"]]
                .into_iter()
                .enumerate()
        {
            waiters[at].send(words);
            let count = (at + 1).to_string();
            eventually("it waits", || it.client.info("blocked_clients") == count);
        }
        it.stream_of("MULTI | RPUSH queue 1 2 3 | SET k v | EXEC")
    });
    // Here the waiters that are served are of the unit, so that nobody sees the one without the
    // other.
    let effects = |it: &[String]| -> Vec<String> {
        let lines = it.iter().map(|line| line.to_uppercase());
        lines.filter(|line| !["MULTI", "EXEC"].contains(&line.as_str())).collect()
    };
    let expected = ["RPUSH QUEUE 1 2 3", "SET K V", "LPOP QUEUE", "LMOVE QUEUE TO LEFT RIGHT"];
    assert_eq!(effects(&told[0]), expected);
    assert_eq!(effects(&told[1]), expected);
    assert_eq!(told[0].iter().filter(|line| *line == "EXEC").count(), 1);
}

#[test]
fn r10_15_a_link_goes_on_in_the_database_that_it_was_in() {
    for kinds in both_ways() {
        let [primary, replica] = kinds.map(|kind| kind.start(HASTY));
        follow(&replica, primary.port());
        let mut client = primary.client();
        check(&mut client, "> SELECT 3\nOK\n> SET before v\nOK");
        await_replica(&primary, &replica);
        for turn in 0..3 {
            let side = if turn == 1 { &replica } else { &primary };
            let kind = if turn == 1 { "MASTER" } else { "REPLICA" };
            side.client().call(&["CLIENT", "KILL", "TYPE", kind]);
            client.call(&["SET", &format!("behind:{turn}"), "v"]);
            await_replica(&primary, &replica);
        }
        assert_eq!(primary.client().info("sync_full"), "1", "{kinds:?}");
        check(
            &mut replica.client(),
            "> DBSIZE\n(integer) 0\n> SELECT 3\nOK\n> DBSIZE\n(integer) 4",
        );
    }
}

/// Apus with each real server as its replica and as its primary.
fn both_ways() -> Vec<[NodeKind; 2]> {
    let genuine = Oracle::ALL.map(NodeKind::Genuine);
    let ways = genuine.into_iter().flat_map(|it| [[NodeKind::Apus, it], [it, NodeKind::Apus]]);
    ways.chain([[NodeKind::Apus; 2]]).collect()
}

#[test]
fn r10_16_a_promoted_replica_says_the_database_of_its_first_write() {
    for last in [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis70)] {
        let (top, middle) = (NodeKind::Apus.start(HASTY), NodeKind::Apus.start(HASTY));
        let below = last.start(HASTY);
        follow(&middle, top.port());
        await_replica(&top, &middle);
        follow(&below, middle.port());
        await_replica(&middle, &below);
        check(&mut top.client(), "> SELECT 5\nOK\n> SET k v\nOK");
        await_replica(&top, &middle);
        await_replica(&middle, &below);
        promote(&middle);
        check(&mut middle.client(), "> SET mine v\nOK");
        await_replica(&middle, &below);
        check(
            &mut below.client(),
            "> GET mine\n\"v\"\n> SELECT 5\nOK\n> GET mine\n(nil)\n> GET k\n\"v\"",
        );
        assert_eq!(middle.client().info("sync_full"), "1", "below went on in part");
    }
}

/// A primary that is played says GETACK alone and within a unit.
#[test]
fn r10_17_getack_is_answered_by_where_the_replica_stood_before_it() {
    let replica = NodeKind::Apus.start(HASTY);
    let primary = Impostor::start();
    follow(&replica, primary.port());
    let mut link = primary.feed(&"a".repeat(40), 1000);
    // What is said each second tells nothing of these.
    let acknowledged = |link: &mut Peer, offset: usize| {
        let words = link.until(&offset.to_string());
        assert_eq!(words[..2], ["REPLCONF", "ACK"], "{words:?}");
    };
    acknowledged(&mut link, 1000);
    let set = request("SET k v");
    link.say(&set);
    let getack = request("REPLCONF GETACK *");
    assert_eq!(getack.len(), 37);
    link.say(&getack);
    let mut offset = 1000 + set.len();
    acknowledged(&mut link, offset);
    offset += getack.len();
    // Within a unit it is a command of the unit, which has not happened before its end.
    let unit = [request("MULTI"), set.clone(), getack.clone(), set.clone(), request("EXEC")];
    link.say(unit.concat());
    acknowledged(&mut link, offset);
    offset += unit.concat().len();
    acknowledged(&mut link, offset);
    link.say(&getack);
    acknowledged(&mut link, offset);
    let (mut client, end) = (replica.client(), (offset + 37).to_string());
    eventually("it counts that one, too", || client.info("slave_repl_offset") == end);
}

#[test]
fn r10_18_a_chain_passes_on_what_it_heard_and_no_half_of_it() {
    let middle = NodeKind::Apus.start(HASTY);
    let primary = Impostor::start();
    follow(&middle, primary.port());
    let id = "b".repeat(40);
    let mut above = primary.feed(&id, 7);
    eventually("it is up", || middle.client().info("master_link_status") == "up");
    let mut below = Peer::connect(middle.port());
    let transfer = below.sync("capa eof capa psync2");
    assert_eq!((transfer.id.as_str(), transfer.offset), (id.as_str(), 7));
    below.acknowledge(7);
    let whole: Vec<u8> = [
        request("SELECT 3"),
        request("set Mixed cAsE"),
        request("PING"),
        request("MULTI"),
        request("INCR n"),
        request("INCR n"),
        request("EXEC"),
        request("REPLCONF GETACK *"),
        request("PUBLISH c m"),
        b"\r\n".to_vec(),
        request("SET k v"),
    ]
    .concat();
    for piece in whole.chunks(11) {
        above.say(piece);
    }
    assert_eq!(
        below.exactly(whole.len()).escape_ascii().to_string(),
        whole.escape_ascii().to_string()
    );
    // A unit that is open, and half a command behind it.
    let open = [request("MULTI"), request("INCR n")].concat();
    above.say(&open);
    above.say(&request("EXEC")[..5]);
    let mut client = middle.client();
    let read = (7 + whole.len() + open.len() + 5).to_string();
    eventually("it has read all that", || client.info("slave_read_repl_offset") == read);
    assert!(below.is_silent(Duration::from_millis(300)));
    check(&mut client, "> SELECT 3\nOK\n> GET n\n\"2\"");
    // What was half is asked for again from where the last whole unit ended.
    drop(above);
    let (mut above, words) = primary.greet();
    assert_eq!(words, ["PSYNC", &id, &(7 + whole.len() + 1).to_string()]);
    above.say("+CONTINUE\r\n");
    let rest = [open, request("EXEC")].concat();
    above.say(&rest);
    assert_eq!(below.exactly(rest.len()), rest);
    check(&mut client, "> GET n\n\"3\"");
}

/// A link that is cut again and again, at any byte, hears each byte once.
#[test]
fn r10_19_kills_of_a_link_double_no_byte_and_lose_none() {
    let asked = std::env::var("APUS_REPLICATION_LINKS").ok();
    let kills = asked.map_or(100, |number| number.parse().expect("a number"));
    let primary = NodeKind::Apus.start(HASTY);
    let mut witness = Peer::connect(primary.port());
    let transfer = witness.sync("capa eof capa psync2");
    witness.acknowledge(transfer.offset);
    let replica = NodeKind::Apus.start(HASTY);
    follow(&replica, primary.port());
    await_replica(&primary, &replica);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let (mut heard, mut total) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let write = |at: usize| {
            let mut client = primary.client();
            for number in 0.. {
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                client.call(&["RPUSH", &format!("list:{at}"), &number.to_string()]);
                client.call(&["INCR", "counter"]);
                std::thread::sleep(Duration::from_micros(200));
            }
        };
        let writers: Vec<_> = (0..2).map(|at| scope.spawn(move || write(at))).collect();
        for kill in 0..kills {
            let mut peer = Peer::connect(primary.port());
            let next = transfer.offset + 1 + i64::try_from(heard.len()).expect("a small test");
            assert_eq!(peer.ask("REPLCONF capa psync2"), "+OK");
            let answer = peer.ask(&format!("PSYNC {} {next}", transfer.id));
            assert_eq!(answer, format!("+CONTINUE {}", transfer.id), "kill {kill}");
            heard.extend(peer.exactly(1 + kill * 37 % 400));
            if kill % 10 == 0 {
                // A replica that is one comes back as often as its clock lets it.
                replica.client().call(&["CLIENT", "KILL", "TYPE", "MASTER"]);
            }
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        writers.into_iter().for_each(|it| it.join().expect("a writer is answered"));
        let Value::Bulk(counted) = primary.client().call(&["GET", "counter"]) else {
            panic!("a counter")
        };
        total = String::from_utf8_lossy(&counted).parse().expect("a number");
    });
    let expected = witness.exactly(heard.len());
    assert!(heard == expected, "the pieces are not the stream");
    await_replica(&primary, &replica);
    let digest = |it: &Server| render(&it.client().call(&["DEBUG", "DIGEST"]));
    assert_eq!(digest(&primary), digest(&replica));
    let lists: i64 = (0..2)
        .map(|at| match replica.client().call(&["LLEN", &format!("list:{at}")]) {
            Value::Integer(length) => length,
            other => panic!("{other:?}"),
        })
        .sum();
    assert_eq!(lists, total);
}
