//! The other end of a replication link, played by a test: a replica or a primary that says what it
//! is told to, byte by byte.
//!
//! Invariants: what comes is read once and in order; no read waits longer than its patience.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::client::encode;
use crate::process::PATIENCE;

/// A socket of a link.
pub struct Peer {
    stream: TcpStream,
    /// What came and was not asked for yet.
    buffer: Vec<u8>,
}

/// A snapshot as it was framed.
pub struct Transfer {
    /// The id of the history.
    pub id: String,
    /// The offset of the cut.
    pub offset: i64,
    /// The line in front of the bytes, as `$EOF:..` or `$100`.
    pub header: String,
    /// The snapshot.
    pub bytes: Vec<u8>,
}

impl Peer {
    /// Connects to a server of this machine.
    pub fn connect(port: u16) -> Self {
        Self::of(TcpStream::connect(("127.0.0.1", port)).expect("the server listens"))
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("a socket of TCP");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout above zero is valid");
        Self { stream, buffer: Vec::new() }
    }

    /// Sends bytes as they are.
    pub fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_say(bytes).expect("the other end is there");
    }

    /// Sends bytes to an end that may be gone.
    pub fn try_say(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Sends a request, whose words have no spaces, and reads the line that answers it.
    pub fn ask(&mut self, words: &str) -> String {
        self.tell(words);
        self.line()
    }

    /// Sends a request that is not answered by a line.
    pub fn tell(&mut self, words: &str) {
        self.say(request(words));
    }

    /// Acknowledges an offset.
    pub fn acknowledge(&mut self, offset: i64) {
        self.tell(&format!("REPLCONF ACK {offset}"));
    }

    /// Waits for more bytes; whether any came before the end of the connection or the time.
    fn fill(&mut self, until: Instant) -> io::Result<bool> {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(left))?;
        let mut piece = [0; 64 << 10];
        let count = match self.stream.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return self.fill(until),
            other => other?,
        };
        self.buffer.extend_from_slice(&piece[..count]);
        Ok(count > 0)
    }

    /// Reads until `find` says how many bytes make what is looked for; none at the end.
    #[track_caller]
    fn read(&mut self, find: impl Fn(&[u8]) -> Option<usize>) -> Option<Vec<u8>> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(count) = find(&self.buffer) {
                return Some(self.buffer.drain(..count).collect());
            }
            match self.fill(until) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => panic!("{error} behind {:?}", self.buffer.escape_ascii().to_string()),
            }
        }
    }

    /// The next line with something on it: empty ones keep a link alive.
    #[track_caller]
    pub fn line(&mut self) -> String {
        self.try_line().expect("the connection is open")
    }

    /// The next line, or none at the end of the connection.
    #[track_caller]
    pub fn try_line(&mut self) -> Option<String> {
        loop {
            let line =
                self.read(|bytes| Some(bytes.iter().position(|byte| *byte == b'\n')? + 1))?;
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            if !line.is_empty() {
                return Some(line);
            }
        }
    }

    /// Exactly so many bytes.
    #[track_caller]
    pub fn exactly(&mut self, count: usize) -> Vec<u8> {
        let bytes = self.read(|bytes| (bytes.len() >= count).then_some(count));
        bytes.expect("the connection is open")
    }

    /// The next request, as the other end sent it, and none at the end of the connection.
    #[track_caller]
    pub fn request(&mut self) -> Option<Vec<u8>> {
        self.read(|bytes| (!bytes.is_empty()).then(|| request_length(bytes)).flatten())
    }

    /// Requests until one that has this word; its words.
    #[track_caller]
    pub fn until(&mut self, word: &str) -> Vec<String> {
        loop {
            let request = self.request().unwrap_or_else(|| panic!("no {word} before the end"));
            let words = words(&request);
            if words.iter().any(|it| it.eq_ignore_ascii_case(word)) {
                return words;
            }
        }
    }

    /// Whether nothing came for so long.
    pub fn is_silent(&mut self, time: Duration) -> bool {
        self.buffer.is_empty() && self.fill(Instant::now() + time).is_err()
    }

    /// Whether the other end closes it, whatever it says before.
    pub fn is_closed(&mut self) -> bool {
        let until = Instant::now() + PATIENCE;
        loop {
            self.buffer.clear();
            match self.fill(until) {
                Ok(true) => {}
                Ok(false) => return true,
                Err(_) => return false,
            }
        }
    }

    /// As a replica: introduces itself with these words and asks for a whole snapshot.
    #[track_caller]
    pub fn sync(&mut self, capabilities: &str) -> Transfer {
        if !capabilities.is_empty() {
            assert_eq!(self.ask(&format!("REPLCONF {capabilities}")), "+OK");
        }
        self.tell("PSYNC ? -1");
        self.transfer()
    }

    /// As a replica: the answer to PSYNC and the snapshot behind it.
    #[track_caller]
    pub fn transfer(&mut self) -> Transfer {
        let answer = self.line();
        let words: Vec<&str> = answer.split(' ').collect();
        let ["+FULLRESYNC", id, offset] = words[..] else { panic!("no snapshot: {answer}") };
        let (id, offset) = (id.to_owned(), offset.parse().expect("an offset is a number"));
        let header = self.line();
        let bytes = match header.strip_prefix("$EOF:") {
            Some(mark) => {
                let mark = mark.as_bytes().to_owned();
                let end = move |bytes: &[u8]| {
                    let at = bytes.windows(mark.len()).position(|window| window == mark)?;
                    Some(at + mark.len())
                };
                let mut bytes = self.read(end).expect("the mark of the end comes");
                bytes.truncate(bytes.len() - 40);
                bytes
            }
            None => self.exactly(header[1..].parse().expect("a length")),
        };
        Transfer { id, offset, header, bytes }
    }
}

