//! The radix directory of a table that has outgrown one segment.
//!
//! The directory is indexed by the top `depth` bits of the hash. A segment of a smaller depth of
//! its own is shared by all indexes that begin with its prefix. Invariants: the indexes of a
//! segment are exactly those under its prefix; `deepest` counts the segments that use all `depth`
//! bits.

use base::step_count;

use super::bucket::{Address, Word};
use super::segment::{BUCKETS_MAX, Segment};

/// The most bits the directory takes, so that with the fingerprint a position has 38.
const DEPTH_MAX: u32 = 22;

/// The directory may double only while there is an index per so many words: hashes that no split
/// parts (equal ones) make their segment large instead of the directory.
const WORDS_PER_INDEX: usize = 256;

/// Two halves join when together they fill at most so much, half of what makes them split.
const JOINED_MAX: usize = BUCKETS_MAX * 3;

pub(super) struct Directory {
    depth: u32,
    indexes: Vec<u32>,
    nodes: Vec<DirectoryNode>,
    deepest: usize,
    len: usize,
    buckets: usize,
}

/// A segment and which part of the hashes it holds: those whose top `depth` bits are `prefix`.
pub(super) struct DirectoryNode {
    pub(super) segment: Segment,
    pub(super) depth: u32,
    prefix: u32,
}

impl Directory {
    /// A directory of depth 0, with one segment.
    pub(super) fn new(segment: Segment) -> Directory {
        let (len, buckets) = (segment.len(), segment.count());
        let nodes = vec![DirectoryNode { segment, depth: 0, prefix: 0 }];
        Directory { depth: 0, indexes: vec![0], nodes, deepest: 1, len, buckets }
    }

    /// The segment, if it is the only one.
    pub(super) fn take_only(&mut self) -> Option<Segment> {
        if self.nodes.len() > 1 {
            return None;
        }
        self.nodes.pop().map(|node| node.segment)
    }

    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Heap bytes, all segments included.
    pub(super) fn memory(&self) -> usize {
        size_of::<Directory>()
            + self.buckets * size_of::<super::bucket::Bucket>()
            + self.indexes.capacity() * size_of::<u32>()
            + self.nodes.capacity() * size_of::<DirectoryNode>()
    }

    pub(super) fn nodes(&self) -> &[DirectoryNode] {
        &self.nodes
    }

    #[inline]
    pub(super) fn locate(&self, hash: u64) -> u32 {
        // Shifted twice, because a depth of 0 asks for 64 bits.
        self.indexes[(hash >> 1 >> (63 - self.depth)) as usize]
    }

    #[inline]
    pub(super) fn node(&self, node: u32) -> &DirectoryNode {
        &self.nodes[node as usize]
    }

    /// The segment of a node, for changes that leave its size and the number of its words.
    #[inline]
    pub(super) fn segment_mut(&mut self, node: u32) -> &mut Segment {
        &mut self.nodes[node as usize].segment
    }

    /// Adds a word after making room for it: a step of growth, or a split, of its segment.
    pub(super) fn insert(&mut self, hash: u64, address: Address, rehash: impl Fn(Address) -> u64) {
        step_count::step();
        loop {
            let at = self.locate(hash) as usize;
            let node = &mut self.nodes[at];
            let fingerprint = fingerprint(hash, node.depth);
            if let Some(bucket) = node.segment.vacancy(fingerprint) {
                node.segment.put(bucket, Word::new(fingerprint, address));
                self.len += 1;
                return;
            }
            if node.segment.count() < BUCKETS_MAX || !self.may_split(at) {
                let node = &mut self.nodes[at];
                self.buckets -= node.segment.count();
                node.segment.grow();
                self.buckets += node.segment.count();
            } else {
                self.split(at, &rehash);
            }
        }
    }

    fn may_split(&self, at: usize) -> bool {
        let depth = self.nodes[at].depth;
        let doubled = self.indexes.len() * 2;
        depth < self.depth || (depth < DEPTH_MAX && doubled <= self.len / WORDS_PER_INDEX)
    }

    /// Parts a segment by the next bit of the hash. The fingerprints move up by one bit, and the
    /// one that enters below is known only to the owner of the entries.
    fn split(&mut self, at: usize, rehash: &impl Fn(Address) -> u64) {
        step_count::step();
        if self.nodes[at].depth == self.depth {
            self.double();
        }
        let node = &mut self.nodes[at];
        let old = std::mem::replace(&mut node.segment, Segment::new());
        let is_right = |word: &Word| word.fingerprint() >> 15 == 1;
        let right_len = old.words().filter(is_right).count();
        let mut left = Segment::with_room(old.len() - right_len);
        let mut right = Segment::with_room(right_len);
        node.depth += 1;
        node.prefix <<= 1;
        let (depth, prefix) = (node.depth, node.prefix | 1);
        for word in old.words() {
            let address = word.address().expect("used words have an address");
            let new = Word::new(fingerprint(rehash(address), depth), address);
            let half = if is_right(&word) { &mut right } else { &mut left };
            half.add(new);
        }
        self.buckets += left.count() + right.count();
        self.buckets -= old.count();
        node.segment = left;
        self.nodes.push(DirectoryNode { segment: right, depth, prefix });
        if depth == self.depth {
            self.deepest += 2;
        }
        self.point_to(self.nodes.len() - 1);
    }

