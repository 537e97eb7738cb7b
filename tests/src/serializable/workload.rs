//! Clients that run random list-append transactions at once, and note what they saw and when.
//! Invariant: all times of a history come from one clock, read before a request leaves and after
//! its reply is there.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use base::random::Random;
use proto::value::Value;

use super::history::{Element, Key, Operation, Outcome, Transaction};
use crate::client::Client;
use crate::server::Server;

/// How long a list becomes before another takes its place.
const ELEMENTS_MAX: usize = 64;

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many clients.
    pub clients: usize,
    /// Over how many lists at any time.
    pub keys: usize,
    /// How many transactions in all.
    pub transactions: usize,
    /// From which each client's choices follow.
    pub seed: u64,
    /// What the clients do wrong.
    pub fault: Fault,
}

/// Appends each argument to its key, and reads where it is empty. The keys are declared, or they
/// are the first half of the arguments.
const SCRIPT: &str = "local keys, values = KEYS, ARGV \
    if #keys == 0 then \
        local half = #ARGV / 2 \
        keys, values = {}, {} \
        for i = 1, half do keys[i], values[i] = ARGV[i], ARGV[half + i] end \
    end \
    local replies = {} \
    for i, key in ipairs(keys) do \
        if values[i] == '' then replies[i] = redis.call('LRANGE', key, 0, -1) \
        else replies[i] = redis.call('RPUSH', key, values[i]) end \
    end \
    return replies";

/// What clients may leave out, to see that a check finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// MULTI and EXEC.
    NoMulti,
    /// WATCH.
    NoWatch,
}

/// Runs a plan on an empty server. The history ends with a read of each list.
pub fn run(server: &Server, plan: &Plan) -> Vec<Transaction> {
    let shared = Shared {
        plan,
        clock: Instant::now(),
        appended: (0..plan.keys).map(|_| AtomicUsize::new(0)).collect(),
    };
    let worker = |number| Worker {
        client: server.client(),
        number,
        random: Random::from_seed(plan.seed.wrapping_mul(1_000).wrapping_add(number as u64)),
        shared: &shared,
        elements: 0,
        history: Vec::new(),
    };
    let mut history = std::thread::scope(|scope| {
        let start = |number| {
            let mut worker = worker(number);
            scope.spawn(move || {
                (0..plan.transactions / plan.clients).for_each(|_| worker.step());
                worker.history
            })
        };
        let threads: Vec<_> = (0..plan.clients).map(start).collect();
        let histories = threads.into_iter().map(|thread| thread.join().expect("no client fails"));
        histories.flatten().collect::<Vec<_>>()
    });
    let mut last = worker(plan.clients);
    last.read_all();
    history.append(&mut last.history);
    history
}

/// What the clients share.
struct Shared<'a> {
    plan: &'a Plan,
    clock: Instant,
    /// How much was appended in each list's place.
    appended: Vec<AtomicUsize>,
}

/// A client with what it has seen.
struct Worker<'a> {
    client: Client,
    number: usize,
    random: Random,
    shared: &'a Shared<'a>,
    elements: u64,
    history: Vec<Transaction>,
}

/// A command to be sent.
enum Planned {
    Append(Key, Vec<Element>),
    Read(Key),
    /// One that fails while the others take effect.
    Failing(Key),
}

impl Planned {
    fn words(&self) -> Vec<String> {
        let name = |key: &Key| format!("list:{key}");
        match self {
            Self::Append(key, elements) => {
                let elements = elements.iter().map(u64::to_string);
                ["RPUSH".to_owned(), name(key)].into_iter().chain(elements).collect()
            }
            Self::Read(key) => ["LRANGE", &name(key), "0", "-1"].map(str::to_owned).to_vec(),
            Self::Failing(key) => {
                ["HSET", &name(key), "field", "value"].map(str::to_owned).to_vec()
            }
        }
    }

    /// The operation as the key and the argument of a script; nothing if it cannot be one.
    fn as_script(&self) -> Option<(String, String)> {
        let name = |key: &Key| format!("list:{key}");
        match self {
            Self::Append(key, elements) => Some((name(key), elements.first()?.to_string())),
            Self::Read(key) => Some((name(key), String::new())),
            Self::Failing(_) => None,
        }
    }

