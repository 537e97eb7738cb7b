//! Memcached as a test sees it: the real server, and connections to it or to ours that carry bytes.
//! Invariant: an exchange ends with the answer to a request that the connection itself added, so
//! how long the answer before it is need not be known.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use tempfile::TempDir;

use crate::process::{PATIENCE, Process};
use crate::server::{eventually, free_port};
use crate::{calls, environment};

/// The real memcached on a free port, which ends with this value.
pub struct Memcached {
    process: Process,
    port: u16,
    is_oracle: bool,
    _folder: TempDir,
}

impl Memcached {
    /// Starts a server with these further arguments.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_program(&environment::recorded("memcached"), &[], arguments)
    }

    /// Starts ours with the command line of memcached.
    pub fn start_ours(arguments: &[&str]) -> Self {
        Self::start_program(&environment::binary(), &["memcached"], arguments)
    }

    fn start_program(program: &Path, first: &[&str], arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        // Another process may take the free port before the server does.
        for _ in 0..5 {
            let port = free_port();
            let port_text = port.to_string();
            let common = ["-p", &port_text, "-l", "127.0.0.1", "-U", "0", "-u", "root"];
            let words = first.iter().chain(&common).chain(arguments);
            let words: Vec<String> = words.map(|word| (*word).to_owned()).collect();
            let mut process = Process::spawn(program, &words, folder.path());
            let (mut is_there, mut has_ended) = (false, false);
            eventually("memcached listens or ends", || {
                has_ended = process.has_ended();
                is_there = !has_ended && TcpStream::connect(("127.0.0.1", port)).is_ok();
                is_there || has_ended
            });
            if is_there {
                return Self { process, port, is_oracle: first.is_empty(), _folder: folder };
            }
        }
        panic!("{} {first:?} {arguments:?} does not start", program.display());
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// All that the server has printed.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// A new connection.
    pub fn connect(&self) -> Connection {
        Connection { is_oracle: self.is_oracle, ..Connection::to(self.port) }
    }
}

/// A connection that speaks one of the protocols.
pub struct Connection {
    stream: TcpStream,
    is_oracle: bool,
    unread: Vec<u8>,
    is_closed: bool,
}

/// The request that ends an exchange in text, and its answer.
const TEXT_FENCE: (&[u8], &[u8]) = (b"mn\r\n", b"MN\r\n");

/// What stands for nothing else in a binary exchange.
const OPAQUE: [u8; 4] = [0xFE, 0xED, 0xBE, 0xAD];

impl Connection {
    /// To a server on this machine.
    pub fn to(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a valid time");
        stream.set_nodelay(true).expect("a TCP socket");
        Self { stream, is_oracle: false, unread: Vec::new(), is_closed: false }
    }

    /// Whether the server has closed it.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Sends bytes and waits for nothing.
    pub fn send(&mut self, bytes: &[u8]) {
        self.note(bytes);
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// What these text requests are answered with; the end of the stream ends an answer too.
    pub fn text(&mut self, request: &[u8]) -> Vec<u8> {
        self.send(&[request, TEXT_FENCE.0].concat());
        let fence = TEXT_FENCE.1;
        let mut answer = self.read_until(|bytes| bytes.ends_with(fence).then_some(bytes.len()));
        if answer.ends_with(fence) {
            answer.truncate(answer.len() - fence.len());
        }
        answer
    }

    /// As [`text`](Self::text), for text.
    pub fn line(&mut self, request: &str) -> String {
        String::from_utf8_lossy(&self.text(request.as_bytes())).into_owned()
    }

    /// The packets that these binary requests are answered with.
    pub fn packets(&mut self, requests: &[u8]) -> Vec<Packet> {
        let fence = Packet { opcode: 0x0a, opaque: OPAQUE, ..Packet::default() };
        self.note(requests);
        // A server that has closed the connection may refuse what comes behind.
        let _ = self.stream.write_all(&[requests, &fence.request()].concat());
        let mut packets = Vec::new();
        loop {
            let bytes = self.read_until(Packet::length);
            match Packet::parse(&bytes) {
                Some(packet) if packet.opaque == OPAQUE && packet.opcode == fence.opcode => break,
                Some(packet) => packets.push(packet),
                None => break,
            }
        }
        packets
    }

    /// The next line of an answer, with its end.
    pub fn next_line(&mut self) -> String {
        let line = self
            .read_until(|bytes| bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1));
        String::from_utf8_lossy(&line).into_owned()
    }

    fn note(&self, bytes: &[u8]) {
        if !self.is_oracle {
            calls::sent_to_memcached(bytes);
        }
    }

    /// All that comes until the server closes the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        self.read_until(|_| None)
    }

    /// Reads until `length` knows how long the answer is and it is there, or the stream ends.
    fn read_until(&mut self, length: impl Fn(&[u8]) -> Option<usize>) -> Vec<u8> {
        let mut chunk = [0; 16 << 10];
        loop {
            if let Some(length) = length(&self.unread).filter(|length| *length <= self.unread.len())
            {
                let rest = self.unread.split_off(length);
                return std::mem::replace(&mut self.unread, rest);
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => {
                    self.is_closed = true;
                    return std::mem::take(&mut self.unread);
                }
                Ok(count) => self.unread.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                    self.is_closed = true;
                    return std::mem::take(&mut self.unread);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("no answer: {error}; so far {:?}", self.unread),
            }
        }
    }
}

/// A packet of the binary protocol, sent or received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// The command.
    pub opcode: u8,
    /// What the answer repeats.
    pub opaque: [u8; 4],
    /// The CAS value.
    pub cas: u64,
    /// Of an answer.
    pub status: u16,
    /// Extras, key and value.
    pub parts: [Vec<u8>; 3],
}

const HEADER_LENGTH: usize = 24;

impl Packet {
    /// A request with these parts.
    pub fn new(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Self {
        Self { opcode, parts: [extras, key, value].map(<[u8]>::to_vec), ..Self::default() }
    }

    /// The bytes of the request.
    pub fn request(&self) -> Vec<u8> {
        let [extras, key, value] = &self.parts;
        let body = (extras.len() + key.len() + value.len()) as u32;
        let mut bytes = vec![0x80, self.opcode];
        bytes.extend_from_slice(&(key.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
        bytes.extend_from_slice(&body.to_be_bytes());
        bytes.extend_from_slice(&self.opaque);
        bytes.extend_from_slice(&self.cas.to_be_bytes());
        [&bytes[..], extras, key, value].concat()
    }

    fn length(bytes: &[u8]) -> Option<usize> {
        let body = bytes.get(8..12)?.first_chunk().expect("four bytes");
        Some(HEADER_LENGTH + u32::from_be_bytes(*body) as usize)
    }

    /// An answer; `None` unless it is one.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (header, body) = bytes.split_first_chunk::<HEADER_LENGTH>()?;
        assert_eq!(header[0], 0x81, "an answer begins like this: {bytes:x?}");
        let key = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let (extras, rest) = body.split_at(usize::from(header[4]));
        let (key, value) = rest.split_at(key);
        Some(Self {
            opcode: header[1],
            opaque: [header[12], header[13], header[14], header[15]],
            cas: u64::from_be_bytes(*header.last_chunk().expect("the last eight bytes")),
            status: u16::from_be_bytes([header[6], header[7]]),
            parts: [extras, key, value].map(<[u8]>::to_vec),
        })
    }
}
