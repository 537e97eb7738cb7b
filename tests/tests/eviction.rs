//! The memory limit: what is refused at it, and what goes.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use base::random::Random;
use proto::value::Value;
use tests::samples::EVICTING_POLICIES;
use tests::server::eventually;
use tests::{Client, Duel, Oracle, Server, check};

/// With a limit that is always exceeded, and nothing that may go.
const REFUSED: &str = r##"
    SET kept 1
    CONFIG SET maxmemory 1
    SET a 1
    GET kept
    DEL nosuch
    INCR x
    LPUSH l 1
    EXPIRE kept 1000
    PERSIST kept
    RENAME kept other
    RENAME other kept
    COPY kept other
    RESTORE q 0 x
    MULTI
    GET kept
    EXEC
    MULTI
    SET a 1
    GET kept
    EXEC
    DISCARD
    MULTI
    CONFIG SET maxmemory 0
    SET a 1
    EXEC
    CONFIG SET maxmemory 0
    MULTI
    SET a 1
    CONFIG SET maxmemory 1
    EXEC
    MULTI
    GET a
    EXEC
    EVAL "return redis.pcall('set','a','1')" 1 a
    EVAL "return redis.call('set','a','1')" 1 a
    EVAL "redis.call('get','a') return redis.call('incr','a')" 1 a
    EVAL "return redis.call('get','a')" 1 a
    EVAL "#!lua\nreturn redis.call('get','a')" 1 a
    EVAL "#!lua flags=allow-oom\nreturn redis.call('set','a','1')" 1 a
    EVAL "#!lua flags=no-writes\nreturn redis.call('get','a')" 1 a
    EVAL "redis.call('del','a') return redis.call('incr','a')" 1 a
    EVAL_RO "return redis.call('get','a')" 1 a
    FUNCTION LOAD "#!lua name=f\nredis.register_function('g', function() return 1 end)"
    SCRIPT LOAD "return 1"
    PUBLISH a b
    CONFIG SET maxmemory-policy volatile-lru
    SET a 1
    CONFIG SET maxmemory-policy noeviction
    CONFIG SET maxmemory 0
    FUNCTION LOAD "#!lua name=f\nredis.register_function('g', function() return 1 end)"
    FUNCTION LOAD "#!lua name=s\nredis.register_function{function_name='s', flags={'allow-oom'}, @
        callback=function(k) return redis.call('set',k[1],'1') end}"
    FUNCTION LOAD "#!lua name=n\nredis.register_function{function_name='n', flags={'no-writes'}, @
        callback=function(k) return redis.call('get',k[1]) end}"
    CONFIG SET maxmemory 1
    FCALL g 1 a
    FCALL s 1 a
    FCALL n 1 a
    FCALL_RO n 1 a
    FLUSHALL
    CONFIG SET maxmemory-policy allkeys-lru
    SET a 1
    CONFIG SET maxmemory-samples 0
    CONFIG SET maxmemory-samples 65
    CONFIG SET maxmemory-eviction-tenacity 101
    CONFIG SET maxmemory -1
    CONFIG SET maxmemory lots
    CONFIG SET maxmemory 0
    SET a 1
"##;

/// Scripts that fail.
const FAILING: &[&str] = &[
    r#"EVAL "return redis.call('set','a','1')" 1 a"#,
    r#"EVAL "redis.call('get','a') return redis.call('incr','a')" 1 a"#,
];

#[test]
fn without_memory_the_replies_are_those_of_redis() {
    for oracle in [Oracle::Redis82, Oracle::Valkey91] {
        let (ours, theirs) = (Server::start(&[]), oracle.start(&[]));
        let mut duel = Duel::new(ours.client(), theirs.client(), 0);
        let script = REFUSED.replace("@\n", "");
        let lines = script.lines().map(str::trim).filter(|line| !line.is_empty());
        // Valkey tells the errors of scripts without the script's digest.
        let is_told = |line: &&str| oracle != Oracle::Valkey91 || !FAILING.contains(line);
        for line in lines.filter(is_told) {
            duel.run(base::quote::split_arguments(line.as_bytes()).unwrap());
        }
    }
}

