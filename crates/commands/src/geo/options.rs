//! What searches are asked: the words of GEOSEARCH, GEORADIUS and their kin.
//!
//! Invariant: words are read from left to right, and the first one that is wrong is told; what is
//! missing is told after that.

use base::number::{parse_f64, parse_i64};
use keyspace::Refusal;
use structs::sorted_set::SortedSetRef;

use super::geohash::Position;
use super::query::place_of;
use super::shape::{Shape, middle_of};
use super::{position, unit};
use crate::arguments::{Options, is};
use crate::errors::{NO_SUCH_PLACE, SYNTAX};

const TOO_FEW_CORNERS: Refusal =
    Refusal::error("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices");

/// A search.
#[derive(Default)]
pub(super) struct GeoSearch<'a> {
    pub(super) centre: Option<Centre>,
    pub(super) shape: Option<Shape>,
    /// Metres of the unit that distances are told in.
    pub(super) unit_m: f64,
    pub(super) with_distance: bool,
    pub(super) with_hash: bool,
    pub(super) with_position: bool,
    pub(super) order: Option<DistanceOrder>,
    pub(super) count: Option<usize>,
    /// Whether any places will do as long as there are enough.
    pub(super) any: bool,
    pub(super) destination: Option<&'a [u8]>,
    pub(super) stores_distances: bool,
}

/// Where a search begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Centre {
    /// Coordinates that the request has.
    Given(Position),
    /// A member's; there is none where there is no set.
    Member(Option<Position>),
    /// The middle of a polygon.
    Polygon(Position),
}

/// How results are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DistanceOrder {
    NearestFirst,
    FarthestFirst,
}

/// Which words a command has beyond those of all searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Centre and area are words, too.
    Search,
    /// As before, and the result is stored.
    SearchStore,
    /// The result may be stored.
    Radius,
    /// Nothing more.
    RadiusReadOnly,
}

impl<'a> GeoSearch<'a> {
    /// Reads all words that are left.
    pub(super) fn read(
        &mut self,
        mut options: Options<'a>,
        dialect: Dialect,
        set: Option<SortedSetRef<'_>>,
    ) -> Result<(), Refusal> {
        while let Some(word) = options.word() {
            let is_taken = self.take(word, &mut options)?
                || match dialect {
                    Dialect::Search => self.take_area(word, &mut options, set)?,
                    Dialect::SearchStore if is(word, "STOREDIST") => {
                        self.stores_distances = true;
                        true
                    }
                    Dialect::SearchStore => self.take_area(word, &mut options, set)?,
                    Dialect::Radius => self.take_destination(word, &mut options)?,
                    Dialect::RadiusReadOnly => false,
                };
            if !is_taken {
                return Err(SYNTAX);
            }
        }
        Ok(())
    }

