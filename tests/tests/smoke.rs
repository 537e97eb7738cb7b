//! The harness proven on the real servers: what it shows and compares is what they say.

use std::process::Command;

use proto::value::Value;
use tests::differential::{Exception, Rule};
use tests::environment::recorded;
use tests::render::render;
use tests::{Arrival, Duel, Oracle, Server, check, play};

const RESP2: &str = r#"
    > FLUSHALL
    OK
    > SET a 1
    OK
    > INCRBY a 41
    (integer) 42
    > GET a
    "42"
    > GET missing
    (nil)
    > SET a "b c\x00\n" EX 100
    OK
    > GET a
    "b c\x00\n"
    > INCR a
    (error) ERR value is not an integer or out of range
    > TTL a
    ~ (integer) [0-9]*
    > RPUSH list 1 2 3 4 5 6 7 8 9 10
    (integer) 10
    > LRANGE list 0 -1
     1) "1"
     2) "2"
    ...
    > LRANGE missing 0 -1
    (empty array)
    # nested arrays are indented
    > EVAL "return {1, {2, {3, 'a'}}, {}}" 0
    1) (integer) 1
    2) 1) (integer) 2
       2) 1) (integer) 3
          2) "a"
    3) (empty array)
    > PING
    > ECHO later
    <
    PONG
    <
    "later"
"#;

const RESP3: &str = r#"
    > HELLO 3
    ~ 1# "server" => *
    ...
    > FLUSHALL
    OK
    > HGETALL missing
    (empty hash)
    > HSET hash field value
    (integer) 1
    > HGETALL hash
    1# "field" => "value"
    > SADD set a
    (integer) 1
    > SMEMBERS set
    1~ "a"
    > SMEMBERS missing
    (empty set)
    > ZADD zset 1.5 a
    (integer) 1
    > ZSCORE zset a
    (double) 1.5
    > GET missing
    (nil)
    > SUBSCRIBE news
    1> "subscribe"
    2> "news"
    3> (integer) 1
"#;

const CONVERSATION: &str = r#"
    waiter> BLPOP queue 0
    waiter<
    (silence)
    > RPUSH queue job
    (integer) 1
    waiter<
    1) "queue"
    2) "job"
    listener> SUBSCRIBE news
    1) "subscribe"
    2) "news"
    3) (integer) 1
    > PUBLISH news "hello world"
    (integer) 1
    listener<
    1) "message"
    2) "news"
    3) "hello world"
    > QUIT
    OK
    <
    (closed)
"#;

fn converses(server: &Server) {
    check(&mut server.client(), RESP2);
    check(&mut server.client(), RESP3);
    play(server, CONVERSATION);
}

#[test]
fn redis70_converses() {
    converses(&Oracle::redis70());
}

#[test]
fn redis82_converses() {
    converses(&Oracle::redis82());
}

#[test]
fn valkey91_converses() {
    converses(&Oracle::valkey91());
}

#[test]
fn a_wrong_expectation_is_shown() {
    let server = Oracle::redis70();
    let mut client = server.client();
    let wrong = std::panic::AssertUnwindSafe(|| {
        check(&mut client, "> RPUSH l a b\n(integer) 2\n> LRANGE l 0 -1\n1) \"a\"\n2) \"c\"\n");
    });
    let failure = std::panic::catch_unwind(wrong).expect_err("b is not c");
    let text = failure.downcast_ref::<String>().expect("it fails with a text");
    let expected = "line 3 of the script:\n    > LRANGE l 0 -1\n    1) \"a\"\n  - 2) \"c\"\n\
                    but the reply is:\n    1) \"a\"\n  + 2) \"b\"\n";
    assert_eq!(text, expected);
}

