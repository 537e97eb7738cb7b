//! While all data stand still (CLIENT PAUSE WRITE), what begins by itself or comes along with a
//! read changes nothing, neither the data nor the log; and a key that was over when it was watched
//! breaks no transaction as it goes.

use std::time::Duration;

use proto::value::Value;
use tests::render::render;
use tests::server::eventually;
use tests::{Arrival, Client, Oracle, Server};

fn ask(client: &mut Client, line: &str) -> String {
    render(&client.call(&line.split(' ').collect::<Vec<_>>()))
}

fn start() -> Server {
    Server::start(&["--save", "", "--appendonly", "yes", "--enable-debug-command", "yes"])
}

/// A hash, a set and a sorted set of 400 members each, all but one of which are over; 50 keys that
/// are over, and a few small ones.
fn let_time_pass(client: &mut Client) {
    const FILL: &str = "for i = 1, 400 do local m = 'm' .. i \
        redis.call('hset', 'h', m, 'v') redis.call('sadd', 's', m) redis.call('zadd', 'z', i, m) \
        if i > 1 then redis.call('hpexpire', 'h', 1, 'fields', 1, m) \
        redis.call('expiremember', 's', m, 1, 'ms') redis.call('expiremember', 'z', m, 1, 'ms') \
        end end for i = 1, 50 do redis.call('set', 'k' .. i, 'v', 'px', 1) end";
    ask(client, "DEBUG SET-ACTIVE-EXPIRE 0");
    client.call(&["EVAL", FILL, "0"]);
    client.call(&["SET", "live", "v"]);
    std::thread::sleep(Duration::from_millis(5));
}

/// Reads of every kind that look at members or draw keys.
const READS: &[&str] = &[
    "HLEN h",
    "HGETALL h",
    "HKEYS h",
    "HVALS h",
    "HGET h m7",
    "HMGET h m1 m7",
    "HEXISTS h m7",
    "HSTRLEN h m7",
    "HPTTL h FIELDS 1 m7",
    "HRANDFIELD h",
    "HRANDFIELD h 5",
    "HRANDFIELD h -5 WITHVALUES",
    "HSCAN h 0 COUNT 1000",
    "SCARD s",
    "SCARD h",
    "SMEMBERS s",
    "SISMEMBER s m7",
    "SMISMEMBER s m1 m7",
    "SRANDMEMBER s",
    "SRANDMEMBER s 5",
    "SRANDMEMBER s -5",
    "SSCAN s 0 COUNT 1000",
    "SINTER s s",
    "SINTERCARD 2 s s",
    "SUNION s h2",
    "SDIFF s h2",
    "SORT_RO s ALPHA",
    "SORT_RO z ALPHA",
    "ZCARD z",
    "ZCOUNT z -inf +inf",
    "ZLEXCOUNT z - +",
    "ZRANGE z 0 -1",
    "ZREVRANGE z 0 -1",
    "ZRANGEBYSCORE z 0 100",
    "ZRANK z m1",
    "ZREVRANK z m1",
    "ZSCORE z m7",
    "ZMSCORE z m1 m7",
    "ZRANDMEMBER z",
    "ZRANDMEMBER z -5",
    "ZSCAN z 0 COUNT 1000",
    "ZUNION 2 z s",
    "ZINTER 2 z s",
    "ZDIFF 2 z s",
    "ZINTERCARD 2 z s",
    "GEOPOS z m1",
    "RANDOMKEY",
    "KEYS *",
    "SCAN 0 COUNT 1000",
    "GET k1",
    "EXISTS k1 k2 live",
    "TYPE k1",
    "DUMP z",
    "DUMP s",
    "MEMORY USAGE s",
    "OBJECT ENCODING k1",
    "WATCH k1 h s z",
    "DBSIZE",
];

/// Waits until a key that has a deadline is absent; the key stays, as all data stand still.
fn lapse(client: &mut Client, key: &str) {
    eventually("its time is over", || client.call(&["GET", key]) == Value::Null);
}

#[test]
fn a_key_that_was_over_when_it_was_watched_may_go() {
    for server in [Oracle::Redis82.start(&[]), Server::start(&["--worker-threads", "2"])] {
        let (mut client, mut other) = (server.client(), server.client());
        let exec = |client: &mut Client, words: &[&str]| {
            client.call(&["MULTI"]);
            client.call(words);
            render(&client.call(&["EXEC"]))
        };
        // What becomes of it before EXEC, what EXEC runs and what it says.
        type Case<'a> = (&'a [&'a [&'a str]], &'a [&'a str], &'a str);
        let cases: [Case<'_>; 5] = [
            (&[], &["GET", "y"], "1) (nil)"),
            (&[&["CLIENT", "UNPAUSE"], &["GET", "x"]], &["SET", "z", "1"], "1) OK"),
            (&[&["CLIENT", "UNPAUSE"]], &["GET", "x"], "1) (nil)"),
            (&[&["CLIENT", "UNPAUSE"], &["SET", "x", "2"]], &["SET", "z", "1"], "(nil)"),
            (&[&["CLIENT", "UNPAUSE"], &["FLUSHALL"]], &["SET", "z", "1"], "1) OK"),
        ];
        for (becomes, words, expected) in cases {
            other.call(&["SET", "x", "1", "PX", "20"]);
            other.call(&["CLIENT", "PAUSE", "100000", "WRITE"]);
            lapse(&mut other, "x");
            client.call(&["WATCH", "x"]);
            becomes.iter().for_each(|words| drop(other.call(words)));
            assert_eq!(exec(&mut client, words), expected, "{becomes:?}");
            other.call(&["CLIENT", "UNPAUSE"]);
        }
        // One whose time is over behind WATCH has changed.
        other.call(&["SET", "x", "1", "PX", "200"]);
        client.call(&["WATCH", "x"]);
        other.call(&["CLIENT", "PAUSE", "100000", "WRITE"]);
        lapse(&mut other, "x");
        assert_eq!(exec(&mut client, &["GET", "y"]), "(nil)");
        other.call(&["CLIENT", "UNPAUSE"]);
    }
}

