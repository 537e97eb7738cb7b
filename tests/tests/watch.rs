//! WATCH misses no change, by whatever route it comes, and sees none where there is none.
//!
//! `APUS_RACES=1000000` asks for so many races of each kind; short runs have fewer.

use proto::value::Value;
use tests::render::{render, text};
use tests::samples::hold_for_good;
use tests::server::eventually;
use tests::watching::{is_aborted, say, servers};
use tests::{Client, Oracle, Server, play};

/// What is there before `k` is watched, and what another client then does.
type Route = (&'static str, &'static str);

const CHANGES: &[Route] = &[
    // Generic commands.
    ("", "SET k 1"),
    ("SET k 1", "SET k 1"),
    ("SET k 1", "DEL k"),
    ("SET k 1", "UNLINK k"),
    ("SET k 1", "DEL k; SET k 1"),
    ("SET k 1", "RENAME k other"),
    ("SET o 1", "RENAME o k"),
    ("SET o 1", "RENAMENX o k"),
    ("SET o 1", "COPY o k"),
    ("SET k 1; SET o 2", "COPY o k REPLACE"),
    ("SET k 1", "MOVE k 1"),
    ("SELECT 1; SET k 1; SELECT 0", "SELECT 1; MOVE k 0"),
    ("SET k 1", "EXPIRE k 1000"),
    ("SET k 1", "EXPIRE k -1"),
    ("SET k 1", "PEXPIREAT k 1"),
    ("SET k 1 EX 1000", "PERSIST k"),
    ("SET k 1", "GETEX k EX 1000"),
    ("RPUSH l 2 1", "SORT l STORE k"),
    // The whole database.
    ("SET k 1", "FLUSHALL"),
    ("SET k 1", "FLUSHALL ASYNC"),
    ("SET k 1", "FLUSHDB"),
    ("SET k 1", "FLUSHDB SYNC"),
    ("SET k 1", "SWAPDB 0 1"),
    ("SET k 1", "SWAPDB 3 0"),
    ("SELECT 1; SET k 1; SELECT 0", "SWAPDB 1 0"),
    // Another transaction.
    ("SET k 1", "MULTI; SET k 2; EXEC"),
    ("SET k 1", "MULTI; GET k; DEL k; SET k 1; EXEC"),
    // A script, whether it declares its keys or not.
    ("SET k 1", "EVAL \"redis.call('SET', KEYS[1], '2')\" 1 k"),
    ("SET k 1", "EVAL \"redis.call('DEL', ARGV[1])\" 0 k"),
    ("SET k 1", "MULTI; EVAL \"return redis.call('INCR', KEYS[1])\" 1 k; EXEC"),
    // Strings.
    ("", "MSET j 1 k 1"),
    ("", "MSETNX j 1 k 1"),
    ("", "SETNX k 1"),
    ("SET k 1", "INCR k"),
    ("SET k 1", "INCRBYFLOAT k 1.5"),
    ("SET k 1", "APPEND k 2"),
    ("SET k 1", "SETRANGE k 1 x"),
    ("SET k 1", "GETSET k 2"),
    ("SET k 1", "GETDEL k"),
    ("SET k 1", "SETBIT k 1 1"),
    ("SET k 1", "BITFIELD k SET u8 0 9"),
    ("SET a 1", "BITOP NOT k a"),
    ("", "PFADD k a"),
    ("PFADD a a", "PFMERGE k a"),
    // Lists.
    ("", "RPUSH k a"),
    ("RPUSH k a", "LPUSHX k b"),
    ("RPUSH k a b", "LPOP k"),
    ("RPUSH k a", "RPOP k"),
    ("RPUSH k a", "LSET k 0 b"),
    ("RPUSH k a", "LINSERT k AFTER a b"),
    ("RPUSH k a", "LREM k 0 a"),
    ("RPUSH k a b", "LTRIM k 1 1"),
    ("RPUSH k a", "LMOVE k o LEFT LEFT"),
    ("RPUSH o a", "LMOVE o k LEFT LEFT"),
    ("RPUSH k a", "LMPOP 2 o k LEFT"),
    ("RPUSH k a", "BLPOP o k 0"),
    ("RPUSH o a", "BRPOPLPUSH o k 0"),
    // Sets.
    ("", "SADD k a"),
    ("SADD k a", "SREM k a"),
    ("SADD k a", "SPOP k"),
    ("SADD k a", "SMOVE k o a"),
    ("SADD o a", "SMOVE o k a"),
    ("SADD o a", "SUNIONSTORE k o"),
    ("SADD k a", "SINTERSTORE k nosuch"),
    // Hashes.
    ("", "HSET k f 1"),
    ("HSET k f 1", "HSET k f 2"),
    ("HSET k f 1", "HDEL k f"),
    ("HSET k f 1", "HINCRBY k f 1"),
    ("HSET k f 1", "HSETNX k g 1"),
    // Sorted sets.
    ("", "ZADD k 1 a"),
    ("ZADD k 1 a", "ZADD k 2 a"),
    ("ZADD k 1 a", "ZINCRBY k 1 a"),
    ("ZADD k 1 a", "ZREM k a"),
    ("ZADD k 1 a", "ZPOPMIN k"),
    ("ZADD k 1 a", "ZREMRANGEBYSCORE k 0 5"),
    ("ZADD o 1 a", "ZUNIONSTORE k 1 o"),
    ("ZADD o 1 a", "ZRANGESTORE k o 0 -1"),
    ("ZADD k 1 a", "BZPOPMAX k 0"),
    ("", "GEOADD k 13 38 a"),
    // Streams.
    ("", "XADD k 1-1 f v"),
    ("XADD k 1-1 f v", "XDEL k 1-1"),
    ("XADD k 1-1 f v", "XTRIM k MAXLEN 0"),
    ("", "XGROUP CREATE k g $ MKSTREAM"),
    // What is written again counts as changed, too.
    ("SET k 1", "SETRANGE k 0 1"),
    ("SET k 1", "INCRBY k 0"),
    ("SET k 1", "APPEND k ''"),
    ("SET k 1", "SET k 2 XX GET"),
    ("SET k 1 EX 1000", "SET k 1 KEEPTTL"),
    ("SET k 1 PXAT 4000000000000", "PEXPIREAT k 4000000000000"),
    ("SET k 1", "BITOP NOT k nosuch"),
    ("SET k 1", "SORT nosuch STORE k"),
    ("RPUSH k a", "LSET k 0 a"),
    ("RPUSH k a", "LMOVE k k LEFT LEFT"),
    ("HSET k f 1", "HSET k f 1"),
    ("HSET k f 1", "HINCRBY k f 0"),
    ("ZADD k 1 a", "ZRANGESTORE k k 0 -1"),
    ("PFADD k a", "PFMERGE k"),
    ("PFADD k a", "PFCOUNT k"),
];

