//! Clients that write while snapshots are taken, and a real server that tells what is in them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use proto::value::Value;

use super::role::{EPOCH, Role, SWAPS, Step};
use super::{History, Note, Sight, Snapshot, State, Writer};
use crate::client::{Client, encode};
use crate::render::text;
use crate::server::{Server, eventually};

/// Steps that are sent at once.
const AHEAD: u64 = 4;

/// Keys that nobody changes, in a database of their own: they make a snapshot take its time.
const FILLERS: &str = "100";

/// What is done.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Clients with keys of their own.
    pub writers: usize,
    /// Snapshots that are taken meanwhile.
    pub snapshots: usize,
    /// Whether all is flushed now and then.
    pub flushes: bool,
    /// So many steps at least are answered between two snapshots.
    pub apart: u64,
}

/// What all clients of a run share.
struct Common {
    clock: AtomicU64,
    answers: AtomicU64,
    is_over: AtomicBool,
}

impl Common {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }
}

/// Tells all clients to end, however the run does.
struct AtEnd<'a>(&'a Common);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

/// Writes to an empty server and takes snapshots of it.
#[must_use]
pub fn run(server: &Server, plan: &Plan) -> History {
    let common = Common {
        clock: AtomicU64::new(1),
        answers: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    };
    let mut roles: Vec<Role> = (0..plan.writers)
        .map(|number| Role::Writer { number, in_units: plan.flushes })
        .chain([Role::Swapper])
        .collect();
    let watched: Vec<String> = roles.iter().map(|role| role.watched_key()).collect();
    roles.extend(plan.flushes.then_some(Role::Flusher));
    thread::scope(|scope| {
        let at_end = AtEnd(&common);
        let common = &common;
        let write = |role| scope.spawn(move || write(server.client(), role, common));
        let writing: Vec<_> = roles.into_iter().map(write).collect();
        let reading = scope.spawn(|| watch(server.client(), &watched, common));
        let snapshots = (0..plan.snapshots).map(|_| take(server, plan, common)).collect();
        drop(at_end);
        let ended = writing.into_iter().map(|thread| thread.join().expect("a writer ends well"));
        let writers = ended.collect();
        History { writers, sights: reading.join().expect("a reader ends well"), snapshots }
    })
}

/// Waits until enough was written, and takes a snapshot.
fn take(server: &Server, plan: &Plan, common: &Common) -> Snapshot {
    let wanted = common.answers.load(Ordering::Relaxed) + plan.apart;
    eventually("clients write", || common.answers.load(Ordering::Relaxed) >= wanted);
    let mut client = server.client();
    for command in [&["SELECT", "9"][..], &["DEBUG", "POPULATE", FILLERS]] {
        assert_eq!(client.call(command), Value::Simple(b"OK".to_vec()), "{command:?}");
    }
    let file = server.folder().join("dump.rdb");
    // What is found there is this snapshot; the first one finds nothing.
    let _ = std::fs::remove_file(&file);
    let called = common.now();
    let reply = client.call(&["BGSAVE"]);
    let begun = common.now();
    assert_eq!(reply, Value::Simple(b"Background saving started".to_vec()));
    let mut field = |name: &str| {
        let report = text(&client.call(&["INFO", "persistence"]));
        let value = report.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("INFO has no {name}")).trim().to_owned()
    };
    eventually("the save ends", || field("rdb_bgsave_in_progress") == "0");
    assert_eq!(field("rdb_last_bgsave_status"), "ok");
    let bytes = std::fs::read(file).expect("it has saved");
    Snapshot { called, begun, bytes }
}

fn write(mut client: Client, role: Role, common: &Common) -> Writer {
    let mut notes = Vec::new();
    while !common.is_over.load(Ordering::SeqCst) {
        // A client that stops the world leaves some time to the others.
        let ahead = if matches!(role, Role::Writer { .. }) { AHEAD } else { 1 };
        if ahead == 1 {
            thread::sleep(Duration::from_millis(2));
        }
        let first = notes.len() as u64 + 1;
        let steps: Vec<_> = (first..first + ahead).map(|number| role.step(number)).collect();
        let requests: Vec<_> = steps.iter().map(Step::requests).collect();
        let bytes: Vec<u8> = requests.iter().flatten().flat_map(|words| encode(words)).collect();
        let sent = common.now();
        client.send_raw(&bytes);
        for (step, requests) in steps.into_iter().zip(requests) {
            let replies: Vec<Value> = requests.iter().map(|_| client.receive()).collect();
            let answered = common.now();
            common.answers.fetch_add(1, Ordering::Relaxed);
            let Some(last) = replies.last() else { panic!("a step has commands") };
            let replies = match last {
                Value::Array(replies) if step.is_unit() => replies.clone(),
                other => vec![other.clone()],
            };
            assert_eq!(replies.len(), step.commands.len(), "{:?}: {replies:?}", step.commands);
            let mut note = Note { step, sent, answered, epoch: 0, is_swapped: false, raised: None };
            note.learn(&replies, role, notes.len() as u64 + 1);
            notes.push(note);
        }
    }
    Writer { role, notes }
}

