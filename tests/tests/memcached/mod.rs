//! The memcached protocols as their clients see them, and the same data as clients of Redis do.
//!
//! Invariant: each exchange names the whole answer, byte for byte, and what comes after it is
//! looked at as well.

mod admin;
mod authentication;
mod binary;
mod edge_values;
mod executor;
mod files;
mod full_disk;
mod hostile;
mod meta;
mod shared_data;
mod text;
mod tuning;
mod udp;
mod watch;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tests::Server;
use tests::server::free_port;

/// The name of the socket in a server's folder.
const SOCKET: &str = "memcached.sock";

/// A server with a socket for clients of memcached.
fn start(arguments: &[&str]) -> Server {
    let port = free_port().to_string();
    let own = ["--port", &port, "--memcached-unixsocket", SOCKET];
    Server::start(&[&own, arguments].concat())
}

/// A client of memcached, which sends bytes and reads bytes.
struct Talk(UnixStream);

impl Talk {
    fn to(server: &Server) -> Self {
        let stream = UnixStream::connect(server.folder().join(SOCKET));
        let stream = stream.expect("the server listens there");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("not zero");
        Self(stream)
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        tests::calls::sent_to_memcached(bytes.as_ref());
        self.0.write_all(bytes.as_ref()).expect("the server reads");
    }

    /// Reads as many bytes; fewer only where the server closes or falls silent.
    fn read(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let mut there = 0;
        while there < length {
            match self.0.read(&mut bytes[there..]) {
                Ok(0) | Err(_) => break,
                Ok(count) => there += count,
            }
        }
        bytes.truncate(there);
        bytes
    }

    /// Sends a request, which is to have this answer.
    #[track_caller]
    fn ask(&mut self, request: impl AsRef<[u8]>, answer: impl AsRef<[u8]>) {
        let (request, answer) = (request.as_ref(), answer.as_ref());
        self.send(request);
        self.hear(&request.escape_ascii().to_string(), answer);
    }

    /// Reads an answer, which is to be this.
    #[track_caller]
    fn hear(&mut self, to: &str, answer: &[u8]) {
        let came = self.read(answer.len());
        assert!(came == answer, "{to}: {}", came.escape_ascii());
    }

    /// Sends requests each of which is to have its answer, in text.
    #[track_caller]
    fn play(&mut self, exchanges: &[(&str, &str)]) {
        for (request, answer) in exchanges {
            self.ask(request, answer);
        }
        self.is_in_step();
    }

    /// What comes next is what comes next, in text.
    #[track_caller]
    fn is_in_step(&mut self) {
        self.ask("mn\r\n", "MN\r\n");
    }

    /// All there is up to a line, that line included.
    #[track_caller]
    fn read_to(&mut self, line: &str) -> String {
        let mut bytes = Vec::new();
        while !bytes.ends_with(format!("{line}\r\n").as_bytes()) {
            let next = self.read(1);
            assert!(!next.is_empty(), "no {line:?} after {}", bytes.escape_ascii());
            bytes.extend(next);
        }
        String::from_utf8(bytes).expect("reports are text")
    }

    /// The figures of a report.
    #[track_caller]
    fn report(&mut self, request: &str) -> Vec<(String, String)> {
        self.send(format!("{request}\r\n"));
        let text = self.read_to("END");
        let lines = text.lines().filter_map(|line| line.strip_prefix("STAT "));
        let pairs = lines.map(|line| line.split_once(' ').expect("a name and a value"));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// One figure of the general report.
    #[track_caller]
    fn figure(&mut self, name: &str) -> String {
        let report = self.report("stats");
        let found = report.into_iter().find(|(figure, _)| figure == name);
        found.unwrap_or_else(|| panic!("stats does not tell {name}")).1
    }

    /// The CAS value of an item.
    #[track_caller]
    fn cas(&mut self, key: &str) -> u64 {
        self.send(format!("mg {key} c\r\n"));
        let line = self.read_to("").trim_end().to_owned();
        let cas = line.split(' ').nth(1).and_then(|cas| cas.strip_prefix('c'));
        let cas = cas.and_then(|cas| cas.parse().ok());
        cas.unwrap_or_else(|| panic!("mg {key} c: {line}"))
    }

    /// Whether the server has closed the connection, with nothing left to say.
    fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }
}
