//! Hit ratios of real servers with the same resident memory: ours, Redis' two policies, memcached.
//!
//! A client asks for a few keys at once and stores what is missing. First each server's limit is
//! set so that its resident memory, filled to the brim, is the same. Invariant: all servers are
//! asked for the same keys, whose values have the same lengths.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use base::Random;
use bench::usage::Watch;

use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::peer::{Peer, REDIS_70, Running, Workers, free_port, installed};
use super::super::pipe;
use super::{Bench, Finding};

/// What each server may have resident.
const RESIDENT: u64 = 128 << 20;

/// With less it would be all about what a server takes when it is empty.
const RESIDENT_LEAST: u64 = 24 << 20;

/// Bytes of a value are drawn from these; the mean, and what comes with it, tell how many fit.
const LENGTHS: (u64, u64) = (100, 1900);
const ITEM: u64 = 1080;

/// Requests of a trace; the first third warms up. Long enough that clocks of seconds tell ages
/// apart, and thirty times as many as keys fit: with seven times as many even a cache that knows
/// the future gains only 5.7 points on Redis lru where a third are scans, as most misses are of new
/// keys.
const REQUESTS: u64 = 3_600_000;

/// Keys that a client asks for at once.
const BATCH: usize = 4;

/// Limits are corrected so often.
const CORRECTIONS: usize = 3;

/// The four that are compared.
const NAMES: [&str; 4] = ["Apus", "Redis 7.0 lru", "Redis 7.0 lfu", "memcached 1.6"];

/// Keys of a part that others do not have.
const APART: u64 = 1 << 40;

const TRACES: [(&str, Trace); 5] = [
    ("Zipf 0.99", |trace| trace.zipf()),
    ("Zipf 0.99 and a third scans", |trace| match trace.number % 3 {
        0 => APART + trace.number,
        _ => trace.zipf(),
    }),
    ("hot set, exchanged at times", |trace| {
        APART * (trace.number / (trace.requests / 8)) + trace.zipf()
    }),
    ("hot set, exchanged by half", |trace| match trace.zipf() {
        even if even % 2 == 0 => even,
        odd => APART * (trace.number / (trace.requests / 8)) + odd,
    }),
    ("loop of 1.5 times the size", |trace| trace.number % (trace.fit * 3 / 2)),
];

/// The key that is asked for next.
type Trace = fn(&mut Course) -> u64;

/// Where a trace is.
#[derive(Clone)]
struct Course {
    number: u64,
    requests: u64,
    /// How many keys fit, about.
    fit: u64,
    /// The shares of all keys up to each, by Zipf's law.
    sums: Arc<[f64]>,
    random: Random,
}

impl Course {
    /// Over ten times as many keys as fit.
    fn new(requests: u64, fit: u64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=10 * fit).map(|rank| {
            sum += (rank as f64).powf(-0.99);
            sum
        });
        Self { number: 0, requests, fit, sums: sums.collect(), random: Random::from_seed(9) }
    }

    fn zipf(&mut self) -> u64 {
        let all = self.sums.last().copied().unwrap_or(0.0);
        let point = all * (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        self.sums.partition_point(|sum| *sum < point) as u64
    }
}

/// A server that caches.
enum Cache {
    Resp(Running),
    Memcached { child: Child, port: u16 },
}

/// A connection to one of them.
struct Asker {
    reader: BufReader<TcpStream>,
    is_memcached: bool,
    value: Vec<u8>,
    /// Keys that were there.
    hits: u64,
}

