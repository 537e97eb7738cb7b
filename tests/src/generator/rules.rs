//! What is drawn, how often, and how replies are compared.
//! Invariant: a command that is not drawn, and a token that no request can use, has its reason.

use crate::differential::{Command, Rule};

/// Commands that are not drawn, with the reason.
pub const EXCLUDED: &[(&str, &str)] = &[
    ("acl", "its users are another issue's; the default user is tested by script"),
    ("asking", "answers by whether there is a cluster"),
    ("auth", "Redis 8.2 leaves some refusals without a reply; tested by script"),
    ("bgrewriteaof", "writes files"),
    ("bgsave", "writes files"),
    ("blmove", "waits for its timeout"),
    ("blmpop", "waits for its timeout"),
    ("blpop", "waits for its timeout"),
    ("brpop", "waits for its timeout"),
    ("brpoplpush", "waits for its timeout"),
    ("client|kill", "ends connections"),
    ("client|no-evict", "tested by script"),
    ("client|no-touch", "changes what OBJECT IDLETIME says"),
    ("client|pause", "stops the other connections of the test"),
    ("client|reply", "takes away replies"),
    ("client|tracking", "sends messages"),
    ("cluster", "there is no cluster"),
    ("debug", "differs by server"),
    ("client|list", "shows every connection of the test"),
    ("failover", "there is no replica"),
    ("hello", "changes the protocol of the duel"),
    ("latency", "differs by load"),
    ("lolwut", "differs by server"),
    ("memory|malloc-stats", "differs by allocator"),
    ("migrate", "opens connections"),
    ("module", "loads code"),
    ("monitor", "sends messages"),
    ("psubscribe", "sends messages"),
    ("psync", "makes a replica of the connection"),
    ("quit", "ends the connection"),
    ("replconf", "makes a replica of the connection"),
    ("replicaof", "makes a replica of the server"),
    ("reset", "changes the protocol of the duel"),
    ("save", "writes files"),
    ("shutdown", "ends the server"),
    ("slaveof", "makes a replica of the server"),
    (
        "sort",
        "stores elements of equal weight in an order of its own; tests/tests/sort.rs draws it",
    ),
    ("spop", "takes members by chance; tested by script"),
    ("ssubscribe", "sends messages"),
    ("subscribe", "sends messages"),
    ("sync", "makes a replica of the connection"),
    ("wait", "waits for its timeout"),
    ("waitaof", "waits for its timeout"),
    ("xread", "waits for its timeout"),
    ("xreadgroup", "waits for its timeout"),
];

/// Option words that only lead to errors here: `command`, or `command TOKEN`.
const ALWAYS_REFUSED: &[(&str, &str)] = &[
    ("client|caching", "needs tracking"),
    ("client|caching YES", "needs tracking"),
    ("client|caching NO", "needs tracking"),
    ("client|import-source ON", "needs the import mode"),
    ("config|rewrite", "the servers run without a file"),
    ("readonly", "needs a cluster"),
    ("readwrite", "needs a cluster"),
];

/// What every episode begins with: an empty world, the same for both servers.
pub const PROLOGUE: &[&[&str]] = &[
    &["FLUSHALL"],
    &["SELECT", "0"],
    &["CONFIG", "SET", "maxmemory-policy", "noeviction", "lfu-decay-time", "1"],
    &["CONFIG", "SET", "lfu-log-factor", "10", "slowlog-log-slower-than", "10000"],
    &["CONFIG", "SET", "notify-keyspace-events", "", "latency-monitor-threshold", "0"],
];

/// Whether requests of this command are drawn.
pub(super) fn is_drawn(name: &str) -> bool {
    let container = name.split('|').next().unwrap_or_default();
    !EXCLUDED.iter().any(|(excluded, _)| [name, container].contains(excluded))
        && !is_of_a_young_family(container)
}

