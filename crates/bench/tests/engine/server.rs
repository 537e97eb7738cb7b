//! A small server for tests of the generator. The server stores strings, counts what it sees and
//! does what a test tells it to. Invariant: the requests of a connection are answered in order, on
//! a thread of that connection.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use bench::options::{Options, Request};

/// The words of a request.
pub(crate) type Words = Vec<Vec<u8>>;

/// What the server does with one request.
pub(crate) enum Act {
    /// Answers as a store would.
    Serve,
    /// Answers so.
    Reply(Vec<u8>),
    /// Closes the connection without an answer.
    Hang,
}

type Behave = dyn Fn(&Seen, &Words) -> Act + Send + Sync;

/// What a server has seen.
#[derive(Default)]
pub(crate) struct Seen {
    connections: AtomicU64,
    requests: AtomicU64,
    most_unanswered: AtomicU64,
    writes: Mutex<HashMap<Vec<u8>, Vec<Vec<u8>>>>,
    /// What each connection is told before it is closed, if that is all it gets.
    refusal: Mutex<Option<&'static [u8]>>,
    /// Whether nothing is served any more.
    is_closed: AtomicBool,
    /// Whether no more connections are accepted.
    is_deaf: AtomicBool,
}

impl Seen {
    /// Connections that were made.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    /// Requests so far, the one in hand included.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// The most requests that one connection had sent and got no reply to.
    pub(crate) fn most_unanswered(&self) -> u64 {
        self.most_unanswered.load(Ordering::SeqCst)
    }

    /// All values of each key, in the order written.
    pub(crate) fn writes(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Vec<Vec<u8>>>> {
        self.writes.lock().expect("no thread of the server panics")
    }
}

/// How replies leave.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As soon as a request is read.
    AtOnce,
    /// Only once the client has sent nothing for a while.
    AfterSilence,
    /// In writes of one byte.
    ByteByByte,
}

/// A server that lives as long as the test's process.
pub(crate) struct Server {
    pub(crate) seen: Arc<Seen>,
    pub(crate) port: u16,
}

impl Server {
    /// One that behaves as told.
    pub(crate) fn start(
        manner: Manner,
        behave: impl Fn(&Seen, &Words) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Self::on(listener, manner, behave)
    }

    /// One that listens here and behaves as told.
    pub(crate) fn on(
        listener: TcpListener,
        manner: Manner,
        behave: impl Fn(&Seen, &Words) -> Act + Send + Sync + 'static,
    ) -> Self {
        let port = listener.local_addr().expect("it is bound").port();
        let seen = Arc::new(Seen::default());
        let (shared, behave): (_, Arc<Behave>) = (Arc::clone(&seen), Arc::new(behave));
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let is_over = [&shared.is_closed, &shared.is_deaf];
                if is_over.into_iter().any(|is_over| is_over.load(Ordering::SeqCst)) {
                    return;
                }
                if let Some(refusal) = *shared.refusal.lock().expect("nobody panics") {
                    // The client may be gone already.
                    let _ = stream.write_all(refusal);
                    continue;
                }
                stream.set_nodelay(true).expect("a TCP socket");
                let silence = (manner == Manner::AfterSilence).then_some(Duration::from_millis(3));
                stream.set_read_timeout(silence).expect("a valid time");
                let (seen, behave) = (Arc::clone(&shared), Arc::clone(&behave));
                thread::spawn(move || serve(stream, manner, &seen, &*behave));
            }
        });
        Self { seen, port }
    }

    /// Ends: nothing more is accepted, and each connection closes at its next request.
    pub(crate) fn close(&self) {
        self.seen.is_closed.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }

    /// Accepts no more connections; those that are open are served.
    pub(crate) fn stop_listening(&self) {
        self.seen.is_deaf.store(true, Ordering::SeqCst);
        while TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// From here on each connection is told this and closed.
    pub(crate) fn refuse_with(&self, text: &'static [u8]) {
        *self.seen.refusal.lock().expect("nobody panics") = Some(text);
    }

    /// One that stores and answers.
    pub(crate) fn storing() -> Self {
        Self::start(Manner::AtOnce, |_, _| Act::Serve)
    }

    /// One that listens on a Unix socket.
    pub(crate) fn unix(path: &Path) -> Self {
        let listener = UnixListener::bind(path).expect("a new path");
        let seen = Arc::new(Seen::default());
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&shared);
                thread::spawn(move || serve(stream, Manner::AtOnce, &seen, &|_, _| Act::Serve));
            }
        });
        Self { seen, port: 0 }
    }

    /// Options for a run against it.
    pub(crate) fn options(&self, words: &str) -> Options {
        options(&format!("-p {} {words}", self.port))
    }
}