pub(super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let names = NAMES.map(str::to_owned).to_vec();
    let resident = bench.plan.scaled(RESIDENT).max(RESIDENT_LEAST);
    let requests = bench.plan.scaled(REQUESTS);
    let fit = resident / ITEM;
    let limits = (0..NAMES.len()).map(|index| calibrate(bench, index, resident));
    let limits = limits.collect::<Result<Vec<_>, _>>()?;
    let mut figures = Vec::new();
    let mut memory = Vec::new();
    for (name, next) in TRACES {
        println!("  {name}");
        let mut hits = Figure::new(name, "% hits", NAMES.len());
        let mut rss = Figure::new(format!("RSS, {name}"), "of the aim", NAMES.len());
        let course = Course::new(requests, fit);
        let start = |(index, limit): (usize, &u64)| Cache::start(bench, index, *limit);
        let servers = limits.iter().enumerate().map(start).collect::<Result<Vec<_>, _>>()?;
        let shares: Vec<Result<f64, String>> = std::thread::scope(|scope| {
            let course = &course;
            let ask = |server| scope.spawn(move || share_of_hits(server, course.clone(), next));
            let asking: Vec<_> = servers.iter().map(ask).collect();
            asking.into_iter().map(|one| one.join().expect("no client panics")).collect()
        });
        for (index, (server, share)) in servers.iter().zip(shares).enumerate() {
            hits.values[index].push(100.0 * share?);
            rss.values[index].push(server.resident()? / resident as f64);
        }
        let best = (1..NAMES.len()).map(|peer| hits.median(peer)).fold(0.0, f64::max);
        let what = format!("{name}: hits beyond the best peer's, points");
        finding.goals.push(Goal::new(what, Bound::AtLeast(0.0), Some(hits.median(0) - best)));
        figures.push(hits);
        memory.push(rss);
    }
    let beyond = figures[1].median(0) - figures[1].median(1);
    let what = "hits beyond Redis lru's where a third are scans, points";
    finding.goals.push(Goal::new(what, Bound::AtLeast(5.0), Some(beyond)));
    let table = |figures| Table { names: names.clone(), figures };
    finding.tables = vec![table(figures), table(memory)];
    finding.method = format!(
        "One client for each server, all at the same time: GET of {BATCH} keys at once, and SET of \
         what is missing; {requests} keys, the first third of which does not count. Values of {} \
         to {} bytes; Zipf over ten times as many keys as fit. Limits are such that each server \
         has {} MB resident when it is full: {}. Ours evicts by allkeys-apus.",
        LENGTHS.0,
        LENGTHS.1,
        resident >> 20,
        NAMES
            .iter()
            .zip(&limits)
            .map(|(name, limit)| format!("{name} {limit}"))
            .collect::<Vec<_>>()
            .join(", "),
    );
    Ok(())
}

/// Asks a server for all keys of a trace, a few at a time; which share of them was there.
fn share_of_hits(server: &Cache, mut course: Course, next: Trace) -> Result<f64, String> {
    let mut asker = server.connect()?;
    let counted_from = course.requests / 3;
    let (mut batch, mut hits) = (Vec::with_capacity(BATCH), 0);
    while course.number < course.requests {
        let key = next(&mut course);
        // A client that asks for a key again has stored it meanwhile.
        if batch.len() == BATCH || batch.contains(&key) {
            asker.ask(&batch)?;
            batch.clear();
        }
        batch.push(key);
        course.number += 1;
        if course.number == counted_from {
            hits = asker.hits;
        }
    }
    asker.ask(&batch)?;
    Ok((asker.hits - hits) as f64 / (course.requests - counted_from) as f64)
}

/// The limit with which a server that is full has so much resident.
fn calibrate(bench: &Bench<'_>, index: usize, resident: u64) -> Result<u64, String> {
    let mut limit = resident * 9 / 10;
    for _ in 0..CORRECTIONS {
        let server = Cache::start(bench, index, limit)?;
        let mut asker = server.connect()?;
        for key in 0..2 * resident / ITEM {
            asker.ask(&[key])?;
        }
        let found = server.resident()?;
        println!("  {}: {limit} bytes make {found} resident", NAMES[index]);
        let missing = resident as i64 - found as i64;
        limit = limit.saturating_add_signed(missing).max(resident / 4);
    }
    Ok(limit)
}

impl Cache {
    fn start(bench: &Bench<'_>, index: usize, limit: u64) -> Result<Self, String> {
        let bytes = limit.to_string();
        // All four are asked at the same time, and what they keep does not depend on where.
        let cores = bench.cores.all();
        let start = |peer: &Peer, policy: &str| {
            let flags = ["--maxmemory", &bytes, "--maxmemory-policy", policy];
            peer.start(&cores, Workers::Exactly(1), &flags).map(Cache::Resp)
        };
        match index {
            0 => start(bench.ours(), "allkeys-apus"),
            1 => start(bench.peer(REDIS_70)?, "allkeys-lru"),
            2 => start(bench.peer(REDIS_70)?, "allkeys-lfu"),
            _ => Self::start_memcached(&cores, limit),
        }
    }

    /// Its limit is in megabytes.
    fn start_memcached(cores: &str, limit: u64) -> Result<Self, String> {
        const PATIENCE: Duration = Duration::from_secs(20);
        let (port, megabytes) = (free_port()?, (limit >> 20).to_string());
        let mut command = Command::new("taskset");
        command.args(["-c", cores]).arg(installed("memcached")?);
        command.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-U", "0", "-u", "nobody"]);
        command.args(["-t", "1", "-m", &megabytes]);
        let child = command.spawn().map_err(|error| format!("taskset: {error}"))?;
        let cache = Cache::Memcached { child, port };
        let deadline = Instant::now() + PATIENCE;
        while pipe::connect(port).is_err() {
            if Instant::now() > deadline {
                return Err("memcached does not answer".to_owned());
            }
            sleep(Duration::from_millis(10));
        }
        Ok(cache)
    }

