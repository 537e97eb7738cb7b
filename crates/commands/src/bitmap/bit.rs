//! One bit: SETBIT, GETBIT.
//!
//! Invariant: SETBIT changes something exactly if the bit differs or the string grows.

use keyspace::{EventClass, Refusal, Tx};
use proto::{Args, Reply};
use structs::bits::{bit_of, with_bit};

use super::{StringBytes, bit_offset, rewrite};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, exactly};
use crate::keys::{Access, first};

const BAD_BIT: Refusal = Refusal::error("ERR bit is not an integer or out of range");

pub(super) const SETBIT: DataCommand = Command {
    spec: Spec {
        name: "SETBIT",
        since: "2.2.0",
        group: Group::Bitmap,
        syntax: "key offset value:integer",
        summary: "Sets or clears the bit at offset of the string value. Creates the key if it \
                  doesn't exist.",
        complexity: "O(1)",
        arity: exactly(4),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: &[first(Access::RW.and(Access::ACCESS).and(Access::UPDATE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: setbit,
};

fn setbit(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    let offset = bit_offset(tx, &args[2])?;
    let bit = match &args[3] {
        b"0" => false,
        b"1" => true,
        _ => return Err(BAD_BIT),
    };
    let place = (offset / 8) as usize;
    let mut digits = [0; 20];
    let old = StringBytes::of(tx.peek_text(key)?, &mut digits).byte_at(place);
    let before = bit_of(old.unwrap_or(0), offset);
    if old.is_none() || before != bit {
        tx.write_text(key, place, &[with_bit(old.unwrap_or(0), offset, bit)])?;
        tx.event(EventClass::String, "setbit", key);
    } else {
        rewrite(tx, key, place, old.unwrap_or(0))?;
    }
    reply.integer(i64::from(before));
    Ok(())
}

pub(super) const GETBIT: DataCommand = Command {
    spec: Spec {
        name: "GETBIT",
        since: "2.2.0",
        group: Group::Bitmap,
        syntax: "key offset",
        summary: "Returns a bit value by offset.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: getbit,
};

fn getbit(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let offset = bit_offset(tx, &args[2])?;
    let mut digits = [0; 20];
    let byte = StringBytes::of(tx.text(&args[1])?, &mut digits).byte_at((offset / 8) as usize);
    reply.integer(i64::from(bit_of(byte.unwrap_or(0), offset)));
    Ok(())
}
