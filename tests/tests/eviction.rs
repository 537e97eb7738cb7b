//! The memory limit: what is refused at it, and what goes.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use base::random::Random;
use proto::value::Value;
use tests::samples::{EVICTING_POLICIES, limit_memory};
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

/// That no key may go is known until one may, however it came to that.
#[test]
fn deadlines_that_come_in_transactions_are_seen_where_none_was() {
    const NAMES: &str = "for number = 0, 9 do redis.call('EXPIRE', 'k' .. number, 1000) end";
    for way in ["plain", "exec", "eval", "undeclared"] {
        let server = Server::start(&["--maxmemory-policy", "volatile-lru"]);
        let (mut client, value) = (server.client(), "x".repeat(50_000));
        limit_memory(&mut client, 4 << 20);
        let set = |client: &mut Client, name: &str| client.call(&["SET", name, &value]);
        let is_refused = |reply: &Value| matches!(reply, Value::Error(_));
        let mut number = 0;
        while !is_refused(&set(&mut client, &format!("k{number}"))) {
            number += 1;
        }
        let expiry = |number| vec!["EXPIRE".to_owned(), format!("k{number}"), "1000".to_owned()];
        let mut commands: Vec<_> = (0..10).map(expiry).collect();
        match way {
            "exec" => {
                commands.insert(0, vec!["MULTI".to_owned()]);
                commands.push(vec!["EXEC".to_owned()]);
            }
            "eval" => {
                let script = "return redis.call('EXPIRE', KEYS[1], 1000)";
                let words = |number| ["EVAL", script, "1", &format!("k{number}")].map(String::from);
                commands = (0..10).map(|number| words(number).to_vec()).collect();
            }
            "undeclared" => commands = vec![["EVAL", NAMES, "0"].map(String::from).to_vec()],
            _ => {}
        }
        client.pipeline(&commands);
        eventually(way, || !is_refused(&set(&mut client, "new")));
    }
}

/// What the gates said as a transaction began holds to its end, for scripts in it, too: else it
/// would be applied by half.
#[test]
fn memory_that_gets_short_meanwhile_does_not_halve_a_transaction() {
    let server = Server::start(&["--enable-debug-command", "yes", "--busy-reply-threshold", "20"]);
    let (mut client, mut other) = (server.client(), server.client());
    other.send(&["MULTI"]);
    for line in [
        "INCR x",
        "DEBUG SLEEP 2",
        "EVAL \"return redis.call('incr', KEYS[1])\" 1 y",
        "EVAL \"#!lua\nreturn redis.call('incr', KEYS[1])\" 1 declared",
        "INCR z",
    ] {
        other.send(&base::quote::split_arguments(line.as_bytes()).unwrap());
    }
    other.send(&["EXEC"]);
    eventually("it runs", || matches!(client.call(&["GET", "x"]), Value::Error(_)));
    client.call(&["CONFIG", "SET", "maxmemory", "1"]);
    eventually("nothing fits", || matches!(client.call(&["SET", "a", "1"]), Value::Error(_)));
    (0..7).for_each(|_| drop(other.receive()));
    check(&mut client, "> MGET x y declared z\n1) \"1\"\n2) \"1\"\n3) \"1\"\n4) \"1\"");
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
        eventually("all is freed", || client.figure("used_memory") < 3 << 20);
        let limit = limit_memory(&mut client, ROOM);
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
            used = client.figure("used_memory");
            used < limit + ROOM / 20
        });
        assert!(used > limit - ROOM / 5, "{policy}: {used} of {limit}");
        // With a limit even these would make room.
        client.call(&["CONFIG", "SET", "maxmemory", "0"]);
        let evicted = client.figure("evicted_keys");
        let Value::Integer(left) = client.call(&["DBSIZE"]) else { panic!("a number") };
        let made = if policy.starts_with("volatile") { 11_000 } else { 10_000 };
        assert_eq!(evicted + left, made, "{policy}");
    }
}

