//! Publish and subscribe: conversations as in the real servers, and what holds for many
//! subscribers, publishers and channels.

use std::collections::HashMap;
use std::thread;

use proto::value::Value;
use tests::client::{encode, field};
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Client, Oracle, Server, check, play};

/// Ours, and every real one.
fn everywhere(script: &str) {
    play(&Server::start(&[]), script);
    for oracle in Oracle::ALL {
        play(&oracle.start(&[]), script);
    }
}

/// Ours, and those real ones that put a client's own message behind its reply.
fn in_newer_ones(script: &str) {
    play(&Server::start(&[]), script);
    play(&Oracle::redis82(), script);
    play(&Oracle::valkey91(), script);
}

const SUBSCRIBERS: &str = r#"
    > PUBLISH news nobody
    (integer) 0
    alice> SUBSCRIBE news sport
    1) "subscribe"
    2) "news"
    3) (integer) 1
    alice<
    1) "subscribe"
    2) "sport"
    3) (integer) 2
    alice> SUBSCRIBE news
    1) "subscribe"
    2) "news"
    3) (integer) 2
    alice> PSUBSCRIBE n* [x-z]?
    1) "psubscribe"
    2) "n*"
    3) (integer) 3
    alice<
    1) "psubscribe"
    2) "[x-z]?"
    3) (integer) 4
    alice> SSUBSCRIBE news
    1) "ssubscribe"
    2) "news"
    3) (integer) 1
    bob> PSUBSCRIBE n*
    1) "psubscribe"
    2) "n*"
    3) (integer) 1
    > PUBLISH news hello
    (integer) 3
    alice<
    1) "message"
    2) "news"
    3) "hello"
    alice<
    1) "pmessage"
    2) "n*"
    3) "news"
    4) "hello"
    bob<
    1) "pmessage"
    2) "n*"
    3) "news"
    4) "hello"
    > SPUBLISH news shard
    (integer) 1
    alice<
    1) "smessage"
    2) "news"
    3) "shard"
    > PUBLISH other x
    (integer) 0
    > PUBLISH "" x
    (integer) 0
    alice> SUBSCRIBE ""
    1) "subscribe"
    2) ""
    3) (integer) 5
    > PUBLISH "" ""
    (integer) 1
    alice<
    1) "message"
    2) ""
    3) ""
    alice> UNSUBSCRIBE news nothing
    1) "unsubscribe"
    2) "news"
    3) (integer) 4
    alice<
    1) "unsubscribe"
    2) "nothing"
    3) (integer) 4
    alice> UNSUBSCRIBE ""
    ...
    > PUBLISH news again
    (integer) 2
    alice<
    1) "pmessage"
    ...
    alice> PUNSUBSCRIBE n* n*
    1) "punsubscribe"
    2) "n*"
    3) (integer) 2
    alice<
    1) "punsubscribe"
    2) "n*"
    3) (integer) 2
    alice> UNSUBSCRIBE
    1) "unsubscribe"
    2) "sport"
    3) (integer) 1
    alice> UNSUBSCRIBE
    1) "unsubscribe"
    2) (nil)
    3) (integer) 1
    alice> PUNSUBSCRIBE
    1) "punsubscribe"
    2) "[x-z]?"
    3) (integer) 0
    alice> PING
    1) "pong"
    2) ""
    alice> SUNSUBSCRIBE
    1) "sunsubscribe"
    2) "news"
    3) (integer) 0
    alice> SUNSUBSCRIBE
    1) "sunsubscribe"
    2) (nil)
    3) (integer) 0
    alice> PING
    PONG
    alice> PUBLISH news "not to alice"
    (integer) 1
"#;

#[test]
fn subscribers_get_messages_in_resp2() {
    everywhere(SUBSCRIBERS);
}

