//! Differences from a real server that are on purpose, each as narrow as it can be told.
//! Invariant: where the servers differ among themselves Apus does as Redis 8.2.

use proto::value::Value;

use crate::differential::{Command, Exception, timeless};

/// For Redis 7.0.
pub const REDIS70: &[Exception] = &[
    CURSORS,
    POLICIES,
    MEMBER_TIMES,
    ONE_WORD,
    SMALL_SETS,
    QUICKLISTS,
    STORED_KEYS,
    HEXADECIMAL_BOUNDS,
    DIGITS,
    BITS_KEY_FIRST,
    ENDLESS_WAITS,
    UNBALANCED,
    RANK_ARITY,
    ENTRIES_READ,
    FULL_MILLISECOND,
    LAST_ENTRY,
    BELOW_DELETED,
    NO_PLACE,
    NO_HASH,
    MUCH_TO_CLAIM,
    TWO_STORES,
    MET_CONSUMERS,
    TOLD_TWICE,
    LEAST_RANK,
    LONE_DESTINATION,
    NO_MIDDLE,
    NAMED_ANYWAY,
];

/// For Redis 8.2.
pub const REDIS82: &[Exception] = &[
    CURSORS,
    POLICIES,
    MEMBER_TIMES,
    EMBEDDED,
    EXTENDED,
    REFUSED_LSET,
    LONE_DESTINATION,
    PASSING_FIELDS,
    NO_HASH,
    MUCH_TO_CLAIM,
    TWO_STORES,
    NO_FIELDS,
];

/// For Valkey 9.1.
pub const VALKEY91: &[Exception] = &[
    CURSORS,
    POLICIES,
    MEMBER_TIMES,
    UNKNOWN_TYPES,
    TIME_BEFORE_KEY,
    EMBEDDED,
    LONE_DESTINATION,
    UNBLOCK_IGNORES,
    NO_CLUSTER,
    PAIRS,
    DIGITS,
    HEXADECIMAL,
    HEXADECIMAL_BOUNDS,
    FIELD_TIMES,
    FIELD_TABLES,
    INSERTED_FIELDS,
    NO_MEMBER,
    BITS_TO_END,
    ENTRIES_READ,
    UNBALANCED,
    REFUSED_LSET,
    NO_HASH,
    MUCH_TO_CLAIM,
    TWO_STORES,
    NEGATIVE_OFFSETS,
    LONG_STRANGERS,
];

const CURSORS: Exception = Exception {
    reason: "cursors that no server ever gives, such as -7, are numbers to some and not to others",
    applies: |command, ours, theirs| {
        ["SCAN", "SSCAN", "HSCAN", "ZSCAN"].iter().any(|name| is(command, name))
            && [ours, theirs].map(|reply| is_error(reply, "ERR invalid cursor")).contains(&true)
    },
};

const POLICIES: Exception = Exception {
    reason: "the error that names the policies of eviction names those that are ours, too",
    applies: |_, ours, theirs| {
        let words = "'maxmemory-policy') - argument(s) must be one of the following: ";
        let is_said = |reply: &Value| matches!(reply, Value::Error(text) if has(text, words));
        is_said(ours) && is_said(theirs)
    },
};

const MEMBER_TIMES: Exception = Exception {
    reason: "TTL and PTTL of a member are KeyDB's",
    applies: |command, _, theirs| {
        // By itself, or where COMMAND GETKEYS is asked about it.
        let named = if is(command, "COMMAND") { command.get(2..) } else { command.get(..) };
        let named = named.unwrap_or_default();
        let name = named.first().map(|name| name.to_ascii_uppercase());
        matches!(name.as_deref(), Some(b"TTL" | b"PTTL"))
            && named.len() == 3
            && (is_error(theirs, "ERR wrong number of arguments")
                || is_error(theirs, "ERR Invalid number of arguments"))
    },
};

const EMBEDDED: Exception = Exception {
    reason: "from Redis 8 and Valkey 8 on, the length of the key and other things decide \
             between embstr and raw; here it is the length of the string",
    applies: |command, ours, theirs| {
        is(command, "OBJECT")
            && [ours, theirs]
                .iter()
                .all(|reply| matches!(reply.as_bytes(), Some(b"embstr" | b"raw")))
    },
};

