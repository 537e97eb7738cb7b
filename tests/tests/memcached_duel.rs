//! Random requests get the same answers from Apus and from memcached 1.6.18, in all three
//! protocols. What differs by nature is compared by what it means: a CAS value by whether it is the
//! one that was seen last, a time to live by about how long it is.
//!
//! Not asked, because ours differs on purpose: flags and lengths beyond their bits, which it cuts
//! off; deadlines after 2038, which it takes for past ones; values of nearly the greatest size, of
//! which its own header takes a part; `ma` with T, which it forgets where the number gets longer;
//! `ms` with N, and the flags E and x, which came after 1.6.18; meta flags in an order in which its
//! answer shows a time to live from before the request. And not compared: what it does to numbers
//! beyond 63 bits, which it refuses where a minus happens to lie behind them in its memory.
//!
//! `APUS_MEMCACHED_REQUESTS=1000000` asks so many of each protocol, of a fresh seed.

use std::collections::{BTreeMap, HashMap};

use base::random::Random;
use tests::Server;
use tests::memcached::{Connection, Memcached, Packet};
use tests::server::free_port;

/// How many requests of each protocol a usual run asks, of one seed.
const REQUESTS: usize = 20_000;
/// Requests before other keys are taken.
const EPISODE: usize = 200;
/// How many differences are told before a run gives up.
const TOLD: usize = 12;

#[test]
fn random_text_requests_are_answered_as_by_memcached() {
    duel(text_request);
}

#[test]
fn random_meta_requests_are_answered_as_by_memcached() {
    duel(meta_request);
}

#[test]
fn random_binary_requests_are_answered_as_by_memcached() {
    duel(binary_request);
}

/// What is asked of both sides.
#[derive(Clone, Debug)]
enum Request {
    /// A line, where `{}` stands for the CAS value of the key, and the key.
    Line(Vec<u8>, String),
    /// A packet, and whether its CAS value is that of its key.
    Packet(Packet, bool),
}

fn duel(draw: fn(&mut Draw) -> Request) {
    let port = free_port();
    let ours = Server::start(&["--memcached-port", &port.to_string()]);
    let theirs = Memcached::start(&["-m", "256"]);
    let wanted = std::env::var("APUS_MEMCACHED_REQUESTS").ok();
    let (requests, seed) = match wanted.and_then(|count| count.parse().ok()) {
        Some(count) => (count, Random::from_entropy().next_u64()),
        None => (REQUESTS, 1),
    };
    println!("{requests} requests of seed {seed}");
    let mut draw_state = Draw { random: Random::from_seed(seed), episode: 0 };
    // The CAS value 1, which requests guess at, belongs to nobody from here on.
    for port in [port, theirs.port()] {
        assert_eq!(Connection::to(port).line("set first 0 0 0\r\n\r\n"), "STORED\r\n");
    }
    let mut sides = [Side::new(port), Side::new(theirs.port())];
    let mut before: Vec<String> = Vec::new();
    let mut told: Vec<String> = Vec::new();
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for number in 0..requests {
        if number % EPISODE == 0 {
            draw_state.episode += 1;
            before.clear();
        }
        let request = draw(&mut draw_state);
        let [mine, real] = [0, 1].map(|side| sides[side].ask(&request));
        before.push(format!("{} => {real}", shown(&request)));
        *outcomes.entry(kind_of(&real)).or_default() += 1;
        if mine != real {
            let key = key_of(&request);
            let history: Vec<&String> = before.iter().filter(|line| line.contains(&key)).collect();
            let recent = &history[history.len().saturating_sub(8)..];
            let asked = before.last();
            if !has_looked_too_far(&real, &history) {
                told.push(format!("{recent:#?}\nto {asked:?}\nours says {mine}"));
            }
            draw_state.episode += 1;
            before.clear();
            sides = [Side::new(port), Side::new(theirs.port())];
        }
        assert!(told.len() < TOLD, "seed {seed}, after {number}:\n{}", told.join("\n\n"));
    }
    println!("{outcomes:?}");
    assert!(told.is_empty(), "seed {seed}:\n{}", told.join("\n\n"));
    assert!(outcomes.len() > 5, "the requests bring about too little: {outcomes:?}");
    drop(ours);
}

