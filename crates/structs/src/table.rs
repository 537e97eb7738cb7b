//! The hash table of one slot: extendible hashing over segments of cache-line buckets.
//!
//! ```text
//!  hash, from the top bit down     | prefix: depth bits | fingerprint: 16 bits | the rest |
//!
//!  table, 16 bytes                 no segment, or one, or a directory
//!  directory                       [ index | index | index | index ]      by the top depth bits
//!                                     |  .-----'       |       |
//!  segments, 0..=512 buckets        ( 0* )           ( 10 )  ( 11 )       each with its own prefix
//!                                     |
//!  buckets, 64 bytes each           [ word word word word word word word word ] [ .. ] [ .. ]
//!                                      |
//!  word, 8 bytes                    | fingerprint 16 | address 48 |       0 is a free word
//! ```
//!
//! The table stores addresses and never looks behind them; the owner of the entries compares keys
//! and, where a split needs one more bit, hashes them again. Home of a word is bucket
//! `fingerprint * buckets >> 16` of its segment: words lie in hash order for any number of buckets.
//!
//! - **Growth**: at a fill of 75% a segment moves to an array about a quarter larger, without
//!   asking for a hash; at 512 buckets it parts in two by the next bit. **Shrinking**: below 37.5%
//!   a segment moves to a smaller array, and two halves that together fill less than half of one
//!   join. An empty table holds no memory.
//! - **Cost**: 10.7 to 13.3 bytes per entry from a hundred entries on. A search touches one cache
//!   line per bucket, nearly always one. The longest step moves the words of one segment (3,072)
//!   and copies the directory (4 bytes per segment).
//! - **Limits**: addresses below 2^48; a directory of at most 22 bits. The costs presume
//!   well-spread hashes. Equal ones, or many under one long prefix, are correct but searched one
//!   by one, and their segment may exceed 512 buckets.
//! - **Positions**: a place in hash space, not in memory, so a walk can go on after any change:
//!   see [`Table::walk`].

mod bucket;
mod directory;
mod relocate;
mod segment;
#[cfg(test)]
mod tests;
mod walk;

pub use self::bucket::Address;
pub use self::walk::Shape;

use self::bucket::{Bucket, Word};
use self::directory::{Directory, fingerprint};
use self::segment::{BUCKETS_MAX, Segment};

/// A hash table from 64-bit hashes to addresses. The hash counts from its top bit down, and at
/// least 38 bits of it must be meaningful.
///
/// Dropping a table frees its own memory only; [`Table::drain`] first hands out the addresses.
pub struct Table {
    root: Root,
}

enum Root {
    One(Segment),
    Many(Box<Directory>),
}

const _: () = assert!(size_of::<Table>() == 16, "there is a table in each of 16,384 slots");
const _: () = assert!(size_of::<Bucket>() == 64 && align_of::<Bucket>() == 64);
const _: () = assert!(size_of::<Option<Place>>() <= 16);

/// Where a word lies, until the next insertion into or removal from its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    node: u32,
    number: u32,
}

/// The segment in charge of a hash.
struct Spot<'table> {
    segment: &'table Segment,
    depth: u32,
    node: u32,
}

impl Default for Table {
    fn default() -> Table {
        Table::new()
    }
}

impl Table {
    /// An empty table, without memory.
    pub const fn new() -> Table {
        Table { root: Root::One(Segment::new()) }
    }

