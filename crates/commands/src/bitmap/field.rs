//! Integers of any width among the bits: BITFIELD, BITFIELD_RO.
//!
//! Invariant: all words are understood before the first field is written; the string grows once,
//! to the last field that is written, as it does in Redis.

use base::number::parse_i64;
use keyspace::{EventClass, Refusal, Tx};
use proto::{Args, Reply};
use smallvec::SmallVec;
use structs::bits::{FieldType, FieldWindow, Overflow};

use super::{BAD_OFFSET, StringBytes, fits, rewrite};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::{NOT_AN_INTEGER, SYNTAX};
use crate::keys::{Access, first};

const BAD_TYPE: Refusal = Refusal::error(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 \
     is.",
);
const BAD_OVERFLOW: Refusal = Refusal::error("ERR Invalid OVERFLOW type specified");
const ONLY_GET: Refusal = Refusal::error("ERR BITFIELD_RO only supports the GET subcommand");

pub(super) const BITFIELD: DataCommand = Command {
    spec: Spec {
        name: "BITFIELD",
        since: "3.2.0",
        group: Group::Bitmap,
        syntax: "key [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset \
                 value:integer | INCRBY encoding offset increment> [GET encoding offset | \
                 [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value:integer | INCRBY \
                 encoding offset increment> ...]]",
        summary: "Performs arbitrary bitfield integer operations on strings.",
        complexity: "O(1) for each subcommand specified",
        arity: at_least(2),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: &[first(
            Access::RW.and(Access::ACCESS).and(Access::UPDATE).and(Access::VARIABLE_FLAGS),
        )
        .noted("This command allows both access and modification of the key")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: bitfield,
};

pub(super) const BITFIELD_RO: DataCommand = Command {
    spec: Spec {
        name: "BITFIELD_RO",
        since: "6.0.0",
        group: Group::Bitmap,
        syntax: "key [GET encoding offset [GET encoding offset ...]]",
        summary: "Performs arbitrary read-only bitfield integer operations on strings.",
        complexity: "O(1) for each subcommand specified",
        arity: at_least(2),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: bitfield_ro,
};

/// One field and what is done with it.
#[derive(Clone, Copy)]
struct BitfieldOp {
    field: FieldType,
    offset: u64,
    opcode: BitfieldOpcode,
}

#[derive(Clone, Copy)]
enum BitfieldOpcode {
    Get,
    Set(i64, Overflow),
    Increment(i64, Overflow),
}

type Tasks = SmallVec<[BitfieldOp; 8]>;

fn bitfield(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let tasks = tasks(tx, args)?;
    let writes = tasks.iter().filter(|task| !matches!(task.opcode, BitfieldOpcode::Get));
    let Some(end) = writes.map(|task| task.window().range().end).max() else {
        return reply_fields(tx, &args[1], &tasks, reply);
    };
    let (key, before) = (&args[1], tx.effects().changes());
    let len = tx.peek_text(key)?.map(|text| text.len());
    let grows = len.is_none_or(|len| len < end);
    if grows {
        tx.write_text(key, end - 1, &[0])?;
    }
    let mut changes = 0;
    reply.array(tasks.len());
    for task in &tasks {
        let mut window = task.window_in(StringBytes::of(tx.peek_text(key)?, &mut [0; 20]));
        let old = window.get();
        let (new, shown) = match task.opcode {
            BitfieldOpcode::Get => {
                reply.integer(old);
                continue;
            }
            BitfieldOpcode::Set(value, overflow) => (task.field.fit(value, overflow), None),
            BitfieldOpcode::Increment(by, overflow) => {
                let new = task.field.add(old, by, overflow);
                (new, new)
            }
        };
        let Some(new) = new else {
            reply.null();
            continue;
        };
        reply.integer(shown.unwrap_or(old));
        if grows || old != new {
            window.set(new);
            tx.write_text(key, window.range().start, window.bytes())?;
            changes += 1;
        }
    }
    // Where all fail the value has grown all the same, which Redis does not tell its log.
    tx.effects_mut().set_changes(before + if grows { changes.max(1) } else { changes });
    if changes == 0 {
        let byte = StringBytes::of(tx.peek_text(key)?, &mut [0; 20]).byte_at(0);
        rewrite(tx, key, 0, byte.expect("what is written to is not empty"))?;
    } else {
        tx.event(EventClass::String, "setbit", key);
    }
    Ok(())
}

fn bitfield_ro(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let tasks = tasks(tx, args)?;
    if tasks.iter().any(|task| !matches!(task.opcode, BitfieldOpcode::Get)) {
        return Err(ONLY_GET);
    }
    reply_fields(tx, &args[1], &tasks, reply)
}

fn reply_fields(
    tx: &Tx,
    key: &[u8],
    tasks: &[BitfieldOp],
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let mut digits = [0; 20];
    let bytes = StringBytes::of(tx.text(key)?, &mut digits);
    reply.array(tasks.len());
    for task in tasks {
        reply.integer(task.window_in(bytes).get());
    }
    Ok(())
}

impl BitfieldOp {
    fn window(&self) -> FieldWindow {
        FieldWindow::new(self.field, self.offset)
    }

    fn window_in(&self, bytes: StringBytes<'_>) -> FieldWindow {
        let window = self.window();
        let range = window.range();
        window.filled(bytes.chunks(range))
    }
}

fn tasks(tx: &Tx, args: Args<'_>) -> Result<Tasks, Refusal> {
    let mut tasks = Tasks::new();
    let mut overflow = Overflow::Wrap;
    let mut options = Options::from(args, 2);
    let left = |options: &Options<'_>| args.len() - options.position();
    while let Some(word) = options.word() {
        if is(word, "OVERFLOW") && left(&options) >= 1 {
            overflow = match options.value()? {
                kind if is(kind, "WRAP") => Overflow::Wrap,
                kind if is(kind, "SAT") => Overflow::Saturate,
                kind if is(kind, "FAIL") => Overflow::Fail,
                _ => return Err(BAD_OVERFLOW),
            };
            continue;
        }
        let opcode: fn(i64, Overflow) -> BitfieldOpcode = match word {
            get if is(get, "GET") && left(&options) >= 2 => |_, _| BitfieldOpcode::Get,
            set if is(set, "SET") && left(&options) >= 3 => BitfieldOpcode::Set,
            increment if is(increment, "INCRBY") && left(&options) >= 3 => {
                BitfieldOpcode::Increment
            }
            _ => return Err(SYNTAX),
        };
        let field = field_type(options.value()?).ok_or(BAD_TYPE)?;
        let offset = field_offset(tx, options.value()?, field.width())?;
        let writes = !matches!(opcode(0, overflow), BitfieldOpcode::Get);
        if writes && !fits(tx, offset.saturating_add(u64::from(field.width()) - 1)) {
            return Err(BAD_OFFSET);
        }
        let opcode = match opcode(0, overflow) {
            BitfieldOpcode::Get => BitfieldOpcode::Get,
            _ => opcode(parse_i64(options.value()?).ok_or(NOT_AN_INTEGER)?, overflow),
        };
        tasks.push(BitfieldOp { field, offset, opcode });
    }
    Ok(tasks)
}

/// `i` or `u` and a width.
fn field_type(word: &[u8]) -> Option<FieldType> {
    let (sign, width) = word.split_first()?;
    let signed = match sign {
        b'i' => true,
        b'u' => false,
        _ => return None,
    };
    FieldType::new(signed, u32::try_from(parse_i64(width)?).ok()?)
}

/// A bit offset, or with `#` in front the number of a field. Only its first bit must lie where a
/// string may have it: beyond, there is nothing to read.
fn field_offset(tx: &Tx, word: &[u8], width: u32) -> Result<u64, Refusal> {
    let (number, unit) = match word.strip_prefix(b"#") {
        Some(number) => (number, u64::from(width)),
        None => (word, 1),
    };
    let offset = parse_i64(number)
        .and_then(|offset| u64::try_from(offset).ok())
        .and_then(|offset| offset.checked_mul(unit));
    offset.filter(|&offset| fits(tx, offset)).ok_or(BAD_OFFSET)
}
