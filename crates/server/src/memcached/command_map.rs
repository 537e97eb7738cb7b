//! Which command of Redis stands for what a memcached client asks: the gates go by its flags,
//! statistics and monitors by its name.
//!
//! Invariant: a command that the operator has taken away is away on every port.

use engine::limits::budget;
use engine::table::command_table::{CommandEntry, CommandTable};
use proto::OwnedArgs;
use proto::memcached::{
    Administration, KEY_LENGTH_MAX, Key, Keys, Operation, Request, StoreMode, Words,
};
use smallvec::SmallVec;

/// What is done, as far as it matters to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandKind {
    Get,
    GetAndTouch,
    Set,
    Append,
    Delete,
    Increment,
    Touch,
    Flush,
    Report,
    ResetReport,
    Configure,
    Dump,
    Watch,
    Stop,
    LogIn,
}

const COMMANDS: [(CommandKind, &str); 15] = [
    (CommandKind::Get, "GET"),
    (CommandKind::GetAndTouch, "GETEX"),
    (CommandKind::Set, "SET"),
    (CommandKind::Append, "APPEND"),
    (CommandKind::Delete, "DEL"),
    (CommandKind::Increment, "INCRBY"),
    (CommandKind::Touch, "PEXPIREAT"),
    (CommandKind::Flush, "FLUSHDB"),
    (CommandKind::Report, "INFO"),
    (CommandKind::ResetReport, "CONFIG|RESETSTAT"),
    (CommandKind::Configure, "CONFIG|SET"),
    (CommandKind::Dump, "SCAN"),
    (CommandKind::Watch, "MONITOR"),
    (CommandKind::Stop, "SHUTDOWN"),
    (CommandKind::LogIn, "AUTH"),
];

impl CommandKind {
    /// What a request on items does.
    pub(super) fn of(operation: &Operation<'_>) -> Self {
        match operation {
            Operation::Retrieve(retrieve) if retrieve.vivify.is_some() => Self::Set,
            Operation::Retrieve(retrieve) if retrieve.touch.is_some() => Self::GetAndTouch,
            Operation::Store(store) => match store.mode {
                StoreMode::Append | StoreMode::Prepend => Self::Append,
                StoreMode::Set | StoreMode::Add | StoreMode::Replace => Self::Set,
            },
            Operation::Delete(_) | Operation::Refuse(_) => Self::Delete,
            Operation::Arithmetic(_) => Self::Increment,
            Operation::Touch { .. } => Self::Touch,
            Operation::Flush(_) => Self::Flush,
            Operation::Statistics(words) => Self::of_report(*words),
            Operation::Administer(what, words) => Self::of_administration(*what, *words),
            _ => Self::Get,
        }
    }
}

impl CommandKind {
    fn of_report(mut words: Words<'_>) -> Self {
        match words.next() {
            Some(b"reset") => Self::ResetReport,
            Some(b"cachedump") => Self::Dump,
            // What counts by prefix is a setting.
            Some(b"detail") if matches!(words.next(), Some(b"on" | b"off")) => Self::Configure,
            _ => Self::Report,
        }
    }

    fn of_administration(what: Administration, mut words: Words<'_>) -> Self {
        match what {
            Administration::Shutdown => Self::Stop,
            Administration::Watch => Self::Watch,
            Administration::LruCrawler => match words.next() {
                Some(b"metadump" | b"mgdump") => Self::Dump,
                _ => Self::Configure,
            },
            _ => Self::Configure,
        }
    }
}

/// The commands that there are.
pub(super) struct CommandMap([Option<&'static CommandEntry>; COMMANDS.len()]);

impl CommandMap {
    /// Finds them by the names that they were declared by, once at the start, whatever they are
    /// called now.
    pub(super) fn find(table: &'static CommandTable) -> Self {
        let among =
            |all: &'static [CommandEntry], name: &str| all.iter().find(|it| it.spec.name == name);
        let named = |name: &str| match name.split_once('|') {
            None => among(table.entries(), name),
            Some((container, name)) => among(&among(table.entries(), container)?.subcommands, name),
        };
        Self(COMMANDS.map(|(_, name)| named(name)))
    }

    #[inline]
    pub(super) fn entry(&self, kind: CommandKind) -> Option<&'static CommandEntry> {
        self.0[kind as usize]
    }
}

/// What room a request needs before it runs, as far as it tells.
#[inline]
pub(super) fn room_for(operation: &Operation<'_>) -> usize {
    match operation {
        Operation::Store(store) => budget::room_of(store.value.len()),
        _ => 0,
    }
}

/// How many bytes a request's words take, about.
#[inline]
pub(super) fn extent(operation: &Operation<'_>) -> usize {
    match operation {
        Operation::Store(store) => store.key.text().len() + store.value.len(),
        Operation::Retrieve(retrieve) => retrieve.keys.extent(),
        _ => 0,
    }
}

/// The keys of a request on items.
pub(super) fn keys_of<'a>(operation: &Operation<'a>) -> impl Iterator<Item = Key<'a>> {
    let (several, one): (Option<Keys<'a>>, Option<Key<'a>>) = match operation {
        Operation::Retrieve(retrieve) => (Some(retrieve.keys), None),
        Operation::Store(store) => (None, Some(store.key)),
        Operation::Delete(delete) => (None, Some(delete.key)),
        Operation::Arithmetic(change) => (None, Some(change.key)),
        Operation::Touch { key, .. } | Operation::Inspect(key) => (None, Some(*key)),
        Operation::Refuse(refusal) => (None, refusal.removes),
        _ => (None, None),
    };
    several.into_iter().flatten().chain(one)
}

/// A request in words, for monitors and for the logs.
pub(super) fn words(request: &Request<'_>) -> OwnedArgs {
    let mut buffer = [0; KEY_LENGTH_MAX];
    let operation = &request.operation;
    let keys = keys_of(operation).map(|key| key.bytes(&mut buffer).to_vec());
    let keys: SmallVec<[Vec<u8>; 4]> = keys.collect();
    let amount = match operation {
        Operation::Arithmetic(change) if change.decrements => format!("-{}", change.delta),
        Operation::Arithmetic(change) => change.delta.to_string(),
        _ => String::new(),
    };
    let value = match operation {
        Operation::Store(store) => Some(store.value),
        Operation::Arithmetic(_) => Some(amount.as_bytes()),
        _ => None,
    };
    let (_, command) = COMMANDS[CommandKind::of(operation) as usize];
    let name = command.split('|').map(str::as_bytes);
    name.chain(keys.iter().map(Vec::as_slice)).chain(value).collect()
}

#[cfg(test)]
mod tests {
    use super::COMMANDS;

    #[test]
    fn kinds_are_places_and_their_commands_are_there() {
        let server = crate::start::test_server();
        let commands = super::CommandMap::find(&server.table);
        for (index, (kind, name)) in COMMANDS.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
            let own = name.rsplit('|').next().unwrap();
            assert_eq!(commands.entry(kind).expect("a command of ours").spec.name, own);
        }
    }
}
