//! The binary protocol: packets with a header of 24 bytes, to requests and from responses.
//!
//! Invariant: lengths are checked against each other before anything is read by them, so a packet
//! that lies about itself is refused by its header.

use super::key::{KEY_LENGTH_MAX, Key, Keys};
use super::line::Words;
use super::parser::ItemLimits;
use super::response::{ItemValue, Response};
use super::{
    Arithmetic, Delete, Expiry, Failure, Form, Operation, Refusal, Request, Retrieve, Store,
    StoreMode,
};
use crate::output::Output;

/// The first byte of a request.
pub(super) const REQUEST: u8 = 0x80;

/// The first byte of a response.
const RESPONSE: u8 = 0x81;

/// The length of a header.
pub(super) const HEADER_LENGTH: usize = 24;

/// An expiry that forbids to make a missing number.
const NO_INITIAL: u32 = u32::MAX;

/// A request's header, of which no length is believed yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    opcode: u8,
    extras_length: usize,
    key_length: usize,
    body_length: usize,
    opaque: u32,
    cas: u64,
}

/// How a packet is to be read.
pub(super) enum Reading {
    /// So many bytes from its start, all of it.
    Whole(usize),
    /// So many bytes from its start: its header and what lies before its value. The rest is
    /// skipped.
    Head(usize, Failure<'static>),
    /// Not at all: nothing behind its header can be trusted.
    Never(Failure<'static>),
}

/// What the opcodes ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Get,
    GetAndTouch,
    Touch,
    Store(StoreMode),
    Delete,
    Increment,
    Decrement,
    Quit,
    Flush,
    Nothing,
    Version,
    Statistics,
    Verbosity,
    ListMechanisms,
    Authenticate,
    ContinueAuthentication,
}

impl Kind {
    fn of(opcode: u8) -> Option<Kind> {
        Some(match opcode {
            0x00 | 0x09 | 0x0c | 0x0d => Kind::Get,
            0x01 | 0x11 => Kind::Store(StoreMode::Set),
            0x02 | 0x12 => Kind::Store(StoreMode::Add),
            0x03 | 0x13 => Kind::Store(StoreMode::Replace),
            0x04 | 0x14 => Kind::Delete,
            0x05 | 0x15 => Kind::Increment,
            0x06 | 0x16 => Kind::Decrement,
            0x07 | 0x17 => Kind::Quit,
            0x08 | 0x18 => Kind::Flush,
            0x0a => Kind::Nothing,
            0x0b => Kind::Version,
            0x0e | 0x19 => Kind::Store(StoreMode::Append),
            0x0f | 0x1a => Kind::Store(StoreMode::Prepend),
            0x10 => Kind::Statistics,
            0x1b => Kind::Verbosity,
            0x1c => Kind::Touch,
            0x1d | 0x1e | 0x23 | 0x24 => Kind::GetAndTouch,
            0x20 => Kind::ListMechanisms,
            0x21 => Kind::Authenticate,
            0x22 => Kind::ContinueAuthentication,
            _ => return None,
        })
    }

