//! Sessions that wait, or do not read, harm no other: what is granted is used, what is sent is
//! read, a client that is gone leaves all queues, and one that has waited asks again what it may
//! do.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

mod rights;

use std::time::Duration;

use proto::value::Value;
use tests::client::{encode, field};
use tests::render::{render, text};
use tests::server::{eventually, free_port};
use tests::{Arrival, Client, Oracle, Server, check};

const MEGABYTE: usize = 1 << 20;

fn start(arguments: &[&str]) -> Server {
    Server::start(&[&["--enable-debug-command", "yes"], arguments].concat())
}

fn ask(client: &mut Client, line: &str) -> String {
    render(&client.call(&line.split(' ').collect::<Vec<_>>()))
}

fn send(client: &mut Client, line: &str) {
    client.send(&line.split(' ').collect::<Vec<_>>());
}

fn line_of(admin: &mut Client, id: &str) -> String {
    text(&admin.call(&["CLIENT", "LIST", "ID", id]))
}

/// Bytes that wait for a client that does not read.
fn unsent(admin: &mut Client, id: &str) -> usize {
    field(&line_of(admin, id), "omem").parse().unwrap()
}

fn is_gone(admin: &mut Client, id: &str) -> bool {
    line_of(admin, id).is_empty()
}

/// Waits until a client's present command is this one.
fn eventually_runs(admin: &mut Client, id: &str, command: &str) {
    eventually(command, || field(&line_of(admin, id), "cmd") == command);
}

fn is_silent(client: &mut Client) -> bool {
    client.arrival(Duration::from_millis(20)).unwrap() == Arrival::Silence
}

/// Waits until somebody holds the lock of a key.
fn eventually_holds(server: &Server, key: &str) {
    eventually("the key is locked", || {
        let mut probe = server.client();
        probe.send(&["EXISTS", key]);
        is_silent(&mut probe)
    });
}

/// Begins a stop of the world; the reply says that it is over.
fn stop_world(server: &Server, seconds: &str) -> Client {
    let (mut stopper, mut probe) = (server.client(), server.client());
    send(&mut stopper, &format!("DEBUG STOP-WORLD {seconds}"));
    eventually("the world is stopped", || {
        send(&mut probe, "EXISTS nothing");
        let stands = is_silent(&mut probe);
        if stands {
            probe = server.client();
        }
        stands
    });
    stopper
}

/// A subscriber that has a lot to read and does not.
fn deaf_subscriber(server: &Server) -> (Client, String) {
    let mut deaf = server.client3();
    let id = deaf.id();
    deaf.send(&["SUBSCRIBE", "ch"]);
    deaf.receive();
    (deaf, id)
}

/// Publishes until more waits for a client than is executed on.
fn fill(admin: &mut Client, id: &str) -> usize {
    let message = "m".repeat(MEGABYTE);
    let mut published = 0;
    while unsent(admin, id) <= 2 * MEGABYTE {
        admin.call(&["PUBLISH", "ch", &message]);
        published += 1;
        assert!(published < 30, "it reads");
    }
    published
}

#[test]
fn what_is_granted_to_who_does_not_read_is_used() {
    for workers in ["1", "2"] {
        let server = start(&["--worker-threads", workers, "--busy-reply-threshold", "0"]);
        let (mut admin, mut other) = (server.client(), server.client());
        for requests in [
            &["MULTI", "RANDOMKEY", "SCAN 0", "EXEC"][..],
            &["FLUSHDB"],
            &["SWAPDB 0 1"],
            &["INCR k"],
            &["EVAL return(redis.call('incr','k')) 0"],
        ] {
            let (mut deaf, id) = deaf_subscriber(&server);
            let mut script = server.client();
            script.send(&["EVAL", "while true do end", "1", "k"]);
            eventually_holds(&server, "k");
            requests.iter().for_each(|request| send(&mut deaf, request));
            let last = requests.last().unwrap().split(' ').next().unwrap().to_lowercase();
            eventually_runs(&mut admin, &id, &last);
            fill(&mut admin, &id);
            eventually("the script is killed", || ask(&mut admin, "SCRIPT KILL") == "OK");
            assert!(matches!(script.receive(), Value::Error(_)));
            for request in ["SET k 1", "SWAPDB 2 3", "DBSIZE"] {
                let reply = ask(&mut other, request);
                assert!(!reply.starts_with("(error)"), "{requests:?}: {request}: {reply}");
            }
        }
    }
}