const SMALL_SETS: Exception = Exception {
    reason: "until Redis 7.2 a small set with members that are no integers was a hash table",
    applies: |command, ours, theirs| {
        is(command, "OBJECT")
            && ours.as_bytes() == Some(b"listpack")
            && theirs.as_bytes() == Some(b"hashtable")
    },
};

const QUICKLISTS: Exception = Exception {
    reason: "until Redis 7.2 every list was a quicklist",
    applies: |command, ours, theirs| {
        is(command, "OBJECT")
            && ours.as_bytes() == Some(b"listpack")
            && theirs.as_bytes() == Some(b"quicklist")
    },
};

const UNKNOWN_TYPES: Exception = Exception {
    reason: "Valkey refuses to scan for a type that it does not know",
    applies: |command, _, theirs| is(command, "SCAN") && is_error(theirs, "ERR unknown type name"),
};

const UNBLOCK_IGNORES: Exception = Exception {
    reason: "Valkey ignores what follows CLIENT UNBLOCK and its reason",
    applies: |command, _, _| is(command, "CLIENT") && command.len() > 4,
};

const TIME_BEFORE_KEY: Exception = Exception {
    reason: "Valkey reads the time before it looks for the key",
    applies: |command, ours, theirs| {
        is(command, "GETEX")
            && (*ours == Value::Null || is_error(ours, "WRONGTYPE"))
            && matches!(theirs, Value::Error(_))
    },
};

const ONE_WORD: Exception = Exception {
    reason: "until Redis 7.2 COMMAND GETKEYS refused commands without arguments by its own arity",
    applies: |command, _, theirs| {
        is(command, "COMMAND") && command.len() == 3 && is_error(theirs, "ERR wrong number")
    },
};

const STORED_KEYS: Exception = Exception {
    reason: "until Redis 8 the destination of SINTERSTORE counted as read, too",
    applies: |command, _, _| {
        is(command, "COMMAND")
            && command.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"GETKEYSANDFLAGS"))
            && command.get(2).is_some_and(|word| word.eq_ignore_ascii_case(b"SINTERSTORE"))
    },
};

const NO_CLUSTER: Exception = Exception {
    reason: "Valkey takes READONLY and READWRITE without a cluster",
    applies: |command, ours, _| {
        (is(command, "READONLY") || is(command, "READWRITE")) && is_error(ours, "ERR This instance")
    },
};

const PAIRS: Exception = Exception {
    reason: "Valkey has another error for a wrong number of pairs; ours is that of Redis 8.4",
    applies: |command, ours, theirs| {
        is(command, "MSETEX") && [ours, theirs].iter().all(|reply| is_error(reply, "ERR "))
    },
};

const EXTENDED: Exception = Exception {
    reason: "Redis calls a hash listpackex from the first HEXPIRE on, whatever that found; here it \
             is by the deadlines there are",
    applies: |command, ours, theirs| {
        is(command, "OBJECT")
            && ours.as_bytes() == Some(b"listpack")
            && theirs.as_bytes() == Some(b"listpackex")
    },
};

const HEXADECIMAL_BOUNDS: Exception = Exception {
    reason: "until Redis 8 bounds of scores might have hexadecimal digits and blanks before them",
    applies: |command, ours, _| {
        is_error(ours, "ERR min or max is not a float")
            && (has_hexadecimal(command)
                || command.iter().any(|word| word.starts_with(b" ") || word.starts_with(b"( ")))
    },
};

const HEXADECIMAL: Exception = Exception {
    reason: "Valkey 9 takes no hexadecimal digits for doubles",
    applies: |command, _, theirs| {
        let says = ["ERR value is not a valid float", "ERR weight value is not a float"];
        says.iter().any(|text| is_error(theirs, text)) && has_hexadecimal(command)
    },
};

const DIGITS: Exception = Exception {
    reason: "until Redis 7.2 doubles in bulk strings had 17 digits; Valkey still writes places so",
    applies: |command, ours, theirs| {
        let name = command[0].to_ascii_uppercase();
        let families: [&[u8]; 3] = [b"Z", b"BZ", b"GEO"];
        families.iter().any(|family| name.starts_with(family))
            && format!("{:?}", as_doubles(ours)) == format!("{:?}", as_doubles(theirs))
    },
};

