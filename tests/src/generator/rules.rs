//! What is drawn, how often, and how replies are compared.
//! Invariant: a command that is not drawn, and a token that no request can use, has its reason.

use super::Spoil;
use crate::differential::{Command, Rule};

/// Commands that are not drawn, with the reason.
pub const EXCLUDED: &[(&str, &str)] = &[
    ("acl", "its users are another issue's; the default user is tested by script"),
    ("asking", "answers by whether there is a cluster"),
    ("auth", "Redis 8.2 leaves some refusals without a reply; tested by script"),
    ("backup", "writes files"),
    ("bgrewriteaof", "writes files"),
    ("bgsave", "writes files"),
    ("client|kill", "ends connections"),
    ("client|no-evict", "tested by script"),
    ("client|no-touch", "changes what OBJECT IDLETIME says"),
    ("client|pause", "stops the other connections of the test"),
    ("client|reply", "takes away replies"),
    ("client|tracking", "sends messages"),
    ("cluster", "there is no cluster"),
    ("clusterscan", "there is no cluster: tests/tests/cluster_scan.rs"),
    ("debug", "differs by server"),
    ("discard", TRANSACTIONS),
    ("exec", TRANSACTIONS),
    ("client|list", "shows every connection of the test"),
    ("eval", "scripts are written, not drawn: tests/tests/scripts.rs"),
    ("eval_ro", "as EVAL"),
    ("evalsha", "as EVAL"),
    ("evalsha_ro", "as EVAL"),
    ("failover", "there is no replica"),
    ("fcall", "as EVAL"),
    ("fcall_ro", "as EVAL"),
    ("function", "as EVAL: tests/tests/functions.rs"),
    ("hello", "changes the protocol of the duel"),
    ("latency", "differs by load"),
    ("lolwut", "differs by server"),
    ("memory|malloc-stats", "differs by allocator"),
    ("migrate", "opens connections"),
    ("module", "loads code"),
    ("monitor", "sends messages"),
    ("multi", TRANSACTIONS),
    ("pfselftest", "takes Redis seconds to say OK"),
    ("psubscribe", "sends messages"),
    ("psync", "makes a replica of the connection"),
    ("punsubscribe", "sends as many messages as it has arguments"),
    ("quit", "ends the connection"),
    ("replconf", "makes a replica of the connection"),
    ("replicaof", "makes a replica of the server"),
    ("reset", "changes the protocol of the duel"),
    ("save", "writes files"),
    ("script", "as EVAL"),
    ("shutdown", "ends the server"),
    ("slaveof", "makes a replica of the server"),
    (
        "sort",
        "stores elements of equal weight in an order of its own; tests/tests/sort.rs draws it",
    ),
    ("sort_ro", "makes a sorted set a skiplist by name in Redis; tests/tests/sort.rs draws it"),
    ("ssubscribe", "sends messages"),
    ("subscribe", "sends messages"),
    ("sunsubscribe", "as PUNSUBSCRIBE"),
    ("sync", "makes a replica of the connection"),
    ("unsubscribe", "as PUNSUBSCRIBE"),
    ("unwatch", TRANSACTIONS),
    ("wait", "waits for its timeout"),
    ("waitaof", "waits for its timeout"),
    ("watch", TRANSACTIONS),
];

const TRANSACTIONS: &str = "drawn with the sense that they have, by `Transactions`";

/// Option words that only lead to errors here: `command`, or `command TOKEN`.
const ALWAYS_REFUSED: &[(&str, &str)] = &[
    ("client|caching", "needs tracking"),
    ("client|caching YES", "needs tracking"),
    ("client|caching NO", "needs tracking"),
    ("client|import-source ON", "needs the import mode"),
    ("geosearch BYPOLYGON", "the middle that is drawn with it is not allowed; tested by script"),
    ("geosearchstore BYPOLYGON", "as GEOSEARCH"),
    ("config|rewrite", "the servers run without a file"),
    ("readonly", "needs a cluster"),
    ("readwrite", "needs a cluster"),
];

/// What every episode begins with: an empty world, the same for both servers.
const PROLOGUE: &[&[&str]] = &[
    &["FLUSHALL"],
    &["SELECT", "0"],
    &["CONFIG", "SET", "maxmemory-policy", "noeviction", "lfu-decay-time", "1"],
    &["CONFIG", "SET", "lfu-log-factor", "10", "slowlog-log-slower-than", "10000"],
    &["CONFIG", "SET", "notify-keyspace-events", "", "latency-monitor-threshold", "0"],
    // The ID is in the year 5138.
    &["XADD", "ahead", "99999999999999-0", "field", "value"],
];

/// Where small forms end by default.
const WIDE: &[&[&str]] = &[
    &["CONFIG", "SET", "hash-max-listpack-entries", "512", "hash-max-listpack-value", "64"],
    &["CONFIG", "SET", "zset-max-listpack-entries", "128", "zset-max-listpack-value", "64"],
    &["CONFIG", "SET", "set-max-intset-entries", "512", "list-max-listpack-size", "-2"],
    &["CONFIG", "SET", "stream-node-max-entries", "100", "hll-sparse-max-bytes", "3000"],
];
const WIDE_SETS: &[&str] =
    &["CONFIG", "SET", "set-max-listpack-entries", "128", "set-max-listpack-value", "64"];

/// Where small forms end so early that most values get past them.
const NARROW: &[&[&str]] = &[
    &["CONFIG", "SET", "hash-max-listpack-entries", "4", "hash-max-listpack-value", "8"],
    &["CONFIG", "SET", "zset-max-listpack-entries", "4", "zset-max-listpack-value", "8"],
    &["CONFIG", "SET", "set-max-intset-entries", "4", "list-max-listpack-size", "4"],
    &["CONFIG", "SET", "stream-node-max-entries", "3", "hll-sparse-max-bytes", "100"],
];
const NARROW_SETS: &[&str] =
    &["CONFIG", "SET", "set-max-listpack-entries", "4", "set-max-listpack-value", "8"];

