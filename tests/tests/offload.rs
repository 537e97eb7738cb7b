//! What takes long leaves its worker, whatever it is: long replies that a unit makes, control
//! commands of very many names, messages for very many patterns, patterns that are long. INFO's
//! section Workers counts it.

use std::time::Duration;

use proto::value::Value;
use tests::client::encode;
use tests::render::render;
use tests::server::eventually;
use tests::{Arrival, Client, Server, check};

fn start() -> Server {
    Server::start(&["--worker-threads", "1", "--save", ""])
}

/// How many commands ran on other threads.
fn elsewhere(client: &mut Client) -> u64 {
    let workers = render(&client.call(&["INFO", "workers"]));
    let figure = workers.split("elsewhere=").nth(1).expect("the worker's line has it");
    let figure = figure.split(|end: char| !end.is_ascii_digit()).next();
    figure.and_then(|it| it.parse().ok()).expect("it is a number")
}

/// Whether a command runs on another thread.
fn leaves<A: AsRef<[u8]>>(client: &mut Client, request: &[A]) -> (bool, String) {
    let before = elsewhere(client);
    let reply = render(&client.call(request));
    (elsewhere(client) > before, reply)
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// A request with so many names.
fn of_names(line: &str, count: usize, name: impl Fn(usize) -> String) -> Vec<String> {
    words(line).into_iter().chain((0..count).map(name)).collect()
}

#[test]
fn a_long_script_is_compiled_elsewhere() {
    let server = start();
    let mut client = server.client();
    let script = |comment: usize| format!("--{}\nreturn 7", "x".repeat(comment));
    for (comment, is_long) in [(100, false), (1_000_000, true)] {
        let (has_left, digest) = leaves(&mut client, &["SCRIPT", "LOAD", &script(comment)]);
        assert_eq!(has_left, is_long, "{comment}");
        let digest = digest.trim().trim_matches('"').to_owned();
        assert_eq!(client.call(&["EVALSHA", &digest, "0"]), Value::Integer(7));
    }
    let wrong = "x".repeat(100_000) + " = (";
    let (has_left, refusal) = leaves(&mut client, &["SCRIPT", "LOAD", &wrong]);
    assert!(has_left && refusal.contains("Error compiling script"), "{refusal}");
}

#[test]
fn control_commands_of_very_many_names_leave_their_worker_and_reply_the_same() {
    let server = start();
    let mut client = server.client();
    for line in [
        "CONFIG GET",
        "COMMAND INFO",
        "COMMAND DOCS",
        "LATENCY HISTOGRAM",
        "SCRIPT EXISTS",
        "PUBSUB NUMSUB",
        "PUBSUB SHARDNUMSUB",
    ] {
        let name = |number| format!("name:{number}");
        let (is_long, _) = leaves(&mut client, &of_names(line, 20_000, name));
        let (is_short_long, _) = leaves(&mut client, &of_names(line, 20, name));
        assert_eq!((is_long, is_short_long), (true, false), "{line}");
    }
    let names = of_names("CONFIG GET", 5000, |number| {
        ["MaxMemory", "maxclients", "nothing", "SAVE", "maxmemory"][number % 5].to_owned()
    });
    let (is_long, reply) = leaves(&mut client, &names);
    assert!(is_long);
    assert_eq!(reply, render(&client.call(&["CONFIG", "GET", "MaxMemory", "maxclients", "SAVE"])));
}

const FILL: &str = "for i = 1, 20000 do local m = 'member:' .. i
    redis.call('HSET', 'hash', m, m) redis.call('RPUSH', 'list', m)
    redis.call('XADD', 'stream', i, 'field', m) end return 'OK'";

#[test]
fn long_replies_within_a_unit_are_not_made_on_a_worker() {
    let server = start();
    let mut client = server.client();
    client.call(&["EVAL", FILL, "0"]);
    client.call(&["SETRANGE", "string", "999999", "x"]);
    for line in ["HGETALL hash", "LRANGE list 0 -1", "XRANGE stream - +", "XREVRANGE stream + -"] {
        let alone = render(&client.call(&words(line)));
        client.call(&["MULTI"]);
        client.call(&["SET", "other", "1"]);
        client.call(&words(line));
        let before = elsewhere(&mut server.client());
        let within = render(&client.call(&["EXEC"]));
        assert!(elsewhere(&mut client) > before, "{line} within EXEC");
        assert!(within.contains(alone.lines().last().expect("it is long")), "{line}");
        let script = "local r = redis.call(unpack(ARGV)) return #r";
        let request: Vec<String> = words("EVAL")
            .into_iter()
            .chain([script.to_owned(), "0".to_owned()])
            .chain(words(line))
            .collect();
        let (left, _) = leaves(&mut client, &request);
        assert!(left, "{line} within a script");
    }
    let (left, length) =
        leaves(&mut client, &["EVAL", "return #redis.call('GET', KEYS[1])", "1", "string"]);
    assert_eq!((left, &*length), (true, "(integer) 1000000"));
    let (left, _) =
        leaves(&mut client, &["EVAL", "return #redis.call('GET', KEYS[1])", "1", "other"]);
    assert!(!left, "a short one stays");
}

#[test]
fn a_reply_of_very_many_bytes_of_few_keys_is_not_made_on_a_worker() {
    let server = start();
    let mut client = server.client();
    client.call(&["SET", "k", &"v".repeat(60_000)]);
    let (is_long, long) = leaves(&mut client, &of_names("MGET", 100, |_| "k".to_owned()));
    let (is_short_long, short) = leaves(&mut client, &words("MGET k k none"));
    assert_eq!((is_long, is_short_long), (true, false));
    assert!(long.len() > 6_000_000 && short.len() > 120_000);
    // Each lookup counts once, though the command began twice.
    client.call(&["CONFIG", "RESETSTAT"]);
    leaves(&mut client, &of_names("MGET", 100, |_| "k".to_owned()));
    assert_eq!(client.figure("keyspace_hits"), 100);
}

#[test]
fn commands_of_very_many_keys_leave_before_these_are_looked_for_and_wait_elsewhere() {
    const KEYS: usize = 5000;
    let server = start();
    let mut client = server.client();
    let name = |number: usize| format!("k:{number}");
    let pairs =
        |number: usize| if number.is_multiple_of(2) { name(number / 2) } else { "v".to_owned() };
    let lines = [
        (of_names("MSET", 2 * KEYS, pairs), "OK"),
        (of_names("EXISTS", KEYS, name), "(integer) 5000"),
        (of_names("MSETNX", 2 * KEYS, pairs), "(integer) 0"),
        (of_names("DEL", KEYS, name), "(integer) 5000"),
    ];
    for (request, reply) in lines {
        assert_eq!(leaves(&mut client, &request), (true, reply.to_owned()), "{}", request[0]);
    }
    // One that waits for its keys is served from there.
    let mut waits = server.client();
    let mut request = of_names("BLPOP", KEYS, name);
    request.push("0".to_owned());
    waits.send(&request);
    tests::server::eventually("it waits", || client.figure("blocked_clients") == 1);
    check(&mut client, "> RPUSH k:4999 x\n(integer) 1");
    assert!(render(&waits.receive()).contains("k:4999"));
    // What its key counts say that is not so, it is told in its own words.
    let mut request = vec!["ZUNION".to_owned(), "9000".to_owned()];
    request.extend((0..KEYS).map(name));
    assert!(render(&client.call(&request)).contains("syntax error"));
}

#[test]
fn a_value_with_a_hole_is_packed_elsewhere() {
    let server = start();
    let mut client = server.client();
    check(&mut client, "> SETRANGE hole 1999999 x\n(integer) 2000000");
    assert!(leaves(&mut client, &["DUMP", "hole"]).0);
}

#[test]
fn messages_for_very_many_patterns_are_published_elsewhere_and_come_behind_the_reply() {
    let server = start();
    let (mut client, mut subscriber) = (server.client(), server.client());
    subscriber.call(&["HELLO", "3"]);
    subscriber.send(&of_names("PSUBSCRIBE", 3000, |number| format!("n*{number}")));
    for _ in 0..3000 {
        subscriber.receive();
    }
    assert_eq!(leaves(&mut client, &["PUBLISH", "n2999", "m"]), (true, "(integer) 4".to_owned()));
    // n*9, n*99, n*999, n*2999
    for _ in 0..4 {
        assert!(render(&subscriber.receive()).contains("pmessage"));
    }
    subscriber.send(&["PUBLISH", "n0", "own"]);
    assert_eq!(render(&subscriber.receive()), "(integer) 1");
    assert!(render(&subscriber.receive()).contains("own"));
    // A client that has so many patterns is gone at once, and the patterns soon.
    drop(subscriber);
    tests::server::eventually("its patterns are gone", || {
        render(&client.call(&["PUBSUB", "NUMPAT"])) == "(integer) 0"
    });
    assert!(!leaves(&mut client, &["PUBLISH", "nothing", "m"]).0);
}

#[test]
fn a_long_value_leaves_with_the_bytes_that_were_read_and_what_stands_behind_it_stays() {
    let server = start();
    let (mut client, mut admin) = (server.client(), server.client());
    let long: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
    let short = b"short".to_vec();
    let set = |value: &[u8], options: &[&str]| {
        let words = [b"SET".to_vec(), b"long".to_vec(), value.to_vec()];
        let options = options.iter().map(|word| word.as_bytes().to_vec());
        encode(&words.into_iter().chain(options).collect::<Vec<_>>())
    };
    let get = encode(&["GET", "long"]);
    for (value, options, leaves) in
        [(&long, &[][..], true), (&long, &["EX", "100"][..], true), (&short, &[][..], false)]
    {
        let before = elsewhere(&mut admin);
        // A request behind it, and half of one.
        let (half, rest) = get.split_at(7);
        client.send_raw(&[&set(value, options), &get[..], half].concat());
        assert_eq!(render(&client.receive()), "OK");
        assert!(client.receive() == Value::Bulk(value.clone()), "it is what was sent");
        client.send_raw(rest);
        assert!(client.receive() == Value::Bulk(value.clone()), "and so is the next request");
        assert_eq!(elsewhere(&mut admin) > before, leaves);
    }
    // Other commands do, too.
    let before = elsewhere(&mut admin);
    client.call(&[&b"APPEND"[..], b"long", &long]);
    client.call(&[&b"HSET"[..], b"hash", b"field", &long]);
    assert_eq!(elsewhere(&mut admin), before + 2);
    assert_eq!(render(&admin.call(&["STRLEN", "long"])), "(integer) 3000005");
    assert_eq!(render(&admin.call(&["HSTRLEN", "hash", "field"])), "(integer) 3000000");
}

/// What has written and cannot be undone leaves its worker though somebody waits for the world,
/// which waits for it anyway.
#[test]
fn what_is_in_its_middle_leaves_while_the_world_is_wanted() {
    const HOLD: &str = "repeat until string.find(redis.call('INFO', 'clients'), 'maxclients:4321')";
    let server = Server::start(&[
        "--worker-threads",
        "1",
        "--save",
        "",
        "--busy-reply-threshold",
        "600000",
        "--maxclients",
        "4000",
    ]);
    let [mut holder, mut world, mut client, mut other] = [(); 4].map(|()| server.client());
    let fill = "for i = 1, 20000 do redis.call('ZADD', KEYS[1], i, 'member:' .. i) end";
    for key in ["one", "two"] {
        client.call(&["EVAL", fill, "1", key]);
    }
    holder.send(&["EVAL", HOLD, "1", "held"]);
    eventually("the key is held", || {
        let mut probe = server.client();
        probe.send(&["EXISTS", "held"]);
        probe.arrival(Duration::from_millis(20)).unwrap() == Arrival::Silence
    });
    world.send(&["SWAPDB", "5", "6"]);
    eventually("the world is wanted", || {
        render(&client.call(&["CLIENT", "LIST"])).contains("cmd=swapdb")
    });
    for change in ["SET a 1", "LPUSH a 1"] {
        for line in ["MULTI", "DEL a", change, "ZUNIONSTORE out 2 one two"] {
            client.call(&words(line));
        }
        let before = elsewhere(&mut other);
        let reply = render(&client.call(&["EXEC"]));
        assert!(reply.contains("20000"), "{reply}");
        assert_eq!(elsewhere(&mut other), before + 1, "it has left");
    }
    assert!(world.arrival(Duration::from_millis(20)).unwrap() == Arrival::Silence);
    client.call(&words("CONFIG SET maxclients 4321"));
    holder.receive();
    assert_eq!(render(&world.receive()), "OK");
    check(&mut client, "> LLEN a\n(integer) 1\n> ZCARD out\n(integer) 20000");
}

#[test]
fn long_patterns_against_long_names_leave_the_worker() {
    let server = Server::start(&["--worker-threads", "1", "--busy-reply-threshold", "0"]);
    let (mut client, mut other) = (server.client(), server.client());
    let (long, pattern) = ("a".repeat(20_000), format!("*{}b*", "a?".repeat(9_990)));
    let add = |client: &mut Client, number: usize| {
        let key = format!("{long}{number}");
        assert_eq!(render(&client.call(&["SET", &key, "x"])), "OK");
        client.call(&["SADD", "set", &key]);
        client.call(&["HSET", "hash", &key, "x"]);
        client.call(&["ZADD", "sorted", "1", &key]);
    };
    let mut requests = vec![
        vec!["KEYS", &pattern],
        vec!["SCAN", "0", "MATCH", &pattern, "COUNT", "10000"],
        vec!["SSCAN", "set", "0", "MATCH", &pattern, "COUNT", "1000"],
        vec!["HSCAN", "hash", "0", "MATCH", &pattern, "COUNT", "1000"],
        vec!["ZSCAN", "sorted", "0", "MATCH", &pattern, "COUNT", "1000"],
    ];
    // With one worker, another client is never answered first by a request that stays there. How
    // many names it takes to see it depends on the machine.
    for number in 0..640 {
        add(&mut client, number);
        if (number + 1) % 5 != 0 {
            continue;
        }
        requests.retain(|request| {
            client.send(request);
            assert_eq!(render(&other.call(&["PING"])), "PONG");
            let is_first = client.is_silent();
            if is_first {
                assert!(!render(&client.receive()).contains("(error)"), "{}", request[0]);
            }
            !is_first
        });
        if requests.is_empty() {
            return;
        }
    }
    let names: Vec<_> = requests.iter().map(|request| request[0]).collect();
    panic!("{names:?} keep their worker");
}