    /// Whether so many bytes of extras, of key and of value are what it takes.
    fn takes(self, extras: usize, key: usize, value: usize) -> bool {
        let (has_key, has_value) = (key > 0, value > 0);
        match self {
            Kind::Get | Kind::Delete => extras == 0 && has_key && !has_value,
            Kind::GetAndTouch | Kind::Touch => extras == 4 && has_key && !has_value,
            Kind::Store(StoreMode::Append | StoreMode::Prepend) => extras == 0 && has_key,
            Kind::Store(_) => extras == 8 && has_key,
            Kind::Increment | Kind::Decrement => extras == 20 && has_key && !has_value,
            Kind::Flush => matches!(extras, 0 | 4) && !has_key && !has_value,
            Kind::Verbosity => extras == 4 && !has_key && !has_value,
            Kind::Statistics => extras == 0 && !has_value,
            Kind::Quit | Kind::Nothing | Kind::Version | Kind::ListMechanisms => {
                extras == 0 && !has_key && !has_value
            }
            Kind::Authenticate | Kind::ContinueAuthentication => extras == 0 && has_key,
        }
    }
}

/// Whether success, or a miss where that is what there is to hide, is not answered.
fn is_quiet(opcode: u8) -> bool {
    matches!(opcode, 0x09 | 0x0d | 0x11..=0x1a | 0x1e | 0x24)
}

/// Whether the answer to a retrieval holds the key.
fn shows_key(opcode: u8) -> bool {
    matches!(opcode, 0x0c | 0x0d | 0x23 | 0x24)
}

impl Header {
    /// The header at the start of `buf`, once it is whole.
    #[inline]
    pub(super) fn of(buf: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER_LENGTH] = buf.first_chunk()?;
        let short = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from(short(at)) << 16 | u32::from(short(at + 2));
        Some(Header {
            opcode: bytes[1],
            key_length: usize::from(short(2)),
            extras_length: usize::from(bytes[4]),
            body_length: word(8) as usize,
            opaque: word(12),
            cas: u64::from(word(16)) << 32 | u64::from(word(20)),
        })
    }

    /// The bytes of the whole packet.
    pub(super) fn packet_length(&self) -> usize {
        HEADER_LENGTH + self.body_length
    }

    /// How the packet is to be read.
    #[inline]
    pub(super) fn reading(&self, limits: &ItemLimits) -> Reading {
        let head = self.extras_length + self.key_length;
        let Some(value) = self.body_length.checked_sub(head) else {
            return Reading::Never(Failure::Unknown);
        };
        let Some(kind) = Kind::of(self.opcode) else {
            return Reading::Head(HEADER_LENGTH, Failure::Unknown);
        };
        if self.key_length > KEY_LENGTH_MAX
            || !kind.takes(self.extras_length, self.key_length, value)
        {
            return Reading::Never(Failure::Invalid);
        }
        if value > limits.value {
            return Reading::Head(HEADER_LENGTH + head, Failure::TooLarge);
        }
        Reading::Whole(self.packet_length())
    }