/// Whether memcached may have refused a number for what lies behind it: only where it has 64 bits.
fn has_looked_too_far(answer: &str, history: &[&String]) -> bool {
    // In digits, as it is stored, and as the binary protocol tells it.
    let is_long =
        |line: &str| line.contains("184467440737095516") || line.contains(&r"\\xff".repeat(7));
    let is_refusal = answer.contains("non-numeric value") || answer.contains("Non-numeric");
    is_refusal && history.iter().any(|line| is_long(line))
}

#[test]
fn a_number_that_memcached_may_have_looked_beyond_is_known_in_both_forms() {
    let refusal = "6 0x05 [\"\", \"\", \"Non-numeric server-side value for incr or decr\"] cas 0";
    let told = |byte: u8| format!("0 0x06 {:?} cas new", [text(&[byte; 8])]);
    for (line, is_long) in [
        (told(0xff), true),
        (told(0x01), false),
        ("set n1 0 0 20 18446744073709551615".to_owned(), true),
        ("set n1 0 0 20 18446744073709".to_owned(), false),
    ] {
        assert_eq!(has_looked_too_far(refusal, &[&line]), is_long, "{line}");
        assert!(!has_looked_too_far("0 0x05", &[&line]), "only where it refuses");
    }
}

/// The first word of an answer, or its status.
fn kind_of(answer: &str) -> String {
    answer.split(' ').next().unwrap_or_default().to_owned()
}

fn key_of(request: &Request) -> String {
    match request {
        Request::Line(_, key) => key.clone(),
        Request::Packet(packet, _) => text(&packet.parts[1]),
    }
}

fn shown(request: &Request) -> String {
    match request {
        Request::Line(line, _) => text(line),
        Request::Packet(packet, with_cas) => {
            let parts = packet.parts.each_ref().map(|part| text(part));
            format!("{:#04x} {parts:?} cas {} {with_cas}", packet.opcode, packet.cas)
        }
    }
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// One of the two servers.
struct Side {
    port: u16,
    connection: Connection,
    /// The CAS value of each key that was seen last.
    seen: HashMap<String, u64>,
}

impl Side {
    fn new(port: u16) -> Self {
        Self { port, connection: Connection::to(port), seen: HashMap::new() }
    }

    /// What the server answers, and whether it closes the connection upon it.
    fn ask(&mut self, request: &Request) -> String {
        let answer = self.answer(request);
        if !self.connection.is_closed() {
            return answer;
        }
        self.connection = Connection::to(self.port);
        answer + " and closes"
    }

    fn answer(&mut self, request: &Request) -> String {
        match request {
            Request::Line(line, key) => {
                let cas = self.seen.get(key).copied().unwrap_or(1).to_string();
                let line = replaced(line, b"{}", cas.as_bytes());
                let answer = self.connection.text(&line);
                self.meaning(&answer, key)
            }
            Request::Packet(packet, with_cas) => {
                let key = text(&packet.parts[1]);
                let mut packet = packet.clone();
                if *with_cas {
                    packet.cas = self.seen.get(&key).copied().unwrap_or(1);
                }
                let answers = self.connection.packets(&packet.request());
                let answers = answers.iter().map(|answer| {
                    let cas = if answer.cas == 0 { "0" } else { self.mark(&key, answer.cas) };
                    let mut parts = answer.parts.clone();
                    trim_number(&mut parts[2]);
                    let parts = parts.each_ref().map(|part| text(part));
                    format!("{} {:#04x} {parts:?} cas {cas}", answer.status, answer.opcode)
                });
                answers.collect::<Vec<_>>().join("; ")
            }
        }
    }

    /// An answer without what differs by nature.
    fn meaning(&mut self, answer: &[u8], key: &str) -> String {
        let mut told = Vec::new();
        let mut rest = answer;
        while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
            let (line, behind) = (&rest[..end], &rest[end + 2..]);
            rest = behind;
            let mut words: Vec<String> = line.split(|byte| *byte == b' ').map(text).collect();
            let length_at = match words[0].as_str() {
                "VALUE" => Some(3),
                "VA" => Some(1),
                _ => None,
            };
            let mut value = Vec::new();
            if let Some(at) = length_at {
                let length: usize = words[at].parse().expect("a length");
                value = rest[..length].to_vec();
                rest = &rest[length + 2..];
                trim_number(&mut value);
                words[at] = value.len().to_string();
            }
            match words[0].as_str() {
                "VALUE" if words.len() == 5 => {
                    let cas = words[4].parse().expect("a CAS value");
                    let owner = words[1].clone();
                    words[4] = self.mark(&owner, cas).to_owned();
                }
                "HD" | "VA" => {
                    let first = if words[0] == "VA" { 2 } else { 1 };
                    for word in &mut words[first..] {
                        *word = self.flag(word, key);
                    }
                    // A number that becomes longer makes a new item, but in memcached not where
                    // it was as long before.
                    words.retain(|word| {
                        !key.starts_with('n') || !matches!(&word[..1], "h" | "W" | "X" | "Z")
                    });
                }
                "ME" => words.truncate(2),
                _ => {}
            }
            told.push(format!("{} {}", words.join(" "), text(&value)));
        }
        format!("{}{}", told.join("; "), text(rest))
    }

    /// A flag of a meta answer.
    fn flag(&mut self, word: &str, key: &str) -> String {
        let (letter, token) = word.split_at(1);
        match (letter, token.parse::<i64>()) {
            ("c", Ok(cas)) => format!("c{}", self.mark(key, cas as u64)),
            // Below nothing it counts on from the other end.
            ("t", Ok(0 | 0x8000_0000..)) => "tpast".to_owned(),
            ("t", Ok(seconds)) if seconds > 0 => format!("t{}", (seconds + 500) / 1000),
            ("l", Ok(_)) => "l".to_owned(),
            // Memcached leaves blanks behind a number that has become shorter.
            ("s", Ok(_)) if key.starts_with('n') => "s".to_owned(),
            _ => word.to_owned(),
        }
    }

    /// Whether a CAS value is the one that was seen last.
    fn mark(&mut self, key: &str, cas: u64) -> &'static str {
        if self.seen.insert(key.to_owned(), cas) == Some(cas) { "same" } else { "new" }
    }
}

