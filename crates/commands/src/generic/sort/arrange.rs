//! Bringing elements into the order that a request asks for.
//!
//! Invariant: the order is one and the same wherever the request runs: elements of equal weight go
//! by their bytes or, where text was compared, as they lie, if they lie in one order everywhere.

use std::cmp::Ordering;
use std::ops::Range;

use keyspace::{Refusal, Tx};
use smallvec::SmallVec;
use structs::members::Text;

use super::pattern::{Pattern, TOGETHER, Value, prefetch};
use super::request::{SortBy, SortRequest};
use super::source::SortSource;

const NOT_DOUBLES: Refusal =
    Refusal::error("ERR One or more scores can't be converted into double");

/// An element and what it is ordered by.
struct Weighed<'t, W> {
    weight: W,
    element: Text<'t>,
    /// Where the element was found.
    place: u64,
}

/// The elements of a range of places in the order that a request asks for.
pub(super) fn arrange<'t>(
    tx: &'t Tx,
    source: SortSource<'t>,
    request: &SortRequest<'_>,
    range: Range<u64>,
) -> Result<Vec<Text<'t>>, Refusal> {
    let directed = |order: Ordering| if request.falling { order.reverse() } else { order };
    let pattern = match &request.order {
        SortBy::Pattern(pattern) => pattern,
        SortBy::Elements | SortBy::Found => &Pattern::Element,
    };
    let by_text = request.by_text || matches!(request.order, SortBy::Found);
    if !by_text {
        let number = |value: Option<Value<'t>>| value.map_or(Some(0.0), Value::number);
        let weighed = weigh(tx, source, pattern, number)?;
        return Ok(cut(weighed, range, |one, other| {
            let order = one.weight.partial_cmp(&other.weight).expect("no weight is NaN");
            directed(order.then_with(|| by_bytes(one.element, other.element)))
        }));
    }
    let weighed = weigh(tx, source, pattern, |value| Some(value.map(Value::bytes)))?;
    Ok(cut(weighed, range, |one, other| {
        let order = match (&one.weight, &other.weight) {
            (Some(these), Some(those)) => these.compare(those),
            (these, those) => these.is_some().cmp(&those.is_some()),
        };
        directed(match order {
            Ordering::Equal if source.is_unordered() => by_bytes(one.element, other.element),
            order => order,
        })
    }))
}

/// All elements with their weights; those that have none spoil it for all.
fn weigh<'t, W>(
    tx: &'t Tx,
    source: SortSource<'t>,
    pattern: &Pattern<'_>,
    weight: impl Fn(Option<Value<'t>>) -> Option<W>,
) -> Result<Vec<Weighed<'t, W>>, Refusal> {
    let (mut weighed, mut refused, mut are_weighable) = (Vec::new(), None, true);
    let (mut elements, mut place, mut key) = (source.iter(), 0, Vec::new());
    loop {
        let some: SmallVec<[Text<'t>; TOGETHER]> = elements.by_ref().take(TOGETHER).collect();
        prefetch(tx, std::slice::from_ref(pattern), &some);
        for element in &some {
            match pattern.look_up(tx, *element, &mut key).map(&weight) {
                Ok(Some(weight)) => weighed.push(Weighed { weight, element: *element, place }),
                Ok(None) => are_weighable = false,
                // On to the others, so that all locks are asked for together.
                Err(refusal) => refused = Some(refusal),
            }
            place += 1;
        }
        if some.len() < TOGETHER {
            break;
        }
    }
    match refused {
        Some(refusal) => Err(refusal),
        None if !are_weighable => Err(NOT_DOUBLES),
        None => Ok(weighed),
    }
}

/// Sorts no more than is asked for.
fn cut<'t, W>(
    mut weighed: Vec<Weighed<'t, W>>,
    range: Range<u64>,
    compare: impl Fn(&Weighed<'t, W>, &Weighed<'t, W>) -> Ordering,
) -> Vec<Text<'t>> {
    let compare = |one: &Weighed<'t, W>, other: &Weighed<'t, W>| {
        compare(one, other).then(one.place.cmp(&other.place))
    };
    let (start, end) = (range.start as usize, range.end as usize);
    if end < weighed.len() {
        weighed.select_nth_unstable_by(end, compare);
        weighed.truncate(end);
    }
    weighed.sort_unstable_by(compare);
    weighed[start..].iter().map(|weighed| weighed.element).collect()
}

fn by_bytes(one: Text<'_>, other: Text<'_>) -> Ordering {
    Value::Member(one).bytes().compare(&Value::Member(other).bytes())
}
