//! The account of memory: what is alive counts, at once and alone, and eviction, refusals and INFO
//! go by it.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use base::random::Random;
use proto::value::Value;
use tests::samples::EVICTING_POLICIES;
use tests::server::eventually;
use tests::{Client, Server, check};

const MEGABYTE: i64 = 1 << 20;

/// Figures of INFO.
struct Figures(String);

impl Figures {
    fn of(client: &mut Client) -> Self {
        let reply = client.call(&["INFO", "all"]);
        Self(String::from_utf8(reply.as_bytes().unwrap().to_vec()).unwrap())
    }

    fn get(&self, name: &str) -> i64 {
        let line = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("INFO has {name}")).parse().unwrap()
    }
}

fn info(client: &mut Client, name: &str) -> i64 {
    Figures::of(client).get(name)
}

fn is_refused(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with(b"OOM"))
}

/// What a key holds.
#[derive(Clone, Copy, Debug)]
enum Kind {
    String,
    List,
    Hash,
}

/// A script that makes `ARGV[1]` keys of `ARGV[2]` bytes, all of which expire some day.
fn maker(kind: Kind) -> String {
    let make = match kind {
        Kind::String => "redis.call('set', k, v)",
        Kind::List => "for j = 1, 20 do redis.call('rpush', k, string.sub(v, 1, #v / 20)) end",
        Kind::Hash => "for j = 1, 20 do redis.call('hset', k, j, string.sub(v, 1, #v / 20)) end",
    };
    format!(
        "local v = string.rep('x', tonumber(ARGV[2])) \
         for i = 1, tonumber(ARGV[1]) do local k = ARGV[3] .. i {make} \
         redis.call('expire', k, 100000 + i) end return 1"
    )
}

/// A way to have more in use than may be.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// CONFIG SET maxmemory, lower than what is in use.
    Lower,
    /// A script that writes more than fits.
    Script,
    /// Many writes.
    Writes,
    /// A start with a snapshot of more than may be.
    Load,
}

struct Case {
    policy: &'static str,
    workers: &'static str,
    kind: Kind,
    size: usize,
    way: Way,
}

impl Case {
    fn make(&self, client: &mut Client, name: &str, count: usize) {
        let (count, size) = (count.to_string(), self.size.to_string());
        let reply = client.call(&["EVAL", &maker(self.kind), "0", &count, &size, name]);
        assert_eq!(reply, Value::Integer(1));
    }

    /// A server that has just got more in use than this limit.
    fn overshoot(&self, limit: i64) -> Server {
        let limit_text = limit.to_string();
        let plain = ["--maxmemory-policy", self.policy, "--worker-threads", self.workers];
        let limited = [&plain[..], &["--maxmemory", &limit_text]].concat();
        let count = (2 * limit) as usize / self.size;
        match self.way {
            Way::Lower => {
                let server = Server::start(&plain);
                self.make(&mut server.client(), "k", count);
                server.client().call(&["CONFIG", "SET", "maxmemory", &limit_text]);
                server
            }
            Way::Script => {
                let server = Server::start(&limited);
                self.make(&mut server.client(), "k", count);
                server
            }
            Way::Writes => {
                let server = Server::start(&limited);
                let mut clients = [server.client(), server.client()];
                for round in 0..20 {
                    let [client, _] = &mut clients;
                    self.make(client, &format!("k{round}:"), count.div_ceil(20));
                    clients.reverse();
                }
                server
            }
            Way::Load => {
                let full = Server::start(&plain);
                self.make(&mut full.client(), "k", count);
                check(&mut full.client(), "> SAVE\nOK");
                Server::start_prepared(full.snapshot(), &limited)
            }
        }
    }