#[test]
fn a_subscriber_in_resp2_may_do_little_else() {
    everywhere(
        r#"
        > SUBSCRIBE news
        1) "subscribe"
        ...
        > GET key
        ~ (error) ERR Can't execute 'get': only *
        > CLIENT LIST
        ~ (error) ERR Can't execute 'client|list': only *
        > PUBLISH news x
        ~ (error) ERR Can't execute 'publish': only *
        > HELLO 3
        ~ (error) ERR Can't execute 'hello': only *
        > GET
        (error) ERR wrong number of arguments for 'get' command
        > NOSUCH
        ~ (error) ERR unknown command 'NOSUCH'*
        > SUBSCRIBE
        (error) ERR wrong number of arguments for 'subscribe' command
        > PING
        1) "pong"
        2) ""
        > PING hello
        1) "pong"
        2) "hello"
        > PING a b
        (error) ERR wrong number of arguments for 'ping' command
        > RESET
        RESET
        > PING
        PONG
        > GET key
        (nil)
        other> PUBLISH news x
        (integer) 0
        > SSUBSCRIBE shard
        1) "ssubscribe"
        ...
        > GET key
        ~ (error) ERR Can't execute 'get'*
        > QUIT
        OK
        <
        (closed)
        "#,
    );
}

const IN_RESP3: &str = r#"
    > HELLO 3
    ...
    > SUBSCRIBE news
    1> "subscribe"
    2> "news"
    3> (integer) 1
    > PSUBSCRIBE n*
    1> "psubscribe"
    2> "n*"
    3> (integer) 2
    > GET key
    (nil)
    > PING
    PONG
    > PING hello
    "hello"
    # what it tells itself comes behind the reply
    > PUBLISH news hello
    (integer) 2
    <
    1> "message"
    2> "news"
    3> "hello"
    <
    1> "pmessage"
    2> "n*"
    3> "news"
    4> "hello"
    > SSUBSCRIBE shard
    1> "ssubscribe"
    2> "shard"
    3> (integer) 1
    > SPUBLISH shard x
    (integer) 1
    <
    1> "smessage"
    2> "shard"
    3> "x"
    > UNSUBSCRIBE
    1> "unsubscribe"
    2> "news"
    3> (integer) 1
    > UNSUBSCRIBE
    1> "unsubscribe"
    2> (nil)
    3> (integer) 1
    # from here on messages are arrays, and little else is allowed
    > HELLO 2
    ...
    > GET key
    ~ (error) ERR Can't execute 'get'*
    other> PUBLISH new x
    (integer) 1
    <
    1) "pmessage"
    2) "n*"
    3) "new"
    4) "x"
    > PUNSUBSCRIBE
    1) "punsubscribe"
    2) "n*"
    3) (integer) 0
    > SUNSUBSCRIBE shard
    1) "sunsubscribe"
    2) "shard"
    3) (integer) 0
    > HELLO 3
    ...
    > PUBLISH shard x
    (integer) 0
"#;

#[test]
fn a_subscriber_in_resp3_may_do_everything() {
    in_newer_ones(IN_RESP3);
}

/// Each reply of a pipeline comes before what it brought about, and that before the next reply.
#[test]
fn own_messages_stand_between_the_replies_of_a_pipeline() {
    for server in [Server::start(&[]), Oracle::redis82(), Oracle::valkey91()] {
        let mut client = server.client3();
        client.call(&["SUBSCRIBE", "a"]);
        client.send_raw(b"PUBLISH a 1\r\nPING\r\nPUBLISH a 2\r\nUNSUBSCRIBE a\r\nPUBLISH a 3\r\n");
        let shown: Vec<String> = (0..7).map(|_| render(&client.receive())).collect();
        let last = |value: &String| value.lines().last().unwrap_or_default().to_owned();
        let shown: Vec<String> = shown.iter().map(last).collect();
        let expected = [
            "(integer) 1",
            "3> \"1\"",
            "PONG",
            "(integer) 1",
            "3> \"2\"",
            "3> (integer) 0",
            "(integer) 0",
        ];
        assert_eq!(shown, expected);
    }
}

