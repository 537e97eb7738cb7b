//! Commands that compute without their locks: what they reply is of one moment, and what they store
//! was made of what was there when it was stored.
//!
//! DEBUG FAILPOINT APART has short ones do it, too, with a pause before they take their locks
//! again.

use std::thread;
use std::time::Duration;

use base::random::Random;
use proto::value::Value;
use tests::render::render;
use tests::samples::{limit_memory, slow_pair};
use tests::server::eventually;
use tests::{Arrival, Client, Server, check};

/// Members that writers move to and fro between two sets.
const MEMBERS: u64 = 40;
/// Commands of each client.
const TURNS: u64 = 600;
const MOVERS: u64 = 3;

fn start(arguments: &[&str]) -> Server {
    let own = ["--enable-debug-command", "yes", "--worker-threads", "4", "--save", ""];
    Server::start(&[&own, arguments].concat())
}

fn ask(client: &mut Client, line: &str) -> String {
    render(&client.call(&line.split(' ').collect::<Vec<_>>()))
}

fn begin_drill(server: &Server) {
    check(&mut server.client(), "> DEBUG FAILPOINT APART\n(integer) 0");
}

/// Waits until a command of this name has begun.
fn has_begun(server: &Server, name: &str) {
    let mut admin = server.client();
    eventually("the command has begun", || {
        let list = admin.call(&["CLIENT", "LIST"]);
        render(&list).contains(&format!("cmd={name}"))
    });
}

/// Moves members between two sets and two sorted sets, each time at one moment.
fn move_members(port: u16, seed: u64) {
    let mut client = Client::connect(port);
    let mut random = Random::from_seed(seed);
    for _ in 0..TURNS {
        let member = random.below(MEMBERS).to_string();
        let (from, to) = if random.below(2) == 0 { ("a", "b") } else { ("b", "a") };
        if random.below(2) == 0 {
            client.call(&["SMOVE", from, to, &member]);
            continue;
        }
        let destination = format!("z{to}");
        let commands = [
            vec!["MULTI"],
            vec!["ZREM", "za", &member],
            vec!["ZREM", "zb", &member],
            vec!["ZADD", &destination, "1", &member],
            vec!["EXEC"],
        ];
        let commands = commands.map(|words| words.into_iter().map(str::to_owned).collect());
        client.pipeline::<String>(&commands);
    }
}

/// Asks for what is the same at every moment.
fn look(port: u16) {
    let mut client = Client::connect(port);
    let all = MEMBERS.to_string();
    for turn in 0..TURNS {
        let (line, expected) = match turn % 6 {
            0 => ("SINTERCARD 2 a b", "0"),
            1 => ("ZINTERCARD 2 za zb", "0"),
            2 => ("SUNIONSTORE union a b", &*all),
            3 => ("ZUNIONSTORE zunion 2 za zb", &*all),
            4 => ("SINTERSTORE both a b", "0"),
            _ => ("ZINTERSTORE zboth 2 za zb", "0"),
        };
        assert_eq!(ask(&mut client, line), format!("(integer) {expected}"), "{line}");
    }
}

#[test]
fn what_several_keys_hold_is_of_one_moment() {
    let mut server = start(&["--appendonly", "yes"]);
    let members: Vec<String> = (0..MEMBERS).map(|member| member.to_string()).collect();
    let mut client = server.client();
    client.call(&[&["SADD".to_owned(), "a".to_owned()], &members[..]].concat());
    for member in &members {
        client.call(&["ZADD", "za", "1", member]);
    }
    begin_drill(&server);
    let port = server.port();
    thread::scope(|scope| {
        for seed in 0..MOVERS {
            scope.spawn(move || move_members(port, seed));
        }
        (0..3).for_each(|_| _ = scope.spawn(move || look(port)));
    });
    // The log has them in the order in which they took effect.
    check(&mut client, "> SET last v\nOK\n> WAITAOF 1 0 0\n1) (integer) 1\n2) (integer) 0");
    let digest = ask(&mut client, "DEBUG DIGEST");
    server.kill();
    server.restart();
    assert_eq!(ask(&mut server.client(), "DEBUG DIGEST"), digest);
}

/// Each adds members of its own to one source and stores: whatever it finds stored behind that has
/// them, whichever client stored it.
#[test]
fn what_is_stored_has_all_that_was_there_before() {
    let server = start(&[]);
    begin_drill(&server);
    let port = server.port();
    let store = move |own: u64| {
        let mut client = Client::connect(port);
        for turn in 0..TURNS / 2 {
            let member = format!("{own}:{turn}");
            client.call(&["SADD", "source", &member]);
            client.call(&["RPUSH", "list", &member]);
            client.call(&["SETBIT", "bits", &(own * 1000 + turn).to_string(), "1"]);
            match turn % 4 {
                0 => client.call(&["SUNIONSTORE", "stored", "source", "none"]),
                1 => client.call(&["SDIFFSTORE", "stored", "source", "none"]),
                2 => client.call(&["SORT", "list", "BY", "nosort", "STORE", "sorted"]),
                _ => client.call(&["BITOP", "OR", "all", "bits", "none"]),
            };
            let found = match turn % 4 {
                0 | 1 => client.call(&["SISMEMBER", "stored", &member]),
                2 => match client.call(&["LPOS", "sorted", &member]) {
                    Value::Integer(_) => Value::Integer(1),
                    other => other,
                },
                _ => client.call(&["GETBIT", "all", &(own * 1000 + turn).to_string()]),
            };
            assert_eq!(found, Value::Integer(1), "{member}");
        }
    };
    thread::scope(|scope| {
        (0..4).for_each(|own| _ = scope.spawn(move || store(own)));
    });
}

