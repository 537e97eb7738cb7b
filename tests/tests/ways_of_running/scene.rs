//! A server with all who look at what a command does, and what they see.
//!
//! Invariant: what is seen is what happened between the last word of the preparation and the first
//! look; what the looking itself leaves is left out, by name, on all servers alike.

use std::time::Duration;

use base::quote::split_arguments;
use proto::value::Value;
use tests::client::field;
use tests::memcached::Connection;
use tests::render::{render, text};
use tests::replication::{await_replica, follow, has_all, promote};
use tests::server::{eventually, free_port};
use tests::{Arrival, Client, Oracle, Server};

use super::acts::{Act, Form};
use super::observers::Observers;
use super::seen::{Effect, Seen, of_info, of_slow_log, told_of_denials};
use super::ways::Way;

/// What is to be over soon is so behind this, or behind twice, four times, .. this.
pub(super) const SOON_LEAST_MS: u64 = 100;

/// Beyond this the machine does not run.
const SOON_MOST_MS: u64 = 60_000;

const COMMON: &[&str] = &[
    "--enable-debug-command",
    "yes",
    "--appendonly",
    "yes",
    "--appendfsync",
    "always",
    "--auto-aof-rewrite-percentage",
    "0",
    "--save",
    "3600 1000000",
    "--stop-writes-on-bgsave-error",
    "no",
    "--slowlog-log-slower-than",
    "0",
    // The holder of a lock calls much.
    "--slowlog-max-len",
    "1000000",
    "--notify-keyspace-events",
    "AEmn",
    "--repl-diskless-sync-delay",
    "0",
    "--repl-ping-replica-period",
    "3600",
    "--lfu-log-factor",
    "0",
    "--lfu-decay-time",
    "0",
];

/// A server and its observers.
pub(super) struct Scene {
    /// The server that is looked at.
    pub(super) server: Server,
    /// Where commands are sent, if that is another.
    upstream: Option<Server>,
    /// A replica, where its copy is looked at.
    follower: Option<Server>,
    /// Ports of memcached and HTTP, where there are any.
    ports: Option<(u16, u16)>,
    pub(super) admin: Client,
    /// The client that has the act run.
    pub(super) actor: Client,
    /// The client that ends a wait.
    pub(super) other: Client,
    holder: Client,
}

impl Scene {
    /// One for this way, on Apus or on a real server.
    pub(super) fn new(way: Way, oracle: Option<Oracle>) -> Self {
        let ports = oracle.is_none().then(|| (free_port(), free_port()));
        let upstream = (way == Way::Stream).then(|| start(oracle, ports, false));
        let server = start(oracle, ports.filter(|_| upstream.is_none()), way != Way::Stream);
        if let Some(upstream) = &upstream {
            follow(&server, upstream.port());
            await_replica(upstream, &server);
        }
        Self::of(server, upstream, ports)
    }

    fn of(server: Server, upstream: Option<Server>, ports: Option<(u16, u16)>) -> Self {
        let [admin, actor, other, holder] = [(); 4].map(|()| server.client());
        let follower = None;
        let mut scene = Self { server, upstream, follower, ports, admin, actor, other, holder };
        if scene.upstream.is_none() {
            scene.ask("BGSAVE");
            let admin = &mut scene.admin;
            eventually("it cannot save", || admin.info("rdb_last_bgsave_status") == "err");
        }
        scene
    }

    /// One of Apus with a replica of its own, but where the server is one.
    pub(super) fn followed(way: Way) -> Self {
        let scene = Self::new(way, None);
        if way == Way::Stream {
            return scene;
        }
        let follower = start(None, None, false);
        follow(&follower, scene.server.port());
        Self { follower: Some(follower), ..scene }
    }

    pub(super) fn is_genuine(&self) -> bool {
        self.server.is_oracle()
    }

    pub(super) fn http_port(&self) -> Option<u16> {
        self.ports.map(|(_, port)| port)
    }