    /// The request to refuse; `head` is what lies before the value, as far as it was read.
    pub(super) fn refused<'a>(
        &self,
        head: &'a [u8],
        failure: Failure<'static>,
        closes: bool,
    ) -> Request<'a> {
        let key = head.get(self.extras_length..).and_then(Key::plain);
        let removes = key.filter(|_| failure == Failure::TooLarge);
        let operation = Operation::Refuse(Refusal { failure, removes, closes });
        Request { operation, form: self.form() }
    }

    /// The request of a packet that is read whole.
    #[inline]
    pub(super) fn request<'a>(&self, body: &'a [u8]) -> Request<'a> {
        let (extras, rest) = body.split_at(self.extras_length);
        let (key, value) = rest.split_at(self.key_length);
        let kind = Kind::of(self.opcode).expect("a packet of another kind is not read");
        let operation = match Key::plain(key) {
            Some(key) => self.keyed(kind, extras, key, value),
            None => Self::keyless(kind, extras),
        };
        Request { operation, form: self.form() }
    }

    fn form(&self) -> Form<'static> {
        Form::Binary { opcode: self.opcode, opaque: self.opaque }
    }

    #[inline]
    fn keyed<'a>(&self, kind: Kind, extras: &[u8], key: Key<'a>, value: &'a [u8]) -> Operation<'a> {
        let compare = (self.cas != 0).then_some(self.cas);
        match kind {
            Kind::Get | Kind::GetAndTouch | Kind::Touch => Operation::Retrieve(Retrieve {
                touch: (kind != Kind::Get).then(|| expiry_at(extras, 0)),
                shows_value: kind != Kind::Touch,
                ..Retrieve::of(Keys::one(key))
            }),
            Kind::Store(mode) => {
                let is_new = !matches!(mode, StoreMode::Append | StoreMode::Prepend);
                // With a CAS value that is the only condition.
                let mode = if is_new && compare.is_some() { StoreMode::Set } else { mode };
                Operation::Store(Store {
                    flags: if is_new { word_at(extras, 0) } else { 0 },
                    expiry: if is_new { expiry_at(extras, 4) } else { Expiry::NEVER },
                    compare,
                    value,
                    ..Store::of(key, mode)
                })
            }
            Kind::Delete => Operation::Delete(Delete { compare, ..Delete::of(key) }),
            Kind::Increment | Kind::Decrement => {
                let initial = (word_at(extras, 16) != NO_INITIAL)
                    .then(|| (long_at(extras, 8), expiry_at(extras, 16)));
                let decrements = kind == Kind::Decrement;
                let delta = long_at(extras, 0);
                Operation::Arithmetic(Arithmetic {
                    initial,
                    compare,
                    ..Arithmetic::of(key, decrements, delta)
                })
            }
            Kind::Statistics => Operation::Statistics(Words::new(key.text())),
            Kind::Authenticate | Kind::ContinueAuthentication => Operation::Authenticate {
                mechanism: key.text(),
                data: value,
                continued: kind == Kind::ContinueAuthentication,
            },
            Kind::Quit
            | Kind::Flush
            | Kind::Nothing
            | Kind::Version
            | Kind::Verbosity
            | Kind::ListMechanisms => Self::keyless(kind, extras),
        }
    }

    fn keyless<'a>(kind: Kind, extras: &[u8]) -> Operation<'a> {
        match kind {
            Kind::Quit => Operation::Quit,
            Kind::Flush if extras.is_empty() => Operation::Flush(Expiry::NEVER),
            Kind::Flush => Operation::Flush(expiry_at(extras, 0)),
            Kind::Nothing => Operation::Nothing,
            Kind::Version => Operation::Version,
            Kind::Statistics => Operation::Statistics(Words::default()),
            Kind::Verbosity => Operation::Verbosity,
            Kind::ListMechanisms => Operation::ListMechanisms,
            _ => Operation::refuse(Failure::Invalid),
        }
    }
}

fn word_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes[at..].first_chunk().expect("the length of the extras was checked");
    u32::from_be_bytes(*word)
}

fn long_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(word_at(bytes, at)) << 32 | u64::from(word_at(bytes, at + 4))
}

fn expiry_at(bytes: &[u8], at: usize) -> Expiry {
    Expiry(i64::from(word_at(bytes, at)))
}

/// The parts of a response that most have not.
#[derive(Default)]
struct Packet<'v> {
    status: u16,
    cas: u64,
    extras: &'v [u8],
    key: &'v [u8],
}