/// Families whose commands are compared with real servers by scripts, and not drawn yet: hashes,
/// sorted sets, geo, streams, bits and HyperLogLogs.
fn is_of_a_young_family(name: &str) -> bool {
    let is_hash = name.starts_with('h') && name != "hello";
    let begins = ["z", "bz", "x", "geo", "bit", "pf"].iter().any(|begin| name.starts_with(begin));
    is_hash || begins || matches!(name, "getbit" | "setbit")
}

/// Whether a request may be made odd; a number that comes to stand as a count could ask a real
/// server for more members than its memory holds.
pub(super) fn may_be_spoilt(name: &str) -> bool {
    !["srandmember", "hrandfield", "zrandmember"].contains(&name)
}

pub(super) fn is_always_refused(what: &str) -> bool {
    ALWAYS_REFUSED.iter().any(|(refused, _)| *refused == what)
}

/// How often a command is drawn, compared with others.
pub(super) fn weight(name: &str) -> u64 {
    match name {
        // An empty world teaches little.
        "flushall" | "flushdb" | "swapdb" | "select" => 1,
        "set" | "append" | "setrange" | "restore" | "getex" => 20,
        "rpush" | "lpush" | "sadd" => 20,
        // Long replies.
        _ if name.starts_with("command") || name == "info" || name.ends_with("|help") => 1,
        _ => 8,
    }
}

fn has(command: &Command, option: &str) -> bool {
    command.iter().skip(2).any(|word| word.eq_ignore_ascii_case(option.as_bytes()))
}

/// How the two replies to a command are compared.
pub fn rule(command: &Command) -> Rule {
    let word = |index: usize| {
        let word = command.get(index).map(|word| word.to_ascii_uppercase()).unwrap_or_default();
        String::from_utf8_lossy(&word).into_owned()
    };
    match (word(0).as_str(), word(1).as_str()) {
        ("KEYS", _) | ("CONFIG", "GET") => Rule::Unordered,
        ("SMEMBERS" | "SINTER" | "SUNION" | "SDIFF", _) => Rule::Unordered,
        ("HGETALL" | "HKEYS" | "HVALS", _) => Rule::Unordered,
        ("SRANDMEMBER" | "HRANDFIELD", _) => Rule::Kind,
        // Elements of equal weight come as they lie, and those of sets lie anywhere; and text ends
        // at its first NUL to the C library that compares it elsewhere.
        ("SORT_RO", _) if has(command, "BY") || has(command, "ALPHA") => Rule::Kind,
        // Their replies are lists of times.
        ("HTTL" | "HPTTL" | "HEXPIRETIME" | "HPEXPIRETIME", _) => Rule::Kind,
        ("SSCAN" | "HSCAN", _) if word(2) != "0" => Rule::Kind,
        ("SCAN", "0") | ("SSCAN" | "HSCAN", _) => Rule::Scan,
        // Each server has cursors of its own.
        ("SCAN", _) => Rule::Kind,
        ("TTL" | "EXPIRETIME", _) => Rule::Near(5),
        ("PTTL" | "PEXPIRETIME", _) => Rule::Near(5_000),
        // The clock chooses IDs, and times are told.
        ("XADD" | "XRANGE" | "XREVRANGE" | "XINFO" | "XPENDING", _) => Rule::Kind,
        ("XCLAIM" | "XAUTOCLAIM", _) => Rule::Kind,
        ("OBJECT", "FREQ" | "IDLETIME" | "REFCOUNT") | ("MEMORY", _) => Rule::Kind,
        ("RANDOMKEY" | "DUMP" | "TIME" | "LASTSAVE" | "INFO", _) => Rule::Kind,
        ("CLIENT", "ID" | "INFO" | "LIST") | ("SLOWLOG" | "COMMANDLOG", _) => Rule::Kind,
        ("COMMAND", "" | "COUNT" | "DOCS" | "INFO" | "LIST") => Rule::Kind,
        (_, "HELP") => Rule::Kind,
        _ => Rule::Exact,
    }
}
