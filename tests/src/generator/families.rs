//! What the families of commands need beyond plain values: keys of their own, IDs of entries,
//! scores, places, bits; and requests that are made fit where chance or the time would decide.
//! Invariant: an argument of a waiting command is never a time without end.

use base::random::Random;

use super::Drawn;
use super::declared::{Argument, Declared};
use super::values::{elements, number, odd_integer, pick, small};
use crate::differential::Command;

/// Where a value is asked for.
pub(super) struct Place<'a> {
    /// The command.
    pub(super) command: &'a Declared,
    /// The argument.
    pub(super) argument: &'a Argument,
    /// The words before it.
    pub(super) words: &'a [Vec<u8>],
    /// How many requests were drawn before.
    pub(super) turn: u64,
}

/// Arguments that say how many others follow.
pub(super) const COUNTS: &[&str] = &["numkeys", "numfields", "numids"];

/// Holds one member whenever SPOP takes one.
pub(super) const LONE: &[u8] = b"lone";
/// A stream whose last ID is ahead of every clock: the IDs that it gives follow from that.
pub(super) const AHEAD: &[u8] = b"ahead";
/// A sorted set whose scores are all 0: only then is an order by bytes defined.
pub(super) const EVEN: &[u8] = b"even";

/// The keys that the commands of a family mostly work on; each is long or odd in some episode.
pub(super) const POOLS: &[(&str, &[&[u8]])] = &[
    ("list", &[b"l:1", b"l:2"]),
    ("set", &[b"s:1", b"s:2", b"s:3"]),
    ("hash", &[b"h:1", b"h:2"]),
    ("sorted-set", &[b"z:1", b"z:2", b"z:3"]),
    ("geo", &[b"g:1", b"g:2"]),
    ("stream", &[b"x:1", b"x:2"]),
    ("bitmap", &[b"b:1", b"b:2"]),
    ("hyperloglog", &[b"p:1", b"p:2", b"p:3"]),
];

/// The same for families that no real server has.
const OWN_POOLS: &[(&str, &[&[u8]])] = &[("array", &[b"r:1", b"r:2"])];

/// Commands that leave every score of a sorted set as it is, if it is 0.
const KEEP_EVEN: &[&str] = &[
    "zadd",
    "zcard",
    "zcount",
    "zmscore",
    "zpopmax",
    "zpopmin",
    "zrandmember",
    "zrange",
    "zrank",
    "zrem",
    "zremrangebyrank",
    "zrevrange",
    "zrevrank",
    "zscan",
    "zscore",
    "del",
    "exists",
    "object|encoding",
    "type",
    "unlink",
];

/// Commands that do not set back the last ID of a stream.
const KEEP_AHEAD: &[&str] = &["xdel", "xlen", "xrange", "xread", "xrevrange", "xtrim"];

const SCORES: &[&[u8]] = &[
    b"0",
    b"0",
    b"1",
    b"1",
    b"1",
    b"2",
    b"3",
    b"-1",
    b"1.5",
    b"0.1",
    b"-2.5e3",
    b"1e17",
    b"9007199254740993",
    b"inf",
    b"-inf",
    b"+Infinity",
    b"nan",
    b"0x1p3",
    b"x",
    b"",
    b" 1",
];

const SCORE_BOUNDS: &[&[u8]] = &[
    b"-inf", b"+inf", b"-inf", b"+inf", b"inf", b"0", b"1", b"2", b"(1", b"(0", b"(-inf", b"(+inf",
    b"1.5", b"(1.5", b"-1", b"0x10", b"(0x1", b"nan", b"x", b"(", b"", b"((1", b"[1", b"1 ", b"-",
];

const LEX_BOUNDS: &[&[u8]] = &[
    b"-",
    b"+",
    b"-",
    b"+",
    b"[a",
    b"(a",
    b"[b",
    b"(b",
    b"[c",
    b"[",
    b"(",
    b"[1",
    b"(2",
    b"[elem",
    b"[element",
    b"(element",
    b"a",
    b"",
    b"--",
    b"-inf",
];

/// None that makes a NaN of a score: what became of one differed until Redis 7.2.
const WEIGHTS: &[&[u8]] = &[b"1", b"2", b"-1", b"0.5", b"1e3", b"nan", b"x"];

const LONGITUDES: &[&[u8]] = &[
    b"13.361389",
    b"15.087269",
    b"13.5",
    b"0",
    b"-122.4194",
    b"180",
    b"-180",
    b"179.9999",
    b"180.1",
    b"x",
];

