//! Where messages stand among the replies of pipelines and transactions.

use tests::render::render;
use tests::{Oracle, Server, play};

/// Ours, and every real one.
fn everywhere(script: &str) {
    play(&Server::start(&[]), script);
    for oracle in Oracle::ALL {
        play(&oracle.start(&[]), script);
    }
}

#[test]
fn a_transaction_subscribes_to_no_shard_channel() {
    for server in [Server::start(&[]), Oracle::redis82()] {
        play(
            &server,
            r#"
            > MULTI
            OK
            > SSUBSCRIBE a
            QUEUED
            > EXEC
            1) (error) ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client
            > SET k 1
            OK
            "#,
        );
    }
}

/// What tells of subscriptions has its place among the replies of a transaction.
#[test]
fn subscriptions_begin_and_end_within_a_transaction() {
    for (protocol, mark) in [("2", ")"), ("3", ">")] {
        let script = r#"
            > HELLO PROTOCOL
            ...
            > MULTI
            OK
            > SUBSCRIBE ch
            QUEUED
            > UNSUBSCRIBE ch
            QUEUED
            > UNSUBSCRIBE
            QUEUED
            > PUNSUBSCRIBE
            QUEUED
            > SUNSUBSCRIBE
            QUEUED
            > PING
            QUEUED
            > EXEC
            1) 1MARK "subscribe"
               2MARK "ch"
               3MARK (integer) 1
            2) 1MARK "unsubscribe"
               2MARK "ch"
               3MARK (integer) 0
            3) 1MARK "unsubscribe"
               2MARK (nil)
               3MARK (integer) 0
            4) 1MARK "punsubscribe"
               2MARK (nil)
               3MARK (integer) 0
            5) 1MARK "sunsubscribe"
               2MARK (nil)
               3MARK (integer) 0
            6) PONG
            > GET ch
            (nil)
        "#;
        everywhere(&script.replace("PROTOCOL", protocol).replace("MARK", mark));
    }
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
