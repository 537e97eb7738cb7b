//! Going over the keyspace in steps: SCAN, and RM (Dragonfly), which deletes what it finds.
//!
//! A cursor is a place in hash space, 52 bits of it: the partition above the top 38 bits of the
//! position in it. Nothing is remembered between two calls.
//!
//! Invariants: an element that is there from the first call of a scan to the last is returned at
//! least once, whatever grows and shrinks meanwhile; a call gets ahead, so the cursor 0 means the
//! end; its work is bounded by COUNT, not by the keyspace.
//!
//! Where a pattern begins with a declared prefix (`prefix-index`), only the keys of that are looked
//! at. Their index goes by place in hash space, too, so a cursor means the same.

use keyspace::{
    EntryRef, EventClass, Keyspace, PARTITIONS, PartitionIndex, PrefixNumber, Refusal, Tx,
};
use proto::{Args, Reply};

use super::{KEY_COST_NS, VISIT_COST_NS, enter};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, LockPlan, Spec, at_least};
use crate::errors::SYNTAX;
use crate::member_scan::charge_pattern;

/// Bits of a cursor below the partition.
const POSITION_BITS: u32 = 38;

/// Partitions that one call may find without a key of its database, beyond COUNT.
pub(crate) const EMPTY_VISITS: usize = 1000;

/// The most keys that one call of RM deletes: they are all locked at once.
const REMOVALS_MAX: usize = 1000;

const DEFAULT_COUNT: usize = 10;

pub(super) const SCAN: DataCommand = Command {
    spec: Spec {
        name: "SCAN",
        since: "2.8.0",
        group: Group::Generic,
        syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
        summary: "Iterates over the key names in the database.",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command \
            calls for the cursor to return back to 0. N is the number of elements inside the \
            collection.",
        arity: at_least(2),
        flags: Flags::READONLY,
        plan: LockPlan::Visits,
        tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
        history: &[("6.0.0", "Added the `TYPE` subcommand.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: scan,
};

fn scan(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let cursor = Cursor::parse(&args[1])?;
    let filter = ScanFilter::parse(args)?;
    let (next, keys) = step(tx, cursor, &filter)?;
    reply.array(2);
    next.reply(reply);
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

pub(super) const RM: DataCommand = Command {
    spec: Spec {
        name: "RM",
        since: "1.38.0",
        group: Group::Generic,
        syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
        summary: "Deletes the keys that a step of a scan finds.",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command \
            calls for the cursor to return back to 0. N is the number of keys in the database.",
        arity: at_least(2),
        flags: Flags::WRITE,
        plan: LockPlan::Visits,
        categories: &["@dangerous"],
        tips: &["nondeterministic_output"],
        origin: "dragonfly",
        ..Spec::BASE
    },
    subcommands: &[],
    run: rm,
};

fn rm(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let cursor = Cursor::parse(&args[1])?;
    let mut filter = ScanFilter::parse(args)?;
    filter.count = filter.count.min(REMOVALS_MAX);
    let (next, keys) = step(tx, cursor, &filter)?;
    tx.charge(keys.len() as u64 * KEY_COST_NS)?;
    tx.visit_keys(keys.iter().map(|key| &**key))?;
    let mut journalled: Vec<&[u8]> = vec![b"DEL"];
    for key in &keys {
        // Where another server brings keys, that says when they go.
        if tx.is_importing(key) {
            continue;
        }
        // A key that was found may have gone since, or have become something else: then it stays.
        if tx.peek(key)?.is_some_and(|entry| filter.admits(entry)) && tx.delete(key)? {
            tx.event(EventClass::Generic, "del", key);
            journalled.push(key);
        }
    }
    if journalled.len() > 1 {
        tx.effects_mut().instead(&journalled);
    }
    reply.array(2);
    next.reply(reply);
    reply.integer(journalled.len() as i64 - 1);
    Ok(())
}

/// A place in the keyspace; no partition is left at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cursor {
    partition: usize,
    position: u64,
}

impl Cursor {
    fn parse(text: &[u8]) -> Result<Self, Refusal> {
        parse_cursor(text).map(Self::unpack)
    }

    fn unpack(packed: u64) -> Self {
        Self {
            partition: (packed >> POSITION_BITS) as usize,
            position: packed << (u64::BITS - POSITION_BITS),
        }
    }

    fn reply(self, reply: &mut Reply<'_>) {
        let packed = if self.partition < PARTITIONS {
            (self.partition as u64) << POSITION_BITS | self.position >> (u64::BITS - POSITION_BITS)
        } else {
            0
        };
        reply.bulk_integer(packed as i64);
    }

    /// Goes past partitions that hold no key of any database, or none that begins with a prefix;
    /// `None` at the end.
    fn skip_empty(
        &mut self,
        keyspace: &Keyspace,
        prefix: Option<PrefixNumber>,
    ) -> Option<PartitionIndex> {
        let populated = keyspace.next_populated(self.partition, prefix);
        if populated.map(usize::from) != Some(self.partition) {
            *self = Self { partition: populated.map_or(PARTITIONS, usize::from), position: 0 };
        }
        populated
    }

    /// Goes on in the present partition, or in the next one.
    fn advance(&mut self, position: Option<u64>) {
        match position {
            Some(position) => self.position = position,
            None => *self = Self { partition: self.partition + 1, position: 0 },
        }
    }
}

/// Reads a cursor that a client sends, as leniently as Redis: blanks, a sign and zeros may come
/// first.
pub(crate) fn parse_cursor(text: &[u8]) -> Result<u64, Refusal> {
    const INVALID: Refusal = Refusal::error("ERR invalid cursor");
    let digits = text.trim_ascii_start();
    let (digits, is_negative) = match digits {
        [b'-', digits @ ..] => (digits, true),
        [b'+', digits @ ..] | digits => (digits, false),
    };
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    });
    let number = number.filter(|&number| !is_negative || number == 0);
    number.filter(|_| !digits.is_empty()).ok_or(INVALID)
}

/// What a scan looks for.
pub(crate) struct ScanFilter<'a> {
    pub(crate) pattern: Option<&'a [u8]>,
    pub(crate) kind: Option<&'a [u8]>,
    /// About how many keys a call looks at.
    pub(crate) count: usize,
}