const LATITUDES: &[&[u8]] = &[
    b"38.115556",
    b"37.502669",
    b"38",
    b"0",
    b"37.7749",
    b"85.05112878",
    b"-85.05112878",
    b"85.06",
    b"60",
    b"",
];

const DISTANCES: &[&[u8]] = &[
    b"200",
    b"100",
    b"1",
    b"0",
    b"5000",
    b"200000",
    b"1000000",
    b"30000000",
    b"0.5",
    b"-1",
    b"x",
    b"1e3",
    b"nan",
    b"inf",
];

const ENCODINGS: &[&[u8]] = &[
    b"u8", b"i8", b"u1", b"i1", b"u4", b"i5", b"u16", b"u32", b"u63", b"i63", b"i64", b"u64",
    b"i65", b"u0", b"i0", b"x8", b"u", b"8", b"",
];

/// Few bits: between a short string and the longest there are hundreds of megabytes.
const BIT_OFFSETS: &[&[u8]] =
    &[b"0", b"1", b"7", b"8", b"#0", b"#1", b"#3", b"100", b"-1", b"#-1", b"x", b"#", b""];

const RANGE_IDS: &[&[u8]] = &[
    b"-",
    b"+",
    b"-",
    b"+",
    b"0",
    b"0-0",
    b"(0",
    b"(-",
    b"(+",
    b"x",
    b"1-x",
    b"18446744073709551615-18446744073709551615",
    b"(18446744073709551615-18446744073709551615",
    b"18446744073709551616",
];

/// Times between entries that are new and those that XCLAIM made old.
const IDLE_MIN: &[&[u8]] = &[b"0", b"0", b"0", b"0", b"500000", b"-1", b"x", b"1.5"];

/// Short waits; and none that is endless.
const TIMEOUTS: &[&[u8]] = &[
    b"0.001", b"0.002", b"0.001", b"0.002", b"0.0005", b"1e-3", b"-1", b"x", b"", b"nan", b"1e400",
];

/// A value that the family of the command asks for.
pub(super) fn special(random: &mut Random, place: &Place) -> Option<Vec<u8>> {
    let (command, argument) = (place.command.name.as_str(), place.argument.name.as_str());
    if argument == "timeout" {
        return Some(pick(random, TIMEOUTS));
    }
    match place.command.group.as_str() {
        "stream" => of_streams(random, place, command, argument),
        "sorted-set" => of_sorted_sets(random, place, command, argument),
        "geo" => of_geo(random, argument),
        "bitmap" => of_bitmaps(random, command, argument),
        "hyperloglog" => of_hyperloglogs(random, argument),
        _ => None,
    }
}

fn of_streams(
    random: &mut Random,
    place: &Place,
    command: &str,
    argument: &str,
) -> Option<Vec<u8>> {
    let value = match (command, argument) {
        (_, "milliseconds") => pick(random, &[b"1", b"2", b"1", b"-1", b"x", b""]),
        ("xadd", "id") => new_id(random, place.turn),
        ("xread", "id") if random.below(3) == 0 => pick(random, &[b"$", b"0", b"0-0", b"x"]),
        ("xreadgroup", "id") if random.below(4) > 0 => pick(random, &[b">", b">", b">", b"0"]),
        (_, "id" | "last-id" | "lastid" | "max-deleted-id" | "start" | "end") => {
            entry_id(random, place.turn, command)
        }
        (_, "threshold") if random.below(2) == 0 => random.below(9).to_string().into_bytes(),
        (_, "threshold") => entry_id(random, place.turn, command),
        (_, "min-idle-time") => pick(random, IDLE_MIN),
        (_, "ms") => pick(random, &[b"0", b"1000000", b"3000000", b"-1", b"x"]),
        // Redis 7.0 calls some of them otherwise.
        (_, "group" | "groupname") => {
            pick(random, &[b"g", b"g", b"g", b"g", b"h", b"h", b"nogroup", b""])
        }
        (_, "consumer" | "consumername") => {
            pick(random, &[b"alice", b"alice", b"bob", b"bob", b""])
        }
        (_, "count") => count(random),
        _ => return None,
    };
    Some(value)
}

