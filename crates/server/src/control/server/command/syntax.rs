//! The grammar of a declaration's `syntax` line, read into the arguments of COMMAND DOCS.
//!
//! Words in upper case are tokens, others are values. `[..]` may be left out, `<..>` may not, `|`
//! separates choices, and a bracket that ends in `...` may be repeated: `key [key ...]` is one or
//! more keys. What a value is follows from its name; where that does not tell, the line does:
//! `increment:double`.
//!
//! Invariant: every token of the line is a token of some argument.

/// An argument as COMMAND DOCS describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) kind: ArgumentKind,
    /// The word that stands before the value, or is all there is.
    pub(crate) token: Option<&'static str>,
    pub(crate) optional: bool,
    pub(crate) multiple: bool,
    /// Whether the token is repeated with the value.
    pub(crate) multiple_token: bool,
    /// Of a choice or a block.
    pub(crate) arguments: Vec<Self>,
}

/// Types of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentKind {
    Key,
    Integer,
    Double,
    String,
    Pattern,
    UnixTime,
    PureToken,
    OneOf,
    Block,
}

impl ArgumentKind {
    /// As COMMAND DOCS prints it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Integer => "integer",
            Self::Double => "double",
            Self::String => "string",
            Self::Pattern => "pattern",
            Self::UnixTime => "unix-time",
            Self::PureToken => "pure-token",
            Self::OneOf => "oneof",
            Self::Block => "block",
        }
    }
}

/// The arguments that a line describes. Names of keys mean keys only where the command has some.
pub(crate) fn arguments(syntax: &'static str, has_keys: bool) -> Vec<Argument> {
    let mut words = words(syntax);
    let items = items(&mut words);
    Reader { has_keys }.sequence(&items)
}

/// A part of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Token(&'static str),
    Value(&'static str),
    Group { optional: bool, repeated: bool, choices: Vec<Vec<Item>> },
}

