//! DEBUG POPULATE: many keys at once.
//!
//! Invariant: one partition is locked at a time, for one key, so others are served meanwhile.

use commands::errors::{NOT_POSITIVE, TOO_LONG};
use keyspace::{Lifetime, NewText, Refusal, Tx, TxOptions};
use proto::{Args, Reply};

use crate::commit::commit;
use crate::config::settings::PROTO_MAX_BULK_LEN;
use crate::control::{Context, Next};
use crate::heavy::Admission;
use crate::mailbox::Rounds;

const OUT_OF_MEMORY: Refusal = Refusal::error("ERR Insufficient memory, failed allocating value");

pub(super) fn populate(
    context: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    let count = positive(&args[2])?;
    let size = args.get(4).map(positive).transpose()?;
    let size = size.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
    let (server, database) = (context.server, context.session()?.database);
    if size.is_some_and(|size| size > server.config.get(PROTO_MAX_BULK_LEN)) {
        return Err(TOO_LONG);
    }
    Ok(Next::visit(move |lane, args, reply| {
        let mut value = Vec::new();
        value.try_reserve(size.unwrap_or(0)).map_err(|_| OUT_OF_MEMORY)?;
        let mut key = Vec::new();
        let mut digits = [0; 20];
        let mut admission = Admission::wait(server.keyspace);
        for number in 0..count {
            let digits = base::number::format_i64(number, &mut digits);
            key.clear();
            key.extend_from_slice(args.get(3).unwrap_or(b"key"));
            key.push(b':');
            key.extend_from_slice(digits);
            value.clear();
            value.extend_from_slice(b"value:");
            value.extend_from_slice(digits);
            if let Some(size) = size.filter(|&size| size > 0) {
                value.resize(size, 0);
            }
            let acquisition = admission.acquire(server.keyspace.locate(&key).partition());
            let internal = TxOptions::internal(lane, server.keyspace.clock().now_ms());
            let options = TxOptions { database, heavy: true, ..internal };
            let mut tx = Tx::begin(acquisition, options);
            if !tx.exists(&key)? {
                tx.put_text(&key, NewText::from_bytes(&value, false), Lifetime::Forever)?;
                tx.effects_mut().instead(&[b"SET", &key, &value]);
            }
            // Strings come, which nobody waits for.
            let rounds = Rounds::default();
            commit(server, &rounds, &mut tx, Args::default())?;
            drop(tx);
            server.mailboxes.ring(&rounds);
        }
        reply.ok();
        Ok(())
    }))
}

fn positive(argument: &[u8]) -> Result<i64, Refusal> {
    base::number::parse_i64(argument).filter(|&number| number >= 0).ok_or(NOT_POSITIVE)
}
