//! What the server says of its commands: COMMAND DOCS, as syntax, hints and help.
//!
//! Invariant: the server may be any; what it says in another form than expected is left out.

use proto::value::Value;

/// One command or subcommand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandDoc {
    /// In capitals, a subcommand behind its command.
    pub(crate) name: String,
    summary: String,
    since: String,
    group: String,
    /// The syntax of each argument.
    pub(crate) arguments: Vec<String>,
}

/// All commands of a server, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandDocs(Vec<CommandDoc>);

impl CommandDocs {
    /// Reads the reply of COMMAND DOCS, of either protocol.
    pub(crate) fn read(reply: &Value) -> CommandDocs {
        let mut docs = Vec::new();
        for (name, fields) in pairs(reply) {
            read_command(&mut docs, &name.to_ascii_uppercase(), fields);
        }
        docs.sort_by(|one: &CommandDoc, other| one.name.cmp(&other.name));
        CommandDocs(docs)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &CommandDoc> {
        self.0.iter()
    }

    /// The command that a line begins with, and how many of its words are the name.
    pub(crate) fn find(&self, words: &[String]) -> Option<(&CommandDoc, usize)> {
        [2, 1].into_iter().filter(|count| *count <= words.len()).find_map(|count| {
            let name = words[..count].join(" ").to_ascii_uppercase();
            let at = self.0.binary_search_by(|doc| doc.name.as_str().cmp(&name)).ok()?;
            Some((&self.0[at], count))
        })
    }

    /// What HELP says of a command, of a subcommand, or with `@` of a group.
    pub(crate) fn help(&self, words: &[String]) -> String {
        let asked = words.join(" ");
        let mut text = String::new();
        if let Some(group) = asked.strip_prefix('@') {
            let members = self.0.iter().filter(|doc| doc.group.eq_ignore_ascii_case(group));
            members.for_each(|doc| doc.explain(&mut text, false));
        } else {
            let asked = asked.to_ascii_uppercase();
            let is_meant = |doc: &&CommandDoc| {
                let rest = doc.name.strip_prefix(&asked);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            };
            self.0.iter().filter(is_meant).for_each(|doc| doc.explain(&mut text, true));
        }
        text + "\r\n"
    }

    /// The groups that commands belong to.
    pub(crate) fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = self.0.iter().map(|doc| doc.group.as_str()).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }
}

impl CommandDoc {
    fn explain(&self, text: &mut String, tells_group: bool) {
        let Self { name, summary, since, group, arguments } = self;
        let arguments = arguments.join(" ");
        *text += &format!("\r\n  \x1b[1m{name}\x1b[0m \x1b[90m{arguments}\x1b[0m\r\n");
        *text += &format!("  \x1b[33msummary:\x1b[0m {summary}\r\n");
        *text += &format!("  \x1b[33msince:\x1b[0m {since}\r\n");
        if tells_group {
            *text += &format!("  \x1b[33mgroup:\x1b[0m {group}\r\n");
        }
    }

    /// What may still be typed behind so many arguments.
    pub(crate) fn rest(&self, typed: usize) -> String {
        let last = self.arguments.last().filter(|it| it.ends_with(" ...]"));
        match self.arguments.get(typed..).filter(|rest| !rest.is_empty()) {
            Some(rest) => rest.join(" "),
            // The last one may come again.
            None => last
                .and_then(|it| it.rsplit_once('['))
                .map_or_else(String::new, |(_, rest)| format!("[{rest}")),
        }
    }
}

fn read_command(docs: &mut Vec<CommandDoc>, name: &str, fields: &Value) {
    let mut doc = CommandDoc { name: name.to_owned(), ..CommandDoc::default() };
    for (field, value) in pairs(fields) {
        match field.as_str() {
            "summary" => doc.summary = text(value),
            "since" => doc.since = text(value),
            "group" => doc.group = text(value),
            "arguments" => doc.arguments = items(value).iter().map(argument).collect(),
            "subcommands" => {
                for (name, fields) in pairs(value) {
                    let name = name.replace('|', " ").to_ascii_uppercase();
                    read_command(docs, &name, fields);
                }
            }
            _ => {}
        }
    }
    docs.push(doc);
}

