//! A panic at any depth of a change leaves nothing half changed: values of every type are changed
//! by random commands, EXECs and scripts, and some step in tables, entries, containers, undo logs,
//! queues or locks panics. Then either the server goes on, with all locks free, all queues as they
//! were, and data and figures as before the unit or behind it; or it has said why and ended, and
//! its log brings back the one or the other.
//!
//! A snapshot may be under way meanwhile, for a save or a rewrite of the log: its threads may meet
//! the step, too. Then it fails and says so, and the file that was there stays; and what is saved
//! is as it was at the cut. A second server, which has no failpoint, says what is behind the unit,
//! and a third what is in a file. `APUS_PANICS=10000` asks for so many units, of a fresh seed.

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
/// its entries, and its groups with what is pending but for the times, and for how often it was
/// delivered, which nothing logs where a consumer reads its own again, as in Redis.
const TELL: &str = "local is_first = ARGV[1] == 'true' \
    local function of(map, name) \
        for at = 1, #map, 2 do if map[at] == name then return map[at + 1] end end end \
    local function flat(value, left_out) if type(value) ~= 'table' then return tostring(value) end \
        local all = {} for at, one in ipairs(value) do \
            if at ~= left_out and (is_first or at < (left_out or 9)) then \
                all[#all + 1] = flat(one) end end \
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
    if is_first then told[#told] = told[#told] .. ' ' .. \
        tostring(redis.call('OBJECT', 'ENCODING', key)) end end \
    return table.concat(told, '\\n')";

/// A snapshot beside a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Beside {
    /// `BGSAVE`, which is answered at its cut, or `BGREWRITEAOF`.
    request: &'static str,
    /// Whether the failpoint is armed before it is begun, and not behind its cut.
    is_armed_first: bool,
    /// Whether its threads rest at their first keys until the unit is over.
    rests: bool,
}

/// What was there before a snapshot was begun.
struct Begun {
    beside: Beside,
    /// Whether the snapshot was begun.
    is_begun: bool,
    /// What is to be in the file.
    cut: String,
    /// The file that it is to replace.
    file: Option<Vec<u8>>,
    /// How much of the log was there.
    logged: usize,
}

/// A server that loads what others have saved.
struct Reader(Server);

impl Reader {
    fn new() -> Self {
        Self(Server::start(&["--enable-debug-command", "yes", "--save", ""]))
    }

    /// All that can be told of the data in a file.
    fn look(&self, file: &[u8], what: &str) -> String {
        let name = self.0.folder().join("dump.rdb");
        std::fs::write(name, file).expect("it can be written");
        let mut client = self.0.client();
        client.call(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        assert_eq!(render(&client.call(&["DEBUG", "RELOAD", "NOSAVE"])), "OK", "{what}");
        look(&mut client, false)
    }
}

/// A server with clients.
struct Side {
    server: Server,
    memcached: u16,
    admin: Client,
    actor: Client,
    waiters: Vec<(Client, String)>,
    /// Whether its process is the one that made all values.
    is_first: bool,
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
        let mut side =
            Self { server, memcached, admin, actor, waiters: Vec::new(), is_first: true };
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

    /// What the waiters have got: those that wait on are told to give up.
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
        self.is_first = true;
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

    fn look(&mut self, with_encodings: bool) -> String {
        look(&mut self.admin, with_encodings)
    }

    /// Begins a snapshot, where the failpoint does not keep it from that.
    fn begin(&mut self, beside: Beside, cut: String) -> Begun {
        let file = std::fs::read(self.server.folder().join("dump.rdb")).ok();
        let (logged, is_begun) = (self.server.log().len(), false);
        let mut begun = Begun { beside, is_begun, cut, file, logged };
        if !beside.is_armed_first {
            begun.is_begun = self.request(beside);
            assert!(begun.is_begun, "{beside:?}");
        }
        begun
    }

    fn request(&self, beside: Beside) -> bool {
        // Of its own, as it may be closed.
        let mut client = self.server.client();
        let rest = if beside.rests { "100000000" } else { "0" };
        client.call(&["CONFIG", "SET", "rdb-key-save-delay", rest]);
        client.try_call(&[beside.request]).is_ok_and(|reply| !matches!(reply, Value::Error(_)))
    }

