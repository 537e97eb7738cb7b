//! Geohashes: a place on the map as one integer, by halving longitude and latitude in turn; and how
//! far places are from each other.
//!
//! ```text
//! bit 51  50  49  48  ..   1   0      of a score, an integer of 52 bits
//!    lon lat lon lat      lon lat     a bit says which half the place lies in
//! ```
//!
//! Invariant: encoding and decoding give the same bits as Redis, so that scores, coordinates and
//! distances agree to the last digit.

/// Bits of a longitude and of a latitude in a score.
pub(super) const STEP_MAX: u32 = 26;

/// Beyond this latitude a Mercator map, which Redis cuts off at a square, shows nothing.
const LATITUDE_MAX: f64 = 85.051_128_78;
const LONGITUDE_MAX: f64 = 180.0;

/// Metres, between the radius at the equator and that at the poles.
pub(super) const EARTH_RADIUS_M: f64 = 6_372_797.560_856;

/// The digits of a geohash as a text: base 32 without a, i, l and o.
const DIGITS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
const DIGITS_COUNT: usize = 11;

/// A place; degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

/// A rectangle of the map; degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounds {
    pub(super) west: f64,
    pub(super) south: f64,
    pub(super) east: f64,
    pub(super) north: f64,
}

/// One rectangle of the map's 2^step columns and as many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    column: u32,
    row: u32,
    step: u32,
}

impl Position {
    /// Whether geohashes reach it.
    pub(super) fn is_covered(self) -> bool {
        self.longitude.abs() <= LONGITUDE_MAX && self.latitude.abs() <= LATITUDE_MAX
    }

    /// The middle of the smallest cell that a score names.
    pub(super) fn of_score(score: f64) -> Self {
        // Scores that were not made from places may be negative, too.
        let bits = if score < 0.0 { score as i64 as u64 } else { score as u64 };
        let cell = Cell { column: every_other(bits >> 1), row: every_other(bits), step: STEP_MAX };
        let Bounds { west, south, east, north } = cell.bounds();
        Self {
            longitude: ((west + east) / 2.0).clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: ((south + north) / 2.0).clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }

    /// Its geohash.
    pub(super) fn score(self) -> u64 {
        Cell::at(self, STEP_MAX).bits()
    }

    /// The geohash as others write it: over all latitudes, and as a text.
    pub(super) fn text(self) -> [u8; DIGITS_COUNT] {
        let bits = Cell::within(self, 90.0, STEP_MAX).bits();
        std::array::from_fn(|index| {
            // The last digit would need three bits more than there are.
            let shift = (2 * STEP_MAX).checked_sub(5 * (index as u32 + 1));
            DIGITS[shift.map_or(0, |shift| bits >> shift & 31) as usize]
        })
    }

    /// Metres to another place, along the surface of a sphere.
    pub(super) fn distance_m(self, other: Self) -> f64 {
        let (here, there) = (radians(self.latitude), radians(other.latitude));
        let across = ((radians(other.longitude) - radians(self.longitude)) / 2.0).sin();
        if across == 0.0 {
            return latitude_distance_m(self.latitude, other.latitude);
        }
        let up = ((there - here) / 2.0).sin();
        let haversine = up * up + here.cos() * there.cos() * across * across;
        2.0 * EARTH_RADIUS_M * haversine.sqrt().asin()
    }
}

/// Metres between two parallels.
pub(super) fn latitude_distance_m(one: f64, other: f64) -> f64 {
    EARTH_RADIUS_M * (radians(other) - radians(one)).abs()
}

/// Not `f64::to_radians`, whose constant is another double.
pub(super) fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

pub(super) fn degrees(radians: f64) -> f64 {
    radians / (std::f64::consts::PI / 180.0)
}

impl Cell {
    /// The cell that a place lies in.
    pub(super) fn at(position: Position, step: u32) -> Self {
        Self::within(position, LATITUDE_MAX, step)
    }

    fn within(position: Position, latitude_max: f64, step: u32) -> Self {
        let index = |value: f64, max: f64| {
            let share = (value + max) / (2.0 * max);
            (share * f64::from(1_u32 << step)) as u32
        };
        Self {
            column: index(position.longitude, LONGITUDE_MAX),
            row: index(position.latitude, latitude_max),
            step,
        }
    }

    /// The cell so many columns and rows away, around the edges of the map. As in Redis, a place on
    /// the very edge keeps its column or row behind the last one as long as it does not move.
    pub(super) fn moved(self, columns: i32, rows: i32) -> Self {
        let moved = |index: u32, by: i32| match by {
            0 => index,
            _ => index.wrapping_add_signed(by) & ((1 << self.step) - 1),
        };
        Self { column: moved(self.column, columns), row: moved(self.row, rows), step: self.step }
    }

    pub(super) fn bounds(self) -> Bounds {
        let edge = |index: u32, after: f64, max: f64| {
            -max + (f64::from(index) + after) / f64::from(1_u32 << self.step) * (max + max)
        };
        Bounds {
            west: edge(self.column, 0.0, LONGITUDE_MAX),
            south: edge(self.row, 0.0, LATITUDE_MAX),
            east: edge(self.column, 1.0, LONGITUDE_MAX),
            north: edge(self.row, 1.0, LATITUDE_MAX),
        }
    }

    /// The least score in the cell, and the least that lies behind it.
    pub(super) fn scores(self) -> (u64, u64) {
        let shift = 2 * (STEP_MAX - self.step);
        let bits = self.bits();
        (bits << shift, (bits + 1) << shift)
    }

    fn bits(self) -> u64 {
        spread(self.column) << 1 | spread(self.row)
    }
}

/// Puts a zero before each bit.
fn spread(bits: u32) -> u64 {
    SPREADING.iter().fold(u64::from(bits), |bits, &(shift, mask)| (bits | bits << shift) & mask)
}

/// Drops every second bit, the higher one of each pair.
fn every_other(bits: u64) -> u32 {
    let spread = bits & SPREADING[SPREADING.len() - 1].1;
    let gathered = SPREADING.windows(2).rev().fold(spread, |bits, steps| {
        let [(_, mask), (shift, _)] = *steps else { unreachable!("windows are of two") };
        (bits | bits >> shift) & mask
    });
    (gathered | gathered >> SPREADING[0].0) as u32
}

/// Steps that move the halves of ever smaller groups of bits apart.
const SPREADING: [(u32, u64); 5] = [
    (16, 0x0000_ffff_0000_ffff),
    (8, 0x00ff_00ff_00ff_00ff),
    (4, 0x0f0f_0f0f_0f0f_0f0f),
    (2, 0x3333_3333_3333_3333),
    (1, 0x5555_5555_5555_5555),
];