#[test]
fn a_slow_reader_keeps_nobody_from_the_world() {
    let server = start(&[]);
    let (mut slow, mut other) = (server.client(), server.client());
    slow_pair(&mut other, "a", "b", 8_000);
    slow.send(&["LCS", "a", "b", "LEN"]);
    has_begun(&server, "lcs");
    assert_eq!(ask(&mut other, "FLUSHALL"), "OK");
    // The command had begun before, so its reply tells of what was there then.
    assert!(matches!(slow.receive(), Value::Integer(1..)));
}

/// News of a change that comes before the reply would be forgotten for it.
#[test]
fn a_caching_client_has_its_reply_before_the_news_of_a_change() {
    let server = start(&[]);
    let (mut slow, mut other) = (server.client3(), server.client());
    slow_pair(&mut other, "a", "b", 4_000);
    begin_drill(&server);
    assert_eq!(ask(&mut slow, "CLIENT TRACKING ON"), "OK");
    slow.send(&["LCS", "a", "b", "LEN"]);
    has_begun(&server, "lcs");
    assert_eq!(ask(&mut other, "SET a x"), "OK");
    assert!(matches!(slow.receive(), Value::Integer(1..)));
    assert!(matches!(slow.receive(), Value::Push(_)));
}

/// A client whose news come by another connection cannot tell which came first: its commands keep
/// their locks, in every mode.
#[test]
fn a_client_with_redirected_invalidations_keeps_its_locks() {
    let server = start(&["--busy-reply-threshold", "1"]);
    let (mut news, mut other) = (server.client3(), server.client());
    slow_pair(&mut other, "a", "b", 2_000);
    begin_drill(&server);
    let id = render(&news.call(&["CLIENT", "ID"]));
    let id = id.trim_start_matches("(integer) ");
    for mode in ["", " BCAST", " BCAST PREFIX a", " OPTOUT"] {
        let mut slow = server.client();
        assert_eq!(ask(&mut slow, &format!("CLIENT TRACKING ON REDIRECT {id}{mode}")), "OK");
        eventually(mode, || {
            slow.send(&["LCS", "a", "b", "LEN"]);
            has_begun(&server, "lcs");
            let is_kept_waiting = ask(&mut other, "SETRANGE a 0 x").contains("BUSY");
            assert!(matches!(slow.receive(), Value::Integer(1..)));
            is_kept_waiting
        });
    }
}

#[test]
fn errors_and_absent_keys_are_told_from_there_as_well() {
    let server = start(&[]);
    begin_drill(&server);
    check(
        &mut server.client(),
        r#"
        > SET text v
        OK
        > SADD set 3 1 2
        (integer) 3
        > SUNION set text
        (error) WRONGTYPE Operation against a key holding the wrong kind of value
        > SUNIONSTORE out set text
        (error) WRONGTYPE Operation against a key holding the wrong kind of value
        > SORT set BY weight* STORE out
        (integer) 3
        > SORT set BY weight* GET # GET value*
        1) "1"
        2) (nil)
        3) "2"
        4) (nil)
        5) "3"
        6) (nil)
        > ZUNIONSTORE out 1 none
        (integer) 0
        > EXISTS out
        (integer) 0
        > RESTORE text 0 nonsense
        (error) BUSYKEY Target key name already exists.
        > RESTORE text 0 nonsense REPLACE
        (error) ERR DUMP payload version or checksum are wrong
        > GETRANGE text 0 -1
        "v"
        > PFADD one a b
        (integer) 1
        > PFMERGE two one
        OK
        > PFCOUNT two
        (integer) 2
        > GEOADD places 1 1 near 50 50 far
        (integer) 2
        > GEOSEARCHSTORE out places FROMMEMBER near BYRADIUS 5 km
        (integer) 1
        > GEORADIUS places 1 1 5 km
        1) "near"
        > ZRANGESTORE other out 0 -1
        (integer) 1
        > XREAD COUNT 1 STREAMS none 0
        (nil)"#,
    );
}

