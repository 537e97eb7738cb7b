//! The meta protocol: two letters, a key and flags, to requests and from responses.
//!
//! Invariant: a refusal of `ms` takes the announced value with it, so the stream goes on behind.

use base::number::format_u64;

use super::flags::{Flags, Letters};
use super::key::{KEY_LENGTH_MAX, Key, Keys};
use super::line::Words;
use super::numbers::{parse_flags, parse_time, parse_u64};
use super::parser::{DataBlock, ItemLimits, Parsed};
use super::response::{Item, ItemValue, Number, Response, push_failure, push_number, push_ttl};
use super::text::length_of;
use super::{
    Arithmetic, Delete, Expiry, Failure, Form, Operation, Refusal, Request, Retrieve, Store,
    StoreMode,
};
use crate::args::LINE_END;
use crate::output::Output;

/// Every letter means the same in every command, and is looked at even where it has no effect. `P`
/// and `L` are for proxies, and mean nothing here; `E` and `x` came after 1.6.18.
const KNOWN: Letters = Letters::of(b"bcfhklqstvCDEFIJLMNOPRTx");

/// The greatest length of an opaque token, which makes 32 with its letter.
const OPAQUE_MAX: usize = 31;

const BAD_TOKEN: Failure<'static> = Failure::Client("bad token in command line format");
const OPAQUE_TOO_LONG: Failure<'static> = Failure::Client("opaque token too long");
const BAD_FLAG: Failure<'static> = Failure::Client("invalid or duplicate flag");

/// What the tokens of the flags say.
struct Tokens {
    client_flags: u32,
    expiry: Option<Expiry>,
    vivify: Option<Expiry>,
    recache: Option<u64>,
    compare: Option<u64>,
    new_cas: Option<u64>,
    delta: u64,
    initial: u64,
    mode: Option<u8>,
}

/// Parses the words behind `m` and this letter; `None` if there is no such command.
#[inline]
pub(super) fn parse<'a>(letter: u8, words: Words<'a>, limits: &ItemLimits) -> Option<Parsed<'a>> {
    let parsed = match letter {
        b'g' => keyed(words, retrieval),
        b'd' => keyed(words, deletion).map_err(generic_failure),
        b'a' => keyed(words, arithmetic).map_err(generic_failure),
        b'e' => inspection(words),
        b's' => return Some(storage(words, limits)),
        b'n' => Ok(Request { operation: Operation::Nothing, form: Form::Meta(Flags::default()) }),
        _ => return None,
    };
    Some(Parsed { request: parsed.unwrap_or_else(refused), behind: DataBlock::Nothing })
}

/// A refusal is told in the same words whatever the flags.
fn refused<'a>(failure: Failure<'static>) -> Request<'a> {
    Request { operation: Operation::refuse(failure), form: Form::Meta(Flags::default()) }
}

/// Some commands tell little of what is wrong with their flags.
fn generic_failure(failure: Failure<'static>) -> Failure<'static> {
    let is_told = [OPAQUE_TOO_LONG, BAD_MODE, Failure::Unknown, Failure::BadFormat];
    if is_told.contains(&failure) { failure } else { BAD_FLAG }
}

/// A key and flags, and nothing else.
#[inline]
fn keyed<'a>(
    mut words: Words<'a>,
    operation: impl FnOnce(Key<'a>, &Flags<'a>, &Tokens) -> Result<Operation<'a>, Failure<'static>>,
) -> Result<Request<'a>, Failure<'static>> {
    let key = words.next().ok_or(Failure::Unknown)?;
    check_length(key)?;
    let flags = Flags::parse(words, KNOWN)?;
    let tokens = Tokens::read(&flags)?;
    let operation = operation(key_of(key, &flags)?, &flags, &tokens)?;
    Ok(Request { operation, form: Form::Meta(flags) })
}

/// No flag but `b` means anything here.
fn inspection<'a>(mut words: Words<'a>) -> Result<Request<'a>, Failure<'static>> {
    let key = words.next().ok_or(Failure::BadFormat)?;
    let is_base64 = words.next() == Some(b"b");
    let key = if is_base64 { Key::base64(key) } else { Key::plain(key) };
    let operation = Operation::Inspect(key.ok_or(Failure::BadFormat)?);
    Ok(Request { operation, form: Form::Meta(Flags::default()) })
}

fn check_length(key: &[u8]) -> Result<(), Failure<'static>> {
    Key::plain(key).map(drop).ok_or(Failure::BadFormat)
}

fn key_of<'a>(text: &'a [u8], flags: &Flags<'_>) -> Result<Key<'a>, Failure<'static>> {
    match flags.has(b'b') {
        true => Key::base64(text).ok_or(Failure::Client("error decoding key")),
        false => Key::plain(text).ok_or(Failure::BadFormat),
    }
}

