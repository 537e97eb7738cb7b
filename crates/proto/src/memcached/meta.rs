//! The meta protocol: two letters, a key and flags, to requests and from responses.
//!
//! Invariant: a refusal of `ms` takes the announced value with it, so the stream goes on behind.

use base::number::format_u64;

use super::answer::{Item, Number, Response, Value, push_failure, push_number, push_ttl};
use super::flags::{Flags, Letters};
use super::key::{Key, Keys};
use super::line::Words;
use super::numbers::{parse_i32, parse_u32, parse_u64};
use super::parser::{Behind, Limits, Parsed};
use super::{
    Arithmetic, Delete, Expiry, Failure, Form, Operation, Refusal, Request, Retrieve, Store,
    StoreMode,
};
use crate::output::Output;

/// `P` and `L` are for proxies, and mean nothing here.
const GET_FLAGS: Letters = Letters::of(b"bcCfhklOqstvENRTPL");
const SET_FLAGS: Letters = Letters::of(b"bcCEFIkOqsTMNPLS");
const DELETE_FLAGS: Letters = Letters::of(b"bCEIkOqTxPL");
const ARITHMETIC_FLAGS: Letters = Letters::of(b"bCENJDTMOqtcvkPL");
const INSPECT_FLAGS: Letters = Letters::of(b"b");

/// The greatest length of an opaque token.
const OPAQUE_MAX: usize = 32;

const BAD_TOKEN: Failure<'static> = Failure::Client("bad token in command line format");

/// Parses the words behind `m` and this letter; `None` if there is no such command.
#[inline]
pub(super) fn parse<'a>(letter: u8, words: Words<'a>, limits: &Limits) -> Option<Parsed<'a>> {
    let parsed = match letter {
        b'g' => keyed(words, GET_FLAGS, retrieval),
        b'd' => keyed(words, DELETE_FLAGS, deletion),
        b'a' => keyed(words, ARITHMETIC_FLAGS, arithmetic),
        b'e' => keyed(words, INSPECT_FLAGS, |key, _| Ok(Operation::Inspect(key))),
        b's' => return Some(storage(words, limits)),
        b'n' => Ok(Request { operation: Operation::Nothing, form: Form::Meta(Flags::default()) }),
        _ => return None,
    };
    Some(Parsed { request: parsed.unwrap_or_else(refused), behind: Behind::Nothing })
}

/// A refusal is told in the same words whatever the flags.
fn refused(failure: Failure<'static>) -> Request<'static> {
    Request { operation: Operation::refuse(failure), form: Form::Meta(Flags::default()) }
}

type Outcome<'a> = Result<Operation<'a>, Failure<'static>>;

/// A key and flags, and nothing else.
#[inline]
fn keyed<'a>(
    mut words: Words<'a>,
    known: Letters,
    operation: impl FnOnce(Key<'a>, &Flags<'a>) -> Outcome<'a>,
) -> Result<Request<'a>, Failure<'static>> {
    let key = words.next().ok_or(Failure::BadFormat)?;
    let flags = Flags::parse(words, known)?;
    let key = key_of(key, &flags)?;
    Ok(Request { operation: operation(key, &flags)?, form: Form::Meta(flags) })
}

fn key_of<'a>(text: &'a [u8], flags: &Flags<'_>) -> Result<Key<'a>, Failure<'static>> {
    if flags.has(b'b') {
        return Key::base64(text).ok_or(Failure::BadFormat);
    }
    Key::plain(text).ok_or(Failure::BadFormat)
}

fn retrieval<'a>(key: Key<'a>, flags: &Flags<'a>) -> Outcome<'a> {
    let mut retrieve = Retrieve {
        shows_value: flags.has(b'v'),
        shows_access: flags.has(b'h') || flags.has(b'l'),
        ..Retrieve::of(Keys::one(key))
    };
    for (letter, token) in flags.iter() {
        match letter {
            b'T' => retrieve.touch = Some(expiry(token)?),
            b'N' => retrieve.vivify = Some(expiry(token)?),
            b'R' => retrieve.recache = Some(recache(token)?),
            b'E' => retrieve.new_cas = Some(number(token)?),
            b'O' => opaque(token)?,
            _ => {}
        }
    }
    Ok(Operation::Retrieve(retrieve))
}

