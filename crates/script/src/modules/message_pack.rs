//! `cmsgpack`: values to MessagePack and back.
//!
//! Invariants: a count in the input reserves nothing; nesting is bounded in both directions.

use mlua::{Lua, MultiValue, Table, Value};

use super::DEPTH_MAX;
use crate::call::{Call, Raised, define};
use crate::room::check_room;

/// What lies deeper than this is packed as nil.
const PACKED_DEPTH_MAX: usize = 16;
/// Values that one call may return.
const VALUES_MAX: usize = 7900;

/// Makes the library.
pub(crate) fn cmsgpack(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    define(lua, &table, "pack", pack)?;
    define(lua, &table, "unpack", |call| unpack(call, 0, 0, true))?;
    define(lua, &table, "unpack_one", |call| {
        let offset = call.integer_or(1, 0)?;
        unpack(call, 1, offset, false)
    })?;
    define(lua, &table, "unpack_limit", |call| {
        let (limit, offset) = (call.integer(1)?, call.integer_or(2, 0)?);
        unpack(call, limit, offset, false)
    })?;
    for (name, text) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        table.raw_set(name, text)?;
    }
    Ok(table)
}

fn pack(call: &Call<'_>) -> mlua::Result<mlua::String> {
    if call.args.is_empty() {
        return Err(call.error("bad argument #0 to 'pack' (MessagePack pack needs input.)"));
    }
    let mut out = Vec::new();
    for value in &call.args {
        push_value(call.lua, &mut out, value, 0)?;
    }
    call.lua.create_string(&out)
}