const BITS_KEY_FIRST: Exception = Exception {
    reason: "until Redis 7.2 BITCOUNT and BITPOS looked for the key before they read the range",
    applies: |command, ours, theirs| {
        (is(command, "BITCOUNT") || is(command, "BITPOS"))
            && (is_error(ours, "ERR syntax error") || is_error(ours, "ERR value is not an integer"))
            && (is_error(theirs, "WRONGTYPE") || matches!(theirs, Value::Integer(-1..=0)))
    },
};

const BITS_TO_END: Exception = Exception {
    reason: "Valkey counts bits to the end where none is given, and tells another of two errors",
    applies: |command, ours, theirs| {
        let errors = ["ERR syntax error", "ERR value is not an integer"];
        is(command, "BITCOUNT")
            && (command.len() == 3 && is_error(ours, errors[0])
                || [ours, theirs]
                    .iter()
                    .all(|reply| errors.iter().any(|error| is_error(reply, error))))
    },
};

const ENDLESS_WAITS: Exception = Exception {
    reason: "until Redis 7.2 a timeout beyond all numbers was called negative",
    applies: |_, ours, theirs| {
        is_error(ours, "ERR timeout is out of range") && is_error(theirs, "ERR timeout is negative")
    },
};

const UNBALANCED: Exception = Exception {
    reason: "the error for a wrong number of IDs names the command and `+` since Redis 7.4",
    applies: |_, ours, theirs| {
        [ours, theirs].iter().all(|reply| is_error(reply, "ERR Unbalanced "))
    },
};

const RANK_ARITY: Exception = Exception {
    reason: "until Redis 7.2 ZRANK had no WITHSCORE",
    applies: |command, _, theirs| {
        let ranks: [&[u8]; 2] = [b"ZRANK", b"ZREVRANK"];
        let named = command.get(if is(command, "COMMAND") { 2 } else { 0 });
        named.is_some_and(|name| ranks.iter().any(|rank| name.eq_ignore_ascii_case(rank)))
            && (is_error(theirs, "ERR wrong number of arguments")
                || is_error(theirs, "ERR Invalid number of arguments"))
    },
};

/// Commands on fields with times.
const ON_FIELD_TIMES: &[&str] = &[
    "HEXPIRE",
    "HPEXPIRE",
    "HEXPIREAT",
    "HPEXPIREAT",
    "HTTL",
    "HPTTL",
    "HEXPIRETIME",
    "HPEXPIRETIME",
    "HPERSIST",
    "HGETEX",
    "HSETEX",
    "HGETDEL",
];

const FIELD_TIMES: Exception = Exception {
    reason: "Valkey has errors of its own for fields with times, other limits of the times, and \
             reads conditions anywhere; here it is as in Redis",
    applies: |command, ours, theirs| {
        ON_FIELD_TIMES.iter().any(|name| is(command, name))
            && [ours, theirs].iter().any(|reply| matches!(reply, Value::Error(_)))
    },
};

const FIELD_TABLES: Exception = Exception {
    reason: "in Valkey a hash with fields that expire is a hash table",
    applies: |command, ours, theirs| {
        is(command, "OBJECT")
            && matches!(ours.as_bytes(), Some(b"listpackex" | b"listpack"))
            && theirs.as_bytes() == Some(b"hashtable")
    },
};

const NO_MEMBER: Exception = Exception {
    reason: "Valkey tells which member has no place",
    applies: |_, ours, theirs| {
        is_error(ours, "ERR could not decode requested zset member")
            && is_error(theirs, "ERR member ")
    },
};

const ENTRIES_READ: Exception = Exception {
    reason: "a group that is said to have read more than there ever was has read all since Redis 8",
    applies: |command, ours, theirs| {
        let rest = |reply| format!("{:?}", timeless(reply, &[b"entries-read", b"lag"]));
        is(command, "XINFO") && rest(ours) == rest(theirs)
    },
};

const FULL_MILLISECOND: Exception = Exception {
    reason: "until Redis 7.2 a millisecond without IDs left was told as elements too large",
    applies: |command, ours, theirs| {
        is(command, "XADD")
            && is_error(ours, "ERR The ID specified in XADD is equal or smaller")
            && is_error(theirs, "ERR Elements are too large")
    },
};