    /// How a snapshot ended: what is told of it is what is there, and another one can be taken.
    fn end(&mut self, begun: &Begun, lives: bool, reader: &Reader, what: &str) -> bool {
        let name = self.server.folder().join("dump.rdb");
        let (mut is_broken, mut is_replaced) = (false, false);
        if lives {
            self.admin.call(&["CONFIG", "SET", "rdb-key-save-delay", "0"]);
            let report = self.settled(what);
            let log = self.server.log().split_off(begun.logged);
            is_broken = log.contains("did not come to its end");
            let is_failed = is_broken || !begun.is_begun;
            let (save, rewrite) = match begun.beside.request {
                "BGSAVE" => (is_failed, false),
                _ => (false, is_failed),
            };
            let status = |it| if it { "err" } else { "ok" };
            if is_broken || begun.is_begun {
                for told in [
                    format!("rdb_last_bgsave_status:{}", status(save)),
                    format!("aof_last_bgrewrite_status:{}", status(rewrite)),
                ] {
                    assert!(report.contains(&told), "not {told}: {what}\n{report}\n{log}");
                }
            }
            assert_eq!(temporaries(&self.server), [""; 0], "{what}\n{log}");
            is_replaced = begun.is_begun && !save && begun.beside.request == "BGSAVE";
        }
        let file = std::fs::read(&name).ok();
        is_replaced |= begun.file != file;
        if is_replaced {
            assert!(!is_broken, "{what}");
            let file = file.expect("nothing removes it");
            assert_eq!(reader.look(&file, what), begun.cut, "{what}");
        }
        for words in ["SAVE", "BGREWRITEAOF"] {
            let reply = self.admin.call(&[words]);
            assert!(!matches!(reply, Value::Error(_)), "{words}: {what}: {reply:?}");
            let report = self.settled(what);
            for told in ["rdb_last_bgsave_status:ok", "aof_last_bgrewrite_status:ok"] {
                assert!(words == "SAVE" || report.contains(told), "{what}\n{report}");
            }
        }
        is_broken
    }

    /// What is told of saves and rewrites when none is under way.
    fn settled(&mut self, what: &str) -> String {
        let mut report = String::new();
        eventually(&format!("no snapshot is under way: {what}"), || {
            report = text(&self.admin.call(&["INFO", "persistence"]));
            ["rdb_bgsave_in_progress:0", "aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"]
                .iter()
                .all(|idle| report.contains(idle))
        });
        report
    }

