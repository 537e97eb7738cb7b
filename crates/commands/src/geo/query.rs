//! What is known of single places: GEOPOS, GEOHASH, GEODIST.
//!
//! Invariant: nothing here changes anything.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::sorted_set::{SortedSet, SortedSetRef};

use super::geohash::Position;
use super::{distance_text, unit};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::SYNTAX;
use crate::keys::{Access, first};
use crate::sorted_set::SEARCH_COST_NS;

pub(super) const GEOPOS: DataCommand = Command {
    spec: Spec {
        name: "GEOPOS",
        since: "3.2.0",
        group: Group::Geo,
        syntax: "key [member [member ...]]",
        summary: "Returns the longitude and latitude of members from a geospatial index.",
        complexity: "O(1) for each member requested.",
        arity: at_least(2),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: geopos,
};

fn geopos(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let members = args.skip(2);
    tx.charge(members.len() as u64 * SEARCH_COST_NS)?;
    let set = tx.view::<SortedSet>(&args[1])?;
    reply.array(members.len());
    for member in members.iter() {
        match place_of(set, member) {
            Some(place) => reply_position(place, reply),
            None => reply.null_array(),
        }
    }
    Ok(())
}

pub(super) const GEOHASH: DataCommand = Command {
    spec: Spec {
        name: "GEOHASH",
        since: "3.2.0",
        group: Group::Geo,
        syntax: "key [member [member ...]]",
        summary: "Returns members from a geospatial index as geohash strings.",
        complexity: "O(1) for each member requested.",
        arity: at_least(2),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: geohash,
};

fn geohash(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let members = args.skip(2);
    tx.charge(members.len() as u64 * SEARCH_COST_NS)?;
    let set = tx.view::<SortedSet>(&args[1])?;
    reply.array(members.len());
    for member in members.iter() {
        match place_of(set, member) {
            Some(place) => reply.bulk(&place.text()),
            None => reply.null(),
        }
    }
    Ok(())
}

pub(super) const GEODIST: DataCommand = Command {
    spec: Spec {
        name: "GEODIST",
        since: "3.2.0",
        group: Group::Geo,
        syntax: "key member1 member2 [M | KM | FT | MI]",
        summary: "Returns the distance between two members of a geospatial index.",
        complexity: "O(1)",
        arity: at_least(4),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: geodist,
};

fn geodist(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let metres = match args.len() {
        4 => 1.0,
        5 => unit(&args[4])?,
        _ => return Err(SYNTAX),
    };
    let set = tx.view::<SortedSet>(&args[1])?;
    match (place_of(set, &args[2]), place_of(set, &args[3])) {
        (Some(one), Some(other)) => {
            reply.bulk(distance_text(one.distance_m(other) / metres).as_bytes());
        }
        _ => reply.null(),
    }
    Ok(())
}

/// Where a member is.
pub(super) fn place_of(set: Option<SortedSetRef<'_>>, member: &[u8]) -> Option<Position> {
    set.and_then(|set| set.score(member)).map(Position::of_score)
}

/// Replies longitude and latitude.
pub(super) fn reply_position(place: Position, reply: &mut Reply<'_>) {
    reply.array(2);
    reply.double(place.longitude);
    reply.double(place.latitude);
}