/// Splits the line into words and signs, last one first.
fn words(syntax: &'static str) -> Vec<&'static str> {
    let mut words = Vec::new();
    for mut word in syntax.split_ascii_whitespace() {
        while word.len() > 1 && word.starts_with(['[', '<']) {
            words.push(&word[..1]);
            word = &word[1..];
        }
        let end = word.trim_end_matches([']', '>']).len().max(1);
        words.push(&word[..end]);
        words.extend((end..word.len()).map(|at| &word[at..=at]));
    }
    words.reverse();
    words
}

/// Reads items up to the end of the choice; what ends it stays.
fn items(words: &mut Vec<&'static str>) -> Vec<Item> {
    let mut items = Vec::new();
    while let Some(&word) = words.last() {
        match word {
            "]" | ">" | "|" | "..." => break,
            "[" | "<" => {
                words.pop();
                items.push(group(words, word == "["));
                continue;
            }
            _ if word.bytes().any(|byte| byte.is_ascii_lowercase()) => {
                items.push(Item::Value(word));
            }
            _ => items.push(Item::Token(word)),
        }
        words.pop();
    }
    items
}

/// Reads a bracket and its end.
fn group(words: &mut Vec<&'static str>, optional: bool) -> Item {
    let (mut choices, mut repeated) = (Vec::new(), false);
    loop {
        choices.push(items(words));
        match words.pop() {
            Some("|") => {}
            Some("...") => {
                repeated = true;
                words.pop();
                break;
            }
            _ => break,
        }
    }
    Item::Group { optional, repeated, choices }
}

struct Reader {
    has_keys: bool,
}

impl Reader {
    fn sequence(&self, items: &[Item]) -> Vec<Argument> {
        let mut arguments = Vec::new();
        let mut at = 0;
        while let Some(item) = items.get(at) {
            match (item, items.get(at + 1)) {
                (
                    Item::Token(token),
                    Some(
                        next @ (Item::Value(_)
                        | Item::Group { optional: false, repeated: false, .. }),
                    ),
                ) => {
                    arguments.push(Argument { token: Some(token), ..self.one(next) });
                    at += 1;
                }
                (Item::Group { repeated: true, choices, .. }, _)
                    if items[..at].ends_with(&choices[0]) =>
                {
                    self.repeat(&mut arguments, &choices[0]);
                }
                _ => arguments.push(self.one(item)),
            }
            at += 1;
        }
        arguments
    }

    /// Notes that the last arguments may come again.
    fn repeat(&self, arguments: &mut Vec<Argument>, items: &[Item]) {
        let first = arguments.len() - self.sequence(items).len();
        let mut repeated = arguments.split_off(first);
        let argument = match repeated.len() {
            1 => repeated.remove(0),
            _ if matches!(items[0], Item::Token(_)) => self.block(items),
            _ => Argument { arguments: repeated, ..Argument::new("data", ArgumentKind::Block) },
        };
        let multiple_token = argument.token.is_some() && matches!(items[0], Item::Token(_));
        arguments.push(Argument { multiple: true, multiple_token, ..argument });
    }

    fn one(&self, item: &Item) -> Argument {
        match item {
            Item::Token("\"\"") => Argument {
                token: Some(""),
                ..Argument::new("empty-string", ArgumentKind::PureToken)
            },
            Item::Token(token) => Argument {
                token: Some(token),
                ..Argument::new(&token.to_ascii_lowercase(), ArgumentKind::PureToken)
            },
            Item::Value(word) => self.value(word),
            Item::Group { optional, repeated, choices } => {
                let argument = match &choices[..] {
                    [only] => self.block(only),
                    choices => {
                        let arguments = choices.iter().map(|choice| self.block(choice)).collect();
                        Argument {
                            arguments,
                            ..Argument::new(choice_name(choices), ArgumentKind::OneOf)
                        }
                    }
                };
                let multiple = argument.multiple || *repeated;
                Argument { optional: *optional, multiple, ..argument }
            }
        }
    }

    /// A sequence as one argument.
    fn block(&self, items: &[Item]) -> Argument {
        let mut arguments = self.sequence(items);
        if arguments.len() == 1 {
            return arguments.remove(0);
        }
        if let [Item::Token(token), rest @ ..] = items
            && !matches!(rest.first(), Some(Item::Token(_)))
        {
            // The token speaks for all that follows, as in `LIMIT offset count`.
            let arguments = self.sequence(rest);
            let block = Argument::new(&token.to_ascii_lowercase(), ArgumentKind::Block);
            return Argument { token: Some(token), arguments, ..block };
        }
        let name = match arguments.iter().any(|argument| argument.optional) {
            true => "arguments".to_owned(),
            false => arguments.iter().map(|it| &it.name[..]).collect::<Vec<_>>().join("-"),
        };
        Argument { arguments, ..Argument::new(&name, ArgumentKind::Block) }
    }

    fn value(&self, word: &'static str) -> Argument {
        let typed = word.rsplit_once(':').and_then(|(name, kind)| Some((name, named_kind(kind)?)));
        let (name, kind) = typed.unwrap_or_else(|| (word, self.kind_of(word)));
        Argument::new(name, kind)
    }

    fn kind_of(&self, name: &str) -> ArgumentKind {
        let is = |list: &[&str]| list.contains(&name);
        if self.has_keys && is(KEYS) {
            ArgumentKind::Key
        } else if name.starts_with("unix-time-") {
            ArgumentKind::UnixTime
        } else if is(INTEGERS) {
            ArgumentKind::Integer
        } else if is(DOUBLES) {
            ArgumentKind::Double
        } else if is(PATTERNS) {
            ArgumentKind::Pattern
        } else {
            ArgumentKind::String
        }
    }
}

impl Argument {
    fn new(name: &str, kind: ArgumentKind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            token: None,
            optional: false,
            multiple: false,
            multiple_token: false,
            arguments: Vec::new(),
        }
    }
}

/// A type named in the line.
fn named_kind(name: &str) -> Option<ArgumentKind> {
    [
        ArgumentKind::Integer,
        ArgumentKind::Double,
        ArgumentKind::String,
        ArgumentKind::Pattern,
        ArgumentKind::UnixTime,
    ]
    .into_iter()
    .find(|kind| kind.name() == name)
}

/// What Redis calls a choice, told by the first of the words to choose from.
fn choice_name(choices: &[Vec<Item>]) -> &'static str {
    let Some(Item::Token(first) | Item::Value(first)) = choices[0].first() else { return "choice" };
    CHOICES.iter().find(|(word, _)| word == first).map_or("choice", |(_, name)| name)
}

const CHOICES: &[(&str, &str)] = &[
    ("NX", "condition"),
    ("IFEQ", "condition"),
    ("EX", "expiration"),
    ("ASYNC", "flush-type"),
    ("ASC", "order"),
    ("NOSAVE", "save-selector"),
    ("TIMEOUT", "unblock-type"),
    ("MODULE", "filterby"),
    ("NORMAL", "client-type"),
    ("ON", "enabled"),
    ("YES", "mode"),
    ("WRITE", "mode"),
    ("HARD", "reset-type"),
    ("FORCE", "options"),
    ("SLOTSRANGE", "filter"),
    ("IMPORTING", "subcommand"),
    ("LIB-NAME", "attr"),
    ("SLOW", "type"),
    ("host", "args"),
    ("count", "operation"),
    ("SUM", "operation"),
    ("EXACT", "predicate"),
    ("ip:port", "filter"),
];

