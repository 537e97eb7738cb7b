//! The directives of the real servers' CONFIG GET and what Apus' own table says of them.

use std::collections::BTreeMap;

use config::{ALL, ConfigOption, Status};
use tests::{Oracle, Server};

use super::inventory::{pairs, text};

/// A directive of a configuration.
pub(crate) struct Directive {
    pub(crate) name: String,
    /// The servers that have it.
    pub(crate) who: Vec<&'static str>,
    pub(crate) state: State,
    /// What the directive is, where Apus knows it.
    pub(crate) doc: &'static str,
}

/// How far a directive is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Works,
    Accepted,
    NotYet,
    Unknown,
}

impl State {
    /// All of them, the best first.
    pub(crate) const ALL: [Self; 4] = [Self::Works, Self::Accepted, Self::NotYet, Self::Unknown];

    /// As the page says it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Accepted => "accepted",
            Self::NotYet => "not yet",
            Self::Unknown => "unknown",
        }
    }
}

/// Every directive of the real servers and of Apus, by name.
pub(crate) fn all(oracles: &[Server; 3]) -> Vec<Directive> {
    let mut who: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
    for (oracle, server) in Oracle::ALL.into_iter().zip(oracles) {
        let directives = server.client3().call(&["CONFIG", "GET", "*"]);
        for (name, _) in pairs(&directives) {
            who.entry(text(name)).or_default().push(title(oracle));
        }
    }
    for option in ALL {
        who.entry(option.name.to_owned()).or_default();
    }
    let directive = |(name, who): (String, Vec<&'static str>)| {
        let option = ConfigOption::named(name.as_bytes());
        let state = option.map_or(State::Unknown, |option| match option.status {
            Status::Works => State::Works,
            Status::Accepted => State::Accepted,
            Status::NotYet | Status::Missing => State::NotYet,
        });
        Directive { name, who, state, doc: option.map_or("", |option| option.doc) }
    };
    who.into_iter().map(directive).collect()
}

fn title(oracle: Oracle) -> &'static str {
    match oracle {
        Oracle::Redis62 => "Redis 6.2",
        Oracle::Redis70 => "Redis 7.0",
        Oracle::Redis82 => "Redis 8.2",
        Oracle::Valkey91 => "Valkey 9.1",
    }
}