impl Tokens {
    /// Of several faults the first one is told, but that of `F` only where there is no other.
    #[inline]
    fn read(flags: &Flags<'_>) -> Result<Tokens, Failure<'static>> {
        let mut tokens = Tokens {
            client_flags: 0,
            expiry: None,
            vivify: None,
            recache: None,
            compare: None,
            new_cas: None,
            delta: 1,
            initial: 0,
            mode: None,
        };
        let mut client_flags = Ok(());
        for (letter, token) in flags.iter() {
            match tokens.take(letter, token) {
                Err(Failure::BadFormat) => client_flags = Err(Failure::BadFormat),
                taken => taken?,
            }
        }
        client_flags.map(|()| tokens)
    }

    #[inline]
    fn take(&mut self, letter: u8, token: &[u8]) -> Result<(), Failure<'static>> {
        match letter {
            b'F' => self.client_flags = parse_flags(token).ok_or(Failure::BadFormat)?,
            b'T' => {
                self.expiry = Some(expiry(token)?);
                // Of an item that is made, the later of the two holds.
                self.vivify = self.vivify.and(self.expiry);
            }
            b'N' => self.vivify = Some(expiry(token)?),
            // No time to live is below a negative one.
            b'R' => self.recache = Some(u64::try_from(expiry(token)?.0).unwrap_or(0)),
            b'C' => self.compare = Some(parse_u64(token).ok_or(BAD_TOKEN)?),
            b'E' => self.new_cas = Some(parse_u64(token).ok_or(BAD_TOKEN)?),
            b'D' => {
                let failure = Failure::Client("invalid numeric delta value");
                self.delta = parse_u64(token).ok_or(failure)?;
            }
            b'J' => {
                let failure = Failure::Client("invalid numeric initial value");
                self.initial = parse_u64(token).ok_or(failure)?;
            }
            b'M' => {
                let [mode] = token else {
                    return Err(Failure::Client("incorrect length for M token"));
                };
                self.mode = Some(*mode);
            }
            b'O' if token.len() > OPAQUE_MAX => return Err(OPAQUE_TOO_LONG),
            _ => {}
        }
        Ok(())
    }
}

fn expiry(token: &[u8]) -> Result<Expiry, Failure<'static>> {
    parse_time(token).map(Expiry).ok_or(BAD_TOKEN)
}

fn retrieval<'a>(
    key: Key<'a>,
    flags: &Flags<'a>,
    tokens: &Tokens,
) -> Result<Operation<'a>, Failure<'static>> {
    Ok(Operation::Retrieve(Retrieve {
        touch: tokens.expiry,
        vivify: tokens.vivify,
        recache: tokens.recache,
        recaches_first: flags.has_before(b'R', b'T'),
        shows_ttl_first: flags.has_before(b't', b'T'),
        new_cas: tokens.new_cas,
        can_win: true,
        shows_value: flags.has(b'v'),
        shows_access: flags.has(b'h') || flags.has(b'l'),
        ..Retrieve::of(Keys::one(key))
    }))
}

/// `ms key length flags*`, and then the value.
fn storage<'a>(mut words: Words<'a>, limits: &ItemLimits) -> Parsed<'a> {
    let alone = |failure| Parsed { request: refused(failure), behind: DataBlock::Nothing };
    let Some(key) = words.next() else { return alone(Failure::Unknown) };
    let length = words.next().and_then(|word| length_of(word, limits));
    let (Ok(()), Some(length)) = (check_length(key), length) else {
        return alone(Failure::BadFormat);
    };
    match announced(key, words, length, limits) {
        Ok(request) => Parsed { request, behind: DataBlock::Value(length) },
        Err(refusal) => {
            let form = Form::Meta(Flags::default());
            let request = Request { operation: Operation::Refuse(refusal), form };
            Parsed { request, behind: DataBlock::Refused(length) }
        }
    }
}

fn announced<'a>(
    key: &'a [u8],
    words: Words<'a>,
    length: usize,
    limits: &ItemLimits,
) -> Result<Request<'a>, Refusal<'a>> {
    let flags = Flags::parse(words, KNOWN).map_err(Refusal::of)?;
    let tokens = Tokens::read(&flags).map_err(Refusal::of)?;
    let key = key_of(key, &flags).map_err(Refusal::of)?;
    let mode = store_mode(tokens.mode).map_err(Refusal::of)?;
    if length > limits.value {
        return Err(Refusal { removes: Some(key), ..Refusal::of(Failure::TooLarge) });
    }
    let store = Store {
        flags: tokens.client_flags,
        expiry: tokens.expiry.unwrap_or(Expiry::NEVER),
        compare: tokens.compare,
        new_cas: tokens.new_cas,
        invalidates: flags.has(b'I'),
        vivify: tokens.vivify,
        ..Store::of(key, mode)
    };
    Ok(Request { operation: Operation::Store(store), form: Form::Meta(flags) })
}

