//! Units and all that can be seen of them: replies, data, messages, notices, what is watched, which
//! waiters are served, what is counted and logged.
//!
//! Invariant: two servers on which the same units ran, one after the other, show the same.

mod beside;
mod draw;

use std::fmt::Write;
use std::time::Duration;

use proto::value::Value;

pub use beside::{as_told_by_both, for_redis};
pub use draw::{Draw, Words};

use crate::client::{Arrival, Client, encode, line};
use crate::render::{render, text};
use crate::server::{Oracle, Server, eventually};

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server with all clients that look at what a unit does.
pub struct Stage {
    /// The server.
    pub server: Server,
    actor: Client,
    /// The client that looks.
    pub admin: Client,
    /// What the waiters ask for.
    waits: [&'static [&'static str]; 4],
    /// With their ids.
    pub waiters: Vec<(Client, String)>,
    watcher: Client,
    /// A subscriber, a broadcast tracker and a monitor.
    listeners: Vec<Client>,
    /// How many lines of the log were there before.
    markers: usize,
    /// How many lines were put behind those of units.
    fences: usize,
}

const WAITS: [&[&str]; 4] = [
    &["BLMOVE", "q", "dst", "LEFT", "LEFT", "0"],
    &["BLPOP", "q", "new", "0"],
    &["BZPOPMIN", "z", "0"],
    &["XREAD", "BLOCK", "0", "STREAMS", "x", "$"],
];

impl Stage {
    /// A stage where all is ready.
    pub fn new(appendfsync: &str) -> Self {
        let workers = ["--worker-threads", "2"];
        Self::of(Server::start(&[&workers[..], &Self::arguments(appendfsync)[..]].concat()))
    }

    /// One on Apus, and the same on Redis.
    pub fn beside_redis() -> [Self; 2] {
        let stages = [Self::new("no"), Self::of(Oracle::Redis82.start(&Self::arguments("no")))];
        stages.map(|stage| {
            // Where two keys of a waiter are ready at once it has here the first that was written,
            // as documented, and in Redis the first that it named.
            Self { waits: [WAITS[0], &["BLPOP", "new", "0"], WAITS[2], WAITS[3]], ..stage }
        })
    }

    fn arguments(appendfsync: &str) -> [&str; 10] {
        [
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            appendfsync,
            "--enable-debug-command",
            "yes",
            "--auto-aof-rewrite-percentage",
            "0",
        ]
    }

    fn of(server: Server) -> Self {
        let (actor, admin) = (server.client3(), server.client());
        let (watcher, listeners, waiters) = (server.client(), Vec::new(), Vec::new());
        let waits = WAITS;
        let mut stage = Self {
            server,
            actor,
            admin,
            waits,
            waiters,
            watcher,
            listeners,
            markers: 0,
            fences: 0,
        };
        stage.set_up();
        stage
    }

    /// Begins an episode: the same for all stages.
    pub fn set_up(&mut self) {
        self.furnish();
        self.connect();
    }

    /// Begins an episode on two servers that number their clients alike from here on.
    pub fn set_up_alike(stages: &mut [Self; 2]) {
        stages.iter_mut().for_each(Self::furnish);
        Self::number_alike(stages);
        stages.iter_mut().for_each(Self::connect);
    }

    /// Has the next clients of both servers get the same numbers: a number is taken for good by
    /// each connection, and Redis takes some for itself.
    pub fn number_alike(stages: &mut [Self; 2]) {
        let next = |stage: &Self| stage.server.client().id().parse::<u64>().expect("a number");
        let [ours, theirs] = stages;
        let (mut our, mut their) = (next(ours), next(theirs));
        while our != their {
            match our < their {
                true => our = next(ours),
                false => their = next(theirs),
            }
        }
    }

