//! The indexes of a page's elements, in as few bytes as they allow.
//!
//! ```text
//!  Run    first, count                  none is missing between them, so none is stored
//!  Near   first, [ u32 | u32 | .. ]     the distance of each from the first
//!  Far    [ u64 | u64 | .. ]
//! ```
//!
//! Invariant: indexes rise, and what could be a run is one.

/// Rising indexes.
#[derive(Clone, Debug)]
pub(super) enum Indexes {
    /// One after another.
    Run { first: u64, count: usize },
    /// Some are missing.
    Near { first: u64, distances: Vec<u32> },
    /// So many are missing that distances would not fit.
    Far(Vec<u64>),
}

impl Default for Indexes {
    fn default() -> Indexes {
        Indexes::Run { first: 0, count: 0 }
    }
}

impl Indexes {
    /// These indexes, which rise.
    pub(super) fn from_rising(indexes: Vec<u64>) -> Indexes {
        let (Some(&first), Some(&last)) = (indexes.first(), indexes.last()) else {
            return Indexes::default();
        };
        let span = last - first;
        if span == indexes.len() as u64 - 1 {
            return Indexes::Run { first, count: indexes.len() };
        }
        if u32::try_from(span).is_err() {
            return Indexes::Far(indexes);
        }
        let distances = indexes.iter().map(|index| (index - first) as u32).collect();
        Indexes::Near { first, distances }
    }

    /// How many.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Indexes::Run { count, .. } => *count,
            Indexes::Near { distances, .. } => distances.len(),
            Indexes::Far(indexes) => indexes.len(),
        }
    }

    /// The index at a place.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub(super) fn get(&self, place: usize) -> u64 {
        match self {
            Indexes::Run { first, count } => {
                assert!(place < *count, "a place is below the number of elements");
                first + place as u64
            }
            Indexes::Near { first, distances } => first + u64::from(distances[place]),
            Indexes::Far(indexes) => indexes[place],
        }
    }

    /// The place of an index, or the one at which it would stand.
    #[inline]
    pub(super) fn find(&self, index: u64) -> Result<usize, usize> {
        let (first, len) = match self {
            Indexes::Run { first, count } => (*first, *count),
            Indexes::Near { first, distances } => (*first, distances.len()),
            Indexes::Far(indexes) => return indexes.binary_search(&index),
        };
        let Some(distance) = index.checked_sub(first) else { return Err(0) };
        match self {
            Indexes::Near { distances, .. } => {
                let distance = u32::try_from(distance).map_err(|_| len)?;
                distances.binary_search(&distance)
            }
            _ if distance < len as u64 => Ok(distance as usize),
            _ => Err(len),
        }
    }

    /// Puts an index at the place where [`Indexes::find`] misses it.
    pub(super) fn insert(&mut self, place: usize, index: u64) {
        match self {
            Indexes::Run { first, count } if *count == 0 || index + 1 == *first => {
                *first = index;
                *count += 1;
            }
            Indexes::Run { first, count } if index == *first + *count as u64 => *count += 1,
            Indexes::Near { first, distances }
                if place > 0 && u32::try_from(index - *first).is_ok() =>
            {
                let distance = (index - *first) as u32;
                if distances.len() == distances.capacity() {
                    distances.reserve_exact(4 + distances.len() / 4);
                }
                distances.insert(place, distance);
                self.settle();
            }
            _ => {
                let mut indexes = self.to_vec();
                indexes.insert(place, index);
                *self = Indexes::from_rising(indexes);
            }
        }
    }

    /// Takes the index at a place out.
    pub(super) fn remove(&mut self, place: usize) {
        match self {
            Indexes::Run { first, count } if place == 0 => {
                *first += 1;
                *count -= 1;
            }
            Indexes::Run { count, .. } if place + 1 == *count => *count -= 1,
            Indexes::Near { distances, .. } if place > 0 => {
                distances.remove(place);
                self.settle();
            }
            _ => {
                let mut indexes = self.to_vec();
                indexes.remove(place);
                *self = Indexes::from_rising(indexes);
            }
        }
    }

    /// Moves the indexes from a place on out.
    pub(super) fn split_off(&mut self, place: usize) -> Indexes {
        let mut indexes = self.to_vec();
        let upper = indexes.split_off(place);
        *self = Indexes::from_rising(indexes);
        Indexes::from_rising(upper)
    }

    /// Adds indexes that are all greater.
    pub(super) fn append(&mut self, next: &Indexes) {
        let mut indexes = self.to_vec();
        indexes.extend((0..next.len()).map(|place| next.get(place)));
        *self = Indexes::from_rising(indexes);
    }

    /// Heap bytes.
    pub(super) fn memory(&self) -> usize {
        match self {
            Indexes::Run { .. } => 0,
            Indexes::Near { distances, .. } => distances.capacity() * size_of::<u32>(),
            Indexes::Far(indexes) => indexes.capacity() * size_of::<u64>(),
        }
    }

    pub(super) fn to_vec(&self) -> Vec<u64> {
        (0..self.len()).map(|place| self.get(place)).collect()
    }

    /// Makes a run of distances that have become one.
    fn settle(&mut self) {
        if let Indexes::Near { first, distances } = self
            && distances.last().is_some_and(|last| *last as usize == distances.len() - 1)
        {
            *self = Indexes::Run { first: *first, count: distances.len() };
        }
    }
}
