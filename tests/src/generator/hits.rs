//! How often each command and each of its option words was sent, and answered without an error.

use std::collections::BTreeMap;
use std::fmt;

use super::declared::Declared;
use super::rules;

/// Counts by command.
#[derive(Default)]
pub struct Hits {
    commands: BTreeMap<String, CommandHits>,
}

#[derive(Default)]
struct CommandHits {
    own: Count,
    tokens: Vec<(String, Count)>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    sent: u64,
    accepted: u64,
}

impl Hits {
    /// Nothing yet, for every command that is drawn.
    pub fn new(declared: &[Declared]) -> Self {
        let drawn = declared.iter().filter(|command| rules::is_drawn(&command.name));
        let entry = |command: &Declared| {
            let tokens = command.tokens.iter().map(|token| (token.clone(), Count::default()));
            let hits = CommandHits { own: Count::default(), tokens: tokens.collect() };
            (command.name.clone(), hits)
        };
        Self { commands: drawn.map(entry).collect() }
    }

    /// Counts a request and the option words in it.
    pub fn note(&mut self, name: &str, tokens: &[usize], accepted: bool) {
        let hits = self.commands.get_mut(name).expect("every drawn command is counted");
        hits.own.note(accepted);
        for number in tokens {
            hits.tokens[*number].1.note(accepted);
        }
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        for (name, theirs) in &other.commands {
            let hits = self.commands.get_mut(name).expect("both runs draw the same commands");
            hits.own.add(theirs.own);
            for ((_, mine), (_, theirs)) in hits.tokens.iter_mut().zip(&theirs.tokens) {
                mine.add(*theirs);
            }
        }
    }

    /// How many requests were sent.
    pub fn sent(&self) -> u64 {
        self.commands.values().map(|hits| hits.own.sent).sum()
    }

    /// What was never sent, or never answered but with an error.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for (name, hits) in &self.commands {
            if hits.own.is_missing() {
                missing.push(name.clone());
            }
            let tokens = hits.tokens.iter().filter(|(_, count)| count.is_missing());
            missing.extend(tokens.map(|(token, _)| format!("{name} {token}")));
        }
        missing.retain(|what| !rules::is_always_refused(what));
        missing
    }
}

impl Count {
    fn note(&mut self, accepted: bool) {
        self.sent += 1;
        self.accepted += u64::from(accepted);
    }

    fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.accepted += other.accepted;
    }

    fn is_missing(self) -> bool {
        self.accepted == 0
    }
}

/// One line for each command: sent and accepted, then the same for its option words.
impl fmt::Display for Hits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, hits) in &self.commands {
            write!(formatter, "{name} {}/{}", hits.own.sent, hits.own.accepted)?;
            for (token, count) in &hits.tokens {
                write!(formatter, ", {token} {}/{}", count.sent, count.accepted)?;
            }
            writeln!(formatter)?;
        }
        Ok(())
    }
}