/// A value whose key goes while a read phase has a copy of it is garbage that waits: writes wait
/// for it, and neither are they refused nor do other keys go in its place.
#[test]
fn writes_are_not_refused_nor_keys_evicted_for_what_a_read_phase_holds() {
    const MEGABYTE: usize = 1 << 20;
    for (policy, goes, evicted) in [
        ("noeviction", "DEL big", "0"),
        ("noeviction", "SET big small", "0"),
        ("noeviction", "FLUSHALL", "0"),
        ("allkeys-lru", "DEL big", "0"),
        ("volatile-lru", "PEXPIRE big 100000000", "1"),
    ] {
        let server = start(&["--maxmemory-policy", policy]);
        let (mut slow, mut admin, mut writer) = (server.client(), server.client(), server.client());
        for number in 0..32 {
            let mut member = vec![b'm'; MEGABYTE];
            member[0] = number;
            admin.call(&[&b"SADD"[..], b"big", &member]);
        }
        let key = |number: usize| vec!["SET".to_owned(), format!("key:{number}"), "v".repeat(1000)];
        admin.pipeline::<String>(&(0..2000).map(key).collect::<Vec<_>>());
        limit_memory(&mut admin, 8 << 20);
        assert_eq!(ask(&mut admin, "DEBUG FAILPOINT APART HELD"), "(integer) 0");
        // What the command computes takes no memory.
        slow.send(&["SINTERSTORE", "out", "big", "none"]);
        has_begun(&server, "sinterstore");
        let reply = ask(&mut admin, goes);
        assert!(reply == "OK" || reply == "(integer) 1", "{goes}: {reply}");
        let (mut is_held, value) = (true, vec![b'v'; MEGABYTE]);
        for number in 0..20 {
            writer.send(&[&b"SET"[..], format!("new:{number}").as_bytes(), &value]);
            let mut arrival = writer.arrival(Duration::from_millis(300)).unwrap();
            if is_held && arrival == Arrival::Silence {
                is_held = false;
                assert_eq!(ask(&mut admin, "DEBUG FAILPOINT APART OFF"), "(integer) 1");
            }
            if arrival == Arrival::Silence {
                arrival = Arrival::Reply(writer.receive());
            }
            let Arrival::Reply(reply) = arrival else { panic!("{goes}: {arrival:?}") };
            assert_eq!(render(&reply), "OK", "{policy}, {goes}, {number}");
        }
        // Where the key went before the copies were taken there was enough, and nobody waited.
        if is_held {
            assert_eq!(ask(&mut admin, "DEBUG FAILPOINT APART OFF"), "(integer) 1");
        }
        slow.receive();
        assert_eq!(admin.info("evicted_keys"), evicted, "{policy}, {goes}");
    }
}

/// What a pause holds gives back the thread that it computed on: others compute meanwhile.
#[test]
fn what_a_pause_holds_keeps_no_thread() {
    let server = start(&[]);
    let mut admin = server.client();
    check(&mut admin, "> DEBUG FAILPOINT LANES 1\n(integer) 0\n> SADD one a b\n(integer) 2");
    for words in [
        vec![vec!["SUNIONSTORE", "out", "one", "none"]],
        vec![vec!["BITOP", "NOT", "out", "text"]],
        vec![vec!["PING"], vec!["SORT", "one", "ALPHA", "STORE", "out"], vec!["PING"]],
    ] {
        check(&mut admin, "> DEL out\n(integer) 0\n> SET text v\nOK");
        assert_eq!(ask(&mut admin, "DEBUG FAILPOINT APART HELD"), "(integer) 0");
        let (mut stores, mut reads) = (server.client(), server.client());
        words.iter().for_each(|words| stores.send(words));
        let computes = words.iter().find(|words| words[0] != "PING").unwrap()[0];
        has_begun(&server, &computes.to_lowercase());
        assert_eq!(ask(&mut admin, "CLIENT PAUSE 600000 WRITE"), "OK");
        assert_eq!(ask(&mut admin, "DEBUG FAILPOINT APART"), "(integer) 1");
        for _ in 0..3 {
            assert_eq!(render(&reads.call(&["SUNION", "one", "none"])).lines().count(), 2);
        }
        assert_eq!(ask(&mut admin, "EXISTS out"), "(integer) 0");
        // A client that is killed is done with. The others are behind the pause, in their order.
        let mut gone = server.client();
        let id = gone.id();
        gone.send(&["SUNIONSTORE", "gone", "one"]);
        has_begun(&server, &computes.to_lowercase());
        ask(&mut admin, &format!("CLIENT KILL ID {id}"));
        assert_eq!(ask(&mut admin, "CLIENT UNPAUSE"), "OK");
        for words in &words {
            let reply = render(&stores.receive());
            assert_eq!(reply == "PONG", words[0] == "PING", "{reply}");
            assert!(!reply.contains("error"), "{reply}");
        }
        check(&mut admin, "> EXISTS out gone\n(integer) 1\n> DEL out\n(integer) 1");
        assert_eq!(ask(&mut admin, "DEBUG FAILPOINT APART OFF"), "(integer) 1");
    }
}
