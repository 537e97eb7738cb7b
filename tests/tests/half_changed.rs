//! A panic at any depth of a change leaves nothing half changed: values of every type are changed
//! by random commands, EXECs and scripts, and some step in tables, entries, containers, undo logs,
//! queues or locks panics. Then either the server goes on, with all locks free, all queues as they
//! were, and data and figures as before the unit or behind it; or it has said why and ended, and
//! its log brings back the one or the other.
//!
//! A second server, which has no drill, says what is behind the unit. `APUS_PANICS=10000` asks for
//! so many units, of a fresh seed.

use std::time::Duration;

use base::random::Random;
use proto::value::Value;
use tests::changes::{Draw, KEYS};
use tests::client::line;
use tests::memcached::Connection;
use tests::render::{render, text};
use tests::server::{eventually, free_port};
use tests::units::Words;
use tests::{Arrival, Client, Server};

/// How many units a short run has.
const UNITS: usize = 150;
/// The seed of a short run; a long one draws its own.
const SEED: u64 = 41;
/// So many units run before all values are made large again.
const EPISODE: usize = 10;
/// Steps until the panic: below a power of two below this.
const DEPTH: u64 = 12;

/// The clients that wait for what a unit may bring.
const WAITS: [&[&str]; 2] =
    [&["BLMOVE", "q", "l2", "LEFT", "RIGHT", "0"], &["BZPOPMIN", "w", "e2", "0"]];

/// What is there of each key: its deadline and, where that is asked for, its encoding; of a stream
/// its entries, and its groups with what is pending but for the times.
const TELL: &str = "local function of(map, name) \
        for at = 1, #map, 2 do if map[at] == name then return map[at + 1] end end end \
    local function flat(value, left_out) if type(value) ~= 'table' then return tostring(value) end \
        local all = {} for at, one in ipairs(value) do \
            if at ~= left_out then all[#all + 1] = flat(one) end end \
        return '[' .. table.concat(all, ' ') .. ']' end \
    local function groups(key) local all = {} \
        local told = redis.call('XINFO', 'STREAM', key, 'FULL', 'COUNT', 0) \
        for _, group in ipairs(of(told, 'groups')) do \
            for _, name in ipairs({'name', 'last-delivered-id', 'entries-read', 'lag'}) do \
                all[#all + 1] = tostring(of(group, name)) end \
            for _, one in ipairs(of(group, 'pending')) do all[#all + 1] = flat(one, 3) end \
            for _, consumer in ipairs(of(group, 'consumers')) do \
                all[#all + 1] = of(consumer, 'name') \
                for _, one in ipairs(of(consumer, 'pending')) do \
                    all[#all + 1] = flat(one, 2) end end end \
        return table.concat(all, ' ') end \
    local told = {} for _, key in ipairs(KEYS) do \
    told[#told + 1] = key .. ' ' .. redis.call('PEXPIRETIME', key) \
    if redis.call('TYPE', key).ok == 'stream' then \
        told[#told] = told[#told] .. ' stream ' .. \
            flat(redis.call('XRANGE', key, '-', '+')) .. groups(key) end \
    if ARGV[1] == 'true' then told[#told] = told[#told] .. ' ' .. \
        tostring(redis.call('OBJECT', 'ENCODING', key)) end end \
    return table.concat(told, '\\n')";

/// A server with clients.
struct Side {
    server: Server,
    memcached: u16,
    admin: Client,
    actor: Client,
    waiters: Vec<(Client, String)>,
}

impl Side {
    fn new() -> Self {
        let memcached = free_port();
        let mut server = Server::start(&[
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--auto-aof-rewrite-percentage",
            "0",
            "--enable-debug-command",
            "yes",
            "--save",
            "",
            "--worker-threads",
            "2",
            "--notify-keyspace-events",
            "KEAmn",
            "--memcached-port",
            &memcached.to_string(),
        ]);
        server.may_panic();
        let (admin, actor) = (server.client(), server.client());
        let mut side = Self { server, memcached, admin, actor, waiters: Vec::new() };
        side.connect();
        side.wait_anew();
        side
    }