/// Writes what a request brought about.
pub(super) fn answer(
    out: &mut Output,
    request: &Request<'_>,
    opcode: u8,
    opaque: u32,
    response: Response<'_>,
) {
    let mut send = |packet: Packet<'_>, value: ItemValue<'_>| {
        push_header(out, opcode, opaque, &packet, value.len());
        value.push_to(out);
    };
    let plain = |text| ItemValue::Plain(text);
    let none = ItemValue::Plain(b"");
    match response {
        Response::Hit(item) => {
            let extras = item.flags.to_be_bytes();
            let key = if shows_key(opcode) { item.key } else { b"" };
            let shown = !matches!(Kind::of(opcode), Some(Kind::Touch));
            let packet = Packet { cas: item.cas, extras: &extras, key, ..Packet::default() };
            send(packet, if shown { item.value } else { none });
        }
        Response::Miss if shows_key(opcode) && !is_quiet(opcode) => {
            let key = request.operation.key().map_or(&b""[..], |key| key.text());
            send(Packet { status: NOT_FOUND.0, key, ..Packet::default() }, none);
        }
        Response::End if !matches!(request.operation, Operation::Statistics(_)) => {}
        Response::Miss
        | Response::Stored { .. }
        | Response::Deleted
        | Response::Touched
        | Response::Number(_)
        | Response::Ok
            if is_quiet(opcode) => {}
        Response::Stored { cas, .. } => send(Packet { cas, ..Packet::default() }, none),
        Response::Number(number) => {
            let packet = Packet { cas: number.cas, ..Packet::default() };
            send(packet, plain(&number.value.to_be_bytes()));
        }
        Response::Statistic { name, value } => {
            send(Packet { key: name, ..Packet::default() }, plain(value));
        }
        Response::Version(text) | Response::Mechanisms(text) | Response::Inspected(text) => {
            send(Packet::default(), plain(text));
        }
        Response::Authenticated => send(Packet::default(), plain(b"Authenticated")),
        Response::Deleted
        | Response::Touched
        | Response::Ok
        | Response::End
        | Response::Line(_) => send(Packet::default(), none),
        Response::Miss | Response::NotFound | Response::NotStored | Response::Exists => {
            let (status, text) = refusal_of(opcode, &response);
            send(Packet { status, ..Packet::default() }, plain(text));
        }
        Response::Failed(failure) => {
            let (status, text) = status_of(failure);
            send(Packet { status, ..Packet::default() }, plain(text.as_bytes()));
        }
    }
}

const NOT_FOUND: (u16, &[u8]) = (0x01, b"Not found");
const EXISTS: (u16, &[u8]) = (0x02, b"Data exists for key.");
const NOT_STORED: (u16, &[u8]) = (0x05, b"Not stored.");

fn refusal_of(opcode: u8, response: &Response<'_>) -> (u16, &'static [u8]) {
    match (response, Kind::of(opcode)) {
        (Response::Exists, _) | (Response::NotStored, Some(Kind::Store(StoreMode::Add))) => EXISTS,
        (Response::NotStored, Some(Kind::Store(StoreMode::Append | StoreMode::Prepend))) => {
            NOT_STORED
        }
        _ => NOT_FOUND,
    }
}

fn status_of(failure: Failure<'_>) -> (u16, &str) {
    match failure {
        Failure::TooLarge => (0x03, "Too large."),
        Failure::Invalid | Failure::BadFormat => (0x04, "Invalid arguments"),
        Failure::Client(text) => (0x04, text),
        Failure::NotANumber => (0x06, "Non-numeric server-side value for incr or decr"),
        Failure::Unauthenticated | Failure::AuthenticationFailed => (0x20, "Auth failure."),
        Failure::Unknown => (0x81, "Unknown command"),
        Failure::OutOfMemory => (0x82, "Out of memory"),
        Failure::Server(text) => (0x84, text),
    }
}

fn push_header(out: &mut Output, opcode: u8, opaque: u32, packet: &Packet<'_>, value: usize) {
    let key_length = u16::try_from(packet.key.len()).expect("a name is short");
    let body = packet.extras.len() + packet.key.len() + value;
    let body = u32::try_from(body).expect("a value is shorter than 4 GiB");
    let mut header = [0; HEADER_LENGTH];
    header[0] = RESPONSE;
    header[1] = opcode;
    header[2..4].copy_from_slice(&key_length.to_be_bytes());
    header[4] = packet.extras.len() as u8;
    header[6..8].copy_from_slice(&packet.status.to_be_bytes());
    header[8..12].copy_from_slice(&body.to_be_bytes());
    header[12..16].copy_from_slice(&opaque.to_be_bytes());
    header[16..24].copy_from_slice(&packet.cas.to_be_bytes());
    let tail = out.tail();
    tail.reserve(HEADER_LENGTH + packet.extras.len() + packet.key.len());
    tail.extend_from_slice(&header);
    tail.extend_from_slice(packet.extras);
    tail.extend_from_slice(packet.key);
}
