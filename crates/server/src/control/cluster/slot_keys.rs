//! The keys of hash slots: KEYSLOT, COUNTKEYSINSLOT, GETKEYSINSLOT.
//!
//! Invariant: in a node of a cluster the partition of a key is its slot, so a slot is counted and
//! walked without a look at any other key.

use base::hash_slot::hash_slot;
use base::number::parse_i64;
use commands::errors::NOT_AN_INTEGER;
use engine::runtime::background::{BackgroundAccess, wait_for_client};
use engine::session::tx_options;
use keyspace::{Acquisition, PartitionIndex, PartitionSet, Refusal, Tx, TxOptions};
use proto::{Args, Reply};

use super::commands::enabled;
use super::parse;
use crate::control::context::{Context, ControlOutcome};

pub(super) fn key_slot(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    enabled(context)?;
    reply.integer(hash_slot(&args[2]).into());
    Ok(ControlOutcome::Done)
}

pub(super) fn count_keys(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let server = enabled(context)?;
    let number = parse_i64(&args[2]).ok_or(NOT_AN_INTEGER)?;
    let slot = parse::slot(number.to_string().as_bytes());
    let slot = slot.map_err(|_| Refusal::error("ERR Invalid slot"))?;
    reply.integer(server.keyspace.population(slot.get()) as i64);
    Ok(ControlOutcome::Done)
}

pub(super) fn get_keys(
    context: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    const INVALID: Refusal = Refusal::error("ERR Invalid slot or number of keys");
    let server = enabled(context)?;
    let slot = parse_i64(&args[2]).ok_or(NOT_AN_INTEGER)?;
    let most = parse_i64(&args[3]).ok_or(NOT_AN_INTEGER)?;
    let slot = parse::slot(slot.to_string().as_bytes()).map_err(|_| INVALID)?.get();
    let most = usize::try_from(most).map_err(|_| INVALID)?;
    let lane = context.lane()?;
    let options = tx_options(lane, context.session()?);
    Ok(ControlOutcome::offload_with_locks(move |lane, _, reply| {
        let _access = BackgroundAccess::for_client(server.keyspace)?;
        let only = PartitionSet::from_iter([slot]);
        let mut acquisition = Acquisition::of_partitions(server.keyspace, only);
        wait_for_client(server.keyspace, &mut acquisition)?;
        let tx = Tx::begin(acquisition, TxOptions { lane, heavy: true, ..options });
        write_keys(&tx, slot, most, reply);
        Ok(())
    }))
}

fn write_keys(tx: &Tx, slot: PartitionIndex, most: usize, reply: &mut Reply<'_>) {
    let mark = reply.defer();
    let mut count = 0;
    if most > 0 {
        tx.walk(slot, 0, most, |entry| {
            if count < most {
                reply.bulk(entry.key());
                count += 1;
            }
        });
    }
    reply.finish_array(mark, count);
}
