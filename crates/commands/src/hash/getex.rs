//! HGETEX: reading fields and changing how long they live.
//!
//! Invariant: the journal gets an absolute time in milliseconds, HPERSIST, or HDEL where the time
//! is over already.

use base::number::format_i64;
use base::time::UnixMillis;
use keyspace::{ContainerOutcome, EventClass, Refusal, Tx};
use proto::{Args, Reply};
use structs::hash::Hash;

use super::NOT_POSITIVE;
use super::charge;
use super::get::{reply_value, reply_values};
use crate::DataCommand;
use crate::arguments::is;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::wrong_arity;
use crate::keys::{Access, first};
use crate::member_ttl::listed::{journal, note_overdue, parse};
use crate::time_unit::TimeUnit;

pub(super) const HGETEX: DataCommand = Command {
    spec: Spec {
        name: "HGETEX",
        since: "8.0.0",
        group: Group::Hash,
        syntax: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
                 PXAT unix-time-milliseconds | PERSIST] FIELDS numfields field [field ...]",
        summary: "Get the value of one or more fields of a given hash key, and optionally set \
                  their expiration.",
        complexity: "O(N) where N is the number of specified fields",
        arity: at_least(5),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::ACCESS).and(Access::UPDATE))
            .noted("RW and UPDATE because it changes the TTL")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: hgetex,
};

fn hgetex(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    tx.lookup_write_view::<Hash>(key)?;
    let (deadline, next) = if let Some(unit) = TimeUnit::of(&args[2]) {
        (Some(unit.member_deadline(tx, args.get(3), "hgetex")?), 4)
    } else {
        (None, if is(&args[2], "PERSIST") { 3 } else { 2 })
    };
    if args.len() == next + 1 && is(&args[next], "FIELDS") {
        return Err(wrong_arity("hgetex"));
    }
    let fields = parse::<Hash>(args, next, NOT_POSITIVE)?;
    if next == 2 {
        charge(tx, fields.len())?;
        // The key has been looked up, as a writing command does that.
        reply_values(tx, tx.peek_view::<Hash>(key)?, fields, reply);
        return Ok(());
    }
    charge(tx, fields.len())?;
    reply.array(fields.len());
    let (changed, outcome) = change(tx, key, fields, deadline, reply)?;
    if changed.is_empty() {
        return Ok(());
    }
    match deadline {
        Some(deadline) if tx.is_over_at(deadline) => {
            note_overdue::<Hash>(tx, key, &changed, outcome);
        }
        Some(deadline) => {
            tx.effects_mut().add_changes(changed.len() as u64);
            tx.member_event(EventClass::Hash, "hexpire", key, changed.iter().copied());
            let mut number = [0; 20];
            let head = [b"HPEXPIREAT".as_slice(), key, format_i64(deadline, &mut number)];
            journal::<Hash>(tx, &head, &changed);
        }
        None => {
            tx.effects_mut().add_changes(changed.len() as u64);
            tx.member_event(EventClass::Hash, "hpersist", key, changed.iter().copied());
            journal::<Hash>(tx, &[b"HPERSIST", key], &changed);
        }
    }
    Ok(())
}

/// Replies fields and gives each the deadline, or takes it away; one that is over takes the field
/// out. The fields that this changed.
fn change<'a>(
    tx: &mut Tx,
    key: &[u8],
    fields: Args<'a>,
    deadline: Option<UnixMillis>,
    reply: &mut Reply<'_>,
) -> Result<(Vec<&'a [u8]>, ContainerOutcome), Refusal> {
    let is_over = deadline.is_some_and(|deadline| tx.is_over_at(deadline));
    tx.edit(key, |hash: &mut Hash| {
        let take = |field: &&[u8]| {
            let found = hash.borrow().get(field);
            reply_value(found, reply);
            let Some(present) = found.map(|found| found.deadline) else { return false };
            if is_over {
                return hash.remove(field);
            }
            let changes = deadline.is_some() || present.is_some();
            if changes {
                hash.set_deadline(field, deadline);
            }
            changes
        };
        fields.iter().filter(take).collect()
    })
}