    pub(super) fn memcached(&self) -> Connection {
        Connection::to(self.ports.expect("only ours speaks memcached").0)
    }

    /// Where commands are sent.
    fn source(&self) -> &Server {
        self.upstream.as_ref().unwrap_or(&self.server)
    }

    /// Asks the server that is looked at.
    pub(super) fn ask(&mut self, line: &str) -> String {
        let reply = self.admin.call(&expand(line));
        match &reply {
            Value::Simple(_) | Value::Bulk(_) | Value::Verbatim(..) => text(&reply),
            _ => render(&reply),
        }
    }

    /// Tells the server that commands are sent to; what it answers is no error.
    pub(super) fn ask_words<A: AsRef<[u8]>>(&mut self, words: &[A]) {
        let reply = self.other.call(words);
        assert!(!matches!(reply, Value::Error(_)), "{}", render(&reply));
    }

    /// The keys that a command names.
    pub(super) fn keys(&mut self, words: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let call = [&[b"COMMAND".to_vec(), b"GETKEYS".to_vec()], words].concat();
        match self.source().client().call(&call) {
            Value::Array(keys) => {
                keys.iter().map(|key| key.as_bytes().expect("a key").to_vec()).collect()
            }
            _ => vec![b"t".to_vec()],
        }
    }

    /// Has another client hold the lock of `t` until [`parked`](Self::parked) lets go.
    pub(super) fn hold(&mut self, script: &str) {
        self.ask("CONFIG SET maxclients 4000");
        self.holder.send(&["EVAL", script, "2", "t", "held"]);
        eventually("the keys are held", || {
            let mut probe = self.server.client();
            let id = probe.id();
            probe.send(&["EXISTS", "held"]);
            let arrival = probe.arrival(Duration::from_millis(20));
            self.ask(&format!("CLIENT KILL ID {id}"));
            matches!(arrival, Ok(Arrival::Silence))
        });
    }

    /// Runs a command that waits for the lock of `t` if that is held.
    pub(super) fn parked(&mut self, words: &[Vec<u8>]) -> String {
        if self.is_genuine() {
            return render(&self.actor.call(words));
        }
        let id = self.actor.id();
        let before = self.heard_of(&id);
        self.actor.send(words);
        eventually("the command has come", || self.heard_of(&id) > before);
        self.ask("CONFIG SET maxclients 4321");
        self.holder.receive();
        render(&self.actor.receive())
    }

    /// How many bytes a client has sent.
    pub(super) fn heard_of(&mut self, id: &str) -> u64 {
        let told = self.ask(&format!("CLIENT LIST ID {id}"));
        field(&told, "tot-net-in").parse().expect("a number")
    }

    /// Plays an act in a way; all that is seen of it.
    pub(super) fn play(&mut self, way: Way, act: &Act) -> Seen {
        self.clear();
        if act.changes_role()
            && let Some(follower) = &self.follower
        {
            // The link would end, and come back, in the midst of it.
            promote(follower);
        }
        for line in act.scene {
            self.furnish(line);
        }
        self.sync();
        let mut on = self.look_on(way, act);
        if let Form::Wait(line, _) = act.form {
            self.actor.send(&expand(line));
            let most = 1 + usize::from(on.waiter.is_some());
            let admin = &mut self.admin;
            eventually("it waits", || admin.info("blocked_clients") == most.to_string());
        }
        way.prepare(self);
        let keys = self.keys(&expand(act.line()));
        let changes = self.admin.figure("rdb_changes_since_last_save");
        for line in ["ACL LOG RESET", "SLOWLOG RESET", "CONFIG RESETSTAT"] {
            self.ask(line);
        }
        let [.., shown_before] = self.fence(&mut on);
        if matches!(act.form, Form::Wait(..)) {
            // A command is shown as it begins to wait.
            on.shown = shown_before;
        }
        self.ask("CONFIG RESETSTAT");
        for line in act.gate {
            let told = self.ask(line);
            assert!(told.starts_with("OK"), "{line}: {told}");
        }
        let reply = way.run(self, act, &keys);
        self.sync();
        let mut seen = Seen::default();
        self.count(way, changes, &mut seen);
        seen.add(Effect::Reply, reply);
        seen.add(Effect::Slow, of_slow_log(&self.admin.call(&["SLOWLOG", "GET", "-1"]), way, act));
        seen.add(Effect::Denials, told_of_denials(&self.admin.call(&["ACL", "LOG"])));
        let keeper = self.hear(on, way, &mut seen);
        self.end(way, act, keeper, &mut seen);
        seen
    }

