//! A big byte string as a tree of shared leaves: copied in O(1), and on write only where shared.
//!
//! ```text
//!  height 2                 ( 0 | 1 | 2 | .. 63 )               64 children each
//!                             |   |   '-- absent: reads as zeros
//!  height 1      ( 0 | .. | 63 )  ( 0 | 1 | .. )
//!                  |
//!  height 0      [ 4080 bytes ]                                 leaves
//! ```
//!
//! Byte `n` lies in leaf `n / 4080`, and six bits of that number choose the child at each height,
//! so no node counts anything. A leaf holds 4,080 bytes because with the two counters of its `Arc`
//! it then fills 4,096, for which every allocator has a size class; 16 bytes more would cost 1,024.
//!
//! Invariants: the tree is exactly as high as the length needs; no leaf begins at or past the end;
//! the bytes of the last leaf past the end are zero, so that growing means no writing; the ground
//! ends at or before the end, and some of it shows.
//!
//! Bytes that come in a buffer of their own may stay in it: that buffer is the blob's *ground*,
//! which shows where there is no leaf, before the zeros. A change puts a leaf over it; when nothing
//! of the ground shows any more, it goes.
//!
//! A clone of a blob stays what it was. A change copies those nodes on its path that another
//! clone holds too, and no others. What was never written takes no memory: a write far past the
//! end allocates one leaf and its path, never in proportion to the offset. Hence nothing here
//! allocates more than 4 KB at a time, nor more in all than what the bytes at hand fill.

use std::collections::TryReserveError;
use std::ops::Range;
use std::sync::Arc;

use base::{SharedBytes, step_count};

/// Bytes of a leaf.
const LEAF: usize = 4096 - ARC_COUNTERS;

/// What an `Arc` puts before its value.
pub(crate) const ARC_COUNTERS: usize = 2 * size_of::<usize>();

/// Children of an inner node are numbered by so many bits.
const CHILD_BITS: u32 = 6;
const CHILDREN: usize = 1 << CHILD_BITS;

/// What is read where there is no leaf.
static ZEROS: [u8; LEAF] = [0; LEAF];

/// A byte string whose clones share what they have in common.
///
/// Dropping the last clone of a big blob takes time in proportion to its leaves, tens of
/// milliseconds for 512 MB: send it to another thread to be dropped.
#[derive(Clone, Default)]
pub struct Blob {
    root: Option<BlobNode>,
    height: u32,
    len: usize,
    memory: usize,
    ground: Option<Box<Ground>>,
}

/// What shows where there is no leaf.
#[derive(Clone)]
struct Ground {
    buffer: Arc<Vec<u8>>,
    /// Where in the buffer the blob's bytes lie, from its first one on.
    range: Range<usize>,
    /// How many leaves are missing over it.
    showing: usize,
}

#[derive(Clone)]
enum BlobNode {
    Leaf(Arc<BlobLeaf>),
    Inner(Arc<BlobInner>),
}

#[derive(Clone)]
struct BlobLeaf([u8; LEAF]);

#[derive(Clone)]
struct BlobInner([Option<BlobNode>; CHILDREN]);

impl Blob {
    /// An empty blob, without memory.
    pub const fn new() -> Blob {
        Blob { root: None, height: 0, len: 0, memory: 0, ground: None }
    }

    /// A blob with these bytes.
    pub fn from_slice(bytes: &[u8]) -> Blob {
        let mut blob = Blob::new();
        blob.append(bytes);
        blob
    }

    /// A blob with the bytes of this range of a buffer, which stay where they are.
    pub fn within(buffer: Arc<Vec<u8>>, range: Range<usize>) -> Blob {
        let len = buffer[range.clone()].len();
        let mut blob = Blob::new();
        blob.set_len(len);
        if len > 0 {
            let ground = Ground { buffer, range, showing: len.div_ceil(LEAF) };
            blob.memory += ground.memory();
            blob.ground = Some(Box::new(ground));
        }
        blob
    }

    /// Whether the blob is a clone of `other`, or `other` one of it, and neither has changed since,
    /// in O(1).
    pub fn is_same(&self, other: &Blob) -> bool {
        let is_same_root = match (&self.root, &other.root) {
            (None, None) => true,
            (Some(BlobNode::Leaf(leaf)), Some(BlobNode::Leaf(other))) => Arc::ptr_eq(leaf, other),
            (Some(BlobNode::Inner(inner)), Some(BlobNode::Inner(other))) => {
                Arc::ptr_eq(inner, other)
            }
            _ => false,
        };
        let buffer = |blob: &Blob| blob.ground.as_ref().map(|it| Arc::as_ptr(&it.buffer));
        is_same_root
            && self.len == other.len
            && self.height == other.height
            && buffer(self) == buffer(other)
    }

