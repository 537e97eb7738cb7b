//! DEBUG: which users may, exact replies, and what its tools do.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::time::{Duration, Instant};

use proto::value::Value;
use tests::render::render;
use tests::server::eventually;
use tests::{Client, Duel, Oracle, Server, check, play};

const DEBUG: &[&str] = &["--enable-debug-command", "yes"];

/// Whatever has the same reply on Redis 8.2.
const COMMON: &str = r#"
    DEBUG
    DEBUG NOSUCH
    DEBUG SLEEP
    DEBUG SLEEP 0
    DEBUG SLEEP -1
    DEBUG SLEEP x
    DEBUG SLEEP 0 1
    DEBUG PROTOCOL string
    DEBUG PROTOCOL integer
    DEBUG PROTOCOL double
    DEBUG PROTOCOL bignum
    DEBUG PROTOCOL null
    DEBUG PROTOCOL array
    DEBUG PROTOCOL set
    DEBUG PROTOCOL map
    DEBUG PROTOCOL attrib
    DEBUG PROTOCOL verbatim
    DEBUG PROTOCOL TRUE
    DEBUG PROTOCOL False
    DEBUG PROTOCOL nosuch
    DEBUG PROTOCOL
    DEBUG ERROR "MYERR a b"
    DEBUG ERROR "one\r\ntwo"
    DEBUG LOG hi
    DEBUG REPLICATE SET
    DEBUG CHANGE-REPL-ID
    DEBUG DICT-RESIZING 0
    DEBUG DICT-RESIZING 1
    DEBUG PAUSE-CRON 0
    DEBUG PAUSE-CRON
    DEBUG REPLYBUFFER PEAK-RESET-TIME NEVER
    DEBUG REPLYBUFFER peak-reset-time RESET
    DEBUG REPLYBUFFER PEAK-RESET-TIME 100
    DEBUG REPLYBUFFER RESIZING 1
    DEBUG REPLYBUFFER NOSUCH 1
    DEBUG REPLYBUFFER RESIZING
    DEBUG SET-DISABLE-DENY-SCRIPTS 0
    DEBUG SET-DISABLE-DENY-SCRIPTS
    DEBUG SET-SKIP-CHECKSUM-VALIDATION 0
    DEBUG DROP-CLUSTER-PACKET-FILTER -1
    DEBUG CLIENT-EVICTION
    DEBUG QUICKLIST-PACKED-THRESHOLD 100b
    DEBUG QUICKLIST-PACKED-THRESHOLD 0
    DEBUG QUICKLIST-PACKED-THRESHOLD x
    DEBUG QUICKLIST-PACKED-THRESHOLD 5gb
    DEBUG SET-ACTIVE-EXPIRE 0
    DEBUG SET-ACTIVE-EXPIRE 1
    DEBUG SET-ACTIVE-EXPIRE
    DEBUG OBJECT
    DEBUG OBJECT nosuch
    DEBUG SDSLEN nosuch
    DEBUG LISTPACK nosuch
    DEBUG LISTPACK
    HSET packed field value
    DEBUG LISTPACK packed
    SADD numbers 1
    DEBUG LISTPACK numbers
    DEL packed numbers
    DEBUG HTSTATS 99
    DEBUG HTSTATS x
    DEBUG HTSTATS
    DEBUG HTSTATS-KEY nosuch
    DEBUG DIGEST
    DEBUG DIGEST x
    DEBUG DIGEST-VALUE
    DEBUG DIGEST-VALUE nosuch nosuch
    DEBUG POPULATE
    DEBUG POPULATE x
    DEBUG POPULATE -1
    DEBUG POPULATE 1 a x
    DEBUG POPULATE 1 a 1 1
    DEBUG POPULATE 0
    DEBUG POPULATE 3
    DEBUG POPULATE 3 foo
    DEBUG POPULATE 3 foo 100
    DEBUG POPULATE 3 bar 3
    DEBUG POPULATE 3 baz 20
    DEBUG POPULATE 1 one 0
    DBSIZE
    MGET key:0 key:1 key:2 foo:0 foo:2 bar:0 bar:1 baz:2 one:0
    SET i 12
    DEBUG SDSLEN i
    DEBUG HTSTATS-KEY i
    FLUSHALL
    DEBUG DIGEST
