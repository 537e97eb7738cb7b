//! Changes that commands of several families make, together with what they say about them: events
//! as on the Redis documentation's page on keyspace notifications, and commands for the journal
//! that give the same result whenever they are run.
//!
//! Invariant: neither relative times nor numbers with hexadecimal digits reach the journal.

use base::number::{format_f64_long, format_i64, parse_f64};
use base::time::UnixMillis;
use keyspace::{EntryBox, EntryRef, EventClass, Kind, Lifetime, Refusal, Tx};
use proto::Args;
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

/// Journals that a key has this value now.
pub fn journal_set(tx: &mut Tx, key: &[u8], value: &[u8], lifetime: Lifetime) {
    let effects = tx.effects_mut();
    match lifetime {
        Lifetime::Forever => effects.instead(&[b"SET", key, value]),
        Lifetime::Keep => effects.instead(&[b"SET", key, value, b"KEEPTTL"]),
        Lifetime::Until(at) => {
            effects.instead(&[b"SET", key, value, b"PXAT", format_i64(at, &mut [0; 20])]);
        }
    }
}

/// Has the journal say in decimal digits what a client said in hexadecimal ones, where `is_number`
/// tells which arguments are numbers: Valkey reads no others, and would refuse what was done here.
#[inline]
pub fn record_in_decimal(tx: &mut Tx, args: Args<'_>, is_number: impl Fn(usize) -> bool) {
    if tx.effects().is_recorded() {
        rewrite_in_decimal(tx, args, &is_number);
    }
}

fn rewrite_in_decimal(tx: &mut Tx, args: Args<'_>, is_number: &dyn Fn(usize) -> bool) {
    let decimal = |(index, word): (usize, &[u8])| match is_number(index) && is_hexadecimal(word) {
        true => parse_f64(word).map(format_f64_long),
        false => None,
    };
    if args.iter().enumerate().all(|it| decimal(it).is_none()) {
        return;
    }
    let digits: Vec<_> = args.iter().enumerate().map(decimal).collect();
    let words = args.iter().zip(&digits);
    let words: Vec<&[u8]> = words.map(|(word, digits)| digits.as_deref().unwrap_or(word)).collect();
    tx.effects_mut().instead(&words);
}

/// Whether a number begins as those with hexadecimal digits do.
fn is_hexadecimal(number: &[u8]) -> bool {
    let digits = number.strip_prefix(b"-").or(number.strip_prefix(b"+")).unwrap_or(number);
    matches!(digits, [b'0', b'x' | b'X', ..])
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
