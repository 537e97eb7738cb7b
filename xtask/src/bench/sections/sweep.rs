//! Commands on big data, one after the other, and what others notice of each: the worst wait for
//! another key and for the same key, and what a thread that serves clients did in it.
//!
//! Invariant: a wait counts by the CPU time that one serving thread took in it, so that what the
//! machine does beside is not blamed on the server; the wait by the clock stands beside it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use super::super::contender::{REDIS_82, Running, Workers};
use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::{pipe, process};
use super::{Bench, Finding};

const ELEMENTS: u64 = 1_000_000;

/// No thread that serves clients may be kept longer by one of them, in milliseconds of its CPU.
const MOST_MS: f64 = 5.0;

/// Connections that ask for another key: more than one for each worker.
const PROBERS: usize = 4;

/// What the values are made of: key, command, and what follows for each number.
type Piece = fn(u64) -> Vec<String>;
const DATA: &[(&str, &str, Piece)] = &[
    ("set", "SADD", |number| vec![format!("m:{number:014}")]),
    ("set2", "SADD", |number| vec![format!("m:{:014}", number + ELEMENTS / 2)]),
    ("sorted", "ZADD", |number| vec![number.to_string(), format!("m:{number:014}")]),
    ("hash", "HSET", |number| vec![format!("f:{number:014}"), "value".to_owned()]),
    ("list", "RPUSH", |number| vec![format!("e:{:014}", number * 7919 % ELEMENTS)]),
];

/// What is sent, and which of its keys is asked for meanwhile.
const COMMANDS: &[(&str, &[&str])] = &[
    ("set", &["SUNIONSTORE", "out", "set", "set2"]),
    ("set", &["SINTERSTORE", "out", "set", "set2"]),
    ("set", &["SDIFFSTORE", "out", "set", "set2"]),
    ("set", &["SINTERCARD", "2", "set", "set2"]),
    ("set", &["SUNION", "set", "set2"]),
    ("set", &["SMEMBERS", "set"]),
    ("set", &["SRANDMEMBER", "set", "500000"]),
    ("set", &["SSCAN", "set", "0", "COUNT", "1000000"]),
    ("set", &["SORT", "set", "ALPHA", "STORE", "out"]),
    ("set", &["DUMP", "set"]),
    ("set", &["COPY", "set", "out", "REPLACE"]),
    ("sorted", &["ZUNIONSTORE", "out", "2", "sorted", "set"]),
    ("sorted", &["ZUNION", "2", "sorted", "set", "WITHSCORES"]),
    ("sorted", &["ZINTERSTORE", "out", "2", "sorted", "set"]),
    ("sorted", &["ZDIFF", "2", "sorted", "set2"]),
    ("sorted", &["ZRANGESTORE", "out", "sorted", "0", "-1"]),
    ("sorted", &["ZRANGE", "sorted", "0", "-1", "WITHSCORES"]),
    ("sorted", &["ZSCAN", "sorted", "0", "MATCH", "*99", "COUNT", "1000000"]),
    ("sorted", &["ZREMRANGEBYRANK", "out", "0", "400000"]),
    ("hash", &["HGETALL", "hash"]),
    ("hash", &["HRANDFIELD", "hash", "-200000"]),
    ("hash", &["HSCAN", "hash", "0", "COUNT", "1000000"]),
    ("list", &["LRANGE", "list", "0", "-1"]),
    ("list", &["LPOS", "list", "none"]),
    ("list", &["SORT", "list", "ALPHA", "LIMIT", "0", "10"]),
    ("list", &["DUMP", "list"]),
    ("list", &["LTRIM", "list", "0", "500000"]),
    ("out", &["DEL", "out"]),
    ("set", &["FLUSHALL", "ASYNC"]),
];

/// The worst wait that was seen.
#[derive(Clone, Copy, Default)]
struct Worst {
    wait_ms: f64,
    /// What one serving thread did in it.
    cpu_ms: f64,
}

pub(super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let contenders = [bench.ours(), bench.peer(REDIS_82)?];
    let names = contenders.map(|contender| contender.name.to_owned()).to_vec();
    let table = |what: &str, unit| {
        let figure = |(_, words): &(&str, &[&str])| {
            Figure::new(format!("{}, {what}", words.join(" ")), unit, names.len())
        };
        COMMANDS.iter().map(figure).collect::<Vec<Figure>>()
    };
    let what = ["CPU in the worst wait for another key", "worst wait for the same key", "CPU"];
    let mut figures = what.map(|what| table(what, "ms"));
    bench.rounds(contenders.len(), |_, index| {
        let server = contenders[index].start(&bench.cores.all(), Workers::Exactly(2), &[])?;
        prepare(bench, &server)?;
        for (place, (key, command)) in COMMANDS.iter().enumerate() {
            let before = process_cpu_ms(server.pid())?;
            let (other, same) = beside(&server, key, command)?;
            let cpu = process_cpu_ms(server.pid())? - before;
            for (figures, value) in figures.iter_mut().zip([other.cpu_ms, same.wait_ms, cpu]) {
                figures[place].values[index].push(value);
            }
        }
        Ok(())
    })?;
    finding.goals = figures[0]
        .iter()
        .map(|figure| {
            Goal::new(
                format!("{}, ms", figure.name),
                Bound::AtMost(MOST_MS),
                Some(figure.median(0)),
            )
        })
        .collect();
    finding.tables =
        figures.map(|figures| Table { names: names.clone(), figures }).into_iter().collect();
    finding.method = format!(
        "Values of {} elements; each command once, while {PROBERS} connections ask for another \
         key and one for the command's own in a loop. What one thread that serves clients did \
         in the worst wait for another key is its CPU time (`schedstat`); the wait for the \
         command's own key is by the clock. Ours with two workers, on all cores.",
        bench.plan.scaled(ELEMENTS)
    );
    Ok(())
}

