//! Ways in which a key goes, times the observers that must hear of it. Invariant: watchers, keepers
//! of copies, listeners, waiters, and the log are told by every way, as by a real server.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use base::quote::split_arguments;
use proto::value::Value;
use tests::client::line;
use tests::render::{render, text};
use tests::server::eventually;
use tests::watching::{is_aborted, say};
use tests::{Client, Oracle, Server};

/// How the key `k` comes to be, and how it goes.
struct Way {
    before: &'static str,
    act: Act,
}

enum Act {
    /// By these commands of another client.
    Say(&'static str),
    /// The key expires: once its time is over, by these commands, or by itself where there are
    /// none.
    Expire(&'static str),
    /// The key is evicted under this policy.
    Evict(&'static str),
}

use Act::{Evict, Expire, Say};

/// So long is left to watch a key that expires.
const LIFE: Duration = Duration::from_millis(400);

const fn way(before: &'static str, act: Act) -> Way {
    Way { before, act }
}

/// A payload of DUMP is said with this.
const PAYLOAD: &str = "PAYLOAD";

const WAYS: &[Way] = &[
    way("SET k v", Evict("allkeys-lru")),
    way("SET k v", Evict("allkeys-lfu")),
    way("SET k v", Evict("allkeys-random")),
    way("SET k v EX 1000", Evict("volatile-lru")),
    way("SET k v EX 1000", Evict("volatile-lfu")),
    way("SET k v EX 1000", Evict("volatile-random")),
    way("SET k v EX 1000", Evict("volatile-ttl")),
    way("SADD k a b", Evict("allkeys-lru")),
    way(STREAM, Evict("allkeys-lru")),
    way("SET k v PX 400", Expire("")),
    way("SET k v PX 400", Expire("GET k")),
    way("SET k v PX 400", Expire("EXISTS k")),
    way("SET k v PX 400", Expire("SET k w")),
    way("SET k v PX 400", Expire("DEL k")),
    way("SET k v PX 400", Expire("EXPIRE k 100")),
    way("SET k v PX 400", Expire("MULTI; GET k; EXEC")),
    way("SET k v PX 400", Expire("EVAL \"return redis.call('GET', KEYS[1])\" 1 k")),
    way("RPUSH k a; PEXPIRE k 400", Expire("LRANGE k 0 -1")),
    way("XADD k 1-1 a b; XGROUP CREATE k g $; PEXPIRE k 400", Expire("")),
    way("XADD k 1-1 a b; XGROUP CREATE k g $; PEXPIRE k 400", Expire("EXISTS k")),
    way("HSET k f v; HPEXPIRE k 400 FIELDS 1 f", Expire("")),
    way("SET k v", Say("EXPIRE k -1")),
    way("SET k v", Say("PEXPIREAT k 1")),
    way("SET k v", Say("GETEX k PXAT 1")),
    way("SET k v", Say("SET k v PXAT 1")),
    way("HSET k f v", Say("HEXPIRE k 0 FIELDS 1 f")),
    way("HSET k f v", Say("HGETDEL k FIELDS 1 f")),
    way("HSET k f v", Say("HGETEX k PXAT 1 FIELDS 1 f")),
    way("SET k v", Say("DEL k")),
    way("SET k v", Say("UNLINK k")),
    way("SET k v", Say("GETDEL k")),
    way("SET k v", Say("SET k w")),
    way("SADD k a", Say("SET k w")),
    way("SET k v", Say("RENAME k other")),
    way("SET k v; SET o w", Say("RENAME o k")),
    way("SET k v", Say("MOVE k 1")),
    way("SET k v; SET o w", Say("COPY o k REPLACE")),
    way("SET k v", Say("RESTORE k 0 PAYLOAD REPLACE")),
    way("SET k v", Say("RESTORE k 1 PAYLOAD REPLACE ABSTTL")),
    way("SET k v", Say("SWAPDB 0 1")),
    way("SET k v", Say("SWAPDB 1 0")),
    way("SET k v", Say("FLUSHDB")),
    way("SET k v", Say("FLUSHDB ASYNC")),
    way("SET k v", Say("FLUSHALL")),
    way("SET k v", Say("FLUSHALL ASYNC")),
    way("SET k v", Say("DEBUG RELOAD")),
    way("SET k v", Say("DEBUG RELOAD NOSAVE")),
    way("SET k v", Say("DEBUG LOADAOF")),
    way("SET k v", Say("MULTI; DEL k; EXEC")),
    way("SET k v", Say("MULTI; DEL k; SET k v; EXEC")),
    way("SET k v", Say("EVAL \"return redis.call('DEL', 'k')\" 0")),
    way("RPUSH k a", Say("LPOP k")),
    way("RPUSH k a", Say("RPOP k 5")),
    way("RPUSH k a", Say("LREM k 0 a")),
    way("RPUSH k a", Say("LTRIM k 1 0")),
    way("RPUSH k a", Say("LMOVE k o LEFT LEFT")),
    way("RPUSH k a", Say("LMPOP 1 k LEFT")),
    way("RPUSH k a", Say("BLPOP k 0")),
    way("SADD k a", Say("SREM k a")),
    way("SADD k a", Say("SPOP k")),
    way("SADD k a", Say("SPOP k 5")),
    way("SADD k a", Say("SMOVE k o a")),
    way("SADD k a", Say("SINTERSTORE k nosuch")),
    way("SET k a", Say("SORT nosuch STORE k")),
    way("SET k a", Say("BITOP NOT k nosuch")),
    way("HSET k f v", Say("HDEL k f")),
    way("ZADD k 1 a", Say("ZREM k a")),
    way("ZADD k 1 a", Say("ZPOPMIN k")),
    way("ZADD k 1 a", Say("BZMPOP 0 1 k MIN")),
    way("ZADD k 1 a", Say("ZREMRANGEBYRANK k 0 -1")),
    way("ZADD k 1 a", Say("ZRANGESTORE k nosuch 0 -1")),
    way("ZADD k 1 a", Say("ZUNIONSTORE k 1 nosuch")),
    way("GEOADD k 1 1 a", Say("GEOSEARCHSTORE k nosuch FROMLONLAT 1 1 BYRADIUS 1 m")),
    way(STREAM, Say("DEL k")),
    way(STREAM, Say("UNLINK k")),
    way(STREAM, Say("SET k v")),
    way(STREAM, Say("RENAME k other")),
    way("XADD k 1-1 a b; XGROUP CREATE k g $; SET o w", Say("RENAME o k")),
    way("XADD k 1-1 a b; XGROUP CREATE k g $; SET o w", Say("COPY o k REPLACE")),
    way(STREAM, Say("RESTORE k 0 PAYLOAD REPLACE")),
    way(STREAM, Say("MOVE k 1")),
    way(STREAM, Say("SWAPDB 0 1")),
    way(STREAM, Say("FLUSHDB")),
    way(STREAM, Say("FLUSHALL")),
    way(STREAM, Say("EXPIRE k -1")),
    way(STREAM, Say("SINTERSTORE k nosuch")),
    way(STREAM, Say("MULTI; DEL k; EXEC")),
    way(STREAM, Say("EVAL \"return redis.call('DEL', 'k')\" 0")),
];

const STREAM: &str = "XADD k 1-1 a b; XGROUP CREATE k g $";

/// What each audience heard.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    /// EXEC after a WATCH of the key was refused.
    watcher: bool,
    /// A client that had read it was told that its copy is old.
    reader: BTreeSet<String>,
    /// So was one that wants to hear of all keys.
    caster: BTreeSet<String>,
    /// The events of the key, in order.
    listener: Vec<String>,
    /// What the client got that waits for entries of the stream.
    waiter: Option<String>,
    /// The log names the key, or all keys.
    log: bool,
}

/// The observers, on one server.
struct House<'server> {
    server: &'server Server,
    actor: Client,
    watcher: Client,
    reader: Client,
    caster: Client,
    listener: Client,
    payload: Vec<u8>,
    /// What the reader was told before a reply.
    early: BTreeSet<String>,
    marks: usize,
}

impl<'server> House<'server> {
    fn new(server: &'server Server) -> Self {
        let [mut actor, mut watcher, mut listener] = [(); 3].map(|()| server.client());
        let [mut reader, mut caster] = [(); 2].map(|()| server.client3());
        say(&mut actor, "CONFIG SET notify-keyspace-events KEA");
        say(&mut actor, "SET payload text");
        let payload = actor.call(&["DUMP", "payload"]).as_bytes().expect("a string").to_vec();
        say(&mut watcher, "PING");
        say(&mut reader, "CLIENT TRACKING ON");
        say(&mut caster, "CLIENT TRACKING ON BCAST");
        say(&mut listener, "PSUBSCRIBE __keyevent@0__:* mark*");
        listener.receive();
        Self {
            server,
            actor,
            watcher,
            reader,
            caster,
            listener,
            payload,
            early: BTreeSet::new(),
            marks: 0,
        }
    }