const KEYS: &[&str] = &[
    "key",
    "key1",
    "key2",
    "newkey",
    "source",
    "destination",
    "destkey",
    "sourcekey",
    "src",
    "dst",
];

const INTEGERS: &[&str] = &[
    "index",
    "index1",
    "index2",
    "db",
    "destination-db",
    "seconds",
    "milliseconds",
    "expiration",
    "ttl",
    "count",
    "cursor",
    "offset",
    "start",
    "end",
    "stop",
    "len",
    "min-match-len",
    "increment",
    "decrement",
    "lowerbound",
    "upperbound",
    "numkeys",
    "numfields",
    "numids",
    "numreplicas",
    "numlocal",
    "timeout",
    "frequency",
    "version",
    "protover",
    "bits",
    "bit",
    "rank",
    "port",
    "client-id",
    "maxage",
    "slot",
    "start-slot",
    "end-slot",
    "config-epoch",
    "cluster-bus-port",
    "limit",
    "weight",
    "entries-added",
    "entries-read",
];

const DOUBLES: &[&str] = &["score", "longitude", "latitude", "radius", "width", "height"];

const PATTERNS: &[&str] = &["pattern"];

#[cfg(test)]
mod tests {
    use super::{Argument, arguments};

    /// One line per argument, in the way of a function's signature.
    fn read(syntax: &'static str) -> String {
        arguments(syntax, true).iter().map(show).collect::<Vec<_>>().join("; ")
    }

    fn show(argument: &Argument) -> String {
        let token = argument.token.map(|token| format!("{token} ")).unwrap_or_default();
        let inner = argument.arguments.iter().map(show).collect::<Vec<_>>().join(", ");
        let inner = if inner.is_empty() { inner } else { format!("({inner})") };
        let mut flags = String::new();
        for (flag, sign) in
            [(argument.optional, '?'), (argument.multiple, '*'), (argument.multiple_token, '+')]
        {
            flags.extend(flag.then_some(sign));
        }
        format!("{token}{}:{}{inner}{flags}", argument.name, argument.kind.name())
    }

    #[test]
    fn lines_become_arguments() {
        let table = [
            ("", ""),
            ("key start end", "key:key; start:integer; end:integer"),
            ("key increment:double", "key:key; increment:double"),
            ("key [key ...]", "key:key*"),
            ("[section [section ...]]", "section:string?*"),
            ("command [arg ...]", "command:string; arg:string?*"),
            ("key value [key value ...]", "data:block(key:key, value:string)*"),
            ("[ID client-id [client-id ...]]", "ID client-id:integer?*"),
            ("[PREFIX prefix [PREFIX prefix ...]]", "PREFIX prefix:string?*+"),
            (
                "[CONFIG name value [CONFIG name value ...]]",
                "CONFIG config:block(name:string, value:string)?*+",
            ),
            ("[LIMIT offset count]", "LIMIT limit:block(offset:integer, count:integer)?"),
            ("[GET]", "GET get:pure-token?"),
            (
                "<host port | NO ONE>",
                "args:oneof(host-port:block(host:string, port:integer), \
                 no-one:block(NO no:pure-token, ONE one:pure-token))",
            ),
            (
                "[NX | XX] [EX seconds | KEEPTTL]",
                "condition:oneof(NX nx:pure-token, XX xx:pure-token)?; \
                 expiration:oneof(EX seconds:integer, KEEPTTL keepttl:pure-token)?",
            ),
            (
                "[FILTERBY <MODULE module-name | PATTERN pattern>]",
                "FILTERBY filterby:oneof(MODULE module-name:string, PATTERN pattern:pattern)?",
            ),
            (
                "[protover [AUTH username password] [SETNAME clientname]]",
                "arguments:block(protover:integer, \
                 AUTH auth:block(username:string, password:string)?, \
                 SETNAME clientname:string?)?",
            ),
        ];
        for (syntax, expected) in table {
            assert_eq!(read(syntax), expected, "{syntax}");
        }
    }

    #[test]
    fn without_keys_a_key_is_a_word() {
        assert_eq!(arguments("key", false)[0].kind.name(), "string");
    }
}