    /// A word that all searches have.
    fn take(&mut self, word: &[u8], options: &mut Options<'a>) -> Result<bool, Refusal> {
        if is(word, "WITHDIST") {
            self.with_distance = true;
        } else if is(word, "WITHHASH") {
            self.with_hash = true;
        } else if is(word, "WITHCOORD") {
            self.with_position = true;
        } else if is(word, "ANY") {
            self.any = true;
        } else if is(word, "ASC") {
            self.order = Some(DistanceOrder::NearestFirst);
        } else if is(word, "DESC") {
            self.order = Some(DistanceOrder::FarthestFirst);
        } else if is(word, "COUNT") {
            let count = usize::try_from(options.integer()?).ok().filter(|count| *count > 0);
            self.count = Some(count.ok_or(Refusal::error("ERR COUNT must be > 0"))?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn take_destination(
        &mut self,
        word: &[u8],
        options: &mut Options<'a>,
    ) -> Result<bool, Refusal> {
        let stores_distances = is(word, "STOREDIST");
        if !stores_distances && !is(word, "STORE") {
            return Ok(false);
        }
        self.destination = Some(options.value()?);
        self.stores_distances = stores_distances;
        Ok(true)
    }

    fn take_area(
        &mut self,
        word: &[u8],
        options: &mut Options<'a>,
        set: Option<SortedSetRef<'_>>,
    ) -> Result<bool, Refusal> {
        if is(word, "FROMMEMBER") && matches!(self.centre, None | Some(Centre::Member(_))) {
            let member = options.value()?;
            self.centre = Some(Centre::Member(match set {
                Some(_) => Some(place_of(set, member).ok_or(NO_SUCH_PLACE)?),
                None => None,
            }));
        } else if is(word, "FROMLONLAT") && matches!(self.centre, None | Some(Centre::Given(_))) {
            let [longitude, latitude] = values(options)?;
            self.centre = Some(Centre::Given(position(longitude, latitude)?));
        } else if is(word, "BYRADIUS") && matches!(self.shape, None | Some(Shape::Circle { .. })) {
            self.take_circle(values(options)?)?;
        } else if is(word, "BYBOX") && matches!(self.shape, None | Some(Shape::Box { .. })) {
            self.take_box(values(options)?)?;
        } else if is(word, "BYPOLYGON")
            && matches!(self.centre, None | Some(Centre::Polygon(_)))
            && matches!(self.shape, None | Some(Shape::Polygon(_)))
        {
            self.take_polygon(options)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// A radius and its unit.
    pub(super) fn take_circle(&mut self, [radius, unit_word]: [&[u8]; 2]) -> Result<(), Refusal> {
        const NOT_A_RADIUS: Refusal = Refusal::error("ERR need numeric radius");
        const NEGATIVE: Refusal = Refusal::error("ERR radius cannot be negative");
        let radius = parse_f64(radius).ok_or(NOT_A_RADIUS)?;
        if radius < 0.0 {
            return Err(NEGATIVE);
        }
        self.unit_m = unit(unit_word)?;
        self.shape = Some(Shape::Circle { radius_m: radius * self.unit_m });
        Ok(())
    }

    fn take_box(&mut self, [width, height, unit_word]: [&[u8]; 3]) -> Result<(), Refusal> {
        const NOT_A_WIDTH: Refusal = Refusal::error("ERR need numeric width");
        const NOT_A_HEIGHT: Refusal = Refusal::error("ERR need numeric height");
        const NEGATIVE: Refusal = Refusal::error("ERR height or width cannot be negative");
        let width = parse_f64(width).ok_or(NOT_A_WIDTH)?;
        let height = parse_f64(height).ok_or(NOT_A_HEIGHT)?;
        if width < 0.0 || height < 0.0 {
            return Err(NEGATIVE);
        }
        let unit_m = unit(unit_word)?;
        self.unit_m = unit_m;
        self.shape = Some(Shape::Box { width_m: width * unit_m, height_m: height * unit_m });
        Ok(())
    }

    /// A number of corners and their coordinates.
    fn take_polygon(&mut self, options: &mut Options<'a>) -> Result<(), Refusal> {
        const NOT_A_NUMBER: Refusal = Refusal::error("ERR invalid number of vertices");
        let count = parse_i64(options.value()?).and_then(|count| i32::try_from(count).ok());
        let count = count.ok_or(NOT_A_NUMBER)?;
        let count = usize::try_from(count).ok().filter(|count| *count >= 3);
        let count = count.filter(|count| 2 * count <= options.remaining());
        let corners = (0..count.ok_or(TOO_FEW_CORNERS)?)
            .map(|_| {
                values(options).and_then(|[longitude, latitude]| position(longitude, latitude))
            })
            .collect::<Result<Vec<_>, _>>()?;
        self.unit_m = 1.0;
        self.centre = Some(Centre::Polygon(middle_of(&corners)));
        self.shape = Some(Shape::Polygon(corners));
        Ok(())
    }
}

/// The values that must follow a word.
fn values<'a, const COUNT: usize>(options: &mut Options<'a>) -> Result<[&'a [u8]; COUNT], Refusal> {
    if options.remaining() < COUNT {
        return Err(SYNTAX);
    }
    let mut values = [&[][..]; COUNT];
    for value in &mut values {
        *value = options.value()?;
    }
    Ok(values)
}