fn of_sorted_sets(
    random: &mut Random,
    place: &Place,
    command: &str,
    argument: &str,
) -> Option<Vec<u8>> {
    let is_by_bytes = command.contains("lex");
    let value = match argument {
        "score" if place.words.get(1).is_some_and(|key| key == EVEN) => b"0".to_vec(),
        "score" if random.below(8) == 0 => number(random),
        "score" => pick(random, SCORES),
        "min" | "max" if is_by_bytes => pick(random, LEX_BOUNDS),
        "min" | "max" if command != "zrangestore" => pick(random, SCORE_BOUNDS),
        "start" | "stop" | "min" | "max" if random.below(8) > 0 => {
            (random.below(16) as i64 - 6).to_string().into_bytes()
        }
        "weight" => pick(random, WEIGHTS),
        "offset" => (random.below(8) as i64 - 1).to_string().into_bytes(),
        // Redis replies as many as it is asked for, even from a set of one.
        "count" if command == "zrandmember" => small(random),
        "count" | "limit" => count(random),
        _ => return None,
    };
    Some(value)
}

fn of_geo(random: &mut Random, argument: &str) -> Option<Vec<u8>> {
    let value = match argument {
        "longitude" => pick(random, LONGITUDES),
        "latitude" => pick(random, LATITUDES),
        "radius" | "width" | "height" => pick(random, DISTANCES),
        "member" | "member1" | "member2" => elements(random),
        "count" => count(random),
        _ => return None,
    };
    Some(value)
}

fn of_bitmaps(random: &mut Random, command: &str, argument: &str) -> Option<Vec<u8>> {
    let value = match (command, argument) {
        (_, "encoding") => pick(random, ENCODINGS),
        // To Redis 7.0 these are no words of their own.
        ("bitop", "operation") => pick(random, &[b"AND", b"or", b"XOR", b"NOT", b"no", b""]),
        ("bitfield" | "bitfield_ro", "offset") if random.below(2) == 0 => pick(random, BIT_OFFSETS),
        (_, "offset") => random.below(300).to_string().into_bytes(),
        ("setbit", "value") | ("bitpos", "bit") => {
            pick(random, &[b"0", b"1", b"0", b"1", b"0", b"1", b"2", b"-1", b"x"])
        }
        (_, "start" | "end") if random.below(4) > 0 => small(random),
        _ => return None,
    };
    Some(value)
}

fn of_hyperloglogs(random: &mut Random, argument: &str) -> Option<Vec<u8>> {
    let value = match argument {
        "subcommand" => {
            pick(random, &[b"GETREG", b"ENCODING", b"encoding", b"DECODE", b"TODENSE", b"nosuch"])
        }
        "element" if random.below(2) == 0 => random.below(2000).to_string().into_bytes(),
        _ => return None,
    };
    Some(value)
}

/// How many of something: few, all, or what is no count.
fn count(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0..=4 => (random.below(5)).to_string().into_bytes(),
        5 | 6 => b"1000".to_vec(),
        _ => odd_integer(random),
    }
}

/// Requests that are near each other add to the same few milliseconds.
fn milliseconds_of(turn: u64) -> u64 {
    1 + turn / 16
}

/// An ID for a new entry.
fn new_id(random: &mut Random, turn: u64) -> Vec<u8> {
    let milliseconds = milliseconds_of(turn);
    match random.below(64) {
        0 => pick(random, &[b"0-0", b"0-1", b"x", b"1-x", b"-", b"5-", b"-5-1", b"", b"0-*"]),
        1 => pick(random, &[b"18446744073709551615-18446744073709551615", b"1-1"]),
        2 => format!("{milliseconds}-18446744073709551615").into_bytes(),
        3..=8 => milliseconds.to_string().into_bytes(),
        9..=24 => format!("{milliseconds}-{}", random.below(4)).into_bytes(),
        _ => format!("{milliseconds}-*").into_bytes(),
    }
}

/// The ID of an entry that may be there, or the end of a range.
fn entry_id(random: &mut Random, turn: u64, command: &str) -> Vec<u8> {
    let ends = ["xrange", "xrevrange", "xpending", "xautoclaim"];
    let is_end = ends.contains(&command) && random.below(2) == 0;
    let milliseconds = milliseconds_of(turn).saturating_sub(random.below(10));
    match random.below(24) {
        _ if is_end => pick(random, RANGE_IDS),
        0 => pick(random, RANGE_IDS),
        1..=3 => milliseconds.to_string().into_bytes(),
        4 if ends.contains(&command) => format!("({milliseconds}-0").into_bytes(),
        _ => format!("{milliseconds}-{}", random.below(4)).into_bytes(),
    }
}

