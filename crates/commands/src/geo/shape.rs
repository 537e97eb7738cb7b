//! What a search looks in: a circle, a rectangle along the parallels, or a polygon.
//!
//! Invariant: a place is in a shape by the same arithmetic as in Redis, and for polygons in Valkey.

use super::geohash::{Bounds, EARTH_RADIUS_M, Position, degrees, latitude_distance_m, radians};

/// A shape; metres.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    /// Around the centre.
    Circle {
        /// From the centre.
        radius_m: f64,
    },
    /// Around the centre.
    Box {
        /// From west to east.
        width_m: f64,
        /// From south to north.
        height_m: f64,
    },
    /// Between these corners, at least three.
    Polygon(Vec<Position>),
}

impl Shape {
    /// The distance of a place from the centre, if it lies within.
    pub(super) fn distance_m(&self, centre: Position, place: Position) -> Option<f64> {
        let is_within = match self {
            Self::Circle { radius_m } => {
                return Some(centre.distance_m(place)).filter(|distance| distance <= radius_m);
            }
            Self::Box { width_m, height_m } => {
                let abeam = Position { longitude: centre.longitude, latitude: place.latitude };
                latitude_distance_m(place.latitude, centre.latitude) <= height_m / 2.0
                    && place.distance_m(abeam) <= width_m / 2.0
            }
            Self::Polygon(corners) => is_enclosed(corners, place),
        };
        is_within.then(|| centre.distance_m(place))
    }

    /// How far it reaches from its centre.
    pub(super) fn radius_m(&self, centre: Position) -> f64 {
        match self {
            Self::Circle { radius_m } => *radius_m,
            Self::Box { width_m, height_m } => {
                let (width_m, height_m) = (width_m / 2.0, height_m / 2.0);
                (width_m * width_m + height_m * height_m).sqrt()
            }
            Self::Polygon(corners) => {
                corners.iter().map(|corner| centre.distance_m(*corner)).fold(0.0, f64::max)
            }
        }
    }

    /// The least rectangle of the map that it lies in.
    pub(super) fn bounds(&self, centre: Position) -> Bounds {
        match self {
            Self::Circle { radius_m } => bounds_around(centre, *radius_m, *radius_m),
            Self::Box { width_m, height_m } => bounds_around(centre, width_m / 2.0, height_m / 2.0),
            Self::Polygon(corners) => corners.iter().fold(
                Bounds { west: f64::MAX, south: f64::MAX, east: f64::MIN, north: f64::MIN },
                |bounds, corner| Bounds {
                    west: bounds.west.min(corner.longitude),
                    south: bounds.south.min(corner.latitude),
                    east: bounds.east.max(corner.longitude),
                    north: bounds.north.max(corner.latitude),
                },
            ),
        }
    }
}

/// The rectangle that reaches so far to all sides; meridians are nearer to each other at that edge
/// which is closer to a pole.
fn bounds_around(centre: Position, width_m: f64, height_m: f64) -> Bounds {
    let Position { longitude, latitude } = centre;
    let up = degrees(height_m / EARTH_RADIUS_M);
    let edge = if latitude < 0.0 { latitude - up } else { latitude + up };
    let across = degrees(width_m / EARTH_RADIUS_M / radians(edge).cos());
    Bounds {
        west: longitude - across,
        south: latitude - up,
        east: longitude + across,
        north: latitude + up,
    }
}

/// The middle of some corners: that of the points in space, seen from the middle of the earth.
pub(super) fn middle_of(corners: &[Position]) -> Position {
    let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
    for corner in corners {
        let (longitude, latitude) = (radians(corner.longitude), radians(corner.latitude));
        x += latitude.cos() * longitude.cos();
        y += latitude.cos() * longitude.sin();
        z += latitude.sin();
    }
    let count = corners.len() as f64;
    let (x, y, z) = (x / count, y / count, z / count);
    Position { longitude: degrees(y.atan2(x)), latitude: degrees(z.atan2((x * x + y * y).sqrt())) }
}

/// Whether a ray to the east leaves a polygon an odd number of times.
fn is_enclosed(corners: &[Position], place: Position) -> bool {
    let before = corners.iter().cycle().skip(corners.len() - 1);
    let crossed = corners.iter().zip(before).filter(|(one, other)| {
        let slope = (other.longitude - one.longitude) / (other.latitude - one.latitude);
        (one.latitude > place.latitude) != (other.latitude > place.latitude)
            && place.longitude < slope * (place.latitude - one.latitude) + one.longitude
    });
    crossed.count() % 2 == 1
}