    /// What was done, by the reply if there was one.
    fn operations(&self, reply: Option<&Value>) -> Vec<Operation> {
        match self {
            Self::Append(key, elements) => {
                let told = |place| match reply {
                    Some(Value::Integer(length)) if place + 1 == elements.len() => {
                        Some(usize::try_from(*length).expect("no length is below zero"))
                    }
                    Some(Value::Integer(_)) | None => None,
                    Some(other) => panic!("RPUSH: {other:?}"),
                };
                let elements = elements.iter().enumerate();
                let append = |(place, element): (usize, &Element)| Operation::Append {
                    key: *key,
                    element: *element,
                    length: told(place),
                };
                elements.map(append).collect()
            }
            Self::Read(key) => {
                let read = |reply| Operation::Read { key: *key, list: elements_of(reply) };
                reply.map(read).into_iter().collect()
            }
            Self::Failing(_) => {
                let is_fine = reply.is_none_or(|reply| matches!(reply, Value::Error(_)));
                assert!(is_fine, "HSET: {reply:?}");
                Vec::new()
            }
        }
    }
}

fn elements_of(reply: &Value) -> Vec<Element> {
    let Value::Array(items) = reply else { panic!("LRANGE: {reply:?}") };
    let number = |item: &Value| {
        let text = item.as_bytes().map(String::from_utf8_lossy);
        text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("an element: {item:?}"))
    };
    items.iter().map(number).collect()
}

