//! Transactions of two connections, made of the requests of a generator: MULTI and what is queued,
//! WATCH and what the other changes meanwhile, and each of the commands where it does not belong.
//! Invariants: what a request needs to follow at once comes from the same connection; no stream is
//! watched whose groups change, since real servers do not count that as a change.

use proto::value::Value;

use super::families::{AHEAD, POOLS};
use super::{Drawn, Generator, values};
use crate::differential::{Command, Speaker, Step};

/// Commands that change what is beside the entries of a stream.
const BESIDE_ENTRIES: [&str; 7] =
    ["xack", "xackdel", "xautoclaim", "xclaim", "xgroup", "xreadgroup", "xsetid"];
/// A stream that is never watched.
const UNWATCHED: &[u8] = b"x:1";

/// Draws requests of two connections.
pub struct Transactions<'a> {
    generator: Generator<'a>,
    speaker: Speaker,
    /// Whether MULTI and WATCH come within transactions, too.
    nests: bool,
    /// Whether each of the connections was sent MULTI last, not EXEC.
    is_queueing: [bool; 2],
}

impl<'a> Transactions<'a> {
    /// Transactions of what the generator draws; MULTI and WATCH come within them, too, if told.
    pub fn new(generator: Generator<'a>, nests: bool) -> Self {
        Self { generator, speaker: Speaker::First, nests, is_queueing: [false; 2] }
    }

    /// From now on nothing is queued or watched.
    pub fn begin(&mut self) {
        self.is_queueing = [false; 2];
    }

    /// The next request.
    pub fn draw(&mut self) -> Drawn {
        let mut drawn = if self.generator.is_followed() {
            self.generator.draw()
        } else {
            let changes = self.below(4) == 0;
            self.speaker = match self.speaker {
                Speaker::First if changes => Speaker::Second,
                Speaker::Second if changes => Speaker::First,
                same => same,
            };
            self.draw_own()
        };
        settle_streams(&drawn.name, &mut drawn.step.command);
        drawn.step.speaker = self.speaker;
        drawn
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.generator.random.below(bound)
    }

    /// A request of the speaker, by what came before.
    fn draw_own(&mut self) -> Drawn {
        let is_queueing = self.is_queueing[self.speaker as usize];
        let dice = self.below(100);
        let command: &[&[u8]] = match (is_queueing, dice) {
            (true, 0..12) | (false, 0) => &[b"EXEC"],
            (true, 12..15) | (false, 1) => &[b"DISCARD"],
            (false, 2..22) => &[b"MULTI"],
            (false, 22..34) => return self.watch(),
            (true, 15) | (false, 34..36) => &[b"UNWATCH"],
            (true, 16) if self.nests => &[b"MULTI"],
            (true, 17) if self.nests => return self.watch(),
            (_, 99) => {
                let odd: [&[&[u8]]; 5] = [
                    &[b"EXEC", b"x"],
                    &[b"DISCARD", b"x"],
                    &[b"MULTI", b"x"],
                    &[b"UNWATCH", b"x"],
                    &[b"WATCH"],
                ];
                return Drawn::plain(odd[self.below(odd.len() as u64) as usize]);
            }
            _ => return self.generator.draw(),
        };
        match command[0] {
            b"MULTI" => self.is_queueing[self.speaker as usize] = true,
            b"EXEC" | b"DISCARD" => self.is_queueing[self.speaker as usize] = false,
            _ => {}
        }
        Drawn::plain(command)
    }

    /// Of a few keys, so that many a transaction goes through.
    fn watch(&mut self) -> Drawn {
        let mut keys = Vec::new();
        for _ in 0..1 + self.below(3) {
            keys.push(values::key(&mut self.generator.random));
        }
        keys.iter_mut().filter(|key| is_stream(key)).for_each(|key| *key = b"a".to_vec());
        let words = [&b"WATCH"[..]].into_iter().chain(keys.iter().map(Vec::as_slice));
        Drawn::plain(&words.collect::<Vec<_>>())
    }
}

/// Whether a key is of those that streams mostly have.
fn is_stream(key: &[u8]) -> bool {
    let pool = POOLS.iter().find(|(group, _)| *group == "stream");
    key == AHEAD || pool.is_some_and(|(_, keys)| keys.contains(&key))
}

/// Has a request that changes the groups of a stream do so to one that nobody watches.
fn settle_streams(name: &str, command: &mut Command) {
    let container = name.split('|').next().unwrap_or_default();
    if BESIDE_ENTRIES.contains(&container) {
        let all = values::all_keys();
        let watched = |word: &Vec<u8>| all.contains(&word.as_slice()) && !is_stream(word);
        let words = command.iter_mut().skip(1).filter(|word| watched(word));
        words.for_each(|word| *word = UNWATCHED.to_vec());
    }
}

/// What became of a request that begins, ends or guards a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// MULTI began one.
    Begun,
    /// MULTI within one.
    Nested,
    /// EXEC ran it.
    Executed,
    /// EXEC ran it, and some of its commands failed.
    PartlyFailed,
    /// EXEC found a watched key changed.
    Changed,
    /// EXEC refused it, since a command was refused before.
    Refused,
    /// EXEC or DISCARD without MULTI.
    WithoutMulti,
    /// DISCARD gave it up.
    Discarded,
    /// WATCH was taken.
    Watched,
    /// WATCH within a transaction.
    WatchedWithin,
    /// UNWATCH, at once or queued.
    Unwatched,
    /// A wrong number of arguments.
    Odd,
}

impl Outcome {
    /// What every long enough run has.
    pub const USUAL: [Self; 10] = [
        Self::Begun,
        Self::Executed,
        Self::PartlyFailed,
        Self::Changed,
        Self::Refused,
        Self::WithoutMulti,
        Self::Discarded,
        Self::Watched,
        Self::Unwatched,
        Self::Odd,
    ];
    /// The outcomes of MULTI and WATCH within transactions.
    pub const NESTED: [Self; 2] = [Self::Nested, Self::WatchedWithin];

    /// What a reply tells, if the request is one of these.
    pub fn of(step: &Step, reply: &Value) -> Option<Self> {
        let name = step.command[0].to_ascii_uppercase();
        let own: [&[u8]; 5] = [b"MULTI", b"EXEC", b"DISCARD", b"WATCH", b"UNWATCH"];
        if !own.contains(&name.as_slice()) {
            return None;
        }
        let outcome = match (name.as_slice(), reply) {
            (_, Value::Error(line)) => Self::of_error(&name, line),
            (b"EXEC", Value::Array(replies)) => {
                let has_failed = replies.iter().any(|reply| matches!(reply, Value::Error(_)));
                if has_failed { Self::PartlyFailed } else { Self::Executed }
            }
            (b"EXEC", _) => Self::Changed,
            (b"MULTI", _) => Self::Begun,
            (b"DISCARD", _) => Self::Discarded,
            (b"WATCH", _) => Self::Watched,
            _ => Self::Unwatched,
        };
        Some(outcome)
    }

    fn of_error(name: &[u8], line: &[u8]) -> Self {
        let ends = |text: &str| line.ends_with(text.as_bytes());
        match name {
            b"EXEC" if line.starts_with(b"EXECABORT") => Self::Refused,
            b"MULTI" if ends("nested") => Self::Nested,
            b"WATCH" if ends("not allowed") => Self::WatchedWithin,
            _ if ends("without MULTI") => Self::WithoutMulti,
            _ => Self::Odd,
        }
    }
}
