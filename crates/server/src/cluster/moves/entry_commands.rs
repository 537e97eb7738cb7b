//! What the target of a move is told of an entry: in words of Redis, and, where the target has
//! them, in ours for what Redis has no words for.
//!
//! Invariant: an entry is whole at the target once its words have run there, in their order.

use base::number::format_i64;
use keyspace::EntryRef;
use proto::Args;
use proto::args::encode_command;

/// The command that a target has which takes more than the words of Redis, as COMMAND INFO is asked
/// for it.
pub(super) const OWN_COMMAND: &str = "cluster|syncitem";

/// Writes a value as it is in the snapshot.
pub(super) fn write_entry(
    entry: EntryRef<'_>,
    compresses: bool,
    takes_own_words: bool,
    out: &mut Vec<u8>,
) {
    let (key, flags) = (entry.key(), entry.notes().flags);
    let millis = &mut [0; 20];
    let millis = format_i64(entry.deadline().unwrap_or(0), millis);
    match entry.text().filter(|_| takes_own_words && flags != 0) {
        Some(text) => write_item(key, millis, flags, text.contiguous(&mut Vec::new()), out),
        None => {
            let payload = persist::dump::dump(entry, compresses);
            let words: [&[u8]; 6] = [b"RESTORE", key, millis, &payload, b"REPLACE", b"ABSTTL"];
            encode_command(words.into_iter(), out);
        }
    }
    if takes_own_words && entry.is_sticky() {
        write_sticks(key, true, out);
    }
}

/// Writes a SET of the journal that these flags stand before; `false` if it is none of the forms
/// that the journal has for items.
pub(super) fn write_set(args: Args<'_>, flags: u32, out: &mut Vec<u8>) -> bool {
    let millis: &[u8] = match args.len() {
        3 => b"0",
        5 if args[3].eq_ignore_ascii_case(b"PXAT") => &args[4],
        _ => return false,
    };
    write_item(&args[1], millis, flags, &args[2], out);
    true
}

/// Writes whether a key is never evicted.
pub(super) fn write_sticks(key: &[u8], is_sticky: bool, out: &mut Vec<u8>) {
    let word: &[u8] = if is_sticky { b"STICK" } else { b"UNSTICK" };
    encode_command([word, key].into_iter(), out);
}

/// Writes a string with flags, and with a deadline unless that is 0.
fn write_item(key: &[u8], millis: &[u8], flags: u32, value: &[u8], out: &mut Vec<u8>) {
    let text = &mut [0; 20];
    let flags = format_i64(i64::from(flags), text);
    let words: [&[u8]; 6] = [b"CLUSTER", b"SYNCITEM", key, millis, flags, value];
    encode_command(words.into_iter(), out);
}
