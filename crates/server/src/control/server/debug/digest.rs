//! DEBUG DIGEST: whether two data sets are the same.
//!
//! Signatures are equal where keys, values and the presence of a time to live are, and not
//! those that Redis prints for the same data. Of a type without a format (see `persist`) only the
//! key and the type count.
//!
//! What is over counts until it is removed, so the data of two servers that stand at the same
//! offset are the same at any time.
//!
//! Invariant: an empty data set and a missing key have the signature of zeroes, and the order of
//! keys does not matter.

use keyspace::{EntryRef, PARTITIONS, PartitionIndex, Refusal, Tx};
use persist::contents::{self, Extent};
use persist::rdb::value::ValueRef;
use proto::{Args, Reply};
use sha2::{Digest, Sha256};

use crate::control::context::{Context, ControlOutcome};

/// As long as Redis' signatures.
type Signature = [u8; 20];

/// Entries looked at before the lock is given back.
const STEP: usize = 256;

pub(super) fn of_everything(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    super::inspect_data(context, args, reply, |tx, _, reply| {
        let (keyspace, home) = (tx.keyspace(), tx.database());
        let mut sum = Signature::default();
        for database in (0..keyspace.database_count()).filter(|&it| keyspace.len(it) > 0) {
            tx.switch_database(database);
            tx.with_expired(|tx| add_database(tx, &mut sum))?;
        }
        tx.switch_database(home);
        reply.simple(hex(sum));
        Ok(())
    })
}

fn add_database(tx: &mut Tx, sum: &mut Signature) -> Result<(), Refusal> {
    let name = tx.database().to_le_bytes();
    for partition in 0..PARTITIONS as PartitionIndex {
        let mut position = Some(0);
        while let Some(from) = position {
            // Between two steps others may have the partition.
            tx.visit(partition)?;
            position = tx.walk(partition, from, STEP, |entry| {
                add(sum, signature(&[&name[..], entry.key()], entry));
            });
        }
    }
    Ok(())
}

pub(super) fn of_values(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    super::inspect_data(context, args, reply, |tx, args, reply| {
        let keys = args.skip(2);
        reply.array(keys.len());
        for key in keys.iter() {
            tx.visit_keys([key])?;
            let signature =
                tx.with_expired(|tx| Ok(tx.peek(key)?.map(|entry| signature(&[], entry))))?;
            reply.simple(hex(signature.unwrap_or_default()));
        }
        Ok(())
    })
}

/// The signature of a value under a name.
fn signature(name: &[&[u8]], entry: EntryRef<'_>) -> Signature {
    let mut hasher = Sha256::new();
    for part in name {
        hasher.update(part);
    }
    hasher.update([u8::from(entry.deadline().is_some())]);
    hasher.update(entry.kind().name());
    hash_value(&mut hasher, &ValueRef::of(entry));
    let mut signature = Signature::default();
    add(&mut signature, hasher.finalize());
    signature
}

fn hash_value(hasher: &mut Sha256, value: &ValueRef<'_>) {
    let is_ordered = contents::is_ordered(value);
    let mut sum = Signature::default();
    contents::for_each(value, Extent::Replicated, |parts| {
        let mut element = Sha256::new();
        for part in parts {
            element.update(part.len().to_le_bytes());
            element.update(part);
        }
        if is_ordered {
            hasher.update(element.finalize());
        } else {
            // No two elements are equal, so none takes another one away.
            add(&mut sum, element.finalize());
        }
    });
    hasher.update(sum);
}

/// Adds what has as many bytes as a signature, or more.
fn add(sum: &mut Signature, other: impl IntoIterator<Item = u8>) {
    for (sum, byte) in sum.iter_mut().zip(other) {
        *sum ^= byte;
    }
}

fn hex(signature: Signature) -> String {
    signature.iter().map(|byte| format!("{byte:02x}")).collect()
}