"#;

#[test]
fn replies_are_those_of_redis() {
    for connect in [Server::client, Server::client3] {
        // The defaults differ.
        let flags = [DEBUG, &["--maxmemory-clients", "0"]].concat();
        let (ours, theirs) = (Server::start(&flags), Oracle::Redis82.start(&flags));
        let mut duel = Duel::new(connect(&ours), connect(&theirs), 0);
        duel.run_lines(COMMON);
    }
}

/// Elements above and below what is packed in a node there; here that changes nothing.
const PACKED: &str = r#"
    DEBUG QUICKLIST-PACKED-THRESHOLD 20b
    RPUSH l xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx small yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy
    LPUSH l 1
    LSET l 1 tiny
    LSET l 2 zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz
    LINSERT l BEFORE tiny xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    LINSERT l AFTER tiny s
    LRANGE l 0 -1
    LPOS l zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz
    LREM l 1 yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy
    LINDEX l -1
    LMOVE l m LEFT RIGHT
    LMOVE l m LEFT RIGHT
    LTRIM l 1 -1
    LRANGE l 0 -1
    LRANGE m 0 -1
    RPOP m
    COPY m n
    LRANGE n 0 -1
    OBJECT ENCODING l
    DEBUG QUICKLIST-PACKED-THRESHOLD 0
"#;

#[test]
fn a_packed_threshold_changes_no_reply() {
    let (ours, theirs) = (Server::start(DEBUG), Oracle::Redis82.start(DEBUG));
    Duel::new(ours.client(), theirs.client(), 0).run_lines(PACKED);
}

#[test]
fn debug_is_for_clients_that_the_configuration_names() {
    let refused = "> DEBUG SLEEP 0\n(error) ERR DEBUG command not allowed. If the \
        enable-debug-command option is set to \"local\", you can run it from a local connection, \
        otherwise you need to set this option in the configuration file, and then restart the \
        server.";
    check(&mut Server::start(&[]).client(), refused);
    let local = Server::start(&["--enable-debug-command", "local"]);
    check(&mut local.client(), "> DEBUG SLEEP 0\nOK");
}

#[test]
fn push_is_for_those_who_understand_it() {
    let server = Server::start(DEBUG);
    let refused = "> DEBUG PROTOCOL push\n(error) ERR RESP2 is not supported by this command";
    check(&mut server.client(), refused);
    let script = "> DEBUG PROTOCOL push\n\"Some real reply following the push reply\"\n\
                  <\n1> \"server-cpu-usage\"\n2> (integer) 42";
    check(&mut server.client3(), script);
}

#[test]
fn a_sleeper_keeps_nobody_else_waiting() {
    let server = Server::start(&["--enable-debug-command", "yes", "--worker-threads", "1"]);
    play(
        &server,
        r#"
        sleeper> DEBUG SLEEP 0.3
        sleeper> PING
        other> PING
        PONG
        sleeper<
        (silence)
        sleeper<
        OK
        sleeper<
        PONG
        "#,
    );
    // Ever so many sleepers take no threads.
    let mut sleepers: Vec<Client> = (0..100).map(|_| server.client()).collect();
    for sleeper in &mut sleepers {
        sleeper.send(&["DEBUG", "SLEEP", "1000000000000"]);
    }
    check(&mut server.client(), "> DEBUG POPULATE 10\nOK\n> DEBUG SLEEP 0.01\nOK");
}

#[test]
fn objects_are_shown() {
    let server = Server::start(DEBUG);
    let mut client = server.client();
    check(
        &mut client,
        r#"
        > SET k hello
        OK
        > SET n 12
        OK
        > DEBUG OBJECT k
        ~ Value at:0x* refcount:1 encoding:embstr serializedlength:6 lru:* lru_seconds_idle:0
        > DEBUG OBJECT n
        ~ Value at:0x* refcount:1 encoding:int serializedlength:2 lru:* lru_seconds_idle:0
        > DEBUG SDSLEN k
        ~ key_sds_len:1, key_sds_avail:0, key_zmalloc: *, val_sds_len:5, val_sds_avail:*
        > DEBUG HTSTATS 0
        ~ "?Dictionary HT]* table size: 16\\n number of elements: 2\\n?Expires HT]\\n"
        > DEBUG HTSTATS 0 full
        ~ "?Dictionary HT]*partitions: 2*Bucket fill distribution:*
        > DEBUG HTSTATS 5
        "[Dictionary HT]\n[Expires HT]\n"
        > DEBUG STRINGMATCH-TEST
        Apparently Redis did not crash: test passed
        > DEBUG STRUCTSIZE
        ~ "bits:64 *
        > DEBUG HELP
        ~ *1) DEBUG <subcommand> *
        ...
        "#,
    );
}

