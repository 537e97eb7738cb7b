//! MIGRATE beside others: they are not kept waiting for the target, and what they write meanwhile
//! is not lost.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use proto::value::Value;
use tests::render::render;
use tests::replication::{await_replica, follow, promote};
use tests::server::eventually;
use tests::target::{FakeTarget, Said};
use tests::{Arrival, Client, Oracle, Server, check};

/// A target that answers no RESTORE before it is told to.
struct HeldTarget {
    target: FakeTarget,
    arrived: Receiver<()>,
    answer: Sender<()>,
}

impl HeldTarget {
    fn start() -> Self {
        let ((arrives, arrived), (answer, told)) = (channel(), channel::<()>());
        let ends = Mutex::new((arrives, told));
        let target = FakeTarget::start(move |_, request| {
            if request[0] == b"RESTORE" {
                let (arrives, told) = &*ends.lock().unwrap();
                // The test may be over.
                let _ = arrives.send(()).map(|()| told.recv());
            }
            Said::ok()
        });
        Self { target, arrived, answer }
    }

    /// Sends an order for a key, and returns when the target has it.
    fn order(&self, client: &mut Client, key: &str, options: &[&str]) {
        let port = self.target.port().to_string();
        let order = ["MIGRATE", "127.0.0.1", &port, key, "0", "60000"];
        client.send(&[&order[..], options].concat());
        self.await_key();
    }

    /// Waits until the target has a key.
    fn await_key(&self) {
        eventually("a key comes", || self.arrived.try_recv().is_ok());
    }
}

const SETUP: &str = r#"
    > FLUSHALL
    OK
    > SET k v
    OK
    > SET volatile v EX 1000
    OK
    > RPUSH list a b
    (integer) 2
    > XADD stream 1-1 a b
    "1-1"
    > XADD stream 2-1 a b
    "2-1"
    > XGROUP CREATE stream group 0
    OK
    > XREADGROUP GROUP group me COUNT 1 STREAMS stream >
    ...
"#;

/// What others may do to a key meanwhile so that it is another one.
const CHANGES: &[(&str, &str)] = &[
    ("k", "SET k w"),
    ("k", "SET k v"),
    ("k", "APPEND k x"),
    ("k", "DEL k"),
    ("k", "UNLINK k"),
    ("k", "RENAME k other"),
    ("k", "RENAME list k"),
    ("k", "EXPIRE k 100"),
    ("volatile", "PERSIST volatile"),
    ("volatile", "PEXPIREAT volatile 4102444800000"),
    ("k", "MOVE k 1"),
    ("k", "FLUSHDB"),
    ("k", "FLUSHALL ASYNC"),
    ("k", "SWAPDB 0 1"),
    ("k", "DEBUG RELOAD"),
    ("k", "EVAL redis.call('SET',KEYS[1],'s') 1 k"),
    ("list", "RPUSH list b"),
    ("list", "LPOP list"),
    ("stream", "XADD stream 3-1 a b"),
    // Those are no changes for WATCH.
    ("stream", "XACK stream group 1-1"),
    ("stream", "XREADGROUP GROUP group me STREAMS stream >"),
    ("stream", "XCLAIM stream group you 0 1-1"),
    ("stream", "XGROUP SETID stream group 2-1"),
    ("stream", "XGROUP CREATE stream another 0"),
    ("stream", "XGROUP DESTROY stream group"),
    ("stream", "XGROUP CREATECONSUMER stream group you"),
    ("stream", "XSETID stream 9-9"),
];

/// What others may do so that the key stays what it was.
const HARMLESS: &[(&str, &str)] = &[
    ("k", "GET k"),
    ("k", "TOUCH k"),
    ("k", "WATCH k"),
    ("k", "SET other 1"),
    ("k", "SETNX k w"),
    ("k", "EXPIRE k 100 XX"),
    ("volatile", "TTL volatile"),
    ("list", "LRANGE list 0 -1"),
    ("stream", "XRANGE stream - +"),
];

fn words(command: &str) -> Vec<&str> {
    match command.split_once(' ') {
        Some(("EVAL", rest)) => {
            let mut words: Vec<&str> = rest.rsplitn(3, ' ').collect();
            words.push("EVAL");
            words.reverse();
            words
        }
        _ => command.split(' ').collect(),
    }
}

/// All there is, as one text.
fn data(client: &mut Client) -> String {
    render(&client.call(&["DEBUG", "DIGEST"]))
}

