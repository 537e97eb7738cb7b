//! Blocking commands of very many clients, or with long replies: the worker that makes them ready
//! leaves the service to a background thread, and order and atomicity are as without that.
//!
//! With one worker whatever keeps it shows: no other client would be answered.

use proto::value::Value;
use tests::render::render;
use tests::server::eventually;
use tests::{Client, Server, check};

/// More clients than a worker serves in one transaction.
const MANY: usize = 160;
/// Fewer than that.
const FEW: usize = 40;

fn start() -> Server {
    Server::start(&["--enable-debug-command", "yes", "--worker-threads", "1", "--save", ""])
}

fn call(client: &mut Client, line: &str) -> Value {
    client.call(&line.split(' ').collect::<Vec<_>>())
}

/// So many clients that wait by this request, in the order in which they came.
fn waiting(server: &Server, watcher: &mut Client, line: &str, count: usize) -> Vec<Client> {
    let words: Vec<&str> = line.split(' ').collect();
    let before = watcher.figure("blocked_clients");
    let wait = |number: usize| {
        let mut client = server.client();
        client.send(&words);
        eventually("the client is blocked", || {
            watcher.figure("blocked_clients") == before + 1 + number as i64
        });
        client
    };
    (0..count).map(wait).collect()
}

/// How many requests have left the only worker.
fn elsewhere(client: &mut Client) -> u64 {
    let line = client.info("worker_0");
    let count = line.split(',').find_map(|part| part.strip_prefix("elsewhere="));
    count.and_then(|count| count.parse().ok()).expect("it is a number")
}

/// What makes clients ready that wait by another request; `{words}` are as many as the clients.
const WAYS: &[(&str, &[&str])] = &[
    ("BLPOP list 0", &["RPUSH list {words}"]),
    ("BLPOP list 0", &["MULTI", "RPUSH list {words}", "SET seen 1", "EXEC"]),
    ("BLPOP list 0", &["EVAL return{redis.call('RPUSH',KEYS[1],unpack(ARGV))} 1 list {words}"]),
    ("BLPOP list 0", &["RPUSH other {words}", "RENAME other list"]),
    ("BLPOP list 0", &["RPUSH other {words}", "MULTI", "RENAME other list", "EXEC"]),
    ("BLPOP list 0", &["SELECT 1", "RPUSH list {words}", "SWAPDB 0 1", "SELECT 0"]),
    ("BLMOVE list to LEFT RIGHT 0", &["RPUSH list {words}"]),
    ("BLMOVE list to LEFT RIGHT 0", &["MULTI", "RPUSH list {words}", "EXEC"]),
];

#[test]
fn many_waiters_are_served_elsewhere_and_in_their_order() {
    let server = start();
    let (mut client, mut watcher) = (server.client(), server.client());
    for count in [FEW, MANY] {
        let words: Vec<String> = (0..count).map(|number| format!("e{number}")).collect();
        for (wait, lines) in WAYS {
            let mut clients = waiting(&server, &mut watcher, wait, count);
            let before = elsewhere(&mut watcher);
            for line in *lines {
                call(&mut client, &line.replace("{words}", &words.join(" ")));
            }
            // Few may be served elsewhere, too: what takes long by the clock leaves in any case.
            let leaves = elsewhere(&mut watcher) > before;
            assert!(leaves || count == FEW, "{count} by {wait}, then {lines:?}");
            for (client, word) in clients.iter_mut().zip(&words) {
                let told = render(&client.receive());
                assert!(told.contains(&format!("\"{word}\"")), "{word} by {lines:?}: {told}");
            }
            check(&mut client, "> EXISTS list other\n(integer) 0\n> FLUSHALL\nOK");
        }
    }
}

/// An EXEC that leaves comes back for a command that is about its session, and ends there.
#[test]
fn many_waiters_are_served_by_an_exec_that_needs_its_session() {
    let server = start();
    let (mut client, mut watcher) = (server.client(), server.client());
    let mut clients = waiting(&server, &mut watcher, "BLPOP list 0", MANY);
    let words: Vec<String> = (0..MANY).map(|number| format!("e{number}")).collect();
    for line in ["MULTI", &format!("RPUSH list {}", words.join(" ")), "CLIENT GETNAME"] {
        call(&mut client, line);
    }
    assert_eq!(render(&call(&mut client, "EXEC")), format!("1) (integer) {MANY}\n2) (nil)"));
    for (client, word) in clients.iter_mut().zip(&words) {
        assert!(render(&client.receive()).contains(&format!("\"{word}\"")));
    }
}

/// Readers of streams change nothing, so all of them are told of one entry.
#[test]
fn many_readers_of_an_entry_are_told_elsewhere() {
    let server = start();
    let (mut client, mut watcher) = (server.client(), server.client());
    for lines in [&["XADD s * f v"][..], &["MULTI", "XADD s * f v", "EXEC"]] {
        let mut readers = waiting(&server, &mut watcher, "XREAD BLOCK 0 STREAMS s $", MANY);
        let before = elsewhere(&mut watcher);
        lines.iter().for_each(|line| _ = call(&mut client, line));
        assert!(elsewhere(&mut watcher) > before, "{lines:?}");
        for reader in &mut readers {
            assert_eq!(render(&reader.receive()).matches("\"f\"").count(), 1);
        }
    }
    check(&mut client, "> XLEN s\n(integer) 2");
}