#[test]
fn the_refusal_says_what_is_allowed() {
    let replies = Oracle::Redis82.beside(&[]).map(|server| {
        let mut client = subscribed(&server, 2, &["news"]);
        ["GET k", "CLIENT LIST"].map(|request| {
            let words: Vec<&str> = request.split(' ').collect();
            text(&client.call(&words[..]))
        })
    });
    assert_eq!(replies[0], replies[1]);
}

#[test]
fn who_wants_no_replies_still_gets_messages() {
    everywhere(
        r#"
        > CLIENT REPLY OFF
        > SUBSCRIBE news
        1) "subscribe"
        2) "news"
        3) (integer) 1
        other> PUBLISH news hello
        (integer) 1
        <
        1) "message"
        2) "news"
        3) "hello"
        > PING
        > UNSUBSCRIBE
        1) "unsubscribe"
        2) "news"
        3) (integer) 0
        "#,
    );
}

const TOLD: &str = r#"
    > PUBSUB CHANNELS
    (empty array)
    > PUBSUB NUMSUB
    (empty array)
    > PUBSUB NUMPAT
    (integer) 0
    alice> SUBSCRIBE one
    ...
    bob> SUBSCRIBE one
    ...
    alice> PSUBSCRIBE o* p*
    ...
    alice<
    ...
    bob> PSUBSCRIBE o*
    ...
    bob> SSUBSCRIBE shard
    ...
    > PUBSUB CHANNELS
    1) "one"
    > PUBSUB CHANNELS o*
    1) "one"
    > PUBSUB CHANNELS x*
    (empty array)
    > PUBSUB NUMSUB one two shard
    1) "one"
    2) (integer) 2
    3) "two"
    4) (integer) 0
    5) "shard"
    6) (integer) 0
    > PUBSUB NUMPAT
    (integer) 2
    > PUBSUB SHARDCHANNELS
    1) "shard"
    > PUBSUB SHARDCHANNELS x
    (empty array)
    > PUBSUB SHARDNUMSUB shard one
    1) "shard"
    2) (integer) 1
    3) "one"
    4) (integer) 0
    > PUBSUB SHARDNUMSUB
    (empty array)
    bob> RESET
    RESET
    > PUBSUB NUMSUB one
    1) "one"
    2) (integer) 1
    > PUBSUB SHARDCHANNELS
    (empty array)
    > PUBSUB
    (error) ERR wrong number of arguments for 'pubsub' command
    > PUBSUB NUMPAT x
    (error) ERR wrong number of arguments for 'pubsub|numpat' command
    > PUBSUB CHANNELS x y
    ~ (error) ERR *unknown subcommand or wrong number of arguments for 'CHANNELS'. Try *
    > PUBSUB SHARDCHANNELS x y
    ~ (error) ERR *unknown subcommand or wrong number of arguments for 'SHARDCHANNELS'. Try *
    > PUBSUB FOO
    ~ (error) ERR unknown subcommand 'FOO'. Try PUBSUB HELP.
    > PUBLISH a
    (error) ERR wrong number of arguments for 'publish' command
    > COMMAND GETKEYS SPUBLISH a b
    (error) ERR The command has no key arguments
"#;

#[test]
fn pubsub_tells_what_is_subscribed_to() {
    everywhere(TOLD);
}

#[test]
fn messages_of_a_transaction_leave_with_it() {
    everywhere(
        r#"
        alice> SUBSCRIBE news
        ...
        > MULTI
        OK
        > PUBLISH news one
        QUEUED
        > SET key value
        QUEUED
        > PUBLISH nothing x
        QUEUED
        > PUBLISH news two
        QUEUED
        alice<
        (silence)
        > EXEC
        1) (integer) 1
        2) OK
        3) (integer) 0
        4) (integer) 1
        alice<
        1) "message"
        2) "news"
        3) "one"
        alice<
        1) "message"
        2) "news"
        3) "two"
        # what EXEC refuses is not published
        > MULTI
        OK
        > PUBLISH news three
        QUEUED
        > NOSUCH
        ...
        > EXEC
        ~ (error) EXECABORT*
        alice<
        (silence)
        "#,
    );
}

