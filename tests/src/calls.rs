//! Notes what the harness sends to Apus, for the compatibility page: commands, the words among
//! their arguments that may be options, and the protocol they were sent in.
//!
//! A note is a line `PROTOCOL COMMAND SECOND WORD` in the environment's `calls`, one file for each
//! process. SECOND is the first argument, which may be a subcommand; `-` stands for none. What is
//! sent in memcached's protocols is noted likewise.
//!
//! Invariants: nothing that goes to an oracle is noted; a note is written once for each process,
//! so the cost of a repeated command is its parsing and one hash.

mod memcached;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::Write;
use std::sync::{LazyLock, Mutex};

use proto::value::Value;
use proto::{Args, Limits, Progress, RequestParser};

use crate::environment;

/// The folder of the notes within the environment.
pub const FOLDER: &str = "calls";

/// The ports on which Apus listens, or did before somebody else took them.
static PORTS: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

static NOTES: LazyLock<Mutex<Notes>> = LazyLock::new(|| Mutex::new(Notes::open()));

thread_local! {
    /// The hashes of the requests that this thread has noted.
    static NOTED: RefCell<HashSet<u64>> = RefCell::default();
}

/// From now on Apus listens on the port.
pub(crate) fn apus_listens(port: u16) {
    PORTS.lock().expect("no holder panics").insert(port);
}

/// From now on another server listens on the port.
pub(crate) fn oracle_listens(port: u16) {
    PORTS.lock().expect("no holder panics").remove(&port);
}

/// Notes what is sent to Apus in memcached's protocols.
pub fn sent_to_memcached(bytes: &[u8]) {
    let mut notes = NOTES.lock().expect("no holder panics");
    memcached::notes(bytes).into_iter().for_each(|note| notes.add(note));
}

/// What is known of a connection.
pub(crate) struct Recorder {
    is_apus: bool,
    resp3: bool,
}

impl Recorder {
    /// A connection to a port.
    pub(crate) fn of_port(port: u16) -> Self {
        let is_apus = PORTS.lock().expect("no holder panics").contains(&port);
        Self { is_apus, resp3: false }
    }

    /// A connection to Apus.
    pub(crate) fn of_apus() -> Self {
        Self { is_apus: true, resp3: false }
    }

    /// Notes the whole requests that these bytes begin with.
    pub(crate) fn sent(&self, mut bytes: &[u8]) {
        let mut parser = RequestParser::new();
        // Inline requests look like any part of an argument that a test sends in pieces.
        while self.is_apus && bytes.first() == Some(&b'*') {
            let Ok(progress) = parser.advance(bytes, &Limits::default()) else { return };
            let consumed = match progress {
                Progress::Incomplete { .. } => return,
                Progress::Empty { consumed } => consumed,
                Progress::Complete { consumed } => {
                    note(self.resp3, parser.args(bytes));
                    consumed
                }
            };
            parser.reset();
            bytes = &bytes[consumed..];
        }
    }

    /// Learns the protocol from the replies to HELLO and RESET.
    pub(crate) fn received(&mut self, reply: &Value) {
        let is_server = |name: Option<&Value>| {
            name.and_then(Value::as_bytes).is_some_and(|name| name == b"server")
        };
        match reply {
            Value::Map(pairs) if is_server(pairs.first().map(|(name, _)| name)) => {
                self.resp3 = true;
            }
            Value::Array(items) if is_server(items.first()) => self.resp3 = false,
            Value::Simple(text) if text == b"RESET" => self.resp3 = false,
            _ => {}
        }
    }
}

fn note(resp3: bool, args: Args<'_>) {
    let words = || args.iter().enumerate().filter(|(_, word)| is_word(word));
    let mut hasher = DefaultHasher::new();
    hasher.write_u8(u8::from(resp3));
    for (index, word) in words() {
        // The first argument may be a subcommand; the order of the others tells nothing.
        hasher.write_u8(u8::from(index == 1));
        hasher.write(word);
    }
    let is_new = NOTED.with_borrow_mut(|noted| noted.insert(hasher.finish()));
    if !is_new || !is_word(&args[0]) {
        return;
    }
    let upper = |word: &[u8]| String::from_utf8_lossy(word).to_ascii_uppercase();
    let second = args.get(1).filter(|word| is_word(word)).map_or("-".to_owned(), upper);
    let call = format!("{} {} {second}", if resp3 { 3 } else { 2 }, upper(&args[0]));
    let mut notes = NOTES.lock().expect("no holder panics");
    notes.add(format!("{call} -"));
    words().skip(1).for_each(|(_, word)| notes.add(format!("{call} {}", upper(word))));
}

/// Whether a word may be a command or an option: letters, and at most one digit, as in DIFF1.
/// Without this the numbers and the keys of a test would fill the notes.
fn is_word(bytes: &[u8]) -> bool {
    let (mut has_letter, mut digits) = (false, 0);
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => has_letter = true,
            b'0'..=b'9' => digits += 1,
            b'-' | b'_' | b'.' => {}
            _ => return matches!(bytes, b"*" | b"$" | b"~" | b"=" | b"#"),
        }
        if digits > 1 {
            return false;
        }
    }
    has_letter && bytes.len() <= LONGEST
}

/// No command or option is longer.
const LONGEST: usize = 32;

/// The notes of this process.
struct Notes {
    known: HashSet<String>,
    file: File,
}

impl Notes {
    fn open() -> Self {
        let folder = environment::folder().join(FOLDER);
        let path = folder.join(std::process::id().to_string());
        let file = std::fs::create_dir_all(&folder)
            .and_then(|()| File::options().append(true).create(true).open(&path));
        let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { known: HashSet::new(), file }
    }

    fn add(&mut self, line: String) {
        if !self.known.contains(&line) {
            writeln!(self.file, "{line}").expect("the environment can be written to");
            self.known.insert(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::value::Value;

    use super::{Recorder, is_word};

    #[test]
    fn words_are_few() {
        assert!([&b"GET"[..], b"withscores", b"DIFF1", b"NO-EVICT", b"~"].into_iter().all(is_word));
        assert!(![&b""[..], b"12", b"k12", b"key:1", b"a b", b"\xff"].into_iter().any(is_word));
    }

    #[test]
    fn the_protocol_is_what_the_server_says() {
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let mut recorder = Recorder::of_apus();
        recorder.received(&Value::Map(vec![(bulk("server"), bulk("redis"))]));
        assert!(recorder.resp3);
        recorder.received(&Value::Simple(b"RESET".to_vec()));
        assert!(!recorder.resp3);
    }
}
