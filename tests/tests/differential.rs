//! Random requests get the same replies from Apus and from the real servers, in both protocols.
//! A difference is told as the shortest sequence of requests that still shows it.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;

use base::random::Random;
use proto::value::Value;
use tests::client::line;
use tests::differential::{Command, Difference, Exception};
use tests::generator::{Declared, Drawn, Generator, Hits, PROLOGUE, rule, shared};
use tests::{Client, Duel, Oracle, Server};

/// How many requests an oracle is asked, both protocols together.
const REQUESTS: usize = 500_000;
/// Requests between two empty worlds.
const EPISODE: usize = 340;
/// The seeds that every run has; one fresh seed is added.
const SEEDS: [u64; 3] = [1, 2, 3];
/// How many differences are told before a run gives up.
const TOLD: usize = 6;

#[test]
fn as_redis70() {
    duel(Oracle::Redis70, REDIS70);
}

#[test]
fn as_redis82() {
    duel(Oracle::Redis82, REDIS82);
}

#[test]
fn as_valkey91() {
    duel(Oracle::Valkey91, VALKEY91);
}

const REDIS70: &[Exception] = &[CURSORS, ONE_WORD, SMALL_SETS, QUICKLISTS, STORED_KEYS, NO_SCORES];
const REDIS82: &[Exception] = &[CURSORS, EMBEDDED];
const VALKEY91: &[Exception] = &[
    CURSORS,
    UNKNOWN_TYPES,
    TIME_BEFORE_KEY,
    EMBEDDED,
    UNBLOCK_IGNORES,
    NO_CLUSTER,
    PAIRS,
    NO_SCORES,
];

const CURSORS: Exception = Exception {
    reason: "cursors that no server ever gives, such as -7, are numbers to some and not to others",
    applies: |command, ours, theirs| {
        (is(command, "SCAN") || is(command, "SSCAN"))
            && [ours, theirs].map(|reply| is_error(reply, "ERR invalid cursor")).contains(&true)
    },
};

const EMBEDDED: Exception = Exception {
    reason: "from Redis 8 and Valkey 8 on, the length of the key and other things decide \
             between embstr and raw; here it is the length of the string",
    applies: |command, ours, theirs| {
        is(command, "OBJECT")
            && [ours, theirs]
                .iter()
                .all(|reply| matches!(reply.as_bytes(), Some(b"embstr" | b"raw")))
    },
};

const SMALL_SETS: Exception = Exception {
    reason: "until Redis 7.2 a small set with members that are no integers was a hash table",
    applies: |command, ours, theirs| {
        is(command, "OBJECT")
            && ours.as_bytes() == Some(b"listpack")
            && theirs.as_bytes() == Some(b"hashtable")
    },
};

const QUICKLISTS: Exception = Exception {
    reason: "until Redis 7.2 every list was a quicklist",
    applies: |command, ours, theirs| {
        is(command, "OBJECT")
            && ours.as_bytes() == Some(b"listpack")
            && theirs.as_bytes() == Some(b"quicklist")
    },
};

const UNKNOWN_TYPES: Exception = Exception {
    reason: "Valkey refuses to scan for a type that it does not know",
    applies: |command, _, theirs| is(command, "SCAN") && is_error(theirs, "ERR unknown type name"),
};

const UNBLOCK_IGNORES: Exception = Exception {
    reason: "Valkey ignores what follows CLIENT UNBLOCK and its reason",
    applies: |command, _, _| is(command, "CLIENT") && command.len() > 4,
};

const TIME_BEFORE_KEY: Exception = Exception {
    reason: "Valkey reads the time before it looks for the key",
    applies: |command, ours, theirs| {
        is(command, "GETEX")
            && (*ours == Value::Null || is_error(ours, "WRONGTYPE"))
            && matches!(theirs, Value::Error(_))
    },
};