/// Sends all of a pipeline before it reads a reply, as many clients do.
fn send_all_then_read(mut client: Client) {
    let value = "v".repeat(MEGABYTE);
    assert_eq!(render(&client.call(&["SET", "k", &value])), "OK");
    let mut requests = encode(&["GET", "k"]).repeat(8);
    requests.extend(encode(&["ECHO", &"e".repeat(8 * MEGABYTE)]));
    (0..10).for_each(|_| requests.extend(encode(&["SET", "k", &value])));
    requests.extend(encode(&["GET", "k"]).repeat(3));
    client.send_raw(&requests);
    for _ in 0..8 {
        assert_eq!(client.receive().as_bytes().unwrap().len(), MEGABYTE);
    }
    assert_eq!(client.receive().as_bytes().unwrap().len(), 8 * MEGABYTE);
    for _ in 0..10 {
        assert_eq!(render(&client.receive()), "OK");
    }
    for _ in 0..3 {
        assert_eq!(client.receive().as_bytes().unwrap().len(), MEGABYTE);
    }
    assert_eq!(ask(&mut client, "PING"), "PONG");
}

#[test]
fn a_pipeline_is_taken_whole_though_no_reply_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, port) = (folder.path().join("s"), free_port().to_string());
    let path = socket.display().to_string();
    let server = Server::start(&["--port", &port, "--unixsocket", &path]);
    send_all_then_read(server.client());
    send_all_then_read(Client::connect_unix(&socket));
    send_all_then_read(Oracle::redis82().client());
}

#[test]
fn many_replies_of_middle_size_are_read_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, port) = (folder.path().join("s"), free_port().to_string());
    let path = socket.display().to_string();
    let _server = Server::start(&["--port", &port, "--unixsocket", &path]);
    let mut client = Client::connect_unix(&socket);
    let elements: Vec<String> = (0..500).map(|number| number.to_string()).collect();
    let push: Vec<&str> =
        ["RPUSH", "l"].into_iter().chain(elements.iter().map(String::as_str)).collect();
    assert_eq!(render(&client.call(&push)), "(integer) 500");
    const COUNT: usize = 10_000;
    client.send_raw(&encode(&["LRANGE", "l", "0", "499"]).repeat(COUNT));
    for _ in 0..COUNT {
        let Value::Array(elements) = client.receive() else { panic!("a list") };
        assert_eq!(elements.len(), 500);
    }
}

#[test]
fn what_is_sent_behind_a_request_that_waits_is_taken_too() {
    for server in [start(&[]), Oracle::redis82()] {
        let (mut admin, mut waiter) = (server.client(), server.client());
        let id = waiter.id();
        send(&mut waiter, "BLPOP q 0");
        waiter.send_raw(&encode(&["ECHO", &"e".repeat(8 * MEGABYTE)]));
        eventually("all of it is there", || {
            field(&line_of(&mut admin, &id), "tot-net-in").parse::<usize>().unwrap() > 8 * MEGABYTE
        });
        assert_eq!(ask(&mut admin, "RPUSH q x"), "(integer) 1");
        assert_eq!(render(&waiter.receive()), "1) \"q\"\n2) \"x\"");
        assert_eq!(waiter.receive().as_bytes().unwrap().len(), 8 * MEGABYTE);
    }
}

/// What is sent is executed though nothing more comes.
#[test]
fn a_client_that_ends_its_side_is_answered() {
    use std::io::{Read, Write};
    let server = start(&[]);
    let value = "v".repeat(MEGABYTE);
    assert_eq!(render(&server.client().call(&["SET", "k", &value])), "OK");
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut requests = encode(&["GET", "k"]).repeat(20);
    requests.extend(encode(&["SET", "last", "1"]));
    stream.write_all(&requests).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut replies = Vec::new();
    stream.read_to_end(&mut replies).unwrap();
    assert_eq!(replies.len(), 20 * (MEGABYTE + "$1048576\r\n\r\n".len()) + "+OK\r\n".len());
    assert_eq!(ask(&mut server.client(), "GET last"), "\"1\"");
}

#[test]
fn what_waits_to_be_executed_has_a_bound() {
    let limit = ["--client-query-buffer-limit", "1mb"];
    let server = start(&limit);
    let mut admin = server.client();
    assert_eq!(render(&admin.call(&["SET", "k", &"v".repeat(MEGABYTE)])), "OK");
    let mut unread = server.client();
    let id = unread.id();
    // The socket has room for some of the replies.
    unread.send_raw(&encode(&["GET", "k"]).repeat(64));
    let mut waits = server.client();
    let other = waits.id();
    send(&mut waits, "BLPOP q 0");
    let more = encode(&["ECHO", &"e".repeat(100_000)]);
    for (client, id) in [(&mut unread, &id), (&mut waits, &other)] {
        eventually("too much was sent", || {
            let _ = client.try_send_raw(&more);
            is_gone(&mut admin, id)
        });
    }
    let info = text(&admin.call(&["INFO", "stats"]));
    assert!(info.contains("client_query_buffer_limit_disconnections:2"), "{info}");
    assert_eq!(ask(&mut admin, "RPUSH q x"), "(integer) 1");
    assert_eq!(ask(&mut admin, "LLEN q"), "(integer) 1");
}