    /// What INFO counts: twice the same, as links count, too, and not all in one moment; and behind
    /// the end of each wait, as the thread of who waited accounts for it.
    fn count(&mut self, way: Way, changes: i64, seen: &mut Seen) {
        eventually("counts stand still", || {
            let told = [(); 2].map(|()| self.ask("INFO everything"));
            let are_served = told.iter().all(|info| {
                let figure = |name| info.lines().find_map(|line| line.strip_prefix(name));
                figure("total_blocking_keys:") != Some("0")
                    || figure("blocked_clients:") == Some("0")
            });
            let [first, second] = told.map(|info| {
                let mut seen = Seen::default();
                of_info(&info, way, changes, &mut seen);
                seen
            });
            let is_steady = are_served && first == second;
            seen.merge(second);
            is_steady
        });
    }

    /// Empty data, and no limits.
    fn clear(&mut self) {
        let [admin, actor, other, holder] = [(); 4].map(|()| self.server.client());
        (self.admin, self.actor, self.other, self.holder) = (admin, actor, other, holder);
        if self.upstream.is_some() {
            let source = self.source();
            (self.actor, self.other) = (source.client(), source.client());
        }
        self.actor.call(&["CLIENT", "SETNAME", "actor"]);
        for words in [
            &["FLUSHDB"][..],
            &["FUNCTION", "FLUSH"],
            &["SCRIPT", "FLUSH"],
            &["MSET", "pad", "one", "pad2", "two"],
        ] {
            self.ask_words(words);
        }
        self.sync();
        assert_eq!(self.ask("CONFIG SET maxmemory-policy noeviction"), "OK");
        assert_eq!(self.ask("DEBUG SET-ACTIVE-EXPIRE 0"), "OK");
        self.ask_words(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    }

    /// What there is before: a line, or a key that was not used for long, or seldom.
    fn furnish(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["CONFIG", ..] => assert_eq!(self.ask(line), "OK"),
            [how @ ("IDLE" | "FREQ"), key, figure] => {
                if self.other.call(&["EXISTS", key]) == Value::Integer(0) {
                    self.ask_words(&["SET", key, "idle"]);
                }
                let Value::Bulk(dump) = self.other.call(&["DUMP", key]) else { panic!("a dump") };
                let how = if how == "IDLE" { "IDLETIME" } else { how };
                let options = [&b"REPLACE"[..], how.as_bytes(), figure.as_bytes()];
                let call = [&[b"RESTORE", key.as_bytes(), b"0", &dump], &options[..]].concat();
                self.ask_words(&call);
            }
            _ => self.ask_words(&expand(line)),
        }
    }

    /// Waits until the server that is looked at has all.
    fn sync(&mut self) {
        if let Some(upstream) = &self.upstream {
            let (mut ours, mut theirs) = (upstream.client(), self.server.client());
            eventually("the replica has everything", || has_all(&mut ours, &mut theirs));
        }
    }

    /// Has all observers come; what is to be over is so behind that.
    fn look_on(&mut self, way: Way, act: &Act) -> Observers {
        let mut soon_ms = SOON_LEAST_MS;
        loop {
            if let Some(on) = self.look_on_in_time(way, act, soon_ms) {
                return on;
            }
            soon_ms *= 2;
            self.ask_words(&["DEL", "t"]);
            for line in act.scene {
                self.furnish(line);
            }
        }
    }