impl Worker<'_> {
    /// Runs one transaction of some form.
    fn step(&mut self) {
        let count = 1 + self.random.below(4);
        match self.random.below(16) {
            0 => {
                let planned = [self.read()];
                self.alone(&planned);
            }
            1 => {
                let planned = [self.append()];
                self.alone(&planned);
            }
            2 => {
                let planned: Vec<Planned> = (0..count).map(|_| self.append()).collect();
                self.discarded(&planned);
            }
            3..=6 => self.watched(),
            7 => {
                let mut planned: Vec<Planned> = (0..count).map(|_| self.any()).collect();
                // The list is there, and an error undoes nothing.
                let append = self.append();
                if let Planned::Append(key, _) = append {
                    planned.extend([append, Planned::Failing(key)]);
                }
                planned.push(self.any());
                self.together(&planned);
            }
            8..=11 => {
                let planned: Vec<Planned> = (0..count).map(|_| self.any_single()).collect();
                self.scripted(&planned);
            }
            _ => {
                let planned: Vec<Planned> = (0..count).map(|_| self.any()).collect();
                self.together(&planned);
            }
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.shared.clock.elapsed().as_nanos()).expect("no test takes centuries")
    }

    /// The list that stands in one of the places now.
    fn key(&mut self) -> (usize, Key) {
        let place = self.random.below(self.shared.plan.keys as u64) as usize;
        let before = self.shared.appended[place].load(Ordering::Relaxed) / ELEMENTS_MAX;
        let key = before * self.shared.plan.keys + place;
        (place, Key::try_from(key).expect("there are fewer lists than numbers"))
    }

    fn any(&mut self) -> Planned {
        if self.random.below(2) == 0 { self.append() } else { self.read() }
    }

    /// The same with one element at most.
    fn any_single(&mut self) -> Planned {
        if self.random.below(2) == 0 { self.append_some(1) } else { self.read() }
    }

    fn read(&mut self) -> Planned {
        Planned::Read(self.key().1)
    }

    fn append(&mut self) -> Planned {
        let count = 1 + self.random.below(8) / 7;
        self.append_some(count)
    }

    fn append_some(&mut self, count: u64) -> Planned {
        let (place, key) = self.key();
        self.shared.appended[place].fetch_add(count as usize, Ordering::Relaxed);
        let elements = (0..count).map(|_| {
            self.elements += 1;
            ((self.number as u64) << 32) | self.elements
        });
        Planned::Append(key, elements.collect())
    }

    fn note(&mut self, invoked: u64, outcome: Outcome, operations: Vec<Operation>) {
        let (client, completed) = (self.number, self.now());
        self.history.push(Transaction { client, invoked, completed, outcome, operations });
    }

    /// Each command by itself, noted as one transaction.
    fn alone(&mut self, planned: &[Planned]) {
        let invoked = self.now();
        let replies: Vec<Value> =
            planned.iter().map(|command| self.client.call(&command.words())).collect();
        self.note(invoked, Outcome::Committed, operations(planned, Some(&replies)));
    }

    /// All commands in MULTI.
    fn together(&mut self, planned: &[Planned]) {
        if self.shared.plan.fault == Fault::NoMulti {
            return self.alone(planned);
        }
        let invoked = self.now();
        let replies = self.execute(planned).expect("without WATCH nothing aborts");
        self.note(invoked, Outcome::Committed, operations(planned, Some(&replies)));
    }

    /// All commands in a script, which may declare its keys or not.
    fn scripted(&mut self, planned: &[Planned]) {
        if self.shared.plan.fault == Fault::NoMulti {
            return self.alone(planned);
        }
        let (keys, values): (Vec<_>, Vec<_>) =
            planned.iter().filter_map(Planned::as_script).unzip();
        let declared = if self.random.below(2) == 0 { keys.len() } else { 0 };
        let begin = ["EVAL".to_owned(), SCRIPT.to_owned(), declared.to_string()];
        let words: Vec<String> = begin.into_iter().chain(keys).chain(values).collect();
        let invoked = self.now();
        let replies = match self.client.call(&words) {
            Value::Array(replies) if replies.len() == planned.len() => replies,
            other => panic!("EVAL: {other:?}"),
        };
        self.note(invoked, Outcome::Committed, operations(planned, Some(&replies)));
    }

    /// All commands in MULTI, which is given up.
    fn discarded(&mut self, planned: &[Planned]) {
        let invoked = self.now();
        self.queue(planned);
        assert_eq!(self.client.call(&["DISCARD"]), Value::Simple(b"OK".to_vec()));
        self.note(invoked, Outcome::Aborted, operations(planned, None));
    }

    /// Reads, and appends if nobody else did since.
    fn watched(&mut self) {
        let reads = [self.read(), self.read()];
        let planned = [self.append(), self.any()];
        let invoked = self.now();
        if self.shared.plan.fault != Fault::NoWatch {
            let keys = reads.iter().map(|read| read.words().swap_remove(1));
            let words: Vec<String> = ["WATCH".to_owned()].into_iter().chain(keys).collect();
            assert_eq!(self.client.call(&words), Value::Simple(b"OK".to_vec()));
        }
        let mut seen = Vec::new();
        let mut moments = vec![invoked];
        for read in &reads {
            let reply = self.client.call(&read.words());
            seen.push(read.operations(Some(&reply)));
            moments.push(self.now());
        }
        if let Some(replies) = self.execute(&planned) {
            let mut all = seen.concat();
            all.extend(operations(&planned, Some(&replies)));
            return self.note(invoked, Outcome::Committed, all);
        }
        self.note(invoked, Outcome::Aborted, operations(&planned, None));
        for (read, moment) in seen.into_iter().zip(moments.windows(2)) {
            let (client, outcome) = (self.number, Outcome::Committed);
            let (invoked, completed) = (moment[0], moment[1]);
            self.history.push(Transaction {
                client,
                invoked,
                completed,
                outcome,
                operations: read,
            });
        }
    }

    /// MULTI and the commands, in one write or in several.
    fn queue(&mut self, planned: &[Planned]) {
        let mut commands = vec![vec!["MULTI".to_owned()]];
        commands.extend(planned.iter().map(Planned::words));
        let replies = if self.random.below(2) == 0 {
            self.client.pipeline(&commands)
        } else {
            commands.iter().map(|command| self.client.call(command)).collect()
        };
        let queued = Value::Simple(b"QUEUED".to_vec());
        assert!(replies[1..].iter().all(|reply| *reply == queued), "{replies:?}");
    }

    /// The replies of EXEC, or nothing when what was watched had changed.
    fn execute(&mut self, planned: &[Planned]) -> Option<Vec<Value>> {
        self.queue(planned);
        match self.client.call(&["EXEC"]) {
            Value::Array(replies) if replies.len() == planned.len() => Some(replies),
            Value::NullArray | Value::Null => None,
            other => panic!("EXEC: {other:?}"),
        }
    }

    /// Reads every list there is.
    fn read_all(&mut self) {
        let (places, plan) = (&self.shared.appended, self.shared.plan);
        let generations = places.iter().map(|count| count.load(Ordering::Relaxed) / ELEMENTS_MAX);
        let lists = (generations.max().unwrap_or_default() + 1) * plan.keys;
        for key in 0..lists as Key {
            self.alone(&[Planned::Read(key)]);
        }
    }
}

fn operations(planned: &[Planned], replies: Option<&[Value]>) -> Vec<Operation> {
    let reply = |number: usize| replies.map(|replies| &replies[number]);
    let parts = planned.iter().enumerate();
    parts.flat_map(|(number, command)| command.operations(reply(number))).collect()
}
