//! Changes that commands of several families make, together with what they say about them: events
//! as on the Redis documentation's page on keyspace notifications, and commands for the journal
//! that give the same result whenever they are run.
//!
//! Invariant: relative times never reach the journal.

use base::number::format_i64;
use base::time::UnixMillis;
use keyspace::{EntryBox, EntryRef, EventClass, Kind, Lifetime, Refusal, Tx};
use structs::object::Container;

/// Removes a key that exists.
pub fn remove(tx: &mut Tx, key: &[u8]) -> Result<(), Refusal> {
    tx.delete(key)?;
    tx.event(EventClass::Generic, "del", key);
    tx.effects_mut().instead(&[b"DEL", key]);
    Ok(())
}

/// Gives a key that exists a deadline; one that has passed removes it.
pub fn expire(tx: &mut Tx, key: &[u8], at: UnixMillis) -> Result<(), Refusal> {
    if tx.is_over_at(at) {
        return remove(tx, key);
    }
    // Where keys whose time is over stay, a deadline may lie before all time.
    let at = at.max(0);
    tx.set_deadline(key, Some(at))?;
    tx.event(EventClass::Generic, "expire", key);
    tx.effects_mut().instead(&[b"PEXPIREAT", key, format_i64(at, &mut [0; 20])]);
    Ok(())
}

/// Takes the deadline of a key away; whether it had one.
pub fn persist(tx: &mut Tx, key: &[u8]) -> Result<bool, Refusal> {
    let expires = tx.lookup_write(key)?.is_some_and(|entry| entry.deadline().is_some());
    if expires {
        tx.set_deadline(key, None)?;
        tx.event(EventClass::Generic, "persist", key);
        tx.effects_mut().instead(&[b"PERSIST", key]);
    }
    Ok(expires)
}

/// Stores an entry under `key`, its own, as one change. The event of `notify` comes first, then
/// that another value was overwritten.
pub fn place_over(
    tx: &mut Tx,
    key: &[u8],
    entry: EntryBox,
    notify: impl FnOnce(&mut Tx),
) -> Result<(), Refusal> {
    let kind = entry.borrow().kind();
    let before = tx.effects().changes();
    let replaced = tx.take(key)?;
    tx.place(entry)?;
    tx.effects_mut().set_changes(before + 1);
    notify(tx);
    if let Some(replaced) = replaced {
        notify_overwritten(tx, key, replaced.borrow().kind(), kind);
        tx.discard(replaced);
    }
    Ok(())
}

/// Says that a value was replaced by one that may be of another type.
#[inline]
pub fn notify_overwritten(tx: &mut Tx, key: &[u8], before: Kind, after: Kind) {
    tx.event(EventClass::Overwritten, "overwritten", key);
    if before != after {
        tx.event(EventClass::TypeChanged, "type_changed", key);
    }
}

/// Stores what a command like SUNIONSTORE computed, as one change, and tells it; if that is nothing
/// the key is removed.
pub fn store_result<C: Container>(
    tx: &mut Tx,
    key: &[u8],
    result: C,
    class: EventClass,
    event: &'static str,
) -> Result<(), Refusal> {
    let replaced = tx.peek(key)?.map(EntryRef::kind);
    tx.put(key, result, Lifetime::Forever)?;
    let is_stored = tx.exists(key)?;
    match replaced {
        Some(_) if !is_stored => tx.event(EventClass::Generic, "del", key),
        Some(kind) => notify_overwritten(tx, key, kind, C::KIND),
        None => {}
    }
    if is_stored {
        tx.event(class, event, key);
    }
    Ok(())
}