/// Takes away the blanks that memcached leaves behind a number that has become shorter.
fn trim_number(value: &mut Vec<u8>) {
    let digits = value.trim_ascii_end();
    if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) {
        value.truncate(digits.len());
    }
}

fn replaced(bytes: &[u8], what: &[u8], with: &[u8]) -> Vec<u8> {
    match bytes.windows(what.len()).position(|window| window == what) {
        Some(at) => [&bytes[..at], with, &bytes[at + what.len()..]].concat(),
        None => bytes.to_vec(),
    }
}

/// Where requests are drawn from.
struct Draw {
    random: Random,
    episode: usize,
}

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.random.below(end as u64) as usize
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// A key for text.
    fn key(&mut self) -> String {
        let which = self.below(4);
        match self.below(60) {
            0 => format!("{}{}", "k".repeat(251), self.episode),
            _ => format!("k{}-{which}", self.episode),
        }
    }

    /// A key for numbers: nothing is appended there.
    fn number_key(&mut self) -> String {
        let which = self.below(3);
        format!("n{}-{which}", self.episode)
    }

    fn any_key(&mut self) -> String {
        if self.one_in(3) { self.number_key() } else { self.key() }
    }

    fn value(&mut self, key: &str) -> Vec<u8> {
        if key.starts_with('n') {
            let numbers = ["0", "1", "9", "10", "99", "100", "18446744073709551615", "007"];
            return self.of(&numbers).as_bytes().to_vec();
        }
        let length = self.of(&[0, 1, 2, 5, 30, 300, 5000]);
        let mut value: Vec<u8> = (0..length).map(|_| self.of(b"abc \r\nEND\0\xff")).collect();
        // Behind a value of blanks memcached reads on, into what lay there before.
        if let Some(first) = value.first_mut() {
            *first = b'a';
        }
        value
    }

    fn expiry(&mut self) -> &'static str {
        match self.below(30) {
            0 => "-1",
            1 => "x",
            2 => "99999999999999999999",
            3..8 => "100000",
            8 => "2000000000",
            9 => "+500000",
            _ => "0",
        }
    }

    fn number(&mut self) -> &'static str {
        let numbers = ["1", "5", "10", "0", "18446744073709551615", "x", "-1", "+3", "007"];
        self.of(&numbers)
    }

    /// Some of these words, in any order.
    fn some(&mut self, words: &[&str]) -> String {
        let mut flags = String::new();
        for _ in 0..self.below(5) {
            let flag = self.of(words);
            // Seldom one that is there already.
            if self.one_in(20) || !flags.contains(&flag[..1]) {
                flags += " ";
                flags += flag;
            }
        }
        flags
    }
}

