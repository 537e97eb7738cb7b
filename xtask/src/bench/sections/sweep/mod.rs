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

use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::peer::{REDIS_82, Running, Workers};
use super::super::{pipe, process};
use super::{Bench, Finding};

mod rows;

use rows::{DATA, ELEMENTS, MADE, ROWS, Row};

/// No thread that serves clients may be kept longer by one of them, in milliseconds of its CPU.
const MOST_MS: f64 = 5.0;

/// No command may cost more than this many times what it costs the peer.
const MOST_RATIO: f64 = 1.2;

/// Less than this many milliseconds are not compared.
const SMALL_MS: f64 = 1.0;

/// So that DEBUG DIGEST is answered.
const OPTIONS: [&str; 2] = ["--enable-debug-command", "yes"];

/// Connections that ask for another key: more than one for each worker.
const PROBERS: usize = 4;

/// The worst wait that was seen.
#[derive(Clone, Copy, Default)]
struct Worst {
    wait_ms: f64,
    /// What one serving thread did in it.
    cpu_ms: f64,
}

pub(super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let peers = [bench.ours(), bench.peer(REDIS_82)?];
    let names = peers.map(|peer| peer.name.to_owned()).to_vec();
    let table = |what: &str| {
        let figure =
            |(_, asked): &Row| Figure::new(format!("{}, {what}", asked.label()), "ms", names.len());
        ROWS.iter().map(figure).collect::<Vec<Figure>>()
    };
    let what = ["CPU in the worst wait for another key", "worst wait for the same key", "CPU"];
    let mut figures = what.map(table);
    bench.rounds(peers.len(), |_, index| {
        let start = || peers[index].start(&bench.cores.all(), Workers::Exactly(2), &OPTIONS);
        let watched = start()?;
        prepare(bench, &watched)?;
        for (place, (key, asked)) in ROWS.iter().enumerate() {
            let request = asked.request(|count| bench.plan.scaled(count));
            let (other, same) = beside(&watched, key, &request)
                .map_err(|reason| format!("{}: {reason}", asked.label()))?;
            figures[0][place].values[index].push(other.cpu_ms);
            figures[1][place].values[index].push(same.wait_ms);
        }
        drop(watched);
        // What the probers ask for costs, too: the commands' own cost is of a server without them.
        let alone = start()?;
        prepare(bench, &alone)?;
        for (place, (_, asked)) in ROWS.iter().enumerate() {
            let request = asked.request(|count| bench.plan.scaled(count));
            let before = process_cpu_ms(alone.pid())?;
            to_its_end(alone.port, &request)
                .map_err(|reason| format!("{}: {reason}", asked.label()))?;
            figures[2][place].values[index].push(process_cpu_ms(alone.pid())? - before);
        }
        Ok(())
    })?;
    finding.goals = goals(&figures);
    finding.tables =
        figures.map(|figures| Table { names: names.clone(), figures }).into_iter().collect();
    finding.method = format!(
        "Values of {} elements; each command once, while {PROBERS} connections ask for another \
         key and one for the command's own in a loop. What one thread that serves clients did \
         in the worst wait for another key is its CPU time (`schedstat`); the wait for the \
         command's own key is by the clock. CPU is that of all threads, on a server that is \
         asked nothing else. Ours with two workers, on all cores.",
        bench.plan.scaled(ELEMENTS)
    );
    Ok(())
}

/// One for each command: no worker is kept for long, and none costs much more than the peer.
fn goals(figures: &[Vec<Figure>; 3]) -> Vec<Goal> {
    let waits = figures[0].iter().map(|figure| {
        let name = format!("{}, ms", figure.name);
        Goal::new(name, Bound::AtMost(MOST_MS), Some(figure.median(0)))
    });
    let costs = figures[2].iter().map(|figure| {
        let ratio = figure.median(0).max(SMALL_MS) / figure.median(1).max(SMALL_MS);
        let name = format!("{}, ours / {REDIS_82}", figure.name);
        Goal::new(name, Bound::AtMost(MOST_RATIO), Some(ratio))
    });
    waits.chain(costs).collect()
}

fn prepare(bench: &Bench<'_>, server: &Running) -> Result<(), String> {
    const EACH: u64 = 100;
    const EACH_MADE: u64 = 1000;
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
    for (key, step) in MADE {
        let parts = bench.plan.scaled(ELEMENTS) / EACH_MADE;
        let program = format!("for i = ARGV[1], ARGV[2] do {step} end return 1");
        let request = |part: u64| {
            let range = [part * EACH_MADE, (part + 1) * EACH_MADE - 1].map(|it| it.to_string());
            let head = ["EVAL", &program, "1", key].map(str::to_owned);
            head.into_iter().chain(range).collect()
        };
        pipe::feed(server.port, (0..parts).map(request))?;
    }
    Ok(())
}

/// Sends a row to its end: the worst waits for another key and for its own.
fn beside(server: &Running, key: &str, request: &[u8]) -> Result<(Worst, Worst), String> {
    let over = AtomicBool::new(false);
    scope(|scope| {
        let others = scope.spawn(|| probe(server, PROBERS, &["GET", "another"], &over));
        let own = scope.spawn(|| probe(server, 1, &["TYPE", key], &over));
        // So that the probers are on their way.
        sleep(Duration::from_millis(20));
        let run = to_its_end(server.port, request);
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

/// Sends requests and reads all that is answered.
fn to_its_end(port: u16, request: &[u8]) -> Result<(), String> {
    // What is answered to subscribers, too, ends alike.
    const END: &[u8] = b"$12\r\nthis is it \xff\r\n";
    let mut stream = pipe::connect(port)?;
    let mut sender = stream.try_clone().map_err(|error| error.to_string())?;
    let ask = [request, b"*2\r\n$4\r\nPING\r\n", END].concat();
    scope(|scope| {
        // A server may wait for its replies to be read.
        let sent = scope.spawn(move || sender.write_all(&ask));
        let (mut buffer, mut tail) = (vec![0; 256 * 1024], Vec::new());
        while !tail.ends_with(END) {
            let length = stream.read(&mut buffer).map_err(|error| error.to_string())?;
            if length == 0 {
                return Err("the connection is closed".to_owned());
            }
            tail.extend(&buffer[..length]);
            tail.drain(..tail.len().saturating_sub(2 * END.len()));
        }
        sent.join().expect("it returns its errors").map_err(|error| error.to_string())
    })
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
    use super::{process_cpu_ms, serving_cpu_ms};

    #[test]
    fn the_threads_of_this_process_take_time() {
        let own = std::process::id();
        assert_eq!(serving_cpu_ms(own).expect("it lives").len(), 1, "it has no workers");
        assert!(process_cpu_ms(own).expect("it lives") > 0.0);
    }
}