impl Default for ScanFilter<'_> {
    fn default() -> Self {
        Self { pattern: None, kind: None, count: DEFAULT_COUNT }
    }
}

/// The declared prefix that all matches of a pattern begin with.
fn prefix_of(keyspace: &Keyspace, pattern: Option<&[u8]>) -> Option<PrefixNumber> {
    keyspace.declared_prefix(base::glob::literal_prefix(pattern?))
}

impl<'a> ScanFilter<'a> {
    /// The options behind the cursor. A type that nobody has is one that nothing is of.
    fn parse(args: Args<'a>) -> Result<Self, Refusal> {
        let mut filter = Self::default();
        let mut options = Options::from(args, 2);
        while let Some(word) = options.word() {
            filter.read_option(word, &mut options)?;
        }
        Ok(filter)
    }

    /// Reads an option, of which this is the word.
    pub(crate) fn read_option(
        &mut self,
        word: &[u8],
        options: &mut Options<'a>,
    ) -> Result<(), Refusal> {
        if is(word, "MATCH") {
            self.pattern = Some(options.value()?).filter(|pattern| *pattern != b"*");
        } else if is(word, "COUNT") {
            let count = options.integer()?;
            self.count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or(SYNTAX)?;
        } else if is(word, "TYPE") {
            self.kind = Some(options.value()?);
        } else if is(word, "NOVALUES") {
            return Err(Refusal::error("ERR NOVALUES option can only be used in HSCAN"));
        } else {
            return Err(SYNTAX);
        }
        Ok(())
    }

    /// Refuses a call that looks at too much for a worker.
    pub(crate) fn charge(&self, tx: &Tx) -> Result<(), Refusal> {
        charge_pattern(tx, self.pattern)?;
        let len = tx.keyspace().len(tx.database());
        tx.charge(self.count.min(len) as u64 * VISIT_COST_NS)
    }

