//! Whatever is run on a primary, its replicas have the same data at the same offset: random
//! commands of all families, transactions, scripts, functions, what expires and what blocked
//! clients are given, with links cut and outrun in between; for Apus and the real servers in both
//! roles, and for chains.
//!
//! `APUS_REPLICATION_EPISODES=100` asks for so many episodes of fresh seeds for each group, and
//! `APUS_REPLICATION_COMMANDS=15000` for so many drawn commands in each of the pieces of one.

use std::collections::HashSet;
use std::thread;
use std::time::Duration;

use base::random::Random;
use proto::value::Value;
use tests::differential::{Command, Speaker};
use tests::generator::{Declared, Generator, Transactions, prologue, shared};
use tests::render::{render, text};
use tests::replication::{NodeKind, await_replica, follow};
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

use crate::append_only::{
    State, differences, forget_counters, forget_entries_read, forget_idle_consumers,
    forget_what_is_over, payloads, state,
};
use crate::replication_primary::state_of;

const APUS: NodeKind = NodeKind::Apus;
const REDIS62: NodeKind = NodeKind::Genuine(Oracle::Redis62);
const REDIS70: NodeKind = NodeKind::Genuine(Oracle::Redis70);
const REDIS82: NodeKind = NodeKind::Genuine(Oracle::Redis82);
const VALKEY91: NodeKind = NodeKind::Genuine(Oracle::Valkey91);

/// Pieces of an episode, each with something that happens to a link.
const PIECES: usize = 5;
/// Drawn commands in a piece.
const COMMANDS: usize = 120;
/// What a primary keeps for replicas that come back.
const BACKLOG: usize = 256 << 10;

#[test]
fn r10_40_ours_follows_ours() {
    run(&[APUS, APUS]);
}

#[test]
fn r10_40_ours_follows_redis_70() {
    run(&[REDIS70, APUS]);
}

#[test]
fn r10_40_ours_follows_redis_82() {
    run(&[REDIS82, APUS]);
}

#[test]
fn r10_40_ours_follows_valkey_91() {
    run(&[VALKEY91, APUS]);
}

#[test]
fn r10_40_real_ones_follow_ours() {
    [REDIS62, REDIS70, REDIS82, VALKEY91].into_iter().for_each(|kind| run(&[APUS, kind]));
}

#[test]
fn r10_40_chains_of_ours_pass_everything_on() {
    run(&[APUS, APUS, APUS]);
}

#[test]
fn r10_40_ours_passes_on_what_real_ones_say() {
    run(&[REDIS70, APUS, REDIS70]);
    run(&[REDIS82, APUS, REDIS82]);
    run(&[VALKEY91, APUS, VALKEY91]);
}

/// What comes behind the data of a full sync says no database: the database is that of the stream,
/// which the data have to tell.
#[test]
fn a_chained_full_sync_goes_on_in_the_database_of_the_stream() {
    for (kind, last) in [(REDIS70, REDIS70), (REDIS82, APUS), (VALKEY91, VALKEY91), (APUS, APUS)] {
        let (primary, middle, last) = (kind.start(&[]), APUS.start(&[]), last.start(&[]));
        follow(&middle, primary.port());
        let mut client = primary.client();
        await_replica(&primary, &middle);
        check(&mut client, "> SELECT 14\nOK\n> SET before 1\nOK");
        await_replica(&primary, &middle);
        follow(&last, middle.port());
        await_replica(&middle, &last);
        check(&mut client, "> SET behind 2\nOK");
        await_replica(&primary, &middle);
        await_replica(&middle, &last);
        let keys = "> SELECT 14\nOK\n> GET before\n\"1\"\n> GET behind\n\"2\"";
        check(&mut last.client(), &format!("> DBSIZE\n(integer) 0\n{keys}"));
    }
}

fn run(kinds: &[NodeKind]) {
    match std::env::var("APUS_REPLICATION_EPISODES") {
        Ok(number) => {
            let mut seeds = Random::from_entropy();
            let number: usize = number.parse().expect("a number");
            (0..number).for_each(|_| episode(kinds, seeds.next_u64()));
        }
        Err(_) => episode(kinds, 1),
    }
}