    fn hear(&mut self, way: &Way) -> Heard {
        loop {
            say(&mut self.actor, "CONFIG SET maxmemory 0; FLUSHALL; SELECT 0");
            say(&mut self.actor, "DEBUG SET-ACTIVE-EXPIRE 0");
            let began = Instant::now();
            say(&mut self.actor, way.before);
            let mut waiter = (way.before.starts_with("XADD")).then(|| self.wait());
            say(&mut self.watcher, "WATCH k");
            self.read(&["k"]);
            self.mark();
            self.early.clear();
            self.told();
            let logged = self.log().len();
            if matches!(way.act, Expire(_)) && began.elapsed() > LIFE / 2 {
                // Too slow: the waiter may have gone by now.
                drop(waiter);
                say(&mut self.watcher, "UNWATCH");
                continue;
            }
            self.read(&["k"]);
            self.act(&way.act, began);
            say(&mut self.actor, "SELECT 0");
            self.mark();
            let mut heard = self.told();
            // The reply to the mark came when all of it was on the disk.
            heard.log = self.log()[logged..].iter().any(|line| tells_of_departure(line));
            heard.waiter = waiter.as_mut().map(|waiter| render(&waiter.receive()));
            heard.watcher = is_aborted(&say(&mut self.watcher, "MULTI; PING; EXEC"));
            say(&mut self.actor, "CONFIG SET maxmemory 0; SELECT 1; FLUSHDB; SELECT 0");
            return heard;
        }
    }

