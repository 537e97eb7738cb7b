//! COMMAND: what is declared about each command is what Redis and Valkey say of it.

use std::collections::BTreeMap;

use proto::value::Value;
use tests::render::text;
use tests::{Client, Duel, Oracle, Server, check};

/// Requests whose replies do not depend on which commands there are.
const COMMON: &str = r#"
    COMMAND HELP
    COMMAND HELP x
    COMMAND COUNT x
    COMMAND FOO
    COMMAND GETKEYS
    COMMAND GETKEYS foo
    COMMAND GETKEYS GET
    COMMAND GETKEYS GET a
    COMMAND GETKEYS GET a b
    COMMAND GETKEYS SET a
    COMMAND GETKEYS SET a b
    COMMAND GETKEYS MSET a b c d e
    COMMAND GETKEYS MSET a b c d
    COMMAND GETKEYS DEL a b c
    COMMAND GETKEYS PING
    COMMAND GETKEYS COPY a b
    COMMAND GETKEYS LCS a b
    COMMAND GETKEYS CLIENT LIST
    COMMAND GETKEYS OBJECT ENCODING a
    COMMAND GETKEYS OBJECT a
    COMMAND GETKEYS OBJECT
    COMMAND GETKEYS OBJECT|ENCODING a
    COMMAND GETKEYS ZUNIONSTORE a 0 b c
    COMMAND GETKEYS ZUNIONSTORE a 1 b c
    COMMAND GETKEYS ZUNIONSTORE a 3 b c
    COMMAND GETKEYS ZDIFFSTORE a 0 b
    COMMAND GETKEYS SINTERCARD 0 a
    COMMAND GETKEYS LMPOP 0 a LEFT
    COMMAND GETKEYS BLMPOP 1 0 a LEFT
    COMMAND GETKEYS EVAL script 0 a
    COMMAND GETKEYS FCALL f 0 a
    COMMAND GETKEYSANDFLAGS ZUNIONSTORE a 0 b c
    COMMAND GETKEYSANDFLAGS EVAL script 0 a
    COMMAND GETKEYS OBJECT FOO a
    COMMAND GETKEYSANDFLAGS
    COMMAND GETKEYSANDFLAGS GET
    COMMAND GETKEYSANDFLAGS GET a
    COMMAND GETKEYSANDFLAGS SET a b
    COMMAND GETKEYSANDFLAGS SET a b GET
    COMMAND GETKEYSANDFLAGS SET a get
    COMMAND GETKEYSANDFLAGS MSET a b c d
    COMMAND GETKEYSANDFLAGS COPY a b
    COMMAND GETKEYSANDFLAGS PING
    COMMAND LIST x
    COMMAND LIST FILTERBY
    COMMAND LIST FILTERBY MODULE
    COMMAND LIST FILTERBY MODULE foo
    COMMAND LIST FILTERBY ACLCAT foo
    COMMAND LIST FILTERBY ACLCAT @read
    COMMAND LIST FILTERBY PATTERN MGE*
    COMMAND LIST FILTERBY PATTERN mge* x
    COMMAND LIST FILTERBY FOO x
    COMMAND LIST FOO PATTERN x
    COMMAND INFO GET NOSUCH client|getname CLIENT|nosuch nosuch|x rename mset
    COMMAND INFO EXPIREAT scan lcs unlink
    COMMAND DOCS get nosuch substr client|getname mset getrange
"#;

#[test]
fn replies_equal_those_of_redis() {
    let (ours, theirs) = (Server::start(&[]), Oracle::redis82());
    for connect in [Server::client as fn(&Server) -> Client, Server::client3] {
        let mut duel = Duel::new(connect(&ours), connect(&theirs), 0);
        duel.run_lines(COMMON);
    }
}

#[test]
fn lists_and_counts_agree() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let names = |value: Value| array(value).iter().map(text).collect::<Vec<_>>();
    let all = names(client.call(&["COMMAND", "LIST"]));
    let count = client.call(&["COMMAND", "COUNT"]);
    let top = all.iter().filter(|name| !name.contains('|')).count();
    assert_eq!(count, Value::Integer(i64::try_from(top).unwrap()));
    for request in [&["COMMAND"][..], &["COMMAND", "INFO"]] {
        assert_eq!(array(client.call(request)).len(), top);
    }
    let Value::Map(docs) = server.client3().call(&["COMMAND", "DOCS"]) else { panic!("a map") };
    assert_eq!(docs.len(), top);
    let connection = names(client.call(&["COMMAND", "LIST", "FILTERBY", "ACLCAT", "CONNECTION"]));
    for name in ["ping", "client|list", "wait", "command|docs"] {
        assert!(connection.iter().any(|other| other == name), "{name}");
    }
    assert!(!connection.iter().any(|name| name == "get"));
}

