//! The keys of hash slots: KEYSLOT, COUNTKEYSINSLOT, GETKEYSINSLOT, SLOT-STATS.
//!
//! Invariant: in a node of a cluster the partition of a key is its slot, so a slot is counted and
//! walked without a look at any other key.

use base::hash_slot::hash_slot;
use base::number::parse_i64;
use commands::arguments::is;
use commands::errors::{NOT_AN_INTEGER, SYNTAX, wrong_arity};
use engine::runtime::background::{BackgroundAccess, wait_for_client};
use engine::session::tx_options;
use keyspace::{Acquisition, PartitionIndex, PartitionSet, Refusal, Tx, TxOptions};
use proto::{Args, Reply};

use super::declared::enabled;
use super::parse;
use crate::control::context::{Context, Next};
use crate::server::Server;

pub(super) fn key_slot(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    enabled(context)?;
    reply.integer(hash_slot(&args[2]).into());
    Ok(Next::Done)
}

pub(super) fn count_keys(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    let server = enabled(context)?;
    let number = parse_i64(&args[2]).ok_or(NOT_AN_INTEGER)?;
    let slot = parse::slot(number.to_string().as_bytes());
    let slot = slot.map_err(|_| Refusal::error("ERR Invalid slot"))?;
    reply.integer(server.keyspace.population(slot.get()) as i64);
    Ok(Next::Done)
}

pub(super) fn get_keys(
    context: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    const INVALID: Refusal = Refusal::error("ERR Invalid slot or number of keys");
    let server = enabled(context)?;
    let slot = parse_i64(&args[2]).ok_or(NOT_AN_INTEGER)?;
    let most = parse_i64(&args[3]).ok_or(NOT_AN_INTEGER)?;
    let slot = parse::slot(slot.to_string().as_bytes()).map_err(|_| INVALID)?.get();
    let most = usize::try_from(most).map_err(|_| INVALID)?;
    let lane = context.lane()?;
    let options = tx_options(lane, context.session()?);
    Ok(Next::offload_with_locks(move |lane, _, reply| {
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

pub(super) fn slot_stats(
    server: &Server,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let routes = server.gates.routing.table();
    let is_ours = |slot: u16| routes.is_served(slot);
    let population = |slot: u16| server.keyspace.population(slot);
    let mut rows: Vec<(u16, usize)>;
    if is(&args[2], "SLOTSRANGE") {
        if args.len() != 5 {
            return Err(wrong_arity("cluster|slot-stats"));
        }
        let (first, last) = (parse::slot(&args[3])?, parse::slot(&args[4])?);
        if first > last {
            return Err(Refusal::owned(format!(
                "ERR Start slot number {first} is greater than end slot number {last}"
            )));
        }
        let slots = (first.get()..=last.get()).filter(|slot| is_ours(*slot));
        rows = slots.map(|slot| (slot, population(slot))).collect();
    } else if is(&args[2], "ORDERBY") {
        let order = SlotOrder::parse(args)?;
        let slots = (0..cluster::SLOTS).filter(|slot| is_ours(*slot));
        rows = slots.map(|slot| (slot, population(slot))).collect();
        rows.sort_by_key(|(_, count)| if order.ascends { *count as i64 } else { -(*count as i64) });
        rows.truncate(order.most);
    } else {
        return Err(SYNTAX);
    }
    reply.array(rows.len());
    for (slot, count) in rows {
        reply.array(2);
        reply.integer(slot.into());
        reply.map(1);
        reply.bulk(b"key-count");
        reply.integer(count as i64);
    }
    Ok(())
}

/// What ORDERBY says; slots are counted by their keys alone.
struct SlotOrder {
    most: usize,
    ascends: bool,
}

impl SlotOrder {
    fn parse(args: Args<'_>) -> Result<Self, Refusal> {
        const MANY: Refusal =
            Refusal::error("ERR Multiple filters of the same type are disallowed.");
        const LIMIT: Refusal = Refusal::error(
            "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).",
        );
        if !is(&args[3], "key-count") {
            return Err(Refusal::error("ERR Unrecognized sort metric for ORDERBY."));
        }
        let (mut most, mut ascends) = (None, None);
        let mut index = 4;
        while let Some(word) = args.get(index) {
            if is(word, "LIMIT") && index + 1 < args.len() {
                let number = parse_i64(&args[index + 1]).ok_or(NOT_AN_INTEGER)?;
                let limit = usize::try_from(number).ok();
                let limit = limit.filter(|limit| (1..=usize::from(cluster::SLOTS)).contains(limit));
                if most.replace(limit.ok_or(LIMIT)?).is_some() {
                    return Err(MANY);
                }
                index += 1;
            } else if is(word, "ASC") || is(word, "DESC") {
                if ascends.replace(is(word, "ASC")).is_some() {
                    return Err(MANY);
                }
            } else {
                return Err(SYNTAX);
            }
            index += 1;
        }
        let most = most.unwrap_or(usize::from(cluster::SLOTS));
        Ok(Self { most, ascends: ascends.unwrap_or(false) })
    }
}
