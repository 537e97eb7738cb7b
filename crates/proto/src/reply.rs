//! Replies: the types of RESP3, and the forms that RESP2 has for them.
//!
//! Invariant: whatever text a caller passes, a simple string or an error stays one line.

use std::sync::Arc;

use base::SharedBytes;
use base::number::{format_f64, format_i64};

use crate::output::{Mark, Output};
use crate::source::Source;

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

    /// What is written to.
    pub fn output(&self) -> &Output {
        self.out
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

    /// Writes in another version from here on, as HELLO does.
    pub fn speak(&mut self, resp: Resp) {
        self.resp = resp;
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// A simple string.
    pub fn simple(&mut self, text: impl AsRef<[u8]>) {
        self.line(b'+', text.as_ref());
    }

    /// An error; `text` begins with its code, as in `ERR no such key`. Line ends at its end, which
    /// come from a client's word, are cut off as Redis does.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n'));
        self.line(b'-', &text[..end.map_or(0, |last| last + 1)]);
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        push_integer_line(self.out.tail(), b':', number);
    }

    /// A pair of a map: a name, and a number, of which no more is told than fits an integer.
    pub fn integer_field(&mut self, name: &str, number: impl TryInto<i64>) {
        self.bulk(name.as_bytes());
        self.integer(number.try_into().unwrap_or(i64::MAX));
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

    /// The rest of the reply, made while it is sent; nothing may be written behind it.
    pub fn stream(&mut self, source: Box<dyn Source>) {
        self.out.push_source(source, self.resp);
    }

    /// How many bytes are written and not sent.
    pub fn unsent(&self) -> usize {
        self.out.len()
    }

    /// How many of these were copied, and are not shared.
    pub fn copied(&self) -> usize {
        self.out.copied()
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

    /// A message for many clients, which share its bytes. These are those of RESP2; in RESP3 an
    /// array is a push.
    pub fn message(&mut self, bytes: &Arc<[u8]>) {
        let is_push = self.resp == Resp::Three && bytes.first() == Some(&b'*');
        if is_push {
            self.raw(b">");
        }
        self.out.push_rest(bytes, usize::from(is_push));
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
    pub fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        match self.resp {
            Resp::Two => self.bulk(text),
            Resp::Three => {
                self.header(b'=', text.len() + format.len() + 1);
                self.raw(format);
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

    /// Makes all that came since `mark` what a scan found: `count` elements, behind the cursor.
    pub fn finish_scan(&mut self, mark: Mark, cursor: u64, count: usize) {
        let (mut head, mut digits) = (Vec::with_capacity(3 * FRAME), [0; 20]);
        let digits = format_i64(cursor as i64, &mut digits);
        push_header(&mut head, b'*', 2);
        push_header(&mut head, b'$', digits.len());
        head.extend_from_slice(digits);
        head.extend_from_slice(b"\r\n");
        push_header(&mut head, b'*', count);
        self.out.insert(mark, &head);
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

    /// Line ends in the text would be taken for the end of the reply. All other bytes are sent as
    /// they are.
    fn line(&mut self, kind: u8, text: &[u8]) {
        let tail = self.out.tail();
        tail.reserve(text.len() + 3);
        tail.push(kind);
        let start = tail.len();
        tail.extend_from_slice(text);
        for byte in &mut tail[start..] {
            if matches!(byte, b'\r' | b'\n') {
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
    // Most counts are short: these two forms are worth their lines.
    if count < 10 {
        out.extend_from_slice(&[kind, b'0' + count as u8, b'\r', b'\n']);
    } else if count < 100 {
        let (tens, ones) = (count as u8 / 10, count as u8 % 10);
        out.extend_from_slice(&[kind, b'0' + tens, b'0' + ones, b'\r', b'\n']);
    } else {
        push_integer_line(out, kind, i64::try_from(count).unwrap_or(i64::MAX));
    }
}

/// How many bytes `push_header` appends.
#[inline]
pub(crate) fn header_len(count: usize) -> usize {
    let digits = count.checked_ilog10().map_or(1, |power| power as usize + 1);
    1 + digits + 2
}

/// Whether some bytes, as many as `push_header` appends for it, are what it appends.
#[inline]
pub(crate) fn is_header(bytes: &[u8], kind: u8, count: usize) -> bool {
    let [first, digits @ .., b'\r', b'\n'] = bytes else { return false };
    let mut number = 0_usize;
    for digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return false;
        }
        number = number.wrapping_mul(10).wrapping_add(usize::from(value));
    }
    // Of numbers with so many digits this one has no zeros before it.
    *first == kind && number == count
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::{Just, Strategy, any, prop, prop_oneof};
    use proptest::{prop_assert_eq, proptest};

    use super::{Reply, Resp};
    use crate::output::Output;
    use crate::value::{ReplyLimits, ReplyParser, Value};

    fn bytes(output: &mut Output) -> Vec<u8> {
        let mut bytes = Vec::new();
        while !output.is_empty() {
            bytes.extend_from_slice(output.front());
            output.consume(output.front().len());
        }
        bytes
    }

    fn written(resp: Resp, write: impl FnOnce(&mut Reply<'_>)) -> String {
        let mut output = Output::new();
        write(&mut Reply::new(&mut output, resp));
        String::from_utf8(bytes(&mut output)).unwrap()
    }

    #[test]
    fn each_reply_is_written_in_resp2_and_in_resp3() {
        type Write = fn(&mut Reply<'_>);
        let table: [(Write, &str, &str); 27] = [
            (|reply| reply.ok(), "+OK|", "+OK|"),
            (|reply| reply.simple("PONG"), "+PONG|", "+PONG|"),
            (|reply| reply.error("ERR no"), "-ERR no|", "-ERR no|"),
            (|reply| reply.error("ERR no\r\n\n"), "-ERR no|", "-ERR no|"),
            (|reply| reply.integer(-42), ":-42|", ":-42|"),
            (|reply| reply.bulk(b"hello"), "$5|hello|", "$5|hello|"),
            (|reply| reply.bulk(b""), "$0||", "$0||"),
            (|reply| reply.bulk(b"0123456789"), "$10|0123456789|", "$10|0123456789|"),
            (
                |reply| reply.bulk_integer(i64::MIN),
                "$20|-9223372036854775808|",
                "$20|-9223372036854775808|",
            ),
            (
                |reply| reply.bulk_shared(Box::new(Box::<[u8]>::from(&b"ab"[..]))),
                "$2|ab|",
                "$2|ab|",
            ),
            (|reply| reply.null(), "$-1|", "_|"),
            (|reply| reply.null_array(), "*-1|", "_|"),
            (|reply| reply.array(3), "*3|", "*3|"),
            (|reply| reply.array(123_456), "*123456|", "*123456|"),
            (|reply| reply.map(7), "*14|", "%7|"),
            (|reply| reply.set(2), "*2|", "~2|"),
            (|reply| reply.push(2), "*2|", ">2|"),
            (|reply| reply.message(&b"*1\r\n:1\r\n"[..].into()), "*1|:1|", ">1|:1|"),
            (|reply| reply.message(&b"+line\r\n"[..].into()), "+line|", "+line|"),
            (|reply| reply.double(1.5), "$3|1.5|", ",1.5|"),
            (|reply| reply.double(f64::NEG_INFINITY), "$4|-inf|", ",-inf|"),
            (|reply| reply.boolean(true), ":1|", "#t|"),
            (|reply| reply.boolean(false), ":0|", "#f|"),
            (|reply| reply.big_number("-123"), "$4|-123|", "(-123|"),
            (|reply| reply.verbatim(b"txt", b"text"), "$4|text|", "=8|txt:text|"),
            (|reply| _ = reply.attribute(1), "", "|1|"),
            (|reply| reply.reborrow().raw(b":1\r\n"), ":1|", ":1|"),
        ];
        for (write, two, three) in table {
            assert_eq!(written(Resp::Two, write).replace("\r\n", "|"), two);
            assert_eq!(written(Resp::Three, write).replace("\r\n", "|"), three);
        }
    }

    /// H10: text of a client inside a line does not end the line.
    #[test]
    fn lines_stay_lines() {
        let text = written(Resp::Two, |reply| reply.error("ERR 'a\r\n+OK\r\n\0b'"));
        assert_eq!(text, "-ERR 'a  +OK  \0b'\r\n");
        assert_eq!(written(Resp::Two, |reply| reply.simple("a\nb")), "+a b\r\n");
        assert_eq!(written(Resp::Three, |reply| reply.big_number("1\n2")), "(1 2\r\n");
    }

    /// H08: deferred headers, nested, around replies of every size near the pin and buffer sizes.
    #[test]
    fn deferred_headers() {
        for length in (0..40).chain(4080..4110).chain(16_370..16_400) {
            let shared = vec![b's'; length].into_boxed_slice();
            let mut output = Output::new();
            let mut reply = Reply::new(&mut output, Resp::Three);
            reply.bulk(&shared);
            let outer = reply.defer();
            reply.bulk_shared(Box::new(shared.clone()));
            let inner = reply.defer();
            for _ in 0..12 {
                reply.bulk_shared(Box::new(shared.clone()));
            }
            reply.finish_set(inner, 12);
            let empty = reply.defer();
            reply.finish_map(empty, 0);
            reply.finish_array(outer, 3);
            reply.integer(1);

            let bulk = || Value::Bulk(shared.to_vec());
            let inner = Value::Set((0..12).map(|_| bulk()).collect());
            let outer = Value::Array(vec![bulk(), inner, Value::Map(vec![])]);
            let mut parser = ReplyParser::new(ReplyLimits::default());
            parser.feed(&bytes(&mut output));
            for expected in [bulk(), outer, Value::Integer(1)] {
                assert_eq!(parser.next_reply(), Ok(Some(expected)));
            }
            assert_eq!(parser.next_reply(), Ok(None));
        }
    }

    #[test]
    fn long_messages_are_shared() {
        let bytes = [&b"*"[..], &[b'x'; 10_000]].concat();
        let shared = Arc::from(&bytes[..]);
        for (resp, first) in [(Resp::Two, b'*'), (Resp::Three, b'>')] {
            let mut output = Output::new();
            Reply::new(&mut output, resp).message(&shared);
            assert_eq!(Arc::strong_count(&shared), 2);
            assert_eq!(self::bytes(&mut output), [&[first], &bytes[1..]].concat());
        }
    }

    #[test]
    fn a_reply_can_be_taken_back() {
        let text = written(Resp::Two, |reply| {
            reply.integer(1);
            let mark = reply.mark();
            reply.array(2);
            reply.bulk_shared(Box::new(vec![0; 10_000].into_boxed_slice()));
            reply.rollback(mark);
            reply.integer(2);
        });
        assert_eq!(text, ":1\r\n:2\r\n");
    }

    /// Writes a value, its aggregates by announced or by deferred headers.
    fn write(reply: &mut Reply<'_>, value: &Value, defer: bool) {
        match value {
            Value::Simple(text) => reply.simple(std::str::from_utf8(text).unwrap()),
            Value::Error(text) => reply.error(text),
            Value::Integer(number) => reply.integer(*number),
            Value::Bulk(bytes) if defer => {
                reply.bulk_shared(Box::new(bytes.clone().into_boxed_slice()));
            }
            Value::Bulk(bytes) => reply.bulk(bytes),
            Value::Null => reply.null(),
            Value::NullArray => reply.null_array(),
            Value::Double(number) => reply.double(*number),
            Value::DoubleText(_) => unreachable!("no value here keeps a double's text"),
            Value::Boolean(truth) => reply.boolean(*truth),
            Value::BigNumber(digits) => reply.big_number(std::str::from_utf8(digits).unwrap()),
            Value::Verbatim(_, text) => reply.verbatim(b"mkd", text),
            Value::Push(items) => {
                reply.push(items.len());
                items.iter().for_each(|item| write(reply, item, defer));
            }
            Value::Attributed(attributes, value) => {
                if reply.attribute(attributes.len()) {
                    write_pairs(reply, attributes, defer);
                }
                write(reply, value, defer);
            }
            Value::Array(_) | Value::Set(_) | Value::Map(_) if defer => {
                let mark = reply.defer();
                match value {
                    Value::Map(pairs) => {
                        write_pairs(reply, pairs, defer);
                        reply.finish_map(mark, pairs.len());
                    }
                    Value::Set(items) => {
                        items.iter().for_each(|item| write(reply, item, defer));
                        reply.finish_set(mark, items.len());
                    }
                    Value::Array(items) => {
                        items.iter().for_each(|item| write(reply, item, defer));
                        reply.finish_array(mark, items.len());
                    }
                    _ => unreachable!("only these three come here"),
                }
            }
            Value::Array(items) => {
                reply.array(items.len());
                items.iter().for_each(|item| write(reply, item, defer));
            }
            Value::Set(items) => {
                reply.set(items.len());
                items.iter().for_each(|item| write(reply, item, defer));
            }
            Value::Map(pairs) => {
                reply.map(pairs.len());
                write_pairs(reply, pairs, defer);
            }
        }
    }

    fn write_pairs(reply: &mut Reply<'_>, pairs: &[(Value, Value)], defer: bool) {
        for (key, value) in pairs {
            write(reply, key, defer);
            write(reply, value, defer);
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            "[a-z ]{0,9}".prop_map(|text| Value::Simple(text.into_bytes())),
            "[A-Z]{1,9}".prop_map(|text| Value::Error(text.into_bytes())),
            any::<i64>().prop_map(Value::Integer),
            any::<Vec<u8>>().prop_map(Value::Bulk),
            (4000..9000_usize).prop_map(|length| Value::Bulk(vec![b'x'; length])),
            Just(Value::Null),
            any::<f64>().prop_filter("a number", |number| !number.is_nan()).prop_map(Value::Double),
            any::<bool>().prop_map(Value::Boolean),
            "-?[0-9]{1,40}".prop_map(|text| Value::BigNumber(text.into_bytes())),
            any::<Vec<u8>>().prop_map(|text| Value::Verbatim(*b"mkd", text)),
        ];
        leaf.prop_recursive(4, 64, 12, |inner| {
            let pairs = prop::collection::vec((inner.clone(), inner.clone()), 0..12);
            let list = prop::collection::vec(inner.clone(), 0..12);
            prop_oneof![
                list.clone().prop_map(Value::Array),
                list.clone().prop_map(Value::Set),
                list.prop_map(Value::Push),
                pairs.clone().prop_map(Value::Map),
                (pairs, inner).prop_map(|(pairs, value)| Value::Attributed(pairs, Box::new(value))),
            ]
        })
    }

    proptest! {
        /// What is written in RESP3 is read back, however it is cut.
        #[test]
        fn round_trip(
            values in prop::collection::vec(value(), 1..4),
            defer: bool,
            piece in 1..200_usize,
        ) {
            let mut output = Output::new();
            let mut reply = Reply::new(&mut output, Resp::Three);
            for value in &values {
                write(&mut reply, value, defer);
            }
            let mut parser = ReplyParser::new(ReplyLimits::default());
            let mut read = Vec::new();
            for bytes in bytes(&mut output).chunks(piece) {
                parser.feed(bytes);
                while let Some(value) = parser.next_reply().unwrap() {
                    read.push(value);
                }
            }
            prop_assert_eq!(read, values);
        }
    }
}
