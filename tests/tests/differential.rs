//! Random requests get the same replies from Apus and from the real servers, in both protocols,
//! and leave the same values behind. A difference is told as the shortest sequence of requests
//! that still shows it.
//!
//! `APUS_DUEL_REQUESTS=10000000` asks so many in all, of fresh seeds; docs/proof/ledger.md has what
//! long runs found.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;

use base::random::Random;
use proto::value::Value;
use tests::client::line;
use tests::differential::{Command, Difference, Exception, Speaker, Step};
use tests::generator::{
    Declared, Drawn, Generator, Has, Hits, Outcome, REDIS70, REDIS82, Transactions, VALKEY91,
    compare_states, prologue, rule, shared,
};
use tests::{Client, Duel, Oracle, Server};

/// How many requests all oracles are asked, both protocols together.
const REQUESTS: usize = 1_000_000;
/// How many requests in and between transactions.
const IN_TRANSACTIONS: usize = 300_000;
/// A run with so many for one oracle and protocol meets every exception.
const LONG: usize = 1_500_000;
/// Requests between two empty worlds.
const EPISODE: usize = 340;
/// The seeds that every short run has; a long one draws its own.
const SEEDS: [u64; 4] = [1, 2, 3, 4];
/// How many differences are told before a run gives up.
const TOLD: usize = 6;

#[test]
fn random_requests_are_answered_as_by_redis70() {
    duel(Oracle::Redis70, REDIS70, Way::OneByOne);
}

#[test]
fn random_requests_are_answered_as_by_redis82() {
    duel(Oracle::Redis82, REDIS82, Way::OneByOne);
}

#[test]
fn random_requests_are_answered_as_by_valkey91() {
    duel(Oracle::Valkey91, VALKEY91, Way::OneByOne);
}

#[test]
fn transactions_as_redis70() {
    duel(Oracle::Redis70, REDIS70, Way::InTransactions);
}

#[test]
fn transactions_as_redis82() {
    duel(Oracle::Redis82, REDIS82, Way::InTransactions);
}

#[test]
fn transactions_as_valkey91() {
    duel(Oracle::Valkey91, VALKEY91, Way::InTransactions);
}

/// How requests come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Each by itself, from one connection.
    OneByOne,
    /// In and between the transactions of two connections.
    InTransactions,
}

fn duel(oracle: Oracle, exceptions: &'static [Exception], way: Way) {
    let (ours, theirs) = (Server::start(&[]), oracle.start(&[]));
    let declared = shared(&mut ours.client(), &mut theirs.client());
    drop((ours, theirs));
    let (requests, seeds) = plan(way);
    tell(&format!("{oracle:?}: {requests} requests of each of the seeds {seeds:?}"));
    let plan = Plan { oracle, exceptions, way, declared: &declared, requests, seeds: &seeds };
    let halves = std::thread::scope(|scope| {
        let run = |protocol| {
            let plan = &plan;
            scope.spawn(move || Half::run(plan, protocol))
        };
        let halves = [run("2"), run("3")];
        halves.map(|half| half.join().expect("a duel reports instead of panicking"))
    });
    let mut hits = Hits::new(&declared);
    let mut reports = Vec::new();
    let mut excused = BTreeMap::new();
    let mut outcomes: BTreeMap<Outcome, u64> = BTreeMap::new();
    for half in halves {
        hits.add(&half.hits);
        half.outcomes.iter().for_each(|(outcome, count)| {
            *outcomes.entry(*outcome).or_default() += count;
        });
        reports.extend(half.reports);
        for (reason, count) in half.excused {
            *excused.entry(reason).or_insert(0) += count;
        }
    }
    for (reason, count) in &excused {
        tell(&format!("{oracle:?}: excused {count}: {reason}"));
    }
    tell(&format!("{oracle:?}: seeds {seeds:?}, {} requests (sent/accepted)\n{hits}", hits.sent()));
    assert!(reports.is_empty(), "{}", reports.join("\n\n"));
    if way == Way::InTransactions {
        tell(&format!("{oracle:?}: {outcomes:?}"));
        let nested = Outcome::NESTED.iter().filter(|_| plan.nests());
        let mut wanted = Outcome::USUAL.iter().chain(nested);
        assert!(wanted.all(|outcome| outcomes.contains_key(outcome)), "{outcomes:?}");
        return;
    }
    assert!(hits.missing().is_empty(), "never sent or never accepted: {:?}", hits.missing());
    // What is rare is not met by every short run.
    let unused: Vec<_> = excused.iter().filter(|(_, count)| **count == 0).collect();
    let is_long = requests * seeds.len() >= LONG;
    assert!(unused.is_empty() || !is_long, "exceptions that excuse nothing: {unused:?}");
}

