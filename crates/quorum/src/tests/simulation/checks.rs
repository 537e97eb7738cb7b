//! What must be true in every history.
//!
//! A key is a register, and each write has a value of its own. So whether the operations on a key
//! are linearizable is known from zones (Gibbons and Korach): the operations of one value, the
//! write and the reads of it, span a zone from their first end to their last begin. Where that runs
//! forward the value is the key's all that time, so no two such zones may overlap, and no zone that
//! runs backward may lie within one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cluster::{NodeId, ShardId};

use crate::position::Term;

/// A key of a shard.
pub(super) type Key = (ShardId, u64);

/// A value; no two writes have the same, and 0 is what a key has at first.
pub(super) type Value = u64;

/// An operation that was begun.
#[derive(Clone, Copy, Debug)]
struct Operation {
    key: Key,
    value: Value,
    is_write: bool,
    begun: u64,
    /// When its client heard of it, if ever.
    ended: Option<u64>,
}

#[derive(Default)]
pub(super) struct Checks {
    operations: Vec<Operation>,
    /// The writes of each shard whose clients have heard that they are done.
    acknowledged: BTreeMap<ShardId, BTreeSet<Value>>,
    /// The writes whose replies have left, by the term of the primary that let them.
    replied: BTreeMap<(ShardId, Term), BTreeSet<Value>>,
    /// The primaries of terms.
    primaries: BTreeMap<(ShardId, Term), NodeId>,
    pub(super) failures: Vec<String>,
}

impl Checks {
    pub(super) fn write_begins(&mut self, key: Key, value: Value, now: u64) {
        let operation = Operation { key, value, is_write: true, begun: now, ended: None };
        self.operations.push(operation);
    }

    pub(super) fn write_ends(&mut self, value: Value, now: u64) {
        let operation = self.operations.iter_mut().rev().find(|one| one.value == value);
        let operation = operation.expect("a write begins before it ends");
        operation.ended = Some(now);
        self.acknowledged.entry(operation.key.0).or_default().insert(value);
    }

    pub(super) fn read(&mut self, key: Key, value: Value, begun: u64, ended: u64) {
        let ended = Some(ended);
        self.operations.push(Operation { key, value, is_write: false, begun, ended });
    }

    pub(super) fn acknowledged(&self) -> usize {
        self.acknowledged.values().map(BTreeSet::len).sum()
    }

    pub(super) fn acknowledged_of(&self, shard: ShardId) -> usize {
        self.acknowledged.get(&shard).map_or(0, BTreeSet::len)
    }

    pub(super) fn reads(&self) -> usize {
        self.operations.iter().filter(|one| !one.is_write).count()
    }

    pub(super) fn terms(&self) -> usize {
        self.primaries.len()
    }

    /// The primary of a term lets the reply to a write go.
    pub(super) fn replies(&mut self, shard: ShardId, term: Term, value: Value) {
        self.replied.entry((shard, term)).or_default().insert(value);
    }

    /// A node begins to reign with this log. A reign may begin late, when a later term has begun as
    /// well: what that one acknowledges is not this one's.
    pub(super) fn reigns(&mut self, shard: ShardId, term: Term, node: NodeId, log: &[Value]) {
        if self.primaries.insert((shard, term), node).is_some() {
            self.failures.push(format!("two reigns in term {term} of {shard}"));
        }
        self.has_all(shard, term, log, &format!("the primary of term {term}"));
    }

    /// Whether a log has all that was acknowledged before a term.
    pub(super) fn has_all(&mut self, shard: ShardId, term: Term, log: &[Value], whose: &str) {
        let log: BTreeSet<Value> = log.iter().copied().collect();
        let earlier = self.replied.range((shard, Term(0))..(shard, term));
        let lost: Vec<Value> =
            earlier.flat_map(|(_, values)| values.difference(&log).copied()).collect();
        if !lost.is_empty() {
            self.failures.push(format!("{whose} lacks {} acknowledged: {lost:?}", lost.len()));
        }
    }

