//! The number of workers changes under load, and no reply is lost.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use proto::value::Value;
use tests::samples::SLOW_THAT_HOLDS;
use tests::server::eventually;
use tests::{Arrival, Client, Server, check};

const CLIENTS: usize = 1000;
const LOADERS: usize = 4;

fn resize(client: &mut Client, workers: usize) {
    let reply = client.call(&["CONFIG", "SET", "worker-threads", &workers.to_string()]);
    assert_eq!(reply, Value::Simple(b"OK".to_vec()), "{workers} workers");
}

/// The names of threads that are workers.
fn workers(server: &Server) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.starts_with("worker-")).count()
}

/// Every client has some requests under way at any time, some of them cut in two.
fn load(clients: &mut [Client], number: usize, stop: &AtomicBool, calls: &AtomicU64) {
    let mut round = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        for (index, client) in clients.iter_mut().enumerate() {
            let key = format!("key:{number}:{index}");
            client.send(&["INCR", &key]);
            client.send(&["APPEND", &format!("text:{key}"), "x"]);
            let get = format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len());
            let (head, _) = get.split_at(get.len() / 2);
            client.send_raw(head.as_bytes());
        }
        for (index, client) in clients.iter_mut().enumerate() {
            let key = format!("key:{number}:{index}");
            let get = format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len());
            let (_, tail) = get.split_at(get.len() / 2);
            client.send_raw(tail.as_bytes());
            let expected = i64::try_from(round).unwrap();
            assert_eq!(client.receive(), Value::Integer(expected), "INCR {key}");
            assert_eq!(client.receive(), Value::Integer(expected), "APPEND {key}");
            assert_eq!(client.receive(), Value::Bulk(round.to_string().into_bytes()), "GET {key}");
            calls.fetch_add(3, Ordering::Relaxed);
        }
    }
}

#[test]
fn the_crew_changes_under_load_and_no_reply_is_lost() {
    let server = Server::start(&["--worker-threads", "2"]);
    let mut admin = server.client();
    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 0..LOADERS {
            let (server, stop, calls) = (&server, &stop, &calls);
            scope.spawn(move || {
                let mut clients: Vec<Client> =
                    (0..CLIENTS / LOADERS).map(|_| server.client()).collect();
                load(&mut clients, number, stop, calls);
            });
        }
        // Whatever goes wrong here must end the load, or the scope never ends.
        let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for workers in [4, 1, 8, 3, 2, 1, 6, 5, 16, 1, 2, 1, 4] {
                let before = calls.load(Ordering::Relaxed);
                resize(&mut admin, workers);
                eventually("the load goes on", || calls.load(Ordering::Relaxed) > before + 1000);
            }
        }));
        stop.store(true, Ordering::Relaxed);
        changed.unwrap();
    });
    eventually("workers that retired are gone", || workers(&server) == 4);
    let list = admin.call(&["CLIENT", "LIST"]);
    assert!(list.as_bytes().is_some());
}

#[test]
fn a_worker_comes_back_while_its_predecessor_retires() {
    let server = Server::start(&["--worker-threads", "4"]);
    let mut admin = server.client();
    let mut clients: Vec<Client> = (0..40).map(|_| server.client()).collect();
    for _ in 0..20 {
        for workers in [1, 4] {
            admin.send(&["CONFIG", "SET", "worker-threads", &workers.to_string()]);
        }
        for client in &mut clients {
            check(client, "> PING\nPONG");
        }
        for _ in 0..2 {
            assert_eq!(admin.receive(), Value::Simple(b"OK".to_vec()));
        }
    }
    eventually("no worker too many", || workers(&server) == 4);
}