    /// Where the root lies, or the ground of a blob that is nothing else: clones that have not
    /// changed since have the same, and nobody else.
    pub fn address(&self) -> Option<usize> {
        match (&self.root, &self.ground) {
            (Some(BlobNode::Leaf(leaf)), _) => Some(Arc::as_ptr(leaf).addr()),
            (Some(BlobNode::Inner(inner)), _) => Some(Arc::as_ptr(inner).addr()),
            (None, Some(ground)) => Some(ground.from(0).as_ptr().addr()),
            (None, None) => None,
        }
    }

    /// Heap bytes that are free once so many clones are gone, of which this is one: none if there
    /// are more; where one was cloned and has changed since, about what they do not share.
    pub fn memory_of_clones(&self, clones: usize) -> usize {
        let count = |node: &BlobNode| match node {
            BlobNode::Leaf(leaf) => Arc::strong_count(leaf),
            BlobNode::Inner(inner) => Arc::strong_count(inner),
        };
        let ground = self.ground.as_ref().map_or(0, |ground| ground.memory());
        let leaves = self.memory - ground;
        let of_tree = match &self.root {
            Some(root) if count(root) <= clones => match root {
                BlobNode::Leaf(_) => leaves,
                BlobNode::Inner(inner) => {
                    let children = || inner.0.iter().flatten();
                    let own = children().filter(|child| count(child) == 1).count();
                    leaves / children().count().max(1) * own
                }
            },
            _ => 0,
        };
        let holders = self.ground.as_ref().map(|ground| Arc::strong_count(&ground.buffer));
        of_tree + if holders.is_some_and(|holders| holders <= clones) { ground } else { 0 }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Heap bytes, as asked of the allocator. What clones share is counted in each of them.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// The byte at `offset`, if that is not past the end.
    pub fn byte_at(&self, offset: usize) -> Option<u8> {
        self.chunk_at(offset).first().copied()
    }

    /// The bytes that lie contiguous from `offset` on: to the end of their leaf, or of the blob.
    /// Empty only at or past the end.
    pub fn chunk_at(&self, offset: usize) -> &[u8] {
        let Some(left) = self.len.checked_sub(offset) else {
            return &[];
        };
        let within = offset % LEAF;
        let most = left.min(LEAF - within);
        match self.leaf(offset / LEAF) {
            Some(leaf) => &leaf[within..within + most],
            None => self.bare(offset, most),
        }
    }

    /// What there is at `offset` where no leaf is: ground or zeros, up to `most` bytes.
    fn bare(&self, offset: usize, most: usize) -> &[u8] {
        let shown = self.ground.as_ref().map_or(&[][..], |ground| ground.from(offset));
        if shown.is_empty() { &ZEROS[..most] } else { &shown[..shown.len().min(most)] }
    }

    /// The bytes of a range, as far as they exist, piece by piece.
    pub fn chunks(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let end = range.end.min(self.len);
        let mut offset = range.start;
        std::iter::from_fn(move || {
            let left = end.checked_sub(offset).filter(|left| *left > 0)?;
            let chunk = self.chunk_at(offset);
            let chunk = &chunk[..chunk.len().min(left)];
            offset += chunk.len();
            Some(chunk)
        })
    }

    /// The bytes of a range, as far as they exist, in one piece.
    pub fn to_vec(&self, range: Range<usize>) -> Result<Vec<u8>, TryReserveError> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(range.end.min(self.len).saturating_sub(range.start))?;
        for chunk in self.chunks(range) {
            bytes.extend_from_slice(chunk);
        }
        Ok(bytes)
    }

    /// Adds bytes at the end.
    pub fn append(&mut self, bytes: &[u8]) {
        self.write_at(self.len, bytes);
    }

