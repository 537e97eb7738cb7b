//! What values are made of. Invariant: under `--data-verify` and `--verify-only` a value is a
//! function of its key and of the sizes asked for, whichever connection writes it, and in which
//! run.

use base::Random;

use super::distribution::below_inclusive;
use super::keys::KeyRange;
use super::plan::SEED;
use super::template::Segment;
use crate::options::{self, DataSize, Keys, Verify};

/// Places in the random bytes at which a value may begin.
const STARTS: usize = 16 * 1024;

/// Bytes of a verified value that name its key, so that values of two keys differ wherever they
/// begin.
const STAMP_LEN: usize = 8;

/// Sizes and bytes.
#[derive(Debug)]
pub(super) struct ValueSource {
    sizes: Sizes,
    /// Values are cut from these.
    bytes: Vec<u8>,
    /// At how many places they may begin.
    starts: usize,
    by_key: bool,
}

#[derive(Debug)]
enum Sizes {
    Fixed(usize),
    Uniform(u32, u32),
    /// Growing with the key over the range of keys.
    Growing {
        least: u64,
        sizes: u64,
        keys: KeyRange,
    },
    /// Sizes, each with the sum of the weights up to it; and the sum of all.
    Weighted(Vec<(u64, usize)>, u64),
}

/// One value: a part of the bytes, its beginning replaced by a stamp.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Value {
    start: usize,
    pub(super) len: usize,
    stamp: Option<[u8; STAMP_LEN]>,
}

impl ValueSource {
    /// Prepares the bytes.
    pub(super) fn new(wanted: &options::Values, keys: &Keys, verify: Verify, seed: u64) -> Self {
        let by_key = verify != Verify::No;
        let sizes = Sizes::new(&wanted.size, KeyRange::new(keys.minimum, keys.maximum));
        let len_max = sizes.max();
        let (bytes, starts) = if by_key {
            (random_bytes(SEED, len_max + STARTS), STARTS)
        } else if wanted.random {
            (random_bytes(seed, len_max + STARTS), STARTS)
        } else {
            (vec![b'x'; len_max], 1)
        };
        Self { sizes, bytes, starts, by_key }
    }

    /// What stands for the value in a template: the value itself if there is only one.
    pub(super) fn segment(&self) -> Segment {
        match self.sizes {
            Sizes::Fixed(len) if self.starts == 1 => Segment::Literal(self.bytes[..len].to_vec()),
            _ => Segment::Data,
        }
    }

    /// Bytes of the largest value.
    pub(super) fn len_max(&self) -> usize {
        self.sizes.max()
    }

    /// The value for a request with this key.
    #[inline]
    pub(super) fn pick(&self, key: u64, random: &mut Random) -> Value {
        if self.by_key { self.of_key(key) } else { self.draw(key, random) }
    }

    /// Appends a value.
    #[inline]
    pub(super) fn append(&self, value: Value, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes[value.start..value.start + value.len]);
        if let Some(stamp) = value.stamp {
            let stamped = stamp.len().min(value.len);
            out[start..start + stamped].copy_from_slice(&stamp[..stamped]);
        }
    }

    /// Whether this is the value of that key; true where values are not of their keys.
    pub(super) fn is_of_key(&self, key: u64, found: &[u8]) -> bool {
        if !self.by_key {
            return true;
        }
        let value = self.of_key(key);
        let stamp = value.stamp.unwrap_or_default();
        let stamped = stamp.len().min(value.len);
        found.len() == value.len
            && found[..stamped] == stamp[..stamped]
            && found[stamped..] == self.bytes[value.start + stamped..value.start + value.len]
    }

    fn of_key(&self, key: u64) -> Value {
        let mut random = Random::from_seed(SEED ^ key);
        let stamp = Some(random.next_u64().to_le_bytes());
        Value { stamp, ..self.draw(key, &mut random) }
    }

    fn draw(&self, key: u64, random: &mut Random) -> Value {
        let len = self.sizes.draw(key, random);
        let start = if self.starts == 1 { 0 } else { random.below(self.starts as u64) as usize };
        Value { start, len, stamp: None }
    }
}

impl Sizes {
    fn new(size: &DataSize, keys: KeyRange) -> Self {
        match size {
            DataSize::Fixed(len) => Self::Fixed(*len as usize),
            DataSize::Range { minimum, maximum, by_key: false } => {
                Self::Uniform(*minimum, *maximum)
            }
            DataSize::Range { minimum, maximum, by_key: true } => {
                let sizes = u64::from(maximum.saturating_sub(*minimum)) + 1;
                Self::Growing { least: u64::from(*minimum), sizes, keys }
            }
            DataSize::List(list) => {
                let mut sum = 0;
                let sums = list.iter().map(|(len, weight)| {
                    sum += u64::from(*weight);
                    (sum, *len as usize)
                });
                Self::Weighted(sums.collect(), sum)
            }
        }
    }

    fn max(&self) -> usize {
        match self {
            Self::Fixed(len) => *len,
            Self::Uniform(_, most) => *most as usize,
            Self::Growing { least, sizes, .. } => (least + sizes - 1) as usize,
            Self::Weighted(list, _) => list.iter().map(|(_, len)| *len).max().unwrap_or(0),
        }
    }

    fn draw(&self, key: u64, random: &mut Random) -> usize {
        match self {
            Self::Fixed(len) => *len,
            Self::Uniform(least, most) => below_inclusive(random, (*least, *most)) as usize,
            Self::Growing { least, sizes, keys } => {
                let step = u128::from(key - keys.first) * u128::from(*sizes);
                (u128::from(*least) + step / u128::from(keys.len())) as usize
            }
            Self::Weighted(list, sum) => {
                let drawn = random.below(*sum);
                let index = list.partition_point(|(up_to, _)| *up_to <= drawn);
                list[index].1
            }
        }
    }
}

fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::from_seed(seed);
    let mut bytes = Vec::with_capacity(len.next_multiple_of(8));
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
