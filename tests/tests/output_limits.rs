//! `client-output-buffer-limit` bounds a reply while it is made, wherever that is: the memory that
//! it takes, and nothing of it leaves.

use tests::client::{encode, field};
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

/// The hard limit of ordinary clients.
const LIMIT: u64 = 1 << 20;

/// What the process may take beyond that, of replies of more than ten times as much.
const SLACK: u64 = 24 << 20;

/// A value that is copied into replies.
const LENGTH: usize = 60_000;

fn start() -> Server {
    let limits = format!("normal {LIMIT} 0 0");
    let server =
        Server::start(&["--client-output-buffer-limit", &limits, "--save", "", "--maxmemory", "0"]);
    let mut client = server.client();
    client.call(&["SET", "k", &"x".repeat(LENGTH)]);
    for _ in 0..50 {
        client.call(&["RPUSH", "l", &"y".repeat(LENGTH / 10)]);
    }
    server
}

/// A request with a word so many times.
fn repeated(command: &[&str], word: &str, times: usize) -> Vec<u8> {
    let words: Vec<&str> = command.iter().copied().chain(vec![word; times]).collect();
    encode(&words)
}

/// Requests that would be replied with 240 MB each.
fn requests() -> Vec<(&'static str, Vec<u8>)> {
    const COPIES: usize = 4000;
    let transaction = |request: &[&str], times| {
        [encode(&["MULTI"]), encode(request).repeat(times), encode(&["EXEC"])].concat()
    };
    let script = "local t = {} for i = 1, 4000 do t[i] = ARGV[1] end return t";
    vec![
        ("on another thread", repeated(&["MGET"], "k", COPIES)),
        ("in a transaction", transaction(&["GET", "k"], COPIES)),
        ("ranges in a transaction", transaction(&["LRANGE", "l", "0", "-1"], 800)),
        ("of a script", encode(&["EVAL", script, "0", &"z".repeat(LENGTH)])),
        ("of the server", repeated(&["COMMAND", "DOCS"], "set", 20_000)),
    ]
}

#[test]
fn a_reply_takes_no_more_than_the_limit_and_its_client_is_closed() {
    for (what, request) in requests() {
        let server = start();
        let mut admin = server.client();
        let before = server.peak();
        let mut client = server.client();
        // The client may be closed before all is sent.
        let _ = client.try_send_raw(&request);
        let left = client.receive_to_close();
        assert!(left.split(|byte| *byte == b'\n').all(is_of_those_before), "{what}");
        let taken = server.peak() - before;
        assert!(taken < LIMIT + SLACK, "{what}: {taken} bytes");
        assert_eq!(admin.info("client_output_buffer_limit_disconnections"), "1", "{what}");
        check(&mut admin, "> PING\nPONG");
    }
}

/// Whether a line is of the replies that came before the one that was too long.
fn is_of_those_before(line: &[u8]) -> bool {
    [&b"+OK\r"[..], b"+QUEUED\r", b""].contains(&line)
}

/// A reply below the limit, one that nobody wants, and one that was taken back.
#[test]
fn a_client_that_is_owed_little_stays() {
    let server = start();
    let mut client = server.client();
    let much = repeated(&["MGET"], "k", 100);
    for _ in 0..5 {
        client.send_raw(&repeated(&["MGET"], "k", 10));
        assert!(render(&client.receive()).len() > 10 * LENGTH);
        client.send_raw(&encode(&["CLIENT", "REPLY", "SKIP"]));
        client.send_raw(&much);
        check(&mut client, "> PING\nPONG");
        client.send_raw(&encode(&["CLIENT", "REPLY", "OFF"]));
        client.send_raw(&much.repeat(3));
        client.send_raw(&encode(&["MULTI"]));
        client.send_raw(&encode(&["GET", "k"]).repeat(100));
        client.send_raw(&encode(&["EXEC"]));
        check(&mut client, "> CLIENT REPLY ON\nOK\n> PING\nPONG");
    }
    assert_eq!(closed(&mut client), "0");
}