    fn connect(&self) -> Result<Asker, String> {
        let (port, is_memcached) = match self {
            Cache::Resp(server) => (server.port, false),
            Cache::Memcached { port, .. } => (*port, true),
        };
        let value = vec![b'x'; LENGTHS.1 as usize];
        Ok(Asker { reader: BufReader::new(pipe::connect(port)?), is_memcached, value, hits: 0 })
    }

    fn resident(&self) -> Result<f64, String> {
        match self {
            Cache::Resp(server) => server.resident(),
            Cache::Memcached { child, .. } => {
                let used = Watch::of(&[child.id()]).end().0;
                used.map(|used| used.rss as f64).ok_or_else(|| "memcached is gone".to_owned())
            }
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if let Cache::Memcached { child, .. } = self {
            // One that has ended already is no fault.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Asker {
    /// Asks for some keys at once, and stores those that are missing.
    fn ask(&mut self, keys: &[u64]) -> Result<(), String> {
        let mut requests = Vec::new();
        for key in keys {
            let name = name_of(*key);
            match self.is_memcached {
                true => requests.extend_from_slice(format!("get {name}\r\n").as_bytes()),
                false => requests.extend_from_slice(&pipe::encode(&["GET", &name])),
            }
        }
        self.send(&requests)?;
        requests.clear();
        let mut missing = 0;
        for key in keys {
            if self.receive_value()? {
                self.hits += 1;
            } else {
                missing += 1;
                self.write_store(*key, &mut requests);
            }
        }
        self.send(&requests)?;
        for _ in 0..missing {
            match self.line()?.as_str() {
                "+OK" | "STORED" => {}
                other => return Err(format!("a value is not stored: {other}")),
            }
        }
        Ok(())
    }

    fn write_store(&self, key: u64, requests: &mut Vec<u8>) {
        let (name, length) = (name_of(key), length_of(key));
        let head = match self.is_memcached {
            true => format!("set {name} 0 0 {length}\r\n"),
            false => format!("*3\r\n$3\r\nSET\r\n${}\r\n{name}\r\n${length}\r\n", name.len()),
        };
        requests.extend_from_slice(head.as_bytes());
        requests.extend_from_slice(&self.value[..length]);
        requests.extend_from_slice(b"\r\n");
    }

    /// Reads the reply to a request for one key; whether it has a value.
    fn receive_value(&mut self) -> Result<bool, String> {
        let head = self.line()?;
        let length = match head.as_str() {
            "$-1" | "END" => return Ok(false),
            head if self.is_memcached => head.rsplit(' ').next().unwrap_or_default().parse(),
            head => head.trim_start_matches('$').parse(),
        };
        let length: u64 = length.map_err(|_| format!("a key is answered by {head}"))?;
        let ending: u64 = if self.is_memcached { "\r\nEND\r\n".len() as u64 } else { 2 };
        let wanted = length + ending;
        let read = std::io::copy(&mut self.reader.by_ref().take(wanted), &mut std::io::sink());
        match read {
            Ok(read) if read == wanted => Ok(true),
            _ => Err("a value ends too early".to_owned()),
        }
    }

    fn send(&mut self, requests: &[u8]) -> Result<(), String> {
        self.reader.get_mut().write_all(requests).map_err(|error| error.to_string())
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.reader.read_line(&mut line).map_err(|error| error.to_string())?;
        Ok(line.trim_end().to_owned())
    }
}

fn name_of(key: u64) -> String {
    format!("key:{key:016}")
}

/// The length of a key's value, always the same.
fn length_of(key: u64) -> usize {
    let (least, most) = LENGTHS;
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (least + mixed % (most - least + 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::{Course, ITEM, LENGTHS, TRACES, length_of};

    #[test]
    fn values_have_the_lengths_that_the_sizes_count_with() {
        let all: u64 = (0..10_000).map(|key| length_of(key) as u64).sum();
        assert!((all / 10_000).abs_diff((LENGTHS.0 + LENGTHS.1) / 2) < 20);
        assert!(ITEM > (LENGTHS.0 + LENGTHS.1) / 2);
    }

    #[test]
    fn traces_are_what_they_are_called() {
        let keys = |index: usize| {
            let mut course = Course::new(8000, 100);
            let next = |number| {
                course.number = number;
                TRACES[index].1(&mut course)
            };
            (0..8000).map(next).collect::<Vec<u64>>()
        };
        let [zipf, scans, exchanged, half, cycle] = [0, 1, 2, 3, 4].map(keys);
        assert!(zipf.iter().all(|key| *key < 1000));
        assert!(zipf.iter().filter(|key| **key == 0).count() > 800);
        let once = |keys: &[u64]| keys.iter().filter(|key| **key >= 1 << 40).count();
        assert_eq!(once(&scans), 2667);
        assert_eq!(once(&exchanged), 7000);
        assert!((1000..6000).contains(&once(&half)));
        assert!(cycle.iter().all(|key| *key < 150));
    }
}
