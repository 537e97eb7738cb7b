//! Keys as requests name them.
//!
//! Invariant: a key has at most 250 bytes and at least one, and one in base64 has been looked at
//! and can be decoded.

use super::line::Words;

/// No key is longer.
pub const KEY_LENGTH_MAX: usize = 250;

/// Room for a key that must be decoded.
pub type KeyBuffer = [u8; KEY_LENGTH_MAX];

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    text: &'a [u8],
    is_base64: bool,
}

impl<'a> Key<'a> {
    /// A key that is what it says.
    #[inline]
    pub(super) fn plain(text: &'a [u8]) -> Option<Key<'a>> {
        (1..=KEY_LENGTH_MAX).contains(&text.len()).then_some(Key { text, is_base64: false })
    }

    /// A key that is written in base64.
    pub(super) fn base64(text: &'a [u8]) -> Option<Key<'a>> {
        let key = Key { is_base64: true, ..Key::plain(text)? };
        let decoded = base::base64::decode(text, &mut [0; KEY_LENGTH_MAX]).map(<[u8]>::len)?;
        (decoded > 0).then_some(key)
    }

    /// The bytes of the key, decoded into `buffer` if need be.
    #[inline]
    pub fn bytes<'b>(&self, buffer: &'b mut KeyBuffer) -> &'b [u8]
    where
        'a: 'b,
    {
        if self.is_base64 { self.decoded(buffer) } else { self.text }
    }

    #[cold]
    fn decoded<'b>(&self, buffer: &'b mut KeyBuffer) -> &'b [u8] {
        base::base64::decode(self.text, buffer).expect("the key was decoded when it was parsed")
    }

    /// Whether the request has the key as it is.
    #[inline]
    pub fn is_plain(&self) -> bool {
        !self.is_base64
    }

    /// The key as the request has it.
    #[inline]
    pub fn text(&self) -> &'a [u8] {
        self.text
    }
}

/// The keys of a request to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys<'a> {
    next: Option<Key<'a>>,
    /// Words each of which is a key.
    rest: Words<'a>,
}

impl<'a> Keys<'a> {
    /// One key that is what it says, if it can be one.
    pub fn plain(text: &'a [u8]) -> Option<Keys<'a>> {
        Key::plain(text).map(Keys::one)
    }

    /// How many bytes they take, with what stands between them.
    #[inline]
    pub fn extent(&self) -> usize {
        self.next.map_or(0, |key| key.text().len()) + self.rest.len()
    }

    /// One key.
    #[inline]
    pub(super) fn one(key: Key<'a>) -> Keys<'a> {
        Keys { next: Some(key), rest: Words::default() }
    }

    /// All words of a line; `None` if there is none, or if one is too long for a key.
    #[inline]
    pub(super) fn all_of(mut words: Words<'a>) -> Option<Keys<'a>> {
        let next = Key::plain(words.next()?)?;
        let rest = words;
        let fit = words.all(|word| word.len() <= KEY_LENGTH_MAX);
        fit.then_some(Keys { next: Some(next), rest })
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = Key<'a>;

    #[inline]
    fn next(&mut self) -> Option<Key<'a>> {
        let key = self.next.take();
        if key.is_some() {
            self.next = self.rest.next().and_then(Key::plain);
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::{KEY_LENGTH_MAX, Key, Keys};
    use crate::memcached::line::Words;

    #[test]
    fn keys_have_one_to_250_bytes() {
        let long = [b'k'; KEY_LENGTH_MAX + 1];
        assert!(Key::plain(b"").is_none());
        assert!(Key::plain(&long).is_none());
        assert!(Key::plain(&long[1..]).is_some());
        assert!(Key::base64(b"").is_none());
        assert!(Key::base64(b"nonsense!").is_none());
        let key = Key::base64(b"AAEC").expect("three bytes");
        assert_eq!(key.bytes(&mut [0; KEY_LENGTH_MAX]), [0, 1, 2]);
        assert_eq!(key.text(), b"AAEC");
    }

    #[test]
    fn all_words_are_keys_or_none_is() {
        let keys = Keys::all_of(Words::new(b"a  b c ")).expect("three short ones");
        let names: Vec<&[u8]> = keys.map(|key| key.text()).collect();
        assert_eq!(names, [b"a", b"b", b"c"]);
        assert!(Keys::all_of(Words::new(b" ")).is_none());
        let line = [&b"a "[..], &[b'k'; KEY_LENGTH_MAX + 1], b" b"].concat();
        assert!(Keys::all_of(Words::new(&line)).is_none());
    }
}