/// What is run in a group whose members follow one another.
struct Episode<'a> {
    nodes: Vec<Server>,
    random: Random,
    one_by_one: Generator<'a>,
    in_transactions: Transactions<'a>,
    /// Drawn commands in a piece.
    count: usize,
    /// What was run.
    log: Vec<Command>,
    seed: u64,
    /// Whether one of them counts in a way of its own what groups of streams have read.
    forgets_reads: bool,
    /// Whether one of them is Valkey.
    has_valkey: bool,
    /// Whether one of them is Redis 6.2, which has no functions, and streams that count nothing.
    has_redis62: bool,
}

fn episode(kinds: &[NodeKind], seed: u64) {
    let (size, has_redis62) = (BACKLOG.to_string(), kinds.contains(&REDIS62));
    let start = |kind: &NodeKind| {
        let version: &[&str] = match *kind {
            APUS if has_redis62 => &["--rdb-write-version", "9"],
            _ => &[],
        };
        kind.start(&[&["--repl-backlog-size", size.as_str()][..], version].concat())
    };
    let nodes: Vec<Server> = kinds.iter().map(start).collect();
    let declared = if has_redis62 { known_to_redis62(&nodes) } else { known_to_all(&nodes) };
    let oldest = nodes.iter().find(|node| node.is_oracle()).unwrap_or(&nodes[0]);
    let payloads = payloads(&mut oldest.client());
    for pair in nodes.windows(2) {
        follow(&pair[1], pair[0].port());
    }
    let generator = || Generator::new(seed, &declared, &payloads);
    let (one_by_one, in_transactions) = (generator(), Transactions::new(generator(), true));
    let random = Random::from_seed(seed);
    let (log, forgets_reads) =
        (Vec::new(), kinds.iter().any(|kind| [REDIS62, REDIS70, VALKEY91].contains(kind)));
    let has_valkey = kinds.contains(&VALKEY91);
    let mut episode = Episode {
        nodes,
        random,
        one_by_one,
        in_transactions,
        count: std::env::var("APUS_REPLICATION_COMMANDS")
            .map_or(COMMANDS, |count| count.parse().expect("a number")),
        log,
        seed,
        forgets_reads,
        has_valkey,
        has_redis62,
    };
    let mut first = episode.nodes[0].client();
    let has_small_sets = !kinds.iter().any(|kind| [REDIS62, REDIS70].contains(kind));
    episode.run(&mut first, &prologue(seed as usize, has_small_sets));
    for piece in 0..PIECES {
        episode.disturb();
        episode.draw(piece);
        episode.disturb();
        episode.run_by_hand();
        episode.compare();
    }
    for node in &episode.nodes[1..] {
        let errors = node.client().figure("unexpected_error_replies");
        assert_eq!(errors, 0, "{}\n{}", episode.told(), node.log());
    }
}

/// The commands that all members know.
fn known_to_all(nodes: &[Server]) -> Vec<Declared> {
    let mut declared = shared(&mut nodes[0].client(), &mut nodes[0].client());
    for node in &nodes[1..] {
        let known = shared(&mut nodes[0].client(), &mut node.client());
        declared.retain(|one| known.iter().any(|other| other.name == one.name));
    }
    // The older one's options.
    let oldest = nodes.iter().find(|node| node.is_oracle());
    if let Some(oldest) = oldest {
        let known = shared(&mut nodes[0].client(), &mut oldest.client());
        let names: Vec<String> = declared.into_iter().map(|one| one.name).collect();
        return known.into_iter().filter(|one| names.contains(&one.name)).collect();
    }
    declared
}

/// The commands that Redis 6.2 has, which declares none, as Redis 7.0 declares them.
fn known_to_redis62(nodes: &[Server]) -> Vec<Declared> {
    let (ours, later) = (Server::start(&[]), Oracle::Redis70.start(&[]));
    let oldest = nodes.iter().find(|node| node.is_oracle()).expect("one is Redis 6.2");
    let Value::Array(entries) = oldest.client().call(&["COMMAND"]) else { panic!("a list") };
    let name = |entry: &Value| match entry {
        Value::Array(fields) => text(&fields[0]),
        other => panic!("{other:?}"),
    };
    let names: HashSet<String> = entries.iter().map(name).collect();
    let mut declared = shared(&mut ours.client(), &mut later.client());
    declared.retain(|one| names.contains(one.name.split('|').next().unwrap_or_default()));
    declared
}