#[test]
fn while_the_world_stands_still_a_write_is_refused_if_no_key_can_go() {
    const REFUSED: &str = "OOM command not allowed when used memory > 'maxmemory'.";
    let server = Server::start(&["--enable-debug-command", "yes", "--busy-reply-threshold", "20"]);
    let (mut stopper, mut client) = (server.client(), server.client());
    stopper.send(&["DEBUG", "STOP-WORLD", "3"]);
    let is_busy = |reply| matches!(reply, Value::Error(line) if line.starts_with(b"BUSY"));
    eventually("the world stands still", || is_busy(client.call(&["GET", "a"])));
    // Whether any key can go under another policy is not known yet.
    check(&mut client, "> CONFIG SET maxmemory 1 maxmemory-policy allkeys-lru\nOK");
    assert_eq!(client.call(&["SET", "a", "1"]), Value::Error(REFUSED.into()));
}

fn info(client: &mut Client, name: &str) -> i64 {
    let reply = client.call(&["INFO", "all"]);
    let text = String::from_utf8(reply.as_bytes().unwrap().to_vec()).unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("{name}:")));
    let value = line.unwrap_or_else(|| panic!("INFO has {name}")).split_once(':').unwrap().1;
    value.parse().unwrap()
}

/// Sets the limit to so many bytes more than are in use.
fn limit(client: &mut Client, room: i64) -> i64 {
    let limit = info(client, "used_memory") + room;
    client.call(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
    limit
}

/// Sets `count` keys of some size, every second of which expires.
fn fill(client: &mut Client, name: &str, count: usize) {
    for batch in (0..count).collect::<Vec<_>>().chunks(500) {
        let commands = batch.iter().map(|number| {
            let value = "x".repeat(50 + number * 37 % 2000);
            let mut words = vec!["SET".to_owned(), format!("{name}:{number}"), value];
            if number % 2 == 1 {
                words.extend(["EX".to_owned(), "100000".to_owned()]);
            }
            words
        });
        client.pipeline(&commands.collect::<Vec<_>>());
    }
}

#[test]
fn under_every_policy_the_limit_is_kept_and_only_what_may_go_does() {
    const ROOM: i64 = 4 << 20;
    let server = Server::start(&["--worker-threads", "2"]);
    let mut client = server.client();
    for policy in EVICTING_POLICIES {
        client.call(&["CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", policy]);
        client.call(&["CONFIG", "RESETSTAT"]);
        client.call(&["FLUSHALL"]);
        eventually("all is freed", || info(&mut client, "used_memory") < 3 << 20);
        let limit = limit(&mut client, ROOM);
        if policy.starts_with("volatile") {
            // What never expires fits.
            for number in 0..1000 {
                client.call(&["SET", &format!("stays:{number}"), "value"]);
            }
            for number in 0..10_000 {
                let value = "x".repeat(50 + number * 37 % 2000);
                let key = format!("goes:{number}");
                let reply = client.call(&["SET", &key, &value, "EX", "100000"]);
                assert_eq!(reply, Value::Simple(b"OK".to_vec()), "{policy}");
            }
            let left = client.call(&["EVAL", "return #redis.call('keys','stays:*')", "0"]);
            assert_eq!(left, Value::Integer(1000), "{policy}");
        } else {
            fill(&mut client, "k", 10_000);
        }
        let mut used = 0;
        eventually("room is made", || {
            used = info(&mut client, "used_memory");
            used < limit + ROOM / 20
        });
        assert!(used > limit - ROOM / 5, "{policy}: {used} of {limit}");
        // With a limit even these would make room.
        client.call(&["CONFIG", "SET", "maxmemory", "0"]);
        let evicted = info(&mut client, "evicted_keys");
        let Value::Integer(left) = client.call(&["DBSIZE"]) else { panic!("a number") };
        let made = if policy.starts_with("volatile") { 11_000 } else { 10_000 };
        assert_eq!(evicted + left, made, "{policy}");
    }
}

#[test]
fn under_every_policy_no_more_is_resident_than_may_be_whatever_is_saved_meanwhile() {
    // Beside limits up to 64 MB what comes and goes within a second does not count.
    const LIMIT: u64 = 80 << 20;
    // The sizes of requests, replies and chunks on their way to the disk, and what is tolerated.
    const MARGIN: u64 = 16 << 20;
    const BATCH: u64 = 200;
    for policy in EVICTING_POLICIES {
        let server = Server::start(&["--worker-threads", "2", "--maxmemory-policy", policy]);
        let mut client = server.client();
        let resident = server.resident();
        limit(&mut client, LIMIT as i64);
        let (mut random, mut written, mut saves) = (Random::from_seed(3), 0, 0);
        while written < 2 * LIMIT {
            let sets = (0..BATCH).map(|_| {
                let value = "x".repeat(16 + random.below(4080) as usize);
                written += value.len() as u64;
                let key = format!("key:{}", random.next_u64());
                ["SET".to_owned(), key, value, "EX".to_owned(), "100000".to_owned()].to_vec()
            });
            let sets: Vec<_> = sets.collect();
            client.pipeline(&sets);
            if written > LIMIT / 2 {
                // One that is under way is reason enough not to begin another.
                let began = Value::Simple(b"Background saving started".to_vec());
                saves += u32::from(client.call(&["BGSAVE"]) == began);
            }
            let grown = server.resident().saturating_sub(resident);
            assert!(grown < LIMIT + MARGIN, "{policy}: {grown}");
        }
        assert!(saves > 0 && info(&mut client, "evicted_keys") > 0, "{policy}: {saves} saves");
    }
}

#[test]
fn what_waits_to_be_saved_is_little_beside_a_small_limit() {
    const LIMIT: i64 = 32 << 20;
    const COUNT: usize = 30_000;
    let settings = ["--maxmemory-policy", "allkeys-random", "--rdb-key-save-delay", "50"];
    let server = Server::start(&[&["--worker-threads", "2"][..], &settings].concat());
    let mut client = server.client();
    limit(&mut client, LIMIT);
    let mut round = 0;
    eventually("as much waits as may", || {
        round += 1;
        fill(&mut client, &format!("old{round}"), COUNT);
        client.call(&["BGSAVE"]);
        // What has to go for these is not saved yet.
        fill(&mut client, &format!("new{round}"), COUNT);
        eventually("it is saved", || info(&mut client, "rdb_bgsave_in_progress") == 0);
        let held = info(&mut client, "rdb_last_cow_size");
        assert!(held < LIMIT / 16, "{held}");
        held > LIMIT / 40
    });
}

#[test]
fn a_lower_limit_does_not_empty_what_is_being_saved() {
    const COUNT: usize = 30_000;
    let settings = ["--maxmemory-policy", "allkeys-random", "--rdb-key-save-delay", "50"];
    let server = Server::start(&settings);
    let mut client = server.client();
    limit(&mut client, 64 << 20);
    fill(&mut client, "key", COUNT);
    client.call(&["BGSAVE"]);
    // What goes now is copied first: it makes room only when it is saved.
    limit(&mut client, -(8 << 20));
    eventually("it is saved", || info(&mut client, "rdb_bgsave_in_progress") == 0);
    let held = info(&mut client, "rdb_last_cow_size");
    assert!(held < 4 << 20, "{held}");
    let limit = info(&mut client, "maxmemory");
    eventually("the limit is kept", || info(&mut client, "used_memory") <= limit);
    let Value::Integer(left) = client.call(&["DBSIZE"]) else { panic!("a number") };
    assert!(left > COUNT as i64 / 2, "{left}");
}

/// A word of 10 to 200 bytes.
fn word(random: &mut Random) -> String {
    format!("{:01$}", random.next_u64(), 10 + random.below(190) as usize)
}

/// A command that makes one of many containers grow, by up to a thousand members, or shrink.
fn grow_or_shrink(random: &mut Random) -> Vec<String> {
    let (number, count) = (random.below(2400), 1 << random.below(11));
    let (key, kind) = (format!("container:{number}"), number as usize % 4);
    let command = |name: &str, rest: &[String]| [&[name.to_owned(), key.clone()], rest].concat();
    if random.below(3) == 0 {
        let (first, last) = (count.to_string(), "-1".to_owned());
        return match kind {
            0 => command(
                "HDEL",
                &(0..1000).map(|_| random.below(4000).to_string()).collect::<Vec<_>>(),
            ),
            1 => command("LTRIM", &["0".to_owned(), first]),
            2 => command("SPOP", &[first]),
            _ => command("ZREMRANGEBYRANK", &[first, last]),
        };
    }
    let mut members = Vec::new();
    for _ in 0..count {
        if kind == 0 || kind == 3 {
            members.push(random.below(4000).to_string());
        }
        members.push(word(random));
    }
    command(["HSET", "RPUSH", "SADD", "ZADD"][kind], &members)
}

#[test]
fn containers_that_grow_and_shrink_stay_within_the_limit() {
    const LIMIT: u64 = 192 << 20;
    let limit = LIMIT.to_string();
    let server = Server::start(&["--maxmemory", &limit, "--maxmemory-policy", "allkeys-lru"]);
    let (mut client, mut random) = (server.client(), Random::from_seed(5));
    let mut go_on = || {
        let commands: Vec<_> = (0..50).map(|_| grow_or_shrink(&mut random)).collect();
        let replies = client.pipeline(&commands);
        assert!(!replies.iter().any(|reply| matches!(reply, Value::Error(_))));
        commands.iter().flatten().map(String::len).sum::<usize>() as u64
    };
    let mut written = 0;
    while written < 3 * LIMIT {
        written += go_on();
    }
    // Members share pages with those that stay, so more is resident; none of that evicts a key.
    for _ in 0..200 {
        go_on();
        let resident = server.resident();
        assert!(resident < LIMIT + LIMIT / 2, "{resident}");
    }
    eventually("room is made", || info(&mut client, "used_memory") as u64 <= LIMIT);
    let used = info(&mut client, "used_memory") as u64;
    assert!(info(&mut client, "evicted_keys") > 0);
    assert!(used > LIMIT / 100 * 95, "and no more of it than was needed: {used}");
}

/// Makes so many keys, each with a form of `DUMP`'s payload and these words behind it.
fn restore(client: &mut Client, name: &str, count: usize, words: impl Fn(usize) -> Vec<String>) {
    client.call(&["SET", "original", &"x".repeat(1000)]);
    let payload = client.call(&["DUMP", "original"]).as_bytes().unwrap().to_vec();
    for number in 0..count {
        let key = format!("{name}:{number}").into_bytes();
        let mut command = vec![b"RESTORE".to_vec(), key, b"0".to_vec(), payload.clone()];
        command.extend(words(number).into_iter().map(String::into_bytes));
        assert_eq!(client.call(&command), Value::Simple(b"OK".to_vec()));
    }
    client.call(&["DEL", "original"]);
}

fn left(client: &mut Client, name: &str) -> i64 {
    let script = "return #redis.call('keys', ARGV[1])";
    let Value::Integer(left) = client.call(&["EVAL", script, "0", &format!("{name}:*")]) else {
        panic!("a number")
    };
    left
}

#[test]
fn the_keys_that_are_worth_least_go_first() {
    let words = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for (policy, poor, rich) in [
        ("allkeys-lru", "IDLETIME 5000", "IDLETIME 5"),
        ("allkeys-lrm", "IDLETIME 5000", "IDLETIME 5"),
        ("allkeys-lfu", "FREQ 3", "FREQ 100"),
        ("volatile-ttl", "ABSTTL", "ABSTTL"),
    ] {
        let server = Server::start(&["--maxmemory-policy", policy, "--maxmemory-samples", "10"]);
        let mut client = server.client();
        restore(&mut client, "rich", 2000, |_| words(rich));
        restore(&mut client, "poor", 2000, |_| words(poor));
        if policy == "volatile-ttl" {
            for number in 0..2000 {
                client.call(&["EXPIRE", &format!("rich:{number}"), "20000"]);
                client.call(&["EXPIRE", &format!("poor:{number}"), "10000"]);
            }
        }
        // A quarter of all has to go.
        limit(&mut client, -1_000_000);
        eventually("what is too much goes without any command", || {
            info(&mut client, "used_memory") <= info(&mut client, "maxmemory") + 10_000
        });
        let (rich, poor) = (left(&mut client, "rich"), left(&mut client, "poor"));
        assert!(poor < 1300, "{policy}: {poor} of 2000 are left");
        assert!(rich > 1900, "{policy}: {rich} of 2000 are left");
    }
}

#[test]
fn what_is_used_survives_a_scan() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-apus"]);
    let mut client = server.client();
    let key = |name: &str, number: usize| format!("{name}:{number}");
    let set = |name, number| vec!["SET".to_owned(), key(name, number), "x".repeat(1000)];
    let get = |name, number| vec!["GET".to_owned(), key(name, number)];
    client.pipeline(&(0..1000).map(|number| set("used", number)).collect::<Vec<_>>());
    client.pipeline(&(0..1000).map(|number| get("used", number)).collect::<Vec<_>>());
    limit(&mut client, 6_000_000);
    for part in 0..24 {
        let keys = 500 * part..500 * (part + 1);
        client.pipeline(&keys.map(|number| set("passing", number)).collect::<Vec<_>>());
        client.pipeline(&(0..1000).map(|number| get("used", number)).collect::<Vec<_>>());
    }
    assert!(info(&mut client, "evicted_keys") > 5000);
    let left = left(&mut client, "used");
    assert!(left > 950, "{left} of 1000 are left");
    check(&mut client, "> OBJECT IDLETIME nosuch\n(nil)\n> OBJECT FREQ used:1\n~ (error) *");
}

