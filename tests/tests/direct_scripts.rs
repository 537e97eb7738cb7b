//! Scripts that are run again, by Lua or where nobody waits for them: what they did before is
//! undone, what others did in the same transaction is not, and everything counts once.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::render::{render, text};
use tests::{Client, Oracle, Server, check};

/// Runs without Lua up to where it fails.
const FAILS: &str = "redis.call('INCR', KEYS[1]) return redis.call('LPUSH', KEYS[1], ARGV[1])";

/// Takes longer than a worker gives it.
const LONG: &str =
    "redis.call('INCR', KEYS[1]) for i = 1, 300000 do end return redis.call('GET', 'none')";

fn info(client: &mut Client) -> String {
    text(&client.call(&["INFO", "everything"]))
}

#[track_caller]
fn has(info: &str, line: &str) {
    assert!(info.contains(line), "no {line} in {info}");
}

/// A transaction that reads, fails and publishes before a script, which then has to begin again.
fn transaction(server: &Server, script: &str) -> (String, String) {
    let (mut subscriber, mut client) = (server.client(), server.client());
    subscriber.call(&["SUBSCRIBE", "news"]);
    client.call(&["RPUSH", "list", "x"]);
    let eval = ["EVAL", script, "1", "k", "x"];
    for command in
        [&["MULTI"][..], &["GET", "none"], &["GET", "list"], &["PUBLISH", "news", "m"], &eval]
    {
        client.call(command);
    }
    let replies = render(&client.call(&["EXEC"]));
    let message = render(&subscriber.receive());
    assert!(message.ends_with("3) \"m\""), "{message}");
    assert_eq!(render(&client.call(&["GET", "k"])), "\"1\"");
    (replies, info(&mut client))
}

#[test]
fn what_came_before_a_script_that_fails_stays() {
    let server = Server::start(&["--worker-threads", "1"]);
    let (replies, info) = transaction(&server, FAILS);
    const WRONG: &str = "(error) WRONGTYPE Operation against a key holding the wrong kind of value";
    let expected = format!("1) (nil)\n2) {WRONG}\n3) (integer) 1\n4) {WRONG} script: ");
    assert!(replies.starts_with(&expected), "{replies}");
    for line in [
        "keyspace_misses:1\r\n",
        "errorstat_WRONGTYPE:count=2\r\n",
        "cmdstat_incr:calls=1,",
        "cmdstat_lpush:calls=1,",
        "cmdstat_eval:calls=1,",
    ] {
        has(&info, line);
    }
}

#[test]
fn what_came_before_a_script_that_takes_long_stays() {
    let server = Server::start(&["--worker-threads", "1"]);
    let (replies, info) = transaction(&server, LONG);
    assert!(replies.ends_with("3) (integer) 1\n4) (nil)"), "{replies}");
    for line in
        ["keyspace_misses:2\r\n", "errorstat_WRONGTYPE:count=1\r\n", "cmdstat_incr:calls=1,"]
    {
        has(&info, line);
    }
}

/// The transaction goes on where no session is, and begins from its beginning there.
#[test]
fn what_came_before_a_script_that_takes_long_and_meets_a_key_is_repeated() {
    let server = Server::start(&["--worker-threads", "1"]);
    let script =
        "for i = 1, 300000 do end redis.call('INCR', 'met') return redis.call('INCR', KEYS[1])";
    let (replies, info) = transaction(&server, script);
    assert!(replies.ends_with("3) (integer) 1\n4) (integer) 1"), "{replies}");
    for line in ["keyspace_misses:1\r\n", "cmdstat_incr:calls=2,", "cmdstat_publish:calls=1,"] {
        has(&info, line);
    }
}

/// A command that only its session can run keeps a transaction where that is.
#[test]
fn a_transaction_that_selects_stays_where_its_session_is() {
    let server = Server::start(&["--worker-threads", "1"]);
    let mut client = server.client();
    let long = "for i = 1, 300000 do end return redis.call('INCR', KEYS[1] .. 'other')";
    for command in
        [&["MULTI"][..], &["SELECT", "3"], &["INCR", "a"], &["EVAL", long, "1", "k"], &["PING"]]
    {
        client.call(command);
    }
    let replies = render(&client.call(&["EXEC"]));
    assert_eq!(replies, "1) OK\n2) (integer) 1\n3) (integer) 1\n4) PONG");
    assert_eq!(render(&client.call(&["MGET", "a", "kother"])), "1) \"1\"\n2) \"1\"");
    client.call(&["SELECT", "0"]);
    assert_eq!(render(&client.call(&["DBSIZE"])), "(integer) 0");
}

#[test]
fn a_script_that_fails_does_so_as_in_redis() {
    for server in &Oracle::Redis70.beside(&[]) {
        let script = r#"
        > SET n 41
        OK
        > EVAL "redis.call('INCR', KEYS[1]) redis.call('LPUSH', KEYS[1], 1)" 1 n
        ~ (error) WRONGTYPE Operation against a key holding the wrong kind of value script: *
        > GET n
        "42"
        > EVAL "local x = redis.call('GET', KEYS[1]) if x > 3 then return 1 end" 1 n
        ~ (error) ERR user_script:1: attempt to compare number with string script: *
        > EVAL "local x = redis.call('INCR', KEYS[1]) return x .. redis.call('PING')" 1 n
        ~ (error) ERR user_script:1: attempt to concatenate a table value script: *
        > GET n
        "43"
        > EVAL "redis.call('SET', KEYS[1], 'v') redis.call('SELECT', 3) redis.call('GET')" 1 k
        ~ (error) ERR Wrong number of args calling Redis command from script script: *
        > GET k
        "v"
        > EVAL "return tonumber(redis.call('GET', KEYS[1])) + tonumber(ARGV[1])" 1 n 0x10
        (integer) 59
        > EVAL "return redis.call('GET', KEYS[1]) / ARGV[1] .. ''" 1 n 8
        "5.375"
        > EVAL "return {redis.call('TTL', KEYS[1]), redis.call('GET', 'none'), 3.9, nil, 5}" 1 n
        1) (integer) -1
        2) (nil)
        3) (integer) 3
        "#;
        check(&mut server.client(), script);
    }
}

#[test]
fn what_a_user_may_not_call_is_noted_once() {
    let server = Server::start(&[]);
    let (mut admin, mut client) = (server.client(), server.client());
    admin.call(&["ACL", "SETUSER", "limited", "on", "nopass", "~*", "+@all", "-lpush"]);
    client.call(&["AUTH", "limited", "any"]);
    let reply = render(&client.call(&["EVAL", FAILS, "1", "k", "x"]));
    assert!(reply.starts_with("(error) ERR ACL failure in script: "), "{reply}");
    assert_eq!(render(&client.call(&["GET", "k"])), "\"1\"");
    let log = render(&admin.call(&["ACL", "LOG"]));
    assert!(
        log.contains("\"count\"\n    2) (integer) 1\n")
            || log.contains("\"count\"\n2) (integer) 1"),
        "{log}"
    );
    has(&info(&mut admin), "acl_access_denied_cmd:1\r\n");
}