fn store_mode(mode: Option<u8>) -> Result<StoreMode, Failure<'static>> {
    Ok(match mode {
        None | Some(b'S') => StoreMode::Set,
        Some(b'E') => StoreMode::Add,
        Some(b'R') => StoreMode::Replace,
        Some(b'A') => StoreMode::Append,
        Some(b'P') => StoreMode::Prepend,
        Some(_) => return Err(Failure::Client("invalid mode for ms M token")),
    })
}

fn deletion<'a>(
    key: Key<'a>,
    flags: &Flags<'a>,
    tokens: &Tokens,
) -> Result<Operation<'a>, Failure<'static>> {
    Ok(Operation::Delete(Delete {
        compare: tokens.compare,
        new_cas: tokens.new_cas,
        invalidates: flags.has(b'I'),
        expiry: tokens.expiry,
        empties: flags.has(b'x'),
        ..Delete::of(key)
    }))
}

const BAD_MODE: Failure<'static> = Failure::Client("invalid mode for ma M token");

fn arithmetic<'a>(
    key: Key<'a>,
    _: &Flags<'a>,
    tokens: &Tokens,
) -> Result<Operation<'a>, Failure<'static>> {
    let decrements = match tokens.mode {
        None | Some(b'I' | b'+') => false,
        Some(b'D' | b'-') => true,
        Some(_) => return Err(BAD_MODE),
    };
    Ok(Operation::Arithmetic(Arithmetic {
        initial: tokens.vivify.map(|expiry| (tokens.initial, expiry)),
        touch: tokens.expiry,
        compare: tokens.compare,
        new_cas: tokens.new_cas,
        ..Arithmetic::of(key, decrements, tokens.delta)
    }))
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
        Response::Miss => push_code(out, b"EN", request, flags),
        Response::Number(number) => push_changed(out, request, flags, number),
        Response::Stored { cas, size } => push_stored(out, request, flags, cas, size),
        Response::Deleted | Response::Touched => push_code(out, b"HD", request, flags),
        Response::NotStored => push_code(out, b"NS", request, flags),
        Response::Exists => push_code(out, b"EX", request, flags),
        Response::NotFound => push_code(out, b"NF", request, flags),
        Response::Inspected(text) => {
            let mut buffer = [0; KEY_LENGTH_MAX];
            let key = request.operation.key();
            let key = key.as_ref().map_or(&b""[..], |key| match key.bytes(&mut buffer) {
                // The key stays as it was stored by text; no other can have been.
                word if word.iter().all(u8::is_ascii_graphic) => word,
                _ => key.text(),
            });
            let tail = out.tail();
            tail.extend_from_slice(b"ME ");
            tail.extend_from_slice(key);
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
        Operation::Delete(_) => matches!(response, Response::Deleted),
        Operation::Store(_) => matches!(response, Response::Stored { .. }),
        Operation::Arithmetic(_) => {
            matches!(response, Response::Number(Number { is_new: false, .. }))
        }
        _ => false,
    }
}

fn push_line(out: &mut Output, text: &[u8]) {
    let tail = out.tail();
    tail.extend_from_slice(text);
    tail.extend_from_slice(LINE_END);
}

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
    for (letter, is_set) in [(b'Z', item.taken), (b'X', item.stale), (b'W', item.won)] {
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
        ItemValue::Plain(digits).push_to(out);
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

/// A code, and what the client wants to see with it. Only a store shows a CAS value, which is 0
/// where nothing was stored.
fn push_code(out: &mut Output, code: &[u8], request: &Request<'_>, flags: &Flags<'_>) {
    let tail = out.tail();
    tail.extend_from_slice(code);
    let shows_cas = matches!(request.operation, Operation::Store(_));
    for (letter, token) in flags.iter() {
        match letter {
            b'c' if shows_cas => push_flag(tail, b'c', 0),
            _ => push_echo(tail, request, letter, token),
        }
    }
    tail.extend_from_slice(LINE_END);
}

fn push_stored(out: &mut Output, request: &Request<'_>, flags: &Flags<'_>, cas: u64, size: usize) {
    let tail = out.tail();
    tail.extend_from_slice(b"HD");
    for (letter, token) in flags.iter() {
        match letter {
            b'c' => push_flag(tail, b'c', cas),
            b's' => push_flag(tail, b's', size as u64),
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
            if request.operation.key().is_some_and(|key| !key.is_plain()) {
                tail.extend_from_slice(b" b");
            }
        }
        _ => {}
    }
}

fn push_key(tail: &mut Vec<u8>, request: &Request<'_>) {
    if let Some(key) = request.operation.key() {
        tail.extend_from_slice(key.text());
    }
}