#[test]
fn what_others_write_meanwhile_stays() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let (mut client, mut other) = (server.client(), server.client());
    for (key, change) in CHANGES {
        let held = HeldTarget::start();
        check(&mut other, SETUP);
        held.order(&mut client, key, &[]);
        let reply = other.call(&words(change));
        assert!(!matches!(reply, Value::Error(_)), "{change}: {reply:?}");
        let before = data(&mut other);
        held.answer.send(()).unwrap();
        let reply = render(&client.receive());
        let expected = "(error) ERR Keys that changed here while they were sent: 1. What is here \
            stays, and the target has them as they were. REPLACE sends them again.";
        assert_eq!(reply, expected, "{change}");
        assert_eq!(data(&mut other), before, "{change}");
    }
    assert_eq!(client.info("total_watched_keys"), "0");
}

#[test]
fn what_others_do_that_changes_nothing_is_no_obstacle() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut client = server.client();
    for (key, command) in HARMLESS {
        let held = HeldTarget::start();
        let mut other = server.client();
        check(&mut other, SETUP);
        held.order(&mut client, key, &[]);
        let reply = other.call(&words(command));
        assert!(!matches!(reply, Value::Error(_)), "{command}: {reply:?}");
        held.answer.send(()).unwrap();
        assert_eq!(render(&client.receive()), "OK", "{command}");
        assert_eq!(render(&client.call(&["EXISTS", key])), "(integer) 0", "{command}");
    }
    eventually("nothing is watched any more", || client.info("total_watched_keys") == "0");
}

#[test]
fn with_replace_what_changed_is_sent_again() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let (mut client, mut other) = (server.client(), server.client());
    let goes = |change: &str| {
        let word = change.split(' ').next().unwrap();
        change == "RENAME k other"
            || ["DEL", "UNLINK", "MOVE", "FLUSHDB", "FLUSHALL", "SWAPDB"].contains(&word)
    };
    for (key, change) in CHANGES {
        let held = HeldTarget::start();
        check(&mut other, SETUP);
        held.order(&mut client, key, &["REPLACE"]);
        other.call(&words(change));
        held.answer.send(()).unwrap();
        if goes(change) {
            let reply = render(&client.receive());
            assert!(reply.contains("changed here while they were sent: 1."), "{change}: {reply}");
            continue;
        }
        held.await_key();
        held.answer.send(()).unwrap();
        assert_eq!(render(&client.receive()), "OK", "{change}");
        assert_eq!(render(&client.call(&["EXISTS", key])), "(integer) 0", "{change}");
    }
}

#[test]
fn a_key_that_changes_each_time_stays_in_the_end() {
    let server = Server::start(&[]);
    let (mut client, mut other) = (server.client(), server.client());
    check(&mut client, "> SET k 0\nOK");
    let held = HeldTarget::start();
    held.order(&mut client, "k", &["REPLACE"]);
    let (mut rounds, mut reply) = (0, None);
    while reply.is_none() {
        rounds += 1;
        other.call(&["INCR", "k"]);
        held.answer.send(()).unwrap();
        eventually("it is sent again, or is over", || {
            if let Ok(Arrival::Reply(came)) = client.arrival(Duration::ZERO) {
                reply = Some(render(&came));
            }
            reply.is_some() || held.arrived.try_recv().is_ok()
        });
    }
    let reply = reply.unwrap();
    assert!(reply.contains("changed here while they were sent: 1."), "{reply}");
    assert_eq!(render(&client.call(&["GET", "k"])), format!("\"{rounds}\""));
    assert!(rounds > 1, "{rounds}");
}

/// In Redis the server is still while the target is waited for, so this ends by the timeout.
#[test]
fn a_server_that_sends_keys_to_itself_keeps_them() {
    let server = Server::start(&[]);
    let (mut client, port) = (server.client(), server.port().to_string());
    check(&mut client, "> SET k v\nOK");
    let order = ["MIGRATE", "127.0.0.1", &port, "k", "0", "60000", "REPLACE"];
    let reply = render(&client.call(&order));
    assert!(reply.contains("changed here"), "{reply}");
    check(&mut client, "> GET k\n\"v\"");
    let reply = render(&client.call(&order[..6]));
    assert!(reply.contains("BUSYKEY"), "{reply}");
    let order = ["MIGRATE", "127.0.0.1", &port, "k", "1", "60000"];
    assert_eq!(render(&client.call(&order)), "OK");
    check(&mut client, "> EXISTS k\n(integer) 0\n> SELECT 1\nOK\n> GET k\n\"v\"");
}