#[test]
fn under_every_policy_no_more_is_resident_than_may_be_whatever_is_saved_meanwhile() {
    // Beside limits up to 64 MB what comes and goes within a second does not count.
    const LIMIT: u64 = 80 << 20;
    // What may lie idle by design: an eighth of the limit (10 MB) and 4 MB of the arena; and what
    // comes before the next look, with requests, replies and chunks on their way to the disk.
    const MARGIN: u64 = 24 << 20;
    const BATCH: u64 = 200;
    for policy in EVICTING_POLICIES {
        let server = Server::start(&["--worker-threads", "2", "--maxmemory-policy", policy]);
        let mut client = server.client();
        let resident = server.resident();
        limit_memory(&mut client, LIMIT as i64);
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
        assert!(saves > 0 && client.figure("evicted_keys") > 0, "{policy}: {saves} saves");
    }
}

#[test]
fn what_waits_to_be_saved_is_little_beside_a_small_limit() {
    const LIMIT: i64 = 32 << 20;
    const COUNT: usize = 30_000;
    let settings = ["--maxmemory-policy", "allkeys-random", "--rdb-key-save-delay", "50"];
    let server = Server::start(&[&["--worker-threads", "2"][..], &settings].concat());
    let mut client = server.client();
    limit_memory(&mut client, LIMIT);
    let mut round = 0;
    eventually("much waits", || {
        round += 1;
        fill(&mut client, &format!("old{round}"), COUNT);
        client.call(&["BGSAVE"]);
        // What has to go for these is not saved yet.
        fill(&mut client, &format!("new{round}"), COUNT);
        eventually("it is saved", || client.figure("rdb_bgsave_in_progress") == 0);
        let held = client.figure("rdb_last_cow_size");
        assert!(held < LIMIT / 16, "{held}");
        held > LIMIT / 80
    });
}

#[test]
fn a_lower_limit_does_not_empty_what_is_being_saved() {
    const COUNT: usize = 30_000;
    let settings = ["--maxmemory-policy", "allkeys-random", "--rdb-key-save-delay", "50"];
    let server = Server::start(&settings);
    let mut client = server.client();
    limit_memory(&mut client, 64 << 20);
    fill(&mut client, "key", COUNT);
    client.call(&["BGSAVE"]);
    // What goes now is copied first, and makes room only when it is saved.
    limit_memory(&mut client, -(8 << 20));
    eventually("it is saved", || client.figure("rdb_bgsave_in_progress") == 0);
    let held = client.figure("rdb_last_cow_size");
    assert!(held < 4 << 20, "{held}");
    let limit = client.figure("maxmemory");
    eventually("the limit is kept", || client.figure("used_memory") <= limit);
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
    eventually("room is made", || client.figure("used_memory") as u64 <= LIMIT);
    let used = client.figure("used_memory") as u64;
    assert!(client.figure("evicted_keys") > 0);
    assert!(used > LIMIT / 100 * 95, "and no more of it than was needed: {used}");
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
    limit_memory(&mut client, -200_000);
    eventually("room is made", || client.figure("evicted_keys") > 0);
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
    limit_memory(&mut client, 3 << 20);
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
    let limit = limit_memory(&mut client, 3 << 20);
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
    assert!(client.figure("used_memory") < limit);
    assert!(server.resident() < 100 << 20, "{} bytes are resident", server.resident());
}

#[test]
fn a_limit_may_be_a_share_of_the_machine() {
    let server = Server::start(&["--maxmemory", "50%"]);
    let mut client = server.client();
    check(&mut client, "> CONFIG GET maxmemory\n1) \"maxmemory\"\n2) \"50%\"");
    let (limit, machine) = (client.figure("maxmemory"), client.figure("total_system_memory"));
    assert!(limit > 0 && limit <= machine / 2, "{limit} of {machine}");
    check(
        &mut client,
        "> CONFIG SET maxmemory 101%\n~ (error) *percentage argument must be between 1 and 100\n\
         > CONFIG SET maxmemory 0%\n~ (error) *percentage argument must be between 1 and 100\n\
         > CONFIG SET maxmemory 10%\nOK",
    );
    assert!(client.figure("maxmemory") < limit);
}