/// Lines that are wrong, or of which there is one kind only.
const ODD_LINES: &[&str] = &[
    "",
    " ",
    "get",
    "get ",
    "gets",
    "GET k",
    "gat",
    "gat 0",
    "gat x k",
    "set",
    "set k",
    "set k 0 0",
    "set k 0 0 -1",
    "set k 0 0 x",
    "set k x 0 0",
    "set k -1 0 0",
    "cas k 0 0 0",
    "cas k 0 0 0 x",
    "delete",
    "delete k 5",
    "delete k 0 0",
    "delete k 0 noreply",
    "delete k noreply x",
    "incr",
    "incr k",
    "incr k x",
    "incr k -1",
    "touch",
    "touch k",
    "touch k x",
    "touch k 0 0 0",
    "flush_all x",
    "verbosity",
    "verbosity 1",
    "verbosity 1 noreply",
    "version",
    "versions",
    "cache_memlimit",
    "lru",
    "slabs",
    "mg",
    "ms",
    "ms k",
    "ms k x",
    "ms k -1",
    "md",
    "ma",
    "me",
    "me nothing",
    "mx k",
];

fn text_request(draw: &mut Draw) -> Request {
    let key = draw.any_key();
    let other = draw.any_key();
    let expiry = draw.expiry();
    let quiet = if draw.one_in(8) { " noreply" } else { "" };
    let line = match draw.below(20) {
        0 | 1 => format!("get {key}"),
        2 => format!("gets {key} {other}"),
        3 => format!("get  {other} {key} {key} "),
        4 => format!("{} {expiry} {key}", draw.of(&["gat", "gats"])),
        5..10 => return text_store(draw, &key, expiry, quiet),
        10 => format!("delete {key}{quiet}"),
        11 => format!("touch {key} {expiry}{quiet}"),
        12..15 => {
            let key = draw.number_key();
            let name = draw.of(&["incr", "decr"]);
            let line = format!("{name} {key} {}{quiet}\r\n", draw.number());
            return Request::Line(line.into_bytes(), key);
        }
        15 => format!("incr {key} 1"),
        16 => format!("gets {key}"),
        17 => format!("me {key}"),
        _ => draw.of(ODD_LINES).to_owned(),
    };
    let end = if draw.one_in(10) { "\n" } else { "\r\n" };
    Request::Line((line + end).into_bytes(), key)
}

fn text_store(draw: &mut Draw, key: &str, expiry: &str, quiet: &str) -> Request {
    let value = draw.value(key);
    let flags = draw.of(&["0", "1", "4294967295"]);
    let names: &[&str] = match key.starts_with('n') {
        true => &["set", "add", "replace", "cas"],
        false => &["set", "add", "replace", "append", "prepend", "cas"],
    };
    let name = draw.of(names);
    // Now and then a value that is longer than it says.
    let length = if draw.one_in(50) { value.len() / 2 } else { value.len() };
    let cas = match name {
        "cas" => draw.of(&[" {}", " {}", " {}", " 1", " x"]),
        _ => "",
    };
    let line = format!("{name} {key} {flags} {expiry} {length}{cas}{quiet}\r\n");
    Request::Line([line.as_bytes(), &value, b"\r\n"].concat(), key.to_owned())
}