#[test]
fn a_sticky_key_is_never_evicted() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-random"]);
    let mut client = server.client();
    let value = "x".repeat(1000);
    for number in 0..1000 {
        client.call(&["SET", &format!("sticky:{number}"), &value]);
        let reply = client.call(&["STICK", &format!("sticky:{number}"), "nosuch"]);
        assert_eq!(reply, Value::Integer(1));
    }
    let script = r#"
        > STICK sticky:1 sticky:2
        (integer) 0
        > UNSTICK sticky:1 nosuch
        (integer) 1
        > STICK sticky:1
        (integer) 1
        > STICK
        (error) ERR wrong number of arguments for 'stick' command
        > SETRANGE sticky:3 5000 x
        (integer) 5001
        > EXPIRE sticky:4 100000
        (integer) 1
        > RENAME sticky:5 sticky:five
        OK
        > SET sticky:6 short
        OK
    "#;
    check(&mut client, script);
    limit(&mut client, 100_000);
    for number in 0..1000 {
        client.call(&["SET", &format!("other:{number}"), &value]);
    }
    assert_eq!(left(&mut client, "sticky"), 1000);
    assert!(left(&mut client, "other") < 200);
    // With nothing else left it is the writer who is refused.
    client.call(&["CONFIG", "SET", "maxmemory", "1"]);
    eventually("all that may go is gone", || left(&mut client, "other") == 0);
    check(
        &mut client,
        "> SET a 1\n(error) OOM command not allowed when used memory > 'maxmemory'.",
    );
    check(&mut client, "> UNSTICK sticky:1\n(integer) 1");
    eventually("what may go again goes", || left(&mut client, "sticky") == 999);
}