const ONE_WORD: Exception = Exception {
    reason: "until Redis 7.2 COMMAND GETKEYS refused commands without arguments by its own arity",
    applies: |command, _, theirs| {
        is(command, "COMMAND") && command.len() == 3 && is_error(theirs, "ERR wrong number")
    },
};

const STORED_KEYS: Exception = Exception {
    reason: "until Redis 8 the destination of SINTERSTORE counted as read, too",
    applies: |command, _, _| {
        is(command, "COMMAND")
            && command.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"GETKEYSANDFLAGS"))
            && command.get(2).is_some_and(|word| word.eq_ignore_ascii_case(b"SINTERSTORE"))
    },
};

const NO_CLUSTER: Exception = Exception {
    reason: "Valkey takes READONLY and READWRITE without a cluster",
    applies: |command, ours, _| {
        (is(command, "READONLY") || is(command, "READWRITE")) && is_error(ours, "ERR This instance")
    },
};

const PAIRS: Exception = Exception {
    reason: "Valkey has another error for a wrong number of pairs; ours is that of Redis 8.4",
    applies: |command, ours, theirs| {
        is(command, "MSETEX") && [ours, theirs].iter().all(|reply| is_error(reply, "ERR "))
    },
};

const NO_SCORES: Exception = Exception {
    reason: "an empty string is no number to Valkey, and to Redis 7.0 not after a number out of \
             range; ours is that of Redis 8.2, as with numbers out of range",
    applies: |command, ours, theirs| {
        let refused = "ERR One or more scores can't be converted into double";
        is(command, "SORT_RO") && (is_error(ours, refused) != is_error(theirs, refused))
    },
};

fn is(command: &Command, name: &str) -> bool {
    command[0].eq_ignore_ascii_case(name.as_bytes())
}

fn is_error(reply: &Value, beginning: &str) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with(beginning.as_bytes()))
}