/// `ms key length flags*`, and then the value.
fn storage<'a>(mut words: Words<'a>, limits: &Limits) -> Parsed<'a> {
    let (Some(key), Some(length)) = (words.next(), words.next()) else {
        return Parsed { request: refused(Failure::BadFormat), behind: Behind::Nothing };
    };
    let length = parse_i32(length).and_then(|length| usize::try_from(length).ok());
    let Some(length) = length else {
        let failure = Failure::Client("bad data chunk");
        return Parsed { request: refused(failure), behind: Behind::Nothing };
    };
    match announced(key, words, length, limits) {
        Ok(request) => Parsed { request, behind: Behind::Value(length) },
        Err(refusal) => {
            let form = Form::Meta(Flags::default());
            let request = Request { operation: Operation::Refuse(refusal), form };
            Parsed { request, behind: Behind::Refused(length) }
        }
    }
}

fn announced<'a>(
    key: &'a [u8],
    words: Words<'a>,
    length: usize,
    limits: &Limits,
) -> Result<Request<'a>, Refusal<'a>> {
    let flags = Flags::parse(words, SET_FLAGS).map_err(Refusal::of)?;
    let key = key_of(key, &flags).map_err(Refusal::of)?;
    let store = store_of(key, &flags).map_err(Refusal::of)?;
    if length > limits.value {
        return Err(Refusal { removes: Some(key), ..Refusal::of(Failure::TooLarge) });
    }
    Ok(Request { operation: Operation::Store(store), form: Form::Meta(flags) })
}

fn store_of<'a>(key: Key<'a>, flags: &Flags<'a>) -> Result<Store<'a>, Failure<'static>> {
    let mut store = Store { invalidates: flags.has(b'I'), ..Store::of(key, StoreMode::Set) };
    for (letter, token) in flags.iter() {
        match letter {
            b'F' => store.flags = parse_u32(token).ok_or(BAD_TOKEN)?,
            b'T' => store.expiry = expiry(token)?,
            b'C' => store.compare = Some(number(token)?),
            b'E' => store.new_cas = Some(number(token)?),
            b'N' => store.vivify = Some(expiry(token)?),
            b'M' => store.mode = store_mode(token)?,
            b'O' => opaque(token)?,
            _ => {}
        }
    }
    Ok(store)
}

fn store_mode(token: &[u8]) -> Result<StoreMode, Failure<'static>> {
    match token {
        [b'S' | b's', ..] => Ok(StoreMode::Set),
        [b'E' | b'e', ..] => Ok(StoreMode::Add),
        [b'R' | b'r', ..] => Ok(StoreMode::Replace),
        [b'A' | b'a', ..] => Ok(StoreMode::Append),
        [b'P' | b'p', ..] => Ok(StoreMode::Prepend),
        _ => Err(Failure::Client("invalid mode for ms M token")),
    }
}

fn deletion<'a>(key: Key<'a>, flags: &Flags<'a>) -> Outcome<'a> {
    let mut delete = Delete {
        invalidates: flags.has(b'I'),
        empties: flags.has(b'x'),
        ..Delete::of(key)
    };
    for (letter, token) in flags.iter() {
        match letter {
            b'T' => delete.expiry = Some(expiry(token)?),
            b'C' => delete.compare = Some(number(token)?),
            b'E' => delete.new_cas = Some(number(token)?),
            b'O' => opaque(token)?,
            _ => {}
        }
    }
    Ok(Operation::Delete(delete))
}

