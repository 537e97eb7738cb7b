//! Searching places: GEOSEARCH, GEOSEARCHSTORE, GEORADIUS and its kin.
//!
//! Invariant: a search reads the members of a few ranges of scores, whatever else there is.

use std::cmp::Ordering;
use std::ops::{Bound, Range};

use base::quote::shown;
use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::sorted_set::{ItemRef, SortedSet, SortedSetLimits, SortedSetRef};

use super::cells::covering;
use super::geohash::Position;
use super::options::{Centre, Dialect, DistanceOrder, GeoSearch};
use super::query::{place_of, reply_position};
use super::shape::Shape;
use super::{distance_text, position};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::change::record_in_decimal;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::{NO_SUCH_PLACE, showing};
use crate::keys::{Access, BeginSearch, FindKeys, KeySpec, at, first};
use crate::sorted_set::{SEARCH_COST_NS, journal_result, limits, store};
use crate::text::reply_member;

/// The key that follows a word.
const fn after(word: &'static str, from: i64) -> KeySpec {
    KeySpec {
        begin: BeginSearch::Keyword(word, from),
        find: FindKeys::Range { last: 0, step: 1, limit: 0 },
        access: Access::OW.and(Access::UPDATE),
        notes: "",
    }
}

pub(super) const GEOSEARCH: DataCommand = Command {
    spec: Spec {
        name: "GEOSEARCH",
        since: "6.2.0",
        group: Group::Geo,
        syntax: "key [FROMMEMBER member | FROMLONLAT longitude latitude] <BYRADIUS radius <M | KM \
            | FT | MI> | BYBOX width height <M | KM | FT | MI> | BYPOLYGON num-vertices longitude \
            latitude [longitude latitude ...]> [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] \
            [WITHDIST] [WITHHASH]",
        summary: "Queries a geospatial index for members inside an area of a box, circle, or a \
            polygon.",
        complexity: "O(N+log(M)) where N is the number of elements in the grid-aligned bounding \
            box area around the shape provided as the filter and M is the number of items inside \
            the shape",
        arity: at_least(7),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        history: &[
            ("7.0.0", "Added support for uppercase unit names."),
            ("9.0.0", "Added support for the BYPOLYGON option."),
        ],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| search(tx, args, reply, Dialect::Search),
};

pub(super) const GEOSEARCHSTORE: DataCommand = Command {
    spec: Spec {
        name: "GEOSEARCHSTORE",
        since: "6.2.0",
        group: Group::Geo,
        syntax: "destination source [FROMMEMBER member | FROMLONLAT longitude latitude] <BYRADIUS \
            radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI> | BYPOLYGON \
            num-vertices longitude latitude [longitude latitude ...]> [ASC | DESC] [COUNT count \
            [ANY]] [STOREDIST]",
        summary: "Queries a geospatial index for members inside an area of a box, a circle, or a \
            polygon, optionally stores the result.",
        complexity: "O(N+log(M)) where N is the number of elements in the grid-aligned bounding \
            box area around the shape provided as the filter and M is the number of items inside \
            the shape",
        arity: at_least(8),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::OPTIMISTIC),
        keys: &[first(Access::OW.and(Access::UPDATE)), at(2, Access::RO.and(Access::ACCESS))],
        history: &[
            ("7.0.0", "Added support for uppercase unit names."),
            ("9.0.0", "Added support for the BYPOLYGON option."),
        ],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| search(tx, args, reply, Dialect::SearchStore),
};

/// A search whose centre and area are options.
fn search(
    tx: &mut Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    dialect: Dialect,
) -> Result<(), Refusal> {
    let mut search = GeoSearch::default();
    let source = match dialect {
        Dialect::SearchStore => {
            search.destination = Some(&args[1]);
            2
        }
        _ => 1,
    };
    let set = tx.view::<SortedSet>(&args[source])?;
    search.read(Options::from(args, source + 1), dialect, set)?;
    check_store(&search, "GEOSEARCHSTORE")?;
    let exactly_one = |of: &str| {
        let before = format!("ERR exactly one of {of} can be specified for ");
        showing(&before, shown(&args[0], 128), "")
    };
    if search.centre.is_none() {
        return Err(exactly_one("FROMMEMBER or FROMLONLAT"));
    }
    if search.shape.is_none() {
        return Err(exactly_one("BYRADIUS and BYBOX"));
    }
    answer(tx, &args[source], &search, "geosearchstore", reply)?;
    if !matches!(search.shape, Some(Shape::Polygon(_))) {
        record_numbers_in_decimal(tx, args, source + 1);
    }
    Ok(())
}

pub(super) const GEORADIUS: DataCommand = Command {
    spec: Spec {
        name: "GEORADIUS",
        since: "3.2.0",
        group: Group::Geo,
        syntax: "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] \
            [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE key | STOREDIST key]",
        summary: "Queries a geospatial index for members within a distance from a coordinate, \
            optionally stores the result.",
        complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the \
            circular area delimited by center and radius and M is the number of items inside the \
            index.",
        arity: at_least(6),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLEKEYS).and(Flags::OPTIMISTIC),
        keys: &[first(Access::RO.and(Access::ACCESS)), after("STORE", 6), after("STOREDIST", 6)],
        history: &[
            ("6.2.0", "Added the `ANY` option for `COUNT`."),
            ("7.0.0", "Added support for uppercase unit names."),
        ],
        deprecated: Some((
            "6.2.0",
            "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument",
        )),
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| radius(tx, args, reply, Dialect::Radius),
};

pub(super) const GEORADIUS_RO: DataCommand = Command {
    spec: Spec {
        name: "GEORADIUS_RO",
        since: "3.2.10",
        group: Group::Geo,
        syntax: "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] \
            [WITHHASH] [COUNT count [ANY]] [ASC | DESC]",
        summary: "Returns members from a geospatial index that are within a distance from a \
            coordinate.",
        complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the \
            circular area delimited by center and radius and M is the number of items inside the \
            index.",
        arity: at_least(6),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        history: &[
            ("6.2.0", "Added the `ANY` option for `COUNT`."),
            ("7.0.0", "Added support for uppercase unit names."),
        ],
        deprecated: Some(("6.2.0", "`GEOSEARCH` with the `BYRADIUS` argument")),
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| radius(tx, args, reply, Dialect::RadiusReadOnly),
};

/// A search in a circle around coordinates.
fn radius(
    tx: &mut Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    dialect: Dialect,
) -> Result<(), Refusal> {
    let mut search = GeoSearch::default();
    let set = tx.view::<SortedSet>(&args[1])?;
    search.centre = Some(Centre::Given(position(&args[2], &args[3])?));
    search.take_circle([&args[4], &args[5]])?;
    search.read(Options::from(args, 6), dialect, set)?;
    check_store(&search, "STORE option in GEORADIUS")?;
    answer(tx, &args[1], &search, "georadiusstore", reply)?;
    record_numbers_in_decimal(tx, args, 2);
    Ok(())
}

pub(super) const GEORADIUSBYMEMBER: DataCommand = Command {
    spec: Spec {
        name: "GEORADIUSBYMEMBER",
        since: "3.2.0",
        group: Group::Geo,
        syntax: "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT \
            count [ANY]] [ASC | DESC] [STORE key | STOREDIST key]",
        summary: "Queries a geospatial index for members within a distance from a member, \
            optionally stores the result.",
        complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the \
            circular area delimited by center and radius and M is the number of items inside the \
            index.",
        arity: at_least(5),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLEKEYS).and(Flags::OPTIMISTIC),
        keys: &[first(Access::RO.and(Access::ACCESS)), after("STORE", 5), after("STOREDIST", 5)],
        history: &[
            ("6.2.0", "Added the `ANY` option for `COUNT`."),
            ("7.0.0", "Added support for uppercase unit names."),
        ],
        deprecated: Some((
            "6.2.0",
            "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments",
        )),
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| radius_by_member(tx, args, reply, Dialect::Radius),
};

pub(super) const GEORADIUSBYMEMBER_RO: DataCommand = Command {
    spec: Spec {
        name: "GEORADIUSBYMEMBER_RO",
        since: "3.2.10",
        group: Group::Geo,
        syntax: "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT \
            count [ANY]] [ASC | DESC]",
        summary: "Returns members from a geospatial index that are within a distance from a \
            member.",
        complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the \
            circular area delimited by center and radius and M is the number of items inside the \
            index.",
        arity: at_least(5),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        history: &[
            ("6.2.0", "Added the `ANY` option for `COUNT`."),
            ("7.0.0", "Added support for uppercase unit names."),
        ],
        deprecated: Some(("6.2.0", "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments")),
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| radius_by_member(tx, args, reply, Dialect::RadiusReadOnly),
};

/// A search in a circle around a member; where there is no set, nobody asks for the radius.
fn radius_by_member(
    tx: &mut Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    dialect: Dialect,
) -> Result<(), Refusal> {
    let mut search = GeoSearch::default();
    let set = tx.view::<SortedSet>(&args[1])?;
    if set.is_some() {
        let place = place_of(set, &args[2]).ok_or(NO_SUCH_PLACE)?;
        search.centre = Some(Centre::Member(Some(place)));
        search.take_circle([&args[3], &args[4]])?;
    }
    search.read(Options::from(args, 5), dialect, set)?;
    check_store(&search, "STORE option in GEORADIUS")?;
    answer(tx, &args[1], &search, "georadiusstore", reply)?;
    record_numbers_in_decimal(tx, args, 3);
    Ok(())
}

/// Has the journal say the numbers from an index on in decimal digits; what stands behind these
/// words is a name.
fn record_numbers_in_decimal(tx: &mut Tx, args: Args<'_>, first: usize) {
    let is_before_name =
        |word: &[u8]| ["FROMMEMBER", "STORE", "STOREDIST"].iter().any(|it| is(word, it));
    record_in_decimal(tx, args, |index| index >= first && !is_before_name(&args[index - 1]));
}

fn check_store(search: &GeoSearch<'_>, command: &str) -> Result<(), Refusal> {
    let replies_more = search.with_distance || search.with_hash || search.with_position;
    if search.destination.is_some() && replies_more {
        return Err(Refusal::owned(format!(
            "ERR {command} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
        )));
    }
    Ok(())
}

/// Carries a search out.
fn answer(
    tx: &mut Tx,
    key: &[u8],
    search: &GeoSearch<'_>,
    event: &'static str,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    if search.any && search.count.is_none() {
        return Err(Refusal::error("ERR the ANY argument requires COUNT argument"));
    }
    let Some(destination) = search.destination else {
        let found = find_at(tx, key, search)?;
        reply.array(found.len());
        found.iter().for_each(|found| found.reply_to(search, reply));
        return Ok(());
    };
    let set = tx.compute(|tx| Ok(storable(&find_at(tx, key, search)?, search, &limits(tx))))?;
    let count = set.borrow().len();
    let changes = tx.effects().changes();
    if matches!(search.shape, Some(Shape::Polygon(_))) {
        journal_result(tx, destination, set.borrow());
    }
    store(tx, destination, set, event)?;
    if count > 0 {
        tx.effects_mut().set_changes(changes + count);
    }
    reply.integer(count as i64);
    Ok(())
}

/// What was found as the sorted set that is stored.
fn storable(found: &[GeoMatch<'_>], search: &GeoSearch<'_>, limits: &SortedSetLimits) -> SortedSet {
    let scored = |found: &GeoMatch<'_>| {
        let distance = found.distance_m / search.unit_m;
        if search.stores_distances { distance } else { found.item.score }
    };
    let mut items: Vec<ItemRef<'_>> =
        found.iter().map(|found| ItemRef { score: scored(found), ..found.item }).collect();
    let mut buffers = (Vec::new(), Vec::new());
    items.sort_by(|one, other| {
        let by_score = compare(one.score, other.score);
        by_score.then_with(|| {
            one.member.as_bytes(&mut buffers.0).cmp(other.member.as_bytes(&mut buffers.1))
        })
    });
    SortedSet::from_sorted(&items, limits)
}

/// A place within the area.
struct GeoMatch<'a> {
    item: ItemRef<'a>,
    place: Position,
    distance_m: f64,
    /// How many were found before: the order of places that are equally far.
    number: usize,
}

impl GeoMatch<'_> {
    fn reply_to(&self, search: &GeoSearch<'_>, reply: &mut Reply<'_>) {
        let extras = [search.with_distance, search.with_hash, search.with_position];
        let extras = extras.into_iter().filter(|extra| *extra).count();
        if extras > 0 {
            reply.array(1 + extras);
        }
        reply_member(self.item.member, reply);
        if search.with_distance {
            reply.bulk(distance_text(self.distance_m / search.unit_m).as_bytes());
        }
        if search.with_hash {
            reply.integer(self.item.score as i64);
        }
        if search.with_position {
            reply_position(self.place, reply);
        }
    }
}

