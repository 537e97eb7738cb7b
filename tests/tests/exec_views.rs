//! What commands within EXEC change of their own transaction: each holds from where it stands, for
//! the commands behind it and for none before.
//!
//! Invariant: Redis 8.2 is asked the same.

use proto::value::Value;
use tests::client::field;
use tests::render::{render, text};
use tests::watching::say;
use tests::{Client, Oracle, Server};

fn both() -> [Server; 2] {
    [Server::start(&[]), Oracle::redis82()]
}

/// Runs commands as a transaction; what EXEC replies.
fn exec(client: &mut Client, commands: &str) -> String {
    say(client, "MULTI");
    say(client, commands);
    render(&client.call(&["EXEC"]))
}

/// A script that keeps a worker for so long that the rest of its transaction runs elsewhere.
const LONG: &str = "EVAL \"for i=1,60000 do redis.call('EXISTS', 'k') end return 1\" 0";

#[test]
fn an_error_of_a_subscription_is_no_message() {
    for server in both() {
        let mut client = server.client();
        for words in [&["CLIENT", "REPLY", "OFF"][..], &["MULTI"], &["SSUBSCRIBE", "s"], &["EXEC"]]
        {
            client.send(words);
        }
        client.send(&["CLIENT", "REPLY", "ON"]);
        assert_eq!(text(&client.receive()), "OK");
    }
}

#[test]
fn what_is_queued_for_a_transaction_that_is_lost_is_not_kept() {
    let lost = |server: &Server, steps: &[&str]| {
        let (mut client, mut other) = (server.client(), server.client());
        let id = client.id();
        say(&mut other, "SET w 0");
        for step in steps {
            match step.strip_prefix("other ") {
                Some(line) => _ = say(&mut other, line),
                None => _ = client.call(&step.split(' ').collect::<Vec<_>>()),
            }
        }
        let listed = text(&other.call(&["CLIENT", "LIST", "ID", &id]));
        (field(&listed, "multi").to_owned(), render(&client.call(&["EXEC"])))
    };
    let [ours, theirs] = both();
    for steps in [
        &["MULTI", "NOSUCH x", "SET a 1", "SET b 2"][..],
        &["MULTI", "SET a 1", "NOSUCH x", "SET b 2"],
        &["WATCH w", "MULTI", "SET a 1", "other SET w 1", "SET b 2", "SET c 3"],
    ] {
        assert_eq!(lost(&ours, steps), lost(&theirs, steps), "{steps:?}");
    }
}

#[test]
fn ping_of_a_subscriber_has_one_form_wherever_it_runs() {
    let [ours, theirs] = both();
    for before in ["GET k", LONG] {
        let [ours, theirs] = [&ours, &theirs].map(|server| {
            let mut client = server.client();
            exec(&mut client, &format!("SUBSCRIBE s; {before}; PING; PING x"))
        });
        assert_eq!(ours, theirs, "{before}");
    }
}

#[test]
fn no_touch_holds_for_the_commands_behind_it() {
    let idle_after = |server: &Server, commands: &str| {
        let (mut client, mut other) = (server.client(), server.client());
        say(&mut other, "SET a 1");
        let Value::Bulk(dump) = other.call(&["DUMP", "a"]) else { panic!("a is there") };
        let words: [&[u8]; 7] = [b"RESTORE", b"a", b"0", &dump, b"REPLACE", b"IDLETIME", b"5000"];
        assert_eq!(text(&other.call(&words)), "OK");
        exec(&mut client, commands);
        let Value::Integer(idle) = other.call(&["OBJECT", "IDLETIME", "a"]) else { panic!("idle") };
        idle >= 5000
    };
    let [ours, theirs] = both();
    for (commands, is_kept) in [
        ("GET a", false),
        ("CLIENT NO-TOUCH ON; GET a", true),
        ("CLIENT NO-TOUCH ON; CLIENT NO-TOUCH OFF; GET a", false),
        ("GET a; CLIENT NO-TOUCH ON", false),
    ] {
        for server in [&ours, &theirs] {
            assert_eq!(idle_after(server, commands), is_kept, "{commands}");
        }
    }
}

#[test]
fn events_are_told_as_was_asked_when_they_came() {
    let events = |server: &Server, first: &str, commands: &str| {
        let (mut client, mut listener) = (server.client(), server.client());
        say(&mut client, &format!("FLUSHALL; CONFIG SET notify-keyspace-events {first}"));
        listener.call(&["PSUBSCRIBE", "*"]);
        exec(&mut client, commands);
        say(&mut client, "PUBLISH end x");
        let told = std::iter::repeat_with(|| render(&listener.receive()));
        told.take_while(|message| !message.contains("end")).collect::<Vec<_>>()
    };
    let [ours, theirs] = both();
    for (first, commands) in [
        ("KEA", "ZADD z 1 a; CONFIG SET notify-keyspace-events \"\"; ZADD z 2 b"),
        ("\"\"", "ZADD z 1 a; CONFIG SET notify-keyspace-events KEA; ZADD z 2 b"),
        ("KA", "ZADD z 1 a; CONFIG SET notify-keyspace-events E$; SET s 1; ZADD z 2 b"),
    ] {
        let [ours, theirs] = [&ours, &theirs].map(|server| events(server, first, commands));
        assert_eq!(ours, theirs, "{commands}");
    }
}
