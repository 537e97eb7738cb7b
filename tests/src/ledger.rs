//! What clients were promised, kept outside of the server: writers whose every step follows from
//! its number, so that one number tells all the data they should find after a crash.
//!
//! Invariants: a step is one command or one unit; a writer counts it only when its last reply came;
//! the data of a writer's first `n` steps depends on nothing but `n`.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Instant;

use proto::value::Value;

use crate::client::{Arrival, Client, encode};
use crate::process::PATIENCE;

/// Steps that are sent before the reply of the first is read.
const AHEAD: u64 = 4;

/// After so many steps a writer's growing values begin anew.
const ROUND: u64 = 64;

/// Sets one key and one field, and moves something between accounts that no argument names.
const SCRIPT: &str = "redis.call('SET', KEYS[1], ARGV[1])
    local from, to = 'account' .. ARGV[1] % 3, 'account' .. (ARGV[1] + 1) % 3
    redis.call('DECRBY', from, ARGV[1])
    redis.call('INCRBY', to, ARGV[1])
    redis.call('HSET', KEYS[2], 'scripted', ARGV[1])
    return ARGV[1]";

/// The keys that all writers change; their sums say whether a unit was torn.
pub const ACCOUNTS: [&str; 3] = ["account0", "account1", "account2"];

/// How often any writer's unit was carried out.
pub const TOTAL: &str = "total";

/// One writer: its name, and what its data is after the steps that are known to have happened.
#[derive(Clone)]
pub struct Writer {
    name: String,
    /// Steps that are in the data.
    done: u64,
    data: Data,
}

/// What a writer was told in one life of the server.
pub struct Told {
    /// Steps whose replies came.
    pub acknowledged: u64,
    /// Steps that were sent, and may have happened.
    pub sent: u64,
    /// When the replies of this life came.
    pub times: Vec<Instant>,
}

/// The values under a writer's keys.
#[derive(Clone, Default)]
struct Data {
    text: Option<u64>,
    list: VecDeque<u64>,
    moved: VecDeque<u64>,
    pair: Option<u64>,
    units: u64,
    scripted: Option<u64>,
    hash: BTreeMap<String, u64>,
    scores: BTreeMap<u64, u64>,
    stream: VecDeque<u64>,
    halves: u64,
    mortal: Option<u64>,
    length: usize,
}

