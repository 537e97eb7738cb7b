//! `struct`: values packed into bytes by a format, and back.
//!
//! Invariants: no width exceeds [`INTEGER_MAX`], sums are checked, and what is read lies in the
//! data.

use mlua::{Lua, MultiValue, Table, Value};

use crate::call::{Call, define, to_i64, to_u64};
use crate::room::check_room;

/// The widest integer.
const INTEGER_MAX: usize = 32;
/// What a lone `!` aligns to.
const ALIGNMENT_MAX: usize = 8;
/// A format of so many values would exceed what a function may return.
const VALUES_MAX: usize = 7900;

/// Makes the library.
pub(crate) fn structs(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    define(lua, &table, "pack", pack)?;
    define(lua, &table, "unpack", unpack)?;
    define(lua, &table, "size", size)?;
    Ok(table)
}

/// One item of a format, with its width.
#[derive(Clone, Copy)]
enum Item {
    Integer {
        signed: bool,
    },
    Float,
    Double,
    Padding,
    /// So many bytes; of width zero where the length comes from elsewhere.
    Bytes,
    /// A string with a zero behind it.
    Text,
    /// A letter that means nothing.
    Unknown(u8),
}

/// Reads a format, item by item, and keeps what its settings say.
struct Format<'a> {
    rest: &'a [u8],
    big_endian: bool,
    alignment: usize,
}

impl<'a> Format<'a> {
    fn new(text: &'a [u8]) -> Format<'a> {
        Format { rest: text, big_endian: cfg!(target_endian = "big"), alignment: 1 }
    }

    /// The next item with its width.
    fn next(&mut self, call: &Call<'_>) -> mlua::Result<Option<(Item, usize)>> {
        while let Some((&letter, rest)) = self.rest.split_first() {
            self.rest = rest;
            let signed = letter.is_ascii_lowercase();
            let found = match letter {
                b'b' | b'B' => (Item::Integer { signed }, 1),
                b'h' | b'H' => (Item::Integer { signed }, 2),
                b'l' | b'L' => (Item::Integer { signed }, 8),
                b'T' => (Item::Integer { signed: false }, 8),
                b'i' | b'I' => (Item::Integer { signed }, self.integer_width(call)?),
                b'f' => (Item::Float, 4),
                b'd' => (Item::Double, 8),
                b'x' => (Item::Padding, 1),
                b'c' => (Item::Bytes, self.count(call, 1)?),
                b's' => (Item::Text, 0),
                letter if letter.is_ascii_alphanumeric() => (Item::Unknown(letter), 0),
                _ => {
                    self.setting(call, letter)?;
                    continue;
                }
            };
            return Ok(Some(found));
        }
        Ok(None)
    }

    fn setting(&mut self, call: &Call<'_>, letter: u8) -> mlua::Result<()> {
        match letter {
            b' ' => {}
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let alignment = self.count(call, ALIGNMENT_MAX)?;
                if !alignment.is_power_of_two() {
                    let text = format!("alignment {alignment} is not a power of 2");
                    return Err(call.error(text));
                }
                self.alignment = alignment;
            }
            other => return Err(invalid_option(call, other)),
        }
        Ok(())
    }

    /// The digits that come next, or `default` if there are none.
    fn count(&mut self, call: &Call<'_>, default: usize) -> mlua::Result<usize> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let (text, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let mut count = 0_i32;
        for digit in text {
            let next =
                count.checked_mul(10).and_then(|count| count.checked_add(i32::from(digit - b'0')));
            count = next.ok_or_else(|| call.error("integral size overflow"))?;
        }
        Ok(count as usize)
    }

    fn integer_width(&mut self, call: &Call<'_>) -> mlua::Result<usize> {
        let width = self.count(call, 4)?;
        if width > INTEGER_MAX {
            let text = format!("integral size {width} is larger than limit of {INTEGER_MAX}");
            return Err(call.error(text));
        }
        Ok(width)
    }

    /// How many bytes come before an item at `position`.
    fn gap(&self, item: Item, width: usize, position: usize) -> usize {
        if width == 0 || matches!(item, Item::Bytes | Item::Text) {
            return 0;
        }
        let unit = width.min(self.alignment);
        // Widths that are no powers of two have this formula's odd gaps, as in Redis.
        unit.wrapping_sub(position & (unit - 1)) & (unit - 1)
    }
}

fn invalid_option(call: &Call<'_>, letter: u8) -> mlua::Error {
    call.bad_argument(0, &format!("invalid format option '{}'", letter.escape_ascii()))
}