impl Episode<'_> {
    fn below(&mut self, bound: u64) -> usize {
        self.random.below(bound) as usize
    }

    fn run(&mut self, client: &mut Client, commands: &[Command]) {
        let is_shared = |command: &&Command| !self.has_valkey || !is_otherwise_in_valkey(command);
        let commands: Vec<Command> = commands.iter().filter(is_shared).cloned().collect();
        self.log.extend_from_slice(&commands);
        client.pipeline(&commands);
    }

    /// Random commands from connections of their own, which leave what they began to its end.
    fn draw(&mut self, piece: usize) {
        let mut clients = [self.nodes[0].client(), self.nodes[0].client()];
        let count = self.count;
        if piece.is_multiple_of(2) {
            let drawn = (0..count).map(|_| self.one_by_one.draw().step.command).collect();
            let drawn: Vec<Command> = drawn;
            let [one, other] = &mut clients;
            let database = self.below(16).to_string();
            self.run(other, &[vec![b"SELECT".to_vec(), database.into_bytes()]]);
            let (some, others) = drawn.split_at(count / 2);
            self.run(one, some);
            return self.run(other, others);
        }
        self.in_transactions.begin();
        let steps: Vec<_> = (0..count).map(|_| self.in_transactions.draw().step).collect();
        for turn in steps.chunk_by(|one, other| one.speaker == other.speaker) {
            let client = &mut clients[usize::from(turn[0].speaker == Speaker::Second)];
            let commands: Vec<Command> = turn.iter().map(|step| step.command.clone()).collect();
            self.run(client, &commands);
        }
    }

    /// Something happens to a link.
    fn disturb(&mut self) {
        let link = self.below(self.nodes.len() as u64 - 1);
        let [upstream, replica] = [&self.nodes[link], &self.nodes[link + 1]];
        match self.random.below(6) {
            0 | 1 => _ = upstream.client().call(&["CLIENT", "KILL", "TYPE", "REPLICA"]),
            2 | 3 => _ = replica.client().call(&["CLIENT", "KILL", "TYPE", "MASTER"]),
            4 => {
                let primary = &self.nodes[0];
                tests::replication::outrun(upstream, replica, || {
                    let value = "v".repeat(BACKLOG / 2);
                    let mut client = primary.client();
                    for _ in 0..4 {
                        client.call(&["SET", "outrun", &value]);
                    }
                    if link > 0 {
                        (1..=link)
                            .for_each(|it| await_replica(&self.nodes[it - 1], &self.nodes[it]));
                    }
                });
            }
            _ => {}
        }
    }

    /// What is not drawn: what the server decides by chance or the time, scripts and functions,
    /// what expires soon, and what blocked clients are given.
    fn run_by_hand(&mut self) {
        let database = self.below(16).to_string();
        let mut clients = [(); 4].map(|()| self.nodes[0].client());
        for client in &mut clients {
            client.call(&["SELECT", &database]);
        }
        let [client, popping, least, reading] = &mut clients;
        let number = self.below(1000).to_string();
        let call = |client: &mut Client, line: &str| {
            let line = line.replace("NUMBER", &number);
            client.call(&base::quote::split_arguments(line.as_bytes()).expect("it is quoted well"))
        };
        let is_of_functions =
            |line: &str| line.starts_with("FUNCTION") || line.starts_with("FCALL");
        for line in BY_HAND.iter().filter(|line| !self.has_redis62 || !is_of_functions(line)) {
            call(client, line);
        }
        let big = "b".repeat(200_000 + self.below(200_000));
        client.call(&["SET", "big", &big]);
        client.call(&["APPEND", "big", &number]);
        client.call(&["SELECT", &database]);
        popping.send(&["BLPOP", "queue", "other", "0"]);
        least.send(&["BZPOPMIN", "ranks", "0"]);
        reading.send(&[
            "XREADGROUP",
            "GROUP",
            "readers",
            "me",
            "BLOCK",
            "0",
            "STREAMS",
            "log",
            ">",
        ]);
        eventually("they wait", || client.figure("blocked_clients") >= 3);
        call(client, "RPUSH queue 1 2 NUMBER");
        for line in ["MULTI", "ZADD ranks 3 c 1 a", "XADD log * f v", "INCR served", "EXEC"] {
            call(client, line);
        }
        [popping, least, reading].into_iter().for_each(|waiter| _ = waiter.receive());
        thread::sleep(Duration::from_millis(5));
        call(client, "SET soon over");
        call(client, "GET later");
    }

    /// All that follow have what the first has.
    fn compare(&self) {
        let all: Vec<&Server> = self.nodes.iter().collect();
        let mut found = String::new();
        // What has expired may be deleted between two looks.
        for _ in 0..20 {
            self.nodes.windows(2).for_each(|pair| await_replica(&pair[0], &pair[1]));
            let told =
                all[1..].iter().enumerate().map(|(at, it)| (at, self.difference(all[0], it)));
            match told.into_iter().find(|(_, told)| !told.is_empty()) {
                None => return,
                Some((at, told)) => found = format!("replica {at}: {told}"),
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("{found}\n{}", self.told());
    }

    /// What a replica has otherwise than its primary.
    fn difference(&self, primary: &Server, replica: &Server) -> String {
        let ask = |words: &[&str]| [primary, replica].map(|it| render(&it.client().call(words)));
        let [ours, theirs] = ask(&["FUNCTION", "LIST", "WITHCODE"]);
        if !self.has_redis62 && ours != theirs {
            return format!("functions: {ours}\nand\n{theirs}");
        }
        if !primary.is_oracle() && !replica.is_oracle() {
            let [ours, theirs] = ask(&["DEBUG", "DIGEST"]);
            if ours == theirs {
                return String::new();
            }
        }
        let [mut expected, mut found]: [State; 2] =
            [primary, replica].map(|it| match it.is_oracle() {
                true => state_of(it),
                false => state(&mut it.client()),
            });
        forget_what_is_over([&mut expected, &mut found]);
        if self.forgets_reads {
            forget_entries_read([&mut expected, &mut found]);
        }
        if self.has_redis62 {
            forget_counters([&mut expected, &mut found]);
        }
        if primary.is_oracle() {
            forget_idle_consumers([&mut expected, &mut found]);
        }
        match expected == found {
            true if primary.is_oracle() || replica.is_oracle() => String::new(),
            true => "the digests".to_owned(),
            false => differences(&expected, &found),
        }
    }

    /// The seed, and what was run.
    fn told(&self) -> String {
        let lines: Vec<String> = self.log.iter().map(|it| tests::client::line(it)).collect();
        format!("seed {}\n{}", self.seed, lines.join("\n"))
    }
}

/// What Valkey and the others do not both take: Valkey lets fields live beyond the year 4199.
fn is_otherwise_in_valkey(command: &Command) -> bool {
    const LATE: i64 = 60_000_000_000;
    let ends_fields = command[0].to_ascii_uppercase().starts_with(b"H")
        && command.iter().any(|word| word.to_ascii_uppercase().windows(2).any(|it| it == b"EX"));
    let is_late = |word: &Vec<u8>| base::number::parse_i64(word).is_some_and(|it| it > LATE);
    ends_fields && command.iter().any(is_late)
}

const BY_HAND: &[&str] = &[
    "DEL queue other ranks log",
    "FUNCTION LOAD REPLACE \"#!lua name=lib\\nredis.register_function('put', function(keys, args)\
     redis.call('SET', keys[1], args[1]) return redis.call('INCR', keys[2]) end) -- NUMBER\"",
    "FCALL put 2 fk fn NUMBER",
    "EVAL \"for i = 1, 20 do redis.call('SADD', KEYS[1], i) end redis.call('SPOP', KEYS[1], 3) \
     return redis.call('SET', KEYS[2], redis.call('TIME')[2])\" 2 members time",
    "SPOP members",
    "SPOP members 4",
    "SET soon x PX 1",
    "SET later x PX 40",
    "EVAL \"redis.call('SET', KEYS[1], 1, 'PX', 1) return redis.call('INCR', KEYS[2])\" 2 s n",
    "XADD log * NUMBER v",
    "XGROUP CREATE log readers $",
    "XTRIM log MAXLEN ~ 5",
    "INCRBYFLOAT float 0.1",
    "HINCRBYFLOAT hash f 1.7",
    "MULTI",
    "SET pair NUMBER",
    "GET soon",
    "SET twin NUMBER",
    "SELECT 3",
    "INCR counter",
    "EXEC",
    "EVAL \"redis.call('INCR', KEYS[1]) error('half done')\" 1 half",
    "RENAME pair moved",
    "COPY moved copied DB 5",
    "GETEX twin EX 10000",
];