#[test]
fn a_key_whose_time_is_over_meanwhile_is_no_obstacle() {
    let server = Server::start(&[]);
    let (mut client, mut other) = (server.client(), server.client());
    check(&mut client, "> SET k v PX 300\nOK");
    let held = HeldTarget::start();
    held.order(&mut client, "k", &[]);
    eventually("its time is over", || other.call(&["EXISTS", "k"]) == Value::Integer(0));
    held.answer.send(()).unwrap();
    assert_eq!(render(&client.receive()), "OK");
}

#[test]
fn keys_stay_where_a_gate_is_shut_while_the_target_is_waited_for() {
    let server = Server::start(&[]);
    let mut other = server.client();
    let begin = |key: &str, user: &str| {
        let held = HeldTarget::start();
        let mut client = server.client();
        client.call(&["SET", key, "v"]);
        client.call(&["AUTH", user, "any"]);
        held.order(&mut client, key, &[]);
        (held, client)
    };
    // A pause is waited for.
    let (held, mut client) = begin("k", "default");
    check(&mut other, "> CLIENT PAUSE 1000000 WRITE\nOK");
    held.answer.send(()).unwrap();
    for _ in 0..20 {
        assert!(client.is_silent());
        check(&mut other, "> GET k\n\"v\"");
        thread::sleep(Duration::from_millis(5));
    }
    check(&mut other, "> CLIENT UNPAUSE\nOK");
    assert_eq!(render(&client.receive()), "OK");
    // A role refuses.
    let (held, mut client) = begin("k", "default");
    check(&mut other, "> REPLICAOF 127.0.0.1 1\nOK");
    held.answer.send(()).unwrap();
    let said = "(error) READONLY You can't write against a read only replica.";
    assert_eq!(render(&client.receive()), said);
    check(&mut other, "> REPLICAOF NO ONE\nOK\n> GET k\n\"v\"");
    // So do rights.
    check(&mut other, "> ACL SETUSER some on nopass ~* +@all\nOK");
    let (held, mut client) = begin("l", "some");
    check(&mut other, "> ACL SETUSER some -migrate\nOK");
    held.answer.send(()).unwrap();
    let reply = render(&client.receive());
    assert!(reply.starts_with("(error) NOPERM"), "{reply}");
    check(&mut other, "> GET l\n\"v\"");
}

/// The data of another server came meanwhile, in each way that they may come.
#[test]
fn a_key_of_other_data_stays() {
    let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
    check(&mut primary.client(), "> SET k other\nOK");
    for load in ["disabled", "swapdb", "flush-before-load"] {
        let server = Server::start(&["--repl-diskless-load", load]);
        let (mut client, held) = (server.client(), HeldTarget::start());
        check(&mut client, "> SET k v\nOK");
        held.order(&mut client, "k", &[]);
        follow(&server, primary.port());
        await_replica(&primary, &server);
        promote(&server);
        held.answer.send(()).unwrap();
        let reply = render(&client.receive());
        assert!(reply.contains("changed here while they were sent: 1."), "{load}: {reply}");
        check(&mut client, "> GET k\n\"other\"");
    }
}

/// A script that holds the key for long is waited for, and others are served meanwhile.
#[test]
fn a_key_that_is_held_goes_when_it_is_free() {
    let server = Server::start(&["--save", ""]);
    let (mut client, mut holder, mut other) = (server.client(), server.client(), server.client());
    let orders: Vec<HeldTarget> = (0..20).map(|_| HeldTarget::start()).collect();
    check(&mut client, "> SET k v\nOK");
    let mut waiting: Vec<Client> = orders.iter().map(|_| server.client()).collect();
    for (held, client) in orders.iter().zip(&mut waiting) {
        held.order(client, "k", &[]);
    }
    holder.send(&["EVAL", "redis.call('GET', KEYS[1]) while true do end", "1", "k"]);
    eventually("the script runs", || {
        render(&other.call(&["CLIENT", "LIST"])).contains("cmd=eval ")
    });
    orders.iter().for_each(|held| held.answer.send(()).unwrap());
    // More wait than there are threads for that; yet another key goes.
    let (held, mut client) = (HeldTarget::start(), server.client());
    check(&mut client, "> SET free v\nOK");
    held.order(&mut client, "free", &[]);
    held.answer.send(()).unwrap();
    assert_eq!(render(&client.receive()), "OK");
    eventually("the script ends", || render(&other.call(&["SCRIPT", "KILL"])) == "OK");
    let replies: Vec<String> = waiting.iter_mut().map(|client| render(&client.receive())).collect();
    let moved = replies.iter().filter(|reply| *reply == "OK").count();
    assert_eq!(moved, 1, "{replies:?}");
    check(&mut other, "> EXISTS k\n(integer) 0");
}

