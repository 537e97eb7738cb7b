//! Replies: the types of RESP3, and the forms that RESP2 has for them.
//!
//! Invariant: whatever text a caller passes, a simple string or an error stays one line.

use base::SharedBytes;
use base::number::{format_f64, format_i64};

use crate::output::{Mark, Output};

/// The protocol version that a client has chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resp {
    /// Version 2, until HELLO says otherwise.
    #[default]
    Two,
    /// Version 3.
    Three,
}

/// Writes the replies of a command to its session's output.
#[derive(Debug)]
pub struct Reply<'a> {
    out: &'a mut Output,
    resp: Resp,
}

impl<'a> Reply<'a> {
    /// Writes to `out` in the form of `resp`.
    #[inline]
    pub fn new(out: &'a mut Output, resp: Resp) -> Reply<'a> {
        Reply { out, resp }
    }

    /// The same reply for a callee.
    #[inline]
    pub fn reborrow(&mut self) -> Reply<'_> {
        Reply { out: self.out, resp: self.resp }
    }

    /// The version written.
    #[inline]
    pub fn resp(&self) -> Resp {
        self.resp
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// A simple string.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error; `text` begins with its code, as in `ERR no such key`.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        self.line(b'-', text.as_ref());
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        push_integer_line(self.out.tail(), b':', number);
    }

