//! The union of all commands and option words, each with its state.
//!
//! Invariant: nothing is done but what Apus declares and a test calls in both protocols.

use std::collections::{BTreeMap, BTreeSet};

use super::inventory::{Inventory, Known, has_subcommands};
use super::lists::Lists;
use super::records::{Called, Records};

/// All commands by group.
pub(crate) struct Catalogue {
    pub(crate) groups: BTreeMap<Group, Vec<Entry>>,
}

/// A group of commands; those that the real servers know come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// As COMMAND DOCS names it.
    Known(String),
    /// The rival that has its commands, and since when.
    Rival(String, String),
}

/// A command.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) state: State,
    /// What follows the state: why it is refused or not yet there, or in which protocol it was not
    /// called.
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
        let mut groups: BTreeMap<&String, Group> = BTreeMap::new();
        for (name, known) in inventories().flat_map(|inventory| &inventory.commands) {
            groups.entry(name).or_insert_with(|| Group::Known(known.group.clone()));
        }
        for [name, who, since] in &lists.rivals {
            groups.entry(name).or_insert_with(|| Group::Rival(who.clone(), since.clone()));
        }
        let mut catalogue = Self { groups: BTreeMap::new() };
        for (name, group) in &groups {
            let known = inventories().filter_map(|inventory| inventory.commands.get(*name));
            let told = known.flat_map(|known| &known.tokens).cloned();
            let listed = lists.options.iter().filter(|[command, ..]| command == *name);
            let listed = listed.flat_map(|[_, words, _]| words.split(' ').map(str::to_owned));
            let tokens = told.chain(listed).collect();
            let is_container = has_subcommands(name, groups.keys().copied());
            let command = Joined { name, is_container, ours: ours.commands.get(*name), tokens };
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

/// A command with all that is known of it.
struct Joined<'a> {
    name: &'a str,
    is_container: bool,
    ours: Option<&'a Known>,
    tokens: BTreeSet<String>,
}

impl Joined<'_> {
    fn judge(self, lists: &Lists, records: &Records) -> Entry {
        let (state, reason) = self.state(lists, records);
        let option_state = |token: &str| match (state, self.ours) {
            (State::NotYet | State::Refused, _) | (_, None) => state,
            (_, Some(ours)) if !ours.tokens.contains(token) => State::NotYet,
            _ => match records.called(self.name, self.is_container, Some(token)) {
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
            return (state, format!(" ({})", remark.reason));
        }
        if self.ours.is_none() {
            return (State::NotYet, String::new());
        }
        match records.called(self.name, self.is_container, None) {
            Called::Both => (State::Done, String::new()),
            Called::Without(protocol) => (State::Untested, format!(" in RESP{protocol}")),
            Called::Never => (State::Untested, String::new()),
        }
    }
}
