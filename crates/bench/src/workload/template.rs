//! A request prepared as bytes: what never changes is written once, and a request is made by
//! copying around the key's digits and the value. Invariant: what is appended is one RESP array
//! of bulk strings, or one request to memcached, each part with its true length.

use std::ops::Range;

use base::number::format_i64;

use super::memcached::Packet;
use super::values::{Value, ValueSource};

/// The placeholders of `--command`.
const KEY: &[u8] = b"__key__";
const DATA: &[u8] = b"__data__";

/// Digits of the largest key number.
const DIGITS_MAX: usize = 19;

/// Fixed bytes before a key that are worth a copy for each number of digits.
const LEAD_MAX: usize = 256;

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// These bytes.
    Literal(Vec<u8>),
    /// The digits of the key.
    Key,
    /// The value.
    Data,
    /// The digits of the value's length.
    DataLength,
    /// The digits of one of the fields' numbers.
    Number(usize),
}

/// What fills the gaps of one request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields {
    pub(super) key: u64,
    pub(super) value: Value,
    pub(super) numbers: [u64; 2],
}

/// A request with gaps.
#[derive(Debug)]
pub(super) struct Template {
    pieces: Vec<Piece>,
    has_data: bool,
    has_number: bool,
}

#[derive(Debug)]
enum Piece {
    /// Bytes as they are.
    Bytes(Vec<u8>),
    /// A word that is the key between fixed bytes, and what follows it.
    Key(Box<KeyWord>),
    /// A word that is the value.
    Value,
    /// Any other word with gaps.
    Word(Vec<Segment>),
    /// What memcached reads: a line, and the value behind it.
    Line(Vec<Segment>),
    /// The same as a packet.
    Packet(Packet),
}

/// A word that holds the key once.
#[derive(Debug)]
struct KeyWord {
    /// What precedes the digits, by their number less one: fixed bytes from before the word, its
    /// length line, its own first bytes.
    heads: [Vec<u8>; DIGITS_MAX],
    prefix_len: usize,
    suffix_len: usize,
    /// The bytes after the digits, the end of the word, and all fixed bytes up to the next gap.
    tail: Vec<u8>,
}

impl Segment {
    /// The segments of a word of `--command`. `__key__` is the prefix and the number.
    pub(super) fn split(word: &[u8], prefix: &[u8], values: &ValueSource) -> Vec<Self> {
        let mut segments = Vec::new();
        let mut literal = Vec::new();
        let mut rest = word;
        while let Some(first) = rest.first() {
            let gap = if let Some(after) = rest.strip_prefix(KEY) {
                literal.extend_from_slice(prefix);
                Some((Self::Key, after))
            } else {
                rest.strip_prefix(DATA).map(|after| (values.segment(), after))
            };
            if let Some((segment, after)) = gap {
                segments.extend([Self::Literal(std::mem::take(&mut literal)), segment]);
                rest = after;
            } else {
                literal.push(*first);
                rest = &rest[1..];
            }
        }
        segments.push(Self::Literal(literal));
        segments.retain(|segment| *segment != Self::Literal(Vec::new()));
        segments
    }

    fn len(&self, fields: &Fields) -> usize {
        match self {
            Self::Literal(bytes) => bytes.len(),
            Self::Key => digits_len(fields.key),
            Self::Data => fields.value.len,
            Self::DataLength => digits_len(fields.value.len as u64),
            Self::Number(index) => digits_len(fields.numbers[*index]),
        }
    }

    fn append(&self, fields: &Fields, values: &ValueSource, out: &mut Vec<u8>) {
        match self {
            Self::Literal(bytes) => out.extend_from_slice(bytes),
            Self::Key => append_number(fields.key, out),
            Self::Data => values.append(fields.value, out),
            Self::DataLength => append_number(fields.value.len as u64, out),
            Self::Number(index) => append_number(fields.numbers[*index], out),
        }
    }
}

