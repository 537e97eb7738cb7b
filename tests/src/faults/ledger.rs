//! What writers were told while system calls fail, kept outside of the server: for each key what
//! it may hold.
//!
//! Invariants: a key has one writer, which sends a step when the one before is answered or its
//! connection is closed; what was acknowledged is all that a key may hold until the next step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use proto::value::Value;

use super::subject::BOUND;
use crate::client::{Arrival, Client, encode};
use crate::render::text;

/// Each writer has so many keys.
const KEYS: u64 = 12;

/// How often a writer connects again.
const CONNECTIONS: usize = 20;

const SCRIPT: &str = "redis.call('SET', KEYS[1], ARGV[1]) redis.call('SET', KEYS[2], ARGV[1])
    return redis.status_reply('OK')";

/// Errors behind which nothing was done.
const REFUSALS: [&str; 7] = ["MISCONF", "OOM", "BUSY", "LOADING", "EXECABORT", "NOPERM", "NOAUTH"];

/// What keys may hold; none is a key that may be absent.
type Allowed = BTreeMap<String, BTreeSet<Option<String>>>;

/// What was told.
#[derive(Default)]
pub struct Ledger {
    allowed: Mutex<Allowed>,
    /// Errors that writers were told.
    errors: Mutex<BTreeSet<String>>,
    /// Connections that were closed.
    closed: AtomicU64,
}

/// One step: what is sent, and what keys hold behind it.
struct Step {
    commands: Vec<Vec<String>>,
    keys: Vec<String>,
    value: Option<String>,
}

/// How a step ended.
enum End {
    Done,
    Refused,
    /// The step may have happened.
    Unknown,
    Closed,
}

impl Ledger {
    /// A writer takes so many steps, as far as a server answers; steps are numbered from `first`
    /// on.
    pub fn write(&self, port: u16, writer: usize, first: u64, steps: u64) {
        let mut client = None;
        let mut connections = 0;
        for number in first..first + steps {
            if client.is_none() {
                connections += 1;
                let connected = Client::try_connect(port).ok();
                client = connected.filter(|_| connections <= CONNECTIONS);
            }
            let Some(open) = &mut client else { return };
            if !self.take(open, &step(writer, number)) {
                self.closed.fetch_add(1, Ordering::Relaxed);
                client = None;
            }
        }
    }

    /// Takes a step; whether the connection is open behind it.
    fn take(&self, client: &mut Client, step: &Step) -> bool {
        let before: Vec<_> = {
            let mut allowed = self.allowed();
            let begin = |key: &String| {
                let of_key = allowed.entry(key.clone()).or_insert_with(|| BTreeSet::from([None]));
                let before = of_key.clone();
                of_key.insert(step.value.clone());
                before
            };
            step.keys.iter().map(begin).collect()
        };
        let end = self.send(client, step);
        let mut allowed = self.allowed();
        for (key, before) in step.keys.iter().zip(before) {
            match end {
                End::Done => _ = allowed.insert(key.clone(), BTreeSet::from([step.value.clone()])),
                End::Refused => _ = allowed.insert(key.clone(), before),
                End::Unknown | End::Closed => {}
            }
        }
        !matches!(end, End::Closed)
    }

    fn send(&self, client: &mut Client, step: &Step) -> End {
        let bytes: Vec<u8> = step.commands.iter().flat_map(|words| encode(words)).collect();
        if client.try_send_raw(&bytes).is_err() {
            return End::Closed;
        }
        let mut end = End::Done;
        for _ in &step.commands {
            match client.arrival(BOUND) {
                Ok(Arrival::Reply(Value::Error(error))) => {
                    let error = String::from_utf8_lossy(&error).into_owned();
                    let is_refused = REFUSALS.iter().any(|word| error.starts_with(word));
                    end = if is_refused { End::Refused } else { End::Unknown };
                    self.errors.lock().expect("no holder panics").insert(error);
                }
                Ok(Arrival::Reply(_)) => {}
                Ok(Arrival::Silence) => panic!("no reply to {:?}", step.commands),
                Ok(Arrival::Closed) | Err(_) => return End::Closed,
            }
        }
        end
    }

    /// What writers were told that went wrong.
    pub fn errors(&self) -> Vec<String> {
        self.errors.lock().expect("no holder panics").iter().cloned().collect()
    }

    /// How many connections of writers were closed.
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    /// Whether the server holds what it may; the error says what else it holds.
    pub fn check(&self, client: &mut Client) -> Result<(), String> {
        let allowed = self.allowed();
        let commands: Vec<_> =
            allowed.keys().map(|key| vec!["GET".to_owned(), key.clone()]).collect();
        for ((key, allowed), found) in allowed.iter().zip(client.pipeline(&commands)) {
            let found = match &found {
                Value::Null => None,
                other => Some(text(other)),
            };
            if !allowed.contains(&found) {
                return Err(format!("{key} is {found:?}, and not of {allowed:?}"));
            }
        }
        Ok(())
    }

    /// From here on what the server holds is what it may.
    pub fn settle(&self, client: &mut Client) {
        let mut allowed = self.allowed();
        for (key, allowed) in allowed.iter_mut() {
            let found = client.call(&["GET", key]);
            *allowed = BTreeSet::from([(found != Value::Null).then(|| text(&found))]);
        }
    }

    fn allowed(&self) -> MutexGuard<'_, Allowed> {
        self.allowed.lock().expect("no holder panics")
    }
}

fn step(writer: usize, number: u64) -> Step {
    let key = |number: u64| format!("w{writer}:{}", number % KEYS);
    let n = number.to_string();
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let (first, second) = (key(number * 7), key(number * 7 + 1));
    let pair = vec![first.clone(), second.clone()];
    let (keys, value, commands) = match number % 6 {
        0 => (vec![first.clone()], None, vec![words(&["DEL", &first])]),
        1 => {
            let unit = [&["MULTI"][..], &["SET", &first, &n], &["SET", &second, &n], &["EXEC"]];
            (pair, Some(n.clone()), unit.iter().map(|command| words(command)).collect())
        }
        2 => {
            let script = words(&["EVAL", SCRIPT, "2", &first, &second, &n]);
            (pair, Some(n), vec![script])
        }
        _ => (vec![first.clone()], Some(n.clone()), vec![words(&["SET", &first, &n])]),
    };
    Step { commands, keys, value }
}
