//! The classic text protocol: lines to requests, responses to lines.
//!
//! Invariant: a line is a request, be it one that is refused; nothing in it ends the stream.

use super::key::{Key, Keys};
use super::line::Words;
use super::numbers::{parse_flags, parse_i32, parse_time, parse_u64};
use super::parser::{DataBlock, ItemLimits, Parsed};
use super::response::{Item, Response, push_failure, push_number};
use super::{
    Administration, Arithmetic, Delete, Expiry, Failure, Form, Operation, Refusal, Request,
    Retrieve, Store, StoreMode, meta,
};
use crate::args::LINE_END;
use crate::output::Output;

/// The word that asks for no answer.
const NO_REPLY: &[u8] = b"noreply";

/// Parses a line, given without its end.
#[inline]
pub(super) fn parse<'a>(line: &'a [u8], limits: &ItemLimits) -> Parsed<'a> {
    let mut words = Words::new(line);
    let name = words.next().unwrap_or_default();
    match name {
        b"get" => retrieval(words, false, None),
        b"gets" => retrieval(words, true, None),
        b"set" => storage(words, StoreMode::Set, false, limits),
        [b'm', letter] => match meta::parse(*letter, words, limits) {
            Some(parsed) => parsed,
            None => alone(Operation::refuse(Failure::Unknown), false),
        },
        _ => parse_rarer(name, words, limits),
    }
}

/// Whether a line is the first one of a request of HTTP, as browsers are made to send them to other
/// servers: what follows may be anything.
#[inline]
pub(super) fn is_http(line: &[u8]) -> bool {
    // No command begins with a capital letter.
    if !line.first().is_some_and(u8::is_ascii_uppercase) {
        return false;
    }
    let words = Words::new(line);
    (2..=3).contains(&words.count()) && words.last().is_some_and(|word| word.starts_with(b"HTTP/"))
}

fn parse_rarer<'a>(name: &[u8], words: Words<'a>, limits: &ItemLimits) -> Parsed<'a> {
    let operation = match name {
        b"add" => return storage(words, StoreMode::Add, false, limits),
        b"replace" => return storage(words, StoreMode::Replace, false, limits),
        b"append" => return storage(words, StoreMode::Append, false, limits),
        b"prepend" => return storage(words, StoreMode::Prepend, false, limits),
        b"cas" => return storage(words, StoreMode::Set, true, limits),
        // What `get` was called while there was another protocol for it.
        b"bget" => return retrieval(words, false, None),
        b"gat" => return retrieval_with_touch(words, false),
        b"gats" => return retrieval_with_touch(words, true),
        b"delete" => deletion(words),
        b"incr" => arithmetic(words, false),
        b"decr" => arithmetic(words, true),
        b"touch" => touch(words),
        b"flush_all" => flush(words),
        b"version" => Ok(Operation::Version),
        b"verbosity" => verbosity(words),
        // The end of the connection is the answer.
        b"quit" => return alone(Operation::Quit, true),
        b"stats" => Ok(Operation::Statistics(words)),
        _ => match administration(name) {
            Some(which) => Ok(Operation::Administer(which, words)),
            None => Err(Failure::Unknown),
        },
    };
    match operation {
        Ok(operation) => alone(operation, is_quiet(name, words)),
        // That there is no such command was found before anybody looked for the word.
        Err(Failure::Unknown) => alone(Operation::refuse(Failure::Unknown), false),
        Err(failure) => alone(Operation::refuse(failure), is_quiet(name, words)),
    }
}

fn administration(name: &[u8]) -> Option<Administration> {
    Some(match name {
        b"cache_memlimit" => Administration::CacheMemoryLimit,
        b"lru_crawler" => Administration::LruCrawler,
        b"lru" => Administration::Lru,
        b"slabs" => Administration::Slabs,
        b"extstore" => Administration::ExternalStore,
        b"watch" => Administration::Watch,
        b"shutdown" => Administration::Shutdown,
        b"refresh_certs" => Administration::RefreshCertificates,
        _ => return None,
    })
}