const LAST_ENTRY: Exception = Exception {
    reason: "until Redis 7.4 XREAD and XREADGROUP knew no `+`",
    applies: |command, _, theirs| {
        (is(command, "XREAD") || is(command, "XREADGROUP"))
            && command.iter().any(|word| word == b"+")
            && is_error(theirs, "ERR Invalid stream ID")
    },
};

const NAMED_ANYWAY: Exception = Exception {
    reason: "in Redis 7.0 a HELLO that is refused has named its client",
    applies: |command, _, theirs| {
        is(command, "CLIENT")
            && command.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"GETNAME"))
            && *theirs != Value::Null
    },
};

const BELOW_DELETED: Exception = Exception {
    reason: "until Redis 7.2 XSETID could go below the highest ID that was deleted",
    applies: |command, ours, _| {
        is(command, "XSETID") && is_error(ours, "ERR The ID specified in XSETID is smaller than")
    },
};

const NO_PLACE: Exception = Exception {
    reason: "an infinite score is no place, and Redis 7.0 makes another corner of the map of it",
    applies: |command, _, theirs| {
        is(command, "GEOPOS") && format!("{:?}", as_doubles(theirs)).contains("-85.051127512639")
    },
};

const NO_MIDDLE: Exception = Exception {
    reason: "an infinite score is no place, and Redis 7.0 searches around a corner of the map",
    applies: |command, ours, theirs| {
        let names = ["GEOSEARCH", "GEOSEARCHSTORE", "GEORADIUSBYMEMBER", "GEORADIUSBYMEMBER_RO"];
        let is_nothing = |reply: &Value| match reply {
            Value::Array(items) => items.is_empty(),
            other => *other == Value::Integer(0),
        };
        names.iter().any(|name| is(command, name)) && is_nothing(ours) && !is_nothing(theirs)
    },
};

const NO_HASH: Exception = Exception {
    reason: "an infinite score is no place: GEOHASH tells digits of chance for it",
    applies: |command, ours, theirs| {
        is(command, "GEOHASH")
            && match (ours, theirs) {
                (Value::Array(ours), Value::Array(theirs)) => {
                    let both = || ours.iter().zip(theirs);
                    ours.len() == theirs.len()
                        && both()
                            .all(|(one, other)| (*one == Value::Null) == (*other == Value::Null))
                }
                _ => false,
            }
    },
};

const LONG_STRANGERS: Exception = Exception {
    reason: "Valkey chooses a sorted set's form by the lengths of members that XX keeps out, too",
    applies: |command, ours, theirs| {
        is(command, "OBJECT")
            && ours.as_bytes() == Some(b"listpack")
            && theirs.as_bytes() == Some(b"skiplist")
    },
};

const NEGATIVE_OFFSETS: Exception = Exception {
    reason: "a negative offset in LIMIT gives nothing, but in Valkey the end of a skip list",
    applies: |command, ours, _| {
        let mut words = command.iter().zip(command.iter().skip(1));
        let is_negative = words
            .any(|(word, offset)| word.eq_ignore_ascii_case(b"LIMIT") && offset.starts_with(b"-"));
        let is_nothing = match ours {
            Value::Array(items) => items.is_empty(),
            other => *other == Value::Integer(0),
        };
        let name = command[0].to_ascii_uppercase();
        name.starts_with(b"Z") && is_negative && is_nothing
    },
};

const MUCH_TO_CLAIM: Exception = Exception {
    reason: "XAUTOCLAIM reserves room for its COUNT, and says so where it cannot; here room grows",
    applies: |command, _, theirs| {
        is(command, "XAUTOCLAIM") && is_error(theirs, "ERR Insufficient memory")
    },
};

const LEAST_RANK: Exception = Exception {
    reason: "until Redis 7.2 the least integer was a rank of LPOS like any other",
    applies: |command, ours, _| {
        is(command, "LPOS") && is_error(ours, "ERR value is out of range, value must between")
    },
};

const TWO_STORES: Exception = Exception {
    reason: "of several STORE and STOREDIST in one GEORADIUS the last counts, so GETKEYS tells \
             one key; here all are locked and told",
    applies: |command, _, _| {
        let stores = |word: &Vec<u8>| {
            [&b"STORE"[..], b"STOREDIST"].iter().any(|option| word.eq_ignore_ascii_case(option))
        };
        is(command, "COMMAND") && command.iter().filter(|word| stores(word)).count() > 1
    },
};