fn arithmetic<'a>(key: Key<'a>, flags: &Flags<'a>) -> Outcome<'a> {
    let mut arithmetic = Arithmetic::of(key, false, 1);
    let (mut begins_at, mut vivify) = (0, None);
    for (letter, token) in flags.iter() {
        match letter {
            b'M' => arithmetic.decrements = decrements(token)?,
            b'D' => {
                let failure = Failure::Client("invalid numeric delta argument");
                arithmetic.delta = parse_u64(token).ok_or(failure)?;
            }
            b'J' => begins_at = number(token)?,
            b'N' => vivify = Some(expiry(token)?),
            b'T' => arithmetic.touch = Some(expiry(token)?),
            b'C' => arithmetic.compare = Some(number(token)?),
            b'E' => arithmetic.new_cas = Some(number(token)?),
            b'O' => opaque(token)?,
            _ => {}
        }
    }
    arithmetic.initial = vivify.map(|expiry| (begins_at, expiry));
    Ok(Operation::Arithmetic(arithmetic))
}

fn decrements(token: &[u8]) -> Result<bool, Failure<'static>> {
    match token {
        [b'I' | b'i' | b'+', ..] => Ok(false),
        [b'D' | b'd' | b'-', ..] => Ok(true),
        _ => Err(Failure::Client("invalid mode for ma M token")),
    }
}

fn expiry(token: &[u8]) -> Result<Expiry, Failure<'static>> {
    parse_i32(token).map(|seconds| Expiry(seconds.into())).ok_or(BAD_TOKEN)
}

/// A TTL below which an item is to be filled anew; none is below a negative one.
fn recache(token: &[u8]) -> Result<u64, Failure<'static>> {
    let seconds = parse_i32(token).ok_or(BAD_TOKEN)?;
    Ok(u64::try_from(seconds).unwrap_or(0))
}

fn number(token: &[u8]) -> Result<u64, Failure<'static>> {
    parse_u64(token).ok_or(BAD_TOKEN)
}

fn opaque(token: &[u8]) -> Result<(), Failure<'static>> {
    if token.len() > OPAQUE_MAX {
        return Err(Failure::Client("opaque token too long"));
    }
    Ok(())
}

/// Writes what a request brought about.
#[inline]
pub(super) fn answer(
    out: &mut Output,
    request: &Request<'_>,
    flags: &Flags<'_>,
    response: Response<'_>,
) {
    if flags.has(b'q') && is_hidden(&request.operation, &response) {
        return;
    }
    match response {
        Response::Hit(item) => push_item(out, request, flags, item),
        Response::Miss => push_line(out, b"EN"),
        Response::Number(number) => push_changed(out, request, flags, number),
        Response::Stored { cas } => push_code(out, b"HD", request, flags, Some(cas)),
        Response::Deleted | Response::Touched => push_code(out, b"HD", request, flags, None),
        Response::NotStored => push_code(out, b"NS", request, flags, None),
        Response::Exists => push_code(out, b"EX", request, flags, None),
        Response::NotFound => push_code(out, b"NF", request, flags, None),
        Response::Inspected(text) => {
            let tail = out.tail();
            tail.extend_from_slice(b"ME ");
            push_key(tail, request);
            tail.push(b' ');
            push_line(out, text);
        }
        Response::Ok => push_line(out, b"MN"),
        Response::Failed(failure) => push_failure(out, &failure),
        // What only other commands bring about, and the end of a retrieval.
        Response::End
        | Response::Version(_)
        | Response::Statistic { .. }
        | Response::Line(_)
        | Response::Mechanisms(_)
        | Response::Authenticated => {}
    }
}

/// What a client that asked for quiet does not hear: what it expects.
fn is_hidden(operation: &Operation<'_>, response: &Response<'_>) -> bool {
    match operation {
        Operation::Retrieve(_) => matches!(response, Response::Miss),
        Operation::Delete(_) => matches!(response, Response::Deleted | Response::NotFound),
        Operation::Store(_) => matches!(response, Response::Stored { .. }),
        Operation::Arithmetic(_) => matches!(response, Response::Number(_) | Response::NotFound),
        _ => false,
    }
}

fn push_line(out: &mut Output, text: &[u8]) {
    let tail = out.tail();
    tail.extend_from_slice(text);
    tail.extend_from_slice(LINE_END);
}

