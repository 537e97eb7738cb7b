//! A model of the few commands that steps are made of. Invariant: databases 1 and 2 stay where they
//! are; the caller says whether they changed places.

use std::collections::{BTreeMap, VecDeque};

use super::State;

#[derive(Default)]
pub(super) struct Store {
    entries: BTreeMap<(usize, String), Entry>,
}

#[derive(Clone)]
enum Entry {
    Text(String),
    Mortal(String, String),
    List(VecDeque<String>),
    Hash(BTreeMap<String, String>),
    Scores(BTreeMap<String, u64>),
}

impl Store {
    /// Runs the commands of one step.
    pub(super) fn take(&mut self, commands: &[Vec<String>], is_swapped: bool) {
        let mut database = 0;
        for command in commands {
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            if let ["SELECT", number] = command[..] {
                database = number.parse().expect("a number");
                if is_swapped && database > 0 {
                    database = 3 - database;
                }
            } else {
                self.run(database, &command);
            }
        }
    }

    fn run(&mut self, database: usize, command: &[&str]) {
        let at = |key: &str| (database, key.to_owned());
        match *command {
            ["GET", _] | ["FLUSHDB"] | ["SWAPDB", ..] => {}
            // The key is gone before a client can look.
            ["SET", _, _, "PX", _] => {}
            ["SET", key, value] => self.put(at(key), Entry::Text(value.to_owned())),
            ["SET", key, value, "PXAT", deadline] => {
                self.put(at(key), Entry::Mortal(value.to_owned(), deadline.to_owned()));
            }
            ["MSET", one, first, other, second] => {
                self.put(at(one), Entry::Text(first.to_owned()));
                self.put(at(other), Entry::Text(second.to_owned()));
            }
            ["DEL", one, other] => {
                self.entries.remove(&at(one));
                self.entries.remove(&at(other));
            }
            ["RENAME", from, to] => {
                let entry = self.entries.remove(&at(from)).expect("it was set right before");
                self.put(at(to), entry);
            }
            ["COPY", from, to, "REPLACE"] => {
                let entry = self.entries[&at(from)].clone();
                self.put(at(to), entry);
            }
            ["INCR", key] => self.add(at(key), 1),
            ["INCRBY", key, by] => self.add(at(key), by.parse().expect("a number")),
            ["DECRBY", key, by] => self.add(at(key), -by.parse::<i64>().expect("a number")),
            ["RPUSH", key, value] => self.list(at(key)).push_back(value.to_owned()),
            ["LMOVE", from, to, "LEFT", "RIGHT"] => {
                let Some(moved) = self.list(at(from)).pop_front() else { return };
                self.list(at(to)).push_back(moved);
            }
            ["LTRIM", key, "-9", "-1"] => {
                let list = self.list(at(key));
                list.drain(..list.len().saturating_sub(9));
            }
            ["HSET", key, field, value] => {
                let new = || Entry::Hash(BTreeMap::new());
                let entry = self.entries.entry(at(key)).or_insert_with(new);
                let Entry::Hash(fields) = entry else { panic!("{key} is a hash") };
                fields.insert(field.to_owned(), value.to_owned());
            }
            ["ZADD", key, score, member] => {
                let new = || Entry::Scores(BTreeMap::new());
                let entry = self.entries.entry(at(key)).or_insert_with(new);
                let Entry::Scores(scores) = entry else { panic!("{key} is a sorted set") };
                scores.insert(member.to_owned(), score.parse().expect("a number"));
            }
            _ => panic!("the model does not know {command:?}"),
        }
    }

    fn put(&mut self, at: (usize, String), entry: Entry) {
        self.entries.insert(at, entry);
    }

    fn add(&mut self, at: (usize, String), by: i64) {
        let entry = self.entries.entry(at).or_insert_with(|| Entry::Text("0".to_owned()));
        let Entry::Text(text) = entry else { panic!("a counter is a text") };
        *text = (text.parse::<i64>().expect("a number") + by).to_string();
    }

    fn list(&mut self, at: (usize, String)) -> &mut VecDeque<String> {
        let entry = self.entries.entry(at).or_insert_with(|| Entry::List(VecDeque::new()));
        let Entry::List(list) = entry else { panic!("a list") };
        list
    }

    /// What a client finds for which databases 1 and 2 may have changed places.
    pub(super) fn state(&self, is_swapped: bool) -> State {
        let is_there = |entry: &Entry| !matches!(entry, Entry::List(list) if list.is_empty());
        let entries = self.entries.iter().filter(|(_, entry)| is_there(entry));
        let shown = |((database, key), entry): (&(usize, String), &Entry)| {
            let database = if is_swapped && *database > 0 { 3 - database } else { *database };
            ((database, key.clone()), entry.describe())
        };
        entries.map(shown).collect()
    }
}

impl Entry {
    /// As `run::look` finds it.
    fn describe(&self) -> String {
        let words: Vec<String> = match self {
            Self::Text(text) => vec![text.clone()],
            Self::Mortal(text, deadline) => vec![text.clone(), "until".into(), deadline.clone()],
            Self::List(list) => list.iter().cloned().collect(),
            Self::Hash(fields) => {
                fields.iter().map(|(field, value)| format!("{field}={value}")).collect()
            }
            Self::Scores(scores) => {
                scores.iter().map(|(member, score)| format!("{member}={score}")).collect()
            }
        };
        words.join(" ")
    }
}
