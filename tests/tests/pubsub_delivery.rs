//! Delivery of published messages: in order, to everyone, whole, even where clients move or do not
//! read.

use std::collections::HashMap;
use std::thread;

use proto::value::Value;
use tests::client::encode;
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Client, Server, check};

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