impl Note {
    /// Takes from the replies what they tell of when it happened.
    fn learn(&mut self, replies: &[Value], role: Role, number: u64) {
        if role == Role::Flusher {
            self.epoch = number;
        }
        for (command, reply) in self.step.commands.iter().zip(replies) {
            assert!(!matches!(reply, Value::Error(_)), "{command:?}: {reply:?}");
            match [command[0].as_str(), command.get(1).map_or("", String::as_str)] {
                ["GET", EPOCH] => self.epoch = number_of(reply),
                ["GET", SWAPS] => self.is_swapped = number_of(reply) % 2 == 1,
                ["INCR", key] => self.raised = Some((key.to_owned(), number_of(reply))),
                _ => {}
            }
        }
    }
}

/// A number, 0 where there is none.
fn number_of(reply: &Value) -> u64 {
    match reply {
        Value::Null => 0,
        Value::Integer(number) => u64::try_from(*number).expect("nothing is below 0"),
        other => text(other).parse().expect("a number"),
    }
}

/// Looks at what all write.
fn watch(mut client: Client, watched: &[String], common: &Common) -> Vec<Sight> {
    let words: Vec<&str> =
        ["MGET", EPOCH].into_iter().chain(watched.iter().map(String::as_str)).collect();
    let mut sights = Vec::new();
    while !common.is_over.load(Ordering::SeqCst) {
        let sent = common.now();
        let Value::Array(values) = client.call(&words) else { panic!("MGET gives an array") };
        let answered = common.now();
        let numbers: Vec<u64> = values.iter().map(number_of).collect();
        sights.push(Sight { sent, answered, epoch: numbers[0], numbers: numbers[1..].to_vec() });
        thread::sleep(Duration::from_millis(1));
    }
    sights
}

/// What a real server finds in a snapshot, by DEBUG.
#[must_use]
pub fn look(oracle: &Server, snapshot: &Snapshot) -> State {
    let file = oracle.folder().join("dump.rdb");
    std::fs::write(file, &snapshot.bytes).expect("its folder can be written to");
    let mut client = oracle.client();
    assert_eq!(client.call(&["DEBUG", "RELOAD", "NOSAVE"]), Value::Simple(b"OK".to_vec()));
    (0..3).flat_map(|database| look_into(&mut client, database)).collect()
}

fn look_into(client: &mut Client, database: usize) -> Vec<((usize, String), String)> {
    client.call(&["SELECT", &database.to_string()]);
    let Value::Array(keys) = client.call(&["KEYS", "*"]) else { panic!("KEYS gives an array") };
    // What passes may be gone at any time.
    let keys = keys.iter().map(text).filter(|key| !key.ends_with(":passing"));
    let keys: Vec<String> = keys.collect();
    let ask = |words: &[&str], key: &str| -> Vec<String> {
        let words = words.iter().map(|word| if *word == "KEY" { key } else { word });
        words.map(str::to_owned).collect()
    };
    let of_all = |words: &[&str]| keys.iter().map(|key| ask(words, key)).collect::<Vec<_>>();
    let kinds = client.pipeline(&of_all(&["TYPE", "KEY"]));
    let deadlines = client.pipeline(&of_all(&["PEXPIRETIME", "KEY"]));
    let reads = keys.iter().zip(&kinds).map(|(key, kind)| match text(kind).as_str() {
        "string" => ask(&["GET", "KEY"], key),
        "list" => ask(&["LRANGE", "KEY", "0", "-1"], key),
        "hash" => ask(&["HGETALL", "KEY"], key),
        "zset" => ask(&["ZRANGE", "KEY", "0", "-1", "WITHSCORES"], key),
        other => panic!("{key} is a {other}"),
    });
    let values = client.pipeline(&reads.collect::<Vec<_>>());
    let shown = keys.iter().zip(kinds.iter().zip(deadlines)).zip(&values);
    let shown = shown.map(|((key, (kind, deadline)), value)| {
        let mut words: Vec<String> = match value {
            Value::Array(values) => values.iter().map(text).collect(),
            one => vec![text(one)],
        };
        if ["hash", "zset"].contains(&text(kind).as_str()) {
            words = words.chunks(2).map(|pair| pair.join("=")).collect();
            words.sort();
        }
        if let Value::Integer(deadline @ 0..) = deadline {
            words.extend(["until".to_owned(), deadline.to_string()]);
        }
        ((database, key.clone()), words.join(" "))
    });
    shown.collect()
}