    /// As `look_on`, if that takes no longer than this.
    fn look_on_in_time(&mut self, way: Way, act: &Act, soon_ms: u64) -> Option<Observers> {
        assert!(soon_ms < SOON_MOST_MS, "nothing is in time");
        for line in act.over {
            self.ask_words(&expand(&line.replace("SOON", &soon_ms.to_string())));
        }
        self.sync();
        let on = self.come(way, act);
        if act.over.is_empty() {
            return Some(on);
        }
        // The answers come in time.
        let times = ["PTTL t", "HPTTL t FIELDS 1 f", "HPTTL t FIELDS 1 f7"];
        let is_left = |told: String| {
            let last = told.rsplit(' ').next().expect("a word").parse::<i64>();
            last.is_ok_and(|left| left > 0)
        };
        let is_in_time = times.iter().any(|line| is_left(self.ask(line)));
        is_in_time.then(|| {
            std::thread::sleep(Duration::from_millis(soon_ms + 2));
            on
        })
    }

    fn ask_data(&mut self) -> String {
        text(&self.admin.call(&["EVAL", TELL_DATA, "0"]))
    }

    /// Whether somebody waits.
    pub(super) fn blocked(&mut self) -> Option<()> {
        (self.admin.info("blocked_clients") != "0").then_some(())
    }

    /// Runs an act by a request, and again from the log at a start; what is seen of that. None if
    /// the machine was too slow: what is done again would stand in the log twice.
    pub(super) fn replay(&mut self, act: &Act, soon_ms: u64) -> Option<Seen> {
        self.clear();
        for line in act.scene {
            self.furnish(line);
        }
        drop(self.look_on_in_time(Way::Replay, act, soon_ms)?);
        let keys = self.keys(&expand(act.line()));
        Way::Replay.run(self, act, &keys);
        // What is over may go at a start, if nobody saw it.
        let before = self.ask_data();
        self.server.kill();
        self.server.restart();
        self.admin = self.server.client();
        let mut seen = Seen::default();
        self.count(Way::Replay, 0, &mut seen);
        let slow = self.admin.call(&["SLOWLOG", "GET", "-1"]);
        seen.add(Effect::Slow, of_slow_log(&slow, Way::Replay, act));
        self.end(Way::Replay, act, None, &mut seen);
        assert_eq!(seen.of(Effect::Data), before, "{}: what the log has", act.name);
        Some(seen)
    }

    /// What is left behind the act, once nothing is in the way.
    fn end(&mut self, way: Way, act: &Act, keeper: Option<Client>, seen: &mut Seen) {
        for line in [
            "ACL SETUSER default on nopass ~* &* +@all",
            "CONFIG SET maxmemory 0",
            "CONFIG SET stop-writes-on-bgsave-error no",
        ] {
            assert_eq!(self.ask(line), "OK");
        }
        if act.scene.iter().any(|line| line.starts_with("IDLE") || line.starts_with("FREQ")) {
            let idle = self.admin.call(&["OBJECT", "IDLETIME", "t"]);
            let touched = match idle {
                Value::Integer(seconds) if seconds < 1000 => "used".to_owned(),
                Value::Integer(_) => "idle".to_owned(),
                _ => format!("freq {}", self.ask("OBJECT FREQ t")),
            };
            seen.add(Effect::Touch, touched);
        }
        if act.changes_role() {
            self.ask("REPLICAOF NO ONE");
            if let Some(follower) = &self.follower {
                follow(follower, self.server.port());
            }
        }
        let is_ours = !self.is_genuine();
        if is_ours && matches!(way, Way::Apart | Way::ShortTurns) {
            let word = if way == Way::Apart { "APART" } else { "SHORT" };
            self.ask(&format!("DEBUG FAILPOINT {word} OFF"));
        }
        if is_ours {
            self.ask("DEBUG FAILPOINT");
        }
        if let Some(mut keeper) = keeper {
            let (during, behind) = (seen.of(Effect::Remembered), self.told_of_copy(&mut keeper));
            if !behind.is_empty() {
                seen.add(Effect::Remembered, format!("{during}; behind it {behind}"));
            }
        }
        let digest = self.ask("DEBUG DIGEST");
        if let Some(upstream) = &self.upstream {
            let theirs = render(&upstream.client().call(&["DEBUG", "DIGEST"]));
            assert_eq!(theirs, digest, "{way:?} {}: the replica's copy", act.name);
        }
        if let Some(follower) = &self.follower {
            await_replica(&self.server, follower);
            let copy = render(&follower.client().call(&["DEBUG", "DIGEST"]));
            assert_eq!(copy, digest, "{way:?} {}: the replica's copy", act.name);
            assert_eq!(self.ask("DEBUG LOADAOF"), "OK");
            let again = self.ask("DEBUG DIGEST");
            assert_eq!(again, digest, "{way:?} {}: what the log has", act.name);
        }
        seen.add(Effect::Data, self.ask_data());
    }
}

