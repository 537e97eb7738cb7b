//! `bit`: operations on 32 bits, as Lua BitOp has them.
//!
//! Invariant: a number counts modulo 2^32 and a result is signed, so no argument is out of range.

use mlua::{Lua, Table};

use crate::call::{Call, define};

/// Makes the library.
pub(crate) fn bit(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    define(lua, &table, "tobit", |call| Ok(signed(bits(call, 0)?)))?;
    define(lua, &table, "bnot", |call| Ok(signed(!bits(call, 0)?)))?;
    define(lua, &table, "bswap", |call| Ok(signed(bits(call, 0)?.swap_bytes())))?;
    define(lua, &table, "band", |call| fold(call, |left, right| left & right))?;
    define(lua, &table, "bor", |call| fold(call, |left, right| left | right))?;
    define(lua, &table, "bxor", |call| fold(call, |left, right| left ^ right))?;
    define(lua, &table, "lshift", |call| shift(call, |value, by| value << by))?;
    define(lua, &table, "rshift", |call| shift(call, |value, by| value >> by))?;
    define(lua, &table, "arshift", |call| shift(call, |value, by| (value as i32 >> by) as u32))?;
    define(lua, &table, "rol", |call| shift(call, u32::rotate_left))?;
    define(lua, &table, "ror", |call| shift(call, u32::rotate_right))?;
    define(lua, &table, "tohex", to_hex)?;
    Ok(table)
}

/// An argument's low 32 bits, rounded to even: those that a double shows once 2^52 + 2^51 is added.
fn bits(call: &Call<'_>, index: usize) -> mlua::Result<u32> {
    const ANCHOR: f64 = 6_755_399_441_055_744.0;
    Ok((call.number(index)? + ANCHOR).to_bits() as u32)
}

fn signed(bits: u32) -> f64 {
    f64::from(bits as i32)
}

fn fold(call: &Call<'_>, operation: fn(u32, u32) -> u32) -> mlua::Result<f64> {
    let mut result = bits(call, 0)?;
    for index in 1..call.args.len() {
        result = operation(result, bits(call, index)?);
    }
    Ok(signed(result))
}

fn shift(call: &Call<'_>, operation: fn(u32, u32) -> u32) -> mlua::Result<f64> {
    Ok(signed(operation(bits(call, 0)?, bits(call, 1)? & 31)))
}

/// The last digits of a number, as many as asked for; a negative count asks for capitals.
fn to_hex(call: &Call<'_>) -> mlua::Result<String> {
    let value = bits(call, 0)?;
    let count = if call.is_absent(1) { 8 } else { bits(call, 1)? as i32 };
    let text = if count < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    let shown = count.unsigned_abs().min(8) as usize;
    Ok(text[8 - shown..].to_owned())
}
