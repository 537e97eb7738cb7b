//! A data set with something of everything, for tests of files. Invariant: the same commands make
//! it on every server, and no time of its making is in it.

use std::time::Duration;

use proto::value::Value;

use crate::client::Client;
use crate::render::render;
use crate::server::eventually;

/// Makes values of every type, small and large, and a library; `newer` adds what Redis 7.0 has not.
pub fn fill(client: &mut Client, newer: bool) {
    let long = "x".repeat(100_000);
    let wide = "w".repeat(100);
    for command in [
        "SET text hello",
        "SET number 12345",
        "SET negative -7",
        "SET 12 numeric-key",
        "SET expires later PXAT 4102444800999",
        "RPUSH list a b c 1 2",
        "HSET hash a 1 b 2 c text",
        "SADD ints 1 2 70000 -5",
        "SADD members a b 1",
        "ZADD sorted 1 a 1.5 b inf c -inf d 0.1 e",
        "XADD stream 1-1 field value other 12",
        "XADD stream 2-1 field value2 other 13",
        "XADD stream 3-1 another text",
        "XDEL stream 2-1",
        "XGROUP CREATE stream group 1-1",
        "SETBIT bits 7 1",
        "PFADD counter a b c",
        "GEOADD places 13.361389 38.115556 Palermo",
        "SELECT 9",
        "SET text another",
        "SELECT 0",
    ] {
        run(client, &command.split(' ').collect::<Vec<_>>());
    }
    run(client, &["SET", "long", &long]);
    run(client, &["SET", "binary", "a\r\n\u{0}b"]);
    for number in 0..600 {
        let number = number.to_string();
        run(client, &["RPUSH", "long-list", &format!("{wide}{number}")]);
        run(client, &["HSET", "large-hash", &format!("field{number}"), &number]);
        run(client, &["SADD", "large-set", &format!("member{number}")]);
        run(client, &["SADD", "large-ints", &number]);
        run(client, &["ZADD", "large-sorted", &number, &format!("member{number}")]);
        run(client, &["XADD", "large-stream", &format!("{number}-1"), "field", &number]);
        run(client, &["SET", &format!("key:{number}"), &number]);
    }
    run(client, &["FUNCTION", "LOAD", LIBRARY]);
    if newer {
        let timed = ["HPEXPIREAT", "timed", "4102444800999", "FIELDS", "1", "a"];
        run(client, &["HSET", "timed", "a", "1", "b", "2"]);
        run(client, &timed);
        let large = ["HPEXPIREAT", "large-hash", "4102444800999", "FIELDS", "1", "field7"];
        run(client, &large);
    }
}

const LIBRARY: &str = "#!lua name=lib
redis.register_function('answer', function() return 42 end)";

/// Runs a command that must not fail.
#[track_caller]
pub fn run(client: &mut Client, command: &[&str]) -> Value {
    let reply = client.call(command);
    assert!(!matches!(reply, Value::Error(_)), "{command:?}: {}", render(&reply));
    reply
}

/// The data set as one text that is the same for the same data.
pub fn digest(client: &mut Client) -> String {
    render(&run(client, &["DEBUG", "DIGEST"]))
}

/// Has a client hold a key for good: by a script that has written, so that nobody can end it. The
/// script is long before it writes, so that it has left its worker, where it would begin again, by
/// then.
pub fn hold_for_good(holder: &mut Client, killer: &mut Client, key: &str) {
    let begin = |holder: &mut Client| {
        let script = "for turn = 1, 3000000 do end redis.call('SET', KEYS[1], 'v') \
            while true do end";
        holder.send(&["EVAL", script, "1", key]);
    };
    begin(holder);
    let mut patience = Duration::from_millis(20);
    eventually("the script has written", || {
        std::thread::sleep(patience);
        let answer = render(&killer.call(&["SCRIPT", "KILL"]));
        if answer == "OK" {
            // The script was killed before it wrote.
            holder.receive();
            patience *= 2;
            begin(holder);
        }
        answer.contains("UNKILLABLE")
    });
}

/// Sets two strings whose longest common subsequence takes long to find.
pub fn slow_pair(client: &mut Client, one: &str, other: &str, length: usize) {
    let text = |step: usize| (0..length).map(move |at| (b'a' + (at * step % 23) as u8) as char);
    for (key, step) in [(one, 7), (other, 11)] {
        run(client, &["SET", key, &text(step).collect::<String>()]);
    }
}

/// Compares the strings `a` and `b` of [`slow_pair`] and keeps their keys meanwhile, as all scripts
/// do.
pub const SLOW_THAT_HOLDS: [&str; 5] =
    ["EVAL", "return redis.call('LCS', KEYS[1], KEYS[2], 'LEN')", "2", "a", "b"];

/// Sets `maxmemory` to so many bytes more than are in use, and returns it.
pub fn limit_memory(client: &mut Client, room: i64) -> i64 {
    let limit = client.figure("used_memory") + room;
    run(client, &["CONFIG", "SET", "maxmemory", &limit.to_string()]);
    limit
}

/// All policies that evict.
pub const EVICTING_POLICIES: [&str; 10] = [
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-lrm",
    "allkeys-apus",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-lrm",
    "volatile-random",
    "volatile-ttl",
];
