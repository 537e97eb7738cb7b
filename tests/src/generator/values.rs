//! Values of arguments: few keys, boundary numbers, texts that are numbers and texts that are not.
//! Invariant: times are past, absurd or far in the future, and no two of the last are alike.

use base::random::Random;

use super::declared::{Argument, Kind};
use super::families::{self, Place};

/// Keys of any type; most strings are among them.
pub(super) const KEYS: &[&[u8]] = &[
    b"a",
    b"b",
    b"c",
    b"d",
    b"key:1",
    b"key:2",
    b"{tag}one",
    b"{tag}two",
    b"",
    b"\x00\xff\r\n",
    b"a key that is long enough to be stored in another way than short keys are stored by anybody",
];

const TEXTS: &[&[u8]] = &[
    b"",
    b"a",
    b"x",
    b"hello",
    b"ohmytext",
    b"mynewtext",
    b"\x00\x01\xfe\xff",
    b"line\r\nline",
    b"1.5",
    b"-0",
    b"3.0",
    b"1e3",
    b"0x10",
    b" 1",
    b"1 ",
    b"+1",
    b"01",
    b"nan",
    b"inf",
    b"-inf",
    b"1e400",
    b"0.1",
    b"-2.25e-3",
    b"5.0e3",
    b"1.00000000000000000001",
    b"17179869184.5",
    b".5",
    b"a string that is longer than forty-four bytes, so not embstr",
];

const INTEGERS: &[&[u8]] = &[
    b"0",
    b"1",
    b"-1",
    b"2",
    b"3",
    b"5",
    b"10",
    b"-2",
    b"-10",
    b"100",
    b"255",
    b"256",
    b"9999",
    b"10000",
    b"32767",
    b"-32769",
    b"2147483647",
    b"2147483648",
    b"-2147483649",
    b"4294967295",
    b"4294967296",
    b"9007199254740991",
    b"9007199254740993",
    b"9223372036854775806",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551615",
    b"18446744073709551616",
];

const NO_INTEGERS: &[&[u8]] =
    &[b"", b"x", b"1.5", b" 1", b"1 ", b"+1", b"01", b"-0", b"0x1", b"1e3", b"1\x00", b"nan"];

const FLOATS: &[&[u8]] = &[
    b"0",
    b"-0",
    b"1",
    b"-1",
    b"0.1",
    b"1.5",
    b"-2.25",
    b"3.0e3",
    b"1e-5",
    b"1e17",
    b"1e308",
    b"-1e308",
    b"1e4932",
    b"1e5000",
    b"inf",
    b"-inf",
    b"+inf",
    b"Infinity",
    b"nan",
    b"-nan",
    b"0x1p3",
    b" 1",
    b"1 ",
    b"",
    b"x",
    b"1.0000000000000001",
    b"123456789012345678901234567890",
    b"9007199254740993",
    b"9223372036854775807",
    b"0.30000000000000004",
];

const PATTERNS: &[&[u8]] = &[
    b"*",
    b"?",
    b"a",
    b"[a-c]",
    b"[^a]",
    b"key:*",
    b"*one",
    b"{tag}*",
    b"",
    b"\\a",
    b"[",
    b"[a",
    b"a*b",
    b"**",
    b"*key that*",
    b"\x00*",
    b"[z-a]",
];

const TYPES: &[&[u8]] =
    &[b"string", b"STRING", b"list", b"set", b"zset", b"hash", b"stream", b"none", b"nosuch", b""];

/// Beyond what a string may be long; between this and a few hundred bytes no offset is drawn.
const HUGE_OFFSETS: &[&[u8]] =
    &[b"536870912", b"2147483648", b"4294967296", b"9223372036854775807", b"-1", b"x", b""];

pub(super) const ELEMENTS: &[&[u8]] =
    &[b"a", b"b", b"c", b"1", b"2", b"-3", b"100000", b"", b"element"];