impl Writer {
    /// A writer that wrote nothing yet.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), done: 0, data: Data::default() }
    }

    /// Steps that are in the data.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Units of all steps that are in the data.
    pub fn units(&self) -> u64 {
        self.data.units
    }

    /// A key of its own.
    pub fn key(&self, suffix: &str) -> String {
        format!("{}:{suffix}", self.name)
    }

    /// Writes on until the connection ends or `limit` steps are sent.
    pub fn write(&self, port: u16, limit: u64) -> Told {
        let mut told = Told { acknowledged: self.done, sent: self.done, times: Vec::new() };
        // A writer that comes late finds no server.
        if let Ok(client) = Client::try_connect(port) {
            // However the writing ended: what was told counts.
            let _ = self.write_on(client, limit, &mut told);
        }
        told
    }

    fn write_on(&self, mut client: Client, limit: u64, told: &mut Told) -> io::Result<()> {
        let mut replies = VecDeque::new();
        while told.acknowledged < self.done + limit {
            while told.sent < (told.acknowledged + AHEAD).min(self.done + limit) {
                let commands = self.step(told.sent + 1);
                replies.push_back(commands.len());
                told.sent += 1;
                let bytes: Vec<u8> = commands.iter().flat_map(|words| encode(words)).collect();
                client.try_send_raw(&bytes)?;
            }
            for _ in 0..replies.pop_front().expect("a step is under way") {
                match client.arrival(PATIENCE)? {
                    Arrival::Reply(Value::Error(error)) => {
                        panic!("{}: {}", self.name, String::from_utf8_lossy(&error))
                    }
                    Arrival::Reply(_) => {}
                    Arrival::Closed => return Ok(()),
                    Arrival::Silence => panic!("{}: no reply", self.name),
                }
            }
            told.acknowledged += 1;
            told.times.push(Instant::now());
        }
        Ok(())
    }

    /// The commands of a step; several are one unit.
    fn step(&self, number: u64) -> Vec<Vec<String>> {
        let n = number.to_string();
        let key = |suffix: &str| self.key(suffix);
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        vec![match Kind::of(number) {
            Kind::Begin => words(&["DEL", &key("l"), &key("m"), &key("p"), &key("f")]),
            Kind::Text => words(&["SET", &key("s"), &n]),
            Kind::Push => words(&["RPUSH", &key("l"), &n]),
            Kind::Move => words(&["LMOVE", &key("l"), &key("m"), "LEFT", "RIGHT"]),
            Kind::Unit => {
                return vec![
                    words(&["MULTI"]),
                    words(&["SET", &key("a"), &n]),
                    words(&["INCR", TOTAL]),
                    words(&["INCR", &key("t")]),
                    words(&["PUBLISH", &key("news"), &n]),
                    words(&["SET", &key("b"), &n]),
                    words(&["EXEC"]),
                ];
            }
            Kind::Script => words(&["EVAL", SCRIPT, "2", &key("c"), &key("h"), &n]),
            Kind::Field => words(&["HSET", &key("h"), &(number % 5).to_string(), &n]),
            Kind::Score => words(&["ZADD", &key("z"), &n, &(number % 7).to_string()]),
            Kind::Stream => words(&["XADD", &key("x"), "MAXLEN", "=", "5", "*", "n", &n]),
            Kind::Half => words(&["INCRBYFLOAT", &key("f"), "0.5"]),
            Kind::Mortal => words(&["SET", &key("e"), &n, "EX", "36000"]),
            Kind::Longer => words(&["APPEND", &key("p"), &"x".repeat((number % 90) as usize)]),
        }]
    }

    /// Finds after how many steps the server stands, at least `told.acknowledged` and at most
    /// `told.sent`, and goes on from there.
    pub fn recover(&mut self, client: &mut Client, told: &Told) {
        let found = self.look(client);
        let mut nearest = Vec::new();
        while self.done <= told.sent {
            if self.done >= told.acknowledged {
                let expected = self.data.describe();
                if expected == found {
                    return;
                }
                nearest.push(expected);
            }
            self.done += 1;
            self.data.take(self.done);
        }
        panic!(
            "{}: found {found:#?}\nafter {} acknowledged and {} sent steps, which is none of \
             {nearest:#?}",
            self.name, told.acknowledged, told.sent
        );
    }

    fn look(&self, client: &mut Client) -> Vec<String> {
        let get = |suffix: &str| vec!["GET".to_owned(), self.key(suffix)];
        let range = |command: &str, suffix: &str, from: &str, to: &str| {
            let mut words = vec![command.to_owned(), self.key(suffix)];
            words.extend([from.to_owned(), to.to_owned()]);
            words
        };
        let mut scores = range("ZRANGE", "z", "0", "-1");
        scores.push("WITHSCORES".to_owned());
        let commands = vec![
            get("s"),
            range("LRANGE", "l", "0", "-1"),
            range("LRANGE", "m", "0", "-1"),
            get("a"),
            get("b"),
            get("t"),
            get("c"),
            vec!["HGETALL".to_owned(), self.key("h")],
            scores,
            range("XRANGE", "x", "-", "+"),
            get("f"),
            get("e"),
            vec!["STRLEN".to_owned(), self.key("p")],
        ];
        let mut replies = client.pipeline(&commands);
        let Value::Array(entries) = &replies[9] else { panic!("XRANGE: {:?}", replies[9]) };
        let fields = entries.iter().map(|entry| match entry {
            Value::Array(parts) => parts[1].clone(),
            other => panic!("an entry: {other:?}"),
        });
        replies[9] = Value::Array(fields.collect());
        let mut texts: Vec<String> = replies.iter().map(flat).collect();
        texts[7] = sorted_pairs(&texts[7]);
        texts
    }
}

