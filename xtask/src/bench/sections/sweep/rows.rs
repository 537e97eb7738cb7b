//! The values of the sweep, and the commands that are run on them.
//!
//! Invariant: a row stands for one kind of work; what it changes, no later row needs.

use super::super::super::pipe;

/// Elements of each container, and bytes of the string by hundreds.
pub(super) const ELEMENTS: u64 = 1_000_000;

/// What the values are made of: key, command, and what follows for each number.
type Piece = fn(u64) -> Vec<String>;

/// Values whose elements come with one command for many.
pub(super) const DATA: &[(&str, &str, Piece)] = &[
    ("set", "SADD", |number| vec![format!("m:{number:014}")]),
    ("set2", "SADD", |number| vec![format!("m:{:014}", number + ELEMENTS / 2)]),
    ("sorted", "ZADD", |number| vec![number.to_string(), format!("m:{number:014}")]),
    ("hash", "HSET", |number| vec![format!("f:{number:014}"), "value".to_owned()]),
    ("list", "RPUSH", |number| vec![format!("e:{:014}", number * 7919 % ELEMENTS)]),
];

/// Values that scripts make: key, and what is done for each number `i` below `n`.
pub(super) const MADE: &[(&str, &str)] = &[
    ("stream", "redis.call('XADD', KEYS[1], '*', 'field', i)"),
    ("hll", "redis.call('PFADD', KEYS[1], i)"),
    ("string", "redis.call('SETRANGE', KEYS[1], (i + 1) * 100 - 1, 'x')"),
];

/// What is sent to the server.
pub(super) enum Asked {
    /// These requests, one after the other without a pause.
    Each(&'static [&'static [&'static str]]),
    /// One request, again and again.
    Times(u64, &'static [&'static str]),
    /// One request, behind whose words come so many names.
    Names(&'static [&'static str], u64),
    /// The same, each name with a value.
    Pairs(&'static [&'static str], u64),
    /// One request that ends with an argument of so many bytes.
    Long(&'static [&'static str], u64),
}