fn push_value(lua: &Lua, out: &mut Vec<u8>, value: &Value, depth: usize) -> mlua::Result<()> {
    check_room(lua, out.len())?;
    match value {
        Value::Boolean(value) => out.push(0xc2 + u8::from(*value)),
        Value::Integer(number) => push_integer(out, *number),
        Value::Number(number) => push_number(out, *number),
        Value::String(text) => push_text(out, &text.as_bytes()),
        Value::Table(table) if depth < PACKED_DEPTH_MAX => push_table(lua, out, table, depth)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

fn push_integer(out: &mut Vec<u8>, number: i64) {
    let (mark, width) = match number {
        -32..=127 => return out.push(number as u8),
        128..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -0x80..-32 => (0xd0, 1),
        -0x8000..-0x80 => (0xd1, 2),
        -0x8000_0000..-0x8000 => (0xd2, 4),
        _ => (0xd3, 8),
    };
    out.push(mark);
    out.extend_from_slice(&number.to_be_bytes()[8 - width..]);
}

fn push_number(out: &mut Vec<u8>, number: f64) {
    let integer = number as i64;
    if integer as f64 == number && integer != i64::MAX {
        return push_integer(out, integer);
    }
    let single = number as f32;
    if f64::from(single) == number {
        out.push(0xca);
        out.extend_from_slice(&single.to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    push_count(out, text.len(), [Some((0xa0, 32)), Some((0xd9, 0x100))], 0xda);
    out.extend_from_slice(text);
}

/// A length: in the mark itself below the first bound, in one byte below the second, otherwise in
/// two or four bytes behind the `wide` mark or the one after it.
fn push_count(out: &mut Vec<u8>, count: usize, short: [Option<(u8, usize)>; 2], wide: u8) {
    let [within, in_byte] = short.map(|form| form.filter(|(_, bound)| count < *bound));
    if let Some((mark, _)) = within {
        out.push(mark + count as u8);
    } else if let Some((mark, _)) = in_byte {
        out.extend_from_slice(&[mark, count as u8]);
    } else if let Ok(count) = u16::try_from(count) {
        out.push(wide);
        out.extend_from_slice(&count.to_be_bytes());
    } else {
        out.push(wide + 1);
        // A string of 4 GiB does not exist: an interpreter's memory is bounded far below.
        out.extend_from_slice(&(count as u32).to_be_bytes());
    }
}

fn push_table(lua: &Lua, out: &mut Vec<u8>, table: &Table, depth: usize) -> mlua::Result<()> {
    let (pairs, greatest) = shape(table)?;
    if greatest == Some(pairs) {
        push_count(out, pairs, [Some((0x90, 16)), None], 0xdc);
        for index in 1..=pairs {
            push_value(lua, out, &table.raw_get(index)?, depth + 1)?;
        }
        return Ok(());
    }
    push_count(out, pairs, [Some((0x80, 16)), None], 0xde);
    table.for_each(|key: Value, value: Value| {
        push_value(lua, out, &key, depth + 1)?;
        push_value(lua, out, &value, depth + 1)
    })
}

/// How many pairs a table has, and the greatest key if all keys are positive integers.
fn shape(table: &Table) -> mlua::Result<(usize, Option<usize>)> {
    let mut pairs = 0;
    let mut greatest = Some(0);
    table.for_each(|key: Value, _: Value| {
        pairs += 1;
        greatest = match (greatest, key) {
            (Some(greatest), Value::Integer(key)) if key > 0 => Some(greatest.max(key as usize)),
            _ => None,
        };
        Ok(())
    })?;
    Ok((pairs, greatest))
}

/// Unpacks up to `limit` values (0: all) from an offset, and before them where to go on, unless all
/// were asked for.
fn unpack(call: &Call<'_>, limit: i64, offset: i64, is_full: bool) -> mlua::Result<MultiValue> {
    let text = call.text(0)?;
    let input = text.as_bytes();
    if limit < 0 || offset < 0 {
        let text = format!(
            "Invalid request to unpack with offset of {offset} and limit of {}.",
            input.len()
        );
        return Err(call.error(text));
    }
    let Some(rest) = usize::try_from(offset).ok().and_then(|offset| input.get(offset..)) else {
        let length = input.len();
        let text = format!("Start offset {offset} greater than input length {length}.");
        return Err(call.error(text));
    };
    let mut decoder = Decoder { lua: call.lua, rest };
    let is_full = is_full || limit == 0;
    let limit = if is_full { usize::MAX } else { limit as usize };
    let mut values = Vec::new();
    while values.len() < limit && !decoder.rest.is_empty() {
        if values.len() >= VALUES_MAX {
            return Err(call.error("stack overflow (too many results)"));
        }
        let value = decoder.value(0).map_err(|problem| match problem {
            Problem::Missing => call.error("Missing bytes in input."),
            Problem::Malformed => call.error("Bad data format in input."),
            Problem::Key(kind) => Raised::Text(format!("table index is {kind}").into()).into(),
            Problem::TooDeep => call.error("stack overflow (nested too deep)"),
            Problem::Lua(error) => error,
        })?;
        values.push(value);
    }
    if !is_full {
        let read = input.len() - decoder.rest.len();
        let next = if decoder.rest.is_empty() { -1 } else { read as i64 };
        values.insert(0, Value::Integer(next));
    }
    Ok(MultiValue::from_vec(values))
}

enum Problem {
    Missing,
    Malformed,
    /// A key that no table can have.
    Key(&'static str),
    TooDeep,
    Lua(mlua::Error),
}

impl From<mlua::Error> for Problem {
    fn from(error: mlua::Error) -> Problem {
        Problem::Lua(error)
    }
}

struct Decoder<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    fn value(&mut self, depth: usize) -> Result<Value, Problem> {
        let mark = self.take(1)?[0];
        Ok(match mark {
            0x00..=0x7f => Value::Integer(i64::from(mark)),
            0x80..=0x8f => self.map(usize::from(mark & 0xf), depth)?,
            0x90..=0x9f => self.array(usize::from(mark & 0xf), depth)?,
            0xa0..=0xbf => self.text(usize::from(mark & 0x1f))?,
            0xc0 => Value::Nil,
            0xc2 | 0xc3 => Value::Boolean(mark == 0xc3),
            0xd9 => self.counted(1, Decoder::text)?,
            0xda => self.counted(2, Decoder::text)?,
            0xdb => self.counted(4, Decoder::text)?,
            0xca => Value::Number(f64::from(f32::from_bits(self.unsigned(4)? as u32))),
            0xcb => Value::Number(f64::from_bits(self.unsigned(8)?)),
            0xcc => Value::Number(self.unsigned(1)? as f64),
            0xcd => Value::Number(self.unsigned(2)? as f64),
            0xce => Value::Number(self.unsigned(4)? as f64),
            // Without a sign as with one, as lua-cmsgpack reads it.
            0xcf | 0xd3 => Value::Number(self.unsigned(8)? as i64 as f64),
            0xd0 => Value::Number(f64::from(self.unsigned(1)? as i8)),
            0xd1 => Value::Number(f64::from(self.unsigned(2)? as i16)),
            0xd2 => Value::Number(f64::from(self.unsigned(4)? as i32)),
            0xdc => self.counted(2, |decoder, count| decoder.array(count, depth))?,
            0xdd => self.counted(4, |decoder, count| decoder.array(count, depth))?,
            0xde => self.counted(2, |decoder, count| decoder.map(count, depth))?,
            0xdf => self.counted(4, |decoder, count| decoder.map(count, depth))?,
            0xe0..=0xff => Value::Integer(i64::from(mark as i8)),
            0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => return Err(Problem::Malformed),
        })
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Problem> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Problem::Missing)?;
        self.rest = rest;
        Ok(taken)
    }

    fn unsigned(&mut self, width: usize) -> Result<u64, Problem> {
        Ok(self.take(width)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn counted(
        &mut self,
        width: usize,
        read: impl FnOnce(&mut Self, usize) -> Result<Value, Problem>,
    ) -> Result<Value, Problem> {
        let count = self.unsigned(width)? as usize;
        read(self, count)
    }

    fn text(&mut self, length: usize) -> Result<Value, Problem> {
        Ok(Value::String(self.lua.create_string(self.take(length)?)?))
    }

    fn array(&mut self, count: usize, depth: usize) -> Result<Value, Problem> {
        let table = self.container(depth)?;
        for index in 1..=count {
            table.raw_set(index, self.value(depth + 1)?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: usize, depth: usize) -> Result<Value, Problem> {
        let table = self.container(depth)?;
        for _ in 0..count {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            let is_not_a_number = matches!(key, Value::Number(number) if number.is_nan());
            if matches!(key, Value::Nil) || is_not_a_number {
                let kind = if is_not_a_number { "NaN" } else { "nil" };
                return Err(Problem::Key(kind));
            }
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(table))
    }

    fn container(&self, depth: usize) -> Result<Table, Problem> {
        if depth >= DEPTH_MAX { Err(Problem::TooDeep) } else { Ok(self.lua.create_table()?) }
    }
}