fn prepare(bench: &Bench<'_>, server: &Running) -> Result<(), String> {
    const EACH: u64 = 100;
    pipe::order(server.port, &["SET", "another", "value"])?;
    for (key, command, piece) in DATA {
        let parts = bench.plan.scaled(ELEMENTS) / EACH;
        let request = |part: u64| {
            let mut request = vec![(*command).to_owned(), (*key).to_owned()];
            request.extend((part * EACH..(part + 1) * EACH).flat_map(piece));
            request
        };
        pipe::feed(server.port, (0..parts).map(request))?;
    }
    Ok(())
}

/// Runs a command to its end: the worst waits for another key and for its own.
fn beside(server: &Running, key: &str, command: &[&str]) -> Result<(Worst, Worst), String> {
    let over = AtomicBool::new(false);
    scope(|scope| {
        let others = scope.spawn(|| probe(server, PROBERS, &["GET", "another"], &over));
        let own = scope.spawn(|| probe(server, 1, &["TYPE", key], &over));
        // So that the probers are on their way.
        sleep(Duration::from_millis(20));
        let run = to_its_end(server.port, command);
        sleep(Duration::from_millis(20));
        over.store(true, Ordering::Relaxed);
        let worst = (
            others.join().expect("it returns its errors")?,
            own.join().expect("it returns its errors")?,
        );
        run.map(|()| worst)
    })
}

/// Asks on so many connections, one after the other, until it is over.
fn probe(
    server: &Running,
    connections: usize,
    words: &[&str],
    over: &AtomicBool,
) -> Result<Worst, String> {
    let request = pipe::encode(words);
    let connect = |_| pipe::connect(server.port);
    let mut streams: Vec<TcpStream> = (0..connections).map(connect).collect::<Result<_, _>>()?;
    let (mut worst, mut reply) = (Worst::default(), [0; 256]);
    while !over.load(Ordering::Relaxed) {
        for stream in &mut streams {
            let before = serving_cpu_ms(server.pid())?;
            let began = Instant::now();
            let asked = stream.write_all(&request).and_then(|()| stream.read(&mut reply));
            asked.map_err(|error| format!("{}: {error}", words.join(" ")))?;
            let wait_ms = began.elapsed().as_secs_f64() * 1000.0;
            if wait_ms < worst.wait_ms {
                continue;
            }
            let after = serving_cpu_ms(server.pid())?;
            let took = before.iter().zip(&after).map(|(before, after)| after - before);
            worst = Worst { wait_ms, cpu_ms: took.fold(0.0, f64::max) };
        }
        sleep(Duration::from_micros(100));
    }
    Ok(worst)
}

/// Sends a command and reads all of its reply.
fn to_its_end(port: u16, command: &[&str]) -> Result<(), String> {
    const END: &[u8] = b"$12\r\nthis is it \xff\r\n";
    let mut stream = pipe::connect(port)?;
    let mut request = pipe::encode(command);
    request.extend(b"*2\r\n$4\r\nECHO\r\n");
    request.extend(END);
    let failed = |error| format!("{}: {error}", command.join(" "));
    stream.write_all(&request).map_err(failed)?;
    let (mut buffer, mut tail) = (vec![0; 256 * 1024], Vec::new());
    while !tail.ends_with(END) {
        let length = stream.read(&mut buffer).map_err(failed)?;
        if length == 0 {
            return Err(format!("{}: the connection is closed", command.join(" ")));
        }
        tail.extend(&buffer[..length]);
        tail.drain(..tail.len().saturating_sub(2 * END.len()));
    }
    Ok(())
}

/// CPU time of each thread that serves clients: workers of ours, the first thread of a peer.
fn serving_cpu_ms(pid: u32) -> Result<Vec<f64>, String> {
    let folder = format!("/proc/{pid}/task");
    let tasks = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
    let mut times = Vec::new();
    for task in tasks.flatten() {
        let Ok(name) = fs::read_to_string(task.path().join("comm")) else { continue };
        let is_first = task.file_name().to_string_lossy() == pid.to_string();
        if name.starts_with("worker-") || is_first {
            times.push(cpu_ms(&task.path().join("schedstat").display().to_string())?);
        }
    }
    Ok(times)
}

/// CPU time of all threads of a process that live.
fn process_cpu_ms(pid: u32) -> Result<f64, String> {
    let folder = format!("/proc/{pid}/task");
    let tasks = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
    let files = tasks.flatten().map(|task| task.path().join("schedstat").display().to_string());
    // A thread may end while they are looked at.
    Ok(files.filter_map(|file| cpu_ms(&file).ok()).sum())
}

fn cpu_ms(file: &str) -> Result<f64, String> {
    let text = process::read(file)?;
    let nanoseconds = text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    nanoseconds.map(|ns| ns / 1e6).ok_or_else(|| format!("{file} has no time"))
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, DATA, process_cpu_ms, serving_cpu_ms};

    #[test]
    fn the_threads_of_this_process_take_time() {
        let own = std::process::id();
        assert_eq!(serving_cpu_ms(own).expect("it lives").len(), 1, "it has no workers");
        assert!(process_cpu_ms(own).expect("it lives") > 0.0);
    }

    #[test]
    fn the_keys_that_are_asked_for_are_those_of_the_commands() {
        for (key, command) in COMMANDS {
            assert!(command.contains(key) || command[0] == "FLUSHALL" || *key == "sorted");
            let is_there = DATA.iter().any(|(name, ..)| name == key) || *key == "out";
            assert!(is_there, "{key}");
        }
    }
}