    /// Whether the process answers; if not, it has said why and ended.
    /// Threads of a snapshot panic while others answer, so their verdict is awaited.
    fn lives(&mut self, logged: usize, what: &str) -> bool {
        eventually(&format!("the panic has come to its end: {what}"), || {
            let log = self.server.log().split_off(logged);
            let is_of_snapshot =
                ["encoder-", "snapshot"].iter().any(|name| log.contains(&format!("Thread {name}")));
            let verdicts = ["did not come to its end", "cancelled", "called off"];
            let is_over = verdicts.iter().any(|verdict| log.contains(verdict));
            let goes_on = log.contains(" panicked at ") && (!is_of_snapshot || is_over);
            self.server.has_ended() || goes_on && !log.contains("The process ends: ")
        });
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

/// All that can be told of the data, expired or not. Nothing expires by this. A log brings values
/// back, not each encoding: what INCRBYFLOAT made is a number then.
fn look(admin: &mut Client, with_encodings: bool) -> String {
    let keys: Vec<&str> = KEYS.into_iter().filter(|key| *key != "over").collect();
    let count = keys.len().to_string();
    let with_encodings = with_encodings.to_string();
    let words = [&["EVAL", TELL, &count][..], &keys, &[&with_encodings]].concat();
    let mut told = Vec::new();
    for database in ["0", "1"] {
        admin.call(&["SELECT", database]);
        let lines = text(&admin.call(&words));
        let values = admin.call(&[&["DEBUG", "DIGEST-VALUE"][..], &keys].concat());
        let Value::Array(digests) = values else { panic!("{values:?}") };
        for (line, digest) in lines.lines().zip(&digests) {
            // A stream's digest knows when its entries were delivered.
            let is_stream = line.contains(" stream [");
            told.push(if is_stream { line.into() } else { format!("{line} {}", text(digest)) });
        }
    }
    admin.call(&["SELECT", "0"]);
    let figures = ["keyspace", "keysizes"].map(|section| {
        let report = text(&admin.call(&["INFO", section]));
        let lines = report.lines().map(|line| line.split(",avg_ttl").next().unwrap_or(line));
        lines.collect::<Vec<_>>().join("\n")
    });
    [told.join("\n"), figures.join("\n")].join("\n")
}

/// Files that were to take the place of others.
fn temporaries(server: &Server) -> Vec<String> {
    let names = std::fs::read_dir(server.folder()).expect("it is there").flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("temp-")).collect()
}

const CLOSED: &str = "closed";

fn swap((id, client): (String, Client)) -> (Client, String) {
    (client, id)
}

/// Whether a snapshot is under way, and how.
fn draw_beside(random: &mut Random) -> Option<Beside> {
    let request = *["BGSAVE", "BGREWRITEAOF", "", ""].get(random.below(4) as usize)?;
    let [is_armed_first, rests] = [(); 2].map(|()| random.below(2) == 0);
    (!request.is_empty()).then_some(Beside { request, is_armed_first, rests })
}

/// What became of the units whose panic struck.
#[derive(Debug, Default)]
struct Outcomes {
    undone: usize,
    done: usize,
    ended: usize,
    /// Snapshots that it met.
    unsaved: usize,
    /// And those beside which it was met.
    saved: usize,
}

/// Runs a unit on both sides, of which one panics at this step.
fn strike(
    [ours, twin]: &mut [Side; 2],
    unit: &[Words],
    step: u64,
    begun: Option<&mut Begun>,
    what: &str,
    outcomes: &mut Outcomes,
) -> bool {
    let logged = ours.server.log().len();
    ours.admin.call(&["DEBUG", "FAILPOINT", "PANIC-AT-STEP", &step.to_string()]);
    if let Some(begun) = begun.filter(|begun| begun.beside.is_armed_first) {
        begun.is_begun = ours.request(begun.beside);
    }
    let is_answered = ours.attempt(unit);
    let is_to_come = ours.admin.try_call(&["DEBUG", "FAILPOINT"]);
    if matches!(is_to_come, Ok(Value::Integer(1))) {
        assert!(is_answered && twin.attempt(unit), "{what}");
        assert_eq!(ours.look(ours.is_first), twin.look(ours.is_first), "without a panic: {what}");
        assert_eq!(ours.answers(), twin.answers(), "without a panic: {what}");
        return true;
    }
    let lives = ours.lives(logged, what);
    let log = ours.server.log();
    if !lives {
        ours.server.restart();
        ours.is_first = false;
    }
    ours.connect();
    if !lives {
        ours.settle();
        twin.settle();
    }
    let (found, before) = (ours.look(ours.is_first), twin.look(ours.is_first));
    let is_undone = !is_answered && found == before;
    if !is_undone {
        twin.attempt(unit);
        if !lives {
            twin.settle();
        }
        let after = twin.look(ours.is_first);
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
    lives
}

#[test]
fn a_panic_within_a_change_leaves_nothing_half_changed() {
    let asked = std::env::var("APUS_PANICS").ok();
    let asked = asked.map(|number| number.parse().expect("APUS_PANICS is a number"));
    let seed = if asked.is_some() { Random::from_entropy().next_u64() } else { SEED };
    let mut draw = Draw::new(Random::from_seed(seed));
    let mut sides = [Side::new(), Side::new()];
    let reader = Reader::new();
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
        let beside = draw_beside(&mut draw.random);
        let mut begun = beside.map(|beside| {
            let [ours, twin] = &mut sides;
            ours.settle();
            twin.settle();
            ours.begin(beside, twin.look(false))
        });
        let unit = draw.unit();
        let depth = draw.random.below(DEPTH);
        let step = 1 + draw.random.below(1 << depth);
        let lines: Vec<String> = unit.iter().map(|words| line(words)).collect();
        let what = lines.join("; ");
        let what =
            format!("unit {number} of seed {seed} at step {step}, beside {beside:?}: {what}");
        let lives = strike(&mut sides, &unit, step, begun.as_mut(), &what, &mut outcomes);
        if let Some(begun) = begun {
            let is_broken = sides[0].end(&begun, lives, &reader, &what);
            outcomes.unsaved += usize::from(is_broken);
            outcomes.saved += usize::from(lives && !is_broken);
        }
    }
    eprintln!("{outcomes:?}");
    assert!(outcomes.undone > 0 && outcomes.ended > 0, "{outcomes:?}");
    assert!(outcomes.unsaved > 0 && outcomes.saved > 0, "{outcomes:?}");
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