/// A primary played by a test.
pub struct Impostor {
    listener: TcpListener,
}

impl Impostor {
    /// Listens.
    pub fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port") }
    }

    /// Where.
    pub fn port(&self) -> u16 {
        self.listener.local_addr().expect("a bound socket has an address").port()
    }

    /// The next that connects.
    pub fn accept(&self) -> Peer {
        self.listener.set_nonblocking(true).expect("a listener can be so");
        let until = Instant::now() + PATIENCE;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).expect("a stream can be so");
                    return Peer::of(stream);
                }
                Err(_) => assert!(Instant::now() < until, "nobody connects"),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The next that connects, greeted up to its PSYNC, whose words are behind it.
    #[track_caller]
    pub fn greet(&self) -> (Peer, Vec<String>) {
        let mut peer = self.accept();
        loop {
            let request = peer.request().expect("a replica goes on up to PSYNC");
            let words = words(&request);
            match words[0].as_str() {
                "PING" => peer.say("+PONG\r\n"),
                "PSYNC" => return (peer, words),
                _ => peer.say("+OK\r\n"),
            }
        }
    }

    /// The next that connects, with all of an empty data set, which stands at `offset`. All of it
    /// is one write: a replica may refuse the offset and be gone before a second one.
    #[track_caller]
    pub fn feed(&self, id: &str, offset: i64) -> Peer {
        let (mut peer, _) = self.greet();
        let head = format!("+FULLRESYNC {id} {offset}\r\n${}\r\n", EMPTY.len());
        peer.say([head.as_bytes(), EMPTY].concat());
        peer
    }
}

/// A snapshot with nothing in it, and no checksum.
pub const EMPTY: &[u8] = b"REDIS0009\xff\0\0\0\0\0\0\0\0";

/// A request as a client sends it, its words apart by spaces.
pub fn request(words: &str) -> Vec<u8> {
    encode(&words.split(' ').collect::<Vec<_>>())
}

/// The words of a request.
pub fn words(request: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(request);
    if !text.starts_with('*') {
        return text.split_whitespace().map(str::to_owned).collect();
    }
    let (mut words, mut rest) = (Vec::new(), request);
    let line = |rest: &mut &[u8]| {
        let end = rest.iter().position(|byte| *byte == b'\n').expect("a whole request");
        let line = String::from_utf8_lossy(&rest[1..end]).trim().to_owned();
        *rest = &rest[end + 1..];
        line.parse::<usize>().expect("a length")
    };
    for _ in 0..line(&mut rest) {
        let length = line(&mut rest);
        words.push(String::from_utf8_lossy(&rest[..length]).into_owned());
        rest = &rest[length + 2..];
    }
    words
}

/// How many bytes the first request has, when all of it is there.
fn request_length(bytes: &[u8]) -> Option<usize> {
    let line_end = |from: usize| {
        let at = bytes[from..].iter().position(|byte| *byte == b'\n')?;
        Some(from + at + 1)
    };
    let number = |from: usize, to: usize| {
        std::str::from_utf8(&bytes[from + 1..to]).ok()?.trim().parse::<usize>().ok()
    };
    let mut at = line_end(0)?;
    if bytes[0] != b'*' {
        return Some(at);
    }
    for _ in 0..number(0, at)? {
        let behind = line_end(at)?;
        at = behind + number(at, behind)? + 2;
        if at > bytes.len() {
            return None;
        }
    }
    Some(at)
}