    pub(super) fn check_registers(&mut self) {
        let mut by_key: BTreeMap<Key, Vec<Operation>> = BTreeMap::new();
        for operation in &self.operations {
            by_key.entry(operation.key).or_default().push(*operation);
        }
        for (key, operations) in by_key {
            if let Err(why) = check_register(&operations) {
                self.failures.push(format!("key {} of {:?}: {why}", key.1, key.0));
            }
        }
    }
}

/// Of the operations of one value, the first end and the last begin.
#[derive(Clone, Copy)]
struct Zone {
    value: Value,
    end: u64,
    begin: u64,
}

impl Zone {
    fn is_forward(&self) -> bool {
        self.end < self.begin
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (ended {}, begun {})", self.value, self.end, self.begin)
    }
}

fn check_register(operations: &[Operation]) -> Result<(), String> {
    let mut zones = BTreeMap::from([(0, Zone { value: 0, end: 0, begin: 0 })]);
    let writes = operations.iter().filter(|one| one.is_write);
    let begun: BTreeMap<Value, u64> = writes.map(|one| (one.value, one.begun)).collect();
    for one in operations {
        let ended = one.ended.unwrap_or(u64::MAX);
        let written = if one.value == 0 { Some(0) } else { begun.get(&one.value).copied() };
        if written.is_none_or(|at| at > ended) {
            return Err(format!("{} is read before it is written", one.value));
        }
        let first = Zone { value: one.value, end: ended, begin: one.begun };
        let zone = zones.entry(one.value).or_insert(first);
        (zone.end, zone.begin) = (zone.end.min(ended), zone.begin.max(one.begun));
    }
    // What was neither acknowledged nor read may never have been.
    let zones: Vec<Zone> = zones.into_values().filter(|zone| zone.end < u64::MAX).collect();
    let mut forward: Vec<Zone> = zones.iter().filter(|zone| zone.is_forward()).copied().collect();
    forward.sort_unstable_by_key(|zone| zone.end);
    for pair in forward.windows(2) {
        if pair[1].end < pair[0].begin {
            return Err(format!("{} and {} overlap", pair[0], pair[1]));
        }
    }
    for back in zones.iter().filter(|zone| !zone.is_forward()) {
        let around = forward.iter().find(|zone| zone.end < back.begin && back.end < zone.begin);
        if let Some(around) = around {
            return Err(format!("{back} lies within {around}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use cluster::{NodeId, ShardId};

    use super::{Operation, check_register};

    fn operation(value: u64, is_write: bool, begun: u64, ended: u64) -> Operation {
        let shard = ShardId(NodeId::parse(&[b'a'; 40]).expect("forty letters"));
        let ended = (ended > 0).then_some(ended);
        Operation { key: (shard, 1), value, is_write, begun, ended }
    }

    #[test]
    fn registers_are_judged() {
        type Case<'a> = (bool, &'a [(u64, bool, u64, u64)]);
        let cases: [Case<'_>; 9] = [
            (true, &[(1, true, 1, 3), (1, false, 4, 5)]),
            (true, &[(1, true, 1, 9), (0, false, 2, 3), (1, false, 4, 5)]),
            // What is read once is read by all that begin behind it.
            (false, &[(1, true, 1, 9), (1, false, 2, 3), (0, false, 4, 5)]),
            // An old value behind an acknowledged write.
            (false, &[(1, true, 1, 3), (0, false, 4, 5)]),
            (false, &[(1, true, 1, 2), (2, true, 3, 4), (1, false, 5, 6)]),
            // A write whose end is unknown takes place when it is read.
            (true, &[(1, true, 1, 2), (2, true, 3, 0), (1, false, 5, 6), (2, false, 7, 8)]),
            (true, &[(1, true, 1, 2), (2, true, 3, 0), (1, false, 5, 6)]),
            (false, &[(1, true, 1, 2), (2, true, 3, 0), (2, false, 5, 6), (1, false, 7, 8)]),
            (false, &[(1, false, 1, 2), (1, true, 3, 4)]),
        ];
        for (is_good, operations) in cases {
            let list: Vec<Operation> =
                operations.iter().map(|(v, w, b, e)| operation(*v, *w, *b, *e)).collect();
            assert_eq!(check_register(&list).is_ok(), is_good, "{operations:?}");
        }
    }
}
