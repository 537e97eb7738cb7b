//! A write that cannot be logged: every client learns that it does not count, in whatever protocol
//! it asked for it, and nobody takes silence for success.
//!
//! The disk is a real one, which is full (`unshare --map-root-user --mount`).

use tests::Server;
use tests::memcached::{Connection, Packet};
use tests::server::{eventually, free_port};

const MEGABYTES: u32 = 6;

const REFUSED: &str =
    "SERVER_ERROR MISCONF Errors writing to the AOF file: No space left on device\r\n";

/// What is told of the write that finds it out, and of all that would show it.
const UNSAFE: &str = "SERVER_ERROR UNSAFE Errors writing to the AOF file: No space left on device. \
    The command ran, and what it changed or saw is not on disk: nobody is shown it before it is, \
    and a restart before undoes it\r\n";

/// A server that logs on a disk without space, and its port for clients of memcached.
fn start() -> (Server, u16) {
    let port = free_port();
    let own = ["--memcached-port", &port.to_string(), "--auto-aof-rewrite-percentage", "0"];
    let log = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = Server::start_on_small_disk(MEGABYTES, &[&own[..], &log].concat());
    let mut early = Connection::to(port);
    assert_eq!(early.line("set early 0 0 1\r\nx\r\n"), "STORED\r\n");
    // The log has some space of its own, which these use up.
    let filler = "x".repeat(600 << 10);
    for key in ["one", "two"] {
        let set = format!("set {key} 0 0 {}\r\n{filler}\r\n", filler.len());
        assert_eq!(early.line(&set), "STORED\r\n");
    }
    let ballast = server.disk().join("ballast");
    let mut ballast = std::fs::File::create(ballast).expect("a name");
    while std::io::Write::write_all(&mut ballast, &[0; 512]).is_ok() {}
    (server, port)
}

/// More than the space that is left.
fn large() -> String {
    "x".repeat(8 << 10)
}

fn free(server: &Server) {
    std::fs::remove_file(server.disk().join("ballast")).expect("it is there");
}

#[test]
fn text_and_meta_are_answered_with_the_failure() {
    for (request, stored) in [("set k 0 0 8192\r\n", "STORED\r\n"), ("ms k 8192\r\n", "HD\r\n")] {
        let (server, port) = start();
        let mut client = Connection::to(port);
        // The first write finds it out; those behind it are refused before they run.
        let write = format!("{request}{}\r\n", large());
        assert_eq!(client.line(&write), UNSAFE, "{request}");
        assert_eq!(client.line(&write), REFUSED, "{request}");
        assert_eq!(Connection::to(port).line("get k\r\n"), UNSAFE, "{request}");
        assert_eq!(Connection::to(port).line("mg k v\r\n"), UNSAFE, "{request}");
        assert_eq!(client.line("get early\r\n"), "VALUE early 0 1\r\nx\r\nEND\r\n");
        free(&server);
        eventually("writes resume", || client.line(&write) == stored);
    }
}

#[test]
fn replies_before_the_lost_one_leave_and_those_behind_it_too() {
    let (_server, port) = start();
    let mut client = Connection::to(port);
    let said =
        client.line(&format!("get early\r\nset k 0 0 8192\r\n{}\r\nget nosuch\r\n", large()));
    assert_eq!(said, format!("VALUE early 0 1\r\nx\r\nEND\r\n{UNSAFE}END\r\n"));
}

/// A client that takes silence for success is told by the end of the connection.
#[test]
fn where_silence_means_success_the_connection_ends() {
    for request in ["ms k 8192 q\r\n", "set k 0 0 8192 noreply\r\n"] {
        let (_server, port) = start();
        let mut client = Connection::to(port);
        // What comes behind would say that all went well.
        let said = client.line(&format!("{request}{}\r\n", large()));
        assert!(said.is_empty() || said == UNSAFE, "{request}: {said}");
        assert!(client.is_closed(), "{request}");
    }
}

#[test]
fn binary_clients_are_cut_off() {
    for opcode in [0x01, 0x11] {
        let (server, port) = start();
        let mut client = Connection::to(port);
        let set = Packet::new(opcode, &[0; 8], b"k", large().as_bytes());
        assert_eq!(client.packets(&set.request()), [], "no answer, and none behind it");
        assert!(client.is_closed());
        // Refused before it runs, a write has an answer, never that of success.
        const INTERNAL_ERROR: u16 = 0x84;
        let set = Packet::new(0x01, &[0; 8], b"k", large().as_bytes());
        let ask = || Connection::to(port).packets(&set.request()).first().map(|it| it.status);
        eventually("writes are refused", || {
            let status = ask();
            assert_ne!(status, Some(0));
            status == Some(INTERNAL_ERROR)
        });
        free(&server);
        eventually("writes resume", || ask() == Some(0));
    }
}
