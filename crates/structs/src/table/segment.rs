//! One segment of the table: an array of buckets in hash order, with linear overflow.
//!
//! A word's home is bucket `fingerprint * buckets >> 16`. The word lies there or, where that is
//! full, in a following bucket; behind the last bucket comes the first. Invariant: every bucket
//! from a word's home up to the one it lies in is full, so a search ends at the first bucket with
//! room. Wrapping around needs no spare buckets at the end, so a segment of one bucket is no
//! exception.

use std::ptr::NonNull;

use base::step_count;

use super::bucket::{Address, Bucket, WORDS, Word};
use crate::arena;

/// The most buckets of a segment before it splits: 32 KB.
pub(super) const BUCKETS_MAX: usize = 512;

/// Where a search this far from home comes to be needed, a crowded segment grows before its time.
const REACH: usize = 16;

/// An owned array of buckets, thin, so that a table of one segment fits 16 bytes.
pub(super) struct Segment {
    buckets: NonNull<Bucket>,
    count: u32,
    len: u32,
}

// SAFETY: the segment owns its buckets alone, and they are plain numbers.
unsafe impl Send for Segment {}
// SAFETY: all changes need `&mut Segment`.
unsafe impl Sync for Segment {}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.count != 0 {
            // SAFETY: `with_buckets` allocated so many buckets, and nobody else has them.
            unsafe { arena::free(self.buckets.cast(), self.count() * size_of::<Bucket>()) };
        }
    }
}

impl Segment {
    /// A segment without buckets and without memory.
    pub(super) const fn new() -> Segment {
        Segment { buckets: NonNull::dangling(), count: 0, len: 0 }
    }

    fn with_buckets(count: usize) -> Segment {
        if count == 0 {
            return Segment::new();
        }
        let thin = u32::try_from(count).expect("2^32 buckets would be 256 GB");
        let buckets = arena::allocate(count * size_of::<Bucket>()).cast::<Bucket>();
        for index in 0..count {
            // SAFETY: the allocation has room for `count` buckets, and lies on a cache line, as
            // each number of them that `size_class` gives is a class of the arena.
            unsafe { buckets.add(index).write(Bucket::FREE) };
        }
        Segment { buckets, count: thin, len: 0 }
    }

    /// A segment for `len` words and one more, at a fill of at most 75%.
    pub(super) fn with_room(len: usize) -> Segment {
        Segment::with_buckets(buckets_for(len + 1))
    }

    #[inline]
    pub(super) fn buckets(&self) -> &[Bucket] {
        // SAFETY: pointer and count are those of the array that `with_buckets` made, or dangling
        // and aligned with a count of zero.
        unsafe { std::slice::from_raw_parts(self.buckets.as_ptr(), self.count as usize) }
    }

    #[inline]
    fn buckets_mut(&mut self) -> &mut [Bucket] {
        // SAFETY: as in `buckets`, and `&mut self` is the only way to them.
        unsafe { std::slice::from_raw_parts_mut(self.buckets.as_ptr(), self.count as usize) }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn words(&self) -> impl Iterator<Item = Word> {
        self.buckets().iter().flat_map(Bucket::used)
    }

    #[inline]
    pub(super) fn home(&self, fingerprint: u16) -> usize {
        ((u64::from(fingerprint) * u64::from(self.count)) >> 16) as usize
    }

    /// The lowest fingerprint at home in this bucket or behind it; 65,536 behind the last.
    pub(super) fn first_fingerprint(&self, home: usize) -> u64 {
        ((home as u64) << 16).div_ceil(u64::from(self.count.max(1)))
    }

    #[inline]
    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.count() { 0 } else { bucket + 1 }
    }