/// All keys with their values, in the same words on all servers.
const TELL_DATA: &str = "local told = {} \
    local read = {string = {'GET'}, list = {'LRANGE', 0, -1}, hash = {'HGETALL'}, \
        set = {'SMEMBERS'}, zset = {'ZRANGE', 0, -1, 'WITHSCORES'}, stream = {'XRANGE', '-', '+'}} \
    local function flat(it) if type(it) ~= 'table' then return tostring(it) end \
        local all = {} for at, one in ipairs(it) do all[at] = flat(one) end \
        return '[' .. table.concat(all, ' ') .. ']' end \
    for _, key in ipairs(redis.call('KEYS', '*')) do \
        local kind = redis.call('TYPE', key).ok \
        local words = read[kind] \
        local value = redis.call(words[1], key, unpack(words, 2)) \
        if kind == 'hash' then local pairs = {} for at = 1, #value, 2 do \
            pairs[#pairs + 1] = value[at] .. '=' .. value[at + 1] end value = pairs end \
        if kind == 'hash' or kind == 'set' then table.sort(value) end \
        value = flat(value) \
        if #value > 100 then value = redis.sha1hex(value) end \
        local lasts = redis.call('PTTL', key) < 0 and '' or ' for a time' \
        told[#told + 1] = key .. ' ' .. kind .. ' ' .. value .. lasts \
    end table.sort(told) return table.concat(told, ', ')";

/// Starts a server; `fails` has its snapshots fail.
fn start(oracle: Option<Oracle>, ports: Option<(u16, u16)>, fails: bool) -> Server {
    let prepare = |folder: &std::path::Path| {
        if fails {
            // What no file takes the place of.
            std::fs::create_dir(folder.join("dump.rdb")).expect("a new folder");
        }
    };
    match (oracle, ports) {
        (Some(oracle), _) => oracle.start_prepared(prepare, COMMON),
        (None, ports) => {
            let (memcached, http) = ports.unwrap_or((0, 0));
            let (memcached, http) = (memcached.to_string(), http.to_string());
            let own = [
                "--worker-threads",
                "2",
                "--memcached-port",
                &memcached,
                "--http-port",
                &http,
                "--http-commands",
                "all",
            ];
            Server::start_prepared(prepare, &[COMMON, &own[..]].concat())
        }
    }
}

/// The words of a line; `@N` stands for N names.
pub(super) fn expand(line: &str) -> Vec<Vec<u8>> {
    let words = split_arguments(line.as_bytes()).expect("quotes are balanced");
    let names = |word: Vec<u8>| match word.strip_prefix(b"@") {
        Some(count) if count.iter().all(u8::is_ascii_digit) && !count.is_empty() => {
            let count: usize = String::from_utf8_lossy(count).parse().expect("a number");
            (1..=count).map(|number| format!("f{number}").into_bytes()).collect()
        }
        _ => vec![word],
    };
    words.into_iter().flat_map(names).collect()
}