/// Settings that all servers have, with values that are fine, odd or wrong.
const SETTINGS: &[(&str, &[&[u8]])] = &[
    ("maxmemory-policy", &[b"noeviction", b"allkeys-lfu", b"volatile-lru"]),
    ("lfu-log-factor", &[b"10", b"0", b"-1", b"x"]),
    ("slowlog-log-slower-than", &[b"10000", b"-1", b"x", b""]),
    ("latency-monitor-threshold", &[b"0", b"100", b"x"]),
    ("lfu-decay-time", &[b"1", b"10", b"0", b"x"]),
    ("notify-keyspace-events", &[b"", b"KEA", b"Kg$", b"?", b"A"]),
    ("no-such-setting", &[b"1"]),
];

/// Names of connections; none has a NUL, which ends the check of Redis 8 and Valkey.
const NAMES: &[&[u8]] =
    &[b"name", b"lib-1.0(v2)", b"", b"two words", b"line\nline", b"\xff", b"a\x7f", b"~!"];

const SETTING_PATTERNS: &[&[u8]] = &[
    b"maxmemory-policy",
    b"LFU-*",
    b"slowlog-log-*",
    b"latency-m*",
    b"lfu-decay-time",
    b"no-such",
    b"",
];

/// A value for an argument.
pub(super) fn draw(random: &mut Random, place: &Place, payloads: &[Vec<u8>]) -> Vec<u8> {
    if let Some(value) = special(random, place, payloads) {
        return value;
    }
    match place.argument.kind {
        Kind::Key => families::key(random, place).unwrap_or_else(|| key(random)),
        Kind::Integer => integer(random),
        Kind::Double => pick(random, FLOATS),
        Kind::UnixTime => seconds(random),
        Kind::Pattern => pick(random, PATTERNS),
        Kind::String | Kind::Token | Kind::OneOf | Kind::Block => text(random),
    }
}

/// Whether times are among the arguments.
pub(super) fn has_time(arguments: &[Argument]) -> bool {
    let times = ["ttl", "seconds", "milliseconds", "unix-time-seconds", "unix-time-milliseconds"];
    arguments
        .iter()
        .any(|argument| times.contains(&argument.name.as_str()) || has_time(&argument.members))
}

/// A value for anything.
pub(super) fn any(random: &mut Random) -> Vec<u8> {
    match random.below(4) {
        0 => key(random),
        1 => integer(random),
        2 => pick(random, FLOATS),
        _ => text(random),
    }
}

/// What an argument's name, or its place, asks for.
fn special(random: &mut Random, place: &Place, payloads: &[Vec<u8>]) -> Option<Vec<u8>> {
    let (declared, argument) = (place.command, place.argument);
    if let Some(value) = families::special(random, place) {
        return Some(value);
    }
    let value = match (declared.name.as_str(), argument.name.as_str()) {
        ("config|get", _) => pick(random, SETTING_PATTERNS),
        ("config|set", "parameter") => setting(random).0.as_bytes().to_vec(),
        ("config|set", "value") => {
            let values = setting(random).1;
            pick(random, values)
        }
        ("object|freq" | "object|idletime", _) => key(random),
        ("restore" | "restore-asking", "seconds" | "frequency") => integer(random),
        // Redis lets a greater number overflow into the past; we refuse it.
        ("restore" | "restore-asking", "ttl") => match random.below(8) {
            0..=3 => b"0".to_vec(),
            4 => b"-1".to_vec(),
            5 => pick(random, NO_INTEGERS),
            _ => far(random, 1000),
        },
        ("client|setname" | "client|setinfo", _) => pick(random, NAMES),
        (_, "milliseconds" | "unix-time-milliseconds") => milliseconds(random),
        (_, "seconds" | "unix-time-seconds") => seconds(random),
        // Redis since 7.2 and Valkey take an index of LSET for its lower 32 bits.
        ("lset", "index") => small(random),
        // Until Redis 7.2 the least integer was a number like any other here.
        ("lrem", "count") | ("lpos", "rank") => match integer(random) {
            least if least == b"-9223372036854775808" => small(random),
            number => number,
        },
        (_, "index" | "index1" | "index2" | "db" | "destination-db") => database(random),
        (_, "element" | "pivot" | "member" | "field") if random.below(4) > 0 => elements(random),
        (_, "cursor") if random.below(4) > 0 => b"0".to_vec(),
        // Redis replies as many as it is asked for, even from a set of one.
        ("srandmember" | "hrandfield" | "zrandmember", "count") => small(random),
        (_, "count") if random.below(2) == 0 => b"1000".to_vec(),
        (_, "increment") if argument.kind == Kind::Integer => integer(random),
        (_, "increment") => number(random),
        (_, "offset") if random.below(2) == 0 => pick(random, HUGE_OFFSETS),
        (_, "offset") => random.below(300).to_string().into_bytes(),
        (_, "type") => pick(random, TYPES),
        (_, "serialized-value") => payload(random, payloads),
        _ => return None,
    };
    Some(value)
}

