//! The keys that a client waits for, each with the request that is run when the key is ready.
//!
//! Invariant: a million of them take little more than their names: what all requests have in common
//! is there once, and all words lie in one row.

use std::iter;

/// Keys, each with the same command about this key alone, with nothing in it that depends on the
/// time of asking (`XREAD`'s `$` is an ID by then).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockingKeys {
    /// What stands before a key, what stands behind all of its own, and what is each key's own.
    bytes: Vec<u8>,
    /// Where each word ends.
    ends: Vec<usize>,
    head: usize,
    tail: usize,
    /// How many words are a key's own; the first is its name.
    width: usize,
}

impl BlockingKeys {
    /// Keys, each with what is its own, between words that all requests have in common.
    pub fn new<'a, const WIDTH: usize>(
        head: impl IntoIterator<Item = &'a [u8]>,
        own: impl IntoIterator<Item = [&'a [u8]; WIDTH]>,
        tail: impl IntoIterator<Item = &'a [u8]>,
    ) -> Self {
        let mut awaited =
            Self { bytes: Vec::new(), ends: Vec::new(), head: 0, tail: 0, width: WIDTH };
        head.into_iter().for_each(|word| awaited.push(word));
        awaited.head = awaited.ends.len();
        tail.into_iter().for_each(|word| awaited.push(word));
        awaited.tail = awaited.ends.len() - awaited.head;
        own.into_iter().flatten().for_each(|word| awaited.push(word));
        awaited.bytes.shrink_to_fit();
        awaited.ends.shrink_to_fit();
        awaited
    }

    /// A key alone between the words of its request.
    pub fn one<'a>(
        head: impl IntoIterator<Item = &'a [u8]>,
        key: &'a [u8],
        tail: impl IntoIterator<Item = &'a [u8]>,
    ) -> Self {
        Self::new(head, iter::once([key]), tail)
    }

    fn push(&mut self, word: &[u8]) {
        self.bytes.extend_from_slice(word);
        self.ends.push(self.bytes.len());
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        (self.ends.len() - self.head - self.tail) / self.width
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of the `nth` key.
    #[must_use]
    pub fn key(&self, nth: usize) -> &[u8] {
        self.word(self.head + self.tail + nth * self.width)
    }

    /// All names, in their order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|nth| self.key(nth))
    }

    /// What is run when the `nth` key is ready, the command's name first.
    pub fn request(&self, nth: usize) -> impl Iterator<Item = &[u8]> {
        let common = self.head + self.tail;
        let own = common + nth * self.width;
        let places = (0..self.head).chain(own..own + self.width).chain(self.head..common);
        places.map(|place| self.word(place))
    }

    /// The bytes of memory held.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    fn word(&self, place: usize) -> &[u8] {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[place]]
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::BlockingKeys;

    fn requests(awaited: &BlockingKeys) -> Vec<String> {
        let text = |nth| awaited.request(nth).map(|word| str::from_utf8(word).unwrap());
        (0..awaited.len()).map(|nth| text(nth).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn requests_are_put_together_again() {
        let pops = BlockingKeys::new([&b"BLPOP"[..]], [[&b"a"[..]], [b""], [b"a"]], [&b"0"[..]]);
        assert_eq!(requests(&pops), ["BLPOP a 0", "BLPOP  0", "BLPOP a 0"]);
        assert_eq!(pops.keys().collect::<Vec<_>>(), [&b"a"[..], b"", b"a"]);
        let own = [[&b"s"[..], b"1-1"], [b"t", b"2-2"]];
        let reads = BlockingKeys::new([&b"XREAD"[..], b"STREAMS"], own, []);
        assert_eq!(requests(&reads), ["XREAD STREAMS s 1-1", "XREAD STREAMS t 2-2"]);
        assert_eq!(reads.key(1), b"t");
        let moves = BlockingKeys::one([&b"BLMOVE"[..]], b"a", [&b"b"[..], b"LEFT"]);
        assert_eq!(requests(&moves), ["BLMOVE a b LEFT"]);
        let nothing = BlockingKeys::new::<1>([&b"BLPOP"[..]], [], [&b"0"[..]]);
        assert!(nothing.is_empty() && requests(&nothing).is_empty());
    }

    #[test]
    fn a_key_costs_its_name_and_a_number() {
        let names: Vec<_> = (0..10_000).map(|number| format!("key:{number:06}")).collect();
        let own = names.iter().map(|name| [name.as_bytes()]);
        let awaited = BlockingKeys::new([&b"BLPOP"[..]], own, [&b"0"[..]]);
        assert!(awaited.memory() <= 10_000 * (10 + 8) + 100, "{}", awaited.memory());
    }
}