/// What the episode of a number begins with. Until Redis 7.2 sets had no small form but intsets.
pub fn prologue(number: usize, has_small_sets: bool) -> Vec<Command> {
    let (limits, sets) =
        if number.is_multiple_of(2) { (WIDE, WIDE_SETS) } else { (NARROW, NARROW_SETS) };
    let sets = Some(&sets).filter(|_| has_small_sets);
    let words = |words: &&[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    PROLOGUE.iter().chain(limits).chain(sets).map(words).collect()
}

/// Whether requests of this command are drawn.
pub(super) fn is_drawn(name: &str) -> bool {
    let container = name.split('|').next().unwrap_or_default();
    !EXCLUDED.iter().any(|(excluded, _)| [name, container].contains(excluded))
}

/// How a request may be made odd.
pub(super) fn spoils(name: &str) -> &'static [Spoil] {
    match name {
        // A number that comes to stand as a count could ask a real server for more members than
        // its memory holds.
        "srandmember" | "hrandfield" | "zrandmember" => &[Spoil::Omit, Spoil::Cut],
        // One that comes to stand as an offset could make a string of hundreds of megabytes.
        "setbit" | "bitfield" => &[Spoil::Omit, Spoil::Cut, Spoil::Option],
        // One that comes to stand as a timeout could be without end.
        "blmove" | "blmovem" | "blpop" | "brpop" | "brpoplpush" | "bzpopmax" | "bzpopmin" => {
            &[Spoil::Omit, Spoil::Cut, Spoil::Repeat]
        }
        "blmpop" | "bzmpop" | "xread" | "xreadgroup" => &[Spoil::Omit, Spoil::Cut, Spoil::Option],
        _ => &[Spoil::Omit, Spoil::Cut, Spoil::Repeat, Spoil::Swap, Spoil::Option, Spoil::Insert],
    }
}

pub(super) fn is_always_refused(what: &str) -> bool {
    ALWAYS_REFUSED.iter().any(|(refused, _)| *refused == what)
}

/// How often a command is drawn, compared with others.
pub(super) fn weight(name: &str) -> u64 {
    match name {
        // An empty world teaches little.
        "flushall" | "flushdb" | "swapdb" => 1,
        "select" => 2,
        "set" | "append" | "setrange" | "restore" | "getex" => 16,
        "rpush" | "lpush" | "sadd" | "setbit" | "pfadd" => 20,
        "hset" | "zadd" | "geoadd" | "xadd" => 30,
        "xgroup|create" | "xreadgroup" | "geosearch" | "geosearchstore" => 20,
        "blmove" | "blmpop" | "blpop" | "brpop" | "brpoplpush" | "bzmpop" => 4,
        "bzpopmax" | "bzpopmin" | "xread" => 4,
        // Long replies.
        _ if name.starts_with("command") || name == "info" || name.ends_with("|help") => 1,
        // What steers connections and servers differs little from one request to the next.
        _ if name.contains('|') && !name.starts_with('x') && !name.starts_with("object") => 2,
        "pfdebug" => 2,
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
        (_, "HELP") => Rule::Kind,
        ("KEYS", _) | ("CONFIG", "GET") => Rule::Unordered,
        ("SMEMBERS" | "SINTER" | "SUNION" | "SDIFF" | "SPOP" | "HKEYS" | "HVALS", _) => {
            Rule::Unordered
        }
        ("HGETALL", _) => Rule::UnorderedPairs,
        ("SRANDMEMBER" | "HRANDFIELD" | "ZRANDMEMBER", _) => Rule::Sample,
        ("HTTL" | "HEXPIRETIME", _) => Rule::Near(5),
        ("HPTTL" | "HPEXPIRETIME", _) => Rule::Near(5_000),
        // Elements of equal weight come as they lie, and those of sets lie anywhere; and text ends
        // at its first NUL to the C library that compares it elsewhere.
        ("SORT_RO", _) if has(command, "BY") || has(command, "ALPHA") => Rule::Kind,
        // Each server has cursors of its own.
        ("SCAN", cursor) if cursor != "0" => Rule::Kind,
        ("SSCAN" | "HSCAN" | "ZSCAN", _) if word(2) != "0" => Rule::Kind,
        ("HSCAN", _) if has(command, "NOVALUES") => Rule::Scan,
        ("ZSCAN", _) if has(command, "NOSCORES") => Rule::Scan,
        ("HSCAN" | "ZSCAN", _) => Rule::ScanPairs,
        ("SCAN" | "SSCAN", _) => Rule::Scan,
        ("TTL" | "EXPIRETIME", _) => Rule::Near(5),
        ("PTTL" | "PEXPIRETIME", _) => Rule::Near(5_000),
        ("XINFO" | "XPENDING", _) => Rule::StreamTimes,
        ("OBJECT", "FREQ" | "IDLETIME" | "REFCOUNT") | ("MEMORY", _) => Rule::Kind,
        ("RANDOMKEY" | "DUMP" | "TIME" | "LASTSAVE" | "INFO", _) => Rule::Kind,
        ("CLIENT", "ID" | "INFO" | "LIST") | ("SLOWLOG" | "COMMANDLOG", _) => Rule::Kind,
        ("COMMAND", "" | "COUNT" | "DOCS" | "INFO" | "LIST") => Rule::Kind,
        _ => Rule::Exact,
    }
}
