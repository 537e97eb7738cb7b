//! One value of many: AROP.
//!
//! Invariant: a sum of whole numbers is exact, however many there are; an element that is no number
//! counts for none of the operations on numbers.

use std::cmp::Ordering;

use base::number::{format_f64, parse_f64};
use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::array::Array;
use structs::members::Text;

use super::get::READ;
use super::{IndexRange, PASSED_NS, reply_index};
use crate::DataCommand;
use crate::arguments::is;
use crate::declare::{Command, Spec, at_least};
use crate::errors::SYNTAX;

/// Bytes that the text of a number has at most.
const NUMBER_MAX: usize = 256;

/// Reading an element as a number, in nanoseconds.
const READ_NS: u64 = 2 * PASSED_NS;

pub(super) const AROP: DataCommand = Command {
    spec: Spec {
        name: "AROP",
        syntax: "key start end <SUM | MIN | MAX | AND | OR | XOR | MATCH value | USED>",
        summary: "Performs aggregate operations on array elements in a range.",
        complexity: "O(P) where P is visited positions in touched slices (dense scanned slots + \
                     sparse entries), with worst-case O(|end-start|+1) and typical case close to \
                     O(N), where N is the number of existing elements in range.",
        arity: at_least(5),
        ..READ
    },
    subcommands: &[],
    run: arop,
};

enum ArrayOperation<'a> {
    Sum,
    Least,
    Greatest,
    Bits(fn(i64, i64) -> i64),
    Match(Text<'a>),
    Used,
}

impl<'a> ArrayOperation<'a> {
    fn read(args: Args<'a>) -> Result<Self, Refusal> {
        let word = &args[4];
        Ok(match args.len() {
            6 if is(word, "MATCH") => Self::Match(Text::Bytes(args.get(5).ok_or(SYNTAX)?)),
            5 if is(word, "SUM") => Self::Sum,
            5 if is(word, "MIN") => Self::Least,
            5 if is(word, "MAX") => Self::Greatest,
            5 if is(word, "AND") => Self::Bits(|one, other| one & other),
            5 if is(word, "OR") => Self::Bits(|one, other| one | other),
            5 if is(word, "XOR") => Self::Bits(|one, other| one ^ other),
            5 if is(word, "USED") => Self::Used,
            _ => return Err(SYNTAX),
        })
    }
}

fn arop(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let indexes = IndexRange::read(&args[2], &args[3])?;
    let operation = ArrayOperation::read(args)?;
    let array = tx.view::<Array>(&args[1])?;
    let count = array.map_or(0, |array| array.count_in(indexes.range.clone()));
    if !matches!(operation, ArrayOperation::Used) {
        tx.charge(count * READ_NS)?;
    }
    let texts = array.into_iter().flat_map(|array| array.items(indexes.range.clone()));
    let mut texts = texts.map(|(_, text)| text);
    match operation {
        ArrayOperation::Used => reply_index(count, reply),
        ArrayOperation::Match(value) => {
            let equal = texts.filter(|text| *text == value).count();
            reply_index(equal as u64, reply);
        }
        ArrayOperation::Bits(combine) => {
            match texts.filter_map(number).map(ElementNumber::truncate).reduce(combine) {
                Some(bits) => reply.integer(bits),
                None => reply.null(),
            }
        }
        ArrayOperation::Sum => reply_sum(texts.filter_map(number), reply),
        ArrayOperation::Least | ArrayOperation::Greatest => {
            let wanted = match operation {
                ArrayOperation::Least => Ordering::Less,
                _ => Ordering::Greater,
            };
            let better = |best: ElementNumber, number: ElementNumber| {
                if number.compare(best) == wanted { number } else { best }
            };
            match texts.by_ref().filter_map(number).reduce(better) {
                Some(number) => number.reply(reply),
                None => reply.null(),
            }
        }
    }
    Ok(())
}

/// An element read as a number.
#[derive(Clone, Copy)]
enum ElementNumber {
    Whole(i64),
    /// Finite.
    Fraction(f64),
}

fn number(text: Text<'_>) -> Option<ElementNumber> {
    if let Some(whole) = text.to_integer() {
        return Some(ElementNumber::Whole(whole));
    }
    if text.len() > NUMBER_MAX {
        return None;
    }
    let fraction = parse_f64(text.as_bytes(&mut Vec::new()))?;
    fraction.is_finite().then_some(ElementNumber::Fraction(fraction))
}

impl ElementNumber {
    /// The whole number next to it towards zero; the farthest of 64 bits if it is farther.
    fn truncate(self) -> i64 {
        match self {
            Self::Whole(whole) => whole,
            Self::Fraction(fraction) => fraction as i64,
        }
    }

    fn compare(self, other: Self) -> Ordering {
        let float = |number| match number {
            Self::Whole(whole) => whole as f64,
            Self::Fraction(fraction) => fraction,
        };
        match (self, other) {
            (Self::Whole(this), Self::Whole(that)) => this.cmp(&that),
            (this, that) => float(this).total_cmp(&float(that)),
        }
    }

    fn reply(self, reply: &mut Reply<'_>) {
        match self {
            Self::Whole(whole) => reply.bulk_integer(whole),
            Self::Fraction(fraction) => reply.bulk(&format_f64(fraction)),
        }
    }
}

/// Replies the sum of numbers, if there are any: exact as long as all are whole.
fn reply_sum(numbers: impl Iterator<Item = ElementNumber>, reply: &mut Reply<'_>) {
    let (mut whole, mut fraction, mut count) = (0_i128, None, 0_u64);
    for number in numbers {
        count += 1;
        match number {
            ElementNumber::Whole(number) => whole += i128::from(number),
            ElementNumber::Fraction(number) => fraction = Some(fraction.unwrap_or(0.0) + number),
        }
    }
    match fraction {
        _ if count == 0 => reply.null(),
        Some(fraction) => reply.bulk(&format_f64(whole as f64 + fraction)),
        None => reply.bulk(whole.to_string().as_bytes()),
    }
}