/// A request with nothing behind its line.
#[inline]
fn alone(operation: Operation<'_>, quiet: bool) -> Parsed<'_> {
    let form = Form::Text { with_cas: false, quiet };
    Parsed { request: Request { operation, form }, behind: DataBlock::Nothing }
}

/// Whether the last of the words asks for no answer, behind a command that looks for it.
fn is_quiet(name: &[u8], mut words: Words<'_>) -> bool {
    let is_heard = match name {
        b"version" | b"stats" | b"shutdown" | b"refresh_certs" | b"lru_crawler" => false,
        b"slabs" => words.next() == Some(b"automove"),
        // A key may be called so.
        b"delete" => words.next().is_some(),
        _ => true,
    };
    is_heard && words.last() == Some(NO_REPLY)
}

#[inline]
fn retrieval(words: Words<'_>, with_cas: bool, touch: Option<Expiry>) -> Parsed<'_> {
    let operation = match Keys::all_of(words) {
        Some(keys) => Operation::Retrieve(Retrieve { touch, ..Retrieve::of(keys) }),
        None if words.is_empty() => Operation::refuse(Failure::Unknown),
        None => Operation::refuse(Failure::BadFormat),
    };
    let form = Form::Text { with_cas, quiet: false };
    Parsed { request: Request { operation, form }, behind: DataBlock::Nothing }
}

fn retrieval_with_touch(mut words: Words<'_>, with_cas: bool) -> Parsed<'_> {
    let Some(expiry) = words.next() else {
        return alone(Operation::refuse(Failure::Unknown), false);
    };
    match parse_time(expiry) {
        // That there is no key is no fault here.
        Some(_) if words.is_empty() => {
            alone(Operation::Retrieve(Retrieve::of(Keys::default())), false)
        }
        Some(seconds) => retrieval(words, with_cas, Some(Expiry(seconds))),
        None => alone(Operation::refuse(INVALID_EXPIRY), false),
    }
}

const INVALID_EXPIRY: Failure<'static> = Failure::Client("invalid exptime argument");

/// `NAME key flags exptime length [cas] [noreply]`, and then the value.
#[inline]
fn storage<'a>(
    mut words: Words<'a>,
    mode: StoreMode,
    has_cas: bool,
    limits: &ItemLimits,
) -> Parsed<'a> {
    let mut next = || words.next();
    let (Some(key), Some(flags), Some(expiry), Some(length)) = (next(), next(), next(), next())
    else {
        return alone(Operation::refuse(Failure::Unknown), false);
    };
    let cas = if has_cas { next() } else { None };
    let (last, excess) = (next(), next());
    if has_cas && cas.is_none() || excess.is_some() {
        return alone(Operation::refuse(Failure::Unknown), false);
    }
    // The last word is looked at even where there are too few.
    let quiet = last.or(cas).unwrap_or(length) == NO_REPLY;
    let compare = match cas {
        None => Some(None),
        Some(cas) => parse_u64(cas).map(Some),
    };
    let (Some(key), Some(flags), Some(seconds), Some(length), Some(compare)) = (
        Key::plain(key),
        parse_flags(flags),
        parse_time(expiry),
        length_of(length, limits),
        compare,
    ) else {
        return alone(Operation::refuse(Failure::BadFormat), quiet);
    };
    let form = Form::Text { with_cas: false, quiet };
    if length > limits.value {
        if limits.is_strict {
            return alone(Operation::refuse(Failure::Client("auth token too long")), false);
        }
        // A client that may have been told that it was stored is not to find what was there before.
        let removes = (mode == StoreMode::Set && !has_cas).then_some(key);
        let refusal = Refusal { removes, ..Refusal::of(Failure::TooLarge) };
        let request = Request { operation: Operation::Refuse(refusal), form };
        return Parsed { request, behind: DataBlock::Refused(length) };
    }
    let store = Store { flags, expiry: Expiry(seconds), compare, ..Store::of(key, mode) };
    let request = Request { operation: Operation::Store(store), form };
    Parsed { request, behind: DataBlock::Value(length) }
}

/// The length of a value. The number fits a number of 32 bits with the line end behind it, or is
/// that of a name and a password, which are too long anyway then.
pub(super) fn length_of(word: &[u8], limits: &ItemLimits) -> Option<usize> {
    const MOST: usize = i32::MAX as usize - LINE_END.len();
    let length = parse_i32(word).and_then(|length| usize::try_from(length).ok())?;
    (length <= MOST || limits.is_strict).then_some(length)
}

type Outcome<'a> = Result<Operation<'a>, Failure<'static>>;

/// `delete key [0] [noreply]`: the zero is what is left of a delay that was dropped.
fn deletion(mut words: Words<'_>) -> Outcome<'_> {
    let key = words.next().ok_or(Failure::Unknown)?;
    let usage = Failure::Client("bad command line format.  Usage: delete <key> [noreply]");
    match (words.next(), words.next(), words.next()) {
        (None, ..) | (Some(b"0" | b"noreply"), None, _) | (Some(b"0"), Some(NO_REPLY), None) => {}
        (.., Some(_)) => return Err(Failure::Unknown),
        _ => return Err(usage),
    }
    let key = Key::plain(key).ok_or(Failure::BadFormat)?;
    Ok(Operation::Delete(Delete::of(key)))
}

fn arithmetic(mut words: Words<'_>, decrements: bool) -> Outcome<'_> {
    let (Some(key), Some(delta)) = (words.next(), words.next()) else {
        return Err(Failure::Unknown);
    };
    at_most_one(words)?;
    let key = Key::plain(key).ok_or(Failure::BadFormat)?;
    let delta = parse_u64(delta).ok_or(Failure::Client("invalid numeric delta argument"))?;
    Ok(Operation::Arithmetic(Arithmetic::of(key, decrements, delta)))
}

fn touch(mut words: Words<'_>) -> Outcome<'_> {
    let (Some(key), Some(expiry)) = (words.next(), words.next()) else {
        return Err(Failure::Unknown);
    };
    at_most_one(words)?;
    let key = Key::plain(key).ok_or(Failure::BadFormat)?;
    let seconds = parse_time(expiry).ok_or(INVALID_EXPIRY)?;
    Ok(Operation::Touch { key, expiry: Expiry(seconds) })
}

/// `flush_all [delay] [noreply]`.
fn flush(mut words: Words<'_>) -> Outcome<'_> {
    let delay = words.next();
    at_most_one(words)?;
    match delay {
        None => Ok(Operation::Flush(Expiry::NEVER)),
        Some(NO_REPLY) if words.is_empty() => Ok(Operation::Flush(Expiry::NEVER)),
        Some(delay) => {
            let seconds = parse_time(delay).ok_or(INVALID_EXPIRY)?;
            Ok(Operation::Flush(Expiry(seconds)))
        }
    }
}

/// `verbosity level [noreply]`.
fn verbosity(mut words: Words<'_>) -> Outcome<'_> {
    let level = words.next().ok_or(Failure::Unknown)?;
    at_most_one(words)?;
    parse_u64(level).map(|_| Operation::Verbosity).ok_or(Failure::BadFormat)
}

/// Behind the arguments of a command there may be a word, which need not be `noreply`.
fn at_most_one(words: Words<'_>) -> Result<(), Failure<'static>> {
    if words.count() > 1 { Err(Failure::Unknown) } else { Ok(()) }
}

/// Writes what a request brought about.
#[inline]
pub(super) fn answer(out: &mut Output, with_cas: bool, quiet: bool, response: Response<'_>) {
    match response {
        Response::Failed(failure) if !quiet => push_failure(out, &failure),
        Response::Hit(item) => push_item(out, item, with_cas),
        Response::Miss | Response::Failed(_) => {}
        _ if quiet => {}
        Response::Number(number) => {
            push_number(out.tail(), number.value);
            out.tail().extend_from_slice(LINE_END);
        }
        Response::Version(text) => push_line(out, &[b"VERSION ", text]),
        Response::Line(text) | Response::Inspected(text) | Response::Mechanisms(text) => {
            push_line(out, &[text]);
        }
        Response::Statistic { name, value } => push_line(out, &[b"STAT ", name, b" ", value]),
        Response::End => push_line(out, &[b"END"]),
        Response::Stored { .. } | Response::Authenticated => push_line(out, &[b"STORED"]),
        Response::NotStored => push_line(out, &[b"NOT_STORED"]),
        Response::Exists => push_line(out, &[b"EXISTS"]),
        Response::NotFound => push_line(out, &[b"NOT_FOUND"]),
        Response::Deleted => push_line(out, &[b"DELETED"]),
        Response::Touched => push_line(out, &[b"TOUCHED"]),
        Response::Ok => push_line(out, &[b"OK"]),
    }
}

/// What the numbers, blanks and line ends of an item take at the most.
const ITEM_FRAME: usize = 64;

#[inline]
fn push_item(out: &mut Output, item: Item<'_>, with_cas: bool) {
    let tail = out.tail();
    tail.reserve(item.key.len() + item.value.len() + ITEM_FRAME);
    tail.extend_from_slice(b"VALUE ");
    tail.extend_from_slice(item.key);
    tail.push(b' ');
    push_number(tail, item.flags.into());
    tail.push(b' ');
    push_number(tail, item.value.len() as u64);
    if with_cas {
        tail.push(b' ');
        push_number(tail, item.cas);
    }
    tail.extend_from_slice(LINE_END);
    item.value.push_to(out);
    out.tail().extend_from_slice(LINE_END);
}

#[inline]
fn push_line(out: &mut Output, parts: &[&[u8]]) {
    let tail = out.tail();
    for part in parts {
        tail.extend_from_slice(part);
    }
    tail.extend_from_slice(LINE_END);
}