/// The options that a command line means.
pub(crate) fn options(words: &str) -> Options {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    match Options::parse(&words).expect("a valid command line") {
        Request::Run(mut options) => {
            options.output.progress = false;
            *options
        }
        _ => panic!("a command line of a run"),
    }
}

fn serve(mut stream: impl Read + Write, manner: Manner, seen: &Seen, behave: &Behave) {
    let mut input = Vec::new();
    let mut buffer = vec![0; 256 << 10];
    let mut waiting = Vec::new();
    let mut is_counted = false;
    loop {
        let taken = match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(taken) => Some(taken),
            // The read timed out: silence.
            Err(_) if manner == Manner::AfterSilence => None,
            Err(_) => return,
        };
        input.extend_from_slice(&buffer[..taken.unwrap_or(0)]);
        if input.first().is_some_and(|first| *first != b'*') {
            return;
        }
        waiting.extend(take_requests(&mut input));
        // The generator asks for the server's name and version on a connection of its own, before
        // the run.
        if waiting.first().is_some_and(|words| words[0] == b"INFO") {
            return;
        }
        if !waiting.is_empty() && !std::mem::replace(&mut is_counted, true) {
            seen.connections.fetch_add(1, Ordering::SeqCst);
        }
        seen.most_unanswered.fetch_max(waiting.len() as u64, Ordering::SeqCst);
        if manner == Manner::AfterSilence && taken.is_some() {
            continue;
        }
        for words in waiting.drain(..) {
            if seen.is_closed.load(Ordering::SeqCst) {
                return;
            }
            seen.requests.fetch_add(1, Ordering::SeqCst);
            let reply = match behave(seen, &words) {
                Act::Serve => store(seen, &words),
                Act::Reply(reply) => reply,
                Act::Hang => return,
            };
            let size = if manner == Manner::ByteByByte { 1 } else { reply.len().max(1) };
            for piece in reply.chunks(size) {
                if stream.write_all(piece).is_err() {
                    return;
                }
            }
        }
    }
}

/// What a store answers to the few commands that the generator sends by itself.
fn store(seen: &Seen, words: &Words) -> Vec<u8> {
    match &*words[0] {
        b"SET" | b"SETEX" => {
            let value = words.last().expect("a value").clone();
            seen.writes().entry(words[1].clone()).or_default().push(value);
            b"+OK\r\n".to_vec()
        }
        b"GET" => bulk(seen.writes().get(&words[1]).and_then(|values| values.last())),
        b"MGET" => {
            let writes = seen.writes();
            let values = words[1..].iter().map(|key| bulk(writes.get(key).and_then(|v| v.last())));
            let head = format!("*{}\r\n", words.len() - 1).into_bytes();
            [head, values.collect::<Vec<_>>().concat()].concat()
        }
        b"WAIT" => b":0\r\n".to_vec(),
        b"HELLO" => b"%1\r\n+proto\r\n:3\r\n".to_vec(),
        _ => b"+OK\r\n".to_vec(),
    }
}

/// A bulk string, or the null of RESP2.
pub(crate) fn bulk(value: Option<&Vec<u8>>) -> Vec<u8> {
    match value {
        Some(value) => {
            [format!("${}\r\n", value.len()).as_bytes(), value.as_slice(), b"\r\n"].concat()
        }
        None => b"$-1\r\n".to_vec(),
    }
}

/// Takes the complete requests off the front of `input`.
fn take_requests(input: &mut Vec<u8>) -> Vec<Words> {
    let mut requests = Vec::new();
    let mut position = 0;
    while let Some((words, length)) = parse_request(&input[position..]) {
        requests.push(words);
        position += length;
    }
    input.drain(..position);
    requests
}

fn parse_request(input: &[u8]) -> Option<(Words, usize)> {
    let line = |from: usize| {
        let end = from + input.get(from..)?.iter().position(|byte| *byte == b'\n')?;
        let number = std::str::from_utf8(&input[from + 1..end - 1]).expect("a number");
        Some((number.parse::<usize>().expect("a number"), end + 1))
    };
    let (count, mut position) = line(0)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, start) = line(position)?;
        words.push(input.get(start..start + length)?.to_vec());
        position = start + length + 2;
        if position > input.len() {
            return None;
        }
    }
    Some((words, position))
}