fn pack(call: &Call<'_>) -> mlua::Result<mlua::String> {
    let text = call.text(0)?;
    let bytes = text.as_bytes();
    let mut format = Format::new(&bytes);
    let mut out = Vec::new();
    let mut index = 0;
    while let Some((item, width)) = format.next(call)? {
        out.resize(out.len() + format.gap(item, width, out.len()), 0);
        if matches!(item, Item::Padding) {
            out.push(0);
            continue;
        }
        if let Item::Unknown(letter) = item {
            return Err(invalid_option(call, letter));
        }
        index += 1;
        if call.args.len() <= index {
            let expected =
                if matches!(item, Item::Bytes | Item::Text) { "string" } else { "number" };
            return Err(call.bad_argument(index, &format!("{expected} expected, got nil")));
        }
        match item {
            Item::Integer { .. } => {
                push_integer(&mut out, call.number(index)?, width, format.big_endian);
            }
            Item::Float => {
                let number = call.number(index)? as f32;
                let bytes = number.to_le_bytes();
                push_ordered(&mut out, &bytes, format.big_endian);
            }
            Item::Double => {
                push_ordered(&mut out, &call.number(index)?.to_le_bytes(), format.big_endian);
            }
            Item::Bytes => {
                let text = call.text(index)?;
                let bytes = text.as_bytes();
                let width = if width == 0 { bytes.len() } else { width };
                let Some(taken) = bytes.get(..width) else {
                    return Err(call.bad_argument(index + 1, "string too short"));
                };
                out.extend_from_slice(taken);
            }
            Item::Text => {
                out.extend_from_slice(&call.text(index)?.as_bytes());
                out.push(0);
            }
            Item::Padding | Item::Unknown(_) => {}
        }
        check_room(call.lua, out.len())?;
    }
    call.lua.create_string(&out)
}

/// The low bytes of an integer; beyond its 64 bits there are zeros.
fn push_integer(out: &mut Vec<u8>, number: f64, width: usize, big_endian: bool) {
    let value = if number < 0.0 { to_i64(number) as u64 } else { to_u64(number) };
    let mut bytes = [0; INTEGER_MAX];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    push_ordered(out, &bytes[..width], big_endian);
}

fn push_ordered(out: &mut Vec<u8>, little: &[u8], big_endian: bool) {
    let start = out.len();
    out.extend_from_slice(little);
    if big_endian {
        out[start..].reverse();
    }
}

fn unpack(call: &Call<'_>) -> mlua::Result<MultiValue> {
    let (text, data) = (call.text(0)?, call.text(1)?);
    let (bytes, data) = (text.as_bytes(), data.as_bytes());
    let position = call.integer_or(2, 1)?;
    if position == 0 {
        return Err(call.bad_argument(2, "offset must be 1 or greater"));
    }
    // One that is negative lies behind everything, and is told as it was.
    let mut position = (position as usize).wrapping_sub(1);
    let too_short = || call.bad_argument(1, "data string too short");
    let mut format = Format::new(&bytes);
    let mut values = Vec::new();
    while let Some((item, mut width)) = format.next(call)? {
        position = position.wrapping_add(format.gap(item, width, position));
        let rest = data.get(position..).filter(|rest| rest.len() >= width);
        let rest = rest.ok_or_else(too_short)?;
        if values.len() >= VALUES_MAX {
            return Err(call.error("stack overflow (too many results)"));
        }
        match item {
            Item::Unknown(letter) => return Err(invalid_option(call, letter)),
            Item::Padding => {}
            Item::Integer { signed } => {
                let number = read_integer(&rest[..width], signed, format.big_endian);
                values.push(Value::Number(number));
            }
            Item::Float => {
                let number = f32::from_bits(read_unsigned(&rest[..4], format.big_endian) as u32);
                values.push(Value::Number(f64::from(number)));
            }
            Item::Double => {
                let number = f64::from_bits(read_unsigned(&rest[..8], format.big_endian));
                values.push(Value::Number(number));
            }
            Item::Bytes => {
                if width == 0 {
                    let Some(Value::Number(length)) = values.pop() else {
                        return Err(call.error("format 'c0' needs a previous size"));
                    };
                    width = to_i64(length).try_into().unwrap_or(usize::MAX);
                }
                let taken = rest.get(..width).ok_or_else(too_short)?;
                values.push(Value::String(call.lua.create_string(taken)?));
            }
            Item::Text => {
                let Some(end) = rest.iter().position(|byte| *byte == 0) else {
                    return Err(call.error("unfinished string in data"));
                };
                width = end + 1;
                values.push(Value::String(call.lua.create_string(&rest[..end])?));
            }
        }
        position += width;
    }
    values.push(Value::Number(position.wrapping_add(1) as i64 as f64));
    Ok(MultiValue::from_vec(values))
}

/// An integer of any width; what lies beyond 64 bits does not count.
fn read_integer(bytes: &[u8], signed: bool, big_endian: bool) -> f64 {
    let value = read_unsigned(bytes, big_endian);
    if !signed {
        return value as f64;
    }
    let unused = 64 - 8 * bytes.len().clamp(1, 8);
    (((value << unused) as i64) >> unused) as f64
}

fn read_unsigned(bytes: &[u8], big_endian: bool) -> u64 {
    let push = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    if big_endian { bytes.iter().fold(0, push) } else { bytes.iter().rev().fold(0, push) }
}

fn size(call: &Call<'_>) -> mlua::Result<f64> {
    let text = call.text(0)?;
    let bytes = text.as_bytes();
    let mut format = Format::new(&bytes);
    let mut total = 0_usize;
    while let Some((item, width)) = format.next(call)? {
        match item {
            Item::Unknown(_) => continue,
            Item::Text => return Err(call.bad_argument(0, "option 's' has no fixed size")),
            Item::Bytes if width == 0 => {
                return Err(call.bad_argument(0, "option 'c0' has no fixed size"));
            }
            _ => {}
        }
        total += format.gap(item, width, total) + width;
    }
    Ok(total as f64)
}