#[test]
fn reading_is_no_access_where_changes_count() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-lrm"]);
    let mut client = server.client();
    restore(&mut client, "k", 2, |_| vec!["IDLETIME".to_owned(), "5000".to_owned()]);
    check(
        &mut client,
        "> GETRANGE k:0 0 0\n\"x\"\n> TOUCH k:0\n(integer) 1\n\
         > OBJECT IDLETIME k:0\n~ (integer) 50??\n\
         > APPEND k:1 x\n(integer) 1001\n",
    );
    let Value::Integer(idle) = client.call(&["OBJECT", "IDLETIME", "k:1"]) else { panic!() };
    assert!(idle < 4000, "{idle}");
}

#[test]
fn an_eviction_is_an_event_and_stays_one_after_a_restart() {
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut client = server.client();
    client.call(&["CONFIG", "SET", "notify-keyspace-events", "Ee"]);
    client.call(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
    let mut listener = server.client();
    listener.call(&["PSUBSCRIBE", "__keyevent@*__:*"]);
    fill(&mut client, "k", 2000);
    limit(&mut client, -200_000);
    eventually("room is made", || info(&mut client, "evicted_keys") > 0);
    let heard = listener.receive();
    let Value::Array(heard) = heard else { panic!("a message") };
    assert_eq!(heard[2].as_bytes().unwrap(), b"__keyevent@0__:evicted");
    client.call(&["CONFIG", "SET", "maxmemory", "0"]);
    // Its reply waits until all that it saw is on disk.
    let size = client.call(&["DBSIZE"]);
    server.kill();
    server.restart();
    assert_eq!(server.client().call(&["DBSIZE"]), size);
}

#[test]
fn a_write_that_cannot_fit_is_refused_before_it_takes_memory() {
    let server = Server::start(&[]);
    let mut client = server.client();
    limit(&mut client, 3 << 20);
    check(&mut client, "> SET small 1\nOK");
    let reply = client.call(&["SET", "big", &"x".repeat(4 << 20)]);
    let expected = "OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(reply, Value::Error(expected.into()));
    check(&mut client, "> SET small 2\nOK\n> EXISTS big\n(integer) 0");
    // One that fits is stored: the buffer that it came in is freed then, and counts only once.
    let reply = client.call(&["SET", "fits", &"x".repeat(2 << 20)]);
    assert_eq!(reply, Value::Simple(b"OK".to_vec()));
    check(&mut client, "> SET small 3\nOK");
}

/// What lies between is nowhere until somebody writes there, so there is nothing to refuse.
#[test]
fn what_is_written_far_out_takes_the_room_of_what_is_written() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let limit = limit(&mut client, 3 << 20);
    let script = r#"
        > SETRANGE far 500000000 x
        (integer) 500000001
        > SETBIT bits 4000000000 1
        (integer) 0
        > SET short value
        OK
        > SETRANGE short 400000000 x
        (integer) 400000001
        > BITFIELD fields SET u8 #300000000 7
        1) (integer) 0
        > GETRANGE short 0 5
        "value\x00"
        > SET small 1
        OK
    "#;
    check(&mut client, script);
    assert!(info(&mut client, "used_memory") < limit);
    assert!(server.resident() < 100 << 20, "{} bytes are resident", server.resident());
}

