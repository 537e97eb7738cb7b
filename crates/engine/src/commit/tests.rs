//! Handlers against the declarations of their keys: whatever a request says, its handler touches no
//! key but those that the table finds in it.
//!
//! Invariant: requests are drawn from the syntax of each command, with words of the syntax among
//! the keys and values, so that a word is taken for another by one of the two if by any.

use base::Random;
use commands::{Flags, Handler, LockPlan};
use keyspace::{Acquisition, Tx, TxOptions};
use proto::{Output, OwnedArgs, Resp};

use super::handler::{self, HandlerCall};
use crate::clients::mailbox::PendingWakes;
use crate::runtime::background::wait_for;
use crate::session::LockSet;
use crate::table::command_table::{CommandEntry, Run};
use crate::testing;
use crate::transaction::engine::Engine;

/// So many requests of each command.
const REQUESTS: usize = 600;

/// Values beside the words of the syntax.
const VALUES: [&str; 12] = ["0", "1", "2", "3", "-1", "a", "b", "c", "d", "1-1", "$", "(1"];

/// What makes a key of each type.
const MAKERS: [&[&str]; 6] = [
    &["SET", "", "1"],
    &["RPUSH", "", "a", "b", "1"],
    &["SADD", "", "a", "b", "1"],
    &["HSET", "", "a", "1", "b", "2"],
    &["ZADD", "", "1", "a", "2", "b"],
    &["XADD", "", "1-1", "a", "b"],
];

#[test]
fn a_handler_touches_the_keys_that_the_table_finds_and_no_others() {
    let engine = testing::engine();
    let mut random = Random::from_seed(0x6b65_7973);
    let entries = engine.table.entries().iter().flat_map(CommandEntry::family);
    let (mut tried, mut ran) = (0, 0);
    for entry in entries {
        let Run::Data(handler) = entry.run else { continue };
        let spec = entry.spec;
        // What has no arguments names no key.
        let has_none = spec.arity.as_integer() == entry.full_name.split('|').count() as i64;
        let has_all = spec.plan != LockPlan::Keys;
        if has_none || has_all || spec.flags.has(Flags::USES_FIELDSET) {
            continue;
        }
        tried += 1;
        let grammar = RequestGrammar::of(entry);
        for round in 0..REQUESTS {
            let request = grammar.draw(&mut random);
            if !spec.arity.admits(request.len()) {
                continue;
            }
            if round % 20 == 0 {
                refill(engine, &request, &mut random);
            }
            let args: OwnedArgs = request.iter().map(String::as_bytes).collect();
            let reply = run_under_its_locks(engine, entry, handler, &args);
            ran += usize::from(reply.first().is_some_and(|first| *first != b'-'));
            let is_lost = reply.starts_with(b"-ERR The command uses a key");
            assert!(!is_lost, "{request:?} touches a key that is not found in it");
        }
    }
    assert!(tried > 150 && ran > tried * 20, "{ran} requests of {tried} commands succeeded");
}

/// Runs a request with the locks of the keys that the table finds, and no others; its reply.
fn run_under_its_locks(
    engine: &'static Engine,
    entry: &'static CommandEntry,
    handler: Handler,
    args: &OwnedArgs,
) -> Vec<u8> {
    let args = args.as_args();
    let mut needs = LockSet::default();
    needs.add(engine, entry, args);
    let mut grant = Acquisition::of_partitions(engine.keyspace, needs.partitions);
    wait_for(&mut grant);
    let internal = TxOptions::internal(0, engine.keyspace.clock().now_ms());
    let undoable = entry.spec.flags.has(Flags::TOUCHES_ARBITRARY_KEYS);
    let mut tx = Tx::begin(grant, TxOptions { heavy: true, touches: true, undoable, ..internal });
    let (mut out, wakes) = (Output::new(), PendingWakes::default());
    let mut call = HandlerCall { handler, args, resp: Resp::Two };
    handler::run(engine, &wakes, &mut tx, args, &mut out, &mut call);
    out.front().to_vec()
}

/// Makes each word of a request a key of some type, as any may be taken for one.
fn refill(engine: &'static Engine, request: &[String], random: &mut Random) {
    for word in request {
        let maker = MAKERS[random.below(MAKERS.len() as u64) as usize];
        let words =
            maker.iter().map(|it| if it.is_empty() { word.as_bytes() } else { it.as_bytes() });
        let remove = [&b"DEL"[..], word.as_bytes()].into_iter().collect();
        testing::run_together(engine, 0, &[remove, words.collect()]);
    }
}

/// The syntax of a command, of which requests are drawn.
struct RequestGrammar {
    names: Vec<String>,
    parts: Vec<Part>,
    /// The words of the syntax, and values.
    pool: Vec<String>,
}

/// A part of the syntax.
enum Part {
    Word(String),
    /// What a client puts in.
    Value(String),
    /// One of these, or nothing.
    Optional(Vec<Vec<Part>>),
    /// One of these.
    OneOf(Vec<Vec<Part>>),
}

impl RequestGrammar {
    fn of(entry: &CommandEntry) -> Self {
        let names = entry.full_name.split('|').map(str::to_owned).collect();
        let spaced = ["[", "]", "<", ">", "|"]
            .iter()
            .fold(entry.spec.syntax.to_owned(), |it, sign| it.replace(sign, &format!(" {sign} ")));
        let mut words = spaced.split_whitespace();
        let parts = alternatives(&mut words).into_iter().next().unwrap_or_default();
        let literal = spaced.split_whitespace().filter(|word| is_literal(word));
        let pool = literal.chain(VALUES).map(str::to_owned).collect();
        Self { names, parts, pool }
    }

    fn draw(&self, random: &mut Random) -> Vec<String> {
        let mut request = self.names.clone();
        self.add(&self.parts, &mut request, random);
        // A word too many, or another.
        if random.below(3) == 0 {
            let at = self.names.len() as u64;
            let at = (at + random.below((request.len() as u64 + 1 - at).max(1))) as usize;
            request.insert(at.min(request.len()), self.any(random));
        }
        request
    }

    fn any(&self, random: &mut Random) -> String {
        self.pool[random.below(self.pool.len() as u64) as usize].clone()
    }

    fn add(&self, parts: &[Part], request: &mut Vec<String>, random: &mut Random) {
        for part in parts {
            match part {
                Part::Word(word) => request.push(word.clone()),
                Part::Value(name) if name.starts_with("num") => {
                    request.push((1 + random.below(3)).to_string());
                }
                Part::Value(_) => request.push(self.any(random)),
                Part::Optional(some) => {
                    if random.below(2) == 0 {
                        self.add(&some[random.below(some.len() as u64) as usize], request, random);
                    }
                }
                Part::OneOf(some) => {
                    self.add(&some[random.below(some.len() as u64) as usize], request, random);
                }
            }
        }
    }
}

/// A word of the syntax that is sent as it is.
fn is_literal(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_uppercase())
}

/// What stands between two brackets, as far as these words go.
fn alternatives<'a>(words: &mut impl Iterator<Item = &'a str>) -> Vec<Vec<Part>> {
    let mut all = vec![Vec::new()];
    while let Some(word) = words.next() {
        let present = all.last_mut().expect("there is one from the start");
        match word {
            "]" | ">" => break,
            "|" => all.push(Vec::new()),
            "[" => present.push(Part::Optional(alternatives(words))),
            "<" => present.push(Part::OneOf(alternatives(words))),
            // What may come again is there in the brackets before.
            "..." => {}
            literal if is_literal(literal) => present.push(Part::Word(literal.to_owned())),
            value => present.push(Part::Value(value.to_owned())),
        }
    }
    all
}