#[test]
fn help_is_that_of_redis() {
    let [ours, theirs] = Oracle::Redis82
        .beside(&[])
        .map(|server| render(&server.client().call(&["PUBSUB", "HELP"])));
    assert_eq!(ours, theirs);
}

/// What others are told of subscribers, and how they are found.
#[test]
fn subscribers_are_listed_and_killed_as_such() {
    for server in [Server::start(&[]), Oracle::redis82(), Oracle::valkey91()] {
        let (mut admin, mut one, mut two) = (server.client(), server.client(), server.client3());
        let ids = [one.id(), two.id()];
        check(&mut one, "> SUBSCRIBE a b\n...\n<\n...\n> PSUBSCRIBE p\n...");
        check(&mut two, "> SSUBSCRIBE a b c\n...\n<\n...\n<\n...");
        let expected = [("2", "1", "0"), ("0", "0", "3")];
        for (id, (sub, psub, ssub)) in ids.iter().zip(expected) {
            let line = text(&admin.call(&["CLIENT", "LIST", "ID", id]));
            assert_eq!((field(&line, "flags"), field(&line, "sub")), ("P", sub), "{line}");
            assert_eq!((field(&line, "psub"), field(&line, "ssub")), (psub, ssub), "{line}");
        }
        let stats = text(&admin.call(&["INFO", "everything"]));
        for figure in
            ["pubsub_channels:2", "pubsub_patterns:1", "pubsubshard_channels:3", "pubsub_clients:2"]
        {
            assert!(stats.contains(&format!("{figure}\r\n")), "{figure}");
        }
        let list = text(&admin.call(&["CLIENT", "LIST", "TYPE", "pubsub"]));
        assert_eq!(list.lines().count(), 2, "{list}");
        assert_eq!(text(&admin.call(&["CLIENT", "LIST", "TYPE", "normal"])).lines().count(), 1);
        let killed = admin.call(&["CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "no"]);
        assert_eq!(killed, Value::Integer(2));
        assert!(one.is_closed() && two.is_closed());
        eventually("they are subscribers no more", || {
            admin.call(&["PUBSUB", "NUMPAT"]) == Value::Integer(0)
                && admin.call(&["PUBLISH", "a", "x"]) == Value::Integer(0)
                && admin.call(&["SPUBLISH", "c", "x"]) == Value::Integer(0)
        });
    }
}

#[test]
fn who_is_gone_has_left_its_channels() {
    let server = Server::start(&["--worker-threads", "2"]);
    let mut client = server.client();
    for _ in 0..20 {
        let mut gone = server.client();
        check(&mut gone, "> SUBSCRIBE a b\n...\n<\n...\n> PSUBSCRIBE p\n...\n> SSUBSCRIBE s\n...");
    }
    eventually("nobody is subscribed", || {
        let info = text(&client.call(&["INFO", "stats"]));
        ["pubsub_channels:0", "pubsub_patterns:0", "pubsubshard_channels:0"]
            .iter()
            .all(|figure| info.contains(figure))
    });
}

/// The last element of a message, which is a text.
fn payload(message: &Value) -> String {
    match message {
        Value::Array(items) | Value::Push(items) => text(&items[items.len() - 1]),
        other => panic!("{other:?} is no message"),
    }
}

fn subscribed(server: &Server, protocol: usize, channels: &[&str]) -> Client {
    let mut client = if protocol == 3 { server.client3() } else { server.client() };
    let command = if channels[0].contains('*') { "PSUBSCRIBE" } else { "SUBSCRIBE" };
    client.send(&[&[command], channels].concat());
    channels.iter().for_each(|_| _ = client.receive());
    client
}

/// Publishes numbered messages, a few hundred at a time, and takes the counts back.
fn publish_numbers(client: &mut Client, channel: &str, sender: usize, count: usize, to: i64) {
    for numbers in (0..count).collect::<Vec<_>>().chunks(250) {
        let message = |number: &usize| encode(&["PUBLISH", channel, &format!("{sender}:{number}")]);
        client.send_raw(&numbers.iter().flat_map(message).collect::<Vec<u8>>());
        numbers.iter().for_each(|_| assert_eq!(client.receive(), Value::Integer(to)));
    }
}

#[test]
fn each_publisher_is_heard_in_order_and_all_hear_the_same_and_nothing_is_lost() {
    const PUBLISHERS: usize = 4;
    const EACH: usize = 25_000;
    let server = Server::start(&["--worker-threads", "3"]);
    let listeners: Vec<Client> = (0..6)
        .map(|number| subscribed(&server, 2 + number % 2, &["news"]))
        .chain([subscribed(&server, 3, &["n*"])])
        .collect();
    let to = listeners.len() as i64;
    let heard: Vec<Vec<String>> = thread::scope(|scope| {
        for sender in 0..PUBLISHERS {
            let mut client = server.client();
            scope.spawn(move || publish_numbers(&mut client, "news", sender, EACH, to));
        }
        let listen = |mut client: Client| {
            (0..PUBLISHERS * EACH).map(|_| payload(&client.receive())).collect()
        };
        let ears: Vec<_> =
            listeners.into_iter().map(|client| scope.spawn(move || listen(client))).collect();
        ears.into_iter().map(|ear| ear.join().expect("a listener hears all")).collect()
    });
    let mut next = HashMap::new();
    for message in &heard[0] {
        let (sender, number) = message.split_once(':').expect("messages say whose they are");
        let expected = next.entry(sender).or_insert(0_usize);
        assert_eq!(number.parse(), Ok(*expected), "of {sender}");
        *expected += 1;
    }
    // Those of the channel, on whatever worker: one order.
    assert!(heard[1..6].iter().all(|other| *other == heard[0]));
    let sorted = |heard: &[String]| {
        let mut heard = heard.to_vec();
        heard.sort_unstable();
        heard
    };
    assert_eq!(sorted(&heard[6]), sorted(&heard[0]));
}

#[test]
fn a_thousand_channels_of_one_client() {
    let server = Server::start(&["--worker-threads", "2"]);
    let names: Vec<String> = (0..1000).map(|number| format!("channel:{number}")).collect();
    let channels: Vec<&str> = names.iter().map(String::as_str).collect();
    for protocol in [2, 3] {
        let mut listener = subscribed(&server, protocol, &channels);
        let mut client = server.client();
        for name in &names {
            client.send(&["PUBLISH", name, name]);
        }
        for name in &names {
            assert_eq!(payload(&listener.receive()), *name);
            assert_eq!(client.receive(), Value::Integer(1));
        }
        let Value::Array(active) = client.call(&["PUBSUB", "CHANNELS", "channel:*"]) else {
            panic!("an array")
        };
        assert_eq!(active.len(), 1000);
        listener.send(&["UNSUBSCRIBE"]);
        let left: Vec<String> = (0..1000).map(|_| render(&listener.receive())).collect();
        assert!(left[999].ends_with("(integer) 0"), "{}", left[999]);
        assert_eq!(client.call(&["PUBLISH", "channel:5", "x"]), Value::Integer(0));
    }
}

/// More active channels than a worker lists itself.
#[test]
fn many_channels_are_listed() {
    let server = Server::start(&[]);
    let names: Vec<String> = (0..3000).map(|number| format!("channel:{number}")).collect();
    let channels: Vec<&str> = names.iter().map(String::as_str).collect();
    let _listener = subscribed(&server, 2, &channels);
    let mut client = server.client3();
    let count = |client: &mut Client, words: &[&str]| match client.call(words) {
        Value::Array(found) => found.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(count(&mut client, &["PUBSUB", "CHANNELS"]), 3000);
    assert_eq!(count(&mut client, &["PUBSUB", "CHANNELS", "channel:299?"]), 10);
}

/// One publisher to two channels and a pattern: what each message brings has one order, wherever
/// the subscriber lives meanwhile.
#[test]
fn subscribers_that_move_between_workers_miss_nothing() {
    const ROUNDS: usize = 30;
    const COUNT: usize = 200;
    let server = Server::start(&["--worker-threads", "4"]);
    let mut listeners: Vec<Client> =
        (0..12).map(|number| subscribed(&server, 2 + number % 2, &["one", "two"])).collect();
    for listener in &mut listeners {
        check(listener, "> PSUBSCRIBE t*\n...");
    }
    let (mut client, mut admin) = (server.client(), server.client());
    for round in 0..ROUNDS {
        let message = |number: usize| {
            let channel = ["one", "two"][number % 2];
            encode(&["PUBLISH", channel, &number.to_string()])
        };
        let numbers = round * COUNT..(round + 1) * COUNT;
        client.send_raw(&numbers.flat_map(message).collect::<Vec<u8>>());
        let workers = (1 + round * 7 % 4).to_string();
        assert_eq!(text(&admin.call(&["CONFIG", "SET", "worker-threads", &workers])), "OK");
    }
    for listener in &mut listeners {
        for number in 0..ROUNDS * COUNT {
            for word in &["message", "pmessage"][..1 + number % 2] {
                let message = listener.receive();
                let expected = ((*word).to_owned(), number.to_string());
                let (Value::Array(items) | Value::Push(items)) = &message else {
                    panic!("{message:?}")
                };
                assert_eq!((text(&items[0]), payload(&message)), expected);
            }
        }
    }
}

#[test]
fn a_subscriber_that_does_not_read_is_cut_and_the_others_are_not() {
    let limit = ["--client-output-buffer-limit", "pubsub 1mb 0 0"];
    let mut server = Server::start(&limit);
    let _deaf = subscribed(&server, 2, &["news"]);
    let mut listener = subscribed(&server, 3, &["news"]);
    let mut client = server.client();
    let message = "x".repeat(50_000);
    eventually("the deaf one is cut", || {
        let receivers = client.call(&["PUBLISH", "news", &message]);
        assert_eq!(payload(&listener.receive()), message);
        receivers == Value::Integer(1)
    });
    let info = text(&client.call(&["INFO", "stats"]));
    assert!(info.contains("client_output_buffer_limit_disconnections:1"), "{info}");
    server.wait_for_log("scheduled to be closed ASAP for overcoming of output buffer limits.");
}

#[test]
fn long_messages_reach_everyone_whole() {
    let server = Server::start(&["--worker-threads", "2"]);
    let mut listeners: Vec<Client> =
        (0..6).map(|number| subscribed(&server, 2 + number % 2, &["news"])).collect();
    let mut client = server.client();
    for length in [1, 4000, 4096, 5000, 100_000, 3_000_000] {
        let message = "y".repeat(length);
        assert_eq!(client.call(&["PUBLISH", "news", &message]), Value::Integer(6));
        for listener in &mut listeners {
            assert_eq!(payload(&listener.receive()), message);
        }
    }
}

#[test]
fn an_idle_subscriber_is_not_closed() {
    let server = Server::start(&["--timeout", "1"]);
    let mut listener = subscribed(&server, 2, &["news"]);
    let mut shard = server.client();
    check(&mut shard, "> SSUBSCRIBE news\n...");
    assert!(server.client().is_closed(), "who says nothing is closed");
    let mut client = server.client();
    assert_eq!(client.call(&["PUBLISH", "news", "a"]), Value::Integer(1));
    assert_eq!(client.call(&["SPUBLISH", "news", "b"]), Value::Integer(1));
    assert_eq!((payload(&listener.receive()), payload(&shard.receive())), ("a".into(), "b".into()));
}
