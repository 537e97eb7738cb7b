//! SORT and SORT_RO: the elements of a list, a set or a sorted set in another order, or what keys
//! named after them hold.
//!
//! Invariant: all keys that a request reads are locked together, so it sees one moment: those that
//! its patterns name are asked for at once, first for the order, then for the reply.

mod arrange;
mod pattern;
mod request;
mod source;
#[cfg(test)]
mod tests;

use base::hash_slot::{hash_slot, slot_of_pattern};
use keyspace::{EventClass, Refusal, Tx};
use proto::{Args, Reply};
use structs::list::{List, ListRef};
use structs::members::Text;

use self::arrange::arrange;
use self::pattern::{Pattern, Storable, TOGETHER, Value, prefetch};
use self::request::{SortBy, SortRequest};
use self::source::SortSource;
use super::KEY_COST_NS;
use crate::DataCommand;
use crate::change::store_result;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::keys::{Access, BeginSearch, FindKeys, KeyOption, KeySpec, first};
use crate::list::limits;

pub(super) const SORT: DataCommand = Command {
    spec: Spec {
        name: "SORT",
        since: "1.0.0",
        syntax: "key [BY by-pattern:pattern] [LIMIT offset count] \
                 [GET get-pattern:pattern [GET get-pattern:pattern ...]] [ASC | DESC] [ALPHA] \
                 [STORE destination]",
        summary: "Sorts the elements in a list, a set, or a sorted set, optionally storing the \
            result.",
        flags: Flags::WRITE
            .and(Flags::DENYOOM)
            .and(Flags::TOUCHES_ARBITRARY_KEYS)
            .and(Flags::OPTIMISTIC),
        keys: &[first(Access::RO.and(Access::ACCESS)), PATTERNS, DESTINATION],
        ..COMMON
    },
    subcommands: &[],
    run: |tx, args, reply| sort(tx, args, reply, true),
};

pub(super) const SORT_RO: DataCommand = Command {
    spec: Spec {
        name: "SORT_RO",
        since: "7.0.0",
        syntax: "key [BY by-pattern:pattern] [LIMIT offset count] \
                 [GET get-pattern:pattern [GET get-pattern:pattern ...]] [ASC | DESC] [ALPHA]",
        summary: "Returns the sorted elements of a list, a set, or a sorted set.",
        flags: Flags::READONLY.and(Flags::TOUCHES_ARBITRARY_KEYS),
        keys: &[first(Access::RO.and(Access::ACCESS)), PATTERNS],
        ..COMMON
    },
    subcommands: &[],
    run: |tx, args, reply| sort(tx, args, reply, false),
};

/// What both have in common.
const COMMON: Spec = Spec {
    group: Group::Generic,
    complexity: "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and \
        M the number of returned elements. When the elements are not sorted, complexity is O(N).",
    arity: at_least(2),
    categories: &["@set", "@sortedset", "@list", "@dangerous"],
    ..Spec::BASE
};

/// The keys that BY and GET name.
const PATTERNS: KeySpec = KeySpec {
    begin: BeginSearch::Undeclared,
    find: ONE,
    access: Access::RO.and(Access::ACCESS),
    notes: "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive \
        from the content of the key we sort",
};

/// The key that STORE names.
const DESTINATION: KeySpec = KeySpec {
    begin: BeginSearch::Option(KeyOption {
        word: "STORE",
        from: 2,
        others: &[("LIMIT", 2), ("BY", 1), ("GET", 1)],
    }),
    find: ONE,
    access: Access::OW.and(Access::UPDATE),
    notes: "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear \
        anywhere in the argument array",
};

const ONE: FindKeys = FindKeys::Range { last: 0, step: 1, limit: 0 };

/// Taking an element over, in nanoseconds.
const TAKEN_NS: u64 = 60;

/// Elements that one command of the journal tells.
const JOURNALLED_AT_ONCE: u64 = 1024;

/// Comparing two elements, in nanoseconds.
const COMPARED_NS: u64 = 30;

