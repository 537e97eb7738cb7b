//! The commands of a running server with their groups and option words, as its COMMAND DOCS tells
//! them.

use std::collections::{BTreeMap, BTreeSet};

use proto::value::Value;
use tests::Client;

/// The commands by name, in upper case, a subcommand behind its container: `CLIENT KILL`.
pub(crate) struct Inventory {
    pub(crate) commands: BTreeMap<String, Known>,
}

/// What a server says of a command.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) group: String,
    pub(crate) tokens: BTreeSet<String>,
}

impl Inventory {
    /// Asks a server, in RESP3. A container is no command unless it runs without a subcommand.
    pub(crate) fn of(client: &mut Client) -> Self {
        let docs = client.call(&["COMMAND", "DOCS"]);
        let mut commands = BTreeMap::new();
        for (name, doc) in pairs(&docs) {
            collect(&text(name), doc, &mut commands);
        }
        for name in elements(&client.call(&["COMMAND", "LIST"])) {
            commands.entry(title(&text(name))).or_default();
        }
        for command in elements(&client.call(&["COMMAND", "INFO"])) {
            let [name, Value::Integer(arity), ..] = elements(command) else { continue };
            let name = title(&text(name));
            if *arity != -1 && has_subcommands(&name, commands.keys()) {
                commands.remove(&name);
            }
        }
        Self { commands }
    }

    /// Adds a group of another one.
    pub(crate) fn add_group(&mut self, group: &str, other: Self) {
        self.commands.extend(other.commands.into_iter().filter(|(_, known)| known.group == group));
    }
}

/// Whether any of the commands is a subcommand of this one.
pub(crate) fn has_subcommands<'a>(
    name: &str,
    mut commands: impl Iterator<Item = &'a String>,
) -> bool {
    commands.any(|other| other.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')))
}

/// Adds a command, or a container and its subcommands.
fn collect(name: &str, doc: &Value, commands: &mut BTreeMap<String, Known>) {
    let group = field(doc, "group").map(text).unwrap_or_default();
    let mut known = Known { group, tokens: BTreeSet::new() };
    add_tokens(doc, &mut known.tokens);
    commands.insert(title(name), known);
    for (name, doc) in field(doc, "subcommands").map(pairs).unwrap_or_default() {
        collect(&text(name), doc, commands);
    }
}

/// Adds the option words of the arguments of a command or of a group of arguments.
fn add_tokens(doc: &Value, tokens: &mut BTreeSet<String>) {
    for argument in field(doc, "arguments").map(elements).unwrap_or_default() {
        let token = field(argument, "token").map(text).unwrap_or_default();
        let token = token.trim().trim_matches('"').to_ascii_uppercase();
        if !token.is_empty() {
            tokens.insert(token);
        }
        add_tokens(argument, tokens);
    }
}

/// `client|kill` as one would type it: `CLIENT KILL`.
fn title(name: &str) -> String {
    name.replace('|', " ").to_ascii_uppercase()
}

/// The pairs of a map.
pub(crate) fn pairs(value: &Value) -> &[(Value, Value)] {
    match value {
        Value::Map(pairs) => pairs,
        other => panic!("a map, not {other:?}"),
    }
}

fn elements(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        other => panic!("a list, not {other:?}"),
    }
}

fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    let found = pairs(map).iter().find(|(key, _)| key.as_bytes() == Some(name.as_bytes()));
    found.map(|(_, value)| value)
}

/// The text of a string of any kind.
pub(crate) fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned()
}