    /// Has the reader read some keys; the reader may be told of others before the reply.
    fn read(&mut self, keys: &[&str]) {
        self.reader.send(&[&["EXISTS"], keys].concat());
        while let Value::Push(items) = self.reader.receive() {
            self.early.extend(keys_of(&items));
        }
    }

    fn wait(&mut self) -> Client {
        let mut waiter = self.server.client();
        let id = waiter.id();
        waiter.send(&["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "k", ">"]);
        eventually("the client waits", || {
            let line = self.actor.call(&["CLIENT", "LIST", "ID", &id]);
            text(&line).contains("flags=b")
        });
        waiter
    }

    fn act(&mut self, act: &Act, began: Instant) {
        match act {
            Say(commands) => self.say(commands),
            Expire(commands) => {
                std::thread::sleep((LIFE + LIFE / 8).saturating_sub(began.elapsed()));
                if commands.is_empty() {
                    say(&mut self.actor, "DEBUG SET-ACTIVE-EXPIRE 1");
                    let actor = &mut self.actor;
                    eventually("it is gone", || say(actor, "DBSIZE") == Value::Integer(1));
                }
                self.say(commands);
            }
            Evict(policy) => {
                say(&mut self.actor, &format!("CONFIG SET maxmemory-policy {policy} maxmemory 1"));
                let actor = &mut self.actor;
                eventually("it is gone", || say(actor, "EXISTS k") == Value::Integer(0));
                say(&mut self.actor, "CONFIG SET maxmemory 0");
            }
        }
    }

    fn say(&mut self, commands: &str) {
        for command in commands.split(';').map(str::trim).filter(|it| !it.is_empty()) {
            let mut words = split_arguments(command.as_bytes()).expect("quotes are balanced");
            for word in &mut words {
                if *word == PAYLOAD.as_bytes() {
                    word.clone_from(&self.payload);
                }
            }
            let reply = self.actor.call(&words);
            assert!(!matches!(reply, Value::Error(_)), "{command}: {}", render(&reply));
        }
    }

    /// What comes behind this is not of the way.
    fn mark(&mut self) {
        self.marks += 1;
        let mark = format!("mark{}", self.marks);
        // Where all is flushed, nobody is told of anything read before.
        self.read(&[&mark]);
        say(&mut self.actor, &format!("SET {mark} 1; PUBLISH {mark} 1"));
    }

    /// What was told up to the mark.
    fn told(&mut self) -> Heard {
        let mark = format!("mark{}", self.marks);
        let mut reader = keys_until(&mark, &mut self.reader);
        reader.append(&mut self.early);
        let mut caster = keys_until(&mark, &mut self.caster);
        // A client that forgot all need not be told of one.
        if caster.contains("*") {
            caster = BTreeSet::from(["*".to_owned()]);
        }
        let mut listener = Vec::new();
        loop {
            let Value::Array(items) = self.listener.receive() else { panic!("a message") };
            let [channel, payload] = [&items[2], &items[3]].map(text);
            if channel == mark {
                break;
            }
            if !payload.starts_with("mark") {
                listener.push(format!("{channel} {payload}"));
            }
        }
        Heard { reader, caster, listener, ..Heard::default() }
    }

    /// The commands in the log's present increment.
    fn log(&self) -> Vec<String> {
        let folder = self.server.folder().join("appendonlydir");
        let names = std::fs::read_dir(folder).expect("the log has a folder");
        let mut names: Vec<_> = names.map(|entry| entry.expect("readable").path()).collect();
        names.retain(|path| path.to_string_lossy().ends_with(".incr.aof"));
        names.sort();
        let bytes = names.iter().flat_map(|path| std::fs::read(path).expect("readable"));
        commands_of(&bytes.collect::<Vec<u8>>())
    }
}

/// Whether a command of the log is of the key, or of all keys.
fn tells_of_departure(line: &str) -> bool {
    line.starts_with("FLUSH") || line.starts_with("SWAPDB") || line.split(' ').any(|it| it == "k")
}

/// The commands of a log, as one would type them.
fn commands_of(mut log: &[u8]) -> Vec<String> {
    let mut commands = Vec::new();
    while !log.is_empty() {
        let end = log.iter().position(|&byte| byte == b'\n').expect("a whole line");
        let (head, rest) = log.split_at(end + 1);
        log = rest;
        if head[0] == b'#' {
            continue;
        }
        let number =
            |line: &[u8]| String::from_utf8_lossy(line)[1..].trim().parse().expect("a number");
        let count: usize = number(head);
        let mut words = Vec::new();
        for _ in 0..count {
            let end = log.iter().position(|&byte| byte == b'\n').expect("a whole line");
            let length: usize = number(&log[..end]);
            words.push(log[end + 1..end + 1 + length].to_vec());
            log = &log[end + 1 + length + 2..];
        }
        commands.push(line(&words));
    }
    commands
}

/// The keys that a client is told of until the mark.
fn keys_until(mark: &str, client: &mut Client) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    loop {
        let Value::Push(items) = client.receive() else { panic!("a push message") };
        let mut told = keys_of(&items);
        let is_mark = told.remove(mark);
        keys.extend(told.into_iter().filter(|key| !key.starts_with("mark")));
        if is_mark {
            return keys;
        }
    }
}

/// The keys of a push message, `*` for all.
fn keys_of(items: &[Value]) -> BTreeSet<String> {
    match &items[1] {
        Value::Array(names) => names.iter().map(text).collect(),
        _ => BTreeSet::from(["*".to_owned()]),
    }
}

fn hear_all(server: &Server) -> Vec<Heard> {
    let mut house = House::new(server);
    WAYS.iter().map(|way| house.hear(way)).collect()
}

#[test]
fn every_audience_hears_of_every_way() {
    const DURABLE: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];
    let arguments = [DURABLE, &["--enable-debug-command", "yes"]].concat();
    let [ours, theirs] = &Oracle::Redis82.beside(&arguments);
    let (ours, theirs) = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| hear_all(theirs));
        (hear_all(ours), theirs.join().expect("a real server behaves"))
    });
    let mut wrong = Vec::new();
    for (way, (ours, mut theirs)) in WAYS.iter().zip(ours.iter().zip(theirs)) {
        let act = match way.act {
            Say(commands) => commands.to_owned(),
            Expire(commands) => format!("(expires) {commands}"),
            Evict(policy) => format!("(is evicted by {policy})"),
        };
        if act.starts_with("SWAPDB") {
            // Redis leaves old copies where they are.
            let all = || BTreeSet::from(["*".to_owned()]);
            (theirs.reader, theirs.caster) = (all(), all());
        }
        if act == "DEBUG LOADAOF" {
            // Redis tells of what it does again.
            theirs.listener.clear();
        }
        let is_whole = ours.watcher && !ours.reader.is_empty() && !ours.caster.is_empty();
        // What is loaded again from the log is there already.
        let is_logged = ours.log || act.starts_with("DEBUG");
        if *ours != theirs || !is_whole || !is_logged {
            wrong.push(format!("{}; {act}\nours:   {ours:?}\ntheirs: {theirs:?}", way.before));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
