//! What goes first at the memory limit, and which commands count as a use of a key.

use proto::value::Value;
use tests::samples::limit_memory;
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

/// Makes so many keys, each with a form of `DUMP`'s payload and these words behind it.
fn restore(client: &mut Client, name: &str, count: usize, words: impl Fn(usize) -> Vec<String>) {
    client.call(&["SET", "original", &"x".repeat(1000)]);
    let payload = client.call(&["DUMP", "original"]).as_bytes().expect("a payload").to_vec();
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
        limit_memory(&mut client, -1_000_000);
        eventually("what is too much goes without any command", || {
            client.figure("used_memory") <= client.figure("maxmemory") + 10_000
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
    limit_memory(&mut client, 6_000_000);
    for part in 0..24 {
        let keys = 500 * part..500 * (part + 1);
        client.pipeline(&keys.map(|number| set("passing", number)).collect::<Vec<_>>());
        client.pipeline(&(0..1000).map(|number| get("used", number)).collect::<Vec<_>>());
    }
    assert!(client.figure("evicted_keys") > 5000);
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
    limit_memory(&mut client, 100_000);
    for number in 0..1000 {
        client.call(&["SET", &format!("other:{number}"), &value]);
    }
    assert_eq!(left(&mut client, "sticky"), 1000);
    assert!(left(&mut client, "other") < 200);
    // With nothing else left the writer is refused.
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