#[test]
fn a_renamed_command_goes_by_its_new_name() {
    let server =
        Server::start(&["--rename-command", "GET", "fetch", "--rename-command", "DEL", ""]);
    let script = r#"
        > COMMAND GETKEYS FETCH a
        1) "a"
        > COMMAND GETKEYS GET a
        (error) ERR Invalid command specified
        > COMMAND LIST FILTERBY PATTERN fetc*
        1) "fetch"
        > COMMAND LIST FILTERBY PATTERN del
        (empty array)
        > COMMAND INFO get
        1) (nil)
    "#;
    check(&mut server.client(), script);
}

/// An entry of COMMAND INFO, field by field, with sets in a fixed order.
type Facts = BTreeMap<&'static str, String>;

const FACTS: [&str; 9] =
    ["name", "arity", "flags", "first key", "last key", "step", "categories", "tips", "keys"];

/// What is declared otherwise on purpose: command, fact, why.
const REASONED: &[(&str, &str, &str)] = &[
    ("ttl", "arity", "KeyDB's `TTL key member`"),
    ("pttl", "arity", "KeyDB's `PTTL key member`"),
    ("cluster|replicate", "arity", "Valkey's NO ONE"),
];

#[test]
fn declarations_equal_those_of_redis_and_valkey() {
    let (ours, redis) = (Server::start(&[]), Oracle::redis82());
    let valkey = Oracle::valkey91();
    let (ours, redis, valkey) = (facts(&ours), facts(&redis), facts(&valkey));
    let (mut compared, mut differences) = (0, Vec::new());
    for (name, own) in &ours {
        let Some(theirs) = redis.get(name).or_else(|| valkey.get(name)) else { continue };
        compared += 1;
        for (fact, own) in own {
            let is_reasoned =
                REASONED.iter().any(|(command, other, _)| command == name && other == fact);
            if *own != theirs[fact] && !is_reasoned {
                differences.push(format!("{name}: {fact}: {own} is {}", theirs[fact]));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(compared > 100, "only {compared} commands are known to others");
}

/// The facts of all commands and subcommands.
fn facts(server: &Server) -> BTreeMap<String, Facts> {
    let mut all = BTreeMap::new();
    for entry in array(server.client3().call(&["COMMAND"])) {
        add_facts(entry, &mut all);
    }
    all
}

fn add_facts(entry: Value, all: &mut BTreeMap<String, Facts>) {
    let mut parts = array(entry);
    assert_eq!(parts.len(), 10);
    let subcommands = parts.pop().expect("there are ten");
    let name = text(&parts[0]);
    let facts = FACTS.into_iter().zip(parts.into_iter().map(|part| shown(&part))).collect();
    all.insert(name, facts);
    array(subcommands).into_iter().for_each(|entry| add_facts(entry, all));
}

/// A value as text, with sets sorted.
fn shown(value: &Value) -> String {
    match value {
        Value::Set(items) => {
            let mut items: Vec<String> = items.iter().map(shown).collect();
            items.sort();
            format!("{{{}}}", items.join(" "))
        }
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(" "),
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| format!("{}={}", text(key), shown(value)));
            format!("({})", pairs.collect::<Vec<_>>().join(" "))
        }
        Value::Integer(number) => number.to_string(),
        other => text(other),
    }
}

/// Whose documentation differs: that of commands which know more than in Redis 8.2, and of those
/// whose summary in Redis has a slip.
const DOCUMENTED_OTHERWISE: &[(&str, &str)] = &[
    ("set", "IFEQ and its kin came with 8.4"),
    ("client|kill", "the filters of Valkey too"),
    ("client|list", "the filters of Valkey too"),
    ("debug", "the subcommands are told"),
    ("restore-asking", "Redis marks it as a system command, of which we have none"),
    ("ttl", "KeyDB's `TTL key member` too"),
    ("pttl", "KeyDB's `PTTL key member` too"),
    ("lolwut", "the summary ends in a full stop"),
    ("slowlog|help", "the summary ends in a full stop"),
    ("readwrite", "the summary says Redis, not Reids"),
    ("cluster|replicate", "NO ONE of Valkey too"),
    ("cluster|setslot", "a node's identifier is called that everywhere"),
    ("module|loadex", "a block goes by its token"),
    ("bitfield", "each operation is told as one of a list that goes on"),
    ("xackdel", "a block goes by its token"),
    ("xadd", "options newer than 8.2, and a block goes by its token"),
    ("xautoclaim", "an ID is text wherever it stands"),
    ("xclaim", "milliseconds are told as text"),
    ("xdelex", "a block goes by its token"),
    ("xgroup|create", "entries-read goes by its token"),
    ("xgroup|setid", "entries-read goes by its token"),
    ("xinfo|stream", "a block goes by its token"),
    ("xpending", "IDs are told by their names"),
    ("xrange", "IDs are told by their names"),
    ("xread", "options newer than 8.2"),
    ("xreadgroup", "options newer than 8.2"),
    ("xrevrange", "IDs are told by their names"),
    ("xtrim", "options newer than 8.2"),
    ("bgsave", "CANCEL of Valkey too"),
    ("bzpopmax", "the summary has no blank too many"),
    ("geoadd", "CH is called ch, not change"),
    ("zadd", "CH is called ch, INCR incr"),
    ("georadius", "a block goes by its token"),
    ("georadius_ro", "a block goes by its token"),
    ("georadiusbymember", "a block goes by its token"),
    ("georadiusbymember_ro", "a block goes by its token"),
    ("geosearch", "BYPOLYGON of Valkey too"),
    ("geosearchstore", "BYPOLYGON of Valkey too"),
    ("hexpire", "a block goes by its token; the summary ends in a full stop"),
    ("hexpireat", "a block goes by its token; the summary ends in a full stop"),
    ("hexpiretime", "a block goes by its token"),
    ("hgetdel", "a block goes by its token"),
    ("hgetex", "a block goes by its token"),
    ("hpersist", "a block goes by its token; the summary ends in a full stop"),
    ("hpexpire", "a block goes by its token; the summary ends in a full stop"),
    ("hpexpireat", "a block goes by its token; the summary ends in a full stop"),
    ("hpexpiretime", "a block goes by its token"),
    ("hpttl", "a block goes by its token"),
    ("hsetex", "a block goes by its token; NX and XX are told as well"),
    ("httl", "a block goes by its token"),
    ("migrate", "arguments are named after what they are, not after their words"),
    ("pfdebug", "Redis marks it as a system command, of which we have none"),
    ("pfselftest", "Redis marks it as a system command, of which we have none"),
    ("replconf", "Redis marks it as a system command, of which we have none"),
    ("smismember", "the complexity ends in a full stop"),
    ("sort", "patterns are shown by their names, and as arguments of no key"),
    ("sort_ro", "patterns are shown by their names, and as arguments of no key"),
    ("srandmember", "the summary ends in a full stop"),
    ("zinter", "the aggregator COUNT came with 8.8"),
    ("zinterstore", "the aggregator COUNT came with 8.8"),
    ("zunion", "the aggregator COUNT came with 8.8"),
    ("zunionstore", "the aggregator COUNT came with 8.8"),
    ("shutdown", "SAFE and FAILOVER of Valkey too"),
    ("zscan", "NOSCORES of Valkey too"),
];

#[test]
fn documentation_equals_that_of_redis() {
    let (ours, theirs) = (Server::start(&[]), Oracle::redis82());
    let (ours, theirs) = (docs(&ours), docs(&theirs));
    let (mut compared, mut differences) = (0, Vec::new());
    for (name, own) in &ours {
        let Some(theirs) = theirs.get(name) else { continue };
        if DOCUMENTED_OTHERWISE.iter().any(|(other, _)| other == name) {
            continue;
        }
        compared += 1;
        if own != theirs {
            differences.push(format!("{name}:\n  {own}\n  {theirs}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(compared > 100, "only {compared} commands are known to Redis");
}

/// The documentation of all commands and subcommands, without the names of blocks and choices,
/// which nobody sees, and without what our declarations do not hold: the age of each argument.
fn docs(server: &Server) -> BTreeMap<String, String> {
    let Value::Map(docs) = server.client3().call(&["COMMAND", "DOCS"]) else { panic!("a map") };
    let mut all = BTreeMap::new();
    docs.into_iter().for_each(|(name, doc)| add_docs(&text(&name), doc, &mut all));
    all
}

fn add_docs(name: &str, doc: Value, all: &mut BTreeMap<String, String>) {
    let Value::Map(fields) = doc else { panic!("a map for {name}") };
    let mut lines = Vec::new();
    for (field, value) in fields {
        match (&text(&field)[..], value) {
            ("subcommands", Value::Map(subcommands)) => {
                subcommands.into_iter().for_each(|(name, doc)| add_docs(&text(&name), doc, all));
            }
            ("arguments", value) => {
                let arguments = array(value).into_iter().map(argument);
                lines.push(format!("arguments: {}", arguments.collect::<Vec<_>>().join("; ")));
            }
            (field, value) => lines.push(format!("{field}: {}", shown(&value))),
        }
    }
    lines.sort();
    all.insert(name.to_owned(), lines.join("\n  "));
}

fn argument(value: Value) -> String {
    let Value::Map(fields) = value else { panic!("a map for an argument") };
    let mut parts = BTreeMap::new();
    for (field, value) in fields {
        match (text(&field), value) {
            (field, _) if ["since", "deprecated_since"].contains(&&field[..]) => {}
            (field, value) if field == "arguments" => {
                let inner = array(value).into_iter().map(argument).collect::<Vec<_>>().join("; ");
                parts.insert(field, format!("({inner})"));
                parts.remove("name");
            }
            (field, value) => _ = parts.insert(field, shown(&value)),
        }
    }
    parts.into_iter().map(|(field, value)| format!("{field}={value}")).collect::<Vec<_>>().join(" ")
}

fn array(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        other => panic!("no array: {other:?}"),
    }
}