#[test]
fn digests_tell_data_sets_apart() {
    let digest = |lines: &str| {
        let server = Server::start(DEBUG);
        let mut client = server.client();
        for line in lines.split(';') {
            client.call(&base::quote::split_arguments(line.as_bytes()).unwrap());
        }
        client.call(&["DEBUG", "DIGEST"])
    };
    let one = digest("SET a 1;SET b 2");
    assert_eq!(one, digest("SET b 2;SET c 3;SET a 1;DEL c"));
    for other in
        ["SET a 1", "SET a 2;SET b 1", "SET a 1;SET b 2 EX 100", "SET a 1;SELECT 1;SET b 2"]
    {
        assert_ne!(one, digest(other), "{other}");
    }
    let server = Server::start(DEBUG);
    let mut client = server.client();
    check(&mut client, "> SET a x\nOK\n> SET b x\nOK");
    let Value::Array(values) = client.call(&["DEBUG", "DIGEST-VALUE", "a", "b"]) else { panic!() };
    assert_eq!(values[0], values[1], "a value's digest knows no key");
}

#[test]
fn expiry_can_be_left_to_readers() {
    let server = Server::start(DEBUG);
    let mut client = server.client();
    check(&mut client, "> DEBUG SET-ACTIVE-EXPIRE 0\nOK\n> SET k v PX 10\nOK");
    std::thread::sleep(Duration::from_millis(700));
    check(&mut client, "> DBSIZE\n(integer) 1\n> DEBUG SET-ACTIVE-EXPIRE 1\nOK");
    tests::server::eventually("the key is gone", || client.call(&["DBSIZE"]) == Value::Integer(0));
}

#[test]
fn many_keys_come_while_others_are_served() {
    let server = Server::start(&["--enable-debug-command", "yes", "--worker-threads", "1"]);
    let (mut maker, mut other) = (server.client(), server.client());
    let started = Instant::now();
    maker.send(&["DEBUG", "POPULATE", "200000"]);
    let mut answered = 0;
    let reply = loop {
        check(&mut other, "> GET nosuch\n(nil)");
        answered += 1;
        match maker.arrival(Duration::from_millis(1)).unwrap() {
            tests::Arrival::Reply(reply) => break reply,
            _ => assert!(started.elapsed() < Duration::from_secs(60)),
        }
    };
    assert_eq!(reply, Value::Simple(b"OK".to_vec()));
    check(&mut other, "> DBSIZE\n(integer) 200000\n> GET key:199999\n\"value:199999\"");
    assert!(answered > 1, "others are answered while the keys are made");
    // The world can be had in the middle of it.
    maker.send(&["DEBUG", "POPULATE", "200000", "more"]);
    check(&mut other, "> FLUSHALL\nOK");
    assert_eq!(maker.receive(), Value::Simple(b"OK".to_vec()));
}