/// How many requests for one protocol and seed of one oracle, and the seeds.
fn plan(way: Way) -> (usize, Vec<u64>) {
    let mut entropy = Random::from_entropy();
    let asked = std::env::var("APUS_DUEL_REQUESTS").ok();
    let asked = asked.map(|number| number.parse().expect("APUS_DUEL_REQUESTS is a number"));
    let seeds: Vec<u64> = match asked {
        Some(_) => (0..4).map(|_| entropy.next_u64()).collect(),
        None => SEEDS.to_vec(),
    };
    let usual = if way == Way::OneByOne { REQUESTS } else { IN_TRANSACTIONS };
    (asked.unwrap_or(usual) / Oracle::ALL.len() / 2 / seeds.len(), seeds)
}

/// What both halves of a duel have in common.
struct Plan<'a> {
    oracle: Oracle,
    exceptions: &'static [Exception],
    way: Way,
    declared: &'a [Declared],
    /// How many for one seed.
    requests: usize,
    seeds: &'a [u64],
}

impl Plan<'_> {
    /// Valkey 9 gives up a transaction over MULTI or WATCH within it; Redis goes on.
    fn nests(&self) -> bool {
        self.oracle != Oracle::Valkey91
    }
}

/// Prints whether or not the test passes.
fn tell(text: &str) {
    writeln!(std::io::stderr(), "{text}").expect("standard error can be written to");
}

/// One protocol's share of the requests, with a pair of servers of its own.
struct Half<'a> {
    plan: &'a Plan<'a>,
    protocol: &'static str,
    has: Has,
    payloads: Vec<Vec<u8>>,
    hits: Hits,
    outcomes: BTreeMap<Outcome, u64>,
    reports: Vec<String>,
    /// The commands whose difference is among the reports.
    told: HashSet<Vec<u8>>,
    excused: Vec<(&'static str, u64)>,
}

impl<'a> Half<'a> {
    fn run(plan: &'a Plan<'a>, protocol: &'static str) -> Self {
        let (ours, theirs) = (Server::start(&[]), plan.oracle.start(&[]));
        let is_recent = plan.oracle != Oracle::Redis70;
        let mut half = Self {
            plan,
            protocol,
            has: Has {
                field_times: is_recent,
                field_order: plan.oracle != Oracle::Valkey91,
                small_sets: is_recent,
            },
            payloads: payloads(&mut theirs.client()),
            hits: Hits::new(plan.declared),
            outcomes: BTreeMap::new(),
            reports: Vec::new(),
            told: HashSet::new(),
            excused: Vec::new(),
        };
        for seed in plan.seeds {
            let connect = |server: &Server| match protocol {
                "3" => server.client3(),
                _ => server.client(),
            };
            let duel = Duel::new(connect(&ours), connect(&theirs), *seed);
            let mut duel = duel.ruled(rule).except(plan.exceptions);
            if plan.way == Way::InTransactions {
                duel.join(connect(&ours), connect(&theirs));
            }
            half.fight(&mut duel, *seed);
            half.excused.extend(duel.excused());
        }
        half
    }

    fn fight(&mut self, duel: &mut Duel, seed: u64) {
        let payloads = self.payloads.clone();
        let generator = Generator::new(seed, self.plan.declared, &payloads);
        let mut drawer = match self.plan.way {
            Way::OneByOne => Drawer::OneByOne(generator),
            Way::InTransactions => {
                Drawer::InTransactions(Transactions::new(generator, self.plan.nests()))
            }
        };
        for number in 0..self.plan.requests.div_ceil(EPISODE) {
            let drawn = drawer.draw_all();
            let steps: Vec<Step> = drawn.iter().map(|drawn| drawn.step.clone()).collect();
            let episode = Episode { number, has: self.has };
            match episode.run(duel, &steps) {
                Ok(replies) => self.note(&drawn, &replies),
                Err(found) if self.is_told(&found.difference.command) => {}
                Err(found) => {
                    let told = episode.shrink(duel, steps, *found);
                    let protocol = self.protocol;
                    let place = format!("seed {seed}, RESP{protocol}, episode {number}");
                    self.reports.push(format!("{place}: {told}"));
                }
            }
            if self.reports.len() >= TOLD {
                return;
            }
        }
    }

    /// Counts what an episode without a difference had.
    fn note(&mut self, drawn: &[Drawn], replies: &[Value]) {
        for (drawn, reply) in drawn.iter().zip(replies) {
            match Outcome::of(&drawn.step, reply) {
                Some(outcome) => *self.outcomes.entry(outcome).or_default() += 1,
                None => {
                    let accepted = !matches!(reply, Value::Error(_));
                    self.hits.note(&drawn.name, &drawn.tokens, accepted);
                }
            }
        }
    }

