//! Asking how long a member has to live: FIELDTTL (Dragonfly).
//!
//! Invariant: -1 says that it never expires, -2 that there is no key, -3 that there is no such
//! member.

use base::time::UnixMillis;
use keyspace::{EntryRef, Refusal, Tx};
use proto::{Args, Reply};
use structs::hash::Hash;
use structs::object::Kind;
use structs::set::Set;
use structs::sorted_set::SortedSet;

use super::Timed;
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, exactly};
use crate::generic::ttl::seconds;
use crate::keys::{Access, first};

pub(super) const FIELDTTL: DataCommand = Command {
    spec: Spec {
        name: "FIELDTTL",
        since: "1.11.0",
        group: Group::Generic,
        syntax: "key field",
        summary: "Returns the expiration time in seconds of a field of a hash or a member of a \
                  set.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO.and(Access::ACCESS))],
        tips: &["nondeterministic_output"],
        origin: "dragonfly",
        ..Spec::BASE
    },
    subcommands: &[],
    run: field_ttl,
};

/// Dragonfly's page on FIELDTTL.
fn field_ttl(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, member) = (&args[1], &args[2]);
    let deadline = match tx.inspect(key)?.map(EntryRef::kind) {
        None => {
            reply.integer(-2);
            return Ok(());
        }
        Some(Kind::Hash) => deadline_in::<Hash>(tx, key, member)?,
        Some(Kind::Set) => deadline_in::<Set>(tx, key, member)?,
        Some(Kind::SortedSet) => deadline_in::<SortedSet>(tx, key, member)?,
        Some(_) => return Err(Refusal::WrongType),
    };
    reply.integer(match deadline {
        None => -3,
        Some(None) => -1,
        Some(Some(deadline)) if deadline <= tx.vantage() => -3,
        Some(Some(deadline)) => seconds(deadline - tx.now()),
    });
    Ok(())
}

fn deadline_in<C: Timed>(
    tx: &Tx,
    key: &[u8],
    member: &[u8],
) -> Result<Option<Option<UnixMillis>>, Refusal> {
    Ok(tx.peek_view::<C>(key)?.and_then(|container| C::deadline(container, member)))
}