    /// Empties the server, and puts in what units find.
    fn furnish(&mut self) {
        let admin = &mut self.admin;
        for words in [
            &["FLUSHALL"][..],
            &["SELECT", "0"],
            &["FUNCTION", "FLUSH"],
            &["SCRIPT", "FLUSH"],
            &["ACL", "SETUSER", "default", "+@all"],
            &["ACL", "DELUSER", "guest"],
            &["ACL", "SETUSER", ONLOOKER, "on", "nopass", "~*", "&*", "+@all"],
            &["ACL", "LOG", "RESET"],
            &["CONFIG", "SET", "notify-keyspace-events", "KEA", "slowlog-max-len", "128"],
            &["SET", "s", "text"],
            &["SET", "n", "5"],
            &["RPUSH", "l", "3", "1", "2"],
            &["HSET", "h", "1", "1", "2", "2"],
            &["ZADD", "dst", "1", "a"],
            &["SADD", "u", "1", "2", "3"],
            &["XADD", "x", "1-1", "f", "v"],
            &["DEL", "dst"],
            &["SAVE"],
        ] {
            admin.call(words);
        }
    }

    /// Has everybody come anew.
    fn connect(&mut self) {
        let server = &self.server;
        self.actor = server.client3();
        self.watcher = onlooker(server.client());
        let mut subscriber = onlooker(server.client3());
        subscriber.call(&["PSUBSCRIBE", "*"]);
        let mut tracker = onlooker(server.client3());
        tracker.call(&["CLIENT", "TRACKING", "ON", "BCAST"]);
        tracker.call(&["SUBSCRIBE", "fence"]);
        let mut monitor = onlooker(server.client());
        monitor.call(&["MONITOR"]);
        self.listeners = vec![subscriber, tracker, monitor];
        self.waiters.clear();
        self.wait_anew();
    }

    /// Has as many wait as ever.
    pub fn wait_anew(&mut self) {
        self.admin.call(&["DEL", "q", "new", "z", "x"]);
        for words in self.waits {
            let mut client = onlooker(self.server.client());
            let id = client.id();
            client.send(words);
            let admin = &mut self.admin;
            eventually("the client waits", || {
                let told = text(&admin.call(&["CLIENT", "LIST", "ID", &id]));
                told.contains("flags=b") || !told.contains("id=")
            });
            self.waiters.push((client, id));
        }
    }

    /// Sends a unit whose connection may be closed before it is answered.
    pub fn attempt(&mut self, unit: &[Words]) {
        for words in unit {
            let words = self.named(words);
            if self.actor.try_call(&words).is_err() {
                return;
            }
        }
    }

    /// Words with the ids of the waiters.
    fn named(&self, words: &[String]) -> Words {
        let [first, second] = [0, 1].map(|at| self.waiters[at].1.as_str());
        words.iter().map(|it| it.replace("{w0}", first).replace("{w1}", second)).collect()
    }

    /// Runs a unit, and tells all that anybody can see of it.
    pub fn perform(&mut self, unit: &[Words]) -> Vec<(String, String)> {
        let mut seen = Vec::new();
        let watched = ["s", "l", "new"];
        self.watcher.call(&["UNWATCH"]);
        self.watcher.call(&[&["WATCH"][..], &watched[..]].concat());
        for words in unit {
            let words = self.named(words);
            self.actor.send(&words);
            let reply = self.reply(&words, &mut seen);
            let is_closed = reply == CLOSED;
            seen.push((line(&words), mask(&reply)));
            if is_closed {
                self.actor = self.server.client3();
                break;
            }
        }
        self.look(&mut seen, !swaps(unit));
        seen
    }

    /// All data, in the same words on all servers.
    pub fn data(&mut self) -> String {
        text(&self.admin.call(&["EVAL", TELL_DATA, "0"]))
    }

    /// The reply of the actor; messages that come before it are seen, too.
    fn reply(&mut self, words: &[String], seen: &mut Vec<(String, String)>) -> String {
        loop {
            match self.actor.arrival(PATIENCE) {
                Ok(Arrival::Reply(message @ Value::Push(_))) => {
                    let told = render(&message);
                    if words[0].contains("SUBSCRIBE") {
                        return told;
                    }
                    seen.push(("a message".to_owned(), told));
                }
                Ok(Arrival::Reply(reply)) => return render(&reply),
                Ok(Arrival::Silence) => panic!("{} is not answered", line(words)),
                Ok(Arrival::Closed) | Err(_) => return CLOSED.to_owned(),
            }
        }
    }

