//! The shape of an option's block: all that is known about one directive.

use base::quote::quote;

use super::kind::{self, Kind};
use super::options::ALL;
use super::store;

/// One directive of the configuration.
#[derive(Clone, Copy)]
pub struct ConfigOption {
    /// Its name, in lower case.
    pub name: &'static str,
    /// Other names that mean the same.
    pub aliases: &'static [&'static str],
    /// How its value is written, stored and shown.
    pub kind: Kind,
    /// The value it has unless told otherwise, as a configuration file would say it.
    pub default: &'static str,
    /// When the directive may change.
    pub mutability: Mutability,
    /// What the directive does here.
    pub status: Status,
    /// Whether CONFIG GET shows it only when asked for it by its exact name.
    pub hidden: bool,
    /// Whether its value is a secret that logs must not show.
    pub sensitive: bool,
    /// What the directive is, in one sentence.
    pub doc: &'static str,
    /// What is paid for it, in one sentence, where that is worth knowing.
    pub cost: &'static str,
}

/// When an option may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutability {
    /// At any time, by CONFIG SET.
    Live,
    /// Only when the server starts.
    Startup,
    /// By CONFIG SET only where `enable-protected-configs` allows it.
    Protected,
}

/// How far an option is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The option does what it does in the server it comes from.
    Works,
    /// The option is accepted, but has nothing to act on in this architecture.
    Accepted,
    /// The option is accepted, but what it controls is not there yet.
    NotYet,
    /// What the directive controls is not there yet, and an operator that asks for it counts on it:
    /// only the default is accepted.
    Missing,
}

/// A live option that works and needs nothing done after a change: what blocks start from.
pub(super) const LIVE_OPTION: ConfigOption = ConfigOption {
    name: "",
    aliases: &[],
    kind: kind::BOOL,
    default: "",
    mutability: Mutability::Live,
    status: Status::Works,
    hidden: false,
    sensitive: false,
    doc: "",
    cost: "",
};

/// A live option that has nothing to act on here.
pub(super) const ACCEPTED: ConfigOption = ConfigOption { status: Status::Accepted, ..LIVE_OPTION };

/// A live option whose meaning arrives later.
pub(super) const NOT_YET: ConfigOption = ConfigOption { status: Status::NotYet, ..LIVE_OPTION };

/// An option that others rely on, whose meaning arrives later.
pub(super) const MISSING: ConfigOption = ConfigOption { status: Status::Missing, ..LIVE_OPTION };

impl ConfigOption {
    /// The option of that name, or alias, in any case.
    pub fn named(name: &[u8]) -> Option<&'static ConfigOption> {
        ALL.iter().find(|option| option.is_called(name))
    }

    /// Its name and its aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// The lines of a file that say its default: none where a file says nothing.
    pub fn default_lines(&self) -> Vec<String> {
        let lines = match self.kind {
            // The default is shown as written: a path would be shown as it is on this machine.
            Kind::Text(_) => vec![quote(self.default.as_bytes())],
            kind => {
                let index = ALL.iter().position(|option| option.name == self.name);
                kind.lines(store::default_of(index.expect("ALL has every option")))
            }
        };
        lines.iter().map(|line| format!("{} {line}", self.name)).collect()
    }

    /// Whether `name` is its name or an alias, in any case.
    pub fn is_called(&self, name: &[u8]) -> bool {
        self.names().any(|own| own.as_bytes().eq_ignore_ascii_case(name))
    }
}