#[test]
fn what_waits_for_exec_counts_as_what_is_sent() {
    let limit = ["--client-query-buffer-limit", "1mb"];
    for server in [start(&limit), Oracle::Redis82.start(&limit)] {
        let mut client = server.client();
        assert_eq!(ask(&mut client, "MULTI"), "OK");
        let value = "v".repeat(300_000);
        for _ in 0..3 {
            assert_eq!(render(&client.call(&["SET", "k", &value])), "QUEUED");
        }
        assert!(client.try_call(&["SET", "k", &value]).is_err(), "{}", server.is_oracle());
        // Many short commands are no more than they were when they were sent.
        let mut client = server.client();
        assert_eq!(ask(&mut client, "MULTI"), "OK");
        for _ in 0..10 {
            for reply in client.pipeline(&vec![vec!["SET", "k", "v"]; 2000]) {
                assert_eq!(render(&reply), "QUEUED");
            }
        }
    }
}

#[test]
fn a_waiter_that_hangs_up_with_requests_behind_takes_nothing() {
    let server = start(&[]);
    let mut admin = server.client();
    for behind in [1, 4096, 5000, 100_000, 3 * MEGABYTE] {
        let mut waiter = server.client();
        let id = waiter.id();
        send(&mut waiter, "BLPOP q 0");
        waiter.send_raw(&encode(&["ECHO", &"e".repeat(behind)]));
        eventually("it waits", || field(&line_of(&mut admin, &id), "flags").contains('b'));
        drop(waiter);
        eventually("it is gone", || is_gone(&mut admin, &id));
        assert_eq!(ask(&mut admin, "RPUSH q x"), "(integer) 1", "{behind}");
        assert_eq!(ask(&mut admin, "LPOP q"), "\"x\"", "{behind}");
    }
}

#[test]
fn requests_that_wait_for_a_reload_do_not_run_into_its_load() {
    let server = start(&["--worker-threads", "2"]);
    let mut admin = server.client();
    assert_eq!(ask(&mut admin, "DEBUG POPULATE 50000"), "OK");
    assert_eq!(ask(&mut admin, "SAVE"), "OK");
    let mut others: Vec<Client> = (0..8).map(|_| server.client()).collect();
    for _ in 0..5 {
        let mut stopper = stop_world(&server, "0.3");
        // These wait for the world with it, some before and some behind it.
        let (before, behind) = others.split_at_mut(4);
        before.iter_mut().for_each(|client| send(client, "FLUSHDB"));
        let mut reloader = server.client();
        send(&mut reloader, "DEBUG RELOAD NOSAVE");
        behind.iter_mut().for_each(|client| send(client, "FLUSHDB"));
        drop(stopper.receive());
        assert_eq!(render(&reloader.receive()), "OK");
        others.iter_mut().for_each(|client| drop(client.receive()));
        // All of it or nothing, whichever came last.
        let size = ask(&mut admin, "DBSIZE");
        assert!(["(integer) 50000", "(integer) 0"].contains(&size.as_str()), "{size}");
        assert_eq!(ask(&mut admin, "FLUSHALL"), "OK");
        assert_eq!(ask(&mut admin, "DEBUG POPULATE 50000"), "OK");
        assert_eq!(ask(&mut admin, "SAVE"), "OK");
    }
}