/// A row: the key that is asked for meanwhile, and what is sent.
pub(super) type Row = (&'static str, Asked);

use Asked::{Each, Long, Names, Pairs, Times};

/// What is sent, in this order.
pub(super) const ROWS: &[Row] = &[
    ("set", Each(&[&["SUNIONSTORE", "out", "set", "set2"]])),
    ("set", Each(&[&["SINTERSTORE", "out", "set", "set2"]])),
    ("set", Each(&[&["SDIFFSTORE", "out", "set", "set2"]])),
    ("set", Each(&[&["SINTERCARD", "2", "set", "set2"]])),
    ("set", Each(&[&["SUNION", "set", "set2"]])),
    ("set", Each(&[&["SMEMBERS", "set"]])),
    ("set", Each(&[&["SRANDMEMBER", "set", "500000"]])),
    ("set", Each(&[&["SSCAN", "set", "0", "COUNT", "1000000"]])),
    ("set", Each(&[&["SORT", "set", "ALPHA", "STORE", "out"]])),
    ("set", Each(&[&["DUMP", "set"]])),
    ("set", Each(&[&["COPY", "set", "out", "REPLACE"]])),
    ("sorted", Each(&[&["ZUNIONSTORE", "out", "2", "sorted", "set"]])),
    ("sorted", Each(&[&["ZUNION", "2", "sorted", "set", "WITHSCORES"]])),
    ("sorted", Each(&[&["ZINTERSTORE", "out", "2", "sorted", "set"]])),
    ("sorted", Each(&[&["ZDIFF", "2", "sorted", "set2"]])),
    ("sorted", Each(&[&["ZRANGESTORE", "out", "sorted", "0", "-1"]])),
    ("sorted", Each(&[&["ZRANGE", "sorted", "0", "-1", "WITHSCORES"]])),
    ("sorted", Each(&[&["ZSCAN", "sorted", "0", "MATCH", "*99", "COUNT", "1000000"]])),
    ("out", Each(&[&["ZREMRANGEBYRANK", "out", "0", "400000"]])),
    ("hash", Each(&[&["HGETALL", "hash"]])),
    ("hash", Each(&[&["HRANDFIELD", "hash", "-200000"]])),
    ("hash", Each(&[&["HSCAN", "hash", "0", "COUNT", "1000000"]])),
    ("hash", Each(&[&["MULTI"], &["HGETALL", "hash"], &["EXEC"]])),
    ("hash", Each(&[&["EVAL", "return redis.call('HGETALL', KEYS[1])", "1", "hash"]])),
    ("list", Each(&[&["LRANGE", "list", "0", "-1"]])),
    ("list", Each(&[&["LPOS", "list", "none"]])),
    ("list", Each(&[&["SORT", "list", "ALPHA", "LIMIT", "0", "10"]])),
    ("list", Each(&[&["DUMP", "list"]])),
    ("list", Times(1000, &["LRANGE", "list", "0", "999"])),
    ("list", Each(&[&["LTRIM", "list", "0", "500000"]])),
    ("stream", Each(&[&["XRANGE", "stream", "-", "+"]])),
    ("stream", Each(&[&["XREVRANGE", "stream", "+", "-"]])),
    ("stream", Each(&[&["XINFO", "STREAM", "stream"]])),
    ("stream", Each(&[&["MULTI"], &["XRANGE", "stream", "-", "+"], &["EXEC"]])),
    ("stream", Each(&[&["XTRIM", "stream", "MAXLEN", "1000"]])),
    ("string", Each(&[&["GET", "string"]])),
    ("string", Each(&[&["EVAL", "return #redis.call('GET', KEYS[1])", "1", "string"]])),
    ("string", Each(&[&["EVAL", "return #string.rep('x', 1e8)", "0"]])),
    ("string", Each(&[&["BITCOUNT", "string"]])),
    ("string", Each(&[&["BITOP", "NOT", "out", "string"]])),
    ("string", Each(&[&["DUMP", "string"]])),
    ("string", Each(&[&["APPEND", "string", "x"]])),
    ("string", Long(&["SET", "string"], 100)),
    ("hll", Times(1000, &["PFCOUNT", "hll", "set:none"])),
    ("hll", Names(&["PFADD", "hll"], 10_000)),
    ("hll", Times(100, &["PFMERGE", "hll2", "hll"])),
    ("k:7", Pairs(&["MSET"], 100_000)),
    ("k:7", Pairs(&["MSETNX"], 100_000)),
    ("k:7", Names(&["MGET"], 100_000)),
    ("k:7", Names(&["EXISTS"], 100_000)),
    ("k:7", Names(&["TOUCH"], 100_000)),
    ("k:7", Names(&["WATCH"], 10_000)),
    ("k:7", Each(&[&["KEYS", "*"]])),
    ("k:7", Each(&[&["SCAN", "0", "COUNT", "100000"]])),
    ("k:7", Each(&[&["DEBUG", "DIGEST"]])),
    ("k:7", Names(&["DEL"], 100_000)),
    ("set", Names(&["SUBSCRIBE"], 100_000)),
    ("set", Names(&["PSUBSCRIBE"], 10_000)),
    ("set", Times(1000, &["INFO"])),
    ("set", Names(&["CONFIG", "GET"], 10_000)),
    ("set", Names(&["COMMAND", "INFO"], 100_000)),
    ("set", Names(&["LATENCY", "HISTOGRAM"], 100_000)),
    ("set", Times(10_000, &["SCRIPT", "LOAD", "return 1"])),
    ("set", Each(&[&["SCRIPT", "FLUSH", "ASYNC"]])),
    ("out", Each(&[&["DEL", "out"]])),
    ("set", Each(&[&["SWAPDB", "0", "1"], &["SWAPDB", "0", "1"]])),
    ("set", Each(&[&["FLUSHALL", "ASYNC"]])),
];

impl Asked {
    /// As the table calls it.
    pub(super) fn label(&self) -> String {
        let words = |words: &[&str]| {
            let short = |word: &&str| {
                if word.len() > 40 { word[..37].to_owned() + ".." } else { (*word).to_owned() }
            };
            words.iter().map(short).collect::<Vec<_>>().join(" ")
        };
        match self {
            Each(requests) => requests.iter().map(|it| words(it)).collect::<Vec<_>>().join("; "),
            Times(times, request) => format!("{times} x {}", words(request)),
            Names(head, count) => format!("{} of {count} names", words(head)),
            Pairs(head, count) => format!("{} of {count} keys", words(head)),
            Long(head, millions) => format!("{} of {millions} MB", words(head)),
        }
    }

    /// What is sent for it, where numbers are scaled.
    pub(super) fn request(&self, scaled: impl Fn(u64) -> u64) -> Vec<u8> {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let encoded = |words: Vec<String>| {
            pipe::encode(&words.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let name = |number: u64| format!("k:{number}");
        match self {
            Each(requests) => requests.iter().flat_map(|words| pipe::encode(words)).collect(),
            Times(times, words) => pipe::encode(words).repeat(scaled(*times) as usize),
            Names(head, count) => {
                encoded(owned(head).into_iter().chain((0..scaled(*count)).map(name)).collect())
            }
            Pairs(head, count) => {
                let pair = |number| [name(number), format!("value:{number}")];
                encoded(owned(head).into_iter().chain((0..scaled(*count)).flat_map(pair)).collect())
            }
            Long(head, millions) => {
                let value = "x".repeat(scaled(*millions * 1_000_000) as usize);
                encoded(owned(head).into_iter().chain([value]).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DATA, MADE, ROWS};

    #[test]
    fn the_keys_that_are_asked_for_are_there() {
        for (key, asked) in ROWS {
            let is_data = DATA.iter().any(|(name, ..)| name == key);
            let is_made = MADE.iter().any(|(name, _)| name == key);
            let is_left = ["out", "k:7"].contains(key);
            assert!(is_data || is_made || is_left, "{}", asked.label());
        }
    }

    #[test]
    fn a_row_has_a_label_of_its_own_and_something_to_send() {
        for (place, (_, asked)) in ROWS.iter().enumerate() {
            let is_other = |(_, other): &super::Row| other.label() != asked.label();
            assert!(ROWS[..place].iter().all(is_other), "{}", asked.label());
            assert!(asked.request(|count| count.div_ceil(1000)).starts_with(b"*"));
        }
    }
}