/// What a server that may debug runs within a transaction, and from scripts where those are let.
#[test]
fn words_run_within_transactions_and_scripts() {
    let server = Server::start(&["--enable-debug-command", "yes", "--worker-threads", "1"]);
    let (mut client, mut other) = (server.client(), server.client());
    let session = r#"
        > MULTI
        OK
        > SET k value
        QUEUED
        > DEBUG DIGEST-VALUE k
        QUEUED
        > DEBUG SDSLEN k
        QUEUED
        > DEBUG POPULATE 3 made 4
        QUEUED
        > DEBUG DIGEST
        QUEUED
        > GET made:2
        QUEUED
        > DEBUG OBJECT nosuch
        QUEUED
        > DEBUG HTSTATS 0
        QUEUED
        > DEBUG SLEEP 0.2
        QUEUED
    "#;
    check(&mut client, session);
    client.send(&["EXEC"]);
    // The transaction holds the world, and not the worker.
    check(&mut other, "> PING\nPONG");
    let Value::Array(replies) = client.receive() else { panic!("no replies") };
    let digest = |client: &mut Client, words: &[&str]| client.call(words);
    assert_eq!(replies[1], digest(&mut client, &["DEBUG", "DIGEST-VALUE", "k"]));
    assert_eq!(replies[4], digest(&mut client, &["DEBUG", "DIGEST"]));
    assert_eq!(replies[3], Value::Simple(b"OK".to_vec()));
    assert_eq!(replies[5], client.call(&["GET", "made:2"]));
    assert!(matches!(&replies[6], Value::Error(text) if text == b"ERR no such key"));
    assert_eq!(replies[8], Value::Simple(b"OK".to_vec()));
    let denied = "(error) ERR This Redis command is not allowed from script";
    let digest = "redis.call('SET', KEYS[1], 'x') \
                  return #redis.call('DEBUG', 'DIGEST-VALUE', KEYS[1])[1].ok";
    let populate = "redis.call('DEBUG', 'POPULATE', '2', 'p') return redis.call('GET', 'p:1')";
    let wrong = "return redis.call('DEBUG', 'POPULATE', '-1')";
    let sleep = "return redis.call('DEBUG', 'SLEEP', '0.01')";
    let subscribe = "return redis.call('SUBSCRIBE', 'channel')";
    for is_let in [false, true, false] {
        let switch = if is_let { "1" } else { "0" };
        check(&mut client, &format!("> DEBUG SET-DISABLE-DENY-SCRIPTS {switch}\nOK"));
        for (script, expected) in [
            (sleep, "OK"),
            (digest, "(integer) 40"),
            (populate, "\"value:1\""),
            (wrong, "(error) ERR value is out of range, must be positive"),
            (subscribe, denied),
        ] {
            let expected = if is_let { expected } else { denied };
            let reply = render(&client.call(&["EVAL", script, "1", "a"]));
            assert!(reply.starts_with(expected), "{script}: {reply}");
        }
    }
    check(&mut client, "> GET a\n\"x\"");
}

#[test]
fn what_a_transaction_populates_is_in_the_log() {
    let mut server = Server::start(&[
        "--enable-debug-command",
        "yes",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ]);
    let mut client = server.client();
    check(&mut client, "> MULTI\nOK\n> DEBUG POPULATE 5\nQUEUED\n> SET k v\nQUEUED");
    client.call(&["EXEC"]);
    let digest = client.call(&["DEBUG", "DIGEST"]);
    server.kill();
    server.restart();
    let mut client = server.client();
    check(&mut client, "> DBSIZE\n(integer) 6");
    assert_eq!(client.call(&["DEBUG", "DIGEST"]), digest);
}

/// Time goes on while the data are saved and loaded. What is over then was in the log, so the log
/// is told of its end, as of any other, and subscribers, too.
#[test]
fn what_is_over_in_a_reload_is_told_of_its_end() {
    let mut server = Server::start(&[
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--enable-debug-command",
        "yes",
        "--notify-keyspace-events",
        "Ex",
    ]);
    let (mut client, mut listener) = (server.client(), server.client());
    listener.call(&["SUBSCRIBE", "__keyevent@0__:expired"]);
    client.call(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    client.call(&["SET", "key", "5", "PX", "50"]);
    // The probe is the later one, so the key is over where the probe is.
    client.call(&["SET", "probe", "v", "PX", "50"]);
    eventually("both are over", || client.call(&["GET", "probe"]) == Value::Null);
    listener.receive();
    assert_eq!(render(&client.call(&["DEBUG", "RELOAD"])), "OK");
    assert_eq!(client.call(&["INCR", "key"]), Value::Integer(1));
    let event = render(&listener.receive());
    assert!(event.contains("\"key\""), "{event}");
    server.kill();
    server.restart();
    let mut client = server.client();
    assert_eq!(render(&client.call(&["GET", "key"])), "\"1\"", "what was acknowledged is there");
    assert_eq!(client.call(&["PTTL", "key"]), Value::Integer(-1));
}
