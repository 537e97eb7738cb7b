//! Going through a table: walks that survive any change, samples, and the shape for curious eyes.
//!
//! A walk's position is a place in hash space. The words of a home bucket are visited together,
//! wherever they lie, and a home bucket is an interval of hash space, so whatever grows, shrinks,
//! splits, joins or moves between two steps, no present entry falls between them.

use super::bucket::{Address, Bucket, WORDS};
use super::directory::fingerprint;
use super::segment::Segment;
use super::{Root, Table};

/// How a table is built, for DEBUG.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shape {
    /// Bits of the directory; 0 without one.
    pub depth: u32,
    /// Segments.
    pub segments: usize,
    /// Buckets of eight words.
    pub buckets: usize,
    /// Used words.
    pub words: usize,
    /// The most full buckets in a row, which is how far a search can have to go.
    pub longest_run: usize,
    /// How many buckets have 0, 1, .. 8 used words.
    pub buckets_by_fill: [usize; WORDS + 1],
}

/// Words in a bucket, or a few more: most tables are between 60 and 75 percent full.
const WORDS_USED: usize = 5;

/// How many words a sample tries at random before it takes the next used one.
const SAMPLE_TRIES: usize = 8;

impl Table {
    /// Visits all entries from a position on, home bucket by home bucket, until at least
    /// `at_least` were visited or `8 * at_least` buckets (no fewer than 16) were passed. Returns
    /// the position to go on from, its low 26 bits zero, or `None` at the end. Position 0 begins.
    ///
    /// An entry that is present from the first step of a walk to its last is visited at least once,
    /// whatever is inserted and removed between the steps. An entry may be visited twice.
    pub fn walk(&self, from: u64, at_least: usize, mut visit: impl FnMut(Address)) -> Option<u64> {
        self.walk_positions(from, at_least, |_, address| visit(address))
    }

    /// As `walk`; with each entry comes as much of its hash as the table keeps: the first bits, by
    /// which it is found, and zeros.
    pub fn walk_positions(
        &self,
        from: u64,
        at_least: usize,
        mut visit: impl FnMut(u64, Address),
    ) -> Option<u64> {
        let mut budget = at_least.saturating_mul(8).max(16);
        let mut missing = at_least.max(1);
        let mut position = from;
        loop {
            let spot = self.spot(position);
            let (segment, depth) = (spot.segment, spot.depth);
            // Shifted twice, because a depth of 0 asks for 64 bits.
            let start = position & !(u64::MAX >> depth);
            let first = fingerprint(position, depth);
            for home in segment.home(first)..segment.count().max(1) {
                let seen = segment.visit_home(home, first, |fingerprint, address| {
                    visit(start | u64::from(fingerprint) << (48 - depth), address);
                });
                missing = missing.saturating_sub(seen);
                budget -= 1;
                let next = u128::from(start)
                    + (u128::from(segment.first_fingerprint(home + 1)) << (48 - depth));
                // Behind the last bucket of all lies 2^64.
                position = u64::try_from(next).ok()?;
                if missing == 0 || budget == 0 {
                    return Some(position);
                }
            }
        }
    }

    /// Asks the processor for the buckets that a walk from here on will pass, for so many entries,
    /// as far as they lie in one segment.
    pub fn prefetch_walk(&self, from: u64, at_least: usize) {
        let spot = self.spot(from);
        let (buckets, home) =
            (spot.segment.buckets(), spot.segment.home(fingerprint(from, spot.depth)));
        let count = (at_least / WORDS_USED + 1).min(buckets.len());
        buckets.iter().cycle().skip(home).take(count).for_each(Bucket::prefetch);
    }

    /// An entry chosen by a random number, or `None` if there is none.
    ///
    /// The segment is chosen by the share of hash space it covers, then its words are tried at
    /// random, so all entries are about equally likely while the hashes are well spread. When the
    /// eighth try too meets a free word (1 in 2,000 at the usual fill), the next used one is taken.
    pub fn sample(&self, random: u64) -> Option<Address> {
        if self.is_empty() {
            return None;
        }
        let segment = self.spot(random).segment;
        if segment.len() == 0 {
            return self.iter().next();
        }
        let words = segment.count() * WORDS;
        let mut number = 0;
        let mut state = random;
        for _ in 0..SAMPLE_TRIES {
            // The multiplier and increment of Knuth's MMIX generator; its high bits are good.
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            number = ((u128::from(state) * words as u128) >> 64) as usize;
            if let Some(address) = segment.word(number).address() {
                return Some(address);
            }
        }
        (number..words).chain(0..number).find_map(|number| segment.word(number).address())
    }

    /// How the table is built. Looks at every bucket.
    pub fn shape(&self) -> Shape {
        let depth = match &self.root {
            Root::One(_) => 0,
            Root::Many(directory) => directory.depth(),
        };
        let mut shape = Shape { depth, ..Shape::default() };
        for segment in self.segments() {
            shape.add(segment);
        }
        shape
    }
}

impl Shape {
    fn add(&mut self, segment: &Segment) {
        self.segments += 1;
        self.buckets += segment.count();
        self.words += segment.len();
        let mut run = 0;
        for bucket in segment.buckets() {
            run = if bucket.is_full() { run + 1 } else { 0 };
            self.longest_run = self.longest_run.max(run);
            self.buckets_by_fill[Bucket::len(bucket)] += 1;
        }
    }
}