/// What lies within the area at a key.
fn find_at<'a>(
    tx: &'a Tx,
    key: &[u8],
    search: &GeoSearch<'_>,
) -> Result<Vec<GeoMatch<'a>>, Refusal> {
    let set = tx.peek_view::<SortedSet>(key)?;
    set.map_or_else(|| Ok(Vec::new()), |set| find(tx, set, search))
}

/// What lies within the area, as many and in the order as asked for.
fn find<'a>(
    tx: &Tx,
    set: SortedSetRef<'a>,
    search: &GeoSearch<'_>,
) -> Result<Vec<GeoMatch<'a>>, Refusal> {
    let (Some(centre), Some(shape)) = (search.centre, &search.shape) else {
        return Ok(Vec::new());
    };
    let (Centre::Given(centre) | Centre::Polygon(centre) | Centre::Member(Some(centre))) = centre
    else {
        return Ok(Vec::new());
    };
    let cells = covering(centre, shape.radius_m(centre), &shape.bounds(centre));
    let ranks = |(least, behind): (u64, u64)| {
        set.ranks_by_score(Bound::Included(least as f64), Bound::Excluded(behind as f64))
    };
    let ranges: Vec<Range<u64>> = cells.into_iter().map(|cell| ranks(cell.scores())).collect();
    let seen: u64 = ranges.iter().map(|ranks| ranks.end - ranks.start).sum();
    tx.charge(seen * SEARCH_COST_NS)?;
    let enough = if search.any { search.count } else { None };
    let seen = ranges.into_iter().flat_map(|ranks| set.items(ranks)).enumerate();
    let inside = seen.filter_map(|(number, item)| {
        let place = Position::of_score(item.score);
        let distance_m = shape.distance_m(centre, place)?;
        Some(GeoMatch { item, place, distance_m, number })
    });
    let mut found: Vec<GeoMatch<'a>> = inside.take(enough.unwrap_or(usize::MAX)).collect();
    // The nearest are meant where a number is asked for but no order.
    let nearest = search.count.filter(|_| !search.any).map(|_| DistanceOrder::NearestFirst);
    if let Some(order) = search.order.or(nearest) {
        sort(&mut found, order, search.count);
    }
    found.truncate(search.count.unwrap_or(usize::MAX));
    Ok(found)
}

/// Sorts places, of which only the first few may be needed.
fn sort(found: &mut Vec<GeoMatch<'_>>, order: DistanceOrder, count: Option<usize>) {
    let compare = |one: &GeoMatch<'_>, other: &GeoMatch<'_>| {
        let by_distance = match order {
            DistanceOrder::NearestFirst => compare(one.distance_m, other.distance_m),
            DistanceOrder::FarthestFirst => compare(other.distance_m, one.distance_m),
        };
        by_distance.then(one.number.cmp(&other.number))
    };
    if let Some(count) = count.filter(|count| *count < found.len()) {
        found.select_nth_unstable_by(count, compare);
        found.truncate(count);
    }
    found.sort_unstable_by(compare);
}

fn compare(one: f64, other: f64) -> Ordering {
    one.partial_cmp(&other).expect("distances and scores are numbers")
}