    /// Once eviction rests, live bytes lie within a twentieth below the limit.
    fn run(&self) {
        const LIMIT: i64 = 32 * MEGABYTE;
        let what = format!(
            "{}, {} workers, {:?} of {}, {:?}",
            self.policy, self.workers, self.kind, self.size, self.way
        );
        let server = self.overshoot(LIMIT);
        let mut client = server.client();
        let (mut used, mut evicted) = (0, 0);
        eventually(&format!("room is made: {what}"), || {
            let figures = Figures::of(&mut client);
            (used, evicted) = (figures.get("used_memory"), figures.get("evicted_keys"));
            used <= LIMIT && figures.get("lazyfree_pending_objects") == 0
        });
        assert!(evicted > 0, "{what}");
        assert!((LIMIT / 20 * 19..=LIMIT).contains(&used), "{what}: {used}");
    }
}

#[test]
fn once_eviction_rests_live_bytes_lie_just_below_the_limit() {
    let seed = 4;
    let mut random = Random::from_seed(seed);
    let mut pick = |count: usize| random.below(count as u64) as usize;
    // Each policy with two ways in turn, and each time whatever else comes.
    let ways = [[Way::Lower, Way::Writes], [Way::Script, Way::Load]];
    for (policy, ways) in EVICTING_POLICIES.into_iter().zip(ways.into_iter().cycle()) {
        for way in ways {
            let kind = [Kind::String, Kind::List, Kind::Hash][pick(3)];
            let size = [400, 5000, 30_000, 66_000, 100_000, 300_000, 700_000][pick(7)];
            let workers = ["1", "2", "4"][pick(3)];
            Case { policy, workers, kind, size, way }.run();
        }
    }
}

#[test]
fn what_was_removed_makes_room_at_once() {
    const LIMIT: i64 = 100 * MEGABYTE;
    let limit = LIMIT.to_string();
    let server = Server::start(&["--maxmemory", &limit, "--worker-threads", "2"]);
    let mut client = server.client();
    let mut random = Random::from_seed(8);
    for round in 0..8 {
        let (mut names, mut written) = (Vec::new(), 0);
        while written < LIMIT / 100 * 85 {
            let size = 500_000 + random.below(1_500_000) as usize;
            let name = format!("k{round}:{}", names.len());
            let reply = client.call(&["SET", &name, &"x".repeat(size)]);
            assert_eq!(reply, Value::Simple(b"OK".to_vec()), "round {round} at {written}");
            written += size as i64;
            names.push(name);
        }
        let remove: &[&str] = if round % 2 == 0 { &["DEL"] } else { &["UNLINK"] };
        match round % 4 {
            3 => assert_eq!(client.call(&["FLUSHALL"]), Value::Simple(b"OK".to_vec())),
            _ => {
                let names = names.iter().map(String::as_str);
                client.call(&remove.iter().copied().chain(names).collect::<Vec<_>>());
            }
        }
    }
    client.call(&["FLUSHALL"]);
    eventually("nothing is left", || info(&mut client, "used_memory") < 6 * MEGABYTE);
    eventually("nor resident", || server.resident() < 50 << 20);
}

/// Sets keys until one is refused; how many there are, and the most that was in use.
fn fill(client: &mut Client, name: &str, size: usize) -> (usize, i64) {
    let (value, mut count, mut most) = ("x".repeat(size), 0, 0);
    loop {
        let sets = (count..count + 500)
            .map(|n| ["SET", &format!("{name}{n}"), &value].map(str::to_owned).to_vec());
        let sets: Vec<_> = sets.collect();
        let replies = client.pipeline(&sets);
        let stored = replies.iter().filter(|reply| !is_refused(reply)).count();
        count += stored;
        most = most.max(info(client, "used_memory"));
        if stored < replies.len() {
            return (count, most);
        }
    }
}