const NO_CHANGES: &[Route] = &[
    ("SET k 1", ""),
    ("SET k 1", "GET k; TYPE k; TTL k; EXISTS k; DUMP k; OBJECT ENCODING k"),
    ("SET k 1", "SET other 1; DEL other"),
    ("SET k 1", "SELECT 1; SET k 2; DEL k"),
    ("SET k 1", "SETNX k 2"),
    ("SET k 1", "SET k 2 NX"),
    ("SET k 1", "MSETNX j 1 k 2"),
    ("", "SET k 2 XX"),
    ("", "DEL k"),
    ("", "EXPIRE k 1000"),
    ("", "FLUSHALL"),
    ("", "FLUSHDB"),
    ("SET other 1", "FLUSHALL"),
    ("SET k 1", "SELECT 1; SET j 1; FLUSHDB"),
    ("SET k 1", "SWAPDB 1 2"),
    ("SET other 1", "SWAPDB 0 1"),
    ("SET k 1", "PERSIST k"),
    ("SET k 1", "EXPIRE k 1000 XX"),
    ("SET k 1", "MULTI; SET k 2; DISCARD"),
    ("SET k 1", "MULTI; GET k; EXEC"),
    ("SET k 1", "EVAL \"return redis.call('GET', KEYS[1])\" 1 k"),
    ("SET k 1; SET o 1", "COPY k o REPLACE"),
    ("SET k 1; SET o 1", "RENAMENX o k"),
    ("SET k 1; SELECT 1; SET k 2; SELECT 0", "MOVE k 1"),
    ("RPUSH k a", "LRANGE k 0 -1; LREM k 0 nosuch; LINSERT k AFTER nosuch b"),
    ("", "LPUSHX k a; LPOP k; LMOVE k o LEFT LEFT"),
    ("SADD k a", "SADD k a; SREM k nosuch; SMOVE k o nosuch; SISMEMBER k a"),
    ("HSET k f 1", "HDEL k nosuch; HSETNX k f 2; HGETALL k"),
    ("ZADD k 1 a", "ZREM k nosuch; ZADD k NX 2 a; ZADD k XX 2 b; ZRANGE k 0 -1"),
    ("ZADD k 1 a", "ZADD k 1 a; ZREMRANGEBYSCORE k 7 9"),
    ("XADD k 1-1 f v", "XDEL k 5-5; XTRIM k MAXLEN 9; XRANGE k - +"),
    ("PFADD k a", "PFADD k a"),
    ("SET k 1", "GETEX k; GETEX k PERSIST; TOUCH k; RENAME k k; SWAPDB 0 0"),
    ("SET k 1 EX 1000", "EXPIRE k 10 GT; EXPIRE k 10 NX"),
    ("SET k 1", "SETBIT k 7 1; BITFIELD k GET u8 0 SET u8 0 49 INCRBY u8 0 0"),
    ("", "BITOP NOT k nosuch; SINTERSTORE k nosuch; ZUNIONSTORE k 1 nosuch"),
    ("", "ZRANGESTORE k nosuch 0 -1; SORT nosuch STORE k"),
    ("RPUSH k a", "LPOP k 0; SORT k ALPHA"),
    ("SADD k a", "SMOVE k k a; SPOP k 0"),
    ("SADD k a; SADD o a", "SMOVE o k a"),
    ("ZADD k 1 a", "ZINCRBY k 0 a; ZADD k INCR 0 a; ZADD k GT 0 a; GEOADD k NX 1 1 a"),
];

