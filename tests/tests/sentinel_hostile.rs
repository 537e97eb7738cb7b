//! Peers that mean harm: clients that send half of something, or too much, and servers that are
//! none. Invariant of all: the Sentinel goes on, and its memory stays what it is.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tests::sentinel::{NAME, Sentinel, SentinelProgram, World, watch_lines};
use tests::server::{eventually, free_port};
use tests::{Client, check};

const APUS: SentinelProgram = SentinelProgram::Apus;

/// How much memory a Sentinel occupies, in megabytes.
fn megabytes(sentinel: &Sentinel) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", sentinel.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() / 1024
}

#[test]
fn clients_that_send_nonsense_are_told_so_or_closed() {
    let sentinel = APUS.start(&watch_lines(free_port(), 1));
    for (sent, answer) in [
        ("*1\r\n$2000000000\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        ("*3000000000\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        ("*1\r\n+\r\n", "-ERR Protocol error: expected '$', got '+'\r\n"),
        ("*3\r\n$8\r\nSENTINEL\r\n$3\r\nset\r\n", ""),
        ("*1\r\n$4\r\nPI", ""),
        ("SENTINEL \"\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"),
    ] {
        let mut client = sentinel.client();
        client.send_raw(sent.as_bytes());
        client.end_sending();
        let said = client.receive_to_close();
        assert_eq!(String::from_utf8_lossy(&said), answer, "{sent:?}");
    }
    let mut client = sentinel.client();
    check(&mut client, "> PING\nPONG");
    // Words of any bytes and of some length are words.
    let long = vec![0xff_u8; 900_000];
    for words in [
        [b"SENTINEL".as_slice(), b"MASTER", &long],
        [b"SENTINEL", &long, b"x"],
        [b"PUBLISH", b"__sentinel__:hello", &long],
        [b"PUBLISH", &long, b"x"],
        [b"SENTINEL", b"RESET", b"[[[[\xff"],
    ] {
        client.call(&words);
    }
    let name = String::from_utf8_lossy(&long[..10]).into_owned();
    let monitor = client.call(&["SENTINEL", "MONITOR", &format!("a\nb{name}"), "::1", "1", "1"]);
    assert!(matches!(monitor, proto::value::Value::Error(_)), "{monitor:?}");
}

#[test]
fn very_many_clients_with_half_requests_are_little() {
    let sentinel = APUS.start(&format!("maxclients 600\n{}", watch_lines(free_port(), 1)));
    let before = megabytes(&sentinel);
    let half = vec![b'x'; 1 << 19];
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..500 {
        let Ok(mut client) = Client::try_connect(sentinel.port()) else { continue };
        // A client that takes too much is closed while it sends.
        let head = b"*3\r\n$8\r\nSENTINEL\r\n$3\r\nSET\r\n$1000000\r\n";
        let _ = client.try_send_raw(head).and_then(|()| client.try_send_raw(&half));
        clients.push(client);
    }
    eventually("what they sent is given back", || megabytes(&sentinel) < before + 100);
    drop(clients);
    eventually("it answers others", || {
        let client = Client::try_connect(sentinel.port());
        client.is_ok_and(|mut client| client.try_call(&["PING"]).is_ok())
    });
}

#[test]
fn a_subscriber_that_does_not_read_is_closed() {
    let world = World::start(0, &[]);
    let limit = "client-output-buffer-limit pubsub 1mb 0 0\n";
    let sentinel = APUS.watch(&world, 1, limit);
    let mut deaf = sentinel.listener();
    let mut client = sentinel.client();
    // Each of them is an event.
    let name = "n".repeat(1000);
    let port = world.primary().port().to_string();
    eventually("it is closed", || {
        for _ in 0..100 {
            client.call(&["SENTINEL", "MONITOR", &name, "127.0.0.1", &port, "1"]);
            client.call(&["SENTINEL", "REMOVE", &name]);
        }
        let list = client.call(&["CLIENT", "LIST", "TYPE", "pubsub"]);
        list.as_bytes().is_some_and(<[u8]>::is_empty)
    });
    assert!(deaf.try_call(&["PING"]).is_ok() || deaf.is_closed());
}

/// A server that answers whatever it is sent with the same bytes, or with nothing, again and again.
struct Impostor {
    port: u16,
    is_over: Arc<AtomicBool>,
}

impl Impostor {
    fn start(answer: Vec<u8>, repeats: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, answer) = (Arc::clone(&is_over), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (over, answer) = (Arc::clone(&over), Arc::clone(&answer));
                thread::spawn(move || serve(stream.unwrap(), &answer, repeats, &over));
            }
        });
        Self { port, is_over }
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn serve(mut stream: TcpStream, answer: &[u8], repeats: bool, is_over: &AtomicBool) {
    let mut buffer = [0; 4096];
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    while !is_over.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Err(_) if !repeats => continue,
            _ if stream.write_all(answer).is_err() => return,
            _ => {}
        }
    }
}

#[test]
fn impostors_are_down_and_others_are_watched() {
    let info = |lines: &str| format!("${}\r\n{lines}\r\n", lines.len());
    let many = (0..40_000).map(|at| format!("slave{at}:ip=10.0.0.1,port={at}\r\n"));
    let many = many.collect::<String>();
    let mut array = b"*4096\r\n".to_vec();
    array.extend(std::iter::repeat_n(b"$100000\r\n", 1).flatten());
    array.extend(vec![b'x'; 4 << 20]);
    let nested = b"*1\r\n".repeat(10_000);
    let impostors = [
        Impostor::start(b"garbage without an end".to_vec(), true),
        Impostor::start(b"$1000000000\r\n".to_vec(), false),
        Impostor::start(array, true),
        Impostor::start(nested, true),
        Impostor::start(b"+PONG\r\n".repeat(100_000), true),
        Impostor::start(b":1\r\n-ERR no\r\n".to_vec(), true),
        Impostor::start(info(&format!("role:master\r\n{many}")).into_bytes(), true),
        Impostor::start(
            b"*3\r\n$7\r\nmessage\r\n$18\r\n__sentinel__:hello\r\n$3\r\na,b\r\n".to_vec(),
            true,
        ),
        Impostor::start(Vec::new(), false),
    ];
    let world = World::start(1, &[]);
    let mut lines = watch_lines(world.primary().port(), 1);
    for (index, impostor) in impostors.iter().enumerate() {
        lines
            .push_str(&format!("sentinel monitor impostor{index} 127.0.0.1 {} 1\n", impostor.port));
        lines.push_str(&format!("sentinel down-after-milliseconds impostor{index} 1000\n"));
    }
    let sentinel = APUS.start(&lines);
    sentinel.meet(1, 0);
    let flags = |index: usize| {
        let name = format!("impostor{index}");
        let reply = sentinel.ask(&["SENTINEL", "MASTER", &name]);
        tests::sentinel::field_of(&reply, "flags").unwrap()
    };
    for silent in [1, 8] {
        eventually("who never answers is down", || flags(silent).contains("s_down"));
    }
    // The impostors have a while to do what harm they can.
    thread::sleep(Duration::from_secs(5));
    assert!(megabytes(&sentinel) < 300, "{} MB", megabytes(&sentinel));
    assert_eq!(sentinel.field("flags"), "master");
    assert_eq!(sentinel.ask(&["SENTINEL", "CKQUORUM", NAME]).as_bytes().unwrap()[..4], *b"OK 1");
    assert!(!sentinel.log().contains("+tilt"), "its ticks came in time");
}
