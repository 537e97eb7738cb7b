//! All that clients do to hurt others, at once: some that never read, thousands that come at once
//! and again, senders of single bytes, pipelines and transactions without measure, storms of
//! messages and of expiry, and more data than there is memory for. Clients that behave are
//! answered, each request once and in order, and memory stays within its bound.
//!
//! `APUS_OVERLOAD_SECONDS=600` goes on for so long, with ten times as many clients, and writes what
//! it measured into docs/proof/overload.md: how long a GET takes beside all that is told, and
//! decides nothing.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use proto::value::Value;
use tests::client::encode;
use tests::server::eventually;
use tests::{Client, Server, environment};

const MEGABYTE: u64 = 1 << 20;

/// `maxmemory`; of which clients have half, as is usual.
const MEMORY: u64 = 256 * MEGABYTE;

/// What the process has beside its data and its clients' buffers: code, stacks, connections.
const FIXED: u64 = 192 * MEGABYTE;

/// A thread that waits looks up so often.
const PAUSE: Duration = Duration::from_millis(5);

/// How much of it all there is.
#[derive(Clone, Copy)]
struct Scale {
    time: Duration,
    greedy: usize,
    comers: usize,
    slow: usize,
    subscribers: usize,
}

impl Scale {
    fn asked_for() -> (Self, bool) {
        match std::env::var("APUS_OVERLOAD_SECONDS") {
            Ok(seconds) => {
                let time = Duration::from_secs(seconds.parse().expect("a number"));
                (Self { time, greedy: 1000, comers: 10_000, slow: 200, subscribers: 100 }, true)
            }
            Err(_) => {
                let time = Duration::from_secs(3);
                (Self { time, greedy: 50, comers: 500, slow: 20, subscribers: 20 }, false)
            }
        }
    }
}

/// What all threads share.
struct Storm {
    port: u16,
    scale: Scale,
    is_over: AtomicBool,
    /// Replies that were right.
    answered: AtomicU64,
    /// Connections of well-behaved clients that the server ended.
    ended: AtomicU64,
    /// Requests to store that were refused for want of memory.
    refused: AtomicU64,
}

type Attack = fn(&Storm) -> u64;

/// What goes on at once; each is done over and over again, and says how often it was.
const ATTACKS: [(&str, Attack); 8] = [
    ("rounds of requests of clients that never read", never_read),
    ("connections that came at once, each with a request", come_at_once),
    ("bytes sent one by one", send_bytes),
    ("pipelines of 20,000 requests", pipeline),
    ("transactions of 5,000 requests", queue),
    ("messages published", publish),
    ("keys stored for 20 ms", expire),
    ("values of 10 KB stored beyond memory", fill),
];

impl Storm {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server listens");
        stream.set_nodelay(true).expect("a connected socket takes the option");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("not zero");
        stream
    }

    /// Sends requests and reads what is to come, of which nothing may be missing or other; unless
    /// the connection is ended, as that of any client with much in its buffers may be.
    fn ask(&self, stream: &mut TcpStream, requests: &[u8], replies: &[u8]) -> bool {
        let mut heard = vec![0; replies.len()];
        let has_come = self.exchange(stream, requests, |stream| read_exact(stream, &mut heard));
        let shown = || heard[..heard.len().min(200)].escape_ascii();
        assert!(!has_come || heard == replies, "{}", shown());
        has_come
    }

    /// The same of requests that store something, each of which may be refused for want of memory.
    fn store(&self, stream: &mut TcpStream, requests: &[u8], count: usize) -> bool {
        self.exchange(stream, requests, |stream| {
            let mut lines = BufReader::new(stream).lines();
            (0..count).all(|_| {
                let line = match lines.next() {
                    Some(Ok(line)) => line,
                    Some(Err(error)) => return !is_end(&error),
                    None => return false,
                };
                assert!(line == "+OK" || line.starts_with("-OOM "), "{line}");
                let is_refused = line.starts_with('-');
                self.refused.fetch_add(u64::from(is_refused), Ordering::Relaxed);
                true
            })
        })
    }

    /// Sends while it is listened; whether all that is to come has come.
    fn exchange(
        &self,
        stream: &mut TcpStream,
        requests: &[u8],
        listen: impl FnOnce(&mut TcpStream) -> bool,
    ) -> bool {
        let mut writer = stream.try_clone().expect("a descriptor");
        let has_come = std::thread::scope(|scope| {
            scope.spawn(move || _ = writer.write_all(requests));
            listen(stream)
        });
        let count = if has_come { &self.answered } else { &self.ended };
        count.fetch_add(1, Ordering::Relaxed);
        has_come
    }
}