#[test]
fn what_waits_to_be_freed_is_in_the_account_and_gone_before_a_write_is_refused() {
    const LIMIT: i64 = 48 * MEGABYTE;
    let limit = LIMIT.to_string();
    let server = Server::start(&["--maxmemory", &limit, "--worker-threads", "2"]);
    let mut client = server.client();
    let (first, most) = fill(&mut client, "a", 100);
    assert!(most <= LIMIT + LIMIT / 100, "{most}");
    check(&mut client, "> FLUSHALL\nOK");
    let (second, most) = fill(&mut client, "b", 256);
    assert!(most <= LIMIT + LIMIT / 100, "{most}");
    assert!(second > first / 3, "{second} of {first}: what was flushed made room");
    let Value::Integer(keys) = client.call(&["DBSIZE"]) else { panic!("a number") };
    assert_eq!(keys, second as i64);
    let figures = Figures::of(&mut client);
    assert_eq!(figures.get("lazyfree_pending_objects"), 0);
    assert_eq!(figures.get("lazyfreed_objects"), first as i64);
    check(&mut client, "> CONFIG RESETSTAT\nOK");
    assert_eq!(info(&mut client, "lazyfreed_objects"), 0);
}

#[test]
fn writes_are_not_refused_while_enough_waits_to_be_freed() {
    const KEYS: usize = 30_000;
    // However little time a command has to make room in: with 0 it frees one table.
    let none: &[&str] = &["FLUSHALL", "FLUSHALL ASYNC", "FLUSHDB"];
    let cases = [
        ("noeviction", "0", none),
        ("noeviction", "10", &none[..1]),
        ("volatile-lru", "0", &none[..1]),
    ];
    for (policy, tenacity, flushes) in cases {
        for flush in flushes {
            let (settings, what) = (
                ["--maxmemory-policy", policy, "--maxmemory-eviction-tenacity", tenacity],
                format!("{policy}, {tenacity}, {flush}"),
            );
            let server = Server::start(&[&settings[..], &["--worker-threads", "2"]].concat());
            let mut client = server.client();
            let empty = info(&mut client, "used_memory");
            let reply = client.call(&["EVAL", &maker(Kind::String), "0", "30000", "200", "old"]);
            assert_eq!(reply, Value::Integer(1));
            let full = info(&mut client, "used_memory");
            // What is alive beside the keys fits, and a third of them.
            let limit = (empty + (full - empty) / 3).to_string();
            check(&mut client, &format!("> CONFIG SET maxmemory {limit}\nOK"));
            let sets = (0..KEYS / 5).map(|n| ["SET", &format!("new{n}"), "x"].map(str::to_owned));
            let flush = flush.split(' ').map(str::to_owned).collect();
            let requests: Vec<Vec<_>> =
                std::iter::once(flush).chain(sets.map(|set| set.to_vec())).collect();
            let replies = client.pipeline(&requests);
            let refused = replies.iter().filter(|reply| is_refused(reply)).count();
            assert_eq!(refused, 0, "{what}");
            assert_eq!(client.call(&["DBSIZE"]), Value::Integer(KEYS as i64 / 5), "{what}");
        }
    }
}

#[test]
fn a_big_value_that_is_gone_leaves_nothing_behind() {
    const SIZE: usize = 100 << 20;
    for limit in ["0", "300mb", "1gb"] {
        let settings = ["--maxmemory", limit, "--maxmemory-policy", "allkeys-lru"];
        let server = Server::start(&[&settings[..], &["--worker-threads", "2"]].concat());
        let resident = server.resident();
        let mut client = server.client();
        check(&mut client, "> SET small 1\nOK");
        let mut other = server.client();
        assert_eq!(other.call(&["SET", "big", &"x".repeat(SIZE)]), Value::Simple(b"OK".to_vec()));
        drop(other);
        assert!(info(&mut client, "used_memory") > SIZE as i64);
        check(&mut client, "> DEL big\n(integer) 1");
        eventually("it is no longer in use", || info(&mut client, "used_memory") < 6 * MEGABYTE);
        eventually("nor resident", || server.resident() < resident + (16 << 20));
        check(&mut client, "> GET small\n\"1\"");
        assert_eq!(info(&mut client, "evicted_keys"), 0);
    }
}