#[test]
fn a_limit_may_be_a_share_of_the_machine() {
    let server = Server::start(&["--maxmemory", "50%"]);
    let mut client = server.client();
    check(&mut client, "> CONFIG GET maxmemory\n1) \"maxmemory\"\n2) \"50%\"");
    let (limit, machine) =
        (info(&mut client, "maxmemory"), info(&mut client, "total_system_memory"));
    assert!(limit > 0 && limit <= machine / 2, "{limit} of {machine}");
    check(
        &mut client,
        "> CONFIG SET maxmemory 101%\n~ (error) *percentage argument must be between 1 and 100\n\
         > CONFIG SET maxmemory 0%\n~ (error) *percentage argument must be between 1 and 100\n\
         > CONFIG SET maxmemory 10%\nOK",
    );
    assert!(info(&mut client, "maxmemory") < limit);
}

/// What a command does to a key that was not used for long: `k` is a string, `h` a hash, `e` a
/// string that expires; they, or what is renamed, are looked at.
const USES: &[(&str, &str)] = &[
    ("k", "SETNX k 1"),
    ("k", "SET k 1 NX"),
    ("k", "SET k 1 XX"),
    ("k", "SET k 1 NX GET"),
    ("k", "MSETNX k 1 new 1"),
    ("k", "EXPIRE k 1000"),
    ("e", "EXPIRE e 1 GT"),
    ("e", "PEXPIREAT e 1 NX"),
    ("k", "PERSIST k"),
    ("e", "PERSIST e"),
    ("h", "HSETNX h f 1"),
    ("h", "HSETNX h new 1"),
    ("h", "HDEL h nosuch"),
    ("h", "HEXPIRE h 1000 XX FIELDS 1 f"),
    ("k", "COPY e k"),
    ("e", "COPY e new"),
    ("k", "RENAMENX e k"),
    ("e", "RENAMENX e k"),
    ("new", "RENAME e new"),
    ("k", "RENAME e k"),
    ("k", "EXISTS k"),
    ("k", "TYPE k"),
    ("e", "TTL e"),
    ("k", "GET k"),
    ("k", "TOUCH k"),
    ("k", "SCAN 0"),
    ("k", "GETEX k"),
    ("k", "APPEND k x"),
    ("h", "HGET h nosuch"),
];

