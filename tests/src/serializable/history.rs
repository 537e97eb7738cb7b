//! Histories of list-append transactions, and what a check of one finds.
//! Invariant: an element is appended to a list by one transaction only, and once.

use std::collections::BTreeMap;
use std::fmt;

/// A list.
pub type Key = u32;

/// What is appended to a list.
pub type Element = u64;

/// Part of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An element was appended.
    Append {
        /// To this list.
        key: Key,
        /// The element.
        element: Element,
        /// How long the list then was, if that was told.
        length: Option<usize>,
    },
    /// A whole list was read.
    Read {
        /// The list.
        key: Key,
        /// Its elements.
        list: Vec<Element>,
    },
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it took effect.
    Committed,
    /// None of it took effect.
    Aborted,
    /// Its connection ended first: the transaction may take effect at any time, or never.
    Unknown,
}

/// What one client asked for as one step.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The client that asked.
    pub client: usize,
    /// When the transaction was sent, by a clock that all clients share.
    pub invoked: u64,
    /// When its reply was there; of no meaning where the outcome is unknown.
    pub completed: u64,
    /// How the transaction ended.
    pub outcome: Outcome,
    /// What the transaction did, in its own order; the appends only, where it was not committed.
    pub operations: Vec<Operation>,
}

/// The appends of a transaction: key, element and the length told.
pub(super) fn appends(
    transaction: &Transaction,
) -> impl Iterator<Item = (Key, Element, Option<usize>)> {
    transaction.operations.iter().filter_map(|operation| match operation {
        Operation::Append { key, element, length } => Some((*key, *element, *length)),
        Operation::Read { .. } => None,
    })
}

/// What the committed transactions read: the number of the transaction, the key and the list.
pub(super) fn reads(history: &[Transaction]) -> impl Iterator<Item = (usize, Key, &Vec<Element>)> {
    let committed =
        |(_, transaction): &(usize, &Transaction)| transaction.outcome == Outcome::Committed;
    history.iter().enumerate().filter(committed).flat_map(|(number, transaction)| {
        transaction.operations.iter().filter_map(move |operation| match operation {
            Operation::Read { key, list } => Some((number, *key, list)),
            Operation::Append { .. } => None,
        })
    })
}

/// What is wrong with a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Something was read that nobody appended.
    OutOfNowhere,
    /// An element stands twice in a list.
    Duplicate,
    /// Two reads of a list do not begin alike.
    IncompatibleOrder,
    /// A transaction contradicts itself, as it missed its own append, or saw a list change.
    Internal,
    /// An append is missing in a read that began when it was over.
    LostAppend,
    /// An append was told a length that is not its place in the list.
    WrongLength,
    /// G1a: a read of what an aborted transaction appended.
    AbortedRead,
    /// G1b: a read of what a transaction had done when it was not over.
    IntermediateRead,
    /// Transactions of which each had to be before the next.
    Cycle {
        /// What the cycle is made of.
        class: Class,
        /// Whether the cycle is one only because of a transaction that was over before another
        /// began.
        in_real_time: bool,
    },
}

/// Cycles by what they are made of, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Appends after appends only.
    G0,
    /// Appends and reads of what was appended.
    G1c,
    /// With one read of what was before an append.
    GSingle,
    /// With several of them.
    G2,
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AbortedRead => formatter.write_str("G1a, a read of what was aborted"),
            Self::IntermediateRead => formatter.write_str("G1b, a read of what was not over"),
            Self::Cycle { class, in_real_time } => {
                let name = match class {
                    Class::G0 => "G0",
                    Class::G1c => "G1c",
                    Class::GSingle => "G-single",
                    Class::G2 => "G2",
                };
                let suffix = if *in_real_time { " in real time" } else { "" };
                write!(formatter, "{name}{suffix}")
            }
            plain => write!(formatter, "{plain:?}"),
        }
    }
}

/// How many cases of a kind are told.
const TOLD: usize = 3;

/// Everything that is wrong with a history.
#[derive(Debug, Default)]
pub struct Findings {
    kinds: BTreeMap<Kind, Cases>,
}

#[derive(Debug, Default)]
struct Cases {
    count: usize,
    stories: Vec<String>,
}

impl Findings {
    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The kinds of what is wrong, in their order.
    pub fn kinds(&self) -> Vec<Kind> {
        self.kinds.keys().copied().collect()
    }

    /// Adds a case; its story is asked for only if it will be told.
    pub(super) fn note(&mut self, kind: Kind, story: impl FnOnce() -> String) {
        let cases = self.kinds.entry(kind).or_default();
        cases.count += 1;
        if cases.stories.len() < TOLD {
            cases.stories.push(story());
        }
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, cases) in &self.kinds {
            writeln!(formatter, "{kind}: {} cases, the first of them:", cases.count)?;
            for story in &cases.stories {
                writeln!(formatter, "{story}")?;
            }
        }
        Ok(())
    }
}

/// A transaction in a line.
pub(super) fn describe(history: &[Transaction], number: usize) -> String {
    let Transaction { client, invoked, completed, outcome, operations } = &history[number];
    let parts: Vec<String> = operations.iter().map(describe_operation).collect();
    let when = format!("{invoked} to {completed}");
    format!("T{number} (client {client}, {when}, {outcome:?}): {}", parts.join(", "))
}

fn describe_operation(operation: &Operation) -> String {
    match operation {
        Operation::Append { key, element, .. } => format!("append {element} to {key}"),
        Operation::Read { key, list } => {
            let end = &list[list.len().saturating_sub(4)..];
            format!("read {key}: {} elements that end with {end:?}", list.len())
        }
    }
}