    /// Looks at everything; whether what is told comes in one order on all servers.
    fn look(&mut self, seen: &mut Vec<(String, String)>, in_order: bool) {
        let mut tell = |what: &str, told: String| seen.push((what.to_owned(), told));
        self.admin.call(&["PUBLISH", "fence", "here"]);
        for (at, listener) in self.listeners.iter_mut().enumerate() {
            let mut heard = Vec::new();
            loop {
                let message = render(&listener.receive());
                if message.contains("fence") {
                    break;
                }
                // MONITOR tells times and ports.
                let message = message.split(']').next_back().unwrap_or_default().to_owned();
                heard.push(mask(&message));
            }
            if !in_order {
                heard.sort_unstable();
            }
            tell(&format!("listener {at}"), heard.join("\n"));
        }
        // A waiter that was served has the reply. A waiter that was not is unblocked.
        for (at, (client, id)) in std::mem::take(&mut self.waiters).into_iter().enumerate() {
            let (mut client, id) = (client, id);
            let unblocked = render(&self.admin.call(&["CLIENT", "UNBLOCK", &id]));
            tell(&format!("waiter {at} was waiting"), unblocked);
            tell(&format!("waiter {at}"), mask(&render(&client.receive())));
        }
        self.watcher.call(&["MULTI"]);
        tell("watcher", render(&self.watcher.call(&["EXEC"])));
        for words in [
            &["DEBUG", "DIGEST"][..],
            &["DBSIZE"],
            &["FUNCTION", "LIST"],
            &["SCRIPT", "EXISTS", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"],
            &["CONFIG", "GET", "slowlog-max-len"],
            &["CONFIG", "GET", "notify-keyspace-events"],
            &["ACL", "LIST"],
            &["PUBSUB", "CHANNELS"],
            &["PUBSUB", "NUMPAT"],
            &["PUBSUB", "SHARDCHANNELS"],
        ] {
            tell(&line(words), sorted(&render(&self.admin.call(words))));
        }
        let mut messages = Vec::new();
        let id = self.actor_id(&mut messages);
        messages.into_iter().for_each(|told| tell("a message", told));
        let told = text(&self.admin.call(&["CLIENT", "LIST", "ID", &id]));
        for field in
            ["name=", "flags=", "db=", "sub=", "psub=", "ssub=", "multi=", "user=", "resp="]
        {
            let value = told.split(' ').find(|word| word.starts_with(field)).unwrap_or_default();
            tell("the session", value.to_owned());
        }
        let info = text(&self.admin.call(&["INFO", "everything"]));
        for counted in info.lines().filter(|line| is_counted(line)) {
            let (what, figures) = counted.split_once(':').expect("INFO tells fields");
            let lasting = figures.split(',').filter(|figure| !figure.starts_with("usec"));
            tell(what, lasting.collect::<Vec<_>>().join(","));
        }
        let denied = text_of_denied(&self.admin.call(&["ACL", "LOG", "128"]));
        tell("ACL LOG", denied);
        let markers = self.logged_markers();
        seen.push(("markers".to_owned(), (markers - self.markers).to_string()));
        self.markers = markers;
        self.admin.call(&["CONFIG", "RESETSTAT"]);
    }

    /// How many lines units have logged. What comes behind them is there, so they are.
    fn logged_markers(&mut self) -> usize {
        self.fences += 1;
        let fence = format!("fence {} of the log", self.fences);
        let script = "redis.log(redis.LOG_WARNING, ARGV[1])";
        self.admin.call(&["EVAL", script, "0", &fence]);
        self.server.wait_for_log(&fence);
        self.server.log().matches("MARKER").count()
    }

    /// The number of the actor; what it was told before.
    fn actor_id(&mut self, messages: &mut Vec<String>) -> String {
        // The actor may be closed behind its last reply.
        let mut is_open = self.actor.try_send_raw(&encode(&["ECHO", "who"])).is_ok();
        while is_open {
            match self.actor.arrival(PATIENCE) {
                Ok(Arrival::Reply(Value::Bulk(_) | Value::Error(_))) => break,
                Ok(Arrival::Reply(message)) => messages.push(render(&message)),
                Ok(Arrival::Silence) => panic!("ECHO is not answered"),
                Ok(Arrival::Closed) | Err(_) => is_open = false,
            }
        }
        if !is_open {
            messages.push(CLOSED.to_owned());
            self.actor = self.server.client3();
            return "0".to_owned();
        }
        let list = text(&self.admin.call(&["CLIENT", "LIST"]));
        let last = list.lines().find(|line| line.contains("cmd=echo")).unwrap_or_default();
        last.split(' ').find_map(|word| word.strip_prefix("id=")).unwrap_or("0").to_owned()
    }
}

/// All keys of both databases with what is in them, in the same words on all servers.
const TELL_DATA: &str = "local told = {} \
    local read = {string = {'GET'}, list = {'LRANGE', 0, -1}, hash = {'HGETALL'}, \
        set = {'SMEMBERS'}, zset = {'ZRANGE', 0, -1, 'WITHSCORES'}, stream = {'XRANGE', '-', '+'}} \
    for database = 0, 1 do redis.call('SELECT', database) \
    for _, key in ipairs(redis.call('KEYS', '*')) do \
        local kind = redis.call('TYPE', key).ok \
        local words = read[kind] \
        local value = redis.call(words[1], key, unpack(words, 2)) \
        local function flat(it) if type(it) ~= 'table' then return tostring(it) end \
            local all = {} for at, one in ipairs(it) do all[at] = flat(one) end \
            if kind == 'set' then table.sort(all) end \
            return '[' .. table.concat(all, ' ') .. ']' end \
        if kind == 'hash' then local pairs = {} for at = 1, #value, 2 do \
            pairs[#pairs + 1] = value[at] .. '=' .. value[at + 1] end \
            table.sort(pairs) value = pairs end \
        told[#told + 1] = database .. ' ' .. key .. ' ' .. flat(value) .. ' ' .. \
            redis.call('EXPIRETIME', key) \
    end end table.sort(told) return table.concat(told, '\\n')";

/// Whether a unit swaps databases: a client that waits in them is then served key by key in the
/// order of their hashes, which are each server's own.
fn swaps(unit: &[Words]) -> bool {
    unit.iter().flatten().any(|word| word.to_lowercase().contains("swapdb"))
}

/// Ids of clients and of time are each server's own.
fn mask(reply: &str) -> String {
    let is_long = |word: &str| word.len() >= 10 && word.bytes().all(|byte| byte.is_ascii_digit());
    let masked = reply.split(|it: char| !it.is_ascii_digit()).filter(|word| is_long(word));
    masked.fold(reply.to_owned(), |text, word| text.replace(word, "(a time)"))
}

/// What is told in no order, with its lines in one.
fn sorted(told: &str) -> String {
    let mut lines: Vec<&str> = told.lines().map(text_of).collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// A line without the numbers of the lists that it begins in.
fn text_of(line: &str) -> &str {
    let line = line.trim_start();
    let rest = line.trim_start_matches(|it: char| it.is_ascii_digit());
    match rest.strip_prefix([')', '#', '~', '>']).and_then(|rest| rest.strip_prefix(' ')) {
        Some(rest) if rest.len() + 2 < line.len() => text_of(rest),
        _ => line,
    }
}

/// Whether this is a count.
fn is_counted(line: &str) -> bool {
    const COUNTED: [&str; 8] = [
        "errorstat_",
        "total_error_replies",
        "keyspace_hits",
        "keyspace_misses",
        "expired_keys:",
        "acl_access_denied",
        "rdb_changes_since_last_save",
        "tracking_total",
    ];
    let is_of_harness = |name: &str| ["debug", "info", "client|list"].contains(&name);
    let command = line.strip_prefix("cmdstat_").and_then(|rest| rest.split(':').next());
    command.is_some_and(|name| !is_of_harness(name))
        || COUNTED.iter().any(|prefix| line.starts_with(prefix))
}

fn text_of_denied(log: &Value) -> String {
    let shown = render(log);
    let keeps = ["count", "reason", "context", "object", "username"];
    let mut lines = shown.lines().peekable();
    let mut kept = String::new();
    while let Some(line) = lines.next() {
        if keeps.iter().any(|word| line.ends_with(&format!("\"{word}\""))) {
            let _ = writeln!(kept, "{line} {}", lines.peek().unwrap_or(&""));
        }
    }
    kept
}

/// The user of all connections that look on. A unit may change the rights of its own user, and a
/// client that waits as that user is served only when its session has looked at them: a moment
/// later, which no comparison can tell.
const ONLOOKER: &str = "onlooker";

/// The same connection as that user.
fn onlooker(mut client: Client) -> Client {
    client.call(&["AUTH", ONLOOKER, "any"]);
    client
}

/// What is seen of a connection that was closed.
const CLOSED: &str = "(closed)";