    /// The number of addresses in it.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.root {
            Root::One(segment) => segment.len(),
            Root::Many(directory) => directory.len(),
        }
    }

    /// Whether nothing is in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Heap bytes of the table itself, as asked of the allocator.
    pub fn memory(&self) -> usize {
        match &self.root {
            Root::One(segment) => segment.count() * size_of::<Bucket>(),
            Root::Many(directory) => directory.memory(),
        }
    }

    #[inline]
    fn spot(&self, hash: u64) -> Spot<'_> {
        match &self.root {
            Root::One(segment) => Spot { segment, depth: 0, node: 0 },
            Root::Many(directory) => {
                let number = directory.locate(hash);
                let node = directory.node(number);
                Spot { segment: &node.segment, depth: node.depth, node: number }
            }
        }
    }

    /// Where the entry is that has this hash and of which `is_it` holds. `is_it` is asked about
    /// entries whose hash agrees in the fingerprint: besides the right one, about one per 8,000
    /// searches.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl FnMut(Address) -> bool) -> Option<Place> {
        let spot = self.spot(hash);
        let number = spot.segment.find(fingerprint(hash, spot.depth), is_it)?;
        Some(Place { node: spot.node, number: number as u32 })
    }

    /// The address at a place.
    ///
    /// # Panics
    /// If the table has changed since, it may.
    #[inline]
    pub fn at(&self, place: Place) -> Address {
        self.word(place).address().expect("a place is of a used word until the table changes")
    }

    #[inline]
    fn word(&self, place: Place) -> Word {
        let segment = match &self.root {
            Root::One(segment) => segment,
            Root::Many(directory) => &directory.node(place.node).segment,
        };
        segment.word(place.number as usize)
    }

    /// Puts another address at a place, for the same hash, and returns the former one. All places
    /// stay valid.
    #[inline]
    pub fn replace(&mut self, place: Place, new: Address) -> Address {
        let old = self.word(place);
        let word = Word::new(old.fingerprint(), new);
        let number = place.number as usize;
        match &mut self.root {
            Root::One(segment) => segment.set_word(number, word),
            Root::Many(directory) => directory.segment_mut(place.node).set_word(number, word),
        }
        old.address().expect("a place is of a used word until the table changes")
    }

    /// Adds an address whose key is known to be absent. `rehash` gives the hash of any address in
    /// the table, and is asked when a segment splits.
    #[inline]
    pub fn insert(&mut self, hash: u64, address: Address, rehash: impl Fn(Address) -> u64) {
        while let Root::One(segment) = &mut self.root {
            let fingerprint = fingerprint(hash, 0);
            if let Some(bucket) = segment.vacancy(fingerprint) {
                return segment.put(bucket, Word::new(fingerprint, address));
            }
            if segment.count() < BUCKETS_MAX {
                segment.grow();
            } else {
                let segment = std::mem::replace(segment, Segment::new());
                self.root = Root::Many(Box::new(Directory::new(segment)));
            }
        }
        if let Root::Many(directory) = &mut self.root {
            directory.insert(hash, address, rehash);
        }
    }

    /// Takes the word at a place out and returns its address.
    pub fn remove(&mut self, place: Place) -> Address {
        let number = place.number as usize;
        let word = match &mut self.root {
            Root::One(segment) => {
                let word = segment.take(number);
                segment.shrink();
                word
            }
            Root::Many(directory) => {
                let word = directory.remove(place.node, number);
                if let Some(segment) = directory.take_only() {
                    self.root = Root::One(segment);
                }
                word
            }
        };
        word.address().expect("a place is of a used word until the table changes")
    }

    /// All segments, each once.
    fn segments(&self) -> impl Iterator<Item = &Segment> {
        let (one, many) = match &self.root {
            Root::One(segment) => (Some(segment), &[][..]),
            Root::Many(directory) => (None, directory.nodes()),
        };
        one.into_iter().chain(many.iter().map(|node| &node.segment))
    }

    /// All addresses, in no order that matters.
    pub fn iter(&self) -> impl Iterator<Item = Address> {
        self.segments().flat_map(Segment::words).filter_map(Word::address)
    }

    /// Empties the table and hands out what was in it.
    pub fn drain(&mut self, visit: impl FnMut(Address)) {
        std::mem::take(self).iter().for_each(visit);
    }

    /// Asks the processor for the bucket where a search for this hash begins.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        let spot = self.spot(hash);
        let home = spot.segment.home(fingerprint(hash, spot.depth));
        if let Some(bucket) = spot.segment.buckets().get(home) {
            bucket.prefetch();
        }
    }

    /// The first address in the home bucket whose fingerprint fits this hash: most likely the one
    /// that a search will ask about, so worth a prefetch.
    #[inline]
    pub fn first_candidate(&self, hash: u64) -> Option<Address> {
        let spot = self.spot(hash);
        let fingerprint = fingerprint(hash, spot.depth);
        let bucket = spot.segment.buckets().get(spot.segment.home(fingerprint))?;
        let index = bucket.matches(fingerprint).trailing_zeros() as usize;
        bucket.0.get(index)?.address()
    }
}

#[cfg(test)]
impl Table {
    /// Asserts that every word lies where its hash says.
    fn check(&self, hash: impl Fn(Address) -> u64) {
        match &self.root {
            Root::Many(directory) => directory.check(hash),
            Root::One(segment) => {
                segment.check();
                for word in segment.words() {
                    let hash = hash(word.address().unwrap());
                    assert_eq!(word.fingerprint(), fingerprint(hash, 0));
                }
            }
        }
    }
}