#[test]
fn where_nothing_may_go_a_change_of_that_is_seen_at_once() {
    let server = Server::start(&["--maxmemory-policy", "volatile-lru", "--worker-threads", "1"]);
    let mut client = server.client();
    let fill: Vec<_> =
        (0..2000).map(|n| ["SET", &format!("k{n}"), "x"].map(str::to_owned).to_vec()).collect();
    client.pipeline(&fill);
    let limit = (info(&mut client, "used_memory") - 20_000).to_string();
    client.call(&["CONFIG", "SET", "maxmemory", &limit]);
    for _ in 0..100 {
        assert!(is_refused(&client.call(&["SET", "more", "1"])));
        check(&mut client, "> GET k0\n\"x\"");
    }
    let expire: Vec<_> = (0..2000)
        .map(|n| ["EXPIRE", &format!("k{n}"), "100000"].map(str::to_owned).to_vec())
        .collect();
    client.pipeline(&expire);
    assert_eq!(client.call(&["SET", "more", "1"]), Value::Simple(b"OK".to_vec()));
    assert!(info(&mut client, "evicted_keys") > 0);
}

#[test]
fn eviction_does_not_spin_for_a_key_that_is_in_use() {
    let server = Server::start(&[
        "--maxmemory-policy",
        "volatile-lru",
        "--maxmemory-eviction-tenacity",
        "100",
        "--busy-reply-threshold",
        "100",
        "--worker-threads",
        "2",
    ]);
    let mut client = server.client();
    check(&mut client, "> SET held 1 EX 100000\nOK\n> SET other 1\nOK");
    let mut script = server.client();
    script.send(&["EVAL", "redis.call('get', KEYS[1]) while true do end", "1", "held"]);
    eventually("it is held", || match client.call(&["GET", "held"]) {
        Value::Error(text) => text.starts_with(b"BUSY"),
        _ => false,
    });
    client.call(&["CONFIG", "SET", "maxmemory", "1mb"]);
    for _ in 0..20 {
        check(&mut client, "> PING\nPONG\n> GET other\n\"1\"");
        assert!(is_refused(&client.call(&["SET", "more", "1"])), "the limit holds");
    }
    check(&mut client, "> SCRIPT KILL\nOK");
    assert!(matches!(script.receive(), Value::Error(_)));
    eventually("it goes once it is free", || client.call(&["EXISTS", "held"]) == Value::Integer(0));
}

#[test]
fn the_figures_of_one_look_fit_together() {
    let server = Server::start(&["--worker-threads", "2"]);
    let mut client = server.client();
    for round in 0..3 {
        let sets: Vec<_> = (0..3000)
            .map(|n| ["SET", &format!("k{round}:{n}"), &"x".repeat(n)].map(str::to_owned).to_vec())
            .collect();
        client.pipeline(&sets);
        let figures = Figures::of(&mut client);
        let rising = [
            "used_memory",
            "allocator_allocated",
            "allocator_active",
            "allocator_resident",
            "used_memory_rss",
        ];
        let values = rising.map(|name| figures.get(name));
        assert!(values.is_sorted(), "{rising:?}: {values:?}");
        assert!(figures.get("used_memory_peak") >= values[0]);
        assert!(
            figures.get("used_memory_dataset") + figures.get("used_memory_overhead") == values[0]
        );
    }
    let reply = client.call(&["MEMORY", "DOCTOR"]);
    let report = String::from_utf8(reply.as_bytes().unwrap().to_vec()).unwrap();
    assert!(report.starts_with("Hi Sam, I can't find any memory issue"), "{report}");
}

/// What a script leaves in its interpreter goes with it, though no other script comes.
#[test]
fn the_garbage_of_a_script_keeps_nobody_waiting() {
    let server = Server::start(&["--worker-threads", "1", "--maxmemory", "60mb"]);
    let mut client = server.client();
    for script in [
        "return #string.gsub(string.rep('a', 1000000), 'a', string.rep('b', 100))",
        "local all = {} for turn = 1, 800000 do all[turn] = {turn} end return #all",
    ] {
        assert!(matches!(client.call(&["EVAL", script, "0"]), Value::Integer(1..)));
        eventually("there is room again", || {
            matches!(client.call(&["SET", "k", "v"]), Value::Simple(_))
        });
        eventually("it is gone", || client.figure("used_memory_vm_eval") < 8 << 20);
    }
}
