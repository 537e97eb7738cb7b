//! What a request brought about, and its way to bytes in the form of the request.
//!
//! Invariant: one request, one answer; a retrieval is answered with a hit or a miss for each key
//! and then an end. What the client does not want to hear is left out here and nowhere else.

use base::SharedBytes;
use base::number::{format_i64, format_u64};

use super::{Failure, Form, Request, binary, meta, text};
use crate::output::Output;

/// The outcome of a request, or of a part of it.
pub enum Response<'v> {
    /// A key that was read has an item.
    Hit(Item<'v>),
    /// A key that was read has none.
    Miss,
    /// All keys, or all figures, are there.
    End,
    /// The item is written, and has this CAS value now.
    Stored {
        /// The new one.
        cas: u64,
        /// How long its value is now.
        size: usize,
    },
    /// The condition of the store mode does not hold.
    NotStored,
    /// The item has another CAS value.
    Exists,
    /// There is no such item to change.
    NotFound,
    /// The item is gone, or marked.
    Deleted,
    /// The item expires at another time now.
    Touched,
    /// The item's number has changed.
    Number(Number),
    /// What people want to know of an item, as `name=value` words.
    Inspected(&'v [u8]),
    /// The request is done, and there is nothing to tell.
    Ok,
    /// The version.
    Version(&'v [u8]),
    /// One figure.
    Statistic {
        /// Its name.
        name: &'v [u8],
        /// What the statistic is at.
        value: &'v [u8],
    },
    /// A line of text.
    Line(&'v [u8]),
    /// The names of the mechanisms of authentication.
    Mechanisms(&'v [u8]),
    /// The login succeeded.
    Authenticated,
    /// The request was not done.
    Failed(Failure<'v>),
}

/// An item that was read.
pub struct Item<'v> {
    /// Its key.
    pub key: &'v [u8],
    /// Its value.
    pub value: ItemValue<'v>,
    /// The client's flags.
    pub flags: u32,
    /// Its CAS value.
    pub cas: u64,
    /// The seconds it has left; `None` for ever.
    pub ttl_s: Option<u64>,
    /// The seconds since it was last read or written.
    pub idle_s: u64,
    /// Whether the item was read before.
    pub was_read: bool,
    /// Whether the item is marked as stale.
    pub stale: bool,
    /// Whether this client has won the right to fill it anew.
    pub won: bool,
    /// Whether another client has.
    pub taken: bool,
}

/// The bytes of an item.
pub enum ItemValue<'v> {
    /// In one piece.
    Plain(&'v [u8]),
    /// Shared, to be pinned until they are sent if they are many.
    Shared(Box<dyn SharedBytes>),
}

impl ItemValue<'_> {
    /// How many bytes there are.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        match self {
            ItemValue::Plain(bytes) => bytes.len(),
            ItemValue::Shared(bytes) => bytes.len(),
        }
    }

    #[inline]
    pub(super) fn push_to(self, out: &mut Output) {
        match self {
            ItemValue::Plain(bytes) => out.tail().extend_from_slice(bytes),
            ItemValue::Shared(bytes) => out.push_shared(bytes),
        }
    }
}

/// A number that was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// What the number is now.
    pub value: u64,
    /// The CAS value of its item.
    pub cas: u64,
    /// The seconds that the item has left; `None` for ever.
    pub ttl_s: Option<u64>,
    /// Whether there was no item before.
    pub is_new: bool,
}

/// Writes what a request brought about.
#[inline]
pub fn answer(out: &mut Output, request: &Request<'_>, response: Response<'_>) {
    match &request.form {
        Form::Text { with_cas, quiet } => text::answer(out, *with_cas, *quiet, response),
        Form::Meta(flags) => meta::answer(out, request, flags, response),
        Form::Binary { opcode, opaque } => binary::answer(out, request, *opcode, *opaque, response),
    }
}

/// Writes a failure as both text protocols tell it.
pub(super) fn push_failure(out: &mut Output, failure: &Failure<'_>) {
    let (kind, text) = match *failure {
        Failure::Unknown => ("ERROR", ""),
        Failure::BadFormat => ("CLIENT_ERROR ", "bad command line format"),
        Failure::Invalid => ("CLIENT_ERROR ", "invalid arguments"),
        Failure::TooLarge => ("SERVER_ERROR ", "object too large for cache"),
        Failure::OutOfMemory => ("SERVER_ERROR ", "out of memory storing object"),
        Failure::NotANumber => ("CLIENT_ERROR ", "cannot increment or decrement non-numeric value"),
        Failure::Unauthenticated => ("CLIENT_ERROR ", "unauthenticated"),
        Failure::AuthenticationFailed => ("CLIENT_ERROR ", "authentication failure"),
        Failure::Client(text) => ("CLIENT_ERROR ", text),
        Failure::Server(text) => ("SERVER_ERROR ", text),
    };
    let tail = out.tail();
    tail.extend_from_slice(kind.as_bytes());
    tail.extend_from_slice(text.as_bytes());
    tail.extend_from_slice(b"\r\n");
}

/// Appends a number in decimal digits.
#[inline]
pub(super) fn push_number(tail: &mut Vec<u8>, number: u64) {
    // Most are small: flags are zero, and values have fewer than a thousand bytes.
    match number {
        0..10 => tail.push(b'0' + number as u8),
        _ => tail.extend_from_slice(format_u64(number, &mut [0; 20])),
    }
}

/// Appends the seconds that an item has left, -1 for all the time in the world.
pub(super) fn push_ttl(tail: &mut Vec<u8>, ttl_s: Option<u64>) {
    let seconds = ttl_s.map_or(-1, |seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
    tail.extend_from_slice(format_i64(seconds, &mut [0; 20]));
}