/// Whether all of it came; if not, the connection is over.
fn read_exact(stream: &mut TcpStream, into: &mut [u8]) -> bool {
    !stream.read_exact(into).is_err_and(|error| is_end(&error))
}

/// That the connection is over, and not that nothing comes.
fn is_end(error: &io::Error) -> bool {
    let is_silence = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
    assert!(!is_silence, "a reply was lost: none came for a minute");
    true
}

/// Asks for much and reads nothing; a client that is closed comes again.
fn never_read(storm: &Storm) -> u64 {
    let request = encode(&["GET", "large"]).repeat(16);
    let connect = || {
        let stream = storm.connect();
        stream.set_nonblocking(true).expect("a connected socket takes the option");
        stream
    };
    let mut streams: Vec<TcpStream> = (0..storm.scale.greedy).map(|_| connect()).collect();
    let mut rounds = 0;
    while storm.goes_on() {
        for stream in &mut streams {
            match stream.write(&request) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => *stream = connect(),
                _ => {}
            }
        }
        rounds += 1;
        std::thread::sleep(PAUSE);
    }
    rounds
}

/// Connects many at once, each of which asks once.
fn come_at_once(storm: &Storm) -> u64 {
    let mut count = 0;
    while storm.goes_on() {
        let mut streams: Vec<TcpStream> =
            (0..storm.scale.comers).map(|_| storm.connect()).collect();
        for stream in &mut streams {
            stream.write_all(b"PING\r\n").expect("the server takes a few bytes");
        }
        for stream in &mut streams {
            let mut reply = [0; 7];
            assert!(read_exact(stream, &mut reply), "nobody is turned away");
            assert_eq!(&reply, b"+PONG\r\n");
        }
        count += streams.len() as u64;
        storm.answered.fetch_add(streams.len() as u64, Ordering::Relaxed);
    }
    count
}

/// Many connections whose requests come byte by byte.
fn send_bytes(storm: &Storm) -> u64 {
    let request = encode(&["ECHO", "slowly"]);
    let mut streams: Vec<TcpStream> = (0..storm.scale.slow).map(|_| storm.connect()).collect();
    let mut sent = 0;
    while storm.goes_on() {
        for byte in &request {
            for stream in &mut streams {
                stream.write_all(&[*byte]).expect("the server takes a byte");
                sent += 1;
            }
            std::thread::sleep(PAUSE);
        }
        for stream in &mut streams {
            let mut reply = [0; 12];
            assert!(read_exact(stream, &mut reply), "who is slow is no burden");
            assert_eq!(&reply, b"$6\r\nslowly\r\n");
            storm.answered.fetch_add(1, Ordering::Relaxed);
        }
    }
    sent
}

fn pipeline(storm: &Storm) -> u64 {
    const LENGTH: usize = 20_000;
    let numbers = || (0..LENGTH).map(|number| format!("{number:06}"));
    let requests: Vec<u8> = numbers().flat_map(|number| encode(&["ECHO", &number])).collect();
    let replies: String = numbers().map(|number| format!("$6\r\n{number}\r\n")).collect();
    repeat(storm, |stream| storm.ask(stream, &requests, replies.as_bytes()))
}

fn queue(storm: &Storm) -> u64 {
    const LENGTH: usize = 5000;
    let mut requests = encode(&["MULTI"]);
    let mut replies = String::from("+OK\r\n");
    for number in 0..LENGTH {
        requests.extend(encode(&["ECHO", &format!("{number:04}")]));
        replies += "+QUEUED\r\n";
    }
    requests.extend(encode(&["EXEC"]));
    replies += &format!("*{LENGTH}\r\n");
    replies.extend((0..LENGTH).map(|number| format!("$4\r\n{number:04}\r\n")));
    repeat(storm, |stream| storm.ask(stream, &requests, replies.as_bytes()))
}

