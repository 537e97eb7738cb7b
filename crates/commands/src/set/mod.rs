//! The set family.
//!
//! Invariant: every command declared in these files stands in `COMMANDS`; a member whose deadline
//! has passed is absent for all of them, whether or not it is still there.

mod add;
mod algebra;
mod card;
mod query;
mod random;
mod remove;
mod scan;
mod smove;
#[cfg(test)]
mod tests;

use base::UnixMillis;
use keyspace::{ContainerOutcome, EventClass, Tx};
use structs::members::Text;
use structs::set::{Set, SetLimits, SetRef};

use crate::DataCommand;
use crate::member_ttl::Timed;

/// All commands of the family.
pub const COMMANDS: &[&DataCommand] = &[
    &add::SADD,
    &add::SADDEX,
    &query::SCARD,
    &algebra::SDIFF,
    &card::SDIFFCARD,
    &algebra::SDIFFSTORE,
    &algebra::SINTER,
    &card::SINTERCARD,
    &algebra::SINTERSTORE,
    &query::SISMEMBER,
    &query::SMEMBERS,
    &query::SMISMEMBER,
    &smove::SMOVE,
    &random::SPOP,
    &random::SRANDMEMBER,
    &remove::SREM,
    &scan::SSCAN,
    &algebra::SUNION,
    &card::SUNIONCARD,
    &algebra::SUNIONSTORE,
];

/// Looking at a member in passing, and replying it, in nanoseconds.
const PASSED_NS: u64 = 30;

/// Finding a member, in nanoseconds.
const FOUND_NS: u64 = 70;

/// Adding a member or taking one out, in nanoseconds.
const CHANGED_NS: u64 = 200;

/// Putting a member into a set that is made of all at once, in nanoseconds.
const BUILT_NS: u64 = 100;

impl Timed for Set {
    const CLASS: EventClass = EventClass::Set;
    const GIVEN: Option<&'static str> = None;
    const REMOVED: &'static str = "srem";

    fn deadline(set: SetRef<'_>, member: &[u8]) -> Option<Option<UnixMillis>> {
        set.get(Text::Bytes(member)).map(|member| member.deadline)
    }

    fn borrow(&self) -> SetRef<'_> {
        self.borrow()
    }

    fn set_deadline(&mut self, member: &[u8], deadline: Option<UnixMillis>) {
        self.set_deadline(member, deadline);
    }

    fn remove(&mut self, member: &[u8]) {
        self.remove(Text::Bytes(member));
    }
}

fn limits(tx: &Tx) -> SetLimits {
    let settings = &tx.keyspace().settings().containers;
    SetLimits {
        intset_entries: settings.set_intset_entries.get() as u64,
        listpack_entries: settings.set_entries.get() as u64,
        listpack_value_bytes: settings.set_value.get(),
    }
}

/// Makes a set ready for members that a command brings: an empty one takes the form that suits
/// them.
fn expect_members(set: &mut Set, first: &[u8], count: usize, limits: &SetLimits) {
    if set.borrow().is_empty() {
        *set = Set::for_members(first, count as u64, limits);
    } else {
        set.expect(count as u64, limits);
    }
}

/// Says what was done to a set, and that it is gone if it is.
fn notify_changed(
    tx: &mut Tx,
    key: &[u8],
    event: &'static str,
    changes: u64,
    outcome: ContainerOutcome,
) {
    tx.effects_mut().add_changes(changes);
    tx.event(EventClass::Set, event, key);
    if outcome == ContainerOutcome::Removed {
        tx.event(EventClass::Generic, "del", key);
    }
}