const NO_FIELDS: Exception = Exception {
    reason: "HSETEX without a number of fields: both refuse it, in other words",
    applies: |command, ours, theirs| {
        is(command, "HSETEX")
            && is_error(ours, "ERR invalid number of fields")
            && is_error(theirs, "ERR wrong number of arguments")
    },
};

const MET_CONSUMERS: Exception = Exception {
    reason: "until Redis 7.2 a consumer that claimed nothing was not made",
    applies: |command, ours, theirs| {
        let rest = |reply| {
            let labels: [&[u8]; 3] = [b"consumers", b"entries-read", b"lag"];
            format!("{:?}", timeless(reply, &labels))
        };
        let second = command.get(1).map(|word| word.to_ascii_uppercase()).unwrap_or_default();
        match (ours, theirs) {
            (Value::Array(ours), Value::Array(theirs)) if second == b"CONSUMERS" => {
                is(command, "XINFO") && theirs.len() < ours.len()
            }
            (Value::Integer(0), Value::Integer(1)) => second == b"CREATECONSUMER",
            _ => is(command, "XINFO") && rest(ours) == rest(theirs),
        }
    },
};

const TOLD_TWICE: Exception = Exception {
    reason: "since Redis 7.2 HSET, ZADD and GEOADD count what is in the request, be it the same or \
             not to be added, to choose the form",
    applies: |command, ours, theirs| {
        is(command, "OBJECT")
            && matches!(ours.as_bytes(), Some(b"hashtable" | b"skiplist"))
            && theirs.as_bytes() == Some(b"listpack")
    },
};

const PASSING_FIELDS: Exception = Exception {
    reason: "Redis chooses the form for what HSETEX puts even where its time is over already",
    applies: |command, ours, theirs| {
        is(command, "OBJECT")
            && ours.as_bytes() == Some(b"listpack")
            && theirs.as_bytes() == Some(b"hashtable")
    },
};

const INSERTED_FIELDS: Exception = Exception {
    reason: "Valkey says that HSETEX inserts, Redis that it updates",
    applies: |command, _, _| {
        is(command, "COMMAND")
            && command.get(2).is_some_and(|word| word.eq_ignore_ascii_case(b"HSETEX"))
    },
};

const LONE_DESTINATION: Exception = Exception {
    reason: "COMMAND GETKEYS of PFMERGE without sources is an error in the real servers",
    applies: |command, _, theirs| {
        is(command, "COMMAND")
            && command.get(2).is_some_and(|word| word.eq_ignore_ascii_case(b"PFMERGE"))
            && is_error(theirs, "ERR Invalid arguments specified for command")
    },
};

const REFUSED_LSET: Exception = Exception {
    reason: "LSET makes a quicklist of a full listpack even where it then refuses the index",
    applies: |command, ours, theirs| {
        is(command, "OBJECT")
            && ours.as_bytes() == Some(b"listpack")
            && theirs.as_bytes() == Some(b"quicklist")
    },
};

/// A reply in which every text of a number is that number.
fn as_doubles(reply: &Value) -> Value {
    match reply {
        Value::Bulk(text) => {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            number.map_or_else(|| reply.clone(), |number| Value::Double(rounded(number)))
        }
        Value::Double(number) => Value::Double(rounded(*number)),
        Value::Array(items) => Value::Array(items.iter().map(as_doubles).collect()),
        other => other.clone(),
    }
}

/// Places are told with 17 digits behind the point.
fn rounded(number: f64) -> f64 {
    (number * 1e14).round() / 1e14
}

fn has_hexadecimal(command: &Command) -> bool {
    command.iter().any(|word| word.windows(2).any(|pair| pair.eq_ignore_ascii_case(b"0x")))
}

fn is(command: &Command, name: &str) -> bool {
    command[0].eq_ignore_ascii_case(name.as_bytes())
}

fn has(text: &[u8], words: &str) -> bool {
    text.windows(words.len()).any(|window| window == words.as_bytes())
}

fn is_error(reply: &Value, beginning: &str) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with(beginning.as_bytes()))
}
