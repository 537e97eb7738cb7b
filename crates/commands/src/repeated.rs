//! What replies with repetition may come to: SRANDMEMBER, HRANDFIELD and ZRANDMEMBER with a count
//! below zero.
//!
//! Invariant: a reply out of a container of one member does not fill the memory.

use keyspace::Refusal;
use structs::members::Text;

/// The most that such a reply takes of memory, in bytes.
const REPLY_MAX: u64 = 512 << 20;

/// What a reply has around a member at least: `$1\r\n` and `\r\n`.
const FRAME: u64 = 6;

/// From this length on a reply shares the bytes of a member that lies beside a page.
const SHARED_MIN: usize = 4096;

/// What a reply takes for such a member.
const SHARED: u64 = 128;

const REPLY_TOO_LONG: Refusal =
    Refusal::error("ERR value is out of range, the reply would exceed 512 MB");

/// What is left of the memory that a reply may take.
pub(crate) struct ReplyAllowance(u64);

impl ReplyAllowance {
    /// That of a reply of so many members, unless the shortest ones would be too long.
    pub(crate) fn of(members: u64) -> Result<Self, Refusal> {
        let least = members.saturating_mul(FRAME);
        if least > REPLY_MAX { Err(REPLY_TOO_LONG) } else { Ok(Self(REPLY_MAX)) }
    }

    /// Takes what a member needs.
    pub(crate) fn take(&mut self, member: Text<'_>) -> Result<(), Refusal> {
        let needed = match member {
            Text::Long(_) if member.len() >= SHARED_MIN => SHARED,
            _ => FRAME + member.len() as u64,
        };
        self.0 = self.0.checked_sub(needed).ok_or(REPLY_TOO_LONG)?;
        Ok(())
    }
}