#[test]
fn reads_remove_nothing_while_writes_are_paused() {
    let server = start();
    let mut client = server.client();
    let_time_pass(&mut client);
    let state = |client: &mut Client| {
        ["expired_subkeys", "expired_keys", "rdb_changes_since_last_save", "aof_current_size"]
            .map(|field| client.figure(field))
    };
    assert_eq!(ask(&mut client, "CLIENT PAUSE 600000 WRITE"), "OK");
    // What was logged before is in the file, and its size told.
    let mut settled = state(&mut client);
    eventually("the log is written", || {
        std::mem::replace(&mut settled, state(&mut client)) == settled
            && client.figure("aof_buffer_length") == 0
    });
    let before = state(&mut client);
    for read in READS {
        ask(&mut client, read);
        let script = format!("return redis.pcall({})", quoted(read));
        client.call(&["EVAL_RO", &script, "4", "h", "s", "z", "k1"]);
        assert_eq!(state(&mut client), before, "{read}");
    }
    assert_eq!(ask(&mut client, "UNWATCH"), "OK");
    assert_eq!(ask(&mut client, "CLIENT UNPAUSE"), "OK");
    // Each now removes what it meets.
    for (read, alive) in [("SCARD s", 1), ("ZCARD z", 1)] {
        assert_eq!(client.call(&read.split(' ').collect::<Vec<_>>()), Value::Integer(alive));
    }
    assert_eq!(client.figure("expired_subkeys"), 2 * 399);
}

/// The words of a request as arguments of a Lua call.
fn quoted(line: &str) -> String {
    line.split(' ').map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", ")
}

/// A wait that the clock would end with a write waits on.
#[test]
fn entries_are_not_claimed_by_the_clock_while_writes_are_paused() {
    let server = start();
    let (mut client, mut waiter) = (server.client(), server.client());
    ask(&mut client, "XGROUP CREATE x G 0 MKSTREAM");
    ask(&mut client, "XADD x 1-1 f v");
    ask(&mut client, "XREADGROUP GROUP G c1 STREAMS x >");
    waiter.send(
        &"XREADGROUP GROUP G c2 BLOCK 0 CLAIM 400 STREAMS x >".split(' ').collect::<Vec<_>>(),
    );
    eventually("it waits", || client.figure("blocked_clients") == 1);
    assert_eq!(ask(&mut client, "CLIENT PAUSE 600000 WRITE"), "OK");
    let arrival = waiter.arrival(Duration::from_millis(700));
    assert_eq!(arrival.expect("the connection stands"), Arrival::Silence);
    assert!(ask(&mut client, "XPENDING x G - + 10").contains("c1"));
    assert_eq!(ask(&mut client, "CLIENT UNPAUSE"), "OK");
    assert!(render(&waiter.receive()).contains("1-1"));
    assert!(ask(&mut client, "XPENDING x G - + 10").contains("c2"));
}

/// A primary with a replica, and where its stream ends.
fn with_replica(arguments: &[&str]) -> (Server, Server) {
    let (primary, replica) = (Server::start(arguments), Server::start(&[]));
    tests::replication::follow(&replica, primary.port());
    tests::replication::await_replica(&primary, &replica);
    (primary, replica)
}

/// What is done in steps, or on another thread, has its gates asked again at each: when a pause is
/// answered the stream stands still.
#[test]
fn the_stream_stands_still_once_a_pause_is_answered() {
    let memcached = tests::server::free_port();
    let (primary, _replica) = with_replica(&["--memcached-port", &memcached.to_string()]);
    let (mut steering, mut listener) = (primary.client(), primary.client());
    let keys: Vec<String> = (0..9000).map(|number| format!("k{number}")).collect();
    for some in keys.chunks(1000) {
        let words = some.iter().flat_map(|key| [key.as_str(), "v"]);
        steering.call(&std::iter::once("MSET").chain(words).collect::<Vec<_>>());
    }
    let patterns: Vec<String> = (0..20_000).map(|number| format!("p{number}*")).collect();
    for some in patterns.chunks(1000) {
        let words = some.iter().map(String::as_str);
        listener.send(&std::iter::once("PSUBSCRIBE").chain(words).collect::<Vec<_>>());
    }
    eventually("all patterns are there", || steering.figure("pubsub_patterns") == 20_000);
    let mut stands_still = |what: &str| {
        assert_eq!(ask(&mut steering, "CLIENT PAUSE 100000 WRITE"), "OK");
        let end = steering.info("master_repl_offset");
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(steering.info("master_repl_offset"), end, "{what}");
        assert_eq!(ask(&mut steering, "CLIENT UNPAUSE"), "OK");
    };
    for _ in 0..3 {
        let mut publishers: Vec<Client> = (0..8).map(|_| primary.client()).collect();
        publishers.iter_mut().for_each(|it| it.send(&["PUBLISH", "zz", "message"]));
        stands_still("PUBLISH");
        publishers.iter_mut().for_each(|it| assert_eq!(render(&it.receive()), "(integer) 0"));
        let mut items = tests::memcached::Connection::to(memcached);
        items.send(format!("gat 1000 {}\r\n", keys.join(" ")).as_bytes());
        std::thread::sleep(Duration::from_millis(3));
        stands_still("gat");
        let told = items.line("");
        assert_eq!(told.matches("VALUE ").count(), keys.len());
    }
}