    /// Puts bytes at `offset`, over what is there or past the end; a gap reads as zeros. Without
    /// bytes nothing changes. The caller has bounded offset and length.
    ///
    /// # Panics
    /// If the bytes would end past what `usize` counts.
    pub fn write_at(&mut self, mut offset: usize, mut bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset.checked_add(bytes.len()).expect("the caller bounds the length");
        if end > self.len {
            self.set_len(end);
        }
        while !bytes.is_empty() {
            let within = offset % LEAF;
            let (now, later) = bytes.split_at(bytes.len().min(LEAF - within));
            self.leaf_mut(offset / LEAF)[within..within + now.len()].copy_from_slice(now);
            offset += now.len();
            bytes = later;
        }
    }

    /// Cuts the bytes past `len` off, or adds zeros up to it, which takes no memory.
    pub fn set_len(&mut self, len: usize) {
        step_count::step();
        if len < self.len {
            let leaves = len.div_ceil(LEAF);
            self.memory -= cut(&mut self.root, self.height, leaves);
            self.cut_ground(len);
            if leaves > 0 && !len.is_multiple_of(LEAF) && self.leaf(leaves - 1).is_some() {
                self.leaf_mut(leaves - 1)[len % LEAF..].fill(0);
            }
        }
        self.len = len;
        while capacity(self.height) < len {
            self.raise();
        }
        while self.height > 0 && capacity(self.height - 1) >= len {
            self.lower();
        }
    }

    /// Has the ground end at `len` at the latest.
    fn cut_ground(&mut self, len: usize) {
        let Some(mut ground) = self.ground.take() else { return };
        ground.range.end = ground.range.end.min(ground.range.start + len);
        let leaves = ground.range.len().div_ceil(LEAF);
        ground.showing = (0..leaves).filter(|index| self.leaf(*index).is_none()).count();
        if ground.showing > 0 {
            self.ground = Some(ground);
        } else {
            self.memory -= ground.memory();
        }
    }

    fn leaf(&self, index: usize) -> Option<&[u8; LEAF]> {
        let mut node = self.root.as_ref()?;
        let mut height = self.height;
        loop {
            match node {
                BlobNode::Leaf(leaf) => return Some(&leaf.0),
                BlobNode::Inner(inner) => {
                    height -= 1;
                    node = inner.0[child(index, height)].as_ref()?;
                }
            }
        }
    }

    /// A leaf to be changed: made if absent, its path made this blob's own.
    fn leaf_mut(&mut self, index: usize) -> &mut [u8; LEAF] {
        step_count::step();
        let mut slot = &mut self.root;
        let mut height = self.height;
        loop {
            let node = slot.get_or_insert_with(|| {
                let node = if height > 0 {
                    BlobNode::new_inner()
                } else {
                    let mut leaf = Arc::new(BlobLeaf([0; LEAF]));
                    if self.ground.is_some() {
                        let bytes = &mut Arc::make_mut(&mut leaf).0;
                        self.memory -= cover(&mut self.ground, index, bytes);
                    }
                    BlobNode::Leaf(leaf)
                };
                self.memory += node.own_memory();
                node
            });
            match node {
                BlobNode::Leaf(leaf) => return &mut Arc::make_mut(leaf).0,
                BlobNode::Inner(inner) => {
                    height -= 1;
                    slot = &mut Arc::make_mut(inner).0[child(index, height)];
                }
            }
        }
    }

    /// Makes the tree one higher.
    fn raise(&mut self) {
        step_count::step();
        self.height += 1;
        if let Some(root) = self.root.take() {
            let mut inner = BlobInner::new();
            inner.0[0] = Some(root);
            let node = BlobNode::Inner(Arc::new(inner));
            self.memory += node.own_memory();
            self.root = Some(node);
        }
    }

    /// Makes the tree one lower, when only the first child is left.
    fn lower(&mut self) {
        step_count::step();
        self.height -= 1;
        if let Some(root) = self.root.take() {
            self.memory -= root.own_memory();
            if let BlobNode::Inner(inner) = root {
                self.root = inner.0[0].clone();
            }
        }
    }
}

impl Ground {
    /// What the ground has from an offset on.
    fn from(&self, offset: usize) -> &[u8] {
        self.buffer[self.range.clone()].get(offset..).unwrap_or_default()
    }

    /// Heap bytes, as asked of the allocator.
    fn memory(&self) -> usize {
        size_of::<Ground>() + ARC_COUNTERS + size_of::<Vec<u8>>() + self.buffer.capacity()
    }
}