enum Kind {
    Begin,
    Text,
    Push,
    Move,
    Unit,
    Script,
    Field,
    Score,
    Stream,
    Half,
    Mortal,
    Longer,
}

impl Kind {
    fn of(number: u64) -> Self {
        if number.is_multiple_of(ROUND) {
            return Self::Begin;
        }
        // Some mixing, so that neighbours are of all kinds.
        match number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40 & 15 {
            0 | 1 => Self::Text,
            2 | 3 => Self::Push,
            4 => Self::Move,
            5..=7 => Self::Unit,
            8 | 9 => Self::Script,
            10 => Self::Field,
            11 => Self::Score,
            12 => Self::Stream,
            13 => Self::Half,
            14 => Self::Mortal,
            _ => Self::Longer,
        }
    }
}

impl Data {
    /// The step of this number happens.
    fn take(&mut self, number: u64) {
        match Kind::of(number) {
            Kind::Begin => {
                (self.list, self.moved) = (VecDeque::new(), VecDeque::new());
                (self.length, self.halves) = (0, 0);
            }
            Kind::Text => self.text = Some(number),
            Kind::Push => self.list.push_back(number),
            Kind::Move => self.moved.extend(self.list.pop_front()),
            Kind::Unit => {
                self.pair = Some(number);
                self.units += 1;
            }
            Kind::Script => {
                self.scripted = Some(number);
                self.hash.insert("scripted".to_owned(), number);
            }
            Kind::Field => _ = self.hash.insert((number % 5).to_string(), number),
            Kind::Score => _ = self.scores.insert(number % 7, number),
            Kind::Stream => {
                self.stream.push_back(number);
                if self.stream.len() > 5 {
                    self.stream.pop_front();
                }
            }
            Kind::Half => self.halves += 1,
            Kind::Mortal => self.mortal = Some(number),
            Kind::Longer => self.length += (number % 90) as usize,
        }
    }

    /// As `Writer::look` finds it.
    fn describe(&self) -> Vec<String> {
        let number = |number: Option<u64>| number.map_or("-".to_owned(), |it| it.to_string());
        let join = |words: Vec<String>| words.join(" ");
        let numbers = |list: &VecDeque<u64>| join(list.iter().map(u64::to_string).collect());
        let mut by_score: Vec<_> = self.scores.iter().collect();
        by_score.sort_by_key(|(_, score)| **score);
        let pairs = self.hash.iter().map(|(field, value)| format!("{field} {value}"));
        let entries = self.stream.iter().map(|number| format!("n {number}"));
        let scores = by_score.into_iter().map(|(member, score)| format!("{member} {score}"));
        let halves = (self.halves > 0).then(|| (self.halves as f64 / 2.0).to_string());
        vec![
            number(self.text),
            numbers(&self.list),
            numbers(&self.moved),
            number(self.pair),
            number(self.pair),
            number((self.units > 0).then_some(self.units)),
            number(self.scripted),
            sorted_pairs(&join(pairs.collect())),
            join(scores.collect()),
            join(entries.collect()),
            halves.unwrap_or("-".to_owned()),
            number(self.mortal),
            self.length.to_string(),
        ]
    }
}

/// All texts of a reply, one after the other.
fn flat(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Array(values) => values.iter().map(flat).collect::<Vec<_>>().join(" "),
        other => String::from_utf8_lossy(other.as_bytes().expect("a text")).into_owned(),
    }
}

/// Fields of a hash have no order.
fn sorted_pairs(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut pairs: Vec<_> = words.chunks(2).map(|pair| pair.join(" ")).collect();
    pairs.sort();
    pairs.join(" ")
}