/// Does the work on one connection, or on another when that is ended.
fn repeat(storm: &Storm, mut once: impl FnMut(&mut TcpStream) -> bool) -> u64 {
    let mut stream = storm.connect();
    let mut count = 0;
    while storm.goes_on() {
        if once(&mut stream) {
            count += 1;
        } else {
            stream = storm.connect();
        }
    }
    count
}

/// Publishes to clients of which one in five never reads.
fn publish(storm: &Storm) -> u64 {
    let subscribe = encode(&["SUBSCRIBE", "storm"]);
    let connect = || {
        let mut stream = storm.connect();
        stream.write_all(&subscribe).expect("the server takes a request");
        stream.set_nonblocking(true).expect("a connected socket takes the option");
        stream
    };
    let mut subscribers: Vec<TcpStream> = (0..storm.scale.subscribers).map(|_| connect()).collect();
    let message = encode(&["PUBLISH", "storm", &"x".repeat(1000)]).repeat(50);
    let mut publisher = storm.connect();
    let mut buffer = vec![0; 1 << 16];
    let mut count = 0;
    while storm.goes_on() {
        publisher.write_all(&message).expect("the server takes requests");
        for _ in 0..50 {
            // A number of one to three digits.
            let mut last = [0];
            while last != *b"\n" {
                assert!(read_exact(&mut publisher, &mut last), "who publishes is answered");
            }
        }
        count += 50;
        storm.answered.fetch_add(50, Ordering::Relaxed);
        let readers = subscribers.iter_mut().enumerate().filter(|(number, _)| number % 5 > 0);
        for (_, reader) in readers {
            loop {
                match reader.read(&mut buffer) {
                    Ok(0) => break *reader = connect(),
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => break *reader = connect(),
                }
            }
        }
    }
    count
}

/// Stores keys that are gone at once.
fn expire(storm: &Storm) -> u64 {
    const PIECE: usize = 2000;
    let request = |number| encode(&["SET", &format!("gone:{number}"), "x", "PX", "20"]);
    let requests: Vec<u8> = (0..PIECE).flat_map(request).collect();
    repeat(storm, |stream| storm.store(stream, &requests, PIECE)) * PIECE as u64
}

/// Stores more than there is memory for.
fn fill(storm: &Storm) -> u64 {
    const PIECE: u64 = 100;
    let value = "x".repeat(10_000);
    let mut next = 0;
    repeat(storm, |stream| {
        let keys = next..next + PIECE;
        next += PIECE;
        let request = |number| encode(&["SET", &format!("fill:{}", number % 100_000), &value]);
        storm.store(stream, &keys.flat_map(request).collect::<Vec<u8>>(), PIECE as usize)
    }) * PIECE
}

/// What was measured beside it all.
struct Measured {
    /// How long each GET took, in microseconds; from low to high.
    gets_us: Vec<u64>,
    resident: u64,
    work: Vec<u64>,
    answered: u64,
    ended: u64,
    refused: u64,
}

/// Has some of the attacks go on for a time.
fn measure(server: &Server, scale: Scale, attacks: &[(&str, Attack)], time: Duration) -> Measured {
    let storm = Storm {
        port: server.port(),
        scale,
        is_over: AtomicBool::new(false),
        answered: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        refused: AtomicU64::new(0),
    };
    let (mut gets_us, mut resident) = (Vec::new(), 0);
    let work = std::thread::scope(|scope| {
        let attacks = attacks.iter().map(|(_, attack)| {
            let storm = &storm;
            scope.spawn(move || {
                // The attacks stand for other machines, which take no time of this one's
                // processors.
                rustix::process::setpriority_process(None, 19).expect("anybody may give way");
                attack(storm)
            })
        });
        let attacks: Vec<_> = attacks.collect();
        let began = Instant::now();
        let mut client = server.client();
        for number in 0_u64.. {
            if began.elapsed() >= time || attacks.iter().any(ScopedJoinHandle::is_finished) {
                break;
            }
            let asked = Instant::now();
            let reply = client.call(&["GET", "small"]);
            gets_us.push(u64::try_from(asked.elapsed().as_micros()).expect("it ends"));
            assert!(matches!(reply, Value::Bulk(_) | Value::Null), "{reply:?}");
            if number % 50 == 0 {
                resident = resident.max(server.resident());
            }
            std::thread::sleep(PAUSE);
        }
        storm.is_over.store(true, Ordering::Relaxed);
        let ends = attacks.into_iter().map(ScopedJoinHandle::join);
        ends.map(|end| end.expect("whoever behaves is answered")).collect()
    });
    gets_us.sort_unstable();
    let [answered, ended, refused] =
        [&storm.answered, &storm.ended, &storm.refused].map(|it| it.load(Ordering::Relaxed));
    Measured { gets_us, resident, work, answered, ended, refused }
}

