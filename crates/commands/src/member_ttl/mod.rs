//! Times to live of members, for containers of any type: what KeyDB and Dragonfly have beside the
//! commands of one type.
//!
//! Invariant: the journal gets absolute times in milliseconds, or the removal where it is over
//! already. Members whose time is over go before the next change of their key, by `Tx::edit`, and
//! by active expiry; until then readers pass over them.

mod expire;
pub(crate) mod listed;
#[cfg(test)]
mod tests;
pub(crate) mod ttl;

use base::UnixMillis;
use keyspace::EventClass;
use structs::object::{Container, Expiring};

use crate::DataCommand;

/// All commands that give members of any type a time to live or ask for it.
pub const COMMANDS: &[&DataCommand] = &[
    &expire::EXPIREMEMBER,
    &expire::EXPIREMEMBERAT,
    &expire::FIELDEXPIRE,
    &ttl::FIELDTTL,
    &expire::PEXPIREMEMBERAT,
];

/// A container whose members these commands may give deadlines. A new one also gets its arm in
/// `set_deadlines` and in `ask`.
pub(crate) trait Timed: Expiring {
    /// The class of its events.
    const CLASS: EventClass;
    /// The event of members that are given deadlines, if there is one.
    const GIVEN: Option<&'static str>;
    /// The event of a member that is removed because the deadline it is given has passed.
    const REMOVED: &'static str;

    /// The deadline of a member, if there is such a member.
    fn deadline(container: Self::Ref<'_>, member: &[u8]) -> Option<Option<UnixMillis>>;
    /// The container, to be read.
    fn borrow(&self) -> <Self as Container>::Ref<'_>;
    /// Gives a member that is there a deadline, or takes it away.
    fn set_deadline(&mut self, member: &[u8], deadline: Option<UnixMillis>);
    /// Gives a member the deadline, or none, that `judge` makes of its present one, if any; does
    /// nothing where there is no such member.
    fn judge_deadline(
        &mut self,
        member: &[u8],
        judge: impl FnOnce(Option<UnixMillis>) -> Option<Option<UnixMillis>>,
    ) {
        let present = Self::deadline(self.borrow(), member);
        if let Some(deadline) = present.and_then(judge) {
            self.set_deadline(member, deadline);
        }
    }
    /// Takes a member out.
    fn remove(&mut self, member: &[u8]);
    /// The words by which the journal gives a member a deadline; those that most servers know.
    fn deadline_words<'a>(key: &'a [u8], member: &'a [u8], at: &'a [u8]) -> Vec<&'a [u8]> {
        vec![b"PEXPIREMEMBERAT", key, member, at]
    }
}
