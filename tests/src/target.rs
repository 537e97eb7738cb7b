//! A target of MIGRATE that says what a test wants said, and notes what it is asked.
//!
//! Invariants: requests are heard whole and in order; all threads end with their connections, and
//! connections with the target.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A request, word by word.
pub type Request = Vec<Vec<u8>>;

/// What a target does with a request.
pub enum Said {
    /// The target answers these bytes.
    Bytes(Vec<u8>),
    /// The target closes the connection.
    Nothing,
    /// The target says nothing more, and keeps the connection.
    Silence,
}

/// The target.
pub struct FakeTarget {
    port: u16,
    state: Arc<State>,
}

type Answer = dyn Fn(usize, &Request) -> Said + Send + Sync;

struct State {
    answer: Box<Answer>,
    heard: Mutex<Vec<Request>>,
    open: Mutex<Vec<TcpStream>>,
    accepted: AtomicUsize,
    ends: AtomicBool,
}

impl Said {
    /// The answer of a target that has done what was asked.
    pub fn ok() -> Self {
        Self::line("+OK")
    }

    /// A line.
    pub fn line(line: &str) -> Self {
        Self::Bytes(format!("{line}\r\n").into_bytes())
    }
}

impl FakeTarget {
    /// A target that answers so, by the number of the connection, which begins with 1, and the
    /// request. The answer may wait for the test.
    pub fn start(answer: impl Fn(usize, &Request) -> Said + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let state = Arc::new(State {
            answer: Box::new(answer),
            heard: Mutex::default(),
            open: Mutex::default(),
            accepted: AtomicUsize::new(0),
            ends: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || shared.accept(&listener));
        Self { port, state }
    }

    /// A target that answers the n-th RESTORE with the n-th of these lines, behind them and all
    /// else with `+OK`.
    pub fn of_lines(lines: &[&str]) -> Self {
        let lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        let count = AtomicUsize::new(0);
        Self::start(move |_, request| {
            let line = (request[0] == b"RESTORE").then(|| count.fetch_add(1, Ordering::Relaxed));
            Said::line(line.and_then(|at| lines.get(at)).map_or("+OK", |line| line))
        })
    }

    /// The port on which the target listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections came.
    pub fn accepted(&self) -> usize {
        self.state.accepted.load(Ordering::Relaxed)
    }

    /// The requests so far, each as the words that are no payload.
    pub fn heard(&self) -> Vec<String> {
        let heard = self.state.heard.lock().expect("no holder panics");
        let words = |request: &Request| {
            let is_payload = |index| request[0] == b"RESTORE" && index == 3;
            let shown = request.iter().enumerate().filter(|&(index, _)| !is_payload(index));
            let shown = shown.map(|(_, word)| String::from_utf8_lossy(word).into_owned());
            shown.collect::<Vec<_>>().join(" ")
        };
        heard.iter().map(words).collect()
    }
}

impl Drop for FakeTarget {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::Relaxed);
        let close = |stream: TcpStream| drop(stream.shutdown(Shutdown::Both));
        self.state.open.lock().expect("no holder panics").drain(..).for_each(close);
        // The listener looks once more.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl State {
    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming().flatten() {
            if self.ends.load(Ordering::Relaxed) {
                return;
            }
            let number = self.accepted.fetch_add(1, Ordering::Relaxed) + 1;
            let Ok(open) = stream.try_clone() else { continue };
            // One that ends early is as good as one that ends later.
            let _ = stream.set_nodelay(true);
            self.open.lock().expect("no holder panics").push(open);
            let shared = Arc::clone(&self);
            std::thread::spawn(move || shared.serve(stream, number));
        }
    }

    fn serve(&self, mut stream: TcpStream, number: usize) {
        let Ok(input) = stream.try_clone() else { return };
        let mut input = BufReader::new(input);
        let mut is_silent = false;
        while let Some(request) = read(&mut input) {
            self.heard.lock().expect("no holder panics").push(request.clone());
            if is_silent {
                continue;
            }
            match (self.answer)(number, &request) {
                Said::Bytes(bytes) if stream.write_all(&bytes).is_err() => break,
                Said::Bytes(_) => {}
                Said::Nothing => break,
                Said::Silence => is_silent = true,
            }
        }
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// A request; `None` behind the last whole one.
fn read(input: &mut impl BufRead) -> Option<Request> {
    let words = number(input, '*')?;
    let mut request = Vec::new();
    for _ in 0..words {
        let length = number(input, '$')?;
        let mut word = vec![0; length + 2];
        input.read_exact(&mut word).ok()?;
        word.truncate(length);
        request.push(word);
    }
    Some(request)
}

fn number(input: &mut impl BufRead, mark: char) -> Option<usize> {
    let mut line = String::new();
    input.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(mark)?.parse().ok()
}
