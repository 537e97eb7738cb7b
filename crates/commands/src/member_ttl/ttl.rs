//! Asking how long a member has to live: FIELDTTL (Dragonfly), and for TTL and PTTL (KeyDB).
//!
//! Invariant: a member whose time is over is not there, be it removed or not.

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
    reply.integer(match ask(tx, &args[1], &args[2])? {
        Answer::NoSuchKey => -2,
        Answer::NoSuchMember => -3,
        Answer::Endless => -1,
        Answer::Deadline(deadline) => seconds(deadline - tx.now()),
    });
    Ok(())
}

/// What is known of a member's time.
pub(crate) enum Answer {
    NoSuchKey,
    NoSuchMember,
    /// The member never expires.
    Endless,
    Deadline(UnixMillis),
}

/// When a member expires, of a container of any type.
pub(crate) fn ask(tx: &Tx, key: &[u8], member: &[u8]) -> Result<Answer, Refusal> {
    let deadline = match tx.lookup_no_touch(key)?.map(EntryRef::kind) {
        None => return Ok(Answer::NoSuchKey),
        Some(Kind::Hash) => deadline_in::<Hash>(tx, key, member)?,
        Some(Kind::Set) => deadline_in::<Set>(tx, key, member)?,
        Some(Kind::SortedSet) => deadline_in::<SortedSet>(tx, key, member)?,
        Some(_) => return Err(Refusal::WrongType),
    };
    Ok(match deadline {
        None => Answer::NoSuchMember,
        Some(None) => Answer::Endless,
        Some(Some(deadline)) if deadline <= tx.expired_until() => Answer::NoSuchMember,
        Some(Some(deadline)) => Answer::Deadline(deadline),
    })
}

fn deadline_in<C: Timed>(
    tx: &Tx,
    key: &[u8],
    member: &[u8],
) -> Result<Option<Option<UnixMillis>>, Refusal> {
    Ok(tx.peek_view::<C>(key)?.and_then(|container| C::deadline(container, member)))
}
