//! Commands as the oracle's COMMAND DOCS declares them, for those that the server under test
//! lists as well. Invariant: every token of a shared command has one number, by which its hits
//! are counted.

use std::collections::HashSet;

use proto::value::Value;

use crate::client::Client;

/// A command or subcommand that both servers have.
#[derive(Debug)]
pub struct Declared {
    /// In lower case, `container|subcommand` for a subcommand.
    pub name: String,
    /// Its family, in the documentation's word.
    pub group: String,
    /// What a request begins with.
    pub words: Vec<Vec<u8>>,
    /// What follows, as the documentation says it.
    pub arguments: Vec<Argument>,
    /// Every option word of the arguments, once.
    pub tokens: Vec<String>,
}

/// One argument or group of arguments.
#[derive(Debug)]
pub struct Argument {
    /// Its name in the documentation.
    pub name: String,
    /// What the argument is.
    pub kind: Kind,
    /// The number of the option word before it, in [`Declared::tokens`].
    pub token: Option<usize>,
    /// Whether the argument may be left out.
    pub is_optional: bool,
    /// Whether the argument may be repeated.
    pub is_multiple: bool,
    /// Whether the option word is repeated with it.
    pub repeats_token: bool,
    /// The members of a group.
    pub members: Vec<Argument>,
}

/// Kinds of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The name of a key.
    Key,
    /// Any bytes.
    String,
    /// An integer.
    Integer,
    /// A float.
    Double,
    /// A point in time.
    UnixTime,
    /// A glob pattern.
    Pattern,
    /// Nothing but its token.
    Token,
    /// One of its members.
    OneOf,
    /// All its members.
    Block,
}

/// The commands that both servers have, in the oracle's words and the order of their names.
pub fn shared(ours: &mut Client, oracle: &mut Client) -> Vec<Declared> {
    let ours = names(&ours.call(&["COMMAND", "LIST"]));
    let docs = oracle.call(&["COMMAND", "DOCS"]);
    let mut found = Vec::new();
    for (name, doc) in pairs(&docs) {
        collect(&text(name), doc, &mut found);
    }
    found.retain(|command| ours.contains(&command.name));
    found.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(!found.is_empty(), "the servers share no command");
    found
}

fn names(list: &Value) -> HashSet<String> {
    elements(list).iter().map(|name| text(name).to_ascii_lowercase()).collect()
}

/// Adds a command, or the subcommands of a container.
fn collect(name: &str, doc: &Value, found: &mut Vec<Declared>) {
    if let Some(subcommands) = field(doc, "subcommands") {
        for (name, doc) in pairs(subcommands) {
            collect(&text(name), doc, found);
        }
        return;
    }
    let words = name.split('|').map(|word| word.to_ascii_uppercase().into_bytes()).collect();
    let mut tokens = Vec::new();
    let arguments = arguments(field(doc, "arguments"), &mut tokens);
    let group = field(doc, "group").map(text).unwrap_or_default();
    found.push(Declared { name: name.to_owned(), group, words, arguments, tokens });
}

fn arguments(list: Option<&Value>, tokens: &mut Vec<String>) -> Vec<Argument> {
    let list = list.map(elements).unwrap_or_default();
    list.iter().map(|argument| argument_of(argument, tokens)).collect()
}

fn argument_of(doc: &Value, tokens: &mut Vec<String>) -> Argument {
    let flags: HashSet<String> =
        field(doc, "flags").map(elements).unwrap_or_default().iter().map(text).collect();
    let token = field(doc, "token").map(text).filter(|token| !token.trim().is_empty());
    let token = token.map(|token| number_of(token.to_ascii_uppercase(), tokens));
    let kind = field(doc, "type").map(text).unwrap_or_default();
    Argument {
        name: field(doc, "name").map(text).unwrap_or_default().to_ascii_lowercase(),
        kind: kind_of(&kind),
        token,
        is_optional: flags.contains("optional"),
        is_multiple: flags.contains("multiple"),
        repeats_token: flags.contains("multiple_token"),
        members: arguments(field(doc, "arguments"), tokens),
    }
}

fn number_of(token: String, tokens: &mut Vec<String>) -> usize {
    let known = tokens.iter().position(|other| *other == token);
    known.unwrap_or_else(|| {
        tokens.push(token);
        tokens.len() - 1
    })
}

fn kind_of(name: &str) -> Kind {
    match name {
        "key" => Kind::Key,
        "string" => Kind::String,
        "integer" => Kind::Integer,
        "double" => Kind::Double,
        "unix-time" => Kind::UnixTime,
        "pattern" => Kind::Pattern,
        "pure-token" => Kind::Token,
        "oneof" => Kind::OneOf,
        "block" => Kind::Block,
        other => panic!("an argument of the type {other:?}"),
    }
}

/// The pairs of a map, which RESP2 writes as one list.
fn pairs(value: &Value) -> Vec<(&Value, &Value)> {
    match value {
        Value::Map(pairs) => pairs.iter().map(|(key, value)| (key, value)).collect(),
        list => elements(list).chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
    }
}

fn elements(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        other => panic!("a list, not {other:?}"),
    }
}

fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    let found = pairs(map).into_iter().find(|(key, _)| key.as_bytes() == Some(name.as_bytes()));
    found.map(|(_, value)| value)
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned()
}