/// Fills a new leaf with what of the ground it covers, and lets go of a ground of which nothing
/// shows any more: how much memory that had.
fn cover(ground: &mut Option<Box<Ground>>, index: usize, leaf: &mut [u8; LEAF]) -> usize {
    let Some(below) = ground.as_mut() else { return 0 };
    let covered = below.from(index * LEAF);
    let covered = &covered[..covered.len().min(LEAF)];
    if covered.is_empty() {
        return 0;
    }
    leaf[..covered.len()].copy_from_slice(covered);
    below.showing -= 1;
    if below.showing > 0 {
        return 0;
    }
    ground.take().map_or(0, |below| below.memory())
}

impl BlobNode {
    fn new_inner() -> BlobNode {
        BlobNode::Inner(Arc::new(BlobInner::new()))
    }

    /// Heap bytes of the node alone.
    fn own_memory(&self) -> usize {
        ARC_COUNTERS
            + match self {
                BlobNode::Leaf(_) => size_of::<BlobLeaf>(),
                BlobNode::Inner(_) => size_of::<BlobInner>(),
            }
    }

    /// Heap bytes of the node and all below it.
    fn memory(&self) -> usize {
        let below: usize = match self {
            BlobNode::Leaf(_) => 0,
            BlobNode::Inner(inner) => inner.0.iter().flatten().map(BlobNode::memory).sum(),
        };
        self.own_memory() + below
    }
}

impl BlobInner {
    const fn new() -> BlobInner {
        BlobInner([const { None }; CHILDREN])
    }
}

/// Removes all leaves but the first `leaves` below a slot, and says how much memory they had.
fn cut(slot: &mut Option<BlobNode>, height: u32, leaves: usize) -> usize {
    if leaves == 0 {
        return slot.take().map_or(0, |node| node.memory());
    }
    let Some(BlobNode::Inner(inner)) = slot else {
        return 0;
    };
    let leaves_per_child = 1 << (CHILD_BITS * (height - 1));
    let first = leaves / leaves_per_child;
    let mut freed = 0;
    if first < CHILDREN {
        let children = &mut Arc::make_mut(inner).0;
        freed += cut(&mut children[first], height - 1, leaves % leaves_per_child);
        for child in &mut children[first + 1..] {
            freed += cut(child, height - 1, 0);
        }
    }
    freed
}

/// How many bytes a tree of this height holds.
fn capacity(height: u32) -> usize {
    1_usize
        .checked_shl(CHILD_BITS * height)
        .map_or(usize::MAX, |leaves| leaves.saturating_mul(LEAF))
}

/// Which child leads to a leaf, in the inner node whose children have this height.
fn child(leaf: usize, height: u32) -> usize {
    leaf >> (CHILD_BITS * height) & (CHILDREN - 1)
}

impl PartialEq<[u8]> for Blob {
    fn eq(&self, other: &[u8]) -> bool {
        let mut rest = other;
        self.len == other.len()
            && self.chunks(0..self.len).all(|chunk| {
                let (same, later) = rest.split_at(chunk.len());
                rest = later;
                chunk == same
            })
    }
}

impl SharedBytes for Blob {
    fn len(&self) -> usize {
        self.len
    }

