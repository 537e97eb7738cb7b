//! Places: sorted sets whose scores are geohashes.
//!
//! Invariant: a score is what Redis makes of the same coordinates, bit by bit.

mod add;
mod cells;
mod geohash;
mod options;
mod query;
mod search;
mod shape;
#[cfg(test)]
mod tests;

use base::number::parse_f64;
use keyspace::Refusal;

use self::geohash::Position;
use crate::DataCommand;
use crate::arguments::is;
use crate::errors::NOT_A_FLOAT;

/// All commands of the family.
pub const COMMANDS: &[&DataCommand] = &[
    &add::GEOADD,
    &query::GEODIST,
    &query::GEOHASH,
    &query::GEOPOS,
    &search::GEORADIUS,
    &search::GEORADIUSBYMEMBER,
    &search::GEORADIUSBYMEMBER_RO,
    &search::GEORADIUS_RO,
    &search::GEOSEARCH,
    &search::GEOSEARCHSTORE,
];

/// Reads a longitude and a latitude of the part of the world that geohashes cover.
fn position(longitude: &[u8], latitude: &[u8]) -> Result<Position, Refusal> {
    let longitude = parse_f64(longitude).ok_or(NOT_A_FLOAT)?;
    let latitude = parse_f64(latitude).ok_or(NOT_A_FLOAT)?;
    let position = Position { longitude, latitude };
    if position.is_covered() {
        return Ok(position);
    }
    let text = format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
    Err(Refusal::owned(text))
}

/// Reads a unit of length: how many metres it has.
fn unit(word: &[u8]) -> Result<f64, Refusal> {
    let units = [("M", 1.0), ("KM", 1000.0), ("FT", 0.3048), ("MI", 1609.34)];
    let found = units.iter().find(|(name, _)| is(word, name)).map(|&(_, metres)| metres);
    found.ok_or(Refusal::error("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

/// A distance as clients get it: four digits after the point, a tie going to the even one.
fn distance_text(distance: f64) -> String {
    let scaled = (distance * 10_000.0).round_ties_even();
    if scaled.abs() > 1e15 {
        return format!("{distance:.4}");
    }
    let scaled = scaled as u64;
    format!("{}.{:04}", scaled / 10_000, scaled % 10_000)
}