    /// How many steps lead from bucket `from` to bucket `to`.
    #[inline]
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.count() - from }
    }

    /// The number of the word, bucket by bucket, with this fingerprint of which `is_it` holds.
    #[inline]
    pub(super) fn find(
        &self,
        fingerprint: u16,
        mut is_it: impl FnMut(Address) -> bool,
    ) -> Option<usize> {
        let buckets = self.buckets();
        let mut at = self.home(fingerprint);
        for _ in 0..buckets.len() {
            let bucket = &buckets[at];
            let mut matches = bucket.matches(fingerprint);
            while matches != 0 {
                let index = matches.trailing_zeros() as usize;
                matches &= matches - 1;
                if bucket.0[index].address().is_some_and(&mut is_it) {
                    return Some(at * WORDS + index);
                }
            }
            if !bucket.is_full() {
                return None;
            }
            at = self.after(at);
        }
        None
    }

    #[inline]
    pub(super) fn word(&self, number: usize) -> Word {
        self.buckets()[number / WORDS].0[number % WORDS]
    }

    #[inline]
    pub(super) fn set_word(&mut self, number: usize, word: Word) {
        self.buckets_mut()[number / WORDS].0[number % WORDS] = word;
    }

    /// The bucket for one more word of this fingerprint, or `None` if the segment is to grow first.
    #[inline]
    pub(super) fn vacancy(&self, fingerprint: u16) -> Option<usize> {
        if self.len() >= capacity(self.count()) {
            return None;
        }
        let home = self.home(fingerprint);
        let open = self.first_open(home);
        // Below half full, equal fingerprints are to blame, and growth would not part them.
        let crowded = self.distance(home, open) > REACH
            && self.len() * 2 > self.count() * WORDS
            && self.count() < BUCKETS_MAX;
        (!crowded).then_some(open)
    }

    #[inline]
    fn first_open(&self, home: usize) -> usize {
        let mut bucket = home;
        while self.buckets()[bucket].is_full() {
            bucket = self.after(bucket);
            debug_assert_ne!(bucket, home, "a segment never fills entirely, or has one bucket");
        }
        bucket
    }

    /// Puts a word into a bucket that `vacancy` named.
    #[inline]
    pub(super) fn put(&mut self, bucket: usize, word: Word) {
        #[cfg(test)]
        super::tests::count_move();
        let bucket = &mut self.buckets_mut()[bucket];
        bucket.0[bucket.len()] = word;
        self.len += 1;
    }

    /// Adds a word where the room is known to suffice: when filling a new segment.
    pub(super) fn add(&mut self, word: Word) {
        self.put(self.first_open(self.home(word.fingerprint())), word);
    }

    /// Takes the word out and closes the gap: words that had to leave a home at or before the hole
    /// move back into it, so there are never marks of deleted words to search past.
    pub(super) fn take(&mut self, number: usize) -> Word {
        step_count::step();
        let mut hole = number / WORDS;
        let mut was_full = self.buckets()[hole].is_full();
        let taken = self.buckets_mut()[hole].take(number % WORDS);
        self.len -= 1;
        let mut next = self.after(hole);
        while was_full && next != hole {
            let next_full = self.buckets()[next].is_full();
            let reach = self.distance(hole, next);
            let strayed = |word: Word| self.distance(self.home(word.fingerprint()), next) >= reach;
            let index = self.buckets()[next].used().position(strayed);
            if let Some(index) = index {
                let word = self.buckets_mut()[next].take(index);
                self.buckets_mut()[hole].0[WORDS - 1] = word;
                hole = next;
            }
            was_full = next_full;
            next = self.after(next);
        }
        taken
    }

    /// Moves to an array about a quarter larger.
    pub(super) fn grow(&mut self) {
        self.move_to(size_class(self.count() + 1));
    }

    /// Moves to a smaller array if this one is nearly empty, and says whether it was.
    pub(super) fn shrink(&mut self) -> bool {
        // Growth comes at a fill of 75%: from the 56% aimed at here, a third must come or go.
        let count = size_class((self.len() * 2).div_ceil(9));
        let sparse = self.len() < self.count() * 3 && count < self.count();
        if sparse {
            self.move_to(count);
        }
        sparse
    }

    fn move_to(&mut self, count: usize) {
        step_count::step();
        let old = std::mem::replace(self, Segment::with_buckets(count));
        for word in old.words() {
            self.add(word);
        }
    }

    /// Moves to other memory where a page of the arena is being emptied; whether it did.
    pub(super) fn relocate(&mut self) -> bool {
        if self.count == 0 {
            return false;
        }
        let size = self.count() * size_of::<Bucket>();
        // SAFETY: `with_buckets` allocated so much, and `&mut self` is the only way there.
        let moved = unsafe { arena::relocate(self.buckets.cast(), size) };
        if let Some(buckets) = moved {
            self.buckets = buckets.cast();
        }
        moved.is_some()
    }

    /// Puts in the place of each address in a bucket what `relocate` returns for it; says how many
    /// there are.
    pub(super) fn relocate_bucket(
        &mut self,
        bucket: usize,
        mut relocate: impl FnMut(Address) -> Option<Address>,
    ) -> usize {
        let words = self.buckets_mut().get_mut(bucket).map_or(&mut [][..], |bucket| &mut bucket.0);
        let mut used = 0;
        for word in words {
            let Some(address) = word.address() else { break };
            used += 1;
            if let Some(new) = relocate(address) {
                *word = Word::new(word.fingerprint(), new);
            }
        }
        used
    }

    /// Visits the words at home in this bucket with at least this fingerprint, which it tells with
    /// each; says how many.
    pub(super) fn visit_home(
        &self,
        home: usize,
        at_least: u16,
        mut visit: impl FnMut(u16, Address),
    ) -> usize {
        let mut seen = 0;
        let mut at = home;
        for _ in 0..self.count() {
            let bucket = &self.buckets()[at];
            for word in bucket.used() {
                let fingerprint = word.fingerprint();
                if fingerprint >= at_least && self.home(fingerprint) == home {
                    seen += 1;
                    word.address().into_iter().for_each(|address| visit(fingerprint, address));
                }
            }
            if !bucket.is_full() {
                break;
            }
            at = self.after(at);
        }
        seen
    }
}

#[cfg(test)]
impl Segment {
    /// Asserts what the head of this file promises.
    pub(super) fn check(&self) {
        assert_eq!(self.words().count(), self.len());
        assert!(self.len() <= capacity(self.count()));
        for (place, bucket) in self.buckets().iter().enumerate() {
            let used = bucket.used().count();
            assert!(bucket.0[used..].iter().all(|word| *word == Word::FREE));
            for word in bucket.used() {
                let mut passed = self.home(word.fingerprint());
                while passed != place {
                    assert!(self.buckets()[passed].is_full());
                    passed = self.after(passed);
                }
            }
        }
    }
}

/// How many words this many buckets take before they must grow. A single bucket has nowhere to
/// overflow to and no need to: one cache line is searched at once.
fn capacity(buckets: usize) -> usize {
    if buckets == 1 { WORDS } else { buckets * WORDS * 3 / 4 }
}

/// The number of buckets that takes this many words.
fn buckets_for(len: usize) -> usize {
    if len <= WORDS { size_class(len.min(1)) } else { size_class(len.div_ceil(6)) }
}

/// The next number of buckets for which the arena has a class of its own, so that none of their
/// memory is slack and all lie on cache lines: four steps per doubling.
pub(super) fn size_class(buckets: usize) -> usize {
    if buckets <= 8 { buckets } else { buckets.next_multiple_of(1 << (buckets.ilog2() - 2)) }
}