    /// Connects the client that gives commands anew, and the one that looks on.
    fn connect(&mut self) {
        (self.admin, self.actor) = (self.server.client(), self.server.client());
        // What is over goes when somebody meets it.
        self.admin.call(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    }

    /// Has as many wait as ever.
    fn wait_anew(&mut self) {
        self.admin.call(&["DEL", "q", "w", "e2"]);
        let clients = WAITS.map(|_| self.server.client());
        self.waiters = clients.map(|mut client| (client.id(), client)).map(swap).into();
        for ((client, id), words) in self.waiters.iter_mut().zip(WAITS) {
            client.send(words);
            eventually("the client waits", || {
                text(&self.admin.call(&["CLIENT", "LIST", "ID", id])).contains("flags=b")
            });
        }
    }

    /// What those who waited have got: those who wait on are told to give up.
    fn answers(&mut self) -> Vec<String> {
        let admin = &mut self.admin;
        let answer = |(client, id): &mut (Client, String)| {
            admin.call(&["CLIENT", "UNBLOCK", id]);
            match client.arrival(Duration::from_secs(30)) {
                Ok(Arrival::Reply(reply)) => render(&reply),
                Ok(Arrival::Silence) => panic!("whoever waited has an answer"),
                Ok(Arrival::Closed) | Err(_) => CLOSED.to_owned(),
            }
        };
        self.waiters.iter_mut().map(answer).collect()
    }

    /// Makes all values as large as they were in the beginning, behind an empty world, in which
    /// nothing takes memory.
    fn grow(&mut self, growth: &[Words]) {
        self.admin.call(&["FLUSHALL"]);
        let figures = Connection::to(self.memcached).line("stats\r\n");
        for figure in ["bytes", "curr_items"] {
            assert!(figures.contains(&format!("STAT {figure} 0\r\n")), "{figures}");
        }
        growth.iter().for_each(|words| drop(self.admin.call(words)));
    }

    /// Gives a key and members deadlines that have passed when this returns.
    fn let_lapse(&mut self, members: &[String; 2]) {
        let [first, second] = members;
        self.admin.call(&["SET", "over", "1", "PX", "1"]);
        self.admin.call(&["HPEXPIRE", "h2", "1", "FIELDS", "2", first, second]);
        let mut now = || match self.admin.call(&["TIME"]) {
            Value::Array(parts) => {
                parts.iter().map(|part| format!("{:0>10}", text(part))).collect()
            }
            other => panic!("{other:?}"),
        };
        let since: Vec<String> = now();
        eventually("some milliseconds have passed", || {
            let micros = |time: &[String]| time.concat().parse::<u64>().expect("digits");
            // Microseconds have ten digits here.
            micros(&now()) - micros(&since) > 3000
        });
    }

    /// What is over is gone.
    fn settle(&mut self) {
        self.admin.call(&["GET", "over"]);
        self.admin.call(&["HDEL", "h2", "nobody"]);
    }

    /// Runs a unit; whether all of it was answered.
    fn attempt(&mut self, unit: &[Words]) -> bool {
        unit.iter().all(|words| self.actor.try_call(words).is_ok())
    }

    /// All that can be told of the data, expired or not. Nothing expires by this. A log brings
    /// values back, not each encoding: what INCRBYFLOAT made is a number then.
    fn look(&mut self, with_encodings: bool) -> String {
        let keys: Vec<&str> = KEYS.into_iter().filter(|key| *key != "over").collect();
        let count = keys.len().to_string();
        let with_encodings = with_encodings.to_string();
        let words = [&["EVAL", TELL, &count][..], &keys, &[&with_encodings]].concat();
        let mut told = Vec::new();
        for database in ["0", "1"] {
            self.admin.call(&["SELECT", database]);
            let lines = text(&self.admin.call(&words));
            let values = self.admin.call(&[&["DEBUG", "DIGEST-VALUE"][..], &keys].concat());
            let Value::Array(digests) = values else { panic!("{values:?}") };
            for (line, digest) in lines.lines().zip(&digests) {
                // A stream's digest knows when its entries were delivered.
                let is_stream = line.contains(" stream [");
                told.push(if is_stream { line.into() } else { format!("{line} {}", text(digest)) });
            }
        }
        self.admin.call(&["SELECT", "0"]);
        let figures = ["keyspace", "keysizes"].map(|section| {
            let report = text(&self.admin.call(&["INFO", section]));
            let lines = report.lines().map(|line| line.split(",avg_ttl").next().unwrap_or(line));
            lines.collect::<Vec<_>>().join("\n")
        });
        [told.join("\n"), figures.join("\n")].join("\n")
    }

    /// Whether the process answers; if not, it has said why and ended.
    fn lives(&mut self, what: &str) -> bool {
        let mut lives = false;
        let port = self.server.port();
        eventually(&format!("it answers, or has ended: {what}"), || {
            let answer = Client::try_connect(port).and_then(|mut it| it.try_call(&["PING"]));
            lives = answer.is_ok();
            lives || self.server.has_ended()
        });
        let log = self.server.log();
        assert!(lives || log.contains("The process ends: "), "{what}\n{log}");
        assert!(!log.contains("PoisonError"), "{what}\n{log}");
        lives
    }
}

const CLOSED: &str = "closed";

fn swap((id, client): (String, Client)) -> (Client, String) {
    (client, id)
}

/// What became of the units whose panic struck.
#[derive(Debug, Default)]
struct Outcomes {
    undone: usize,
    done: usize,
    ended: usize,
}

/// Runs a unit on both sides, of which one panics at this step.
fn strike(
    [ours, twin]: &mut [Side; 2],
    unit: &[Words],
    step: u64,
    what: &str,
    outcomes: &mut Outcomes,
) {
    ours.admin.call(&["DEBUG", "DRILL", "PANIC-AT-STEP", &step.to_string()]);
    let is_answered = ours.attempt(unit);
    let is_to_come = ours.admin.try_call(&["DEBUG", "DRILL"]);
    if matches!(is_to_come, Ok(Value::Integer(1))) {
        assert!(is_answered && twin.attempt(unit), "{what}");
        assert_eq!(ours.look(true), twin.look(true), "without a panic: {what}");
        assert_eq!(ours.answers(), twin.answers(), "without a panic: {what}");
        return;
    }
    let lives = ours.lives(what);
    let log = ours.server.log();
    if !lives {
        ours.server.restart();
    }
    ours.connect();
    if !lives {
        ours.settle();
        twin.settle();
    }
    let (found, before) = (ours.look(lives), twin.look(lives));
    let is_undone = !is_answered && found == before;
    if !is_undone {
        twin.attempt(unit);
        if !lives {
            twin.settle();
        }
        let after = twin.look(lives);
        assert!(
            found == after,
            "neither before nor behind, answered: {is_answered}, lives: {lives}: {what}\n\
             {log}\nbefore:\n{before}\nfound:\n{found}\nbehind:\n{after}"
        );
    }
    match (lives, is_undone) {
        (true, true) => outcomes.undone += 1,
        (true, false) => outcomes.done += 1,
        (false, _) => outcomes.ended += 1,
    }
    let expected = twin.answers();
    if lives {
        for (found, expected) in ours.answers().iter().zip(&expected) {
            assert!(found == expected || found == CLOSED, "{found}, not {expected}: {what}");
        }
    }
}

#[test]
fn a_panic_within_a_change_leaves_nothing_half_changed() {
    let asked = std::env::var("APUS_PANICS").ok();
    let asked = asked.map(|number| number.parse().expect("APUS_PANICS is a number"));
    let seed = if asked.is_some() { Random::from_entropy().next_u64() } else { SEED };
    let mut draw = Draw::new(Random::from_seed(seed));
    let mut sides = [Side::new(), Side::new()];
    let mut outcomes = Outcomes::default();
    for number in 0..asked.unwrap_or(UNITS) {
        if number % EPISODE == 0 {
            let growth = draw.growth();
            sides.iter_mut().for_each(|side| side.grow(&growth));
        }
        sides.iter_mut().for_each(Side::wait_anew);
        if draw.random.below(3) == 0 {
            let members = draw.members();
            sides.iter_mut().for_each(|side| side.let_lapse(&members));
        }
        let unit = draw.unit();
        let depth = draw.random.below(DEPTH);
        let step = 1 + draw.random.below(1 << depth);
        let lines: Vec<String> = unit.iter().map(|words| line(words)).collect();
        let what = format!("unit {number} of seed {seed} at step {step}: {}", lines.join("; "));
        strike(&mut sides, &unit, step, &what, &mut outcomes);
    }
    eprintln!("{outcomes:?}");
    assert!(outcomes.undone > 0 && outcomes.ended > 0, "{outcomes:?}");
    let [ours, twin] = &mut sides;
    // Each worker gets at each partition.
    for mut client in [(); 6].map(|()| ours.server.client()) {
        assert_eq!(render(&client.call(&["KEYS", "no such key*"])), "(empty array)");
    }
    ours.server.kill();
    ours.server.restart();
    ours.connect();
    ours.settle();
    twin.settle();
    assert_eq!(ours.look(false), twin.look(false));
}