impl Template {
    /// Prepares a request of these words.
    pub(super) fn compile(words: &[Vec<Segment>]) -> Self {
        let uses = |gap: &Segment| words.iter().any(|word| word.contains(gap));
        let (has_data, has_number) = (uses(&Segment::Data), uses(&Segment::Number(0)));
        let mut template = Self { pieces: Vec::new(), has_data, has_number };
        template.push_fixed(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            template.push_word(word);
        }
        template
    }

    /// Prepares a line of memcached's text protocol, with the value behind it if it has one.
    pub(super) fn line(segments: Vec<Segment>) -> Self {
        let uses = |gap: &Segment| segments.contains(gap);
        let (has_data, has_number) = (uses(&Segment::Data), uses(&Segment::Number(0)));
        Self { pieces: vec![Piece::Line(segments)], has_data, has_number }
    }

    /// Prepares a packet of memcached's binary protocol.
    pub(super) fn packet(packet: Packet) -> Self {
        let (has_data, has_number) = (packet.has_data(), packet.has_expiry());
        Self { pieces: vec![Piece::Packet(packet)], has_data, has_number }
    }

    /// Prepares the keys of an MGET.
    pub(super) fn multi_get(prefix: &[u8]) -> Self {
        let mut template = Self { pieces: Vec::new(), has_data: false, has_number: false };
        template.push_key(prefix, b"");
        template
    }

    /// Whether a key is in it.
    pub(super) fn has_key(&self) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Key(_) => true,
            Piece::Word(segments) | Piece::Line(segments) => segments.contains(&Segment::Key),
            Piece::Packet(_) => true,
            Piece::Bytes(_) | Piece::Value => false,
        })
    }

    /// Whether a value is in it that differs from request to request.
    #[inline]
    pub(super) fn has_data(&self) -> bool {
        self.has_data
    }

    /// Whether the first number is in it.
    #[inline]
    pub(super) fn has_number(&self) -> bool {
        self.has_number
    }

    /// Appends a request; returns where in `out` its first word with a key lies.
    #[inline]
    pub(super) fn append(
        &self,
        fields: &Fields,
        values: &ValueSource,
        out: &mut Vec<u8>,
    ) -> Option<Range<usize>> {
        let mut key_word = None;
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Key(word) => {
                    let range = word.append(fields.key, out);
                    key_word.get_or_insert(range);
                }
                Piece::Value => append_value(fields, values, out),
                Piece::Word(segments) => {
                    let range = append_word(segments, fields, values, out);
                    if segments.contains(&Segment::Key) {
                        key_word.get_or_insert(range);
                    }
                }
                Piece::Line(segments) => append_all(segments, fields, values, out),
                Piece::Packet(packet) => packet.append(fields, values, out),
            }
        }
        key_word
    }

    /// Appends an MGET of `count` keys: `first` and what `next` gives. Returns where the first key
    /// lies. Only for what `multi_get` prepared.
    pub(super) fn append_multi_get(
        &self,
        first: u64,
        count: u32,
        mut next: impl FnMut() -> u64,
        out: &mut Vec<u8>,
    ) -> Range<usize> {
        let [Piece::Key(word)] = self.pieces.as_slice() else {
            panic!("an MGET is prepared by `multi_get`, as one key");
        };
        out.push(b'*');
        append_number(u64::from(count) + 1, out);
        out.extend_from_slice(b"\r\n$4\r\nMGET\r\n");
        let range = word.append(first, out);
        for _ in 1..count {
            word.append(next(), out);
        }
        range
    }

    fn push_word(&mut self, word: &[Segment]) {
        match word {
            [] => self.push_fixed(b"$0\r\n\r\n"),
            [Segment::Literal(bytes)] => self.push_fixed(&bulk(bytes)),
            [Segment::Key] => self.push_key(b"", b""),
            [Segment::Literal(prefix), Segment::Key] => self.push_key(prefix, b""),
            [Segment::Key, Segment::Literal(suffix)] => self.push_key(b"", suffix),
            [Segment::Literal(prefix), Segment::Key, Segment::Literal(suffix)] => {
                self.push_key(prefix, suffix);
            }
            [Segment::Data] => self.pieces.push(Piece::Value),
            segments => self.pieces.push(Piece::Word(segments.to_vec())),
        }
    }

    fn push_key(&mut self, prefix: &[u8], suffix: &[u8]) {
        let lead = match self.pieces.pop() {
            Some(Piece::Bytes(bytes)) if bytes.len() <= LEAD_MAX => bytes,
            Some(other) => {
                self.pieces.push(other);
                Vec::new()
            }
            None => Vec::new(),
        };
        let heads = std::array::from_fn(|index| {
            let len = prefix.len() + index + 1 + suffix.len();
            [&lead, format!("${len}\r\n").as_bytes(), prefix].concat()
        });
        let tail = [suffix, b"\r\n"].concat();
        let (prefix_len, suffix_len) = (prefix.len(), suffix.len());
        let word = KeyWord { heads, prefix_len, suffix_len, tail };
        self.pieces.push(Piece::Key(Box::new(word)));
    }

    fn push_fixed(&mut self, bytes: &[u8]) {
        match self.pieces.last_mut() {
            Some(Piece::Bytes(fixed)) => fixed.extend_from_slice(bytes),
            Some(Piece::Key(word)) => word.tail.extend_from_slice(bytes),
            Some(Piece::Value | Piece::Word(_) | Piece::Line(_) | Piece::Packet(_)) | None => {
                self.pieces.push(Piece::Bytes(bytes.to_vec()));
            }
        }
    }
}