/// The key that a family mostly has; `None` for any.
pub(super) fn key(random: &mut Random, place: &Place) -> Option<Vec<u8>> {
    let command = place.command.name.as_str();
    let mut pools = POOLS.iter().chain(OWN_POOLS);
    let of_family = pools.find(|(group, _)| *group == place.command.group);
    match random.below(16) {
        0 | 1 if KEEP_EVEN.contains(&command) => Some(EVEN.to_vec()),
        0 | 1 if KEEP_AHEAD.contains(&command) => Some(AHEAD.to_vec()),
        2..=13 => of_family.map(|(_, keys)| pick(random, keys)),
        _ => None,
    }
}

/// Whether this argument has to come as often as the keys.
pub(super) fn has_one_for_each_key(command: &Declared, argument: &Argument) -> bool {
    let reads = ["xread", "xreadgroup"].contains(&command.name.as_str());
    argument.name == "weight" || (reads && argument.name == "id")
}

/// Makes a request fit where chance, the time or an undefined order would decide.
pub(super) fn settle(random: &mut Random, command: &mut Command, is_spoilt: bool) {
    let name = command[0].to_ascii_uppercase();
    if name == b"XADD" && command.iter().skip(2).any(|word| word == b"*") {
        command[1] = AHEAD.to_vec();
        command.insert(2, b"NOMKSTREAM".to_vec());
    }
    match name.as_slice() {
        // Until Redis 8.6 an approximate trim with a rule for references trimmed nothing.
        b"XADD" | b"XTRIM" if minds_references(command) => {
            for word in command.iter_mut().skip(2).filter(|word| *word == b"~") {
                *word = b"=".to_vec();
            }
        }
        // A member may have come to stand as a score.
        b"ZADD" if is_spoilt && command.get(1).is_some_and(|key| key == EVEN) => {
            command[1] = b"z:1".to_vec();
        }
        b"ZRANGEBYLEX" | b"ZREVRANGEBYLEX" | b"ZREMRANGEBYLEX" | b"ZLEXCOUNT" => {
            if let Some(key) = command.get_mut(1) {
                *key = EVEN.to_vec();
            }
        }
        // A damaged HyperLogLog is read by each server in its own way.
        b"APPEND" | b"SETRANGE" | b"SETBIT" | b"BITFIELD"
            if command.get(1).is_some_and(|key| key.starts_with(b"p:")) =>
        {
            command[1] = b"b:1".to_vec();
        }
        b"PFADD" | b"PFMERGE" if command.get(1).is_some_and(|key| !key.starts_with(b"p:")) => {
            command[1] = b"p:1".to_vec();
        }
        b"ZRANGE" => settle_range(random, command, 1),
        b"ZRANGESTORE" => settle_range(random, command, 2),
        _ => {}
    }
}

fn minds_references(command: &Command) -> bool {
    let rules: [&[u8]; 2] = [b"DELREF", b"ACKED"];
    command.iter().any(|word| rules.iter().any(|rule| word.eq_ignore_ascii_case(rule)))
}

/// Gives a range by score or by bytes bounds of its kind, mostly.
fn settle_range(random: &mut Random, command: &mut Command, key_at: usize) {
    let has = |option: &[u8]| command.iter().any(|word| word.eq_ignore_ascii_case(option));
    let bounds = match (has(b"BYLEX"), has(b"BYSCORE")) {
        (true, _) => LEX_BOUNDS,
        (_, true) => SCORE_BOUNDS,
        _ => return,
    };
    if has(b"BYLEX") {
        command[key_at..].iter_mut().take(1).for_each(|key| *key = EVEN.to_vec());
    }
    if random.below(8) > 0 {
        for bound in command.iter_mut().skip(key_at + 1).take(2) {
            *bound = pick(random, bounds);
        }
    }
}

/// Makes SPOP take all that there is, or (then this is true) the member of [`LONE`].
pub(super) fn settle_spop(command: &mut Command) -> bool {
    if let Some(count) = command.get_mut(2) {
        let number = std::str::from_utf8(count).ok().and_then(|text| text.parse::<i64>().ok());
        if number.is_some_and(|number| (1..1000).contains(&number)) {
            *count = b"1000".to_vec();
        }
    }
    let takes_one = command.len() == 2;
    if takes_one {
        command[1] = LONE.to_vec();
    }
    takes_one
}

/// What reads all that a command chose from by chance.
pub(super) fn follower(drawn: &Drawn) -> Option<Drawn> {
    let key = drawn.step.command.get(1)?;
    match drawn.name.as_str() {
        "srandmember" => Some(Drawn::plain(&[b"SMEMBERS", key])),
        "hrandfield" => Some(Drawn::plain(&[b"HGETALL", key])),
        "zrandmember" => Some(Drawn::plain(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"])),
        _ => None,
    }
}