/// Sessions that wait for something move along with it.
#[test]
fn sessions_move_whatever_they_wait_for() {
    let server = Server::start(&["--worker-threads", "8", "--enable-debug-command", "yes"]);
    let mut admin = server.client();
    let mut sleepers: Vec<Client> = (0..16).map(|_| server.client()).collect();
    let mut waiters: Vec<Client> = (0..16).map(|_| server.client()).collect();
    let mut paused: Vec<Client> = (0..16).map(|_| server.client()).collect();
    for client in &mut sleepers {
        client.send(&["DEBUG", "SLEEP", "0.5"]);
        client.send(&["ECHO", "awake"]);
    }
    for client in &mut waiters {
        client.send(&["WAIT", "1", "500"]);
        client.send(&["ECHO", "waited"]);
    }
    check(&mut admin, "> CLIENT PAUSE 500 WRITE\nOK");
    for client in &mut paused {
        client.send(&["SET", "k", "v"]);
    }
    std::thread::sleep(Duration::from_millis(50));
    for workers in [1, 3, 2, 1] {
        resize(&mut admin, workers);
    }
    eventually("one worker is left", || workers(&server) == 1);
    for client in &mut sleepers {
        assert_eq!(client.receive(), Value::Simple(b"OK".to_vec()));
        assert_eq!(client.receive(), Value::Bulk(b"awake".to_vec()));
    }
    for client in &mut waiters {
        assert_eq!(client.receive(), Value::Integer(0));
        assert_eq!(client.receive(), Value::Bulk(b"waited".to_vec()));
    }
    for client in &mut paused {
        assert_eq!(client.receive(), Value::Simple(b"OK".to_vec()));
    }
}

/// A client that waits for a lock asks for it again at the new worker. A client that runs elsewhere
/// is answered there.
#[test]
fn sessions_move_while_a_key_is_locked() {
    // However slow the machine is, nobody is told BUSY.
    let server = Server::start(&["--worker-threads", "4", "--busy-reply-threshold", "0"]);
    let mut admin = server.client();
    for (key, step) in [("a", 7), ("b", 11)] {
        let value: String = (0..10_000).map(|at| (b'a' + (at * step % 23) as u8) as char).collect();
        check(&mut admin, &format!("> SET {key} {value}\nOK"));
    }
    let mut slow = server.client();
    let mut rivals: Vec<Client> = (0..32).map(|_| server.client()).collect();
    slow.send(&SLOW_THAT_HOLDS);
    std::thread::sleep(Duration::from_millis(20));
    for rival in &mut rivals {
        rival.send(&["SETRANGE", "a", "10000", "x"]);
        rival.send(&["STRLEN", "a"]);
    }
    let mut swappers: Vec<Client> = (0..4).map(|_| server.client()).collect();
    for swapper in &mut swappers {
        swapper.send(&["SWAPDB", "1", "2"]);
    }
    for workers in [1, 4, 2, 1] {
        resize(&mut admin, workers);
    }
    assert!(matches!(slow.receive(), Value::Integer(_)));
    for swapper in &mut swappers {
        assert_eq!(swapper.receive(), Value::Simple(b"OK".to_vec()));
    }
    for rival in &mut rivals {
        assert_eq!(rival.receive(), Value::Integer(10_001));
        assert_eq!(rival.receive(), Value::Integer(10_001));
    }
    eventually("one worker is left", || workers(&server) == 1);
}

/// What a client has not read yet is not lost either.
#[test]
fn unread_replies_move_along() {
    let server = Server::start(&["--worker-threads", "4"]);
    let mut admin = server.client();
    let value = "x".repeat(500_000);
    check(&mut admin, &format!("> SET big {value}\nOK"));
    let mut readers: Vec<Client> = (0..8).map(|_| server.client()).collect();
    for reader in &mut readers {
        for _ in 0..40 {
            reader.send(&["GET", "big"]);
        }
    }
    for workers in [1, 4, 2, 1] {
        resize(&mut admin, workers);
    }
    for reader in &mut readers {
        for _ in 0..40 {
            assert_eq!(reader.receive(), Value::Bulk(value.clone().into_bytes()));
        }
        assert_eq!(reader.arrival(Duration::ZERO).unwrap(), Arrival::Silence);
    }
}

#[test]
fn numbers_out_of_range_are_refused_or_cut() {
    let server = Server::start(&["--worker-threads", "1"]);
    let mut admin = server.client();
    check(&mut admin, "> CONFIG SET worker-threads 9999\n~ (error) ERR CONFIG SET failed *");
    check(&mut admin, "> CONFIG SET threads 2\nOK\n> CONFIG GET worker-threads\n...");
    eventually("an alias works", || workers(&server) == 2);
    resize(&mut admin, 0);
    let cores = std::thread::available_parallelism().unwrap().get();
    eventually("0 is one per core", || workers(&server) == cores);
}
