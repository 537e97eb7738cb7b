//! What may wait for a disk or for other threads does not wait on a worker, within EXEC either:
//! while a system call of it is held, others of the only worker are answered.

use std::sync::atomic::{AtomicBool, Ordering};

use proto::value::Value;
use tests::faults::subject::Subject;
use tests::faults::table::row_of;
use tests::faults::{Fault, Injector};
use tests::render::render;
use tests::server::{eventually, free_port};
use tests::{Client, Oracle, Server};

/// Which call of what is held.
const HELD: [(&str, &[&str]); 8] = [
    ("sync a file", &["CONFIG", "REWRITE"]),
    ("sync a file", &["ACL", "SAVE"]),
    ("open a file", &["ACL", "LOAD"]),
    ("listen", &["CONFIG", "SET", "port", "PORT"]),
    ("listen", &["CONFIG", "SET", "bind", "127.0.0.1 127.0.0.2"]),
    ("start a thread", &["CONFIG", "SET", "worker-threads", "2"]),
    ("make a directory", &["CONFIG", "SET", "appendonly", "yes"]),
    ("sync a file", &["CONFIG", "SET", "appendonly", "no"]),
];

#[test]
fn what_waits_within_exec_keeps_nobody_waiting() {
    for (row, words) in HELD {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        std::fs::write(folder.path().join("apus.conf"), "aclfile users.acl\n").expect("a folder");
        std::fs::write(folder.path().join("users.acl"), "").expect("a folder");
        let row = row_of(row);
        let appendonly = if words.contains(&"no") { "yes" } else { "no" };
        let own = [
            "--worker-threads",
            "1",
            "--save",
            "",
            "--appendonly",
            appendonly,
            "--enable-protected-configs",
            "yes",
        ];
        let mut subject = Subject::start(folder.path(), Injector::of(vec![row]), &own);
        assert!(subject.serves(), "{}", subject.log());
        let (mut asker, mut other) =
            (Client::connect(subject.port()), Client::connect(subject.port()));
        let port = free_port().to_string();
        let words: Vec<&str> =
            words.iter().map(|&word| if word == "PORT" { &*port } else { word }).collect();
        asker.call(&["MULTI"]);
        asker.call(&["SET", "before", "1"]);
        asker.call(&words);
        // This one is for the worker again.
        asker.call(&["CLIENT", "SETNAME", "late"]);
        asker.call(&["SET", "behind", "1"]);
        subject.injector.arm(row, Fault::Held, 0, 1);
        asker.send(&["EXEC"]);
        eventually("the call is made", || subject.injector.met() > 0);
        assert_eq!(other.call(&["PING"]), Value::Simple("PONG".into()), "{words:?}");
        assert_eq!(other.call(&["SET", "else", "1"]), Value::Simple("OK".into()), "{words:?}");
        subject.injector.disarm();
        let ok = || Value::Simple("OK".into());
        assert_eq!(asker.receive(), Value::Array(vec![ok(), ok(), ok(), ok()]), "{words:?}");
        assert_eq!(other.call(&["GET", "behind"]), Value::Bulk("1".into()));
        subject.kill();
    }
}

/// The rights that a transaction takes from its own user count for what comes behind.
#[test]
fn rights_are_looked_at_behind_what_was_done_elsewhere() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::fs::write(folder.path().join("apus.conf"), "aclfile users.acl\n").expect("a folder");
    std::fs::write(folder.path().join("users.acl"), "").expect("a folder");
    let own = ["--worker-threads", "1", "--save", ""];
    let mut subject = Subject::start(folder.path(), Injector::of(vec![]), &own);
    assert!(subject.serves(), "{}", subject.log());
    let mut client = Client::connect(subject.port());
    client.call(&["MULTI"]);
    client.call(&["ACL", "LOAD"]);
    client.call(&["SET", "key", "1"]);
    let users = "user default on nopass ~* &* +@all -set\n";
    std::fs::write(folder.path().join("users.acl"), users).expect("a folder");
    let Value::Array(replies) = client.call(&["EXEC"]) else { panic!("two replies") };
    assert_eq!(replies[0], Value::Simple("OK".into()));
    assert!(
        matches!(&replies[1], Value::Error(text) if text.starts_with(b"NOPERM")),
        "{replies:?}"
    );
    subject.kill();
}

/// EXEC waits for the turn of the configuration with locks, so the holder of the turn waits for
/// none.
#[test]
fn a_change_within_exec_and_a_reload_do_not_wait_for_each_other() {
    let server = Server::start(&[
        "--worker-threads",
        "3",
        "--enable-debug-command",
        "local",
        "--busy-reply-threshold",
        "0",
        "--save",
        "",
    ]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| {
            let mut client = server.client();
            while !is_over.load(Ordering::Relaxed) {
                client.call(&["MULTI"]);
                client.call(&["CONFIG", "SET", "maxmemory", "0"]);
                client.call(&["GET", "key"]);
                client.call(&["EXEC"]);
            }
        });
        let mut client = server.client();
        let replies: Vec<Value> = (0..100).map(|_| client.call(&["DEBUG", "RELOAD"])).collect();
        is_over.store(true, Ordering::Relaxed);
        changes.join().expect("it is answered");
        let ok = Value::Simple("OK".into());
        assert!(replies.iter().all(|reply| *reply == ok), "{replies:?}");
    });
}

/// What confirms a subscription is a message, which no mode of replies leaves out.
#[test]
fn subscriptions_within_exec_are_confirmed_where_replies_are_off() {
    for server in [Oracle::Redis82.start(&[]), Server::start(&[])] {
        let mut client = server.client();
        for words in ["CLIENT REPLY OFF", "MULTI", "SUBSCRIBE c", "UNSUBSCRIBE c", "EXEC"] {
            client.send(&words.split(' ').collect::<Vec<_>>());
        }
        client.send(&["CLIENT", "REPLY", "ON"]);
        let told = [(); 3].map(|()| render(&client.receive()));
        let subscribed = "1) \"subscribe\"\n2) \"c\"\n3) (integer) 1";
        let unsubscribed = "1) \"unsubscribe\"\n2) \"c\"\n3) (integer) 0";
        assert_eq!(told, [subscribed, unsubscribed, "OK"]);
    }
}