#[test]
fn what_asks_for_a_key_to_change_it_is_a_use_whether_it_does_or_not() {
    fn idle_after(client: &mut Client, (key, command): &(&str, &str)) -> bool {
        client.call(&["FLUSHALL"]);
        client.call(&["SET", "k", "1"]);
        client.call(&["SET", "e", "1"]);
        client.call(&["HSET", "h", "f", "1"]);
        for (name, deadline) in [("k", "0"), ("e", "1000000"), ("h", "0")] {
            let payload = client.call(&["DUMP", name]).as_bytes().unwrap().to_vec();
            let words: [&[u8]; 7] = [
                b"RESTORE",
                name.as_bytes(),
                deadline.as_bytes(),
                &payload,
                b"REPLACE",
                b"IDLETIME",
                b"5000",
            ];
            assert_eq!(client.call(&words), Value::Simple(b"OK".to_vec()));
        }
        client.call(&command.split(' ').collect::<Vec<_>>());
        match client.call(&["OBJECT", "IDLETIME", key]) {
            Value::Integer(seconds) => seconds > 1000,
            other => panic!("{command}: {other:?}"),
        }
    }
    let policy = ["--maxmemory-policy", "allkeys-lru"];
    let (ours, theirs) = (Server::start(&policy), Oracle::Redis82.start(&policy));
    let (mut ours, mut theirs) = (ours.client(), theirs.client());
    let differ =
        USES.iter().filter(|case| idle_after(&mut ours, case) != idle_after(&mut theirs, case));
    assert_eq!(differ.collect::<Vec<_>>(), Vec::<&(&str, &str)>::new());
}