/// Changes beside the entries of a stream: where its readers are. As in the real servers, that is
/// no change of the key.
const BESIDE_ENTRIES: &[Route] = &[
    ("XADD k 1-1 f v", "XSETID k 5-5"),
    ("XADD k 1-1 f v", "XGROUP CREATE k g 0"),
    ("XADD k 1-1 f v; XGROUP CREATE k g 0", "XGROUP CREATECONSUMER k g c"),
    ("XADD k 1-1 f v; XGROUP CREATE k g 0", "XGROUP SETID k g $"),
    ("XADD k 1-1 f v; XGROUP CREATE k g 0", "XGROUP DESTROY k g"),
    ("XADD k 1-1 f v; XGROUP CREATE k g 0", "XREADGROUP GROUP g c STREAMS k >"),
    (PENDING, "XGROUP DELCONSUMER k g c"),
    (PENDING, "XACK k g 1-1"),
    (PENDING, "XCLAIM k g d 0 1-1"),
    (PENDING, "XAUTOCLAIM k g d 0 0"),
];

/// Changes to Redis and to us, though all stays as it is; Valkey 9 sees none in them.
const TRIMS_OF_NOTHING: &[Route] = &[
    ("RPUSH k a b", "LTRIM k 0 -1"),
    ("RPUSH k a b", "LTRIM k -12 9223372036854775806"),
    ("RPUSH k a b", "MULTI; LLEN k; LTRIM k 0 1; EXEC"),
    ("RPUSH k a b", "EVAL \"redis.call('LTRIM', KEYS[1], 0, 5)\" 1 k"),
    ("EVAL \"for i = 1, 9 do redis.call('RPUSH', 'k', ('x'):rep(2000)) end\" 0", "LTRIM k 0 8"),
];

/// An entry that was delivered and not acknowledged.
const PENDING: &str = "XADD k 1-1 f v; XGROUP CREATE k g 0; XREADGROUP GROUP g c STREAMS k >";

