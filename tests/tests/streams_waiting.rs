//! Streams with readers that wait: XREAD and XREADGROUP with BLOCK are served, told that their
//! group is gone, or given what has become idle, as in Redis 8.2.

use tests::render::render;
use tests::server::eventually;
use tests::{Client, Oracle, Server};

/// A client that waits by this request.
fn waiting(server: &Server, request: &[&str]) -> Client {
    let (mut watcher, mut client) = (server.client(), server.client());
    client.send(request);
    eventually("the client is blocked", || {
        render(&watcher.call(&["INFO", "clients"])).contains("blocked_clients:1")
    });
    client
}

/// What a client that waits by a request gets after another request.
fn served(server: &Server, request: &[&str], after: &[&str]) -> String {
    let mut client = waiting(server, request);
    server.client().call(after);
    render(&client.receive())
}

fn readers_are_served(server: &Server) {
    let mut client = server.client();
    let entry = |key: &str, id: &str| {
        format!("1) 1) \"{key}\"\n   2) 1) 1) \"{id}\"\n         2) 1) \"a\"\n            2) \"b\"")
    };
    let read = ["XREAD", "BLOCK", "0", "STREAMS", "t", "s", "$", "$"];
    assert_eq!(served(server, &read, &["XADD", "s", "5-1", "a", "b"]), entry("s", "5-1"));
    client.call(&["XGROUP", "CREATE", "s", "g", "$"]);
    let read = ["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"];
    assert_eq!(served(server, &read, &["XADD", "s", "6-1", "a", "b"]), entry("s", "6-1"));
    let pending = render(&client.call(&["XPENDING", "s", "g"]));
    assert!(pending.starts_with("1) (integer) 1\n2) \"6-1\""), "{pending}");
    let gone = "(error) NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP \
                option";
    assert_eq!(served(server, &read, &["XGROUP", "DESTROY", "s", "g"]), gone);
    client.call(&["XGROUP", "CREATE", "s", "g", "$"]);
    assert_eq!(served(server, &read, &["DEL", "s"]), gone);
    client.call(&["XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"]);
    let wrong = "(error) WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(served(server, &read, &["SET", "s", "x"]), wrong);
}

/// A stream that is named twice is read twice, as without BLOCK.
fn one_named_twice_is_read_twice(server: &Server) {
    let mut client = server.client();
    client.call(&["XGROUP", "CREATE", "twice", "g", "$", "MKSTREAM"]);
    let named = ["STREAMS", "twice", "twice"];
    let read = [&["XREAD", "BLOCK", "0"][..], &named, &["$", "$"]].concat();
    let told = served(server, &read, &["XADD", "twice", "1-1", "a", "b"]);
    assert_eq!(told.matches("\"1-1\"").count(), 2, "{told}");
    client.call(&["XREADGROUP", "GROUP", "g", "c", "STREAMS", "twice", ">"]);
    let group = &["XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "BLOCK", "0"];
    let mut reader = waiting(server, &[&group[..], &named, &[">", ">"]].concat());
    let add = |id| vec!["XADD", "twice", id, "a", "b"];
    client.pipeline(&[vec!["MULTI"], add("2-1"), add("2-2"), vec!["EXEC"]]);
    let told = render(&reader.receive());
    assert!(told.contains("\"2-1\"") && told.contains("\"2-2\""), "{told}");
}

#[test]
fn a_reader_that_names_a_stream_twice_is_served_twice() {
    one_named_twice_is_read_twice(&Server::start(&[]));
    one_named_twice_is_read_twice(&Oracle::redis82());
}

#[test]
fn a_reader_that_waits_is_served_or_told_that_the_group_is_gone() {
    readers_are_served(&Server::start(&[]));
}

/// The page of xreadgroup: with BLOCK and CLAIM, a client that waits is also served what becomes
/// idle for long enough meanwhile, though nobody changes anything.
#[test]
fn a_reader_that_waits_to_claim_is_served_what_has_become_idle() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for key in ["s", "t"] {
        client.call(&["XADD", key, "1-1", "a", "b"]);
        client.call(&["XGROUP", "CREATE", key, "g", "0"]);
    }
    let claim = |reader: &mut Client, idle: &str, block: &str| {
        reader.send(&[
            "XREADGROUP",
            "GROUP",
            "g",
            "d",
            "BLOCK",
            block,
            "CLAIM",
            idle,
            "STREAMS",
            "s",
            "t",
            ">",
            ">",
        ]);
    };
    let own = |client: &mut Client, key: &str| {
        client.call(&["XREADGROUP", "GROUP", "g", "c", "STREAMS", key, ">"]);
    };
    own(&mut client, "s");
    own(&mut client, "t");
    let mut reader = server.client();
    claim(&mut reader, "300", "0");
    let first = render(&reader.receive());
    assert!(first.contains("1) 1) \"s\"\n   2) 1) 1) \"1-1\""), "{first}");
    // The other one is due as well, or a moment later.
    claim(&mut reader, "300", "0");
    let second = render(&reader.receive());
    assert!(second.contains("\"t\"") || second.contains("\"s\""), "{second}");
    // What begins to be pending while somebody waits is waited for, too.
    client.call(&["XACK", "s", "g", "1-1"]);
    client.call(&["XACK", "t", "g", "1-1"]);
    let mut reader = waiting(
        &server,
        &["XREADGROUP", "GROUP", "g", "d", "BLOCK", "0", "CLAIM", "200", "STREAMS", "s", ">"],
    );
    client.call(&["XADD", "t", "2-1", "a", "b"]);
    client.call(&["MULTI"]);
    client.call(&["XADD", "s", "2-1", "a", "b"]);
    own(&mut client, "s");
    client.call(&["EXEC"]);
    let third = render(&reader.receive());
    assert!(third.contains("\"2-1\"") && third.ends_with("4) (integer) 1"), "{third}");
    // Without anything pending the wait ends by its time.
    client.call(&["XACK", "s", "g", "2-1"]);
    client.call(&["XGROUP", "SETID", "t", "g", "$"]);
    claim(&mut reader, "1", "50");
    assert_eq!(render(&reader.receive()), "(nil)");
    let info = render(&client.call(&["INFO", "clients"]));
    assert!(info.contains("blocked_clients:0"), "{info}");
}