fn duel(oracle: Oracle, exceptions: &'static [Exception]) {
    let (ours, theirs) = (Server::start(&[]), oracle.start(&[]));
    let declared = shared(&mut ours.client(), &mut theirs.client());
    drop((ours, theirs));
    let fresh = Random::from_entropy().next_u64();
    let seeds: Vec<u64> = SEEDS.into_iter().chain([fresh]).collect();
    let halves = std::thread::scope(|scope| {
        let run = |protocol| {
            let (declared, seeds) = (&declared, &seeds);
            scope.spawn(move || Half::run(oracle, exceptions, protocol, declared, seeds))
        };
        let halves = [run("2"), run("3")];
        halves.map(|half| half.join().expect("a duel reports instead of panicking"))
    });
    let mut hits = Hits::new(&declared);
    let mut reports = Vec::new();
    let mut excused = BTreeMap::new();
    for half in halves {
        hits.add(&half.hits);
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
    assert!(hits.missing().is_empty(), "never sent or never accepted: {:?}", hits.missing());
    let unused: Vec<_> = excused.iter().filter(|(_, count)| **count == 0).collect();
    assert!(unused.is_empty(), "exceptions that excuse nothing: {unused:?}");
}

/// Prints whether or not the test passes.
fn tell(text: &str) {
    writeln!(std::io::stderr(), "{text}").expect("standard error can be written to");
}

/// One protocol's share of the requests, with a pair of servers of its own.
struct Half<'a> {
    protocol: &'static str,
    declared: &'a [Declared],
    hits: Hits,
    reports: Vec<String>,
    /// The commands whose difference is among the reports.
    told: HashSet<Vec<u8>>,
    excused: Vec<(&'static str, u64)>,
}

impl<'a> Half<'a> {
    fn run(
        oracle: Oracle,
        exceptions: &'static [Exception],
        protocol: &'static str,
        declared: &'a [Declared],
        seeds: &[u64],
    ) -> Self {
        let (ours, theirs) = (Server::start(&[]), oracle.start(&[]));
        let payloads = payloads(&mut theirs.client());
        let hits = Hits::new(declared);
        let mut half = Self {
            protocol,
            declared,
            hits,
            reports: Vec::new(),
            told: HashSet::new(),
            excused: Vec::new(),
        };
        for seed in seeds {
            let connect = |server: &Server| match protocol {
                "3" => server.client3(),
                _ => server.client(),
            };
            let duel = Duel::new(connect(&ours), connect(&theirs), *seed);
            let mut duel = duel.ruled(rule).except(exceptions);
            let requests = REQUESTS / 2 / seeds.len();
            half.fight(&mut duel, *seed, requests, &payloads);
            half.excused.extend(duel.excused());
        }
        half
    }

    fn fight(&mut self, duel: &mut Duel, seed: u64, requests: usize, payloads: &[Vec<u8>]) {
        let mut generator = Generator::new(seed, self.declared, payloads);
        for number in 0..requests.div_ceil(EPISODE) {
            let drawn: Vec<Drawn> = (0..EPISODE).map(|_| generator.draw()).collect();
            let commands: Vec<Command> = drawn.iter().map(|drawn| drawn.command.clone()).collect();
            match try_episode(duel, &commands) {
                Ok(replies) => {
                    for (drawn, reply) in drawn.iter().zip(replies) {
                        let accepted = !matches!(reply, Value::Error(_));
                        self.hits.note(&drawn.name, &drawn.tokens, accepted);
                    }
                }
                Err(difference) if self.is_told(&commands[difference.position]) => {}
                Err(difference) => {
                    let told = shrink(duel, commands, difference);
                    let protocol = self.protocol;
                    let place = format!("seed {seed}, RESP{protocol}, episode {number}");
                    let text = format!("{place}: the replies to the last of these differ\n{told}");
                    self.reports.push(text);
                }
            }
            if self.reports.len() >= TOLD {
                return;
            }
        }
    }

    /// Whether a difference of the same command was told before; notes it.
    fn is_told(&mut self, command: &Command) -> bool {
        let words = command.iter().take(2).map(|word| word.to_ascii_uppercase());
        let words: Vec<Vec<u8>> = words.collect();
        let is_container =
            ["CLIENT", "OBJECT", "CONFIG", "COMMAND"].iter().any(|name| is(command, name));
        let name = words[..if is_container { words.len() } else { 1 }].join(&b' ');
        !self.told.insert(name)
    }
}

/// Runs requests in an empty world.
fn try_episode(duel: &mut Duel, commands: &[Command]) -> Result<Vec<Value>, Difference> {
    let words = |words: &&[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    duel.run_all(PROLOGUE.iter().map(words).collect());
    duel.try_run_all(commands)
}

/// The difference with as few requests before it as can be found.
fn shrink(duel: &mut Duel, mut commands: Vec<Command>, mut found: Difference) -> String {
    commands.truncate(found.position + 1);
    let mut piece = commands.len() / 2;
    while piece > 0 {
        let mut end = commands.len() - 1;
        while end > 0 {
            let begin = end.saturating_sub(piece);
            let mut fewer = commands.clone();
            fewer.drain(begin..end);
            if let Err(again) = try_episode(duel, &fewer) {
                fewer.truncate(again.position + 1);
                (commands, found) = (fewer, again);
                end = begin.min(commands.len() - 1);
            } else {
                end = begin;
            }
        }
        piece /= 2;
    }
    let lines: Vec<String> = commands.iter().map(|command| line(command)).collect();
    format!("{}\n{found}", lines.join("\n"))
}

/// What DUMP makes of strings of every encoding.
fn payloads(oracle: &mut Client) -> Vec<Vec<u8>> {
    let values = ["1", "-129", "70000", "12345678901", "hello", &"z".repeat(400), ""];
    let payloads = values.map(|value| {
        oracle.call(&["SET", "payload", value]);
        let payload = oracle.call(&["DUMP", "payload"]);
        payload.as_bytes().expect("DUMP of a key answers a string").to_vec()
    });
    payloads.to_vec()
}