/// The routes by which EXEC is aborted where it should not be, or not where it should.
fn wrong<'a>(server: &Server, routes: impl Iterator<Item = (&'a Route, bool)>) -> Vec<String> {
    let mut wrong = Vec::new();
    let (mut watcher, mut other) = (server.client(), server.client());
    let whose = if server.is_oracle() { "theirs" } else { "ours" };
    for ((before, change), aborts) in routes {
        say(&mut watcher, "FLUSHALL; SELECT 0");
        say(&mut watcher, before);
        say(&mut watcher, "WATCH k");
        say(&mut other, "SELECT 0");
        say(&mut other, change);
        if is_aborted(&say(&mut watcher, "MULTI; PING; EXEC")) != aborts {
            wrong.push(format!("{whose}: {before}; WATCH k; {change}"));
        }
        // What was watched is forgotten.
        say(&mut other, "SELECT 0; DEL k; SET k 1");
        assert!(!is_aborted(&say(&mut watcher, "MULTI; PING; EXEC")), "{change:?}");
    }
    wrong
}

/// An EXEC waits for locks that never come, at its worker or on another thread.
#[test]
fn an_exec_that_waits_is_over_when_its_watch_breaks() {
    let arguments = ["--worker-threads", "2", "--busy-reply-threshold", "0"];
    let server = Server::start(&arguments);
    let (mut holder, mut other) = (server.client(), server.client());
    hold_for_good(&mut holder, &mut other, "held");
    let ask = |client: &mut Client, words: &[&str]| render(&client.call(words));
    let script = "for turn = 1, 1000000 do end return redis.call('GET', ARGV[1])";
    let waits: [&[&str]; 3] =
        [&["GET", "held"], &["EVAL", script, "0", "held"], &["MSET", "a", "1", "held", "2"]];
    for words in waits {
        for delay_ms in [0, 5, 30] {
            let mut client = server.client();
            assert_eq!(ask(&mut client, &["WATCH", "w1", "w2"]), "OK");
            assert_eq!(ask(&mut client, &["MULTI"]), "OK");
            assert_eq!(ask(&mut client, &["SET", "mine", "v"]), "QUEUED");
            assert_eq!(ask(&mut client, words), "QUEUED");
            client.send(&["EXEC"]);
            client.send(&["PING"]);
            std::thread::sleep(std::time::Duration::from_millis(delay_ms));
            assert_eq!(ask(&mut other, &["INCR", "w2"]).split(' ').next(), Some("(integer)"));
            assert_eq!(render(&client.receive()), "(nil)", "{words:?}");
            assert_eq!(render(&client.receive()), "PONG");
            assert_eq!(ask(&mut other, &["EXISTS", "mine", "a"]), "(integer) 0");
            // Nothing is watched any more.
            assert_eq!(ask(&mut client, &["MULTI"]), "OK");
            assert_eq!(ask(&mut client, &["INCR", "w1"]), "QUEUED");
            assert_eq!(ask(&mut other, &["SET", "w2", "1"]), "OK");
            assert!(ask(&mut client, &["EXEC"]).starts_with("1) (integer)"));
        }
    }
}

