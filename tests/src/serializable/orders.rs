//! In which order each list was appended to, and what of a history is wrong without any cycle.
//! Invariant: an order is the longest list that a committed transaction read.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::history::{
    Element, Findings, Key, Kind, Operation, Outcome, Transaction, appends, describe, reads,
};

/// The writer that appended an element.
#[derive(Clone, Copy)]
pub(super) struct Writer {
    /// The transaction.
    pub(super) transaction: usize,
    /// Whether the transaction appended nothing to this list later.
    pub(super) is_last: bool,
}

/// All lists of a history.
pub(super) struct Orders<'a> {
    pub(super) lists: BTreeMap<Key, Order<'a>>,
    writers: HashMap<(Key, Element), Writer>,
}

/// One list.
#[derive(Default)]
pub(super) struct Order<'a> {
    /// What was read of it at most.
    pub(super) elements: &'a [Element],
    /// The committed transactions whose appends nobody read: they come after all elements.
    pub(super) unread: Vec<usize>,
}

impl Orders<'_> {
    pub(super) fn writer(&self, key: Key, element: Element) -> Option<Writer> {
        self.writers.get(&(key, element)).copied()
    }
}

/// The orders of a history; what contradicts them is noted.
pub(super) fn derive<'a>(history: &'a [Transaction], findings: &mut Findings) -> Orders<'a> {
    let mut orders = Orders { lists: BTreeMap::new(), writers: writers(history) };
    let mut readers: BTreeMap<Key, usize> = BTreeMap::new();
    for (reader, key, list) in reads(history) {
        let order = orders.lists.entry(key).or_default();
        if list.len() > order.elements.len() {
            order.elements = list;
            readers.insert(key, reader);
        }
    }
    for (key, order) in &orders.lists {
        if let Some(reader) = readers.get(key) {
            check_elements(history, &orders, (*reader, *key, order.elements), findings);
        }
    }
    for read in reads(history) {
        check_read(history, &orders, read, findings);
    }
    for number in 0..history.len() {
        check_itself(history, number, findings);
    }
    let places = places(&orders);
    find_unread(history, &mut orders, &places);
    check_lost(history, &orders, findings);
    check_lengths(history, &places, findings);
    orders
}

fn writers(history: &[Transaction]) -> HashMap<(Key, Element), Writer> {
    let mut writers = HashMap::new();
    for (number, transaction) in history.iter().enumerate() {
        let mut last = HashMap::new();
        for (key, element, _) in appends(transaction) {
            last.insert(key, element);
            let writer = Writer { transaction: number, is_last: false };
            let before = writers.insert((key, element), writer);
            assert!(before.is_none(), "{element} is appended twice to {key}");
        }
        for (key, element) in last {
            let writer = writers.get_mut(&(key, element)).expect("it was just put there");
            writer.is_last = true;
        }
    }
    writers
}

/// Where each element stands in its list.
fn places(orders: &Orders<'_>) -> HashMap<(Key, Element), usize> {
    let lists = orders.lists.iter();
    let places = lists.flat_map(|(key, order)| {
        let elements = order.elements.iter().enumerate();
        elements.map(move |(place, element)| ((*key, *element), place))
    });
    places.collect()
}

/// What the elements of a list say, whatever the other reads are.
fn check_elements(
    history: &[Transaction],
    orders: &Orders<'_>,
    (reader, key, list): (usize, Key, &[Element]),
    findings: &mut Findings,
) {
    let mut seen = HashSet::new();
    for element in list {
        let story = || format!("{element} in {}", describe(history, reader));
        if !seen.insert(element) {
            findings.note(Kind::Duplicate, story);
        }
        match orders.writer(key, *element) {
            None => findings.note(Kind::OutOfNowhere, story),
            Some(writer) if history[writer.transaction].outcome == Outcome::Aborted => {
                findings.note(Kind::AbortedRead, story);
            }
            Some(_) => {}
        }
    }
}

/// What a read says beside the order of its list.
fn check_read(
    history: &[Transaction],
    orders: &Orders<'_>,
    (reader, key, list): (usize, Key, &Vec<Element>),
    findings: &mut Findings,
) {
    if !orders.lists[&key].elements.starts_with(list) {
        let story = || format!("{} of list {key}", describe(history, reader));
        findings.note(Kind::IncompatibleOrder, story);
        check_elements(history, orders, (reader, key, list), findings);
    }
    let writer = list.last().and_then(|last| orders.writer(key, *last));
    if writer.is_some_and(|writer| writer.transaction != reader && !writer.is_last) {
        findings.note(Kind::IntermediateRead, || describe(history, reader));
    }
}

/// Within a transaction a list changes by its own appends only.
fn check_itself(history: &[Transaction], number: usize, findings: &mut Findings) {
    let transaction = &history[number];
    if transaction.outcome != Outcome::Committed {
        return;
    }
    // What was last read of each list, and what was appended since.
    let mut known: HashMap<Key, (Option<&[Element]>, Vec<Element>)> = HashMap::new();
    for operation in &transaction.operations {
        match operation {
            Operation::Append { key, element, .. } => {
                known.entry(*key).or_default().1.push(*element);
            }
            Operation::Read { key, list } => {
                let (before, own) =
                    known.insert(*key, (Some(list.as_slice()), Vec::new())).unwrap_or_default();
                let rest = list.strip_suffix(own.as_slice());
                let is_consistent = rest.is_some_and(|rest| before.is_none_or(|it| it == rest));
                if !is_consistent {
                    findings.note(Kind::Internal, || describe(history, number));
                }
            }
        }
    }
}

fn find_unread(
    history: &[Transaction],
    orders: &mut Orders<'_>,
    places: &HashMap<(Key, Element), usize>,
) {
    for (number, transaction) in history.iter().enumerate() {
        if transaction.outcome != Outcome::Committed {
            continue;
        }
        for (key, element, _) in appends(transaction) {
            if !places.contains_key(&(key, element)) {
                orders.lists.entry(key).or_default().unread.push(number);
            }
        }
    }
}

/// A transaction that reads a list when an append is over sees it.
fn check_lost(history: &[Transaction], orders: &Orders<'_>, findings: &mut Findings) {
    let mut latest: HashMap<Key, usize> = HashMap::new();
    for (reader, key, _) in reads(history) {
        let latest = latest.entry(key).or_insert(reader);
        if history[*latest].invoked < history[reader].invoked {
            *latest = reader;
        }
    }
    for (key, reader) in latest {
        for writer in &orders.lists[&key].unread {
            if history[*writer].completed < history[reader].invoked {
                findings.note(Kind::LostAppend, || {
                    let (writer, reader) = (describe(history, *writer), describe(history, reader));
                    format!("list {key}: {writer}\nis missing in {reader}")
                });
            }
        }
    }
}

fn check_lengths(
    history: &[Transaction],
    places: &HashMap<(Key, Element), usize>,
    findings: &mut Findings,
) {
    for (number, transaction) in history.iter().enumerate() {
        for (key, element, length) in appends(transaction) {
            let place = places.get(&(key, element));
            let (Some(place), Some(length)) = (place, length) else { continue };
            if length != place + 1 {
                findings.note(Kind::WrongLength, || {
                    let what = format!("{element} is number {} of list {key}", place + 1);
                    format!("{what}, and {length} was told to {}", describe(history, number))
                });
            }
        }
    }
}