    fn chunk_at(&self, offset: usize) -> &[u8] {
        Blob::chunk_at(self, offset)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::{Strategy, any, prop, prop_oneof, proptest};

    use super::{Blob, BlobLeaf, BlobNode, LEAF, SharedBytes, capacity};

    /// Asserts what the head of this file promises, and that the bytes are these.
    fn check(blob: &Blob, bytes: &[u8]) {
        assert!(blob == bytes);
        assert_eq!(blob.len(), bytes.len());
        let ground = blob.ground.as_ref().map_or(0, |ground| ground.memory());
        assert_eq!(blob.memory(), blob.root.as_ref().map_or(0, BlobNode::memory) + ground);
        if let Some(ground) = &blob.ground {
            assert!(ground.range.len() <= blob.len());
            let leaves = 0..ground.range.len().div_ceil(LEAF);
            let showing = leaves.filter(|index| blob.leaf(*index).is_none()).count();
            assert!(showing > 0 && showing == ground.showing);
        }
        assert!(capacity(blob.height) >= blob.len());
        assert!(blob.height == 0 || capacity(blob.height - 1) < blob.len());
    }

    #[test]
    fn a_ground_is_free_with_the_last_clone_that_shows_it() {
        let bytes = pattern(10 * LEAF, 1);
        let mut blob = Blob::within(Arc::new(bytes), 0..10 * LEAF);
        assert_eq!(blob.memory_of_clones(1), blob.memory());
        let held = blob.clone();
        assert!(blob.address().is_some() && blob.address() == held.address());
        assert_eq!(held.memory_of_clones(1), 0);
        assert_eq!(held.memory_of_clones(2), held.memory());
        // The one that changes covers a leaf, and shows the rest.
        blob.write_at(0, b"x");
        assert_ne!(blob.address(), held.address());
        assert_eq!(held.memory_of_clones(1), 0);
        drop(blob);
        assert_eq!(held.memory_of_clones(1), held.memory());
        // Two values of one request lie in one buffer.
        let buffer = Arc::new(pattern(2 * LEAF, 2));
        let [one, two] = [0..LEAF, LEAF..2 * LEAF].map(|it| Blob::within(Arc::clone(&buffer), it));
        assert_ne!(one.address(), two.address());
    }

    fn pattern(len: usize, seed: u8) -> Vec<u8> {
        (0..len).map(|index| (index as u8).wrapping_mul(31).wrapping_add(seed) | 1).collect()
    }

    #[derive(Clone, Debug)]
    enum Step {
        Append(usize),
        Write { place: usize, past_end: usize, len: usize },
        SetLen(usize),
        Clone,
        Drop,
        Read { place: usize, len: usize },
        Within { len: usize, before: usize, behind: usize },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..30_000_usize).prop_map(Step::Append),
            3 => (any::<usize>(), 0..300_000_usize, 0..20_000_usize)
                .prop_map(|(place, past_end, len)| Step::Write { place, past_end, len }),
            2 => (0..400_000_usize).prop_map(Step::SetLen),
            1 => (0..80_usize).prop_map(|leaves| Step::SetLen(leaves * LEAF)),
            2 => any::<bool>().prop_map(|clone| if clone { Step::Clone } else { Step::Drop }),
            2 => (any::<usize>(), 0..50_000_usize)
                .prop_map(|(place, len)| Step::Read { place, len }),
            1 => (0..40_000_usize, 0..40_usize, 0..40_usize)
                .prop_map(|(len, before, behind)| Step::Within { len, before, behind }),
        ]
    }

    proptest! {
        #![proptest_config(proptest::test_runner::Config {
            cases: 64, failure_persistence: None, ..Default::default()
        })]

        #[test]
        fn blob_and_its_clones_match_the_model(steps in prop::collection::vec(step(), 1..24)) {
            let (mut blob, mut model) = (Blob::new(), Vec::new());
            let mut clones: Vec<(Blob, Vec<u8>)> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Append(len) => {
                        let bytes = pattern(len, number as u8);
                        blob.append(&bytes);
                        model.extend_from_slice(&bytes);
                    }
                    Step::Write { place, past_end, len } => {
                        // Every other one may lie past the end.
                        let reach = model.len() + 1 + if place % 2 == 0 { past_end } else { 0 };
                        let offset = place % reach;
                        let bytes = pattern(len, number as u8);
                        blob.write_at(offset, &bytes);
                        if len > 0 {
                            model.resize(model.len().max(offset + len), 0);
                            model[offset..offset + len].copy_from_slice(&bytes);
                        }
                    }
                    Step::SetLen(len) => {
                        blob.set_len(len);
                        model.resize(len, 0);
                    }
                    Step::Clone => clones.push((blob.clone(), model.clone())),
                    Step::Drop if clones.len() > 1 => {
                        // The older clone goes on as the one that is changed.
                        let newer = std::mem::replace(&mut clones[0], (blob, model));
                        (blob, model) = newer;
                        clones.pop();
                    }
                    Step::Drop => {}
                    Step::Within { len, before, behind } => {
                        let buffer = Arc::new(pattern(before + len + behind, number as u8));
                        model = buffer[before..before + len].to_vec();
                        blob = Blob::within(buffer, before..before + len);
                    }
                    Step::Read { place, len } => {
                        let start = place % (model.len() + 2);
                        let expected = start.min(model.len())..(start + len).min(model.len());
                        let read = blob.to_vec(start..start + len).unwrap();
                        assert!(read == model[expected]);
                        assert_eq!(blob.byte_at(start), model.get(start).copied());
                    }
                }
                check(&blob, &model);
            }
            for (blob, model) in &clones {
                check(blob, model);
            }
            blob.set_len(0);
            assert_eq!(blob.memory(), 0);
        }
    }

    #[test]
    fn a_node_fills_its_size_class() {
        assert_eq!(BlobNode::Leaf(Arc::new(BlobLeaf([0; LEAF]))).own_memory(), 4096);
        assert!(BlobNode::new_inner().own_memory() <= 1280);
    }

    #[test]
    fn a_write_copies_only_what_is_shared_on_its_path() {
        let bytes = pattern(1_000_000, 7);
        let mut blob = Blob::from_slice(&bytes);
        let before = blob.chunk_at(500_000).as_ptr();
        blob.write_at(500_000, b"sole");
        assert_eq!(blob.chunk_at(500_000).as_ptr(), before);
        blob.write_at(500_000, &bytes[500_000..500_004]);

        let clone = blob.clone();
        blob.write_at(500_000, b"shared");
        assert_ne!(blob.chunk_at(500_000).as_ptr(), clone.chunk_at(500_000).as_ptr());
        let same = |offset| blob.chunk_at(offset).as_ptr() == clone.chunk_at(offset).as_ptr();
        let shared = (0..bytes.len()).step_by(LEAF).filter(|offset| same(*offset)).count();
        assert_eq!(shared, bytes.len().div_ceil(LEAF) - 1);
        check(&clone, &bytes);
    }

    #[test]
    fn a_ground_is_not_copied_and_goes_when_nothing_of_it_shows() {
        let buffer = Arc::new(pattern(10 * LEAF, 5));
        let mut bytes = buffer[3..].to_vec();
        let mut blob = Blob::within(Arc::clone(&buffer), 3..10 * LEAF);
        let clone = blob.clone();
        assert!(blob.is_same(&clone));
        assert_eq!(blob.chunk_at(5 * LEAF).as_ptr(), buffer[3 + 5 * LEAF..].as_ptr());
        for leaf in 0..10 {
            assert_eq!(Arc::strong_count(&buffer), 3);
            blob.write_at(leaf * LEAF, b"new");
            bytes[leaf * LEAF..][..3].copy_from_slice(b"new");
            check(&blob, &bytes);
            assert!(!blob.is_same(&clone));
        }
        assert_eq!(Arc::strong_count(&buffer), 2);
        check(&clone, &buffer[3..]);
    }

    #[test]
    fn a_far_write_takes_one_path_and_the_gap_reads_as_zeros() {
        let mut blob = Blob::new();
        blob.write_at(512 * 1024 * 1024 - 1, b"x");
        assert_eq!(blob.len(), 512 * 1024 * 1024);
        assert!(blob.memory() < 16_384);
        assert_eq!(blob.byte_at(300_000_000), Some(0));
        assert_eq!(blob.byte_at(512 * 1024 * 1024 - 1), Some(b'x'));
        assert_eq!(blob.byte_at(512 * 1024 * 1024), None);
        let chunks = blob.chunks(0..blob.len());
        assert_eq!(chunks.map(<[u8]>::len).sum::<usize>(), blob.len());
    }

    #[test]
    fn the_highest_tree_is_bounded_by_the_counting() {
        let mut blob = Blob::new();
        blob.write_at(usize::MAX - 1, b"x");
        assert_eq!(blob.len(), usize::MAX);
        assert_eq!(blob.byte_at(usize::MAX - 1), Some(b'x'));
        assert_eq!(blob.byte_at(usize::MAX), None);
        blob.set_len(5);
        check(&blob, &[0; 5]);
    }

    #[test]
    fn a_write_of_nothing_changes_nothing() {
        let mut blob = Blob::from_slice(b"abc");
        blob.write_at(100, b"");
        check(&blob, b"abc");
        assert!(blob != b"abd"[..]);
        assert!(blob != b"abcd"[..]);
    }

    #[test]
    fn a_blob_is_freed_and_read_by_other_threads() {
        let bytes = pattern(100_000, 3);
        let blob = Blob::from_slice(&bytes);
        let shared: Box<dyn SharedBytes> = Box::new(blob.clone());
        let reader = std::thread::spawn(move || {
            let mut read = Vec::new();
            while read.len() < shared.len() {
                read.extend_from_slice(shared.chunk_at(read.len()));
            }
            read
        });
        drop(blob);
        assert!(reader.join().unwrap() == bytes);
    }
}