#[test]
fn every_change_aborts_and_nothing_else_does() {
    for server in servers() {
        let routes = CHANGES.iter().map(|route| (route, true));
        let routes = routes.chain(NO_CHANGES.iter().map(|route| (route, false)));
        let wrong = wrong(&server, routes.chain(BESIDE_ENTRIES.iter().map(|route| (route, false))));
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

#[test]
fn a_trim_that_keeps_all_aborts_as_in_redis() {
    let oracles = [Oracle::Redis70, Oracle::Redis82].map(|oracle| oracle.start(&[]));
    for server in [Server::start(&[])].into_iter().chain(oracles) {
        let wrong = wrong(&server, TRIMS_OF_NOTHING.iter().map(|route| (route, true)));
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

#[test]
fn a_served_client_changes_what_is_watched() {
    for server in servers() {
        play(
            &server,
            r#"
            # The destination of one who waited.
            > WATCH k
            OK
            waiter> BLMOVE source k LEFT RIGHT 0
            pusher> RPUSH source a
            (integer) 1
            waiter<
            "a"
            > MULTI
            OK
            > EXEC
            (nil)
            # What came and went at once.
            > WATCH j
            OK
            waiter> BLPOP j 0
            pusher> RPUSH j a
            (integer) 1
            waiter<
            1) "j"
            2) "a"
            > MULTI
            OK
            > EXEC
            (nil)
            # Who waited in vain changed nothing.
            > WATCH j
            OK
            waiter> BLPOP j 0.01
            (nil)
            > MULTI
            OK
            > EXEC
            (empty array)
            "#,
        );
    }
}

#[test]
fn a_client_may_abort_its_own_transaction() {
    for server in servers() {
        play(
            &server,
            r#"
            > WATCH a b
            OK
            > SET a 1
            OK
            > MULTI
            OK
            > SET c 1
            QUEUED
            > EXEC
            (nil)
            > GET c
            (nil)
            # One of several keys, watched twice.
            > WATCH a
            OK
            > WATCH a b
            OK
            other> SET b 1
            OK
            > MULTI
            OK
            > EXEC
            (nil)
            "#,
        );
    }
}

#[test]
fn unwatch_and_discard_and_a_refusal_forget() {
    for server in servers() {
        play(
            &server,
            r#"
            > WATCH a
            OK
            other> SET a 2
            OK
            > UNWATCH
            OK
            > MULTI
            OK
            > EXEC
            (empty array)
            > WATCH a
            OK
            other> SET a 3
            OK
            > MULTI
            OK
            > DISCARD
            OK
            > MULTI
            OK
            > EXEC
            (empty array)
            > WATCH a
            OK
            other> SET a 4
            OK
            > MULTI
            OK
            > NOSUCH
            ...
            > EXEC
            (error) EXECABORT Transaction discarded because of previous errors.
            > MULTI
            OK
            > EXEC
            (empty array)
            "#,
        );
    }
}

#[test]
fn what_was_changed_stays_changed() {
    for server in servers() {
        play(
            &server,
            r#"
            # UNWATCH within a transaction comes too late, and so does a change of one's own.
            > WATCH a
            OK
            other> SET a 5
            OK
            > MULTI
            OK
            > UNWATCH
            QUEUED
            > EXEC
            (nil)
            > WATCH a
            OK
            > MULTI
            OK
            > SET a 6
            QUEUED
            > UNWATCH
            QUEUED
            > SET a 7
            QUEUED
            > EXEC
            1) OK
            2) OK
            3) OK
            # What was changed stays changed, whatever is watched later.
            > WATCH a
            OK
            other> SET a 8
            OK
            > WATCH b
            OK
            > MULTI
            OK
            > EXEC
            (nil)
            # The database is that in which one watched.
            > WATCH a
            OK
            > SELECT 1
            OK
            other> SET a 9
            OK
            > MULTI
            OK
            > EXEC
            (nil)
            "#,
        );
    }
}

#[test]
fn what_expires_is_a_change() {
    for server in servers() {
        let (mut watcher, mut other) = (server.client(), server.client());
        // The probe goes with the key, which nobody looks at.
        for looked_at in ["k", "probe"] {
            let moment = watch_what_expires(&mut watcher);
            eventually("the key expires", || {
                now_ms(&mut other) > moment
                    && other.call(&["EXISTS", looked_at]) == Value::Integer(0)
            });
            let reply = say(&mut watcher, "MULTI; GET k; EXEC");
            assert!(is_aborted(&reply), "{looked_at}: {reply:?}");
        }
    }
}

/// Leaves `k` watched while it was there, and `probe` with the same end.
fn watch_what_expires(watcher: &mut Client) -> i64 {
    let mut wait_ms = 20;
    loop {
        let moment = now_ms(watcher) + wait_ms;
        let set =
            |key: &str| ["SET", key, "v", "PXAT", &moment.to_string()].map(str::to_owned).to_vec();
        let watch = ["WATCH", "k"].map(str::to_owned).to_vec();
        let get = ["GET", "k"].map(str::to_owned).to_vec();
        let replies = watcher.pipeline(&[set("k"), set("probe"), watch, get]);
        if replies[3].as_bytes() == Some(b"v") {
            return moment;
        }
        say(watcher, "UNWATCH");
        wait_ms *= 2;
    }
}

/// The server's own time.
fn now_ms(client: &mut Client) -> i64 {
    let Value::Array(parts) = client.call(&["TIME"]) else { panic!("TIME is an array") };
    let number = |part: &Value| text(part).parse::<i64>().expect("TIME tells numbers");
    number(&parts[0]) * 1000 + number(&parts[1]) / 1000
}
