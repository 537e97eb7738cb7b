//! Replies of very many elements: whole, in order, of one moment, and not a second time in memory.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::collections::BTreeSet;
use std::time::Duration;

use proto::value::Value;
use tests::render::render;
use tests::server::eventually;
use tests::{Arrival, Client, Server, check};

const COUNT: usize = 100_000;

fn element(number: usize) -> String {
    format!("element:{number:08}")
}

/// Fills one key of each type.
fn fill(client: &mut Client) {
    let numbers: Vec<usize> = (0..COUNT).collect();
    for part in numbers.chunks(1000) {
        let mut requests = ["RPUSH list", "SADD set", "HSET hash", "ZADD zset"]
            .map(|head| head.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for &number in part {
            requests[0].push(element(number));
            requests[1].push(element(number));
            requests[2].extend([element(number), number.to_string()]);
            requests[3].extend([number.to_string(), element(number)]);
        }
        client.pipeline(&requests);
    }
}

fn text(value: &Value) -> String {
    let Value::Bulk(bytes) = value else { panic!("{value:?} is no bulk string") };
    String::from_utf8(bytes.clone()).unwrap()
}

fn texts(value: Value) -> Vec<String> {
    let (Value::Array(elements) | Value::Set(elements)) = value else { panic!("{value:?}") };
    elements.iter().map(text).collect()
}

#[test]
fn long_replies_are_whole_and_in_order_with_what_is_around_them() {
    let server = Server::start(&["--worker-threads", "2"]);
    let mut client = server.client();
    fill(&mut client);
    let all: Vec<String> = (0..COUNT).map(element).collect();
    let lines = [
        "PING before",
        "LRANGE list 0 -1",
        "LRANGE list 3 -5",
        "ZRANGE zset 0 -1",
        "ZRANGE zset 0 -1 REV",
        "ZRANGEBYSCORE zset (7 +inf LIMIT 3 90000",
        "SMEMBERS set",
        "HKEYS hash",
        "HGETALL hash",
        "PING after",
    ];
    let words = lines.map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let mut replies = client.pipeline(&words).into_iter();
    let mut next = || replies.next().unwrap();
    assert_eq!(text(&next()), "before");
    assert!(texts(next()) == all);
    assert!(texts(next()) == all[3..COUNT - 4]);
    assert!(texts(next()) == all);
    assert!(texts(next()).iter().rev().eq(&all));
    assert!(texts(next()) == all[11..90_011]);
    let as_set = |value| texts(value).into_iter().collect::<BTreeSet<_>>();
    let members = as_set(next());
    assert!(members.iter().eq(&all));
    assert!(as_set(next()) == members);
    let pairs = texts(next());
    assert_eq!(pairs.len(), 2 * COUNT);
    assert!(pairs.chunks(2).all(|pair| element(pair[1].parse().unwrap()) == pair[0]));
    assert_eq!(text(&next()), "after");
}

#[test]
fn long_ranges_of_streams_are_whole_and_in_order() {
    let server = Server::start(&["--worker-threads", "2"]);
    let mut client = server.client();
    let numbers: Vec<usize> = (1..=30_000).collect();
    for part in numbers.chunks(1000) {
        let add = |number: &usize| format!("XADD s {number}-1 n {number}");
        let requests =
            part.iter().map(|number| add(number).split(' ').map(str::to_owned).collect::<Vec<_>>());
        client.pipeline(&requests.collect::<Vec<_>>());
    }
    // Gaps within nodes, and a node that is gone.
    client.call(&["XDEL", "s", "5000-1", "7-1", "29999-1"]);
    client.call(&["XTRIM", "s", "MINID", "~", "500"]);
    let ids = |value: Value| -> Vec<usize> {
        let Value::Array(entries) = value else { panic!("{value:?}") };
        let id = |entry: &Value| match entry {
            Value::Array(parts) => text(&parts[0]).trim_end_matches("-1").parse().unwrap(),
            other => panic!("{other:?}"),
        };
        entries.iter().map(id).collect()
    };
    let first = ids(client.call(&["XRANGE", "s", "-", "+", "COUNT", "1"]))[0];
    let there: Vec<usize> =
        numbers.into_iter().filter(|it| *it >= first && ![5000, 29_999].contains(it)).collect();
    let backwards: Vec<usize> = there.iter().rev().copied().collect();
    let within =
        |from, to| there.iter().copied().filter(|it| (from..=to).contains(it)).collect::<Vec<_>>();
    assert_eq!(ids(client.call(&["XRANGE", "s", "-", "+"])), there);
    assert_eq!(ids(client.call(&["XREVRANGE", "s", "+", "-"])), backwards);
    assert_eq!(ids(client.call(&["XRANGE", "s", "1234", "25000"])), within(1234, 25_000));
    assert_eq!(ids(client.call(&["XRANGE", "s", "(1234-1", "25000-1"])), within(1235, 25_000));
    let most = ids(client.call(&["XREVRANGE", "s", "+", "700", "COUNT", "20000"]));
    assert_eq!(most, backwards[..20_000]);
    assert!(ids(client.call(&["XRANGE", "s", "29999-1", "29999-2"])).is_empty());
}

#[test]
fn long_replies_have_the_forms_of_resp3() {
    let server = Server::start(&[]);
    let mut client = server.client();
    fill(&mut client);
    client.call(&["HELLO", "3"]);
    let Value::Set(members) = client.call(&["SMEMBERS", "set"]) else { panic!("a set") };
    let Value::Map(fields) = client.call(&["HGETALL", "hash"]) else { panic!("a map") };
    assert_eq!((members.len(), fields.len()), (COUNT, COUNT));
    let Value::Array(items) = client.call(&["ZRANGE", "zset", "0", "-1", "WITHSCORES"]) else {
        panic!("an array")
    };
    assert_eq!(items.len(), COUNT);
    let last = render(&items[COUNT - 1]);
    assert!(last.contains("element:00099999") && last.contains("99999"), "{last}");
}

#[test]
fn a_client_that_does_not_read_costs_no_memory_and_is_told_one_moment() {
    let server = Server::start(&["--worker-threads", "1"]);
    let (mut slow, mut other) = (server.client(), server.client());
    let value = "x".repeat(600);
    for start in 0..100 {
        let elements = (0..1000).map(|number| format!("{:06}{value}", start * 1000 + number));
        let request: Vec<String> = ["RPUSH", "list"].map(str::to_owned).into_iter().collect();
        other.call(&request.into_iter().chain(elements).collect::<Vec<_>>());
    }
    let Value::Integer(id) = slow.call(&["CLIENT", "ID"]) else { panic!("an id") };
    slow.send(&["LRANGE", "list", "0", "-1"]);
    eventually("the reply is on its way", || {
        render(&other.call(&["CLIENT", "LIST", "ID", &id.to_string()])).contains("cmd=lrange")
    });
    // The list changes and goes away under the reader.
    other.call(&["LSET", "list", "99999", "changed"]);
    check(&mut other, "> DEL list\n(integer) 1");
    for _ in 0..50 {
        let line = render(&other.call(&["CLIENT", "LIST", "ID", &id.to_string()]));
        let unsent = line.split("omem=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        assert!(unsent.parse::<usize>().unwrap() < 1_000_000, "{line}");
    }
    let elements = texts(slow.receive());
    assert_eq!(elements.len(), 100_000);
    for (number, element) in elements.iter().enumerate() {
        assert_eq!(element[..6].parse(), Ok(number));
    }
    check(&mut slow, "> LLEN list\n(integer) 0");
}

#[test]
fn a_dump_is_of_the_moment_of_its_command() {
    let server = Server::start(&["--worker-threads", "1"]);
    let (mut client, mut other) = (server.client(), server.client());
    fill(&mut client);
    client.send(&["DUMP", "zset"]);
    client.send(&["PING"]);
    other.call(&["DEL", "zset"]);
    let Value::Bulk(payload) = client.receive() else {
        // The other one was first; then there is nothing to dump.
        return;
    };
    assert_eq!(client.receive(), Value::Simple(b"PONG".to_vec()));
    other.call(&[b"RESTORE".as_slice(), b"copy", b"0", &payload]);
    check(
        &mut other,
        "> ZCARD copy\n(integer) 100000\n> ZRANK copy element:00050000\n(integer) 50000",
    );
}

#[test]
fn a_long_reply_can_be_unwanted_or_cut() {
    let server = Server::start(&["--worker-threads", "1"]);
    let (mut client, mut other) = (server.client(), server.client());
    fill(&mut client);
    client.send(&["CLIENT", "REPLY", "SKIP"]);
    client.send(&["SMEMBERS", "set"]);
    check(&mut client, "> PING\nPONG");
    let Value::Integer(id) = client.call(&["CLIENT", "ID"]) else { panic!("an id") };
    (0..5).for_each(|_| client.send(&["HGETALL", "hash"]));
    eventually("the reply is on its way", || {
        render(&other.call(&["CLIENT", "LIST", "ID", &id.to_string()])).contains("cmd=hgetall")
    });
    check(&mut other, &format!("> CLIENT KILL ID {id}\n(integer) 1"));
    let closed = || loop {
        match client.arrival(Duration::from_secs(5)) {
            Ok(Arrival::Reply(_)) => {}
            end => return matches!(end, Ok(Arrival::Closed) | Err(_)),
        }
    };
    assert!({ closed }());
    check(&mut other, "> HLEN hash\n(integer) 100000");
}