/// A limit is that of what the client is, not of what it was as a batch or a transaction began.
#[test]
fn a_client_that_ceases_to_listen_has_the_limit_of_listeners_no_more() {
    let limits = format!("pubsub {LIMIT} 0 0");
    for server in Oracle::Redis82.beside(&["--client-output-buffer-limit", &limits]) {
        let mut admin = server.client();
        admin.call(&["SET", "big", &"x".repeat(LIMIT as usize)]);
        for (begins, ends, is_queued) in [
            ("SUBSCRIBE c", "UNSUBSCRIBE c", true),
            ("PSUBSCRIBE c", "PUNSUBSCRIBE", true),
            ("SSUBSCRIBE c", "SUNSUBSCRIBE c", true),
            ("CLIENT TRACKING ON", "CLIENT TRACKING OFF", true),
            ("SUBSCRIBE c", "RESET", false),
            ("CLIENT TRACKING ON", "RESET", false),
            ("MONITOR", "RESET", false),
        ] {
            let words = |line: &str| encode(&line.split(' ').collect::<Vec<_>>());
            let batch = [words(ends), words("GET big").repeat(4)].concat();
            let queued = [words("MULTI"), batch.clone(), words("EXEC")].concat();
            for requests in std::iter::once(batch).chain(is_queued.then_some(queued)) {
                let mut client = server.client3();
                client.send_raw(&words(begins));
                client.receive();
                client.send_raw(&[requests, words("PING end")].concat());
                let received = received_until_end(&mut client);
                assert!(received > 4 * LIMIT as usize, "{begins}, {ends}: {received} bytes");
            }
        }
        assert_eq!(closed(&mut admin), "0");
    }
}

/// What the client asks for itself has the limit of ordinary clients, which is none.
#[test]
fn a_tracking_client_has_the_limit_of_listeners_for_invalidations() {
    let limits = format!("pubsub {LIMIT} 0 0");
    let server = Server::start(&["--client-output-buffer-limit", &limits]);
    let mut admin = server.client();
    let big = "x".repeat(20 * LIMIT as usize);
    admin.call(&["SET", "big", &big]);
    admin.call(&["SET", "k", &"x".repeat(LENGTH)]);
    let mut client = server.client3();
    check(&mut client, "> CLIENT TRACKING ON BCAST\nOK");
    for (what, request, most) in [
        ("one value", encode(&["GET", "big"]), big.len()),
        ("a pipeline", encode(&["GET", "k"]).repeat(300), 300 * LENGTH),
        ("one reply", repeated(&["MGET"], "k", 300), 300 * LENGTH),
    ] {
        client.send_raw(&[request, encode(&["PING", "end"])].concat());
        eventually("it is owed much", || owed(&mut admin) > LIMIT);
        // The limit is looked at whenever others tell it something.
        admin.call(&["SET", "other", "x"]);
        let received = received_until_end(&mut client);
        assert!(received > most, "{what}: {received} bytes");
    }
    assert_eq!(closed(&mut admin), "0");
    let name = "n".repeat(LENGTH);
    eventually("it is closed", || {
        for number in 0..10 {
            admin.call(&["SET", &format!("{name}{number}"), "x"]);
        }
        closed(&mut admin) == "1"
    });
}

/// How long the replies are that come before that to `PING end`.
fn received_until_end(client: &mut Client) -> usize {
    let replies = std::iter::repeat_with(|| render(&client.receive()));
    replies.take_while(|reply| reply != "\"end\"").map(|reply| reply.len()).sum()
}

/// The most that is unsent to a client.
fn owed(admin: &mut Client) -> u64 {
    let list = text(&admin.call(&["CLIENT", "LIST"]));
    let of = |line: &str| field(line, "tot-mem").parse::<u64>().expect("a number");
    list.lines().map(of).max().expect("a client")
}

/// The limit that CONFIG SET gives within a transaction holds for what comes behind it there.
#[test]
fn a_transaction_that_raises_the_limit_has_it_raised() {
    for server in Oracle::Redis82.beside(&[]) {
        let mut admin = server.client();
        for _ in 0..50 {
            admin.call(&["RPUSH", "l", &"y".repeat(2 * LIMIT as usize / 50)]);
        }
        let set =
            |limit: &str| ["CONFIG", "SET", "client-output-buffer-limit", limit].map(str::to_owned);
        admin.call(&set(&format!("normal {LIMIT} 0 0")));
        let mut client = server.client();
        let raised = set("normal 0 0 0");
        let raised: Vec<&str> = raised.iter().map(String::as_str).collect();
        let range = encode(&["LRANGE", "l", "0", "-1"]);
        client.send_raw(&[encode(&["MULTI"]), encode(&raised), range, encode(&["EXEC"])].concat());
        (0..3).for_each(|_| _ = client.receive());
        assert!(render(&client.receive()).len() > LIMIT as usize);
        assert_eq!(closed(&mut admin), "0");
    }
}

fn closed(client: &mut Client) -> String {
    client.info("client_output_buffer_limit_disconnections")
}
