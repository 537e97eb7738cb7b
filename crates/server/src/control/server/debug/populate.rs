//! DEBUG POPULATE: many keys at once.
//!
//! Invariant: one partition is locked at a time, for one key, so others are served meanwhile; but
//! within a unit, which has the world.

use commands::errors::{NOT_POSITIVE, TOO_LONG};
use config::settings::PROTO_MAX_BULK_LEN;
use engine::clients::mailbox::PendingWakes;
use engine::commit::publish::commit;
use engine::runtime::background::BackgroundAccess;
use keyspace::{Lifetime, NewText, Refusal, Tx, TxOptions};
use proto::{Args, Reply};

use crate::control::context::{Context, ControlOutcome};

const OUT_OF_MEMORY: Refusal = Refusal::error("ERR Insufficient memory, failed allocating value");

/// What is asked for.
struct PopulateOptions {
    count: i64,
    /// How long the values are; as long as they have to be if `None` or 0.
    size: Option<usize>,
}

pub(super) fn populate(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let count = positive(&args[2])?;
    let size = args.get(4).map(positive).transpose()?;
    let size = size.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
    let server = context.server;
    if size.is_some_and(|size| size > server.config.get(PROTO_MAX_BULK_LEN)) {
        return Err(TOO_LONG);
    }
    let wish = PopulateOptions { count, size };
    if let Some(unit) = &mut context.unit {
        unit.tx.require_world()?;
        wish.each(args, |key, value| {
            set_if_absent(&mut unit.tx, key, value)?;
            unit.finish_command(Args::default());
            Ok(())
        })?;
        reply.ok();
        return Ok(ControlOutcome::Done);
    }
    let database = context.session()?.database;
    Ok(ControlOutcome::offload_with_locks(move |lane, args, reply| {
        let mut access = BackgroundAccess::for_client(server.keyspace)?;
        wish.each(args, |key, value| {
            let partition = server.keyspace.locate(key).partition();
            let acquisition = access.acquire_for_client(partition)?;
            let internal = TxOptions::internal(lane, server.keyspace.clock().now_ms());
            let options = TxOptions { database, heavy: true, ..internal };
            let mut tx = Tx::begin(acquisition, options);
            set_if_absent(&mut tx, key, value)?;
            // Strings come, which nobody waits for.
            let wakes = PendingWakes::default();
            commit(server, &wakes, &mut tx, Args::default())?;
            drop(tx);
            server.mailboxes.wake(&wakes);
            Ok(())
        })?;
        reply.ok();
        Ok(())
    }))
}

impl PopulateOptions {
    /// Makes keys and values, one after the other.
    fn each(
        &self,
        args: Args<'_>,
        mut make: impl FnMut(&[u8], &[u8]) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut value = Vec::new();
        value.try_reserve(self.size.unwrap_or(0)).map_err(|_| OUT_OF_MEMORY)?;
        let mut key = Vec::new();
        let mut digits = [0; 20];
        for number in 0..self.count {
            let digits = base::number::format_i64(number, &mut digits);
            key.clear();
            key.extend_from_slice(args.get(3).unwrap_or(b"key"));
            key.push(b':');
            key.extend_from_slice(digits);
            value.clear();
            value.extend_from_slice(b"value:");
            value.extend_from_slice(digits);
            if let Some(size) = self.size.filter(|&size| size > 0) {
                value.resize(size, 0);
            }
            make(&key, &value)?;
        }
        Ok(())
    }
}

fn set_if_absent(tx: &mut Tx, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
    if !tx.exists(key)? {
        tx.put_text(key, NewText::from_bytes(value, false), Lifetime::Forever)?;
        tx.effects_mut().instead(&[b"SET", key, value]);
    }
    Ok(())
}

fn positive(argument: &[u8]) -> Result<i64, Refusal> {
    base::number::parse_i64(argument).filter(|&number| number >= 0).ok_or(NOT_POSITIVE)
}