    /// Looks at keys of a held partition from a position on, until enough were looked at; where to
    /// go on in the partition.
    pub(crate) fn walk(
        &self,
        tx: &Tx,
        (partition, position): (PartitionIndex, u64),
        found: &mut ScanProgress,
    ) -> Option<u64> {
        let wanted = found.missing;
        let visit = |entry: EntryRef<'_>| {
            found.missing = found.missing.saturating_sub(1);
            if self.admits(entry) {
                found.keys.push(entry.key().into());
            }
        };
        match prefix_of(tx.keyspace(), self.pattern) {
            Some(prefix) => tx.walk_prefix(prefix, (partition, position), wanted, visit),
            None => tx.walk(partition, position, wanted, visit),
        }
    }

    fn admits(&self, entry: EntryRef<'_>) -> bool {
        self.kind.is_none_or(|kind| is(kind, entry.kind().name()))
            && self.pattern.is_none_or(|pattern| base::glob::matches(pattern, entry.key(), false))
    }
}

/// Keys that were found.
type Keys = Vec<Box<[u8]>>;

/// How far a call is.
pub(crate) struct ScanProgress {
    pub(crate) keys: Keys,
    /// How many keys are still to be looked at.
    pub(crate) missing: usize,
}

/// Looks at some keys from a cursor on: where to go on, and those that the filter admits.
fn step(
    tx: &mut Tx,
    mut cursor: Cursor,
    filter: &ScanFilter<'_>,
) -> Result<(Cursor, Keys), Refusal> {
    let keyspace = tx.keyspace();
    filter.charge(tx)?;
    let mut found = ScanProgress { keys: Keys::new(), missing: filter.count };
    let mut visits = filter.count.saturating_add(EMPTY_VISITS);
    if keyspace.len(tx.database()) == 0 {
        cursor.partition = PARTITIONS;
    }
    let prefix = prefix_of(keyspace, filter.pattern);
    while let Some(partition) = cursor.skip_empty(keyspace, prefix) {
        if found.missing == 0 || visits == 0 {
            break;
        }
        enter(tx, partition)?;
        let next = filter.walk(tx, (partition, cursor.position), &mut found);
        cursor.advance(next);
        visits -= 1;
    }
    Ok((cursor, found.keys))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use base::random::Random;
    use keyspace::Keyspace;
    use proto::value::Value;

    use super::Cursor;
    use crate::testing::Session;

    #[test]
    fn cursors_are_read_as_redis_reads_them() {
        for text in ["0", "00", "+0", "-0", " 0", "\t+0", "00000000000000000000000000"] {
            assert_eq!(Cursor::parse(text.as_bytes()), Ok(Cursor::default()), "{text:?}");
        }
        for text in ["", "+", "-1", "0 ", "0x10", "1e3", "x", "18446744073709551616"] {
            assert!(Cursor::parse(text.as_bytes()).is_err(), "{text:?}");
        }
        let second = Cursor { partition: 1, position: 1 << 26 };
        assert_eq!(Cursor::parse(b"274877906945"), Ok(second));
        assert!(Cursor::parse(b"18446744073709551615").is_ok());
    }

    #[test]
    fn options_are_read_as_redis_reads_them() {
        let mut session = Session::new();
        session.call("SET a 1");
        for request in ["SCAN 0 COUNT", "SCAN 0 COUNT 0", "SCAN 0 COUNT -1", "SCAN 0 MATCH"] {
            assert_eq!(session.call(request), "-ERR syntax error", "{request}");
        }
        for request in ["SCAN 0 TYPE", "SCAN 0 foo", "SCAN 0 foo bar", "SCAN 0 COUNT 9 COUNT 0"] {
            assert_eq!(session.call(request), "-ERR syntax error", "{request}");
        }
        for request in ["SCAN 0 COUNT x", "SCAN 0 COUNT 9223372036854775808 MATCH"] {
            let refusal = "-ERR value is not an integer or out of range";
            assert_eq!(session.call(request), refusal, "{request}");
        }
        for request in ["SCAN x", "SCAN -1", "SCAN x COUNT", "SCAN 18446744073709551616"] {
            assert_eq!(session.call(request), "-ERR invalid cursor", "{request}");
        }
        let refusal = "-ERR NOVALUES option can only be used in HSCAN";
        assert_eq!(session.call("SCAN 0 NOVALUES"), refusal);
        for request in [
            "SCAN 0",
            "SCAN 0 COUNT 9223372036854775807",
            "SCAN 0 TYPE STRING MATCH a",
            "SCAN 0 MATCH x MATCH *",
        ] {
            assert_eq!(session.call(request), r#"["0" ["a"]]"#, "{request}");
        }
        for request in [
            "SCAN 0 TYPE hash",
            "SCAN 0 TYPE nosuch",
            "SCAN 0 MATCH b*",
            "SCAN 9223372036854775808",
            "SCAN 4503599627370496",
        ] {
            assert_eq!(session.call(request), r#"["0" []]"#, "{request}");
        }
        session.select(1);
        assert_eq!(session.call("SCAN 0"), r#"["0" []]"#);
    }

    #[test]
    fn a_small_keyspace_takes_one_call_and_a_large_one_many() {
        let mut session = Session::new();
        for number in 0..10 {
            session.call(&format!("SET {number} x"));
        }
        let (cursor, keys) = scan(&mut session, &[b"SCAN", b"0"]);
        assert_eq!((&*cursor, keys.len()), (&b"0"[..], 10));
        for number in 10..10_000 {
            session.call(&format!("SET {number} x"));
        }
        let (cursor, keys) = scan(&mut session, &[b"SCAN", b"0"]);
        assert!(*cursor != *b"0" && (10..20).contains(&keys.len()));
        assert!(!session.ran_heavy());
        let (cursor, keys) = scan(&mut session, &[b"SCAN", b"0", b"COUNT", b"100000"]);
        assert_eq!((&*cursor, keys.len()), (&b"0"[..], 10_000));
        assert!(session.ran_heavy());
        session.select(1);
        session.call("SET alone x");
        let (mut cursor, mut calls, mut found) = (b"0".to_vec(), 0, Vec::new());
        while calls == 0 || cursor != b"0" {
            let (next, keys) = scan(&mut session, &[b"SCAN", &cursor, b"MATCH", b"al*"]);
            (cursor, calls) = (next, calls + 1);
            found.extend(keys);
        }
        assert_eq!(found, [b"alone"]);
        assert!(calls < 20, "{calls} calls over partitions that other databases fill");
    }

    #[test]
    fn rm_deletes_what_matches() {
        let mut session = Session::new();
        for number in 0..3000 {
            session.call(&format!("SET {}:{number} x", number % 3));
        }
        let (mut cursor, mut removed) = ("0".to_owned(), 0);
        loop {
            let request = format!("RM {cursor} MATCH 1:* COUNT 5000 TYPE string");
            let reply = session.call(&request);
            let (next, count) = reply[2..reply.len() - 1].split_once("\" :").unwrap();
            removed += count.parse::<u32>().unwrap();
            cursor = next.to_owned();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(removed, 1000);
        assert_eq!(session.call("DBSIZE"), ":2000");
        assert_eq!(session.call("KEYS 1:*"), "[]");
        assert_eq!(session.call("RM"), "-ERR wrong number of arguments for 'rm' command");
        assert_eq!(session.call("RM x"), "-ERR invalid cursor");
    }

    /// Nothing but the index leads to few keys among many in one call.
    #[test]
    fn a_declared_prefix_is_found_past_all_other_keys() {
        let mut session = Session::with_prefixes(&["user:", "user:vip:"]);
        for number in 0..20_000 {
            session.call(&format!("SET other:{number} x"));
        }
        for number in 0..30 {
            session.call(&format!("SET user:{number} x"));
            session.call(&format!("SET user:vip:{number} x"));
        }
        for (pattern, count) in
            [("user:*", 60), ("user:vip:*", 30), ("user:vip:1?", 10), ("user:\\vip*", 30)]
        {
            let words = [&b"SCAN"[..], b"0", b"COUNT", b"200", b"MATCH", pattern.as_bytes()];
            let (cursor, keys) = scan(&mut session, &words);
            assert_eq!((&*cursor, keys.len()), (&b"0"[..], count), "{pattern}");
        }
        let words = [&b"SCAN"[..], b"0", b"COUNT", b"200", b"MATCH", b"other:*"];
        assert_ne!(scan(&mut session, &words).0, b"0");
        assert_eq!(session.call("RM 0 MATCH user:vip:* COUNT 200"), r#"["0" :30]"#);
        assert_eq!(session.call("RM 0 MATCH user:* COUNT 200"), r#"["0" :30]"#);
        assert_eq!(session.call("DBSIZE"), ":20000");
        assert_eq!(session.call("SCAN 0 MATCH user:*"), r#"["0" []]"#);
        session.call("SET user:1 x");
        session.call("FLUSHDB");
        assert_eq!(session.call("SCAN 0 MATCH user:*"), r#"["0" []]"#);
    }

    /// Keys of few partitions, so that their tables grow and shrink much.
    fn crowded_keys(keyspace: &Keyspace, count: usize) -> Vec<Vec<u8>> {
        let numbers = (0_u32..).map(|number| number.to_string().into_bytes());
        numbers.filter(|key| keyspace.locate(key).partition() < 8).take(count).collect()
    }

    fn scan(session: &mut Session, words: &[&[u8]]) -> (Vec<u8>, Vec<Vec<u8>>) {
        let Value::Array(parts) = session.value_of(words) else { panic!("SCAN gives an array") };
        let [Value::Bulk(cursor), Value::Array(keys)] = &parts[..] else { panic!("of two") };
        (cursor.clone(), keys.iter().map(|key| key.as_bytes().unwrap().to_vec()).collect())
    }

    #[test]
    fn what_is_there_all_the_while_is_found() {
        let none: &[&str] = &[];
        for (pattern, prefixes) in [("*", none), ("1*", none), ("1*", &["1", "12"][..])] {
            survive_changes(&mut Session::with_prefixes(prefixes), pattern);
        }
    }

    fn survive_changes(session: &mut Session, pattern: &str) {
        let keys = crowded_keys(session.keyspace(), 1500);
        for seed in 0..12 {
            let mut random = Random::from_seed(seed);
            session.call("FLUSHALL");
            let stable = keys.iter().step_by(7).map(Vec::as_slice);
            let stable: BTreeSet<&[u8]> =
                stable.filter(|key| base::glob::matches(pattern.as_bytes(), key, false)).collect();
            stable.iter().for_each(|key| drop(session.call_words(&[b"SET", key, b"x"])));
            let mut times_seen = BTreeMap::new();
            let (mut cursor, mut calls) = (b"0".to_vec(), 0);
            while calls == 0 || cursor != b"0" {
                // Waves of insertions and of deletions, so that tables grow and shrink.
                let grows = random.below(2) == 0;
                for _ in 0..random.below(200) {
                    let key = &*keys[random.below(keys.len() as u64) as usize];
                    if stable.contains(key) {
                        session.call_words(&[b"SET", key, b"y"]);
                    } else if !grows {
                        session.call_words(&[b"DEL", key]);
                    } else if random.below(4) == 0 {
                        session.call_words(&[b"SET", key, b"z", b"PX", b"3"]);
                    } else {
                        session.call_words(&[b"SET", key, b"z"]);
                    }
                }
                session.advance(1);
                let count = (1 + random.below(30)).to_string();
                let words = [
                    b"SCAN",
                    &cursor[..],
                    b"COUNT",
                    count.as_bytes(),
                    b"MATCH",
                    pattern.as_bytes(),
                ];
                let (next, found) = scan(session, &words);
                found.into_iter().for_each(|key| *times_seen.entry(key).or_insert(0) += 1);
                (cursor, calls) = (next, calls + 1);
            }
            let lost = stable.iter().filter(|key| !times_seen.contains_key(**key));
            assert_eq!(lost.count(), 0, "{pattern}, seed {seed}, {calls} calls");
        }
    }
}