const LINE_END: &[u8] = b"\r\n";

#[inline]
fn push_item(out: &mut Output, request: &Request<'_>, flags: &Flags<'_>, item: Item<'_>) {
    let tail = out.tail();
    let shows_value = flags.has(b'v');
    begin(tail, shows_value.then(|| item.value.len()));
    for (letter, token) in flags.iter() {
        match letter {
            b'f' => push_flag(tail, b'f', item.flags.into()),
            b'c' => push_flag(tail, b'c', item.cas),
            b's' => push_flag(tail, b's', item.value.len() as u64),
            b'l' => push_flag(tail, b'l', item.idle_s),
            b'h' => push_flag(tail, b'h', item.was_read.into()),
            b't' => push_ttl_flag(tail, item.ttl_s),
            _ => push_echo(tail, request, letter, token),
        }
    }
    for (letter, is_set) in [(b'W', item.won), (b'X', item.stale), (b'Z', item.taken)] {
        if is_set {
            tail.extend_from_slice(&[b' ', letter]);
        }
    }
    tail.extend_from_slice(LINE_END);
    if shows_value {
        item.value.push_to(out);
        out.tail().extend_from_slice(LINE_END);
    }
}

fn push_changed(out: &mut Output, request: &Request<'_>, flags: &Flags<'_>, number: Number) {
    let tail = out.tail();
    let mut buffer = [0; 20];
    let digits = format_u64(number.value, &mut buffer);
    let shows_value = flags.has(b'v');
    begin(tail, shows_value.then_some(digits.len()));
    for (letter, token) in flags.iter() {
        match letter {
            b'c' => push_flag(tail, b'c', number.cas),
            b't' => push_ttl_flag(tail, number.ttl_s),
            _ => push_echo(tail, request, letter, token),
        }
    }
    tail.extend_from_slice(LINE_END);
    if shows_value {
        Value::Plain(digits).push_to(out);
        out.tail().extend_from_slice(LINE_END);
    }
}

/// `VA` and the length of the value that follows, or `HD`.
fn begin(tail: &mut Vec<u8>, length: Option<usize>) {
    match length {
        None => tail.extend_from_slice(b"HD"),
        Some(length) => {
            tail.reserve(length + LINE_RESERVE);
            tail.extend_from_slice(b"VA ");
            push_number(tail, length as u64);
        }
    }
}

/// Room for the usual flags of an answer.
const LINE_RESERVE: usize = 64;

/// A code, and what the client wants to see with it.
fn push_code(
    out: &mut Output,
    code: &[u8],
    request: &Request<'_>,
    flags: &Flags<'_>,
    cas: Option<u64>,
) {
    let tail = out.tail();
    tail.extend_from_slice(code);
    for (letter, token) in flags.iter() {
        match (letter, cas) {
            (b'c', Some(cas)) => push_flag(tail, b'c', cas),
            _ => push_echo(tail, request, letter, token),
        }
    }
    tail.extend_from_slice(LINE_END);
}

fn push_flag(tail: &mut Vec<u8>, letter: u8, number: u64) {
    tail.extend_from_slice(&[b' ', letter]);
    push_number(tail, number);
}

fn push_ttl_flag(tail: &mut Vec<u8>, ttl_s: Option<u64>) {
    tail.extend_from_slice(b" t");
    push_ttl(tail, ttl_s);
}

/// What is given back as it came.
fn push_echo(tail: &mut Vec<u8>, request: &Request<'_>, letter: u8, token: &[u8]) {
    match letter {
        b'O' => {
            tail.extend_from_slice(b" O");
            tail.extend_from_slice(token);
        }
        b'k' => {
            tail.extend_from_slice(b" k");
            push_key(tail, request);
        }
        b'b' => tail.extend_from_slice(b" b"),
        _ => {}
    }
}

fn push_key(tail: &mut Vec<u8>, request: &Request<'_>) {
    if let Some(key) = request.operation.key() {
        tail.extend_from_slice(key.text());
    }
}
