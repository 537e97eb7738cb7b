//! Patterns of BY and GET: names of keys, or of a field of a hash, with the element in the place of
//! the first asterisk.
//!
//! Invariant: what is no string, or no hash where a field is asked for, counts as absent.

use std::cmp::Ordering;

use base::SharedBytes;
use base::number::format_i64;
use keyspace::{Location, Refusal, Text as KeyText, Tx};
use proto::Reply;
use smallvec::SmallVec;
use structs::hash::Hash;
use structs::members::{Long, Text};

use crate::hash::live;
use crate::text::{reply_member, reply_text};

/// What a pattern names.
pub(super) enum Pattern<'a> {
    /// `#`: the element itself.
    Element,
    /// Without an asterisk: nothing, whatever key there is.
    Nothing,
    /// A key, or a field of the hash there.
    Key { prefix: &'a [u8], suffix: &'a [u8], field: Option<&'a [u8]> },
}

/// What was found.
#[derive(Clone, Copy)]
pub(super) enum Value<'a> {
    /// The element, or the value of a field.
    Member(Text<'a>),
    /// The string at a key.
    Key(KeyText<'a>),
}

/// The bytes of a value to be compared: many that lie in pieces stay where they are.
pub(super) enum SortKey<'a> {
    Here(&'a [u8]),
    Made(Box<[u8]>),
    Pieces(&'a dyn SharedBytes),
}

/// A value to be stored in a list.
pub(super) enum Storable<'a> {
    Text(Text<'a>),
    Long(Long),
}

impl<'a> Pattern<'a> {
    pub(super) fn parse(pattern: &'a [u8]) -> Self {
        if pattern == b"#" {
            return Self::Element;
        }
        let Some(asterisk) = pattern.iter().position(|byte| *byte == b'*') else {
            return Self::Nothing;
        };
        let (prefix, rest) = (&pattern[..asterisk], &pattern[asterisk + 1..]);
        let arrow = rest.windows(2).position(|pair| pair == b"->");
        match arrow.filter(|arrow| arrow + 2 < rest.len()) {
            Some(arrow) => {
                Self::Key { prefix, suffix: &rest[..arrow], field: Some(&rest[arrow + 2..]) }
            }
            None => Self::Key { prefix, suffix: rest, field: None },
        }
    }

    /// What the pattern names with this element in it; the key's name is left in `key`.
    pub(super) fn look_up<'t>(
        &self,
        tx: &'t Tx,
        element: Text<'t>,
        key: &mut Vec<u8>,
    ) -> Result<Option<Value<'t>>, Refusal> {
        let Self::Key { field, .. } = self else {
            return Ok(matches!(self, Self::Element).then_some(Value::Member(element)));
        };
        self.name(element, key);
        let found = match field {
            None => tx.text(key).map(|text| text.map(Value::Key)),
            Some(field) => tx.view::<Hash>(key).map(|hash| {
                let field = live(hash?, field, tx.expired_until())?;
                Some(Value::Member(field.value))
            }),
        };
        match found {
            Err(Refusal::WrongType) => Ok(None),
            found => found,
        }
    }
}

impl Pattern<'_> {
    /// Puts the name of the key that it means into `key`, if it means one.
    fn name(&self, element: Text<'_>, key: &mut Vec<u8>) -> bool {
        let Self::Key { prefix, suffix, .. } = self else { return false };
        key.clear();
        key.extend_from_slice(prefix);
        element.append_to(key);
        key.extend_from_slice(suffix);
        true
    }
}

/// So many elements are looked up together.
pub(super) const TOGETHER: usize = 16;

/// Has the keys that patterns name with these elements on their way from memory, as far as they are
/// granted.
pub(super) fn prefetch(tx: &Tx, patterns: &[Pattern<'_>], elements: &[Text<'_>]) {
    let (mut key, mut locations) = (Vec::new(), SmallVec::<[Location; TOGETHER]>::new());
    for element in elements {
        for pattern in patterns {
            if pattern.name(*element, &mut key) {
                locations.push(tx.keyspace().locate(&key));
            }
        }
    }
    tx.prefetch(&locations);
}

impl<'a> Value<'a> {
    pub(super) fn reply(self, reply: &mut Reply<'_>) {
        match self {
            Self::Member(text) => reply_member(text, reply),
            Self::Key(text) => reply_text(text, reply),
        }
    }

    /// The number that the value spells up to its first NUL, as Redis 8.2 reads it: decimal and
    /// without blanks, however large or small; nothing is zero.
    pub(super) fn number(self) -> Option<f64> {
        let mut buffer = Vec::new();
        let bytes = match self {
            Self::Member(Text::Integer(number)) | Self::Key(KeyText::Integer(number)) => {
                return Some(number as f64);
            }
            Self::Member(text) => text.as_bytes(&mut buffer),
            Self::Key(text) => text.contiguous(&mut buffer),
        };
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        match str::from_utf8(&bytes[..end]).ok()? {
            "" => Some(0.0),
            text => text.parse().ok().filter(|number: &f64| !number.is_nan()),
        }
    }

    pub(super) fn bytes(self) -> SortKey<'a> {
        match self {
            Self::Member(Text::Integer(number)) | Self::Key(KeyText::Integer(number)) => {
                SortKey::Made(format_i64(number, &mut [0; 20]).into())
            }
            Self::Member(Text::Bytes(bytes)) | Self::Key(KeyText::Inline(bytes)) => {
                SortKey::Here(bytes)
            }
            Self::Member(Text::Long(long)) => match long.as_slice() {
                Some(bytes) => SortKey::Here(bytes),
                None => SortKey::Pieces(long),
            },
            Self::Key(KeyText::Large(blob)) => SortKey::Pieces(blob),
        }
    }
}

impl SortKey<'_> {
    /// The bytes from an offset on, as far as they lie together; none at the end.
    fn chunk_at(&self, offset: usize) -> &[u8] {
        match self {
            Self::Here(bytes) => bytes.get(offset..).unwrap_or_default(),
            Self::Made(bytes) => bytes.get(offset..).unwrap_or_default(),
            Self::Pieces(pieces) => pieces.chunk_at(offset),
        }
    }

    /// Compares byte by byte.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let mut offset = 0;
        loop {
            let (these, those) = (self.chunk_at(offset), other.chunk_at(offset));
            let len = these.len().min(those.len());
            let order = these[..len].cmp(&those[..len]);
            if len == 0 || order != Ordering::Equal {
                return order.then(these.len().cmp(&those.len()));
            }
            offset += len;
        }
    }
}

impl<'a> Storable<'a> {
    /// A value that is absent is stored as an empty string.
    pub(super) fn new(value: Option<Value<'a>>) -> Self {
        match value {
            None => Self::Text(Text::Bytes(&[])),
            Some(Value::Member(text)) => Self::Text(text),
            Some(Value::Key(KeyText::Integer(number))) => Self::Text(Text::Integer(number)),
            Some(Value::Key(KeyText::Inline(bytes))) => Self::Text(Text::Bytes(bytes)),
            Some(Value::Key(text @ KeyText::Large(_))) => {
                Self::Long(Long::new(text.contiguous(&mut Vec::new())))
            }
        }
    }

    pub(super) fn text(&self) -> Text<'_> {
        match self {
            Self::Text(text) => *text,
            Self::Long(long) => Text::Long(long),
        }
    }
}
