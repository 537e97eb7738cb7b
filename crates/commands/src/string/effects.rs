//! What the string commands do to a key, together with what they say about it: events as on the
//! Redis documentation's page on keyspace notifications, and commands for the journal that give
//! the same result whenever they are run, on every server that knows strings.
//!
//! Invariant: relative times, conditions and floats never reach the journal.

use keyspace::{EventClass, Kind, Lifetime, Refusal, Tx};

use crate::change::notify_overwritten;

/// Stores a client's value, whatever was there. The journal gets the command as sent unless
/// [`crate::change::journal_set`] follows.
#[inline]
pub(super) fn store(
    tx: &mut Tx,
    key: &[u8],
    value: &[u8],
    lifetime: Lifetime,
) -> Result<(), Refusal> {
    let text = tx.text_from_client(value);
    if let Some(before) = tx.put_text(key, text, lifetime)? {
        notify_overwritten(tx, key, before, Kind::String);
    }
    tx.event(EventClass::String, "set", key);
    if let Lifetime::Until(_) = lifetime {
        tx.event(EventClass::Generic, "expire", key);
    }
    Ok(())
}
