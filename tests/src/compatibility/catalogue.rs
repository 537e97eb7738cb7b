//! The union of all commands and option words, each with its state.
//!
//! Invariant: nothing is done but what Apus declares and a test calls in both protocols.

use std::collections::{BTreeMap, BTreeSet};

use super::inventory::{Inventory, Known};
use super::lists::Lists;
use super::records::{Called, Records};

/// All commands by group.
pub(crate) struct Catalogue {
    pub(crate) groups: BTreeMap<String, Vec<Entry>>,
}

/// A command.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) state: State,
    /// Why it is refused or not yet there, or in which protocol it was not called.
    pub(crate) reason: String,
    /// The option words with their states.
    pub(crate) options: BTreeMap<String, State>,
}

/// How far a command or an option is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Done,
    Untested,
    NotYet,
    Refused,
}

impl State {
    /// All of them, the best first.
    pub(crate) const ALL: [Self; 4] = [Self::Done, Self::Untested, Self::NotYet, Self::Refused];

    /// As the page says it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Untested => "untested",
            Self::NotYet => "not yet",
            Self::Refused => "refused",
        }
    }
}

impl Catalogue {
    /// Joins what Apus, the oracles and the lists know.
    pub(crate) fn new(
        ours: &Inventory,
        oracles: &[Inventory],
        lists: &Lists,
        records: &Records,
    ) -> Self {
        let inventories = || std::iter::once(ours).chain(oracles.iter().rev());
        let mut groups: BTreeMap<String, String> = BTreeMap::new();
        for (name, known) in inventories().flat_map(|inventory| &inventory.commands) {
            groups.entry(name.clone()).or_insert_with(|| group_title(&known.group));
        }
        for [name, who, _] in &lists.rivals {
            groups.entry(name.clone()).or_insert_with(|| format!("{RIVALS}{who}"));
        }
        let names: BTreeSet<&String> = groups.keys().collect();
        let mut catalogue = Self { groups: BTreeMap::new() };
        for (name, group) in &groups {
            let tokens = inventories().filter_map(|inventory| inventory.commands.get(name));
            let tokens = tokens.flat_map(|known| &known.tokens).cloned().collect();
            let begin = format!("{name} ");
            let is_bare = names.iter().any(|other| other.starts_with(&begin));
            let command = Joined { name, is_bare, ours: ours.commands.get(name), tokens };
            let entry = command.judge(lists, records);
            catalogue.groups.entry(group.clone()).or_default().push(entry);
        }
        catalogue
    }

    /// How many commands are in a state.
    pub(crate) fn commands(&self, state: State) -> usize {
        self.entries().filter(|entry| entry.state == state).count()
    }

    /// How many option words are in a state.
    pub(crate) fn options(&self, state: State) -> usize {
        let options = self.entries().flat_map(|entry| entry.options.values());
        options.filter(|option| **option == state).count()
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.groups.values().flatten()
    }
}

/// The beginning of the title of a group that no oracle knows.
const RIVALS: &str = "only in: ";

fn group_title(group: &str) -> String {
    if group.is_empty() { "no group".to_owned() } else { group.to_owned() }
}

/// A command with all that is known of it.
struct Joined<'a> {
    name: &'a str,
    /// Whether it has subcommands too.
    is_bare: bool,
    ours: Option<&'a Known>,
    tokens: BTreeSet<String>,
}

impl Joined<'_> {
    fn judge(self, lists: &Lists, records: &Records) -> Entry {
        let (state, reason) = self.state(lists, records);
        let option_state = |token: &str| match (state, self.ours) {
            (State::NotYet | State::Refused, _) | (_, None) => state,
            (_, Some(ours)) if !ours.tokens.contains(token) => State::NotYet,
            _ => match records.called(self.name, self.is_bare, Some(token)) {
                Called::Both => State::Done,
                Called::Without(_) | Called::Never => State::Untested,
            },
        };
        let options = self.tokens.iter().map(|token| (token.clone(), option_state(token)));
        Entry { name: self.name.to_owned(), state, reason, options: options.collect() }
    }

    fn state(&self, lists: &Lists, records: &Records) -> (State, String) {
        if let Some(remark) = lists.remark(self.name) {
            let state = if remark.is_refused { State::Refused } else { State::NotYet };
            return (state, remark.reason.clone());
        }
        if self.ours.is_none() {
            return (State::NotYet, String::new());
        }
        match records.called(self.name, self.is_bare, None) {
            Called::Both => (State::Done, String::new()),
            Called::Without(protocol) => (State::Untested, format!("in RESP{protocol}")),
            Called::Never => (State::Untested, String::new()),
        }
    }
}