/// Which option of a request names keys by a pattern, if one does: such an option is for users that
/// may read every key.
pub fn pattern_option(args: Args<'_>) -> Option<&'static str> {
    SortRequest::parse(args, true, None).ok()?.pattern_option()
}

fn sort(
    tx: &mut Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    may_store: bool,
) -> Result<(), Refusal> {
    let slot = tx.keyspace().slot_of(&args[1]);
    let request = SortRequest::parse(args, may_store, slot)?;
    charge(tx, &args[1], &request)?;
    let Some(destination) = request.destination else {
        tx.refresh_members_read(&args[1])?;
        reply_elements(tx, &args[1], &request, reply)?;
        note_patterns(tx, &args[1], &request);
        return Ok(());
    };
    // The journal may get the command as it was sent: a replay must find the same members.
    tx.refresh_members(&args[1])?;
    let limits = limits(tx);
    let list = tx.compute(|tx| {
        let elements = find(tx, &args[1], &request)?;
        let values = look_up(tx, &elements, &request.gets)?;
        let storable: Vec<Storable<'_>> = values.into_iter().map(Storable::new).collect();
        Ok(List::from_texts(storable.iter().map(Storable::text), &limits))
    })?;
    let (count, before) = (list.borrow().len(), tx.effects().changes());
    if request.reads_other_keys() {
        journal_result(tx, destination, list.borrow());
    }
    store_result(tx, destination, list, EventClass::List, "sortstore")?;
    if count > 0 {
        tx.effects_mut().set_changes(before + count);
    }
    note_patterns(tx, &args[1], &request);
    reply.integer(count as i64);
    Ok(())
}

/// Counts patterns that a cluster would refuse, behind all that may begin anew.
fn note_patterns(tx: &Tx, key: &[u8], request: &SortRequest<'_>) {
    if tx.keyspace().compatibility().is_on() {
        let slot = Some(hash_slot(key));
        let patterns = request.patterns.iter().filter(|it| slot_of_pattern(it) != slot);
        patterns.for_each(|_| tx.note_incompatible());
    }
}

/// Has the journal get what is stored: keys and fields that patterns name may be over, and a replay
/// of the command would find them.
fn journal_result(tx: &mut Tx, destination: &[u8], list: ListRef<'_>) {
    if !tx.effects().is_recorded() {
        return;
    }
    tx.effects_mut().instead(&[b"DEL", destination]);
    let mut from = 0;
    while from < list.len() {
        let to = list.len().min(from + JOURNALLED_AT_ONCE);
        let texts: Vec<Vec<u8>> = list.range(from..to).map(Text::to_vec).collect();
        let words = [&b"RPUSH"[..], destination].into_iter().chain(texts.iter().map(Vec::as_slice));
        tx.effects_mut().instead(&words.collect::<Vec<_>>());
        from = to;
    }
}

fn reply_elements(
    tx: &Tx,
    key: &[u8],
    request: &SortRequest<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let elements = find(tx, key, request)?;
    let values = look_up(tx, &elements, &request.gets)?;
    reply.array(values.len());
    values.into_iter().for_each(|value| match value {
        Some(value) => value.reply(reply),
        None => reply.null(),
    });
    Ok(())
}

/// Refuses a value that is too large for a worker.
fn charge(tx: &Tx, key: &[u8], request: &SortRequest<'_>) -> Result<(), Refusal> {
    let source = match SortSource::peek(tx, key) {
        Ok(Some(source)) => source,
        // What reads it refuses it, and counts.
        Ok(None) | Err(Refusal::WrongType) => return Ok(()),
        Err(refusal) => return Err(refusal),
    };
    let len = source.len();
    let range = request.limit.range(len);
    let elements = range.end - range.start;
    let taken = match &request.order {
        SortBy::Found => elements * TAKEN_NS,
        SortBy::Elements => len * (TAKEN_NS + COMPARED_NS * u64::from(len.max(1).ilog2())),
        SortBy::Pattern(_) => {
            len * (KEY_COST_NS + TAKEN_NS + COMPARED_NS * u64::from(len.max(1).ilog2()))
        }
    };
    tx.charge(taken + elements * request.gets.len() as u64 * KEY_COST_NS)
}

/// The elements that a request asks for, in its order.
fn find<'t>(tx: &'t Tx, key: &[u8], request: &SortRequest<'_>) -> Result<Vec<Text<'t>>, Refusal> {
    let Some(source) = SortSource::read(tx, key)? else { return Ok(Vec::new()) };
    let range = request.limit.range(source.len());
    // What is stored, or seen by a script, must not depend on the order in which a set happens to
    // lie.
    let is_found = !(source.is_set() && (request.destination.is_some() || tx.is_for_script()));
    match request.order {
        SortBy::Found if is_found => Ok(source.range(range, request.falling).collect()),
        _ => arrange(tx, source, request, range),
    }
}

/// What GET asks for of each of the elements: themselves if there is none.
fn look_up<'t>(
    tx: &'t Tx,
    elements: &[Text<'t>],
    gets: &[Pattern<'_>],
) -> Result<Vec<Option<Value<'t>>>, Refusal> {
    let gets = if gets.is_empty() { &[Pattern::Element] } else { gets };
    let (mut values, mut refused, mut key) = (Vec::new(), None, Vec::new());
    for some in elements.chunks(TOGETHER) {
        prefetch(tx, gets, some);
        for (element, pattern) in some.iter().flat_map(|it| gets.iter().map(move |get| (it, get))) {
            match pattern.look_up(tx, *element, &mut key) {
                Ok(value) => values.push(value),
                // On to the others, so that all locks are asked for together.
                Err(refusal) => refused = Some(refusal),
            }
        }
    }
    refused.map_or(Ok(values), Err)
}