#[test]
fn other_clients_do_not_wait_for_a_target_that_hangs() {
    let server = Server::start(&["--save", ""]);
    let target = FakeTarget::start(|_, request| match &*request[0] {
        b"RESTORE" => Said::Silence,
        _ => Said::ok(),
    });
    let port = target.port().to_string();
    // More than there are threads of any kind.
    let mut waiting: Vec<Client> = (0..100)
        .map(|number| {
            let (mut client, key) = (server.client(), format!("key:{number}"));
            client.call(&["SET", &key, "v"]);
            client.send(&["MIGRATE", "127.0.0.1", &port, &key, "0", "600000"]);
            client
        })
        .collect();
    let restores = |line: &String| line.starts_with("RESTORE");
    eventually("all are sent", || {
        target.heard().iter().filter(|line| restores(line)).count() == 100
    });
    let mut other = server.client();
    check(
        &mut other,
        r#"
        > GET key:1
        "v"
        > MULTI
        OK
        > GET key:2
        QUEUED
        > INCR counter
        QUEUED
        > EXEC
        1) "v"
        2) (integer) 1
        > SAVE
        OK
        > FLUSHDB
        OK
        > EVAL "for i = 1, 100 do redis.call('SET', 'key:' .. i, 'w') end return 'done'" 0
        "done"
        > DBSIZE
        (integer) 100
        "#,
    );
    drop(target);
    for client in &mut waiting {
        let reply = render(&client.receive());
        assert!(reply.contains("IOERR"), "{reply}");
    }
    check(&mut other, "> DBSIZE\n(integer) 100");
}

/// A writer for each few keys, which writes what is still here; the keys go meanwhile. What was
/// acknowledged last is where the key is.
fn moves_under_writes(target: &Server, options: &[&str]) {
    const WRITERS: usize = 4;
    const KEYS: usize = 40;
    let source = Server::start(&[]);
    let name = |writer: usize, key: usize| format!("key:{writer}:{key}");
    let all: Vec<String> =
        (0..WRITERS).flat_map(|writer| (0..KEYS).map(move |key| name(writer, key))).collect();
    let mut client = source.client();
    all.iter().for_each(|key| drop(client.call(&["SET", key, "0"])));
    let writers = (0..WRITERS).map(|writer| {
        let mut client = source.client();
        thread::spawn(move || {
            let mut last = vec![0_u64; KEYS];
            let mut here: Vec<usize> = (0..KEYS).collect();
            for turn in 1..=2000 {
                here.retain(|&key| {
                    let reply = client.call(&["SET", &name(writer, key), &turn.to_string(), "XX"]);
                    let is_here = reply != Value::Null;
                    if is_here {
                        last[key] = turn;
                    }
                    is_here
                });
            }
            last
        })
    });
    let writers: Vec<_> = writers.collect();
    let port = target.port().to_string();
    let mut errors = 0;
    while writers.iter().any(|writer| !writer.is_finished()) {
        for keys in all.chunks(10) {
            let head = ["MIGRATE", "127.0.0.1", &port, "", "0", "60000"];
            let keys = keys.iter().map(String::as_str);
            let order: Vec<&str> = head
                .into_iter()
                .chain(options.iter().copied())
                .chain(["KEYS"])
                .chain(keys)
                .collect();
            errors += usize::from(matches!(client.call(&order), Value::Error(_)));
        }
    }
    let mut other = target.client();
    let mut moved = 0;
    for (writer, last) in writers.into_iter().enumerate() {
        for (key, last) in last.join().unwrap().into_iter().enumerate() {
            let [here, there] =
                [&mut client, &mut other].map(|it| it.call(&["GET", &name(writer, key)]));
            moved += usize::from(here == Value::Null);
            let found = if here == Value::Null { there } else { here };
            assert_eq!(render(&found), format!("\"{last}\""), "key {key} of {writer}, {errors}");
        }
    }
    assert!(moved > 0, "some keys go");
}

#[test]
fn no_acknowledged_write_is_lost_while_keys_go() {
    moves_under_writes(&Server::start(&[]), &["REPLACE"]);
    moves_under_writes(&Oracle::Redis82.start(&[]), &["REPLACE"]);
    moves_under_writes(&Server::start(&[]), &[]);
}