/// A stream of more than a worker reads for the client that brought it.
fn fill(client: &mut Client, key: &str) {
    let requests: Vec<Vec<String>> = (1..=5000)
        .map(|number| format!("XADD {key} {number} f v").split(' ').map(str::to_owned).collect())
        .collect();
    client.pipeline(&requests);
    call(client, &format!("XGROUP CREATE {key} g 0"));
}

const READ: &str = "XREADGROUP GROUP g c BLOCK 0 STREAMS s >";

#[test]
fn a_long_service_behind_a_swap_of_databases_is_done_elsewhere() {
    let server = start();
    let (mut client, mut watcher) = (server.client(), server.client());
    call(&mut client, "XGROUP CREATE s g 0 MKSTREAM");
    let mut reader = waiting(&server, &mut watcher, READ, 1).remove(0);
    call(&mut client, "SELECT 1");
    fill(&mut client, "s");
    let before = elsewhere(&mut watcher);
    check(&mut client, "> SWAPDB 0 1\nOK");
    assert!(elsewhere(&mut watcher) > before);
    assert_eq!(render(&reader.receive()).matches("\"f\"").count(), 5000);
}

/// A client that is being served for long is ended or left in peace by others without keeping
/// their worker.
#[test]
fn unblock_and_kill_wait_for_a_long_service_and_keep_nobody() {
    let server = start();
    let (mut client, mut watcher) = (server.client(), server.client());
    for (end, answer) in [("UNBLOCK", 0), ("KILL ID", 1)] {
        call(&mut client, "XGROUP CREATE s g 0 MKSTREAM");
        fill(&mut client, "source");
        let mut reader = server.client();
        let id = reader.id();
        reader.send(&READ.split(' ').collect::<Vec<_>>());
        eventually("the reader is blocked", || watcher.figure("blocked_clients") == 1);
        call(&mut watcher, "DEBUG FAILPOINT SERVICES HELD");
        client.send(&["RENAME", "source", "s"]);
        eventually("the service stands still", || {
            render(&call(&mut watcher, "DEBUG FAILPOINT SERVICES")) == "(integer) 1"
        });
        let mut other = server.client();
        let listed = format!("CLIENT LIST ID {}", other.id());
        other.send(&format!("CLIENT {end} {id}").split(' ').collect::<Vec<_>>());
        let command = format!("cmd=client|{}", if end == "UNBLOCK" { "unblock" } else { "kill" });
        // The only worker answers this, so the request does not keep it.
        eventually("the request has begun", || {
            render(&call(&mut watcher, &listed)).contains(&command)
        });
        call(&mut watcher, "DEBUG FAILPOINT SERVICES OFF");
        assert_eq!(render(&other.receive()), format!("(integer) {answer}"), "{end}");
        assert_eq!(render(&client.receive()), "OK");
        if end == "UNBLOCK" {
            assert_eq!(render(&reader.receive()).matches("\"f\"").count(), 5000);
        } else {
            // Whether its reply was quicker than its end is open.
            reader.receive_to_close();
        }
        check(&mut client, "> DEL s\n(integer) 1");
    }
}

/// What gives a stream's readers nothing looks at none of them: here a look would not come back, as
/// many waiters are looked at on another thread, which is held.
#[test]
fn many_readers_of_a_stream_are_left_alone_by_what_brings_no_entries() {
    let server = start();
    let (mut client, mut watcher) = (server.client(), server.client());
    for number in 1..=20 {
        call(&mut client, &format!("XADD s 1-{number} a b"));
    }
    call(&mut client, "XGROUP CREATE s g 0");
    call(&mut client, "XREADGROUP GROUP g me COUNT 20 STREAMS s >");
    call(&mut client, "XGROUP CREATE s other $");
    let wait = "XREADGROUP GROUP other c BLOCK 0 STREAMS s >";
    call(&mut watcher, "DEBUG FAILPOINT SERVICES HELD");
    let mut clients = waiting(&server, &mut watcher, wait, MANY);
    for line in [
        "XACK s g 1-1",
        "XDEL s 1-2",
        "XTRIM s MAXLEN = 10",
        "XGROUP CREATECONSUMER s g you",
        "XGROUP DELCONSUMER s g you",
        "XREADGROUP GROUP g me STREAMS s 0",
        "XREADGROUP GROUP g me STREAMS s >",
        "XREADGROUP GROUP g new STREAMS s >",
        "XAUTOCLAIM s g new 1000000 0",
        "XSETID s 9-9",
    ] {
        let told = render(&call(&mut client, line));
        assert!(!told.contains("(error)"), "{line}: {told}");
    }
    call(&mut watcher, "DEBUG FAILPOINT SERVICES OFF");
    call(&mut client, "XADD s 10-1 a b");
    assert!(render(&clients[0].receive()).contains("10-1"));
}