#[test]
fn all_attacks_at_once_leave_others_served_and_memory_bounded() {
    let (scale, writes_record) = Scale::asked_for();
    let memory = MEMORY.to_string();
    let server = Server::start(&[
        "--maxmemory",
        &memory,
        "--maxmemory-policy",
        "allkeys-lru",
        "--maxclients",
        "16000",
    ]);
    let mut admin = server.client();
    admin.call(&["SET", "small", "x"]);
    admin.call(&["SET", "large", &"x".repeat(1_000_000)]);
    let time = scale.time;
    let mut text = String::new();
    if writes_record {
        text += ALONE;
        for attack in &ATTACKS {
            let attacks = std::slice::from_ref(attack);
            let gets = measure(&server, scale, attacks, time / 10).gets_us;
            let [median, p99, p999] = [500, 990, 999].map(|share| at_share(&gets, share));
            text += &format!("| {} | {median} | {p99} | {p999} |\n", attack.0);
        }
    }
    let measured = measure(&server, scale, &ATTACKS, time);
    assert!(measured.work.iter().all(|count| *count > 0), "{:?}", measured.work);
    let bound = MEMORY + MEMORY / 2 + FIXED;
    assert!(measured.resident <= bound, "{} MB", measured.resident / MEGABYTE);
    // All of it leaves, and leaves nothing behind.
    eventually("those who are gone are forgotten", || admin.figure("connected_clients") == 1);
    let text = told(&measured, time, &mut admin) + &text;
    println!("{text}");
    if writes_record {
        let path = environment::repository().join("docs/proof/overload.md");
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(&path, before + &text).expect("the record can be written");
    }
}

/// Before the lines of each attack by itself.
const ALONE: &str = "\nEach alone, for a tenth of the time: GETs of another client, in us.\n\n\
                     | what | median | p99 | p99.9 |\n|---|---|---|---|\n";

/// What so many thousandths do not exceed.
fn at_share(sorted: &[u64], share: usize) -> u64 {
    sorted[(sorted.len() * share / 1000).min(sorted.len() - 1)]
}

/// A section of the record.
fn told(measured: &Measured, time: Duration, admin: &mut Client) -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let (kernel, load) = (read("/proc/sys/kernel/osrelease"), read("/proc/loadavg"));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut text = format!(
        "\n## {} seconds\n\n{cores} cores, Linux {}, load {}.\n\n| what | how much |\n|---|---|\n",
        time.as_secs(),
        kernel.trim(),
        load.trim()
    );
    let mut row = |what: &str, value: String| text += &format!("| {what} | {value} |\n");
    let gets = &measured.gets_us;
    for (name, share) in [("median", 500), ("p99", 990), ("p99.9", 999)] {
        row(&format!("GET of another client, {name}"), format!("{} us", at_share(gets, share)));
    }
    row("the longest of those", format!("{} us of {}", gets[gets.len() - 1], gets.len()));
    row("most memory in use (RSS)", format!("{} MB", measured.resident / MEGABYTE));
    for ((what, _), count) in ATTACKS.iter().zip(&measured.work) {
        row(what, count.to_string());
    }
    row("batches of replies of those who read, all right", measured.answered.to_string());
    row("connections of those that the server ended", measured.ended.to_string());
    row("requests to store that were answered OOM", measured.refused.to_string());
    for field in ["evicted_clients", "evicted_keys", "expired_keys", "rejected_connections"] {
        row(&format!("`{field}`"), admin.info(field));
    }
    text
}