impl KeyWord {
    /// Returns where the word's content lies. Out of line: inside a loop over pieces, the divisions
    /// for all digits there may be would be done ahead of it.
    #[inline(never)]
    fn append(&self, key: u64, out: &mut Vec<u8>) -> Range<usize> {
        let mut buffer = [0; 20];
        let digits = key_digits(key, &mut buffer);
        let head = &self.heads[digits.len() - 1];
        out.reserve(head.len() + digits.len() + self.tail.len());
        out.extend_from_slice(head);
        let start = out.len() - self.prefix_len;
        out.extend_from_slice(digits);
        let end = out.len() + self.suffix_len;
        out.extend_from_slice(&self.tail);
        start..end
    }
}

/// Out of line, so that requests without such words pass by quickly.
#[inline(never)]
fn append_word(
    segments: &[Segment],
    fields: &Fields,
    values: &ValueSource,
    out: &mut Vec<u8>,
) -> Range<usize> {
    let len = len_of_all(segments, fields);
    out.push(b'$');
    append_number(len as u64, out);
    out.extend_from_slice(b"\r\n");
    let start = out.len();
    append_all(segments, fields, values, out);
    let end = out.len();
    out.extend_from_slice(b"\r\n");
    start..end
}

/// How long these segments will be.
pub(super) fn len_of_all(segments: &[Segment], fields: &Fields) -> usize {
    segments.iter().map(|segment| segment.len(fields)).sum()
}

/// Appends these segments, one right behind the other.
pub(super) fn append_all(
    segments: &[Segment],
    fields: &Fields,
    values: &ValueSource,
    out: &mut Vec<u8>,
) {
    for segment in segments {
        segment.append(fields, values, out);
    }
}

#[inline(never)]
fn append_value(fields: &Fields, values: &ValueSource, out: &mut Vec<u8>) {
    out.push(b'$');
    append_number(fields.value.len as u64, out);
    out.reserve(fields.value.len + 4);
    out.extend_from_slice(b"\r\n");
    values.append(fields.value, out);
    out.extend_from_slice(b"\r\n");
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn append_number(number: u64, out: &mut Vec<u8>) {
    let mut buffer = [0; 20];
    out.extend_from_slice(key_digits(number, &mut buffer));
}

fn digits_len(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[inline]
fn key_digits(number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    format_i64(i64::try_from(number).expect("options end at i64::MAX"), buffer)
}
