//! The biggest keys: those that the keyspace noted as they grew, looked at one by one.
//!
//! Invariant: what is told of a key is what it is when it is looked at; a key that has gone is not
//! told, and forgotten.

use std::sync::Mutex;

use keyspace::{BigKeyMetric, Keyspace, Refusal, Tx, TxOptions, elements, usage};

use crate::runtime::background::BackgroundAccess;

/// A key that is big.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BigKey {
    /// The database that the key is in.
    pub database: usize,
    /// Its name.
    pub key: Vec<u8>,
    /// Its type, as TYPE names it.
    pub kind: &'static str,
    /// What the key takes, as MEMORY USAGE tells it.
    pub bytes: u64,
    /// How many elements it has, if its type has any.
    pub elements: Option<u64>,
}

/// The keys that were the biggest when they were last looked at.
#[derive(Debug, Default)]
pub struct BigKeyReports {
    latest: [Mutex<Vec<BigKey>>; 2],
}

impl BigKeyReports {
    /// The biggest keys, the biggest first, as they were found last.
    pub fn latest(&self, by: BigKeyMetric) -> Vec<BigKey> {
        self.latest[by as usize].lock().expect("no critical section here panics").clone()
    }

    /// Looks at the keys that may be the biggest, on a background thread of this lane. Keys that
    /// others hold for too long end the look with BUSY.
    pub fn collect(
        &self,
        keyspace: &'static Keyspace,
        lane: usize,
        by: BigKeyMetric,
    ) -> Result<Vec<BigKey>, Refusal> {
        let mut access = BackgroundAccess::for_client(keyspace)?;
        let mut found = Vec::new();
        for (database, key) in keyspace.big_key_candidates(by) {
            let options = TxOptions::internal(lane, keyspace.clock().now_ms());
            let options = TxOptions { database, heavy: true, ..options };
            let partition = keyspace.locate(&key).partition();
            let tx = Tx::begin(access.acquire_for_client(partition)?, options);
            let entry = tx.peek(&key).expect("its partition is held");
            let big = entry.map(|entry| BigKey {
                database,
                key: key.to_vec(),
                kind: entry.kind().name(),
                bytes: usage(entry) as u64,
                elements: elements(entry),
            });
            let size = big.as_ref().map_or(0, |big| size_by(big, by));
            let is_big = keyspace.renew_big_key(by, database, &key, size);
            found.extend(big.filter(|_| is_big));
        }
        found.sort_unstable_by(|one, other| {
            size_by(other, by).cmp(&size_by(one, by)).then_with(|| one.key.cmp(&other.key))
        });
        *self.latest[by as usize].lock().expect("no critical section here panics") = found.clone();
        Ok(found)
    }
}

fn size_by(big: &BigKey, by: BigKeyMetric) -> u64 {
    match by {
        BigKeyMetric::Memory => big.bytes,
        BigKeyMetric::Elements => big.elements.unwrap_or(0),
    }
}