#[test]
fn redis_serves_the_same() {
    readers_are_served(&Oracle::Redis82.start(&[]));
}

#[test]
fn a_consumer_that_is_deleted_while_its_client_waits_comes_back_when_that_is_served() {
    for server in Oracle::Redis82.beside(&[]) {
        let mut client = server.client();
        client.call(&["XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"]);
        let read = ["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"];
        let mut waits = waiting(&server, &read);
        let consumers = |client: &mut Client| {
            render(&client.call(&["XINFO", "CONSUMERS", "s", "g"])).contains("\"c\"")
        };
        assert!(consumers(&mut client));
        client.call(&["XGROUP", "DELCONSUMER", "s", "g", "c"]);
        assert!(!consumers(&mut client));
        client.call(&["XADD", "s", "1-1", "a", "b"]);
        waits.receive();
        assert!(consumers(&mut client));
    }
}

/// What is there for a reader is more than a worker should do for the client that brought it.
#[test]
fn readers_of_much_are_served_elsewhere() {
    const COUNT: usize = 5000;
    let server = Server::start(&["--worker-threads", "1"]);
    let mut client = server.client();
    let requests: Vec<Vec<String>> = (1..=COUNT)
        .map(|number| format!("XADD source {number} f v").split(' ').map(str::to_owned).collect())
        .collect();
    client.pipeline(&requests);
    client.call(&["XGROUP", "CREATE", "source", "g", "0"]);
    client.call(&["XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"]);
    let read = ["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"];
    let mut reader = waiting(&server, &read);
    let elsewhere = |client: &mut Client| -> u64 {
        let line = client.info("worker_0");
        let count = line.split(',').find_map(|part| part.strip_prefix("elsewhere="));
        count.and_then(|count| count.parse().ok()).expect("it is a number")
    };
    let before = elsewhere(&mut client);
    assert_eq!(render(&client.call(&["RENAME", "source", "s"])), "OK");
    assert_eq!(elsewhere(&mut client), before + 1, "RENAME has left with the service");
    let told = render(&reader.receive());
    assert_eq!(told.matches("\"f\"").count(), COUNT);
    let pending = render(&client.call(&["XPENDING", "s", "g"]));
    assert!(pending.starts_with(&format!("1) (integer) {COUNT}\n2) \"1-0\"")), "{pending}");
    assert_eq!(render(&client.call(&["EXISTS", "source"])), "(integer) 0");
}

/// A claim by the clock is a write, which no other command has brought past the gates.
#[test]
fn a_claim_by_the_clock_asks_the_gates() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for line in
        ["XGROUP CREATE s g 0 MKSTREAM", "XADD s 1-1 a b", "XREADGROUP GROUP g first STREAMS s >"]
    {
        client.call(&line.split(' ').collect::<Vec<_>>());
    }
    let claim =
        ["XREADGROUP", "GROUP", "g", "d", "BLOCK", "0", "CLAIM", "300", "STREAMS", "s", ">"];
    let mut waiting = waiting(&server, &claim);
    client.call(&["CONFIG", "SET", "min-replicas-to-write", "3"]);
    assert!(render(&waiting.receive()).contains("NOREPLICAS"));
    assert!(render(&client.call(&["XPENDING", "s", "g"])).contains("first"));
}