    /// A bulk string.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        let tail = self.out.tail();
        tail.reserve(bytes.len() + FRAME);
        push_header(tail, b'$', bytes.len());
        tail.extend_from_slice(bytes);
        tail.extend_from_slice(b"\r\n");
    }

    /// A bulk string that holds the digits of an integer.
    #[inline]
    pub fn bulk_integer(&mut self, number: i64) {
        self.bulk(format_i64(number, &mut [0; 20]));
    }

    /// A bulk string of shared bytes, pinned until they are sent if they are many.
    pub fn bulk_shared(&mut self, bytes: Box<dyn SharedBytes>) {
        self.header(b'$', bytes.len());
        self.out.push_shared(bytes);
        self.raw(b"\r\n");
    }

    /// Nothing, where a value could be.
    #[inline]
    pub fn null(&mut self) {
        self.raw(self.choose(b"$-1\r\n", b"_\r\n"));
    }

    /// Nothing, where an array could be.
    pub fn null_array(&mut self) {
        self.raw(self.choose(b"*-1\r\n", b"_\r\n"));
    }

    /// Begins an array of `count` elements.
    #[inline]
    pub fn array(&mut self, count: usize) {
        self.header(b'*', count);
    }

    /// Begins a map of `count` pairs: in RESP2 an array of twice as many elements.
    pub fn map(&mut self, count: usize) {
        match self.resp {
            Resp::Two => self.header(b'*', count * 2),
            Resp::Three => self.header(b'%', count),
        }
    }

    /// Begins a set of `count` elements: in RESP2 an array.
    pub fn set(&mut self, count: usize) {
        self.header(self.choose(b'*', b'~'), count);
    }

    /// Begins a message that answers no request: in RESP2 an array.
    pub fn push(&mut self, count: usize) {
        self.header(self.choose(b'*', b'>'), count);
    }

    /// Begins an attribute of `count` pairs for the value that follows. RESP2 has none: then
    /// nothing is written and the pairs must be left out.
    #[must_use]
    pub fn attribute(&mut self, count: usize) -> bool {
        let known = self.resp == Resp::Three;
        if known {
            self.header(b'|', count);
        }
        known
    }

    /// A double: in RESP2 a bulk string of its digits.
    pub fn double(&mut self, number: f64) {
        let text = format_f64(number);
        match self.resp {
            Resp::Two => self.bulk(&text),
            Resp::Three => self.line(b',', &text),
        }
    }

    /// A truth value: in RESP2 1 or 0.
    pub fn boolean(&mut self, value: bool) {
        match (self.resp, value) {
            (Resp::Two, _) => self.integer(i64::from(value)),
            (Resp::Three, true) => self.raw(b"#t\r\n"),
            (Resp::Three, false) => self.raw(b"#f\r\n"),
        }
    }

    /// The digits of an integer of any size: in RESP2 a bulk string.
    pub fn big_number(&mut self, digits: &str) {
        match self.resp {
            Resp::Two => self.bulk(digits.as_bytes()),
            Resp::Three => self.line(b'(', digits.as_bytes()),
        }
    }

    /// Text with its three-letter format: in RESP2 a bulk string.
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        debug_assert_eq!(format.len(), 3, "the protocol wants three letters");
        match self.resp {
            Resp::Two => self.bulk(text),
            Resp::Three => {
                self.header(b'=', text.len() + format.len() + 1);
                self.raw(format.as_bytes());
                self.raw(b":");
                self.raw(text);
                self.raw(b"\r\n");
            }
        }
    }

    /// Begins an aggregate whose size is not yet known: write its elements, then finish it with
    /// the mark. Inner ones are finished before outer ones.
    #[must_use]
    pub fn defer(&mut self) -> Mark {
        self.out.mark()
    }

    /// Makes all that came since `mark` an array of `count` elements.
    pub fn finish_array(&mut self, mark: Mark, count: usize) {
        self.finish(mark, b'*', count);
    }

    /// Makes all that came since `mark` a map of `count` pairs.
    pub fn finish_map(&mut self, mark: Mark, count: usize) {
        match self.resp {
            Resp::Two => self.finish(mark, b'*', count * 2),
            Resp::Three => self.finish(mark, b'%', count),
        }
    }

    /// Makes all that came since `mark` a set of `count` elements.
    pub fn finish_set(&mut self, mark: Mark, count: usize) {
        self.finish(mark, self.choose(b'*', b'~'), count);
    }

    /// The present end of the output, for [`rollback`](Self::rollback).
    pub fn mark(&self) -> Mark {
        self.out.mark()
    }

    /// Takes back all that came since `mark`, because the command runs again or failed.
    pub fn rollback(&mut self, mark: Mark) {
        self.out.truncate(mark);
    }

    /// Bytes that are replies already.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.tail().extend_from_slice(bytes);
    }

    #[inline]
    fn choose<T>(&self, two: T, three: T) -> T {
        match self.resp {
            Resp::Two => two,
            Resp::Three => three,
        }
    }

    #[inline]
    fn header(&mut self, kind: u8, count: usize) {
        push_header(self.out.tail(), kind, count);
    }

    fn finish(&mut self, mark: Mark, kind: u8, count: usize) {
        let mut header = Vec::with_capacity(FRAME);
        push_header(&mut header, kind, count);
        self.out.insert(mark, &header);
    }

    /// Line ends in the text would be taken for the end of the reply, and NUL for its end by C.
    fn line(&mut self, kind: u8, text: &[u8]) {
        let tail = self.out.tail();
        tail.reserve(text.len() + 3);
        tail.push(kind);
        let start = tail.len();
        tail.extend_from_slice(text);
        for byte in &mut tail[start..] {
            if matches!(byte, b'\r' | b'\n' | 0) {
                *byte = b' ';
            }
        }
        tail.extend_from_slice(b"\r\n");
    }
}

/// The most that a header line and the line end behind a bulk string take.
const FRAME: usize = 32;

/// Appends a kind, a count and a line end.
#[inline]
pub(crate) fn push_header(out: &mut Vec<u8>, kind: u8, count: usize) {
    if count < 10 {
        out.extend_from_slice(&[kind, b'0' + count as u8, b'\r', b'\n']);
    } else {
        push_integer_line(out, kind, i64::try_from(count).unwrap_or(i64::MAX));
    }
}

#[inline]
fn push_integer_line(out: &mut Vec<u8>, kind: u8, number: i64) {
    let mut digits = [0; 20];
    let digits = format_i64(number, &mut digits);
    let mut line = [0; 23];
    let end = digits.len() + 1;
    line[0] = kind;
    line[1..end].copy_from_slice(digits);
    line[end..end + 2].copy_from_slice(b"\r\n");
    out.extend_from_slice(&line[..end + 2]);
}