    /// Whether a difference of the same command was told before; notes it.
    fn is_told(&mut self, command: &Command) -> bool {
        let words = command.iter().take(2).map(|word| word.to_ascii_uppercase());
        let words: Vec<Vec<u8>> = words.collect();
        let containers: [&[u8]; 6] =
            [b"CLIENT", b"OBJECT", b"CONFIG", b"COMMAND", b"XGROUP", b"XINFO"];
        let is_container = containers.contains(&words[0].as_slice());
        let name = words[..if is_container { words.len() } else { 1 }].join(&b' ');
        !self.told.insert(name)
    }
}

/// Draws in one of the ways.
enum Drawer<'a> {
    OneByOne(Generator<'a>),
    InTransactions(Transactions<'a>),
}

impl Drawer<'_> {
    /// The requests of an episode.
    fn draw_all(&mut self) -> Vec<Drawn> {
        match self {
            Self::OneByOne(generator) => (0..EPISODE).map(|_| generator.draw()).collect(),
            Self::InTransactions(transactions) => {
                transactions.begin();
                (0..EPISODE).map(|_| transactions.draw()).collect()
            }
        }
    }
}

/// Requests that begin in an empty world.
#[derive(Clone, Copy)]
struct Episode {
    /// Decides the settings.
    number: usize,
    has: Has,
}

/// The first difference of an episode.
struct Found {
    /// How many requests led there: with the one whose replies differ, or all if it is what they
    /// left behind that differs.
    requests: usize,
    /// The database whose values differ.
    database: Option<u8>,
    difference: Difference,
}

impl Episode {
    /// Runs requests, and compares what they left behind.
    fn run(self, duel: &mut Duel, steps: &[Step]) -> Result<Vec<Value>, Box<Found>> {
        duel.leave_transactions();
        duel.run_all(prologue(self.number, self.has.small_sets));
        let replies = duel.try_run_steps(steps).map_err(|difference| {
            let requests = difference.position + 1;
            Box::new(Found { requests, database: None, difference })
        })?;
        duel.leave_transactions();
        compare_states(duel, self.has).map_err(|(database, difference)| {
            let (requests, database) = (steps.len(), Some(database));
            Box::new(Found { requests, database, difference })
        })?;
        Ok(replies)
    }

    /// The difference with as few requests before it as can be found.
    fn shrink(self, duel: &mut Duel, mut steps: Vec<Step>, mut found: Found) -> String {
        steps.truncate(found.requests);
        let mut piece = steps.len() / 2;
        while piece > 0 {
            let mut end = found.removable();
            while end > 0 {
                let begin = end.saturating_sub(piece);
                let mut fewer = steps.clone();
                fewer.drain(begin..end);
                if let Err(again) = self.run(duel, &fewer) {
                    fewer.truncate(again.requests);
                    (steps, found) = (fewer, *again);
                    end = begin.min(found.removable());
                } else {
                    end = begin;
                }
            }
            piece /= 2;
        }
        let lines: Vec<String> = steps.iter().map(told).collect();
        let what = match found.database {
            None => "the replies to the last of these differ".to_owned(),
            Some(database) => {
                let read = line(&found.difference.command);
                format!("after these {read} differs in database {database}")
            }
        };
        format!("{what}\n{}\n{}", lines.join("\n"), found.difference)
    }
}

/// A step in a line; that of the second speaker stands further in.
fn told(step: &Step) -> String {
    let indent = if step.speaker == Speaker::First { "" } else { "    " };
    format!("{indent}{}", line(&step.command))
}

impl Found {
    /// How many requests may be left out: all but the one whose replies differ.
    fn removable(&self) -> usize {
        self.requests - usize::from(self.database.is_none())
    }
}

/// What DUMP makes of strings of every encoding, and of small and large containers.
fn payloads(oracle: &mut Client) -> Vec<Vec<u8>> {
    let strings = ["1", "-129", "70000", "12345678901", "hello", &"z".repeat(400), ""];
    let mut makers: Vec<Vec<String>> =
        strings.iter().map(|value| ["SET", "payload", value].map(str::to_owned).to_vec()).collect();
    for count in [3, 600] {
        let numbers = || (0..count).map(|number: u32| number.to_string());
        let members = || numbers().map(|number| format!("member:{number}"));
        let maker = |name: &str, words: Vec<String>| {
            [vec![name.to_owned(), "payload".to_owned()], words].concat()
        };
        makers.push(maker("RPUSH", members().collect()));
        makers.push(maker("SADD", numbers().collect()));
        makers.push(maker("SADD", members().collect()));
        makers.push(maker("HSET", members().chain(members()).collect()));
        makers.push(maker("ZADD", numbers().zip(members()).flat_map(|(s, m)| [s, m]).collect()));
    }
    let dump = |maker: Vec<String>| {
        oracle.call(&["DEL", "payload"]);
        oracle.call(&maker);
        let payload = oracle.call(&["DUMP", "payload"]);
        payload.as_bytes().expect("DUMP of a key answers a string").to_vec()
    };
    makers.into_iter().map(dump).collect()
}
