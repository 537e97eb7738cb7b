//! Publish and subscribe: conversations as in the real servers, and what holds for many
//! subscribers, publishers and channels.

use proto::value::Value;
use tests::client::field;
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Oracle, Server, check, play};

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
    > PSUBSCRIBE a* b*
    1> "psubscribe"
    2> "a*"
    3> (integer) 1
    <
    1> "psubscribe"
    2> "b*"
    3> (integer) 2
    > PUNSUBSCRIBE a*
    1> "punsubscribe"
    2> "a*"
    3> (integer) 1
    > PUNSUBSCRIBE
    1> "punsubscribe"
    2> "b*"
    3> (integer) 0
    > PUNSUBSCRIBE
    1> "punsubscribe"
    2> (nil)
    3> (integer) 0
    > SSUBSCRIBE s
    1> "ssubscribe"
    2> "s"
    3> (integer) 1
    > SUNSUBSCRIBE
    1> "sunsubscribe"
    2> "s"
    3> (integer) 0
    > SUNSUBSCRIBE
    1> "sunsubscribe"
    2> (nil)
    3> (integer) 0
    > UNSUBSCRIBE x
    1> "unsubscribe"
    2> "x"
    3> (integer) 0
"#;

#[test]
fn a_subscriber_in_resp3_may_do_everything() {
    in_newer_ones(IN_RESP3);
}

#[test]
fn the_refusal_says_what_is_allowed() {
    let replies = Oracle::Redis82.beside(&[]).map(|server| {
        let mut client = server.client();
        client.call(&["SUBSCRIBE", "news"]);
        ["GET k", "CLIENT LIST"].map(|request| {
            let words: Vec<&str> = request.split(' ').collect();
            text(&client.call(&words[..]))
        })
    });
    assert_eq!(replies[0], replies[1]);
}

#[test]
fn a_client_that_wants_no_replies_still_gets_messages() {
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
fn a_client_that_is_gone_has_left_its_channels() {
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