#[test]
fn messages_that_cannot_be_passed_on_count_for_the_limit() {
    let limits = "normal 4mb 0 0 pubsub 4mb 0 0";
    let server = start(&["--client-output-buffer-limit", limits]);
    let mut admin = server.client();
    let elements = vec!["e".repeat(20); 1000];
    for _ in 0..400 {
        let push = ["RPUSH", "bl"].into_iter().chain(elements.iter().map(String::as_str));
        admin.call(&push.collect::<Vec<_>>());
    }
    let message = "m".repeat(MEGABYTE);
    // In the middle of a long reply, and while a command runs elsewhere.
    for request in [&["LRANGE", "bl", "0", "-1"][..], &["EVAL", "while true do end", "0"]] {
        for listen in ["SUBSCRIBE ch", "CLIENT TRACKING ON BCAST"] {
            let mut deaf = server.client3();
            let id = deaf.id();
            send(&mut deaf, listen);
            deaf.receive();
            deaf.send(request);
            eventually_runs(&mut admin, &id, &request[0].to_lowercase());
            eventually("it is closed", || {
                match listen {
                    "SUBSCRIBE ch" => admin.call(&["PUBLISH", "ch", &message]),
                    _ => admin.call(&["SET", &message, "v"]),
                };
                let line = line_of(&mut admin, &id);
                let kept = if line.is_empty() { "0" } else { field(&line, "tot-mem") };
                assert!(kept.parse::<usize>().unwrap() < 30 * MEGABYTE, "{line}");
                line.is_empty()
            });
        }
        let _ = admin.call(&["SCRIPT", "KILL"]);
    }
}

#[test]
fn a_client_that_reads_a_long_reply_is_not_idle() {
    let server = start(&[]);
    let value = "v".repeat(40 * MEGABYTE);
    let mut first = server.client();
    assert_eq!(render(&first.call(&["SET", "k", &value])), "OK");
    assert_eq!(ask(&mut first, "CONFIG SET timeout 1"), "OK");
    let mut client = server.client();
    client.send(&["GET", "k"]);
    let head = "$41943040\r\n";
    assert_eq!(client.receive_raw(head.len()), head.as_bytes());
    for _ in 0..40 {
        assert_eq!(client.receive_raw(MEGABYTE).len(), MEGABYTE);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(client.receive_raw(2), b"\r\n");
}

fn workers(admin: &mut Client, count: usize) {
    assert_eq!(ask(admin, &format!("CONFIG SET worker-threads {count}")), "OK");
}

/// The entries of another consumer become due while the key is locked and the worker retires.
#[test]
fn a_session_that_waits_for_a_time_keeps_it_as_it_moves() {
    let server = start(&["--worker-threads", "4"]);
    let mut admin = server.client();
    check(
        &mut admin,
        "
        > XGROUP CREATE s g $ MKSTREAM
        OK
        > XADD s 1-1 f v
        \"1-1\"
        > XREADGROUP GROUP g other STREAMS s >
        ...
        ",
    );
    // Sessions of the worker that stays would do it for the others.
    let mut waiters: Vec<Client> = (0..8).map(|_| server.client()).collect();
    waiters.retain_mut(|waiter| {
        let id = waiter.id();
        field(&line_of(&mut admin, &id), "io-thread") != "0"
    });
    for (number, waiter) in waiters.iter_mut().enumerate() {
        let name = format!("c{number}");
        let request = format!("XREADGROUP GROUP g {name} BLOCK 30000 CLAIM 2000 STREAMS s >");
        send(waiter, &request);
    }
    let all = format!("blocked_clients:{}", waiters.len());
    eventually("all wait", || text(&admin.call(&["INFO", "clients"])).contains(&all));
    let mut script = server.client();
    script.send(&["EVAL", "while true do end", "1", "s"]);
    std::thread::sleep(Duration::from_millis(2300));
    workers(&mut admin, 1);
    std::thread::sleep(Duration::from_millis(100));
    eventually("the script ends", || ask(&mut admin, "SCRIPT KILL") == "OK");
    assert!(matches!(script.receive(), Value::Error(_)));
    let mut served = 0;
    for waiter in &mut waiters {
        if let Arrival::Reply(reply) = waiter.arrival(Duration::from_secs(2)).unwrap() {
            assert!(matches!(reply, Value::Array(_) | Value::Map(_)), "{reply:?}");
            served += 1;
        }
    }
    assert!(served > 0, "somebody has the entry");
}

/// A client that kills waits for a busy victim, and is answered though its own worker retires.
#[test]
fn a_client_that_kills_is_answered_at_its_new_worker() {
    let server = start(&["--worker-threads", "6"]);
    let mut admin = server.client();
    for _ in 0..20 {
        workers(&mut admin, 6);
        let mut killers: Vec<Client> = (0..6).map(|_| server.client()).collect();
        let mut victims: Vec<Client> = (0..6).map(|_| server.client()).collect();
        let ids: Vec<String> = victims.iter_mut().map(Client::id).collect();
        for (killer, id) in killers.iter_mut().zip(&ids) {
            killer.send(&["CLIENT", "KILL", "ID", id]);
        }
        workers(&mut admin, 1);
        for killer in &mut killers {
            assert_eq!(render(&killer.receive()), "(integer) 1");
        }
    }
}
