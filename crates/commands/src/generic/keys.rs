//! Keys without their names: KEYS, RANDOMKEY.
//!
//! Invariant: these go over partitions one by one, so KEYS shows each partition at a moment of its
//! own; a key that is there all the while is shown once. Only RANDOMKEY removes expired keys that
//! it meets, and as its last act, with all their partitions locked together.

use base::random::Random;
use keyspace::{PARTITIONS, PartitionIndex, Refusal, Tx};
use proto::{Args, Reply};

use super::{VISIT_COST_NS, enter};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, LockPlan, Spec, exactly};
use crate::member_scan::charge_pattern;

pub(super) const KEYS: DataCommand = Command {
    spec: Spec {
        name: "KEYS",
        since: "1.0.0",
        group: Group::Generic,
        syntax: "pattern",
        summary: "Returns all key names that match a pattern.",
        complexity: "O(N) with N being the number of keys in the database, under the assumption \
            that the key names in the database and the given pattern have limited length.",
        arity: exactly(2),
        flags: Flags::READONLY,
        plan: LockPlan::Visits,
        categories: &["@dangerous"],
        tips: &["request_policy:all_shards", "nondeterministic_output_order"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: keys,
};

fn keys(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let pattern = &args[1];
    if base::glob::is_literal(pattern) {
        enter(tx, tx.keyspace().locate(pattern).partition())?;
        let found = tx.exists(pattern)?;
        reply.array(usize::from(found));
        if found {
            reply.bulk(pattern);
        }
        return Ok(());
    }
    charge_pattern(tx, Some(pattern))?;
    tx.charge(tx.keyspace().len(tx.database()) as u64 * VISIT_COST_NS)?;
    let mark = reply.defer();
    let mut count = 0;
    for partition in tx.keyspace().populated(0) {
        enter(tx, partition)?;
        tx.walk(partition, 0, usize::MAX, |entry| {
            if pattern == b"*" || base::glob::matches(pattern, entry.key(), false) {
                reply.bulk(entry.key());
                count += 1;
            }
        });
    }
    reply.finish_array(mark, count);
    Ok(())
}

pub(super) const RANDOMKEY: DataCommand = Command {
    spec: Spec {
        name: "RANDOMKEY",
        since: "1.0.0",
        group: Group::Generic,
        summary: "Returns a random key name from the database.",
        complexity: "O(1)",
        arity: exactly(1),
        flags: Flags::READONLY,
        plan: LockPlan::Visits,
        tips: &["request_policy:all_shards", "response_policy:special", "nondeterministic_output"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: randomkey,
};

/// Draws that may all meet expired keys before RANDOMKEY takes any key that is not. As many are
/// also the most partitions that it locks at once.
const DRAWS: usize = 100;

fn randomkey(tx: &mut Tx, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let mut expired = Vec::new();
    let drawn = draw_key(tx, &mut expired)?;
    let keeps_expired = tx.keyspace().settings().keeps_expired(tx.now());
    // Where such keys stay, and nothing else is there, Redis shows one.
    match drawn.as_ref().or(expired.first().filter(|_| keeps_expired)) {
        Some(key) => reply.bulk(key),
        None => reply.null(),
    }
    if keeps_expired {
        return Ok(());
    }
    remove_expired(tx, &expired)
}

/// A key that is not expired, if there is one, and the expired ones that were met.
fn draw_key(tx: &mut Tx, expired: &mut Vec<Box<[u8]>>) -> Result<Option<Box<[u8]>>, Refusal> {
    let mut random = Random::from_entropy();
    for _ in 0..DRAWS {
        // Once all are known to be expired, there is nothing more to draw.
        if tx.keyspace().len(tx.database()) <= expired.len() {
            return Ok(None);
        }
        let Some(partition) = draw(tx, &mut random)? else { continue };
        enter(tx, partition)?;
        match tx.sample(partition, random.next_u64()) {
            Some(entry) if !tx.is_over(entry) => return Ok(Some(entry.key().into())),
            Some(entry) if expired.iter().all(|key| **key != *entry.key()) => {
                expired.push(entry.key().into());
            }
            _ => {}
        }
    }
    any_key(tx)
}

/// Removes keys that were met, unless they changed meanwhile.
fn remove_expired(tx: &mut Tx, expired: &[Box<[u8]>]) -> Result<(), Refusal> {
    if expired.is_empty() {
        return Ok(());
    }
    tx.visit_keys(expired.iter().map(|key| &**key))?;
    for key in expired {
        // Where another server brings keys, that says when they go.
        if !tx.is_importing(key) {
            tx.expire_if_due(key)?;
        }
    }
    Ok(())
}

/// Draws of a key of any database until one is of the present database: where a sixteenth of all
/// keys are, one of a hundred such draws finds none.
const DRAWN_TOGETHER: usize = 72;

/// Chooses a partition by the number of keys it has in the present database; `None` if keys have
/// gone meanwhile.
fn draw(tx: &mut Tx, random: &mut Random) -> Result<Option<PartitionIndex>, Refusal> {
    let keyspace = tx.keyspace();
    let len = keyspace.len(tx.database());
    let all: usize = (0..keyspace.database_count()).map(|database| keyspace.len(database)).sum();
    for _ in 0..DRAWN_TOGETHER {
        let Some((partition, number)) = keyspace.draw_partition(all, random) else { break };
        if all == len {
            return Ok(Some(partition));
        }
        enter(tx, partition)?;
        if number < tx.partition_len(partition) {
            return Ok(Some(partition));
        }
    }
    // Few of all keys are here.
    tx.charge(PARTITIONS as u64 * VISIT_COST_NS)?;
    let mut left = random.below(len as u64) as usize;
    for partition in keyspace.populated(0) {
        enter(tx, partition)?;
        match left.checked_sub(tx.partition_len(partition)) {
            Some(rest) => left = rest,
            None => return Ok(Some(partition)),
        }
    }
    Ok(None)
}

/// The first key that is not expired.
fn any_key(tx: &mut Tx) -> Result<Option<Box<[u8]>>, Refusal> {
    tx.charge(tx.keyspace().len(tx.database()) as u64 * VISIT_COST_NS)?;
    for partition in tx.keyspace().populated(0) {
        enter(tx, partition)?;
        let mut next = Some(0);
        while let Some(position) = next {
            let mut found: Option<Box<[u8]>> = None;
            next = tx.walk(partition, position, 1, |entry| found = Some(entry.key().into()));
            if found.is_some() {
                return Ok(found);
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::testing::Session;

    #[test]
    fn keys_by_pattern() {
        let mut session = Session::new();
        session.call("SET one 1");
        session.call("SET two 2 PX 1");
        assert_eq!(session.call("KEYS o*"), r#"["one"]"#);
        assert_eq!(session.call("KEYS one"), r#"["one"]"#);
        assert_eq!(session.call(r"KEYS \one"), r#"["one"]"#);
        for pattern in ["on", "\"\"", "[", "x*"] {
            assert_eq!(session.call(&format!("KEYS {pattern}")), "[]", "{pattern}");
        }
        session.advance(1);
        assert_eq!(session.call("KEYS *"), r#"["one"]"#);
        assert_eq!(session.call("KEYS two"), "[]");
        session.call("SET \"\" empty");
        session.call("DEL one");
        assert_eq!(session.call("KEYS *"), r#"[""]"#);
        assert_eq!(session.call("KEYS"), "-ERR wrong number of arguments for 'keys' command");
    }

    #[test]
    fn hostile_patterns_take_no_time() {
        let mut session = Session::new();
        session.call_words(&[b"SET", &[b'a'; 1000], b"1"]);
        let patterns = [b"a*".repeat(500), vec![b'*'; 100_000], vec![b'['; 100_000]];
        for pattern in patterns {
            let pattern = [&pattern[..], b"b"].concat();
            assert_eq!(session.call_words(&[b"KEYS", &pattern]), "[]");
        }
    }

    #[test]
    fn a_large_keyspace_is_listed_off_the_worker() {
        let mut session = Session::new();
        for number in 0..5000 {
            session.call(&format!("SET {number} x"));
        }
        let listed = session.call("KEYS *");
        assert_eq!(listed.split(' ').count(), 5000);
        assert!(session.ran_heavy());
        assert_eq!(session.call("KEYS 4711"), r#"["4711"]"#);
        assert!(!session.ran_heavy());
    }

    #[test]
    fn no_key_at_random() {
        let mut session = Session::new();
        assert_eq!(session.call("RANDOMKEY"), "nil");
        session.call("SET a 1 PX 1");
        session.advance(1);
        assert_eq!(session.call("RANDOMKEY"), "nil");
        session.call("SET b 1");
        for number in 0..200 {
            session.call(&format!("SET {number} 1 PX 1"));
        }
        session.advance(1);
        assert_eq!(session.call("RANDOMKEY"), "\"b\"");
        session.select(3);
        assert_eq!(session.call("RANDOMKEY"), "nil");
    }

    #[test]
    fn keys_of_another_database_are_no_work() {
        let mut session = Session::new();
        for database in [0, 3] {
            session.select(database);
            for number in 0..500 {
                session.call(&format!("SET {database}:{number} 1"));
            }
        }
        for _ in 0..20 {
            assert!(session.call("RANDOMKEY").starts_with("\"3:"));
            assert!(!session.ran_heavy());
        }
    }

    /// As Redis does, and like it however many are expired.
    #[test]
    fn expired_keys_that_are_met_are_removed() {
        let mut session = Session::new();
        for number in 0..50 {
            session.call(&format!("SET {number} 1 PX 1"));
        }
        session.advance(1);
        assert_eq!(session.call("DBSIZE"), ":50");
        assert_eq!(session.call("RANDOMKEY"), "nil");
        let left: usize = session.call("DBSIZE")[1..].parse().unwrap();
        // Each of a hundred draws misses a certain key 49 times in 50.
        assert!(left < 30, "{left}");
        for _ in 0..50 {
            session.call("RANDOMKEY");
        }
        assert_eq!(session.call("DBSIZE"), ":0");
    }

    /// The chance that chi square exceeds its mean by five deviations is below one in 10,000.
    #[track_caller]
    fn is_uniform(session: &mut Session, keys: usize, draws: usize) {
        let mut times = BTreeMap::new();
        for _ in 0..draws {
            *times.entry(session.call("RANDOMKEY")).or_insert(0_u32) += 1;
        }
        let expected = draws as f64 / keys as f64;
        let missing = (keys - times.len()) as f64 * expected;
        let squares = times.values().map(|&times| (f64::from(times) - expected).powi(2));
        let chi_square = squares.sum::<f64>() / expected + missing;
        let freedom = (keys - 1) as f64;
        let bound = freedom + 5.0 * (2.0 * freedom).sqrt() + 5.0;
        assert!(chi_square < bound, "{chi_square} for {keys} keys");
    }

    #[track_caller]
    fn is_uniform_over(keys: usize, draws: usize) {
        let mut session = Session::new();
        for number in 0..keys {
            session.call(&format!("SET {number} x"));
        }
        is_uniform(&mut session, keys, draws);
    }

    #[test]
    fn each_of_a_few_keys_comes_as_often() {
        is_uniform_over(3, 3000);
    }

    #[test]
    fn each_of_many_keys_comes_as_often() {
        is_uniform_over(300, 10_000);
    }

    #[test]
    fn every_key_comes_as_often_beside_other_databases() {
        let mut session = Session::new();
        for number in 0..1000 {
            session.call(&format!("SET {number} x"));
        }
        session.select(1);
        for number in 0..30 {
            session.call(&format!("SET {number} x"));
        }
        is_uniform(&mut session, 30, 1000);
    }
}