/// The syntax of an argument.
fn argument(value: &Value) -> String {
    let fields = pairs(value);
    let field = |name: &str| fields.iter().find(|it| it.0 == name).map(|it| it.1);
    let flags = field("flags").map(items).unwrap_or_default();
    let has = |flag: &str| flags.iter().any(|it| it.as_bytes() == Some(flag.as_bytes()));
    let parts = || field("arguments").map(items).unwrap_or_default().iter().map(argument);
    let kind = field("type").map(text).unwrap_or_default();
    let token = field("token").map(text);
    let shown = match kind.as_str() {
        "oneof" => parts().collect::<Vec<_>>().join("|"),
        "block" => parts().collect::<Vec<_>>().join(" "),
        "pure-token" => String::new(),
        _ => field("display_text").or(field("name")).map(text).unwrap_or_default(),
    };
    let repeated = if has("multiple") { format!("{shown} [{shown} ...]") } else { shown.clone() };
    let syntax = match token.map(|it| if it.is_empty() { "\"\"".to_owned() } else { it }) {
        None => repeated,
        Some(token) if shown.is_empty() => token,
        Some(token) if has("multiple_token") => {
            format!("{token} {shown} [{token} {shown} ...]")
        }
        Some(token) if kind == "oneof" => format!("{token} <{shown}>"),
        Some(token) => format!("{token} {repeated}"),
    };
    if has("optional") { format!("[{syntax}]") } else { syntax }
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned()
}

fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        _ => &[],
    }
}

/// The pairs of a map, which in RESP2 is a list.
fn pairs(value: &Value) -> Vec<(String, &Value)> {
    match value {
        Value::Map(pairs) => pairs.iter().map(|(key, value)| (text(key), value)).collect(),
        other => items(other).chunks_exact(2).map(|pair| (text(&pair[0]), &pair[1])).collect(),
    }
}

#[cfg(test)]
mod tests {
    use proto::value::{ReplyLimits, ReplyParser};

    use super::CommandDocs;

    /// A reply of RESP2, from a text whose words are strings and whose brackets are lists.
    fn docs(text: &str) -> CommandDocs {
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut at = 0;
        let mut reply = String::new();
        list(&words, &mut at, &mut reply);
        let mut parser = ReplyParser::new(ReplyLimits::default());
        parser.feed(reply.as_bytes());
        CommandDocs::read(&parser.next_reply().expect("sound").expect("whole"))
    }

    fn list(words: &[&str], at: &mut usize, reply: &mut String) {
        let (mut count, mut inner) = (0, String::new());
        while *at < words.len() && words[*at] != "]" {
            let word = words[*at];
            *at += 1;
            if word == "[" {
                list(words, at, &mut inner);
                *at += 1;
            } else {
                inner += &format!("${}\r\n{word}\r\n", word.len());
            }
            count += 1;
        }
        *reply += &format!("*{count}\r\n{inner}");
    }

    const REPLY: &str = "
        set [ summary Sets since 1.0.0 group string arguments [
            [ name key type key ]
            [ name value type string ]
            [ name condition type oneof flags [ optional ] arguments [
                [ name nx type pure-token token NX ] [ name xx type pure-token token XX ] ] ]
            [ name expire type integer token EX flags [ optional ] ] ] ]
        mset [ group string arguments [
            [ name data type block flags [ multiple ] arguments [
                [ name key type key ] [ name value type string ] ] ] ] ]
        config [ group server subcommands [
            config|get [ summary Gets since 2.0.0 group server arguments [
                [ name parameter type string flags [ multiple ] ] ] ] ] ]";

    fn syntax(docs: &CommandDocs, line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (doc, count) = docs.find(&words).expect("it is known");
        format!("{} {}", doc.name, doc.rest(words.len() - count))
    }

    #[test]
    fn arguments_read_as_their_syntax() {
        let docs = docs(REPLY);
        for (line, expected) in [
            ("set", "SET key value [NX|XX] [EX expire]"),
            ("set a", "SET value [NX|XX] [EX expire]"),
            ("set a b NX EX 1 x", "SET "),
            ("MSET", "MSET key value [key value ...]"),
            ("MSET a b c", "MSET [key value ...]"),
            ("config get", "CONFIG GET parameter [parameter ...]"),
            ("config", "CONFIG "),
        ] {
            assert_eq!(syntax(&docs, line), expected, "{line}");
        }
        assert_eq!(docs.groups(), ["server", "string"]);
    }

    #[test]
    fn help_tells_of_commands_and_groups() {
        let docs = docs(REPLY);
        let get = docs.help(&["config".to_owned(), "get".to_owned()]);
        assert_eq!(
            get,
            "\r\n  \x1b[1mCONFIG GET\x1b[0m \x1b[90mparameter [parameter ...]\x1b[0m\r\n  \
             \x1b[33msummary:\x1b[0m Gets\r\n  \x1b[33msince:\x1b[0m 2.0.0\r\n  \
             \x1b[33mgroup:\x1b[0m server\r\n\r\n"
        );
        let both = docs.help(&["config".to_owned()]);
        assert!(both.contains("CONFIG GET") && both.contains("mCONFIG\x1b"), "{both}");
        let group = docs.help(&["@String".to_owned()]);
        assert!(group.contains("MSET") && !group.contains("CONFIG"), "{group}");
        assert!(!group.contains("group:"), "{group}");
        assert_eq!(docs.help(&["nothing".to_owned()]), "\r\n");
    }
}