fn meta_request(draw: &mut Draw) -> Request {
    let key = draw.any_key();
    let line = match draw.below(16) {
        0..5 => {
            let changes = draw.some(&["N100000", "N-1", "T100000", "T0", "T-1", "Tx"]);
            let recache = if draw.one_in(3) { draw.of(&[" R200000", " R30"]) } else { "" };
            let shown = draw.some(&["v", "f", "c", "t", "s", "k", "h", "l", "q", "Oabc", "v", "z"]);
            format!("mg {key}{changes}{recache}{shown}")
        }
        5..9 => {
            let modes = if key.starts_with('n') { "MS ME MR" } else { "MS ME MR MA MP Ma M" };
            let mut flags: Vec<&str> = modes.split(' ').collect();
            flags.extend([
                "c", "k", "q", "Oabc", "F5", "F0", "T100000", "T-1", "C{}", "C1", "I", "Fx", "z",
            ]);
            let value = draw.value(&key);
            let line = format!("ms {key} {}{}\r\n", value.len(), draw.some(&flags));
            return Request::Line([line.as_bytes(), &value, b"\r\n"].concat(), key);
        }
        9 | 10 => {
            let flags = ["q", "k", "Oabc", "C{}", "C1", "I", "T100000", "T-1", "z"];
            format!("md {key}{}", draw.some(&flags))
        }
        11..14 => {
            let key = draw.number_key();
            let changes = [
                "MI", "MD", "M+", "Mdecr", "Mx", "N0", "N100000", "N-1", "J10", "D5", "Dx", "C{}",
                "C1",
            ];
            let (changes, shown) =
                (draw.some(&changes), draw.some(&["q", "k", "Oabc", "t", "c", "v", "v", "z"]));
            let line = format!("ma {key}{changes}{shown}\r\n");
            return Request::Line(line.into_bytes(), key);
        }
        14 => format!("me {key}"),
        _ => format!("gets {key}"),
    };
    Request::Line((line + "\r\n").into_bytes(), key)
}

fn binary_request(draw: &mut Draw) -> Request {
    let key = draw.any_key();
    let quiet = draw.one_in(3);
    let choose = |loud: u8, silent: u8| if quiet { silent } else { loud };
    let expiry = draw.of(&[0_u32, 0, 0, 100_000, 2_000_000_000, 1]).to_be_bytes();
    let with_cas = draw.one_in(5);
    let packet = match draw.below(18) {
        0..3 => Packet::new(choose(0x00, 0x09), b"", key.as_bytes(), b""),
        3 => Packet::new(choose(0x0c, 0x0d), b"", key.as_bytes(), b""),
        4 => {
            let expiry = 100_000_u32.to_be_bytes();
            let opcode = draw.of(&[0x1c, 0x1d, 0x1e, 0x23, 0x24]);
            Packet::new(opcode, &expiry, key.as_bytes(), b"")
        }
        5..10 => {
            let opcode = draw.of(&[choose(0x01, 0x11), choose(0x02, 0x12), choose(0x03, 0x13)]);
            let expiry = if expiry == 1_u32.to_be_bytes() { [0; 4] } else { expiry };
            let extras = [&draw.of(&[0_u32, 5, u32::MAX]).to_be_bytes()[..], &expiry].concat();
            let value = draw.value(&key);
            Packet::new(opcode, &extras, key.as_bytes(), &value)
        }
        10 => {
            let key = draw.key();
            let value = draw.value(&key);
            let opcode = draw.of(&[choose(0x0e, 0x19), choose(0x0f, 0x1a)]);
            Packet::new(opcode, b"", key.as_bytes(), &value)
        }
        11 => Packet::new(choose(0x04, 0x14), b"", key.as_bytes(), b""),
        12..15 => {
            let numbers = [0_u64, 1, 10, u64::MAX];
            let (delta, initial) = (draw.of(&numbers), draw.of(&numbers));
            let key = if draw.one_in(4) { draw.key() } else { draw.number_key() };
            let is_text = key.starts_with('k');
            let expiry = if is_text || draw.one_in(3) { [0xff; 4] } else { [0; 4] };
            let extras = [&delta.to_be_bytes()[..], &initial.to_be_bytes(), &expiry].concat();
            let opcode = match key.starts_with('n') {
                true => draw.of(&[choose(0x05, 0x15), choose(0x06, 0x16)]),
                false => choose(0x05, 0x15),
            };
            Packet::new(opcode, &extras, key.as_bytes(), b"")
        }
        15 => Packet::new(draw.of(&[0x0a, 0x0b, 0x20]), b"", b"", b""),
        16 => Packet::new(draw.of(&[0x30, 0x3c, 0x25, 0x60, 0xff]), b"", b"", b""),
        _ => Packet::new(draw.of(&[0x00, 0x01, 0x05, 0x1c]), &[0; 3], key.as_bytes(), b""),
    };
    let packet = Packet { opaque: 7_u32.to_be_bytes(), ..packet };
    Request::Packet(packet, with_cas)
}