/// Every kind of reply that redis-cli 7.0 can show, shown as it does.
#[test]
fn replies_look_as_in_redis_cli() {
    let server = Oracle::Redis70.start(&["--enable-debug-command", "yes"]);
    let kinds = ["string", "integer", "double", "null", "array", "set", "map", "verbatim", "true"];
    let nested =
        "redis.setresp(3) return {{map={a={1,2},b={map={x={double=3.5}}}}},{set={x=1}},{}}";
    let single = "redis.setresp(3) return {map={a={{1,2}},b={map={x={map={y=1}}}}}}";
    let long = "local t = {} for i = 1, 12 do t[i] = {i, {}} end return t";
    let mut commands: Vec<Vec<&str>> =
        kinds.iter().map(|kind| vec!["DEBUG", "PROTOCOL", kind]).collect();
    commands.extend([vec!["EVAL", nested, "0"], vec!["EVAL", long, "0"]]);
    commands.extend([vec!["EVAL", single, "0"], vec!["NOSUCH"]]);
    for command in commands {
        let port = server.port().to_string();
        let mut shown = Command::new(recorded("redis_cli"));
        let shown = shown.args(["-3", "--no-raw", "-p", &port]).args(&command).output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        let rendered = render(&server.client3().call(&command));
        assert_eq!(rendered.trim_end(), shown.trim_end(), "{command:?}");
    }
}

fn command(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn equal_servers_end_a_duel_in_peace() {
    let (first, second) = (Oracle::redis70(), Oracle::redis70());
    let mut duel = Duel::new(first.client3(), second.client3(), 1)
        .ruled(|command| if command[0] == b"SMEMBERS" { Rule::Unordered } else { Rule::Exact });
    let mut commands = vec![command("SADD s a b c"), command("SMEMBERS s"), command("NOSUCH")];
    commands.extend((0..2000).map(|_| command("INCR n")));
    let replies = duel.run_all(commands);
    assert_eq!(replies.last(), Some(&Value::Integer(2000)));
}

#[test]
fn a_duel_tells_how_to_repeat_it() {
    let (first, second) = (Oracle::redis70(), Oracle::redis70());
    second.client().call(&["SET", "k", "odd one"]);
    let mut duel = Duel::new(first.client(), second.client(), 42);
    duel.run(command("PING"));
    let fight = std::panic::AssertUnwindSafe(|| duel.run(command("GET k")));
    let failure = std::panic::catch_unwind(fight).expect_err("the replies differ");
    let text = failure.downcast_ref::<String>().expect("it fails with a text");
    let expected = "seed 42: the replies to the last of these commands differ\nPING\nGET k\n\
                    ours:\n(nil) [Null]\ntheirs:\n\"odd one\" [Bulk]";
    assert_eq!(text, expected);
}

#[test]
fn an_exception_is_counted() {
    const EXCEPTIONS: &[Exception] =
        &[Exception { reason: "k is odd", applies: |command, _, _| command[0] == b"GET" }];
    let (first, second) = (Oracle::redis70(), Oracle::redis70());
    second.client().call(&["SET", "k", "odd one"]);
    let mut duel = Duel::new(first.client(), second.client(), 42).except(EXCEPTIONS);
    duel.run_all(vec![command("GET k"), command("GET k"), command("GET other")]);
    assert_eq!(duel.excused().collect::<Vec<_>>(), [("k is odd", 2)]);
}

#[test]
fn raw_bytes_pass_unchanged() {
    let server = Oracle::redis70();
    let mut client = server.client();
    client.send_raw(b"PING\r\n*1\r\n$4\r\nPING\r\n");
    assert_eq!(client.receive_raw(14), b"+PONG\r\n+PONG\r\n");
    client.send_raw(b"*1\r\n!\r\n");
    assert_eq!(client.receive_to_close(), b"-ERR Protocol error: expected '$', got '!'\r\n");
    let mut client = server.client();
    client.send(&["QUIT"]);
    assert_eq!(client.receive(), Value::Simple(b"OK".to_vec()));
    let patience = std::time::Duration::from_secs(1);
    assert_eq!(client.arrival(patience).unwrap(), Arrival::Closed);
}