    fn double(&mut self) {
        step_count::step();
        self.indexes = self.indexes.iter().flat_map(|index| [*index, *index]).collect();
        self.depth += 1;
        self.deepest = 0;
    }

    /// Makes every index under the node's prefix lead to it.
    fn point_to(&mut self, at: usize) {
        let node = &self.nodes[at];
        let spread = self.depth - node.depth;
        let first = (node.prefix as usize) << spread;
        let number = u32::try_from(at).expect("at most 2^22 segments");
        self.indexes[first..first + (1 << spread)].fill(number);
    }

    /// Takes a word out; a segment left nearly empty shrinks and may join its other half.
    pub(super) fn remove(&mut self, at: u32, number: usize) -> Word {
        let at = at as usize;
        let segment = &mut self.nodes[at].segment;
        let count = segment.count();
        let taken = segment.take(number);
        self.len -= 1;
        if segment.shrink() {
            self.buckets += segment.count();
            self.buckets -= count;
            self.join_halves(at);
        }
        taken
    }

    /// Joins a segment with its other half while both are small, then that one with its own.
    fn join_halves(&mut self, mut at: usize) {
        while let Some(other) = self.other_half(at) {
            at = self.join(at, other);
        }
        while self.deepest == 0 {
            self.indexes = self.indexes.iter().copied().step_by(2).collect();
            self.depth -= 1;
            self.deepest = self.nodes.iter().filter(|node| node.depth == self.depth).count();
        }
    }

    fn other_half(&self, at: usize) -> Option<usize> {
        let node = &self.nodes[at];
        if node.depth == 0 {
            return None;
        }
        let index = ((node.prefix ^ 1) as usize) << (self.depth - node.depth);
        let other = self.indexes[index] as usize;
        let half = &self.nodes[other];
        let joins =
            half.depth == node.depth && half.segment.len() + node.segment.len() <= JOINED_MAX;
        joins.then_some(other)
    }

    /// Joins two halves and returns where the whole is. The prefix bit that told them apart comes
    /// back into the fingerprints from above, so no entry is asked for its hash.
    fn join(&mut self, at: usize, other: usize) -> usize {
        step_count::step();
        let (kept, gone) = (at.min(other), at.max(other));
        let gone_node = self.nodes.swap_remove(gone);
        if gone < self.nodes.len() {
            self.point_to(gone);
        }
        let node = &mut self.nodes[kept];
        let mut whole = Segment::with_room(node.segment.len() + gone_node.segment.len());
        for half in [&*node, &gone_node] {
            let top = (half.prefix as u16 & 1) << 15;
            for word in half.segment.words() {
                let address = word.address().expect("used words have an address");
                whole.add(Word::new(top | word.fingerprint() >> 1, address));
            }
        }
        self.buckets += whole.count();
        self.buckets -= node.segment.count() + gone_node.segment.count();
        if node.depth == self.depth {
            self.deepest -= 2;
        }
        node.segment = whole;
        node.depth -= 1;
        node.prefix >>= 1;
        self.point_to(kept);
        kept
    }
}

#[cfg(test)]
impl Directory {
    /// Asserts what the head of this file promises.
    pub(super) fn check(&self, hash: impl Fn(Address) -> u64) {
        assert_eq!(self.indexes.len(), 1 << self.depth);
        assert!(self.depth > 0 && self.deepest > 0);
        let deepest = self.nodes.iter().filter(|node| node.depth == self.depth).count();
        assert_eq!(self.deepest, deepest);
        assert_eq!(self.len, self.nodes.iter().map(|node| node.segment.len()).sum::<usize>());
        assert_eq!(self.buckets, self.nodes.iter().map(|node| node.segment.count()).sum::<usize>());
        for (number, index) in self.indexes.iter().enumerate() {
            let node = self.node(*index);
            assert_eq!(node.prefix as usize, number >> (self.depth - node.depth));
        }
        for node in &self.nodes {
            node.segment.check();
            for word in node.segment.words() {
                let hash = hash(word.address().unwrap());
                assert_eq!(word.fingerprint(), fingerprint(hash, node.depth));
                assert_eq!(u64::from(node.prefix), hash >> 1 >> (63 - node.depth));
            }
        }
    }
}

/// The 16 bits of the hash right below its top `depth`.
#[inline]
pub(super) fn fingerprint(hash: u64, depth: u32) -> u16 {
    ((hash << depth) >> 48) as u16
}