pub(super) fn pick(random: &mut Random, list: &[&[u8]]) -> Vec<u8> {
    list[random.below(list.len() as u64) as usize].to_vec()
}

fn setting(random: &mut Random) -> (&'static str, &'static [&'static [u8]]) {
    SETTINGS[random.below(SETTINGS.len() as u64) as usize]
}

/// Any key, whatever it mostly holds.
pub(super) fn key(random: &mut Random) -> Vec<u8> {
    pick(random, &all_keys())
}

/// Every key that is drawn as one.
pub(super) fn all_keys() -> Vec<&'static [u8]> {
    let pools = families::POOLS.iter().map(|(_, keys)| *keys);
    pools.chain([KEYS]).flatten().copied().collect()
}

/// One of few, so that what is looked for is often there.
pub(super) fn elements(random: &mut Random) -> Vec<u8> {
    pick(random, ELEMENTS)
}

/// A boundary number, or what is none.
pub(super) fn odd_integer(random: &mut Random) -> Vec<u8> {
    if random.below(3) == 0 { pick(random, NO_INTEGERS) } else { pick(random, INTEGERS) }
}

fn integer(random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0 => pick(random, NO_INTEGERS),
        1..=4 => pick(random, INTEGERS),
        _ => small(random),
    }
}

pub(super) fn small(random: &mut Random) -> Vec<u8> {
    (random.below(64) as i64 - 16).to_string().into_bytes()
}

pub(super) fn number(random: &mut Random) -> Vec<u8> {
    if random.below(3) == 0 { integer(random) } else { pick(random, FLOATS) }
}

fn text(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0..=4 => small(random),
        5..=7 => pick(random, INTEGERS),
        8 => pick(random, FLOATS),
        9 => {
            let byte = b'a' + random.below(3) as u8;
            vec![byte; random.below(600) as usize]
        }
        // One in a few hundred is long.
        10 if random.below(16) == 0 => vec![b'L'; (2_000 + random.below(70_000)) as usize],
        10 => (0..random.below(70)).map(|_| random.below(256) as u8).collect(),
        _ => pick(random, TEXTS),
    }
}

/// A time in seconds, relative or absolute.
fn seconds(random: &mut Random) -> Vec<u8> {
    time(random, 1)
}

fn milliseconds(random: &mut Random) -> Vec<u8> {
    time(random, 1000)
}

/// Past, absurd, or between the years 2033 and 2096 as a point in time.
fn time(random: &mut Random, unit: u64) -> Vec<u8> {
    match random.below(12) {
        0 => pick(random, &[b"0", b"-1", b"-100", b"-9223372036854775808"]),
        1 => {
            let absurd: &[&[u8]] = &[
                b"9223372036854775807",
                b"9223372036854775",
                b"9223372036854776",
                b"18446744073709551616",
                b"-9223372036854775809",
            ];
            pick(random, absurd)
        }
        2 => pick(random, NO_INTEGERS),
        _ => far(random, unit),
    }
}

fn far(random: &mut Random, unit: u64) -> Vec<u8> {
    let seconds = 2_000_000_000 + random.below(2_000_000_000);
    (seconds * unit + random.below(unit)).to_string().into_bytes()
}

fn database(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => pick(random, &[b"15", b"16", b"-1", b"2147483647", b"4294967296"]),
        1 => pick(random, NO_INTEGERS),
        2..=7 => b"0".to_vec(),
        _ => b"1".to_vec(),
    }
}

/// A payload of DUMP, sometimes with one byte changed or cut short.
fn payload(random: &mut Random, payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut payload = payloads[random.below(payloads.len() as u64) as usize].clone();
    let at = random.below(payload.len() as u64) as usize;
    match random.below(8) {
        0 => payload[at] ^= 1 << random.below(8),
        1 => payload.truncate(at),
        _ => {}
    }
    payload
}
